//! Logs mismatches of ports and their peers: another flow control, silence, or other counts.

use std::collections::BTreeMap;

use weir_config::{FlowControlChoice, SwitchConfig};
use weir_flowctl::MessageKind;
use weir_switch_core::Report;
use weir_switch_core::report::{PortReport, ProtocolMismatch};
use weir_units::{Span, Time};

/// Last log lines of each (switch, port), and their instants.
#[derive(Default)]
pub(crate) struct PeerLog(BTreeMap<(usize, usize), PeerState>);

#[derive(Default)]
struct PeerState {
    /// Counts at the last check, and instants of the last log lines.
    before: ProtocolMismatch,
    foreign_at: Option<Time>,
    excessive_at: Option<Time>,
    resyncs_at: Option<Time>,
    aged_at: Option<Time>,
    lossy_pauses: u64,
    lossy_pauses_at: Option<Time>,
    is_silent: bool,
}

/// Interval after which a persisting condition is logged again, on the switch's clock.
const AGAIN_AFTER: Span = Span::from_secs(10);
/// Time without a message after which a peer is silent; messages come far more often.
const SILENT_AFTER: Span = Span::from_secs(1);

impl PeerLog {
    /// Logs the changes in a switch's report. Called with each report.
    pub(crate) fn log(&mut self, index: usize, switch: &SwitchConfig, report: &Report) {
        for number in switch.real_ports() {
            let (port, flow_control) = (&report.ports[number], &switch.ports[number].flow_control);
            let state = self.0.entry((index, number)).or_default();
            for (is_news, what) in state.news(report.at, port, flow_control) {
                if is_news {
                    tracing::warn!(switch = %switch.name, port = %port.name, "{what}");
                } else {
                    tracing::info!(switch = %switch.name, port = %port.name, "{what}");
                }
            }
        }
    }
}

impl PeerState {
    /// Log lines that are due at `now`, each with whether it is a warning.
    fn news(&mut self, now: Time, port: &PortReport, flow_control: &FlowControlChoice) -> Vec<(bool, String)> {
        let (is, was) = (port.mismatch, std::mem::replace(&mut self.before, port.mismatch));
        let mut news = Vec::new();
        if is_due(&mut self.foreign_at, now, is.foreign > was.foreign) {
            news.push((true, foreign(port, flow_control)));
        }
        if is_due(&mut self.excessive_at, now, is.excessive_credits > was.excessive_credits) {
            news.push((true, "the peer gives credit for more than the buffer: cut to it, or ignored; do both ends have the same `buffer` \
                              (b_m), and was the peer restarted?".to_owned()));
        }
        if is_due(&mut self.resyncs_at, now, is.resyncs > was.resyncs) {
            let times = is.resyncs;
            news.push((true, format!("counts of credit were set to the peer's ({times} times so far): frames were lost on the link, or an \
                                      end was restarted")));
        }
        if is_due(&mut self.aged_at, now, is.aged > was.aged) {
            let times = is.aged;
            news.push((
                true,
                format!("the peer did not repeat its last message: back to the line rate ({times} times so far)"),
            ));
        }
        let (lossy, before) = (port.control_rx.lossy_pauses, self.lossy_pauses);
        self.lossy_pauses = lossy;
        if is_due(&mut self.lossy_pauses_at, now, lossy > before && flow_control.message_kind() == MessageKind::Pfc) {
            news.push((
                true,
                format!(
                    "the peer pauses classes that are lossy here: ignored for them ({lossy} PFC frames so far); make them lossless at \
                     both ends, or at neither, or write obey = \"all\" in [pfc]"
                ),
            ));
        }
        let follows = flow_control.silence_warning();
        let is_silent = port.link_up && follows.is_some() && now.since(is.heard_at) > SILENT_AFTER;
        if is_silent && !self.is_silent {
            news.push((
                true,
                format!("the peer says nothing of {}: {}", flow_control.label(), follows.unwrap_or_default()),
            ));
        } else if self.is_silent && !is_silent && port.link_up {
            news.push((false, format!("the peer speaks {} again", flow_control.label())));
        }
        self.is_silent = is_silent;
        news
    }
}

/// Returns true if a condition is to be logged: at its first occurrence, or long after the last log line.
fn is_due(logged_at: &mut Option<Time>, now: Time, has_happened: bool) -> bool {
    let is_due = has_happened && logged_at.is_none_or(|at| now.since(at) >= AGAIN_AFTER);
    if is_due {
        *logged_at = Some(now);
    }
    is_due
}

