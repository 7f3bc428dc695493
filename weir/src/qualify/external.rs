//! A switch of any make: its counters by a command.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use weir_experiments::Failure;
use weir_qualify::{DeviceCounters, DeviceUnderTest, Facts, TestFailure, sonic, virtual_time};
use weir_units::{Class, Span};

use super::running::of_test;

/// A switch that this command knows nothing of but facts and a command for its counters.
pub(super) struct ExternalSwitch {
    facts: Facts,
    /// Prints COUNTERS_DB as JSON.
    counters: Option<String>,
    /// Clears watermarks.
    clear: Option<String>,
    settling_time: Span,
    cleared: DeviceCounters,
}

impl ExternalSwitch {
    /// Creates a switch with facts of a file, or with those of SONiC's defaults and the names of the tester's ports.
    pub(super) fn new(
        facts: Option<&Path>,
        ports: &[String],
        counters: Option<String>,
        clear: Option<String>,
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
            None if counters.is_some() => {
                let message = "--counters: name the switch's ports by --facts, as COUNTERS_DB has them";
                return Err(Failure::Argument(message.to_owned()));
            }
            None => default_facts(ports)?,
        };
        Ok(ExternalSwitch { facts, counters, clear, settling_time, cleared: DeviceCounters::default() })
    }

    fn read(&self) -> Result<DeviceCounters, TestFailure> {
        let Some(command) = &self.counters else {
            return Err(TestFailure::impossible("the switch's counters are unknown: name a command by --counters"));
        };
        let text = output(command)?;
        let database = serde_json::from_str(&text)
            .map_err(|error| TestFailure::broken(format!("--counters {command}: this is no JSON: {error}")))?;
        let ports: Vec<String> = self.facts.ports.iter().map(|port| port.name.clone()).collect();
        let counters = sonic::counters(&database, &ports)?;
        Ok(if self.clear.is_some() { counters } else { sonic::without_watermarks(counters) })
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
        if let Some(command) = &self.clear {
            output(command)?;
        }
        if self.counters.is_some() {
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

/// Standard output of a shell's command.
fn output(command: &str) -> Result<String, TestFailure> {
    let failed = |reason: String| TestFailure::broken(format!("{command}: {reason}"));
    let done = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(failed(format!("{}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim()))),
    }
}

/// The part of a file that gives an external switch its classes.
const CLASSES: &str = "[switch]\nname = \"external\"\n[classes]\npreset = \"sonic\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_may_be_nics() {
        let switch = |names: &[&str], counters: Option<&str>| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            ExternalSwitch::new(None, &names, counters.map(str::to_owned), None, Span::ZERO)
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
        let failure = ExternalSwitch::new(Some(file.path()), &["t0".to_owned()], None, None, Span::ZERO).err().unwrap();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.into_message().ends_with("port \"p0\": dscp has 0 codepoints: write 64, or leave dscp out"));
    }
}
