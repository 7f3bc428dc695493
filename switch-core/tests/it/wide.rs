//! A switch of more ports than a word has bits, in virtual time: each port is a port like any other.

use std::collections::HashSet;
use std::sync::Arc;

use weir_config::PortState;
use weir_flowctl::CatchUp;
use weir_switch_core::single::Pipeline;
use weir_switch_core::{DriverConfig, PortInfo, Report, Switch};
use weir_units::{Class, ClassSet, LargePortSet, PortBitmap, PortId, Time};

use crate::common::{TestFrame, World, frame, pfc, station, toml};

const PORTS: u16 = 130;
const OUT: u16 = PORTS - 1;
/// Two ports with the same bit in a 64-bit word.
const FROM: [u16; 2] = [36, 100];

struct Wide {
    pipeline: Pipeline<TestFrame, LargePortSet>,
    world: World,
    now: Time,
}

impl Wide {
    fn new(settings: &str) -> Wide {
        let ports = usize::from(PORTS);
        let config = weir_config::parse_for_virtual_time("wide.toml", &toml(ports, settings)).unwrap();
        let surroundings = DriverConfig { learns: false, ..DriverConfig::real_time(CatchUp::NONE) };
        let mut switch = Switch::new(&config, &vec![PortInfo::default(); ports], surroundings).unwrap();
        let ways: Vec<[u16; 1]> = (0..PORTS).map(|port| [port]).collect();
        switch.set_routes(station(0), ways.iter().map(|way| &way[..]));
        let pipeline: Pipeline<TestFrame, LargePortSet> = switch.into_pipeline();
        (0..PORTS).for_each(|port| pipeline.shared().set_link_up(PortId(port), true));
        let world = World { sent: vec![Vec::new(); ports], ..World::default() };
        let mut wide = Wide { pipeline, world, now: Time::from_nanos(1) };
        wide.serve((0..PORTS).map(PortId).collect());
        wide
    }

    fn serve(&mut self, mut due: LargePortSet) -> LargePortSet {
        due |= self.pipeline.take_pending_ports();
        self.pipeline.run_ports(self.now, due, &mut self.world)
    }

    /// A frame arrives, and the ports are served that have something to do.
    fn arrive(&mut self, port: u16, frame: TestFrame) {
        self.pipeline.handle(self.now, PortId(port), frame, false, &mut self.world);
        self.serve(LargePortSet::EMPTY);
        self.pipeline.audit();
    }

    /// The ports that frames to `OUT` came by, in the order in which they leave while time goes on.
    fn left(&mut self) -> Vec<u64> {
        let before = self.world.sent[usize::from(OUT)].len();
        for _ in 0..100 {
            self.now = self.pipeline.next_wakeup_of(self.now, PortId(OUT));
            if self.now == Time::NEVER {
                break;
            }
            self.serve(LargePortSet::from_port(PortId(OUT)));
        }
        self.world.sent[usize::from(OUT)][before..].iter().map(|frame| frame.sequence).collect()
    }

    fn blocked_from(&mut self) -> Vec<u16> {
        let report = self.pipeline.report(self.now);
        report.ports[usize::from(OUT)].classes[3].blocked_from.iter().map(|queue| queue.port().0).collect()
    }
}

