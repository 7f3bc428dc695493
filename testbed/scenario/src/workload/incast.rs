//! Bursts of many hosts to one.

use weir_units::{Span, Time};

use super::peers::refuse_duplicates;
use super::{Instants, Message, Peers, Rng, SizeCdf, WorkloadError, stream};

/// Bursts in which several hosts send to one at the same instant.
///
/// The order of the senders is drawn for each burst: where messages of one instant are served in their order, no sender is always first.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Starts of bursts.
    pub instants: Instants,
    /// Hosts that may receive a burst, with equal probability.
    pub receivers: Vec<u32>,
    /// Senders of a burst.
    pub senders: Senders,
    /// Size of each message.
    pub sizes: SizeCdf,
    /// Whether all messages of a burst have one size, drawn for each burst; otherwise each has its own.
    pub equal_sizes: bool,
    /// Maximum delay of a message after its burst's start, uniformly distributed; zero for none.
    pub jitter: Span,
    /// Seed; it determines the list of messages. Workloads of one run should have different seeds.
    pub seed: u64,
}

/// Senders of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// All hosts listed, except the receiver.
    These(Vec<u32>),
    /// A number of the receiver's peers, drawn for each burst.
    Several(Peers, usize),
    /// All hosts of a group without the receiver, such as a rack; the group is drawn for each burst.
    OneGroup(Peers),
}

impl Incast {
    /// Returns the messages, by start.
    ///
    /// # Errors
    /// There are no receivers, or too few senders for one of them; a host is twice in a list; or the range of time is empty.
    pub fn messages(&self) -> Result<Vec<Message>, WorkloadError> {
        self.instants.check()?;
        refuse_duplicates(&self.receivers, "receivers")?;
        self.receivers.iter().try_for_each(|receiver| self.senders.check(*receiver))?;
        let mut rng = Rng::stream(self.seed, stream::INCAST);
        let mut messages = Vec::new();
        for burst in self.instants.iter(Rng::stream(self.seed, stream::INSTANTS)) {
            let to = self.receivers[rng.index(self.receivers.len())];
            let senders = self.senders.choose(to, &mut rng);
            let of_all = self.equal_sizes.then(|| self.sizes.sample(&mut rng));
            for from in senders {
                let size = of_all.unwrap_or_else(|| self.sizes.sample(&mut rng));
                messages.push(Message { start: self.delayed(burst, &mut rng), from, to, size });
            }
        }
        messages.sort_by_key(|message| message.start);
        Ok(messages)
    }

    fn delayed(&self, burst: Time, rng: &mut Rng) -> Time {
        match self.jitter {
            Span::ZERO => burst,
            jitter => burst.saturating_add(Span::from_picos(rng.below(jitter.as_picos().saturating_add(1)))),
        }
    }
}

impl Senders {
    fn check(&self, receiver: u32) -> Result<(), WorkloadError> {
        match self {
            Senders::These(hosts) => {
                refuse_duplicates(hosts, "senders")?;
                if hosts == &[receiver] { Err(WorkloadError::ToItself(receiver)) } else { Ok(()) }
            }
            Senders::Several(_, 0) => Err(WorkloadError::NoHosts("senders")),
            Senders::Several(peers, count) => peers.check(receiver, *count),
            Senders::OneGroup(peers) => peers.check(receiver, 1),
        }
    }

    /// Draws the senders of a burst, in a random order.
    fn choose(&self, receiver: u32, rng: &mut Rng) -> Vec<u32> {
        match self {
            Senders::These(hosts) => {
                let mut hosts: Vec<u32> = hosts.iter().copied().filter(|host| *host != receiver).collect();
                rng.shuffle(&mut hosts);
                hosts
            }
            Senders::Several(peers, count) => peers.choose_several(receiver, *count, rng),
            Senders::OneGroup(peers) => peers.choose_group(receiver, rng),
        }
    }
}
