//! PFC (IEEE 802.1Qbb), and 802.3x PAUSE, which is PFC with one class for all frames.

mod generator;
mod pause_timers;
mod watchdog;

pub use generator::PfcGenerator;
pub use pause_timers::{LastPause, PauseTimers};
pub use watchdog::{
    QueueObservation, StormCondition, StormCounters, StormPackets, Watchdog, WatchdogAction, WatchdogConfig,
    WatchdogEvent,
};
