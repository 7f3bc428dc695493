//! Kinds of buffer policy: selection by name, settings from the file, and construction of the policy.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_reader::{Doc, Gauge, Key, Plugin, Problem, Table, Unit};
use weir_units::{Alpha, BitRate, Bytes, Span};

use super::departures::WindowClock;
use super::{BufferPolicy, LayoutRequirements, QueueView};
use crate::layout::BufferLayout;
use crate::xon::Xon;

/// Kind of buffer policy, selected by `[buffer] policy`, with a table of its own, `[buffer.NAME]`.
pub trait BufferPolicyKind: Plugin + Debug {
    /// Parses the policy's table, which is empty if the file has none. Errors are recorded in the table's document; an invalid key reads as
    /// its default.
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig>;
}

/// Settings of a buffer policy from a file: checks them against the rest of the file and builds the policy.
///
/// Call order: [`layout_requirements`](BufferPolicyConfig::layout_requirements) first, for the partition of the buffer. Then
/// [`check`](BufferPolicyConfig::check) once, and [`check_sizes`](BufferPolicyConfig::check_sizes) if every key that sizes derive from is
/// valid. In a file without errors, [`build`](BufferPolicyConfig::build) creates the policy, once for each switch.
pub trait BufferPolicyConfig: Any + Debug + Send + Sync {
    /// Kind of the policy.
    fn kind(&self) -> &'static dyn BufferPolicyKind;

    /// Policy's requirements for the partition of the buffer.
    fn layout_requirements(&self) -> LayoutRequirements;

    /// Builds the policy over a partition.
    ///
    /// # Errors
    /// The policy does not support ports of these rates.
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError>;

    /// Records conflicts with the rest of the file, other than sizes.
    fn check(&self, _file: &ConfigContext<'_>) {}

    /// Records conflicts with the buffer's sizes.
    fn check_sizes(&self, _file: &ConfigContext<'_>, _sizes: &BufferSizes<'_>) {}

    /// Constant T, of the key `threshold`, if the policy has one.
    fn constant_threshold(&self) -> Option<ConstantThreshold> {
        None
    }

    /// Key of the window in which departures are counted, if any. The bytes that can depart in a window are bounded.
    fn window_key(&self) -> Option<&'static Key<Span>> {
        None
    }

    /// Whether a port may have its own α ([`BuildContext::alphas`]).
    fn takes_alphas_of_ports(&self) -> bool {
        false
    }

    /// Whether the shared segment may have slices: thresholds follow from queue lengths and pools alone.
    fn takes_slices(&self) -> bool {
        false
    }

    /// Warning why the policy may lose lossless frames, where its layout requirements do not imply one.
    fn warning(&self) -> Option<&'static str> {
        None
    }
}

/// Context from the rest of the file, for a policy's checks.
#[derive(Debug)]
pub struct ConfigContext<'f> {
    /// Document that collects errors.
    pub doc: &'f Doc,
    /// `[buffer] size`.
    pub size: Bytes,
    /// `[buffer] headroom`: Φ of each lossless ingress queue; `None` if the headroom rule sets it.
    pub headroom: Option<Bytes>,
    /// `[buffer] xon_offset` (δ, or its default) and `xon_floor`.
    pub xon: Xon,
    /// Number of lossless classes.
    pub lossless_classes: u32,
}

/// Sizes of the buffer that follow from a file.
#[derive(Debug)]
pub struct BufferSizes<'f> {
    /// Whether private buffers, headroom and a given ingress pool fit into the buffer.
    pub fit: bool,
    /// B_s: the buffer less private buffers and headroom, or the ingress pool.
    pub shared: Bytes,
    /// Part of one slice in B_s.
    pub shared_of_slice: Bytes,
    /// Sizes of each port, in the file's order.
    pub ports: &'f [PortSizes<'f>],
}

/// Sizes of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortSizes<'f> {
    /// Name of the port.
    pub name: &'f str,
    /// Headroom Φ of each of the port's lossless ingress queues; `None` if unknown.
    pub headroom: Option<Bytes>,
}

/// Switch for which a policy is built. Lists are in port order.
#[derive(Debug)]
pub struct BuildContext<'c> {
    /// Partition of the buffer, as the policy requires.
    pub layout: &'c BufferLayout,
    /// C of each port.
    pub rates: &'c [BitRate],
    /// Factor α of each port that has its own, for policies that [take it](BufferPolicyConfig::takes_alphas_of_ports).
    pub alphas: &'c [Option<Alpha>],
    /// Whether each port's peer is a host that the port pauses by PFC or PAUSE, at a known rate.
    pub hosts: &'c [bool],
    /// Rate of charges of each port, in whole cells, under the frame length that fills the buffer fastest.
    pub fill_rates: &'c [BitRate],
    /// Maximum charge of one frame, in bytes.
    pub frame_max: Bytes,
    /// Hysteresis δ, in bytes.
    pub xon_offset: Bytes,
    /// Maximum reaction time of the switch from an arrival to the PAUSE: the part of Φ that does not depend on the link.
    pub reaction: Span,
}

