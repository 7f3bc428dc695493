//! Flow between an emulated and a real host: a TCP connection, and perftest's exchange over it.

use std::time::Instant;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Duration;
use smoltcp::wire::IpAddress;
use weir_hosts::perftest_handshake::{BandwidthReport, Keys, PerftestHandshake, Role};
use weir_hosts::perftest_port;
use weir_nic::host::{Peer, RemoteMemory};
use weir_scenario::Scenario;
use weir_wire::rocev2::{Psn, QueuePair};

use crate::shared_stats::SharedStats;
use crate::software_channel::{ConnectionCommand, SoftwareQueues};

/// First TCP port of clients; each flow has the next one.
const CLIENT_PORT: u16 = 49_152;
/// Socket buffer size. Messages are 108 B, and each is sent only after a response to the previous one.
const BUFFER_BYTES: usize = 2_048;
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Exchange of one flow, and its state.
pub(super) struct PerftestExchange {
    /// Name of the flow, its index in the scenario, and the index of its end at the host.
    name: String,
    flow: usize,
    place: usize,
    side: Role,
    port: u16,
    server: IpAddress,
    peer: Peer,
    peer_name: String,
    /// PSN of the first packet sent from here.
    first: Psn,
    message_bytes: u64,
    socket: SocketHandle,
    handshake: PerftestHandshake,
    state: State,
    /// Time at which the flow was first seen sending.
    sends_since: Option<Instant>,
    is_finished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Neither connecting nor listening.
    Idle,
    /// Connecting, listening, or exchanging.
    Open,
    /// The NIC has been sent the peer's parameters.
    Commanded,
    /// The NIC has applied the peer's parameters.
    Connected,
    /// Ended, successfully or not.
    Over,
}

/// Permissions for the exchanges of all hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangePermissions {
    pub(super) connect: bool,
    pub(super) give_up: bool,
}

impl PerftestExchange {
    /// Creates the exchanges of a host, with their sockets.
    pub(super) fn for_host(
        scenario: &Scenario,
        host: usize,
        sockets: &mut SocketSet<'static>,
    ) -> Vec<PerftestExchange> {
        let own = &scenario.hosts[host].nic;
        let mtu = own.sizes.payload_max;
        let (mut sends, mut receives) = (0, 0);
        let mut exchanges = Vec::new();
        for (flow, plan) in scenario.flows.iter().enumerate() {
            let (side, place, other, queue_pair) = match () {
                () if plan.from == host => (Role::Client, &mut sends, plan.to, plan.config.queue_pair),
                () if plan.to == host => (Role::Server, &mut receives, plan.from, plan.config.peer.queue_pair),
                () => continue,
            };
            *place += 1;
            if !scenario.is_real(other) {
                continue;
            }
            let peer = &scenario.hosts[other];
            // Arbitrary but large, which exposes an end that ignores the PSN.
            let first = Psn::new(0x10_0000 + 0x1_0000 * flow as u32);
            let RemoteMemory { virtual_address, remote_key } = RemoteMemory::EMULATED;
            let (queue_pair, psn) = (queue_pair.get(), first.get());
            let keys = Keys { queue_pair, psn, remote_key, virtual_address, gid: [0; 16] }.with_ip(own.ip);
            let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
            let mut socket = Socket::new(buffer(), buffer());
            socket.set_nagle_enabled(false);
            socket.set_timeout(Some(SILENT_FOR));
            socket.set_keep_alive(Some(SILENT_FOR / 6));
            exchanges.push(PerftestExchange {
                name: plan.name.clone(),
                flow,
                place: *place - 1,
                side,
                port: perftest_port(flow),
                server: IpAddress::Ipv4(peer.nic.ip),
                peer: peer.nic.peer(QueuePair::new(0)),
                peer_name: peer.name.clone(),
                first,
                message_bytes: plan.config.message.get(),
                socket: sockets.add(socket),
                handshake: PerftestHandshake::new(side, scenario.tool(flow).test.verb(), keys, mtu),
                state: State::Idle,
                sends_since: None,
                is_finished: false,
            });
        }
        exchanges
    }

    pub(super) fn side(&self) -> Role {
        self.side
    }

    /// Whether this end is a client that is not connected yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.side == Role::Client && self.state != State::Over && !self.handshake.is_connected()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Makes progress. An error is returned once and ends the exchange.
    pub(super) fn poll(
        &mut self,
        gate: ExchangePermissions,
        interface: &mut Interface,
        sockets: &mut SocketSet<'_>,
        nic: &mut SoftwareQueues,
        shared_stats: &SharedStats,
    ) -> Result<(), String> {
        if self.state == State::Over {
            return Ok(());
        }
        let socket = sockets.get_mut::<Socket<'_>>(self.socket);
        self.advance(gate, interface, socket, nic, shared_stats).map_err(|why| {
            self.state = State::Over;
            socket.abort();
            format!("flow {}, host {}: {why}", self.name, self.peer_name)
        })
    }

