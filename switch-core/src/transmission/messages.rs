//! Messages to a port's peer: the classes that the buffer wants paused, and other contents of the port's flow control.

use std::mem;

use weir_flowctl::{BufferState, MessageKind, wire_bytes};
use weir_mmu::Mmu;
use weir_units::{Bytes, Class, ClassSet, PortBitmap, PortId, QueueId, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::{PortTransmitter, Transmission, TransmitMode};
use crate::counters::port_stat;
use crate::packet::{Burst, Packet, PacketAllocator, PortOutput};
use crate::shared::Shared;

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    /// Updates the classes that are to be paused.
    #[inline]
    pub(super) fn update_off(&mut self, now: Time, index: usize) {
        let port = &mut self.ports[index];
        let mmu = &self.shared.mmu;
        port.own_off = off_classes(mmu, port.id, port.own_off, now);
        let mut off = port.own_off | port.forced_xoff;
        for (clone, own) in &mut port.clones_off {
            *own = off_classes(mmu, *clone, *own, now);
            off |= *own;
        }
        off -= port.watchdogs.dropped_groups() | port.forced_xon;
        if off != port.off {
            port.off = off;
            if off.is_empty() {
                self.off_ports.remove(port.id);
            } else {
                self.off_ports.insert(port.id);
            }
        }
    }

    /// Sends a message to the peer if the state changed or a refresh is due.
    #[inline]
    pub(super) fn send_control<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        index: usize,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        let dropping = port.watchdogs.dropped_groups();
        let counts = self.shared.port(port.id).receive_accounting();
        let offered = |class| M::blocks_offered(&port.own, class, |frame_bytes| counts.count_of(frame_bytes));
        let Some(frame) = port.generator.poll(now, buffer_state(&self.shared, port.id, port.off, dropping, offered))
        else {
            return 0;
        };
        self.send_control_frame(now, index, &frame, driver)
    }

    #[cold]
    fn send_control_frame<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        index: usize,
        frame: &ControlFrame,
        driver: &mut D,
    ) -> usize {
        let port = &mut self.ports[index];
        let state = self.shared.port(port.id);
        let Some(mut packet) = driver.control(frame, state.mac) else {
            self.counters.add_port(port.id, port_stat::PUT_OFF, 1);
            return 0;
        };
        let slows = port.generator.slows(frame);
        let crossed = match frame {
            _ if slows => port.crossed_at(now, &self.shared),
            // Sent at its time, regardless of arrivals.
            ControlFrame::Credit(_) => Some(now),
            _ => None,
        };
        if let Some(crossed) = crossed {
            driver.on_threshold_crossed(&mut packet, crossed);
        }
        let ordered_set = driver.control_wire_bytes(frame);
        let wire = ordered_set.unwrap_or(wire_bytes(packet.frame_bytes(), self.link_overhead));
        let mut burst = Burst::new();
        burst.push(packet);
        // A message with the count of sent data (FCTBS) leaves behind that data.
        let accepted = if port.counts_sent {
            driver.transmit(port.id, &mut burst)
        } else {
            driver.transmit_control(port.id, &mut burst)
        };
        if accepted == 0 {
            // The port accepts nothing now; the generator asks again at the next poll.
            return 0;
        }
        // A control frame is not held back by the shaper, but takes link time of the port.
        port.shaper.send(now, wire);
        M::on_control_sent(&mut port.own, wire);
        if let Some(crossed) = crossed {
            state.record_slowed(crossed);
            if slows {
                self.mode.record_message_delay(now.since(crossed));
            }
        }
        let (before, off) = (port.generator.advertised_off(), port.off);
        let dropping = port.watchdogs.dropped_groups();
        let counts = self.shared.port(port.id).receive_accounting();
        let offered = |class| M::blocks_offered(&port.own, class, |frame_bytes| counts.count_of(frame_bytes));
        port.generator.handle_sent(now, frame, buffer_state(&self.shared, port.id, off, dropping, offered));
        let after = port.generator.advertised_off();
        match frame {
            ControlFrame::Pfc(_) => self.counters.add_port(port.id, port_stat::PFC, 1),
            ControlFrame::Pause(_) => self.counters.add_port(port.id, port_stat::PAUSE, 1),
            ControlFrame::Credit(_) | ControlFrame::Queue(_) | ControlFrame::Update(_) => {
                self.counters.add_port(port.id, port_stat::CREDIT, 1);
                self.counters.add_port(port.id, port_stat::ORDERED_SETS, u64::from(ordered_set.is_some()));
            }
            ControlFrame::Raw(_) => self.counters.add_port(port.id, port_stat::OWN, 1),
        }
        for class in (after | before).iter() {
            let stat = if after.contains(class) { port_stat::XOFF } else { port_stat::XON };
            self.counters.add_port(port.id, stat + class.index(), 1);
        }
        for class in (after - before).iter() {
            self.counters.add_port(port.id, port_stat::PAUSES + class.index(), 1);
            let held = self.shared.mmu.held(QueueId::new(port.id, class)).get();
            self.counters.add_port(port.id, port_stat::HELD_AT_PAUSES + class.index(), held);
            port.advertised_at[class.index()] = now;
        }
        self.count_off(now, index, before & !after);
        1
    }

    /// Counts the time for which these classes were advertised as OFF.
    pub(super) fn count_off(&mut self, now: Time, index: usize, classes: ClassSet) {
        let port = &mut self.ports[index];
        for class in classes.iter() {
            let since = mem::replace(&mut port.advertised_at[class.index()], now);
            let off_for: Span = now.since(since);
            self.counters.add_port(port.id, port_stat::OFF_PICOS + class.index(), off_for.as_picos());
        }
    }
}

