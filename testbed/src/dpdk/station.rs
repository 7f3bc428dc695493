//! A host on a DPDK port: polled by an lcore, its link's delay on either side.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_driver::{Phase, Task};
use weir_dpdk_io::{Batch, Clock, Mbuf, Mempool, RxQueue, TxQueue};
use weir_flowctl::frame::{ControlFrame, PfcFrame};
use weir_units::{Span, Time};

use super::board::{Board, LastWords};
use crate::host::{Completion, Host};
use crate::link::DelayLine;
use crate::run_dir::Direction;

/// Frames that one poll moves in each direction at most.
pub(super) const BURST: usize = 32;
/// Notes that wait for the control thread.
const NOTES: usize = 4_096;
/// Bytes of captured frames that wait for the control thread.
const CAPTURE_BYTES: usize = 16 << 20;
/// Bytes of a frame that a capture keeps: all headers and some payload.
const CAPTURE_CUT: usize = 128;
const CAPTURE_HEADER_BYTES: usize = 13;

/// What a host tells the control thread of single instants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    /// The switch sent a PFC frame.
    Pfc(Time, PfcFrame),
    /// A message was acknowledged; the flow is the host's own number.
    Done(Completion),
}

/// The control thread's end.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) notes: Consumer<Note>,
    pub(super) capture: Option<Consumer<u8>>,
}

/// A host, its link, and the queues at the far end of a switch's port.
///
/// A frame counts as arrived when its first byte is, on either side: its time on the wire is kept by the sender's
/// line rate alone.
pub(super) struct Station {
    host: Host,
    number: usize,
    rx: RxQueue,
    tx: TxQueue,
    pool: Mempool,
    /// A frame's memory, taken before it is known whether there is a frame to send.
    blank: Option<Mbuf>,
    to_switch: DelayLine<Mbuf>,
    to_host: DelayLine<Mbuf>,
    arrived: Batch,
    unsent: Batch,
    board: Arc<Board>,
    notes: Producer<Note>,
    capture: Option<Producer<u8>>,
    polled: Time,
    /// Line time lost to late polls.
    late: Span,
    has_left: bool,
}

impl Station {
    /// A host at the far end of a port. `link` is the link's delay, and how many frames it holds each way.
    pub(super) fn new(
        host: Host,
        number: usize,
        link: (Span, usize),
        (rx, tx): (RxQueue, TxQueue),
        pool: Mempool,
        board: Arc<Board>,
        captures: bool,
    ) -> (Station, Reader) {
        let (notes, notes_out) = RingBuffer::new(NOTES);
        let (capture, capture_out) = captures.then(|| RingBuffer::new(CAPTURE_BYTES)).unzip();
        let (delay, frames) = link;
        let station = Station {
            host,
            number,
            rx,
            tx,
            pool,
            blank: None,
            to_switch: DelayLine::new(delay, frames),
            to_host: DelayLine::new(delay, frames),
            arrived: Batch::new(),
            unsent: Batch::new(),
            board,
            notes,
            capture,
            polled: Time::ZERO,
            late: Span::ZERO,
            has_left: false,
        };
        (station, Reader { notes: notes_out, capture: capture_out })
    }

    /// Frames from the switch enter the link, and those at its end reach the host.
    fn receive(&mut self, now: Time) -> usize {
        let received = self.rx.receive(&mut self.arrived, BURST.min(self.to_host.room()));
        for mbuf in self.arrived.drain() {
            if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(mbuf.data()) {
                // Full only if the control thread is stuck; the counters are exact all the same.
                let _ = self.notes.push(Note::Pfc(now, pfc));
            }
            capture(&mut self.capture, now, Direction::Outbound, &mbuf);
            assert!(self.to_host.push(now, mbuf).is_ok(), "no more was received than there was room for");
        }
        let mut delivered = 0;
        while delivered < BURST
            && let Some(mbuf) = self.to_host.poll(now)
        {
            self.host.handle_frame(now, mbuf.data());
            delivered += 1;
        }
        received + delivered
    }

