//! The papers' closed forms against overloaded queues of a whole simulated switch: hosts, wires, flow control and all.

use std::path::Path;

use weir_scenario::file::parse;
use weir_sim::Sim;
use weir_units::{Class, PortId, QueueId, Time};

const FRAME: u64 = 1_024 + 62;
const ACK: u64 = 66;

/// A switch with `2n` senders, two to each of `n` receivers on its last ports, all at 10 Gb/s, in a class.
fn overloaded(n: usize, class: u8, lossless: &str, buffer: &str) -> Sim {
    let mut text = format!(
        "[scenario]\nend = \"2ms\"\n[switch]\nmtu = 1500\n[switch.buffer]\n{buffer}\n[switch.classes]\npreset = \"roce\"\n\
         lossless = {lossless}\n[switch.pfc]\nreaction = \"0s\"\n[topology]\nkind = \"single\"\nhosts = {}\nrate = \"10Gbps\"\n\
         delay = \"1us\"\n[nic]\nmtu = 1024\n",
        3 * n
    );
    for flow in 0..2 * n {
        text += &format!("[[flows]]\nfrom = \"H{flow}\"\nto = \"H{}\"\nclass = {class}\n", 2 * n + flow / 2);
    }
    let runs = parse(Path::new("steady.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let mut sim = Sim::new(&runs[0].scenario).unwrap();
    sim.run_until(Time::from_nanos(2_000_000));
    sim
}

fn near(is: u64, expected: u64, frames: u64, what: &str) {
    assert!(is.abs_diff(expected) <= frames * FRAME + ACK, "{what}: {is} B, and {expected} B by the closed form");
}

/// DT: each of n queues that drop has α·B / (1 + n·α).
#[test]
fn lossy_queues_under_dynamic_thresholds() {
    for (n, alpha, numerator, denominator) in [(1, "1", 1, 1), (2, "2", 2, 1), (8, "1/4", 1, 4), (8, "1", 1, 1)] {
        let buffer = format!("size = \"600KB\"\nlossy_alpha = \"{alpha}\"\npolicy = \"dt\"");
        let sim = overloaded(n, 0, "[]", &buffer);
        let expected = 600_000 * numerator / (denominator + n as u64 * numerator);
        for port in 2 * n..3 * n {
            let length = sim.shared(0).mmu.egress_length(QueueId::new(PortId(port as u16), Class::new(0)));
            // Queues free a frame in rotation, and the one offered a frame at that instant takes it.
            near(length, expected, 2 + n as u64 / 2, &format!("α = {alpha}, n = {n}"));
        }
    }
}

/// DT with PFC: each of 2n ingress queues, from a host each, swings about T = α·B / (1 + 2n·α): up by arrivals while a
/// PAUSE is in flight, which are charged to headroom, and down by δ and departures until the RESUME arrives.
#[test]
fn lossless_queues_under_dynamic_thresholds() {
    for n in [1, 2, 4] {
        // By the rule: 1,250 B are in flight on 1 us of link, and a frame has 1,522 B.
        let headroom = (2 * (1_250 + 1_522) + 3_840) * 3 * n as u64;
        let size = 600_000 + headroom;
        let buffer = format!("size = \"{size}B\"\npolicy = \"dt\"\n[switch.buffer.dt]\nalpha = \"1/4\"");
        let mut sim = overloaded(n, 3, "[3]", &buffer);
        let report = sim.report(0);
        assert_eq!(report.pool.capacity.get(), 600_000);
        let expected = 600_000 / (4 + 2 * n as u64);
        for port in &report.ports[..2 * n] {
            let queue = &port.classes[3].ingress;
            // δ is two frames of 1,522 B; a round trip of 2 us and two frames is 5 frames at half the line's rate.
            near(queue.shared.get(), expected, 9, &format!("n = {n}"));
            assert!(queue.pauses > 10 && queue.headroom_max.get() > 0, "n = {n}: {queue:?}");
        }
        let lost: u64 = report.ports.iter().flat_map(|port| port.classes[3].rx_drops).sum();
        assert_eq!(lost, 0);
    }
}

/// Reverie's theorems 1 and 2, with both kinds of traffic in one switch: lossless queues hold α● · b / (1 + α● + α°) together,
/// lossy ones α° · b / (1 + α● + α°), and b / (1 + α● + α°) is idle.
#[test]
fn reverie_shares_the_buffer_between_lossless_and_lossy() {
    let headroom = (2 * (1_250 + 1_522) + 3_840) * 12;
    let mut text = format!(
        "[scenario]\nend = \"8ms\"\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"{}B\"\nlossy_alpha = 1\npolicy = \"reverie\"\n\
         [switch.buffer.reverie]\nalpha = 2\ngamma = 0.9\n[switch.classes]\npreset = \"roce\"\n\
         [switch.pfc]\nreaction = \"0s\"\n[topology]\nkind = \"single\"\nhosts = 12\nrate = \"10Gbps\"\n\
         delay = \"1us\"\n[nic]\nmtu = 1024\n",
        1_200_000 + headroom
    );
    // Four lossless ingress queues, two to an output; two lossy egress queues, of two senders each.
    for (from, to, class) in
        [(0, 8, 3), (1, 8, 3), (2, 9, 3), (3, 9, 3), (4, 10, 0), (5, 10, 0), (6, 11, 0), (7, 11, 0)]
    {
        text += &format!("[[flows]]\nfrom = \"H{from}\"\nto = \"H{to}\"\nclass = {class}\n");
    }
    let runs = parse(Path::new("reverie.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let mut sim = Sim::new(&runs[0].scenario).unwrap();
    sim.run_until(Time::from_nanos(8_000_000));
    let report = sim.report(0);
    assert_eq!(report.pool.capacity.get(), 1_200_000);
    let lossless: u64 = report.ports.iter().map(|port| port.classes[3].ingress.shared.get()).sum();
    let lossy: u64 = report.ports.iter().map(|port| port.classes[0].egress.get()).sum();
    let idle = 1_200_000 - report.pool.used.get();
    // A few frames for each queue.
    near(lossless, 600_000, 4 * 9, "lossless");
    near(lossy, 300_000, 2 * 9, "lossy");
    near(idle, 300_000, 6 * 9, "idle");
    let lost: u64 = report.ports.iter().flat_map(|port| port.classes[3].rx_drops).sum();
    assert_eq!(lost, 0);
}
