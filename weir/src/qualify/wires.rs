//! `weir qualify --tester`: a switch on wires, and the tester's ports at their other ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_config::SwitchConfig;
use weir_experiments::experiment::stopped_by_signals;
use weir_experiments::real_frames::{OpenTesterPort, TesterPorts};
use weir_experiments::switches::load_all;
use weir_experiments::{Failure, real_frames};
use weir_qualify::tester::station_address;
use weir_qualify::wire::{PortSetting, WirePort, WireTester};
use weir_qualify::{DeviceUnderTest, TrafficTester};
use weir_units::{BitRate, FCS_BYTES, Span};

use super::external::{CounterCommands, ExternalSwitch};
use super::running::FileSwitch;
use crate::runtime_config::time;

/// Options of a switch on wires.
#[derive(clap::Args)]
pub(super) struct WireArguments {
    /// Ports that are cabled to the switch's, in the order of its ports: Linux interfaces (veth0), PCI addresses of NICs, or sockets of
    /// memif servers (memif=/run/p0.sock). Without them, the switch is tested in virtual time.
    #[arg(long, value_name = "PORT,PORT,…", value_delimiter = ',')]
    pub(super) tester: Vec<String>,
    /// Command that prints the counters of an external switch, as `sonic-db-dump -n COUNTERS_DB -y` does.
    #[arg(long, value_name = "COMMAND", requires = "tester")]
    counters: Option<String>,
    /// Command that clears the watermarks of an external switch. Without it, watermarks are not used.
    #[arg(long, value_name = "COMMAND", requires = "counters")]
    clear_watermarks: Option<String>,
    /// Facts of an external switch, as JSON: its ports' names, maps, classes and buffer. By default, SONiC's maps and classes.
    #[arg(long, value_name = "FILE", requires = "tester")]
    facts: Option<PathBuf>,
    /// Time after which an external switch's counters include all frames that have arrived, 2s by default.
    #[arg(long, value_name = "TIME", requires = "tester", value_parser = time)]
    settle: Option<Duration>,
    /// Arguments for DPDK's EAL, after `--`.
    #[arg(last = true, value_name = "EAL", requires = "tester")]
    eal: Vec<String>,
}

impl WireArguments {
    fn commands(&self, stop: &Arc<AtomicBool>) -> CounterCommands {
        CounterCommands { print: self.counters.clone(), clear: self.clear_watermarks.clone(), stop: stop.clone() }
    }

    /// Refuses options that a switch of this file has no use for.
    fn check_for_file(&self, path: &Path) -> Result<(), Failure> {
        let given = [
            ("--counters", self.counters.is_some()),
            ("--clear-watermarks", self.clear_watermarks.is_some()),
            ("--facts", self.facts.is_some()),
            ("--settle", self.settle.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map_or(Ok(()), |(option, _)| {
            let file = path.display();
            Err(Failure::Argument(format!("{option}: it is for --dut {EXTERNAL}; leave it out for {file}")))
        })
    }
}

/// Switch that a test drives.
enum TestSwitch {
    File(Box<FileSwitch>),
    External(Box<ExternalSwitch>),
}

impl TestSwitch {
    fn under_test(&mut self) -> &mut dyn DeviceUnderTest {
        match self {
            TestSwitch::File(switch) => &mut **switch,
            TestSwitch::External(switch) => &mut **switch,
        }
    }
}

/// Switch on wires.
pub(super) enum SwitchOnWires<'a> {
    /// Weir, on a file: running already, or started for the tests.
    File(&'a Path),
    /// A switch of any make.
    External,
}

/// Tests of a switch.
type SwitchTest<'t> = dyn FnMut(&mut dyn TrafficTester, &mut dyn DeviceUnderTest) -> Result<(), Failure> + 't;

impl SwitchOnWires<'_> {
    /// The switch that `--dut` names.
    pub(super) fn new(dut: &[PathBuf]) -> Result<SwitchOnWires<'_>, Failure> {
        match dut {
            [own] if own.as_os_str() == "self" => Err(Failure::Argument(format!(
                "--tester: name the switch that its ports are cabled to: --dut SWITCH.toml or --dut {EXTERNAL}"
            ))),
            [external] if external.as_os_str() == EXTERNAL => Ok(SwitchOnWires::External),
            [file] => Ok(SwitchOnWires::File(file)),
            _ => Err(Failure::Argument("--tester: name one file by --dut".to_owned())),
        }
    }
}

