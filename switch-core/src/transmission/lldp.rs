//! Frames of the control thread, of LLDP and the loop guard, which leave between two polls and are no data.

use weir_flowctl::wire_bytes;
use weir_units::{Class, ClassSet, PortId, Time};

use super::{Transmission, TransmitMode};
use crate::counters::port_stat;
use crate::packet::{Packet, PacketAllocator, PortOutput};

impl<P: Packet, M: TransmitMode<P>> Transmission<P, M> {
    /// Sends a frame by a port, or discards it if the port has no link or is closed. Returns it if the port accepts no frame now, or its peer
    /// pauses all classes; of the loop guard, also if it pauses priority 0, in which untagged frames are forwarded.
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
        let paused = transmitter.paused(now, &state.regulator);
        if paused == ClassSet::ALL || paused.contains(Class::new(0)) && packet.is_of_loop_guard() {
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
