//! `weir import`: other tools' experiments as scenarios, SONiC's tables as switch files, with a report on each value.

pub(crate) mod sonic;

use std::path::{Path, PathBuf};

use weir_experiments::Failure;
use weir_experiments::files::{json_text, listed, write_scenario};
use weir_scenario::import::ns3::{self, CommandLine, Options, Sources};
use weir_scenario::import::{ImportErrors, Imported, Note, Report};

/// What can be imported.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// An experiment of the public ns-3 simulators of RDMA: HPCC's, ConWeave's, inet-tub's.
    ///
    /// The files are known by what is in them: a configuration of keys and values, a topology, a flow list, a list of traced
    /// nodes, a distribution of flow sizes. In a folder the text files are looked at; what the configuration names is looked
    /// for beside it.
    Ns3(Ns3Arguments),
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
    /// The scenario to write; its flows are written beside it.
    #[arg(short, long, value_name = "SCENARIO.toml")]
    output: PathBuf,
    /// A congestion control in place of the one that CC_MODE says.
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// The command line of inet-tub's program, in quotes: "--bufferModel=reverie --rdmaload=0.8 …". It goes before the configuration.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    arguments: Option<String>,
    /// A script of such command lines, like run-rdma-loads.sh: a scenario is written for each that it starts, out-1.toml, out-2.toml
    /// and so on for --output out.toml.
    #[arg(long, value_name = "FILE.sh", conflicts_with = "arguments")]
    script: Option<PathBuf>,
    /// The N-th command line of a script alone, which --output is then for.
    #[arg(long, value_name = "N", requires = "script")]
    line: Option<usize>,
    /// Have frames take whole nanoseconds on links, as in the simulators, and not what they take.
    #[arg(long)]
    ns3_rounding: bool,
    /// Write over files that are there.
    #[arg(long)]
    force: bool,
    /// Print what was taken, approximated and left as JSON.
    #[arg(long)]
    json: bool,
}

/// Makes and writes the scenario, and reports values taken, approximated and left out.
pub(crate) fn ns3(arguments: &Ns3Arguments) -> Result<(), Failure> {
    let Some(script) = &arguments.script else {
        return ns3_of(arguments, arguments.arguments.as_deref());
    };
    let script = Sources::script(&arguments.paths, script).map_err(wrong)?;
    let lines = ns3::command_lines(&script).map_err(wrong)?;
    let Some(chosen) = arguments.line else { return ns3_of_all(arguments, &script.name, &lines) };
    let Some(line) = chosen.checked_sub(1).and_then(|at| lines.get(at)) else {
        return Err(Failure::Argument(format!("--line {chosen}: {} starts {} of them", script.name, lines.len())));
    };
    ns3_of(arguments, Some(&line.text))
}

fn wrong(errors: ImportErrors) -> Failure {
    Failure::Argument(errors.to_string())
}

/// Makes one scenario, under this command line if there is one.
fn imported(arguments: &Ns3Arguments, output: &Path, line: Option<&str>) -> Result<Imported, Failure> {
    let line = line.map(ns3::Arguments::parse).transpose().map_err(wrong)?;
    let (stem, congestion_control) = (stem(output)?, arguments.congestion_control.clone());
    let options = Options { stem, congestion_control, arguments: line, cuts_times: arguments.ns3_rounding };
    let sources = Sources::find_for(&arguments.paths, options.arguments.as_ref()).map_err(wrong)?;
    ns3::import(&sources, &options).map_err(wrong)
}

fn ns3_of(arguments: &Ns3Arguments, line: Option<&str>) -> Result<(), Failure> {
    let imported = imported(arguments, &arguments.output, line)?;
    let written = write_scenario(&arguments.output, &imported.scenario, &imported.beside, arguments.force)?;
    if arguments.json {
        print!("{}", json_text(&json(&imported.report, &written)));
        return Ok(());
    }
    print!("{}", shown(&imported.report));
    println!("written: {}", listed(&written));
    Ok(())
}

/// Makes a scenario of each of a script's command lines, and reports their differences. Nothing is written unless all are valid.
fn ns3_of_all(arguments: &Ns3Arguments, script: &str, lines: &[CommandLine]) -> Result<(), Failure> {
    let digits = lines.len().to_string().len();
    let output = |n: usize| {
        let stem = arguments.output.file_stem().unwrap_or_default().to_string_lossy();
        arguments.output.with_file_name(format!("{stem}-{n:0digits$}.toml"))
    };
    let mut all = Vec::new();
    for (n, line) in (1..).zip(lines) {
        let of_script = |failure| match failure {
            Failure::Argument(message) => {
                Failure::Argument(format!("{script}:{}, command line {n}: {message}", line.line))
            }
            other => other,
        };
        all.push(imported(arguments, &output(n), Some(&line.text)).map_err(of_script)?);
    }
    let taken = (1..=lines.len()).map(output).find(|path| path.exists() && !arguments.force);
    if let Some(path) = taken {
        let path = path.display();
        return Err(Failure::Argument(format!("{path} is there already; name another output, or give --force")));
    }
    let apart = differing(lines);
    let mut told = Vec::new();
    for ((n, imported), apart) in (1..).zip(&all).zip(&apart) {
        let written = write_scenario(&output(n), &imported.scenario, &imported.beside, arguments.force)?;
        if arguments.json {
            let mut of_line = json(&imported.report, &written);
            of_line["arguments"] = serde_json::json!(lines[n - 1].text.trim());
            told.push(of_line);
        } else {
            println!("{}: {apart}", listed(&written));
        }
    }
    if arguments.json {
        print!("{}", json_text(&serde_json::Value::Array(told)));
    } else {
        println!("what was approximated or left stands at the head of each; --line N tells all of one");
    }
    Ok(())
}

