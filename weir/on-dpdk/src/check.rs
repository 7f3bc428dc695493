//! Checks of `weir check` on this machine.

mod examine;
mod losses;
mod machine;
mod nics;
mod trial;

pub(crate) use examine::examine;
pub(crate) use machine::Machine;
pub(crate) use trial::{try_devices, try_loop};
