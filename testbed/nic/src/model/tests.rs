//! NIC model against a minimal switch port and host, on a virtual clock.

use proptest::prelude::*;
use weir_flowctl::kinds::Pfc;
use weir_flowctl::{PortFlowControl, wire_bytes};
use weir_units::{BitRate, Bytes, Class, ClassSet, LINK_OVERHEAD, MacAddr, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::*;

const RATE: BitRate = BitRate::gbps(1);
const LOSSLESS: Class = Class::new(3);
const LOSSY: Class = Class::new(0);
const FRAME: usize = 1_000;
/// Time of a frame of this length on the link, with overhead.
const FRAME_TIME: Span = Span::from_nanos((FRAME as u64 + 24) * 8);

#[derive(Debug)]
struct Numbered(Vec<u8>);

impl ModelFrame for Numbered {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A frame of a class with a number, neither of which the model reads.
fn frame(class: Class, number: u32, length: usize) -> Numbered {
    let mut bytes = vec![0; length];
    bytes[0] = 2;
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = class.number();
    bytes[16..20].copy_from_slice(&number.to_be_bytes());
    Numbered(bytes)
}

fn told(frame: &Numbered) -> (u8, u32) {
    (frame.0[14], u32::from_be_bytes(frame.0[16..20].try_into().unwrap()))
}

fn pfc(class: Class, quanta: u16) -> Numbered {
    let pfc = PfcFrame { enabled: class.alone(), times: [quanta; 8] };
    Numbered(ControlFrame::Pfc(pfc).encode(MacAddr::default()).to_vec())
}

fn message(told: &ControlFrame) -> Option<Numbered> {
    Some(Numbered(told.encode(MacAddr::default()).to_vec()))
}

fn config() -> ModelConfig {
    let [lossless, lossy, xoff, xon] = [20_000, 10_000, 10_000, 6_000].map(Bytes::new);
    ModelConfig {
        rate: RATE,
        delay: Span::from_micros(1),
        slack: Span::ZERO,
        flow_control: PortFlowControl::new(Pfc { quanta: 1_000, refresh_percent: 50 }),
        lossless: LOSSLESS.alone(),
        obeys: true,
        pauses: true,
        host_queues: 2,
        send_buffer: Bytes::kb(8),
        send_frames: 32,
        receive: ReceiveBuffer { lossless, lossless_frames: 300, lossy, lossy_frames: 150, xoff, xon },
        receive_rate: None,
    }
}

fn at(ns: u64) -> Time {
    Time::from_nanos(ns)
}

/// What came out at the switch until `end`, with the model polled every `step`, as (class, number, when).
fn to_switch(nic: &mut NicModel<Numbered>, from: u64, end: u64, step: u64) -> Vec<(u8, u32, u64)> {
    let mut out = Vec::new();
    for ns in (from..end).step_by(step as usize) {
        nic.poll(at(ns));
        nic.transmit(at(ns), message);
        while let Some(frame) = nic.take_to_switch(at(ns)) {
            if ControlFrame::is_control(&frame.0) {
                continue;
            }
            let (class, number) = told(&frame);
            out.push((class, number, ns));
        }
    }
    out
}

/// Fills the queue of a class by a queue of the host; how many frames it took.
fn fill(nic: &mut NicModel<Numbered>, queue: usize, class: Class) -> u32 {
    let mut taken = 0;
    while nic.takes(queue) > 0 {
        for _ in 0..nic.takes(queue).min(4) {
            nic.handle_from_host(queue, class, frame(class, taken, FRAME));
            taken += 1;
        }
    }
    taken
}

#[test]
fn frames_leave_at_the_links_rate_after_its_delay() {
    let mut nic = NicModel::new(&config());
    (0..5).for_each(|n| nic.handle_from_host(0, LOSSY, frame(LOSSY, n, FRAME)));
    let out = to_switch(&mut nic, 0, 60_000, 1);
    let expected: Vec<u64> = (0..5).map(|n| n * FRAME_TIME.as_nanos() + 1_000).collect();
    assert_eq!(out.iter().map(|(.., ns)| *ns).collect::<Vec<_>>(), expected);
    assert_eq!(FRAME_TIME.as_nanos(), 8_192);
}

#[test]
fn a_paused_class_waits_for_its_xon_and_others_go_on() {
    let mut nic = NicModel::new(&config());
    nic.handle_from_switch(at(0), None, pfc(LOSSLESS, u16::MAX));
    nic.poll(at(1_000));
    for n in 0..3 {
        nic.handle_from_host(0, LOSSLESS, frame(LOSSLESS, n, FRAME));
        nic.handle_from_host(1, LOSSY, frame(LOSSY, n, FRAME));
    }
    let before = to_switch(&mut nic, 1_000, 100_000, 100);
    assert_eq!(before.iter().map(|(class, n, _)| (*class, *n)).collect::<Vec<_>>(), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(nic.report(at(100_000), [0; 2]).paused, LOSSLESS.alone());
    nic.handle_from_switch(at(100_000), None, pfc(LOSSLESS, 0));
    let after = to_switch(&mut nic, 100_000, 200_000, 100);
    assert_eq!(after.iter().map(|(class, n, _)| (*class, *n)).collect::<Vec<_>>(), [(3, 0), (3, 1), (3, 2)]);
    assert!(after[0].2 >= 102_000, "the message's delay and the frame's");
    let report = nic.report(at(200_000), [0; 2]);
    assert_eq!((report.classes[3].pauses, report.classes[3].paused_for), (1, Span::from_nanos(100_000)));
    assert!(report.balances() && report.to_host.consumed == 2, "{report:?}");
}

#[test]
fn a_pause_ends_by_its_quanta() {
    let mut nic = NicModel::new(&config());
    nic.handle_from_switch(at(0), None, pfc(LOSSLESS, 100));
    nic.poll(at(1_000));
    nic.handle_from_host(0, LOSSLESS, frame(LOSSLESS, 0, FRAME));
    // 100 quanta of 512 ns from 1,000 ns on, then the link's delay.
    assert_eq!(to_switch(&mut nic, 1_000, 100_000, 10), [(3, 0, 53_200)]);
}

#[test]
fn a_full_queue_holds_back_its_queue_of_the_host_alone() {
    let mut nic = NicModel::new(&config());
    nic.handle_from_switch(at(0), None, pfc(LOSSLESS, u16::MAX));
    nic.poll(at(1_000));
    let taken = fill(&mut nic, 1, LOSSLESS);
    // Seven of 1,004 B fit 8 KB; a burst of four brings the eighth, which waits with it.
    assert_eq!((taken, nic.takes(1), nic.takes(0)), (8, 0, ModelConfig::STASH_FRAMES));
    let report = nic.report(at(1_000), [0; 2]);
    assert_eq!((report.classes[3].held_back, report.to_switch.held, report.to_switch.dropped()), (1, 8, 0));
    nic.handle_from_switch(at(2_000), None, pfc(LOSSLESS, 0));
    let out = to_switch(&mut nic, 2_000, 100_000, 100);
    assert_eq!(out.iter().map(|(_, n, _)| *n).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(nic.takes(1), ModelConfig::STASH_FRAMES);
}

#[test]
fn a_nic_that_does_not_obey_sends_on() {
    let mut nic = NicModel::new(&ModelConfig { obeys: false, ..config() });
    nic.handle_from_switch(at(0), None, pfc(LOSSLESS, u16::MAX));
    nic.poll(at(1_000));
    nic.handle_from_host(0, LOSSLESS, frame(LOSSLESS, 0, FRAME));
    assert_eq!(to_switch(&mut nic, 1_000, 20_000, 100).len(), 1);
    assert_eq!(nic.report(at(20_000), [0; 2]).control_ignored, 1);
}

/// Messages that came out at the switch from `from` to `end`: the quanta of the lossless class, and when.
fn messages(nic: &mut NicModel<Numbered>, from: u64, end: u64) -> Vec<(u16, u64)> {
    let mut out = Vec::new();
    for ns in (from..end).step_by(100) {
        nic.poll(at(ns));
        nic.transmit(at(ns), message);
        while let Some(frame) = nic.take_to_switch(at(ns)) {
            let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(&frame.0) else { panic!("{frame:?}") };
            assert_eq!(pfc.enabled, LOSSLESS.alone());
            out.push((pfc.times[LOSSLESS.index()], ns));
        }
    }
    out
}

#[test]
fn a_host_that_takes_nothing_has_its_class_paused_and_resumed() {
    let mut nic = NicModel::new(&config());
    for n in 0..12 {
        nic.handle_from_switch(at(0), Some(LOSSLESS), frame(LOSSLESS, n, FRAME));
        nic.handle_from_switch(at(0), Some(LOSSY), frame(LOSSY, n, FRAME));
    }
    let paused = messages(&mut nic, 0, 10_000);
    assert_eq!(paused, [(1_000, 2_000)], "at once when 10 KB are reached, over the link's delay");
    // The refresh comes half of 1,000 quanta of 512 ns later.
    assert_eq!(messages(&mut nic, 10_000, 300_000), [(1_000, 258_000)]);
    let report = nic.report(at(300_000), [0; 2]);
    assert_eq!((report.classes[3].dropped, report.classes[0].dropped), ([0; 4], [3, 0, 0, 0]));
    assert_eq!((report.classes[3].pauses_sent, report.pausing), (1, LOSSLESS.alone()));
    let taken: Vec<_> =
        std::iter::from_fn(|| nic.take_to_host(at(300_000), ClassSet::ALL)).map(|frame| told(&frame)).collect();
    assert_eq!(taken[..4], [(0, 0), (3, 0), (0, 1), (3, 1)], "classes take turns");
    assert_eq!(taken.len(), 12 + 9);
    assert_eq!(messages(&mut nic, 300_000, 310_000), [(0, 301_000)]);
    assert!(nic.report(at(310_000), [0; 2]).balances());
}

#[test]
fn a_nic_that_sends_no_pauses_drops_what_finds_no_room() {
    let mut nic = NicModel::new(&ModelConfig { pauses: false, ..config() });
    (0..25).for_each(|n| nic.handle_from_switch(at(0), Some(LOSSLESS), frame(LOSSLESS, n, FRAME)));
    assert_eq!(messages(&mut nic, 0, 10_000), []);
    let report = nic.report(at(10_000), [0; 2]);
    assert_eq!((report.classes[3].dropped[ModelDrop::ReceiveBufferFull as usize], report.to_host.held), (6, 19));
    assert!(report.balances());
}

#[test]
fn a_slow_host_gets_its_rate() {
    let mut nic = NicModel::new(&ModelConfig { receive_rate: Some(BitRate::mbps(100)), ..config() });
    (0..9).for_each(|n| nic.handle_from_switch(at(0), Some(LOSSLESS), frame(LOSSLESS, n, FRAME)));
    let mut times = Vec::new();
    for ns in (0..1_000_000).step_by(10) {
        nic.poll(at(ns));
        while nic.take_to_host(at(ns), ClassSet::ALL).is_some() {
            times.push(ns);
        }
    }
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [81_920; 8]);
}

#[test]
fn what_is_under_way_goes_with_the_host() {
    let mut nic = NicModel::new(&config());
    nic.handle_from_switch(at(0), None, pfc(LOSSLESS, u16::MAX));
    nic.poll(at(1_000));
    let sent = fill(&mut nic, 0, LOSSLESS);
    (0..3).for_each(|n| nic.handle_from_switch(at(1_000), Some(LOSSY), frame(LOSSY, n, FRAME)));
    nic.set_link(at(2_000), false);
    nic.handle_from_switch(at(2_000), Some(LOSSY), frame(LOSSY, 3, FRAME));
    assert_eq!((nic.takes(0), nic.transmit(at(2_000), message), nic.link_room()), (0, 0, config().link_frames()));
    let report = nic.report(at(2_000), [0; 2]);
    let gone = |way: &DirectionCounters| (way.dropped[ModelDrop::NoHost as usize], way.held);
    assert_eq!((gone(&report.to_switch), gone(&report.to_host)), ((u64::from(sent), 0), (4, 0)));
    assert!(report.balances());
    // The next host is not paused by earlier messages.
    nic.set_link(at(3_000), true);
    nic.handle_from_host(0, LOSSLESS, frame(LOSSLESS, 9, FRAME));
    assert_eq!(to_switch(&mut nic, 3_000, 10_000, 100), [(3, 9, 4_000)]);
}

#[test]
fn mac_control_of_the_host_stays_out() {
    let mut nic = NicModel::new(&config());
    nic.handle_from_host(0, LOSSY, pfc(LOSSLESS, 9));
    assert_eq!(nic.transmit(at(0), message), 0);
    let report = nic.report(at(0), [0; 2]);
    assert_eq!(report.to_switch.dropped[ModelDrop::MacControl as usize], 1);
    assert!(report.balances());
}

/// One step of a random life.
#[derive(Clone, Debug)]
enum Step {
    /// Frame by the queue of its class: queues of a device have no order among them.
    FromHost(u8, usize),
    FromSwitch(u8, usize),
    Told(u8, u16),
    HostTakes(u8),
    Link(bool),
    Pass(u64),
}

fn class() -> impl Strategy<Value = u8> {
    prop_oneof![Just(LOSSLESS.number()), 0..8u8]
}

fn step() -> impl Strategy<Value = Step> {
    let length = 60..1_518usize;
    prop_oneof![
        8 => (class(), length.clone()).prop_map(|(class, length)| Step::FromHost(class, length)),
        16 => (class(), length).prop_map(|(class, length)| Step::FromSwitch(class, length)),
        2 => (0..8u8, prop_oneof![Just(0u16), any::<u16>()]).prop_map(|(class, quanta)| Step::Told(class, quanta)),
        2 => (0..8u8).prop_map(Step::HostTakes),
        1 => prop::bool::weighted(0.8).prop_map(Step::Link),
        8 => (0..30_000u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Whatever happens: each frame is accounted for, frames of a class stay in order and none comes twice, a class that is paused
    /// sends nothing, the link is never faster than its rate, and no lossless frame is lost as long as the switch obeys.
    #[test]
    fn promises_hold_whatever_happens(steps in prop::collection::vec(step(), 1..400), slack_us in 0..50u64) {
        let config = ModelConfig { slack: Span::from_micros(slack_us), ..config() };
        let mut nic = NicModel::new(&config);
        let (mut now, mut up) = (Time::ZERO, true);
        let mut sent = [[0u32; 8]; 2];
        let mut next = [[0u32; 8]; 2];
        let mut on_wire = Bytes::ZERO;
        // The switch obeys at once, with its own regulator.
        let gate = TxRegulator::new(&config.flow_control, RATE, config.lossless);
        // The model's view of pauses is its messages' arrival.
        let mut pauses = Vec::new();
        let obeyed = TxRegulator::new(&config.flow_control, RATE, config.lossless);
        for step in steps {
            match step {
                Step::FromHost(class, length) if nic.takes(usize::from(class) % 2) > 0 => {
                    let class = Class::new(class);
                    nic.handle_from_host(class.index() % 2, class, frame(class, sent[0][class.index()], length));
                    sent[0][class.index()] += 1;
                }
                Step::FromSwitch(class, length) if nic.link_room() > 0 => {
                    let class = Class::new(class);
                    if !gate.paused(now).contains(class) {
                        // The switch's port is no faster than the link.
                        now += RATE.time_for(wire_bytes(length as u32, LINK_OVERHEAD));
                        nic.handle_from_switch(now, Some(class), frame(class, sent[1][class.index()], length));
                        sent[1][class.index()] += 1;
                    }
                }
                Step::Told(class, quanta) if nic.link_room() > 0 && up => {
                    let told = pfc(Class::new(class), quanta);
                    pauses.push((now + config.delay, ControlFrame::decode(&told.0).unwrap()));
                    nic.handle_from_switch(now, None, told);
                }
                Step::HostTakes(frames) => {
                    for _ in 0..frames {
                        let Some(frame) = nic.take_to_host(now, ClassSet::ALL) else { break };
                        let (class, number) = told(&frame);
                        let expected = &mut next[1][usize::from(class)];
                        prop_assert!(number >= *expected, "class {} in order", class);
                        *expected = number + 1;
                    }
                }
                Step::Link(is_up) => {
                    nic.set_link(now, is_up);
                    if up && !is_up {
                        obeyed.reset(now);
                        gate.reset(now);
                        pauses.clear();
                    }
                    up = is_up;
                }
                Step::Pass(ns) => now += Span::from_nanos(ns),
                _ => {}
            }
            nic.poll(now);
            pauses.retain(|(arrives, frame)| {
                let due = *arrives <= now;
                if due {
                    obeyed.handle(now, frame);
                }
                !due
            });
            let before = nic.report(now, [0; 2]);
            prop_assert_eq!(before.paused, obeyed.paused(now));
            nic.transmit(now, message);
            let after = nic.report(now, [0; 2]);
            for class in Class::ALL {
                let went = after.classes[class.index()].to_switch - before.classes[class.index()].to_switch;
                prop_assert!(went == 0 || !before.paused.contains(class), "class {} sent {} while paused", class.index(), went);
            }
            prop_assert!(after.balances(), "{:?}", after);
            while let Some(out) = nic.take_to_switch(now) {
                on_wire += wire_bytes(out.frame_bytes(), LINK_OVERHEAD);
                if let Ok(message) = ControlFrame::decode(&out.0) {
                    gate.handle(now, &message);
                    continue;
                }
                let (class, number) = told(&out);
                let expected = &mut next[0][usize::from(class)];
                prop_assert!(number >= *expected, "class {} in order", class);
                *expected = number + 1;
            }
            let most = RATE.bytes_in(now.since(Time::ZERO) + config.slack) + Bytes::new(1_600);
            prop_assert!(on_wire <= most, "{} on the wire, {} at most", on_wire, most);
        }
        let report = nic.report(now, [0; 2]);
        // Two delays, and a frame that a message waits for at either end: less than the headroom.
        prop_assert_eq!(report.classes[LOSSLESS.index()].dropped[ModelDrop::ReceiveBufferFull as usize], 0);
    }
}
