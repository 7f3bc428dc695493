//! Nodes whose links have link layer retry.

use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_switch_core::single::Pipeline;
use weir_units::{PortBitmap, PortId, Time};

use super::{HostOptions, SimHost, SimPorts, SwitchEnvironment};
use crate::frame::Frame;
use crate::network::Network;

impl SwitchEnvironment {
    /// Whether a port has link layer retry.
    pub(super) fn has_llr(&self) -> bool {
        self.options.as_ref().is_some_and(|options| !options.llr.is_empty())
    }

    /// Forwards the frames that have arrived at a switch with link layer retry; returns the ports that anything arrived at.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_with_llr<S: PortBitmap>(
        &mut self,
        pipeline: &mut Pipeline<Frame, S>,
        now: Time,
        network: &mut Network,
    ) -> S {
        let mut due = S::EMPTY;
        while let Some((to, frame)) = network.poll_apart(now) {
            let port = PortId(to.port);
            let options = self.options.as_mut().expect("arrivals are apart for link layer retry");
            let frame = match &mut options.llr[port.index()] {
                Some((wire, llr)) => {
                    due.insert(port);
                    llr.receive(now, frame, *wire, network)
                }
                None => Some(frame),
            };
            self.arrived.extend(frame.map(|frame| (port, frame)));
        }
        if !self.arrived.is_empty() {
            self.handle_several(pipeline, now, network);
        }
        due
    }
}

impl SimPorts<'_> {
    /// Sends a frame by a port with link layer retry, or returns it if the port does not accept it now.
    #[cold]
    #[inline(never)]
    pub(super) fn send_with_llr(&mut self, port: PortId, frame: Frame) -> Result<(), Frame> {
        let SimPorts { now, number, network, options, .. } = self;
        // Flow control to a port without a link is discarded.
        let llr = options.as_mut().and_then(|options| options.llr.get_mut(port.index()));
        let Some(Some((wire, llr))) = llr else { return Ok(()) };
        if !llr.is_open(*now, *wire, network) {
            llr.record_waiting(*now);
            return Err(frame);
        }
        let place = PortRef { switch: *number, port: port.index() };
        llr.send(*now, *wire, frame, (MessageOrigin::Port, place), network);
        Ok(())
    }

    /// Sends the messages and replays that are due at these ports.
    #[cold]
    #[inline(never)]
    pub(super) fn run_llr<S: PortBitmap>(&mut self, due: S) {
        let SimPorts { now, network, options, .. } = self;
        let Some(options) = options.as_mut().filter(|options| !options.llr.is_empty()) else { return };
        for port in due {
            if let Some((wire, llr)) = &mut options.llr[port.index()] {
                llr.run(*now, *wire, network);
            }
        }
    }

    /// Returns the wake-up of a port, given that without link layer retry.
    #[cold]
    #[inline(never)]
    pub(super) fn wakeup_with_llr(&self, port: PortId, next: Time) -> Time {
        let llr = self.options.as_ref().and_then(|options| options.llr.get(port.index()));
        match llr {
            // The port has work now, which waits for the link.
            Some(Some((wire, llr))) if llr.is_waiting() => llr.next_wakeup(*wire, self.network),
            Some(Some((wire, llr))) => llr.next_wakeup(*wire, self.network).min(next),
            _ => next,
        }
    }
}

impl HostOptions {
    /// Handles an arrival from the link; returns it if it is a frame for the host. `out` is the wire that leaves the host.
    #[cold]
    #[inline(never)]
    pub(super) fn receive(&mut self, now: Time, frame: Frame, out: u32, network: &mut Network) -> Option<Frame> {
        let frame = match &mut self.llr {
            Some(llr) => llr.receive(now, frame, out, network)?,
            None => frame,
        };
        if let Some(feedback) = &mut self.feedback
            && frame.is_flow_control()
        {
            feedback.handle(now, &frame, network.wire(out).sent_until());
        }
        Some(frame)
    }

    fn send(&mut self, now: Time, out: u32, mut frame: Frame, place: PortRef, network: &mut Network) {
        let before = network.wire(out).sent_until();
        let feedback = self.feedback.as_mut().filter(|_| frame.is_flow_control());
        if feedback.is_some() {
            frame.set_port(network.wire(out).destination().port);
        }
        match &mut self.llr {
            Some(llr) => llr.send(now, out, frame, (MessageOrigin::Host, place), network),
            None => network.send_slowly(now, out, frame, MessageOrigin::Host, place),
        }
        if let Some(feedback) = feedback {
            feedback.record_sent(before, network.wire(out).sent_until());
        }
    }
}

impl SimHost {
    /// Sends the messages and replays of link layer retry that are due.
    #[cold]
    #[inline(never)]
    pub(super) fn run_llr(&mut self, now: Time, network: &mut Network) {
        if let Some(HostOptions { llr: Some(llr), .. }) = self.options.as_deref_mut() {
            llr.run(now, self.wire, network);
        }
    }

    /// Returns whether the link accepts a frame.
    #[cold]
    #[inline(never)]
    pub(super) fn is_link_open(&self, now: Time, network: &Network) -> bool {
        self.llr().is_none_or(|llr| llr.is_open(now, self.wire, network))
    }

    /// Sends a frame, which the link accepts.
    #[cold]
    #[inline(never)]
    pub(super) fn send_with_options(&mut self, now: Time, frame: Frame, network: &mut Network) {
        let options = self.options.as_mut().expect("the caller asked");
        options.send(now, self.wire, frame, self.place, network);
    }

    /// Returns the wake-up after sending, given that of the host; `None` if the host may go on at `now`.
    #[cold]
    #[inline(never)]
    pub(super) fn wakeup_with_llr(&mut self, now: Time, next: Time, network: &Network) -> Option<Time> {
        let Some(HostOptions { llr: Some(llr), .. }) = self.options.as_deref_mut() else { return None };
        if next > now {
            return Some(llr.next_wakeup(self.wire, network).min(next));
        }
        if llr.is_open(now, self.wire, network) {
            return None;
        }
        llr.record_waiting(now);
        Some(llr.next_wakeup(self.wire, network))
    }

    /// Sets the link up or down for link layer retry.
    pub(super) fn set_llr_up(&mut self, now: Time, is_up: bool, network: &mut Network) {
        if let Some(HostOptions { llr: Some(llr), .. }) = self.options.as_deref_mut() {
            llr.set_up(now, is_up, self.wire, network);
        }
    }
}
