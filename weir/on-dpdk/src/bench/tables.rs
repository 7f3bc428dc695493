//! Results of measurements as text.

use std::fmt::{Display, Write};

use weir_bench::forwarding::ForwardingReport;
use weir_bench::idle::IdleReport;
use weir_bench::machine::{HostInfo, HostLoad};
use weir_bench::pause::PauseReport;
use weir_bench::rfc2544::{LimitCause, Rfc2544Report, SearchState};
use weir_bench::{Latency, Spread};
use weir_experiments::table::{Table, count};
use weir_units::{BitRate, Span, WIRE_OVERHEAD_BYTES};

/// Tables of `weir bench forwarding`.
pub(super) fn forwarding(report: &ForwardingReport) -> String {
    let mut text = head(&report.machine, &report.host_load);
    let paths = if report.across { ", frames leave on another lcore than they came to" } else { "" };
    line(
        &mut text,
        format_args!(
            "policy {}, flow control {}, where the case has no others; capture ports{paths}; {} rounds: median (least to most)\n",
            report.policy, report.flow_control, report.rounds
        ),
    );
    let head = [
        "Frames",
        "Bytes",
        "Lcores",
        "M packets per CPU-second",
        "ns a packet",
        "Gb/s an lcore",
        "By one lcore",
        "By the first case",
        "Others had the CPU",
        "Dropped",
        "PFC frames",
    ];
    let mut table = Table::new(head);
    let optional = |ratio: Option<Spread>| ratio.map_or("-".to_owned(), |ratio| spread(ratio, 2));
    for row in &report.rows {
        table.row([
            row.what.to_owned(),
            count(u64::from(row.frame_bytes)),
            row.lcores.to_string(),
            spread(row.mpps, 2),
            spread(row.ns, 1),
            spread(row.gbps, 2),
            optional(row.efficiency),
            optional(row.relative),
            format!("{:.0} %", row.kept_from_cpu_percent),
            count(row.dropped),
            count(row.pfc_frames),
        ]);
    }
    let frames: u64 = report.rows.iter().map(|row| row.received).sum();
    line(&mut text, format_args!("{table}{} frames, all accounted for", count(frames)));
    text
}

/// Tables of `weir bench rfc2544`.
pub(super) fn rfc2544(report: &Rfc2544Report) -> String {
    let mut text = head(&report.machine, &report.host_load);
    let kind = if report.is_lossless { "lossless" } else { "lossy" };
    line(
        &mut text,
        format_args!(
            "switch {}, policy {}: {} to {}, class {} ({kind}); {}",
            report.switch,
            report.policy,
            report.from,
            report.to,
            report.class,
            report.lcores.join("; ")
        ),
    );
    warnings(&mut text, &report.warnings);
    let times = if report.trials_max == 1 { "once".to_owned() } else { format!("up to {} times", report.trials_max) };
    line(
        &mut text,
        format_args!(
            "trials of {:.3} s, each rate tried {times}, loss up to {} %; a look at the clock takes {:.0} ns\n",
            report.trial_s,
            report.loss_allowed * 100.0,
            report.clock_ns
        ),
    );
    let mut table = Table::new([
        "Bytes",
        "Throughput, M frames/s",
        "Gb/s on the wire",
        "Of line rate, %",
        "Limit",
        "Generator alone, M frames/s",
        "Trials",
        "Others had the CPU",
        "Back-to-back frames",
    ]);
    for size in &report.sizes {
        let wire_bits = 8.0 * (u64::from(size.frame_bytes) + WIRE_OVERHEAD_BYTES) as f64;
        // Throughput in a unit of `unit` per frame/s; of an unfinished search the bounds so far.
        let throughput = |unit: f64, digits: usize| match (&size.throughput, &size.searched) {
            (Some(found), _) => format!("{:.digits$}", found.fps * unit),
            (None, Some(searched)) => within(searched, unit, digits),
            (None, None) => "none".to_owned(),
        };
        let limit = size.throughput.map_or("-", |found| match found.limit {
            LimitCause::Switch => "switch",
            LimitCause::Line => "line",
            LimitCause::Generator => "generator",
        });
        table.row([
            count(u64::from(size.frame_bytes)),
            throughput(1e-6, 4),
            throughput(wire_bits * 1e-9, 3),
            throughput(100.0 / size.line_fps, 1),
            limit.to_owned(),
            format!("{:.3}", size.generator_fps / 1e6),
            size.trials.to_string(),
            format!("{} ms", size.kept_from_cpu_ms),
            size.back_to_back.map_or("-".to_owned(), |bursts| {
                let more = if bursts.is_longest { "at least " } else { "" };
                format!("{more}{}", spread(bursts.frames, 0))
            }),
        ]);
    }
    line(&mut text, format_args!("{table}"));
    for size in report.sizes.iter().filter(|size| !size.is_complete) {
        line(&mut text, format_args!("{} B: not finished\n", size.frame_bytes));
    }
    if report.sizes.iter().all(|size| size.latency.is_empty()) {
        return text;
    }
    let mut table = Table::new([
        "Bytes",
        "Load",
        "M frames/s",
        "p50",
        "p99",
        "p99.9",
        "max",
        "Generator alone: p50",
        "p99",
        "max",
        "Lost",
        "Not taken",
        "Reordered",
        "Twice",
        "Not timed",
        "Others had the CPU",
    ]);
    for size in &report.sizes {
        for at in &size.latency {
            let [p50, p99, p999, max] = times_of(&at.through);
            let [direct_p50, direct_p99, _, direct_max] = times_of(&at.direct);
            table.row([
                count(u64::from(size.frame_bytes)),
                format!("{} %", at.percent),
                format!("{:.4}", at.fps / 1e6),
                p50,
                p99,
                p999,
                max,
                direct_p50,
                direct_p99,
                direct_max,
                count(at.lost),
                count(at.refused),
                count(at.reordered),
                count(at.duplicated),
                count(at.untimed),
                format!("{:.1} ms", at.kept_from_cpu_ms),
            ]);
        }
    }
    line(&mut text, format_args!("latency at shares of the throughput\n{table}"));
    let drops: Vec<String> =
        report.drops.iter().map(|(reason, frames)| format!("{reason} {}", count(*frames))).collect();
    let drops = if drops.is_empty() { "none".to_owned() } else { drops.join(", ") };
    let (received, sent) = (count(report.received), count(report.sent));
    line(&mut text, format_args!("the switch received {received} frames and sent {sent}; dropped: {drops}"));
    text
}

