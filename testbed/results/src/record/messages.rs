//! Share of a link taken by a port's flow-control messages.

use std::collections::{BTreeMap, VecDeque};

use weir_flowctl::wire_bytes;
use weir_switch_core::report::ControlReport;
use weir_units::{BitRate, Bytes, Span, Time};
use weir_wire::mac_control::{CreditUpdate, FRAME_BYTES};

use super::counts::{ValueCounts, percentile};

/// Sampled messages sent by each port.
#[derive(Debug, Default)]
pub(crate) struct MessageRates {
    /// Samples of each port that has sent none.
    silent: MessageRate,
    /// Samples of the other ports, by number, and the messages that they have sent.
    active: BTreeMap<usize, (MessageRate, SentMessages)>,
}

/// Messages sent by a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentMessages {
    pub(crate) count: u64,
    /// Bytes on the link.
    pub(crate) wire: Bytes,
}

impl SentMessages {
    /// Returns the messages of a port whose frames take `link_overhead` bytes beyond their own.
    pub(crate) fn new(sent: &ControlReport, link_overhead: Bytes) -> SentMessages {
        let frames = sent.messages() - sent.ordered_sets;
        let frame = wire_bytes(FRAME_BYTES as u32, link_overhead);
        SentMessages { count: sent.messages(), wire: frame * frames + CreditUpdate::ORDERED_SET * sent.ordered_sets }
    }
}

impl MessageRates {
    /// Sets the messages that a port has sent by the next sample.
    pub(crate) fn set_sent(&mut self, port: usize, sent: SentMessages) {
        if sent.count > 0 {
            self.active.entry(port).or_insert_with(|| (self.silent.clone(), sent)).1 = sent;
        }
    }

    /// Returns the number of messages that a port has sent.
    pub(crate) fn sent(&self, port: usize) -> u64 {
        self.active.get(&port).map_or(0, |(_, sent)| sent.count)
    }

    /// Adds a sample of all ports at `now`.
    pub(crate) fn record(&mut self, now: Time) {
        self.silent.record(now, Bytes::ZERO);
        self.active.values_mut().for_each(|(rate, sent)| rate.record(now, sent.wire));
    }

    pub(crate) fn of_port(&self, port: usize) -> &MessageRate {
        self.active.get(&port).map_or(&self.silent, |(rate, _)| rate)
    }
}

/// Sampled messages sent by one port, in bytes on the link.
#[derive(Clone, Debug)]
pub(crate) struct MessageRate {
    /// Samples of the last [`WORST_OVER`]: instant, and bytes sent by then.
    recent: VecDeque<(Time, Bytes)>,
    /// The last sample.
    last: (Time, Bytes),
    /// Most bytes in that time, or in a longer interval between two samples.
    worst: (Bytes, Span),
    /// Histogram of (bytes, interval) between two samples.
    between: BTreeMap<(Bytes, Span), u64>,
}

/// Time over which the worst case is taken.
pub(crate) const WORST_OVER: Span = Span::from_millis(1);

impl Default for MessageRate {
    fn default() -> MessageRate {
        MessageRate {
            recent: VecDeque::new(),
            last: (Time::default(), Bytes::ZERO),
            worst: (Bytes::ZERO, WORST_OVER),
            between: BTreeMap::new(),
        }
    }
}

impl MessageRate {
    /// Adds a sample at `now` with the bytes of messages sent by then.
    pub(crate) fn record(&mut self, now: Time, sent: Bytes) {
        while let Some((at, _)) = self.recent.front()
            && now.since(*at) > WORST_OVER
        {
            self.recent.pop_front();
        }
        let (since, before) = self.recent.front().copied().unwrap_or(self.last);
        let (now_sent, over) = (sent - before, now.since(since).max(WORST_OVER));
        let (worst_sent, worst_over) = self.worst;
        if product(now_sent, worst_over) > product(worst_sent, over) {
            self.worst = (now_sent, over);
        }
        let (last, by_then) = self.last;
        if now > last {
            *self.between.entry((sent - by_then, now.since(last))).or_insert(0) += 1;
        }
        self.recent.push_back((now, sent));
        self.last = (now, sent);
    }

    /// Returns the messages' share of a link of this rate over `duration`, in millionths.
    pub(crate) fn share_ppm(&self, rate: BitRate, duration: Span) -> u64 {
        share_ppm(self.last.1, rate, duration)
    }

    /// Returns the share in the worst [`WORST_OVER`], or between the samples around it if they are further apart, in millionths.
    pub(crate) fn worst_ppm(&self, rate: BitRate) -> u64 {
        let (sent, over) = self.worst;
        share_ppm(sent, rate, over)
    }

