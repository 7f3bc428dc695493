//! In which order an egress queue serves the ingress ports that its frames came from.
//!
//! Files choose among [`ARBITRATIONS`], each a file here, by the `arbitration` of a class. A crate of someone else's adds one: an
//! [`ArbitrationKind`], which reads a queue's table; what the queue is [configured](Arbitrate) with; and an [`Arbiter`] for each
//! queue.
//!
//! ```
//! use weir_arbitration::{Arbiter, RoundRobin, Served};
//! use weir_units::{PortId, PortSet, PortsView};
//!
//! // Frames of ports 1 and 4 wait, and port 1 has had its turn.
//! let mut arbiter = RoundRobin::new(1);
//! arbiter.start(PortId(1));
//! let waiting = PortSet::of(&[PortId(1), PortId(4)]);
//! let served = Served { port: PortId(1), frame_bytes: 1_514, waiting: PortsView::of(&waiting) };
//! assert_eq!(arbiter.pass(served, &mut |_| 0), PortId(4));
//! ```

#![forbid(unsafe_code)]

mod arrival;
mod random;
mod round_robin;

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use weir_reader::{Key, Named, Registry, Table};
use weir_units::archive::{Archive, State};
use weir_units::{PortId, PortsView};

pub use arrival::Arrival;
pub use random::Random;
pub use round_robin::RoundRobin;

/// All arbitrations that files can choose, the order of arrival first, which is the default.
pub static ARBITRATIONS: Registry<dyn ArbitrationKind> =
    Registry::new("arbitration", &[&arrival::Arrival, &round_robin::KIND, &random::KIND]);

/// An arbitration that files choose by its name. Its keys stand beside `arbitration` in `[[classes.queues]]`.
pub trait ArbitrationKind: Named + Debug {
    /// Reads what a queue's table gives.
    fn read(&self, table: &Table<'_>) -> Arbitration;
}

/// An arbitration as a file gives it. It answers as what it is [configured](Arbitrate) with does.
#[derive(Clone, Debug)]
pub struct Arbitration(Arc<dyn Arbitrate>);

impl Arbitration {
    /// Queues are served so.
    pub fn new(arbitrate: impl Arbitrate + 'static) -> Arbitration {
        Arbitration(Arc::new(arbitrate))
    }
}

/// In the order of arrival.
impl Default for Arbitration {
    fn default() -> Arbitration {
        Arbitration::new(Arrival)
    }
}

impl Deref for Arbitration {
    type Target = dyn Arbitrate;

    fn deref(&self) -> &(dyn Arbitrate + 'static) {
        &*self.0
    }
}

/// What a class's queues are configured with.
pub trait Arbitrate: Debug + Send + Sync {
    /// The word that files have for it.
    fn kind(&self) -> &'static str;

    /// What serves one queue; `None` serves it in the order of arrival, which needs no choice.
    fn arbiter(&self) -> Option<Box<dyn Arbiter>>;
}

/// Chooses whose frame leaves one queue next. Frames of one ingress port keep their order.
///
/// The queue calls [`Arbiter::start`] when a frame comes and none is there, and [`Arbiter::pass`] after each frame that leaves others
/// behind. A call takes no lock and allocates nothing.
pub trait Arbiter: Debug + Send {
    /// Goes over what changes, for a checkpoint of a run in virtual time: derived by [`State`], and nothing where nothing changes. What
    /// does not say is refused by name where a checkpoint is asked for.
    fn checkpoint(&mut self, archive: &mut Archive) {
        archive.refuse(&format!("arbitration `{}`", std::any::type_name::<Self>()));
    }

    /// A frame of this port has come to an empty queue: it leaves next.
    fn start(&mut self, port: PortId);

    /// A frame has left. Returns the port whose frame leaves next, one of those that wait. `below` draws a number below the one
    /// that it is given, which is not 0.
    fn pass(&mut self, served: Served<'_>, below: &mut dyn FnMut(u32) -> u32) -> PortId;
}

impl State for dyn Arbiter {
    fn state(&mut self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

/// A frame that has left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served<'s> {
    /// The ingress port that it came from.
    pub port: PortId,
    /// Its length, without FCS.
    pub frame_bytes: u32,
    /// The ingress ports that frames in the queue came from: at least one.
    pub waiting: PortsView<'s>,
}

/// Frames sent of one port before the next one's turn, of those where ports take turns.
const BURST: Key = Key::new("arbitration_burst", "1", "frames sent of one port in a row");

fn burst(table: &Table<'_>) -> u32 {
    table.integer_or(&BURST, 1..=1_024) as u32
}

/// Counts a port's turn.
#[derive(Clone, Copy, Debug, State)]
struct Turn {
    burst: u32,
    /// Frames that the port may still send.
    left: u32,
}

impl Turn {
    fn of(burst: u32) -> Turn {
        Turn { burst, left: burst }
    }

    fn begin(&mut self) {
        self.left = self.burst;
    }

    /// Whether the port that was served goes on; if not, another's turn has begun.
    fn goes_on(&mut self, served: Served<'_>) -> bool {
        self.left = self.left.saturating_sub(1);
        let goes_on = self.left > 0 && served.waiting.contains(served.port);
        if !goes_on {
            self.begin();
        }
        goes_on
    }
}