/// Bounds of an unfinished throughput search: above the carried rate, below the rate with losses.
fn within(SearchState { carried_fps, lost_fps }: &SearchState, unit: f64, digits: usize) -> String {
    let rate = |fps: f64| format!("{:.digits$}", fps * unit);
    match (carried_fps, lost_fps) {
        (Some(carried), Some(lost)) => format!("{} to {}", rate(*carried), rate(*lost)),
        (Some(carried), None) => format!("from {}", rate(*carried)),
        (None, Some(lost)) => format!("below {}", rate(*lost)),
        (None, None) => "not known".to_owned(),
    }
}

/// Tables of `weir bench pause`.
pub(super) fn pause(report: &PauseReport) -> String {
    let mut text = head(&report.machine, &report.host_load);
    let rounds = report.layouts.first().map_or(0, |layout| layout.rounds.len());
    line(
        &mut text,
        format_args!(
            "frames of {} B at {} % of {}; {rounds} rounds: median (least to most)\n",
            report.frame_bytes,
            report.load_percent,
            BitRate::bps(report.rate_bps)
        ),
    );
    let mut table = Table::new(["Layout", "From", "Samples", "p50", "p99", "p99.9", "max"]);
    for layout in &report.layouts {
        type Delay = fn(&weir_bench::pause::PauseRound) -> &Latency;
        let delays: [(&str, Delay); 3] = [
            ("Xoff to PAUSE", |round| &round.xoff_to_pause),
            ("PAUSE to obeyed", |round| &round.pause_to_obeyed),
            ("PAUSE to last frame", |round| &round.pause_to_last_frame),
        ];
        for (name, delay) in delays {
            let rounds: Vec<&Latency> = layout.rounds.iter().map(delay).collect();
            let [p50, p99, p999, max] = over_rounds(&rounds);
            let samples: u64 = rounds.iter().map(|delay| delay.count).sum();
            table.row([layout.layout.clone(), name.to_owned(), count(samples), p50, p99, p999, max]);
        }
    }
    line(&mut text, format_args!("{table}"));
    for layout in &report.layouts {
        let sum = |of: fn(&weir_bench::pause::PauseRound) -> u64| layout.rounds.iter().map(of).sum::<u64>();
        let gap = layout.rounds.iter().map(|round| round.poll_gap_max_us).max().unwrap_or(0);
        let busy = layout.rounds.iter().flat_map(|round| round.busy_percent.iter().copied());
        line(
            &mut text,
            format_args!(
                "{}: {}; {} % of polls moved frames; others had the switch's CPUs for {} ms, its longest poll gap was {}; {} cycles \
                 left out; {} lossless frames dropped",
                layout.layout,
                layout.lcores.join("; "),
                spread(Spread::from_values(busy), 0),
                sum(|round| round.kept_from_cpu_ms),
                Span::from_micros(gap),
                count(sum(|round| round.left_out)),
                count(sum(|round| round.dropped)),
            ),
        );
        warnings(&mut text, &layout.warnings);
    }
    text
}

