//! What one lcore hands another, under every interleaving, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-flowctl --release --lib loom_models`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use weir_units::{BitRate, Bytes, Class, Span, Time};

use crate::Quantum;
use crate::cbfc::{BLOCK, Receiver};
use crate::frame::PfcFrame;
use crate::gfc::StageTable;
use crate::gfc::stage::Adjuster;
use crate::pfc::Gate;

const CLASS: Class = Class::new(3);
const LINE: BitRate = BitRate::gbps(10);

fn frame(class: Class, time: u16) -> PfcFrame {
    let mut times = [0; 8];
    times[class.index()] = time;
    PfcFrame { enabled: class.bit(), times }
}

/// The receiver sets stages while the transmitter follows the version: in the end the transmitter's limiter has the rate
/// of the last message, with no more than one look after it.
#[test]
fn the_last_stage_is_followed() {
    loom::model(|| {
        let table = StageTable::new(Bytes::mb(1), Bytes::kb(750), LINE, Span::from_micros(90)).unwrap();
        let adjuster = Arc::new(Adjuster::new(table));
        let look = |adjuster: &Adjuster, (seen, rate): (u32, BitRate)| {
            let version = adjuster.rates().version();
            if version == seen { (seen, rate) } else { (version, adjuster.rates().rate(CLASS)) }
        };
        let transmitter = adjuster.clone();
        let transmitter = thread::spawn(move || look(&transmitter, look(&transmitter, (0, LINE))));
        adjuster.handle_frame(&frame(CLASS, 1));
        adjuster.handle_frame(&frame(CLASS, 2));
        let seen = transmitter.join().unwrap();
        assert_eq!(look(&adjuster, seen).1, BitRate::mbps(2_500), "stage 2 is C/4");
    });
}

/// A PAUSE and its RESUME arrive while the transmitter looks: once both are there the class may send, and a class that
/// was never named always may.
#[test]
fn a_resume_opens_the_gate() {
    loom::model(|| {
        let gate = Arc::new(Gate::new(Quantum::at(LINE)));
        let receiver = gate.clone();
        let receiver = thread::spawn(move || {
            receiver.handle_pfc(Time::ZERO, &frame(CLASS, u16::MAX));
            receiver.handle_pfc(Time::ZERO, &frame(CLASS, 0));
        });
        let paused = gate.paused(Time::ZERO);
        assert_eq!(paused & !CLASS.bit(), 0);
        receiver.join().unwrap();
        assert_eq!(gate.paused(Time::ZERO), 0);
    });
}

/// A PAUSE that arrives while the transmitter finds an older one run out is not lost.
#[test]
fn a_pause_is_not_lost_to_one_that_ends() {
    loom::model(|| {
        let gate = Arc::new(Gate::new(Quantum::at(LINE)));
        gate.handle_pfc(Time::ZERO, &frame(CLASS, 1));
        let later = Time::from_nanos(1_000);
        let receiver = gate.clone();
        let receiver = thread::spawn(move || receiver.handle_pfc(later, &frame(CLASS, 1_000)));
        let _ = gate.paused(later);
        receiver.join().unwrap();
        assert_eq!(gate.paused(later), CLASS.bit());
    });
}

/// Frames are admitted to the buffer and then counted as arrived, while the transmitter reckons what is free: it never gives
/// credit for room that is taken, and in the end for all that is free.
#[test]
fn credit_is_never_given_for_room_that_is_taken() {
    loom::model(|| {
        let (capacity, frame) = (10, 3);
        let (receiver, held) = (Arc::new(Receiver::new(BLOCK * capacity)), Arc::new(AtomicU64::new(0)));
        let settled = |receiver: &Receiver, held: &AtomicU64| {
            receiver.settle(CLASS, || BLOCK * held.load(Ordering::Relaxed));
            receiver.limit(CLASS)
        };
        let (at_transmitter, in_buffer) = (receiver.clone(), held.clone());
        // Nothing leaves: the limit is what it was at first.
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
