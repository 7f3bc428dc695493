//! What samples told of a queue.

use weir_mmu::policy::Gauge;
use weir_units::{BitRate, Bytes};

use crate::run_dir::{GaugeSamples, QueueSample};

/// A queue's samples so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    samples: u64,
    /// The policy's gauges, in its order.
    gauges: Vec<Watch>,
    /// Each sample's length of the ingress queue, in order.
    ingress: Vec<Bytes>,
    /// The rate that the peer was set in each sample, in order: under GFC.
    peer_rates: Vec<BitRate>,
    /// All that came in, as on the wire.
    received: Bytes,
}

/// A gauge's samples.
#[derive(Clone, Debug)]
struct Watch {
    name: &'static str,
    /// Each sample, in order: a window's highest is not told by the run's.
    values: Vec<u64>,
}

impl Watched {
    pub(crate) fn note(&mut self, sample: &QueueSample) {
        self.samples += 1;
        for (n, (gauge, value)) in sample.gauges.iter().enumerate() {
            if self.gauges.len() == n {
                self.gauges.push(Watch { name: gauge.name, values: Vec::new() });
            }
            self.gauges[n].values.push(value);
        }
        self.ingress.push(sample.ingress);
        self.peer_rates.extend(sample.peer_rate);
        self.received = sample.received;
    }

    /// What the samples since `before` showed of a gauge; `None` if the policy does not have it.
    pub(crate) fn gauge(&self, gauge: &Gauge, before: &Watched) -> Option<GaugeSamples> {
        let values = |watched: &'_ Watched| watched.gauges.iter().position(|watch| watch.name == gauge.name);
        let all = &self.gauges[values(self)?].values;
        let samples = &all[values(before).map_or(0, |place| before.gauges[place].values.len())..];
        let on = samples.iter().filter(|value| **value > 0).count() as u64;
        Some(GaugeSamples {
            permille: on * 1_000 / (self.samples - before.samples).max(1),
            last: *all.last()?,
            max: samples.iter().copied().max()?,
        })
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
}

#[cfg(test)]
mod tests {
    use weir_mmu::policy::{Gauges, HEADROOM_ESTIMATE, VICTIM};

    use super::*;

    #[test]
    fn windows_are_told_by_their_edges() {
        let sample = |victim, estimate| QueueSample {
            gauges: Gauges::of([(&VICTIM, u64::from(victim)), (&HEADROOM_ESTIMATE, estimate)]),
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
        let told = |before: &Watched| {
            let [victim, estimate] = [VICTIM, HEADROOM_ESTIMATE].map(|gauge| watched.gauge(&gauge, before).unwrap());
            (victim.permille, estimate.max, estimate.last)
        };
        assert_eq!(told(&edge), (666, 70, 6));
        assert_eq!(told(&Watched::default()), (600, 900, 6));
    }

    #[test]
    fn other_policies_have_neither() {
        let mut watched = Watched::default();
        watched.note(&QueueSample::default());
        assert_eq!([VICTIM, HEADROOM_ESTIMATE].map(|gauge| watched.gauge(&gauge, &Watched::default())), [None, None]);
    }
}
