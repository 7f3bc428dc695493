//! The downstream side of a port, whatever it speaks: which message is due to its peer.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Time};
use weir_wire::mac_control::{Account, ControlFrame, CreditFrame, PfcFrame};

use crate::cbfc::{Advertiser, Receiver, blocks};
use crate::gfc::{Arrivals, Pulse, StageTable, length, stage};
use crate::{Mechanism, Quantum, pfc};

/// What the buffer asks of the peer. Each mechanism looks at what it goes by.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a, F, S> {
    /// The classes that should pause: PFC's and PAUSE's.
    pub off: ClassSet,
    /// q, what a class's ingress queue holds.
    pub held: F,
    /// FCTBS, the blocks of a class that this end has sent: of frames that are ahead of the message on the wire, and of no others.
    /// Asked where credit is given.
    pub sent: S,
    /// What has come in, under a mechanism that goes by it.
    pub arrived: &'a Arrived,
}

/// What has come in from a port's peer, as its mechanism counts it. Counted by the one lcore that receives on the port.
#[derive(Debug)]
pub enum Arrived {
    /// It does not.
    Uncounted,
    /// In blocks: where credit is given.
    Blocks(Receiver),
    /// In bytes on the wire: of a peer that only knows PFC.
    Bytes(Arrivals),
}

impl Arrived {
    /// Nothing yet, on a link whose frames take so much beyond their length.
    pub fn new(mechanism: &Mechanism, link_overhead: Bytes) -> Arrived {
        match mechanism {
            Mechanism::GfcTime { buffer, .. } | Mechanism::Cbfc { buffer, .. } => {
                Arrived::Blocks(Receiver::new(*buffer))
            }
            Mechanism::GfcPulse { .. } => Arrived::Bytes(Arrivals::new(link_overhead)),
            _ => Arrived::Uncounted,
        }
    }

    /// What a frame of this length (without FCS) counts.
    #[inline]
    pub fn count_of(&self, frame_bytes: u32) -> u32 {
        match self {
            Arrived::Uncounted => 0,
            Arrived::Blocks(_) => blocks(frame_bytes),
            Arrived::Bytes(arrivals) => arrivals.bytes_of(frame_bytes),
        }
    }

    /// Counts frames that [count](Arrived::count_of) so much together.
    #[inline]
    pub fn count(&self, class: Class, count: u32) {
        match self {
            Arrived::Uncounted => {}
            Arrived::Blocks(receiver) => receiver.handle_arrivals(class, count),
            Arrived::Bytes(arrivals) => arrivals.count(class, count),
        }
    }

    /// Takes what the peer says of itself in a credit frame, of which all that came before it has been handled; `uncounted` is what
    /// of a class is yet to be [counted](Arrived::count).
    pub fn handle_account(&self, frame: &CreditFrame, uncounted: impl FnOnce(Class) -> u32) {
        if let (Arrived::Blocks(receiver), Account::Sent { class, blocks }) = (self, frame.account) {
            receiver.handle_sent_total(class, blocks, uncounted(class));
        }
    }

    /// Starts the counts that the peer goes by too from 0, as the link has gone. Called by the lcore that transmits.
    pub fn forget(&self) {
        if let Arrived::Blocks(receiver) = self {
            receiver.forget();
        }
    }

    /// How often the count of arrivals was set to what the peer says that it sent, where credit is given: after frames were lost
    /// on the link, a restart of an end, or a forged message.
    pub fn resyncs(&self) -> u64 {
        if let Arrived::Blocks(receiver) = self { receiver.resyncs() } else { 0 }
    }

    /// Whether anything is counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !matches!(self, Arrived::Uncounted)
    }
}

/// Makes a port's messages.
///
/// State, not events: however often it changed between two polls, one frame tells the last of it. Call
/// [`MessageGenerator::poll`], send what it returns, and confirm with [`MessageGenerator::handle_sent`]; what could not be sent
/// is due again.
#[derive(Debug)]
pub struct MessageGenerator {
    /// Classes under GFC or credit.
    classes: ClassSet,
    kind: Kind,
}

/// What is long is boxed: a switch has many ports, and most speak PFC.
#[derive(Debug)]
enum Kind {
    None,
    /// PFC or PAUSE.
    Pause(pfc::Generator),
    Stages(Box<stage::Generator>),
    Pulse {
        pulse: Box<Pulse>,
        stages: Box<StageTable>,
    },
    Lengths(Box<length::Generator>),
    Credits(Advertiser),
}

