//! Ports: null, ring and pcap devices, their life cycle and accounting.

use weir_dpdk_io::{
    Batch, FlowControlStep, MacControlTransmit, Port, PortConfig, PortError, ring_pair, ring_port, vdev,
};

use crate::common::{frame, mbuf, pool, receive_all, temporary_path};

#[test]
fn ports_without_hardware() {
    weir_alone::in_a_process(|| {
        let eal = crate::common::eal();
        null_port();
        one_owner_for_each_port();
        ring_pair_passes_frames_in_order();
        full_ring_keeps_the_tail();
        ring_pairs_can_be_made_again_and_again();
        far_ends_are_no_ports_of_dpdks();
        far_ends_keep_the_tail_and_free_what_is_left();
        pcap_files();
        assert!(Port::list().is_empty(), "{:?}", Port::list());
        assert!(!eal.is_in_use());
    });
}

fn null_port() {
    let pool = pool("null", 1023);
    let spec = vdev::null("p0", 200, true).expect("valid");
    let mut port = Port::attach(&spec).expect("a null port");
    assert_eq!((port.name(), port.driver_name().as_str()), ("net_null_p0", "net_null"));
    let info = port.device_info().expect("information");
    assert_eq!(info.bus, "vdev");
    let config = PortConfig { rx_queues: 2, tx_queues: 1, ..PortConfig::new(&pool) };
    let (mut rx, mut tx) = port.configure(config).expect("configured");
    assert_eq!((rx.len(), tx.len(), rx[1].queue_id()), (2, 1, 1));

    let mut batch = Batch::new();
    assert_eq!(rx[0].receive(&mut batch, 32), 0, "not started");
    port.start().expect("started");
    assert!(port.link().expect("link").up);
    for _ in 0..100 {
        assert_eq!(rx[0].receive(&mut batch, 32), 32);
        assert_eq!(rx[1].receive(&mut batch, 64), 32, "only what fits");
        assert_eq!(rx[0].receive(&mut batch, 64), 0);
        assert_eq!((batch[5].len(), pool.in_use()), (200, 64));
        assert_eq!(tx[0].send(&mut batch), 64);
        assert!(batch.is_empty());
    }
    assert_eq!(pool.in_use(), 0);

    let stats = port.stats().expect("statistics");
    assert_eq!((stats.ipackets, stats.opackets), (6400, 6400));
    let xstats = port.xstats().expect("statistics");
    assert!(xstats.contains(&("rx_good_packets".to_owned(), 6400)), "{xstats:?}");

    let report = port.take_over_flow_control();
    assert_eq!(report.link_pause_off, FlowControlStep::Unsupported);
    assert_eq!(report.priority_pause_off, FlowControlStep::Unsupported);
    assert_eq!(report.control_frames_sent, MacControlTransmit::Sent);
    assert!(report.is_usable());

    assert!(matches!(port.stop(), Err(PortError::QueuesHeld(_, "stop"))));
    assert!(port.configure(PortConfig::new(&pool)).is_err());
    drop((rx, tx));
    port.stop().expect("stopped");
    let too_many = PortConfig { rx_queues: 60_000, ..PortConfig::new(&pool) };
    let error = port.configure(too_many).expect_err("too many queues").to_string();
    assert!(error.contains("60000 RX"), "{error}");
    let jumbo = PortConfig { mtu: Some(9000), ..PortConfig::new(&pool) };
    assert!(matches!(port.configure(jumbo), Err(PortError::DataRoom { .. })));

    // The queue alone keeps the port open.
    let (mut rx, _) = port.configure(PortConfig::new(&pool)).expect("again");
    port.start().expect("again");
    drop(port);
    assert_eq!(rx[0].receive(&mut batch, 10), 10);
    assert_eq!(Port::list().len(), 1);
    drop(rx);
    assert!(Port::list().is_empty());
}

fn one_owner_for_each_port() {
    let port = Port::attach("net_null7").expect("a null port");
    let taken = |error| matches!(error, PortError::InUse(name) if name == "net_null7");
    assert!(taken(Port::by_name("net_null7").expect_err("owned")));
    assert!(taken(Port::attach("net_null7").expect_err("owned")));
    assert!(Port::list()[0].in_use);
    let mac = [2, 0, 0, 0, 0, 9];
    let mut port = port;
    port.set_mac(mac).expect("null ports take any");
    assert_eq!(port.mac().expect("an address"), mac);
    port.close().expect("closed");
    Port::attach("net_null7").expect("free again");
}

