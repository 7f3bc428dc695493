//! The time from the arrival that crosses Xoff to the PAUSE frame handed to the port: 8-to-1 incast of 64-byte frames over
//! ring ports, in each lcore layout.
//!
//! `cargo bench -p weir-dpdk-driver --bench pause_delay`. The time is taken when the burst with the arrival has been
//! read from the port, and when the PAUSE goes to the port's transmit function. A lcore that loses its CPU for a while
//! shows in the tail: its longest poll gap stands beside.

#[path = "../tests/it/common/mod.rs"]
mod common;
#[path = "forwarding/machine.rs"]
mod machine;

use std::sync::Arc;
use std::time::Duration;

use weir_config::SwitchConfig;
use weir_dpdk_driver::{Fabric, FabricOptions, Memory, Placement, Runtime};
use weir_dpdk_io::cpu;
use weir_units::BitRate;

use common::{Receiver, Sender, Tally};

const SENDERS: u8 = 8;
const SECONDS: Duration = Duration::from_secs(4);

fn main() {
    println!("{}\n", machine::description());
    let switches = ["single", "rx-tx", "rx-fwd-tx"].map(config);
    let allowed = cpu::allowed();
    let cpus = &allowed[..allowed.len().min(3)];
    let options =
        FabricOptions { memory_mb: Memory::of(&switches[..1], cpus.len(), 8_192).megabytes(), ..Default::default() };
    let runtime = Runtime::start("pause_delay", cpus, &[], &options).expect("DPDK");
    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>9} {:>11}   longest poll gap",
        "layout", "PAUSEs", "p50 ns", "p99 ns", "p99.9 ns", "max ns"
    );
    for switch in &switches {
        measure(&runtime, switch);
    }
}

fn measure(runtime: &Runtime, switch: &SwitchConfig) {
    let switches = std::slice::from_ref(switch);
    let placement = Placement::new(switches, &cpu::allowed(), 0).expect("CPUs");
    let mut fabric = Fabric::prepare(runtime, switches, &placement, 8_192).expect("a switch");
    let (store, tally) = (fabric.store().clone(), Arc::new(Tally::default()));
    let cpus = placement.cpus.len();
    let queues = fabric.open_far_end(&format!("r{SENDERS}")).expect("a link");
    fabric.add_task(cpus - 1, Box::new(Receiver::new(queues, store.clone(), tally.clone(), SENDERS)));
    for n in 0..SENDERS {
        let queues = fabric.open_far_end(&format!("r{n}")).expect("a link");
        let sender = Sender::new(queues, store.clone(), tally.clone(), (n, SENDERS), 3, u64::MAX, BitRate::mbps(300));
        fabric.add_task(usize::from(n) % cpus, Box::new(sender));
    }
    let running = fabric.start().expect("lcores");
    std::thread::sleep(SECONDS);
    let stopped = running.stop(Duration::from_secs(2)).expect("stopped");
    let delay = stopped.reports[0].message_delay;
    let gap = stopped.lcores.iter().map(|(_, stats)| stats.gap_max()).max().unwrap_or_default();
    let layout = format!("{:?}", switch.lcores.layout);
    println!(
        "{layout:<10} {:>9} {:>9} {:>9} {:>9} {:>11}   {gap}",
        delay.count, delay.p50, delay.p99, delay.p999, delay.max
    );
}

fn config(layout: &str) -> SwitchConfig {
    let mut text = format!(
        "[switch]\nname = \"bench\"\n[lcores]\nlayout = \"{layout}\"\n[buffer]\nsize = \"16MB\"\nheadroom = \"1600KB\"\npolicy = \"dt\"\n\
         [classes]\nlossless = [3]\n"
    );
    for n in 0..=SENDERS {
        let rate = if n == SENDERS { "2Gbps" } else { "300Mbps" };
        text += &format!("[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"{rate}\"\n");
    }
    // Nothing is flooded, even where the senders are quicker than the receiver's first word.
    text += &format!("[[static_macs]]\nmac = \"02:00:00:00:01:{SENDERS:02x}\"\nport = \"p{SENDERS}\"\n");
    weir_config::parse("bench.toml", &text).expect("a valid configuration")
}
