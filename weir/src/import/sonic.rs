//! `weir import sonic`: a SONiC switch's buffers, classes and ports as a switch file, with a report on each value.

mod buffer;
mod chip;
mod classes;
mod groups;
mod json;
mod maps;
mod port;
mod ports;
mod profile;
mod report;
mod resume;
mod tables;
#[cfg(test)]
mod tests;
mod vlans;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use weir_config::SwitchConfig;
use weir_experiments::Failure;

use buffer::Buffer;
use chip::Chip;
use classes::Classes;
use groups::LosslessGroups;
use port::Port;
use report::{FieldMapping, lines, report_text};
use tables::{ConfigDb, numbers_of};

/// Arguments of `weir import sonic`.
#[derive(clap::Args)]
pub(crate) struct SonicArguments {
    /// File config_db.json, or a folder with it, or with buffers.json and qos.json as SONiC renders them, and pg_profile_lookup.ini.
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// A port, and the device that it gets: Ethernet0=af_packet:veth0, or af_xdp, tap, pci, vhost_user, ring, null. May be given
    /// more than once, or with commas between; without it all ports, each on the interface of its name.
    #[arg(short, long = "port", value_name = "PORT[=DEVICE]", value_delimiter = ',')]
    ports: Vec<String>,
    /// Lossless classes of all ports, such as 3,4, or none: where the files have no pfc_enable in PORT_QOS_MAP.
    #[arg(long, value_name = "CLASSES", value_parser = lossless_classes)]
    lossless: Option<LosslessClasses>,
    /// Switch chip, which decides the shared part of a pool: td2, td3, th, th2, spc1 to spc4, nvidia. By default that of hwsku.
    #[arg(long, value_name = "CHIP", value_parser = chip::chip)]
    chip: Option<&'static Chip>,
    /// The switch file to write.
    #[arg(short, long, value_name = "SWITCH.toml")]
    output: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
}

/// Classes of `--lossless`.
#[derive(Clone, Debug)]
struct LosslessClasses(Vec<u8>);

fn lossless_classes(text: &str) -> Result<LosslessClasses, String> {
    let classes = if text == "none" { Some(Vec::new()) } else { numbers_of(text) };
    let classes =
        classes.filter(|classes| classes.iter().all(|class| *class < 8) && (text == "none" || !classes.is_empty()));
    classes.map(LosslessClasses).ok_or_else(|| "write classes of 0 to 7 such as 3,4, or none".to_owned())
}

/// Switch file made from SONiC's tables.
#[derive(Debug)]
struct Imported {
    text: String,
    mappings: Vec<FieldMapping>,
}

/// Makes and writes the switch file, and reports values taken, approximated and refused.
pub(crate) fn sonic(arguments: &SonicArguments) -> Result<(), Failure> {
    let output = arguments.output.display();
    let tables = ConfigDb::read(&arguments.paths).map_err(Failure::Argument)?;
    let lossless = arguments.lossless.as_ref().map(|lossless| lossless.0.as_slice());
    let imported = import_checked(tables, &arguments.ports, lossless, arguments.chip).map_err(Failure::Argument)?;
    if arguments.output.exists() && !arguments.force {
        return Err(Failure::Argument(format!("{output} is there already; name another output, or give --force")));
    }
    fs::write(&arguments.output, &imported.text).map_err(|error| {
        Failure::Argument(format!("--output {output}: {error}; name a file in a directory that may be written to"))
    })?;
    if arguments.json {
        println!("{}", json(&imported, &arguments.output));
    } else {
        print!("{}", report_text(&imported.mappings));
        println!("written: {output}; weir check {output} shows what follows");
    }
    Ok(())
}

/// Returns the switch file of SONiC's files, as `weir import sonic PATHS --port PORTS` writes it.
///
/// # Errors
/// Tables that make no switch.
pub fn sonic_switch_file(paths: &[PathBuf], ports: &[String]) -> Result<String, String> {
    import_checked(ConfigDb::read(paths)?, ports, None, None).map(|imported| imported.text)
}

/// Makes a switch file that has no errors.
fn import_checked(
    tables: ConfigDb,
    wanted: &[String],
    lossless: Option<&[u8]>,
    chip: Option<&'static Chip>,
) -> Result<Imported, String> {
    let imported = import(tables, wanted, lossless, chip)?;
    weir_config::parse("sonic", &imported.text).map_err(|errors| {
        let first = errors.render(false);
        format!("these tables make no valid switch:\n{}", first.trim_end())
    })?;
    Ok(imported)
}

fn import(
    mut tables: ConfigDb,
    wanted: &[String],
    lossless: Option<&[u8]>,
    chip: Option<&'static Chip>,
) -> Result<Imported, String> {
    tables.check_system_ports()?;
    let mut ports = ports::ports(&tables, wanted)?;
    let names = |ports: &[Port]| -> Vec<String> { ports.iter().map(|port| port.sonic_name.clone()).collect() };
    let mut classes = Classes::with_lossless(&tables, &names(&ports), lossless)?;
    let groups = LosslessGroups::from_tables(&mut tables, &mut ports, &mut classes)?;
    vlans::read(&mut tables, &mut ports)?;
    let (mtu, obey) = (ports::mtu(&tables, &ports)?, ports::obey(&tables, &ports));
    ports::account(&mut tables, &ports, mtu, obey);
    classes.read(&mut tables, &ports)?;
    let frame_max = mtu + SwitchConfig::FRAME_OVERHEAD_BYTES;
    let chip = chip::of_tables(&mut tables, chip);
    let buffer = Buffer::from_tables(&mut tables, &ports, &classes, &groups, frame_max, chip)?;
    groups.account_missing(&mut tables);
    let mappings = tables.mappings();
    let mut text = String::from("# Made by weir import sonic. What became of SONiC's values:\n");
    for line in lines(&mappings) {
        let _ = writeln!(text, "# {}: {}: {}", line.outcome.name(), line.values, line.detail);
    }
    text += "#\n# Headroom is SONiC's, for a chip that reacts at once. A switch on DPDK takes longer, and may lose lossless frames: weir check\n\
             # says what each port needs by the rule; headroom = \"auto\" takes that.\n";
    let _ = write!(text, "\n[switch]\nmtu = {mtu}\n");
    text += &buffer.text;
    text += obey.unwrap_or_default();
    text += &classes.text();
    text += &ports::text(&ports, &classes, &buffer.headroom_of_port);
    Ok(Imported { text, mappings })
}

fn json(imported: &Imported, output: &std::path::Path) -> String {
    let mapping = |of: &FieldMapping| {
        serde_json::json!({
            "outcome": of.outcome.name(), "table": of.table, "key": of.key, "field": of.field, "value": of.value, "said": of.detail,
        })
    };
    let mappings: Vec<_> = imported.mappings.iter().map(mapping).collect();
    serde_json::json!({ "written": output, "values": mappings }).to_string()
}

/// Most frequent value; the first of several.
fn most_common<T: Ord + Clone>(values: impl Iterator<Item = T>) -> T {
    let all: Vec<T> = values.collect();
    let count = |value: &T| all.iter().filter(|other| *other == value).count();
    let most = all.iter().map(count).max().unwrap_or(0);
    all.iter().find(|value| count(value) == most).cloned().expect("one at least")
}
