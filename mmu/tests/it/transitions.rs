//! State machines that span the policy and the MMU, transition by transition. State machines of a policy alone are tested beside its code.

use weir_mmu::{Admission, BufferRequest, DropReason, Mmu, PortWriter, QueueUsage, Segment, Xon};
use weir_units::{Alpha, BitRate, Bytes, Class, ClassSet, PortId, QueueId, Span, Time};

use crate::policies::{self, Bounds};

const FRAME: u32 = 1_000;
const CLASSES: [Class; 2] = [Class::new(3), Class::new(4)];
const PHI: u64 = 10_000;
const HEADROOM: Admission = Admission::Admit(Segment::Headroom);
const SHARED: Admission = Admission::Admit(Segment::Shared);
const LOST: Admission = Admission::Drop(DropReason::HeadroomViolation);

/// One ingress port under test, with a clock that [`Bench::wait`] advances.
struct Bench {
    mmu: Mmu,
    writer: PortWriter,
    other: PortWriter,
    now: Time,
}

impl Bench {
    /// Two ports of 10 Gb/s, classes 3 and 4 lossless, Φ = 10 KB, a shared segment of 200 KB, δ = 2 KB.
    fn new(name: &str) -> Bench {
        let bounds = |size| Bounds {
            size,
            ports: 2,
            private: Bytes::ZERO,
            headroom: Bytes::new(PHI),
            lossless: CLASSES[0].alone() | CLASSES[1].alone(),
            rate: BitRate::gbps(10),
        };
        let reserved = policies::layout(name, &bounds(Bytes::mb(10))).headroom();
        let mmu = policies::mmu(name, &bounds(Bytes::kb(200) + reserved), Xon::below(Bytes::kb(2)), Alpha::ONE);
        let [writer, other] = [0, 1].map(|port| mmu.writer(PortId(port)).unwrap());
        Bench { mmu, writer, other, now: Time::ZERO }
    }

    fn frame(class: usize) -> BufferRequest {
        let queue = |port| QueueId::new(PortId(port), CLASSES[class]);
        BufferRequest { ingress: queue(0), egress: queue(1), bytes: FRAME }
    }

    fn admit(&mut self, class: usize) -> Admission {
        let mut verdicts = [LOST];
        self.mmu.admit(&mut self.writer, self.now, &[Self::frame(class)], &mut verdicts);
        verdicts[0]
    }

    fn admit_all(&mut self, class: usize, frames: usize, expected: Admission) {
        (0..frames).for_each(|n| assert_eq!(self.admit(class), expected, "frame {n} of class {class}"));
    }

    fn release(&mut self, class: usize, frames: usize) {
        (0..frames).for_each(|_| self.mmu.release(self.now, &[Self::frame(class)]));
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
    }

    fn queue(&self, class: usize) -> QueueUsage {
        self.mmu.ingress_usage(Self::frame(class).ingress, self.now)
    }

    /// Classes that the peer of port 0 should pause.
    fn off(&self) -> ClassSet {
        (0..2).filter(|class| self.queue(*class).off).map(|class| CLASSES[class]).collect()
    }

    /// Other ports take or leave this much of the shared segment.
    fn others(&mut self, frames: usize, arriving: bool) {
        let queue = |port| QueueId::new(PortId(port), Class::new(0));
        let frame = BufferRequest { ingress: queue(1), egress: queue(0), bytes: FRAME };
        for _ in 0..frames {
            if arriving {
                let mut verdicts = [LOST];
                self.mmu.admit(&mut self.other, self.now, &[frame], &mut verdicts);
                assert_eq!(verdicts[0], SHARED);
            } else {
                self.mmu.release(self.now, &[frame]);
            }
        }
    }
}

const BOTH: ClassSet = ClassSet::from_members(&CLASSES);

mod dsh {
    use super::*;

