//! `weir import sonic`: a SONiC switch's buffers, classes and ports as a switch file, with a report on each value.

mod buffer;
mod classes;
mod ports;
mod profile;
mod report;
mod resume;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use weir_config::SwitchConfig;
use weir_experiments::Failure;

use buffer::Buffer;
use classes::Classes;
use report::{FieldMapping, lines, report_text};
use tables::ConfigDb;

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
    let imported = import(tables, &arguments.ports).map_err(Failure::Argument)?;
    // Validates the switch file before writing.
    weir_config::parse("sonic", &imported.text).map_err(|errors| {
        let first = errors.render(false);
        Failure::Argument(format!("these tables make no valid switch:\n{}", first.trim_end()))
    })?;
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

/// Default of `[switch] mtu`.
const DEFAULT_MTU: u64 = 1_500;

fn import(mut tables: ConfigDb, wanted: &[String]) -> Result<Imported, String> {
    let (ports, mtu) = ports::ports(&mut tables, wanted)?;
    let names: Vec<String> = ports.iter().map(|port| port.sonic_name.clone()).collect();
    let classes = Classes::from_tables(&mut tables, &names)?;
    let frame_max = if mtu > 0 { mtu } else { DEFAULT_MTU } + SwitchConfig::FRAME_OVERHEAD_BYTES;
    let buffer = Buffer::from_tables(&mut tables, &ports, &classes, frame_max)?;
    let mappings = tables.mappings();
    let mut text = String::from("# Made by weir import sonic. What became of SONiC's values:\n");
    for line in lines(&mappings) {
        let _ = writeln!(text, "# {}: {}: {}", line.outcome.name(), line.values, line.detail);
    }
    text += "#\n# Headroom is SONiC's, for a chip that reacts at once. A switch on DPDK takes longer, and may lose lossless frames: weir check\n\
             # says what each port needs by the rule; headroom = \"auto\" takes that.\n";
    if mtu > 0 {
        let _ = write!(text, "\n[switch]\nmtu = {mtu}\n");
    }
    text += &buffer.text;
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
