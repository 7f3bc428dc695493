//! Bursts of many hosts to one.

use weir_units::{Span, Time};

use super::peers::refuse_twins;
use super::{Instants, Message, Peers, Rng, SizeCdf, WorkloadError, stream};

/// Bursts in which several hosts send to one at the same instant.
///
/// In each burst the senders come in another random order, so that where messages of one instant are served in their
/// order, none is always first.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Starts of bursts.
    pub instants: Instants,
    /// The hosts of which one receives a burst, each as likely as the others.
    pub receivers: Vec<u32>,
    /// Senders of a burst.
    pub senders: Senders,
    /// Size of each message.
    pub sizes: SizeCdf,
    /// All messages of a burst have one size, drawn for each burst; otherwise each has its own.
    pub equal_sizes: bool,
    /// Each message starts up to this later than its burst, any delay as likely as others; zero for none.
    pub jitter: Span,
    /// One seed gives one list of messages. Workloads of one run should have different ones.
    pub seed: u64,
}

/// Senders of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Senders {
    /// All of these hosts, except the receiver.
    These(Vec<u32>),
    /// A number of the receiver's peers, drawn for each burst.
    Several(Peers, usize),
    /// All hosts of a group without the receiver, such as a rack; the group is drawn for each burst.
    OneGroup(Peers),
}

impl Incast {
    /// The messages, by their start.
    ///
    /// # Errors
    /// There are no receivers, or too few senders for one of them; a host is twice in a list; there is no time.
    pub fn messages(&self) -> Result<Vec<Message>, WorkloadError> {
        self.instants.check()?;
        refuse_twins(&self.receivers, "receivers")?;
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
                refuse_twins(hosts, "senders")?;
                if hosts == &[receiver] { Err(WorkloadError::ToItself(receiver)) } else { Ok(()) }
            }
            Senders::Several(_, 0) => Err(WorkloadError::NoHosts("senders")),
            Senders::Several(peers, count) => peers.check(receiver, *count),
            Senders::OneGroup(peers) => peers.check(receiver, 1),
        }
    }

    /// The senders of a burst, in a random order.
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