    /// The host's frames enter the link, and those at its end reach the switch.
    fn transmit(&mut self, now: Time) -> usize {
        let mut moved = 0;
        while moved < BURST && self.to_switch.room() > 0 {
            let Some(frame) = self.next_frame(now) else { break };
            assert!(self.to_switch.push(now, frame).is_ok(), "there was room");
            moved += 1;
        }
        while self.unsent.len() < BURST
            && let Some(mbuf) = self.to_switch.poll(now)
        {
            capture(&mut self.capture, now, Direction::Inbound, &mbuf);
            assert!(self.unsent.push(mbuf).is_ok(), "a burst fits a batch");
        }
        if self.unsent.is_empty() { moved } else { moved + self.tx.send(&mut self.unsent) }
    }

    fn next_frame(&mut self, now: Time) -> Option<Mbuf> {
        if self.host.next_wakeup(now) > now {
            return None;
        }
        let mut mbuf = self.blank.take().or_else(|| self.pool.alloc())?;
        assert!(mbuf.set_len(self.host.config().frame_bytes_max() as u16), "the pool's mbufs hold any frame");
        match self.host.poll_transmit(now, mbuf.data_mut()) {
            Some(frame_bytes) => {
                assert!(mbuf.set_len(frame_bytes as u16), "shorter than before");
                Some(mbuf)
            }
            None => {
                self.blank = Some(mbuf);
                None
            }
        }
    }

    fn note_completions(&mut self) {
        for completion in self.host.drain_completions() {
            let _ = self.notes.push(Note::Done(completion));
        }
    }

    /// Gives up what is under way and leaves the last counters.
    fn leave(&mut self, now: Time) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        self.arrived.clear();
        self.unsent.clear();
        while self.to_switch.poll(Time::NEVER).is_some() {}
        while self.to_host.poll(Time::NEVER).is_some() {}
        self.blank = None;
        self.board.leave(self.number, LastWords { stats: self.host.stats(now), late: self.late });
    }
}

impl Task for Station {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let Some(now) = self.board.scenario_time(Time::from_picos(clock.now_ps())) else { return 0 };
        if phase >= Phase::Discard {
            self.leave(now);
            return 0;
        }
        self.late += now.since(self.polled).saturating_sub(self.host.config().slack);
        self.polled = now;
        let moved = self.receive(now) + self.transmit(now);
        if moved > 0 {
            self.note_completions();
            self.board.publish(self.number, &self.host);
        }
        moved
    }
}

/// Copies a frame for the control thread, if it fits.
fn capture(capture: &mut Option<Producer<u8>>, at: Time, direction: Direction, mbuf: &Mbuf) {
    let Some(ring) = capture else { return };
    let frame = mbuf.data();
    let kept = &frame[..frame.len().min(CAPTURE_CUT)];
    let mut header = [0; CAPTURE_HEADER_BYTES];
    header[0..8].copy_from_slice(&at.as_picos().to_le_bytes());
    header[8] = u8::from(direction == Direction::Outbound);
    header[9..11].copy_from_slice(&(kept.len() as u16).to_le_bytes());
    header[11..13].copy_from_slice(&(frame.len() as u16).to_le_bytes());
    if let Ok(chunk) = ring.write_chunk_uninit(header.len() + kept.len()) {
        chunk.fill_from_iter(header.iter().chain(kept).copied());
    }
}

/// Takes the next captured frame: when, which way, its beginning and its length.
pub(super) fn next_captured(ring: &mut Consumer<u8>) -> Option<(Time, Direction, Vec<u8>, u32)> {
    // Header and frame are written in one piece, so the frame is there if its header is.
    let header = take(ring, CAPTURE_HEADER_BYTES)?;
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let at = Time::from_picos(u64::from_le_bytes(std::array::from_fn(|byte| header[byte])));
    let direction = if header[8] == 1 { Direction::Outbound } else { Direction::Inbound };
    let frame = take(ring, usize::from(word(9)))?;
    Some((at, direction, frame, u32::from(word(11))))
}

fn take(ring: &mut Consumer<u8>, bytes: usize) -> Option<Vec<u8>> {
    let chunk = ring.read_chunk(bytes).ok()?;
    let (first, second) = chunk.as_slices();
    let taken = [first, second].concat();
    chunk.commit_all();
    Some(taken)
}