/// Words of each command line that not all lines have.
fn differing(lines: &[CommandLine]) -> Vec<String> {
    let has = |line: &CommandLine, word: &str| line.text.split_whitespace().any(|other| other == word);
    let is_result = |word: &str| word.contains("OutFile=");
    let apart = |line: &CommandLine| {
        let words = line.text.split_whitespace().filter(|word| !is_result(word));
        let words: Vec<&str> = words.filter(|word| !lines.iter().all(|other| has(other, word))).collect();
        words.join(" ")
    };
    lines.iter().map(apart).collect()
}

/// Output's name without its extension, of characters valid in a scenario's name.
fn stem(output: &Path) -> Result<String, Failure> {
    let stem = output.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if stem.is_empty() || stem.starts_with(['.', '-']) || !stem.bytes().all(is_plain) {
        let output = output.display();
        let help = "write letters, digits, `_`, `.` and `-`, like clos.toml";
        return Err(Failure::Argument(format!("--output {output}: this is no name of a scenario; {help}")));
    }
    Ok(stem.to_owned())
}

fn json(report: &Report, written: &[PathBuf]) -> serde_json::Value {
    let note = |note: &Note| {
        let (file, line) = note.at.as_ref().map_or((None, None), |(file, line)| (Some(file), *line));
        serde_json::json!({ "file": file, "line": line, "text": note.text })
    };
    let all = |notes: &[Note]| notes.iter().map(note).collect::<Vec<_>>();
    serde_json::json!({
        "taken": all(&report.taken),
        "approximated": all(&report.approximated),
        "left": all(&report.left),
        "written": written,
    })
}

fn shown(report: &Report) -> String {
    let lists =
        [("taken", &report.taken), ("approximated", &report.approximated), ("refused or ignored", &report.left)];
    let list = |(title, notes): (&str, &Vec<Note>)| {
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
            output,
            congestion_control: None,
            arguments: None,
            script: None,
            line: None,
            ns3_rounding: false,
            force,
            json: false,
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

    /// Two loads and two policies are four scenarios, or a single selected scenario.
    #[test]
    fn a_script_of_command_lines_is_as_many_scenarios() {
        let directory = tempfile::tempdir().unwrap();
        let (input, output) = (directory.path().join("in"), directory.path().join("sweep.toml"));
        fs::create_dir(&input).unwrap();
        let link = |ends: &str| format!("{ends} 25Gbps 2us 0\n");
        let links: String = ["0 4", "1 4", "2 5", "3 5", "4 6", "5 6"].map(link).concat();
        let topology = format!("7 3 2 6 25000000000 25000000000\n4 5 6\n{links}");
        fs::write(input.join("topology.txt"), topology).unwrap();
        fs::write(input.join("sizes.txt"), "0 0\n10000 .15\n30000000 1.0\n").unwrap();
        fs::write(input.join("alphas"), "1\n1\n1\n1\n1\n1\n1\n1\n").unwrap();
        let script = "for load in 0.2 0.4;do\n  for alg in 101 110;do\n    (./waf --run \"reverie-evaluation-sigcomm2023 --bufferalgIngress=$alg \
             --bufferalgEgress=$alg --rdmaload=$load --alphasFile=x/alphas --fctOutFile=$alg-$load.fct --START_TIME=0.1 \
             --FLOW_LAUNCH_END_TIME=0.11 --END_TIME=0.12 --conf=BAD\")&\n  done\ndone\n";
        let mut given = arguments(&input, output.clone(), false);
        given.script = Some("run-loads.sh".into());
        fs::write(input.join("run-loads.sh"), script).unwrap();
        let Err(Failure::Argument(message)) = ns3(&given) else { panic!() };
        assert!(
            message.starts_with("run-loads.sh:3, command line 1: --arguments: --conf=BAD is not there"),
            "{message}"
        );
        assert!(fs::read_dir(directory.path()).unwrap().count() == 1, "nothing is written");

        fs::write(input.join("run-loads.sh"), script.replace(" --conf=BAD", "")).unwrap();
        ns3(&given).unwrap();
        let text = |n: usize| fs::read_to_string(directory.path().join(format!("sweep-{n}.toml"))).unwrap();
        let policy = |n: usize| ["policy = \"sonic\"", "policy = \"abm\""].map(|policy| text(n).contains(policy));
        assert_eq!([1, 2, 3, 4].map(policy), [[true, false], [false, true], [true, false], [false, true]]);
        assert!(text(1) != text(3) && !output.exists() && !directory.path().join("sweep-5.toml").exists());
        let Err(Failure::Argument(message)) = ns3(&given) else { panic!() };
        assert!(message.ends_with("sweep-1.toml is there already; name another output, or give --force"), "{message}");

        given.line = Some(2);
        ns3(&given).unwrap();
        assert_eq!(fs::read_to_string(&output).unwrap().replace("sweep-", "sweep-2-"), text(2));
        given.line = Some(5);
        let Err(Failure::Argument(message)) = ns3(&given) else { panic!() };
        assert_eq!(message, "--line 5: run-loads.sh starts 4 of them");
    }

    #[test]
    fn lines_are_told_by_what_not_all_have() {
        let line = |text: &str| CommandLine { line: 1, text: text.to_owned() };
        let lines = [line("p --a=1 --b=1 --fctOutFile=x"), line("p --a=2 --b=1 --fctOutFile=y")];
        assert_eq!(differing(&lines), ["--a=1", "--a=2"]);
    }

    #[test]
    fn outputs_have_names_that_scenarios_may_have() {
        assert_eq!(stem(Path::new("x/clos-2.toml")).unwrap(), "clos-2");
        for output in ["", "a b.toml", "-.toml", "\".toml"] {
            assert!(stem(Path::new(output)).is_err(), "{output}");
        }
    }
}
