//! What is woken at the ends of wires: switches and hosts.

use std::sync::Arc;

use weir_config::{Layout, LcoreConfig, SwitchConfig};
use weir_flowctl::frame::ControlFrame;
use weir_switch_core::report::{Report, Reporter};
use weir_switch_core::{
    BuildError, Burst, Forwarder, PacketStore, Plan, PortFacts, PortOutput, Shared, Switch, Transmitter,
};
use weir_units::{MacAddr, PortId, Span, Time};

use super::agenda::Agenda;
use super::frame::{FramePool, SimFrame};
use super::wire::Wire;
use crate::host::Host;

/// A switch: its halves, all on one lcore, and what has arrived for it.
#[derive(Debug)]
pub(super) struct SwitchStation {
    shared: Arc<Shared>,
    forwarder: Forwarder<SimFrame>,
    transmitter: Transmitter<SimFrame>,
    reporter: Reporter,
    /// The wire that leaves each port; none for a port without a link.
    wires: Box<[Option<usize>]>,
    /// What arrived at this instant.
    arrived: Vec<(PortId, SimFrame)>,
    /// The port that is first where several have an arrival at one instant.
    turn: usize,
    burst: Burst<SimFrame>,
}

/// A host, and the wire that leaves it.
#[derive(Debug)]
pub(super) struct HostStation {
    pub(super) host: Host,
    pub(super) wire: usize,
    /// A frame's memory, taken before it is known whether there is a frame to send.
    blank: Option<SimFrame>,
}

/// The wires as a station sees them.
pub(super) struct Outside<'s> {
    pub(super) now: Time,
    pub(super) wires: &'s mut [Wire],
    pub(super) agenda: &'s mut Agenda,
    pub(super) pool: &'s FramePool,
}

/// The same as a switch sees them, port by port.
struct Ports<'s> {
    outside: Outside<'s>,
    wires: &'s [Option<usize>],
}

impl Outside<'_> {
    fn send(&mut self, wire: usize, frame: SimFrame) {
        self.wires[wire].send(self.now, frame);
        self.agenda.wake(wire, self.wires[wire].next_wakeup());
    }
}

impl SwitchStation {
    /// Switch `number` of a scenario, with these wires at its ports.
    pub(super) fn new(
        number: usize,
        config: &SwitchConfig,
        wires: Box<[Option<usize>]>,
    ) -> Result<SwitchStation, BuildError> {
        let mac = |port: usize| MacAddr([2, 1, (number >> 8) as u8, number as u8, (port >> 8) as u8, port as u8]);
        let facts: Vec<PortFacts> =
            (0..config.ports.len()).map(|port| PortFacts { mac: mac(port), rate: None }).collect();
        let switch = Switch::new(config, &facts, weir_switch_core::Surroundings::real_time(Span::ZERO))?;
        let shared = switch.shared().clone();
        shared.ports().iter().zip(&wires).for_each(|(port, wire)| port.set_link_up(wire.is_some()));
        let mut halves = switch.into_halves(&on_one_lcore(config));
        let lcore = halves.lcores.remove(0);
        let (Some(forwarder), Some(transmitter)) = (lcore.forwarder, lcore.transmitter) else {
            unreachable!("one lcore has all roles")
        };
        Ok(SwitchStation {
            shared,
            forwarder,
            transmitter,
            reporter: halves.reporter,
            wires,
            arrived: Vec::new(),
            turn: 0,
            burst: Burst::new(),
        })
    }

    /// A frame has arrived at the instant of the next [`SwitchStation::run`].
    #[inline]
    pub(super) fn handle_arrival(&mut self, port: PortId, frame: SimFrame) {
        self.arrived.push((port, frame));
    }

