//! Frames a CPU-second that a thread forwards between two veth pairs: this crate's netdev ports beside DPDK's
//! `net_af_packet` and `net_af_xdp`, in turn.
//!
//! `cargo bench -p weir-dpdk-io --bench netdev`, as root. A round fills the receive ring from the far end, which is not
//! counted, then takes the thread's CPU time until all of it has left again: there are no idle polls in it, and a busy
//! machine makes it no slower. It includes the kernel's work for a frame at the far end of the second pair, since that is
//! done on the sender's time.

use std::process::Command;

use weir_dpdk_io::{
    Batch, Eal, EalArgs, MAX_BURST, MemoryMode, Mempool, MempoolConfig, NetdevOptions, Port, PortConfig, RxQueue,
    TxQueue, cpu, vdev,
};

const ROUNDS: usize = 60;
/// Frames of a round; fewer than either ring holds.
const FILL: usize = 1024;

fn main() {
    let lcore = *cpu::allowed().last().expect("a CPU");
    let args = EalArgs::new("netdev").lcores(&[(0, lcore)]).memory(MemoryMode::NoHuge).memory_mb(256).build();
    let _eal = Eal::init(&args).expect("DPDK");
    let pool = Mempool::new("frames", MempoolConfig { cache: 512, ..MempoolConfig::default() }).expect("memory");
    let pairs = ["a", "b", "c", "d", "e", "f"].map(Veth::new);
    if pairs.iter().any(Option::is_none) {
        println!("skipped: making veth pairs needs root and the ip command");
        return;
    }
    let [own_in, own_out, dpdk_in, dpdk_out, xdp_in, xdp_out] = pairs.map(|pair| pair.expect("made"));
    let own = |name: &str| Port::attach_netdev(name, NetdevOptions::default()).expect("an interface");
    let dpdk = |name: &str| Port::attach(&vdev::af_packet(name, name, 1, 1500).expect("valid")).expect("an interface");
    let xdp = |name: &str| Port::attach(&vdev::af_xdp(name, name, 1).expect("valid")).expect("an interface");
    let mut kinds = [
        Forwarder::new(&pool, own(&own_in.near), own(&own_out.near), own(&own_in.far)),
        Forwarder::new(&pool, dpdk(&dpdk_in.near), dpdk(&dpdk_out.near), own(&dpdk_in.far)),
        Forwarder::new(&pool, xdp(&xdp_in.near), xdp(&xdp_out.near), own(&xdp_in.far)),
    ];
    for frame_bytes in [60, 1000, 1514] {
        for burst in [1, 4, 32] {
            let mut costs = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                for (forwarder, costs) in kinds.iter_mut().zip(&mut costs) {
                    costs.push(forwarder.round(&pool, frame_bytes, burst));
                }
            }
            let ratio = |other: usize| median(costs[0].iter().zip(&costs[other]).map(|(own, other)| other / own));
            let [own, dpdk, xdp] = [0, 1, 2].map(|kind| median(costs[kind].iter().copied()));
            println!(
                "{frame_bytes:>5} B, bursts of {burst:>2}: own {own:>5.0} ns a frame, net_af_packet {dpdk:>5.0}, net_af_xdp \
                 {xdp:>5.0}; frames a CPU-second {:.2} and {:.2} times theirs",
                ratio(1),
                ratio(2),
            );
        }
    }
}

/// Two ports with a thread's loop between them, and a third that fills the first.
struct Forwarder {
    rx: RxQueue,
    tx: TxQueue,
    filler: TxQueue,
    _ports: [Port; 3],
}

impl Forwarder {
    fn new(pool: &Mempool, mut input: Port, mut output: Port, mut source: Port) -> Forwarder {
        let start = |port: &mut Port| {
            let (rx, tx) = port.configure(PortConfig { rx_desc: 2048, ..PortConfig::new(pool) }).expect("configured");
            port.start().expect("started");
            (rx.into_iter().next().expect("a queue"), tx.into_iter().next().expect("a queue"))
        };
        let (rx, _) = start(&mut input);
        let (_, tx) = start(&mut output);
        let (_, filler) = start(&mut source);
        Forwarder { rx, tx, filler, _ports: [input, output, source] }
    }

    /// CPU time for each frame of a round, in nanoseconds.
    fn round(&mut self, pool: &Mempool, frame_bytes: u16, burst: usize) -> f64 {
        let mut batch = Batch::new();
        let mut filled = 0;
        while filled < FILL {
            assert!(pool.alloc_bulk(&mut batch, MAX_BURST), "the pool is large enough");
            for mbuf in &mut batch {
                let bytes = mbuf.append(frame_bytes).expect("it fits");
                bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            }
            filled += self.filler.send(&mut batch);
            batch.clear();
        }
        let started = cpu::thread_time_ns();
        let (mut forwarded, mut empty_polls) = (0, 0);
        while forwarded < filled && empty_polls < 1000 {
            if self.rx.receive(&mut batch, burst) == 0 {
                empty_polls += 1;
            }
            while !batch.is_empty() {
                forwarded += self.tx.send(&mut batch);
            }
        }
        (cpu::thread_time_ns() - started) as f64 / forwarded as f64
    }
}

/// A veth pair, deleted on drop.
struct Veth {
    near: String,
    far: String,
}

impl Veth {
    fn new(role: &str) -> Option<Veth> {
        let id = std::process::id();
        let pair = Veth { near: format!("wn{role}{id}"), far: format!("wf{role}{id}") };
        let made = ip(&["link", "add", &pair.near, "type", "veth", "peer", "name", &pair.far]);
        if !made {
            std::mem::forget(pair);
            return None;
        }
        (ip(&["link", "set", &pair.near, "up"]) && ip(&["link", "set", &pair.far, "up"])).then_some(pair)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&["link", "del", &self.near]);
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).output().is_ok_and(|output| output.status.success())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
