//! What must hold of a fabric, whoever runs on it.

use weir_sim::Sim;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, PortId, QueueId, Span, Time};

use super::fabric::CLASS;

/// Frames that switches have dropped, for whatever reason.
pub(crate) fn dropped(reports: &[Report]) -> u64 {
    reports.iter().flat_map(|report| DropReason::ALL.map(|reason| report.dropped(reason))).sum()
}

/// Data frames that all hosts sent, and that arrived.
pub(crate) fn sent_and_arrived(sim: &Sim) -> (u64, u64) {
    let stats: Vec<_> = sim.hosts().map(|host| host.stats(sim.now())).collect();
    let sent = stats.iter().flat_map(|host| &host.flows).map(|flow| flow.frames).sum();
    (sent, stats.iter().flat_map(|host| &host.receivers).map(|end| end.frames).sum())
}

/// Nothing was lost, here or on the way, and each switch conserves frames.
pub(crate) fn lost_nothing(sim: &mut Sim, context: &str) {
    let reports = sim.reports();
    conserves_frames(&reports, context);
    assert_eq!(dropped(&reports), 0, "{context}: dropped");
    for host in sim.hosts() {
        for end in host.stats(sim.now()).receivers {
            assert_eq!((end.lost, end.gaps, end.duplicates), (0, 0, 0), "{context}: {end:?}");
        }
    }
}

pub(crate) fn conserves_frames(reports: &[Report], context: &str) {
    for report in reports {
        let balance = report.conservation;
        assert!(balance.holds && balance.in_rings == 0, "{context}: {balance:?}");
        let out = balance.sent + balance.dropped + balance.held();
        assert_eq!(balance.received + balance.copied, out, "{context}: {balance:?}");
    }
}

/// Whether nothing is in flight: switches hold nothing, and all that hosts sent has been acknowledged.
pub(crate) fn is_at_rest(sim: &mut Sim) -> bool {
    sim.hosts().all(|host| host.is_finished()) && sim.reports().iter().all(|report| report.conservation.held() == 0)
}

/// Nothing is left of what was charged, and what was sent has arrived.
pub(crate) fn gave_all_back(sim: &mut Sim, context: &str) {
    for (switch, report) in sim.reports().iter().enumerate() {
        assert_eq!(report.conservation.held(), 0, "{context}: S{} holds frames", switch + 1);
        assert_eq!(sim.shared(switch).mmu.pool_usage().used, Bytes::ZERO, "{context}: S{}", switch + 1);
        for (number, port) in report.ports.iter().enumerate() {
            for class in &port.classes {
                let left = class.ingress.shared + class.ingress.headroom + class.ingress.private + class.egress;
                assert!(left == Bytes::ZERO && !class.ingress.off, "{context}: S{}.p{number} {class:?}", switch + 1);
            }
        }
    }
    let (sent, arrived) = sent_and_arrived(sim);
    assert_eq!(sent, arrived, "{context}");
}

/// What an ingress queue of the data class holds.
pub(crate) fn held(sim: &Sim, switch: usize, port: usize) -> Bytes {
    sim.shared(switch).mmu.held(QueueId::new(PortId(port as u16), CLASS))
}

/// Checks that each backlogged queue keeps sending at its peer's rate.
#[derive(Default)]
pub(crate) struct Progress {
    queues: Vec<Waiting>,
}

/// A queue whose next frame has not left yet.
#[derive(Clone, Copy)]
struct Waiting {
    frames: u64,
    since: Time,
    slowest: BitRate,
}

impl Progress {
    /// Observes reports, called once per `every`. A frame may wait for twice its time at the slowest rate meanwhile,
    /// plus `spare`.
    pub(crate) fn observe(&mut self, reports: &[Report], frame: Bytes, spare: Span, context: &str) {
        let queues = reports.iter().enumerate().flat_map(|(switch, report)| {
            report
                .ports
                .iter()
                .enumerate()
                .map(move |(port, state)| (switch, port, report.at, &state.classes[CLASS.index()]))
        });
        for (n, (switch, port, now, class)) in queues.enumerate() {
            let rate = class.rate_rx.unwrap_or(BitRate::gbps(400));
            let news = Waiting { frames: class.tx_frames, since: now, slowest: rate };
            if n == self.queues.len() {
                self.queues.push(news);
            }
            let waiting = &mut self.queues[n];
            if class.egress == Bytes::ZERO || class.tx_frames != waiting.frames {
                *waiting = news;
            }
            waiting.slowest = waiting.slowest.min(rate);
            let patience = waiting.slowest.time_for(frame) * 2 + spare;
            let waited = now.since(waiting.since);
            assert!(
                waited <= patience,
                "{context}: S{}.p{port} has sent nothing for {waited} at {} or more, {now:?}",
                switch + 1,
                waiting.slowest
            );
        }
    }
}
