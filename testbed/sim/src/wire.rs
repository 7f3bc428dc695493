//! One direction of a link in virtual time: transmission and propagation.

use std::collections::VecDeque;
use std::iter::Sum;
use std::sync::Arc;

use prefetch_index::prefetch_index;
use weir_scenario::link::{FaultCounters, FaultPlan, Faults, LinkFrame, LlrPlan};
use weir_switch_core::Packet;
use weir_units::{Bytes, SerialisationDelay, Span, Time};

use super::frame::Frame;

/// Wire: a frame takes its transmission time, with the overhead on the wire, then the propagation delay. It arrives
/// with its last byte. A frame sent during another's transmission waits for its end.
// A cache line of its own, which each frame touches.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Wire {
    node: u32,
    port: u16,
    /// True if frames pass; false if the link is down.
    is_up: bool,
    parameters: Arc<WireParameters>,
    free_at: Time,
    in_flight: InFlight,
    lost_link_down: LostFrames,
    /// Frames sent minus frames taken; negative if faults duplicate some.
    #[cfg(debug_assertions)]
    not_taken: i64,
}

/// Frames sent while a wire was down, or in flight when it went down: numbers up to 2^32 - 1, as a wire is a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LostFrames {
    /// Data of lossless classes.
    pub(super) lossless: u32,
    /// Other frames, flow control included.
    pub(super) others: u32,
}

/// Destination of a wire: a port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodePort {
    pub(super) node: u32,
    /// Port; 0 for a host.
    pub(super) port: u16,
}

impl NodePort {
    /// Destination node of a near half, whose far half is in another logical process.
    pub(super) const REMOTE_NODE: u32 = u32::MAX;
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct WireParameters {
    pub(super) rate: SerialisationDelay,
    /// Bytes on the wire beyond the frame's length without FCS.
    pub(super) overhead: Bytes,
    pub(super) delay: Span,
    /// DSCPs of lossless classes, one bit each.
    pub(super) lossless_dscp_set: u64,
    /// Whether the link has link layer retry.
    pub(super) has_llr: bool,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Wire>() == 64);

/// Frames in transmission, waiting for it, or in propagation.
#[derive(Debug)]
enum InFlight {
    /// Frames with their arrival times.
    Plain(VecDeque<(Time, Frame)>),
    Faulty(Box<FaultyInFlight>),
}

/// Largest number of frames of a wire that are prefetched.
const FRAMES_AHEAD: usize = 40;

/// Frames of a wire with injected faults, which apply when a frame's last byte leaves.
#[derive(Debug)]
struct FaultyInFlight {
    faults: Faults<Frame>,
    delay: Span,
    frames: VecDeque<(Time, Frame)>,
}

impl Wire {
    pub(super) fn new(parameters: Arc<WireParameters>, faults: FaultPlan, destination: NodePort) -> Wire {
        let in_flight = if faults.is_none() {
            InFlight::Plain(VecDeque::new())
        } else {
            let (faults, delay) = (Faults::new(faults), parameters.delay);
            InFlight::Faulty(Box::new(FaultyInFlight { faults, delay, frames: VecDeque::new() }))
        };
        let NodePort { node, port } = destination;
        Wire {
            node,
            port,
            is_up: true,
            parameters,
            free_at: Time::ZERO,
            in_flight,
            lost_link_down: LostFrames::default(),
            #[cfg(debug_assertions)]
            not_taken: 0,
        }
    }

    #[inline]
    pub(super) fn destination(&self) -> NodePort {
        NodePort { node: self.node, port: self.port }
    }

    /// Sets the number of the destination node.
    pub(super) fn set_destination_node(&mut self, node: u32) {
        self.node = node;
    }

    /// Splits the wire into a near half, on which frames are put, and a far half, from which they are taken. Faults and
    /// the frames they hold back stay on the near half; frames with a known arrival go to the far half.
    pub(super) fn split(mut self) -> [Wire; 2] {
        let mut far = Wire::new(self.parameters.clone(), FaultPlan::default(), self.destination());
        let mut frames = VecDeque::new();
        self.hand_over(&mut frames);
        far.deliver(&mut frames);
        self.node = NodePort::REMOTE_NODE;
        [self, far]
    }

    /// Joins the two halves of a wire.
    pub(super) fn join([mut near, mut far]: [Wire; 2]) -> Wire {
        // Frames on the near half arrive after those on the far half.
        let mut frames = VecDeque::new();
        near.hand_over(&mut frames);
        far.deliver(&mut frames);
        let mut frames = VecDeque::new();
        far.hand_over(&mut frames);
        near.deliver(&mut frames);
        near.node = far.node;
        near.lost_link_down += far.lost_link_down;
        #[cfg(debug_assertions)]
        {
            // Frames cut off on the far half were never taken.
            near.not_taken += far.not_taken;
            near.audit();
        }
        near
    }

