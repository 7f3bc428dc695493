//! `weir import`: other tools' experiments as scenarios, SONiC's tables as switch files, with a report on each value.

pub(crate) mod sonic;

use std::path::{Path, PathBuf};

use weir_experiments::Failure;
use weir_experiments::files::{json_text, listed, write_scenario};
use weir_reader::{NAME_RULE, is_name};
use weir_scenario::import::chakra::{self as chakra_import, ChakraOptions};
use weir_scenario::import::goal::{self as goal_import, GoalOptions};
use weir_scenario::import::htsim::{self as htsim_import, HtsimOptions};
use weir_scenario::import::ns3::{self, FlowColumns, Sources};
use weir_scenario::import::simai::{self as simai_import, SimaiOptions};
use weir_scenario::import::{FabricOptions, ImportErrors, ImportNote, ImportReport, ImportedScenario};
use weir_units::{BitRate, Span};

/// Commands of `weir import`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// An experiment of the public ns-3 simulators of RDMA: HPCC's, ConWeave's, inet-tub's.
    ///
    /// Files are recognised by their content: a configuration of keys and values, a topology, a flow list, a list of traced nodes, a
    /// distribution of flow sizes. All text files of a folder are read, and files that the configuration names, relative to it.
    Ns3(Ns3Arguments),
    /// A connection matrix of htsim (.cm), with its triggers, and its topology (.topo).
    ///
    /// Not imported: failed links, hosts with several ports, parallel links of three tiers, priorities.
    Htsim(HtsimArguments),
    /// A schedule in GOAL, text or binary, of LogGOPSim or ATLAHS.
    ///
    /// Not imported: receipts from any rank or with any tag, a second NIC of a rank.
    Goal(GoalArguments),
    /// A workload of SimAI or AICB: one training pass, with a GPU a host; and its topology.
    ///
    /// Not imported: pipeline stages (pp), recomputation (checkpoints), ALLREDUCEALLTOALL, kinds other than HYBRID_TRANSFORMER; NVLink
    /// in fabrics without rails.
    Simai(SimaiArguments),
    /// Chakra traces of a job, one a rank, with ASTRA-sim's system and network files.
    ///
    /// Traces are in protobuf or JSON, compressed or not. Not imported: remote memory, collectives other than all-reduce, all-gather,
    /// reduce-scatter and all-to-all (broadcasts last as in the trace), collectives of one's own, the roofline model; topologies other than
    /// one Switch.
    Chakra(ChakraArguments),
    /// A SONiC switch's buffer pools and profiles, class maps, schedulers, WRED profiles, PFC watchdog and ports, as a switch file.
    ///
    /// The file has a comment for each value: taken, approximated (how, and by how much), or refused (why).
    Sonic(sonic::SonicArguments),
}

/// Arguments of `weir import ns3`.
#[derive(clap::Args)]
pub(crate) struct Ns3Arguments {
    /// Files, or a folder of them.
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
    /// Congestion control in place of CC_MODE's.
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// The command line of inet-tub's program, in quotes: "--bufferModel=reverie --rdmaload=0.8 …". It goes before the configuration.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    arguments: Option<String>,
    /// Meaning of the values of a flow list's lines, in quotes: "src dst pg packets start end". Columns: id, src, dst, pg, dport, bytes,
    /// packets, start (s), start-ns, end. By default "src dst pg dport bytes start" or "src dst pg bytes start".
    #[arg(long, value_name = "COLUMNS")]
    flows: Option<FlowColumns>,
    /// Round serialisation delays of frames to whole nanoseconds, as the simulators do.
    #[arg(long)]
    ns3_rounding: bool,
}

