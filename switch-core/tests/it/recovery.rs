//! A link between two switches on which one is restarted, data is lost, or somebody forges a message: GFC and CBFC go on as before
//! within a bound, and what is lost meanwhile is bounded too.

use std::collections::VecDeque;

use weir_config::LcoreLayout;
use weir_flowctl::cbfc::CONFIRMATIONS;
use weir_switch_core::Packet;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::ProtocolMismatch;
use weir_units::{Bytes, Class, ClassSet, PortId, QueueId, Span, Time};
use weir_wire::mac_control::{
    ControlFrame, CreditAccount, CreditCount, CreditFrame, CreditUpdate, PfcFrame, QueueLengthFrame,
};

use crate::common::{Bench, LAYOUTS, STEP, control, frame};

const CLASS: Class = Class::new(3);
const MESSAGE_PERIOD: Span = Span::from_micros(50);
const AGEING: Span = Span::from_micros(800);
/// As the files below say: 300 KB and a frame of each part, all that the buffer keeps for a queue.
const BUFFER: Bytes = Bytes::kb(300);
const CBFC: &str = "{ kind = \"cbfc\", buffer = \"300KB\", period = \"50us\" }";
/// UEC's, in cells of 128 B.
const UEC: &str = "{ kind = \"uec-cbfc\", limit = \"300KB\", cc_period = \"50us\" }";
const GFC: [&str; 3] = [
    "{ kind = \"gfc-buffer\", b_m = \"300KB\", refresh = \"50us\", ageing = \"800us\" }",
    "{ kind = \"gfc-time\", b_m = \"300KB\", period = \"50us\", ageing = \"800us\" }",
    "{ kind = \"gfc-conceptual\", b_m = \"300KB\", refresh = \"50us\", ageing = \"800us\" }",
];

/// Two ports: `p0`, which speaks this to the other switch, and `p1` with a station, at half its rate behind the second switch.
fn switch(flow_control: &str, layout: LcoreLayout, rate: &str) -> Bench {
    let cell_bytes = if flow_control == UEC { 128 } else { 1 };
    Bench::new(
        &format!(
            "[buffer]\nsize = \"4MB\"\ncell_bytes = {cell_bytes}\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"\n\
             [classes]\nlossless = [3]\n[pfc]\nreaction = \"0s\"\n\
             [[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\ndelay = \"1us\"\nflow_control = {flow_control}\n\
             [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"{rate}\"\ndelay = \"1us\"\n"
        ),
        layout,
    )
}

/// Two switches joined by their ports 0; the station at the first one sends to the one at the second without end.
struct Pair {
    flow_control: &'static str,
    layout: LcoreLayout,
    switches: [Bench; 2],
    /// Frames from each switch to the other that have been taken off its port so far.
    moved: [usize; 2],
    /// Data frames on their way to the second switch that are to be lost.
    to_lose: usize,
    /// Whether the second switch is heard.
    is_heard: bool,
    arrived: usize,
}

impl Pair {
    fn new(flow_control: &'static str, layout: LcoreLayout) -> Pair {
        let switches = ["10Gbps", "5Gbps"].map(|rate| switch(flow_control, layout, rate));
        let mut pair = Pair { flow_control, layout, switches, moved: [0; 2], to_lose: 0, is_heard: true, arrived: 0 };
        pair.introduce();
        pair
    }

    /// The second station speaks, so that its place is known.
    fn introduce(&mut self) {
        self.switches[1].arrive(1, frame(2, 1, 3, 0));
        self.run(Span::from_micros(20));
    }

