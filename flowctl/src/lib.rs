//! Flow control: the messages of a port to its peer, and the port's reaction to its peer's messages.
//!
//! Each flow control has two sides, both sans-I/O and used by the switch and the emulated hosts alike:
//! - the initiator (downstream), a [`MessageGenerator`], turns the buffer's state (classes in XOFF, queue lengths, free blocks)
//!   into frames, and repeats them in time;
//! - the receiver (upstream), a [`TxRegulator`], limits the classes by pauses, by credit, or by rates that [`ClassRateLimiters`] follow.
//!
//! A [`PortFlowControl`] creates both. [`pfc`] stops and starts a class; [`cbfc`] gives it credit; [`gfc`] slows it down and never
//! stops it. Frames are MAC control frames, [`weir_wire::mac_control`].
//!
//! Files choose among [`FLOW_CONTROLS`], each a file in [`kinds`]. A third-party crate adds a [`FlowControlKind`], whose
//! [`FlowControlConfig`] builds a [`FlowControl`], which creates both sides.
//!
//! ```
//! use weir_flowctl::kinds::Pfc;
//! use weir_flowctl::{PortFlowControl, TxRegulator};
//! use weir_units::{BitRate, Class, ClassSet, MacAddr, Span, Time};
//! use weir_wire::mac_control::{ControlFrame, PfcFrame};
//!
//! let class = Class::new(3).alone();
//! // A peer pauses class 3 for 1,000 quanta, 51.2 us at 10 Gb/s.
//! let pause = ControlFrame::Pfc(PfcFrame { enabled: class, times: [1_000; 8] });
//! let bytes = pause.encode(MacAddr::default());
//! let pfc = PortFlowControl::new(Pfc { quanta: u16::MAX, refresh_percent: 50 });
//! let regulator = TxRegulator::new(&pfc, BitRate::gbps(10), class);
//! regulator.handle(Time::ZERO, &ControlFrame::decode(&bytes).unwrap());
//! assert_eq!(regulator.paused(Time::ZERO), class);
//! assert_eq!(regulator.paused(Time::ZERO + Span::from_nanos(51_200)), ClassSet::EMPTY);
//! ```
//!
//! `examples/pfc_frame.rs` shows the frame's bytes as well.

#![forbid(unsafe_code)]

mod catch_up;
pub mod cbfc;
mod class_rate_limiters;
mod description;
mod flow_control_context;
pub mod gfc;
mod keys;
mod kind;
pub mod kinds;
mod message_generator;
mod message_kind;
pub mod pfc;
mod port_flow_control;
mod quanta;
mod rate_limiter;
mod receive_accounting;
mod shaper;
mod sides;
mod sync;
mod tx_backlog;
mod tx_regulator;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use catch_up::{CATCH_UP_PEAK, CatchUp, CatchUpLevel, LatePollTracker, PeakRateLimiter};
pub use class_rate_limiters::{ClassRateLimiters, RateUpdate};
pub use description::{Description, DescriptionPart};
pub use flow_control_context::FlowControlContext;
pub(crate) use kind::HEADROOM_VIOLATED;
pub use kind::{ConfigRejection, FlowControlChoice, FlowControlConfig, FlowControlKind, PortCheck, QueueLimit};
pub use kinds::{FLOW_CONTROLS, FOR_AN_EXPERIMENT};
pub use message_generator::MessageGenerator;
pub use message_kind::MessageKind;
pub use port_flow_control::{FlowControl, PortFlowControl, PortParameters};
pub use quanta::Quantum;
pub use rate_limiter::{RATE_MIN, RateLimiter};
pub use receive_accounting::ReceiveAccounting;
pub use shaper::{Shaper, wire_bytes};
pub use sides::{BufferState, FlowControlInitiator, FlowControlReceiver};
pub use tx_backlog::TxBacklog;
pub use tx_regulator::TxRegulator;
pub use weir_reader::{Gauge, Gauges};
