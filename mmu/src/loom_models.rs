//! Every interleaving of the transitions that must not lose a signal or a byte, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-mmu --release --lib loom_models`

use loom::sync::Arc;
use loom::thread;
use weir_units::{Alpha, Bytes, Class, PortId, QueueId, Time};

use crate::layout::{BufferLayout, Headroom, PortLayout};
use crate::mmu::{Arrival, Departure, DropReason, Mmu, Verdict};
use crate::one_writer::PortWriter;
use crate::policy::StaticThreshold;

const CLASS: Class = Class::new(3);
const INGRESS: PortId = PortId(0);
const PACKET: Arrival =
    Arrival { ingress: QueueId::new(INGRESS, CLASS), egress: QueueId::new(PortId(1), CLASS), bytes: 1_000 };

/// Two ports, one lossless class, T = 2 packets, room for 2 more in headroom.
fn mmu() -> Mmu {
    let mut port = PortLayout { lossless: CLASS.bit(), ..PortLayout::default() };
    port.headroom[CLASS.index()] = Bytes::new(2_000);
    let layout = BufferLayout::new(Bytes::new(20_000), vec![port; 2], Headroom::PerQueue).unwrap();
    Mmu::new(layout, Box::new(StaticThreshold::new(Bytes::new(2_000))), Bytes::new(500), Alpha::ONE)
}

fn admit(mmu: &Mmu) -> Verdict {
    let mut verdicts = [Verdict::Drop(DropReason::SharedFull)];
    mmu.admit(&mut PortWriter::new(INGRESS), Time::ZERO, &[PACKET], &mut verdicts);
    verdicts[0]
}

fn release(mmu: &Mmu, departures: &[Departure]) {
    mmu.release(Time::ZERO, departures);
}

/// Runs `act` on another thread of the model.
fn beside<T: 'static>(mmu: &Arc<Mmu>, act: impl FnOnce(&Mmu) -> T + 'static) -> thread::JoinHandle<T> {
    let mmu = mmu.clone();
    thread::spawn(move || act(&mmu))
}

/// The transmitter of the ingress port: compares what should be with what it advertised last.
fn advertise(mmu: &Mmu, advertised: u8) -> u8 {
    mmu.off_classes(INGRESS, advertised)
}

/// The last departure against the arrival that crosses Xoff, with the transmitter looking at any moment: when all
/// is quiet, what is advertised is what the queue needs.
#[test]
fn the_last_departure_and_an_arrival_leave_the_right_signal() {
    loom::model(|| {
        let mmu = Arc::new(mmu());
        let _ = admit(&mmu);
        let departure = beside(&mmu, |mmu| release(mmu, &[PACKET]));
        let transmitter = beside(&mmu, move |mmu| advertise(mmu, 0));
        let kept = admit(&mmu);
        departure.join().unwrap();
        let mut advertised = transmitter.join().unwrap();
        assert!(matches!(kept, Verdict::Keep(_)));
        // One packet is left, below Xon: RESUME must be advertised, whoever came first.
        advertised = advertise(&mmu, advertised);
        assert_eq!(advertised, 0);
        release(&mmu, &[PACKET]);
        assert_eq!(mmu.pool_use().used, Bytes::ZERO);
    });
}

/// A queue that is OFF drains to nothing while a packet still in flight arrives: it must not stay OFF and empty.
#[test]
fn a_resume_is_never_lost() {
    loom::model(|| {
        let mmu = Arc::new(mmu());
        let (_, _) = (admit(&mmu), admit(&mmu));
        let advertised = advertise(&mmu, 0);
        assert_eq!(advertised, CLASS.bit());
        let departures = beside(&mmu, |mmu| release(mmu, &[PACKET, PACKET]));
        let transmitter = beside(&mmu, move |mmu| advertise(mmu, advertised));
        let kept = admit(&mmu);
        departures.join().unwrap();
        let mut advertised = transmitter.join().unwrap();
        assert!(matches!(kept, Verdict::Keep(_)));
        advertised = advertise(&mmu, advertised);
        release(&mmu, &[PACKET]);
        // The port's sweep is allowed to help, as it does in the switch; the state must then be ON.
        mmu.reconsider(INGRESS, advertised, Time::ZERO);
        assert_eq!(advertise(&mmu, advertised), 0, "an empty queue stays OFF");
        let left = mmu.ingress_use(PACKET.ingress, Time::ZERO);
        assert_eq!((left.shared, left.headroom), (Bytes::ZERO, Bytes::ZERO));
    });
}

/// The other way about: a queue left above Xoff must be advertised OFF.
#[test]
fn a_pause_is_never_lost() {
    loom::model(|| {
        let mmu = Arc::new(mmu());
        let _ = admit(&mmu);
        let departure = beside(&mmu, |mmu| release(mmu, &[PACKET]));
        let (_, _) = (admit(&mmu), admit(&mmu));
        let early = advertise(&mmu, 0);
        departure.join().unwrap();
        // Whatever the order, w_s ends at T: the peer must pause, and the transmitter must know.
        let advertised = advertise(&mmu, early);
        let held = mmu.ingress_use(PACKET.ingress, Time::ZERO);
        assert_eq!((held.shared, held.headroom), (Bytes::new(2_000), Bytes::ZERO));
        assert!(held.off);
        assert_eq!(advertised, CLASS.bit());
    });
}

/// Two lcores admit into a pool that has room for one: exactly one gets it, and the pool is never overdrawn.
#[test]
fn two_admissions_share_the_last_place() {
    loom::model(|| {
        let lossy = |port| Arrival {
            ingress: QueueId::new(PortId(port), Class::new(0)),
            egress: QueueId::new(PortId(1 - port), Class::new(0)),
            bytes: 1_000,
        };
        let layout = BufferLayout::new(Bytes::new(1_500), vec![PortLayout::default(); 2], Headroom::PerQueue).unwrap();
        let policy = Box::new(StaticThreshold::new(Bytes::new(1_500)));
        let mmu = Arc::new(Mmu::new(layout, policy, Bytes::ZERO, "8".parse().unwrap()));
        let admit = move |mmu: &Mmu, port| {
            let mut verdicts = [Verdict::Drop(DropReason::SharedFull)];
            mmu.admit(&mut PortWriter::new(PortId(port)), Time::ZERO, &[lossy(port)], &mut verdicts);
            matches!(verdicts[0], Verdict::Keep(_))
        };
        let other = beside(&mmu, move |mmu| admit(mmu, 1));
        let kept = [admit(&mmu, 0), other.join().unwrap()];
        let held = kept.iter().filter(|kept| **kept).count() as u64;
        assert!(held <= 1, "1,500 B hold one packet of 1,000 B");
        assert_eq!(mmu.pool_use().used, Bytes::new(held * 1_000));
        for port in 0..2 {
            if kept[usize::from(port)] {
                release(&mmu, &[lossy(port)]);
            }
        }
        assert_eq!(mmu.pool_use().used, Bytes::ZERO);
    });
}
