//! Loom models of the state shared by two lcores, under every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-flowctl --release --lib loom_models`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use weir_units::{BitRate, Bytes, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{ControlFrame, CreditCount, CreditUpdate, PfcFrame};

use crate::cbfc::{BLOCK, BlockCounters, CONFIRMATIONS, CellCounters, CellCredits, CellSize};
use crate::gfc::stage::StageRateAdjuster;
use crate::gfc::{ArrivalCounters, StageTable};
use crate::kinds::Pfc;
use crate::pfc::PauseTimers;
use crate::{MessageKind, PortFlowControl, Quantum, TxRegulator};

const CLASS: Class = Class::new(3);
const LINE: BitRate = BitRate::gbps(10);
const AGEING: Span = Span::from_millis(3);

fn frame(class: Class, time: u16) -> PfcFrame {
    let mut times = [0; 8];
    times[class.index()] = time;
    PfcFrame { enabled: class.alone(), times }
}

fn adjuster() -> Arc<StageRateAdjuster> {
    let table = StageTable::new(Bytes::mb(1), Bytes::kb(750), LINE, Span::from_micros(90)).unwrap();
    Arc::new(StageRateAdjuster::new(table, AGEING, Quantum::for_rate(LINE)))
}

/// Rate of a class as last read by the transmitter, as in [`ClassRateLimiters::follow`](crate::ClassRateLimiters::follow).
#[derive(Clone, Copy)]
struct Look {
    version: u32,
    rate: BitRate,
    ages_at: Time,
    is_aged: bool,
}

impl Look {
    const FIRST: Look = Look { version: 0, rate: LINE, ages_at: Time::NEVER, is_aged: false };

    fn again(self, now: Time, adjuster: &StageRateAdjuster) -> Look {
        let version = adjuster.rates().version();
        if version == self.version && !self.is_aged && now < self.ages_at {
            return self;
        }
        let advertised = adjuster.rates().advertised(CLASS);
        if advertised.until <= now {
            Look { version, rate: LINE, ages_at: Time::NEVER, is_aged: true }
        } else {
            Look { version, rate: advertised.rate, ages_at: advertised.until, is_aged: false }
        }
    }
}

/// The receiver sets stages while the transmitter follows the version: with one read after the last message the transmitter
/// has that message's rate.
#[test]
fn the_last_stage_is_followed() {
    loom::model(|| {
        let adjuster = adjuster();
        let transmitter = adjuster.clone();
        let look = |look: Look, adjuster: &StageRateAdjuster| look.again(Time::ZERO, adjuster);
        let transmitter = thread::spawn(move || look(look(Look::FIRST, &transmitter), &transmitter));
        adjuster.handle_frame(Time::ZERO, &frame(CLASS, 1));
        adjuster.handle_frame(Time::ZERO, &frame(CLASS, 2));
        let seen = transmitter.join().unwrap();
        assert_eq!(look(seen, &adjuster).rate, BitRate::mbps(2_500), "stage 2 is C/4");
    });
}

/// A stage arrives while the transmitter resets the rates, as the link has gone. The stage takes effect or not; the transmitter
/// follows the shared rate in either case, and each rate expires.
#[test]
fn a_stage_received_during_a_reset_expires() {
    loom::model(|| {
        let adjuster = adjuster();
        adjuster.handle_frame(Time::ZERO, &frame(CLASS, 2));
        let now = Time::ZERO + Span::from_millis(1);
        let receiver = adjuster.clone();
        let receiver = thread::spawn(move || receiver.handle_frame(now, &frame(CLASS, 1)));
        adjuster.reset(now);
        let seen = Look::FIRST.again(now, &adjuster);
        receiver.join().unwrap();
        assert_eq!(seen.again(now, &adjuster).rate, adjuster.rates().rate(now, CLASS));
        assert_ne!(
            adjuster.rates().rate(now, CLASS),
            BitRate::mbps(2_500),
            "the stage advertised before the reset holds"
        );
        assert_eq!(adjuster.rates().rate(now + AGEING, CLASS), LINE);
    });
}

/// A pause arrives while the transmitter ends all pauses: it holds for at most its own time, or is over.
#[test]
fn a_pause_that_comes_as_others_are_ended_holds_or_not() {
    loom::model(|| {
        let timers = Arc::new(PauseTimers::new(Quantum::for_rate(LINE)));
        timers.handle_pfc(Time::ZERO, &frame(CLASS, u16::MAX));
        let now = Time::from_nanos(1_000);
        let receiver = timers.clone();
        let receiver = thread::spawn(move || receiver.handle_pfc(now, &frame(CLASS, 100)));
        timers.end_pauses(now);
        receiver.join().unwrap();
        let end = now + Quantum::for_rate(LINE).times(100);
        assert!(timers.next_wakeup(now).is_none_or(|until| until == end));
        assert_eq!(timers.paused(end), ClassSet::EMPTY);
    });
}