    #[test]
    fn a_queue_pauses_by_itself_and_goes_on_in_the_ports_allowance() {
        let mut bench = Bench::new("dsh");
        // All at one instant: no gradient, τ = 0. T = 200 − w_s: met at 100 KB.
        bench.admit_all(0, 99, SHARED);
        assert_eq!(bench.off(), ClassSet::EMPTY);
        bench.admit_all(0, 1, SHARED);
        assert_eq!(bench.off(), CLASSES[0].alone(), "queue level: w_s reached X_qoff");
        // X_poff = 2 T = 2 (200 − w_s). Until then headroom comes out of the shared segment.
        bench.admit_all(0, 33, SHARED);
        assert_eq!(bench.off(), CLASSES[0].alone());
        // 133 + 1 reaches 2 · 67: port level.
        bench.admit_all(0, 1, SHARED);
        assert_eq!(bench.off(), BOTH, "port level: all lossless classes");
        assert!(bench.queue(1).port_off);
        bench.admit_all(0, 1, HEADROOM);
    }

    #[test]
    fn more_queues_than_lossless_ones_postpone_the_ports_pause() {
        let mut bench = Bench::new("dsh-port-queues");
        // X_poff = 8 T = 8 (200 − w_s). One queue of 178 + 1 is above 8 · 22.
        bench.admit_all(0, 178, SHARED);
        assert_eq!(bench.off(), CLASSES[0].alone());
        bench.admit_all(0, 1, HEADROOM);
        assert_eq!(bench.off(), BOTH, "port level: all lossless classes");
    }

    #[test]
    fn the_insurance_is_the_ports_and_bounded() {
        let mut bench = Bench::new("dsh");
        bench.admit_all(0, 134, SHARED);
        bench.admit_all(0, 6, HEADROOM);
        bench.admit_all(1, 4, HEADROOM);
        assert_eq!(bench.admit(0), LOST, "Φ once for the port, not for each queue");
        assert_eq!(bench.admit(1), LOST);
    }

    #[test]
    fn a_port_resumes_when_its_insurance_is_empty_and_it_is_below_xon() {
        let mut bench = Bench::new("dsh");
        bench.admit_all(0, 134, SHARED);
        bench.admit_all(0, 2, HEADROOM);
        bench.release(0, 1);
        assert_eq!(bench.off(), BOTH, "insurance in use");
        bench.release(0, 1);
        assert_eq!(bench.off(), BOTH, "insurance empty, but 134 is not below X_pon = 2 · 66 − 2");
        bench.release(0, 1);
        assert_eq!(bench.off(), BOTH, "133 is not below 2 · 67 − 2");
        bench.release(0, 1);
        // 132 < 2 · 68 − 2.
        assert_eq!(bench.off(), CLASSES[0].alone(), "port level ends, queue level goes on");
        assert!(!bench.queue(1).port_off);
        // Queue level: X_qon = T − δ = 198 − w_s, met below 99.
        bench.release(0, 33);
        assert_eq!(bench.off(), CLASSES[0].alone(), "w_s = 99");
        bench.release(0, 1);
        assert_eq!(bench.off(), ClassSet::EMPTY, "w_s = 98");
    }

