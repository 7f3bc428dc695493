//! Gentle Flow Control: the queue's length sets the peer's rate, which is never zero, so that no class holds and
//! waits (Qian et al., "Gentle Flow Control: Avoiding Deadlock in Lossless Networks", SIGCOMM 2019; "gfc" below).

mod conceptual;
pub mod length;
mod pulse;
mod rates;
pub mod stage;
mod thresholds;
pub mod time_based;

pub use conceptual::RateMapping;
pub use pulse::ArrivalCounters;
pub(crate) use pulse::Pulse;
pub use rates::{AdvertisedRate, ClassRates};
pub use thresholds::{
    StageTable, ThresholdError, buffer_based_b1_max, conceptual_b0_max, feedback_delay_max, time_based_b0_max,
};