/// Opens the tester's ports, and calls `test` with them and the switch. `speed` is that of all links.
pub(super) fn with_wires(
    arguments: &WireArguments,
    switch: &SwitchOnWires<'_>,
    speed: Option<BitRate>,
    test: &mut SwitchTest<'_>,
) -> Result<(), Failure> {
    let names = &arguments.tester;
    let config = match switch {
        SwitchOnWires::File(path) => {
            arguments.check_for_file(path)?;
            Some(config(path, names, speed)?)
        }
        SwitchOnWires::External => None,
    };
    let given = |number: usize| config.as_ref().and_then(|config| config.ports[number].rate).or(speed);
    // May replace this process; nothing is started before.
    let backend = real_frames::reach()?;
    let stop = stopped_by_signals()?;
    let mut device = match (switch, &config) {
        (SwitchOnWires::File(path), Some(config)) => {
            // Links may tell other rates when they are up.
            let mut config = config.clone();
            let rates = (0..names.len()).map(|number| given(number).unwrap_or(SPEED_DEFAULT));
            config.ports.iter_mut().zip(rates).for_each(|(port, rate)| port.rate = Some(rate));
            TestSwitch::File(Box::new(FileSwitch::reach(path, &config, &stop)?))
        }
        _ => TestSwitch::External(Box::new(ExternalSwitch::new(
            arguments.facts.as_deref(),
            names,
            arguments.commands(&stop),
            Span::from_micros(arguments.settle.unwrap_or(SETTLE_DEFAULT).as_micros() as u64),
        )?)),
    };
    let frame_bytes_max = (u64::from(device.under_test().facts().frame_bytes_max) - FCS_BYTES) as usize;
    let ports = TesterPorts { names, frame_bytes_max, eal: &arguments.eal };
    backend.with_tester_ports(&ports, &mut |open| {
        let rate = |(number, port): (usize, &OpenTesterPort)| given(number).or(port.speed).unwrap_or(SPEED_DEFAULT);
        let rates: Vec<BitRate> = open.iter().enumerate().map(rate).collect();
        if let TestSwitch::File(switch) = &mut device {
            switch.set_rates(&rates)?;
        }
        let ports = open.into_iter().zip(&rates).enumerate().map(|(number, (port, rate))| {
            let setting = PortSetting { name: port.name.clone(), rate: *rate, station: station_address(number) };
            (setting, port.port)
        });
        let ports: Vec<(PortSetting, Box<dyn WirePort>)> = ports.collect();
        let mut tester = WireTester::start(ports, stop.clone(), || {
            // Only the administrator may.
            let _ = rustix::process::nice(NICE);
        })?;
        test(&mut tester, device.under_test())
    })
}

/// The configuration of a file, whose ports the tester's are cabled to.
fn config(path: &Path, names: &[String], speed: Option<BitRate>) -> Result<SwitchConfig, Failure> {
    let mut all = load_all(&[path.to_owned()])?;
    let config = all.remove(0);
    let (ports, testers) = (config.ports.len(), names.len());
    if ports != testers {
        let message =
            format!("--tester names {testers} ports, {} has {ports}: name one for each, in order", path.display());
        return Err(Failure::Argument(message));
    }
    let other = config
        .ports
        .iter()
        .find_map(|port| Some((&port.name, port.rate?, speed?)).filter(|(_, rate, speed)| rate != speed));
    match other {
        Some((name, rate, speed)) => {
            let file = path.display();
            Err(Failure::Argument(format!("--speed {speed}: port \"{name}\" of {file} has {rate}; leave --speed out")))
        }
        None => Ok(config),
    }
}

/// Name of a switch of another make.
pub(super) const EXTERNAL: &str = "external";
/// Speed of links that invent one, as veth pairs do: a busy machine keeps up with it.
const SPEED_DEFAULT: BitRate = BitRate::mbps(100);
/// Settling time of an external switch, whose counters are polled every second.
const SETTLE_DEFAULT: Duration = Duration::from_secs(2);
/// Priority of the thread that polls the ports.
const NICE: i32 = -10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_refuses_options_of_external_switches() {
        let none = WireArguments {
            tester: Vec::new(),
            counters: None,
            clear_watermarks: None,
            facts: None,
            settle: None,
            eal: Vec::new(),
        };
        assert!(none.check_for_file(Path::new("a.toml")).is_ok());
        let settle = WireArguments { settle: Some(SETTLE_DEFAULT), ..none };
        let error = settle.check_for_file(Path::new("a.toml")).unwrap_err().into_message();
        assert_eq!(error, "--settle: it is for --dut external; leave it out for a.toml");
    }

    #[test]
    fn another_speed_than_the_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let text = "[switch]\nname = \"a\"\n[buffer]\nheadroom = \"60KB\"\n[[ports]]\nname = \"p0\"\naf_packet = \"eth0\"\nrate = \"100Mbps\"\n[[ports]]\nname = \"p1\"\naf_packet = \"eth1\"\n";
        std::fs::write(&path, text).unwrap();
        let names = ["t0", "t1"].map(str::to_owned);
        let rates = |speed| {
            config(&path, &names, speed).map(|config| config.ports.iter().map(|port| port.rate).collect::<Vec<_>>())
        };
        assert_eq!(rates(Some(BitRate::mbps(100))).unwrap(), [Some(BitRate::mbps(100)), None]);
        let error = rates(Some(BitRate::gbps(1))).unwrap_err().into_message();
        assert!(error.contains("port \"p0\"") && error.ends_with("has 100Mbps; leave --speed out"), "{error}");
    }
}
