//! Events of hosts and links for the control thread.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_driver::Tapped;
use weir_dpdk_io::Mbuf;
use weir_nic::host::{Completion, Host, ProgramEvent};
use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_units::Time;
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::triggers::{HostTriggers, Trigger};

/// Capacity of the event ring to the control thread.
const EVENT_RING_CAPACITY: usize = 4_096;

/// Event of a host or link for the control thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostEvent {
    /// PFC frame sent by a switch port, or by the host attached to it.
    Pfc(Time, MessageOrigin, PortRef, PfcFrame),
    /// Completed message; the flow is the host's own index.
    Completed(Completion),
    /// Event of a program of the host.
    Program(ProgramEvent),
}

/// Control thread's end of an event ring.
#[derive(Debug)]
pub(super) struct EventReceiver {
    /// Host that the events are from, by index in the scenario; `None` for a link.
    pub(super) host: Option<usize>,
    pub(super) events: Consumer<HostEvent>,
    pub(super) capture: Option<Tapped>,
}

/// Host's end of an event ring, with the triggers of the host's programs.
pub(super) struct HostReporter {
    pub(super) events: Producer<HostEvent>,
    /// Events of programs and completions for which the ring had no room.
    unreported: VecDeque<HostEvent>,
    /// Triggers of the host's programs; `None` without any.
    triggers: Option<HostTriggers>,
}

impl HostReporter {
    /// Creates the ends of a host's event ring.
    pub(super) fn new(
        host: usize,
        triggers: Option<HostTriggers>,
        capture: Option<Tapped>,
    ) -> (HostReporter, EventReceiver) {
        let (events, event_receiver) = event_ring(Some(host), capture);
        (HostReporter { events, unreported: VecDeque::new(), triggers }, event_receiver)
    }

    /// Hands the triggers of other hosts to the host; returns their number.
    pub(super) fn take_triggers(&mut self, now: Time, host: &mut Host) -> usize {
        let Some(triggers) = &mut self.triggers else { return 0 };
        let mut taken = 0;
        while let Some(Trigger { program, channel }) = triggers.receive() {
            host.handle_trigger(now, program, channel);
            taken += 1;
        }
        taken
    }

    /// Sends the triggers of the host's programs, and reports their events, then completed messages.
    pub(super) fn report(&mut self, host: &mut Host) {
        for event in host.drain_program_events() {
            self.triggers.iter_mut().for_each(|triggers| triggers.send(&event));
            self.unreported.push_back(HostEvent::Program(event));
        }
        self.unreported.extend(host.drain_completions().map(HostEvent::Completed));
        while let Some(event) = self.unreported.front()
            && self.events.push(*event).is_ok()
        {
            self.unreported.pop_front();
        }
    }

    /// Whether events wait for room in the ring.
    pub(super) fn is_behind(&self) -> bool {
        !self.unreported.is_empty()
    }
}

/// Creates an event ring, with the control thread's end.
pub(super) fn event_ring(host: Option<usize>, capture: Option<Tapped>) -> (Producer<HostEvent>, EventReceiver) {
    let (events, consumer) = RingBuffer::new(EVENT_RING_CAPACITY);
    (events, EventReceiver { host, events: consumer, capture })
}

/// Records a PFC frame that a port sends or receives.
pub(super) fn record_pfc(
    events: &mut Producer<HostEvent>,
    now: Time,
    origin: MessageOrigin,
    port: PortRef,
    frame: &Mbuf,
) {
    if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(frame.data()) {
        // Full only if the control thread is stuck; counters are exact anyway.
        let _ = events.push(HostEvent::Pfc(now, origin, port, pfc));
    }
}
