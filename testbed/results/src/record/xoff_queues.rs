//! Statistics of ingress queues in XOFF: headroom used, number of queues, arrival and departure rates.

use weir_scenario::Scenario;
use weir_switch_core::Report;
use weir_units::{Bytes, FCS_BYTES, Time};

use super::counts::{ValueCounts, percentile};
use crate::ports::Ports;
use crate::run_dir::XoffQueuesSummary;

/// Statistics of the switches whose queues are in the series.
#[derive(Debug, Default)]
pub(crate) struct XoffQueueStats {
    switches: Vec<SwitchSamples>,
}

/// Statistics of a switch's lossless queues.
#[derive(Debug, Default)]
struct SwitchSamples {
    switch: usize,
    queues: Vec<QueueSamples>,
    /// Headroom of each port with queues, in their order.
    ports: Vec<Peaks>,
    headroom: Peaks,
    /// Whether the last sample had a queue in XOFF or headroom in use.
    is_active: bool,
    /// Number of queues in XOFF, in samples with headroom in use.
    off: ValueCounts,
    arrival: ValueCounts,
    departure: ValueCounts,
}

#[derive(Debug, Default)]
struct QueueSamples {
    port: usize,
    class: usize,
    headroom: Peaks,
    interval: Option<XoffInterval>,
}

/// Consecutive samples with a queue in XOFF.
#[derive(Clone, Copy, Debug)]
struct XoffInterval {
    first: Sample,
    /// Last sample with new arrivals.
    last_arrival: Sample,
    last: Sample,
    has_headroom: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    /// Bytes received, as the buffer counts them.
    received: Bytes,
    held: Bytes,
}

impl XoffInterval {
    fn begin(sample: Sample) -> XoffInterval {
        XoffInterval { first: sample, last_arrival: sample, last: sample, has_headroom: false }
    }

    fn extend(&mut self, sample: Sample, has_headroom: bool) {
        if sample.received > self.last.received {
            self.last_arrival = sample;
        }
        self.last = sample;
        self.has_headroom |= has_headroom;
    }

    /// Returns the arrival rate in Mb/s, up to the last arrival; `None` without arrivals.
    fn arrival(&self) -> Option<u64> {
        let (from, to) = (&self.first, &self.last_arrival);
        (to.at > from.at).then(|| megabits_per_second(to.received.saturating_sub(from.received), from.at, to.at))
    }

    /// Returns the departure rate in Mb/s, up to the last arrival, while the PAUSE takes effect; `None` if no headroom was used.
    fn departure(&self) -> Option<u64> {
        let (from, to) = (&self.first, &self.last_arrival);
        let left = (from.held + to.received.saturating_sub(from.received)).saturating_sub(to.held);
        (self.has_headroom && to.at > from.at).then(|| megabits_per_second(left, from.at, to.at))
    }
}

/// Local maxima of a queue length.
#[derive(Debug, Default)]
struct Peaks {
    last: u64,
    rises: bool,
    found: ValueCounts,
}

impl Peaks {
    fn record(&mut self, now: u64) {
        if now < self.last && std::mem::take(&mut self.rises) {
            *self.found.entry(self.last).or_insert(0) += 1;
        }
        self.rises |= now > self.last;
        self.last = now;
    }
}

impl XoffQueueStats {
    pub(crate) fn new(scenario: &Scenario, ports: &Ports) -> XoffQueueStats {
        let of_switch = |switch: usize| {
            let linked = ports.linked().filter(|port| port.place.switch == switch);
            let lossless = scenario.switches[switch].classes.lossless;
            let queue = |port: usize, class: usize| QueueSamples { port, class, ..QueueSamples::default() };
            let queues =
                linked.flat_map(|port| lossless.iter().map(move |class| queue(port.place.port, class.index())));
            let queues: Vec<QueueSamples> = queues.collect();
            let ports = queues.chunk_by(|one, next| one.port == next.port).map(|_| Peaks::default()).collect();
            SwitchSamples { switch, queues, ports, ..SwitchSamples::default() }
        };
        let mut shown: Vec<usize> = ports.queues().iter().map(|queue| queue.place.switch).collect();
        shown.dedup();
        XoffQueueStats { switches: shown.into_iter().map(of_switch).collect() }
    }

    /// Adds a sample; `is_new` selects the reports that may have changed since the last one.
    pub(crate) fn record(&mut self, at: Time, reports: &[Report], is_new: impl Fn(&Report) -> bool) {
        for of in &mut self.switches {
            if of.is_active || is_new(&reports[of.switch]) {
                of.record(at, &reports[of.switch]);
            }
        }
    }

    /// Summarises a switch; `None` if no sample found headroom in use.
    pub(crate) fn summary(&self, switch: usize) -> Option<XoffQueuesSummary> {
        self.switches.iter().find(|of| of.switch == switch).and_then(SwitchSamples::summary)
    }
}

