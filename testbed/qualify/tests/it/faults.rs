//! Devices with a fault each fail exactly the tests that the table of docs/QUALIFY.md names.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_config::SwitchConfig;
use weir_qualify::suite::{FRAME_LENGTHS, run, tests};
use weir_qualify::test_case::Verdict;
use weir_qualify::virtual_time::{self, VirtualDevice, VirtualTester};
use weir_qualify::{
    ControlStats, ControlStream, DeviceCounters, DeviceUnderTest, Disturbance, Facts, PfcReaction, StreamId,
    StreamStats, TestFailure, TestStream, TrafficTester,
};
use weir_units::{BitRate, Class, MacAddr, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

/// Fault of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    PfcIgnored,
    QuantaDoubled,
    WrongClass,
    LossyClassPaused,
    PauseForwarded,
    WatchdogOff,
    HeadroomHalved,
    CountersFrozen,
    SmallFramesWithoutHeadroom,
}

const FAULTS: [(Fault, &str); 9] = [
    (Fault::PfcIgnored, "PFC counted and ignored"),
    (Fault::QuantaDoubled, "quanta doubled"),
    (Fault::WrongClass, "the next class paused"),
    (Fault::LossyClassPaused, "lossy classes paused"),
    (Fault::PauseForwarded, "PAUSE forwarded"),
    (Fault::WatchdogOff, "watchdog off"),
    (Fault::HeadroomHalved, "headroom halved"),
    (Fault::CountersFrozen, "counters frozen"),
    (Fault::SmallFramesWithoutHeadroom, "small frames without headroom"),
];

/// Tester in front of a device whose fault is in what it receives or sends.
struct FaultyTester {
    inner: VirtualTester,
    fault: Fault,
    /// PAUSE frames that each port sent.
    pauses: BTreeMap<usize, u64>,
    disturbance: Disturbance,
}

/// Device whose fault is in its settings or counters.
struct FaultyDevice {
    inner: VirtualDevice,
    fault: Fault,
    frozen: Option<DeviceCounters>,
}

impl FaultyTester {
    /// The frame as the device with the fault understands it.
    fn understood(&mut self, control: &ControlStream) -> Vec<u8> {
        let Ok(frame) = ControlFrame::decode(&control.frame) else { return control.frame.clone() };
        let changed = match (self.fault, frame) {
            (Fault::PauseForwarded, ControlFrame::Pause(_)) => {
                *self.pauses.entry(control.from).or_default() += 1;
                return control.frame.clone();
            }
            // A pause of a single quantum is over before a frame is.
            (Fault::PfcIgnored, ControlFrame::Pfc(pfc)) => PfcFrame { times: pfc.times.map(|time| time.min(1)), ..pfc },
            (Fault::QuantaDoubled, ControlFrame::Pfc(pfc)) => {
                PfcFrame { times: pfc.times.map(|time| time.saturating_mul(2)), ..pfc }
            }
            (Fault::WrongClass, ControlFrame::Pfc(pfc)) => {
                let next = |class: Class| Class::new((class.number() + 1) % 8);
                let mut times = pfc.times;
                times.rotate_right(1);
                PfcFrame { enabled: pfc.enabled.iter().map(next).collect(), times }
            }
            _ => return control.frame.clone(),
        };
        let source = MacAddr(control.frame[6..12].try_into().unwrap());
        ControlFrame::Pfc(changed).encode(source).to_vec()
    }
}

