//! Netdev ports on veth pairs: what goes in comes out, and what can't is counted. Needs root and `ip`; says so and
//! passes where it has neither.

use std::process::Command;

use weir_dpdk_io::{Batch, Mempool, NetdevOptions, Port, PortConfig, PortError, RxQueue, TxQueue, vdev};

use crate::common::{frame, mbuf, pool};

#[test]
fn netdev_ports() {
    weir_alone::in_a_process(|| {
        if Veth::new(0).is_none() {
            eprintln!("skipped: making a veth pair needs root and the ip command");
            return;
        }
        let eal = crate::common::eal();
        let pool = pool("veth", 4095);
        frames_cross(&pool, |interface| {
            Port::attach(&vdev::af_packet(interface, interface, 1, 1500).expect("valid")).expect("DPDK's driver")
        });
        frames_cross(&pool, |interface| attach(interface, 1500));
        tags_and_fragments_stay_as_they_are(&pool);
        an_overrun_ring_is_counted(&pool);
        frames_for_which_there_is_no_mbuf_wait(&pool);
        a_lowered_mtu_is_counted(&pool);
        a_far_end_that_takes_no_long_frames_blocks_no_others(&pool);
        a_link_that_goes_down_loses_nothing_unseen(&pool);
        an_interface_that_is_gone_is_a_dead_link(&pool);
        what_is_no_interface_is_refused();
        assert_eq!(pool.in_use(), 0);
        drop(pool);
        assert!(!eal.is_in_use());
    });
}

fn frames_cross(pool: &Mempool, attach: impl Fn(&str) -> Port) {
    let veth = Veth::new(1).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0)), End::new(pool, attach(&veth.1)));
    assert!(right.port.promiscuous());
    // A PAUSE frame passes like any other.
    let mut pause = frame(7, 60);
    pause[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    pause[12..16].copy_from_slice(&[0x88, 0x08, 0x01, 0x01]);
    let sent = [frame(1, 60), pause, frame(2, 1514)];
    assert_eq!(left.send(pool, &sent), 3);
    assert_eq!(right.receive_those_of(&sent, sent.len()), sent);
    let stats = (left.port.stats().expect("statistics"), right.port.stats().expect("statistics"));
    assert!(stats.0.opackets >= 3 && stats.1.ipackets >= 3, "{stats:?}");
    assert!(link_becomes(&left.port, true));
    assert!(left.port.sends_mac_control() == weir_dpdk_io::MacControlTransmit::Sent);
}

fn tags_and_fragments_stay_as_they_are(pool: &Mempool) {
    let veth = Veth::new(2).expect("made a moment ago");
    for interface in [&veth.0, &veth.1] {
        assert!(ip(&["link", "set", interface, "mtu", "9000"]));
    }
    let jumbo = crate::common::jumbo_pool("jumbo", 511);
    let mut left = End::new(&jumbo, attach(&veth.0, 9000));
    let mut right = End::new(&jumbo, attach(&veth.1, 9000));
    let mut sent = vec![frame(1, 9014), frame(2, 9000)];
    for tags in [&[0x8100u16][..], &[0x88a8], &[0x88a8, 0x8100], &[0x8100, 0x8100], &[0x9100]] {
        for len in [60, 1000] {
            let mut tagged = frame(sent.len() as u32, len);
            for (level, tag) in tags.iter().enumerate() {
                let [a, b] = tag.to_be_bytes();
                // Priority 5, drop eligible, VLAN 5 and 6.
                tagged.splice(12 + 4 * level..12 + 4 * level, [a, b, 0xb0, 5 + level as u8]);
            }
            sent.push(tagged);
        }
    }
    // The longest with one tag.
    let mut longest = frame(99, 9014);
    longest.splice(12..12, [0x81, 0x00, 0x60, 1]);
    sent.push(longest);
    // First fragments, whose others never come.
    for number in 0..3 {
        let mut fragment = frame(number, 1514);
        fragment[12..34].copy_from_slice(&[
            8,
            0,
            0x45,
            0,
            5,
            220,
            0,
            number as u8,
            0x20,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            1,
            10,
            0,
            0,
            2,
        ]);
        sent.push(fragment);
    }
    assert_eq!(left.send(&jumbo, &sent), sent.len());
    assert_eq!(right.receive_those_of(&sent, sent.len()), sent);
    assert_eq!(right.port.stats().expect("statistics").ierrors, 0);
    drop((left, right));
    assert_eq!((jumbo.in_use(), pool.in_use()), (0, 0));
}

