//! Loom models of the transitions that must not lose a signal or a byte.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-mmu --release --lib loom_models`
//!
//! Each part alone (a pool, a queue's counter, a mark, a watermark, a count) is explored under every interleaving. The whole MMU has too many;
//! it is explored with up to three preemptions, which suffices for most bugs of such code.

use loom::sync::Arc;
use loom::thread;
use weir_units::{Alpha, BitRate, Bytes, Class, ClassSet, DropReason, PortId, QueueId, Span, Time};

use crate::layout::{BufferLayout, Headroom, PortLayout};
use crate::mmu::{Admission, BufferRelease, BufferRequest, Mmu, QueueUsage, Segment};
use crate::policy::gradient::EstimatorForm;
use crate::policy::{
    BufferPolicy, Dsh, DshParameters, OverloadCase, QueueView, StaticThreshold, SteadyState, Threshold,
};
use crate::single_writer::PortWriter;
use crate::xon::Xon;

const CLASS: Class = Class::new(3);
const INGRESS: PortId = PortId(0);
const PACKET: BufferRequest =
    BufferRequest { ingress: QueueId::new(INGRESS, CLASS), egress: QueueId::new(PortId(1), CLASS), bytes: 1_000 };

const LATER: Time = Time::from_nanos(7);

/// Two ports, one lossless class, T = 2 packets, room for 2 more in headroom.
fn mmu() -> Mmu {
    let mut port = PortLayout { lossless: CLASS.alone(), ..PortLayout::default() };
    port.headroom[CLASS.index()] = Bytes::new(2_000);
    let layout = BufferLayout::new(Bytes::new(20_000), vec![port; 2], Headroom::PerQueue).unwrap();
    Mmu::new(layout, Box::new(StaticThreshold::new(Bytes::new(2_000))), Xon::below(Bytes::new(500)), Alpha::ONE)
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_within(3, model);
}

fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn admit(mmu: &Mmu) -> Admission {
    let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
    mmu.admit(&mut PortWriter::new(INGRESS), Time::ZERO, &[PACKET], &mut verdicts);
    verdicts[0]
}

fn release(mmu: &Mmu, departures: &[BufferRelease]) {
    mmu.release(Time::ZERO, departures);
}

fn spawn_with<T: 'static>(mmu: &Arc<Mmu>, act: impl FnOnce(&Mmu) -> T + 'static) -> thread::JoinHandle<T> {
    let mmu = mmu.clone();
    thread::spawn(move || act(&mmu))
}

/// Models the transmitter of the ingress port, which compares the required signal with the last advertised one.
fn advertise(mmu: &Mmu, advertised: ClassSet) -> ClassSet {
    mmu.off_classes(INGRESS, advertised)
}

/// A last departure races an arrival that crosses Xoff, while the transmitter polls at any moment: in the end the advertised signal matches
/// the queue.
#[test]
fn the_last_departure_and_an_arrival_leave_the_right_signal() {
    explore(|| {
        let mmu = Arc::new(mmu());
        let _ = admit(&mmu);
        let departure = spawn_with(&mmu, |mmu| release(mmu, &[PACKET]));
        let transmitter = spawn_with(&mmu, move |mmu| advertise(mmu, ClassSet::EMPTY));
        let kept = admit(&mmu);
        departure.join().unwrap();
        let mut advertised = transmitter.join().unwrap();
        assert!(matches!(kept, Admission::Admit(_)));
        // One packet is left, below Xon: RESUME must be advertised in either order.
        advertised = advertise(&mmu, advertised);
        assert_eq!(advertised, ClassSet::EMPTY);
        release(&mmu, &[PACKET]);
        assert_eq!(mmu.pool_usage().used, Bytes::ZERO);
    });
}

