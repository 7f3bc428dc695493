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
const WAITING: usize = 32;
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;

/// Lcore side of the channel; never allocates.
pub(super) struct Door {
    arrived: Producer<Frame>,
    leaving: Consumer<Frame>,
    orders: Consumer<Order>,
    lost: Arc<AtomicU64>,
}

/// Software side of the channel.
pub(super) struct Inside {
    pub(super) arrived: Consumer<Frame>,
    pub(super) leaving: Producer<Frame>,
    orders: Producer<Order>,
    lost: Arc<AtomicU64>,
}

/// Bytes of a frame, without FCS.
pub(super) struct Frame {
    len: u16,
    bytes: [u8; FRAME_BYTES_MAX],
}

/// Command from the software to the emulated NIC, which owns the host's connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Connects a sending flow, by index, to its peer, with the PSN of its first packet.
    Send { place: usize, peer: Peer, first: Psn },
    /// Connects a receiving end, by index, to its peer, with the PSN of the peer's first packet.
    Receive { place: usize, peer: Peer, first: Psn },
}

/// Creates both sides of a channel.
pub(super) fn door() -> (Door, Inside) {
    let (arrived, arrived_inside) = RingBuffer::new(WAITING);
    let (leaving, leaving_outside) = RingBuffer::new(WAITING);
    let (orders, orders_outside) = RingBuffer::new(WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    let door = Door { arrived, leaving: leaving_outside, orders: orders_outside, lost: lost.clone() };
    (door, Inside { arrived: arrived_inside, leaving, orders, lost })
}

impl Door {
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
            let has_come = Frame::new(bytes).is_some_and(|frame| self.arrived.push(frame).is_ok());
            self.lost.fetch_add(u64::from(!has_come), Ordering::Relaxed);
        }
        is_for_software
    }

    /// Returns the software's next frame.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&Frame> {
        self.leaving.peek().ok()
    }

    /// Removes the frame returned by [`Door::next`] after sending it.
    pub(super) fn advance(&mut self) {
        let _ = self.leaving.pop();
    }

    /// Takes the software's next command.
    #[inline]
    pub(super) fn next_order(&mut self) -> Option<Order> {
        self.orders.pop().ok()
    }
}

impl Inside {
    /// Sends a command; returns whether it fitted. The ring has space for one command of each connection being
    /// established.
    pub(super) fn order(&mut self, order: Order) -> bool {
        self.orders.push(order).is_ok()
    }

    /// Whether the NIC has taken all commands. Frames received from then on are handled after them.
    pub(super) fn is_obeyed(&self) -> bool {
        self.orders.slots() == self.orders.buffer().capacity()
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
        let (mut door, mut inside) = door();
        assert!(door.take(&frame(0x0806, 0)) && door.take(&frame(0x0800, 6)) && door.take(&frame(0x0800, 1)));
        assert!(!door.take(&frame(0x0800, 17)) && !door.take(&frame(0x8808, 0)) && !door.take(&[0; 10]));
        assert_eq!(inside.arrived.pop().unwrap().bytes(), frame(0x0806, 0));
    }

    #[test]
    fn frames_that_find_no_room_are_counted() {
        let (mut door, inside) = door();
        let mut long = frame(0x0800, 6);
        long.resize(FRAME_BYTES_MAX + 1, 0);
        assert!(door.take(&long));
        assert_eq!(inside.lost(), 1);
        (0..=WAITING).for_each(|_| assert!(door.take(&frame(0x0800, 6))));
        assert_eq!(inside.lost(), 2);
    }

    #[test]
    fn orders_are_obeyed_when_they_are_taken() {
        let (mut door, mut inside) = door();
        let order = Order::Receive { place: 0, peer: Peer::UNKNOWN, first: Psn::new(1) };
        assert!(inside.is_obeyed() && inside.order(order) && !inside.is_obeyed());
        assert!(door.next_order().is_some() && door.next_order().is_none() && inside.is_obeyed());
    }
}
