//! A port's link that comes, goes or changes its speed: flow control starts anew with it, or goes on by the new speed.

use weir_flowctl::MessageGenerator;
use weir_mmu::EcnMarker;
use weir_units::{CLASSES, ClassSet, Time};

use super::{Manner, Transmission};
use crate::packet::Packet;
use crate::shared::{LinkChange, PortState};

impl<P: Packet, M: Manner<P>> Transmission<P, M> {
    /// Whether a port has a link, after what follows from one that came, went or changed its speed.
    #[inline]
    pub(super) fn has_link(&mut self, now: Time, index: usize) -> bool {
        self.shared.port(self.ports[index].id).has_known_link() || self.follow_link(now, index)
    }

    /// Starts a port's flow control anew, if its link has changed; returns whether there is one.
    ///
    /// What the peer said is forgotten when the link goes, and not when it comes: the peer may have seen it come before, and
    /// what it has said since then counts. If a link went and came between two polls, what was said before is forgotten now, unless
    /// the peer has spoken since.
    #[cold]
    fn follow_link(&mut self, now: Time, index: usize) -> bool {
        let steered = self.shared.port(self.ports[index].id).take_steered();
        if self.shared.port(self.ports[index].id).take_new_rate() {
            self.follow_rate(now, index, false);
        }
        if steered.rate {
            self.follow_rate(now, index, true);
        }
        if steered.language {
            self.follow_language(now, index);
        }
        if steered.tuning {
            self.follow_tuning(now, index);
        }
        let state = self.shared.port(self.ports[index].id);
        let Some(change) = state.take_link_change() else { return state.link_up() };
        let is_up = change != LinkChange::Went;
        if is_up {
            // Queues that went OFF or grew before are told of now only, and that is no delay of the switch's.
            state.note_admitted(now);
        }
        let forgets = match change {
            LinkChange::Went => true,
            LinkChange::Came => false,
            LinkChange::WentAndCame => !state.has_heard_since_parting(),
        };
        if forgets {
            state.regulator.forget(now);
            state.arrived().forget();
        }
        self.count_off(now, index, self.ports[index].generator.advertised_off());
        let port = &mut self.ports[index];
        port.told_at = [now; CLASSES];
        port.generator.restart(if is_up { now } else { Time::NEVER });
        port.paused = port.paused(now, &self.shared.port(port.id).regulator);
        // Taken over here, as nothing is obeyed by it.
        port.limits.follow(now, &self.shared.port(port.id).regulator);
        is_up
    }

    /// Takes over the speed of the port's link, or the rate that the port was given.
    fn follow_rate(&mut self, now: Time, index: usize, is_given: bool) {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        if is_given || state.rate.follows() {
            port.generator.set_rate(now, state.rate());
            port.limits.set_line(now, state.rate());
            port.ecn_scale = EcnMarker::scale_of(state.rate());
            match state.rate.shaped_to() {
                Some(rate) => port.shaper.set_rate(now, rate),
                None => port.shaper.lift(now),
            }
        }
        M::note_rate(&mut port.own, state);
    }

    /// Speaks another flow control, once the peer has been told by the one before that all classes may go on.
    fn follow_language(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        state.regulator.forget(now);
        if state.link_up() && !port.generator.advertised_off().is_empty() {
            port.hushed = ClassSet::ALL;
            return state.put_off_language();
        }
        port.hushed = ClassSet::EMPTY;
        // Neither needs the classes, which GFC and credit go by, nor takes memory.
        port.generator = MessageGenerator::new(state.mechanism(), state.rate(), ClassSet::EMPTY);
        port.forced = forced(state);
        // Queues that went OFF before are told of now only, and that is no delay of the switch's.
        port.told_at = [now; CLASSES];
    }

    /// Takes over how the port's queues are to be served, what the watchdog goes by, and what the peer is to pause.
    fn follow_tuning(&mut self, now: Time, index: usize) {
        let Transmission { shared, ports, markers, leaving_markers, marks_arrivals, .. } = self;
        let (port, tuning) = (&mut ports[index], &shared.tuning);
        let state = shared.port(port.id);
        port.scheduler.set(tuning.quanta(), tuning.strict());
        port.limits.set_rates(now, state.rate(), tuning.rates());
        if let Some(config) = tuning.watchdog() {
            port.watchdogs.set_config(&config);
        }
        port.forced = forced(state);
        // All ports here have the same markers.
        *markers = tuning.markers();
        *leaving_markers = super::of_leaving(markers);
        *marks_arrivals = super::marks_arrivals(markers);
        self.find_rows();
    }
}

/// The classes that the peer is to pause whatever the buffer holds, if the port can tell it so.
fn forced(state: &PortState) -> ClassSet {
    if state.mechanism().tells().off_classes() { state.forced_pause() } else { ClassSet::EMPTY }
}
