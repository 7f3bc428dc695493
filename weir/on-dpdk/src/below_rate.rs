//! Ports served below their rate while frames wait: share and cause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_config::{CatchUpBound, SwitchConfig};
use weir_dpdk_driver::{CATCH_UP_AUTO_MOST, CATCH_UP_BASE, CpuUse, LcoreStats, Placement, RunningSwitches};
use weir_experiments::table::{count, group_by_text};
use weir_switch_core::line_time::LineTimeLoss;
use weir_units::{PortId, Span};

/// Share of line time lost from which a port is logged.
const LOG_FROM_PERCENT: f64 = 1.0;
/// Minimum interval between two log lines of a port.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Logs once a second the ports that were served below their rate.
pub(crate) struct RateLog {
    next: Instant,
    /// Counts of each (switch, port) when it was last looked at.
    before: BTreeMap<(usize, usize), LineTimeLoss>,
    lcores: BTreeMap<u32, CpuUse>,
}

/// Causes that kept an lcore from polling during an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollDelay {
    /// CPU of the lcore.
    pub cpu: u32,
    /// The longest time between two polls, in real time.
    pub gap_max: Span,
    /// Scheduler statistics of the lcore's thread and CPU.
    pub cpu_use: CpuUse,
}

impl PollDelay {
    /// Poll delay of a whole run.
    pub(crate) fn for_run(cpu: u32, stats: &LcoreStats) -> PollDelay {
        PollDelay { cpu, gap_max: stats.gap_max(), cpu_use: stats.cpu_use(cpu) }
    }
}

impl RateLog {
    /// Creates a log of changes from now on.
    pub(crate) fn new() -> RateLog {
        RateLog { next: Instant::now() + LOG_INTERVAL, before: BTreeMap::new(), lcores: BTreeMap::new() }
    }

    /// Logs the ports served below their rate, at most once a second.
    pub(crate) fn log(&mut self, switches: &[SwitchConfig], placement: &Placement, running: &RunningSwitches) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + LOG_INTERVAL;
        let late: BTreeMap<u32, PollDelay> =
            running.lcores().map(|(cpu, stats)| (cpu, self.poll_delay(cpu, stats))).collect();
        for (index, config) in switches.iter().enumerate() {
            for (number, port) in running.shared(index).ports().iter().enumerate() {
                let Some(now) = port.line_time() else { continue };
                let before = self.before.insert((index, number), now).unwrap_or_default();
                let cpu = placement.transmits_on(index, PortId(number as u16));
                let late = cpu.and_then(|cpu| late.get(&cpu));
                if let Some(message) = below_rate(&now.since(&before), late) {
                    tracing::warn!(switch = %config.name, port = %port.name, "{message}");
                }
            }
        }
    }

    fn poll_delay(&mut self, cpu: u32, stats: &LcoreStats) -> PollDelay {
        let now = stats.cpu_use(cpu);
        let before = self.lcores.insert(cpu, now);
        let cpu_use = before.map_or(now, |before| now.since(&before));
        PollDelay { cpu, gap_max: stats.gaps().take_recent_max(), cpu_use }
    }
}

/// `port served below its rate, 38.2 %: …`, with the cause; `None` if it was not.
pub(crate) fn below_rate(line: &LineTimeLoss, late: Option<&PollDelay>) -> Option<String> {
    let percent = line.percent_below_rate();
    if percent < LOG_FROM_PERCENT {
        return None;
    }
    let mut causes = Vec::new();
    if line.lost_late > Span::ZERO {
        causes.push(format!("{} of its line time lost to late polls{}", ms(line.lost_late), why_late(late)));
    }
    if line.lost_refused > Span::ZERO {
        causes.push(format!("{} lost as its device, or the device's reader, took no frames", ms(line.lost_refused)));
    }
    Some(format!("port served below its rate, {percent:.1} %: {}", causes.join("; ")))
}

fn why_late(late: Option<&PollDelay>) -> String {
    let Some(late) = late else { return String::new() };
    if late.gap_max < CATCH_UP_BASE {
        return format!(
            " (no gap between polls above {}: CPU {} has more to do than it can)",
            ms(late.gap_max),
            late.cpu
        );
    }
    format!(" (longest poll gap {}; {})", ms(late.gap_max), who_had(late.cpu, &late.cpu_use))
}

