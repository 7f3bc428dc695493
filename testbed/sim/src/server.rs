//! Servers: hosts, and hosts' ports, that run as one: they exchange messages over a link of their own, or are ports of one host.
//!
//! The members of a server are consecutive nodes, and run together, instant by instant: a message may take less than a
//! lookahead. Each port of a host is a NIC of its own. While its link is down, another port of the host sends and receives
//! its frames.

use std::mem::swap;

use weir_units::Time;

use super::frame::Frame;
use super::network::Network;
use super::node::SimHost;
use super::server_link::{MessageInFlight, MessageStage, ServerPlace};

/// Runs the members of a server up to and including `limit`. Returns the number of instants.
pub(super) fn run_until(members: &mut [SimHost], limit: Time, network: &mut Network) -> u64 {
    let first = members[0].node as usize;
    let mut link = place_mut(members, 0).link.take();
    let nodes = first..first + members.len();
    // Links go down and up between windows.
    let are_up = members.iter().enumerate().all(|(number, _)| place(members, number).is_up);
    network.begin_several(nodes.clone(), limit);
    let mut instants = 0;
    loop {
        let wakeups = members.iter().map(|member| member.own_wakeup.min(member.host.next_program_wakeup()));
        let own_wakeup = wakeups.min().unwrap_or(Time::NEVER);
        let on_link = link.as_ref().map_or(Time::NEVER, |link| link.next_wakeup());
        let now = network.next_arrival().min(own_wakeup).min(on_link);
        if now > limit {
            network.sleep_several(nodes, now);
            break;
        }
        while let Some(MessageInFlight { from, message, stage }) = link.as_mut().and_then(|link| link.poll(now)) {
            let number = if stage == MessageStage::Ack { from } else { message.to.host as usize };
            let host = &mut members[number];
            match stage {
                MessageStage::Ack => host.host.handle_server_ack(now, &message),
                _ => host.host.handle_server_message(now, &message),
            }
            host.wake(now);
            pass_messages(members, number, now);
        }
        while let Some((to, frame)) = network.poll(now) {
            receive(members, to.node as usize - first, now, frame, network);
        }
        for number in 0..members.len() {
            // A busy NIC does not delay messages within the server.
            if members[number].host.next_program_wakeup() <= now {
                members[number].host.advance_programs(now);
                members[number].wake(now);
                pass_messages(members, number, now);
            }
            if !are_up {
                send_in_turn(members, number, now, network);
            } else if members[number].own_wakeup <= now {
                members[number].own_wakeup = at_port(members, number, number, now, |host| host.send(now, network));
            }
            if let Some(link) = &mut link {
                members[number].host.drain_server_messages().for_each(|message| link.send(number, message));
            }
        }
        instants += 1;
    }
    place_mut(members, 0).link = link;
    instants
}

/// Handles a frame that has arrived at a port, for it or for another port of its host.
fn receive(members: &mut [SimHost], port: usize, now: Time, frame: Frame, network: &mut Network) {
    let is_for = |member: usize| members[member].host.config().mac == frame.destination();
    let is_control = frame.is_flow_control();
    let member = match is_control || is_for(port) {
        true => port,
        false => siblings(members, port).find(|member| is_for(*member)).unwrap_or(port),
    };
    at_port(members, member, port, now, |host| host.handle(now, frame, network));
    members[member].wake(now);
    if is_control {
        // It may let others send by this port.
        siblings(members, port).for_each(|user| members[user].wake(now));
    }
}

/// Sends by a port where possible: frames of its own, and those of others whose link is down, in turn.
fn send_in_turn(members: &mut [SimHost], port: usize, now: Time, network: &mut Network) {
    let last = place(members, port).last_sender;
    let [next, others] =
        [true, false].map(|is_next| siblings(members, port).filter(move |member| (*member > last) == is_next));
    for member in next.chain(others) {
        if members[member].own_wakeup > now || port_in_use(members, member) != port {
            continue;
        }
        // Flow control is the port's own.
        let counts = |members: &[SimHost]| [members[port].frames[0], members[member].host.counters().control_sent];
        let before = counts(members);
        members[member].own_wakeup = at_port(members, member, port, now, |host| host.send(now, network));
        let [frames, control] = counts(members);
        let sent = frames - before[0] - (control - before[1]);
        let place = place_mut(members, port);
        if sent > 0 {
            place.last_sender = member;
        }
        if member != port {
            place.failed_over += sent;
        }
    }
}

/// Runs a member's NIC at a port of its host, with the host's programs.
fn at_port<T>(
    members: &mut [SimHost],
    member: usize,
    port: usize,
    now: Time,
    run: impl FnOnce(&mut SimHost) -> T,
) -> T {
    let host = first_port(members, member);
    move_programs(members, host, member, host);
    exchange_ports(members, member, port);
    let result = run(&mut members[port]);
    exchange_ports(members, member, port);
    move_programs(members, member, host, host);
    pass_messages(members, host, now);
    result
}

/// Passes the messages of a host's programs to its further ports.
fn pass_messages(members: &mut [SimHost], host: usize, now: Time) {
    while let Some(number) = members[host].host.next_program_port() {
        let port = host + number * place(members, host).hosts;
        move_programs(members, host, port, host);
        members[port].host.advance_programs(now);
        move_programs(members, port, host, host);
        members[port].wake(now);
    }
}

/// Moves the programs of a host, by its first port, from one of its ports to another.
fn move_programs(members: &mut [SimHost], from: usize, to: usize, host: usize) {
    if from != to {
        let number = (to - host) / place(members, host).hosts;
        let [from, to] = members.get_disjoint_mut([from, to]).expect("two ports");
        from.host.move_programs(&mut to.host, number);
    }
}

/// Exchanges the NICs of two ports, but for the state of the ports.
fn exchange_ports(members: &mut [SimHost], one: usize, other: usize) {
    if one != other {
        let [one, other] = members.get_disjoint_mut([one, other]).expect("two ports");
        swap(&mut one.host, &mut other.host);
        one.host.exchange_port(&mut other.host);
    }
}

/// Returns the port by which a member's frames leave: its own, unless its link is down and another port's is up.
fn port_in_use(members: &[SimHost], member: usize) -> usize {
    let next = siblings(members, member).filter(|other| *other > member);
    let mut all = [member].into_iter().chain(next).chain(siblings(members, member));
    all.find(|other| place(members, *other).is_up).unwrap_or(member)
}

/// Returns all ports of a port's host.
fn siblings(members: &[SimHost], port: usize) -> impl Iterator<Item = usize> + use<> {
    (first_port(members, port)..members.len()).step_by(place(members, port).hosts)
}

fn first_port(members: &[SimHost], port: usize) -> usize {
    port % place(members, port).hosts
}

fn place(members: &[SimHost], member: usize) -> &ServerPlace {
    members[member].server.as_ref().expect(IN_SERVER)
}

fn place_mut(members: &mut [SimHost], member: usize) -> &mut ServerPlace {
    members[member].server.as_mut().expect(IN_SERVER)
}

const IN_SERVER: &str = "a member has its place";
