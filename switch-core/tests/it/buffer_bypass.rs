//! Frames that bypass queue and buffer in virtual time have the same results as queued ones.

use proptest::prelude::*;
use weir_config::SwitchConfig;
use weir_flowctl::CatchUp;
use weir_switch_core::single::Pipeline;
use weir_switch_core::{DriverConfig, PortInfo, Switch};
use weir_units::{Bytes, ClassSet, LargePortSet, PortBitmap, PortId, PortSet, Span, Time};

use crate::common::{TestFrame, World, frame, pfc, station, toml};

const PORTS: u16 = 3;

/// Switch on one lcore, advanced from one instant with work to the next.
struct Stepper<S: PortBitmap> {
    pipeline: Pipeline<TestFrame, S>,
    world: World,
    wakeups: [Time; PORTS as usize],
    /// Whether frames may bypass.
    passes: bool,
}

impl<S: PortBitmap> Stepper<S> {
    fn new(settings: &str, passes: bool) -> Stepper<S> {
        let config: SwitchConfig = weir_config::parse("stepper.toml", &toml(usize::from(PORTS), settings)).unwrap();
        let surroundings =
            DriverConfig { learns: false, link_overhead: Bytes::new(24), ..DriverConfig::real_time(CatchUp::NONE) };
        let mut switch = Switch::new(&config, &vec![PortInfo::default(); usize::from(PORTS)], surroundings).unwrap();
        let ways: Vec<[u16; 1]> = (0..PORTS).map(|port| [port]).collect();
        switch.set_routes(station(0), ways.iter().map(|way| &way[..]));
        let pipeline = switch.into_pipeline();
        (0..PORTS).for_each(|port| pipeline.shared().set_link_up(PortId(port), true));
        Stepper {
            pipeline,
            world: World { sent: vec![Vec::new(); usize::from(PORTS)], ..World::default() },
            wakeups: [Time::ZERO; PORTS as usize],
            passes,
        }
    }

    fn first_wakeup(&self) -> Time {
        *self.wakeups.iter().min().unwrap()
    }

    /// Advances to an instant, at which these frames arrive.
    fn step(&mut self, at: Time, arriving: Vec<(u16, TestFrame)>) {
        while self.first_wakeup() < at {
            self.serve(self.first_wakeup());
        }
        let alone = self.passes && arriving.len() == 1 && self.first_wakeup() > at;
        for (port, frame) in arriving {
            self.pipeline.handle(at, PortId(port), frame, alone, &mut self.world);
        }
        self.serve(at);
    }

    fn serve(&mut self, now: Time) {
        let mut due = self.pipeline.take_pending_ports();
        due |= (0..PORTS).map(PortId).filter(|port| self.wakeups[port.index()] <= now).collect::<S>();
        let mut served = self.pipeline.run_ports(now, due, &mut self.world);
        // Ports with a class that is OFF are served at each instant.
        served |= self.pipeline.run_ports(now, *self.pipeline.off_ports(), &mut self.world);
        for port in served {
            self.wakeups[port.index()] = self.pipeline.next_wakeup_of(now, port);
        }
        self.pipeline.audit();
    }

    fn report(&mut self, now: Time) -> String {
        format!("{:#?}", self.pipeline.report(now))
    }
}

/// A random number of the sequence is drawn for each frame of class 3, and marks some.
const MARKING: &str =
    "[switch]\ntelemetry = true\n[[classes.queues]]\nclass = 3\necn = { kmin = '1KB', kmax = '12KB', pmax = 0.8 }\n";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Frames that come when the wire is free, when it is not, and at the same instant; pauses begin and end.
    #[test]
    fn a_frame_that_passes_leaves_what_others_do(
        steps in prop::collection::vec((0..3_000u64, 0..PORTS, 0..PORTS, 0..12u8, 60..1_514u32), 1..80),
        small in any::<bool>(),
    ) {
        let buffer = if small { "60KB" } else { "1MB" };
        let settings = format!("{MARKING}[buffer]\nsize = '{buffer}'\npolicy = 'dt'\n[buffer.dt]\nalpha = '1/2'\n");
        let mut both = [true, false].map(|passes| Stepper::<PortSet>::new(&settings, passes));
        // The type of port set makes no difference.
        let mut wide = Stepper::<LargePortSet>::new(&settings, true);
        let (mut now, mut sequence) = (Time::from_nanos(1), 0);
        let mut frames = Vec::new();
        for (gap, from, to, kind, frame_bytes) in steps {
            now += Span::from_nanos(gap);
            sequence += 1;
            let dscp = if kind % 2 == 0 { 3 } else { 0 };
            let data = TestFrame { frame_bytes, stamps: Some(Vec::new()), ..frame(from, to, dscp, sequence) };
            frames.push((from, match kind {
                0 => pfc(ClassSet::from_bits(1 << 3), 100),
                1 => pfc(ClassSet::from_bits(1 << 3), 0),
                _ => data,
            }));
            if gap % 5 == 0 {
                // The next one comes at the same instant.
                continue;
            }
            let arriving = std::mem::take(&mut frames);
            both.iter_mut().for_each(|switch| switch.step(now, arriving.clone()));
            wide.step(now, arriving);
        }
        let [one, other] = &mut both;
        prop_assert_eq!(&one.world.sent, &other.world.sent);
        prop_assert_eq!(&one.world.sent, &wide.world.sent);
        let report = one.report(now);
        prop_assert_eq!(&report, &other.report(now));
        prop_assert_eq!(report, wide.report(now));
    }
}

#[test]
fn a_frame_that_passes_is_sent_before_ports_are_served() {
    let mut switch = Stepper::<PortSet>::new("", true);
    switch.step(Time::from_nanos(10), Vec::new());
    let Stepper { pipeline, world, .. } = &mut switch;
    pipeline.handle(Time::from_nanos(20), PortId(0), frame(0, 1, 3, 7), true, world);
    assert_eq!(world.sent[1].len(), 1);
    assert!(!pipeline.has_pending_ports() && pipeline.take_pending_ports().is_empty());
    pipeline.handle(Time::from_nanos(30), PortId(0), frame(0, 1, 3, 8), true, world);
    assert!(world.sent[1].len() == 1 && pipeline.has_pending_ports(), "the wire is not free");
}