    fn run(&mut self, span: Span) {
        let end = self.switches[0].now + span;
        while self.switches[0].now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        let held = self.switches[0].shared.mmu.held(QueueId::new(PortId(1), CLASS));
        if held < Bytes::kb(100) && self.switches[0].arriving[1].is_empty() {
            self.switches[0].arrive(1, frame(1, 2, 3, 7));
        }
        self.switches.iter_mut().for_each(|bench| bench.step(STEP));
        for from in [0, 1] {
            let sent = self.switches[from].world.sent[0][self.moved[from]..].to_vec();
            self.moved[from] += sent.len();
            for frame in sent {
                let is_data = matches!(frame.parsed, weir_wire::ethernet::Parsed::Data(_));
                if from == 0 && is_data && self.to_lose > 0 {
                    self.to_lose -= 1;
                } else if from == 0 || self.is_heard {
                    self.switches[1 - from].arrive(0, frame);
                }
            }
        }
        let delivered = &mut self.switches[1].world.sent[1];
        self.arrived += delivered.len();
        delivered.clear();
    }

    /// Frames that the second station gets in so long.
    fn delivered_in(&mut self, span: Span) -> usize {
        let before = self.arrived;
        self.run(span);
        self.arrived - before
    }

    /// A switch starts anew, and what is on its links is lost.
    fn restart(&mut self, which: usize) {
        let mut fresh = switch(self.flow_control, self.layout, ["10Gbps", "5Gbps"][which]);
        fresh.now = self.switches[which].now;
        self.switches[which] = fresh;
        self.moved[which] = 0;
        for bench in &mut self.switches {
            bench.arriving[0] = VecDeque::new();
        }
        self.introduce();
    }

    /// The link comes or goes, as these ends see it; what is on it is lost.
    fn set_link_up<const ENDS: usize>(&mut self, ends: [usize; ENDS], is_up: bool) {
        for bench in &mut self.switches {
            bench.arriving[0].clear();
        }
        ends.into_iter().for_each(|end| self.switches[end].shared.set_link_up(PortId(0), is_up));
    }

    fn sent_by_first(&mut self) -> u32 {
        self.switches[0].shared.ports()[0].regulator.sent_total(CLASS)
    }

    /// Somebody sends a switch a message in the other one's name.
    fn forge(&mut self, to: usize, frame: ControlFrame) {
        self.switches[to].arriving[0].push_front(control(frame));
    }

    fn accord(&mut self, which: usize) -> ProtocolMismatch {
        self.switches[which].report().ports[0].mismatch
    }

    /// Bytes of lossless frames that found no room at the second switch.
    fn overflown(&mut self) -> Bytes {
        Bytes::new(1_518 * self.switches[1].report().dropped(DropReason::HeadroomViolation))
    }
}

fn credit(limit: u32, account: CreditAccount) -> ControlFrame {
    let mut limits = [0; 8];
    limits[CLASS.index()] = limit;
    ControlFrame::Credit(CreditFrame { enabled: CLASS.alone(), limits, account })
}

fn update(count: CreditCount, cells: u32) -> ControlFrame {
    let cells = [cells & CreditUpdate::MASK; 8];
    ControlFrame::Update(CreditUpdate { count, enabled: CLASS.alone(), cells, cell_bytes: 128 })
}

