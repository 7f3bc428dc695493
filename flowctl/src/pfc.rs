//! PFC (IEEE 802.1Qbb), and 802.3x PAUSE, which is PFC with one class for everything.

mod gate;
mod generator;

pub use gate::Gate;
pub use generator::Generator;
