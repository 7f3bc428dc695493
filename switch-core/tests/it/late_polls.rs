//! Polls that come late, in invented time: the line time that a port gives up, makes up, and reports as lost.

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_flowctl::CatchUp;
use weir_switch_core::counters::DropReason;
use weir_switch_core::line_time::LineTimeLoss;
use weir_switch_core::{DriverConfig, PortInfo};
use weir_units::{BitRate, Bytes, ClassSet, PortId, Span, Time};

use crate::common::*;

/// What a frame of the tests takes on the wire.
const WIRE: u64 = 1_538;
/// Between two polls while the loop runs.
const POLL: Span = Span::from_micros(20);
/// Frames that one poll moves.
const BURST: u64 = 32;

const BASE: Span = Span::from_micros(200);
const MOST: Span = Span::from_millis(100);
const FOLLOWING: CatchUp = CatchUp { base: BASE, most: MOST, memory: Some(Span::from_secs(1)) };

/// A shaped port that another one feeds, and a loop that is polled when the test says.
struct Late {
    bench: Bench,
    rate: BitRate,
    /// What always waits in [`Late::cycle`].
    backlog: Span,
    offered: u64,
    /// The instants of polls, and what had left after them: all, and the last of each cycle.
    sent: Vec<(Time, u64)>,
    ends: Vec<(Time, u64)>,
}

impl Late {
    fn new(rate: BitRate, catch_up: CatchUp) -> Late {
        Late::at_device("ring = \"b\"", rate, None, catch_up)
    }

    /// The port is of a NIC with a link of this speed.
    fn at_nic(rate: BitRate, link: BitRate, catch_up: CatchUp) -> Late {
        Late::at_device("pci = \"81:00.0\"", rate, Some(link), catch_up)
    }

    fn at_device(device: &str, rate: BitRate, link: Option<BitRate>, catch_up: CatchUp) -> Late {
        let toml = format!(
            "[buffer]\nsize = \"60MB\"\n[classes]\nlossless = [3]\n[pfc]\nobey = \"all\"\n\
             [[ports]]\nname = \"in\"\nring = \"a\"\nrate = \"100Gbps\"\n\
             [[ports]]\nname = \"out\"\n{device}\nrate = \"{rate}\"\n"
        );
        let facts = PortInfo { rate: link, ..PortInfo::default() };
        let mut bench = Bench::with_facts(&toml, LcoreLayout::Single, DriverConfig::real_time(catch_up), facts);
        bench.now = Time::ZERO + Span::from_secs(1);
        introduce(&mut bench);
        Late { bench, rate, backlog: Span::from_millis(200), offered: 0, sent: Vec::new(), ends: Vec::new() }
    }

    fn offer(&mut self, frames: u64) {
        for _ in 0..frames {
            self.bench.arrive(0, frame(0, 1, 0, self.offered));
            self.offered += 1;
        }
    }

    /// Polls once; returns how many frames left.
    fn poll(&mut self) -> u64 {
        let before = self.sent_frames();
        let now = self.bench.now;
        self.bench.step(Span::ZERO);
        self.sent.push((now, self.sent_frames()));
        self.sent_frames() - before
    }

    /// Polls for so long, each 10 us; returns how many frames left.
    fn poll_for(&mut self, span: Span) -> u64 {
        let (before, until) = (self.sent_frames(), self.bench.now + span);
        while self.bench.now < until {
            self.poll();
            self.bench.now += Span::from_micros(10);
        }
        self.sent_frames() - before
    }

    /// Polls the port, which has frames for `backlog` and more, for so long, then not for `off`.
    fn cycle(&mut self, on: Span, off: Span) {
        let enough = self.rate.bytes_in(self.backlog).get() / WIRE + 2 * BURST;
        let until = self.bench.now + on;
        while self.bench.now < until {
            if self.bench.arriving[0].len() < 32 && self.offered < self.sent_frames() + enough {
                self.offer(BURST);
            }
            self.poll();
            self.bench.now += POLL;
        }
        self.ends.extend(self.sent.last());
        self.bench.now += off;
    }

    /// Polls a few times at one instant; returns how many frames left.
    fn poll_at_once(&mut self) -> u64 {
        (0..10).map(|_| self.poll()).sum()
    }

