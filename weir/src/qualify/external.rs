//! A switch of any make: its counters by a command.

use std::fs;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use weir_experiments::Failure;
use weir_qualify::{DeviceCounters, DeviceUnderTest, Facts, TestFailure, sonic, virtual_time};
use weir_units::{Class, Span};

use super::running::of_test;

/// A switch that this command knows nothing of but facts and a command for its counters.
pub(super) struct ExternalSwitch {
    facts: Facts,
    commands: CounterCommands,
    settling_time: Span,
    cleared: DeviceCounters,
}

/// Shell commands for a switch's counters.
pub(super) struct CounterCommands {
    /// Prints COUNTERS_DB as JSON.
    pub(super) print: Option<String>,
    /// Clears watermarks.
    pub(super) clear: Option<String>,
    /// Set by a signal, which ends a command in hand.
    pub(super) stop: Arc<AtomicBool>,
}

impl ExternalSwitch {
    /// Creates a switch with facts of a file, or with those of SONiC's defaults and the names of the tester's ports. Tries the commands.
    pub(super) fn new(
        facts: Option<&Path>,
        ports: &[String],
        commands: CounterCommands,
        settling_time: Span,
    ) -> Result<ExternalSwitch, Failure> {
        let facts = match facts {
            Some(path) => {
                let wrong = |error: String| Failure::Argument(format!("--facts {}: {error}", path.display()));
                let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
                let facts: Facts = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
                facts.check().map_err(wrong)?;
                if facts.ports.len() != ports.len() {
                    let (known, given) = (facts.ports.len(), ports.len());
                    return Err(wrong(format!("it has {known} ports, and --tester names {given}: name one for each")));
                }
                facts
            }
            None if commands.print.is_some() => {
                let message = "--counters: name the switch's ports by --facts, as COUNTERS_DB has them";
                return Err(Failure::Argument(message.to_owned()));
            }
            None => default_facts(ports)?,
        };
        let mut switch = ExternalSwitch { facts, commands, settling_time, cleared: DeviceCounters::default() };
        match switch.clear() {
            Err(failure @ TestFailure::Interrupted) => Err(of_test(failure)),
            Err(failure) => Err(Failure::Argument(failure.to_string())),
            Ok(()) => Ok(switch),
        }
    }

    fn read(&self) -> Result<DeviceCounters, TestFailure> {
        let Some(command) = &self.commands.print else {
            return Err(TestFailure::impossible("the switch's counters are unknown: name a command by --counters"));
        };
        let text = self.commands.output("--counters", command, COMMAND_WITHIN)?;
        let database = serde_json::from_str(&text)
            .map_err(|error| TestFailure::broken(format!("--counters {command}: this is no JSON: {error}")))?;
        let ports: Vec<String> = self.facts.ports.iter().map(|port| port.name.clone()).collect();
        let counters = sonic::counters(&database, &ports)
            .map_err(|failure| TestFailure::broken(format!("--counters {command}: {failure}")))?;
        Ok(if self.commands.clear.is_some() { counters } else { sonic::without_watermarks(counters) })
    }
}

impl DeviceUnderTest for ExternalSwitch {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn counters(&mut self) -> Result<DeviceCounters, TestFailure> {
        Ok(sonic::since(&self.read()?, &self.cleared))
    }

    fn clear(&mut self) -> Result<(), TestFailure> {
        if let Some(command) = &self.commands.clear {
            self.commands.output("--clear-watermarks", command, COMMAND_WITHIN)?;
        }
        if self.commands.print.is_some() {
            self.cleared = self.read()?;
        }
        Ok(())
    }

    fn set_watchdog(&mut self, _: bool, _: bool) -> Result<(), TestFailure> {
        Err(TestFailure::impossible("the watchdog of an external switch is its administrator's"))
    }

    fn set_weight(&mut self, _: Class, _: u32) -> Result<(), TestFailure> {
        Err(TestFailure::impossible("the weights of an external switch are its administrator's"))
    }

    fn restore(&mut self) -> Result<(), TestFailure> {
        Ok(())
    }

    fn settling_time(&self) -> Span {
        self.settling_time
    }
}

/// SONiC's classes and maps; nothing of the buffer.
fn default_facts(ports: &[String]) -> Result<Facts, Failure> {
    let is_again = |(number, name): &(usize, &String)| name.is_empty() || ports[..*number].contains(name);
    if ports.len() < 2 || ports.iter().enumerate().any(|port| is_again(&port)) {
        let message = format!("--tester {}: name two ports or more, each once", ports.join(","));
        return Err(Failure::Argument(message));
    }
    // An address is no name of a port.
    let port = |number: usize| format!("[[ports]]\nname = \"p{number}\"\nring = \"r{number}\"\nrate = \"10Gbps\"\n");
    let text: String = std::iter::once(CLASSES.to_owned()).chain((0..ports.len()).map(port)).collect();
    let config = weir_config::parse_for_virtual_time("the switch", &text).map_err(Failure::from)?;
    let (_, device) = virtual_time::new(&[config]).map_err(of_test)?;
    let mut facts = device.facts().clone();
    facts.name = "external switch".to_owned();
    (facts.buffer, facts.watchdog, facts.ecn) = (None, None, Default::default());
    for (port, name) in facts.ports.iter_mut().zip(ports) {
        port.name.clone_from(name);
        (port.headroom, port.peer_delay_ns, port.weights, port.pcp) = (None, None, None, None);
    }
    Ok(facts)
}

