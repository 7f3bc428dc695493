//! Nodes whose links have link layer retry.

use weir_results::record::MessageOrigin;
use weir_scenario::PortRef;
use weir_switch_core::single::Pipeline;
use weir_units::{PortBitmap, PortId, Time};

use super::{HostOptions, LinkLayer, SWEEP, SimHost, SimPorts, SwitchEnvironment, order_round_robin};
use crate::frame::Frame;
use crate::llr_port::LlrPort;
use crate::network::Network;

impl LinkLayer for &mut [Option<LlrPort>] {
    fn send(&mut self, now: Time, wire: u32, frame: Frame, place: PortRef, network: &mut Network) -> Result<(), Frame> {
        let Some(llr) = &mut self[place.port] else {
            network.send(now, wire, frame, MessageOrigin::Port, place);
            return Ok(());
        };
        if !llr.is_open(now, wire, network) {
            return Err(frame);
        }
        llr.send(now, wire, frame, (MessageOrigin::Port, place), network);
        Ok(())
    }
}

impl SwitchEnvironment {
    /// Runs up to and including `limit`, as [`SwitchEnvironment::run_until`] does.
    pub(super) fn run_until_with_llr<S: PortBitmap>(
        &mut self,
        pipeline: &mut Pipeline<Frame, S>,
        limit: Time,
        network: &mut Network,
    ) -> u64 {
        network.begin(self.node as usize, limit);
        self.steady_since = Time::NEVER;
        let mut instants = 0;
        loop {
            let now = network.next_arrival().min(self.wakeups.first().0).min(self.sweep_at);
            if now > limit {
                network.sleep(self.node as usize, now);
                pipeline.audit();
                return instants;
            }
            self.run_with_llr(pipeline, now, network);
            instants += 1;
        }
    }

    /// Forwards arrived frames and transmits where possible. No frame bypasses its queue, as the wire may be taken.
    fn run_with_llr<S: PortBitmap>(&mut self, pipeline: &mut Pipeline<Frame, S>, now: Time, network: &mut Network) {
        let mut due = self.receive_with_llr(pipeline, now, network);
        due |= pipeline.take_pending_ports();
        if self.sweep_at <= now {
            due |= *pipeline.off_ports();
            self.sweep_at = Time::NEVER;
        }
        loop {
            let (at, port) = self.wakeups.first();
            if at <= now {
                due.insert(PortId(port as u16));
            }
            if due.is_empty() && !pipeline.has_pending_ports() {
                break;
            }
            for port in due {
                if let (Some(llr), Some(wire)) = (&mut self.llr[port.index()], self.wires[port.index()]) {
                    llr.run(now, wire, network);
                }
            }
            let mut ports = SimPorts {
                now,
                number: self.number,
                network,
                wires: &self.wires,
                feedback: &mut self.feedback,
                link_layer: &mut *self.llr,
            };
            let served = pipeline.run_ports(now, due, &mut ports);
            for port in served {
                let next = pipeline.next_wakeup_of(now, port);
                let next = match (&self.llr[port.index()], self.wires[port.index()]) {
                    // The port has work now, which waits for the link.
                    (Some(llr), Some(wire)) if llr.is_waiting() => llr.next_wakeup(wire, network),
                    (Some(llr), Some(wire)) => llr.next_wakeup(wire, network).min(next),
                    _ => next,
                };
                self.wakeups.set(port.index(), next);
            }
            due = S::EMPTY;
        }
        if !pipeline.off_ports().is_empty() && self.sweep_at == Time::NEVER {
            self.sweep_at = now + SWEEP;
        }
    }

    /// Forwards arrived frames; returns the ports with link layer retry that something arrived at.
    fn receive_with_llr<S: PortBitmap>(
        &mut self,
        pipeline: &mut Pipeline<Frame, S>,
        now: Time,
        network: &mut Network,
    ) -> S {
        let mut due = S::EMPTY;
        while let Some((to, frame)) = network.poll(now) {
            let port = PortId(to.port);
            let frame = match (&mut self.llr[port.index()], self.wires[port.index()]) {
                (Some(llr), Some(wire)) => {
                    due.insert(port);
                    llr.receive(now, frame, wire, network)
                }
                _ => Some(frame),
            };
            self.arrived.extend(frame.map(|frame| (port, frame)));
        }
        order_round_robin(&mut self.arrived, &mut self.turn, self.wires.len());
        let mut ports = SimPorts {
            now,
            number: self.number,
            network,
            wires: &self.wires,
            feedback: &mut self.feedback,
            link_layer: &mut *self.llr,
        };
        for (port, frame) in self.arrived.drain(..) {
            pipeline.handle(now, port, frame, false, &mut ports);
        }
        due
    }
}

impl HostOptions {
    /// Handles an arrival from the link; returns it if it is a frame for the host. `out` is the wire that leaves the host.
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

    /// Sends a frame of the host, which the link accepts.
    fn send(&mut self, now: Time, out: u32, mut frame: Frame, place: PortRef, network: &mut Network) {
        let before = network.wire(out).sent_until();
        let feedback = self.feedback.as_mut().filter(|_| frame.is_flow_control());
        if feedback.is_some() {
            frame.set_port(network.wire(out).destination().port);
        }
        match &mut self.llr {
            Some(llr) => llr.send(now, out, frame, (MessageOrigin::Host, place), network),
            None => network.send(now, out, frame, MessageOrigin::Host, place),
        }
        if let Some(feedback) = feedback {
            feedback.record_sent(before, network.wire(out).sent_until());
        }
    }
}

impl SimHost {
    /// Sends where possible; returns the next wake-up time without arrivals.
    #[cold]
    pub(super) fn send_slowly(&mut self, now: Time, network: &mut Network) -> Time {
        let SimHost { options, host, wire, frames, place, .. } = self;
        let options = options.as_mut().expect("the caller asked");
        if let Some(llr) = &mut options.llr {
            llr.run(now, *wire, network);
        }
        let mut in_vain = 0;
        loop {
            loop {
                if let Some(llr) = &mut options.llr
                    && (host.next_wakeup(now) > now || !llr.is_open(now, *wire, network))
                {
                    break;
                }
                let Some(frame) = host.poll(now) else { break };
                frames[0] += 1;
                let frame = network.frame_pool.allocate(frame);
                options.send(now, *wire, frame, *place, network);
            }
            let next = host.next_wakeup(now);
            match &options.llr {
                Some(llr) if llr.is_waiting() => return llr.next_wakeup(*wire, network),
                Some(llr) if next > now => return llr.next_wakeup(*wire, network).min(next),
                None if next > now => return next,
                _ => {}
            }
            // The wake-up may have been for a timer only.
            in_vain += 1;
            assert!(in_vain < 3, "host {}: nothing to send at {now:?}, but a wake-up at {next:?}", self.number);
        }
    }

    /// Sets the link up or down for link layer retry.
    pub(super) fn set_llr_up(&mut self, now: Time, is_up: bool, network: &mut Network) {
        if let Some(HostOptions { llr: Some(llr), .. }) = self.options.as_deref_mut() {
            llr.set_up(now, is_up, self.wire, network);
        }
    }
}
