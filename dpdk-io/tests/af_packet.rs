//! `AF_PACKET` ports on a veth pair. Needs root and `ip`; says so and passes
//! where it has neither.

mod common;

use std::process::Command;

use common::{frame, mbuf, pool, receive_all};
use weir_dpdk_io::{Batch, Port, PortConfig, vdev};

#[test]
fn frames_cross_a_veth_pair() {
    let Some(veth) = Veth::new() else {
        eprintln!("skipped: making a veth pair needs root and the ip command");
        return;
    };
    let eal = common::eal();
    let pool = pool("veth", 4095);
    let mut ports = Vec::new();
    for interface in [&veth.0, &veth.1] {
        let spec = vdev::af_packet(interface, interface, 1, 1500).expect("valid");
        let mut port = Port::attach(&spec).expect("the interface exists");
        let queues = port.configure(PortConfig::new(&pool)).expect("configured");
        port.start().expect("started");
        ports.push((port, queues));
    }
    let (right, (mut rx, _)) = ports.pop().expect("two ports");
    let (left, (_, mut tx)) = ports.pop().expect("two ports");
    assert!(right.promiscuous());

    // A PAUSE frame passes like any other.
    let mut pause = frame(7, 60);
    pause[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    pause[12..16].copy_from_slice(&[0x88, 0x08, 0x01, 0x01]);
    let sent = [frame(1, 60), pause, frame(2, 1514)];
    let mut batch = Batch::new();
    for bytes in &sent {
        batch.push(mbuf(&pool, bytes)).expect("room");
    }
    assert_eq!(tx[0].send(&mut batch), 3);

    // The kernel may send frames of its own (IPv6 discovery) on a new link.
    let mut seen = Vec::new();
    for _ in 0..1000 {
        receive_all(&mut rx[0], &mut batch, 1);
        seen.extend(batch.drain().map(|mbuf| mbuf.data().to_vec()));
        seen.retain(|bytes| sent.contains(bytes));
        if seen.len() == sent.len() {
            break;
        }
    }
    assert_eq!(seen, sent);
    drop((left, right, rx, tx));
    assert_eq!(pool.in_use(), 0);
    drop(pool);
    assert!(!eal.is_in_use());
}

/// A veth pair that goes with the value.
struct Veth(String, String);

impl Veth {
    fn new() -> Option<Veth> {
        let id = std::process::id();
        let pair = Veth(format!("wa{id}"), format!("wb{id}"));
        let made = ip(&["link", "add", &pair.0, "type", "veth", "peer", "name", &pair.1]);
        if !made {
            std::mem::forget(pair);
            return None;
        }
        let up = ip(&["link", "set", &pair.0, "up"]) && ip(&["link", "set", &pair.1, "up"]);
        up.then_some(pair)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&["link", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).output().is_ok_and(|output| output.status.success())
}
