//! Burst transmission on lcores: the frames that ports are offered, and the lateness of the lcore's polls.

use arrayvec::ArrayVec;
use weir_flowctl::{CatchUp, LatePollTracker, PeakRateLimiter, TxBacklog};
use weir_mmu::{BufferRelease, PendingBytes};
use weir_units::{Bytes, Class, ClassSet, PortSet, Span};

use super::chunks::Chunks;
use super::delay_histogram::DelayHistogram;
use super::handoff::OVERFULL;
use super::queue_bypass::QueueBypass;
use super::tx_batch::TxBatch;
use super::tx_queues::TxQueueBatches;
use crate::counters::{Counters, gauge};
use crate::egress::EgressQueues;
use crate::packet::{BURST_MAX, Burst, Packet};
use crate::shared::PortState;
use crate::transmission::TransmitMode;

/// State of burst transmission that the ports of an lcore share.
#[derive(Debug)]
pub(crate) struct BurstOutput<P> {
    /// Memory for offered frames; enough for all ports.
    pub(super) spare: Vec<Box<TxBatch<P>>>,
    /// Lateness of this poll.
    pub(super) late: LatePollTracker,
    /// [`CatchUp::base`].
    base: Span,
    /// Whether the last poll left frames that were due.
    pub(super) is_behind: bool,
    /// Scratch memory for a burst whose packets are picked for several ports; all `None` between uses.
    pub(super) picked: Box<[Option<P>; BURST_MAX]>,
    /// Charges of frames that left in this poll and are yet to be released.
    pub(super) pending_bytes: PendingBytes,
    /// Delay from the arrival that crossed a threshold to the message's handover to the port.
    message_delays: DelayHistogram,
    /// Delay from the arrival of a peer's message until the transmitter obeys it. Frames sent in between still follow the old state.
    reactions: DelayHistogram,
}

/// State of burst transmission of one port.
#[derive(Debug)]
pub(crate) struct BurstPort<P> {
    /// Frames that the port is offered. With several transmit queues, they are not yet distributed to the queues.
    pub(super) staged: Option<Box<TxBatch<P>>>,
    /// Frames that bypass the port's queues in this round.
    pub(super) bypass: Box<QueueBypass<P>>,
    /// Peak rate limiter of a catch-up.
    pub(super) peak: PeakRateLimiter,
    /// Frames offered to each of several transmit queues; `None` if there is one queue.
    pub(super) tx_queues: Option<Box<TxQueueBatches<P>>>,
    /// Whether the port has several transmit queues.
    pub(super) is_multi_queue: bool,
    /// Classes whose transmit queue has not accepted all of its frames; only with several transmit queues.
    pub(super) blocked: ClassSet,
    /// Reason why frames waited after the last poll.
    pub(super) wait_reason: WaitReason,
    /// Classes with a frame after the last poll that neither a pause nor credit held back; only for ports with limits.
    pub(super) open: ClassSet,
    /// Bound on the data in a NIC's transmit ring; `None` for other devices.
    tx_backlog: Option<TxBacklog>,
    /// Whether the port is a NIC's whose link is no faster than its rate. Late polls then make up no more than the NIC's ring holds.
    pub(super) at_line_rate: bool,
    /// [`CatchUp::base`].
    base: Span,
}

impl<P> BurstPort<P> {
    fn set_rates(&mut self, state: &PortState) {
        let rate = state.rate.shaped_to();
        // A link of unknown speed is taken to have the port's rate.
        let link = |backlog: TxBacklog| state.rate.link_speed().map(|link| backlog.on_clock(link)).or(rate);
        let nic = self.tx_backlog.and_then(|backlog| Some((backlog, link(backlog)?)));
        self.peak.set(rate, self.base, nic);
        self.at_line_rate = nic.is_some_and(|(_, link)| rate.is_some_and(|rate| link <= rate));
    }
}

/// Reason why a port's frames wait after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum WaitReason {
    /// Queues are empty, or held back by the peer or their own limits.
    Nothing,
    /// Frames wait for the wire, or for the next burst.
    Wire,
    /// The device accepted fewer frames than offered.
    Device,
}

