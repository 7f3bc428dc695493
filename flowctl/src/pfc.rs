//! PFC (IEEE 802.1Qbb), and 802.3x PAUSE, which is PFC with one class for everything.

mod gate;
mod generator;
mod obeys;
mod watchdog;

pub use gate::{Gate, LastPause};
pub use generator::Generator;
pub(crate) use obeys::ObeysPauses;
pub use watchdog::{
    QueueObservation, StormCondition, StormCounters, StormPackets, Watchdog, WatchdogAction, WatchdogConfig,
    WatchdogEvent,
};
