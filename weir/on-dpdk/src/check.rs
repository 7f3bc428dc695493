//! Checks of `weir check` on this machine.

mod examine;
mod interfaces;
mod loopback_test;
mod losses;
mod machine;
mod nics;

pub(crate) use examine::examine;
pub(crate) use loopback_test::{try_devices, try_loop};
pub(crate) use machine::MachinePlacement;
