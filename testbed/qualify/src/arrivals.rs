//! Arrivals at a tester's port: pauses by PFC of the device, and arrivals of a stream.

use weir_units::{CLASSES, Class, Span, Time};
use weir_wire::mac_control::PfcFrame;

use crate::tester::{ControlStats, Gap, PfcReaction, StreamStats};

/// Control frames that a port received, and the pauses that they cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlArrivals {
    pub(crate) stats: ControlStats,
    pauses: [ClassPause; CLASSES],
}

/// Pause of a class: its end, and the instant from which on streams obey it.
#[derive(Clone, Copy, Debug, Default)]
struct ClassPause {
    obeyed_from: Time,
    until: Time,
}

impl ControlArrivals {
    /// Records a PFC frame. `pause` returns the length of a pause by its quanta.
    pub(crate) fn on_pfc(&mut self, now: Time, reaction: PfcReaction, pfc: &PfcFrame, pause: impl Fn(u16) -> Span) {
        let stats = &mut self.stats;
        stats.pfc_frames += 1;
        for class in pfc.enabled.iter() {
            let n = class.index();
            stats.pfc[n] += 1;
            stats.last_pfc[n] = Some(now);
            let (quanta, of_class) = (pfc.times[n], &mut self.pauses[n]);
            if quanta == 0 {
                *of_class = ClassPause { obeyed_from: now, until: now };
                continue;
            }
            stats.xoff[n] += 1;
            stats.first_xoff[n].get_or_insert(now);
            if of_class.until <= now {
                of_class.obeyed_from = match reaction {
                    PfcReaction::Obey(delay) => now + delay,
                    PfcReaction::Ignore => Time::NEVER,
                };
            }
            of_class.until = now + pause(quanta);
        }
    }

    /// Whether a port with this reaction sends no frame of a class.
    pub(crate) fn stops(&self, class: Class, now: Time, reaction: PfcReaction) -> bool {
        let pause = self.pauses[class.index()];
        pause.obeyed_from <= now && now < pause.until && reaction != PfcReaction::Ignore
    }

    /// End of a class's last pause.
    pub(crate) fn paused_until(&self, class: Class) -> Time {
        self.pauses[class.index()].until
    }

    /// Ends all pauses, as on a link that goes down.
    pub(crate) fn end_pauses(&mut self) {
        self.pauses = Default::default();
    }

    /// Statistics, with the classes that are paused now.
    pub(crate) fn stats_at(&self, now: Time) -> ControlStats {
        let paused = Class::ALL.into_iter().filter(|class| self.paused_until(*class) > now).collect();
        ControlStats { paused, ..self.stats }
    }
}

/// Statistics of a data stream, and the order of its arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamArrivals {
    pub(crate) stats: StreamStats,
    /// Number that the next frame to arrive should have.
    expected: u64,
    last_arrival: Option<Time>,
}

impl StreamArrivals {
    /// Records the arrival of a frame, of this number in the stream, at the stream's port.
    pub(crate) fn on_arrival(&mut self, now: Time, number: u64, wire_bytes: u64, ce: bool) {
        let StreamArrivals { stats, expected, last_arrival } = self;
        stats.received += 1;
        stats.received_wire_bytes += wire_bytes;
        stats.ce += u64::from(ce);
        stats.out_of_order += u64::from(number < *expected);
        *expected = (*expected).max(number + 1);
        stats.first.get_or_insert(now);
        stats.last = Some(now);
        if let Some(from) = last_arrival.replace(now) {
            let gap = Gap { from, to: now };
            stats.longest_gap = stats.longest_gap.filter(|longest| longest.length() >= gap.length()).or(Some(gap));
        }
    }
}