impl<O> PortTransmitter<O> {
    /// Returns the arrival instant that caused a message which slows the peer at `now`. `None` if there was none: forced pauses cross no
    /// threshold, or the classes are ON again.
    fn crossed_at(&self, now: Time, shared: &Shared) -> Option<Time> {
        let state = shared.port(self.id);
        match state.flow_control().message_kind() {
            MessageKind::Pfc | MessageKind::Pause => {
                let turned = self.off - self.generator.advertised_off() - self.forced_xoff;
                turned.iter().filter_map(|class| self.turned_off_at(class, shared)).min()
            }
            MessageKind::Stages => Some(state.admitted_at()),
            _ => Some(now),
        }
    }

    /// Returns when a class that the peer knows as ON was turned OFF, by this port's own queue or a clone's.
    fn turned_off_at(&self, class: Class, shared: &Shared) -> Option<Time> {
        let ports = std::iter::once(self.id).chain(self.clones_off.iter().map(|(clone, _)| *clone));
        let off_since = ports.filter_map(|port| shared.mmu.off_since(port, class)).min()?;
        Some(off_since.max(self.advertised_at[class.index()]))
    }
}

/// Returns the classes of an ingress port that are to be paused. Classes that are OFF are checked again, since no event of their own may
/// resume them.
#[inline]
fn off_classes(mmu: &Mmu, port: PortId, before: ClassSet, now: Time) -> ClassSet {
    let off = mmu.off_classes(port, before);
    if off.is_empty() { ClassSet::EMPTY } else { still_off_classes(mmu, port, off, now) }
}

#[inline(never)]
fn still_off_classes(mmu: &Mmu, port: PortId, off: ClassSet, now: Time) -> ClassSet {
    mmu.reconsider(port, off, now);
    mmu.off_classes(port, off)
}

/// Returns the buffer's state for messages to a port's peer. The `dropping` classes have no occupancy, as their frames are not kept. The
/// regulator counts `offered` data as sent; it is subtracted, since a message goes ahead of it.
#[inline]
fn buffer_state<'a>(
    shared: &'a Shared,
    port: PortId,
    off: ClassSet,
    dropping: ClassSet,
    offered: impl Fn(Class) -> u32 + 'a,
) -> BufferState<'a, impl Fn(Class) -> Bytes + 'a, impl Fn(Class) -> u32 + 'a> {
    let held = move |class: Class| {
        if dropping.contains(class) { Bytes::ZERO } else { shared.mmu.held(QueueId::new(port, class)) }
    };
    let sent = move |class: Class| shared.port(port).regulator.sent_total(class).wrapping_sub(offered(class));
    BufferState { xoff: off, occupancy: held, blocks_sent: sent, arrived: shared.port(port).receive_accounting() }
}
