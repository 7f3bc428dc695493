//! Receiver of pauses: PFC, 802.3x PAUSE or none, which may change while the port runs.

use weir_units::Time;
use weir_wire::mac_control::ControlFrame;

use crate::pfc::PauseTimers;
use crate::sync::{AtomicU8, Ordering};
use crate::{FlowControlReceiver, MessageKind};

/// Receiver that obeys PFC, PAUSE, or neither.
#[derive(Debug)]
pub(crate) struct PauseReceiver(AtomicU8);

const NOBODY: u8 = 0;
const PFC: u8 = 1;
const PAUSE: u8 = 2;

fn code(kind: MessageKind) -> u8 {
    match kind {
        MessageKind::Pfc => PFC,
        MessageKind::Pause => PAUSE,
        _ => NOBODY,
    }
}

impl PauseReceiver {
    /// Creates a receiver that obeys this kind if it is PFC or PAUSE, otherwise nothing.
    pub(crate) fn new(kind: MessageKind) -> PauseReceiver {
        PauseReceiver(AtomicU8::new(code(kind)))
    }

    // Relaxed: a frame that arrives during a change is obeyed as if it had arrived a moment earlier or later.
    fn obeys(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

impl FlowControlReceiver for PauseReceiver {
    fn handle(&self, now: Time, frame: &ControlFrame, pause_timers: &PauseTimers) -> bool {
        match (self.obeys(), frame) {
            (PFC, ControlFrame::Pfc(frame)) => pause_timers.handle_pfc(now, frame),
            (PAUSE, ControlFrame::Pause(quanta)) => pause_timers.handle_pause(now, *quanta),
            _ => return false,
        }
        true
    }

    fn obeys_pfc(&self) -> bool {
        self.obeys() == PFC
    }

    fn set_message_kind(&self, kind: MessageKind) {
        self.0.store(code(kind), Ordering::Relaxed);
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
        let pause_timers = PauseTimers::new(Quantum::for_rate(BitRate::gbps(10)));
        let obeys = PauseReceiver::new(MessageKind::Nothing);
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(8), times: [100; CLASSES] });
        let pause = ControlFrame::Pause(100);
        let held = |frame: &ControlFrame| {
            pause_timers.end_pauses(Time::ZERO);
            let is_obeyed = obeys.handle(Time::ZERO, frame, &pause_timers);
            (is_obeyed, pause_timers.paused(Time::ZERO).bits())
        };
        assert_eq!([held(&pfc), held(&pause)], [(false, 0), (false, 0)]);
        obeys.set_message_kind(MessageKind::Pfc);
        assert_eq!(([held(&pfc), held(&pause)], obeys.obeys_pfc()), ([(true, 8), (false, 0)], true));
        obeys.set_message_kind(MessageKind::Pause);
        assert_eq!(([held(&pfc), held(&pause)], obeys.obeys_pfc()), ([(false, 0), (true, 0xff)], false));
    }
}
