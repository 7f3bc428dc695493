//! Fabrics drawn from a seed.

use weir_flowctl::cbfc::Advertiser;
use weir_flowctl::gfc::{buffer_based_b1_max, feedback_delay_max, time_based_b0_max};
use weir_flowctl::wire_bytes;
use weir_scenario::workload::Rng;
use weir_units::{BitRate, Bytes, LINK_OVERHEAD, Span, Time};
use weir_wire::rocev2::PathMtu;

use super::fabric::{Fabric, Flow, Joint};

/// Flow control of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// GFC by stages or by time, each link as it falls, with thresholds that keep to the theorems.
    Gfc,
    /// GFC as before, which stops the sender of a queue of B_m.
    GfcStops,
    /// GFC by stages with a B_1 that leaves a frame free.
    GfcUnsafe,
    Pfc,
}

/// A fabric with a load that ends.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub fabric: Fabric,
    pub stop: Time,
    /// What the largest frame takes of a wire.
    pub frame: Bytes,
    pub slowest: BitRate,
    /// Whether flows go on over every link between switches, so that queues may wait for each other in a circle.
    pub is_cyclic: bool,
}

struct Throws(Rng);

impl Throws {
    /// From `from` to `to`, both included.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() as u64 - 1) as usize]
    }
}

const RATES: [BitRate; 3] = [BitRate::gbps(10), BitRate::gbps(40), BitRate::gbps(100)];

/// A ring of 3 to 6 switches with a host or two at each, flows over 1 to n - 1 links between switches, and enough of them that
/// some queue is overloaded.
pub(crate) fn draw(seed: u64, speaks: Speaks) -> Drawn {
    // Neighbouring seeds are not to be alike.
    let mut throws = Throws(Rng::new(Rng::new(seed).next_u64()));
    let n = throws.between(3, 6) as usize;
    let (ring_rate, host_rate) = (throws.one_of(&RATES), throws.one_of(&RATES));
    let slowest = ring_rate.min(host_rate);
    let ring_delay = Span::from_nanos(throws.between(100, 20_000));
    let mut fabric = Fabric::ring(n, ring_rate, ring_delay, "");
    fabric.mtu = PathMtu::new(throws.one_of(&[512, 1_024, 2_048, 4_096])).unwrap();
    fabric.message = Bytes::kb(32);
    fabric.queue = match throws.between(0, 2) {
        0 => "arbitration = \"arrival\"".to_owned(),
        1 => format!("arbitration = \"round-robin\"\narbitration_burst = {}", throws.one_of(&[1, 1, 4, 32])),
        _ => format!("arbitration = \"random\"\narbitration_burst = {}", throws.one_of(&[1, 1, 4, 32])),
    };
    if speaks == Speaks::Pfc {
        fabric.queue = "arbitration = \"arrival\"".to_owned();
    }
    fabric.hosts.clear();
    let host_delay = Span::from_nanos(throws.between(50, 5_000));
    for at in 0..n {
        for _ in 0..throws.one_of(&[1, 1, 1, 2]) {
            fabric.hosts.push((at, Joint::new([at, at], host_rate, host_delay, "")));
        }
    }
    // As the switch has it: the MTU with its header, tag and FCS.
    let frame = wire_bytes(fabric.mtu.get() as u32 + 74 + 18, LINK_OVERHEAD);
    let mut most = Bytes::ZERO;
    // Credit counts blocks of 64 B, and no cell may be larger.
    let by_stages = throws.between(0, 2) == 0;
    fabric.cell_bytes = throws.one_of(if by_stages { &[1, 64, 208, 1_024] } else { &[1, 16, 64] });
    let joints = fabric.hosts.iter_mut().map(|(_, joint)| joint).chain(&mut fabric.links);
    for joint in joints {
        let (spoken, limit) = flow_control(&mut throws, speaks, joint, frame, by_stages, fabric.cell_bytes);
        joint.flow_control = spoken;
        most = most.max(limit);
    }
    let cell = u64::from(fabric.cell_bytes);
    (fabric.threshold, fabric.headroom) = (most, Bytes::new(frame.get().div_ceil(cell) * cell * 2));
    if speaks == Speaks::Pfc {
        fabric.cell_bytes = 1;
        let there_and_back = ring_rate.max(host_rate).bytes_in(ring_delay.max(host_delay) * 2);
        fabric.headroom = there_and_back + frame * 6 + Bytes::kb(10);
        fabric.xon_offset = frame * 2;
    }
    // Long enough for some queues to fill and send messages, short enough for a test.
    let fill = slowest.time_for(most) * 6 + ring_delay * 20;
    let frames = slowest.time_for(frame) * (4_000 / n as u64);
    let stop = Time::ZERO + fill.min(frames).max(ring_delay * 10);
    let is_cyclic = speaks != Speaks::Gfc || throws.between(0, 1) == 0;
    let hosts = fabric.hosts.len();
    for from in 0..hosts {
        let idle = hosts > n && throws.between(0, 5) == 0;
        for _ in 0..if idle { 0 } else { throws.one_of(&[1, 1, 2]) } {
            let at = fabric.hosts[from].0;
            // The last link, back to the first switch, is what makes a circle.
            let hops_max = if is_cyclic { n - 1 } else { n - 1 - at } as u64;
            if hops_max == 0 {
                continue;
            }
            let hops = if speaks == Speaks::Gfc { throws.between(1, hops_max) } else { hops_max };
            let candidates: Vec<usize> =
                (0..hosts).filter(|to| fabric.hosts[*to].0 == (at + hops as usize) % n).collect();
            let to = throws.one_of(&candidates);
            let start = Time::from_picos(throws.between(0, stop.as_picos() / 4));
            fabric.flows.push(Flow { from, to, start, stop });
        }
    }
    Drawn { fabric, stop, frame, slowest, is_cyclic }
}