/// A stage is repeated while the transmitter finds it expired: the transmitter returns to its rate, although the rate did not
/// change.
#[test]
fn a_stage_repeated_at_its_expiry_is_followed() {
    loom::model(|| {
        let adjuster = adjuster();
        adjuster.handle_frame(Time::ZERO, &frame(CLASS, 1));
        let first = Look::FIRST.again(Time::ZERO, &adjuster);
        assert_eq!(first.rate, BitRate::gbps(5));
        let later = Time::ZERO + AGEING;
        let transmitter = adjuster.clone();
        let transmitter = thread::spawn(move || first.again(later, &transmitter).again(later, &transmitter));
        adjuster.handle_frame(later, &frame(CLASS, 1));
        let seen = transmitter.join().unwrap();
        assert_eq!(seen.again(later, &adjuster).rate, BitRate::gbps(5));
        assert_eq!(seen.again(later, &adjuster).again(later + AGEING, &adjuster).rate, LINE);
    });
}

/// The receiver's count of arrivals is set to the peer's, up and down, while the transmitter computes the freed blocks.
/// Finally the limit covers the whole free buffer; meanwhile the limit follows either the old or the new count.
#[test]
fn counts_set_anew_are_settled() {
    for (received, peers_count) in [(4, 10), (10, 4)] {
        loom::model(move || {
            let capacity = 100;
            let receiver = Arc::new(BlockCounters::new(BLOCK * capacity));
            receiver.handle_arrivals(CLASS, received);
            let settled = |receiver: &BlockCounters| {
                receiver.settle(CLASS, || 0);
                receiver.limit(CLASS)
            };
            assert_eq!(settled(&receiver), capacity as u32 + received);
            let at_transmitter = receiver.clone();
            let transmitter = thread::spawn(move || {
                let limits = [settled(&at_transmitter), settled(&at_transmitter)];
                assert!(
                    limits.iter().all(|limit| [received, peers_count].contains(&(limit - capacity as u32))),
                    "{limits:?}"
                );
            });
            let confirmations = (0..CONFIRMATIONS).map(|_| receiver.handle_sent_total(CLASS, peers_count, 0));
            assert!(confirmations.fold(false, |set, more| set || more));
            transmitter.join().unwrap();
            assert_eq!(settled(&receiver), capacity as u32 + peers_count);
        });
    }
}

/// A PAUSE and its RESUME arrive while the transmitter reads the pause timers: after both the class may send; classes without a message
/// always may.
#[test]
fn a_resume_ends_the_pause() {
    loom::model(|| {
        let timers = Arc::new(PauseTimers::new(Quantum::for_rate(LINE)));
        let receiver = timers.clone();
        let receiver = thread::spawn(move || {
            receiver.handle_pfc(Time::ZERO, &frame(CLASS, u16::MAX));
            receiver.handle_pfc(Time::ZERO, &frame(CLASS, 0));
        });
        let paused = timers.paused(Time::ZERO);
        assert_eq!(paused - CLASS.alone(), ClassSet::EMPTY);
        receiver.join().unwrap();
        assert_eq!(timers.paused(Time::ZERO), ClassSet::EMPTY);
    });
}

/// A PAUSE that arrives while the transmitter finds an older one expired is not lost.
#[test]
fn a_pause_is_not_lost_to_one_that_ends() {
    loom::model(|| {
        let timers = Arc::new(PauseTimers::new(Quantum::for_rate(LINE)));
        timers.handle_pfc(Time::ZERO, &frame(CLASS, 1));
        let later = Time::from_nanos(1_000);
        let receiver = timers.clone();
        let receiver = thread::spawn(move || receiver.handle_pfc(later, &frame(CLASS, 1_000)));
        let _ = timers.paused(later);
        receiver.join().unwrap();
        assert_eq!(timers.paused(later), CLASS.alone());
    });
}

/// Frames are admitted to the buffer and then counted as arrived, while the transmitter computes the freed blocks: the limit
/// never covers occupied buffer, and finally covers the whole free buffer.
#[test]
fn credit_is_never_given_for_room_that_is_taken() {
    loom::model(|| {
        let (capacity, frame) = (10, 3);
        let (receiver, held) = (Arc::new(BlockCounters::new(BLOCK * capacity)), Arc::new(AtomicU64::new(0)));
        let settled = |receiver: &BlockCounters, held: &AtomicU64| {
            receiver.settle(CLASS, || held.load(Ordering::Relaxed) as u32);
            receiver.limit(CLASS)
        };
        let (at_transmitter, in_buffer) = (receiver.clone(), held.clone());
        // No frame leaves, so the limit stays at its initial value.
        let transmitter = thread::spawn(move || {
            assert_eq!(settled(&at_transmitter, &in_buffer), capacity as u32);
            assert_eq!(settled(&at_transmitter, &in_buffer), capacity as u32);
        });
        for _ in 0..2 {
            held.fetch_add(frame, Ordering::Relaxed);
            receiver.handle_arrivals(CLASS, frame as u32);
        }
        transmitter.join().unwrap();
        held.fetch_sub(frame, Ordering::Relaxed);
        assert_eq!(settled(&receiver, &held), (capacity + frame) as u32);
    });
}