    /// Whether the wire is a near half.
    pub(super) fn is_near_half(&self) -> bool {
        self.node == NodePort::REMOTE_NODE
    }

    /// Whether the wire has injected faults, which may determine a frame's arrival time late.
    pub(super) fn is_faulty(&self) -> bool {
        matches!(self.in_flight, InFlight::Faulty(_))
    }

    /// Moves frames with a known arrival to `frames`, in exchange for an empty buffer.
    #[inline]
    pub(super) fn hand_over(&mut self, frames: &mut VecDeque<(Time, Frame)>) {
        debug_assert!(frames.is_empty());
        let on = self.frames_mut();
        std::mem::swap(on, frames);
        #[cfg(debug_assertions)]
        {
            self.not_taken -= frames.len() as i64;
            self.audit();
        }
    }

    /// Adds frames from the near half, in exchange for an empty buffer; returns the first arrival time on the wire.
    #[inline]
    pub(super) fn deliver(&mut self, frames: &mut VecDeque<(Time, Frame)>) -> Option<Time> {
        #[cfg(debug_assertions)]
        {
            self.not_taken += frames.len() as i64;
        }
        let on = self.frames_mut();
        // Few frames are left: those sent last before the window's end.
        while let Some(left) = on.pop_back() {
            frames.push_front(left);
        }
        std::mem::swap(on, frames);
        let first = on.front().map(|(arrives, _)| *arrives);
        self.audit();
        first
    }

    #[inline]
    fn frames_mut(&mut self) -> &mut VecDeque<(Time, Frame)> {
        match &mut self.in_flight {
            InFlight::Plain(frames) => frames,
            InFlight::Faulty(faulty) => &mut faulty.frames,
        }
    }

    /// Moves held-back frames that arrive by `limit` to the frames in flight.
    pub(super) fn release_until(&mut self, limit: Time) {
        if let InFlight::Faulty(faulty) = &mut self.in_flight {
            faulty.release_until(limit.saturating_sub(faulty.delay));
        }
    }

    /// Returns the earliest known arrival time; [`Time::NEVER`] if there is none.
    pub(super) fn next_arrival(&self) -> Time {
        match &self.in_flight {
            InFlight::Plain(frames) => frames.front().map_or(Time::NEVER, |(arrives, _)| *arrives),
            InFlight::Faulty(faulty) => faulty.next_wakeup(),
        }
    }

    /// Puts a frame on the wire at `now`, or after the frames in transmission. Returns the first arrival time if it
    /// changed, which is rare: usually earlier frames are in flight.
    #[inline(always)]
    pub(super) fn send(&mut self, now: Time, frame: Frame) -> Option<Time> {
        let leaves = self.free_at.max(now) + self.parameters.time_for(frame.frame_bytes());
        self.free_at = leaves;
        #[cfg(debug_assertions)]
        {
            self.not_taken += 1;
        }
        if !self.is_up {
            return self.lose(frame);
        }
        let first = match &mut self.in_flight {
            InFlight::Plain(frames) => {
                if frames.len() == frames.capacity() {
                    make_room(frames);
                }
                let arrives = leaves + self.parameters.delay;
                let is_first = frames.is_empty();
                frames.push_back((arrives, frame));
                is_first.then_some(arrives)
            }
            InFlight::Faulty(faulty) => {
                let (first, _arrivals) = faulty.send_and_look(leaves, frame, self.parameters.has_llr);
                #[cfg(debug_assertions)]
                {
                    self.not_taken += _arrivals;
                }
                first
            }
        };
        self.audit();
        first
    }

    /// Puts a message of link layer retry on the wire, as [`Wire::send`] does.
    #[cold]
    #[inline(never)]
    pub(super) fn send_llr_message(&mut self, now: Time, frame: Frame) -> Option<Time> {
        let leaves = self.free_at.max(now) + self.parameters.rate.time_for(LlrPlan::MESSAGE_BYTES);
        self.free_at = leaves;
        #[cfg(debug_assertions)]
        {
            self.not_taken += 1;
        }
        if !self.is_up {
            return self.lose(frame);
        }
        let first = self.next_arrival();
        match &mut self.in_flight {
            InFlight::Plain(frames) => frames.push_back((leaves + self.parameters.delay, frame)),
            // Faults take no messages.
            InFlight::Faulty(faulty) => faulty.send(leaves, frame),
        }
        self.audit();
        let arrives = self.next_arrival();
        (arrives != first).then_some(arrives)
    }