    fn sent_frames(&self) -> u64 {
        self.bench.world.sent[1].len() as u64
    }

    /// Frames dropped, but for those by which stations were introduced.
    fn dropped(&mut self) -> u64 {
        let report = self.bench.report();
        report.conservation.dropped - report.dropped(DropReason::SamePort)
    }

    /// The most bytes that stood in the port's ring, as a link of this speed carries them off.
    fn ring_max(&self, link: BitRate) -> Bytes {
        let (mut free_at, mut before, mut most) = (Time::ZERO, 0, Span::ZERO);
        for (now, sent) in &self.sent {
            free_at = free_at.max(*now) + link.time_for(Bytes::new((sent - before) * WIRE));
            before = *sent;
            most = most.max(free_at.since(*now));
        }
        link.bytes_in(most)
    }

    fn line_time(&self) -> LineTimeLoss {
        self.bench.shared.ports()[1].line_time().expect("a shaped port")
    }

    /// The least and the largest share of the rate, in percent, from the end of a cycle to the first that is 100 ms later.
    fn share_of_rate(&self) -> (f64, f64) {
        let (mut least, mut largest) = (f64::MAX, 0f64);
        for (index, (from, before)) in self.ends.iter().enumerate() {
            let later = self.ends[index..].iter().find(|(at, _)| at.since(*from) >= Span::from_millis(100));
            let Some((to, after)) = later else { break };
            let whole = self.rate.bytes_in(to.since(*from)).get() as f64;
            let share = ((after - before) * WIRE) as f64 * 100.0 / whole;
            (least, largest) = (least.min(share), largest.max(share));
        }
        (least, largest)
    }
}

/// How long the loop runs, and how long it then stands still, in milliseconds: a fifth of a CPU, and at last a seventh.
const SCHEDULES: [(u64, u64); 5] = [(1, 4), (5, 20), (10, 40), (20, 80), (4, 24)];

#[test]
fn with_a_fifth_of_a_cpu_a_port_gives_its_rate() {
    for rate in [BitRate::mbps(60), BitRate::gbps(1)] {
        for (on, off) in SCHEDULES {
            let mut late = Late::new(rate, FOLLOWING);
            late.cycle(Span::from_millis(20), Span::ZERO);
            (0..300 / (on + off)).for_each(|_| late.cycle(Span::from_millis(on), Span::from_millis(off)));
            let (least, largest) = late.share_of_rate();
            assert!(least > 99.0 && largest < 101.0, "{rate}, {on} of {} ms: {least:.2} to {largest:.2} %", on + off);
            let line = late.line_time();
            assert_eq!(line.lost(), Span::ZERO, "{rate}, {on} of {} ms", on + off);
            let burst = line.burst_max;
            let is_the_gap = burst > Span::from_millis(off - 1) && burst < Span::from_millis(off + 1);
            assert!(is_the_gap, "{rate}, {on} of {} ms: {burst}", on + off);
            assert_eq!(late.dropped(), 0);
        }
    }
}

#[test]
fn what_a_small_bound_costs_is_told_to_the_frame() {
    // As it was for all: 200 us.
    let mut late = Late::new(BitRate::mbps(60), CatchUp::at_most(BASE));
    late.cycle(Span::from_millis(20), Span::ZERO);
    let (began, line) = (*late.sent.last().unwrap(), late.line_time());
    (0..20).for_each(|_| late.cycle(Span::from_millis(4), Span::from_millis(16)));
    let ended = *late.sent.last().unwrap();
    let line = late.line_time().since(&line);
    let span = ended.0.since(began.0);
    let rate = BitRate::average(Bytes::new((ended.1 - began.1) * WIRE), span).unwrap();
    assert!(rate < BitRate::mbps(14), "{rate}");
    // What the wire did and what it lost is all the time there was.
    let sending = late.rate.time_for(Bytes::new((ended.1 - began.1) * WIRE));
    let frame = late.rate.time_for(Bytes::new(WIRE));
    let all = sending + line.lost_late;
    assert!(all + frame > line.waited && line.waited + frame > all, "{all} of {}", line.waited);
    let told = late.rate.as_bps() as f64 * (1.0 - line.percent_below_rate() / 100.0);
    assert!((told / rate.as_bps() as f64 - 1.0).abs() < 0.01, "{told} b/s told, {rate} measured");
    assert_eq!(line.lost_refused, Span::ZERO);
}