/// A CF_Update arrives while the transmitter sends: the cells in use stay within the limit, and finally all others are credit.
#[test]
fn freed_cells_are_credit_once() {
    loom::model(|| {
        let (size, limit, frame) = (CellSize::new(64), 10, 4);
        let frame_bytes = frame * 64 - 4;
        let freed = |cells| CreditUpdate {
            count: CreditCount::Freed,
            enabled: CLASS.alone(),
            cells: [cells; 8],
            cell_bytes: 64,
        };
        let sender = Arc::new(CellCredits::new(size, limit, ClassSet::EMPTY));
        sender.handle_update(&freed(0));
        sender.handle_sent(CLASS, frame_bytes);
        let at_transmitter = sender.clone();
        let transmitter = thread::spawn(move || {
            for _ in 0..2 {
                if at_transmitter.may_send(CLASS, frame_bytes) {
                    at_transmitter.handle_sent(CLASS, frame_bytes);
                }
            }
        });
        sender.handle_update(&freed(frame));
        transmitter.join().unwrap();
        let in_use = sender.sent_total(CLASS) - frame;
        assert!(in_use <= limit);
        assert_eq!(sender.credit(CLASS), limit - in_use);
    });
}

/// A port changes from PFC to PAUSE while a PFC frame arrives, and its transmitter ends all pauses: the PFC pause holds for at most its own
/// time, or is over, and later PFC frames are ignored.
#[test]
fn a_pause_received_as_the_kind_changes_expires() {
    loom::model(|| {
        let pfc = PortFlowControl::new(Pfc { quanta: 100, refresh_percent: 50 });
        let port = Arc::new(TxRegulator::new(&pfc, LINE, CLASS.alone()));
        let pause = ControlFrame::Pfc(frame(CLASS, 100));
        let receiver = port.clone();
        let receiver = thread::spawn(move || receiver.handle(Time::ZERO, &pause));
        port.set_message_kind(MessageKind::Pause);
        port.reset(Time::ZERO);
        let was_obeyed = receiver.join().unwrap();
        assert!(was_obeyed || port.paused(Time::ZERO).is_empty());
        assert_eq!(port.paused(Time::ZERO) - CLASS.alone(), ClassSet::EMPTY);
        assert_eq!(port.paused(Time::ZERO + Quantum::for_rate(LINE).times(100)), ClassSet::EMPTY);
        assert!(!port.handle(Time::ZERO, &pause));
    });
}

/// Bytes of a peer that knows PFC alone are counted while the transmitter reads them each period: none is lost or read twice.
#[test]
fn arrivals_are_read_once() {
    loom::model(|| {
        let arrivals = Arc::new(ArrivalCounters::new(Bytes::ZERO));
        let receiver = arrivals.clone();
        let receiver = thread::spawn(move || [100, 200].into_iter().for_each(|bytes| receiver.count(CLASS, bytes)));
        let (first, second) = (arrivals.bytes()[CLASS.index()], arrivals.bytes()[CLASS.index()]);
        assert!(
            first <= second && [first, second].iter().all(|bytes| [0, 100, 300].contains(bytes)),
            "{first}, {second}"
        );
        receiver.join().unwrap();
        assert_eq!(arrivals.bytes()[CLASS.index()], 300);
    });
}

/// The count of arrived cells is set by CC_Update while the transmitter computes the freed cells. Finally all cells but the held ones are
/// freed; meanwhile the freed ones follow either the old or the new count.
#[test]
fn cells_set_anew_are_freed_once() {
    loom::model(|| {
        let (size, lost) = (CellSize::new(64), 6);
        let receiver = Arc::new(CellCounters::new(size));
        receiver.handle_arrivals(CLASS, 4);
        let held = || Bytes::new(64);
        let at_transmitter = receiver.clone();
        let transmitter = thread::spawn(move || at_transmitter.freed(CLASS, held));
        let consumed =
            CreditUpdate { count: CreditCount::Consumed, enabled: CLASS.alone(), cells: [4 + lost; 8], cell_bytes: 64 };
        receiver.handle_update(&consumed, |_| 0);
        assert!([3, 3 + lost].contains(&transmitter.join().unwrap()));
        assert_eq!((receiver.freed(CLASS, held), receiver.resyncs()), (3 + lost, 1));
    });
}
