//! Initiator of a port, for all flow controls: decides which message is due to the peer.

use weir_units::{BitRate, Bytes, Class, ClassSet, Time};
use weir_wire::mac_control::ControlFrame;

use crate::{BufferState, FlowControlInitiator, Quantum, pfc};

/// Generator of a port's messages.
///
/// A message depends on state, not on events: after several changes between two polls, one frame has the last state. Call
/// [`MessageGenerator::poll`], send the returned frame, and confirm with [`MessageGenerator::handle_sent`]; a frame that could
/// not be sent is due again.
#[derive(Debug)]
pub struct MessageGenerator(GeneratorKind);

/// Kind of generator. PFC and PAUSE, the most common, are called without a virtual call.
#[derive(Debug)]
enum GeneratorKind {
    Silent,
    Pauses(pfc::PfcGenerator),
    Other(Box<dyn FlowControlInitiator>),
}

impl MessageGenerator {
    /// Creates a generator without messages.
    pub fn silent() -> MessageGenerator {
        MessageGenerator(GeneratorKind::Silent)
    }

    /// Creates a generator that advertises the classes in XOFF, by PFC or PAUSE.
    pub fn pauses(generator: pfc::PfcGenerator) -> MessageGenerator {
        MessageGenerator(GeneratorKind::Pauses(generator))
    }

    /// Creates the generator of another flow control.
    pub fn from_initiator(initiator: impl FlowControlInitiator + 'static) -> MessageGenerator {
        MessageGenerator(GeneratorKind::Other(Box::new(initiator)))
    }

    /// Sets the port's rate from `now` on. Not where the flow control [depends on the rate](crate::FlowControl::depends_on_rate).
    pub fn set_rate(&mut self, now: Time, rate: BitRate) {
        match &mut self.0 {
            GeneratorKind::Silent => {}
            GeneratorKind::Pauses(generator) => generator.set_quantum(now, Quantum::for_rate(rate)),
            GeneratorKind::Other(initiator) => initiator.set_rate(now, rate),
        }
    }

    /// Returns the frame due at `now`.
    #[inline]
    pub fn poll(
        &self,
        now: Time,
        buffer: BufferState<'_, impl Fn(Class) -> Bytes, impl Fn(Class) -> u32>,
    ) -> Option<ControlFrame> {
        match &self.0 {
            GeneratorKind::Pauses(generator) => generator.poll(now, buffer.xoff),
            _ => self.poll_other(now, &buffer.plain()),
        }
    }

    #[inline(never)]
    fn poll_other(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        match &self.0 {
            GeneratorKind::Silent | GeneratorKind::Pauses(_) => None,
            GeneratorKind::Other(initiator) => initiator.poll(now, buffer),
        }
    }

    /// Records that the frame from [`MessageGenerator::poll`] for this buffer state was sent at `now`, the instant of the poll.
    pub fn handle_sent(
        &mut self,
        now: Time,
        frame: &ControlFrame,
        buffer: BufferState<'_, impl Fn(Class) -> Bytes, impl Fn(Class) -> u32>,
    ) {
        match &mut self.0 {
            GeneratorKind::Silent => {}
            GeneratorKind::Pauses(generator) => generator.handle_sent(now, buffer.xoff),
            GeneratorKind::Other(initiator) => initiator.handle_sent(now, frame, &buffer.plain()),
        }
    }

    /// Resets the advertised state, as a new link starts at `at` and the peer has lost its state too. Classes in XOFF or slowed
    /// down are advertised anew. Without a link `at` is [`Time::NEVER`]; then nothing is due, and the generator must not be
    /// polled.
    pub fn restart(&mut self, at: Time) {
        match &mut self.0 {
            GeneratorKind::Silent => {}
            GeneratorKind::Pauses(generator) => generator.restart(),
            GeneratorKind::Other(initiator) => initiator.restart(at),
        }
    }

