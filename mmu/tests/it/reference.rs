//! Every policy's MMU against a plain sequential model of the same rules, over generated bursts, departures and sweeps.

mod model;

use proptest::prelude::*;
use weir_mmu::{Admission, BufferRequest, Charge, DropReason, Mmu, PendingBytes, PortWriter, RouteTotal, Xon};
use weir_units::{Alpha, BitRate, Bytes, Class, ClassSet, PortId, QueueId, Span, Time};

use crate::policies::{self, Bounds};
use model::Model;

const PORTS: u16 = 3;
const LOSSY: Class = Class::new(0);
const OTHER_LOSSY: Class = Class::new(1);
const LOSSLESS: [Class; 2] = [Class::new(3), Class::new(4)];
const XON: Xon = Xon { offset: Bytes::new(1_500), floor: Bytes::new(2_000) };

fn bounds(has_private: bool) -> Bounds {
    Bounds {
        size: Bytes::kb(160),
        ports: PORTS,
        private: Bytes::new(if has_private { 1_600 } else { 0 }),
        headroom: Bytes::new(4_000),
        lossless: LOSSLESS[0].alone() | LOSSLESS[1].alone(),
        rate: BitRate::gbps(10),
    }
}

#[derive(Clone, Debug)]
enum Operation {
    /// Burst of packets of one port: port of departure, classes of ingress and egress queue, bytes with FCS.
    Admit(u16, Vec<(u16, [Class; 2], u32)>),
    /// Held packets, by index, sent as one burst; if true and the MMU permits it, as several ports send in one poll.
    Release(Vec<prop::sample::Index>, bool),
    Reconsider(u16),
}

/// Operation, and its nanoseconds after the previous one.
fn operation() -> impl Strategy<Value = (u64, Operation)> {
    let [one, other] = LOSSLESS;
    let same = prop_oneof![Just(LOSSY), Just(one), Just(one), Just(other)].prop_map(|class| [class; 2]);
    // Lossy packets of several ingress queues for one egress queue are placed one ingress queue after the other.
    let split = prop::sample::select(vec![[one, other], [other, one], [LOSSY, OTHER_LOSSY]]);
    let class = prop_oneof![4 => same, 1 => split];
    // Round numbers too, which meet thresholds exactly.
    let bytes = prop_oneof![2 => 64..1_519u32, 1 => Just(800u32)];
    let packet = (0..PORTS, class, bytes);
    // Bursts of one class, as from a queue, and mixed ones.
    let mixed = prop::collection::vec(packet.clone(), 1..32);
    let alike = (packet, 1..32usize).prop_map(|(packet, n)| vec![packet; n]);
    let operation = prop_oneof![
        2 => (0..PORTS, mixed).prop_map(|(port, burst)| Operation::Admit(port, burst)),
        2 => (0..PORTS, alike).prop_map(|(port, burst)| Operation::Admit(port, burst)),
        3 => (prop::collection::vec(any::<prop::sample::Index>(), 1..32), any::<bool>())
            .prop_map(|(which, by_port)| Operation::Release(which, by_port)),
        1 => (0..PORTS).prop_map(Operation::Reconsider),
    ];
    let pause = prop_oneof![Just(0), 1..3_000u64, 1_000..90_000u64];
    (pause, operation)
}

fn check(mmu: &Mmu, model: &Model, advertised: &mut [ClassSet]) -> Result<(), TestCaseError> {
    let (capacity, used) = model.shared();
    prop_assert_eq!((mmu.pool_usage().capacity.get(), mmu.pool_usage().used.get()), (capacity, used));
    if let Some(pool) = mmu.headroom_pool_usage() {
        prop_assert_eq!(pool.used.get(), model.headroom_used());
    }
    if let Some(pool) = mmu.egress_lossy_pool_usage() {
        prop_assert_eq!(pool.used.get(), model.lossy_pool_used());
    }
    for port in (0..PORTS).map(PortId) {
        let before = &mut advertised[port.index()];
        *before = mmu.off_classes(port, *before);
        for class in [LOSSY, OTHER_LOSSY, LOSSLESS[0], LOSSLESS[1]] {
            let id = QueueId::new(port, class);
            let (is, should) = (mmu.ingress_usage(id, model.now), &model.queues[id.index()]);
            let levels = [is.private, is.shared, is.headroom, is.headroom_limit].map(Bytes::get);
            prop_assert_eq!(
                levels,
                [should.private, should.shared, should.headroom, should.limit],
                "{:?}; the rule of each policy stands in reference/model.rs",
                id
            );
            let off = should.off || (model.is_dsh() && LOSSLESS.contains(&class) && model.port_off[port.index()]);
            prop_assert_eq!(is.off, off, "{:?}", id);
            prop_assert_eq!(before.contains(class), off, "{:?}: what the transmitter believes", id);
            prop_assert_eq!(mmu.egress_length(id), model.egress[id.index()].length);
            if LOSSLESS.contains(&class) {
                if let Some(victim) = is.gauges.value("victim") {
                    prop_assert_eq!(victim == 1, model.is_victim(port.index()) && !model.is_paused(port.index()));
                }
                if model.name == "dsh" {
                    prop_assert_eq!(is.gauges.value("headroom_estimate_bytes"), Some(model.estimate(id)));
                }
            }
        }
    }
    let most = mmu.layout().charges_max().get();
    let held: u64 = model.queues.iter().map(|queue| queue.private + queue.shared + queue.headroom).sum();
    prop_assert!(held <= most, "{} B in a buffer of {} B", held, most);
    prop_assert_eq!(held, model.egress.iter().map(|queue| queue.length).sum::<u64>());
    Ok(())
}