fn an_overrun_ring_is_counted(pool: &Mempool) {
    let veth = Veth::new(3).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(pool, attach(&veth.1, 1500)));
    let before = right.port.stats().expect("statistics");
    let all: Vec<_> = (0..10_000).map(|number| frame(number, 60)).collect();
    assert_eq!(left.send(pool, &all), 10_000);
    let mut batch = Batch::new();
    let mut received = 0;
    while right.rx.receive(&mut batch, 64) > 0 {
        received += batch.len() as u64;
        batch.clear();
    }
    let after = right.port.stats().expect("statistics");
    assert!(after.imissed > 0 && received >= 2048, "{after:?}");
    // The kernel may have sent frames of its own.
    let seen = received + after.imissed - before.imissed;
    assert!((10_000..10_100).contains(&seen), "{seen} of 10000 frames, {after:?}");
    assert_eq!(after.ipackets - before.ipackets, received);
    right.port.reset_stats().expect("reset");
    assert_eq!(right.port.stats().expect("statistics").imissed, 0);
}

fn frames_for_which_there_is_no_mbuf_wait(pool: &Mempool) {
    let veth = Veth::new(4).expect("made a moment ago");
    let tiny = crate::common::pool("tiny", 7);
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(&tiny, attach(&veth.1, 1500)));
    let sent: Vec<_> = (0..20).map(|number| frame(number, 100)).collect();
    assert_eq!(left.send(pool, &sent), 20);
    let mut taken = Vec::new();
    while let Some(mbuf) = tiny.alloc() {
        taken.push(mbuf);
    }
    let mut batch = Batch::new();
    assert_eq!(right.rx.receive(&mut batch, 64), 0);
    drop(taken);
    assert_eq!(right.receive_those_of(&sent, sent.len()), sent);
    drop((left, right));
    assert_eq!(tiny.in_use(), 0);
}

fn a_lowered_mtu_is_counted(pool: &Mempool) {
    let veth = Veth::new(5).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(pool, attach(&veth.1, 1500)));
    assert!(ip(&["link", "set", &veth.0, "mtu", "500"]));
    let (short, long) = (frame(1, 300), frame(2, 1000));
    let sent = [long.clone(), short.clone(), long.clone(), short.clone(), long];
    assert_eq!(left.send(pool, &sent), 5);
    assert_eq!(right.receive_those_of(std::slice::from_ref(&short), 2), [short.clone(), short]);
    let stats = left.port.stats().expect("statistics");
    assert_eq!(stats.oerrors, 3, "{stats:?}");
    assert!(left.port.xstats().expect("statistics").contains(&("tx_too_long".to_owned(), 3)));
    assert_eq!(left.port.mtu().expect("an MTU"), 500);
    // A receiver that was made for a smaller MTU.
    assert!(ip(&["link", "set", &veth.0, "mtu", "4000"]) && ip(&["link", "set", &veth.1, "mtu", "4000"]));
    let huge = vec![frame(5, 3000)];
    let jumbo = crate::common::jumbo_pool("jumbo", 15);
    assert_eq!(left.send(&jumbo, &huge), 1);
    assert!(right.receive_those_of(&huge, 0).is_empty());
    assert_eq!(right.port.stats().expect("statistics").ierrors, 1);
}

fn a_far_end_that_takes_no_long_frames_blocks_no_others(pool: &Mempool) {
    let veth = Veth::new(6).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(pool, attach(&veth.1, 1500)));
    assert!(ip(&["link", "set", &veth.1, "mtu", "500"]));
    let (short, long) = (frame(1, 300), frame(2, 1000));
    let sent = [long.clone(), short.clone(), long.clone(), short.clone()];
    assert_eq!(left.send_all(pool, &sent), 4);
    assert_eq!(right.receive_those_of(std::slice::from_ref(&short), 2), [short.clone(), short]);
    let stats = left.port.stats().expect("statistics");
    assert_eq!((stats.oerrors, stats.opackets), (2, 2), "{stats:?}");
}

fn a_link_that_goes_down_loses_nothing_unseen(pool: &Mempool) {
    let veth = Veth::new(7).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(pool, attach(&veth.1, 1500)));
    let sent = [frame(1, 100), frame(2, 100)];
    assert!(link_becomes(&left.port, true));
    assert!(ip(&["link", "set", &veth.0, "down"]));
    assert!(link_becomes(&left.port, false));
    assert!(link_becomes(&right.port, false), "no carrier");
    assert_eq!(left.send(pool, &sent), 0, "they stay with the program");
    assert!(ip(&["link", "set", &veth.0, "up"]));
    assert!(link_becomes(&left.port, true));
    assert_eq!(left.send_all(pool, &sent), 2);
    assert_eq!(right.receive_those_of(&sent, sent.len()), sent, "both directions live again");
    assert_eq!(right.send_all(pool, &sent), 2);
    assert_eq!(left.receive_those_of(&sent, sent.len()), sent);
}

