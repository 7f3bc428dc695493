//! `weir qualify`: SONiC's test plans for PFC and QoS on a lossless switch.

mod external;
mod running;
mod wires;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_config::SwitchConfig;
use weir_experiments::Failure;
use weir_experiments::files::json_text;
use weir_experiments::switches::load_each;
use weir_experiments::table::{Table, count};
use weir_qualify::discover::{Discovery, discover};
use weir_qualify::report::QualificationReport;
use weir_qualify::suite::{FRAME_LENGTHS, run, tests};
use weir_qualify::test_case::Test;
use weir_qualify::{DeviceUnderTest, Facts, TestFailure, TrafficTester, virtual_time};
use weir_units::BitRate;

use wires::{EXTERNAL, SwitchOnWires, WireArguments, with_wires};

/// Speed of the built-in switch.
const SPEED_DEFAULT: BitRate = BitRate::gbps(100);
/// Minimum speed of the built-in switch: below it frames last for longer than limits of the watchdog and the resume allow.
const BUILT_IN_SPEED_MIN: BitRate = BitRate::gbps(1);

/// Arguments of `weir qualify`.
#[derive(clap::Args)]
pub(crate) struct QualifyArguments {
    /// Switch under test, in virtual time: `self`, a built-in one with two ASICs, or files of switches, whose ports are the tester's in
    /// order. A `ring` at two ports joins two files' switches.
    #[arg(long, value_delimiter = ',', value_name = "self|SWITCH.toml", default_value = "self")]
    dut: Vec<PathBuf>,
    /// Run these tests alone: L01, LossyQueue. May be given more than once.
    #[arg(long, value_delimiter = ',', value_name = "TESTS")]
    only: Vec<String>,
    /// List all tests with criteria, tolerances and their reasons, and run none.
    #[arg(long)]
    list: bool,
    /// Find Xoff, Xon, headroom, α and the pools of the switch by bisection, by the frames that its ports send, and run no test.
    #[arg(long, conflicts_with_all = ["only", "list", "junit"])]
    discover: bool,
    /// Speed of the built-in switch's ports, 100Gbps by default; on wires that of links without `rate` in the file, by default the
    /// NIC's, 100Mbps where a virtual interface has none.
    #[arg(long, value_name = "RATE", value_parser = speed)]
    speed: Option<BitRate>,
    /// Lengths of frames with FCS in the tests of frame lengths.
    #[arg(long, value_delimiter = ',', value_name = "BYTES", default_values_t = FRAME_LENGTHS,
          value_parser = clap::value_parser!(u32).range(64..=16_383))]
    frame_sizes: Vec<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write JUnit XML too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    wires: WireArguments,
    /// File without `--dut`, for a message.
    #[arg(hide = true)]
    file: Option<PathBuf>,
}

/// Runs the tests and prints their outcomes.
pub(crate) fn qualify(arguments: &QualifyArguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.file {
        return Err(Failure::Argument(format!("{0}: write --dut {0}", file.display())));
    }
    let tests = selected(&arguments.only)?;
    if arguments.list && arguments.json {
        print!("{}", json_text(&tests));
        return Ok(());
    }
    if arguments.list {
        tests.iter().for_each(|test| print!("{}", test.text()));
        return Ok(());
    }
    if !arguments.wires.tester.is_empty() {
        let switch = SwitchOnWires::new(&arguments.dut)?;
        return with_wires(&arguments.wires, &switch, arguments.speed, &mut |tester, device| {
            test(arguments, &tests, tester, device)
        });
    }
    if arguments.dut.iter().any(|dut| dut.as_os_str() == EXTERNAL) {
        let message = "--dut external: name the tester's ports by --tester, such as --tester eth1,eth2,eth3";
        return Err(Failure::Argument(message.to_owned()));
    }
    let (mut tester, mut device) = virtual_time::new(&switches(arguments)?).map_err(wrong_switch)?;
    test(arguments, &tests, &mut tester, &mut device)
}

/// Tests a device, and prints the report.
fn test(
    arguments: &QualifyArguments,
    tests: &[Test],
    tester: &mut dyn TrafficTester,
    device: &mut dyn DeviceUnderTest,
) -> Result<(), Failure> {
    let facts = device.facts().clone();
    if arguments.discover {
        let found = discover(tester, device).map_err(failed_run)?;
        print!("{}", if arguments.json { json_text(&found) } else { thresholds(&found, &facts) });
        return Ok(());
    }
    let mut junit = arguments.junit.as_deref().map(create).transpose()?;
    let outcomes = run(tester, device, tests, &arguments.frame_sizes, |outcome| {
        if !arguments.json {
            print!("{}", outcome.text());
        }
    });
    let outcomes = outcomes.map_err(failed_run)?;
    let ran = outcomes.len();
    let report = QualificationReport::new(&facts.name, outcomes);
    if arguments.json {
        print!("{}", json_text(&report));
    } else {
        println!("{}", report.summary());
    }
    if let (Some(file), Some(path)) = (&mut junit, &arguments.junit) {
        let failure = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        file.write_all(report.junit().as_bytes()).map_err(failure)?;
    }
    let failed = report.failed_ids();
    let interrupted = (ran < tests.len()).then(|| format!("interrupted: {ran} of {} tests ran", tests.len()));
    let failed = (!failed.is_empty()).then(|| format!("{} of {ran} tests failed: {}", failed.len(), failed.join(", ")));
    let reasons: Vec<String> = interrupted.into_iter().chain(failed).collect();
    if reasons.is_empty() { Ok(()) } else { Err(Failure::Run(reasons.join("; "))) }
}

