//! Channel between an emulated host on its lcore and the host's software ([`crate::software`]) in another thread. RDMA
//! frames stay in the emulated NIC.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_dpdk_io::Mbuf;
use weir_nic::host::Peer;
use weir_wire::rocev2::Psn;

/// Longest frame in bytes, without FCS.
pub(super) const FRAME_BYTES_MAX: usize = 1_514;
/// Capacity of each ring.
const RING_CAPACITY: usize = 32;
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;

/// Lcore side of the channel; never allocates.
pub(super) struct NicQueues {
    arrived: Producer<Frame>,
    leaving: Consumer<Frame>,
    commands: Consumer<ConnectionCommand>,
    lost: Arc<AtomicU64>,
}

/// Software side of the channel.
pub(super) struct SoftwareQueues {
    pub(super) arrived: Consumer<Frame>,
    pub(super) leaving: Producer<Frame>,
    commands: Producer<ConnectionCommand>,
    lost: Arc<AtomicU64>,
}

/// Bytes of a frame, without FCS.
pub(super) struct Frame {
    len: u16,
    bytes: [u8; FRAME_BYTES_MAX],
}

/// Command from the software to the emulated NIC, which owns the host's connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConnectionCommand {
    /// Connects a sending flow, by index, to its peer, with the PSN of its first packet.
    Send { place: usize, peer: Peer, first: Psn },
    /// Connects a receiving end, by index, to its peer, with the PSN of the peer's first packet.
    Receive { place: usize, peer: Peer, first: Psn },
}

/// Creates both sides of a channel.
pub(super) fn channel() -> (NicQueues, SoftwareQueues) {
    let (arrived, arrived_inside) = RingBuffer::new(RING_CAPACITY);
    let (leaving, leaving_outside) = RingBuffer::new(RING_CAPACITY);
    let (commands, commands_outside) = RingBuffer::new(RING_CAPACITY);
    let lost = Arc::new(AtomicU64::new(0));
    let nic_queues = NicQueues { arrived, leaving: leaving_outside, commands: commands_outside, lost: lost.clone() };
    (nic_queues, SoftwareQueues { arrived: arrived_inside, leaving, commands, lost })
}

impl NicQueues {
    /// Takes a frame for the software: ARP, ICMP or TCP; returns whether it is one. Frames beyond the ring's capacity
    /// are lost and counted.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let is_for_software = match bytes.get(12..14) {
            Some(kind) if kind == ETHERTYPE_ARP => true,
            Some(kind) if kind == ETHERTYPE_IPV4 => matches!(bytes.get(23), Some(&(PROTOCOL_ICMP | PROTOCOL_TCP))),
            _ => false,
        };
        if is_for_software {
            let is_accepted = Frame::new(bytes).is_some_and(|frame| self.arrived.push(frame).is_ok());
            self.lost.fetch_add(u64::from(!is_accepted), Ordering::Relaxed);
        }
        is_for_software
    }

    /// Returns the software's next frame.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&Frame> {
        self.leaving.peek().ok()
    }

    /// Removes the frame returned by [`NicQueues::next`] after sending it.
    pub(super) fn advance(&mut self) {
        let _ = self.leaving.pop();
    }

    /// Takes the software's next command.
    #[inline]
    pub(super) fn next_command(&mut self) -> Option<ConnectionCommand> {
        self.commands.pop().ok()
    }
}

impl SoftwareQueues {
    /// Sends a command; returns whether it fitted. The ring has space for one command of each connection being
    /// established.
    pub(super) fn command(&mut self, command: ConnectionCommand) -> bool {
        self.commands.push(command).is_ok()
    }

    /// Whether the NIC has taken all commands. Frames received from then on are handled after them.
    pub(super) fn is_command_ring_empty(&self) -> bool {
        self.commands.slots() == self.commands.buffer().capacity()
    }

    /// Returns the number of frames lost for lack of space.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Frame {
    /// Copies a frame; `None` if it is too long.
    pub(super) fn new(bytes: &[u8]) -> Option<Frame> {
        let mut frame = Frame { len: bytes.len() as u16, bytes: [0; FRAME_BYTES_MAX] };
        frame.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(frame)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(super) fn write(&self, mbuf: &mut Mbuf) {
        assert!(mbuf.set_len(self.len), "the pool's mbufs hold any frame");
        mbuf.data_mut().copy_from_slice(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: u16, protocol: u8) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        bytes[23] = protocol;
        bytes
    }

    #[test]
    fn software_has_what_is_no_rdma_and_no_flow_control() {
        let (mut nic_queues, mut software_queues) = channel();
        assert!(
            nic_queues.take(&frame(0x0806, 0))
                && nic_queues.take(&frame(0x0800, 6))
                && nic_queues.take(&frame(0x0800, 1))
        );
        assert!(
            !nic_queues.take(&frame(0x0800, 17)) && !nic_queues.take(&frame(0x8808, 0)) && !nic_queues.take(&[0; 10])
        );
        assert_eq!(software_queues.arrived.pop().unwrap().bytes(), frame(0x0806, 0));
    }

    #[test]
    fn frames_that_find_no_room_are_counted() {
        let (mut nic_queues, software_queues) = channel();
        let mut long = frame(0x0800, 6);
        long.resize(FRAME_BYTES_MAX + 1, 0);
        assert!(nic_queues.take(&long));
        assert_eq!(software_queues.lost(), 1);
        (0..=RING_CAPACITY).for_each(|_| assert!(nic_queues.take(&frame(0x0800, 6))));
        assert_eq!(software_queues.lost(), 2);
    }

    #[test]
    fn commands_are_executed_once_they_are_taken() {
        let (mut nic_queues, mut software_queues) = channel();
        let command = ConnectionCommand::Receive { place: 0, peer: Peer::UNKNOWN, first: Psn::new(1) };
        assert!(
            software_queues.is_command_ring_empty()
                && software_queues.command(command)
                && !software_queues.is_command_ring_empty()
        );
        assert!(
            nic_queues.next_command().is_some()
                && nic_queues.next_command().is_none()
                && software_queues.is_command_ring_empty()
        );
    }
}
