//! Real threads on one MMU, under every policy: RX lcores admit and TX lcores release the same queues at the same time.
//!
//! Between two rounds nothing moves and some packets are held, and every counter must equal their sum: charged
//! = released + held, by queue, by port and by pool.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use weir_mmu::{Admission, BufferRequest, DropReason, Mmu, PortWriter, Xon};
use weir_units::{Alpha, BitRate, Bytes, Class, ClassSet, PortId, QueueId, Time};

use crate::policies::{self, Bounds};

const PORTS: u16 = 4;
const LCORES: u16 = 2;
const ROUNDS: usize = 6;
const BURSTS: usize = 1_500;
const CLASSES: [Class; 3] = [Class::new(0), Class::new(3), Class::new(4)];

fn bounds() -> Bounds {
    Bounds {
        size: Bytes::kb(260),
        ports: PORTS,
        private: Bytes::new(1_600),
        headroom: Bytes::kb(8),
        lossless: CLASSES[1].alone() | CLASSES[2].alone(),
        rate: BitRate::gbps(10),
    }
}

struct Random(u64);

impl Random {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Receives bursts on its ports and hands admitted packets to the lcore of the port of departure.
fn receive(
    mmu: &Mmu,
    writers: &mut [PortWriter],
    random: &mut Random,
    clock: &Clock,
    outputs: &[mpsc::Sender<BufferRequest>],
) {
    for _ in 0..BURSTS {
        let writer = &mut writers[random.draw(2) as usize];
        let alike = random.draw(2) == 0;
        let mut packet = draw_packet(writer.port(), random);
        let burst: Vec<BufferRequest> = (0..1 + random.draw(32))
            .map(|_| {
                if !alike {
                    packet = draw_packet(writer.port(), random);
                }
                packet
            })
            .collect();
        let mut verdicts = vec![Admission::Drop(DropReason::SharedFull); burst.len()];
        mmu.admit(writer, clock.now(), &burst, &mut verdicts);
        for (packet, verdict) in burst.into_iter().zip(verdicts) {
            if matches!(verdict, Admission::Admit(_)) {
                outputs[packet.egress.port().index() % usize::from(LCORES)].send(packet).expect("a TX lcore");
            }
        }
    }
}

fn draw_packet(from: PortId, random: &mut Random) -> BufferRequest {
    let class = CLASSES[random.draw(3) as usize];
    let to = PortId(random.draw(u64::from(PORTS)) as u16);
    let bytes = 64 + random.draw(1_455) as u32;
    BufferRequest { ingress: QueueId::new(from, class), egress: QueueId::new(to, class), bytes }
}

/// Sends bursts, reads its ports' state as a transmitter does, and holds some packets for the next round.
fn transmit(
    mmu: &Mmu,
    lcore: u16,
    held: &mut Vec<BufferRequest>,
    random: &mut Random,
    clock: &Clock,
    input: mpsc::Receiver<BufferRequest>,
) {
    let mut off = [ClassSet::EMPTY; PORTS as usize];
    for packet in input {
        held.push(packet);
        if held.len() as u64 > 20 + random.draw(60) {
            let burst = held.split_off(held.len() - 1 - random.draw(20) as usize);
            mmu.release(clock.now(), &burst);
            for port in (lcore..PORTS).step_by(usize::from(LCORES)).map(PortId) {
                let off = &mut off[port.index()];
                *off = mmu.off_classes(port, *off);
                mmu.reconsider(port, *off, clock.now());
            }
        }
    }
}

/// Clock of all threads, which advances with each reading.
#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.fetch_add(200, Ordering::Relaxed))
    }
}

