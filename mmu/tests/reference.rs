//! The MMU against a plain sequential model of the same rules, over generated bursts, departures and sweeps.

use proptest::prelude::*;
use weir_mmu::policy::{DynamicThreshold, Sih, StaticThreshold};
use weir_mmu::{Arrival, BufferLayout, DropReason, Mmu, Policy, PortLayout, Segment, Verdict};
use weir_units::{Alpha, Bytes, Class, PortId, QueueId};

const PORTS: u16 = 3;
const CLASSES: [Class; 2] = [Class::new(0), Class::new(3)];
const LOSSLESS: Class = CLASSES[1];
const SIZE: u64 = 60_000;
const PRIVATE: u64 = 2_000;
const HEADROOM: u64 = 4_000;
const XON_OFFSET: u64 = 1_500;

/// What the rules say, one packet at a time: dsh Algorithm 1, reverie 2.2.1 for departures.
struct Model {
    queues: Vec<Queue>,
    egress: Vec<u64>,
    capacity: u64,
    pool: u64,
    policy: Box<dyn Policy>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Queue {
    private: u64,
    shared: u64,
    headroom: u64,
    off: bool,
}

impl Model {
    fn admit(&mut self, arrival: Arrival) -> Verdict {
        let bytes = u64::from(arrival.bytes);
        let lossless = arrival.ingress.class() == LOSSLESS;
        let threshold = self.policy.threshold(arrival.ingress, self.pool);
        let fits_pool = self.pool + bytes <= self.capacity;
        let queue = &mut self.queues[arrival.ingress.index()];
        let egress = &mut self.egress[arrival.egress.index()];
        let verdict = if queue.private + bytes <= PRIVATE {
            queue.private += bytes;
            Verdict::Keep(Segment::Private)
        } else if lossless && queue.shared + bytes <= threshold && fits_pool {
            queue.shared += bytes;
            queue.off |= queue.shared >= threshold;
            Verdict::Keep(Segment::Shared)
        } else if lossless {
            queue.off = true;
            if queue.headroom + bytes <= HEADROOM {
                queue.headroom += bytes;
                Verdict::Keep(Segment::Headroom)
            } else {
                Verdict::Drop(DropReason::HeadroomViolation)
            }
        } else if *egress + bytes > self.capacity - self.pool {
            Verdict::Drop(DropReason::EgressThreshold)
        } else if fits_pool {
            queue.shared += bytes;
            Verdict::Keep(Segment::Shared)
        } else {
            Verdict::Drop(DropReason::SharedFull)
        };
        if let Verdict::Keep(segment) = verdict {
            *egress += bytes;
            self.pool += if segment == Segment::Shared { bytes } else { 0 };
        }
        verdict
    }

    fn release(&mut self, departure: Arrival) {
        let mut left = u64::from(departure.bytes);
        self.egress[departure.egress.index()] -= left;
        let queue = &mut self.queues[departure.ingress.index()];
        for segment in [&mut queue.headroom, &mut queue.shared, &mut queue.private] {
            let taken = left.min(*segment);
            *segment -= taken;
            left -= taken;
        }
        assert_eq!(left, 0, "released more than was held");
        self.pool = self.queues.iter().map(|queue| queue.shared).sum();
        self.reconsider(departure.ingress);
    }

