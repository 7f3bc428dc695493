//! Messages between ranks on real hosts: over Linux's TCP in network namespaces, over RDMA verbs in guests.

mod queue_pairs;
mod sockets;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_nic::host::{Connection, ServerMessage};
use weir_wire::rocev2::Dscp;

use crate::guest::RunningGuest;
use queue_pairs::{QueuePairExchange, RankQueuePairs};
use sockets::RankSockets;

/// Connection of two ranks.
#[derive(Clone, Copy, Debug)]
pub struct RankConnection {
    /// Sending and receiving host, by index in the scenario.
    pub hosts: [usize; 2],
    /// Places of the ends there.
    pub ends: Connection,
    /// Code point of the connection's frames.
    pub dscp: Dscp,
}

/// Real host of ranks.
#[derive(Clone, Debug)]
pub struct RankHost {
    /// Address of the host.
    pub(crate) ip: Ipv4Addr,
    pub(crate) place: RankPlace,
}

#[derive(Clone, Debug)]
pub(crate) enum RankPlace {
    /// Network namespace of this name.
    Namespace(String),
    Guest(RunningGuest),
}

/// Connections of all ranks of a run.
#[derive(Debug)]
pub struct RankNetwork {
    connections: Vec<RankConnection>,
    /// Host of each index in the scenario; `None` without ranks' sockets or queue pairs.
    hosts: Vec<Option<RankHost>>,
    /// Time dilation of the links.
    dilation: u32,
    /// Number that the run's TCP connections begin with.
    token: u64,
    queue_pairs: Arc<QueuePairExchange>,
}

/// Arrival at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankArrival {
    /// A message has arrived.
    Message(ServerMessage),
    /// A message has been acknowledged.
    Ack(ServerMessage),
}

/// Open connections of a rank's host.
#[derive(Debug)]
pub struct RankEnds(RankTransport);

#[derive(Debug)]
enum RankTransport {
    Sockets(RankSockets),
    QueuePairs(Box<RankQueuePairs>),
}

impl RankNetwork {
    /// Creates the network of these connections and hosts, whose links have this time dilation.
    pub fn new(connections: Vec<RankConnection>, hosts: Vec<Option<RankHost>>, dilation: u32) -> RankNetwork {
        let (token, queue_pairs) = (RandomState::new().hash_one(0), QueuePairExchange::new(connections.len()));
        RankNetwork { connections, hosts, dilation, token, queue_pairs: Arc::new(queue_pairs) }
    }

    /// Opens the connections of a host, from a thread of its own: in a namespace the thread moves there.
    ///
    /// # Errors
    /// The host can't be entered, a peer does not answer in time, or `stop` is set.
    pub fn open(&self, host: usize, stop: &AtomicBool) -> io::Result<RankEnds> {
        Ok(RankEnds(match &self.host(host).place {
            RankPlace::Namespace(name) => RankTransport::Sockets(RankSockets::open(self, host, name, stop)?),
            RankPlace::Guest(guest) => RankTransport::QueuePairs(RankQueuePairs::open(self, host, guest, stop)?.into()),
        }))
    }

    fn host(&self, host: usize) -> &RankHost {
        self.hosts[host].as_ref().expect("a rank's host is a namespace or a guest")
    }
}

impl RankHost {
    /// Name of the namespace or guest.
    fn name(&self) -> &str {
        match &self.place {
            RankPlace::Namespace(name) => name,
            RankPlace::Guest(guest) => &guest.plan.name,
        }
    }
}

impl RankEnds {
    /// Queues a message to another host.
    pub fn send(&mut self, message: ServerMessage) {
        match &mut self.0 {
            RankTransport::Sockets(sockets) => sockets.send(message),
            RankTransport::QueuePairs(queue_pairs) => queue_pairs.send(message),
        }
    }

    /// Sends and receives without waiting; calls `handle` with each arrival. Returns whether anything moved.
    ///
    /// # Errors
    /// A connection has ended.
    pub fn exchange(&mut self, handle: impl FnMut(RankArrival)) -> io::Result<bool> {
        match &mut self.0 {
            RankTransport::Sockets(sockets) => sockets.exchange(handle),
            RankTransport::QueuePairs(queue_pairs) => queue_pairs.exchange(handle),
        }
    }

    /// Waits until a connection can go on, for this long at most.
    pub fn wait(&self, most: Duration) {
        match &self.0 {
            RankTransport::Sockets(sockets) => sockets.wait(most),
            RankTransport::QueuePairs(queue_pairs) => queue_pairs.wait(most),
        }
    }
}