    /// Counts a frame as lost because the wire is down.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, frame: Frame) -> Option<Time> {
        self.lost_link_down += self.parameters.lost(&frame);
        None
    }

    /// Returns the shortest time from sending this many bytes on the wire, or more, to their arrival.
    pub(super) fn lookahead(&self, wire: Bytes) -> Span {
        let wire = if self.parameters.has_llr { wire.min(LlrPlan::MESSAGE_BYTES) } else { wire };
        self.parameters.delay + self.parameters.rate.time_for(wire)
    }

    /// Returns the length without FCS, modulo 2^32, of a frame with this many bytes on the wire.
    pub(super) fn frame_bytes(&self, wire: Bytes) -> u32 {
        (wire.get() as u32).wrapping_sub(self.parameters.overhead.get() as u32)
    }

    /// Returns the instant from which the wire is free.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns the time that these bytes take, without overhead.
    pub(super) fn time_for_bytes(&self, bytes: Bytes) -> Span {
        self.parameters.rate.time_for(bytes)
    }

    /// Whether the link has link layer retry, which recovers lost frames.
    pub(super) fn has_llr(&self) -> bool {
        self.parameters.has_llr
    }

    /// Returns a lost frame's count.
    pub(super) fn lost(&self, frame: &Frame) -> LostFrames {
        self.parameters.lost(frame)
    }

    /// Calls `each` with every arrival time up to `limit`; returns the next known one after it. Precondition: no frame
    /// sent later arrives by `limit`.
    #[inline]
    pub(super) fn arriving(&mut self, limit: Time, mut each: impl FnMut(Time)) -> Time {
        let (frames, held) = match &mut self.in_flight {
            InFlight::Plain(frames) => (&*frames, Time::NEVER),
            InFlight::Faulty(faulty) => {
                faulty.release_until(limit.saturating_sub(faulty.delay));
                (&faulty.frames, faulty.faults.next_wakeup().saturating_add(faulty.delay))
            }
        };
        for (at, _) in frames {
            if *at > limit {
                return held.min(*at);
            }
            each(*at);
        }
        held
    }

    /// Prefetches the ring buffer's first entries.
    #[inline]
    pub(super) fn prefetch(&self) {
        let (first, others) = self.frames().as_slices();
        for frames in [first, others] {
            // Two entries per cache line.
            (0..frames.len().min(FRAMES_AHEAD)).step_by(2).for_each(|place| prefetch_index(frames, place));
        }
    }

    /// Prefetches the first frames themselves.
    #[inline]
    pub(super) fn prefetch_frames(&self) {
        self.frames().iter().take(FRAMES_AHEAD).for_each(|(_, frame)| frame.prefetch());
    }

    #[inline]
    fn frames(&self) -> &VecDeque<(Time, Frame)> {
        match &self.in_flight {
            InFlight::Plain(frames) => frames,
            InFlight::Faulty(faulty) => &faulty.frames,
        }
    }

    /// Takes the next frame that [`Wire::arriving`] listed.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Frame {
        let frames = match &mut self.in_flight {
            InFlight::Plain(frames) => frames,
            InFlight::Faulty(faulty) => &mut faulty.frames,
        };
        let (_, frame) = frames.pop_front().expect("it was there");
        #[cfg(debug_assertions)]
        {
            self.not_taken -= 1;
        }
        self.audit();
        frame
    }

    /// Asserts in debug builds that each frame sent or duplicated was taken or lost, or is in flight.
    ///
    /// # Panics
    /// If a frame is unaccounted for: a bug in the program.
    fn audit(&self) {
        #[cfg(debug_assertions)]
        {
            let faults = self.fault_counters();
            let lost = faults.lost + faults.corrupted + self.lost_link_down.total();
            let in_flight = self.frames_in_flight() as u64;
            assert_eq!(
                self.not_taken + faults.duplicated as i64,
                (lost + in_flight) as i64,
                "frames on a wire: {faults:?}, {in_flight} in flight"
            );
        }
    }

    /// Sets the wire up or down; going down loses the frames in flight.
    pub(super) fn set_up(&mut self, is_up: bool) {
        self.is_up = is_up;
        if !is_up {
            let frames = match &mut self.in_flight {
                InFlight::Plain(frames) => std::mem::take(frames),
                InFlight::Faulty(faulty) => faulty.take(),
            };
            frames.iter().for_each(|(_, frame)| self.lost_link_down += self.parameters.lost(frame));
        }
        self.audit();
    }

    /// Returns the arrival time of the last frame sent; [`Time::NEVER`] if the wire is down.
    pub(super) fn last_arrival(&self) -> Time {
        if self.is_up { self.free_at + self.parameters.delay } else { Time::NEVER }
    }

    /// Returns the arrival time of the last frame sent, ignoring faults and link state.
    pub(super) fn sent_until(&self) -> Time {
        self.free_at + self.parameters.delay
    }

    pub(super) fn lost_link_down(&self) -> LostFrames {
        self.lost_link_down
    }

    pub(super) fn fault_counters(&self) -> FaultCounters {
        match &self.in_flight {
            InFlight::Plain(_) => FaultCounters::default(),
            InFlight::Faulty(faulty) => faulty.faults.counters(),
        }
    }

    #[inline]
    pub(super) fn frames_in_flight(&self) -> usize {
        match &self.in_flight {
            InFlight::Plain(frames) => frames.len(),
            InFlight::Faulty(faulty) => faulty.frames.len() + faulty.faults.held(),
        }
    }
}

