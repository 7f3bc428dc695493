//! A port's link that comes, goes or changes its speed: flow control starts anew with it, or goes on by the new speed.

use weir_units::Time;

use super::{Manner, Transmission};
use crate::packet::Packet;

impl<P: Packet, M: Manner<P>> Transmission<P, M> {
    /// Whether a port has a link, after what follows from one that came, went or changed its speed.
    #[inline]
    pub(super) fn has_link(&mut self, now: Time, index: usize) -> bool {
        self.shared.port(self.ports[index].id).has_known_link() || self.follow_link(now, index)
    }

    /// Starts a port's flow control anew, if its link has changed; returns whether there is one.
    ///
    /// What the peer said is forgotten when the link goes, and not when it comes: the peer may have seen it come before, and
    /// what it has said since then counts.
    #[cold]
    fn follow_link(&mut self, now: Time, index: usize) -> bool {
        if self.shared.port(self.ports[index].id).take_new_rate() {
            self.follow_rate(now, index);
        }
        let state = self.shared.port(self.ports[index].id);
        let Some(is_up) = state.take_link_change() else { return state.link_up() };
        if is_up {
            // Queues that went OFF or grew before are told of now only, and that is no delay of the switch's.
            state.note_xoff(now);
            state.note_admitted(now);
        } else {
            state.regulator.forget(now);
            state.arrived.forget();
        }
        self.count_off(now, index, self.ports[index].generator.advertised_off());
        let port = &mut self.ports[index];
        port.generator.restart(if is_up { now } else { Time::NEVER });
        port.paused = port.paused(now, &self.shared.port(port.id).regulator);
        // Taken over here, as nothing is obeyed by it.
        port.limits.follow(now, &self.shared.port(port.id).regulator);
        is_up
    }

    /// Takes over the speed of the port's link.
    fn follow_rate(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        if state.rate.follows() {
            port.generator.set_rate(now, state.rate());
            port.limits.set_line(now, state.rate());
            if let Some(rate) = state.rate.shaped_to() {
                port.shaper.set_rate(now, rate);
            }
        }
        M::note_rate(&mut port.own, state);
    }
}
