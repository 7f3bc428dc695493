//! A guest that stops taking frames from one of its queues stops the classes of that queue, and no others; nothing is lost.
//! The guest is DPDK's virtio driver, in this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::{Batch, Mempool, MempoolConfig, Port, PortConfig, RxQueue, cpu};
use weir_switch_core::counters::DropReason;
use weir_units::BitRate;

use crate::common::{Sender, StationPair, Tally};

const QUEUES: u16 = 4;
const FRAMES: u64 = 50_000;
/// A machine that does much else must not fail the test.
const WITHIN: Duration = Duration::from_secs(60);

fn config(socket: &str) -> String {
    format!(
        r#"
[switch]
name = "host"
[lcores]
layout = "single"
[buffer]
size = "2MB"
headroom = "100KB"
[classes]
lossless = [3, 4]
[[ports]]
name = "a"
ring = "a"
rate = "1Gbps"
[[ports]]
name = "b"
ring = "b"
rate = "1Gbps"
[[ports]]
name = "vm"
vhost_user = {{ socket = "{socket}", queues = {QUEUES} }}
rate = "1Gbps"
[[static_macs]]
mac = "02:00:00:00:01:09"
port = "vm"
"#
    )
}

/// Takes what a queue has, checks the order, and returns how many there were.
fn take(queue: &mut RxQueue, next: &mut u64) -> u64 {
    let mut batch = Batch::new();
    let received = queue.receive(&mut batch, 32) as u64;
    for mbuf in batch.iter() {
        let bytes = mbuf.data();
        // PFC leaves by queue 0 too, and is for the guest.
        if bytes[12..14] == [8, 0] {
            assert_eq!(u64::from_be_bytes(bytes[34..42].try_into().unwrap()), *next);
            *next += 1;
        }
    }
    received
}

#[test]
fn a_queue_that_the_guest_leaves_alone_stops_its_classes_alone() {
    weir_alone::in_a_process(|| {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("vm.sock").to_str().unwrap().to_owned();
        let switches = [weir_config::parse("host.toml", &config(&socket)).unwrap()];
        let placement = Placement::new(&switches, &cpu::allowed(), 0).unwrap();
        let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 4_096).megabytes() + 64;
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("guest-queues", &placement.cpus, &[], &options).unwrap();
        let mut prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 4_096).unwrap();
        let store = prepared.store().clone();
        let tallies = [(); 2].map(|()| Arc::new(Tally { silent: true.into(), ..Tally::default() }));
        // Class 3 leaves by queue 3, class 4 by queue 0.
        for ((name, class), (station, tally)) in [("a", 3), ("b", 4)].into_iter().zip((1..).zip(&tallies)) {
            let end = prepared.open_far_end(name).unwrap();
            let stations = StationPair { from: station, to: 9 };
            let sender = Sender::new(end, store.clone(), tally.clone(), stations, class, FRAMES, BitRate::mbps(300));
            prepared.add_task(0, Box::new(sender));
        }
        let pool = Mempool::new("guest", MempoolConfig { count: 8_191, cache: 0, ..MempoolConfig::default() }).unwrap();
        let spec = format!("net_virtio_user_guest,path={socket},queues={QUEUES},queue_size=256,cq=1");
        let mut guest = Port::attach(&spec).unwrap();
        let counts = PortConfig { rx_queues: QUEUES, tx_queues: QUEUES, ..PortConfig::new(&pool) };
        let (mut rx, tx) = guest.configure(counts).unwrap();
        guest.start().unwrap();
        let running = prepared.start().unwrap();
        let mut next = [0; 2];
        let started = Instant::now();
        // Until the guest has enabled a queue, its classes leave by another one.
        while !running.guest_queues().iter().any(|news| news.enabled.len() == usize::from(QUEUES)) {
            assert!(started.elapsed() < WITHIN, "the guest enabled too few of its {QUEUES} queues");
            std::thread::yield_now();
        }
        tallies.iter().for_each(|tally| tally.silent.store(false, Ordering::Relaxed));
        while next[1] < FRAMES {
            assert!(started.elapsed() < WITHIN, "{next:?} of {FRAMES}, {tallies:?}");
            if take(&mut rx[0], &mut next[1]) == 0 {
                std::thread::yield_now();
            }
            let report = running.report(0).unwrap();
            let lost: Vec<_> = DropReason::ALL.into_iter().map(|reason| (reason, report.dropped(reason))).collect();
            assert!(report.conservation.holds && report.conservation.dropped == 0, "{lost:?}");
        }
        // The ring of queue 3 is full since long, and its sender paused.
        assert!(tallies[0].pfc_seen.load(Ordering::Relaxed) > 0, "{tallies:?}");
        assert!(tallies[0].sent.load(Ordering::Relaxed) < FRAMES, "{tallies:?}");
        while next[0] < FRAMES {
            assert!(started.elapsed() < 2 * WITHIN, "{next:?} of {FRAMES}, {tallies:?}");
            take(&mut rx[3], &mut next[0]);
        }
        assert!(running.guest_queues().iter().all(|news| news.enabled.len() == usize::from(QUEUES)));
        drop((rx, tx));
        guest.close().unwrap();
        let stopped = running.stop(Duration::from_secs(10)).unwrap();
        let report = &stopped.reports[0];
        assert!(report.conservation.holds);
        assert_eq!((report.conservation.held(), report.conservation.dropped, stopped.mbufs_missing), (0, 0, 0));
        assert_eq!(stopped.devices[0][2].queue_fallbacks, 0);
    });
}