fn ring_pair_passes_frames_in_order() {
    let pool = pool("ring", 511);
    let (mut a, mut b) = ring_pair("wire", 128).expect("a pair");
    assert_eq!(a.name(), "net_ring_wirea");
    let (mut rx_a, mut tx_a) = a.configure(PortConfig::new(&pool)).expect("configured");
    let (mut rx_b, mut tx_b) = b.configure(PortConfig::new(&pool)).expect("configured");
    a.start().expect("started");
    b.start().expect("started");

    let mut batch = Batch::new();
    for round in 0..50 {
        for number in 0..60 {
            batch.push(mbuf(&pool, &frame(round * 60 + number, 64 + number as usize))).expect("room");
        }
        assert_eq!(tx_a[0].send(&mut batch), 60);
        assert_eq!(tx_a[0].backlog(), Some(60));
        assert_eq!(rx_a[0].receive(&mut batch, 1), 0, "no echo");
        // To another thread and back.
        (rx_b, batch) = std::thread::spawn(move || {
            assert_eq!(receive_all(&mut rx_b[0], &mut batch, 60), 60);
            (rx_b, batch)
        })
        .join()
        .expect("no panic");
        for (number, received) in (0..60).zip(&batch) {
            assert_eq!(received.data(), frame(round * 60 + number, 64 + number as usize));
        }
        assert_eq!(tx_b[0].send(&mut batch), 60);
        assert_eq!(receive_all(&mut rx_a[0], &mut batch, 60), 60);
        batch.clear();
    }
    assert_eq!(pool.in_use(), 0);
    assert_eq!(b.stats().expect("statistics").opackets, 3000);
}

fn full_ring_keeps_the_tail() {
    let pool = pool("tail", 511);
    let (mut a, mut b) = ring_pair("short", 100).expect("a pair");
    let (_rx_a, mut tx_a) = a.configure(PortConfig::new(&pool)).expect("configured");
    let (mut rx_b, _tx_b) = b.configure(PortConfig::new(&pool)).expect("configured");
    a.start().expect("started");
    b.start().expect("started");

    let mut next = 0;
    let mut fill = |batch: &mut Batch| {
        while batch.room() > 0 {
            batch.push(mbuf(&pool, &frame(next, 60))).expect("room");
            next += 1;
        }
    };
    let mut batch = Batch::new();
    fill(&mut batch);
    assert_eq!(tx_a[0].send(&mut batch), 64);
    fill(&mut batch);
    assert_eq!(tx_a[0].send(&mut batch), 36);
    assert_eq!((batch.len(), tx_a[0].send(&mut batch), batch.len()), (28, 0, 28));

    let mut received = Batch::new();
    let mut numbers = Vec::new();
    while numbers.len() < 128 {
        rx_b[0].receive(&mut received, 10);
        let number = |mbuf: weir_dpdk_io::Mbuf| mbuf.data()[17];
        numbers.extend(received.drain().map(number));
        tx_a[0].send(&mut batch);
    }
    assert_eq!(numbers, (0..128).collect::<Vec<u8>>());
    assert_eq!(pool.in_use(), 0);
}

fn ring_pairs_can_be_made_again_and_again() {
    let pool = pool("rings", 511);
    for _ in 0..40 {
        let (mut a, b) = ring_pair("again", 256).expect("nothing is left of the last one");
        let (_, mut tx) = a.configure(PortConfig::new(&pool)).expect("configured");
        a.start().expect("started");
        let mut batch = Batch::new();
        assert!(pool.alloc_bulk(&mut batch, 50));
        assert_eq!(tx[0].send(&mut batch), 50);
        // One end goes, the other still sends; frames are left in the ring.
        drop(b);
        assert!(pool.alloc_bulk(&mut batch, 50));
        assert_eq!(tx[0].send(&mut batch), 50);
        assert_eq!(pool.in_use(), 100);
        drop((a, tx));
        assert_eq!(pool.in_use(), 0);
    }
    let (_a, _b) = ring_pair("twin", 64).expect("a pair");
    assert!(ring_pair("twin", 64).is_err());
    assert!(ring_pair("no/slash", 64).is_err());
    assert!(ring_pair("none", 0).is_err());
}

fn far_ends_are_no_ports_of_dpdks() {
    let pool = pool("far", 511);
    let before = Port::list().len();
    let (mut port, mut far_end) = ring_port("far", 128).expect("a port");
    assert_eq!(Port::list().len(), before + 1);
    let (mut rx, mut tx) = port.configure(PortConfig::new(&pool)).expect("configured");
    port.start().expect("started");

    let mut batch = Batch::new();
    for number in 0..60 {
        batch.push(mbuf(&pool, &frame(number, 64 + number as usize))).expect("room");
    }
    assert_eq!(tx[0].send(&mut batch), 60);
    assert_eq!(far_end.receive(&mut batch, 7), 7, "no more than were asked for");
    assert_eq!(far_end.receive(&mut batch, 60), 53);
    assert_eq!(far_end.receive(&mut batch, 60), 0, "no room, and no more");
    for (number, received) in (0..60).zip(&batch) {
        assert_eq!(received.data(), frame(number, 64 + number as usize));
    }
    // From another thread.
    batch = std::thread::spawn(move || {
        assert_eq!(far_end.send(&mut batch), 60);
        batch
    })
    .join()
    .expect("no panic");
    assert_eq!(receive_all(&mut rx[0], &mut batch, 60), 60);
    batch.clear();
    assert_eq!(pool.in_use(), 0);
}

