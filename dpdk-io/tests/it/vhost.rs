//! vhost-user ports with several queues, and DPDK's own virtio driver at their far end, in one process.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use weir_dpdk_io::{Batch, Mempool, Port, PortConfig, RxQueue, TxQueue, vdev};

use crate::common::{frame, mbuf, pool, receive_all, temporary_path};

/// A machine that does much else must not fail the test.
const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn vhost_ports() {
    weir_alone::in_a_process(|| {
        let _eal = crate::common::eal();
        queues_are_those_that_the_guest_enables();
        a_client_connects_and_connects_again();
    });
}

struct Open {
    port: Port,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
}

impl Open {
    fn new(spec: &str, queues: u16, pool: &Mempool) -> Open {
        let mut port = Port::attach(spec).expect("attached");
        let config = PortConfig { rx_queues: queues, tx_queues: queues, ..PortConfig::new(pool) };
        let (rx, tx) = port.configure(config).expect("configured");
        port.start().expect("started");
        Open { port, rx, tx }
    }

    fn is_up(&self) -> bool {
        self.port.link().is_ok_and(|link| link.up)
    }

    fn close(self) {
        drop((self.rx, self.tx));
        self.port.close().expect("closed");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(5));
    }
}

fn virtio_user(name: &str, socket: &Path, queues: u16, server: bool) -> String {
    let mode = if server { ",server=1" } else { "" };
    format!("net_virtio_user_{name},path={},queues={queues},queue_size=256,cq=1{mode}", socket.display())
}

fn send(queue: &mut TxQueue, pool: &Mempool, number: u32) -> usize {
    let mut batch = Batch::new();
    batch.push(mbuf(pool, &frame(number, 100))).expect("room");
    queue.send(&mut batch)
}

fn check_arrival(queue: &mut RxQueue, number: u32) {
    let mut batch = Batch::new();
    let deadline = Instant::now() + WITHIN;
    while receive_all(queue, &mut batch, 1) == 0 {
        assert!(Instant::now() < deadline, "frame {number} does not arrive");
    }
    assert_eq!(batch[0].data(), frame(number, 100), "frame {number}");
}

fn queues_are_those_that_the_guest_enables() {
    const QUEUES: u16 = 4;
    let socket = temporary_path("queues.sock");
    let pool = pool("queues", 8191);
    let mut weir = Open::new(&vdev::vhost("queues", &socket, false, QUEUES).expect("valid"), QUEUES, &pool);
    let peers = weir.port.enabled_queues().expect("a port with a guest");
    assert_eq!((peers.receives.first_from(0), peers.sends.first_from(0), weir.is_up()), (None, None, false));
    assert!(!weir.tx[0].is_enabled());

    // A guest with four pairs that uses two of them.
    let mut guest = Open::new(&virtio_user("queues", &socket, QUEUES, false), 2, &pool);
    wait_until("the guest's queues", || weir.is_up() && weir.tx[1].is_enabled());
    let enabled: Vec<bool> = weir.tx.iter().map(TxQueue::is_enabled).collect();
    assert_eq!(enabled, [true, true, false, false]);
    assert_eq!(send(&mut weir.tx[3], &pool, 0), 0, "a queue that is disabled takes nothing");
    for number in 0..2u16 {
        let queue = usize::from(number);
        assert_eq!(send(&mut weir.tx[queue], &pool, queue as u32), 1);
        check_arrival(&mut guest.rx[queue], queue as u32);
        assert_eq!(send(&mut guest.tx[queue], &pool, 10 + queue as u32), 1);
        check_arrival(&mut weir.rx[queue], 10 + queue as u32);
    }
    guest.close();
    wait_until("the guest is gone", || !weir.is_up());
    assert!(weir.tx.iter().all(|queue| !queue.is_enabled()));

    // One that uses more than there are.
    let guest = Open::new(&virtio_user("more", &socket, 6, false), 6, &pool);
    wait_until("the guest's queues", || {
        weir.port.enabled_queues().is_some_and(|peers| peers.sends.first_from(QUEUES) == Some(QUEUES))
    });
    assert!(weir.tx.iter().all(TxQueue::is_enabled));
    guest.close();
    weir.close();
    assert_eq!(pool.in_use(), 0);
}

fn a_client_connects_and_connects_again() {
    let socket = temporary_path("client.sock");
    let pool = pool("client", 4095);
    let mut weir = Open::new(&vdev::vhost("client", &socket, true, 1).expect("valid"), 1, &pool);
    assert!(!weir.is_up(), "nobody is there");
    for round in 0..2 {
        let mut guest = Open::new(&virtio_user(&format!("server{round}"), &socket, 1, true), 1, &pool);
        wait_until("the client connects", || weir.is_up() && weir.tx[0].is_enabled());
        assert_eq!(send(&mut weir.tx[0], &pool, round), 1);
        check_arrival(&mut guest.rx[0], round);
        guest.close();
        wait_until("the guest is gone", || !weir.is_up());
        let _ = std::fs::remove_file(&socket);
    }
    weir.close();
}
