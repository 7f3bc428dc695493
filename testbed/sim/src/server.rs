//! Servers: hosts that exchange messages of ranks over a link of their own, besides the fabric.
//!
//! The hosts of a server are consecutive, and run as one, instant by instant: a message may take less than a lookahead.

use weir_units::Time;

use super::network::Network;
use super::node::SimHost;
use super::server_link::{MessageInFlight, MessageStage};

/// Runs the hosts of a server up to and including `limit`. Returns the number of instants.
pub(super) fn run_until(hosts: &mut [SimHost], limit: Time, network: &mut Network) -> u64 {
    const HAS_LINK: &str = "the first host of a server has its link";
    let first = hosts[0].node as usize;
    let mut link = hosts[0].server.as_mut().and_then(|place| place.link.take()).expect(HAS_LINK);
    let nodes = first..first + hosts.len();
    network.begin_several(nodes.clone(), limit);
    let mut instants = 0;
    loop {
        let wakeups = hosts.iter().map(|host| host.own_wakeup.min(host.host.next_program_wakeup()));
        let own_wakeup = wakeups.min().unwrap_or(Time::NEVER);
        let now = network.next_arrival().min(own_wakeup).min(link.next_wakeup());
        if now > limit {
            network.sleep_several(nodes, now);
            break;
        }
        while let Some(MessageInFlight { from, message, stage }) = link.poll(now) {
            let host = &mut hosts[if stage == MessageStage::Ack { from } else { message.to.host as usize }];
            match stage {
                MessageStage::Ack => host.host.handle_server_ack(now, &message),
                _ => host.host.handle_server_message(now, &message),
            }
            host.wake(now);
        }
        while let Some((to, frame)) = network.poll(now) {
            let host = &mut hosts[to.node as usize - first];
            host.handle(now, frame, network);
            host.wake(now);
        }
        for (number, host) in hosts.iter_mut().enumerate() {
            // A busy NIC does not delay messages within the server.
            if host.host.next_program_wakeup() <= now {
                host.host.advance_programs(now);
                host.wake(now);
            }
            if host.own_wakeup <= now {
                host.own_wakeup = host.send(now, network);
            }
            host.host.drain_server_messages().for_each(|message| link.send(number, message));
        }
        instants += 1;
    }
    if let Some(place) = &mut hosts[0].server {
        place.link = Some(link);
    }
    instants
}
