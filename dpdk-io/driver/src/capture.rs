//! Live capture of a running switch's frames, from the lcores that see them to a thread that writes them.
//!
//! The control thread makes a [`Capture`] and sends a [`CaptureTap`] to each lcore of the switch, which takes it up between two polls. From
//! then on the lcore copies the frames that match the filter into a ring, with the occupancy of each frame's queues at that instant. With a
//! full ring the frame counts as missed, and is forwarded all the same. The control thread allocates and frees the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_mmu::QueueOccupancy;
use weir_switch_core::counters::DropReason;
use weir_switch_core::{BURST_MAX, Burst, Direction, PacketContext, Shared};
use weir_units::{CLASSES, Class, ClassSet, PortId, PortSet, QueueId, Time};
use weir_wire::mac_control::ControlFrame;

use crate::frame::Frame;

/// Captures that a switch has at a time, at most.
pub const CAPTURES_MAX: usize = 4;
/// Size, in bytes, of an lcore's ring of frames and their metadata.
const WAITING: usize = 8 << 20;
/// Upper bound of the bytes copied from a frame: the longest frame that a switch handles has 16,018 B.
pub const SNAPLEN_MAX: u32 = 16 << 10;
/// Bytes of a frame's header in the ring.
const HEADER_BYTES: usize = 56;

/// Filter of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Frames that pass these ports, or were lost there.
    pub ports: PortSet,
    /// Data frames of these classes, and PFC frames that name one of them. Other control frames are of all classes.
    pub classes: ClassSet,
    /// Filter of the frames that pass.
    pub passing: FrameFilter,
    /// Captures frames that ports receive.
    pub inbound: bool,
    /// Captures frames that ports send.
    pub outbound: bool,
    /// Frames that the switch drops, with the reason.
    pub drops: bool,
    /// Bytes that are kept of each frame, at most.
    pub snaplen: u32,
}

/// Filter of the frames that pass a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFilter {
    /// All frames.
    All,
    /// MAC control frames.
    Control,
    /// Captures no frames.
    None,
}

/// Running capture, as its reader has it.
#[derive(Debug)]
pub struct Capture {
    rings: Vec<Consumer<u8>>,
    state: Arc<CaptureState>,
}

/// State shared by both ends of a capture.
#[derive(Debug)]
pub struct CaptureState {
    is_over: AtomicBool,
    /// Lcores that have taken the capture up, and lcores that have given it back.
    taken_up: AtomicU32,
    given_back: AtomicU32,
    /// Frames per port that matched the filter and found no room.
    missed: Box<[AtomicU64]>,
    /// Frames that the reader has written down.
    written: AtomicU64,
}

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Instant on the switches' clock.
    pub at: Time,
    /// Port that the frame passed, or was lost at.
    pub port: PortId,
    /// Direction; for a dropped frame, inbound if it was dropped at admission, outbound if it had waited.
    pub direction: Direction,
    /// Drop reason, if the frame was dropped.
    pub dropped: Option<DropReason>,
    /// The frame's class and queues, with their occupancy.
    pub context: PacketContext,
    /// Frame length, without FCS.
    pub frame_bytes: u32,
    /// First bytes of the frame, up to the snap length.
    pub bytes: Vec<u8>,
}

/// Lcore's end of a capture.
#[derive(Debug)]
pub(crate) struct CaptureTap {
    filter: CaptureFilter,
    ring: Producer<u8>,
    state: Arc<CaptureState>,
    /// Frames of the burst that is about to be sent, back to back, and the end of each. A frame that does not match is empty. Allocated
    /// upfront.
    staged: Vec<u8>,
    ends: Vec<usize>,
}

/// All captures of one lcore of a switch.
#[derive(Debug)]
pub(crate) struct Captures {
    taps: Vec<CaptureTap>,
    shared: Arc<Shared>,
    posted: Consumer<CaptureTap>,
    spent: Producer<CaptureTap>,
    /// Ports whose frames are captured, by direction.
    inbound: PortSet,
    outbound: PortSet,
    /// Whether drops are captured.
    drops: bool,
}

/// Control thread's end of the channel to an lcore's captures.
#[derive(Debug)]
pub(crate) struct CaptureSender {
    to: Producer<CaptureTap>,
    spent: Consumer<CaptureTap>,
}