    fn advance(
        &mut self,
        gate: ExchangePermissions,
        interface: &mut Interface,
        socket: &mut Socket<'_>,
        nic: &mut SoftwareQueues,
        shared_stats: &SharedStats,
    ) -> Result<(), String> {
        if self.state == State::Idle {
            match self.side {
                Role::Server => socket.listen(self.port).map_err(|error| error.to_string())?,
                Role::Client if !gate.connect => return Ok(()),
                Role::Client => {
                    let from = CLIENT_PORT + self.flow as u16;
                    let to = (self.server, self.port);
                    socket.connect(interface.context(), to, from).map_err(|error| error.to_string())?;
                }
            }
            self.state = State::Open;
        }
        let mut bytes = [0; BUFFER_BYTES];
        while socket.can_recv() {
            let read = socket.recv_slice(&mut bytes).map_err(|error| error.to_string())?;
            self.handshake.handle(&bytes[..read]).map_err(|error| error.to_string())?;
        }
        self.connect(nic)?;
        self.finish(gate, shared_stats)?;
        // Each message is a separate segment, since the peer reads it with one call.
        if socket.can_send()
            && socket.send_queue() == 0
            && let Some(message) = self.handshake.poll_transmit()
        {
            socket.send_slice(&message).map_err(|error| error.to_string())?;
        }
        let has_sent_all = self.handshake.is_done() && socket.send_queue() == 0;
        if has_sent_all || (self.handshake.may_close() && !socket.is_active()) {
            socket.close();
            self.state = State::Over;
        } else if !self.handshake.may_close() && (!socket.is_open() || (!socket.may_recv() && socket.may_send())) {
            let when = if self.handshake.is_connected() { "in the middle of the test" } else { "before the test" };
            return Err(format!(
                "its perftest closed the connection {when}, or did not answer at {}:{}",
                self.server, self.port
            ));
        }
        Ok(())
    }

    /// Sends the peer's parameters to the NIC, once known.
    fn connect(&mut self, nic: &mut SoftwareQueues) -> Result<(), String> {
        let Some(keys) = self.handshake.peer() else { return Ok(()) };
        match self.state {
            State::Open => {
                if keys.ip() != Some(self.peer.ip) {
                    let gid: Vec<String> =
                        keys.gid.chunks(2).map(|two| format!("{:02x}{:02x}", two[0], two[1])).collect();
                    return Err(format!(
                        "its GID is {}, and not its address {}: choose another by -x",
                        gid.join(":"),
                        self.peer.ip
                    ));
                }
                let Keys { queue_pair, psn, remote_key, virtual_address, .. } = *keys;
                let memory = RemoteMemory { virtual_address, remote_key };
                let peer = Peer { queue_pair: QueuePair::new(queue_pair), memory, ..self.peer };
                let place = self.place;
                let command = match self.side {
                    Role::Client => ConnectionCommand::Send { place, peer, first: self.first },
                    Role::Server => ConnectionCommand::Receive { place, peer, first: Psn::new(psn) },
                };
                if nic.command(command) {
                    self.state = State::Commanded;
                }
            }
            State::Commanded if nic.is_command_ring_empty() => {
                self.handshake.connect();
                self.state = State::Connected;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports a finished flow to the server.
    fn finish(&mut self, gate: ExchangePermissions, shared_stats: &SharedStats) -> Result<(), String> {
        if self.side == Role::Server || self.is_finished || !self.handshake.is_connected() {
            return Ok(());
        }
        if self.sends_since.is_none() && shared_stats.sent(self.flow).get() > 0 {
            self.sends_since = Some(Instant::now());
        }
        if let Some(refusal) = shared_stats.refusal(self.flow) {
            return Err(format!("it closed the connection with a NAK: {}", refusal.name()));
        }
        let (messages, is_over) = shared_stats.acknowledged(self.flow);
        if !is_over {
            return match gate.give_up {
                true => Err("it has not acknowledged all messages".to_owned()),
                false => Ok(()),
            };
        }
        // Rates by the clock that the peer would use.
        let seconds = self.sends_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let rate = |what: f64| if seconds > 0.0 { what / seconds } else { 0.0 };
        self.is_finished = true;
        self.handshake.finish(BandwidthReport {
            size: self.message_bytes,
            iterations: messages,
            peak: 0.0,
            average: rate((messages * self.message_bytes) as f64 * 8.0 / 1e9),
            message_rate: rate(messages as f64 / 1e6),
        });
        Ok(())
    }
}