    #[test]
    fn a_growing_queue_pauses_earlier_by_its_estimate() {
        let mut bench = Bench::new("dsh");
        // Two classes in turn, each at half the line rate, nothing departs.
        for _ in 0..20 {
            for class in 0..2 {
                bench.wait(BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME))));
                assert_eq!(bench.admit(class), SHARED);
            }
        }
        let queue = bench.queue(0);
        let estimate = queue.gauges.value("headroom_estimate_bytes").unwrap();
        assert!(estimate.abs_diff(PHI / 2) <= PHI / 10, "half the line rate needs half of Φ: {estimate}");
        assert_eq!(queue.threshold.get(), 200_000 - 40_000 - estimate, "X_qoff = T − τ");
    }

    #[test]
    fn the_only_queue_of_a_window_has_no_margin() {
        let mut bench = Bench::new("dsh");
        let frame = BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME)));
        let bench_arrives = |bench: &mut Bench, class| {
            bench.wait(frame);
            assert_eq!(bench.admit(class), SHARED);
            bench.queue(class)
        };
        for _ in 0..10 {
            bench_arrives(&mut bench, 0);
        }
        let queue = bench_arrives(&mut bench, 0);
        assert!(queue.gauges.value("headroom_estimate_bytes").unwrap() > 0);
        assert!(queue.threshold.get() < 200_000 - 11_000, "within the first window τ = φ̂");
        bench.wait(Span::from_millis(10));
        let queue = bench_arrives(&mut bench, 0);
        assert_eq!(queue.threshold.get(), 200_000 - 12_000, "10 ms of one queue: τ = 0");
        for _ in 0..5 {
            bench_arrives(&mut bench, 0);
        }
        bench_arrives(&mut bench, 1);
        let (queue, estimate) = (bench.queue(0), bench.queue(0).gauges.value("headroom_estimate_bytes").unwrap());
        assert!(estimate > 0);
        assert_eq!(queue.threshold.get(), 200_000 - 18_000 - estimate, "another queue: τ = φ̂ again");
    }

    #[test]
    fn without_shared_headroom_a_pause_takes_the_whole_port() {
        let mut bench = Bench::new("dsh-no-shared");
        bench.admit_all(0, 100, SHARED);
        assert_eq!(bench.off(), CLASSES[0].alone());
        bench.admit_all(0, 1, HEADROOM);
        assert_eq!(bench.off(), BOTH);
    }

    #[test]
    fn without_insurance_what_is_in_flight_is_lost() {
        let mut bench = Bench::new("dsh-no-insurance");
        bench.admit_all(0, 134, SHARED);
        assert_eq!(bench.admit(0), LOST);
        assert_eq!(bench.off(), BOTH, "it pauses all the same");
    }
}

mod spfc {
    use super::*;