/// Creates an lcore's captures, none at first, and the channel to them.
pub(crate) fn captures(shared: &Arc<Shared>) -> (Captures, CaptureSender) {
    let (to, posted) = RingBuffer::new(CAPTURES_MAX);
    // Room for every tap that may be sent, and for every tap given back.
    let (gives_back, spent) = RingBuffer::new(2 * CAPTURES_MAX);
    let captures = Captures {
        taps: Vec::with_capacity(CAPTURES_MAX),
        shared: shared.clone(),
        posted,
        spent: gives_back,
        inbound: PortSet::EMPTY,
        outbound: PortSet::EMPTY,
        drops: false,
    };
    (captures, CaptureSender { to, spent })
}

impl Capture {
    /// Creates a capture and a tap for each of `lcores` lcores.
    pub(crate) fn new(filter: CaptureFilter, ports: usize, lcores: usize) -> (Capture, Vec<CaptureTap>) {
        let state = Arc::new(CaptureState {
            is_over: AtomicBool::new(false),
            taken_up: AtomicU32::new(0),
            given_back: AtomicU32::new(0),
            missed: (0..ports).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicU64::new(0),
        });
        let filter = CaptureFilter { snaplen: filter.snaplen.min(SNAPLEN_MAX), ..filter };
        let staged = BURST_MAX * (HEADER_BYTES + filter.snaplen as usize);
        let tap = |_| {
            let (ring, out) = RingBuffer::new(WAITING);
            let (staged, ends) = (Vec::with_capacity(staged), Vec::with_capacity(BURST_MAX));
            (CaptureTap { filter, ring, state: state.clone(), staged, ends }, out)
        };
        let (taps, rings) = (0..lcores).map(tap).unzip();
        (Capture { rings, state }, taps)
    }

    /// Takes the frames that are ready: of each lcore in order, and lcore after lcore.
    pub fn take(&mut self, frames: &mut Vec<CapturedFrame>) {
        for ring in &mut self.rings {
            // Takes only the frames that are ready now; later frames wait for the next call.
            let mut ready = ring.slots();
            while ready > 0 {
                let frame = take_frame(ring).expect("header and frame are written in one piece");
                ready -= HEADER_BYTES + frame.bytes.len();
                frames.push(frame);
            }
        }
    }

    /// State shared by both ends.
    pub fn state(&self) -> &Arc<CaptureState> {
        &self.state
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.state.end();
    }
}

impl CaptureState {
    /// Ends the capture: lcores copy no more frames.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns true if the capture has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Lcores that copy frames for the capture, or did.
    pub(crate) fn taken_up(&self) -> usize {
        self.taken_up.load(Ordering::Relaxed) as usize
    }

    /// Lcores that have released the capture.
    pub(crate) fn given_back(&self) -> usize {
        self.given_back.load(Ordering::Relaxed) as usize
    }

    /// Missed frames of a port: they matched, but the reader was too late.
    pub fn missed(&self, port: PortId) -> u64 {
        self.missed[port.index()].load(Ordering::Relaxed)
    }

    /// Missed frames of all ports.
    pub fn missed_in_all(&self) -> u64 {
        self.missed.iter().map(|missed| missed.load(Ordering::Relaxed)).sum()
    }

    /// Frames that the reader has written down.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts `frames` as written by the reader.
    pub fn record_written(&self, frames: u64) {
        self.written.fetch_add(frames, Ordering::Relaxed);
    }
}

impl CaptureSender {
    /// Sends a tap, which the lcore takes up at its next control check.
    pub(crate) fn send(&mut self, tap: CaptureTap) {
        assert!(self.to.push(tap).is_ok(), "an lcore has no more captures than {CAPTURES_MAX}");
    }

    /// Frees the taps that the lcore gave back.
    pub(crate) fn free_spent(&mut self) {
        while self.spent.pop().is_ok() {}
    }
}

impl Captures {
    /// Takes up new taps, and gives back those whose capture is over. Called between two polls after a notification.
    pub(crate) fn on_control(&mut self) {
        for at in (0..self.taps.len()).rev() {
            if self.taps[at].state.is_over() {
                let tap = self.taps.swap_remove(at);
                tap.state.given_back.fetch_add(1, Ordering::Relaxed);
                // There is room: see `captures`. If not, it is freed here.
                let _ = self.spent.push(tap);
            }
        }
        while self.taps.len() < CAPTURES_MAX
            && let Ok(tap) = self.posted.pop()
        {
            tap.state.taken_up.fetch_add(1, Ordering::Relaxed);
            self.taps.push(tap);
        }
        let ports = |wants: fn(&CaptureFilter) -> bool| {
            let taps = self.taps.iter().filter(|tap| wants(&tap.filter) && tap.filter.passing != FrameFilter::None);
            taps.fold(PortSet::EMPTY, |ports, tap| ports | tap.filter.ports)
        };
        self.inbound = ports(|filter| filter.inbound);
        self.outbound = ports(|filter| filter.outbound);
        self.drops = self.taps.iter().any(|tap| tap.filter.drops);
    }

