//! PFC (IEEE 802.1Qbb), and 802.3x PAUSE, which is PFC with one class for everything.

mod gate;
mod generator;
mod watchdog;

pub use gate::Gate;
pub use generator::Generator;
pub use watchdog::{
    QueueObservation, StormCondition, StormCounters, StormPackets, Watchdog, WatchdogAction, WatchdogConfig,
    WatchdogEvent,
};