/// What goes wrong, and how much may overflow for it. What no longer matches after a restart of the sender alone, the receiver
/// finds out before it gives any credit that the sender would believe.
type Wrong = (&'static str, fn(&mut Pair), Bytes);

const WRONGS: [Wrong; 4] = [
    ("the sender is restarted", |pair| pair.restart(0), Bytes::ZERO),
    ("the receiver is restarted", |pair| pair.restart(1), Bytes::ZERO),
    (
        "both are restarted",
        |pair| {
            pair.restart(0);
            pair.restart(1);
        },
        Bytes::ZERO,
    ),
    ("a fifth of the buffer is lost on the link", |pair| pair.to_lose = 40, Bytes::ZERO),
];

const FORGED: [Wrong; 4] = [
    (
        "2^31 - 1 blocks of credit are forged",
        |pair| pair.forge(0, credit((1 << 31) - 1, CreditAccount::None)),
        Bytes::ZERO,
    ),
    (
        "a buffer of credit is forged",
        |pair| {
            let sent = pair.sent_by_first();
            pair.forge(0, credit(sent + (BUFFER.get() / 64) as u32, CreditAccount::None));
        },
        BUFFER,
    ),
    (
        "a large buffer, and credit for it, are forged",
        |pair| {
            pair.forge(0, credit(1 << 30, CreditAccount::None));
            pair.forge(0, credit(0, CreditAccount::Buffer { blocks: u32::MAX }));
        },
        BUFFER,
    ),
    (
        "much is said to be sent",
        |pair| {
            let account = CreditAccount::Sent { class: CLASS, blocks: 1 << 30 };
            pair.forge(1, credit(0, account));
        },
        Bytes::ZERO,
    ),
];

const FORGED_COUNTS: [Wrong; 3] = [
    (
        "all that was sent is said to be free",
        |pair| {
            let sent = pair.sent_by_first();
            pair.forge(0, update(CreditCount::Freed, sent));
        },
        BUFFER,
    ),
    (
        "more than was sent is said to be free",
        |pair| {
            let sent = pair.sent_by_first();
            pair.forge(0, update(CreditCount::Freed, sent + 1));
        },
        Bytes::ZERO,
    ),
    ("half of all counts is said to be sent", |pair| pair.forge(1, update(CreditCount::Consumed, 1 << 19)), BUFFER),
];

#[test]
fn cbfc_gets_over_restarts_losses_and_forged_messages() {
    // Each end sends its account every other period; the receiver's count must be confirmed, and then the sender's limit.
    let bound = MESSAGE_PERIOD * (3 * u64::from(CONFIRMATIONS) + 2);
    get_over(CBFC, bound, &FORGED);
    // An update of each kind.
    get_over(UEC, MESSAGE_PERIOD * 2, &FORGED_COUNTS);
}

fn get_over(flow_control: &'static str, bound: Span, forged: &[Wrong]) {
    for layout in LAYOUTS {
        for (what, wrong, overflow_max) in WRONGS.iter().chain(forged).copied() {
            let context = format!("{flow_control}, {layout:?}: {what}");
            let mut pair = Pair::new(flow_control, layout);
            pair.run(Span::from_millis(1));
            let before = pair.delivered_in(Span::from_micros(500));
            assert!((195..=210).contains(&before), "{context}: {before} frames in 500 us at 5 Gb/s");
            assert_eq!(pair.overflown(), Bytes::ZERO, "{context}");
            wrong(&mut pair);
            pair.run(bound);
            let after = pair.delivered_in(Span::from_micros(500));
            assert!(after.abs_diff(before) <= 2, "{context}: {before} frames before, {after} after");
            let overflown = pair.overflown();
            assert!(overflown <= overflow_max, "{context}: {overflown} found no room");
            let lost = overflown;
            pair.run(Span::from_micros(500));
            assert_eq!(pair.overflown(), lost, "{context}: lost after all was right again");
            assert!(pair.switches.iter_mut().all(|bench| bench.report().conservation.holds), "{context}");
        }
    }
}

/// Two classes share a limit of 30 frames, and each class alone would fill it.
#[test]
fn a_shared_limit_holds_for_all_classes_together() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(
            "[buffer]\nsize = \"4MB\"\ncell_bytes = 128\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"\n\
             [classes]\nlossless = [3, 4]\n[[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\n\
             flow_control = { kind = \"uec-cbfc\", limit = \"46080B\", shared = true }\n\
             [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\n",
            layout,
        );
        bench.arrive(0, frame(2, 1, 3, 0));
        bench.run(20, STEP);
        let send = |bench: &mut Bench, frames: u64| {
            (0..frames).for_each(|n| bench.arrive(1, frame(1, 2, 3 + (n % 2) as u8, n)));
            bench.run(200, STEP);
            bench.world.sent[0].iter().filter(|frame| !frame.is_control()).count()
        };
        bench.arrive(0, control(update(CreditCount::Freed, 0)));
        assert_eq!(send(&mut bench, 80), 0, "{layout:?}: class 4 may hold all of it");
        let both = ClassSet::from_bits(0b11000);
        let free = |cells: [u32; 8]| {
            let update = CreditUpdate { count: CreditCount::Freed, enabled: both, cells, cell_bytes: 128 };
            control(ControlFrame::Update(update))
        };
        bench.arrive(0, free([0; 8]));
        assert_eq!(send(&mut bench, 0), 30, "{layout:?}");
        let sent = Class::ALL.map(|class| bench.shared.ports()[0].regulator.sent_total(class));
        assert_eq!(sent[3] + sent[4], 360, "{layout:?}");
        bench.arrive(0, free(sent));
        assert_eq!(send(&mut bench, 0), 60, "{layout:?}");
    }
}

/// The receiver learns by the sender's count what was lost on the link, and nothing where nothing was.
#[test]
fn counts_are_set_right_only_where_they_are_wrong() {
    for (flow_control, layout) in [CBFC, UEC].into_iter().flat_map(|kind| LAYOUTS.map(|layout| (kind, layout))) {
        let mut pair = Pair::new(flow_control, layout);
        pair.run(Span::from_millis(3));
        assert_eq!([0, 1].map(|which| pair.accord(which).resyncs), [0, 0], "{layout:?}");
        assert_eq!([0, 1].map(|which| pair.switches[which].report().ports[0].invalid_messages), [0, 0], "{layout:?}");
        pair.to_lose = 1;
        pair.run(Span::from_millis(1));
        assert_eq!([0, 1].map(|which| pair.accord(which).resyncs), [0, 1], "{layout:?}");
    }
}

/// What both ends know of each other starts anew with the link: no count has to be confirmed, and no stage ages.
#[test]
fn a_link_that_was_gone_starts_anew() {
    for flow_control in [CBFC, UEC].into_iter().chain(GFC) {
        for layout in LAYOUTS {
            let mut pair = Pair::new(flow_control, layout);
            pair.run(Span::from_millis(1));
            let before = pair.delivered_in(Span::from_micros(500));
            pair.set_link_up([0, 1], false);
            pair.run(MESSAGE_PERIOD * 3);
            let sent = pair.switches.each_ref().map(|bench| bench.world.sent[0].len());
            pair.run(MESSAGE_PERIOD * 3);
            let sent_then = pair.switches.each_ref().map(|bench| bench.world.sent[0].len());
            assert_eq!(sent, sent_then, "{flow_control}, {layout:?}: nothing is sent to a port without a link");
            pair.set_link_up([0, 1], true);
            pair.run(Span::from_micros(30));
            let after = pair.delivered_in(Span::from_micros(500));
            assert!(after.abs_diff(before) <= 12, "{flow_control}, {layout:?}: {before} before, {after} after");
            pair.run(Span::from_millis(1));
            assert_eq!((pair.overflown(), pair.accord(1).resyncs), (Bytes::ZERO, 0), "{flow_control}, {layout:?}");
            assert_eq!([0, 1].map(|which| pair.accord(which).aged), [0, 0], "{flow_control}, {layout:?}");
            assert!(pair.switches.iter_mut().all(|bench| bench.report().conservation.holds), "{flow_control}");
        }
    }
}

/// Between a switch and a media converter, say: only one end sees that the link has gone.
#[test]
fn a_link_that_only_one_end_saw_going_is_set_right() {
    let bound = MESSAGE_PERIOD * (3 * u64::from(CONFIRMATIONS) + 2);
    for flow_control in [CBFC, UEC].into_iter().chain(GFC) {
        for (layout, end) in LAYOUTS.into_iter().flat_map(|layout| [(layout, 0), (layout, 1)]) {
            let mut pair = Pair::new(flow_control, layout);
            pair.run(Span::from_millis(1));
            let before = pair.delivered_in(Span::from_micros(500));
            pair.set_link_up([end], false);
            pair.run(Span::from_micros(100));
            pair.set_link_up([end], true);
            pair.run(bound);
            let after = pair.delivered_in(Span::from_micros(500));
            assert!(after.abs_diff(before) <= 2, "{flow_control}, {layout:?}: {before} before, {after} after");
            assert_eq!(pair.overflown(), Bytes::ZERO, "{flow_control}, {layout:?}");
        }
    }
}

/// One forged message, and a peer that says nothing from then on: it held the class for good.
#[test]
fn gfc_goes_back_to_the_line_rate_when_its_peer_is_silent() {
    let stop = ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times: [u16::MAX; 8] });
    let full = ControlFrame::Queue(QueueLengthFrame { enabled: CLASS.alone(), lengths: [u32::MAX; 8] });
    for (flow_control, forged) in GFC.into_iter().zip([stop, credit(0, CreditAccount::None), full]) {
        let mut pair = Pair::new(flow_control, LcoreLayout::Single);
        pair.run(Span::from_millis(1));
        pair.is_heard = false;
        // Time-based GFC needs three equal ones, as one may be late.
        for _ in 0..3 {
            let sent = pair.sent_by_first();
            let forged = if sent > 0 { credit(sent, CreditAccount::None) } else { forged };
            pair.forge(0, forged);
            pair.step();
        }
        let sent = |pair: &Pair| pair.switches[0].world.sent[0].len();
        let before = sent(&pair);
        pair.run(AGEING.divided_by(2));
        assert!(sent(&pair) - before < 30, "{flow_control}: {} frames", sent(&pair) - before);
        pair.run(AGEING.divided_by(2) + MESSAGE_PERIOD);
        let before = sent(&pair);
        pair.run(Span::from_micros(300));
        // A step is 500 ns, so that a frame, of 1.23 us at 10 Gb/s, takes three.
        assert!(sent(&pair) - before > 195, "{flow_control}: {} frames in 300 us", sent(&pair) - before);
        assert_eq!(pair.accord(0).aged, 1, "{flow_control}");
    }
}