/// `flow_control` of a link's ends, and what a queue behind it may hold.
fn flow_control(
    throws: &mut Throws,
    speaks: Speaks,
    joint: &Joint,
    frame: Bytes,
    by_stages: bool,
    cell: u32,
) -> (String, Bytes) {
    let (rate, delay) = (joint.rate, joint.delay);
    let (tau, period) = (feedback_delay_max(rate, frame, delay, Span::ZERO), Advertiser::period_by_default(rate));
    let (tau, period) = (in_cells(tau, cell), in_cells(period, cell));
    let (large, spare) = (Bytes::mb(1_000), frame * throws.between(1, 200));
    if speaks == Speaks::Pfc {
        return ("\"pfc\"".to_owned(), spare + frame * 20);
    }
    if speaks == Speaks::GfcUnsafe {
        let b_m = frame * throws.between(8, 100);
        let b_1 = b_m - frame;
        let text = format!("{{ kind = \"gfc-buffer\", b_m = \"{b_m}\", b_1 = \"{b_1}\", unsafe_thresholds = true }}");
        return (text, b_m);
    }
    let by_stages = by_stages || throws.between(0, 1) == 0;
    let keeps_free = if by_stages {
        large - buffer_based_b1_max(large, rate, tau).unwrap()
    } else {
        large - time_based_b0_max(large, rate, tau, period).unwrap()
    };
    let b_m = keeps_free + spare;
    let (kind, key) = if by_stages { ("gfc-buffer", "b_1") } else { ("gfc-time", "b_0") };
    let threshold = match throws.between(0, 3) {
        0 => format!(", {key} = \"{}\"", spare.divided_by(throws.between(1, 4))),
        // The highest that is safe.
        _ => String::new(),
    };
    let stop = if speaks == Speaks::GfcStops { ", stop_at_b_m = true" } else { "" };
    (format!("{{ kind = \"{kind}\", b_m = \"{b_m}\"{threshold}{stop} }}"), b_m)
}

/// Longer by what the worst frame, of 64 B or a byte more than a cell, is charged for its bytes on the wire.
fn in_cells(span: Span, cell: u32) -> Span {
    let cell = u64::from(cell);
    let ratios = [64, cell + 1].into_iter().filter(|frame| cell > 1 && *frame >= 64);
    let spans = ratios.map(|frame| (span * (frame.div_ceil(cell) * cell)).divided_by(frame + 20) + Span::from_picos(1));
    spans.fold(span, Span::max)
}
