//! Switch in virtual time: it runs on a single lcore, and frames come one at a time.
//!
//! ```text
//!                        ┌───────────────── bypass ──────────────────┐
//! frame ──► forwarding ──┴─► admission ──► egress queue ──► one by one ──► port
//! ```
//!
//! No frame changes lcores and no poll is late, so there are no rings and no bursts. An admitted frame is in its egress queue, and one that
//! finds its whole path free leaves at once. Memory is allocated as needed, since one process has many switches.

mod buffer_bypass;
mod per_frame_output;
mod prefetch;

use std::sync::Arc;

use weir_mmu::{BufferRequest, Mmu};
use weir_units::{CLASSES, Class, ClassSet, PortBitmap, PortId, PortSet, QueueId, Time};
use weir_wire::ethernet::Parsed;

use crate::counters::{Counters, queue_stat};
use crate::forwarding::{Forwarding, ForwardingDecision};
use crate::packet::{Burst, Packet, PacketAllocator, PortOutput};
use crate::queues::LinkedQueues;
use crate::report::{Report, StatsCollector};
use crate::shared::{PortState, Shared};
use crate::switch::Switch;
use crate::transmission::{PortTransmitter, Transmission};
use per_frame_output::{PerFrameOutput, RefusedFrame};

/// Whole switch for a driver in virtual time, which serves only ports with work.
///
/// Order of calls at each instant: [`Pipeline::handle`] for each frame that arrives; [`Pipeline::run_ports`] with the ports of
/// [`Pipeline::take_pending_ports`] and those whose wakeup is due, until it serves none; [`Pipeline::next_wakeup_of`] for each port served.
/// The ports of [`Pipeline::off_ports`] are served again within a bound that the driver chooses.
#[derive(Debug)]
#[repr(C)]
pub struct Pipeline<P, S: PortBitmap = PortSet> {
    /// Numbers of the ingress queues with at least one received frame, mostly those of the egress queues too.
    seen: ClassSet,
    forwarding: Forwarding<P, S>,
    transmission: Transmission<P, PerFrameOutput<P, S>>,
    collector: StatsCollector,
}

impl Switch {
    /// Returns a pipeline that runs the whole switch on one lcore, with port sets of type `S`.
    ///
    /// # Panics
    /// If the switch's shared state has other owners, or the switch has VLANs, or more ports than `S` can hold.
    pub fn into_pipeline<P: Packet, S: PortBitmap>(self) -> Pipeline<P, S> {
        let ports = self.shared().ports().len();
        assert!(self.shared().vlans.is_none(), "VLANs take lcores");
        assert!(ports <= S::PORTS_MAX, "{ports} ports; the port set holds at most {}", S::PORTS_MAX);
        let switch = self.for_one_lcore();
        let shared = switch.shared().clone();
        let ports: Vec<PortId> = (0..shared.ports().len() as u16).map(PortId).collect();
        let sent: Vec<PortId> = ports.iter().copied().filter(|port| shared.port(*port).real_port == *port).collect();
        let counters = || Counters::lazy(ports.len());
        let forwarding = Forwarding::new(shared.clone(), &ports, counters());
        let transmission =
            switch.transmission(&sent, switch.packets_max() + 1, 0, counters(), PerFrameOutput::default());
        let collector = StatsCollector::new(shared, Vec::new(), Vec::new(), Vec::new());
        Pipeline { seen: ClassSet::EMPTY, forwarding, transmission, collector }
    }
}

impl<P: Packet, S: PortBitmap> Pipeline<P, S> {
    /// Memory of a port besides its policy, flow control and name.
    pub const PORT_BYTES: usize = Mmu::PORT_BYTES
        + size_of::<PortState>()
        + 2 * Counters::PORT_BYTES
        + size_of::<PortTransmitter<RefusedFrame<P>>>()
        + CLASSES * LinkedQueues::<P>::QUEUE_BYTES
        + Forwarding::<P, S>::PORT_BYTES
        + size_of::<usize>();
    /// Memory of a queued packet.
    pub const QUEUED_PACKET_BYTES: usize = LinkedQueues::<P>::PACKET_BYTES;