impl MessageGenerator {
    /// For a port of this rate; `classes` are those under GFC or credit. PFC goes by what is OFF.
    pub fn new(mechanism: &Mechanism, rate: BitRate, classes: ClassSet) -> MessageGenerator {
        let quantum = Quantum::at(rate);
        let kind = match mechanism {
            Mechanism::None => Kind::None,
            Mechanism::Pfc { quanta, refresh_percent } => {
                Kind::Pause(pfc::Generator::pfc(quantum, *quanta, *refresh_percent))
            }
            Mechanism::Pause { quanta, refresh_percent } => {
                Kind::Pause(pfc::Generator::pause(quantum, *quanta, *refresh_percent))
            }
            Mechanism::GfcBuffer { stages, refresh, .. } => {
                Kind::Stages(Box::new(stage::Generator::new(stages.clone(), classes, *refresh)))
            }
            Mechanism::GfcPulse { stages, period } => {
                Kind::Pulse { pulse: Box::new(Pulse::new(rate, classes, *period)), stages: Box::new(stages.clone()) }
            }
            Mechanism::GfcConceptual { period, refresh, .. } => {
                Kind::Lengths(Box::new(length::Generator::new(classes, *period, *refresh)))
            }
            Mechanism::GfcTime { period, .. } | Mechanism::Cbfc { period, .. } => {
                Kind::Credits(Advertiser::new(classes, *period))
            }
        };
        MessageGenerator { classes, kind }
    }

    /// The port has another rate from `now` on.
    ///
    /// # Panics
    /// In debug builds, if the mechanism [is made for a rate](Mechanism::is_made_for_a_rate).
    pub fn set_rate(&mut self, now: Time, rate: BitRate) {
        match &mut self.kind {
            Kind::None => {}
            Kind::Pause(generator) => generator.set_quantum(now, Quantum::at(rate)),
            _ => debug_assert!(false, "GFC and CBFC are made for a rate"),
        }
    }

    /// The frame due at `now`.
    #[inline]
    pub fn poll(
        &self,
        now: Time,
        demand: Demand<'_, impl Fn(Class) -> Bytes, impl Fn(Class) -> u32>,
    ) -> Option<ControlFrame> {
        match &self.kind {
            // Apart from the others, as it is what most ports speak.
            Kind::Pause(generator) => generator.poll(now, demand.off),
            _ => self.poll_other(now, demand),
        }
    }

    #[inline(never)]
    fn poll_other(
        &self,
        now: Time,
        demand: Demand<'_, impl Fn(Class) -> Bytes, impl Fn(Class) -> u32>,
    ) -> Option<ControlFrame> {
        match &self.kind {
            Kind::None | Kind::Pause(_) => None,
            Kind::Stages(generator) => generator.poll(now, &queues(self.classes, demand.held)).map(ControlFrame::Pfc),
            Kind::Lengths(generator) => {
                generator.poll(now, &queues(self.classes, demand.held)).map(ControlFrame::Queue)
            }
            Kind::Pulse { pulse, stages } => {
                if now < pulse.next_wakeup() {
                    return None;
                }
                pulse.poll(now, &rates(self.classes, stages, demand.held)).map(ControlFrame::Pfc)
            }
            Kind::Credits(advertiser) => {
                let Arrived::Blocks(receiver) = demand.arrived else { return None };
                if now < advertiser.next_wakeup() {
                    return None;
                }
                self.classes.iter().for_each(|class| receiver.settle(class, || (demand.held)(class)));
                advertiser.poll(now, receiver, demand.sent).map(ControlFrame::Credit)
            }
        }
    }

    /// Notes that the frame that [`MessageGenerator::poll`] returned for this demand has been sent at `now`, the instant of
    /// the poll.
    pub fn handle_sent(
        &mut self,
        now: Time,
        frame: &ControlFrame,
        demand: Demand<'_, impl Fn(Class) -> Bytes, impl Fn(Class) -> u32>,
    ) {
        match &mut self.kind {
            Kind::None => {}
            Kind::Pause(generator) => generator.handle_sent(now, demand.off),
            Kind::Stages(generator) => {
                if let ControlFrame::Pfc(frame) = frame {
                    generator.handle_sent(now, frame);
                }
            }
            Kind::Lengths(generator) => {
                if let ControlFrame::Queue(frame) = frame {
                    generator.handle_sent(now, frame);
                }
            }
            Kind::Pulse { pulse, stages } => {
                let rates = rates(self.classes, stages, demand.held);
                let arrived = if let Arrived::Bytes(arrivals) = demand.arrived { Some(arrivals) } else { None };
                pulse.handle_sent(now, &rates, arrived);
            }
            Kind::Credits(advertiser) => advertiser.handle_sent(now),
        }
    }

