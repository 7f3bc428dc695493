//! Qualification of lossless switches: SONiC's test plans for PFC and QoS, as tests against two traits.
//!
//! [`TrafficTester`] sends frames to the ports of a switch and counts those that come back. [`DeviceUnderTest`] is the switch under test: its
//! [facts](Facts) and its counters. Tests are written once against these traits. A test that a tester or device lacks an ability for ends
//! as [`TestFailure::Impossible`], with the reason.

#![forbid(unsafe_code)]

mod arrivals;
pub mod bench;
pub mod device;
pub mod discover;
pub mod facts;
pub mod frames;
pub mod lossless;
pub mod lossy;
pub mod qos;
pub mod report;
pub mod sonic;
pub mod suite;
pub mod test_case;
pub mod tester;
pub mod virtual_time;
mod watchdog;
pub mod wire;

pub use device::{ClassCounters, DeviceCounters, DeviceUnderTest, PoolCounters, PortCounters};
pub use facts::{BufferFacts, EcnFacts, Facts, PortFacts, QueueMap, WatchdogFacts};
pub use tester::{
    Amount, ControlStats, ControlStream, Gap, Lengths, Marking, PfcReaction, StreamId, StreamStats, TestStream,
    TrafficTester,
};

/// Disturbances of a tester or device in real time, which may explain a failed test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Longest time by which it was late.
    pub late: weir_units::Span,
    /// Sum of such times of a millisecond and more.
    pub late_total: weir_units::Span,
    /// Losses outside of the switch, in words.
    pub losses: Vec<String>,
}

/// Reason why a test ends early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestFailure {
    /// Ability that is lacking: the test is not possible here. The text is the reason, such as "the switch has no counter of its headroom's watermark".
    #[error("{0}")]
    Impossible(String),
    /// Error: the test fails.
    #[error("{0}")]
    Broken(String),
    /// A signal: no test goes on.
    #[error("interrupted")]
    Interrupted,
}

impl TestFailure {
    /// Returns that something is not possible here, and why.
    pub fn impossible(reason: impl Into<String>) -> TestFailure {
        TestFailure::Impossible(reason.into())
    }

    /// Returns that an error occurred.
    pub fn broken(reason: impl Into<String>) -> TestFailure {
        TestFailure::Broken(reason.into())
    }
}