    /// Departures at line rate for a window of 80 us.
    fn make_victim(bench: &mut Bench) {
        for _ in 0..200 {
            bench.wait(BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME))));
            assert_eq!(bench.admit(0), SHARED);
            bench.release(0, 1);
        }
    }

    #[test]
    fn a_victim_buffers_until_the_pool_is_full_and_others_get_what_is_left() {
        let mut bench = Bench::new("spfc");
        make_victim(&mut bench);
        assert_eq!(bench.queue(0).threshold, Bytes::kb(200), "T = B");
        bench.admit_all(0, 199, SHARED);
        assert_eq!(bench.off(), ClassSet::EMPTY);
        bench.admit_all(0, 1, SHARED);
        assert_eq!(bench.off(), CLASSES[0].alone(), "the whole buffer is reached");
    }

    #[test]
    fn paused_when_others_filled_the_pool() {
        let mut bench = Bench::new("spfc");
        bench.others(100, true);
        make_victim(&mut bench);
        bench.admit_all(0, 100, SHARED);
        assert_eq!(bench.admit(0), HEADROOM, "no room in the shared segment");
        assert_eq!(bench.off(), CLASSES[0].alone());
    }

    #[test]
    fn normal_from_pause_to_resume_and_a_victim_again_after() {
        let mut bench = Bench::new("spfc");
        make_victim(&mut bench);
        bench.admit_all(0, 200, SHARED);
        assert_eq!(bench.queue(0).threshold, Bytes::ZERO, "PAUSE: DT, and the pool is full");
        // Departing at line rate all the while does not help: T = 200 − w_s, RESUME below T − 2.
        let mut left = 200;
        while !bench.off().is_empty() {
            bench.wait(BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME))));
            bench.release(0, 1);
            left -= 1;
        }
        assert_eq!(left, 98, "as DT resumes");
        assert_eq!(bench.queue(0).threshold, Bytes::kb(200), "a victim again, its departures having been fast");
    }

    #[test]
    fn one_paused_class_makes_the_port_normal() {
        let mut bench = Bench::new("spfc");
        make_victim(&mut bench);
        bench.admit_all(1, 200, SHARED);
        assert_eq!(bench.off(), CLASSES[1].alone());
        bench.release(1, 10);
        assert_eq!(bench.queue(0).threshold, Bytes::kb(10), "DT for the other class too");
    }

    /// Ports 0 and 1 have victims, 2 to 4 bursts to port 5.
    #[test]
    fn victims_share_the_headroom_that_is_lent_and_lossy_classes_get_none_of_it() {
        let lossless = CLASSES[0];
        let bounds = Bounds {
            size: Bytes::kb(200) + Bytes::new(6 * PHI),
            ports: 6,
            private: Bytes::ZERO,
            headroom: Bytes::new(PHI),
            lossless: lossless.alone(),
            rate: BitRate::gbps(10),
        };
        let mmu = policies::mmu("spfc-all-memory", &bounds, Xon::below(Bytes::kb(2)), Alpha::ONE);
        let mut writers: Vec<PortWriter> = (0..6).map(|port| mmu.writer(PortId(port)).unwrap()).collect();
        let mut now = Time::ZERO;
        let queue = |port, class| QueueId::new(PortId(port), class);
        let frame = |port, class| BufferRequest { ingress: queue(port, class), egress: queue(5, class), bytes: FRAME };
        let mut admit = |port: u16, class, now| {
            let mut verdicts = [LOST];
            mmu.admit(&mut writers[usize::from(port)], now, &[frame(port, class)], &mut verdicts);
            verdicts[0]
        };
        for _ in 0..200 {
            now += BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME)));
            for victim in 0..2 {
                assert_eq!(admit(victim, lossless, now), SHARED);
                mmu.release(now, &[frame(victim, lossless)]);
            }
        }
        for burst in 2..5 {
            while !mmu.ingress_usage(queue(burst, lossless), now).off {
                let _ = admit(burst, lossless, now);
            }
        }
        let bursts = (2..5).map(|burst| mmu.ingress_usage(queue(burst, lossless), now));
        let lent: u64 = bursts.map(|usage| PHI - usage.headroom.get()).sum();
        let own = 200_000 - mmu.pool_usage().used.get();
        now += BitRate::gbps(10).time_for(Bytes::new(PHI));
        (2..5).for_each(|burst| mmu.reconsider(PortId(burst), lossless.alone(), now));
        assert_eq!(admit(5, Class::new(0), now), SHARED, "room in the segment itself");
        mmu.release(now, &[frame(5, Class::new(0))]);
        let room = ((own + lent) / u64::from(FRAME)) as u16;
        assert!(own > 20_000 && lent > 20_000, "{own}, {lent}");
        assert!((0..room).all(|n| admit(n % 2, lossless, now) == SHARED), "all of both, and no PAUSE");
        assert!((0..2).all(|victim| !mmu.ingress_usage(queue(victim, lossless), now).off));
        mmu.release(now, &[frame(0, lossless)]);
        assert!(matches!(admit(5, Class::new(0), now), Admission::Drop(_)), "what is left is lent");
        assert_eq!([0, 1].map(|victim| admit(victim, lossless, now)), [SHARED, HEADROOM]);
        assert!(mmu.ingress_usage(queue(1, lossless), now).off);
    }
}

mod sonic {
    use super::*;

    #[test]
    fn headroom_leaves_first_and_only_then_it_resumes() {
        let mut bench = Bench::new("sonic");
        bench.admit_all(0, 100, SHARED);
        bench.admit_all(0, 5, HEADROOM);
        let used = |bench: &Bench| (bench.queue(0).headroom.get(), bench.mmu.headroom_pool_usage().unwrap().used.get());
        assert_eq!(used(&bench), (5_000, 5_000));
        bench.release(0, 4);
        assert_eq!((used(&bench), bench.queue(0).shared), ((1_000, 1_000), Bytes::kb(100)));
        bench.release(0, 1);
        assert_eq!((used(&bench), bench.off()), ((0, 0), CLASSES[0].alone()));
        // T = 200 − w_s, RESUME below T − 2.
        bench.release(0, 1);
        assert_eq!((bench.queue(0).shared, bench.off()), (Bytes::kb(99), CLASSES[0].alone()));
        bench.release(0, 1);
        assert_eq!(bench.off(), ClassSet::EMPTY);
    }

