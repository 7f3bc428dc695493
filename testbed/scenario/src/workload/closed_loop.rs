//! Hosts that always have so many messages under way.

use weir_units::Time;

use super::peers::refuse_twins;
use super::{Message, Peers, Rng, SizeCdf, WorkloadError, stream};

/// A closed loop: each host has so many messages under way, and begins another when one has been acknowledged.
///
/// When messages start depends on the network, so that there is no list of them. Whoever runs the loop asks for the messages of each host
/// one by one: [`ClosedLoop::source`], then [`ClosedLoop::next`] for each message that the host begins. What a host's n-th message is
/// depends neither on the network nor on which other hosts send.
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

/// What the messages of a [`ClosedLoop`] are, and how many.
#[derive(Clone, Debug)]
pub struct ClosedLoopTerms {
    /// The hosts that send, by number.
    pub senders: Vec<u32>,
    /// Whom they send to.
    pub receivers: Peers,
    /// How much a message has.
    pub sizes: SizeCdf,
    /// How many messages each host has under way.
    pub outstanding: u32,
    /// So many messages of each host; none for as many as there is time for.
    pub times: Option<u32>,
    /// When the first ones start.
    pub from: Time,
    /// All messages start earlier.
    pub until: Time,
    /// One seed gives one row of messages for each host.
    pub seed: u64,
}

impl ClosedLoop {
    /// # Errors
    /// A sender is twice in the list or has no peer, there is no sender, or no time.
    pub fn new(terms: ClosedLoopTerms) -> Result<ClosedLoop, WorkloadError> {
        let ClosedLoopTerms { mut senders, receivers, sizes, outstanding, times, from, until, seed } = terms;
        refuse_twins(&senders, "senders")?;
        senders.iter().try_for_each(|host| receivers.check(*host, 1))?;
        if until <= from {
            return Err(WorkloadError::NoTime { from, until });
        }
        senders.sort_unstable();
        Ok(ClosedLoop { senders, receivers, sizes, outstanding, times, from, until, seed })
    }

    /// The hosts that send, by number, in ascending order.
    pub fn senders(&self) -> &[u32] {
        &self.senders
    }

    /// How much a message has.
    pub fn sizes(&self) -> &SizeCdf {
        &self.sizes
    }

    /// How many messages each host begins with, at [`ClosedLoop::from`].
    pub fn first(&self) -> u32 {
        self.times.map_or(self.outstanding, |times| times.min(self.outstanding))
    }

    /// How many messages each host has under way.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// How many messages each host sends in all; none for as many as there is time for.
    pub fn times(&self) -> Option<u32> {
        self.times
    }

    /// When the first messages start.
    pub fn from(&self) -> Time {
        self.from
    }

    /// Whether a host that has begun so many messages begins another one at `at`.
    pub fn goes_on(&self, begun: u32, at: Time) -> bool {
        at < self.until && self.times.is_none_or(|times| begun < times)
    }

    /// When no message starts any more.
    pub fn until(&self) -> Time {
        self.until
    }

    /// The loop, where nothing starts from `end` on.
    pub fn before(&self, end: Time) -> ClosedLoop {
        ClosedLoop { until: self.until.min(end), ..self.clone() }
    }

    /// What a host's messages are drawn from.
    pub fn source(&self, sender: u32) -> Rng {
        Rng::stream(self.seed, stream::CLOSED_LOOP + u64::from(sender))
    }

    /// A host's next message.
    pub fn next(&self, sender: u32, source: &mut Rng, start: Time) -> Message {
        let to = self.receivers.choose(sender, source);
        Message { start, from: sender, to, size: self.sizes.sample(source) }
    }
}