    /// Returns the share between each two samples, in millionths, with its number of occurrences.
    pub(crate) fn shares(&self, rate: BitRate) -> impl Iterator<Item = (u64, u64)> {
        self.between.iter().map(move |((sent, over), times)| (share_ppm(*sent, rate, *over), *times))
    }
}

/// Returns the mean, the 99th percentile by nearest rank, and the maximum of values with their numbers of occurrences.
pub(super) fn spread(shares: &ValueCounts) -> [u64; 3] {
    let count: u64 = shares.values().sum();
    let sum: u128 = shares.iter().map(|(share, times)| u128::from(*share) * u128::from(*times)).sum();
    let most = shares.keys().next_back().copied().unwrap_or(0);
    [(sum / u128::from(count.max(1))) as u64, percentile(shares, 99).unwrap_or(0), most]
}

/// Product of one rate's bytes and the other's span, to compare two rates without division.
fn product(sent: Bytes, over: Span) -> u128 {
    u128::from(sent.get()) * u128::from(over.as_picos())
}

fn share_ppm(sent: Bytes, rate: BitRate, span: Span) -> u64 {
    let capacity = rate.bytes_in(span).get().max(1);
    sent.get() * 1_000_000 / capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Bytes = Bytes::new(84);

    #[test]
    fn an_ordered_set_takes_less_than_a_frame() {
        let sent = ControlReport { pfc: 1, credit: 5, ordered_sets: 3, ..ControlReport::default() };
        let SentMessages { count, wire } = SentMessages::new(&sent, Bytes::new(24));
        assert_eq!((count, wire.get()), (6, 3 * 84 + 3 * 8));
    }

    #[test]
    fn shares_between_samples() {
        let mut messages = MessageRate::default();
        let rate = BitRate::gbps(10);
        // Ten messages in each half of a millisecond, and once none.
        for (n, sent) in (1..).zip([10, 20, 20, 30]) {
            messages.record(Time::from_nanos(n * 500_000), MESSAGE * sent);
        }
        let share = 10 * 84 * 1_000_000 / 625_000;
        let shares: BTreeMap<u64, u64> = messages.shares(rate).collect();
        assert_eq!(shares, [(0, 1), (share, 3)].into());
        assert_eq!(spread(&shares), [share * 3 / 4, share, share]);
        assert_eq!(spread(&[(1, 99), (7, 1)].into()), [1, 1, 7]);
        assert_eq!(spread(&BTreeMap::new()), [0; 3]);
    }

    #[test]
    fn a_port_that_begins_later_has_the_samples_before() {
        let (mut all, mut alone) = (MessageRates::default(), MessageRate::default());
        for (n, sent) in (1..).zip([0, 0, 7, 7, 9]) {
            let now = Time::from_nanos(n * 300_000);
            all.set_sent(5, SentMessages { count: sent, wire: MESSAGE * sent });
            all.record(now);
            alone.record(now, MESSAGE * sent);
        }
        assert_eq!(format!("{:?}", all.of_port(5)), format!("{alone:?}"));
        assert_eq!((all.sent(5), all.sent(4), all.of_port(4).between.values().sum::<u64>()), (9, 0, 5));
    }

    #[test]
    fn the_worst_millisecond_and_the_mean() {
        let rate = BitRate::gbps(10);
        let mut messages = MessageRate::default();
        let at = |us: u64| Time::from_nanos(us * 1_000);
        messages.record(at(100), Bytes::ZERO);
        messages.record(at(600), MESSAGE * 100);
        messages.record(at(1_100), MESSAGE * 120);
        messages.record(at(5_000), MESSAGE * 180);
        messages.record(at(10_000), MESSAGE * 200);
        // 84 B each: 120 of them in 1.25 MB, 200 in 12.5 MB.
        assert_eq!(messages.worst_ppm(rate), 120 * 84 * 1_000_000 / 1_250_000);
        assert_eq!(messages.share_ppm(rate, Span::from_millis(10)), 200 * 84 * 1_000_000 / 12_500_000);
    }

    #[test]
    fn messages_between_samples_far_apart_are_spread_over_that_time() {
        let rate = BitRate::gbps(10);
        let mut messages = MessageRate::default();
        messages.record(Time::from_nanos(10_000_000), MESSAGE * 500);
        messages.record(Time::from_nanos(20_000_000), MESSAGE * 600);
        // 500 in ten milliseconds: 50 in one.
        assert_eq!(messages.worst_ppm(rate), 50 * 84 * 1_000_000 / 1_250_000);
    }
}
