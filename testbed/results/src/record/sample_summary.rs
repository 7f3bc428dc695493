//! Statistics of a queue's samples.

use weir_mmu::policy::Gauge;
use weir_units::{BitRate, Bytes};

use crate::run_dir::{GaugeSamples, QueueSample};

/// Statistics of an interval of a queue's samples, in constant memory. Consecutive intervals are merged by [`SampleSummary::append`]:
/// a window is the intervals between its edges, a run is all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleSummary {
    samples: u64,
    /// Gauges of the policy, then those of the flow control, in their order.
    gauges: Vec<GaugeSummary>,
    /// Ingress queue length: minimum, sum, maximum.
    ingress: Option<[Bytes; 3]>,
    /// Number of samples with a peer rate, and the sum of these rates in bits per second, under GFC.
    peer_rates: (u64, u64),
    /// Bytes received since the run's start, as on the wire, by the interval's end.
    received: Bytes,
}

/// Statistics of a gauge.
#[derive(Clone, Debug)]
struct GaugeSummary {
    name: &'static str,
    /// Number of samples above zero.
    on: u64,
    last: u64,
    max: u64,
}

impl SampleSummary {
    pub(crate) fn record(&mut self, sample: &QueueSample) {
        let rate = sample.peer_rate.map(BitRate::as_bps);
        let of_gauge = |(gauge, value): (&'static Gauge, u64)| GaugeSummary {
            name: gauge.name,
            on: u64::from(value > 0),
            last: value,
            max: value,
        };
        let one = SampleSummary {
            samples: 1,
            gauges: sample.gauges.iter().chain(sample.control_gauges.iter()).map(of_gauge).collect(),
            ingress: Some([sample.ingress; 3]),
            peer_rates: (u64::from(rate.is_some()), rate.unwrap_or(0)),
            received: sample.received,
        };
        self.append(&one);
    }

    /// Ends the interval, returns it, and begins the next.
    pub(crate) fn end(&mut self) -> SampleSummary {
        let next = SampleSummary { received: self.received, ..SampleSummary::default() };
        std::mem::replace(self, next)
    }

    /// Appends the interval that followed this one.
    pub(crate) fn append(&mut self, next: &SampleSummary) {
        self.samples += next.samples;
        for watch in &next.gauges {
            match self.gauges.iter_mut().find(|before| before.name == watch.name) {
                Some(before) => {
                    before.on += watch.on;
                    before.last = watch.last;
                    before.max = before.max.max(watch.max);
                }
                None => self.gauges.push(watch.clone()),
            }
        }
        self.ingress = match (self.ingress, next.ingress) {
            (Some([min, sum, max]), Some([least, more, most])) => Some([min.min(least), sum + more, max.max(most)]),
            (before, next) => before.or(next),
        };
        self.peer_rates.0 += next.peer_rates.0;
        self.peer_rates.1 += next.peer_rates.1;
        self.received = next.received;
    }

    /// Returns the statistics of a gauge; `None` if the queue does not have it.
    pub(crate) fn gauge(&self, gauge: &Gauge) -> Option<GaugeSamples> {
        let watch = self.gauges.iter().find(|watch| watch.name == gauge.name)?;
        Some(GaugeSamples { permille: watch.on * 1_000 / self.samples.max(1), last: watch.last, max: watch.max })
    }

    /// Returns the ingress queue's length: minimum, mean, maximum.
    pub(crate) fn ingress(&self) -> Option<[Bytes; 3]> {
        self.ingress.map(|[min, sum, max]| [min, sum.divided_by(self.samples.max(1)), max])
    }

    /// Returns the mean of the rates that the peer was set, under GFC.
    pub(crate) fn peer_rate(&self) -> Option<BitRate> {
        let (count, sum) = self.peer_rates;
        sum.checked_div(count).map(BitRate::bps)
    }

    /// Returns the bytes received since the run's start, as on the wire.
    pub(crate) fn received(&self) -> Bytes {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use weir_mmu::policy::{Gauges, HEADROOM_ESTIMATE, VICTIM};

    use super::*;

    fn sample(victim: bool, estimate: u64) -> QueueSample {
        QueueSample {
            gauges: Gauges::new([(&VICTIM, u64::from(victim)), (&HEADROOM_ESTIMATE, estimate)]),
            ..QueueSample::default()
        }
    }

    fn figures(watched: &SampleSummary) -> (u64, u64, u64) {
        let [victim, estimate] = [VICTIM, HEADROOM_ESTIMATE].map(|gauge| watched.gauge(&gauge).unwrap());
        (victim.permille, estimate.max, estimate.last)
    }

    #[test]
    fn intervals_are_separate_and_merge() {
        let mut watched = SampleSummary::default();
        for (victim, estimate) in [(false, 900), (true, 800)] {
            watched.record(&sample(victim, estimate));
        }
        let mut run = watched.end();
        for (victim, estimate) in [(true, 5), (true, 70), (false, 6)] {
            watched.record(&sample(victim, estimate));
        }
        assert_eq!(figures(&watched), (666, 70, 6));
        run.append(&watched);
        assert_eq!(figures(&run), (600, 900, 6));
    }

    #[test]
    fn lengths_and_rates_are_means_over_all_samples() {
        let mut watched = SampleSummary::default();
        let mut run = SampleSummary::default();
        for (ingress, rate, received) in [(10, None, 1), (20, Some(4), 2), (60, Some(8), 7)] {
            watched.record(&QueueSample {
                ingress: Bytes::new(ingress),
                peer_rate: rate.map(BitRate::bps),
                received: Bytes::new(received),
                ..QueueSample::default()
            });
            run.append(&watched.end());
        }
        assert_eq!(run.ingress(), Some([10, 30, 60].map(Bytes::new)));
        assert_eq!((run.peer_rate(), run.received()), (Some(BitRate::bps(6)), Bytes::new(7)));
        // Without samples since the last window edge, the received bytes of earlier windows remain.
        run.append(&watched.end());
        assert_eq!((run.ingress(), run.received()), (Some([10, 30, 60].map(Bytes::new)), Bytes::new(7)));
        assert_eq!((watched.ingress(), watched.peer_rate()), (None, None));
    }

    #[test]
    fn other_policies_have_neither() {
        let mut watched = SampleSummary::default();
        watched.record(&QueueSample::default());
        assert_eq!([VICTIM, HEADROOM_ESTIMATE].map(|gauge| watched.gauge(&gauge)), [None, None]);
    }
}
