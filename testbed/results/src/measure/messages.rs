//! Completion times and slowdowns of a traffic's messages, by their size.

use weir_scenario::TrafficPlan;
use weir_scenario::workload::Message;
use weir_units::{Bytes, Span, Time};

use crate::run_dir::{BinSummary, Distribution, TrafficSummary};

/// Range of message sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin {
    /// Name of the range in the summary.
    pub name: &'static str,
    /// Lower bound of the sizes, inclusive.
    pub from: Bytes,
    /// Upper bound of the sizes, exclusive; `None` if unbounded.
    pub below: Option<Bytes>,
}

/// Size bins of a summary: all messages, and then decades, as in the papers.
pub const SIZE_BINS: [SizeBin; 6] = [
    SizeBin { name: "all", from: Bytes::ZERO, below: None },
    SizeBin { name: "below 10KB", from: Bytes::ZERO, below: Some(Bytes::kb(10)) },
    SizeBin { name: "10KB-100KB", from: Bytes::kb(10), below: Some(Bytes::kb(100)) },
    SizeBin { name: "100KB-1MB", from: Bytes::kb(100), below: Some(Bytes::mb(1)) },
    SizeBin { name: "1MB-10MB", from: Bytes::mb(1), below: Some(Bytes::mb(10)) },
    SizeBin { name: "from 10MB", from: Bytes::mb(10), below: None },
];

/// Completed messages of one traffic.
#[derive(Clone, Debug, Default)]
pub struct MessageMeasures {
    measured: Vec<MeasuredMessage>,
    warm_up: u64,
    /// Whether each message of the plan was completed, by number; messages beyond the end were not.
    done: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct MeasuredMessage {
    size: Bytes,
    fct: Span,
    ideal: Option<Span>,
}

impl MessageMeasures {
    /// Creates measures without messages.
    pub fn new() -> MessageMeasures {
        MessageMeasures::default()
    }

    /// Adds a completed message of the plan, by its number. A message released before `warm_up` is only counted.
    pub fn record(
        &mut self,
        number: usize,
        warm_up: Time,
        released: Time,
        size: Bytes,
        fct: Span,
        ideal: Option<Span>,
    ) {
        if self.done.len() <= number {
            self.done.resize(number + 1, false);
        }
        self.done[number] = true;
        if released < warm_up {
            self.warm_up += 1;
        } else {
            self.measured.push(MeasuredMessage { size, fct, ideal });
        }
    }

    /// Returns the number of completed messages.
    pub fn completed(&self) -> u64 {
        self.warm_up + self.measured.len() as u64
    }

    /// Returns the messages of `started`, the first of the plan, that were not completed.
    pub fn unfinished<'m>(&self, started: &'m [Message]) -> impl Iterator<Item = &'m Message> {
        let is_done = |number: usize| self.done.get(number).is_some_and(|done| *done);
        started.iter().enumerate().filter(move |(number, _)| !is_done(*number)).map(|(_, message)| message)
    }

    /// Returns the traffic's summary of a run that has ended; `started` are the first messages of the plan.
    pub fn summary(&self, plan: &TrafficPlan, warm_up: Time, started: &[Message]) -> TrafficSummary {
        let measured = self.unfinished(started).filter(|message| message.start >= warm_up);
        let unfinished: Vec<Bytes> = measured.map(|message| message.size).collect();
        let started = started.len() as u64;
        TrafficSummary {
            name: plan.name.clone(),
            class: plan.points[0].0.index() as u8,
            started,
            completed: self.completed(),
            unfinished: started.saturating_sub(self.completed()),
            warm_up: self.warm_up,
            bins: SIZE_BINS.iter().filter_map(|bin| self.bin(bin, &unfinished)).collect(),
            repetitions: Vec::new(),
        }
    }

    fn bin(&self, bin: &SizeBin, unfinished: &[Bytes]) -> Option<BinSummary> {
        let inside = || self.measured.iter().filter(|message| bin.holds(message.size));
        let mut fcts: Vec<u64> = inside().map(|message| message.fct.as_nanos()).collect();
        let slowdowns: Option<Vec<u64>> = inside().map(MeasuredMessage::slowdown_permille).collect();
        let unfinished = unfinished.iter().filter(|size| bin.holds(**size)).count() as u64;
        Some(BinSummary {
            sizes: bin.name.to_owned(),
            from_bytes: bin.from.get(),
            below_bytes: bin.below.map(Bytes::get),
            count: fcts.len() as u64 + unfinished,
            unfinished,
            fct_ns: Distribution::from_values(&mut fcts, unfinished)?,
            slowdown_permille: slowdowns
                .and_then(|mut slowdowns| Distribution::from_values(&mut slowdowns, unfinished)),
        })
    }
}