/// Tables of `weir bench idle`.
pub(super) fn idle(report: &IdleReport) -> String {
    let mut text = head(&report.machine, &report.host_load);
    let rounds = report.direct.len();
    line(
        &mut text,
        format_args!(
            "{}; a frame of {} B each {} on average; {rounds} rounds: median (least to most); a look at the clock takes {:.0} ns",
            report.lcores.join("; "),
            report.frame_bytes,
            Span::from_micros(report.interval_us),
            report.clock_ns
        ),
    );
    warnings(&mut text, &report.warnings);
    let mut table = Table::new([
        "Idle",
        "CPU without frames",
        "CPU with lone frames",
        "p50",
        "p99",
        "p99.9",
        "max",
        "Frames",
        "Lost",
        "Others had the CPU",
    ]);
    for mode in &report.modes {
        let [p50, p99, p999, max] = over_rounds(&mode.latency.iter().collect::<Vec<_>>());
        let [sent, received] = mode.frames;
        table.row([
            mode.mode.to_owned(),
            format!("{} %", spread(mode.cpu_percent, 1)),
            format!("{} %", spread(mode.cpu_percent_lone, 1)),
            p50,
            p99,
            p999,
            max,
            count(sent),
            count(sent.saturating_sub(received)),
            format!("{} ms", mode.kept_from_cpu_ms),
        ]);
    }
    let [p50, p99, p999, max] = over_rounds(&report.direct.iter().collect::<Vec<_>>());
    let row = ["generator alone", "-", "-", &p50, &p99, &p999, &max, "-", "-", "-"];
    table.row(row);
    line(&mut text, format_args!("\n{table}"));
    text
}

fn head(machine: &HostInfo, host_load: &HostLoad) -> String {
    format!("{machine}\n{host_load}\n")
}

fn line(text: &mut String, what: impl Display) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

fn warnings(text: &mut String, warnings: &[String]) {
    warnings.iter().for_each(|warning| line(text, format_args!("warning: {warning}")));
}

/// `26.1 (21.5 to 29.0)`; one round has no range.
fn spread(spread: Spread, digits: usize) -> String {
    let Spread { min, median, max } = spread;
    if min == max {
        format!("{median:.digits$}")
    } else {
        format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
    }
}

/// Percentiles over rounds: `1.2us (1.1us to 3us)`.
fn over_rounds(rounds: &[&Latency]) -> [String; 4] {
    let of: [fn(&Latency) -> u64; 4] =
        [|latency| latency.p50_ns, |latency| latency.p99_ns, |latency| latency.p999_ns, |latency| latency.max_ns];
    of.map(|of| {
        let timed: Vec<f64> =
            rounds.iter().filter(|latency| latency.count > 0).map(|latency| of(latency) as f64).collect();
        if timed.is_empty() {
            return "-".to_owned();
        }
        let Spread { min, median, max } = Spread::from_values(timed);
        if min == max { time(median) } else { format!("{} ({} to {})", time(median), time(min), time(max)) }
    })
}

fn times_of(latency: &Latency) -> [String; 4] {
    over_rounds(&[latency])
}

/// Formats a time with three digits.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        _ if unit == "ns" => 0,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let texts = [1.0, 999.0, 1_234.0, 23_456.0, 345_678.0, 4_567_000.0, 61e9].map(time);
        assert_eq!(texts, ["1 ns", "999 ns", "1.23 us", "23.5 us", "346 us", "4.57 ms", "61.0 s"]);
    }

    #[test]
    fn rounds_are_a_median_and_a_range() {
        let of = |p50_ns, max_ns| Latency { count: 1, p50_ns, max_ns, ..Latency::default() };
        let (a, b, c) = (of(800, 2_000), of(900, 3_000), of(850, 90_000));
        let [p50, .., max] = over_rounds(&[&a, &b, &c, &Latency::default()]);
        assert_eq!((p50.as_str(), max.as_str()), ("850 ns (800 ns to 900 ns)", "3.00 us (2.00 us to 90.0 us)"));
        assert_eq!(over_rounds(&[&Latency::default()])[0], "-");
        assert_eq!(spread(Spread::from_values([2.0, 1.0, 4.0]), 1), "2.0 (1.0 to 4.0)");
        assert_eq!(spread(Spread::from_values([2.0]), 0), "2");
    }
}