    /// Whether a port is no clone.
    pub(crate) fn is_real(&self, port: PortId) -> bool {
        self.shared.ports()[port.index()].real_port == port
    }

    /// Returns true if there are no captures.
    pub(crate) fn are_none(&self) -> bool {
        self.taps.is_empty()
    }

    /// Whether frames that this port receives are captured.
    pub(crate) fn captures_inbound(&self, port: PortId) -> bool {
        self.inbound.contains(port)
    }

    /// Whether frames that this port sends are captured.
    pub(crate) fn captures_outbound(&self, port: PortId) -> bool {
        self.outbound.contains(port)
    }

    /// Copies a frame that a port received.
    pub(crate) fn record_received(&mut self, at: Time, port: PortId, frame: &Frame) {
        let Captures { taps, shared, .. } = self;
        let mut context = None;
        for tap in taps.iter_mut().filter(|tap| tap.filter.inbound && tap.wants_passing(port, frame)) {
            let context = context.get_or_insert_with(|| shared.packet_context(at, port, Direction::Inbound, frame));
            if tap.wants_class(context, frame) {
                tap.stage(at, port, Direction::Inbound, None, context, frame);
                tap.commit(port, 1);
            }
        }
    }

    /// Copies a dropped frame.
    pub(crate) fn record_drop(
        &mut self,
        at: Time,
        queue: QueueId,
        direction: Direction,
        reason: DropReason,
        frame: &Frame,
    ) {
        if !self.drops {
            return;
        }
        let Captures { taps, shared, .. } = self;
        for tap in taps.iter_mut() {
            let CaptureFilter { ports, classes, drops, .. } = tap.filter;
            if drops && ports.contains(queue.port()) && classes.contains(queue.class()) && !tap.state.is_over() {
                let context = shared.packet_context_in_queue(at, queue, direction, frame);
                tap.stage(at, queue.port(), direction, Some(reason), &context, frame);
                tap.commit(queue.port(), 1);
            }
        }
    }

    /// Stages a burst that a port is about to send.
    pub(crate) fn stage(&mut self, at: Time, port: PortId, burst: &Burst<Frame>, limit: usize) {
        let Captures { taps, shared, .. } = self;
        for frame in burst.iter().take(limit) {
            let mut context = None;
            for tap in taps.iter_mut() {
                if tap.filter.outbound && tap.wants_passing(port, frame) {
                    let context =
                        context.get_or_insert_with(|| shared.packet_context(at, port, Direction::Outbound, frame));
                    if tap.wants_class(context, frame) {
                        tap.stage(at, port, Direction::Outbound, None, context, frame);
                        continue;
                    }
                }
                tap.ends.push(tap.staged.len());
            }
        }
    }

    /// Copies the first `sent` frames of the staged burst.
    pub(crate) fn commit(&mut self, port: PortId, sent: usize) {
        self.taps.iter_mut().for_each(|tap| tap.commit(port, sent));
    }
}

impl CaptureTap {
    #[inline]
    fn wants_passing(&self, port: PortId, frame: &Frame) -> bool {
        let of_kind = match self.filter.passing {
            FrameFilter::All => true,
            FrameFilter::Control => ControlFrame::is_control(frame.0.data()),
            FrameFilter::None => false,
        };
        of_kind && self.filter.ports.contains(port) && !self.state.is_over()
    }

    fn wants_class(&self, context: &PacketContext, frame: &Frame) -> bool {
        let classes = self.filter.classes;
        match context.class {
            _ if classes == ClassSet::ALL => true,
            Some(class) => classes.contains(class),
            None => match ControlFrame::decode(frame.0.data()) {
                Ok(ControlFrame::Pfc(pfc)) => !(pfc.enabled & classes).is_empty(),
                Ok(_) => true,
                Err(_) => false,
            },
        }
    }

