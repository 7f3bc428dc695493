//! Closed-loop workloads: hosts with a constant number of outstanding messages.

use weir_units::Time;

use super::peers::refuse_duplicates;
use super::{Message, Peers, Rng, SizeCdf, WorkloadError, stream};

/// Closed loop: each host keeps a number of messages outstanding, and begins another on each acknowledgement.
///
/// Starts depend on the network, so there is no list of messages. The caller draws each host's messages: [`ClosedLoop::source`] once,
/// then [`ClosedLoop::next`] for each message that the host begins. A host's n-th message depends neither on the network nor on other
/// senders.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    senders: Vec<u32>,
    receivers: Peers,
    sizes: SizeCdf,
    outstanding: u32,
    times: Option<u32>,
    from: Time,
    until: Time,
    seed: u64,
}

/// Parameters of a [`ClosedLoop`].
#[derive(Clone, Debug)]
pub struct ClosedLoopConfig {
    /// Sending hosts, by number.
    pub senders: Vec<u32>,
    /// Receivers of each sender.
    pub receivers: Peers,
    /// Message sizes.
    pub sizes: SizeCdf,
    /// Number of outstanding messages of each host.
    pub outstanding: u32,
    /// Number of messages of each host; `None` for no limit.
    pub times: Option<u32>,
    /// Start of the first messages.
    pub from: Time,
    /// End: all messages start earlier.
    pub until: Time,
    /// Seed; it determines each host's sequence of messages.
    pub seed: u64,
}

impl ClosedLoop {
    /// Creates the loop.
    ///
    /// # Errors
    /// A sender is twice in the list or has no peer; there is no sender; or the range of time is empty.
    pub fn new(terms: ClosedLoopConfig) -> Result<ClosedLoop, WorkloadError> {
        let ClosedLoopConfig { mut senders, receivers, sizes, outstanding, times, from, until, seed } = terms;
        refuse_duplicates(&senders, "senders")?;
        senders.iter().try_for_each(|host| receivers.check(*host, 1))?;
        if until <= from {
            return Err(WorkloadError::NoTime { from, until });
        }
        senders.sort_unstable();
        Ok(ClosedLoop { senders, receivers, sizes, outstanding, times, from, until, seed })
    }

    /// Sending hosts, by number, in ascending order.
    pub fn senders(&self) -> &[u32] {
        &self.senders
    }

    /// Message sizes.
    pub fn sizes(&self) -> &SizeCdf {
        &self.sizes
    }

    /// Number of messages that each host begins with, at [`ClosedLoop::from`].
    pub fn first(&self) -> u32 {
        self.times.map_or(self.outstanding, |times| times.min(self.outstanding))
    }

    /// Number of outstanding messages of each host.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Number of messages of each host; `None` for no limit.
    pub fn times(&self) -> Option<u32> {
        self.times
    }

    /// Start of the first messages.
    pub fn from(&self) -> Time {
        self.from
    }

    /// Whether a host that has begun `begun` messages begins another at `at`.
    pub fn goes_on(&self, begun: u32, at: Time) -> bool {
        at < self.until && self.times.is_none_or(|times| begun < times)
    }

    /// Instant from which no message starts.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Returns the loop without messages that start at `end` or later.
    pub fn before(&self, end: Time) -> ClosedLoop {
        ClosedLoop { until: self.until.min(end), ..self.clone() }
    }

    /// Returns the random number generator of a host's messages.
    pub fn source(&self, sender: u32) -> Rng {
        Rng::stream(self.seed, stream::CLOSED_LOOP + u64::from(sender))
    }

    /// Draws a host's next message.
    pub fn next(&self, sender: u32, source: &mut Rng, start: Time) -> Message {
        let to = self.receivers.choose(sender, source);
        Message { start, from: sender, to, size: self.sizes.sample(source) }
    }
}
