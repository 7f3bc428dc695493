//! Choice among eight ports of equal cost on an lcore, counted in instructions a packet under callgrind: `cargo bench --bench load_balancing`.
//!
//! Frames of as many flows come in bursts of 8 at nine tenths of the ports' rate, so that queues differ.

use weir_alone::{InstructionBenchmark, check_limits};
use weir_flowctl::CatchUp;
use weir_switch_core::burst::{LcorePlan, Lcores};
use weir_switch_core::{Burst, DriverConfig, Packet, PacketAllocator, PortInfo, PortOutput, Switch};
use weir_units::{MacAddr, PortId, Span, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::ControlFrame;

/// Load balancing, with its limit: 3 % above what it takes.
const LIMITS: [(&str, f64); 5] =
    [("random", 74.0), ("round-robin", 59.0), ("shortest-queue", 1_040.0), ("drill", 408.0), ("flowlet", 143.0)];
const BURSTS: u64 = 8_000;
const BURST: u64 = 8;
const FRAME_BYTES: u32 = 1_000;
/// Time between two bursts: a frame takes 819 ns.
const STEP: Span = Span::from_nanos(900);

fn main() {
    let counted = LIMITS.map(|(kind, most)| InstructionBenchmark {
        name: kind,
        functions: "*path_selection::PathSelection::select*",
        each: "packet",
        most,
        parts: &[],
    });
    check_limits(&counted, |n| forward(LIMITS[n].0));
}

/// Forwards all bursts; returns the number of packets.
fn forward(kind: &str) -> u64 {
    let ports = (0..9).map(|port| format!("[[ports]]\nname = \"p{port}\"\nring = \"r{port}\"\nrate = \"10Gbps\"\n"));
    let ports: String = ports.collect();
    let text = format!(
        "[switch]\nload_balancing = \"{kind}\"\n[buffer]\nsize = \"8MB\"\n[classes]\npreset = \"roce\"\n\
         [pfc]\nreaction = \"0s\"\n{ports}"
    );
    let config = weir_config::parse("load-balancing.toml", &text).expect("a valid file");
    let driver = DriverConfig { learns: false, ..DriverConfig::real_time(CatchUp::NONE) };
    let mut switch = Switch::new(&config, &[PortInfo::default(); 9], driver).expect("a switch");
    let uplinks: Vec<u16> = (1..9).collect();
    switch.set_routes(STATION, std::iter::once(&uplinks[..]));
    let plan = LcorePlan::new(&config, LcorePlan::lcores_min(config.lcores.layout)).expect("one lcore");
    let Lcores { mut lcores, .. } = switch.into_lcores(&plan);
    let (mut now, mut sent) = (Time::ZERO, Sent(0));
    for burst in 0..BURSTS {
        let mut burst: Burst<Frame> = (0..BURST).map(|n| Frame { flow: (burst * BURST + n) as u32 }).collect();
        lcores[0].handle_burst(now, PortId(0), &mut burst, &mut sent);
        lcores[0].transmit(|| now, &mut sent);
        now += STEP;
    }
    assert!(sent.0 > BURSTS * BURST * 9 / 10, "{} were sent", sent.0);
    BURSTS * BURST
}

const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

#[derive(Debug)]
struct Frame {
    flow: u32,
}

impl Packet for Frame {
    fn frame_bytes(&self) -> u32 {
        FRAME_BYTES
    }
    fn is_control(&self) -> bool {
        false
    }
    fn parse(&self) -> Parsed {
        Parsed::Data(Headers { destination: STATION, pcp: None, dscp: Some(26) })
    }
    fn source(&self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, 1])
    }
    fn mark_ce(&mut self) -> bool {
        false
    }
    fn flow_hash(&self) -> u32 {
        self.flow.wrapping_mul(0x9e37_79b9)
    }
}

/// Number of frames sent.
struct Sent(u64);

impl PacketAllocator<Frame> for Sent {
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        Some(Frame { flow: frame.flow })
    }
    fn control(&mut self, _frame: &ControlFrame, _source: MacAddr) -> Option<Frame> {
        None
    }
}

impl PortOutput<Frame> for Sent {
    fn transmit(&mut self, _port: PortId, burst: &mut Burst<Frame>) -> usize {
        let taken = burst.len();
        self.0 += taken as u64;
        burst.clear();
        taken
    }
}
