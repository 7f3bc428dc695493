//! What a packet costs in the MMU: admission and release, in bursts of 32, under every policy.
//!
//! `cargo bench -p weir-mmu`, or `cargo bench -p weir-mmu --bench admit_release -- dt dsh` for some. On one thread, and on
//! two at once: with queues of their own in one MMU, so that they share its pools; with the same egress queues besides;
//! and with an MMU each, which is as well as two threads of this machine can do. Rounds of all cases alternate, and
//! ratios are of the same round, since machines are noisy.
//!
//! A burst is from one ingress queue to four egress queues in turn. Four bursts of each port are held, so that queues have
//! a length and the pool is in use, and no queue is OFF under any policy.

#[path = "../tests/it/policies/mod.rs"]
mod policies;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use weir_mmu::{Admission, BufferRequest, BurstRequest, Mmu, PortWriter, Segment, Xon};
use weir_units::{Alpha, BitRate, Bytes, Class, PortId, QueueId, Span, Time};

use policies::Bounds;

const BURST: usize = 32;
const PORTS: u16 = 8;
const HELD_BURSTS: usize = 4;
const FRAME: u32 = 1_522;
const CLASS: Class = Class::new(3);
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(60);
const THREADS: u16 = 2;

fn main() {
    println!("ns a packet, admit + release, bursts of {BURST}; medians of {ROUNDS} rounds");
    println!("allocations are counted over 1,000 bursts after the first");
    println!(
        "{:18} {:>10}   {:>25} {:>16} {:>11} {:>11}",
        "policy", "one thread", "two sharing pools: ns, x", "and egress: x", "apart: x", "allocations"
    );
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for name in
        policies::all().into_iter().filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name))
    {
        let mut columns: [Vec<f64>; 5] = Default::default();
        for _ in 0..ROUNDS {
            let one = rate(&[mmu(name)], &[own(0)]);
            let pools = rate(&[mmu(name)], &[own(0), own(1)]);
            let egress = rate(&[mmu(name)], &[[0, 1, 2, 3]; 2]);
            let apart = rate(&[mmu(name), mmu(name)], &[own(0), own(1)]);
            let values = [1e9 / one, 2e9 / pools, pools / one, egress / one, apart / one];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let [one, two, pools, egress, apart] = columns.map(median);
        println!(
            "{name:18} {one:>10.1}   {two:>18.1} {pools:>6.2} {egress:>16.2} {apart:>11.2} {:>11}",
            allocations(&mmu(name))
        );
    }
}

/// The n-th thread's own ports: every [`THREADS`]-th.
fn own(n: u16) -> [u16; 4] {
    std::array::from_fn(|port| port as u16 * THREADS + n)
}

fn mmu(name: &str) -> Mmu {
    let bounds = Bounds {
        size: Bytes::mb(32),
        ports: PORTS,
        private: Bytes::ZERO,
        headroom: Bytes::kb(60),
        lossless: CLASS.alone(),
        rate: BitRate::gbps(100),
    };
    policies::mmu(name, &bounds, Xon::below(Bytes::new(3_044)), Alpha::ONE)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn instant() -> Instant {
    Instant::now()
}

/// Packets a second of a thread for each of `egress`, its egress ports, over the given MMUs in turn.
fn rate(mmus: &[Mmu], egress: &[[u16; 4]]) -> f64 {
    let ready = Barrier::new(egress.len());
    std::thread::scope(|scope| {
        let lcores: Vec<_> = egress
            .iter()
            .zip(0..)
            .map(|(egress, n)| {
                let (mmu, ready) = (&mmus[usize::from(n) % mmus.len()], &ready);
                scope.spawn(move || {
                    let mut lcore = Lcore::new(mmu, n, egress);
                    (0..200).for_each(|_| lcore.burst());
                    ready.wait();
                    let start = instant();
                    let mut packets = 0;
                    while start.elapsed() < ROUND {
                        (0..64).for_each(|_| lcore.burst());
                        packets += 64 * BURST;
                    }
                    packets as f64 / start.elapsed().as_secs_f64()
                })
            })
            .collect();
        lcores.into_iter().map(|lcore| lcore.join().expect("a thread that ends")).sum()
    })
}

fn allocations(mmu: &Mmu) -> u64 {
    let mut lcore = Lcore::new(mmu, 0, &own(0));
    (0..200).for_each(|_| lcore.burst());
    allocation_counter::measure(|| (0..1_000).for_each(|_| lcore.burst())).count_total
}

/// Admits bursts of its ingress ports in turn, and releases the oldest held.
///
/// A port's bursts are all alike, and their packets made beforehand: making them is the forwarder's work, summing them is the
/// MMU's.
struct Lcore<'m> {
    mmu: &'m Mmu,
    ports: Vec<(PortWriter, [BufferRequest; BURST])>,
    burst: BurstRequest,
    /// Bursts admitted so far; all but the last few are released.
    admitted: usize,
    now: Time,
    burst_time: Span,
}

impl<'m> Lcore<'m> {
    /// The n-th lcore, with its own ingress ports and these egress ports.
    fn new(mmu: &'m Mmu, n: u16, egress: &[u16; 4]) -> Lcore<'m> {
        let port = |port: u16| {
            let packet = |n: usize| BufferRequest {
                ingress: QueueId::new(PortId(port), CLASS),
                egress: QueueId::new(PortId(egress[n % egress.len()]), CLASS),
                bytes: FRAME,
            };
            (mmu.writer(PortId(port)).expect("a port of its own"), std::array::from_fn(packet))
        };
        let ports = own(n).map(port).into();
        let burst_time = BitRate::gbps(100).time_for(Bytes::new(u64::from(FRAME) * BURST as u64));
        Lcore { mmu, ports, burst: BurstRequest::new(), admitted: 0, now: Time::ZERO, burst_time }
    }

    fn burst(&mut self) {
        self.now += self.burst_time;
        let ports = self.ports.len();
        let (writer, arrivals) = &mut self.ports[self.admitted % ports];
        arrivals.iter().for_each(|arrival| self.burst.push(*arrival, arrival.bytes));
        self.mmu.admit_burst(writer, self.now, &mut self.burst);
        assert_eq!(self.burst.verdict(BURST - 1), Admission::Admit(Segment::Shared), "a load below Xoff");
        self.burst.clear();
        self.admitted += 1;
        if let Some(oldest) = self.admitted.checked_sub(HELD_BURSTS * ports + 1) {
            self.mmu.release(self.now, &self.ports[oldest % ports].1);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