impl LostFrames {
    pub(super) fn total(self) -> u64 {
        u64::from(self.lossless) + u64::from(self.others)
    }
}

impl Sum for LostFrames {
    fn sum<I: Iterator<Item = LostFrames>>(frames: I) -> LostFrames {
        frames.fold(LostFrames::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

impl std::ops::AddAssign for LostFrames {
    fn add_assign(&mut self, more: LostFrames) {
        self.lossless = self.lossless.saturating_add(more.lossless);
        self.others = self.others.saturating_add(more.others);
    }
}

impl WireParameters {
    /// Returns a lost frame's count.
    fn lost(&self, frame: &Frame) -> LostFrames {
        let is_lossless = frame.dscp().is_some_and(|dscp| self.lossless_dscp_set >> (dscp & 63) & 1 != 0);
        LostFrames { lossless: u32::from(is_lossless), others: u32::from(!is_lossless) }
    }

    /// Returns the transmission time of a frame of this length (without FCS, modulo 2^32).
    #[inline]
    fn time_for(&self, frame_bytes: u32) -> Span {
        self.rate.time_for(Bytes::new(u64::from(frame_bytes.wrapping_add(self.overhead.get() as u32))))
    }
}

/// Grows a ring buffer by a quarter. Doubling would waste memory: there are thousands of wires.
#[cold]
#[inline(never)]
fn make_room(frames: &mut VecDeque<(Time, Frame)>) {
    frames.reserve_exact((frames.len() / 4).max(4));
}

impl FaultyInFlight {
    /// Sends a frame; returns the first arrival time if it changed.
    #[cold]
    #[inline(never)]
    fn send_and_look(&mut self, leaves: Time, frame: Frame, has_llr: bool) -> (Option<Time>, i64) {
        let before = self.next_wakeup();
        let corrupted = self.faults.counters().corrupted;
        self.send(leaves, frame);
        // Link layer retry learns of a bad FCS.
        let arrives = has_llr && self.faults.counters().corrupted > corrupted;
        if arrives {
            self.frames.push_back((leaves + self.delay, Frame::bad_fcs()));
        }
        let after = self.next_wakeup();
        ((after != before).then_some(after), i64::from(arrives))
    }

    /// Applies faults to a frame whose last byte leaves at `leaves`. Calls are in order of time.
    fn send(&mut self, leaves: Time, frame: Frame) {
        self.release_until(leaves);
        let FaultyInFlight { faults, delay, frames } = self;
        let is_chosen = faults.plan().frames.includes(&frame) && !frame.is_below_mac();
        let arrives = leaves + *delay;
        faults.handle(
            leaves,
            frame,
            is_chosen,
            |frame| Some(frame.clone()),
            |frame| frames.push_back((arrives, frame)),
        );
    }

    /// Moves frames held back until `until` or earlier to the frames in flight.
    fn release_until(&mut self, until: Time) {
        while let at = self.faults.next_wakeup()
            && at <= until
            && let Some(frame) = self.faults.poll(at)
        {
            self.frames.push_back((at + self.delay, frame));
        }
    }

    fn next_wakeup(&self) -> Time {
        let first = self.frames.front().map_or(Time::NEVER, |(arrives, _)| *arrives);
        first.min(self.faults.next_wakeup().saturating_add(self.delay))
    }

    /// Takes all frames.
    fn take(&mut self) -> VecDeque<(Time, Frame)> {
        let held = std::iter::from_fn(|| self.faults.poll(Time::NEVER)).map(|frame| (Time::NEVER, frame));
        self.frames.drain(..).chain(held).collect()
    }
}
