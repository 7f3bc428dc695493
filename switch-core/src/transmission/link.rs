//! Changes of a port's link: flow control restarts when it comes or goes, or adopts its new speed.

use weir_flowctl::MessageGenerator;
use weir_mmu::EcnMarker;
use weir_units::{CLASSES, ClassSet, Time};

use super::{Manner, Transmission};
use crate::packet::Packet;
use crate::shared::{LinkChange, PortState};

impl<P: Packet, M: Manner<P>> Transmission<P, M> {
    /// Returns whether a port has a link; takes over pending changes of its state and speed first.
    #[inline]
    pub(super) fn has_link(&mut self, now: Time, index: usize) -> bool {
        self.shared.port(self.ports[index].id).has_known_link() || self.follow_link(now, index)
    }

    /// Takes over changes of a port, and restarts flow control if the link's state changed; returns whether there is a link.
    ///
    /// The peer's messages are discarded when the link goes, and not when it comes: the peer may have seen it come earlier, and its
    /// messages since then count. If a link went and came between two polls, earlier messages are discarded now, unless a message has come
    /// since.
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
            // Queues that went OFF or grew earlier are advertised only now; that delay is not the switch's.
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
        // Rate updates are consumed here, as they are no reaction to a message.
        port.limits.follow(now, &self.shared.port(port.id).regulator);
        is_up
    }

    /// Takes over the speed of the port's link, or the configured rate.
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

    /// Switches to another flow control, after the peer's classes were resumed by the old one.
    fn follow_language(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        state.regulator.forget(now);
        if state.link_up() && !port.generator.advertised_off().is_empty() {
            port.hushed = ClassSet::ALL;
            return state.put_off_language();
        }
        port.hushed = ClassSet::EMPTY;
        // The classes matter only to GFC and credit; without them nothing is allocated.
        port.generator = MessageGenerator::new(state.mechanism(), state.rate(), ClassSet::EMPTY);
        port.forced = forced(state);
        // Queues that went OFF earlier are advertised only now; that delay is not the switch's.
        port.told_at = [now; CLASSES];
    }

    /// Takes over the queue configuration, the watchdog's configuration and the forced pauses.
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

/// Returns the classes that the peer is to pause regardless of the buffer, if the port sends pauses.
fn forced(state: &PortState) -> ClassSet {
    if state.mechanism().tells().off_classes() { state.forced_pause() } else { ClassSet::EMPTY }
}