    /// Forgets what the peer was told, as it has forgotten it too: a new link starts at `at`. What was OFF, or slowed down, is
    /// due anew. Without a link `at` is [`Time::NEVER`]; then nothing is due by itself, and the generator is not to be polled.
    pub fn restart(&mut self, at: Time) {
        match &mut self.kind {
            Kind::None => {}
            Kind::Pause(generator) => generator.restart(),
            Kind::Stages(generator) => generator.restart(at),
            Kind::Lengths(generator) => generator.restart(at),
            Kind::Pulse { pulse, .. } => pulse.restart(at),
            Kind::Credits(advertiser) => advertiser.restart(at),
        }
    }

    /// The classes that the peer believes paused, under PFC and PAUSE.
    pub fn advertised_off(&self) -> ClassSet {
        if let Kind::Pause(generator) = &self.kind { generator.advertised() } else { ClassSet::EMPTY }
    }

    /// Whether `frame`, due now, tells the peer to slow down: a class pauses that did not, or its stage rises.
    pub fn slows(&self, frame: &ControlFrame) -> bool {
        match (&self.kind, frame) {
            (Kind::Pause(generator), ControlFrame::Pfc(frame)) => !(frame.paused() - generator.advertised()).is_empty(),
            (Kind::Pause(generator), ControlFrame::Pause(quanta)) => *quanta > 0 && generator.advertised().is_empty(),
            (Kind::Stages(generator), ControlFrame::Pfc(PfcFrame { enabled, times })) => {
                (*enabled).iter().any(|class| times[class.index()] > generator.advertised(class))
            }
            _ => false,
        }
    }

    /// The earliest instant at which a message is due though nothing changes; [`Time::NEVER`] if none is.
    #[inline]
    pub fn next_wakeup(&self, now: Time) -> Time {
        match &self.kind {
            Kind::Pause(generator) => generator.next_wakeup(),
            _ => self.next_wakeup_of_other(now),
        }
    }

    #[inline(never)]
    fn next_wakeup_of_other(&self, now: Time) -> Time {
        match &self.kind {
            Kind::None | Kind::Pause(_) => Time::NEVER,
            Kind::Stages(generator) => generator.next_wakeup(),
            Kind::Lengths(generator) => generator.next_wakeup(now),
            // A period that has ended and was not followed by another: the peer goes at line rate until a queue grows.
            Kind::Pulse { pulse, .. } if pulse.next_wakeup() <= now => Time::NEVER,
            Kind::Pulse { pulse, .. } => pulse.next_wakeup(),
            Kind::Credits(advertiser) => advertiser.next_wakeup(),
        }
    }
}

fn queues(classes: ClassSet, held: impl Fn(Class) -> Bytes) -> [Bytes; CLASSES] {
    let mut queues = [Bytes::ZERO; CLASSES];
    classes.iter().for_each(|class| queues[class.index()] = held(class));
    queues
}

fn rates(classes: ClassSet, stages: &StageTable, held: impl Fn(Class) -> Bytes) -> [BitRate; CLASSES] {
    let mut rates = [stages.rate(0); CLASSES];
    classes.iter().for_each(|class| rates[class.index()] = stages.rate(stages.stage_of(held(class))));
    rates
}

#[cfg(test)]
mod tests {
    use weir_units::{LINK_OVERHEAD, Span};

    use super::*;
    use crate::gfc::Mapping;

