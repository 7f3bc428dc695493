//! A peer that ignores PAUSE overruns its headroom: its frames are dropped and counted as violations, nothing crashes,
//! and the other queues go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_switch_core::counters::DropReason;
use weir_units::BitRate;

use crate::common::{Receiver, Sender, StationPair, Tally};

const CONFIG: &str = r#"
[switch]
name = "deaf"
[lcores]
layout = "single"
# As the senders: a port that caught up further would keep up with a sender that lost what it was not polled for.
catch_up = "200us"
[buffer]
size = "2MB"
headroom = "50KB"
[classes]
lossless = [3, 4]
[[ports]]
name = "deaf"
ring = "deaf"
rate = "1Gbps"
[[ports]]
name = "slow"
ring = "slow"
rate = "100Mbps"
[[ports]]
name = "good"
ring = "good"
rate = "1Gbps"
[[ports]]
name = "fast"
ring = "fast"
rate = "1Gbps"
[[static_macs]]
mac = "02:00:00:00:01:01"
port = "slow"
[[static_macs]]
mac = "02:00:00:00:01:03"
port = "fast"
"#;

#[test]
fn a_deaf_peer_loses_its_own_frames_and_nobody_elses() {
    weir_alone::in_a_process(|| {
        const FRAMES: u64 = 200_000;
        let switches = [weir_config::parse("deaf.toml", CONFIG).unwrap()];
        let placement = Placement::new(&switches, &cpu::allowed(), 0).unwrap();
        let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 4_096).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("violation", &placement.cpus, &[], &options).unwrap();
        let mut prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 4_096).unwrap();
        let store = prepared.store().clone();
        let (deaf, good) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
        let mut far_end = |name| prepared.open_far_end(name).unwrap();
        let (deaf_end, slow_end, good_end, fast_end) =
            (far_end("deaf"), far_end("slow"), far_end("good"), far_end("fast"));
        let mut sender = Sender::new(
            deaf_end,
            store.clone(),
            deaf.clone(),
            StationPair { from: 0, to: 1 },
            3,
            FRAMES,
            BitRate::gbps(1),
        );
        sender.deaf = true;
        let rate = BitRate::mbps(300);
        let well_behaved =
            Sender::new(good_end, store.clone(), good.clone(), StationPair { from: 2, to: 3 }, 4, FRAMES / 4, rate);
        prepared.add_task(0, Box::new(Receiver::new(slow_end, store.clone(), deaf.clone(), 1)));
        prepared.add_task(0, Box::new(Receiver::new(fast_end, store.clone(), good.clone(), 3)));
        prepared.add_task(0, Box::new(sender));
        prepared.add_task(0, Box::new(well_behaved));
        let running = prepared.start().unwrap();
        let started = Instant::now();
        while good.received.load(Ordering::Relaxed) < FRAMES / 4 || deaf.sent.load(Ordering::Relaxed) < FRAMES {
            assert!(started.elapsed() < Duration::from_secs(60), "{deaf:?} {good:?}");
            assert!(running.report(0).unwrap().conservation.holds);
            std::thread::sleep(Duration::from_millis(5));
        }
        let stopped = running.stop(Duration::from_secs(10)).unwrap();
        let report = &stopped.reports[0];
        let lost = report.ports[0].classes[3].rx_drops[DropReason::HeadroomViolation as usize];
        assert!(lost > 0, "the deaf peer never overran its headroom");
        assert_eq!(report.dropped(DropReason::HeadroomViolation), lost);
        assert_eq!(deaf.received.load(Ordering::Relaxed) + lost, FRAMES);
        assert_eq!(good.received.load(Ordering::Relaxed), FRAMES / 4);
        assert_eq!(good.reordered.load(Ordering::Relaxed), 0);
        assert!(report.conservation.holds);
        assert_eq!((report.conservation.held(), stopped.mbufs_missing), (0, 0));
    });
}
