//! A flow as its sender is told of it.

use std::num::NonZeroU32;

use weir_reader::Gauge;
use weir_units::{BitRate, Bytes, Class, Span, Time};
use weir_wire::rocev2::{Dscp, QueuePair};

use super::config::{HostConfig, Peer};
use super::congestion::CongestionControl;
use super::packet::Verb;
use super::receiver::ReceiverConfig;
use super::transport::Transport;

/// A flow: messages over one connection.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// The connection's end at the sender, unique on that host.
    pub queue_pair: QueuePair,
    /// Its end at the receiver; [`Peer::UNKNOWN`] for a flow that waits until [`Host::connect_sender`](super::Host::connect_sender)
    /// names it.
    pub peer: Peer,
    /// Class, for PFC: the one that the switch gives to `dscp`.
    pub class: Class,
    /// Code point of its frames.
    pub dscp: Dscp,
    /// What carries RDMA's messages.
    pub verb: Verb,
    /// Payload of a message.
    pub message: Bytes,
    /// When the first message is released.
    pub start: Time,
    /// No message is released from here on.
    pub stop: Time,
    /// When the messages after the first are released.
    pub repeat: Repeat,
    /// A pace, counted in bytes on the wire (FCS, preamble and gap included) as the line rate is; none: line rate.
    pub rate: Option<BitRate>,
    /// What controls its rate besides. Where it goes by what hops stamp, switches must be told to.
    pub congestion_control: CongestionControl,
    /// Payload of all messages together; the last message is cut to it. None: no end.
    pub total: Option<Bytes>,
    /// Every so many packets of a message one is to be acknowledged besides its last; `None` for the last alone.
    pub ack_every: Option<NonZeroU32>,
    /// Go-back-N: what got lost is sent again, at a negative acknowledgement or when none has come for so long. `None`: nothing
    /// is sent again, and each gap counts as a loss.
    pub retransmission: Option<Span>,
    /// What carries it.
    pub transport: Transport,
}

/// When messages are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Each one when the last frame of the one before has been sent: a long-lived flow.
    BackToBack,
    /// One every so often, whether the ones before are sent or not: repeated bursts.
    Every(Span),
}

impl FlowConfig {
    /// An RDMA flow without an end, from the clock's start: messages of 1 MB back to back at line rate, of which nothing is sent
    /// again. `class` is the one that the switch gives to `dscp`.
    pub fn new(queue_pair: QueuePair, peer: Peer, class: Class, dscp: Dscp) -> FlowConfig {
        FlowConfig {
            queue_pair,
            peer,
            class,
            dscp,
            verb: Verb::Write,
            message: Bytes::mb(1),
            start: Time::ZERO,
            stop: Time::NEVER,
            repeat: Repeat::BackToBack,
            rate: None,
            congestion_control: CongestionControl::none(),
            total: None,
            ack_every: None,
            retransmission: None,
            transport: Transport::Rdma,
        }
    }

    /// What the flow shows, in the order of [`Host::show_gauges`](super::Host::show_gauges).
    pub fn gauges(&self) -> Vec<&'static Gauge> {
        match &self.transport {
            Transport::Rdma => self.congestion_control.gauges().collect(),
            Transport::Tcp(tcp) => tcp.gauges().collect(),
        }
    }

    /// The receiving end of this flow, on the host that is its peer.
    pub fn receiver(&self, sender: &HostConfig) -> ReceiverConfig {
        let feedback = self.congestion_control.feedback();
        ReceiverConfig {
            queue_pair: self.peer.queue_pair,
            peer: sender.peer(self.queue_pair),
            cnp_interval: feedback.cnp_interval,
            wants_repeats: self.retransmission.is_some(),
            answers_each: feedback.acks_every_packet,
            echoes_ecn: feedback.echoes_ecn,
            stamps: feedback.stamps,
            transport: self.transport.clone(),
            class: self.class,
            dscp: self.dscp,
        }
    }
}