#[test]
fn a_gap_beyond_the_bound_is_made_up_so_far_and_the_rest_is_lost() {
    let mut late = Late::new(BitRate::mbps(60), FOLLOWING);
    late.backlog = Span::from_secs(1);
    late.cycle(Span::from_millis(40), Span::from_secs(1));
    let burst = late.poll_for(Span::from_millis(20));
    let at_most = late.rate.bytes_in(MOST + Span::from_millis(20)).get() / WIRE + 1;
    assert!(burst == at_most || burst + 1 == at_most, "{burst} frames, {at_most} at most");
    let (lost, frame) = (late.line_time().lost_late, late.rate.time_for(Bytes::new(WIRE)));
    let beyond = Span::from_millis(900);
    assert!(lost <= beyond + POLL && lost + frame >= beyond, "{lost} lost");
    assert_eq!(late.bench.report().ports[1].line_time, Some(late.line_time()));
}

#[test]
fn no_more_is_lost_than_waited() {
    let mut late = Late::new(BitRate::mbps(60), FOLLOWING);
    late.offer(20);
    late.poll();
    // Ten times what these take.
    late.bench.now += Span::from_secs(1);
    assert_eq!(late.poll_for(Span::from_millis(1)), 19, "all that waited");
    assert_eq!(late.line_time().lost(), Span::ZERO);
}

#[test]
fn an_idle_port_saves_nothing_up() {
    let mut late = Late::new(BitRate::mbps(60), FOLLOWING);
    for polled_late in [false, true] {
        // The bound is large, as polls have been late.
        (0..10).for_each(|_| late.cycle(Span::from_millis(5), Span::from_millis(20)));
        for _ in 0..20_000 {
            late.poll();
            late.bench.now += POLL;
        }
        assert_eq!(late.sent_frames(), late.offered, "idle");
        if polled_late {
            late.bench.now += Span::from_millis(20);
        }
        late.offer(30);
        // 200 us are one frame at this rate.
        let burst = late.poll_at_once();
        assert!((1..=2).contains(&burst), "{burst} frames at once");
    }
}

#[test]
fn a_pause_is_not_made_up() {
    let mut late = Late::new(BitRate::mbps(60), FOLLOWING);
    (0..10).for_each(|_| late.cycle(Span::from_millis(5), Span::from_millis(20)));
    (0..30).for_each(|n| late.bench.arrive(0, frame(0, 1, 3, n)));
    late.bench.arrive(1, pfc(ClassSet::ALL, u16::MAX));
    late.poll();
    assert_eq!(late.poll_at_once(), 0, "paused");
    let before = late.line_time();
    for _ in 0..50 {
        late.bench.now += Span::from_millis(1);
        assert_eq!(late.poll(), 0, "paused");
    }
    assert_eq!(late.line_time().since(&before).waited, Span::ZERO);
    late.bench.arrive(1, pfc(ClassSet::ALL, 0));
    let burst = late.poll_at_once();
    assert!((1..=2).contains(&burst), "{burst} frames at once");
}

#[test]
fn a_device_that_takes_nothing_is_told_apart() {
    let mut late = Late::new(BitRate::gbps(1), FOLLOWING);
    late.cycle(Span::from_millis(40), Span::ZERO);
    late.bench.world.accepts = Some(0);
    late.cycle(Span::from_millis(50), Span::ZERO);
    let line = late.line_time();
    assert_eq!(line.lost_late, Span::ZERO);
    let stalled = Span::from_millis(50) - BASE;
    assert!(line.lost_refused + POLL * 3 >= stalled && line.lost_refused <= stalled, "{}", line.lost_refused);
    // A stall is no late poll: it is made up by the base alone.
    late.bench.world.accepts = None;
    let burst = late.poll_at_once();
    assert!(burst <= BURST + late.rate.bytes_in(BASE).get() / WIRE + 1, "{burst} frames");
    // A gap with a device that takes frames again is a late poll's.
    late.cycle(Span::from_millis(20), Span::from_millis(180));
    late.cycle(Span::from_millis(2), Span::ZERO);
    let since = late.line_time().since(&line);
    assert!(since.lost_late >= Span::from_millis(79) && since.lost_late <= Span::from_millis(81), "{since:?}");
}