#[test]
fn a_held_queue_tells_whose_frames_it_holds_and_serves_them_in_turn() {
    let round_robin = "[[classes.queues]]\nclass = 3\narbitration = 'round-robin'\n";
    for (settings, order) in [("", [36, 36, 100, 100]), (round_robin, [36, 100, 36, 100])] {
        let mut wide = Wide::new(settings);
        wide.arrive(OUT, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
        for from in FROM {
            (0..2).for_each(|_| wide.arrive(from, frame(from, OUT, 3, u64::from(from))));
        }
        assert_eq!(wide.blocked_from(), FROM);
        assert!(wide.world.sent[usize::from(OUT)].is_empty());
        wide.arrive(OUT, pfc(ClassSet::from_bits(1 << 3), 0));
        // The first one left as soon as it might.
        let mut left: Vec<u64> = wide.world.sent[usize::from(OUT)].iter().map(|frame| frame.sequence).collect();
        left.extend(wide.left());
        assert_eq!((left, wide.blocked_from()), (order.to_vec(), Vec::new()));
    }
}

#[test]
fn the_port_whose_queue_is_full_is_paused_and_no_other() {
    let mut wide = Wide::new("[buffer]\nsize = '3MB'\n");
    wide.arrive(OUT, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    let [other, full] = FROM;
    wide.arrive(other, frame(other, OUT, 3, 0));
    for n in 0..2_000 {
        wide.arrive(full, frame(full, OUT, 3, n));
        if !wide.world.sent[usize::from(full)].is_empty() {
            break;
        }
    }
    let told: Vec<usize> = (0..usize::from(PORTS)).filter(|port| !wide.world.sent[*port].is_empty()).collect();
    assert_eq!(told, [usize::from(full)]);
    let off: Vec<PortId> = wide.pipeline.off_ports().into_iter().collect();
    assert_eq!(off, [PortId(full)]);
    let report = wide.pipeline.report(wide.now);
    let pauses = |port: u16| report.ports[usize::from(port)].classes[Class::new(3).index()].pauses_tx;
    assert_eq!(FROM.map(pauses), [0, 1]);
}

/// A run in virtual time keeps a report of each switch, mostly of classes without frames.
#[test]
fn classes_without_frames_share_their_reports() {
    let mut wide = Wide::new("");
    let shown = |report: &Report| report.ports.iter().flat_map(|port| port.classes.clone()).collect::<Vec<_>>();
    let apart = |report: &Report| shown(report).iter().map(Arc::as_ptr).collect::<HashSet<_>>().len();
    let report = wide.pipeline.report(wide.now);
    let unused = apart(&report);
    assert!((1..=4).contains(&unused), "{unused} of {} reports", shown(&report).len());
    let [from, other] = FROM;
    wide.arrive(OUT, pfc(ClassSet::from_bits(1 << 3), u16::MAX));
    wide.arrive(from, frame(from, OUT, 3, 0));
    let report = wide.pipeline.report(wide.now);
    // The classes by which the frame came and is to leave.
    assert_eq!(apart(&report), unused + 2);
    let class_3 = |port: u16| &report.ports[usize::from(port)].classes[3];
    assert_eq!([from, other, OUT].map(|port| class_3(port).rx_frames), [1, 0, 0]);
    assert_eq!([from, other, OUT].map(|port| class_3(port).blocked_from.len()), [0, 0, 1]);
}

#[test]
fn a_frame_to_all_goes_to_all_others() {
    let mut wide = Wide::new("");
    // No station has this address, and none is learned.
    wide.arrive(70, frame(70, PORTS + 5, 0, 1));
    let copies: Vec<usize> = wide.world.sent.iter().map(Vec::len).collect();
    assert!(copies.iter().enumerate().all(|(port, count)| *count == usize::from(port != 70)), "{copies:?}");
}

/// The `ever_closed` bitmap has one bit for two of these ports.
#[test]
fn a_closed_port_takes_nothing_and_the_64th_before_it_does() {
    let mut wide = Wide::new("");
    wide.pipeline.shared().set_port_state(PortId(70), PortState::Down);
    wide.arrive(1, frame(1, 70, 3, 1));
    wide.arrive(1, frame(1, 6, 3, 2));
    assert_eq!([6, 70].map(|port: usize| wide.world.sent[port].len()), [1, 0]);
}

#[test]
fn lcores_have_a_word_of_ports() {
    let ports = 65;
    let text = toml(ports, "");
    let errors = weir_config::parse("wide.toml", &text).unwrap_err().render(false);
    assert!(errors.contains("a switch has 2 to 64 ports, this one has 65"), "{errors}");
    assert_eq!(weir_config::parse_for_virtual_time("wide.toml", &text).unwrap().ports.len(), ports);
}