    #[test]
    fn lossy_packets_are_in_both_pools_and_lossless_ones_in_one() {
        let mut bench = Bench::new("sonic");
        bench.others(50, true);
        bench.admit_all(0, 20, SHARED);
        let lossy = bench.mmu.egress_lossy_pool_usage().unwrap();
        assert_eq!((lossy.capacity, lossy.used), (Bytes::kb(160), Bytes::kb(50)));
        assert_eq!(bench.mmu.pool_usage().used, Bytes::kb(70));
        assert_eq!(bench.queue(0).threshold, Bytes::kb(130), "lossless pays for lossy");
        bench.others(50, false);
        assert_eq!(bench.mmu.egress_lossy_pool_usage().unwrap().used, Bytes::ZERO);
    }
}

mod reverie {
    use super::*;

    #[test]
    fn a_burst_passes_and_congestion_pauses() {
        let mut bench = Bench::new("reverie-text");
        // Γ = 200 − q. A burst of 150 KB is over it from 100 KB on, and its average is far below.
        bench.admit_all(0, 150, SHARED);
        assert_eq!(bench.off(), ClassSet::EMPTY);
        // The burst stays: each departure and each arrival is an event, and q̂ follows q.
        let mut events = 0;
        while bench.off().is_empty() {
            bench.release(0, 1);
            let _ = bench.admit(0);
            events += 2;
            assert!(events < 4_000, "q̂ never reached Γ");
        }
        // q̂ = q (1 − γ^n) passes 50 of 150 after 405 events at γ = 0.999; the burst itself had 150, ramping up.
        assert!((200..=420).contains(&events), "{events} events");
    }

    #[test]
    fn an_off_queue_fills_headroom_whatever_the_condition_says() {
        let mut bench = Bench::new("reverie-text");
        bench.admit_all(0, 150, SHARED);
        while bench.off().is_empty() {
            bench.release(0, 1);
            let _ = bench.admit(0);
        }
        // Room appears and Γ rises: Equation 4 holds again, but the headroom is not empty.
        let held = bench.queue(0).headroom;
        assert_eq!(held, Bytes::kb(1), "the packet that found q̂ above Γ");
        let mut headroom_left = true;
        while headroom_left {
            bench.release(0, 1);
            headroom_left = bench.queue(0).headroom > Bytes::ZERO;
        }
        // Headroom leaves first, so a departure empties it; then the condition decides.
        bench.release(0, 100);
        assert_eq!(bench.off(), ClassSet::EMPTY);
        assert_eq!(bench.admit(0), SHARED);
    }

    #[test]
    fn headroom_has_to_be_empty() {
        let mut bench = Bench::new("reverie-text");
        bench.admit_all(0, 150, SHARED);
        while bench.off().is_empty() {
            bench.release(0, 1);
            let _ = bench.admit(0);
        }
        bench.admit_all(0, 4, HEADROOM);
        bench.release(0, 3);
        assert_eq!((bench.queue(0).headroom, bench.off()), (Bytes::kb(2), CLASSES[0].alone()));
        assert_eq!(bench.admit(0), HEADROOM, "every packet takes headroom until it is empty");
    }

    #[test]
    fn a_drained_queue_has_no_average_to_pause_by() {
        for name in ["reverie", "reverie-text"] {
            let mut bench = Bench::new(name);
            bench.admit_all(0, 150, SHARED);
            while bench.off().is_empty() {
                bench.release(0, 1);
                let _ = bench.admit(0);
            }
            bench.release(0, 150);
            assert_eq!(bench.off(), ClassSet::EMPTY, "{name}");
            // Γ = 20 KB, less than q̂ was.
            bench.others(180, true);
            bench.admit_all(0, 10, SHARED);
            assert_eq!(bench.off(), ClassSet::EMPTY, "{name} pauses a drained queue at its first packets");
        }
    }