/// `other threads had CPU 1 for 610 ms, a hypervisor for 0 ms`.
pub(crate) fn who_had(cpu: u32, cpu_use: &CpuUse) -> String {
    let millis = |span: Duration| count(span.as_millis() as u64);
    let others = cpu_use.waited.map(|span| format!("other threads had CPU {cpu} for {} ms", millis(span)));
    match (others, cpu_use.stolen.map(millis)) {
        (Some(others), Some(stolen)) => format!("{others}, a hypervisor for {stolen} ms"),
        (Some(others), None) => others,
        (None, Some(stolen)) => format!("a hypervisor had CPU {cpu} for {stolen} ms"),
        (None, None) => format!("the kernel does not say who had CPU {cpu}"),
    }
}

/// Describes the limit of catch-up after a late poll, and its burst at each shaped port.
pub(crate) fn catch_up(switch: &SwitchConfig) -> String {
    let (most, how) = match switch.lcores.catch_up {
        CatchUpBound::Auto => (CATCH_UP_AUTO_MOST, "twice the longest poll gap of the last second or two, at most "),
        CatchUpBound::AtMost(most) => (most, "at most "),
    };
    if most == Span::ZERO {
        return "a late poll makes up nothing (catch_up)".to_owned();
    }
    let on_clock = most.divided_by(u64::from(switch.time_dilation));
    let shaped = switch.ports.iter().filter_map(|port| Some((port.rate?, port)));
    let port_bursts = shaped
        .filter(|(_, port)| port.clone_of().is_none())
        .map(|(rate, port)| (format!("{} B", count(rate.bytes_in(on_clock).get())), port.name.as_str()));
    let bursts = group_by_text(port_bursts).into_iter().map(|(bytes, ports)| format!("{bytes} at {ports}"));
    let bursts = bursts.collect::<Vec<_>>().join("; ");
    let bursts = if bursts.is_empty() { String::new() } else { format!(", in bursts of up to {bursts}") };
    format!("a late poll makes up {how}{most} (catch_up){bursts}")
}

fn ms(span: Span) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(late: u64, refused: u64) -> LineTimeLoss {
        LineTimeLoss {
            waited: Span::from_millis(1_000),
            lost_late: Span::from_millis(late),
            lost_refused: Span::from_millis(refused),
            burst_max: Span::ZERO,
            pending: Span::ZERO,
        }
    }

    #[test]
    fn the_cause_is_named() {
        let cpu_use = CpuUse {
            ran: None,
            waited: Some(Duration::from_millis(1_610)),
            preempted: Some(7),
            stolen: Some(Duration::from_millis(20)),
        };
        let late = PollDelay { cpu: 1, gap_max: Span::from_millis(152), cpu_use };
        assert_eq!(below_rate(&line(9, 0), Some(&late)), None);
        assert_eq!(
            below_rate(&line(382, 0), Some(&late)).unwrap(),
            "port served below its rate, 38.2 %: 382.0 ms of its line time lost to late polls (longest poll gap 152.0 ms; \
             other threads had CPU 1 for 1,610 ms, a hypervisor for 20 ms)"
        );
        assert_eq!(
            below_rate(&line(0, 500), Some(&late)).unwrap(),
            "port served below its rate, 50.0 %: 500.0 ms lost as its device, or the device's reader, took no frames"
        );
        let busy = PollDelay { gap_max: Span::from_micros(100), ..late };
        assert!(below_rate(&line(100, 0), Some(&busy)).unwrap().contains("CPU 1 has more to do than it can"));
        let unknown = PollDelay { cpu_use: CpuUse::default(), ..late };
        assert!(below_rate(&line(100, 0), Some(&unknown)).unwrap().contains("the kernel does not say who had CPU 1"));
    }

    #[test]
    fn the_bound_is_in_bytes() {
        let catch_up_text = |lcores: &str| {
            let text = format!(
                "[switch]\ntime_dilation = 10\n[lcores]\n{lcores}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"1Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"1Gbps\"\n[[ports]]\nname = \"c\"\nring = \"c\"\nrate = \"10Gbps\"\n"
            );
            catch_up(&weir_config::parse("lab", &text).unwrap())
        };
        assert_eq!(
            catch_up_text(""),
            "a late poll makes up twice the longest poll gap of the last second or two, at most 100ms (catch_up), in \
             bursts of up to 1,250,000 B at a, b; 12,500,000 B at c"
        );
        assert_eq!(
            catch_up_text("catch_up = \"2ms\""),
            "a late poll makes up at most 2ms (catch_up), in bursts of up to 25,000 B at a, b; 250,000 B at c"
        );
        assert_eq!(catch_up_text("catch_up = \"0s\""), "a late poll makes up nothing (catch_up)");
    }
}
