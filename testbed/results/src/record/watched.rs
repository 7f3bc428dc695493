//! What samples told of a queue.

use weir_units::{BitRate, Bytes};

use crate::run_dir::QueueSample;

/// A queue's samples so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    samples: u64,
    /// Of these, how many found the port in the victim state; `None` under a policy that has none.
    victims: Option<u64>,
    /// Each sample's estimate, in order: a window's highest is not told by the run's.
    estimates: Vec<Bytes>,
    /// Each sample's length of the ingress queue, in order.
    ingress: Vec<Bytes>,
    /// The rate that the peer was set in each sample, in order: under GFC.
    peer_rates: Vec<BitRate>,
    /// All that came in, as on the wire.
    received: Bytes,
}

impl Watched {
    pub(crate) fn note(&mut self, sample: &QueueSample) {
        self.samples += 1;
        if let Some(victim) = sample.victim {
            *self.victims.get_or_insert(0) += u64::from(victim);
        }
        self.estimates.extend(sample.headroom_estimate);
        self.ingress.push(sample.ingress);
        self.peer_rates.extend(sample.peer_rate);
        self.received = sample.received;
    }

    /// In how many of a thousand samples since `before` the port was in the victim state.
    pub(crate) fn victim_permille(&self, before: &Watched) -> Option<u64> {
        let victims = self.victims? - before.victims.unwrap_or(0);
        Some(victims * 1_000 / (self.samples - before.samples).max(1))
    }

    /// The ingress queue's length in the samples since `before`: the least, the mean, the most.
    pub(crate) fn ingress(&self, before: &Watched) -> Option<[Bytes; 3]> {
        let samples = &self.ingress[before.ingress.len()..];
        let mean = samples.iter().copied().sum::<Bytes>().divided_by(samples.len().max(1) as u64);
        Some([*samples.iter().min()?, mean, *samples.iter().max()?])
    }

    /// The mean of the rates that the peer was set in the samples since `before`, under GFC.
    pub(crate) fn peer_rate(&self, before: &Watched) -> Option<BitRate> {
        let samples = &self.peer_rates[before.peer_rates.len()..];
        let sum: u64 = samples.iter().map(|rate| rate.as_bps()).sum();
        sum.checked_div(samples.len() as u64).map(BitRate::bps)
    }

    /// What came in since `before`, as on the wire.
    pub(crate) fn received(&self, before: &Watched) -> Bytes {
        self.received - before.received
    }

    /// The last estimate.
    pub(crate) fn estimate(&self) -> Option<u64> {
        self.estimates.last().map(|bytes| bytes.get())
    }

    /// The highest estimate since `before`.
    pub(crate) fn estimate_max(&self, before: &Watched) -> Option<u64> {
        self.estimates[before.estimates.len()..].iter().max().map(|bytes| bytes.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_told_by_their_edges() {
        let sample = |victim, estimate| QueueSample {
            victim: Some(victim),
            headroom_estimate: Some(Bytes::new(estimate)),
            ..QueueSample::default()
        };
        let mut watched = Watched::default();
        for (victim, estimate) in [(false, 900), (true, 800)] {
            watched.note(&sample(victim, estimate));
        }
        let edge = watched.clone();
        for (victim, estimate) in [(true, 5), (true, 70), (false, 6)] {
            watched.note(&sample(victim, estimate));
        }
        assert_eq!((watched.victim_permille(&edge), watched.estimate_max(&edge)), (Some(666), Some(70)));
        let whole = Watched::default();
        assert_eq!((watched.victim_permille(&whole), watched.estimate_max(&whole)), (Some(600), Some(900)));
        assert_eq!(watched.estimate(), Some(6));
    }

    #[test]
    fn other_policies_have_neither() {
        let mut watched = Watched::default();
        watched.note(&QueueSample::default());
        let whole = Watched::default();
        let told = (watched.victim_permille(&whole), watched.estimate(), watched.estimate_max(&whole));
        assert_eq!(told, (None, None, None));
    }
}