/// Releases packets summed by route: a port of departure at a time, then all ports together.
fn release_by_port(mmu: &Mmu, gone: &mut PendingBytes, now: Time, burst: &[BufferRequest]) {
    for port in (0..PORTS).map(PortId) {
        let mut bundles: Vec<RouteTotal> = Vec::new();
        for BufferRequest { ingress, egress, bytes } in
            burst.iter().copied().filter(|packet| packet.egress.port() == port)
        {
            match bundles.iter_mut().find(|bundle| (bundle.ingress, bundle.egress) == (ingress, egress)) {
                Some(bundle) => (bundle.packets, bundle.bytes) = (bundle.packets + 1, bundle.bytes + bytes),
                None => bundles.push(RouteTotal { ingress, egress, packets: 1, bytes, frame_bytes: 0 }),
            }
        }
        mmu.take_out(gone, &bundles);
    }
    mmu.flush_pending_bytes(now, gone);
}

/// Form of an MMU: owned by one lcore or shared, with or without private buffer, and the multiple that the shortest frame is charged.
#[derive(Clone, Copy)]
struct Form {
    is_own: bool,
    has_private: bool,
    times: u32,
}

fn run(name: &'static str, form: Form, operations: &[(u64, Operation)]) -> Result<(), TestCaseError> {
    let bounds = bounds(form.has_private);
    let charge = Charge::in_cells(1).at_least_shortest(form.times);
    let layout = policies::layout(name, &bounds).charged_by(charge);
    let mmu = policies::mmu_over(layout, name, &bounds, XON, Alpha::ONE);
    let mmu = if form.is_own { mmu.for_one_lcore() } else { mmu };
    let mut writers: Vec<PortWriter> = (0..PORTS).map(|port| mmu.writer(PortId(port)).unwrap()).collect();
    let mut model = Model::new(name, policies::layout(name, &bounds), u64::from(form.times), bounds.rate, XON);
    let (mut held, mut advertised, mut gone) = (Vec::new(), [ClassSet::EMPTY; PORTS as usize], mmu.pending_bytes());
    for (pause, operation) in operations {
        model.now += Span::from_nanos(*pause);
        match operation {
            Operation::Admit(port, burst) => {
                let arrivals: Vec<BufferRequest> = burst
                    .iter()
                    .map(|(to, [group, queue], bytes)| BufferRequest {
                        ingress: QueueId::new(PortId(*port), *group),
                        egress: QueueId::new(PortId(*to), *queue),
                        bytes: charge.frame_charge(bytes - 4),
                    })
                    .collect();
                let mut verdicts = vec![Admission::Drop(DropReason::SharedFull); arrivals.len()];
                mmu.admit(&mut writers[usize::from(*port)], model.now, &arrivals, &mut verdicts);
                prop_assert_eq!(&model.admit(&arrivals), &verdicts, "{:?}", arrivals);
                let kept = arrivals.into_iter().zip(verdicts).filter(|(_, is)| matches!(is, Admission::Admit(_)));
                held.extend(kept.map(|(arrival, _)| arrival));
            }
            Operation::Release(which, by_port) => {
                let mut burst = Vec::new();
                for index in which {
                    if !held.is_empty() {
                        burst.push(held.swap_remove(index.index(held.len())));
                    }
                }
                if *by_port && mmu.may_release_later() {
                    release_by_port(&mmu, &mut gone, model.now, &burst);
                } else {
                    mmu.release(model.now, &burst);
                }
                model.release(&burst);
            }
            Operation::Reconsider(port) => {
                mmu.reconsider(PortId(*port), bounds.lossless, model.now);
                LOSSLESS.iter().for_each(|class| model.reconsider(QueueId::new(PortId(*port), *class)));
                model.reconsider_port(usize::from(*port));
            }
        }
        check(&mmu, &model, &mut advertised)?;
    }
    // Everything leaves, and the sweep looks once: nothing stays OFF, nothing is left.
    mmu.release(model.now, &held);
    model.release(&held);
    for port in 0..PORTS {
        mmu.reconsider(PortId(port), bounds.lossless, model.now);
        LOSSLESS.iter().for_each(|class| model.reconsider(QueueId::new(PortId(port), *class)));
        model.reconsider_port(usize::from(port));
    }
    check(&mmu, &model, &mut advertised)?;
    prop_assert_eq!((mmu.pool_usage().used, advertised), (Bytes::ZERO, [ClassSet::EMPTY; PORTS as usize]));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_the_rules_say(
        operations in prop::collection::vec(operation(), 1..80),
        is_own: bool,
        has_private: bool,
        times in prop::sample::select(vec![1u32, 1, 4, 11]),
    ) {
        let form = Form { is_own, has_private, times };
        // The table form of DSH's estimate is compared with the exact one beside its code; ABM as in the public simulator has
        // examples there.
        for name in policies::all().into_iter().filter(|name| !["dsh-table", "abm-simulator"].contains(name)) {
            run(name, form, &operations).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }
}
