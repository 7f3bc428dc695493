//! A switch on two ports in memory: no device, no clock of the machine. Packets are small values, and time is an argument.
//!
//! A program brings the driver: packets ([`Packet`]), memory for the switch's own packets ([`PacketAllocator`]), and the output
//! ([`PortOutput`]). The host behind port 1 pauses class 3; the frames for it wait in the switch, those of class 0 go on.
//!
//! ```text
//! cargo run -p weir-switch-core --example two_ports
//! ```

use std::error::Error;

use weir_flowctl::CatchUp;
use weir_switch_core::burst::{Lcore, LcorePlan, Lcores};
use weir_switch_core::{Burst, DriverConfig, Packet, PacketAllocator, PortInfo, PortOutput, Switch};
use weir_units::{ClassSet, MacAddr, PortId, Span, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

const SWITCH: &str = r#"
[buffer]
size = "1MB"
policy = "dt"

# DSCP 26 is class 3, which is lossless; DSCP 0 is class 0.
[classes]
preset = "roce"

[pfc]
reaction = "0s"

[[ports]]
name = "left"
ring = "left"
rate = "10Gbps"
delay = "1us"

[[ports]]
name = "right"
ring = "right"
rate = "10Gbps"
delay = "1us"
"#;

/// Time from one poll to the next.
const STEP: Span = Span::from_nanos(500);

fn main() -> Result<(), Box<dyn Error>> {
    let config = weir_config::parse("two-ports.toml", SWITCH).map_err(|errors| errors.render(false))?;
    let port_infos = [PortInfo::default(); 2];
    let switch = Switch::new(&config, &port_infos, DriverConfig::real_time(CatchUp::NONE))?;
    // All on one lcore; the program's thread stands for it.
    let plan = LcorePlan::new(&config, LcorePlan::lcores_min(config.lcores.layout))?;
    let Lcores { mut lcores, collector } = switch.into_lcores(&plan);
    let lcore = &mut lcores[0];
    let mut cables = Cables::default();
    let mut now = Time::ZERO;

    // Each station speaks once, so that the switch knows where it is.
    for port in [0, 1] {
        poll(lcore, port, now, vec![Frame::data(port, 1 - port, 0)], &mut cables);
        now += STEP;
    }
    cables.sent.iter_mut().for_each(Vec::clear);
    let pause = PfcFrame { enabled: ClassSet::from_bits(1 << 3), times: [1_000; 8] };
    poll(lcore, 1, now, vec![Frame::control(ControlFrame::Pfc(pause))], &mut cables);
    // Class 3, class 0, class 3, ...
    let frames = (0..4).flat_map(|_| [Frame::data(0, 1, 26), Frame::data(0, 1, 0)]).collect();
    poll(lcore, 0, now, frames, &mut cables);
    let paused_at = now;
    let mut seen = 0;
    while cables.sent[1].len() < 8 {
        now += STEP;
        poll(lcore, 0, now, Vec::new(), &mut cables);
        for frame in &cables.sent[1][seen..] {
            println!(
                "{:>6} ns: DSCP {:>2} leaves by port right",
                now.since(paused_at).as_picos() / 1_000,
                frame.dscp()
            );
        }
        seen = cables.sent[1].len();
    }

    // Classes that are not paused go on; nothing is lost, and the pause ends by itself.
    let order: Vec<u8> = cables.sent[1].iter().map(Frame::dscp).collect();
    assert_eq!(order, [0, 0, 0, 0, 26, 26, 26, 26]);

    let report = collector.collect(now, || {
        lcore.serve(|| now);
        true
    });
    let report = report.expect("the lcore has answered");
    let balance = report.conservation;
    println!(
        "received {}, sent {}, dropped {}, held {}",
        balance.received,
        balance.sent,
        balance.dropped,
        balance.held()
    );
    println!("frames are conserved: {}", balance.holds);
    Ok(())
}

/// Polls once: handles the frames that arrived at a port, then transmits by all ports.
fn poll(lcore: &mut Lcore<Frame>, port: u16, now: Time, arrived: Vec<Frame>, cables: &mut Cables) {
    let mut burst: Burst<Frame> = arrived.into_iter().collect();
    lcore.handle_burst(now, PortId(port), &mut burst, cables);
    lcore.transmit(|| now, cables);
}

/// A frame of 1,514 B as its headers.
#[derive(Clone, Debug)]
struct Frame {
    parsed: Parsed,
    source: MacAddr,
}

impl Frame {
    /// Creates a data frame from the station behind one port to that behind another.
    fn data(from: u16, to: u16, dscp: u8) -> Frame {
        let headers = Headers { destination: station(to), pcp: None, dscp: Some(dscp) };
        Frame { parsed: Parsed::Data(headers), source: station(from) }
    }

    fn control(frame: ControlFrame) -> Frame {
        Frame { parsed: Parsed::Control(Ok(frame)), source: MacAddr::default() }
    }

    fn dscp(&self) -> u8 {
        match self.parsed {
            Parsed::Data(headers) => headers.dscp.unwrap_or(0),
            _ => 0,
        }
    }
}

impl Packet for Frame {
    fn frame_bytes(&self) -> u32 {
        if self.is_control() { 60 } else { 1_514 }
    }
    fn is_control(&self) -> bool {
        matches!(self.parsed, Parsed::Control(_))
    }
    fn parse(&self) -> Parsed {
        self.parsed
    }
    fn source(&self) -> MacAddr {
        self.source
    }
    fn mark_ce(&mut self) -> bool {
        false
    }
    fn flow_hash(&self) -> u32 {
        0
    }
}

/// Frames sent by each port.
#[derive(Default)]
struct Cables {
    sent: [Vec<Frame>; 2],
}

impl PacketAllocator<Frame> for Cables {
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        Some(frame.clone())
    }
    fn control(&mut self, frame: &ControlFrame, _source: MacAddr) -> Option<Frame> {
        Some(Frame::control(*frame))
    }
}

impl PortOutput<Frame> for Cables {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        let taken = burst.len();
        self.sent[port.index()].extend(burst.drain(..));
        taken
    }
}

fn station(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

#[test]
fn it_runs() {
    main().expect("it ends well");
}