    /// Returns the classes that the peer believes paused, under PFC and PAUSE.
    pub fn advertised_off(&self) -> ClassSet {
        match &self.0 {
            GeneratorKind::Silent => ClassSet::EMPTY,
            GeneratorKind::Pauses(generator) => generator.advertised(),
            GeneratorKind::Other(initiator) => initiator.advertised_off(),
        }
    }

    /// Whether `frame`, due now, slows the peer down: it pauses a running class, or raises a stage.
    pub fn slows(&self, frame: &ControlFrame) -> bool {
        match (&self.0, frame) {
            (GeneratorKind::Pauses(generator), ControlFrame::Pfc(frame)) => {
                !(frame.paused() - generator.advertised()).is_empty()
            }
            (GeneratorKind::Pauses(generator), ControlFrame::Pause(quanta)) => {
                *quanta > 0 && generator.advertised().is_empty()
            }
            (GeneratorKind::Other(initiator), frame) => initiator.slows(frame),
            _ => false,
        }
    }

    /// Returns the earliest instant at which a message is due without any change; [`Time::NEVER`] if none is.
    #[inline]
    pub fn next_wakeup(&self, now: Time) -> Time {
        match &self.0 {
            GeneratorKind::Pauses(generator) => generator.next_wakeup(),
            _ => self.next_wakeup_of_other(now),
        }
    }

    #[inline(never)]
    fn next_wakeup_of_other(&self, now: Time) -> Time {
        match &self.0 {
            GeneratorKind::Silent | GeneratorKind::Pauses(_) => Time::NEVER,
            GeneratorKind::Other(initiator) => initiator.next_wakeup(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_units::{LINK_OVERHEAD, Span};

    use super::*;
    use crate::gfc::{RateMapping, StageTable};
    use crate::kinds::{Cbfc, GfcBuffer, GfcConceptual, GfcPulse, GfcTime, NoFlowControl, Pause, Pfc};
    use crate::{PortFlowControl, ReceiveAccounting};

    const RATE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);
    const NIC: Pfc = Pfc { quanta: 100, refresh_percent: 50 };

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn demand(
        off: ClassSet,
        kb: u64,
    ) -> BufferState<'static, impl Fn(Class) -> Bytes + Copy, impl Fn(Class) -> u32 + Copy> {
        BufferState {
            xoff: off,
            occupancy: move |_| Bytes::kb(kb),
            blocks_sent: |_| 0,
            arrived: &ReceiveAccounting::Uncounted,
        }
    }

    fn stages() -> StageTable {
        StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).unwrap()
    }

    fn generator(mechanism: &PortFlowControl) -> MessageGenerator {
        MessageGenerator::new(mechanism, RATE, CLASS.alone())
    }