#[test]
fn what_waited_before_a_window_and_is_lost_in_it_is_no_more_than_all() {
    let mut late = Late::new(BitRate::mbps(60), FOLLOWING);
    late.cycle(Span::from_millis(20), Span::from_millis(90));
    // 90 ms are to be made up, and the device takes nothing from here on.
    late.poll();
    late.bench.world.accepts = Some(0);
    let mut lost_beyond = Span::ZERO;
    for _ in 0..3 {
        let before = late.line_time();
        for _ in 0..1_000 {
            late.bench.now += Span::from_millis(1);
            late.poll();
        }
        let window = late.line_time().since(&before);
        lost_beyond = lost_beyond.max(window.lost().saturating_sub(window.waited));
        assert!(window.percent_below_rate() <= 100.0, "{} % of {window:?}", window.percent_below_rate());
    }
    assert!(lost_beyond > Span::from_millis(80), "{lost_beyond}");
}

#[test]
fn a_device_that_takes_a_burst_slowly_still_gets_all_of_it() {
    let mut late = Late::new(BitRate::gbps(1), FOLLOWING);
    late.cycle(Span::from_millis(40), Span::ZERO);
    // 5 frames a poll are 3 Gb/s.
    late.bench.world.accepts = Some(5);
    let began = *late.sent.last().unwrap();
    (0..20).for_each(|_| late.cycle(Span::from_millis(10), Span::from_millis(10)));
    let ended = *late.sent.last().unwrap();
    let rate = BitRate::average(Bytes::new((ended.1 - began.1) * WIRE), ended.0.since(began.0)).unwrap();
    assert!(rate.as_bps().abs_diff(1_000_000_000) < 10_000_000, "{rate}");
    assert_eq!(late.line_time().lost(), Span::ZERO);
}

#[test]
fn a_catch_up_is_no_faster_than_eight_times_the_rate() {
    let mut late = Late::new(BitRate::gbps(1), FOLLOWING);
    late.cycle(Span::from_millis(40), Span::from_millis(50));
    let at_once = late.rate.bytes_in(BASE).get() / WIRE + 1;
    assert_eq!(late.poll_at_once(), at_once);
    let eightfold = late.rate.bytes_in(Span::from_millis(8)).get() / WIRE;
    let sent = late.poll_for(Span::from_millis(1));
    assert!(sent <= eightfold + 1 && sent + 20 >= eightfold, "{sent} frames, {eightfold} are eight times the rate");
    // Whoever gives the CPU away when nothing moved would be late again.
    let is_behind = |late: &Late| late.bench.lcores[0].is_behind();
    assert!(is_behind(&late));
    late.poll_for(Span::from_millis(7));
    assert!(!is_behind(&late), "caught up");
    assert_eq!(late.line_time().lost(), Span::ZERO);
}

/// A NIC's ring takes a late poll's frames as fast as they come, and its link carries them no faster than it does.
#[test]
fn a_late_poll_fills_no_nics_ring_beyond_its_bound() {
    // 50 us, or two frames of the greatest length.
    let bound = |link: BitRate| link.bytes_in(Span::from_micros(50)).max(Bytes::new(2 * 1_542));
    for (rate, link) in [(10_000, 10_000), (1_000, 1_000), (5_000, 10_000), (1_000, 10_000), (1_000, 100), (100, 100)] {
        let (rate, link) = (BitRate::mbps(rate), BitRate::mbps(link));
        let mut late = Late::at_nic(rate, link, FOLLOWING);
        late.backlog = Span::from_millis(20);
        for gap in [0, 20, 150, 1_000, 20_000] {
            late.cycle(Span::from_millis(1), Span::from_micros(gap));
            late.poll_at_once();
        }
        // A link that is slower for a moment carries off no more.
        late.bench.shared.set_link_rate(PortId(1), BitRate::bps(link.as_bps() / 2));
        late.poll_at_once();
        late.bench.shared.set_link_rate(PortId(1), link);
        late.poll_at_once();
        let most = late.ring_max(link);
        assert!(most <= bound(link), "{rate} on a link of {link}: {most} in the ring, {} at most", bound(link));
        // Nor does the link run dry while polls come in time.
        let (began, from) = (late.bench.now, late.sent_frames());
        late.cycle(Span::from_millis(20), Span::ZERO);
        let carried =
            BitRate::average(Bytes::new((late.sent_frames() - from) * WIRE), late.bench.now.since(began)).unwrap();
        assert!(carried.as_bps() * 100 > rate.min(link).as_bps() * 99, "{rate} on a link of {link}: {carried}");
    }
}