impl TrafficTester for FaultyTester {
    fn ports(&self) -> usize {
        self.inner.ports()
    }
    fn rate(&self, port: usize) -> BitRate {
        self.inner.rate(port)
    }
    fn station(&self, port: usize) -> MacAddr {
        self.inner.station(port)
    }
    fn now(&self) -> Time {
        self.inner.now()
    }
    fn run_for(&mut self, span: Span) -> Result<(), TestFailure> {
        self.inner.run_for(span)
    }
    fn start(&mut self, stream: &TestStream) -> Result<StreamId, TestFailure> {
        self.inner.start(stream)
    }
    fn stop(&mut self, stream: StreamId) -> Result<(), TestFailure> {
        self.inner.stop(stream)
    }
    fn stats(&mut self, stream: StreamId) -> Result<StreamStats, TestFailure> {
        self.inner.stats(stream)
    }
    fn send_control(&mut self, control: &ControlStream) -> Result<StreamId, TestFailure> {
        let frame = self.understood(control);
        self.inner.send_control(&ControlStream { frame, ..control.clone() })
    }
    fn control_stats(&mut self, port: usize) -> Result<ControlStats, TestFailure> {
        let mut stats = self.inner.control_stats(port)?;
        stats.forwarded += self.pauses.iter().filter(|(from, _)| **from != port).map(|(_, sent)| sent).sum::<u64>();
        Ok(stats)
    }
    fn clear_stats(&mut self) -> Result<(), TestFailure> {
        self.pauses.clear();
        self.inner.clear_stats()
    }
    fn set_pfc_reaction(&mut self, port: usize, reaction: PfcReaction) -> Result<(), TestFailure> {
        self.inner.set_pfc_reaction(port, reaction)
    }
    fn set_link_up(&mut self, port: usize, up: bool) -> Result<(), TestFailure> {
        self.inner.set_link_up(port, up)
    }
    fn reset(&mut self) -> Result<(), TestFailure> {
        self.pauses.clear();
        self.inner.reset()
    }
    fn disturbance(&mut self) -> Disturbance {
        self.disturbance.clone()
    }
}

impl DeviceUnderTest for FaultyDevice {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }
    fn counters(&mut self) -> Result<DeviceCounters, TestFailure> {
        self.frozen.clone().map_or_else(|| self.inner.counters(), Ok)
    }
    fn clear(&mut self) -> Result<(), TestFailure> {
        self.inner.clear()
    }
    fn set_watchdog(&mut self, on: bool, drops: bool) -> Result<(), TestFailure> {
        self.inner.set_watchdog(on && self.fault != Fault::WatchdogOff, drops)
    }
    fn set_weight(&mut self, class: Class, weight: u32) -> Result<(), TestFailure> {
        self.inner.set_weight(class, weight)
    }
    fn restore(&mut self) -> Result<(), TestFailure> {
        self.inner.restore()
    }
}

/// Weir with a fault, which its facts do not know.
fn device_with(fault: Fault) -> (FaultyTester, FaultyDevice) {
    let intact = virtual_time::built_in(BitRate::gbps(100));
    let facts_of = |configs: &[SwitchConfig]| virtual_time::new(configs).unwrap().1.facts().clone();
    let mut facts = facts_of(&intact);
    let mut configs = intact;
    for config in &mut configs {
        let headroom: Vec<_> = (0..config.ports.len()).map(|port| config.headroom(port).unwrap()).collect();
        for (port, headroom) in config.ports.iter_mut().zip(headroom) {
            match fault {
                Fault::HeadroomHalved => port.headroom = Some(headroom.divided_by(2)),
                Fault::SmallFramesWithoutHeadroom => port.headroom = Some(headroom),
                _ => {}
            }
        }
        config.pfc.obeys_for_lossy |= fault == Fault::LossyClassPaused;
        if fault == Fault::SmallFramesWithoutHeadroom {
            config.buffer.cell_bytes = 256;
        }
    }
    if fault == Fault::SmallFramesWithoutHeadroom {
        // The headroom was computed for bytes, and a frame of 64 B takes a cell of 256.
        facts.buffer = facts_of(&configs).buffer;
    }
    let (tester, device) = virtual_time::new(&configs).unwrap();
    let tester = FaultyTester { inner: tester, fault, pauses: BTreeMap::new(), disturbance: Disturbance::default() };
    let mut device = FaultyDevice { inner: device.with_facts(facts), fault, frozen: None };
    device.frozen = (fault == Fault::CountersFrozen).then(|| device.inner.counters().unwrap());
    (tester, device)
}