fn an_interface_that_is_gone_is_a_dead_link(pool: &Mempool) {
    let veth = Veth::new(8).expect("made a moment ago");
    let (mut left, mut right) = (End::new(pool, attach(&veth.0, 1500)), End::new(pool, attach(&veth.1, 1500)));
    assert!(!left.port.reattach().expect("it is there"));
    drop(veth);
    for port in [&left.port, &right.port] {
        assert!(link_becomes(port, false));
        assert!(port.mac().is_err());
        assert!(port.stats().is_ok());
    }
    assert_eq!(left.send(pool, &[frame(1, 100)]), 0);
    let mut batch = Batch::new();
    left.rx.receive(&mut batch, 64);
    batch.clear();
    assert!(left.port.reattach().expect_err("not made yet").to_string().contains("No such device"));

    // Made again under the same names: the same ports and queues go on.
    let _veth = Veth::new(8).expect("made a moment ago");
    assert!(link_becomes(&left.port, false), "another interface");
    for port in [&mut left.port, &mut right.port] {
        assert!(port.reattach().expect("it is there again"));
        assert!(link_becomes(port, true));
    }
    let sent = [frame(1, 100), frame(2, 1514)];
    assert_eq!(left.send_all(pool, &sent), 2);
    assert_eq!(right.receive_those_of(&sent, 2), sent);
    assert_eq!(right.send_all(pool, &sent), 2);
    assert_eq!(left.receive_those_of(&sent, 2), sent);
}

fn what_is_no_interface_is_refused() {
    for name in ["", "nosuch0", "a-name-that-is-much-too-long"] {
        let error = Port::attach_netdev(name, NetdevOptions::default()).expect_err("no interface");
        assert!(error.to_string().contains("No such device"), "{error}");
    }
    let options = NetdevOptions { mtu: 16_001, ..NetdevOptions::default() };
    assert!(matches!(Port::attach_netdev("lo", options), Err(PortError::Mtu { max: 16_000, .. })));
}

fn attach(interface: &str, mtu: u16) -> Port {
    let options = NetdevOptions { mtu, ..NetdevOptions::default() };
    Port::attach_netdev(interface, options).expect("the interface exists")
}

/// The kernel updates a carrier's state in a thread of its own.
fn link_becomes(port: &Port, up: bool) -> bool {
    for _ in 0..1000 {
        if port.link().expect("a link").up == up {
            return true;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    false
}

/// A started port with its queues.
struct End {
    rx: RxQueue,
    tx: TxQueue,
    port: Port,
}

impl End {
    fn new(pool: &Mempool, mut port: Port) -> End {
        let (rx, tx) = port.configure(PortConfig::new(pool)).expect("configured");
        port.start().expect("started");
        let (rx, tx) = (rx.into_iter().next(), tx.into_iter().next());
        End { rx: rx.expect("a queue"), tx: tx.expect("a queue"), port }
    }

    /// Offers each frame once; returns how many were taken.
    fn send(&mut self, pool: &Mempool, frames: &[Vec<u8>]) -> usize {
        let mut taken = 0;
        for chunk in frames.chunks(64) {
            let mut batch = batch_of(pool, chunk);
            taken += self.tx.send(&mut batch);
        }
        taken
    }

    /// Offers frames until all are taken, or for some seconds.
    fn send_all(&mut self, pool: &Mempool, frames: &[Vec<u8>]) -> usize {
        let mut batch = batch_of(pool, frames);
        for _ in 0..1000 {
            self.tx.send(&mut batch);
            if batch.is_empty() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        frames.len() - batch.len()
    }

    /// Received frames that are among `sent`, once `expected` have come or seconds have passed. The kernel may send frames of its own (IPv6
    /// discovery).
    fn receive_those_of(&mut self, sent: &[Vec<u8>], expected: usize) -> Vec<Vec<u8>> {
        let (mut seen, mut batch) = (Vec::new(), Batch::new());
        let mut polls_left = 3000;
        while polls_left > 0 {
            while self.rx.receive(&mut batch, 64) > 0 {
                seen.extend(batch.drain().map(|mbuf| mbuf.data().to_vec()).filter(|bytes| sent.contains(bytes)));
            }
            if seen.len() >= expected {
                // Some more, for what should not come.
                polls_left = polls_left.min(20);
            }
            polls_left -= 1;
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        seen
    }
}

fn batch_of(pool: &Mempool, frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    for bytes in frames {
        batch.push(mbuf(pool, bytes)).expect("room");
    }
    batch
}

/// A veth pair, deleted on drop.
struct Veth(String, String);

impl Veth {
    fn new(number: u32) -> Option<Veth> {
        let id = std::process::id();
        let pair = Veth(format!("wa{number}p{id}"), format!("wb{number}p{id}"));
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
