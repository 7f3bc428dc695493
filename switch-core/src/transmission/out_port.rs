//! A port's way out: what its frames are held back by, and what its peer was told.

use weir_flowctl::{ClassLimits, MessageGenerator, Regulator, Shaper, wire_bytes};
use weir_mmu::EcnMarker;
use weir_units::archive::{Archive, State};
use weir_units::{Bytes, CLASSES, ClassSet, PortId, Time};
use weir_wire::trailer::Telemetry;

use crate::packet::Packet;
use crate::random::Random;
use crate::scheduler::Scheduler;
use crate::shared::{PortState, Shared};
use crate::utilisation::Utilisation;
use crate::watchdog::PortWatchdogs;

/// One port's way out. Fields that each frame touches come first; those that are looked at when the port is served, and what the
/// peer is told, come next.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OutPort<O> {
    pub(crate) id: PortId,
    /// Classes with a frame in their queue.
    pub(crate) backlog: ClassSet,
    /// Classes that the peer pauses, as last seen.
    pub(crate) paused: ClassSet,
    /// The classes that need the peer's credit.
    pub(crate) credit_classes: ClassSet,
    /// Whether the port's regulator is to be told of frames that are sent.
    pub(crate) counts_sent: bool,
    pub(crate) shaper: Shaper,
    /// What data has taken on the link, for telemetry.
    tx_bytes: u64,
    pub(crate) limits: ClassLimits,
    pub(crate) scheduler: Scheduler,
    /// What the manner keeps of it: [`Manner::Port`](super::Manner::Port).
    pub(crate) own: O,
    pub(crate) watchdogs: PortWatchdogs,
    /// Classes whose frames leave as they came, in the order in which they came, so that they may leave in rows.
    pub(crate) in_rows: ClassSet,
    /// The classes among them whose frames only the port's rate and the scheduler hold back: no rate of their own, and no credit.
    pub(crate) plain: ClassSet,
    /// What ECN's thresholds are scaled by that follow the rate: [`EcnMarker::scale_of`].
    pub(crate) ecn_scale: u64,
    pub(super) generator: MessageGenerator,
    /// Each clone, with the classes that the MMU wants paused there. Its frames come over this port's link, so its PAUSE is this port's.
    pub(super) clones_off: Box<[(PortId, ClassSet)]>,
    /// Classes that the MMU wants paused, as last seen: the port's own.
    pub(super) own_off: ClassSet,
    /// Classes that the peer is to pause whatever the buffer holds.
    pub(super) forced: ClassSet,
    /// Classes of which the peer is told that they may go on whatever the buffer holds: all, until it has been told so in the way that the
    /// port has spoken before.
    pub(super) hushed: ClassSet,
    /// `own_off` and every clone's and `forced`, minus `hushed` and the classes that a PFC storm is dropping.
    pub(super) off: ClassSet,
    /// When the peer was last told that each class is OFF, or that it is ON again. What turned a class OFF before that is told, or
    /// nobody was to be told of it: while there was no link, or in a storm.
    pub(super) told_at: [Time; CLASSES],
    /// How busy the port is, where frames are digested.
    utilisation: Utilisation,
}

/// What decides when a port's frames leave, and which is next.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) shaper: Shaper,
    pub(crate) limits: ClassLimits,
    pub(crate) scheduler: Scheduler,
}

impl<O: State> State for OutPort<O> {
    fn state(&mut self, archive: &mut Archive) {
        let OutPort {
            id: _,
            backlog,
            paused,
            credit_classes,
            counts_sent,
            shaper,
            tx_bytes,
            limits,
            scheduler,
            own,
            watchdogs,
            in_rows,
            plain,
            ecn_scale,
            generator,
            clones_off,
            own_off,
            forced,
            hushed,
            off,
            told_at,
            utilisation,
        } = self;
        for classes in [backlog, paused, credit_classes, in_rows, plain, own_off, forced, hushed, off] {
            classes.state(archive);
        }
        counts_sent.state(archive);
        shaper.state(archive);
        tx_bytes.state(archive);
        limits.state(archive);
        scheduler.state(archive);
        own.state(archive);
        watchdogs.state(archive);
        ecn_scale.state(archive);
        generator.state(archive);
        clones_off.state(archive);
        told_at.state(archive);
        utilisation.state(archive);
    }
}

impl<O> OutPort<O> {
    pub(crate) fn new(
        state: &PortState,
        clones: impl Iterator<Item = PortId>,
        pace: Pace,
        generator: MessageGenerator,
        watchdogs: PortWatchdogs,
        own: O,
    ) -> OutPort<O> {
        let Pace { shaper, limits, scheduler } = pace;
        OutPort {
            id: state.real_port,
            shaper,
            limits,
            scheduler,
            generator,
            watchdogs,
            own_off: ClassSet::EMPTY,
            forced: ClassSet::EMPTY,
            hushed: ClassSet::EMPTY,
            clones_off: clones.map(|clone| (clone, ClassSet::EMPTY)).collect(),
            off: ClassSet::EMPTY,
            paused: ClassSet::EMPTY,
            backlog: ClassSet::EMPTY,
            own,
            told_at: [Time::ZERO; CLASSES],
            tx_bytes: 0,
            utilisation: Utilisation::default(),
            ecn_scale: EcnMarker::scale_of(state.rate()),
            in_rows: ClassSet::EMPTY,
            plain: ClassSet::EMPTY,
            credit_classes: state.regulator.credit_classes(),
            counts_sent: state.regulator.counts_sent(),
        }
    }

    /// What a frame is stamped with that leaves so much behind it in its queue.
    pub(crate) fn telemetry(&self, now: Time, left: u64, shared: &Shared) -> Telemetry {
        Telemetry { at: now, tx_bytes: self.tx_bytes, queue: Bytes::new(left), rate: shared.port(self.id).rate() }
    }

    /// Stamps a frame with what it asks for, as it leaves so much behind it in its queue; it is to be put on the wire now.
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
        } else if let Some(digester) = &shared.digester
            && packet.wants_digest()
        {
            let rate = shared.port(self.id).rate();
            packet.raise_digest(digester.code(&mut self.utilisation, now, Bytes::new(left()), rate, || random.next()));
        }
    }

    /// Takes note of a frame that was put on the wire, for digests of those after it.
    #[inline]
    pub(crate) fn note_for_digests(&mut self, now: Time, wire: Bytes, shared: &Shared) {
        if shared.digester.is_some() {
            self.utilisation.note_sent(now, wire);
        }
    }

    /// Puts a frame of this length on the wire; returns what it takes there.
    #[inline]
    pub(crate) fn put_on_wire(&mut self, now: Time, frame_bytes: u32, link_overhead: Bytes) -> Bytes {
        let wire = wire_bytes(frame_bytes, link_overhead);
        self.tx_bytes += wire.get();
        self.shaper.send(now, wire);
        wire
    }

    /// Counts what frames take on the wire that were put there.
    #[inline]
    pub(crate) fn count_wire(&mut self, wire: Bytes) {
        self.tx_bytes += wire.get();
    }

    /// Classes that a pause holds.
    #[inline]
    pub(crate) fn paused(&self, now: Time, regulator: &Regulator) -> ClassSet {
        let paused = regulator.paused(now);
        if paused.is_empty() { paused } else { paused - self.watchdogs.ignoring() }
    }
}
