//! Tester on wires, in real time.
//!
//! [`StreamPorts`] has no clock of its own: a thread of [`WireTester`] polls it, and it polls [`WirePort`]s. It reports how late it was
//! and the losses of its ports, so that a busy machine is no verdict on the switch ([`TrafficTester::disturbance`](crate::TrafficTester)).

mod frame;
mod ports;
mod stream;
mod tester;
#[cfg(test)]
mod tests;

pub use ports::{PortSetting, StreamPorts, WirePort};
pub use tester::WireTester;
