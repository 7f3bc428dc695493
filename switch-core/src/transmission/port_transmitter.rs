//! Transmit side of a port: the conditions that hold its frames back, and the state advertised to its peer.

use weir_flowctl::{ClassRateLimiters, MessageGenerator, Shaper, TxRegulator, wire_bytes};
use weir_mmu::EcnMarker;
use weir_units::{Bytes, CLASSES, ClassSet, PortId, Time};
use weir_wire::trailer::Telemetry;

use crate::packet::Packet;
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::shared::{PortState, Shared};
use crate::utilisation::Utilisation;
use crate::watchdog::PortWatchdogs;

/// Transmit side of one port. Fields that each frame touches come first. Next come those that are read when the port is served, and the
/// state advertised to the peer.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct PortTransmitter<O> {
    pub(crate) id: PortId,
    /// Classes with a queued frame.
    pub(crate) backlog: ClassSet,
    /// Classes that the peer pauses, as last seen.
    pub(crate) paused: ClassSet,
    /// Classes that need the peer's credit.
    pub(crate) credit_classes: ClassSet,
    /// Classes that share their credit.
    pub(crate) credit_sharing: ClassSet,
    /// Whether the port's regulator counts sent frames.
    pub(crate) counts_sent: bool,
    pub(crate) shaper: Shaper,
    /// Link time of sent data in bytes, for telemetry.
    tx_bytes: u64,
    pub(crate) limits: ClassRateLimiters,
    pub(crate) scheduler: Scheduler,
    /// State of the transmit mode: [`TransmitMode::Port`](super::TransmitMode::Port).
    pub(crate) own: O,
    pub(crate) watchdogs: PortWatchdogs,
    /// Classes that only the port's rate and the scheduler hold back: no rate of their own, and no credit.
    pub(crate) plain: ClassSet,
    /// Scale of the ECN thresholds that follow the rate: [`EcnMarker::scale_of`].
    pub(crate) ecn_scale: u64,
    pub(super) generator: MessageGenerator,
    /// Clones, each with the classes that the MMU wants paused there. A clone's frames come over this port's link, so this port sends its
    /// PAUSE.
    pub(super) clones_off: Box<[(PortId, ClassSet)]>,
    /// Classes of the port itself that the MMU wants paused, as last seen.
    pub(super) own_off: ClassSet,
    /// Classes that the peer is to pause regardless of the buffer.
    pub(super) forced_xoff: ClassSet,
    /// Classes that are resumed regardless of the buffer: all, while a change of flow control waits for the resume by the old flow control.
    pub(super) forced_xon: ClassSet,
    /// Classes to be advertised as OFF: `own_off`, `clones_off` and `forced_xoff`, minus `forced_xon` and the classes that a storm drops.
    pub(super) off: ClassSet,
    /// Instant when each class was last advertised as OFF or ON. An OFF cause before it was advertised, or needed no message because there
    /// was no link or a storm.
    pub(super) advertised_at: [Time; CLASSES],
    /// Utilisation of the port, where frames are digested.
    utilisation: Utilisation,
}

/// Shaper, limits and scheduler of a port, which decide when frames leave and which is next.
#[derive(Debug)]
pub(crate) struct EgressTiming {
    pub(crate) shaper: Shaper,
    pub(crate) limits: ClassRateLimiters,
    pub(crate) scheduler: Scheduler,
}

impl<O> PortTransmitter<O> {
    pub(crate) fn new(
        state: &PortState,
        clones: impl Iterator<Item = PortId>,
        timing: EgressTiming,
        generator: MessageGenerator,
        watchdogs: PortWatchdogs,
        own: O,
    ) -> PortTransmitter<O> {
        let EgressTiming { shaper, limits, scheduler } = timing;
        PortTransmitter {
            id: state.real_port,
            shaper,
            limits,
            scheduler,
            generator,
            watchdogs,
            own_off: ClassSet::EMPTY,
            forced_xoff: ClassSet::EMPTY,
            forced_xon: ClassSet::EMPTY,
            clones_off: clones.map(|clone| (clone, ClassSet::EMPTY)).collect(),
            off: ClassSet::EMPTY,
            paused: ClassSet::EMPTY,
            backlog: ClassSet::EMPTY,
            own,
            advertised_at: [Time::ZERO; CLASSES],
            tx_bytes: 0,
            utilisation: Utilisation::default(),
            ecn_scale: EcnMarker::scale_of(state.rate()),
            plain: ClassSet::EMPTY,
            credit_classes: state.regulator.credit_classes(),
            credit_sharing: state.regulator.credit_sharing(),
            counts_sent: state.regulator.counts_sent(),
        }
    }

    /// Returns the telemetry of a frame that leaves `left` bytes behind it in its queue.
    pub(crate) fn telemetry(&self, now: Time, left: u64, shared: &Shared) -> Telemetry {
        Telemetry { at: now, tx_bytes: self.tx_bytes, queue: Bytes::new(left), rate: shared.port(self.id).rate() }
    }

    /// Stamps a frame with the telemetry or digest that it asks for. The frame goes on the wire now, and `left` returns the bytes behind it
    /// in its queue.
    #[inline]
    pub(crate) fn stamp<P: Packet>(
        &mut self,
        now: Time,
        packet: &mut P,
        left: impl FnOnce() -> u64,
        shared: &Shared,
        random: &mut Random,
    ) {
        if packet.wants_telemetry() {
            packet.stamp(&self.telemetry(now, left(), shared));
        } else if let Some(encoder) = &shared.digest_encoder
            && packet.wants_digest()
        {
            let rate = shared.port(self.id).rate();
            packet.raise_digest(encoder.code(&mut self.utilisation, now, Bytes::new(left()), rate, || random.next()));
        }
    }

    /// Counts a frame that was put on the wire, for digests of later frames.
    #[inline]
    pub(crate) fn record_for_digests(&mut self, now: Time, wire: Bytes, shared: &Shared) {
        if shared.digest_encoder.is_some() {
            self.utilisation.record_sent(now, wire);
        }
    }

    /// Puts a frame on the wire; returns its link time in bytes.
    #[inline]
    pub(crate) fn put_on_wire(&mut self, now: Time, frame_bytes: u32, link_overhead: Bytes) -> Bytes {
        let wire = wire_bytes(frame_bytes, link_overhead);
        self.tx_bytes += wire.get();
        self.shaper.send(now, wire);
        wire
    }

    /// Counts the link time, in bytes, of frames that were put on the wire.
    #[inline]
    pub(crate) fn count_wire(&mut self, wire: Bytes) {
        self.tx_bytes += wire.get();
    }

    /// Returns the paused classes, except those whose pauses a watchdog ignores.
    #[inline]
    pub(crate) fn paused(&self, now: Time, regulator: &TxRegulator) -> ClassSet {
        let paused = regulator.paused(now);
        if paused.is_empty() { paused } else { paused - self.watchdogs.ignoring() }
    }
}
