//! Stations at the far ends of ring links: senders that obey PFC, and a receiver that checks what it gets.

#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_dpdk_driver::{FrameStore, Phase, RunningSwitches, Stopped, Task};
use weir_dpdk_io::{Batch, Clock, Mbuf, RingEnd};
use weir_flowctl::Quantum;
use weir_flowctl::pfc::PauseTimers;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, SerialisationDelay, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

pub(crate) const FRAME_BYTES: u16 = 60;
const ON_WIRE: u64 = FRAME_BYTES as u64 + 4 + 20;
/// Upper bound on the time that a late sender makes up.
const SLACK: Span = Span::from_micros(200);
const BURST: usize = 32;

/// Counters of the stations, for the test.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    pub reordered: AtomicU64,
    pub pfc_seen: AtomicU64,
    /// While set, receivers take nothing. Their port stands still and its queues fill, however late the senders are polled.
    pub held_back: AtomicBool,
    /// While set, senders send nothing.
    pub silent: AtomicBool,
}

impl Tally {
    /// Lets the receivers take frames once the switch has sent a PAUSE, or nothing is left that could cause one.
    pub(crate) fn release_after(&self, pauses: u64, frames: u64) {
        if pauses > 0 || self.sent.load(Ordering::Relaxed) == frames {
            self.held_back.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether frames go on, however little of its CPUs the machine gives to lcores.
pub(crate) struct Progress {
    moved: u64,
    /// Polls of each lcore when the last frame moved, and when that was.
    polls: Vec<u64>,
    since: Instant,
}

impl Progress {
    /// In so many polls of each lcore, and so much time, some frame moves.
    const POLLS: u64 = 1_000;
    const WITHIN: Duration = Duration::from_secs(10);

    pub(crate) fn new() -> Progress {
        Progress { moved: 0, polls: Vec::new(), since: Instant::now() }
    }

    /// Whether some frame was sent or received since the last call, or the lcores have not had enough polls for that.
    pub(crate) fn goes_on(&mut self, tally: &Tally, running: &RunningSwitches) -> bool {
        let moved = tally.sent.load(Ordering::Relaxed) + tally.received.load(Ordering::Relaxed);
        let polls: Vec<u64> = running.lcores().map(|(_, stats)| stats.polls().0).collect();
        if moved > self.moved || self.polls.is_empty() {
            *self = Progress { moved, polls, since: Instant::now() };
            return true;
        }
        self.since.elapsed() < Progress::WITHIN
            || polls.iter().zip(&self.polls).any(|(polls, before)| polls - before < Progress::POLLS)
    }
}

/// Headroom covers a reaction of 42 ms, in which up to four polls have their part: of the switch's lcores, and of the sender.
const COVERED: Span = Span::from_millis(10);

/// What headroom did not cover, because the machine kept an lcore from its CPU for longer than it was made for: such frames are no
/// loss of the switch's, and what came is incomplete. 0 where each lcore was polled in time. Frames arrive at this rate at most.
///
/// # Panics
/// If more is lost than arrived in such gaps: that is a loss of the switch's, whatever the machine did.
pub(crate) fn lost_to_the_machine(what: &str, stopped: &Stopped, arriving: BitRate) -> u64 {
    let lost: u64 = stopped.reports.iter().map(|report| report.dropped(DropReason::HeadroomViolation)).sum();
    let gaps = stopped.lcores.iter().flat_map(|(_, stats)| stats.gaps().counts().lengths().collect::<Vec<_>>());
    let longest = stopped.gap_max();
    let unpolled: Span = gaps.filter(|(gap, _)| *gap >= COVERED).map(|(gap, count)| gap.min(longest) * count).sum();
    if lost == 0 || unpolled == Span::ZERO {
        return 0;
    }
    let arrived = arriving.bytes_in(unpolled).get() / ON_WIRE;
    assert!(
        lost <= arrived,
        "{what}: {lost} frames were more than headroom has, and in the {unpolled} without polls no more than {arrived} arrived"
    );
    println!("{what}: {lost} frames were more than headroom has: lcores were not polled for {unpolled}");
    lost
}

/// Sends numbered frames of one class at a rate, as long as it is not paused.
pub(crate) struct Sender {
    pub link: RingEnd,
    pub store: FrameStore,
    pub tally: Arc<Tally>,
    stations: StationPair,
    dscp: u8,
    left: u64,
    next: u64,
    pause_timers: PauseTimers,
    serialiser: SerialisationDelay,
    free_at: Time,
    unsent: Batch,
    received: Batch,
    /// A deaf sender ignores PAUSE.
    pub deaf: bool,
}

/// Source and destination station of frames.
#[derive(Clone, Copy)]
pub(crate) struct StationPair {
    pub from: u8,
    pub to: u8,
}

pub(crate) fn station(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n])
}

impl Sender {
    pub(crate) fn new(
        link: RingEnd,
        store: FrameStore,
        tally: Arc<Tally>,
        stations: StationPair,
        dscp: u8,
        frames: u64,
        rate: BitRate,
    ) -> Sender {
        Sender {
            link,
            store,
            tally,
            stations,
            dscp,
            left: frames,
            next: 0,
            pause_timers: PauseTimers::new(Quantum::for_rate(rate)),
            serialiser: SerialisationDelay::new(rate),
            free_at: Time::ZERO,
            unsent: Batch::new(),
            received: Batch::new(),
            deaf: false,
        }
    }