impl SwitchSamples {
    fn record(&mut self, at: Time, report: &Report) {
        let (mut headroom, mut off) = (Bytes::ZERO, 0);
        for queue in &mut self.queues {
            let class = &report.ports[queue.port].classes[queue.class];
            let ingress = &class.ingress;
            let now = Sample {
                at,
                received: Bytes::new(class.rx_bytes + FCS_BYTES * class.rx_frames),
                held: ingress.private + ingress.shared + ingress.headroom,
            };
            headroom += ingress.headroom;
            off += u64::from(ingress.off);
            queue.headroom.record(ingress.headroom.get());
            if ingress.off {
                let interval = queue.interval.get_or_insert_with(|| XoffInterval::begin(now));
                interval.extend(now, ingress.headroom > Bytes::ZERO);
            } else if let Some(interval) = queue.interval.take() {
                interval.arrival().into_iter().for_each(|rate| *self.arrival.entry(rate).or_insert(0) += 1);
                interval.departure().into_iter().for_each(|rate| *self.departure.entry(rate).or_insert(0) += 1);
            }
        }
        self.is_active = off > 0 || headroom > Bytes::ZERO;
        self.headroom.record(headroom.get());
        let by_port = self.queues.chunk_by(|one, next| one.port == next.port);
        for (peaks, queues) in self.ports.iter_mut().zip(by_port) {
            peaks.record(queues.iter().map(|queue| queue.headroom.last).sum());
        }
        if headroom > Bytes::ZERO {
            *self.off.entry(off).or_insert(0) += 1;
        }
    }

    fn summary(&self) -> Option<XoffQueuesSummary> {
        let samples: u64 = self.off.values().sum();
        let queues = self.queues.len() as u64;
        let fewer_than_half: u64 = self.off.iter().filter(|(off, _)| **off * 2 < queues).map(|(_, times)| times).sum();
        let of_a_port = counts_together(&self.ports);
        let of_a_queue = counts_together(self.queues.iter().map(|queue| &queue.headroom));
        let bps = |of: &ValueCounts, percent: u32| percentile(of, percent).map(|rate| rate * 1_000_000);
        (samples > 0).then(|| XoffQueuesSummary {
            queues,
            samples,
            off_p50: percentile(&self.off, 50),
            off_p99: percentile(&self.off, 99),
            fewer_than_half_permille: fewer_than_half * 1_000 / samples,
            headroom_peak_p50_bytes: percentile(&self.headroom.found, 50),
            headroom_peak_p99_bytes: percentile(&self.headroom.found, 99),
            port_peak_p50_bytes: percentile(&of_a_port, 50),
            port_peak_p99_bytes: percentile(&of_a_port, 99),
            queue_peak_p50_bytes: percentile(&of_a_queue, 50),
            queue_peak_p99_bytes: percentile(&of_a_queue, 99),
            arrival_p50_bps: bps(&self.arrival, 50),
            arrival_p90_bps: bps(&self.arrival, 90),
            departure_p50_bps: bps(&self.departure, 50),
            departure_p90_bps: bps(&self.departure, 90),
        })
    }
}

/// Returns how often each maximum was found, over all of `peaks`.
fn counts_together<'p>(peaks: impl IntoIterator<Item = &'p Peaks>) -> ValueCounts {
    let mut all = ValueCounts::new();
    for (peak, times) in peaks.into_iter().flat_map(|of| &of.found) {
        *all.entry(*peak).or_insert(0) += times;
    }
    all
}

fn megabits_per_second(bytes: Bytes, from: Time, to: Time) -> u64 {
    let picos = u128::from(to.since(from).as_picos().max(1));
    (u128::from(bytes.get()) * 8 * 1_000_000 / picos) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_where_a_rise_ends() {
        let mut peaks = Peaks::default();
        for length in [0, 3, 5, 5, 2, 2, 4, 0, 0, 9] {
            peaks.record(length);
        }
        // The 9 may rise further.
        assert_eq!(peaks.found, [(5, 1), (4, 1)].into());
    }

    #[test]
    fn rates_are_of_the_time_in_which_frames_arrive() {
        let sample = |us: u64, received: u64, held: u64| Sample {
            at: Time::from_nanos(us * 1_000),
            received: Bytes::new(received),
            held: Bytes::new(held),
        };
        let mut interval = XoffInterval::begin(sample(1, 1_000, 1_000));
        assert_eq!((interval.arrival(), interval.departure()), (None, None));
        // 12,500 B that came in two microseconds, and 3,500 B that left in them.
        for (us, received, held) in [(2, 8_000, 6_500), (3, 13_500, 10_000), (5, 13_500, 7_250)] {
            interval.extend(sample(us, received, held), us == 3);
        }
        assert_eq!((interval.arrival(), interval.departure()), (Some(50_000), Some(14_000)));
    }
}
