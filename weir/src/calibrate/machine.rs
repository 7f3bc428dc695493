//! Poll gaps of the switch during a measurement, caused by the machine.

use serde::Serialize;
use weir_control::state::Lcore;
use weir_units::Span;

/// Least poll gap for which an lcore counts as away. Loops that sleep when idle wake up sooner.
const AWAY_FROM: Span = Span::from_micros(200);

/// Times between polls while a switch was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct PollGapStatistics {
    /// Duration of the measurement.
    pub(super) time_ms: u64,
    /// Longest time between two polls, up to a quarter too high.
    pub(super) longest_ns: u64,
    /// Number of long gaps of the lcores.
    pub(super) away: u64,
    /// Total of these gaps, up to a quarter too high.
    pub(super) away_ms: f64,
    /// Histogram of the lengths of these gaps.
    #[serde(skip)]
    lengths: Vec<(u64, u64)>,
    /// Time for which others had the CPUs while lcores were ready to run; `None` where the kernel does not report it.
    pub(super) cpu_waited_ms: Option<u64>,
    /// Time for which a hypervisor had the CPUs.
    pub(super) cpu_stolen_ms: Option<u64>,
}

impl PollGapStatistics {
    /// Gaps between two reports of the same lcores.
    pub(super) fn between(before: &[Lcore], after: &[Lcore], time_ms: u64) -> PollGapStatistics {
        let mut gaps = PollGapStatistics { time_ms, ..PollGapStatistics::default() };
        let grown = |is: Option<u64>, was: Option<u64>| Some(is?.saturating_sub(was.unwrap_or(0)));
        let sum = |sum: Option<u64>, more: Option<u64>| Some(sum.unwrap_or(0) + more?).or(sum);
        for lcore in after {
            let was = before.iter().find(|was| was.cpu == lcore.cpu);
            let polls_were = |up_to_ns: u64| {
                let bucket = was.and_then(|was| was.gaps.iter().find(|bucket| bucket.up_to_ns == up_to_ns));
                bucket.map_or(0, |bucket| bucket.polls)
            };
            for bucket in &lcore.gaps {
                let polls = bucket.polls.saturating_sub(polls_were(bucket.up_to_ns));
                if polls == 0 {
                    continue;
                }
                gaps.longest_ns = gaps.longest_ns.max(bucket.up_to_ns);
                if bucket.up_to_ns > AWAY_FROM.as_nanos() {
                    gaps.lengths.push((bucket.up_to_ns, polls));
                    gaps.away += polls;
                    gaps.away_ms += (polls * bucket.up_to_ns) as f64 / 1e6;
                }
            }
            let was_waited = was.and_then(|was| was.cpu_waited_ms);
            gaps.cpu_waited_ms = sum(gaps.cpu_waited_ms, grown(lcore.cpu_waited_ms, was_waited));
            let was_stolen = was.and_then(|was| was.cpu_stolen_ms);
            gaps.cpu_stolen_ms = sum(gaps.cpu_stolen_ms, grown(lcore.cpu_stolen_ms, was_stolen));
        }
        gaps
    }

    /// Sums the time in which lcores did not poll.
    pub(super) fn away(&self) -> Span {
        Span::from_nanos((self.away_ms * 1e6) as u64)
    }

    /// Explains why a peer whose frames came through pauses is not named: in these pauses lcores did not poll. `None` for 0 pauses.
    pub(super) fn late_poll_disturbance(&self, pauses: u64) -> Option<String> {
        (pauses > 0).then(|| {
            format!(
                "frames came through {pauses} pauses, for half of which or more lcores did not poll{}: frames of a peer that stopped would \
                 have waited as long",
                self.cpu_users()
            )
        })
    }

    /// Names the users of the CPUs meanwhile, in brackets; empty where the kernel does not count them.
    fn cpu_users(&self) -> String {
        let had = [("others had its CPUs", self.cpu_waited_ms), ("a hypervisor had them", self.cpu_stolen_ms)];
        let had = had
            .into_iter()
            .filter_map(|(cpu_users, ms)| Some(format!("{cpu_users} for {} ms", ms.filter(|ms| *ms > 0)?)));
        let had = had.collect::<Vec<_>>().join(", ");
        if had.is_empty() { had } else { format!(" ({had})") }
    }