/// Threshold that does not change over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantThreshold {
    /// Threshold from the file.
    Given(Bytes),
    /// Share of each port, B_s / N_p.
    EvenShare,
}

/// Reason why a policy can't be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Key of the policy's table that causes the error.
    pub key: &'static str,
    /// Error message, a sentence.
    pub message: String,
    /// Suggested correction.
    pub help: String,
}

/// Key of α● of the lossless ingress queues, which [`BufferPolicy::update_config`] must update.
pub const ALPHA: Key<Alpha> =
    Key::alpha("alpha", "α (α●): factor of the lossless ingress queues' thresholds").or("1").live();

/// Sizes above zero, up to the largest buffer.
pub(super) const SIZES: RangeInclusive<Bytes> = Bytes::new(1)..=BufferLayout::CONFIGURED_MAX;

/// Gauge of a queue's headroom, as estimated by DSH or measured by adaptive headroom.
pub const HEADROOM_ESTIMATE: Gauge = Gauge::new(
    "headroom_estimate_bytes",
    Unit::Bytes,
    "headroom estimate",
    "DSH: the estimate φ̂ of each queue; adaptive headroom: Φ as measured.",
)
.titled("Headroom as the policy reckons it");

/// Key of the length from which a queue counts as congested; the default is that of Reverie's public simulator.
pub(super) const CONGESTED: Key<Bytes> = Key::size(
    "congested",
    SIZES,
    "length from which a queue counts in n_p, the number of congested queues of its class",
)
.or("20KiB");

/// Key of whether shorter queues count in n_p in proportion to their length.
pub(super) const CONGESTED_PARTLY: Key<bool> = Key::boolean(
    "congested_partly",
    "whether queues shorter than `congested` count in n_p by their fraction of it (under `reverie` by that of q̂); \
     n_p is at least 1",
)
.or("false");

/// Key of the events at which a queue's share of n_p is updated.
pub(super) const CONGESTED_AT: Key<CongestedAt> = Key::choice(
    "congested_at",
    &[("events", CongestedAt::Events), ("arrivals", CongestedAt::Arrivals)],
    "events at which n_p changes: arrivals and departures, or arrivals and those departures that may resume an OFF queue",
)
.or("events");

/// Events at which a queue's share of n_p is updated: the key `congested_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestedAt {
    /// Arrivals and departures.
    Events,
    /// Arrivals, and departures after which an OFF queue may resume. A queue without arrivals keeps its share from its last arrival.
    Arrivals,
}

impl CongestedAt {
    /// Returns whether a departure from this queue updates its share of n_p.
    #[inline]
    pub(super) fn departures_of(self, queue: &QueueView) -> bool {
        self == CongestedAt::Events || queue.off && queue.headroom == 0
    }
}

impl ConfigContext<'_> {
    /// Records an error if the file gives a headroom although the headroom rule sets it. `policy` is the message's predicate.
    pub(crate) fn refuse_given_headroom(&self, policy: &str) {
        let Some(size) = self.headroom else { return };
        let message = format!("`policy` {policy}, but `headroom` is {size}");
        let help = "write headroom = \"auto\", or policy = \"dt\" with the headroom given";
        self.doc.note(
            Problem::new(message, help).with_label("buffer.headroom", "").with_label("buffer.policy", "the policy"),
        );
    }
}

impl dyn BufferPolicyConfig {
    /// Policy's name.
    pub fn name(&self) -> &'static str {
        self.kind().id()
    }

    /// Path of one of the policy's keys in the file.
    pub fn key_path(&self, key: &str) -> String {
        format!("buffer.{}.{key}", self.name())
    }

    /// Whether one of the policy's keys is [live](Key::live): [`BufferPolicy::update_config`] changes it at run time. Other keys set the
    /// buffer's partition, filters and windows at start.
    pub fn is_live(&self, key: &str) -> bool {
        self.kind().keys().iter().any(|own| own.name() == key && own.is_live())
    }

    /// Downcasts the settings; `None` if they are of another type.
    pub fn downcast<T: BufferPolicyConfig>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

impl ConstantThreshold {
    /// Returns T for a shared segment of this size.
    pub fn threshold(self, shared: Bytes, ports: usize) -> Bytes {
        match self {
            ConstantThreshold::Given(threshold) => threshold,
            ConstantThreshold::EvenShare => shared.divided_by(ports.max(1) as u64),
        }
    }
}

impl PolicyError {
    /// Creates the error of a window in which more bytes can depart than the counter holds.
    pub fn window(key: &Key<Span>, rates: &[BitRate]) -> PolicyError {
        let longest = longest_window(rates);
        PolicyError {
            key: key.name,
            message: format!(
                "the fastest port sends more in this window than the counter holds (longest window: {longest})"
            ),
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

/// Longest window, in whole microseconds, in which the fastest port's departures can be counted.
pub fn longest_window(rates: &[BitRate]) -> Span {
    let fastest = rates.iter().copied().max().unwrap_or(BitRate::gbps(1));
    Span::from_micros(fastest.time_for(Bytes::new(WindowClock::BYTES_MAX)).as_micros())
}
