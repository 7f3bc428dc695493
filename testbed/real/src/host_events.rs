//! Events of hosts and links for the control thread.

use std::sync::mpsc::{self, Receiver, Sender};

use weir_dpdk_driver::Tapped;
use weir_dpdk_io::Mbuf;
use weir_nic::host::{Completion, Host, ProgramEvent};
use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_units::Time;
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use super::triggers::{HostTriggers, Trigger};

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

/// Control thread's end of a host's or link's channel.
#[derive(Debug)]
pub(super) struct EventReceiver {
    /// Host that the events are from, by index in the scenario; `None` for a link.
    pub(super) host: Option<usize>,
    pub(super) events: Receiver<HostEvent>,
    pub(super) capture: Option<Tapped>,
}

/// Host's end of a channel to the control thread, with the triggers of the host's programs.
pub(super) struct HostReporter {
    pub(super) events: Sender<HostEvent>,
    /// Triggers of the host's programs; `None` without any.
    triggers: Option<HostTriggers>,
}

impl HostReporter {
    /// Creates the ends of a host's channel.
    pub(super) fn new(
        host: usize,
        triggers: Option<HostTriggers>,
        capture: Option<Tapped>,
    ) -> (HostReporter, EventReceiver) {
        let (events, event_receiver) = event_channel(Some(host), capture);
        (HostReporter { events, triggers }, event_receiver)
    }

    /// Hands the triggers of other hosts to the host; returns their number.
    pub(super) fn take_triggers(&mut self, now: Time, host: &mut Host) -> usize {
        let Some(triggers) = &mut self.triggers else { return 0 };
        let mut taken = 0;
        while let Some(Trigger { program, channel, .. }) = triggers.receive(now) {
            host.handle_trigger(now, program, channel);
            taken += 1;
        }
        taken
    }

    /// Sends the triggers of the host's programs, and reports their events, then completed messages.
    pub(super) fn report(&mut self, host: &mut Host) {
        for event in host.drain_program_events() {
            self.triggers.iter_mut().for_each(|triggers| triggers.send(&event));
            send(&self.events, HostEvent::Program(event));
        }
        host.drain_completions().for_each(|completion| send(&self.events, HostEvent::Completed(completion)));
    }
}

/// Creates a channel to the control thread. It has no bound, so a late control thread loses no event.
pub(super) fn event_channel(host: Option<usize>, capture: Option<Tapped>) -> (Sender<HostEvent>, EventReceiver) {
    let (events, receiver) = mpsc::channel();
    (events, EventReceiver { host, events: receiver, capture })
}

/// Records a PFC frame that a port sends or receives.
pub(super) fn record_pfc(events: &Sender<HostEvent>, now: Time, origin: MessageOrigin, port: PortRef, frame: &Mbuf) {
    if let Ok(ControlFrame::Pfc(pfc)) = ControlFrame::decode(frame.data()) {
        send(events, HostEvent::Pfc(now, origin, port, pfc));
    }
}

fn send(events: &Sender<HostEvent>, event: HostEvent) {
    // Fails only if the control thread has given up the run.
    let _ = events.send(event);
}