/// Arguments of `weir import htsim`.
#[derive(clap::Args)]
pub(crate) struct HtsimArguments {
    /// Connection matrix.
    #[arg(value_name = "FILE.cm")]
    matrix: PathBuf,
    /// Topology; by default a fat-tree of --tiers.
    #[arg(long, value_name = "FILE.topo", conflicts_with_all = ["tiers", "rate", "delay"])]
    topo: Option<PathBuf>,
    #[command(flatten)]
    fabric: FabricArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Arguments of `weir import goal`.
#[derive(clap::Args)]
pub(crate) struct GoalArguments {
    /// Schedule. Rank n is host n.
    #[arg(value_name = "FILE")]
    schedule: PathBuf,
    #[command(flatten)]
    fabric: FabricArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Arguments of `weir import simai`.
#[derive(clap::Args)]
pub(crate) struct SimaiArguments {
    /// Workload. GPU n is host n.
    #[arg(value_name = "WORKLOAD")]
    workload: PathBuf,
    /// Topology; by default a fat-tree of --tiers without NVLink.
    #[arg(value_name = "TOPOLOGY", conflicts_with_all = ["tiers", "rate", "delay"])]
    topology: Option<PathBuf>,
    #[command(flatten)]
    fabric: FabricArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Arguments of `weir import chakra`.
#[derive(clap::Args)]
pub(crate) struct ChakraArguments {
    /// Name of the traces without .RANK.et: rank n is host n.
    #[arg(value_name = "PREFIX")]
    prefix: PathBuf,
    /// System file; by default collectives are rings of one chunk, without delays.
    #[arg(long, value_name = "FILE.json")]
    system: Option<PathBuf>,
    /// Network file: the analytical network's, whose Switch takes the place of --tiers, --rate and --delay, or logical-dims.
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Groups of ranks.
    #[arg(long, value_name = "FILE.json")]
    groups: Option<PathBuf>,
    #[command(flatten)]
    fabric: FabricArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Fabric of an import.
#[derive(clap::Args)]
struct FabricArguments {
    /// Tiers of switches: 1, or 2 (the default) or 3 of the smallest fat-tree that holds all hosts (htsim's: k²/2, k³/4).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    tiers: Option<u32>,
    /// Rate of all links, by default 100Gbps.
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// One-way propagation delay of all links, by default 1us.
    #[arg(long, value_name = "TIME")]
    delay: Option<Span>,
}

/// Output of an import.
#[derive(clap::Args)]
struct OutputArguments {
    /// Scenario to write; further files are written into the same folder.
    #[arg(short, long, value_name = "SCENARIO.toml")]
    output: PathBuf,
    /// Write over files that are there.
    #[arg(long)]
    force: bool,
    /// Print imported, approximated and skipped settings as JSON.
    #[arg(long)]
    json: bool,
}

impl FabricArguments {
    fn options(&self) -> FabricOptions {
        let FabricOptions { tiers, rate, delay } = FabricOptions::default();
        FabricOptions {
            tiers: self.tiers.unwrap_or(tiers),
            rate: self.rate.unwrap_or(rate),
            delay: self.delay.unwrap_or(delay),
        }
    }

