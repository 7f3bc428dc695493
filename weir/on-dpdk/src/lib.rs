//! The commands of `weir` that need DPDK: `run`, `bench`, `check` of this machine, and scenarios with real frames, all behind
//! [`PortBackend`].
//!
//! ```
//! use weir_experiments::real_frames::PortBackend;
//! use weir_on_dpdk::Dpdk;
//!
//! // This machine, before any switch runs: each finding names a resource, or what is lacking and its remedy.
//! let findings = Dpdk.examine(&[]);
//! assert!(!findings.is_empty());
//! ```

#![forbid(unsafe_code)]

mod below_rate;
mod bench;
mod check;
mod control;
mod event_sink;
mod fault;
mod lldp;
mod losses;
mod netdevs;
mod nics;
mod packet_memory;
mod peers;
mod recording;
mod replay;
mod run;
mod runtime_config;
mod screen;
mod signals;
mod stations;
mod storms;
mod summary;
mod supervisor;
mod tester;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weir_config::SwitchConfig;
use weir_experiments::Failure;
use weir_experiments::real_frames::{
    BenchCommand, CheckResult, MachineResources, OpenTesterPort, PortBackend, ReplayArguments, RunArguments,
    ScenarioRunner, TesterPorts,
};
use weir_hosts::RealHostSet;
use weir_real::DpdkBackend;
use weir_results::record::Progress;
use weir_results::run_dir::{RunDir, Summary};
use weir_scenario::Scenario;
use weir_units::BitRate;

use fault::Fault;

/// The version of DPDK that this is built with.
pub const BUILT_FOR_DPDK: &str = weir_dpdk_io::BUILT_FOR;

/// DPDK, for the command.
pub struct Dpdk;

/// Names this process `weir` for `ps` and `pidof`, independent of the program's file name.
pub fn take_the_commands_name() {
    // Nothing else depends on a name.
    let _ = rustix::thread::set_name(c"weir");
}

impl PortBackend for Dpdk {
    fn run(&self, arguments: &RunArguments) -> Result<(), Failure> {
        Ok(run::run(arguments)?)
    }

    fn try_devices(&self, files: &[PathBuf], eal: &[String], json: bool) -> Result<(), Failure> {
        Ok(check::try_devices(files, eal, json)?)
    }

    fn examine(&self, switches: &[SwitchConfig]) -> Vec<CheckResult> {
        check::examine(switches)
    }

    fn try_loop(&self, file: Option<&Path>, eal: &[String]) -> Result<Vec<CheckResult>, Failure> {
        Ok(check::try_loop(file, eal)?)
    }

    fn bench(&self, command: &BenchCommand) -> Result<(), Failure> {
        Ok(bench::bench(command)?)
    }

    fn replay(&self, arguments: &ReplayArguments, switch: Option<&SwitchConfig>) -> Result<(), Failure> {
        Ok(replay::replay(arguments, switch)?)
    }

    fn with_tester_ports(
        &self,
        ports: &TesterPorts<'_>,
        test: &mut dyn FnMut(Vec<OpenTesterPort>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        Ok(tester::with_ports(ports, test)?)
    }

    fn machine(&self, switches: &[SwitchConfig]) -> Box<dyn MachineResources> {
        Box::new(check::MachinePlacement::new(switches))
    }

    fn check_machine(&self, scenarios: &[Scenario]) -> Result<(), Failure> {
        let check = |scenario: &Scenario| weir_dpdk_driver::check_machine(&scenario.switches).map_err(Fault::from);
        Ok(scenarios.iter().try_for_each(check)?)
    }

    fn fitting_dilation(&self, rate: BitRate) -> u32 {
        weir_real::fitting_dilation(rate)
    }

    fn start(&self, scenarios: &[Scenario]) -> Result<Box<dyn ScenarioRunner>, Failure> {
        Ok(Box::new(Started(DpdkBackend::start(scenarios).map_err(Fault::from)?)))
    }
}

/// DPDK, started for scenarios.
struct Started(DpdkBackend);

impl ScenarioRunner for Started {
    fn run_with_hosts(
        &self,
        scenario: &Scenario,
        run: RunDir,
        hosts: Option<&mut RealHostSet>,
        observe: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<Summary, Failure> {
        Ok(self.0.run_with_hosts(scenario, run, hosts, observe, stop).map_err(Fault::from)?)
    }
}
