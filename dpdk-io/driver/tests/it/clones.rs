//! One sender with five clones of its port over real DPDK ports and lcores, as in the SPFC paper's testbed: six copies of
//! each frame leave, each copy's stream in order, nothing lost, frames conserved, in each lcore layout.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_config::SwitchConfig;
use weir_dpdk_driver::{Memory, Phase, Placement, PreparedSwitches, Runtime, RuntimeOptions, Task};
use weir_dpdk_io::{Batch, Clock, RingEnd, cpu};
use weir_units::{BitRate, Bytes, PortId};

use crate::common::{Progress, Sender, StationPair, Tally, lost_to_the_machine};

const CLONES: usize = 5;
const COPIES: usize = CLONES + 1;
const FRAMES: u64 = if cfg!(debug_assertions) { 30_000 } else { 250_000 };
/// C of the receiver's port: what the six copies exceed together.
const RECEIVER_RATE: &str = if cfg!(debug_assertions) { "100Mbps" } else { "300Mbps" };

/// The headroom covers a reaction of 42 ms.
fn config(layout: &str) -> SwitchConfig {
    let mut text = format!(
        "[switch]\nname = \"clones\"\n[lcores]\nlayout = \"{layout}\"\n[buffer]\nsize = \"16MB\"\nmean_frame = \"exact\"\nheadroom = \"1600KB\"\npolicy = \"dt\"\n\
         [classes]\nlossless = [3]\n\
         [[ports]]\nname = \"burst\"\nring = \"burst\"\nrate = \"300Mbps\"\n\
         [[ports]]\nname = \"receiver\"\nring = \"receiver\"\nrate = \"{RECEIVER_RATE}\"\n\
         [[static_macs]]\nmac = \"02:00:00:00:01:01\"\nport = \"receiver\"\n"
    );
    for n in 0..CLONES {
        text += &format!("[[ports]]\nname = \"burst-{n}\"\nclone_of = \"burst\"\n");
    }
    weir_config::parse("clones.toml", &text).unwrap()
}

/// Receives the copies. In a mixture of streams that are each in order, the n-th copies of all numbers are in order too.
struct Collector {
    link: RingEnd,
    tally: Arc<Tally>,
    next: [u64; COPIES],
    batch: Batch,
}

impl Task for Collector {
    fn poll(&mut self, _clock: &Clock, _phase: Phase) -> usize {
        if self.tally.held_back.load(Ordering::Relaxed) {
            return 0;
        }
        let received = self.link.receive(&mut self.batch, 64);
        for mbuf in self.batch.iter() {
            let bytes = mbuf.data();
            let sequence = u64::from_be_bytes(bytes[34..42].try_into().expect("eight bytes"));
            match self.next.iter_mut().find(|next| **next <= sequence) {
                Some(next) if *next == sequence => *next += 1,
                _ => {
                    self.tally.reordered.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.tally.received.fetch_add(1, Ordering::Relaxed);
        }
        self.batch.clear();
        received
    }
}

fn run(runtime: &Runtime, config: &SwitchConfig) {
    let layout = config.lcores.layout;
    let switches = std::slice::from_ref(config);
    let placement = Placement::new(switches, &cpu::allowed(), 0).unwrap();
    let mut prepared = PreparedSwitches::prepare(runtime, switches, &placement, 2_048).unwrap();
    let store = prepared.store().clone();
    let tally = Arc::new(Tally { held_back: true.into(), ..Tally::default() });
    let link = prepared.open_far_end("receiver").unwrap();
    let collector = Collector { link, tally: tally.clone(), next: [0; COPIES], batch: Batch::new() };
    let sender = prepared.open_far_end("burst").unwrap();
    let sender =
        Sender::new(sender, store, tally.clone(), StationPair { from: 0, to: 1 }, 3, FRAMES, BitRate::mbps(300));
    prepared.add_task(placement.cpus.len() - 1, Box::new(collector));
    prepared.add_task(0, Box::new(sender));
    let running = prepared.start().unwrap();
    let (started, mut progress) = (Instant::now(), Progress::new());
    let mut dropped = 0;
    while tally.received.load(Ordering::Relaxed) + dropped < COPIES as u64 * FRAMES {
        std::thread::sleep(Duration::from_millis(10));
        let report = running.report(0).unwrap();
        let balance = report.conservation;
        dropped = balance.dropped;
        tally.release_after(report.ports[0].classes[3].pauses_tx, FRAMES);
        assert!(balance.holds, "{layout:?}: {balance:?}");
        assert!(progress.goes_on(&tally, &running), "{layout:?}: {tally:?} {balance:?}");
    }
    let changed = running.update_links();
    assert!(changed.iter().all(|(_, port, _)| *port < PortId(2)), "{layout:?}: a clone has no link: {changed:?}");
    let stopped = running.stop(Duration::from_secs(5)).unwrap();
    let report = &stopped.reports[0];
    let balance = report.conservation;
    assert!(balance.holds, "{layout:?}: {balance:?}");
    let frames = COPIES as u64 * FRAMES;
    let lost = lost_to_the_machine(&format!("{layout:?}"), &stopped, BitRate::mbps(300 * COPIES as u64));
    let balanced = (balance.received, balance.sent, balance.dropped, balance.held());
    assert_eq!(balanced, (frames, frames - lost, lost, 0), "{layout:?}");
    assert_eq!((report.pool.used, stopped.mbufs_missing), (Bytes::ZERO, 0), "{layout:?}");
    if lost > 0 {
        return;
    }
    assert_eq!(tally.reordered.load(Ordering::Relaxed), 0, "{layout:?}: reordered or lost");
    assert_eq!((report.ports.len(), stopped.devices[0].len()), (2 + CLONES, 2 + CLONES));
    for (index, port) in report.ports.iter().enumerate() {
        let class = &port.classes[3];
        let expected = match index {
            1 => (0, frames),
            _ => (FRAMES, 0),
        };
        assert_eq!((class.rx_frames, class.tx_frames), expected, "{layout:?}: {}", port.name);
        assert!(!class.ingress.off && port.link_up, "{layout:?}: {}", port.name);
        assert_eq!(class.pauses_tx > 0, index == 0, "{layout:?}: {} pauses of {}", class.pauses_tx, port.name);
    }
    println!(
        "{layout:?}: {frames} copies in {:.1} s, {} pauses, Xoff to PAUSE {:?}",
        started.elapsed().as_secs_f64(),
        report.ports[0].classes[3].pauses_tx,
        report.message_delay
    );
}

#[test]
fn six_copies_of_each_frame_leave_in_every_layout() {
    weir_alone::in_a_process(|| {
        let layouts = ["single", "auto", "rx-tx", "rx-fwd-tx"].map(config);
        let cpus = cpu::allowed();
        let cpus = &cpus[..cpus.len().min(3)];
        let memory_mb = Memory::for_switches(&layouts[..1], cpus.len(), 2_048).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("clones", cpus, &[], &options).unwrap();
        layouts.iter().for_each(|config| run(&runtime, config));
    });
}
