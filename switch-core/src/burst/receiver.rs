//! RX alone on an lcore: control frames are obeyed here, other frames go to the forwarder's lcore.

use std::sync::Arc;

use weir_units::{PortId, Time};
use weir_wire::ethernet::Parsed;

use crate::control::{handle_control, has_account};
use crate::counters::{CounterSnapshot, Counters, port_stat};
use crate::packet::{Burst, Packet};
use crate::shared::Shared;

use super::handoff::RxRingProducer;

/// Receiver for a forwarder on another lcore.
#[derive(Debug)]
pub(super) struct Receiver<P> {
    shared: Arc<Shared>,
    output: RxRingProducer<P>,
    counters: Counters,
}

impl<P: Packet> Receiver<P> {
    pub(super) fn new(shared: Arc<Shared>, output: RxRingProducer<P>) -> Receiver<P> {
        let counters = Counters::upfront(shared.ports().len());
        Receiver { shared, output, counters }
    }

    /// Returns the room in the forwarder's ring, in packets: receive no more.
    pub(super) fn room(&self) -> usize {
        self.output.slots()
    }

    /// Takes the burst that `port` received at `now`: obeys control frames, passes the rest on, and empties the burst.
    ///
    /// # Panics
    /// If the burst is larger than [`Receiver::room`].
    pub(super) fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>) {
        let mut passed_on = 0;
        for packet in burst.drain(..) {
            if packet.is_control() {
                let Parsed::Control(control) = packet.parse() else { continue };
                handle_control(&self.shared, &mut self.counters, now, port, control);
                // Its count is compared where the data before it is counted.
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

    #[inline]
    pub(super) fn serve(&mut self) {
        if let Some(request) = self.counters.requested() {
            self.counters.publish(request);
        }
    }

    pub(super) fn published(&self) -> Arc<CounterSnapshot> {
        self.counters.published()
    }
}
