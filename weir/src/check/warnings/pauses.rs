//! Doubtful pauses: pauses that expire before their refresh, and a watchdog that polls too often to see a refresh.

use weir_config::{StormCondition, SwitchConfig};
use weir_experiments::table::group_by_text;
use weir_flowctl::{MessageKind, Quantum};
use weir_units::{BitRate, Span};

/// Returns a sentence for each doubtful pause; ports with equal warnings share one.
pub(super) fn warnings(switch: &SwitchConfig) -> Vec<String> {
    let of_ports = switch.real_ports().flat_map(|index| {
        let port = &switch.ports[index];
        let rate = port.rate.filter(|_| port.flow_control.message_kind().advertises_xoff());
        let warnings = rate.map(|rate| [runs_out(switch, rate), unseen(switch, rate)]);
        warnings.into_iter().flatten().flatten().map(|what| (what, port.name.as_str()))
    });
    group_by_text(of_ports).into_iter().map(|(what, names)| format!("{names}: {what}")).collect()
}

/// Warns of a pause whose remaining time, when it is repeated, is shorter than the repetition's delay in the device.
fn runs_out(switch: &SwitchConfig, rate: BitRate) -> Option<String> {
    let (quantum, pfc) = (Quantum::for_rate(rate), switch.pfc);
    let rest_percent = u64::from(100 - pfc.refresh_percent);
    let pause = quantum.times(pfc.quanta);
    let rest = (pause * rest_percent).divided_by(100);
    if rest >= pfc.reaction {
        return None;
    }
    let help = match quanta_for(rate, (pfc.reaction * 100).divided_by(rest_percent)) {
        Some(quanta) => format!("write quanta = {quanta} or more in [pfc]"),
        None => {
            match (1..pfc.refresh_percent).rev().find(|percent| rest_of_the_longest(rate, *percent) >= pfc.reaction) {
                Some(percent) => format!("write quanta = 65535 and refresh_percent = {percent} in [pfc]"),
                None => "no quanta are enough at this rate: the machine must react faster".to_owned(),
            }
        }
    };
    Some(format!(
        "a PAUSE of {} quanta lasts {pause} at {rate} and is repeated after {} %: the {rest} left are less than `reaction` {}, so \
         that it may run out before the peer is told again, and lossless frames can be lost; {help}",
        pfc.quanta, pfc.refresh_percent, pfc.reaction
    ))
}

/// Least quanta that last for `span`; `None` if no PAUSE does.
fn quanta_for(rate: BitRate, span: Span) -> Option<u16> {
    let quantum = Quantum::for_rate(rate);
    let quanta = quantum.in_span(span);
    let quanta = if quantum.times(quanta) < span { quanta.checked_add(1)? } else { quanta };
    (quantum.times(quanta) >= span).then_some(quanta)
}

/// Time that is left of the longest PAUSE when it is repeated after this share of it.
fn rest_of_the_longest(rate: BitRate, refresh_percent: u8) -> Span {
    (Quantum::for_rate(rate).times(u16::MAX) * u64::from(100 - refresh_percent)).divided_by(100)
}

/// Warns of a watchdog that polls more often than a peer repeats its PAUSE: it needs one between two polls to see a storm.
fn unseen(switch: &SwitchConfig, rate: BitRate) -> Option<String> {
    let watchdog = switch.pfc_watchdog.as_ref()?;
    let is_pfc =
        switch.ports.iter().any(|port| port.flow_control.message_kind() == MessageKind::Pfc && port.rate == Some(rate));
    let refresh = as_shown(rest_of_the_longest(rate, 50));
    if !is_pfc || watchdog.condition != StormCondition::PfcReceived || watchdog.poll_interval >= refresh {
        return None;
    }
    Some(format!(
        "`poll_interval` {} of the PFC watchdog is shorter than a peer's refresh of a PAUSE, mostly after half of 65,535 quanta, \
         {refresh} at {rate}: condition \"pfc-received\" wants a PAUSE in each interval and would never see a storm; write \
         poll_interval = \"{refresh}\" or more, or condition = \"queue-stalled\"",
        watchdog.poll_interval
    ))
}

/// Rounds a time up to its shown precision, three decimals.
fn as_shown(span: Span) -> Span {
    let mut step = 1;
    while span.as_picos() / step >= 1_000_000 {
        step *= 1_000;
    }
    Span::from_picos(span.as_picos().div_ceil(step) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Warnings for `p0` and `p1` of 10 Gb/s, and `p2` of 400 Gb/s.
    fn warned(pfc: &str, watchdog: &str, flow_control: &str) -> Vec<String> {
        let port = |n: usize, rate: &str| {
            format!(
                "[[ports]]\nname = \"p{n}\"\ntap = \"t{n}\"\nrate = \"{rate}\"\nflow_control = \"{flow_control}\"\n"
            )
        };
        let ports = port(0, "10Gbps") + &port(1, "10Gbps") + &port(2, "400Gbps");
        let text = format!("[buffer]\nheadroom = \"60KB\"\n[pfc]\n{pfc}\n{watchdog}\n{ports}");
        warnings(&weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false))))
    }

    fn only(warnings: &[String], parts: &[&str]) {
        let [warning] = warnings else { panic!("{warnings:#?}") };
        assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    }

    #[test]
    fn a_pause_that_outlives_its_refresh_gives_no_warning() {
        // Half of 65,535 quanta are 41.9 us at 400 Gb/s.
        assert_eq!(warned("reaction = \"41us\"", "", "pfc"), [""; 0]);
        assert_eq!(warned("quanta = 100\nreaction = \"0s\"", "", "pause"), [""; 0]);
        assert_eq!(warned("quanta = 1\nreaction = \"1s\"", "", "none"), [""; 0]);
    }

    #[test]
    fn a_pause_that_runs_out_gives_a_warning_with_sufficient_quanta() {
        // 1,954 quanta of 51.2 ns are 100.04 us; at 400 Gb/s 78,125 would be needed.
        let warnings = warned("quanta = 1000\nreaction = \"50us\"", "", "pfc");
        assert_eq!(warnings.len(), 2, "{warnings:#?}");
        only(
            &warnings[..1],
            &["p0, p1: a PAUSE of 1000 quanta lasts 51.2us at 10Gbps", "25.6us left", "quanta = 1954 or more"],
        );
        only(&warnings[1..], &["p2: ", "write quanta = 65535 and refresh_percent = 40 in [pfc]"]);
        only(
            &warned("quanta = 65535\nreaction = \"1ms\"", "", "pause"),
            &["p2: ", "no quanta are enough at this rate"],
        );
    }

    /// Half of 65,535 quanta are 1.678 ms at 10 Gb/s.
    #[test]
    fn a_watchdog_that_polls_too_often_gives_a_warning() {
        let watchdog = |poll: &str, more: &str| {
            let table = format!("[pfc_watchdog]\npoll_interval = \"{poll}\"\n{more}");
            warned("reaction = \"0s\"", &table, "pfc")
        };
        only(&watchdog("1.6ms", ""), &["p0, p1: `poll_interval` 1.6ms", "1.678ms at 10Gbps", "never see a storm"]);
        assert_eq!(watchdog("1.678ms", ""), [""; 0]);
        assert_eq!(watchdog("1us", "condition = \"queue-stalled\""), [""; 0]);
        assert_eq!(watchdog("10us", "").len(), 2);
    }
}
