//! Where a link ends inside the process, the lcore at its other end frees the control frames that a transmitter made. What lcores keep of
//! them at hand never leaves the transmitter without memory for a PAUSE. Lcores are threads of their own where there is a CPU for each:
//! with fewer CPUs than three there are too few caches to show it, and the sizes alone are tested (`memory.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use weir_dpdk_driver::{FrameStore, Memory, Phase, Placement, PreparedSwitches, Runtime, RuntimeOptions, Task};
use weir_dpdk_io::{Clock, Mbuf, cpu};

/// Three lcores, with a cache each.
const CONFIG: &str = "[switch]\nname = \"control\"\n[lcores]\nlayout = \"rx-fwd-tx\"\n[buffer]\nsize = \"2MB\"\n\
    [[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";
/// Many times what any cache holds.
const FRAMES: u64 = 20_000;
/// For two ports, on their links.
const ON_THEIR_WAY: usize = 2 * 32;

#[derive(Debug, Default)]
struct Tally {
    sent: AtomicU64,
    without_memory: AtomicU64,
}

/// Takes memory for frames, and hands them to the others in turn.
struct Sender {
    store: FrameStore,
    to: [SyncSender<Mbuf>; 2],
    tally: Arc<Tally>,
}

/// Frees frames.
struct Other(Receiver<Mbuf>);

impl Task for Sender {
    fn poll(&mut self, _: &Clock, phase: Phase) -> usize {
        let sent = self.tally.sent.load(Ordering::Relaxed);
        if phase > Phase::Run || sent == FRAMES {
            return 0;
        }
        let Some(mbuf) = self.store.control.alloc() else {
            self.tally.without_memory.fetch_add(1, Ordering::Relaxed);
            return 0;
        };
        match self.to[sent as usize % 2].try_send(mbuf) {
            Ok(()) => self.tally.sent.fetch_add(1, Ordering::Relaxed) as usize,
            Err(TrySendError::Full(_)) => 0,
            Err(TrySendError::Disconnected(_)) => panic!("the other lcore has ended"),
        }
    }
}

impl Task for Other {
    fn poll(&mut self, _: &Clock, _: Phase) -> usize {
        self.0.try_iter().count()
    }
}

#[test]
fn there_is_memory_for_each_whoever_frees_them() {
    weir_alone::in_a_process(|| {
        let switches = [weir_config::parse("control.toml", CONFIG).unwrap()];
        let placement = Placement::new(&switches, &cpu::allowed(), 0).unwrap();
        if placement.cpus.len() < 3 {
            return println!("nothing shown: three lcores want three CPUs, and there are {}", placement.cpus.len());
        }
        let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 0).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("control", &placement.cpus, &[], &options).unwrap();
        let mut prepared = PreparedSwitches::prepare(&runtime, &switches, &placement, 0).unwrap();
        let tally = Arc::new(Tally::default());
        let ends = [sync_channel(ON_THEIR_WAY / 2), sync_channel(ON_THEIR_WAY / 2)];
        let to = ends.each_ref().map(|(to, _)| to.clone());
        prepared.add_task(2, Box::new(Sender { store: prepared.store().clone(), to, tally: tally.clone() }));
        for (lcore, (_, frames)) in ends.into_iter().enumerate() {
            prepared.add_task(lcore, Box::new(Other(frames)));
        }
        let running = prepared.start().unwrap();
        let started = Instant::now();
        while tally.sent.load(Ordering::Relaxed) < FRAMES && tally.without_memory.load(Ordering::Relaxed) == 0 {
            assert!(started.elapsed() < Duration::from_secs(60), "{tally:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let stopped = running.stop(Duration::from_secs(1)).unwrap();
        assert_eq!((tally.without_memory.load(Ordering::Relaxed), stopped.mbufs_missing), (0, 0), "{tally:?}");
    });
}