    /// Reason why pauses with this median and maximum can't be distinguished from poll gaps; `None` where they can.
    pub(super) fn disturbance(&self, pauses: u64, median_ns: u64, longest_ns: u64) -> Option<String> {
        // Gaps under a tenth of the delay are within the other uncertainties.
        let matter = self.lengths.iter().filter(|(length_ns, _)| length_ns.saturating_mul(10) > longest_ns);
        let (mut times, mut sum_ns) = (0, 0);
        for (length_ns, polls) in matter {
            times += polls;
            sum_ns += polls * length_ns;
        }
        // A gap affects a pause that begins within it, or less than a pause's duration before.
        let touched_ms = (sum_ns + times * median_ns) as f64 / 1e6;
        let touched = (pauses as f64 * touched_ms / self.time_ms.max(1) as f64).min(pauses as f64);
        if touched < 1.0 {
            return None;
        }
        let cpu_users = self.cpu_users();
        Some(format!(
            "in {:.1} s lcores did not poll for up to {} at a time, {times} times for more than {}{cpu_users}: that touched about {:.0} of \
             {pauses} pauses, so that the longest may be the machine's and not the link's",
            self.time_ms as f64 / 1e3,
            super::shown(self.longest_ns),
            super::shown(AWAY_FROM.as_nanos().max(longest_ns / 10)),
            touched.ceil()
        ))
    }
}

#[cfg(test)]
mod tests {
    use weir_control::state::GapBucket;

    use super::*;

    fn lcore(cpu: u32, gaps: &[(u64, u64)], waited: Option<u64>) -> Lcore {
        let gaps = gaps.iter().map(|(up_to_ns, polls)| GapBucket { up_to_ns: *up_to_ns, polls: *polls }).collect();
        Lcore {
            cpu,
            roles: Vec::new(),
            polls: 0,
            busy_polls: 0,
            work: Default::default(),
            gap_p50_ns: 0,
            gap_p99_ns: 0,
            gap_p999_ns: 0,
            gap_max_ns: 0,
            gaps,
            cpu_waited_ms: waited,
            cpu_preempted: None,
            cpu_stolen_ms: None,
        }
    }

    #[test]
    fn gaps_are_those_of_the_time_between() {
        let before = [lcore(0, &[(1_000, 500), (9_000_000, 7)], Some(70)), lcore(1, &[(1_000, 1)], Some(0))];
        let after =
            [lcore(0, &[(1_000, 900), (9_000_000, 9)], Some(88)), lcore(1, &[(1_000, 5), (250_000, 4)], Some(1))];
        let gaps = PollGapStatistics::between(&before, &after, 10_000);
        assert_eq!((gaps.longest_ns, gaps.away, gaps.away_ms), (9_000_000, 6, 19.0));
        assert_eq!((gaps.cpu_waited_ms, gaps.cpu_stolen_ms), (Some(19), None));
        let quiet = PollGapStatistics::between(&after, &after, 10_000);
        assert_eq!((quiet.longest_ns, quiet.away), (0, 0));
    }

    #[test]
    fn doubt_is_where_a_pause_was_probably_touched() {
        let before = [lcore(0, &[], None)];
        let after = [lcore(0, &[(250_000, 900), (4_000_000, 100)], None)];
        let gaps = PollGapStatistics::between(&before, &after, 10_000);
        // 100 gaps of 4 ms in 10 s are 4 % of the time, to which the pauses' own duration adds.
        let disturbance = gaps.disturbance(60, 20_000, 8_000_000).unwrap();
        assert!(
            disturbance.contains("about 3 of 60 pauses")
                && disturbance.contains("100 times")
                && disturbance.contains("800us"),
            "{disturbance}"
        );
        assert_eq!(gaps.disturbance(60, 20_000, 90_000_000), None, "what was measured is far longer");
        assert_eq!(gaps.disturbance(20, 20_000, 8_000_000), None, "less than one");
        let short = gaps.disturbance(60, 20_000, 50_000).unwrap();
        assert!(short.contains("1000 times") && short.contains("200us"), "{short}");
        assert_eq!(PollGapStatistics { time_ms: 1, ..PollGapStatistics::default() }.disturbance(60, 1, 1), None);
    }

    #[test]
    fn the_machine_is_named_before_a_peer_is() {
        let gaps = PollGapStatistics::between(&[lcore(0, &[], Some(0))], &[lcore(0, &[(9_000_000, 3)], Some(21))], 100);
        assert_eq!((gaps.away(), gaps.late_poll_disturbance(0)), (Span::from_millis(27), None));
        let text = gaps.late_poll_disturbance(20).unwrap();
        assert!(
            text.starts_with("frames came through 20 pauses") && text.contains("others had its CPUs for 21 ms"),
            "{text}"
        );
    }
}