/// Checks that every counter equals the sum over the held packets.
fn check(name: &str, mmu: &Mmu, held: &[BufferRequest], now: Time) {
    let sum =
        |of: &dyn Fn(&BufferRequest) -> bool| held.iter().filter(|packet| of(packet)).map(|p| u64::from(p.bytes)).sum();
    let (mut shared, mut headroom, mut lossy, mut all) = (0, 0, 0, 0);
    for port in (0..PORTS).map(PortId) {
        for class in CLASSES {
            let id = QueueId::new(port, class);
            let queue = mmu.ingress_usage(id, now);
            let held_here: u64 = sum(&|packet| packet.ingress == id);
            assert_eq!((queue.private + queue.shared + queue.headroom).get(), held_here, "{name}: {id:?}");
            assert_eq!(mmu.egress_length(id), sum(&|packet| packet.egress == id), "{name}: egress {id:?}");
            shared += queue.shared.get();
            headroom += queue.headroom.get();
            lossy += if class == CLASSES[0] { queue.shared.get() } else { 0 };
            all += held_here;
        }
    }
    assert_eq!(mmu.pool_usage().used.get(), shared, "{name}: the shared pool");
    mmu.headroom_pool_usage().inspect(|pool| assert_eq!(pool.used.get(), headroom, "{name}: the headroom pool"));
    mmu.egress_lossy_pool_usage().inspect(|pool| assert_eq!(pool.used.get(), lossy, "{name}: the egress lossy pool"));
    assert!(all <= mmu.layout().size().get(), "{name}: more is held than there is");
}

fn stress(name: &str) {
    let mmu = policies::mmu(name, &bounds(), Xon { offset: Bytes::kb(3), floor: Bytes::kb(1) }, Alpha::ONE);
    let mut writers: Vec<Vec<PortWriter>> = (0..LCORES)
        .map(|lcore| {
            (lcore..PORTS).step_by(usize::from(LCORES)).map(|port| mmu.writer(PortId(port)).unwrap()).collect()
        })
        .collect();
    assert!(mmu.writer(PortId(0)).is_none(), "a port has one writer");
    let mut held: Vec<Vec<BufferRequest>> = vec![Vec::new(); usize::from(LCORES)];
    let clock = Clock::default();
    for round in 0..ROUNDS {
        let running = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let (outputs, inputs): (Vec<_>, Vec<_>) = (0..LCORES).map(|_| mpsc::channel()).unzip();
            for (lcore, (held, input)) in (0..LCORES).zip(held.iter_mut().zip(inputs)) {
                let (mmu, clock, mut random) = (&mmu, &clock, Random(0x5eed + u64::from(lcore) + round as u64 * 77));
                scope.spawn(move || transmit(mmu, lcore, held, &mut random, clock, input));
            }
            let receivers: Vec<_> = writers
                .iter_mut()
                .enumerate()
                .map(|(lcore, writers)| {
                    let (mmu, clock, outputs) = (&mmu, &clock, outputs.clone());
                    let mut random = Random(0xfeed + lcore as u64 + round as u64 * 99);
                    scope.spawn(move || receive(mmu, writers, &mut random, clock, &outputs))
                })
                .collect();
            drop(outputs);
            // A bystander sees no pool beyond its size, at any time.
            let (mmu, running) = (&mmu, &running);
            scope.spawn(move || {
                while running.load(Ordering::Relaxed) {
                    for pool in [Some(mmu.pool_usage()), mmu.headroom_pool_usage(), mmu.egress_lossy_pool_usage()] {
                        pool.inspect(|pool| {
                            assert!(pool.used <= pool.capacity && pool.used_max <= mmu.layout().size())
                        });
                    }
                    std::thread::yield_now();
                }
            });
            receivers.into_iter().for_each(|receiver| receiver.join().expect("no panic"));
            running.store(false, Ordering::Relaxed);
        });
        check(name, &mmu, &held.concat(), clock.now());
    }
    held.iter().for_each(|held| mmu.release(clock.now(), held));
    check(name, &mmu, &[], clock.now());
    for port in (0..PORTS).map(PortId) {
        mmu.reconsider(port, bounds().lossless, clock.now());
        for class in CLASSES {
            assert!(!mmu.ingress_usage(QueueId::new(port, class), clock.now()).off, "{name}: OFF and empty");
        }
    }
}

#[test]
fn charged_is_released_and_held() {
    policies::all().into_iter().for_each(stress);
}
