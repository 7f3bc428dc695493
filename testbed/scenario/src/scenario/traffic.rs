//! Messages of workloads, and their transport.

use std::num::NonZeroU32;
use std::sync::Arc;

use weir_nic::host::{CongestionControlChoice, FlowConfig, LossRecovery, Peer, Transport};
use weir_units::{Class, Span, Time};
use weir_wire::rocev2::Dscp;

use crate::workload::{ClosedLoop, Message, MessageGraph, Rng};

/// Messages of a workload, with their transport.
#[derive(Clone, Debug)]
pub struct TrafficPlan {
    /// Name of the workload.
    pub name: String,
    /// Priority groups at the senders' ports, each with the DSCP of its frames; one or more. A message has one of them, at random.
    pub points: Box<[(Class, Dscp)]>,
    /// Transport of the messages.
    pub transport: Transport,
    /// Congestion control of RDMA senders.
    pub congestion_control: CongestionControlChoice,
    /// Number of packets of a message per acknowledgement; the last packet always has one. `None`: only the last.
    pub ack_every: Option<NonZeroU32>,
    /// Timeout after which packets are sent again; `None` for no retransmission.
    pub retransmission: Option<Span>,
    /// Recovery of lost packets, if they are sent again.
    pub loss_recovery: LossRecovery,
    /// Destination port of the messages in `fct.txt`, if given.
    pub dport: Option<u16>,
    /// Messages of the workload.
    pub source: TrafficSource,
}

/// Messages that a workload sends.
#[derive(Clone, Debug)]
pub enum TrafficSource {
    /// List of messages, by start.
    List(Arc<[Message]>),
    /// Closed loop: hosts begin messages on acknowledgements of others.
    ClosedLoop(Arc<ClosedLoop>),
    /// Graph: messages start on receipts, on acknowledgements and after computations.
    Graph(Arc<MessageGraph>),
}

impl TrafficSource {
    /// Returns the messages of a list, by start; none of a closed loop or a graph.
    pub fn messages(&self) -> &[Message] {
        match self {
            TrafficSource::List(messages) => messages,
            TrafficSource::ClosedLoop(_) | TrafficSource::Graph(_) => &[],
        }
    }

    /// Returns the number of messages of a list or a graph; 0 of a closed loop.
    pub fn count(&self) -> usize {
        self.messages().len() + self.graph().map_or(0, |graph| graph.messages().count())
    }

    /// Returns the closed loop, if it is one.
    pub fn closed_loop(&self) -> Option<&ClosedLoop> {
        match self {
            TrafficSource::ClosedLoop(closed) => Some(closed),
            TrafficSource::List(_) | TrafficSource::Graph(_) => None,
        }
    }

    /// Returns the graph, if it is one.
    pub fn graph(&self) -> Option<&MessageGraph> {
        match self {
            TrafficSource::Graph(graph) => Some(graph),
            TrafficSource::List(_) | TrafficSource::ClosedLoop(_) => None,
        }
    }
}

impl TrafficPlan {
    /// Removes messages that start at `end` or later.
    pub fn end_at(&mut self, end: Time) {
        match &mut self.source {
            TrafficSource::List(messages) => {
                let before = before(messages, end);
                if before.len() < messages.len() {
                    *messages = before.into();
                }
            }
            TrafficSource::ClosedLoop(closed) => *closed = Arc::new(closed.before(end)),
            TrafficSource::Graph(graph) => {
                let graph = Arc::make_mut(graph);
                graph.until = graph.until.min(end);
            }
        }
    }

    /// See [`TrafficSource::messages`].
    pub fn messages(&self) -> &[Message] {
        self.source.messages()
    }

    /// Returns the number of messages of a list or a graph; 0 of a closed loop.
    pub fn count(&self) -> usize {
        self.source.count()
    }

    /// See [`TrafficSource::closed_loop`].
    pub fn closed_loop(&self) -> Option<&ClosedLoop> {
        self.source.closed_loop()
    }

    /// See [`TrafficSource::graph`].
    pub fn graph(&self) -> Option<&MessageGraph> {
        self.source.graph()
    }

    /// Returns the messages of a list that start before `end`.
    pub fn before(&self, end: Time) -> &[Message] {
        before(self.messages(), end)
    }

    /// Returns a message's class and DSCP. They depend on the message alone, and so are the same in all runs.
    fn point(&self, message: &Message) -> (Class, Dscp) {
        match *self.points {
            [point] => point,
            ref several => {
                let hosts = u64::from(message.from) << 32 | u64::from(message.to);
                several[Rng::stream(message.start.as_picos(), hosts).index(several.len())]
            }
        }
    }

    /// Returns a connection of a graph, without messages; those of `first` have its class.
    pub fn connection(&self, first: &Message) -> FlowConfig {
        FlowConfig { stop: Time::ZERO, ..self.flow(first) }
    }

    /// Returns the connection of a message. The backend that opens it sets the two hosts.
    pub fn flow(&self, message: &Message) -> FlowConfig {
        let (class, dscp) = self.point(message);
        FlowConfig {
            message: message.size,
            start: message.start,
            congestion_control: self.congestion_control.clone(),
            total: Some(message.size),
            ack_every: self.ack_every,
            retransmission: self.retransmission,
            loss_recovery: self.loss_recovery,
            transport: self.transport.clone(),
            ..FlowConfig::new(Peer::UNKNOWN.queue_pair, Peer::UNKNOWN, class, dscp)
        }
    }
}

fn before(messages: &[Message], end: Time) -> &[Message] {
    &messages[..messages.partition_point(|message| message.start < end)]
}
