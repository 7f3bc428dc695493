//! Link layer retry of a port, between the port and the wires of its link.

use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_scenario::link::LlrPlan;
use weir_switch_core::Packet;
use weir_units::Time;

use super::frame::Frame;
use super::llr::{CopyEnd, LlrCounters, LlrMessage, LlrReceiver, LlrSender};
use super::network::Network;
use super::wire::LostFrames;

/// Sender and receiver of link layer retry at a port. Order of calls at an instant: [`LlrPort::receive`] for each frame that has arrived,
/// [`LlrPort::run`], and [`LlrPort::send`] for frames of the port.
#[derive(Debug)]
pub(super) struct LlrPort {
    sender: LlrSender<Frame>,
    receiver: LlrReceiver,
    /// Whether the link is down: frames pass without a copy, and are lost.
    is_down: bool,
    /// Whether the port has a frame that was not accepted since the last call of [`LlrPort::run`].
    is_waiting: bool,
    traffic: LlrTraffic,
}

/// Frames of a port that no host and no switch counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LlrTraffic {
    /// Messages and replayed frames put on the wire.
    pub(super) sent: u64,
    /// Messages, frames with a bad FCS, and frames out of sequence taken from the wire.
    pub(super) taken: u64,
    /// Frames lost for good: given up, or sent while the link was down.
    pub(super) lost: LostFrames,
}

impl LlrPort {
    pub(super) fn new(plan: LlrPlan) -> LlrPort {
        LlrPort {
            sender: LlrSender::new(plan),
            receiver: LlrReceiver::default(),
            is_down: false,
            is_waiting: false,
            traffic: LlrTraffic::default(),
        }
    }

    /// Handles an arrival from the link; returns it if it is a frame for the port. `out` is the wire that leaves the port.
    pub(super) fn receive(&mut self, now: Time, frame: Frame, out: u32, network: &mut Network) -> Option<Frame> {
        match frame.llr_message() {
            Some(LlrMessage::Init(number)) => self.receiver.handle_init(number),
            Some(message) => self.sender.handle(now, message, copy_sink(&mut self.traffic, out, network)),
            None if frame.is_below_mac() => self.receiver.record_missing(),
            None if frame.is_ordered_set() => return Some(frame),
            None if self.receiver.receive(frame.number()) => return Some(frame),
            None => {}
        }
        self.traffic.taken += 1;
        network.frame_pool.recycle(frame);
        None
    }

    /// Sends the messages and replays that are due while the wire `out` is free.
    pub(super) fn run(&mut self, now: Time, out: u32, network: &mut Network) {
        let LlrPort { sender, receiver, traffic, is_waiting, .. } = self;
        *is_waiting = false;
        sender.handle_timer(now, copy_sink(traffic, out, network));
        while network.wire(out).free_at() <= now {
            if let Some(message) = receiver.poll_message(now).or_else(|| sender.poll_message(now)) {
                let frame = network.frame_pool.allocate_llr_message(message);
                let until = network.send_below_mac(now, out, frame);
                receiver.record_sent(until + network.wire(out).time_for_bytes(LlrPlan::MESSAGE_SPACING));
            } else if !sender.replay(|number, copy| {
                let mut frame = network.frame_pool.copy(copy);
                frame.set_number(number);
                network.send_below_mac(now, out, frame)
            }) {
                break;
            }
            traffic.sent += 1;
        }
    }

    /// Whether a frame of the port may be sent on the wire `out`.
    pub(super) fn is_open(&self, now: Time, out: u32, network: &Network) -> bool {
        self.is_down || self.sender.is_open() && network.wire(out).free_at() <= now
    }

    /// Records that a frame of the port waits.
    pub(super) fn record_waiting(&mut self, now: Time) {
        self.is_waiting = true;
        self.sender.record_waiting(now);
    }

    /// Sends a frame of the port, which [is open](LlrPort::is_open). `origin` and `place` are those of [`Network::send`].
    pub(super) fn send(
        &mut self,
        now: Time,
        out: u32,
        mut frame: Frame,
        (origin, place): (MessageOrigin, PortRef),
        network: &mut Network,
    ) {
        if self.is_down {
            self.traffic.lost += network.wire(out).lost(&frame);
            return network.send_slowly(now, out, frame, origin, place);
        }
        if frame.is_ordered_set() {
            return network.send(now, out, frame, origin, place);
        }
        let (copy, frame_bytes) = (network.frame_pool.copy(&frame), frame.frame_bytes());
        frame.set_number(self.sender.next_number());
        network.send_slowly(now, out, frame, origin, place);
        self.sender.send(network.wire(out).free_at(), copy, frame_bytes);
    }

    /// Returns the next instant at which [`LlrPort::run`] is to be called, or the port may send again.
    pub(super) fn next_wakeup(&self, out: u32, network: &Network) -> Time {
        let free_at = network.wire(out).free_at();
        let mut at = self.sender.timer();
        if self.sender.is_due() || self.is_waiting && self.sender.is_open() {
            at = at.min(free_at);
        }
        at.min(self.receiver.next_wakeup().max(free_at))
    }

    /// Whether the port has a frame that was not accepted.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Sets the link up or down: both ends start anew.
    pub(super) fn set_up(&mut self, now: Time, is_up: bool, out: u32, network: &mut Network) {
        self.sender.reset(now, copy_sink(&mut self.traffic, out, network));
        self.receiver = LlrReceiver::default();
        self.is_down = !is_up;
    }

    pub(super) fn counters(&self, now: Time) -> LlrCounters {
        self.sender.counters(now)
    }

    pub(super) fn traffic(&self) -> LlrTraffic {
        self.traffic
    }
}

/// Returns the sink of copies that the sender frees.
fn copy_sink(traffic: &mut LlrTraffic, out: u32, network: &mut Network) -> impl FnMut(Frame, CopyEnd) {
    move |copy, end| {
        if end == CopyEnd::GivenUp {
            traffic.lost += network.wire(out).lost(&copy);
        }
        network.frame_pool.recycle(copy);
    }
}
