//! TCP's frames in one queue of a host.

use super::*;
use crate::tcp::{TcpConfig, TcpCongestionChoice};

/// A host with two flows of TCP, from which ten segments each may leave at once, and one of RDMA. A segment of another host's arrives
/// when the first frame has left; what its frames are, in their order: which flow, or 9 for the acknowledgement.
fn order(queues_tcp: bool) -> Vec<u32> {
    let tcp = TcpConfig { delayed_ack: None, ..TcpConfig::linux(TcpCongestionChoice::reno()) };
    let class = Class::new(1);
    let of_tcp = |n| FlowConfig { class, transport: Transport::tcp(tcp.clone()), ..flow(n) };
    let host = HostConfig { queues_tcp, round_robin: RoundRobinUnit::Classes, ..config(1) };
    // Host 2 has a flow to host 1.
    let incoming = FlowConfig { peer: host.peer(QueuePair::new(0x300)), ..of_tcp(7) };
    let mut other = Host::new(config(2), std::slice::from_ref(&incoming), &[]).unwrap();
    let NicFrame::Packet(segment) = other.poll(at(0)).unwrap() else { panic!("flow control") };
    let flows = [of_tcp(0), of_tcp(1), flow(2)];
    let mut host = Host::new(host, &flows, &[incoming.receiver(&config(2))]).unwrap();
    let (mut now, mut order) = (at(0), Vec::new());
    while order.len() < 45 {
        if let Some(NicFrame::Packet(packet)) = host.poll(now) {
            order.push(if matches!(packet.kind, PacketKind::TcpAck(_)) { 9 } else { packet.queue_pair.get() - 0x200 });
            if order.len() == 1 {
                host.handle(now, &mut NicFrame::Packet(segment.clone()));
            }
        }
        now = host.next_wakeup(now).max(now);
    }
    order
}

#[test]
fn acknowledgements_and_segments_leave_in_their_order_where_they_have_a_queue() {
    let split = |order: Vec<u32>| order.into_iter().partition::<Vec<u32>, _>(|flow| *flow != 2);
    let (on_turn, rdma) = split(order(false));
    assert_eq!(on_turn[..6], [0, 9, 1, 0, 1, 0], "the acknowledgement goes first, flows take turns");
    assert_eq!((on_turn.len(), rdma.len()), (21, 24));
    let (queued, rdma) = split(order(true));
    assert_eq!(queued[..10], [0; 10]);
    assert_eq!(queued[10..20], [1; 10]);
    assert_eq!((queued[20], queued.len(), rdma.len()), (9, 21, 24), "behind all that stood there");
    // Classes still take turns: RDMA has every other frame.
    assert_eq!(order(true)[..6], [0, 2, 0, 2, 0, 2]);
}