    fn reconsider(&mut self, id: QueueId) {
        let threshold = self.policy.threshold(id, self.pool);
        let queue = &mut self.queues[id.index()];
        if queue.headroom == 0 && (queue.shared == 0 || queue.shared + XON_OFFSET < threshold) {
            queue.off = false;
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    /// Packets of one port, as a burst brings them: port of departure, class, bytes.
    Admit(u16, Vec<(u16, usize, u32)>),
    /// Packets that are held, by their places, as a burst sends them.
    Release(Vec<prop::sample::Index>),
    Reconsider(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    let packet = (0..PORTS, 0..CLASSES.len(), 64..1_519u32);
    prop_oneof![
        3 => (0..PORTS, prop::collection::vec(packet, 1..32)).prop_map(|(port, burst)| Operation::Admit(port, burst)),
        2 => prop::collection::vec(any::<prop::sample::Index>(), 1..32).prop_map(Operation::Release),
        1 => (0..PORTS).prop_map(Operation::Reconsider),
    ]
}

fn layout() -> BufferLayout {
    let mut port = PortLayout { lossless: LOSSLESS.bit(), ..PortLayout::default() };
    for class in CLASSES {
        port.private[class.index()] = Bytes::new(PRIVATE);
    }
    port.headroom[LOSSLESS.index()] = Bytes::new(HEADROOM);
    BufferLayout::new(Bytes::new(SIZE), vec![port; usize::from(PORTS)]).unwrap()
}

fn policy(which: usize) -> Box<dyn Policy> {
    let shared = layout().shared();
    match which {
        0 => Box::new(StaticThreshold::new(Bytes::new(9_000))),
        1 => Box::new(DynamicThreshold::new(Alpha::ONE, shared)),
        2 => Box::new(DynamicThreshold::new("8".parse().unwrap(), shared)),
        _ => Box::new(Sih::new("1/4".parse().unwrap(), shared)),
    }
}

fn check(mmu: &Mmu, model: &Model, advertised: &mut [u8]) {
    assert_eq!(mmu.pool_use().used.get(), model.pool);
    for port in (0..PORTS).map(PortId) {
        let before = &mut advertised[port.index()];
        *before = mmu.off_classes(port, *before);
        for class in CLASSES {
            let id = QueueId::new(port, class);
            let (is, should) = (mmu.ingress_use(id), model.queues[id.index()]);
            let levels =
                Queue { private: is.private.get(), shared: is.shared.get(), headroom: is.headroom.get(), off: is.off };
            assert_eq!(levels, should, "{id:?}");
            assert_eq!(*before & class.bit() != 0, should.off, "{id:?}: what the transmitter believes");
            assert_eq!(mmu.egress_length(id), model.egress[id.index()]);
        }
    }
}

proptest! {
    #[test]
    fn as_the_rules_say(which in 0..4usize, operations in prop::collection::vec(operation(), 1..60)) {
        let mmu = Mmu::new(layout(), policy(which), Bytes::new(XON_OFFSET), Alpha::ONE);
        let queues = usize::from(PORTS) * 8;
        let mut model = Model {
            queues: vec![Queue::default(); queues],
            egress: vec![0; queues],
            capacity: layout().shared().get(),
            pool: 0,
            policy: policy(which),
        };
        let (mut held, mut advertised) = (Vec::new(), [0; PORTS as usize]);
        for operation in operations {
            match operation {
                Operation::Admit(port, burst) => {
                    let arrivals: Vec<Arrival> = burst
                        .into_iter()
                        .map(|(to, class, bytes)| Arrival {
                            ingress: QueueId::new(PortId(port), CLASSES[class]),
                            egress: QueueId::new(PortId(to), CLASSES[class]),
                            bytes,
                        })
                        .collect();
                    let mut verdicts = vec![Verdict::Drop(DropReason::SharedFull); arrivals.len()];
                    mmu.admit(&arrivals, &mut verdicts);
                    for (arrival, verdict) in arrivals.into_iter().zip(verdicts) {
                        prop_assert_eq!(model.admit(arrival), verdict, "{:?}", arrival);
                        if matches!(verdict, Verdict::Keep(_)) {
                            held.push(arrival);
                        }
                    }
                }
                Operation::Release(which) => {
                    let mut burst = Vec::new();
                    for index in which {
                        if !held.is_empty() {
                            burst.push(held.swap_remove(index.index(held.len())));
                        }
                    }
                    mmu.release(&burst);
                    burst.into_iter().for_each(|departure| model.release(departure));
                }
                Operation::Reconsider(port) => {
                    mmu.reconsider(PortId(port), LOSSLESS.bit());
                    model.reconsider(QueueId::new(PortId(port), LOSSLESS));
                }
            }
            check(&mmu, &model, &mut advertised);
        }
        mmu.release(&held);
        held.into_iter().for_each(|departure| model.release(departure));
        check(&mmu, &model, &mut advertised);
        prop_assert_eq!((mmu.pool_use().used, advertised), (Bytes::ZERO, [0; PORTS as usize]));
    }
}