    const RATE: BitRate = BitRate::gbps(10);
    const CLASS: Class = Class::new(3);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn demand(off: ClassSet, kb: u64) -> Demand<'static, impl Fn(Class) -> Bytes + Copy, impl Fn(Class) -> u32 + Copy> {
        Demand { off, held: move |_| Bytes::kb(kb), sent: |_| 0, arrived: &Arrived::Uncounted }
    }

    fn stages() -> StageTable {
        StageTable::new(Bytes::mb(1), Bytes::kb(750), RATE, Span::from_micros(90)).unwrap()
    }

    fn generator(mechanism: &Mechanism) -> MessageGenerator {
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
        let pfc = generator(&Mechanism::Pfc { quanta: 100, refresh_percent: 50 });
        assert_eq!(times(pfc.poll(at(1), demand(CLASS.alone(), 0))), Some(100));
        assert_eq!(pfc.poll(at(1), demand(ClassSet::EMPTY, 900)), None);
        let mut staged = generator(&Mechanism::GfcBuffer { stages: stages(), refresh, ageing });
        let frame = staged.poll(at(1), demand(ClassSet::ALL, 900)).unwrap();
        assert_eq!((times(Some(frame)), staged.slows(&frame)), (Some(2), true));
        staged.handle_sent(at(1), &frame, demand(ClassSet::ALL, 900));
        assert_eq!(staged.poll(at(2), demand(ClassSet::ALL, 900)), None);
        let frame = staged.poll(at(3), demand(ClassSet::EMPTY, 800)).unwrap();
        assert!(!staged.slows(&frame), "stage 1 is faster than 2");
        let pulsed = generator(&Mechanism::GfcPulse { stages: stages(), period: Span::from_micros(100) });
        assert_eq!(times(pulsed.poll(at(1), demand(ClassSet::EMPTY, 900))), Some(1_464), "three quarters of 100 us");
        let mapping = Mapping::without_guarantee(Bytes::mb(1), Bytes::kb(500), RATE).unwrap();
        let period = Span::from_micros(1);
        let conceptual = generator(&Mechanism::GfcConceptual { mapping, period, refresh, ageing });
        match conceptual.poll(at(1), demand(ClassSet::ALL, 900)) {
            Some(ControlFrame::Queue(frame)) => assert_eq!(frame.lengths[CLASS.index()], 900_000),
            other => panic!("{other:?}"),
        }
        assert_eq!(generator(&Mechanism::None).poll(at(1), demand(ClassSet::ALL, 1_000)), None);
    }

    #[test]
    fn a_new_link_is_told_all_anew_and_a_dead_one_nothing() {
        let (refresh, ageing) = (Span::from_micros(50), Span::from_micros(3_200));
        let (buffer, period) = (Bytes::mb(1), Span::from_micros(50));
        let mapping = Mapping::without_guarantee(buffer, Bytes::kb(500), RATE).unwrap();
        let all = [
            Mechanism::Pfc { quanta: 1_000, refresh_percent: 50 },
            Mechanism::Pause { quanta: 1_000, refresh_percent: 50 },
            Mechanism::GfcBuffer { stages: stages(), refresh, ageing },
            Mechanism::GfcConceptual { mapping, period, refresh, ageing },
            Mechanism::GfcPulse { stages: stages(), period: Span::from_micros(100) },
            Mechanism::GfcTime { mapping, buffer, period, ageing },
            Mechanism::Cbfc { buffer, period },
        ];
        for mechanism in all {
            let arrived = Arrived::new(&mechanism, LINK_OVERHEAD);
            let demand = || Demand { off: CLASS.alone(), held: |_| Bytes::kb(900), sent: |_| 0, arrived: &arrived };
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
        let mechanism = Mechanism::Cbfc { buffer, period };
        let arrived = Arrived::new(&mechanism, LINK_OVERHEAD);
        let mut credits = generator(&mechanism);
        let limit = |credits: &MessageGenerator, now, held: u64| {
            let demand = Demand { off: ClassSet::EMPTY, held: |_| Bytes::new(held), sent: |_| 0, arrived: &arrived };
            match credits.poll(now, demand)? {
                ControlFrame::Credit(frame) => Some(frame.limits[CLASS.index()]),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(limit(&credits, at(0), 0), Some(1_000));
        arrived.count(CLASS, 300);
        assert_eq!(limit(&credits, at(0), 300 * 64), Some(1_000));
        assert_eq!(limit(&credits, at(0), 100 * 64), Some(1_200));
        assert_eq!(limit(&credits, at(0), 101 * 64), Some(1_200), "a limit never goes back");
        credits.handle_sent(at(0), &ControlFrame::Pause(0), demand(ClassSet::EMPTY, 0));
        assert_eq!(limit(&credits, at(49), 0), None);
        assert_eq!(credits.next_wakeup(at(1)), at(50));
    }
}