fn failed_tests(fault: Fault) -> Vec<&'static str> {
    let (mut tester, mut device) = device_with(fault);
    let tests: Vec<_> = tests().collect();
    let outcomes = run(&mut tester, &mut device, &tests, &FRAME_LENGTHS, |outcome| {
        if outcome.verdict != Verdict::Passed {
            print!("{fault:?}: {}", outcome.text());
        }
    });
    outcomes.unwrap().iter().filter(|outcome| outcome.verdict == Verdict::Failed).map(|outcome| outcome.id).collect()
}

/// Names as text; three or more successive numbers as a range.
fn in_ranges(ids: &[&str]) -> String {
    let number = |id: &str| id.get(1..)?.parse::<u32>().ok();
    let follows = |pair: &[&str]| {
        pair[0][..1] == pair[1][..1] && number(pair[0]).is_some_and(|first| number(pair[1]) == Some(first + 1))
    };
    let mut texts: Vec<String> = Vec::new();
    let mut rest = ids;
    while let Some(first) = rest.first() {
        let run = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
        if run > 2 {
            texts.push(format!("{first} to {}", rest[run - 1]));
        } else {
            texts.extend(rest[..run].iter().map(|id| id.to_string()));
        }
        rest = &rest[run..];
    }
    texts.join(", ")
}

#[test]
fn ranges_need_three_names() {
    assert_eq!(
        in_ranges(&["L01", "L02", "Y03", "Y04", "F01", "F02", "F03", "PgDrop"]),
        "L01, L02, Y03, Y04, F01 to F03, PgDrop"
    );
}

#[test]
fn a_wrong_count_fails_unless_a_disturbance_explains_it() {
    let y03: Vec<_> = tests().filter(|test| test.id == "Y03").collect();
    let verdict = |late, losses: &[&str]| {
        let (mut tester, mut device) = device_with(Fault::PauseForwarded);
        let losses = losses.iter().map(|text| text.to_string()).collect();
        tester.disturbance = Disturbance { late, losses, ..Disturbance::default() };
        run(&mut tester, &mut device, &y03, &FRAME_LENGTHS, |_| {}).unwrap()[0].verdict
    };
    // At 100 Gb/s frames have 21 us to arrive.
    assert_eq!(verdict(Span::from_micros(20), &[]), Verdict::Failed);
    assert_eq!(verdict(Span::from_micros(22), &[]), Verdict::NotPossible);
    assert_eq!(verdict(Span::ZERO, &["the tester's port lost 1 frames"]), Verdict::NotPossible);
}

#[test]
fn thresholds_smaller_than_their_margin_are_not_tested() {
    let tests: Vec<_> = tests().filter(|test| ["PfcXoffLimit", "LossyQueue"].contains(&test.id)).collect();
    let (mut tester, FaultyDevice { inner, fault, frozen }) = device_with(Fault::None);
    let mut facts = inner.facts().clone();
    facts.buffer.as_mut().unwrap().margin_frames = 1 << 30;
    let mut device = FaultyDevice { inner: inner.with_facts(facts), fault, frozen };
    for outcome in run(&mut tester, &mut device, &tests, &FRAME_LENGTHS, |_| {}).unwrap() {
        assert_eq!(outcome.verdict, Verdict::NotPossible, "{}", outcome.id);
        assert!(outcome.messages[0].contains("and only known to"), "{:?}", outcome.messages);
    }
}

#[test]
fn a_device_with_a_fault_fails_the_tests_of_the_table() {
    assert_eq!(failed_tests(Fault::None), [""; 0], "the wrapper alone changes nothing");
    let mut table = String::from("| fault | tests that fail |\n|---|---|\n");
    for (fault, name) in FAULTS {
        writeln!(table, "| {name} | {} |", in_ranges(&failed_tests(fault))).unwrap();
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/QUALIFY.md");
    let text = std::fs::read_to_string(page).unwrap_or_default();
    assert!(text.contains(&table), "docs/QUALIFY.md has another table than\n{table}");
}
