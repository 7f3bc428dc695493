//! What `weir check` says of this machine.

mod losses;
mod machine;
mod nics;
mod trial;

pub(crate) use machine::Machine;
pub(crate) use trial::try_devices;
