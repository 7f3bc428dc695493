//! The RX half where it stands alone: control frames to the gates, the rest to the forwarder's lcore.

use std::sync::Arc;

use weir_units::{Class, PortId, Time};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::{Account, ControlFrame, CreditFrame, DecodeError};

use crate::counters::{Counters, Published, port_stat};
use crate::handoff::ToForwarder;
use crate::packet::{Burst, Packet};
use crate::shared::Shared;
use crate::switch::Memory;

/// Receives for a forwarder on another lcore.
#[derive(Debug)]
pub struct Receiver<P> {
    shared: Arc<Shared>,
    output: ToForwarder<P>,
    counters: Counters,
}

impl<P: Packet> Receiver<P> {
    pub(crate) fn new(shared: Arc<Shared>, output: ToForwarder<P>) -> Receiver<P> {
        let counters = Counters::new(shared.ports().len(), Memory::Upfront);
        Receiver { shared, output, counters }
    }

    /// How many packets the forwarder's ring has room for: receive no more than that.
    pub fn room(&self) -> usize {
        self.output.slots()
    }

    /// Takes what `port` received at `now`: obeys control frames, passes the rest on, and empties the burst.
    ///
    /// # Panics
    /// If the burst is larger than [`Receiver::room`].
    pub fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>) {
        let mut passed_on = 0;
        for packet in burst.drain(..) {
            if packet.is_control() {
                let Parsed::Control(control) = packet.parse() else { continue };
                handle_control(&self.shared, &mut self.counters, now, port, control);
                // What it says of the data before it is compared where that is counted.
                if !has_account(control) {
                    continue;
                }
            } else {
                passed_on += 1;
            }
            assert!(self.output.push((port, packet)).is_ok(), "a burst larger than the forwarder's ring has room for");
        }
        self.counters.add_port(port, port_stat::PASSED_ON, passed_on);
    }

    /// Answers a reader's request for counters. Called between bursts.
    #[inline]
    pub fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.counters.published()
    }
}

/// Whether a control frame tells what its sender has sent, which counts at its place among the data.
pub(crate) fn has_account(control: Result<ControlFrame, DecodeError>) -> bool {
    matches!(control, Ok(ControlFrame::Credit(CreditFrame { account: Account::Sent { .. }, .. })))
}

/// Obeys a MAC control frame that `port` received, or counts why not. A port obeys the one flow control it speaks; the
/// others are counted and ignored.
pub(crate) fn handle_control(
    shared: &Shared,
    counters: &mut Counters,
    now: Time,
    port: PortId,
    control: Result<ControlFrame, DecodeError>,
) {
    let frame = match control {
        Ok(frame) => frame,
        Err(DecodeError::UnknownOpcode(_)) => return counters.add_port(port, port_stat::IGNORED, 1),
        Err(DecodeError::Truncated | DecodeError::Destination | DecodeError::Tagged | DecodeError::NoClass) => {
            return counters.add_port(port, port_stat::MALFORMED, 1);
        }
    };
    let state = shared.port(port);
    match frame {
        // What GFC reads as stages pauses nobody.
        ControlFrame::Pfc(_) if state.regulator.rated_classes() != 0 => counters.add_port(port, port_stat::PFC, 1),
        ControlFrame::Pfc(frame) => {
            counters.add_port(port, port_stat::PFC, 1);
            Class::in_mask(frame.paused())
                .for_each(|class| counters.add_port(port, port_stat::XOFF + class.index(), 1));
            Class::in_mask(frame.resumed())
                .for_each(|class| counters.add_port(port, port_stat::XON + class.index(), 1));
        }
        ControlFrame::Pause(_) => counters.add_port(port, port_stat::PAUSE, 1),
        ControlFrame::Credit(_) | ControlFrame::Queue(_) => counters.add_port(port, port_stat::CREDIT, 1),
    }
    if !state.regulator.handle(now, &frame) {
        counters.add_port(port, port_stat::IGNORED, 1);
        counters.add_port(port, port_stat::FOREIGN, 1);
    } else if let (Some(storms), ControlFrame::Pfc(frame)) = (state.storms(), &frame) {
        storms.count_pfc(frame);
    }
}
