//! Arbitration: the order in which an egress queue serves the ingress ports of its frames.
//!
//! Files choose among [`ARBITERS`], each in a file here, by the `arbitration` of a class. Another crate adds one with an
//! [`ArbiterKind`], which parses a queue's table; its [configuration](ArbiterConfig); and an [`Arbiter`] for each queue.
//!
//! ```
//! use weir_arbitration::{Arbiter, DequeuedFrame, RoundRobin};
//! use weir_units::{PortId, PortSet, PortSetRef};
//!
//! // Frames of ports 1 and 4 wait, and port 1 has had its turn.
//! let mut arbiter = RoundRobin::new(1);
//! arbiter.start(PortId(1));
//! let waiting = PortSet::from_members(&[PortId(1), PortId(4)]);
//! let served = DequeuedFrame { port: PortId(1), frame_bytes: 1_514, waiting: PortSetRef::new(&waiting) };
//! assert_eq!(arbiter.select_next(served, &mut |_| 0), PortId(4));
//! ```

#![forbid(unsafe_code)]

mod fifo;
mod random;
mod round_robin;

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Key, Plugin, Registry, Table};
use weir_units::{PortId, PortSetRef};

pub use fifo::Fifo;
pub use random::Random;
pub use round_robin::RoundRobin;

/// Registry of the arbitrations that files can choose. The first one, the order of arrival, is the default.
pub static ARBITERS: Registry<dyn ArbiterKind> =
    Registry::new("arbitration", &[&fifo::Fifo, &round_robin::KIND, &random::KIND]);

/// Arbitration that files choose by name. Its keys are next to `arbitration` in `[[classes.queues]]`.
pub trait ArbiterKind: Plugin + Debug {
    /// Parses the table of a queue.
    fn read(&self, table: &Table<'_>) -> ArbiterChoice;
}

/// Chosen arbitration; dereferences to its [configuration](ArbiterConfig).
#[derive(Clone, Debug)]
pub struct ArbiterChoice(Arc<dyn ArbiterConfig>);

impl ArbiterChoice {
    /// Wraps a configuration.
    pub fn new(config: impl ArbiterConfig + 'static) -> ArbiterChoice {
        ArbiterChoice(Arc::new(config))
    }
}

/// Order of arrival.
impl Default for ArbiterChoice {
    fn default() -> ArbiterChoice {
        ArbiterChoice::new(Fifo)
    }
}

impl Deref for ArbiterChoice {
    type Target = dyn ArbiterConfig;

    fn deref(&self) -> &(dyn ArbiterConfig + 'static) {
        &*self.0
    }
}

/// Configuration of an arbitration for the queues of a class.
pub trait ArbiterConfig: Debug + Send + Sync {
    /// Returns the name in files.
    fn kind(&self) -> &'static str;

    /// Returns the arbiter of one queue; `None` for the order of arrival, which needs no choice.
    fn arbiter(&self) -> Option<Box<dyn Arbiter>>;
}

/// Arbiter of one queue, which chooses the ingress port of the next frame. Frames of one ingress port keep their order.
///
/// The queue calls [`Arbiter::start`] when a frame enters the empty queue, and [`Arbiter::select_next`] after each frame that leaves others
/// behind. Frames that need not wait may bypass the queue. A call takes no lock and allocates nothing.
pub trait Arbiter: Debug + Send {
    /// Starts with the port of a frame that entered the empty queue; the frame leaves next.
    fn start(&mut self, port: PortId);

    /// Returns the port whose frame leaves next, one of the waiting ones, after a frame has left. `below(n)` draws a number below `n`,
    /// which must not be 0.
    fn select_next(&mut self, served: DequeuedFrame<'_>, below: &mut dyn FnMut(u32) -> u32) -> PortId;
}

/// Frame that has left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequeuedFrame<'s> {
    /// Ingress port of the frame.
    pub port: PortId,
    /// Length of the frame in bytes, without FCS.
    pub frame_bytes: u32,
    /// Ingress ports of the remaining frames in the queue: at least one.
    pub waiting: PortSetRef<'s>,
}

/// Key of the burst: frames sent of one port before the next port's turn.
const BURST: Key<u32> = Key::<u32>::integer(
    "arbitration_burst",
    1..=1_024,
    "frames of one ingress port in a row; not with `arbitration = \"arrival\"`",
)
.or("1")
.restart("egress queues are created for one arbitration at the start");

/// Remaining frames of a port's burst.
#[derive(Clone, Copy, Debug)]
struct BurstCounter {
    burst: u32,
    /// Frames that the port may still send.
    left: u32,
}

impl BurstCounter {
    fn new(burst: u32) -> BurstCounter {
        BurstCounter { burst, left: burst }
    }

    fn begin(&mut self) {
        self.left = self.burst;
    }

    /// Whether the served port continues; if not, another port's turn has begun.
    fn goes_on(&mut self, served: DequeuedFrame<'_>) -> bool {
        self.left = self.left.saturating_sub(1);
        let goes_on = self.left > 0 && served.waiting.contains(served.port);
        if !goes_on {
            self.begin();
        }
        goes_on
    }
}
