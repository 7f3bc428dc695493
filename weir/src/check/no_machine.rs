//! Without DPDK there is nothing to say of this machine.

use weir_config::SwitchConfig;
use weir_experiments::Failure;

/// This machine, which is not looked at.
pub struct Machine;

impl Machine {
    /// The machine for these switches.
    pub fn new(_: &[SwitchConfig]) -> Machine {
        Machine
    }

    /// Nothing of a switch is on this machine.
    pub fn print_switch(&self, _: usize, _: &SwitchConfig) {}

    /// Says that lcores, memory and devices are left out.
    ///
    /// # Errors
    /// None.
    #[allow(clippy::unnecessary_wraps, reason = "as with DPDK")]
    pub fn conclude(self, _: &[SwitchConfig]) -> Result<(), Failure> {
        println!("lcores, memory and devices were not checked: this weir is built without DPDK");
        Ok(())
    }
}
