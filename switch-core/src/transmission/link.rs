//! Changes of a port's link: flow control restarts when the link goes down or comes up, and adopts a new speed.

use weir_flowctl::MessageGenerator;
use weir_mmu::EcnMarker;
use weir_units::{CLASSES, ClassSet, Span, Time};

use super::{Transmission, TransmitMode};
use crate::packet::Packet;
use crate::shared::{LinkChange, PortState};

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    /// Returns whether a port has a link; takes over pending changes of its state and speed first.
    #[inline]
    pub(super) fn has_link(&mut self, now: Time, index: usize) -> bool {
        self.shared.port(self.ports[index].id).has_known_link() || self.apply_link_change(now, index)
    }

    /// Takes over changes of a port, and restarts flow control if the link's state changed; returns whether there is a link.
    ///
    /// The peer's messages are discarded when the link goes down, and not when it comes up: the peer may have seen it up earlier, and its
    /// messages since then count. If a link flapped between two polls, earlier messages are discarded now, unless a message has arrived
    /// since.
    #[cold]
    fn apply_link_change(&mut self, now: Time, index: usize) -> bool {
        let changes = self.shared.port(self.ports[index].id).take_pending_changes();
        if self.shared.port(self.ports[index].id).take_new_rate() {
            self.apply_rate(now, index, false);
        }
        if changes.rate {
            self.apply_rate(now, index, true);
        }
        if changes.flow_control {
            self.apply_flow_control(now, index);
        }
        if changes.runtime_config {
            self.apply_runtime_config(now, index);
        }
        let state = self.shared.port(self.ports[index].id);
        let Some(change) = state.take_link_change() else { return state.link_up() };
        let is_up = change != LinkChange::Down;
        if is_up {
            // Queues that went OFF or grew earlier are advertised only now; that delay is not the switch's.
            state.record_admitted(now);
        }
        let resets = match change {
            LinkChange::Down => true,
            LinkChange::Up => false,
            LinkChange::Flapped => !state.has_heard_since_link_loss(),
        };
        if resets {
            state.regulator.reset(now);
            state.receive_accounting().reset();
        }
        self.count_off(now, index, self.ports[index].generator.advertised_off());
        let port = &mut self.ports[index];
        port.advertised_at = [now; CLASSES];
        port.generator.restart(if is_up { now } else { Time::NEVER });
        port.paused = port.paused(now, &self.shared.port(port.id).regulator);
        // Rate updates are consumed here, as they are no reaction to a message.
        port.limits.follow(now, &self.shared.port(port.id).regulator);
        is_up
    }

    /// Takes over the speed of the port's link, or the configured rate.
    fn apply_rate(&mut self, now: Time, index: usize, is_given: bool) {
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
        M::on_rate_change(&mut port.own, state);
    }

    /// Switches to another flow control, after the peer's classes were resumed by the old one.
    fn apply_flow_control(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        state.regulator.reset(now);
        if state.link_up() && !port.generator.advertised_off().is_empty() {
            port.forced_xon = ClassSet::ALL;
            return state.defer_flow_control();
        }
        port.forced_xon = ClassSet::EMPTY;
        // The classes matter only to GFC and credit; without them nothing is allocated.
        port.generator = MessageGenerator::new(state.flow_control(), state.rate(), ClassSet::EMPTY);
        port.forced_xoff = forced_xoff(state);
        // Queues that went OFF earlier are advertised only now; that delay is not the switch's.
        port.advertised_at = [now; CLASSES];
    }

    /// Takes over the queue configuration, the watchdog's configuration and the forced pauses.
    fn apply_runtime_config(&mut self, now: Time, index: usize) {
        let Transmission { shared, ports, markers, .. } = self;
        let (port, runtime_config) = (&mut ports[index], &shared.runtime_config);
        let state = shared.port(port.id);
        port.scheduler.set(runtime_config.quanta(), runtime_config.strict());
        let rates = runtime_config.rates();
        // On lcores they are allocated at the start; in virtual time, which is never late, when a class gets its first rate.
        if !M::IS_RECONFIGURABLE && rates.iter().any(Option::is_some) {
            port.limits.allocate(state.rate(), Span::ZERO);
        }
        port.limits.set_rates(now, state.rate(), rates);
        if let Some(config) = runtime_config.watchdog() {
            port.watchdogs.set_config(&config);
        }
        port.forced_xoff = forced_xoff(state);
        // All ports here have the same markers.
        *markers = runtime_config.markers();
        self.find_classes();
    }
}

/// Returns the classes that the peer is to pause regardless of the buffer, if the port sends pauses.
fn forced_xoff(state: &PortState) -> ClassSet {
    if state.flow_control().message_kind().advertises_xoff() { state.forced_pause() } else { ClassSet::EMPTY }
}
