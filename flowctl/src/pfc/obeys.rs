//! Receiver of pauses: PFC, 802.3x PAUSE or none, which may change while the port runs.

use weir_units::Time;
use weir_units::archive::{Archive, SharedState};
use weir_wire::mac_control::ControlFrame;

use super::Gate;
use crate::sync::{AtomicU8, Ordering};
use crate::{Tells, Upstream};

/// Obeys the pauses of one of the three.
#[derive(Debug, SharedState)]
pub(crate) struct ObeysPauses(AtomicU8);

const NOBODY: u8 = 0;
const PFC: u8 = 1;
const PAUSE: u8 = 2;

fn word(tells: Tells) -> u8 {
    match tells {
        Tells::Pfc => PFC,
        Tells::Pause => PAUSE,
        _ => NOBODY,
    }
}

impl ObeysPauses {
    /// Obeys frames of PFC or of PAUSE; of all else, nobody.
    pub(crate) fn of(tells: Tells) -> ObeysPauses {
        ObeysPauses(AtomicU8::new(word(tells)))
    }

    // Relaxed: a frame that comes while this changes is obeyed or not, as if it had come a moment earlier or later.
    fn obeys(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Upstream for ObeysPauses {
    fn checkpoint(&self, archive: &mut Archive) {
        self.shared_state(archive);
    }

    fn handle(&self, now: Time, frame: &ControlFrame, gate: &Gate) -> bool {
        match (self.obeys(), frame) {
            (PFC, ControlFrame::Pfc(frame)) => gate.handle_pfc(now, frame),
            (PAUSE, ControlFrame::Pause(quanta)) => gate.handle_pause(now, *quanta),
            _ => return false,
        }
        true
    }

    fn obeys_pfc(&self) -> bool {
        self.obeys() == PFC
    }

    fn obey(&self, tells: Tells) {
        self.0.store(word(tells), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{BitRate, CLASSES, ClassSet};
    use weir_wire::mac_control::PfcFrame;

    use super::*;
    use crate::Quantum;

    #[test]
    fn pauses_of_what_is_spoken_now_are_obeyed() {
        let gate = Gate::new(Quantum::at(BitRate::gbps(10)));
        let obeys = ObeysPauses::of(Tells::Nothing);
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(8), times: [100; CLASSES] });
        let pause = ControlFrame::Pause(100);
        let held = |frame: &ControlFrame| {
            gate.end_pauses(Time::ZERO);
            let is_obeyed = obeys.handle(Time::ZERO, frame, &gate);
            (is_obeyed, gate.paused(Time::ZERO).bits())
        };
        assert_eq!([held(&pfc), held(&pause)], [(false, 0), (false, 0)]);
        obeys.obey(Tells::Pfc);
        assert_eq!(([held(&pfc), held(&pause)], obeys.obeys_pfc()), ([(true, 8), (false, 0)], true));
        obeys.obey(Tells::Pause);
        assert_eq!(([held(&pfc), held(&pause)], obeys.obeys_pfc()), ([(false, 0), (true, 0xff)], false));
    }
}
