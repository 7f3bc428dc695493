//! Streams between ports that are queues, by a clock of the test's.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_units::{BitRate, CLASSES, Class, MacAddr, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::*;
use crate::TestFailure;
use crate::tester::{Amount, ControlStream, Lengths, Marking, PfcReaction, StreamId, TestStream};

const RATE: BitRate = BitRate::mbps(10);
const CLASS: Class = Class::new(3);

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// End of a cable. A frame arrives at once.
#[derive(Clone, Default)]
struct End {
    arrivals: Queue,
    departures: Queue,
    lost: Arc<AtomicU64>,
    pads: bool,
}

impl WirePort for End {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.departures.lock().unwrap().push_back(frame.to_vec());
        true
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) {
        self.arrivals.lock().unwrap().drain(..).for_each(|frame| each(&frame));
    }

    fn lost(&mut self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn sends_short_frames(&self) -> bool {
        !self.pads
    }

    fn set_link_up(&mut self, _: bool) -> Result<(), TestFailure> {
        Ok(())
    }
}

/// Ports of which two ports are joined, and a clock that steps by 100 us.
struct Joined {
    stream_ports: StreamPorts,
    ends: [End; 2],
    now: Cell<Time>,
}

impl Joined {
    fn new() -> Joined {
        let one = End::default();
        let other =
            End { arrivals: one.departures.clone(), departures: one.arrivals.clone(), pads: true, ..End::default() };
        let ends = [one, other];
        let port = |n: usize| -> (PortSetting, Box<dyn WirePort>) {
            let station = MacAddr([2, 0, 0, 9, 0, n as u8]);
            (PortSetting { name: format!("t{n}"), rate: RATE, station }, Box::new(ends[n].clone()))
        };
        Joined {
            stream_ports: StreamPorts::new(vec![port(0), port(1)]),
            ends: ends.clone(),
            now: Cell::new(Time::ZERO),
        }
    }

    fn run(&mut self, span: Span) {
        let end = self.now.get() + span;
        while self.now.get() < end {
            self.now.set(self.now.get() + STEP);
            self.stream_ports.poll(&|| self.now.get());
        }
    }

    /// A stream of 1,230 B frames: with preamble and gap 1 ms each at 10 Mb/s.
    fn stream(&mut self, amount: Amount) -> StreamId {
        let marking = Marking::Dscp(3);
        let lengths = Lengths::Fixed(1_230);
        let stream = TestStream { from: 0, to: 1, marking, class: CLASS, ect: false, lengths, rate: RATE, amount };
        self.stream_ports.start(&stream, self.now.get())
    }

    /// PFC of a device, to the sender.
    fn pause(&mut self, quanta: u16) {
        let mut times = [0; CLASSES];
        times[3] = quanta;
        let frame = ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times }).encode(MacAddr([2; 6]));
        self.ends[0].arrivals.lock().unwrap().push_back(frame.to_vec());
    }
}

const STEP: Span = Span::from_micros(100);

#[test]
fn frames_are_evenly_spaced_and_counted() {
    let mut joined = Joined::new();
    let id = joined.stream(Amount::UntilStopped);
    joined.run(Span::from_millis(100));
    let stats = joined.stream_ports.stats(id);
    assert!((99..=101).contains(&stats.sent) && stats.received >= 99, "{stats:?}");
    assert_eq!(stats.received_wire_bytes, stats.received * 1_250);
    assert!(stats.longest_gap.is_some_and(|gap| gap.length() <= Span::from_millis(1) + STEP), "{stats:?}");
    assert_eq!((stats.out_of_order, stats.misdelivered, stats.ce), (0, 0, 0));
    joined.stream_ports.stop(id);
    joined.run(STEP);
    let sent = joined.stream_ports.stats(id).sent;
    joined.run(Span::from_millis(10));
    assert_eq!((joined.stream_ports.stats(id).sent, joined.stream_ports.stats(id).received), (sent, sent));
    assert_eq!(joined.stream_ports.disturbance(), crate::Disturbance { late: STEP, ..Default::default() });
}

