//! The backend with real frames, where it is built in: feature `dpdk`.

#[cfg(feature = "dpdk")]
pub use built::*;
#[cfg(not(feature = "dpdk"))]
pub use left_out::*;

#[cfg(feature = "dpdk")]
mod built {
    use weir_real::DpdkBackend;
    use weir_results::record::Progress;
    use weir_results::run_dir::{RunDir, Summary};
    use weir_scenario::Scenario;

    use crate::Failure;

    pub use weir_real::fitting_dilation;

    /// Whether scenarios can run with real frames.
    pub const ARE_BUILT: bool = true;

    /// DPDK, started.
    pub struct Backend(DpdkBackend);

    /// Whether this machine has what the switches ask for.
    pub fn check_machine(scenarios: &[Scenario]) -> Result<(), Failure> {
        scenarios.iter().try_for_each(|scenario| Ok(weir_dpdk_driver::check_machine(&scenario.switches)?))
    }

    impl Backend {
        /// Starts DPDK with what these scenarios need. Once a process.
        pub fn start(scenarios: &[Scenario]) -> Result<Backend, Failure> {
            Ok(Backend(DpdkBackend::start(scenarios)?))
        }

        /// Runs a scenario to its end; its files go to `run`.
        pub fn run(
            &self,
            scenario: &Scenario,
            run: RunDir,
            observe: &mut dyn FnMut(&Progress),
        ) -> Result<Summary, Failure> {
            Ok(self.0.run(scenario, run, observe)?)
        }
    }
}

#[cfg(not(feature = "dpdk"))]
mod left_out {
    use weir_results::record::Progress;
    use weir_results::run_dir::{RunDir, Summary};
    use weir_scenario::Scenario;
    use weir_units::BitRate;

    use crate::Failure;

    /// Whether scenarios can run with real frames.
    pub const ARE_BUILT: bool = false;

    /// Nothing to be slower for.
    pub fn fitting_dilation(_: BitRate) -> u32 {
        1
    }

    /// None: nothing can start it.
    pub enum Backend {}

    /// Refuses them all.
    pub fn check_machine(_: &[Scenario]) -> Result<(), Failure> {
        let words = "ports and real frames need DPDK, and this weir is built without it: install libdpdk and clang (make setup does) \
                     and build with the feature `dpdk`, which is the default; virtual time needs none: --backend sim";
        Err(Failure::Argument(words.to_owned()))
    }

    impl Backend {
        /// Refuses them all.
        pub fn start(scenarios: &[Scenario]) -> Result<Backend, Failure> {
            check_machine(scenarios)?;
            unreachable!("all scenarios are refused")
        }

        /// Never called.
        pub fn run(&self, _: &Scenario, _: RunDir, _: &mut dyn FnMut(&Progress)) -> Result<Summary, Failure> {
            match *self {}
        }
    }
}