fn far_ends_keep_the_tail_and_free_what_is_left() {
    let pool = pool("tails", 511);
    let (mut port, mut far_end) = ring_port("tails", 40).expect("a port");
    let (rx, tx) = port.configure(PortConfig::new(&pool)).expect("configured");
    port.start().expect("started");
    let mut batch = Batch::new();
    assert_eq!(far_end.send(&mut batch), 0);
    assert!(pool.alloc_bulk(&mut batch, 60));
    assert_eq!((far_end.send(&mut batch), batch.len()), (40, 20));
    assert_eq!((far_end.send(&mut batch), batch.len()), (0, 20));
    batch.clear();
    drop((port, rx, tx));
    assert_eq!(pool.in_use(), 40, "what it sent waits in the ring");
    drop(far_end);
    assert_eq!(pool.in_use(), 0);
    // The name is free again, and a far end can be a port too.
    let (_port, far_end) = ring_port("tails", 40).expect("a port");
    assert_eq!(far_end.into_port().expect("a port").name(), "net_ring_tailsb");
}

fn pcap_files() {
    let pool = pool("pcap", 511);
    let (first, second) = (temporary_path("a.pcap"), temporary_path("b.pcap"));

    let spec = vdev::pcap("out", None, Some(&first)).expect("valid");
    let mut port = Port::attach(&spec).expect("writes a file");
    let (_rx, mut tx) = port.configure(PortConfig::new(&pool)).expect("configured");
    port.start().expect("started");
    let mut batch = Batch::new();
    for number in 0..40 {
        batch.push(mbuf(&pool, &frame(number, 60 + 20 * number as usize))).expect("room");
    }
    assert_eq!(tx[0].send(&mut batch), 40);
    drop((port, _rx, tx));
    assert_eq!(pool.in_use(), 0);

    let spec = vdev::pcap("in", Some(&first), Some(&second)).expect("valid");
    let mut port = Port::attach(&spec).expect("reads a file");
    let (mut rx, mut tx) = port.configure(PortConfig::new(&pool)).expect("configured");
    port.start().expect("started");
    assert_eq!(receive_all(&mut rx[0], &mut batch, 40), 40);
    assert_eq!(rx[0].receive(&mut batch, 10), 0, "the file has ended");
    for (number, received) in (0..40).zip(&batch) {
        assert_eq!(received.data(), frame(number, 60 + 20 * number as usize));
    }
    assert_eq!(tx[0].send(&mut batch), 40);
    drop((port, rx, tx));
    // Frames without the records' times.
    let frames = |path| {
        let bytes = std::fs::read(path).expect("the port wrote it");
        let mut at = 24;
        let mut frames = Vec::new();
        while at < bytes.len() {
            let len = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().expect("4")) as usize;
            frames.push(bytes[at + 16..at + 16 + len].to_vec());
            at += 16 + len;
        }
        frames
    };
    assert_eq!(frames(&first).len(), 40);
    assert_eq!(frames(&first), frames(&second));

    let control = self::pool("control", 63);
    // A port that repeats frames: a line or more, in turn, beyond the pool's caches, and again under the same number.
    for _ in 0..2 {
        let mut port = Port::attach(&vdev::null("repeats", 64, false).expect("valid")).expect("null");
        let (mut rx, mut tx) = port.configure(PortConfig::new(&pool)).expect("configured");
        let lengths = [60, 64, 65, 1_514];
        let all = [0, 1, 2, 3].map(|number| frame(number, lengths[number as usize]));
        assert!(port.replay::<&[u8]>(&[], false).is_err() && port.replay(&[vec![0; 60_000]], true).is_err());
        port.replay(&all, true).expect("frames");
        assert!(port.replay(&all, true).is_err(), "once");
        port.start().expect("started");
        for _ in 0..40 {
            assert_eq!(rx[0].receive(&mut batch, 30), 30);
            assert_eq!(tx[0].send(&mut batch), 30);
        }
        assert_eq!(rx[0].receive(&mut batch, 6), 6);
        assert!(batch.iter().zip(all.iter().cycle()).all(|(received, frame)| received.data() == frame));
        batch.clear();
        // PFC for class 3: with the longest pause, then with none.
        for (time, received) in [(0xff, 0), (0, 6)] {
            let mut pfc = vec![0; 60];
            pfc[12..18].copy_from_slice(&[0x88, 0x08, 1, 1, 0, 1 << 3]);
            pfc[24..26].fill(time);
            batch.push(mbuf(&control, &pfc)).expect("room");
            assert_eq!((tx[0].send(&mut batch), rx[0].receive(&mut batch, 6)), (1, received));
            batch.clear();
        }
        drop((port, rx, tx));
        assert_eq!(pool.in_use(), 0);
    }
    for path in [first, second] {
        std::fs::remove_file(path).expect("the port wrote it");
    }
    assert_eq!(pool.in_use(), 0);
}