    /// Stages a frame for the ring.
    fn stage(
        &mut self,
        at: Time,
        port: PortId,
        direction: Direction,
        dropped: Option<DropReason>,
        context: &PacketContext,
        frame: &Frame,
    ) {
        let data = frame.0.data();
        let data = &data[..data.len().min(self.filter.snaplen as usize)];
        debug_assert!(self.staged.len() + HEADER_BYTES + data.len() <= self.staged.capacity(), "allocated upfront");
        self.staged.extend_from_slice(&header(at, port, direction, dropped, context, frame.0.len(), data.len()));
        self.staged.extend_from_slice(data);
        self.ends.push(self.staged.len());
    }

    /// Writes the first `frames` staged frames into the ring, and discards the stage.
    fn commit(&mut self, port: PortId, frames: usize) {
        let bytes = self.ends[..frames.min(self.ends.len())].last().copied().unwrap_or(0);
        // Nearly all find room at once.
        if self.ring.push_entire_slice(&self.staged[..bytes]).is_err() {
            let mut from = 0;
            for end in self.ends.iter().take(frames) {
                if *end > from && self.ring.push_entire_slice(&self.staged[from..*end]).is_err() {
                    self.state.missed[port.index()].fetch_add(1, Ordering::Relaxed);
                }
                from = *end;
            }
        }
        self.staged.clear();
        self.ends.clear();
    }
}

/// Placeholder for no port, class or reason.
const NONE_16: u16 = u16::MAX;
const NONE_8: u8 = u8::MAX;

/// Encodes a frame's header: instant (8), its lengths (4, 4), shared-segment occupancy (8), its queues' bytes (8, 4, 4, 4), ports (2, 2,
/// 2), class, reason, direction, whether its ingress queue is OFF (1 each), and 2 to spare.
fn header(
    at: Time,
    port: PortId,
    direction: Direction,
    dropped: Option<DropReason>,
    context: &PacketContext,
    frame_bytes: u32,
    captured: usize,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let mut put = |from: usize, bytes: &[u8]| header[from..from + bytes.len()].copy_from_slice(bytes);
    let (ingress, levels) = context.ingress.unzip();
    let (egress, length) = context.egress.unzip();
    let levels = levels.unwrap_or_default();
    let port_of = |queue: Option<QueueId>| queue.map_or(NONE_16, |queue| queue.port().0);
    put(0, &at.as_picos().to_le_bytes());
    put(8, &frame_bytes.to_le_bytes());
    put(12, &(captured as u32).to_le_bytes());
    put(16, &context.shared_used.to_le_bytes());
    put(24, &length.unwrap_or(0).to_le_bytes());
    put(32, &levels.private.to_le_bytes());
    put(36, &levels.shared.to_le_bytes());
    put(40, &levels.headroom.to_le_bytes());
    put(44, &port.0.to_le_bytes());
    put(46, &port_of(ingress).to_le_bytes());
    put(48, &port_of(egress).to_le_bytes());
    let class = context.class.map_or(NONE_8, |class| class.index() as u8);
    let reason = dropped.map_or(NONE_8, |reason| reason as u8);
    put(50, &[class, reason, u8::from(direction == Direction::Outbound), u8::from(levels.off)]);
    header
}

fn take_frame(ring: &mut Consumer<u8>) -> Option<CapturedFrame> {
    let mut header = [0; HEADER_BYTES];
    ring.pop_entire_slice(&mut header).ok()?;
    let u16_at = |at: usize| u16::from_le_bytes(std::array::from_fn(|n| header[at + n]));
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| header[at + n]));
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| header[at + n]));
    let [class, reason, is_outbound, off] = [50, 51, 52, 53].map(|at| header[at]);
    let class = (usize::from(class) < CLASSES).then(|| Class::new(class));
    let queue = |at: usize| {
        let port = Some(u16_at(at)).filter(|port| *port != NONE_16)?;
        Some(QueueId::new(PortId(port), class?))
    };
    let levels = QueueOccupancy { private: u32_at(32), shared: u32_at(36), headroom: u32_at(40), off: off != 0 };
    let mut bytes = vec![0; u32_at(12) as usize];
    ring.pop_entire_slice(&mut bytes).ok()?;
    Some(CapturedFrame {
        at: Time::from_picos(u64_at(0)),
        port: PortId(u16_at(44)),
        direction: if is_outbound != 0 { Direction::Outbound } else { Direction::Inbound },
        dropped: DropReason::ALL.into_iter().find(|known| *known as u8 == reason),
        context: PacketContext {
            class,
            ingress: queue(46).map(|queue| (queue, levels)),
            egress: queue(48).map(|queue| (queue, u64_at(24))),
            shared_used: u64_at(16),
        },
        frame_bytes: u32_at(8),
        bytes,
    })
}