    fn frame(&mut self) -> Option<Mbuf> {
        let mut mbuf = self.store.data.alloc()?;
        let bytes = mbuf.append(FRAME_BYTES)?;
        bytes.fill(0);
        bytes[0..6].copy_from_slice(&station(self.stations.to).0);
        bytes[6..12].copy_from_slice(&station(self.stations.from).0);
        bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
        bytes[14] = 0x45;
        bytes[15] = self.dscp << 2;
        bytes[34..42].copy_from_slice(&self.next.to_be_bytes());
        bytes[42] = self.stations.from;
        Some(mbuf)
    }
}

impl Task for Sender {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let now = Time::from_picos(clock.now_ps());
        self.link.receive(&mut self.received, BURST);
        for mbuf in self.received.iter() {
            if !self.deaf
                && let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(mbuf.data())
            {
                self.pause_timers.handle_pfc(now, &pfc);
                self.tally.pfc_seen.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.received.clear();
        if phase > Phase::Run {
            self.unsent.clear();
            return 0;
        }
        // The preset has these classes by the code points of their number.
        let paused =
            self.tally.silent.load(Ordering::Relaxed) || self.pause_timers.paused(now).contains(Class::new(self.dscp));
        while self.unsent.len() < BURST && self.left > 0 && !paused && self.free_at <= now {
            let Some(frame) = self.frame() else { break };
            assert!(self.unsent.push(frame).is_ok());
            self.free_at = self.free_at.max(now.saturating_sub(SLACK)) + self.serialiser.time_for(Bytes::new(ON_WIRE));
            self.next += 1;
            self.left -= 1;
        }
        let sent = if self.unsent.is_empty() { 0 } else { self.link.send(&mut self.unsent) };
        self.tally.sent.fetch_add(sent as u64, Ordering::Relaxed);
        sent
    }
}

/// Receives, and checks that each sender's frames come in order and complete.
pub(crate) struct Receiver {
    link: RingEnd,
    store: FrameStore,
    tally: Arc<Tally>,
    expected: [u64; 256],
    batch: Batch,
    introduced: bool,
    station: u8,
    /// Pauses this class of the switch for ever.
    pub pauses: Option<ClassSet>,
}

impl Receiver {
    pub(crate) fn new(link: RingEnd, store: FrameStore, tally: Arc<Tally>, station: u8) -> Receiver {
        Receiver {
            link,
            store,
            tally,
            expected: [0; 256],
            batch: Batch::new(),
            introduced: false,
            station,
            pauses: None,
        }
    }

    fn send(&mut self, bytes: &[u8; 60]) -> bool {
        let Some(mut mbuf) = self.store.data.alloc() else { return false };
        mbuf.append(60).expect("an empty mbuf").copy_from_slice(bytes);
        let mut batch = Batch::new();
        assert!(batch.push(mbuf).is_ok());
        self.link.send(&mut batch) == 1
    }
}

impl Task for Receiver {
    fn poll(&mut self, _clock: &Clock, phase: Phase) -> usize {
        if !self.introduced && phase == Phase::Run {
            let mut hello = [0; 60];
            hello[0..6].copy_from_slice(&station(self.station).0);
            hello[6..12].copy_from_slice(&station(self.station).0);
            self.introduced = self.send(&hello);
        }
        if let Some(classes) = self.pauses.take() {
            let pfc = ControlFrame::Pfc(PfcFrame { enabled: classes, times: [u16::MAX; 8] });
            self.send(&pfc.encode(station(self.station)));
        }
        if self.tally.held_back.load(Ordering::Relaxed) {
            return 0;
        }
        let received = self.link.receive(&mut self.batch, 64);
        for mbuf in self.batch.iter() {
            let bytes = mbuf.data();
            if bytes.len() < 60 || bytes[12..14] != [8, 0] {
                continue;
            }
            let sequence = u64::from_be_bytes(bytes[34..42].try_into().expect("eight bytes"));
            let expected = &mut self.expected[usize::from(bytes[42])];
            if sequence != *expected {
                self.tally.reordered.fetch_add(1, Ordering::Relaxed);
            }
            *expected = sequence + 1;
            self.tally.received.fetch_add(1, Ordering::Relaxed);
        }
        self.batch.clear();
        received
    }
}
