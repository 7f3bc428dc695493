//! What `weir check` says of this machine.

mod losses;
mod machine;
mod nics;
mod trial;

pub use machine::Machine;
pub use trial::try_devices;
