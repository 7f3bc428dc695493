//! Poisson traffic: hosts send at random instants, each independently of the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

use super::instants::later;
use super::peers::refuse_duplicates;
use super::{Load, Message, Peers, Rng, SizeCdf, WorkloadError, stream};

/// Hosts that are each a Poisson source: gaps between messages are exponential, sizes follow a distribution, and each message goes to one
/// of the host's peers.
///
/// A host's messages do not depend on other senders.
#[derive(Clone, Debug)]
pub struct Poisson {
    /// Sending hosts, by number.
    pub senders: Vec<u32>,
    /// Receivers of each sender.
    pub receivers: Peers,
    /// Message sizes.
    pub sizes: SizeCdf,
    /// Load of each host, as a share of its link.
    pub load: Load,
    /// Start of the sources: the first message of each is a gap later.
    pub from: Time,
    /// End: all messages start earlier.
    pub until: Time,
    /// Seed; it determines the list of messages. Workloads of one run should have different seeds.
    pub seed: u64,
}

/// Messages of a [`Poisson`] workload, by start; at one instant, in the senders' order.
#[derive(Clone, Debug)]
pub struct PoissonMessages {
    receivers: Peers,
    sizes: SizeCdf,
    mean_gap_ps: f64,
    until: Time,
    sources: Vec<(u32, Rng)>,
    /// Next start of each source, with the index of the source.
    next: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Poisson {
    /// Returns the messages, drawn on demand.
    ///
    /// # Errors
    /// A sender is twice in the list or has no peer; there is no sender; or the range of time is empty.
    pub fn messages(self) -> Result<PoissonMessages, WorkloadError> {
        let Poisson { senders, receivers, sizes, load, from, until, seed } = self;
        refuse_duplicates(&senders, "senders")?;
        senders.iter().try_for_each(|host| receivers.check(*host, 1))?;
        if until <= from {
            return Err(WorkloadError::NoTime { from, until });
        }
        let mean_gap_ps = load.mean_gap_ps(&sizes);
        let mut sources: Vec<_> =
            senders.iter().map(|host| (*host, Rng::stream(seed, stream::POISSON + u64::from(*host)))).collect();
        let firsts =
            sources.iter_mut().zip(0..).map(|((_, rng), place)| Reverse((later(from, mean_gap_ps, rng), place)));
        let next = firsts.collect();
        Ok(PoissonMessages { receivers, sizes, mean_gap_ps, until, sources, next })
    }
}

impl Iterator for PoissonMessages {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let mut earliest = self.next.peek_mut()?;
        let Reverse((start, place)) = *earliest;
        if start >= self.until {
            return None;
        }
        let (from, rng) = &mut self.sources[place as usize];
        let (from, size) = (*from, self.sizes.sample(rng));
        let to = self.receivers.choose(from, rng);
        *earliest = Reverse((later(start, self.mean_gap_ps, rng), place));
        Some(Message { start, from, to, size })
    }
}