    fn times(frame: Option<ControlFrame>) -> Option<u16> {
        match frame? {
            ControlFrame::Pfc(frame) => Some(frame.times[CLASS.index()]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_goes_by_its_own_part_of_the_demand() {
        let (refresh, ageing) = (Span::from_micros(50), Span::from_micros(3_200));
        let pfc = generator(&PortFlowControl::new(Pfc { quanta: 100, refresh_percent: 50 }));
        assert_eq!(times(pfc.poll(at(1), demand(CLASS.alone(), 0))), Some(100));
        assert_eq!(pfc.poll(at(1), demand(ClassSet::EMPTY, 900)), None);
        let mut staged = generator(&PortFlowControl::new(GfcBuffer { stages: stages(), refresh, ageing }));
        let frame = staged.poll(at(1), demand(ClassSet::ALL, 900)).unwrap();
        assert_eq!((times(Some(frame)), staged.slows(&frame)), (Some(2), true));
        staged.handle_sent(at(1), &frame, demand(ClassSet::ALL, 900));
        assert_eq!(staged.poll(at(2), demand(ClassSet::ALL, 900)), None);
        let frame = staged.poll(at(3), demand(ClassSet::EMPTY, 800)).unwrap();
        assert!(!staged.slows(&frame), "stage 1 is faster than 2");
        let pulsed = generator(&PortFlowControl::new(GfcPulse {
            stages: stages(),
            period: Span::from_micros(100),
            peer_pfc: NIC,
        }));
        assert_eq!(times(pulsed.poll(at(1), demand(ClassSet::EMPTY, 900))), Some(1_464), "three quarters of 100 us");
        let mapping = RateMapping::without_guarantee(Bytes::mb(1), Bytes::kb(500), RATE).unwrap();
        let period = Span::from_micros(1);
        let conceptual = generator(&PortFlowControl::new(GfcConceptual { mapping, period, refresh, ageing }));
        match conceptual.poll(at(1), demand(ClassSet::ALL, 900)) {
            Some(ControlFrame::Queue(frame)) => assert_eq!(frame.lengths[CLASS.index()], 900_000),
            other => panic!("{other:?}"),
        }
        assert_eq!(generator(&PortFlowControl::new(NoFlowControl)).poll(at(1), demand(ClassSet::ALL, 1_000)), None);
    }

    #[test]
    fn a_new_link_gets_all_messages_again_and_a_dead_one_none() {
        let (refresh, ageing) = (Span::from_micros(50), Span::from_micros(3_200));
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let mapping = RateMapping::without_guarantee(buffer, Bytes::kb(500), RATE).unwrap();
        let all = [
            PortFlowControl::new(Pfc { quanta: 1_000, refresh_percent: 50 }),
            PortFlowControl::new(Pause { quanta: 1_000, refresh_percent: 50 }),
            PortFlowControl::new(GfcBuffer { stages: stages(), refresh, ageing }),
            PortFlowControl::new(GfcConceptual { mapping, period, refresh, ageing }),
            PortFlowControl::new(GfcPulse { stages: stages(), period: Span::from_micros(100), peer_pfc: NIC }),
            PortFlowControl::new(GfcTime { mapping, buffer, period, ageing, stops: false }),
            PortFlowControl::new(Cbfc { buffer, period }),
        ];
        for mechanism in all {
            let arrived = mechanism.receive_accounting(LINK_OVERHEAD);
            let demand = || BufferState {
                xoff: CLASS.alone(),
                occupancy: |_| Bytes::kb(900),
                blocks_sent: |_| 0,
                arrived: &arrived,
            };
            let mut generator = generator(&mechanism);
            let first = generator.poll(at(1), demand()).unwrap();
            generator.handle_sent(at(1), &first, demand());
            assert_eq!(generator.poll(at(2), demand()), None, "{mechanism:?}");
            generator.restart(Time::NEVER);
            assert_eq!(
                (generator.next_wakeup(at(2)), generator.advertised_off()),
                (Time::NEVER, ClassSet::EMPTY),
                "{mechanism:?}"
            );
            generator.restart(at(3));
            assert_eq!(generator.poll(at(3), demand()), Some(first), "{mechanism:?}");
        }
    }

    #[test]
    fn credit_is_what_is_free() {
        let (buffer, period) = (Bytes::new(64 * 1_000), Span::from_micros(50));
        let mechanism = PortFlowControl::new(Cbfc { buffer, period });
        let arrived = mechanism.receive_accounting(LINK_OVERHEAD);
        let mut credits = generator(&mechanism);
        let limit = |credits: &MessageGenerator, now, held: u64| {
            let demand = BufferState {
                xoff: ClassSet::EMPTY,
                occupancy: |_| Bytes::new(held),
                blocks_sent: |_| 0,
                arrived: &arrived,
            };
            match credits.poll(now, demand)? {
                ControlFrame::Credit(frame) => Some(frame.limits[CLASS.index()]),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(limit(&credits, at(0), 0), Some(1_000));
        arrived.count(CLASS, 300);
        assert_eq!(limit(&credits, at(0), 300 * 64), Some(1_000));
        assert_eq!(limit(&credits, at(0), 100 * 64), Some(1_200));
        assert_eq!(limit(&credits, at(0), 101 * 64), Some(1_200), "a limit never decreases");
        credits.handle_sent(at(0), &ControlFrame::Pause(0), demand(ClassSet::EMPTY, 0));
        assert_eq!(limit(&credits, at(49), 0), None);
        assert_eq!(credits.next_wakeup(at(1)), at(50));
    }
}