impl SizeBin {
    /// Whether the range includes this size.
    pub fn holds(&self, size: Bytes) -> bool {
        size >= self.from && self.below.is_none_or(|below| size < below)
    }
}

impl MeasuredMessage {
    /// FCT over ideal FCT, in thousandths, rounded to the nearest.
    fn slowdown_permille(&self) -> Option<u64> {
        let ideal = u128::from(self.ideal?.as_picos().max(1));
        Some(((u128::from(self.fct.as_picos()) * 1_000 + ideal / 2) / ideal) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_in_one_bin_besides_all() {
        for (size, name) in [
            (1, "below 10KB"),
            (9_999, "below 10KB"),
            (10_000, "10KB-100KB"),
            (100_000, "100KB-1MB"),
            (1_000_000, "1MB-10MB"),
            (10_000_000, "from 10MB"),
        ] {
            let bins: Vec<&str> =
                SIZE_BINS.iter().filter(|bin| bin.holds(Bytes::new(size))).map(|bin| bin.name).collect();
            assert_eq!(bins, ["all", name]);
        }
    }

    #[test]
    fn slowdowns_are_over_the_ideal_and_the_warm_up_is_left_out() {
        let messages = four();
        let bins: Vec<BinSummary> = SIZE_BINS.iter().filter_map(|bin| messages.bin(bin, &[])).collect();
        let measures =
            |bin: &BinSummary| (bin.count, bin.fct_ns.mean, bin.slowdown_permille.map(|slow| (slow.p50, slow.max)));
        assert_eq!(bins.len(), 3, "bins without messages are left out");
        assert_eq!(measures(&bins[0]), (3, Some(16_666), Some((Some(3_000), Some(3_333)))));
        assert_eq!(measures(&bins[1]), (2, Some(20_000), Some((Some(1_250), Some(3_000)))));
        assert_eq!(measures(&bins[2]), (1, Some(10_000), Some((Some(3_333), Some(3_333)))));
        assert_eq!((messages.completed(), messages.warm_up), (4, 1));
    }

    #[test]
    fn what_never_finished_is_counted_with_its_size() {
        let messages = four();
        let message = |start, kb| Message { start: Time::from_nanos(start), from: 0, to: 1, size: Bytes::kb(kb) };
        // The first and the last have not finished, and the first is from before the warm-up's end.
        let plan = [message(0, 1), message(999, 1), message(1_000, 1), message(2_000, 2), message(3_000, 50)];
        let all: Vec<Message> = plan.into_iter().chain([message(4_000, 50)]).collect();
        let left: Vec<u64> = messages.unfinished(&all).map(|message| message.start.as_nanos()).collect();
        assert_eq!(left, [0, 4_000]);
        assert_eq!(messages.unfinished(&all[1..1]).count(), 0, "what has not started is not left over");
        let size = [Bytes::kb(50)];
        let measures = |n: usize| {
            let bin = messages.bin(&SIZE_BINS[n], &size).unwrap();
            let slow = bin.slowdown_permille.unwrap();
            (bin.count, bin.unfinished, bin.fct_ns.mean, slow.mean, slow.p50, slow.p99)
        };
        assert_eq!(measures(0), (4, 1, None, None, Some(3_000), None));
        assert_eq!(measures(1), (2, 0, Some(20_000), Some(2_125), Some(1_250), Some(3_000)));
        assert_eq!(measures(2), (2, 1, None, None, Some(3_333), None));
        assert_eq!(messages.bin(&SIZE_BINS[3], &[Bytes::kb(200)]).map(|bin| bin.fct_ns.p50), Some(None));
    }

    /// Messages 1 to 4 of a plan, completed; the first was released before the end of the warm-up.
    fn four() -> MessageMeasures {
        let mut messages = MessageMeasures::new();
        let us = Span::from_micros;
        let warm_up = Time::from_nanos(1_000);
        let mut note = |number, released, kb, fct, ideal| {
            messages.record(number, warm_up, Time::from_nanos(released), Bytes::kb(kb), us(fct), Some(us(ideal)));
        };
        note(1, 999, 1, 900, 1);
        note(2, 1_000, 1, 10, 8);
        note(4, 3_000, 50, 10, 3);
        note(3, 2_000, 2, 30, 10);
        messages
    }
}
