//! Kinds of buffer policy: what a file chooses by name, what it says of one, and what a switch makes of that.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use weir_reader::{Doc, Gauge, Key, Named, Problem, SIZE, Table, Unit};
use weir_units::{Alpha, BitRate, Bytes, Span};

use super::departures::Windows;
use super::{LayoutNeeds, Policy, QueueView};
use crate::layout::BufferLayout;
use crate::xon::Xon;

/// A policy that files choose by `[buffer] policy`, with a table of its own, `[buffer.NAME]`.
pub trait PolicyKind: Named + Debug {
    /// Reads the policy's table, which is empty where the file has none. Faults are noted in the table's document, and
    /// reads as its default.
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings>;
}

/// What a file says of its policy. Rules with the rest of the file are checked here, and the policy is built of it.
///
/// [`needs`](PolicySettings::needs) comes first: it says how the buffer is cut. Then [`check`](PolicySettings::check) is called
/// once, and [`check_sizes`](PolicySettings::check_sizes) if all that sizes come from was read well. In a file without errors
/// [`build`](PolicySettings::build) makes the policy, once for each switch.
pub trait PolicySettings: Any + Debug + Send + Sync {
    /// Its kind.
    fn kind(&self) -> &'static dyn PolicyKind;

    /// What it needs of the buffer's partition.
    fn needs(&self) -> LayoutNeeds;

    /// The policy over a partition.
    ///
    /// # Errors
    /// It can't work with ports of these rates.
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError>;

    /// Notes what does not go together with the rest of the file, sizes apart.
    fn check(&self, _file: &FileFacts<'_>) {}

    /// Notes what does not go together with the buffer's sizes.
    fn check_sizes(&self, _file: &FileFacts<'_>, _sizes: &Sizes<'_>) {}

    /// T, if it stays where it is. Its key is `threshold`.
    fn constant_threshold(&self) -> Option<ConstantThreshold> {
        None
    }

    /// The key of the time in which departures are counted, if they are: how much can depart in it is bounded.
    fn window_key(&self) -> Option<&'static Key> {
        None
    }

    /// The keys that may change while lcores go on, by [`Policy::retune`]. What the others set is made at the start: the buffer's
    /// partition, filters, windows.
    fn live_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a port may have an α of its own: [`BuildContext::alphas`].
    fn takes_alphas_of_ports(&self) -> bool {
        false
    }

    /// Why lossless frames may be lost under it, where its needs do not say so.
    fn warning(&self) -> Option<&'static str> {
        None
    }
}

/// The rest of a file, for a policy's rules.
#[derive(Debug)]
pub struct FileFacts<'f> {
    /// Where errors are noted.
    pub doc: &'f Doc,
    /// `[buffer] size`.
    pub size: Bytes,
    /// `[buffer] headroom`: Φ of each lossless ingress queue, or `None` where the rule sets it.
    pub headroom: Option<Bytes>,
    /// `[buffer] xon_offset`, δ, or its default, and `xon_floor`.
    pub xon: Xon,
    /// How many classes are lossless.
    pub lossless_classes: u32,
}

/// The buffer's sizes that follow from a file.
#[derive(Debug)]
pub struct Sizes<'f> {
    /// Whether private buffers and headroom, and the ingress pool where its size is given, fit the buffer.
    pub fit: bool,
    /// B_s: what private buffers and headroom leave of the buffer, or the ingress pool.
    pub shared: Bytes,
    /// The ports in the file's order.
    pub ports: &'f [PortSizes<'f>],
}

/// A port's sizes.
#[derive(Clone, Copy, Debug)]
pub struct PortSizes<'f> {
    /// The port's name.
    pub name: &'f str,
    /// Φ of each of its lossless ingress queues; `None` where nothing tells.
    pub headroom: Option<Bytes>,
}

/// What a policy is built for. Lists are in the order of the ports.
#[derive(Debug)]
pub struct BuildContext<'c> {
    /// The partition, by the policy's needs.
    pub layout: &'c BufferLayout,
    /// C of each port.
    pub rates: &'c [BitRate],
    /// α of each port that has its own, for policies that [take it](PolicySettings::takes_alphas_of_ports).
    pub alphas: &'c [Option<Alpha>],
    /// The rate at which the frames that fill the buffer most do so, charged in whole cells, by port.
    pub fill_rates: &'c [BitRate],
    /// The most that one frame is charged.
    pub frame_max: Bytes,
    /// δ.
    pub xon_offset: Bytes,
    /// How long the switch itself may take from an arrival to the PAUSE: what Φ by the rule has beside the link's part.
    pub reaction: Span,
}

/// A threshold that stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantThreshold {
    /// As the file gives it.
    Given(Bytes),
    /// B_s / N_p.
    EvenShare,
}