/// While the peer is there, it sets right what was forged within its refresh period.
#[test]
fn gfc_is_set_right_by_its_peer() {
    let stop = ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times: [u16::MAX; 8] });
    let mut pair = Pair::new(GFC[0], LcoreLayout::Single);
    pair.run(Span::from_millis(2));
    let before = pair.delivered_in(Span::from_micros(500));
    pair.forge(0, stop);
    pair.run(MESSAGE_PERIOD * 2);
    let after = pair.delivered_in(Span::from_micros(500));
    assert!(after.abs_diff(before) <= 2, "{before} frames before, {after} after");
    assert_eq!((pair.accord(0).foreign, pair.accord(0).aged), (1, 0));
}

/// Messages of another flow control than the port's are counted, and change nothing.
#[test]
fn a_peer_that_speaks_something_else_is_counted() {
    let all = [
        ControlFrame::Pfc(PfcFrame { enabled: CLASS.alone(), times: [u16::MAX; 8] }),
        ControlFrame::Pause(u16::MAX),
        ControlFrame::Queue(QueueLengthFrame { enabled: CLASS.alone(), lengths: [u32::MAX; 8] }),
        credit(0, CreditAccount::None),
        update(CreditCount::Freed, 0),
    ];
    let ports = [(CBFC, 3), (UEC, 4), (GFC[0], 0), (GFC[1], 3), (GFC[2], 2), ("\"pfc\"", 0), ("\"pause\"", 1)];
    for (flow_control, own) in ports {
        let mut pair = Pair::new(flow_control, LcoreLayout::RxFwdTx);
        pair.run(Span::from_millis(1));
        let before = pair.delivered_in(Span::from_micros(500));
        for (_, frame) in all.iter().enumerate().filter(|(n, _)| *n != own) {
            pair.forge(0, *frame);
            pair.run(Span::from_micros(5));
        }
        let after = pair.delivered_in(Span::from_micros(500));
        assert!(after.abs_diff(before) <= 2, "{flow_control}: {before} frames before, {after} after");
        let report = pair.switches[0].report();
        let (accord, control) = (report.ports[0].mismatch, report.ports[0].control_rx);
        assert_eq!((accord.foreign, control.ignored), (4, 4), "{flow_control}");
        assert!(accord.heard_at > Time::ZERO || matches!(flow_control, "\"pfc\"" | "\"pause\""), "{flow_control}");
    }
}