    /// Forwards one frame that `port` received at `now`.
    ///
    /// `alone` means that nothing else is due at this instant. The frame is then sent here if it can leave at once; counters and watermarks
    /// are as if it had been queued, and no port is to be served. Returns whether that is so.
    #[inline]
    pub fn handle<D: PacketAllocator<P> + PortOutput<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        alone: bool,
        driver: &mut D,
    ) -> bool {
        let Pipeline { seen, forwarding, transmission, .. } = self;
        forwarding.set_current_port(port);
        let headers = match packet.parse() {
            Parsed::Data(headers) if !forwarding.has_clones(port) => headers,
            _ => {
                self.handle_slowly(now, port, packet, driver);
                return false;
            }
        };
        let (ingress, queue) = forwarding.receive(port, Some(&headers), packet.frame_bytes());
        seen.insert(ingress.class());
        match forwarding.decide(now, port, &headers, &packet) {
            ForwardingDecision::To(to) if forwarding.accepts(to, queue) => {
                let bytes = forwarding.shared.charge_alone(ingress.class(), packet.frame_bytes());
                let charged = BufferRequest { ingress, egress: QueueId::new(to, queue), bytes };
                let is_first = alone && !forwarding.counts(port);
                let stays = if is_first { transmission.bypass(now, packet, charged, driver) } else { Some(packet) };
                let Some(packet) = stays else {
                    forwarding.counters.add(ingress, queue_stat::HANDED_OVER, 1);
                    return true;
                };
                if let Some(queued) = forwarding.admit_one(now, packet, charged, driver) {
                    transmission.enqueue(now, queued);
                }
                forwarding.count_arrived(port);
            }
            decision => self.forward_elsewhere(now, packet, ingress, queue, decision, driver),
        }
        false
    }

    /// Slow path: control frames, malformed frames, and ports with clones.
    #[inline(never)]
    fn handle_slowly(&mut self, now: Time, port: PortId, packet: P, allocator: &mut impl PacketAllocator<P>) {
        let Pipeline { forwarding, transmission, .. } = self;
        if forwarding.has_clones(port) {
            let mut burst = Burst::new();
            burst.push(packet);
            forwarding.handle_copied(now, port, &mut burst, allocator, transmission);
        } else {
            forwarding.handle_packet(now, port, packet, allocator, transmission);
            forwarding.flush(now, port, allocator, transmission);
        }
    }

    /// Slow path: a frame that goes to no port, to several, or to one that does not accept it.
    #[inline(never)]
    fn forward_elsewhere(
        &mut self,
        now: Time,
        packet: P,
        ingress: QueueId,
        queue: Class,
        decision: ForwardingDecision,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        let Pipeline { forwarding, transmission, .. } = self;
        forwarding.forward(now, packet, ingress, queue, decision, allocator, transmission);
        forwarding.flush(now, ingress.port(), allocator, transmission);
    }

    /// Takes the ports whose peers sent a message, or may be due one, since the last call.
    #[inline]
    pub fn take_pending_ports(&mut self) -> S {
        self.forwarding.take_pending_ports()
    }

    /// Serves these ports and any with new work; returns the served ports.
    ///
    /// A departure changes thresholds of all queues, but only those of the packet's ingress port are checked here. Other queues that are
    /// OFF wait for the driver's next sweep, [`Pipeline::off_ports`].
    #[inline]
    pub fn run_ports<D: PortOutput<P> + PacketAllocator<P>>(&mut self, now: Time, ports: S, driver: &mut D) -> S {
        self.transmission.run_ports(now, ports, driver)
    }

    /// Returns whether [`Pipeline::run_ports`] would serve a port even if called with none.
    #[inline]
    pub fn has_pending_ports(&self) -> bool {
        !self.transmission.pending_ports.is_empty()
    }

    /// Returns the ports with a class that is OFF. Serve them again within a bound, since no event of their own may resume the class.
    #[inline]
    pub fn off_ports(&self) -> &S {
        &self.transmission.off_ports
    }

    /// Returns the earliest instant after `now` with possible work for a port, if no packet arrives: the wire or a queue's limiter is free,
    /// a peer's pause ends, a PAUSE needs a refresh, or a watchdog is due.
    #[inline]
    pub fn next_wakeup_of(&self, now: Time, port: PortId) -> Time {
        self.transmission.next_wakeup_of(now, port)
    }

    /// Checks, in debug builds, that each received or copied frame has been sent or dropped, or is held. Holds between any two calls.
    ///
    /// # Panics
    /// If a frame is missing, which is a bug.
    #[inline]
    pub fn audit(&self) {
        self.forwarding.audit();
        self.transmission.audit();
    }

    /// Returns the report of the switch as of `now`.
    pub fn report(&mut self, now: Time) -> Report {
        let Pipeline { forwarding, transmission, collector, .. } = self;
        let mut report = collector.report_of(now, transmission.counters_at(now), forwarding.counters());
        if S::PORTS_MAX > PortSet::PORTS_MAX {
            // The published counter has 64 bits.
            for (index, port) in transmission.ports.iter().enumerate() {
                for (class, of_class) in Class::ALL.into_iter().zip(&mut report.ports[port.id.index()].classes) {
                    let (from, groups) = transmission.blocked_from(now, index, class);
                    let from = forwarding.shared.ingress_queues(from, groups, class);
                    if of_class.blocked_from != from {
                        Arc::make_mut(of_class).blocked_from = from;
                    }
                }
            }
        }
        report
    }

    /// Whether the report would change after `now`, except for its instant, even if no frame arrives and no port is served.
    pub fn report_depends_on_time(&self, now: Time) -> bool {
        self.transmission.report_depends_on_time(now)
    }

    /// Returns the shared state, which the control side reads, and where it sets links.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.forwarding.shared
    }
}