/// Why a policy can't be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The key of its table that is to blame.
    pub key: &'static str,
    /// The error, as a sentence.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// α● of the lossless ingress queues.
pub const ALPHA: Key = Key::new("alpha", "1", "α of the lossless ingress queues");

/// The headroom that a queue needs, as DSH and adaptive headroom reckon it.
pub const HEADROOM_ESTIMATE: Gauge = Gauge::new(
    "headroom_estimate_bytes",
    Unit::Bytes,
    "headroom estimate",
    "DSH: the estimate φ̂ of each queue; adaptive headroom: Φ as measured.",
)
.titled("Headroom as the policy reckons it");

/// The length from which a queue is congested: that of Reverie's public simulator.
pub(super) const CONGESTED: Key = Key::new("congested", "20480B", "a queue counts in n_p from this length on");

/// Whether shorter queues count in n_p by their part.
pub(super) const CONGESTED_PARTLY: Key =
    Key::new("congested_partly", "false", "whether a shorter queue counts in n_p by its part of that length");

/// When a queue's part of n_p is looked at.
pub(super) const CONGESTED_AT: Key = Key::new(
    "congested_at",
    "events",
    "when it is looked at whether a queue counts: at its events (arrivals and departures), or at its arrivals",
);

/// `congested_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestedAt {
    /// Arrivals and departures.
    Events,
    /// Arrivals, and departures after which it is asked whether an OFF queue resumes. A queue that nothing comes for counts as it did
    /// at its last arrival.
    Arrivals,
}

/// The words of `congested_at`.
pub(super) const CONGESTED_AT_WORDS: &[(&str, CongestedAt)] =
    &[("events", CongestedAt::Events), ("arrivals", CongestedAt::Arrivals)];

impl CongestedAt {
    /// Whether a queue that a packet has left is looked at.
    #[inline]
    pub(super) fn departures_of(self, queue: &QueueView) -> bool {
        self == CongestedAt::Events || queue.off && queue.headroom == 0
    }
}

/// A size that is not nothing.
pub(super) fn size(table: &Table<'_>, key: &Key) -> Option<Bytes> {
    table.quantity(key.name, &SIZE, Bytes::new(1)..=BufferLayout::CONFIGURED_MAX)
}

/// A size that is not nothing, or its default.
pub(super) fn size_or(table: &Table<'_>, key: &Key) -> Bytes {
    table.quantity_or(key, &SIZE, Bytes::new(1)..=BufferLayout::CONFIGURED_MAX)
}

/// A size that may be nothing.
pub(super) fn size_or_none(table: &Table<'_>, key: &Key) -> Bytes {
    table.quantity_or(key, &SIZE, Bytes::ZERO..=BufferLayout::CONFIGURED_MAX)
}

impl FileFacts<'_> {
    /// For a policy whose headroom the rule sets: notes that the file gives one all the same. `policy` says what the policy does.
    pub(crate) fn refuse_given_headroom(&self, policy: &str) {
        let Some(size) = self.headroom else { return };
        let message = format!("`policy` {policy}, but `headroom` is {size}");
        let help = "write headroom = \"auto\", or policy = \"dt\" with the headroom given";
        self.doc.note(Problem::new(message, help).at("buffer.headroom", "").at("buffer.policy", "the policy"));
    }
}

impl dyn PolicySettings {
    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The path of one of the policy's keys in the file.
    pub fn at(&self, key: &str) -> String {
        format!("buffer.{}.{key}", self.name())
    }

    /// These settings as the type that they are of; `None` if they are of another.
    pub fn downcast<T: PolicySettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

impl ConstantThreshold {
    /// T of a shared segment.
    pub fn of(self, shared: Bytes, ports: usize) -> Bytes {
        match self {
            ConstantThreshold::Given(threshold) => threshold,
            ConstantThreshold::EvenShare => shared.divided_by(ports.max(1) as u64),
        }
    }
}

impl PolicyError {
    /// A window in which more can depart than is counted.
    pub fn window(key: &Key, rates: &[BitRate]) -> PolicyError {
        let longest = longest_window(rates);
        PolicyError {
            key: key.name,
            message: format!("the fastest port sends more in this window than is counted; {longest} is the longest"),
            help: format!("write \"{longest}\" or less"),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PolicyError {}

/// The longest window in which the fastest port's departures are counted, in whole microseconds.
pub fn longest_window(rates: &[BitRate]) -> Span {
    let fastest = rates.iter().copied().max().unwrap_or(BitRate::gbps(1));
    Span::from_micros(fastest.time_for(Bytes::new(Windows::BYTES_MAX)).as_micros())
}