    /// Forwards what has arrived and sends what may be sent; returns when it is to be woken next.
    pub(super) fn run(&mut self, outside: Outside<'_>) -> Time {
        let now = outside.now;
        let mut ports = Ports { outside, wires: &self.wires };
        take_turns(&mut self.arrived, &mut self.turn, ports.wires.len());
        let mut arrived = self.arrived.drain(..).peekable();
        while let Some((port, frame)) = arrived.next() {
            self.burst.push(frame);
            if self.burst.is_full() || arrived.peek().is_none_or(|(next, _)| *next != port) {
                self.forwarder.handle_burst(now, port, &mut self.burst, &mut ports);
            }
        }
        drop(arrived);
        // A departure at one port may be what another one's message waits for.
        while self.transmitter.run_once(now, &mut ports) > 0 {}
        let next = self.transmitter.next_wakeup(now);
        assert!(next > now, "a switch that had nothing to do at {now:?} wants to be woken at {next:?}");
        next
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn report(&mut self, now: Time) -> Report {
        let SwitchStation { reporter, forwarder, transmitter, .. } = self;
        let serve = || {
            forwarder.serve();
            transmitter.serve(now);
            true
        };
        reporter.collect(now, serve).expect("the halves answer at once")
    }
}

impl HostStation {
    pub(super) fn new(host: Host, wire: usize) -> HostStation {
        HostStation { host, wire, blank: None }
    }

    /// Sends what may be sent; returns when the host is to be woken next.
    pub(super) fn run(&mut self, mut outside: Outside<'_>) -> Time {
        let now = outside.now;
        loop {
            let next = self.host.next_wakeup(now);
            if next > now {
                return next;
            }
            let mut frame = self.blank.take().unwrap_or_else(|| outside.pool.take());
            let Some(frame_bytes) = self.host.poll_transmit(now, frame.bytes_mut()) else {
                panic!("a host that had nothing to send at {now:?} wants to be woken at {next:?}");
            };
            frame.cut(frame_bytes);
            outside.send(self.wire, frame);
        }
    }
}

impl PacketStore<SimFrame> for Ports<'_> {
    fn copy(&mut self, packet: &SimFrame) -> Option<SimFrame> {
        Some(self.outside.pool.copy(packet))
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<SimFrame> {
        Some(self.outside.pool.control(frame, source))
    }
}

impl PortOutput<SimFrame> for Ports<'_> {
    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut Burst<SimFrame>) -> usize {
        let sent = burst.len();
        for frame in burst.drain(..) {
            // What goes to a port without a link, flow control that is, goes nowhere.
            if let Some(wire) = self.wires[port.index()] {
                self.outside.send(wire, frame);
            }
        }
        sent
    }
}

fn on_one_lcore(config: &SwitchConfig) -> Plan {
    let lcores = LcoreConfig { layout: Layout::Single, cores: Vec::new() };
    Plan::new(&SwitchConfig { lcores, ..config.clone() }, 1).expect("one lcore is enough for all roles")
}

/// Puts arrivals of one instant in order: by port, beginning with the one whose turn it is. The turn goes on when it has
/// made a difference, so that of ports whose frames always arrive together none is always first.
#[inline]
fn take_turns<T>(arrived: &mut [(PortId, T)], turn: &mut usize, ports: usize) {
    let [(first, _), rest @ ..] = &*arrived else { return };
    if rest.iter().all(|(port, _)| port == first) {
        return;
    }
    arrived.sort_by_key(|(port, _)| (port.index() + ports - *turn) % ports);
    *turn = (arrived[0].0.index() + 1) % ports;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns_in_being_first() {
        let mut turn = 0;
        let mut order = |ports: &[u16]| {
            let mut arrived: Vec<(PortId, usize)> = ports.iter().map(|port| PortId(*port)).zip(0..).collect();
            take_turns(&mut arrived, &mut turn, 4);
            arrived.into_iter().map(|(port, n)| (port.0, n)).collect::<Vec<_>>()
        };
        assert_eq!(order(&[0, 3, 0]), [(0, 0), (0, 2), (3, 1)], "frames of a port keep their order");
        assert_eq!(order(&[0, 3]), [(3, 1), (0, 0)]);
        assert_eq!(order(&[3, 3]), [(3, 0), (3, 1)]);
        assert_eq!(order(&[0, 3]), [(0, 0), (3, 1)]);
        assert_eq!(order(&[0, 2, 3]), [(2, 1), (3, 2), (0, 0)]);
        assert_eq!(order(&[0, 2, 3]), [(3, 2), (0, 0), (2, 1)]);
    }
}