    #[test]
    fn a_drained_lossy_queue_takes_packets_that_arrive_alone() {
        for name in ["reverie", "reverie-text"] {
            let mut bench = Bench::new(name);
            bench.others(90, true);
            for _ in 0..2_000 {
                bench.others(1, false);
                bench.others(1, true);
            }
            bench.others(90, false);
            // Γ = 50 KB, less than q̂ was.
            bench.admit_all(0, 150, SHARED);
            bench.others(1, true);
        }
    }
}

mod adaptive {
    use super::*;

    /// A peer that obeys after a delay, at line rate: fills the queue until it is OFF and goes on for as long as that.
    fn pause(bench: &mut Bench, delay: Span) {
        let frame = BitRate::gbps(10).time_for(Bytes::new(u64::from(FRAME)));
        let mut held = 0;
        while bench.off().is_empty() {
            bench.wait(frame);
            assert_ne!(bench.admit(0), LOST);
            held += 1;
        }
        let until = bench.now + delay;
        while bench.now + frame <= until {
            bench.wait(frame);
            assert_ne!(bench.admit(0), LOST);
            held += 1;
        }
        bench.wait(Span::from_millis(1));
        bench.release(0, held);
        assert_eq!(bench.off(), ClassSet::EMPTY);
    }

    #[test]
    fn headroom_follows_the_delay_after_some_pauses() {
        let mut bench = Bench::new("adaptive");
        let before = bench.mmu.pool_usage().capacity;
        for pauses in 0..4 {
            assert_eq!(bench.queue(0).headroom_limit, Bytes::new(PHI), "after {pauses} PAUSEs");
            pause(&mut bench, Span::from_micros(2));
        }
        // The fifth PAUSE's first packet shows that the fourth is over; the next packet finds Φ adapted:
        // two frames in 1.6 us at 10 Gb/s, a quarter more, and two frames of 1,522 B.
        bench.admit_all(0, 2, SHARED);
        let adapted = bench.queue(0).headroom_limit;
        assert_eq!(adapted, Bytes::new(2_000 + 500 + 2 * 1_522));
        assert_eq!(bench.mmu.pool_usage().capacity, before + (Bytes::new(PHI) - adapted), "the rest is shared");
        bench.release(0, 2);
        // A peer as slow as ever loses nothing; a slower one is noticed, and Φ grows again.
        pause(&mut bench, Span::from_micros(2));
        pause(&mut bench, Span::from_micros(3));
        bench.admit_all(0, 2, SHARED);
        assert!(bench.queue(0).headroom_limit > adapted);
        assert_eq!(bench.queue(1).headroom_limit, Bytes::new(PHI), "another queue has its own");
    }

    #[test]
    fn it_never_has_more_than_the_rule_nor_than_there_is_room_for() {
        let mut bench = Bench::new("adaptive");
        (0..5).for_each(|_| pause(&mut bench, Span::from_micros(2)));
        bench.admit_all(0, 2, SHARED);
        let adapted = bench.queue(0).headroom_limit;
        bench.release(0, 2);
        pause(&mut bench, Span::from_micros(3));
        // Before it can take back, others fill the shared segment to the last kilobyte.
        let free = bench.mmu.pool_usage().capacity.get() / u64::from(FRAME);
        let held = free - 1;
        // Lossy drops at half the free buffer: others are lossless here.
        let queue = |port| QueueId::new(PortId(port), CLASSES[1]);
        let frame = BufferRequest { ingress: queue(1), egress: queue(0), bytes: FRAME };
        let mut kept = 0;
        for _ in 0..held {
            let mut verdicts = [LOST];
            bench.mmu.admit(&mut bench.other, bench.now, &[frame], &mut verdicts);
            kept += u64::from(verdicts[0] == SHARED);
        }
        assert!(kept > 0);
        let _ = (bench.admit(0), bench.admit(0));
        let limit = bench.queue(0).headroom_limit;
        assert!(limit >= adapted && limit <= Bytes::new(PHI));
        let pool = bench.mmu.pool_usage();
        assert!(pool.used <= pool.capacity, "ceded only what was free");
    }
}