impl CounterCommands {
    /// Standard output of an option's command.
    fn output(&self, option: &str, command: &str, within: Duration) -> Result<String, TestFailure> {
        let failed = |reason: String| TestFailure::broken(format!("{option} {command}: {reason}"));
        let no_process = |error: io::Error| failed(error.to_string());
        // Files, since a process that the command leaves behind would keep a pipe open.
        let [mut stdout, mut stderr] =
            [tempfile::tempfile().map_err(no_process)?, tempfile::tempfile().map_err(no_process)?];
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null());
        shell.stdout(stdout.try_clone().map_err(no_process)?).stderr(stderr.try_clone().map_err(no_process)?);
        // Its own processes end with it.
        let mut process = shell.process_group(0).spawn().map_err(no_process)?;
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = process.try_wait().map_err(no_process)? {
                break status;
            }
            let is_interrupted = self.stop.load(Ordering::Relaxed);
            if is_interrupted || Instant::now() > deadline {
                // It may have ended by itself.
                let _ = kill_process_group(Pid::from_child(&process), Signal::KILL);
                let _ = process.wait();
                let late = format!("it takes more than {} s", within.as_secs());
                return Err(if is_interrupted { TestFailure::Interrupted } else { failed(late) });
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |file: &mut fs::File| {
            let mut bytes = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(no_process)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match status.success() {
            true => text(&mut stdout),
            false => Err(failed(format!("{status}: {}", text(&mut stderr)?.trim()))),
        }
    }
}

/// Longest time of a command: a switch far away dumps its database in a few seconds.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// The part of a file that gives an external switch its classes.
const CLASSES: &str = "[switch]\nname = \"external\"\n[classes]\npreset = \"sonic\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(print: Option<&str>) -> CounterCommands {
        CounterCommands { print: print.map(str::to_owned), clear: None, stop: Arc::default() }
    }

    #[test]
    fn a_command_for_counters_is_tried_first() {
        let facts = tempfile::NamedTempFile::new().unwrap();
        fs::write(facts.path(), "{\"name\": \"x\", \"frame_bytes_max\": 1518, \"ports\": [{\"name\": \"p0\"}]}")
            .unwrap();
        let ports = ["t0".to_owned()];
        for (command, wanted) in [
            ("exit 3", "--counters exit 3: exit status: 3: "),
            ("echo no >&2; false", "--counters echo no >&2; false: exit status: 1: no"),
            ("echo x", "--counters echo x: this is no JSON: expected value at line 1 column 1"),
            (
                "echo {}",
                "--counters echo {}: the counters have no COUNTERS_PORT_NAME_MAP: dump the whole COUNTERS_DB as JSON",
            ),
        ] {
            let failure =
                ExternalSwitch::new(Some(facts.path()), &ports, commands(Some(command)), Span::ZERO).err().unwrap();
            assert_eq!((failure.exit_code(), failure.into_message()), (2, wanted.to_owned()));
        }
    }

    #[test]
    fn a_command_that_does_not_end_is_ended_with_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        let command = format!("sleep 1000 & echo $! > {0}; echo $$ >> {0}; wait", pids.display());
        let failure = commands(None).output("--counters", &command, Duration::from_secs(1)).unwrap_err();
        assert_eq!(failure.to_string(), format!("--counters {command}: it takes more than 1 s"));
        let ended = |pid: &str| {
            // One that has ended may wait for its parent.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let pids = fs::read_to_string(pids).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !pids.lines().all(ended) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(pids.lines().count() == 2 && pids.lines().all(ended), "{pids}");
        let stopped = CounterCommands { stop: Arc::new(true.into()), ..commands(None) };
        assert_eq!(stopped.output("--counters", "sleep 1000", COMMAND_WITHIN), Err(TestFailure::Interrupted));
    }

    #[test]
    fn ports_may_be_nics() {
        let switch = |names: &[&str], counters: Option<&str>| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ExternalSwitch::new(None, &names, commands(counters), Span::ZERO)
        };
        let named = switch(&["0000:04:00.0", "0000:04:00.1"], None).unwrap();
        assert_eq!(named.facts.ports[1].name, "0000:04:00.1");
        for (names, counters, wanted) in [
            (&["a"][..], None, "--tester a: name two ports or more, each once"),
            (&["a", "a"], None, "--tester a,a: name two ports or more, each once"),
            (&["a", "b"], Some("true"), "--counters: name the switch's ports by --facts, as COUNTERS_DB has them"),
        ] {
            let failure = switch(names, counters).err().unwrap();
            assert_eq!((failure.exit_code(), failure.into_message()), (2, wanted.to_owned()));
        }
    }

    #[test]
    fn wrong_facts_are_wrong_input() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(
            file.path(),
            "{\"name\": \"x\", \"frame_bytes_max\": 1518, \"ports\": [{\"name\": \"p0\", \"dscp\": []}]}",
        )
        .unwrap();
        let failure =
            ExternalSwitch::new(Some(file.path()), &["t0".to_owned()], commands(None), Span::ZERO).err().unwrap();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.into_message().ends_with("port \"p0\": dscp has 0 codepoints: write 64, or leave dscp out"));
    }
}
