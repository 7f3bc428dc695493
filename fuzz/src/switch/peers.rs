//! Driver of the switch: devices that accept frames or not, and peers on links of finite rate.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_flowctl::Quantum;
use weir_switch_core::counters::DropReason;
use weir_switch_core::{Burst, Direction, Packet, PacketAllocator, PortOutput, Shared};
use weir_units::{BitRate, CLASSES, Class, MacAddr, PortId, QueueId, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::frame::FuzzFrame;
use super::frames::owner_of;
use super::plan::{DELAY, LOSSLESS, SwitchPlan};

/// Driver of the switch.
#[derive(Debug)]
pub(super) struct FuzzDriver {
    shared: Arc<Shared>,
    pub(super) now: Time,
    /// Frames that a device accepts per call.
    pub(super) accepts: usize,
    /// Transmit queues that accept no frame, one bit each.
    pub(super) full_queues: u8,
    pub(super) copies_fail: bool,
    pub(super) control_fails: bool,
    pub(super) takes_lldp: bool,
    pub(super) peers: Vec<FuzzPeer>,
    real_ports: usize,
    /// Data frames sent.
    pub(super) sent: u64,
    pub(super) taken_lldp: u64,
    /// Whether lossless frames find room, since their peers obey.
    pub(super) is_lossless: bool,
    /// Last frame sent of each egress port, ingress port and stream; `None` without checks of order.
    pub(super) last: Option<Vec<u32>>,
}

/// Peer of a port.
#[derive(Debug)]
pub(super) struct FuzzPeer {
    rate: BitRate,
    /// End of each class's pause.
    pub(super) paused_until: [Time; CLASSES],
    /// Messages on the link to the peer.
    messages: VecDeque<(Time, ControlFrame)>,
    /// Frames that wait in the peer, by class.
    backlog: [VecDeque<FuzzFrame>; CLASSES],
    /// Frames on the link to the switch.
    link: VecDeque<(Time, FuzzFrame)>,
    /// Instant from which the link to the switch is free.
    free_at: Time,
}

impl FuzzDriver {
    /// Creates the surroundings of a switch, of which nothing is wanting yet.
    pub(super) fn new(plan: &SwitchPlan, shared: Arc<Shared>) -> FuzzDriver {
        let SwitchPlan { rates, real_ports, obeys, keeps_order, .. } = plan;
        let peer = |rate: &BitRate| FuzzPeer {
            rate: *rate,
            paused_until: [Time::ZERO; CLASSES],
            messages: VecDeque::new(),
            backlog: Default::default(),
            link: VecDeque::new(),
            free_at: Time::ZERO,
        };
        FuzzDriver {
            shared,
            now: Time::ZERO,
            accepts: usize::MAX,
            full_queues: 0,
            copies_fail: false,
            control_fails: false,
            takes_lldp: false,
            peers: rates.iter().map(peer).collect(),
            real_ports: *real_ports,
            sent: 0,
            taken_lldp: 0,
            is_lossless: *obeys,
            last: keeps_order.then(|| vec![0; rates.len() * rates.len() * FuzzFrame::STREAMS]),
        }
    }

    fn on_sent(&mut self, port: PortId, frame: &FuzzFrame) {
        self.check_egress(port, frame);
        let FuzzDriver { now, peers, last, .. } = self;
        if frame.is_control() {
            let message = ControlFrame::decode(frame.data()).expect("the switch's own frame is well-formed");
            peers[port.index()].messages.push_back((*now + DELAY, message));
            return;
        }
        self.sent += 1;
        if let (Some(last), Some(stream)) = (last, frame.stream) {
            let row = port.index() * peers.len() + usize::from(frame.from);
            let last = &mut last[row * FuzzFrame::STREAMS + usize::from(stream)];
            assert!(frame.sequence > *last, "port {} sent frame {} after {last}", port.0, frame.sequence);
            *last = frame.sequence;
        }
    }

    /// Checks that no frame returns to its port. Where peers obey, stations are static and the switch is polled in time: each frame leaves at its
    /// station's port, and none of a paused class.
    fn check_egress(&self, port: PortId, frame: &FuzzFrame) {
        // Frames with a number are those of peers.
        if frame.sequence == 0 || frame.is_control() {
            return;
        }
        assert_ne!(port.index(), usize::from(frame.from), "frame {} returns", frame.sequence);
        if self.is_lossless {
            let owner = owner_of(frame);
            assert!(
                owner.is_none_or(|owner| owner == port.index()),
                "port {}: a frame to a station of {owner:?}",
                port.0
            );
            let state = &self.shared.ports()[port.index()];
            let paused = state.regulator.paused(self.now);
            // The watchdog's action may be to send nevertheless.
            let is_paused = frame.stream.is_some_and(|class| paused.contains(Class::new(class))) && !state.is_watched();
            assert!(!is_paused, "port {} sent frame {} of a class among {paused:?}", port.0, frame.sequence);
        }
    }

    fn send(&mut self, port: PortId, burst: &mut Burst<FuzzFrame>, most: usize) -> usize {
        let count = burst.len().min(most);
        for frame in burst.drain(..count) {
            self.on_sent(port, &frame);
        }
        count
    }
}

impl PacketAllocator<FuzzFrame> for FuzzDriver {
    fn copy(&mut self, packet: &FuzzFrame) -> Option<FuzzFrame> {
        (!self.copies_fail).then(|| packet.clone())
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<FuzzFrame> {
        let bytes = frame.encode(source);
        (!self.control_fails).then(|| FuzzFrame::new(&bytes, bytes.len() as u32))
    }

    fn on_drop(&mut self, now: Time, packet: &FuzzFrame, queue: QueueId, direction: Direction, reason: DropReason) {
        let is_full =
            matches!(reason, DropReason::HeadroomViolation | DropReason::EgressThreshold | DropReason::SharedFull);
        // Queues of a port have the numbers of its classes here.
        if is_full && self.is_lossless && LOSSLESS.contains(queue.class()) {
            panic!("{} of {} B at {queue:?}, {direction:?}, {now:?}", reason.name(), packet.frame_bytes());
        }
    }

    fn take_lldp(&mut self, port: PortId, _packet: &FuzzFrame) -> bool {
        // A clone's copy came by the real port.
        let takes = self.takes_lldp && port.index() < self.real_ports;
        self.taken_lldp += u64::from(takes);
        takes
    }
}

impl PortOutput<FuzzFrame> for FuzzDriver {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<FuzzFrame>) -> usize {
        self.send(port, burst, self.accepts)
    }

    fn transmit_by(&mut self, port: PortId, queue: u8, burst: &mut Burst<FuzzFrame>, limit: usize) -> usize {
        let most = if self.full_queues >> queue & 1 == 1 { 0 } else { limit.min(self.accepts) };
        self.send(port, burst, most)
    }
}

impl FuzzPeer {
    /// Takes a frame to send once the link is free and the class is not paused.
    pub(super) fn queue(&mut self, class: Class, frame: FuzzFrame) {
        self.backlog[class.index()].push_back(frame);
    }

    /// Returns the number of frames that wait in the peer.
    pub(super) fn waiting(&self) -> usize {
        self.backlog.iter().map(VecDeque::len).sum()
    }

    /// Drops the frames that wait, and those on the link to the switch.
    pub(super) fn clear(&mut self) {
        self.backlog.iter_mut().for_each(VecDeque::clear);
        self.link.clear();
    }

    /// Obeys messages until `until`.
    pub(super) fn obey(&mut self, until: Time) {
        while let Some((at, message)) = self.messages.front().copied().filter(|(at, _)| *at <= until) {
            self.messages.pop_front();
            let quantum = Quantum::for_rate(self.rate);
            match message {
                ControlFrame::Pfc(pfc) => pfc.enabled.iter().for_each(|class| {
                    self.paused_until[class.index()] = at + quantum.times(pfc.times[class.index()]);
                }),
                ControlFrame::Pause(quanta) => self.paused_until = [at + quantum.times(quanta); CLASSES],
                _ => {}
            }
        }
    }

    /// Puts frames on the link until `now`.
    pub(super) fn send(&mut self, since: Time, now: Time) {
        loop {
            let at = self.free_at.max(since);
            if at >= now {
                return self.obey(now);
            }
            self.obey(at);
            let is_ready = |class: &usize| !self.backlog[*class].is_empty() && self.paused_until[*class] <= at;
            let Some(class) = (0..CLASSES).rev().find(is_ready) else {
                // Nothing changes before the next message, or the end of a pause.
                let waiting = (0..CLASSES).filter(|class| !self.backlog[*class].is_empty());
                let resumed = waiting.map(|class| self.paused_until[class]).min();
                let message = self.messages.front().map(|(at, _)| *at);
                let Some(next) = resumed.into_iter().chain(message).filter(|next| *next > at).min() else {
                    return self.obey(now);
                };
                self.free_at = next;
                continue;
            };
            let frame = self.backlog[class].pop_front().expect("a class that is ready");
            let span = self.rate.time_for(weir_flowctl::wire_bytes(frame.frame_bytes(), weir_units::LINK_OVERHEAD));
            self.free_at = at + span;
            self.link.push_back((self.free_at + DELAY, frame));
        }
    }

    /// Takes frames from the link that have arrived at `now`.
    pub(super) fn arrived(&mut self, now: Time, burst: &mut Burst<FuzzFrame>) {
        while !burst.is_full() && self.link.front().is_some_and(|(at, _)| *at <= now) {
            burst.extend(self.link.pop_front().map(|(_, frame)| frame));
        }
    }

    /// Returns the longest pause of any class that lasts at `now`.
    pub(super) fn pause_left(&self, now: Time) -> Span {
        self.paused_until.iter().map(|until| until.since(now)).max().unwrap_or_default()
    }
}