    fn is_given(&self) -> bool {
        self.tiers.is_some() || self.rate.is_some() || self.delay.is_some()
    }
}

fn wrong(errors: ImportErrors) -> Failure {
    Failure::Argument(errors.to_string())
}

/// Makes and writes the scenario of an ns-3 simulator's files, with a report.
pub(crate) fn ns3(arguments: &Ns3Arguments) -> Result<(), Failure> {
    let line = arguments.arguments.as_deref().map(ns3::Arguments::parse).transpose().map_err(wrong)?;
    let options = ns3::Options {
        stem: stem(&arguments.output.output)?,
        congestion_control: arguments.congestion_control.clone(),
        arguments: line,
        flow_columns: arguments.flows.clone(),
        cuts_times: arguments.ns3_rounding,
    };
    let sources = Sources::find_for(&arguments.paths, options.arguments.as_ref()).map_err(wrong)?;
    write(&arguments.output, &ns3::import(&sources, &options).map_err(wrong)?, &arguments.paths)
}

/// Makes and writes the scenario of a connection matrix, with a report.
pub(crate) fn htsim(arguments: &HtsimArguments) -> Result<(), Failure> {
    let HtsimArguments { matrix, topo, fabric, output } = arguments;
    let stem = stem(&output.output)?;
    let options = HtsimOptions { stem, matrix, topology: topo.as_deref(), fabric: fabric.options() };
    let inputs: Vec<PathBuf> = [matrix].into_iter().chain(topo).cloned().collect();
    write(output, &htsim_import::import(&options).map_err(wrong)?, &inputs)
}

/// Makes and writes the scenario of a schedule, with a report.
pub(crate) fn goal(arguments: &GoalArguments) -> Result<(), Failure> {
    let GoalArguments { schedule, fabric, output } = arguments;
    let options = GoalOptions { stem: stem(&output.output)?, schedule, fabric: fabric.options() };
    write(output, &goal_import::import(&options).map_err(wrong)?, std::slice::from_ref(schedule))
}

/// Makes and writes the scenario of a SimAI workload, with a report.
pub(crate) fn simai(arguments: &SimaiArguments) -> Result<(), Failure> {
    let SimaiArguments { workload, topology, fabric, output } = arguments;
    let inputs: Vec<PathBuf> = [workload].into_iter().chain(topology).cloned().collect();
    let (stem, topology) = (stem(&output.output)?, topology.as_deref());
    let options = SimaiOptions { stem, workload, topology, fabric: fabric.options() };
    write(output, &simai_import::import(&options).map_err(wrong)?, &inputs)
}

/// Makes and writes the scenario of a job's traces, with a report.
pub(crate) fn chakra(arguments: &ChakraArguments) -> Result<(), Failure> {
    let ChakraArguments { prefix, system, network, groups, fabric, output } = arguments;
    let options = ChakraOptions {
        stem: stem(&output.output)?,
        prefix,
        system: system.as_deref(),
        network: network.as_deref(),
        groups: groups.as_deref(),
        fabric: fabric.is_given().then(|| fabric.options()),
    };
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inputs: Vec<PathBuf> =
        [system, network, groups].into_iter().flatten().cloned().chain([folder.to_owned()]).collect();
    write(output, &chakra_import::import(&options).map_err(wrong)?, &inputs)
}

/// Writes a scenario that runs, and reports values taken, approximated and left out. It writes over no file of the inputs, and over no
/// other kind of file in a folder of them.
fn write(arguments: &OutputArguments, imported: &ImportedScenario, inputs: &[PathBuf]) -> Result<(), Failure> {
    let names = imported.files.iter().map(|(name, _)| arguments.output.with_file_name(name));
    for output in names.chain([arguments.output.clone()]) {
        // A file that is not there is no input.
        let Ok(path) = output.canonicalize() else { continue };
        let is_ours =
            path.extension().is_some_and(|ending| ["toml", "csv", "goal", "cm"].iter().any(|of| ending == *of));
        let is_read = inputs
            .iter()
            .filter_map(|input| input.canonicalize().ok())
            .any(|input| input == path || !is_ours && path.parent() == Some(&input));
        if is_read {
            let message = format!("--output: {} is read by the import; name another output", output.display());
            return Err(Failure::Argument(message));
        }
    }
    check_runs(&arguments.output, imported)?;
    let written = write_scenario(&arguments.output, &imported.scenario, &imported.files, arguments.force)?;
    if arguments.json {
        print!("{}", json_text(&json(&imported.report, &written)));
        return Ok(());
    }
    print!("{}", shown(&imported.report));
    println!("written: {}", listed(&written));
    Ok(())
}

/// Checks in a temporary folder that a run of the scenario would start.
///
/// # Errors
/// The errors of the run.
fn check_runs(output: &Path, imported: &ImportedScenario) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(|error| Failure::Run(format!("temporary folder: {error}")))?;
    let path = folder.path().join(output.file_name().expect("a stem was found"));
    write_scenario(&path, &imported.scenario, &imported.files, false)?;
    let runs = weir_scenario::file::parse(&path, &imported.scenario);
    let refused = |errors: weir_config::ConfigErrors| {
        let errors = errors.render(false).replace(&format!("{}/", folder.path().display()), "");
        Failure::Argument(format!("a run of these files' scenario would refuse to start:\n{errors}"))
    };
    runs.map(drop).map_err(refused)
}

/// Output's name without its extension, of characters valid in a scenario's name.
fn stem(output: &Path) -> Result<String, Failure> {
    let stem = output.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !is_name(stem) {
        let output = output.display();
        return Err(Failure::Argument(format!("--output {output}: this is no name of a scenario; write {NAME_RULE}")));
    }
    Ok(stem.to_owned())
}

fn json(report: &ImportReport, written: &[PathBuf]) -> serde_json::Value {
    let note = |note: &ImportNote| {
        let (file, line) = note.at.as_ref().map_or((None, None), |(file, line)| (Some(file), *line));
        serde_json::json!({ "file": file, "line": line, "text": note.text })
    };
    let all = |notes: &[ImportNote]| notes.iter().map(note).collect::<Vec<_>>();
    serde_json::json!({
        "taken": all(&report.taken),
        "approximated": all(&report.approximated),
        "left": all(&report.left),
        "written": written,
    })
}

fn shown(report: &ImportReport) -> String {
    let lists =
        [("taken", &report.taken), ("approximated", &report.approximated), ("refused or ignored", &report.left)];
    let list = |(title, notes): (&str, &Vec<ImportNote>)| {
        let lines: String = notes.iter().map(|note| format!("  {note}\n")).collect();
        format!("{title} ({})\n{lines}", notes.len())
    };
    lists.map(list).concat()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn arguments(folder: &Path, output: PathBuf, force: bool) -> Ns3Arguments {
        Ns3Arguments {
            paths: vec![folder.to_owned()],
            output: OutputArguments { output, force, json: false },
            congestion_control: None,
            arguments: None,
            flows: None,
            ns3_rounding: false,
        }
    }

    #[test]
    fn a_scenario_is_written_once_and_nothing_of_bad_input() {
        let directory = tempfile::tempdir().unwrap();
        let (input, output) = (directory.path().join("in"), directory.path().join("a.toml"));
        fs::create_dir(&input).unwrap();
        fs::write(input.join("topology.txt"), "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us\n").unwrap();
        fs::write(input.join("flow.txt"), "1\n0 1 3 100 64000 2.0\n").unwrap();
        let Err(Failure::Argument(message)) = ns3(&arguments(&input, output.clone(), false)) else { panic!() };
        assert!(message.starts_with("topology.txt:4: a link has 5 values, this line 4; write "), "{message}");
        assert!(!output.exists() && fs::read_dir(directory.path()).unwrap().count() == 1);

        fs::write(input.join("topology.txt"), "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n").unwrap();
        ns3(&arguments(&input, output.clone(), false)).unwrap();
        assert!(fs::read_to_string(&output).unwrap().contains("file = \"a-flows.csv\""));
        assert!(directory.path().join("a-flows.csv").exists());
        let Err(Failure::Argument(message)) = ns3(&arguments(&input, output.clone(), false)) else { panic!() };
        assert!(message.ends_with("is there already; name another output, or give --force"), "{message}");
        ns3(&arguments(&input, output, true)).unwrap();
    }

    #[test]
    fn no_input_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let schedule = "num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 9b from 0\n}\n";
        fs::write(path("a-schedule.goal"), schedule).unwrap();
        let fabric = FabricArguments { tiers: Some(1), rate: None, delay: None };
        let output = OutputArguments { output: path("a.toml"), force: true, json: false };
        let Err(Failure::Argument(message)) =
            goal(&GoalArguments { schedule: path("a-schedule.goal"), fabric, output })
        else {
            panic!()
        };
        assert!(message.ends_with("a-schedule.goal is read by the import; name another output"), "{message}");
        fs::write(path("topology.txt"), "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n").unwrap();
        fs::write(path("flow.txt"), "1\n0 1 3 100 64000 2.0\n").unwrap();
        let Err(Failure::Argument(message)) = ns3(&arguments(directory.path(), path("flow.txt"), true)) else {
            panic!()
        };
        assert!(message.ends_with("flow.txt is read by the import; name another output"), "{message}");
        assert!(!path("a.toml").exists());
    }

    #[test]
    fn outputs_have_names_that_scenarios_may_have() {
        assert_eq!(stem(Path::new("x/clos-2.toml")).unwrap(), "clos-2");
        for output in ["", "a b.toml", "-.toml", "\".toml"] {
            assert!(stem(Path::new(output)).is_err(), "{output}");
        }
    }
}