/// An OFF queue drains while a packet in flight arrives: it must not stay OFF and empty.
#[test]
fn a_resume_is_never_lost() {
    explore(|| {
        let mmu = Arc::new(mmu());
        let (_, _) = (admit(&mmu), admit(&mmu));
        let advertised = advertise(&mmu, ClassSet::EMPTY);
        assert_eq!(advertised, CLASS.alone());
        let departures = spawn_with(&mmu, |mmu| release(mmu, &[PACKET, PACKET]));
        let transmitter = spawn_with(&mmu, move |mmu| advertise(mmu, advertised));
        let kept = admit(&mmu);
        departures.join().unwrap();
        let mut advertised = transmitter.join().unwrap();
        assert!(matches!(kept, Admission::Admit(_)));
        advertised = advertise(&mmu, advertised);
        release(&mmu, &[PACKET]);
        // The port's sweep is allowed to help, as it does in the switch; the state must then be ON.
        mmu.reconsider(INGRESS, advertised, Time::ZERO);
        assert_eq!(advertise(&mmu, advertised), ClassSet::EMPTY, "an empty queue stays OFF");
        let left = mmu.ingress_usage(PACKET.ingress, Time::ZERO);
        assert_eq!((left.shared, left.headroom), (Bytes::ZERO, Bytes::ZERO));
    });
}

/// Policy whose port 0 has T = 2 packets and lends, and whose port 1 may fill all memory.
#[derive(Debug)]
struct Lender;

