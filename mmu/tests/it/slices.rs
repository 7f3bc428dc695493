//! A buffer in slices against as many buffers of a slice each: whatever arrives and leaves, both decide alike.

use proptest::prelude::*;
use weir_mmu::{Admission, BufferRequest, DropReason, Mmu, PortWriter, Xon};
use weir_units::{Alpha, Bytes, Class, ClassSet, PortId, QueueId, Time};

use crate::policies::{self, Bounds};

const PORTS: u16 = 6;
const SLICES: u32 = 3;
const LOSSY: Class = Class::new(0);
const LOSSLESS: Class = Class::new(3);
const XON: Xon = Xon { offset: Bytes::new(1_500), floor: Bytes::new(2_000) };

#[derive(Clone, Debug)]
enum Operation {
    /// Burst of packets of one port: port of departure, class, bytes.
    Admit(u16, Vec<(u16, Class, u32)>),
    /// Held packets, by index.
    Release(Vec<prop::sample::Index>),
    Reconsider(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    let class = prop_oneof![Just(LOSSY), Just(LOSSLESS)];
    let packet = (0..PORTS, class, prop_oneof![64..1_519u32, Just(800u32)]);
    prop_oneof![
        4 => (0..PORTS, prop::collection::vec(packet, 1..32)).prop_map(|(port, burst)| Operation::Admit(port, burst)),
        3 => prop::collection::vec(any::<prop::sample::Index>(), 1..32).prop_map(Operation::Release),
        1 => (0..PORTS).prop_map(Operation::Reconsider),
    ]
}

/// An MMU of these slices; each part of a pool is that of a third of the buffer.
fn mmu(name: &str, slices: u32, is_own: bool) -> (Mmu, Vec<PortWriter>) {
    let bounds = |shared: u64| Bounds {
        size: Bytes::new(shared + 8 * 800 * u64::from(PORTS) + 4_000 * u64::from(PORTS)),
        ports: PORTS,
        private: Bytes::new(800),
        headroom: Bytes::new(4_000),
        lossless: LOSSLESS.alone(),
        rate: weir_units::BitRate::gbps(10),
    };
    let [whole, own] = [SLICES, slices].map(|slices| bounds(30_000 * u64::from(slices)));
    // A static threshold is a part of the whole.
    let policy = policies::policy(name, &whole, &policies::layout(name, &whole), XON.offset);
    let of_slices = (0..slices)
        .filter(|_| slices > 1)
        .map(|_| policies::policy(name, &whole, &policies::layout(name, &whole), XON.offset));
    let mmu = Mmu::new(policies::layout(name, &own), policy, XON, Alpha::ONE).in_slices(of_slices.collect());
    let mmu = if is_own { mmu.for_one_lcore() } else { mmu };
    let writers = (0..PORTS).map(|port| mmu.writer(PortId(port)).unwrap()).collect();
    (mmu, writers)
}

fn run(name: &str, is_own: bool, operations: &[Operation]) -> Result<(), TestCaseError> {
    let (whole, mut writers) = mmu(name, SLICES, is_own);
    let mut alone: Vec<_> = (0..SLICES).map(|_| mmu(name, 1, is_own)).collect();
    let slice_of = |port: PortId| port.index() / (u32::from(PORTS) / SLICES) as usize;
    let (mut held, mut off) = (Vec::new(), [[ClassSet::EMPTY; PORTS as usize]; 2]);
    // Peaks of the shared segment and of the egress lossy pool.
    let mut most = [0; 2];
    for operation in operations {
        match operation {
            Operation::Admit(port, burst) => {
                let port = PortId(*port);
                let request = |(to, class, bytes): &(u16, Class, u32)| BufferRequest {
                    ingress: QueueId::new(port, *class),
                    egress: QueueId::new(PortId(*to), *class),
                    bytes: *bytes,
                };
                let arrivals: Vec<BufferRequest> = burst.iter().map(request).collect();
                let mut verdicts = [(); 2].map(|()| vec![Admission::Drop(DropReason::SharedFull); arrivals.len()]);
                whole.admit(&mut writers[port.index()], Time::ZERO, &arrivals, &mut verdicts[0]);
                let (mmu, writers) = &mut alone[slice_of(port)];
                mmu.admit(&mut writers[port.index()], Time::ZERO, &arrivals, &mut verdicts[1]);
                prop_assert_eq!(&verdicts[0], &verdicts[1]);
                let kept = arrivals.into_iter().zip(&verdicts[0]);
                held.extend(kept.filter(|(_, is)| matches!(is, Admission::Admit(_))).map(|(arrival, _)| arrival));
            }
            Operation::Release(which) => {
                let taken = which.iter().take(held.len());
                let burst: Vec<_> = taken.map(|index| held.swap_remove(index.index(held.len()))).collect();
                whole.release(Time::ZERO, &burst);
                for (slice, (mmu, _)) in alone.iter().enumerate() {
                    let own = burst.iter().filter(|packet| slice_of(packet.ingress.port()) == slice);
                    mmu.release(Time::ZERO, &own.copied().collect::<Vec<_>>());
                }
            }
            Operation::Reconsider(port) => {
                whole.reconsider(PortId(*port), LOSSLESS.alone(), Time::ZERO);
                alone[slice_of(PortId(*port))].0.reconsider(PortId(*port), LOSSLESS.alone(), Time::ZERO);
            }
        }
        let mut used = 0;
        for port in (0..PORTS).map(PortId) {
            let own = &alone[slice_of(port)].0;
            for (mmu, off) in [&whole, own].into_iter().zip(&mut off) {
                off[port.index()] = mmu.off_classes(port, off[port.index()]);
            }
            prop_assert_eq!(off[0][port.index()], off[1][port.index()], "port {}", port.0);
            for id in [LOSSY, LOSSLESS].map(|class| QueueId::new(port, class)) {
                let usage = [&whole, own].map(|mmu| mmu.ingress_usage(id, Time::ZERO));
                prop_assert_eq!(usage[0], usage[1], "{:?}", id);
                used += usage[0].shared.get();
                let lengths = alone.iter().map(|(mmu, _)| mmu.egress_length(id));
                prop_assert_eq!(whole.egress_length(id), lengths.sum::<u64>());
            }
        }
        prop_assert_eq!((whole.shared_used(), whole.pool_usage().used.get()), (used, used));
        let of_alone = alone.iter().map(|(mmu, _)| mmu.egress_lossy_pool_usage().map_or(0, |pool| pool.used.get()));
        let of_whole = whole.egress_lossy_pool_usage().map_or(0, |pool| pool.used.get());
        prop_assert_eq!(of_whole, of_alone.sum::<u64>());
        most = [most[0].max(used), most[1].max(of_whole)];
        let peaks = [Some(whole.pool_usage()), whole.egress_lossy_pool_usage()];
        prop_assert_eq!(peaks.map(|pool| pool.map_or(0, |pool| pool.used_max.get())), most);
        let marks = whole.pool_watermarks();
        prop_assert_eq!([marks.shared, marks.egress_lossy.unwrap_or_default()], most.map(Bytes::new));
    }
    let before = whole.restart_watermarks().1;
    prop_assert_eq!([before.shared, before.egress_lossy.unwrap_or_default()], most.map(Bytes::new));
    prop_assert_eq!(whole.pool_watermarks().shared, whole.pool_usage().used);
    prop_assert_eq!(whole.pool_usage().used_max, Bytes::new(most[0]));
    whole.release(Time::ZERO, &held);
    prop_assert_eq!(whole.pool_usage(), weir_mmu::PoolUsage { used: Bytes::ZERO, ..whole.pool_usage() });
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_slice_is_a_buffer_of_its_own(operations in prop::collection::vec(operation(), 1..80), is_own: bool) {
        for name in policies::all().into_iter().filter(|name| policies::settings(name).takes_slices()) {
            run(name, is_own, &operations).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }
}

/// Neither the packets of other slices nor their PAUSEs change a slice's threshold.
#[test]
fn a_queue_alone_pauses_at_its_part_of_a_slice() {
    let (mmu, mut writers) = mmu("dt", SLICES, true);
    let admit = |writer: &mut PortWriter, port| {
        let [ingress, egress] = [port, 0].map(|port| QueueId::new(PortId(port), LOSSLESS));
        let packet = BufferRequest { ingress, egress, bytes: 100 };
        (1..).find(|_| mmu.admit_one(writer, Time::ZERO, &packet).1.contains(LOSSLESS))
    };
    // α = 1: 800 B of its own, half of 30,000 B, and the first in headroom.
    assert_eq!([0, 2, 5].map(|port| admit(&mut writers[usize::from(port)], port)), [Some(159); 3]);
    // The next queue of a slice has half of the rest.
    assert_eq!(admit(&mut writers[1], 1), Some(84));
}