impl<P> BurstOutput<P> {
    /// Returns the state for `ports` ports. All memory is allocated now, including that for releases.
    pub(super) fn new(ports: usize, catch_up: CatchUp, pending_bytes: PendingBytes) -> BurstOutput<P> {
        BurstOutput {
            spare: (0..ports).map(|_| Box::default()).collect(),
            late: LatePollTracker::new(catch_up),
            base: catch_up.base.min(catch_up.most),
            is_behind: false,
            picked: Box::new([const { None }; BURST_MAX]),
            pending_bytes,
            message_delays: DelayHistogram::new(),
            reactions: DelayHistogram::new(),
        }
    }

    /// Returns memory for the frames offered to one port.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Box<TxBatch<P>> {
        self.spare.pop().expect("a port is offered no more than one burst at a time")
    }
}

impl<P> TransmitMode<P> for BurstOutput<P> {
    type Port = BurstPort<P>;
    type Queues = Chunks<P>;
    type Ports = PortSet;

    fn port(&self, state: &PortState, tx_queues: u8, tx_backlog: Option<TxBacklog>) -> BurstPort<P> {
        let mut port = BurstPort {
            staged: None,
            bypass: Box::default(),
            peak: PeakRateLimiter::default(),
            tx_queues: TxQueueBatches::for_queues(tx_queues),
            is_multi_queue: tx_queues > 1,
            blocked: ClassSet::EMPTY,
            wait_reason: WaitReason::Nothing,
            open: ClassSet::EMPTY,
            tx_backlog,
            at_line_rate: false,
            base: self.base,
        };
        port.set_rates(state);
        port
    }

    #[inline]
    fn is_offering(port: &BurstPort<P>) -> bool {
        port.staged.is_some() || !port.blocked.is_empty()
    }

    fn offered(port: &BurstPort<P>) -> usize {
        let staged = port.staged.as_ref().map_or(0, |staged| staged.len());
        staged + port.tx_queues.as_ref().map_or(0, |tx_queues| tx_queues.held()) + port.bypass.len()
    }

    fn blocks_offered(port: &BurstPort<P>, class: Class, count_of: impl Fn(u32) -> u32) -> u32 {
        let staged = port.staged.as_ref().map_or(0, |staged| staged.blocks_of(class, &count_of));
        staged + port.tx_queues.as_ref().map_or(0, |tx_queues| tx_queues.blocks_of(class, &count_of))
    }

    fn discard_offered(&mut self, port: &mut BurstPort<P>, mut charged: impl FnMut(&[P], &[BufferRelease])) -> usize {
        let mut given_up = 0;
        let mut give_up = |staged: &mut TxBatch<P>| {
            given_up += staged.len();
            let departures: ArrayVec<BufferRelease, BURST_MAX> = staged.departures().collect();
            let mut packets = Burst::new();
            staged.drain(|queued| packets.push(queued.packet));
            charged(&packets, &departures);
        };
        if let Some(mut staged) = port.staged.take() {
            give_up(&mut staged);
            self.spare.push(staged);
        }
        if !port.blocked.is_empty() {
            port.tx_queues.iter_mut().flat_map(|tx_queues| tx_queues.offered_mut()).for_each(give_up);
            port.blocked = ClassSet::EMPTY;
        }
        given_up + port.bypass.give_up(charged)
    }

    const HAS_BYPASS: bool = true;

    #[inline(always)]
    fn flush_bypass(port: &mut BurstPort<P>, queues: &mut EgressQueues<Chunks<P>, PortSet>)
    where
        P: Packet,
    {
        if !port.bypass.is_empty() {
            flush_bypass(&mut port.bypass, queues);
        }
    }

    const IS_RECONFIGURABLE: bool = true;

    fn on_rate_change(port: &mut BurstPort<P>, state: &PortState) {
        port.set_rates(state);
    }

    fn on_control_sent(port: &mut BurstPort<P>, wire: Bytes) {
        port.peak.send(wire);
    }

    fn record_message_delay(&mut self, delay: Span) {
        self.message_delays.record(delay);
    }

    fn record_reaction_delay(&mut self, delay: Span) {
        self.reactions.record(delay);
    }

    fn set_gauges(&self, counters: &mut Counters) {
        self.message_delays.set_gauges(counters, gauge::MESSAGE_DELAYS);
        self.reactions.set_gauges(counters, gauge::REACTIONS);
    }
}

/// Moves the bypassing frames into the queues.
#[inline(never)]
fn flush_bypass<P: Packet>(bypass: &mut QueueBypass<P>, queues: &mut EgressQueues<Chunks<P>, PortSet>) {
    bypass.take_all(|queued| assert!(queues.push(queued).is_ok(), "{OVERFULL}"));
}
