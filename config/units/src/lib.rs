//! Units of Weir: instants and spans in picoseconds, bytes, bit rates, MAC addresses, ports and classes, and the fixed-point factor α of
//! the buffer policies. [`SplitMix64`] is here too, since all crates depend on this one.
//!
//! Every unit is an integer behind a newtype, so that rates and sizes can't be confused, and no float enters the packet path. Time is in
//! **picoseconds**: a byte takes a whole number of them at every Ethernet rate from 1 Mb/s to 400 Gb/s (80 ps at 100 Gb/s, 20 ps at 400
//! Gb/s), so serialisation times add up without rounding. A `u64` of picoseconds lasts 213 days.
//!
//! ```
//! use weir_units::{BitRate, Bytes, Span};
//!
//! // A full frame with preamble, FCS and gap takes 1,230.4 ns at 10 Gb/s.
//! let frame = Bytes::new(1_538);
//! assert_eq!(BitRate::gbps(10).time_for(frame), Span::from_picos(1_230_400));
//! assert_eq!(BitRate::gbps(10).bytes_in(Span::from_micros(1)), Bytes::new(1_250));
//! ```

#![forbid(unsafe_code)]

mod alpha;
mod bytes;
mod cells;
mod count;
mod decimal;
mod drop_reason;
mod ids;
mod large_port_set;
mod mac;
mod parse;
mod rate;
mod serialisation_rounding;
mod sets;
mod split_mix;
mod time;

pub use alpha::{Alpha, AlphaError};
pub use bytes::{Bytes, FCS_BYTES, FRAME_BYTES_MIN, LINK_OVERHEAD, WIRE_OVERHEAD_BYTES};
pub use cells::{in_cells, span_in_cells};
pub use count::count;
pub use drop_reason::DropReason;
pub use ids::{CLASSES, Class, PortId, QueueId};
pub use large_port_set::{LargePortSet, LargePorts, PortBitmap, PortSetRef};
pub use mac::MacAddr;
pub use parse::UnitError;
pub use rate::{BitRate, SerialisationDelay};
pub use serialisation_rounding::SerialisationRounding;
pub use sets::{ClassSet, Classes, PortSet, Ports, bits};
pub use split_mix::SplitMix64;
pub use time::{Span, Time};
