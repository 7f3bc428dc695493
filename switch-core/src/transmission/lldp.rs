//! LLDP frames of the control thread, which leave between two polls and are no data.

use weir_flowctl::wire_bytes;
use weir_units::{ClassSet, PortId, Time};

use super::{Transmission, TransmitMode};
use crate::counters::port_stat;
use crate::packet::{Packet, PacketAllocator, PortOutput};

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    /// Sends an LLDP frame by a port, or discards it if the port has no link or is closed. Returns it if the port accepts no frame now, or
    /// its peer pauses all classes.
    pub(crate) fn send_lldp<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        driver: &mut D,
    ) -> Result<(), P> {
        let state = self.shared.port(port);
        if !state.is_open() {
            return Ok(());
        }
        let transmitter = &mut self.ports[self.position_of[port.index()]];
        if transmitter.paused(now, &state.regulator) == ClassSet::ALL {
            return Err(packet);
        }
        let wire = wire_bytes(packet.frame_bytes(), self.link_overhead);
        // By the data queue: a queue for control frames keeps mbufs of sent frames until its descriptors are used again.
        driver.transmit_one(port, packet)?;
        transmitter.shaper.send(now, wire);
        M::on_control_sent(&mut transmitter.own, wire);
        self.counters.add_port(port, port_stat::LLDP, 1);
        Ok(())
    }
}
