//! Forwarding on an lcore: of what its ports received, or of what a receiver on another lcore hands over.

use std::sync::Arc;

use weir_mmu::Intake;
use weir_units::{PortId, Time};

use super::exact_match::ExactMatch;
use super::handoff::{FromReceiver, ToTransmitter};
use crate::counters::{Counters, DropReason, Published};
use crate::forwarding::{Forwarding, Onward};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore, Queued};
use crate::shared::Shared;

/// RX and FWD on one lcore: forwards what its ports received.
#[derive(Debug)]
pub(super) struct RxForwarder<P> {
    forwarding: Forwarding<P>,
    known: ExactMatch,
}

/// FWD alone: forwards what a [`Receiver`](super::Receiver) on another lcore hands over.
#[derive(Debug)]
pub(super) struct Forwarder<P> {
    forwarding: Forwarding<P>,
    known: ExactMatch,
    input: FromReceiver<P>,
    rings: Rings<P, false>,
    /// What came of one port.
    burst: Burst<P>,
}

/// The rings to the transmitters. Their forwarder obeys control frames, unless a receiver on another lcore does.
#[derive(Debug)]
pub(super) struct Rings<P, const OBEYS_CONTROL: bool> {
    /// One ring to each transmitter; none to one on this lcore.
    outputs: Box<[Option<ToTransmitter<P>>]>,
    /// Which transmitter serves a port.
    output_of: Box<[usize]>,
    /// Whether something found a ring full.
    is_waiting: bool,
}

impl<P: Packet> RxForwarder<P> {
    /// `ports` are those that are forwarded here, clones among them.
    pub(super) fn new(shared: Arc<Shared>, ports: &[PortId]) -> RxForwarder<P> {
        let counters = Counters::upfront(shared.ports().len());
        RxForwarder { forwarding: Forwarding::new(shared, ports, counters), known: ExactMatch::new() }
    }

    /// Forwards what `port` received at `now`, and empties the burst.
    pub(super) fn handle_burst(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        store: &mut impl PacketStore<P>,
        onward: &mut impl Onward<P>,
    ) {
        let RxForwarder { forwarding, known } = self;
        if forwarding.has_clones(port) {
            return forwarding.handle_copied(now, port, burst, store, onward);
        }
        forwarding.handle_burst(now, port, burst, known, store, onward);
    }

    pub(super) fn audit(&self) {
        self.forwarding.audit();
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(super) fn serve(&mut self) {
        self.forwarding.serve();
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.forwarding.published()
    }
}

impl<P: Packet> Forwarder<P> {
    /// `ports` are those that are forwarded here, clones among them.
    pub(super) fn new(
        shared: Arc<Shared>,
        ports: &[PortId],
        input: FromReceiver<P>,
        rings: Rings<P, false>,
    ) -> Forwarder<P> {
        let counters = Counters::upfront(shared.ports().len());
        let forwarding = Forwarding::new(shared, ports, counters);
        Forwarder { forwarding, known: ExactMatch::new(), input, rings, burst: Burst::new() }
    }

    /// Forwards up to a burst of what the receiver handed over; returns how much it was.
    pub(super) fn run_once(&mut self, now: Time, store: &mut impl PacketStore<P>) -> usize {
        let mut handled = 0;
        let mut port = PortId::default();
        while handled < BURST_MAX {
            let Ok((from, packet)) = self.input.pop() else { break };
            if from != port {
                self.handle_burst(now, port, store);
                port = from;
            }
            self.burst.push(packet);
            handled += 1;
        }
        self.handle_burst(now, port, store);
        handled
    }

    /// Forwards what came of `port`.
    fn handle_burst(&mut self, now: Time, port: PortId, store: &mut impl PacketStore<P>) {
        let Forwarder { forwarding, known, rings, burst, .. } = self;
        match () {
            () if burst.is_empty() => {}
            () if forwarding.has_clones(port) => forwarding.handle_copied(now, port, burst, store, rings),
            () => forwarding.handle_burst(now, port, burst, known, store, rings),
        }
    }

    /// Hands over what found a ring full.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        self.rings.hand_over_waiting();
    }

    /// Gives up what a stopped receiver left, counting it; returns how much.
    pub(super) fn discard(&mut self, reason: DropReason) -> usize {
        let mut discarded = 0;
        while let Ok((port, packet)) = self.input.pop() {
            if !packet.is_control() {
                self.forwarding.give_up(port, packet.frame_bytes(), reason);
                discarded += 1;
            }
        }
        discarded
    }

    pub(super) fn audit(&self) {
        self.forwarding.audit();
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub(super) fn serve(&mut self) {
        self.forwarding.serve();
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.forwarding.published()
    }
}

impl<P: Packet, const OBEYS_CONTROL: bool> Rings<P, OBEYS_CONTROL> {
    /// `output_of` says of each port of the switch which of the `outputs` leads to it: `None` where its transmitter is on this lcore.
    pub(super) fn new(
        outputs: impl IntoIterator<Item = Option<ToTransmitter<P>>>,
        output_of: Box<[usize]>,
    ) -> Rings<P, OBEYS_CONTROL> {
        Rings { outputs: outputs.into_iter().collect(), output_of, is_waiting: false }
    }

    /// Whether the transmitter of a port is on this lcore.
    #[inline]
    pub(super) fn is_own(&self, port: PortId) -> bool {
        self.outputs[self.output_of[port.index()]].is_none()
    }

    /// The way to the transmitter of a packet's port, unless that is on this lcore. Packets that are staged there go with the next
    /// [`Rings::hand_over`].
    #[inline]
    pub(super) fn to(&mut self, queued: &Queued<P>) -> Option<&mut ToTransmitter<P>> {
        self.outputs[self.output_of[queued.charged.egress.port().index()]].as_mut()
    }

    /// Hands over a burst that was admitted without exception, if all of it goes to one transmitter on another lcore; says whether.
    #[inline]
    pub(super) fn hand_over_all(&mut self, packets: &mut Burst<P>, intake: &Intake) -> bool {
        let mut outputs = intake.bundles().iter().map(|bundle| self.output_of[bundle.egress.port().index()]);
        let Some(first) = outputs.next() else { return true };
        if outputs.any(|output| output != first) {
            return false;
        }
        let Some(output) = &mut self.outputs[first] else { return false };
        self.is_waiting |= output.hand_over_all(packets, intake);
        true
    }

    /// Hands over what is staged.
    #[inline]
    pub(super) fn hand_over(&mut self) {
        self.is_waiting = self.outputs.iter_mut().flatten().fold(false, |waiting, output| output.hand_over() | waiting);
    }

    /// Hands over what found a ring full. To be called in each round, frames or not.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        if self.is_waiting {
            self.hand_over();
        }
    }
}

impl<P: Packet, const OBEYS_CONTROL: bool> Onward<P> for Rings<P, OBEYS_CONTROL> {
    const OBEYS_CONTROL: bool = OBEYS_CONTROL;

    #[inline]
    fn take(&mut self, _now: Time, admitted: impl Iterator<Item = Queued<P>>) {
        if let [Some(output)] = &mut *self.outputs {
            admitted.for_each(|queued| output.stage(queued));
        } else {
            admitted.for_each(|queued| self.to(&queued).expect(ELSEWHERE).stage(queued));
        }
        self.hand_over();
    }

    #[inline]
    fn take_all(&mut self, now: Time, packets: &mut Burst<P>, intake: &Intake) {
        if !self.hand_over_all(packets, intake) {
            self.take(now, Queued::all(packets, intake));
        }
    }
}

const ELSEWHERE: &str = "a forwarder without a transmitter on its lcore has a ring to each";