/// Creates a file before the tests, which take minutes on wires.
fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::Argument(format!("{}: {error}", path.display())))
}

/// Thresholds found, and those that the switch's file gives.
fn thresholds(found: &Discovery, facts: &Facts) -> String {
    let buffer = facts.buffer.clone().unwrap_or_default();
    let headroom = facts.ports.first().and_then(|port| port.headroom);
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), count);
    let alpha = |alpha: Option<f64>| alpha.map_or("-".to_owned(), |alpha| format!("{alpha:.4}"));
    let mut table = Table::new(["", "Found", "By the file"]);
    let sizes = [
        ("Xoff B", Some(found.xoff_bytes), buffer.xoff),
        ("Xon B", Some(found.xon_bytes), buffer.xon),
        ("Headroom B", Some(found.headroom_bytes), headroom),
        ("Shared pool B", found.shared_pool_bytes, buffer.shared_pool),
        ("Headroom pool B", found.headroom_pool_bytes, buffer.headroom_pool),
    ];
    sizes.into_iter().for_each(|(name, found, given)| table.row([name.to_owned(), bytes(found), bytes(given)]));
    table.row(["α".to_owned(), alpha(found.alpha), alpha(buffer.alpha)]);
    format!("{}, by {} probes\n{table}", facts.name, found.probes)
}

/// Tests of these names, in the order of the list; all without any.
fn selected(names: &[String]) -> Result<Vec<Test>, Failure> {
    if names.iter().any(String::is_empty) {
        return Err(Failure::Argument("--only: name a test, such as L01; weir qualify --list lists them".to_owned()));
    }
    let is_named = |test: &Test, name: &String| test.id.eq_ignore_ascii_case(name);
    if let Some(unknown) = names.iter().find(|name| !tests().any(|test| is_named(&test, name))) {
        return Err(Failure::Argument(format!("no test is called {unknown}; weir qualify --list lists them")));
    }
    Ok(tests().filter(|test| names.is_empty() || names.iter().any(|name| is_named(test, name))).collect())
}

/// Switches under test.
fn switches(arguments: &QualifyArguments) -> Result<Vec<SwitchConfig>, Failure> {
    match &arguments.dut[..] {
        [own] if own.as_os_str() == "self" => match arguments.speed.unwrap_or(SPEED_DEFAULT) {
            speed if speed >= BUILT_IN_SPEED_MIN => Ok(virtual_time::built_in(speed)),
            _ => Err(Failure::Argument("--speed: the built-in switch has ports of 1Gbps to 800Gbps".to_owned())),
        },
        [file, ..] if arguments.speed.is_some() => {
            let file = file.display();
            Err(Failure::Argument(format!("{file}: its ports have rates of their own; `--speed` is for --dut self")))
        }
        files => load_each(files),
    }
}

/// A port that failed, or a switch with which no test is possible.
fn failed_run(failure: TestFailure) -> Failure {
    match failure {
        TestFailure::Broken(message) => Failure::Run(message),
        TestFailure::Interrupted => Failure::Run("interrupted before the first result".to_owned()),
        TestFailure::Impossible(message) => Failure::Argument(message),
    }
}

fn wrong_switch(failure: TestFailure) -> Failure {
    Failure::Argument(failure.to_string())
}

fn speed(text: &str) -> Result<BitRate, String> {
    let rate: BitRate = text.parse().map_err(|error| format!("{error}"))?;
    let is_known = (virtual_time::RATE_MIN..=BitRate::gbps(800)).contains(&rate);
    if is_known { Ok(rate) } else { Err("write 10Mbps to 800Gbps".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_selected_in_the_order_of_the_list() {
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            selected(&names).map(|tests| tests.iter().map(|test| test.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["pfcxofflimit", "L02"]).unwrap(), ["L02", "PfcXoffLimit"]);
        assert_eq!(ids(&[]).unwrap().len(), tests().count());
        let error = ids(&["L99"]).unwrap_err().into_message();
        assert_eq!(error, "no test is called L99; weir qualify --list lists them");
    }

    #[test]
    fn speeds_have_units_and_bounds() {
        assert_eq!(speed("400Gbps"), Ok(BitRate::gbps(400)));
        assert_eq!(speed("900Gbps"), Err("write 10Mbps to 800Gbps".to_owned()));
        assert!(speed("100").is_err());
    }
}