#[test]
fn a_paused_stream_stops_and_makes_up_nothing() {
    let mut joined = Joined::new();
    let id = joined.stream(Amount::UntilStopped);
    joined.run(Span::from_millis(10));
    // 51.2 us each: 51 ms.
    joined.pause(1_000);
    joined.run(Span::from_millis(1));
    let before = joined.stream_ports.stats(id).sent;
    joined.run(Span::from_millis(49));
    assert_eq!(joined.stream_ports.stats(id).sent, before);
    assert!(joined.stream_ports.next_due() > joined.now.get(), "a paused stream keeps no thread busy");
    let now = joined.now.get();
    let control = joined.stream_ports.control_stats(0, now);
    assert_eq!((control.paused, control.xoff[3], control.pfc[4]), (CLASS.alone(), 1, 0));
    joined.run(Span::from_millis(11));
    let sent = joined.stream_ports.stats(id).sent - before;
    assert!((8..=11).contains(&sent), "{sent}");
    assert!(joined.stream_ports.disturbance().late <= STEP * 2, "the pause is no delay of the tester");
    // A resume acts at once.
    joined.pause(u16::MAX);
    joined.run(Span::from_millis(5));
    joined.pause(0);
    let before = joined.stream_ports.stats(id).sent;
    joined.run(Span::from_millis(5));
    assert!(joined.stream_ports.stats(id).sent >= before + 4);
}

#[test]
fn a_slow_or_deaf_port_sends_on() {
    for (reaction, least) in [(PfcReaction::Obey(Span::from_millis(20)), 18), (PfcReaction::Ignore, 38)] {
        let mut joined = Joined::new();
        joined.stream_ports.set_pfc_reaction(0, reaction);
        let id = joined.stream(Amount::UntilStopped);
        joined.pause(u16::MAX);
        joined.run(Span::from_millis(40));
        let sent = joined.stream_ports.stats(id).sent;
        assert!((least..=least + 4).contains(&sent), "{reaction:?} {sent}");
    }
}

#[test]
fn a_late_tester_and_lost_frames_are_reported() {
    let mut joined = Joined::new();
    let id = joined.stream(Amount::Frames(30));
    joined.run(Span::from_millis(5));
    joined.now.set(joined.now.get() + Span::from_millis(40));
    joined.ends[1].lost.fetch_add(3, Ordering::Relaxed);
    joined.run(STEP * 2);
    assert_eq!(joined.stream_ports.stats(id).sent, 30, "what was late is sent");
    let disturbance = joined.stream_ports.disturbance();
    assert!(disturbance.late >= Span::from_millis(40) && disturbance.late_total == Span::from_millis(40) + STEP);
    assert!(disturbance.losses == ["the tester's port t1 lost 3 frames"]);
    joined.stream_ports.reset().unwrap();
    assert_eq!(joined.stream_ports.disturbance(), crate::Disturbance::default());
}

#[test]
fn control_frames_are_refreshed_and_not_padded() {
    let mut joined = Joined::new();
    let frame = ControlFrame::Pause(7).encode(MacAddr([3; 6])).to_vec();
    let stream = ControlStream { from: 0, frame: frame.clone(), period: Some(Span::from_millis(2)) };
    let id = joined.stream_ports.send_control(&stream, joined.now.get()).unwrap();
    joined.run(Span::from_millis(21));
    joined.stream_ports.stop(id);
    let now = joined.now.get();
    let arrived = joined.stream_ports.control_stats(1, now);
    assert!((10..=12).contains(&arrived.pause_frames), "{arrived:?}");
    // A frame of the other port's station, which a switch must not forward.
    let own = ControlFrame::Pause(7).encode(MacAddr([2, 0, 0, 9, 0, 0])).to_vec();
    let once = ControlStream { from: 0, frame: own[..20].to_vec(), period: None };
    joined.stream_ports.send_control(&once, joined.now.get()).unwrap();
    joined.run(STEP * 2);
    assert_eq!(joined.stream_ports.control_stats(1, joined.now.get()).forwarded, 1);
    let padded = ControlStream { from: 1, ..once };
    let refused = joined.stream_ports.send_control(&padded, joined.now.get());
    assert!(matches!(refused, Err(TestFailure::Impossible(_))), "{refused:?}");
}

#[test]
fn frames_of_a_former_test_count_nowhere() {
    let mut joined = Joined::new();
    joined.stream(Amount::Frames(5));
    joined.now.set(joined.now.get() + Span::from_millis(20));
    let Joined { stream_ports, now, .. } = &mut joined;
    stream_ports.poll(&|| now.get());
    joined.stream_ports.reset().unwrap();
    let id = joined.stream(Amount::Frames(0));
    joined.stream_ports.stop(id);
    joined.run(STEP * 3);
    assert_eq!(joined.stream_ports.stats(id).received, 0);
}