fn foreign(port: &PortReport, flow_control: &FlowControlChoice) -> String {
    let received = port.control_rx;
    let others = [("PFC", received.pfc), ("PAUSE", received.pause), ("credits or queues' lengths", received.credit)];
    let is_own = |kind: &str| match flow_control.message_kind() {
        MessageKind::Pfc | MessageKind::Pulses | MessageKind::Stages => kind == "PFC",
        MessageKind::Pause => kind == "PAUSE",
        MessageKind::Nothing | MessageKind::LengthsOrCredits | MessageKind::Custom => false,
    };
    let others: Vec<&str> = others.iter().filter(|(kind, n)| *n > 0 && !is_own(kind)).map(|(kind, _)| *kind).collect();
    let name = flow_control.label();
    let (what, so) = match (&others[..], flow_control.message_kind()) {
        ([], MessageKind::Stages) => {
            ("pauses of PFC".to_owned(), "they slow its classes down for the time that they ask for")
        }
        (_, MessageKind::LengthsOrCredits) => {
            (format!("messages of another flow control ({})", others.join(", ")), "they are ignored")
        }
        _ => (others.join(" and "), "they are ignored"),
    };
    format!("the port speaks {name}, and its peer sends {what}: {so}; write the same flow_control at both ends")
}

#[cfg(test)]
mod tests {
    use weir_switch_core::report::ControlReport;

    use super::*;

    fn port(mismatch: ProtocolMismatch, control_rx: ControlReport) -> PortReport {
        PortReport {
            name: "p0".to_owned(),
            link_up: true,
            link_rate: None,
            classes: Default::default(),
            control_rx,
            control_tx: ControlReport::default(),
            invalid_messages: 0,
            mismatch,
            line_time: None,
        }
    }

    fn flow_control(text: &str) -> FlowControlChoice {
        let text = format!(
            "[classes]\nlossless = [3]\n[buffer]\npolicy = \"static\"\n[[ports]]\nname = \"p0\"\ntap = \"t0\"\nrate = \"10Gbps\"\n\
             flow_control = {text}\n[[ports]]\nname = \"p1\"\ntap = \"t1\"\nrate = \"10Gbps\"\n"
        );
        weir_config::parse("lab", &text).unwrap().ports[0].flow_control.clone()
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn each_condition_is_logged_once_and_again_while_it_persists() {
        let (mut state, credit) = (PeerState::default(), flow_control("\"cbfc\""));
        let mut mismatch = ProtocolMismatch { heard_at: at(100), ..ProtocolMismatch::default() };
        let mut news = |seconds, mismatch| {
            let control = ControlReport { pause: 3, credit: 100, ..ControlReport::default() };
            state
                .news(at(seconds), &port(mismatch, control), &credit)
                .into_iter()
                .map(|(_, what)| what)
                .collect::<Vec<_>>()
        };
        assert_eq!(news(1, mismatch), [""; 0]);
        mismatch.resyncs = 1;
        assert!(news(2, mismatch)[0].contains("(1 times so far)"));
        mismatch.resyncs = 3;
        assert_eq!((news(3, mismatch), news(20, mismatch)), (vec![], vec![]));
        mismatch.resyncs = 4;
        assert_eq!(news(21, mismatch).len(), 1);
        (mismatch.foreign, mismatch.excessive_credits, mismatch.aged) = (1, 1, 1);
        let all = news(22, mismatch);
        assert_eq!(all.len(), 3);
        assert!(all[0].contains("speaks CBFC") && all[0].contains("PAUSE"), "{all:?}");
    }

    #[test]
    fn a_silent_peer_is_logged_with_the_consequence() {
        for (text, follows) in [
            ("\"cbfc\"", Some("nothing of its classes is sent")),
            ("\"gfc-buffer\"", Some("line rate")),
            ("\"pfc\"", None),
            ("{ kind = \"gfc-buffer\", peer = \"pfc\" }", None),
        ] {
            let (mut state, flow_control) = (PeerState::default(), flow_control(text));
            let mut news = |seconds, heard| {
                let mismatch = ProtocolMismatch { heard_at: at(heard), ..ProtocolMismatch::default() };
                state.news(at(seconds), &port(mismatch, ControlReport::default()), &flow_control)
            };
            assert_eq!(news(1, 0), []);
            let silent = news(2, 0);
            assert_eq!(silent.len(), usize::from(follows.is_some()), "{text}: {silent:?}");
            assert!(silent.iter().all(|(_, what)| what.contains(follows.unwrap())), "{silent:?}");
            assert_eq!(news(3, 0), []);
            assert_eq!(news(4, 4).len(), usize::from(follows.is_some()), "{text}: it is heard again");
        }
    }

    #[test]
    fn pauses_at_a_port_with_stages_are_foreign() {
        let (gfc, control) = (flow_control("\"gfc-buffer\""), ControlReport { pfc: 9, ..ControlReport::default() });
        let message = |control| foreign(&port(ProtocolMismatch::default(), control), &gfc);
        assert!(message(control).contains("sends pauses of PFC: they slow"), "{}", message(control));
        let other = ControlReport { pause: 1, ..control };
        assert!(message(other).contains("sends PAUSE: they are ignored"), "{}", message(other));
    }
}
