//! Report of a calibration as text.

use std::fmt;

use weir_experiments::table::{Table, count};
use weir_units::BitRate;

use super::watch::SkippedPauses;
use super::{MeasuredLink, Report, StopTimes, shown};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: from a PAUSE to the last frame that still came", self.switch)?;
        let head =
            ["Port", "Class", "Who stops", "Link", "Pauses", "Least", "Median", "99 %", "Longest", "Bytes, most"];
        let mut table = Table::new(head);
        for link in &self.links {
            for (who, stops) in [("peer", &link.peer_stops), ("switch", &link.switch_stops)] {
                for (how, spread) in [("nearly idle", stops.light), ("loaded", stops.loaded)] {
                    let Some(spread) = spread else { continue };
                    let [port, class] = [link.port.clone(), link.class.to_string()];
                    let [least, median, most, longest] =
                        [spread.min_ns, spread.p50_ns, spread.p99_ns, spread.max_ns].map(shown);
                    let pauses = spread.pauses.to_string();
                    let bytes = count(spread.bytes_max);
                    table.row([port, class, who.into(), how.into(), pauses, least, median, most, longest, bytes]);
                }
            }
        }
        if table.is_empty() {
            writeln!(f, "  no pause was measured")?;
        } else {
            write!(f, "{table}")?;
        }
        for link in &self.links {
            link.left_out(f)?;
        }
        for (what, delay) in
            [("from Xoff to PAUSE", self.message_delay), ("from a peer's PAUSE to obeying it", self.reaction)]
        {
            if let Some(delay) = delay {
                let [p50, p99, p999, max] = [delay.p50_ns, delay.p99_ns, delay.p999_ns, delay.max_ns].map(shown);
                writeln!(f, "  the switch itself, {what}: median {p50}, 99 % {p99}, 99.9 % {p999}, longest {max}")?;
            }
        }
        let longest = shown(self.machine.longest_ns);
        writeln!(f, "  longest time between two polls meanwhile: {longest}")?;
        for link in &self.links {
            link.parts(f)?;
        }
        if let Some(fragment) = &self.fragment {
            write!(f, "\n{fragment}")?;
        }
        match self.applied_delay_ns {
            Some(delay) => writeln!(
                f,
                "\nadaptive headroom goes by {} now, at all ports and no more than by the rule; `weir config save` keeps it",
                shown(delay)
            ),
            None => Ok(()),
        }
    }
}

impl MeasuredLink {
    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (who, StopTimes { left_out, .. }) in [("its peer", &self.peer_stops), ("the switch", &self.switch_stops)] {
            let SkippedPauses { idle, too_short, never_stopped, unpolled } = *left_out;
            let parts = [
                (idle, "nothing had been sent before"),
                (too_short, "it ended too early, or its end was not captured"),
                (never_stopped, "frames never stopped"),
                (unpolled, "frames never stopped, and lcores did not poll for half of the pause or more"),
            ];
            let parts: Vec<String> = parts
                .iter()
                .filter(|(pauses, _)| *pauses > 0)
                .map(|(pauses, why)| format!("{pauses} as {why}"))
                .collect();
            if !parts.is_empty() {
                writeln!(f, "  {}: pauses of {who} left out: {}", self.port, parts.join("; "))?;
            }
        }
        if self.incomplete > 0 {
            writeln!(f, "  {}: {} pauses left out, as the capture lacks frames", self.port, self.incomplete)?;
        }
        Ok(())
    }

    /// Prints the parts of τ.
    fn parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(advice) = &self.advice else { return Ok(()) };
        let rate = BitRate::bps(self.rate_bps);
        let before = match advice.before.measured {
            true => "from Xoff to PAUSE, 99.9 %",
            false => "from Xoff to PAUSE: `[pfc] reaction`, as no queue came to Xoff",
        };
        writeln!(f, "\n{}: τ is {} at {rate}", self.port, shown(advice.tau_ns))?;
        let mut table = Table::new(["Part", "Time"]);
        table.row([before.to_owned(), shown(advice.before.ns)]);
        table.row(["from PAUSE to when the next frame would have come, longest".to_owned(), shown(advice.after_ns)]);
        let least = &self.least;
        let named = [
            ("  a frame that the PAUSE may wait for", least.own_frame_ns),
            ("  propagation, both ways, by `delay`", least.propagation_ns),
            ("  the frame that the peer has begun", least.peer_frame_ns),
        ];
        let sum: u64 = named.iter().map(|(_, ns)| ns).sum();
        for (what, ns) in named {
            table.row([what.to_owned(), shown(ns)]);
        }
        let rest = advice.after_ns.saturating_sub(sum);
        table.row(["  the rest: the peer's reaction, and what stands in devices".to_owned(), shown(rest)]);
        write!(f, "{table}")?;
        let (needs, has) = (advice.headroom_bytes, advice.headroom_now_bytes);
        match has {
            Some(has) if has < needs => {
                writeln!(f, "  Φ should be {} B, and is {} B: lossless frames can be lost", count(needs), count(has))?
            }
            Some(has) => writeln!(f, "  Φ should be {} B, and is {} B", count(needs), count(has))?,
            None => writeln!(f, "  Φ should be {} B", count(needs))?,
        }
        writeln!(
            f,
            "  with a confidence of 95 %, {:.1} % of pauses take no longer than the longest of these {}",
            advice.covered_percent,
            self.peer_stops.samples.len()
        )
    }
}