impl BufferPolicy for Lender {
    fn name(&self) -> &'static str {
        "lender"
    }

    fn threshold(&self, queue: &QueueView) -> Threshold {
        Threshold::new(if queue.queue.port() == INGRESS { 2_000 } else { queue.shared_pool.capacity })
    }

    fn lends_headroom(&self) -> bool {
        true
    }

    fn in_flight_time(&self, _: QueueId) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn steady_state(&self, _: &OverloadCase) -> SteadyState {
        SteadyState { lossless: Bytes::ZERO, lossy: Bytes::ZERO }
    }

    fn describe(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An OFF queue lends its headroom while a packet in flight arrives, another port takes all memory, and the queue drains. The packets held
/// always fit the buffer; in the end the queue has its headroom back and is ON.
#[test]
fn lent_headroom_is_never_used_twice() {
    // Three threads that share three pools: three preemptions take minutes.
    explore_within(2, || {
        const OTHER: BufferRequest = BufferRequest {
            ingress: QueueId::new(PortId(1), CLASS),
            egress: QueueId::new(INGRESS, CLASS),
            bytes: 1_000,
        };
        let mut port = PortLayout { lossless: CLASS.alone(), ..PortLayout::default() };
        port.headroom[CLASS.index()] = Bytes::new(2_000);
        // 3 packets of shared segment, and two of headroom for each port. One of the lender's is in use.
        let layout = BufferLayout::new(Bytes::new(7_000), vec![port; 2], Headroom::PerQueue).unwrap();
        let mmu = Arc::new(Mmu::new(layout, Box::new(Lender), Xon::default(), Alpha::ONE));
        let (_, _, _) = (admit(&mmu), admit(&mmu), admit(&mmu));
        let sweep = spawn_with(&mmu, |mmu| mmu.reconsider(INGRESS, CLASS.alone(), LATER));
        let other = spawn_with(&mmu, |mmu| {
            let mut verdicts = [Admission::Drop(DropReason::SharedFull); 4];
            mmu.admit(&mut PortWriter::new(PortId(1)), LATER, &[OTHER; 4], &mut verdicts);
            verdicts.iter().filter(|verdict| matches!(verdict, Admission::Admit(_))).count()
        });
        let in_flight = matches!(admit(&mmu), Admission::Admit(_));
        release(&mmu, &[PACKET; 3]);
        sweep.join().unwrap();
        let others = other.join().unwrap();
        let held = 1_000 * (usize::from(in_flight) + others) as u64;
        let usage = mmu.pool_usage();
        let [lender, borrower] = [PACKET.ingress, OTHER.ingress].map(|queue| mmu.ingress_usage(queue, LATER));
        let in_headroom = |queue: &QueueUsage| queue.headroom.get();
        assert_eq!(usage.used.get() + in_headroom(&lender) + in_headroom(&borrower), held);
        assert!(usage.used <= usage.capacity && held <= 7_000, "{held} B held");
        (0..others).for_each(|_| release(&mmu, &[OTHER]));
        if in_flight {
            release(&mmu, &[PACKET]);
        }
        [INGRESS, PortId(1)].into_iter().for_each(|port| mmu.reconsider(port, CLASS.alone(), LATER));
        let left = [PACKET.ingress, OTHER.ingress].map(|queue| mmu.ingress_usage(queue, LATER));
        let usage = mmu.pool_usage();
        assert_eq!((usage.capacity, usage.used), (Bytes::new(3_000), Bytes::ZERO), "{left:?}");
        assert!(left.iter().all(|queue| !queue.off && !queue.lent && queue.headroom == Bytes::ZERO), "{left:?}");
    });
}

/// A queue left above Xoff must be advertised OFF.
#[test]
fn a_pause_is_never_lost() {
    explore(|| {
        let mmu = Arc::new(mmu());
        let _ = admit(&mmu);
        let departure = spawn_with(&mmu, |mmu| release(mmu, &[PACKET]));
        let (_, _) = (admit(&mmu), admit(&mmu));
        let early = advertise(&mmu, ClassSet::EMPTY);
        departure.join().unwrap();
        // In either order, w_s ends at T: the peer must pause, and the transmitter must know.
        let advertised = advertise(&mmu, early);
        let held = mmu.ingress_usage(PACKET.ingress, Time::ZERO);
        assert_eq!((held.shared, held.headroom), (Bytes::new(2_000), Bytes::ZERO));
        assert!(held.off);
        assert_eq!(advertised, CLASS.alone());
    });
}

/// A reader that sees a queue OFF also sees the arrival that turned it OFF, from which delays are computed.
#[test]
fn the_instant_of_xoff_is_visible_with_the_xoff() {
    explore(|| {
        let mmu = Arc::new(mmu());
        let transmitter = spawn_with(&mmu, move |mmu| {
            let off = advertise(mmu, ClassSet::EMPTY);
            (off, mmu.off_since(INGRESS, CLASS))
        });
        let _ = admit(&mmu);
        let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
        mmu.admit(&mut PortWriter::new(INGRESS), LATER, &[PACKET], &mut verdicts);
        let (off, at) = transmitter.join().unwrap();
        assert!(off.is_empty() || at == Some(LATER), "{off:?}, {at:?}");
        assert_eq!((advertise(&mmu, off), mmu.off_since(INGRESS, CLASS)), (CLASS.alone(), Some(LATER)));
    });
}

/// Two TX lcores release packets of one OFF queue: one of them resumes it, and each packet is released exactly once.
#[test]
fn two_departures_resume_a_queue() {
    explore(|| {
        let mmu = Arc::new(mmu());
        let _ = (admit(&mmu), admit(&mmu), admit(&mmu));
        let advertised = advertise(&mmu, ClassSet::EMPTY);
        assert_eq!(advertised, CLASS.alone());
        let other = spawn_with(&mmu, |mmu| release(mmu, &[PACKET]));
        release(&mmu, &[PACKET]);
        other.join().unwrap();
        // One packet is left, below Xon, and no sweep ran.
        assert_eq!(advertise(&mmu, advertised), ClassSet::EMPTY, "a RESUME was lost");
        let left = mmu.ingress_usage(PACKET.ingress, Time::ZERO);
        assert_eq!((left.shared, left.headroom), (Bytes::new(1_000), Bytes::ZERO));
        release(&mmu, &[PACKET]);
        assert_eq!(mmu.pool_usage().used, Bytes::ZERO);
    });
}

/// Two lcores admit into a pool with room for one packet: exactly one gets it, and the pool is never overdrawn.
#[test]
fn two_admissions_share_the_last_place() {
    explore(|| {
        let lossy = |port| BufferRequest {
            ingress: QueueId::new(PortId(port), Class::new(0)),
            egress: QueueId::new(PortId(1 - port), Class::new(0)),
            bytes: 1_000,
        };
        let layout = BufferLayout::new(Bytes::new(1_500), vec![PortLayout::default(); 2], Headroom::PerQueue).unwrap();
        let policy = Box::new(StaticThreshold::new(Bytes::new(1_500)));
        let mmu = Arc::new(Mmu::new(layout, policy, Xon::default(), "8".parse().unwrap()));
        let admit = move |mmu: &Mmu, port| {
            let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
            mmu.admit(&mut PortWriter::new(PortId(port)), Time::ZERO, &[lossy(port)], &mut verdicts);
            matches!(verdicts[0], Admission::Admit(_))
        };
        let other = spawn_with(&mmu, move |mmu| admit(mmu, 1));
        let kept = [admit(&mmu, 0), other.join().unwrap()];
        let held = kept.iter().filter(|kept| **kept).count() as u64;
        assert!(held <= 1, "1,500 B hold one packet of 1,000 B");
        assert_eq!(mmu.pool_usage().used, Bytes::new(held * 1_000));
        for port in 0..2 {
            if kept[usize::from(port)] {
                release(&mmu, &[lossy(port)]);
            }
        }
        assert_eq!(mmu.pool_usage().used, Bytes::ZERO);
    });
}

/// Two ports compete for a headroom pool with room for one packet.
#[test]
fn two_queues_share_the_last_headroom() {
    explore(|| {
        let mut port = PortLayout { lossless: CLASS.alone(), ..PortLayout::default() };
        port.headroom[CLASS.index()] = Bytes::new(2_000);
        let layout = BufferLayout::new(Bytes::new(11_000), vec![port; 2], Headroom::Pool(Bytes::new(1_000))).unwrap();
        // T is less than a packet: every packet goes to headroom.
        let policy = Box::new(StaticThreshold::new(Bytes::new(500)));
        let mmu = Arc::new(Mmu::new(layout, policy, Xon::default(), Alpha::ONE));
        let packet = move |port| BufferRequest {
            ingress: QueueId::new(PortId(port), CLASS),
            egress: QueueId::new(PortId(1 - port), CLASS),
            bytes: 1_000,
        };
        let admit = move |mmu: &Mmu, port| {
            let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
            mmu.admit(&mut PortWriter::new(PortId(port)), Time::ZERO, &[packet(port)], &mut verdicts);
            matches!(verdicts[0], Admission::Admit(_))
        };
        let other = spawn_with(&mmu, move |mmu| admit(mmu, 1));
        let kept = [admit(&mmu, 0), other.join().unwrap()];
        let held = kept.iter().filter(|kept| **kept).count() as u64;
        assert!(held <= 1, "the pool holds one packet");
        assert_eq!(mmu.headroom_pool_usage().unwrap().used, Bytes::new(held * 1_000));
        (0..2).filter(|port| kept[usize::from(*port)]).for_each(|port| release(&mmu, &[packet(port)]));
        assert_eq!(mmu.headroom_pool_usage().unwrap().used, Bytes::ZERO);
    });
}

/// Packets of two slices leave together while one arrives at the first. Each slice has its bytes back, the egress queue holds those of both,
/// and the transmitter knows the last state.
#[test]
fn slices_share_queues_and_no_pool() {
    explore_within(2, || {
        const OTHER: BufferRequest = BufferRequest { ingress: QueueId::new(PortId(1), CLASS), ..PACKET };
        let mut port = PortLayout { lossless: CLASS.alone(), ..PortLayout::default() };
        port.headroom[CLASS.index()] = Bytes::new(1_000);
        let layout = BufferLayout::new(Bytes::new(6_000), vec![port; 2], Headroom::PerQueue).unwrap();
        let policy = || -> Box<dyn BufferPolicy> { Box::new(StaticThreshold::new(Bytes::new(2_000))) };
        let mmu = Mmu::new(layout, policy(), Xon::below(Bytes::new(500)), Alpha::ONE);
        let mmu = Arc::new(mmu.in_slices(vec![policy(), policy()]));
        let mut verdict = [Admission::Drop(DropReason::SharedFull)];
        mmu.admit(&mut PortWriter::new(PortId(1)), Time::ZERO, &[OTHER], &mut verdict);
        let _ = admit(&mmu);
        let departures = spawn_with(&mmu, |mmu| release(mmu, &[OTHER, PACKET]));
        let transmitter = spawn_with(&mmu, move |mmu| advertise(mmu, ClassSet::EMPTY));
        let kept = admit(&mmu);
        departures.join().unwrap();
        let advertised = transmitter.join().unwrap();
        assert_eq!([kept, verdict[0]], [Admission::Admit(Segment::Shared); 2]);
        assert_eq!(advertise(&mmu, advertised), ClassSet::EMPTY);
        assert_eq!((mmu.shared_used(), mmu.egress_length(PACKET.egress)), (1_000, 1_000));
        release(&mmu, &[PACKET]);
        assert_eq!((mmu.shared_used(), mmu.egress_length(PACKET.egress)), (0, 0));
    });
}

/// Port-level flow control: a departure of one class races an arrival of another, both charged to the port. The port's levels equal the sum
/// of its queues, and the transmitter knows the last state.
#[test]
fn a_port_is_the_sum_of_its_queues() {
    explore(|| {
        let classes = [Class::new(3), Class::new(4)];
        let mut port = PortLayout { lossless: classes[0].alone() | classes[1].alone(), ..PortLayout::default() };
        classes.iter().for_each(|class| port.headroom[class.index()] = Bytes::new(1_000));
        let layout = BufferLayout::new(Bytes::new(6_000), vec![port; 2], Headroom::PerPort).unwrap();
        let parameters = DshParameters {
            alpha: Alpha::ratio(1, 2).unwrap(),
            form: EstimatorForm::exact(Alpha::ONE, Alpha::ONE, 0),
            window: Span::from_millis(10),
            port_xon_offset: Bytes::ZERO,
            port_queues: None,
            shared_headroom: true,
        };
        let policy = Box::new(Dsh::new(parameters, &layout, &[BitRate::gbps(10); 2]));
        let mmu = Arc::new(Mmu::new(layout, policy, Xon::default(), Alpha::ONE));
        let packet = move |class: usize| BufferRequest {
            ingress: QueueId::new(INGRESS, classes[class]),
            egress: QueueId::new(PortId(1), classes[class]),
            bytes: 1_000,
        };
        let admit = move |mmu: &Mmu, class| {
            let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
            mmu.admit(&mut PortWriter::new(INGRESS), Time::ZERO, &[packet(class)], &mut verdicts);
            assert!(matches!(verdicts[0], Admission::Admit(_)));
        };
        admit(&mmu, 0);
        let departure = spawn_with(&mmu, move |mmu| release(mmu, &[packet(0)]));
        admit(&mmu, 1);
        departure.join().unwrap();
        assert_eq!(mmu.pool_usage().used, Bytes::new(1_000));
        release(&mmu, &[packet(1)]);
        mmu.reconsider(INGRESS, ClassSet::ALL, Time::ZERO);
        assert_eq!(advertise(&mmu, ClassSet::EMPTY), ClassSet::EMPTY, "an empty port stays OFF");
        for class in 0..2 {
            let left = mmu.ingress_usage(packet(class).ingress, Time::ZERO);
            assert_eq!((left.shared, left.headroom, left.off), (Bytes::ZERO, Bytes::ZERO, false));
        }
        // Underflow of the port's counter would have panicked; an excess would keep it from pausing at the right length.
        (0..2).for_each(|class| admit(&mmu, class));
        (0..2).for_each(|class| release(&mmu, &[packet(class)]));
        assert_eq!(mmu.pool_usage().used, Bytes::ZERO);
    });
}

/// Models of single parts, under every interleaving.
mod parts {
    use super::*;
    use crate::low_pass::{Average, LowPass};
    use crate::occupancy::{AtomicOccupancy, Occupancy};
    use crate::policy::congestion::CongestedQueues;
    use crate::policy::departures::{Departures, WindowClock};
    use crate::pool::{Pool, PoolLevel};
    use crate::signal::{ChangedClasses, XoffQueues};
    use crate::sync::{AtomicU64, Ordering};
    use crate::watermark::{PersistentWatermark, Watermark};

    #[test]
    fn a_pool_reserves_and_rolls_back() {
        loom::model(|| {
            let pool = Arc::new(Pool::new(1_500));
            let other = pool.clone();
            let other = thread::spawn(move || {
                let grant = other.reserve(1_000);
                assert!(grant.before.used <= 1_500);
                other.release(grant.bytes / 2);
                grant.bytes - grant.bytes / 2
            });
            let mine = pool.reserve(1_000).bytes;
            let held = mine + other.join().unwrap();
            assert!(mine <= 1_000 && held <= 1_500);
            assert_eq!(pool.level(), PoolLevel { capacity: 1_500, used: held });
        });
    }

    #[test]
    fn a_pool_cedes_only_what_nobody_has() {
        loom::model(|| {
            let pool = Arc::new(Pool::new(1_500));
            let other = pool.clone();
            let other = thread::spawn(move || other.reserve(1_000).bytes);
            let ceded = pool.cede(1_000);
            let held = other.join().unwrap();
            let level = pool.level();
            assert_eq!((level.capacity, level.used), (1_500 - ceded, held));
            assert!(held <= level.capacity, "{held} B held of {} B", level.capacity);
        });
    }

    #[test]
    fn levels_lose_no_update() {
        loom::model(|| {
            let occupancy = Arc::new(AtomicOccupancy::default());
            let arrive = |occupancy: &AtomicOccupancy| {
                occupancy.update(|occupancy| Occupancy {
                    shared: occupancy.shared + 600,
                    off: occupancy.shared + 600 >= 1_000,
                    ..occupancy
                })
            };
            arrive(&occupancy);
            let other = occupancy.clone();
            let departure = thread::spawn(move || {
                other.update(|mut occupancy| {
                    let _ = occupancy.depart(600);
                    Occupancy { off: occupancy.off && !occupancy.resumes(1_000, Xon::default()), ..occupancy }
                })
            });
            arrive(&occupancy);
            departure.join().unwrap();
            assert_eq!(occupancy.load(), Occupancy { shared: 600, ..Occupancy::default() });
        });
    }

    #[test]
    fn a_mark_is_seen_with_what_it_marks() {
        loom::model(|| {
            let (occupancy, changed) = (Arc::new(AtomicOccupancy::default()), Arc::new(ChangedClasses::default()));
            let marker = (occupancy.clone(), changed.clone());
            let marker = thread::spawn(move || {
                marker.0.update(|occupancy| Occupancy { off: true, ..occupancy });
                marker.1.mark(CLASS.alone());
            });
            let seen = changed.take();
            assert!(seen.is_empty() || occupancy.load().off);
            marker.join().unwrap();
            assert!(seen | changed.take() == CLASS.alone(), "a mark was lost");
        });
    }

    #[test]
    fn turns_are_counted_in_any_order() {
        loom::model(|| {
            let off = Arc::new(XoffQueues::default());
            let other = off.clone();
            let other = thread::spawn(move || other.note(false));
            off.note(true);
            other.join().unwrap();
            assert!(!off.any());
        });
    }

    #[test]
    fn a_watermark_keeps_the_highest() {
        loom::model(|| {
            let mark = Arc::new(Watermark::default());
            let other = mark.clone();
            let other = thread::spawn(move || other.note(2));
            mark.note(1);
            mark.note(3);
            other.join().unwrap();
            assert_eq!(mark.get(), 3);
        });
    }

    /// A queue of 1 grows to 3 while its watermark is restarted: the peak since the start is 3, and the peak since the restart is the final
    /// length.
    #[test]
    fn a_watermark_is_restarted_while_a_queue_grows() {
        loom::model(|| {
            let queue = Arc::new((Watermark::default(), AtomicU64::new(1)));
            queue.0.note(1);
            let other = queue.clone();
            let other = thread::spawn(move || {
                let (mark, length) = &*other;
                mark.note(length.fetch_add(2, Ordering::Relaxed) + 2);
            });
            let persistent = PersistentWatermark::default();
            let (mark, length) = &*queue;
            persistent.restart(mark, || length.load(Ordering::Relaxed));
            other.join().unwrap();
            assert_eq!(persistent.highest(mark), 3);
            // The load may precede the growth, and the note the restart.
            assert!(mark.get() == 3 || mark.get() == 1);
        });
    }

    #[test]
    fn a_filter_loses_no_step() {
        loom::model(|| {
            let average = Arc::new(Average::default());
            let filter = LowPass::with_gamma_ppb(500_000_000);
            let step = move |average: &Average| {
                let before = average.load();
                average.advance(before, filter.arrive(before, 1_000));
            };
            let other = average.clone();
            let other = thread::spawn(move || step(&other));
            step(&average);
            other.join().unwrap();
            // One after the other: 500 and 750; both from zero: 500 and 500 more.
            let bytes = average.load() >> 20;
            assert!(bytes == 750 || bytes == 1_000, "{bytes}");
        });
    }

    #[test]
    fn congested_queues_are_counted_once() {
        loom::model(|| {
            let congested = Arc::new(CongestedQueues::new(1, 10));
            let queue = QueueId::new(PortId(0), CLASS);
            let other = congested.clone();
            let other = thread::spawn(move || {
                other.note(queue, 10);
                other.note(queue, 0);
            });
            congested.note(queue, 11);
            other.join().unwrap();
            congested.note(queue, 0);
            congested.note(queue, 12);
            congested.note(QueueId::new(PortId(0), Class::new(0)), 12);
            assert_eq!((congested.count(CLASS), congested.count(Class::new(0))), (1, 1));
        });
    }

    #[test]
    fn departures_of_two_lcores_add_up() {
        loom::model(|| {
            let (departures, windows) = (Arc::new(Departures::default()), WindowClock::new(Span::from_micros(1)));
            let other = departures.clone();
            let other = thread::spawn(move || other.add(windows, Time::from_nanos(999), 100));
            departures.add(windows, Time::from_nanos(500), 30);
            other.join().unwrap();
            assert_eq!(departures.in_last_window(windows, Time::from_nanos(1_000)), 130);
        });
    }

    /// A departure counts in the current window at once, for any concurrent addition; later both count in the last window.
    #[test]
    fn the_current_window_is_read_while_another_lcore_adds() {
        loom::model(|| {
            let (departures, windows) = (Arc::new(Departures::default()), WindowClock::new(Span::from_micros(1)));
            let other = departures.clone();
            let other = thread::spawn(move || other.add(windows, Time::from_nanos(999), 100));
            let before = departures.in_last_window_or_this(windows, Time::from_nanos(500));
            departures.add(windows, Time::from_nanos(500), 30);
            let after = departures.in_last_window_or_this(windows, Time::from_nanos(500));
            assert!(before == 0 || before == 100, "{before}");
            assert!(after == before + 30 || after == 130, "{before}, then {after}");
            other.join().unwrap();
            assert_eq!(departures.in_last_window_or_this(windows, Time::from_nanos(500)), 130);
            departures.add(windows, Time::from_nanos(1_000), 7);
            assert_eq!(departures.in_last_window_or_this(windows, Time::from_nanos(1_999)), 130, "the last whole one");
            assert_eq!(departures.in_last_window_or_this(windows, Time::from_nanos(2_000)), 7);
        });
    }
}
