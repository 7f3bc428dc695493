//! Whether a switch between two veth pairs loses frames of a lossless class: 500 Mb/s of 1,000-byte frames for some
//! seconds, first on a core of its own, then beside a thread that never rests on the switch's core.
//!
//! `cargo bench -p weir-bench --bench netdev_lossless`, as root. Frames that the sender could not hand over in time
//! are made up for, so that the load printed is the load that the switch was given.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bench::machine::HostInfo;
use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions};
use weir_dpdk_io::{Batch, cpu};

const RATE_BPS: u64 = 500_000_000;
const FRAME_BYTES: u16 = 1000;
const SECONDS: u64 = 5;

fn main() {
    println!("{}\n", HostInfo::here());
    let id = std::process::id();
    let names = [["in", "out"].map(|role| format!("wl{role}{id}")), ["in", "out"].map(|role| format!("wx{role}{id}"))];
    let [near, far] = &names;
    let pairs: Vec<Veth> = near.iter().zip(far).filter_map(|(near, far)| Veth::new(near, far)).collect();
    if pairs.len() < 2 {
        println!("skipped: making veth pairs needs root and the ip command");
        return;
    }
    let lcore = *cpu::allowed().last().expect("a CPU");
    let switch = config(near, lcore);
    let memory_mb = Memory::for_switches(std::slice::from_ref(&switch), 1, 8_192).megabytes();
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("netdev_lossless", &[lcore], &[], &options).expect("DPDK");
    for busy in [false, true] {
        run(&runtime, &switch, &far[0], lcore, busy);
    }
}

fn run(runtime: &Runtime, switch: &SwitchConfig, source: &str, lcore: u32, busy: bool) {
    let switches = std::slice::from_ref(switch);
    let placement = Placement::new(switches, &cpu::allowed(), 0).expect("a CPU");
    let mut prepared = PreparedSwitches::prepare(runtime, switches, &placement, 8_192).expect("a switch");
    let pool = prepared.store().data.clone();
    let (_, mut out) = prepared.open_device(&Device::AfPacket(source.to_owned()), 1500).expect("the far end");
    let running = prepared.start().expect("lcores");
    let over = Arc::new(AtomicBool::new(false));
    let neighbour = busy.then(|| spin(lcore, over.clone()));
    let started = Instant::now();
    let (mut sent, mut batch) = (0u64, Batch::new());
    let total = RATE_BPS / 8 / u64::from(FRAME_BYTES) * SECONDS;
    while sent < total {
        let due = started.elapsed().as_nanos() as u64 * (RATE_BPS / 8) / u64::from(FRAME_BYTES) / 1_000_000_000;
        let missing = due.min(total).saturating_sub(sent).min(32) as usize;
        if missing == 0 || !pool.alloc_bulk(&mut batch, missing) {
            std::thread::yield_now();
            continue;
        }
        for mbuf in &mut batch {
            let bytes = mbuf.append(FRAME_BYTES).expect("it fits");
            bytes.fill(0);
            bytes[..16].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 26 << 2]);
            // Length, time to live, UDP.
            bytes[16..18].copy_from_slice(&(FRAME_BYTES - 14).to_be_bytes());
            bytes[22..24].copy_from_slice(&[64, 17]);
        }
        while !batch.is_empty() {
            sent += out.send(&mut batch) as u64;
        }
    }
    let took = started.elapsed();
    drop(out);
    // What stands in the ring and the buffer now leaves within moments, if the switch gets its core.
    std::thread::sleep(Duration::from_secs(1));
    over.store(true, Ordering::Relaxed);
    if let Some(neighbour) = neighbour {
        neighbour.join().expect("it only counts");
    }
    let stopped = running.stop(Duration::from_secs(2)).expect("stopped");
    let (report, devices) = (&stopped.reports[0], &stopped.devices[0]);
    let missed: u64 = devices.iter().filter_map(|device| device.stats).map(|stats| stats.imissed).sum();
    let stats = &stopped.lcores[0].1;
    println!(
        "{}: {:.0} Mb/s given, {sent} frames; received {}, sent on {}, dropped {}, missed by the port {missed}; longest poll gap {}; CPU {:.2} s of {:.1} s",
        if busy { "beside a busy thread on the core" } else { "alone on the core" },
        (sent * u64::from(FRAME_BYTES) * 8) as f64 / took.as_secs_f64() / 1e6,
        report.conservation.received,
        report.conservation.sent,
        report.conservation.dropped,
        stats.gap_max(),
        stats.cpu_time_ns() as f64 / 1e9,
        took.as_secs_f64() + 1.0,
    );
}

/// A thread that uses all it gets of a CPU.
fn spin(on: u32, over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        cpu::set_affinity(&[on]).expect("the CPU is there");
        while !over.load(Ordering::Relaxed) {
            cpu::pause();
        }
    })
}

fn config(interfaces: &[String; 2], lcore: u32) -> SwitchConfig {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[lcores]\nlayout = \"single\"\ncores = [{lcore}]\n[buffer]\nsize = \"12MB\"\n\
         [classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1ms\"\n"
    );
    // The egress port is fast enough to catch up: this measures ports, not the shaper.
    for (port, (interface, rate)) in interfaces.iter().zip(["1Gbps", "10Gbps"]).enumerate() {
        text += &format!("[[ports]]\nname = \"p{port}\"\naf_packet = \"{interface}\"\nrate = \"{rate}\"\n");
    }
    text += "[[static_macs]]\nmac = \"02:00:00:00:00:02\"\nport = \"p1\"\n";
    weir_config::parse("bench.toml", &text).expect("a valid configuration")
}

/// A veth pair, deleted on drop.
struct Veth<'a>(&'a str);

impl<'a> Veth<'a> {
    fn new(near: &'a str, far: &str) -> Option<Veth<'a>> {
        if !ip(&["link", "add", near, "type", "veth", "peer", "name", far]) {
            return None;
        }
        let pair = Veth(near);
        (ip(&["link", "set", near, "up"]) && ip(&["link", "set", far, "up"])).then_some(pair)
    }
}

impl Drop for Veth<'_> {
    fn drop(&mut self) {
        ip(&["link", "del", self.0]);
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).output().is_ok_and(|output| output.status.success())
}