/// What the ring of a NIC does not hold when a poll is late is lost and counted; the lcore does not spin for it.
#[test]
fn a_nic_at_its_links_speed_makes_up_what_its_ring_holds() {
    let rate = BitRate::gbps(1);
    let mut late = Late::at_nic(rate, rate, FOLLOWING);
    late.cycle(Span::from_millis(40), Span::from_millis(10));
    let before = late.line_time();
    assert_eq!(late.poll_at_once(), 4, "of 50 us, with the one on the wire");
    let lost = late.line_time().since(&before).lost_late;
    let beyond = Span::from_millis(10) - Span::from_micros(50);
    assert!(lost >= beyond && lost < beyond + POLL * 2, "{lost}");
    assert!(!late.bench.lcores[0].is_behind(), "its link has enough to carry");
}

#[test]
fn a_faster_link_and_a_device_without_one_hold_no_catch_up_back() {
    let burst = |late: &mut Late| {
        late.cycle(Span::from_millis(40), Span::from_millis(10));
        late.poll_for(Span::from_millis(2))
    };
    let of_ring = burst(&mut Late::new(BitRate::gbps(1), FOLLOWING));
    let of_nic = burst(&mut Late::at_nic(BitRate::gbps(1), BitRate::gbps(10), FOLLOWING));
    assert_eq!(of_ring, of_nic, "a link that is ten times as fast holds nothing back");
    assert!(of_ring * WIRE > BitRate::gbps(1).bytes_in(Span::from_millis(11)).get(), "{of_ring}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the polls and the backlog: from any poll to any later one no more leaves than the rate and the bound allow, nor
    /// more than the base and eight times the rate; and a port that always has frames sends what the rate allows, to two frames,
    /// while gaps stay within the bound and the loop runs for a fifth of the time.
    #[test]
    fn between_any_two_polls_the_rate_is_kept_and_met(
        gaps in prop::collection::vec((1..80_000u64, 0..10u32, 0..400u64), 2..20),
        rate in prop::sample::select(vec![BitRate::mbps(10), BitRate::mbps(60), BitRate::mbps(250)]),
        always in any::<bool>(),
    ) {
        let mut late = Late::new(rate, FOLLOWING);
        late.backlog = if always { Span::from_millis(200) } else { Span::ZERO };
        let frame_time = rate.time_for(Bytes::new(WIRE));
        late.cycle(Span::from_millis(5), Span::ZERO);
        for (us, halvings, offered) in gaps {
            if !always {
                late.offer(offered);
            }
            // From some microseconds to 80 ms, evenly over the magnitudes.
            let gap = Span::from_micros(us >> halvings);
            late.bench.now += gap;
            late.cycle(gap.divided_by(4) + frame_time.divided_by(4) + POLL * 2, Span::ZERO);
        }
        prop_assert_eq!(late.dropped(), 0);
        let frame = WIRE;
        let some = late.sent.len() / 100 + 1;
        for (index, (from, before)) in late.sent.iter().enumerate().step_by(some) {
            for (to, after) in late.sent[index + 1..].iter().step_by(some) {
                let (bytes, span) = ((after - before) * WIRE, to.since(*from));
                prop_assert!(bytes <= rate.bytes_in(span + MOST).get() + frame, "{bytes} B in {span}");
                prop_assert!(bytes <= rate.bytes_in(span * 8 + BASE).get() + frame, "{bytes} B in {span}");
            }
        }
        for pair in late.ends.windows(2).filter(|_| always) {
            let (bytes, span) = ((pair[1].1 - pair[0].1) * WIRE, pair[1].0.since(pair[0].0));
            prop_assert!(bytes + 2 * frame >= rate.bytes_in(span).get(), "{bytes} B in {span}");
        }
        if always {
            prop_assert_eq!(late.line_time().lost(), Span::ZERO);
        }
    }
}
