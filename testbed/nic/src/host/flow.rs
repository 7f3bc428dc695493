//! Configuration of a flow at its sender.

use std::num::NonZeroU32;

use weir_reader::Gauge;
use weir_units::{BitRate, Bytes, Class, Span, Time};
use weir_wire::rocev2::{Dscp, QueuePair};

use super::config::{HostConfig, Peer};
use super::congestion::CongestionControlChoice;
use super::packet::RdmaOperation;
use super::receiver::ReceiverConfig;
use super::selective::LossRecovery;
use super::transport::Transport;

/// Flow: messages over one connection.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Queue pair at the sender, unique on that host.
    pub queue_pair: QueuePair,
    /// Receiving end; [`Peer::UNKNOWN`] for a flow that waits for
    /// [`Host::connect_sender`](super::Host::connect_sender).
    pub peer: Peer,
    /// Class, for flow control: the priority group of `dscp` at the sender's port.
    pub class: Class,
    /// Code point of the flow's frames.
    pub dscp: Dscp,
    /// RDMA operation of the flow's messages.
    pub operation: RdmaOperation,
    /// Payload of a message.
    pub message: Bytes,
    /// Release of the first message.
    pub start: Time,
    /// Instant from which no message is released.
    pub stop: Time,
    /// Schedule of the messages after the first.
    pub repeat: Repeat,
    /// Rate limit, in bytes on the wire (FCS, preamble and gap included) like the line rate; `None` for line rate.
    pub rate: Option<BitRate>,
    /// Congestion control, in addition to `rate`. If it needs hop telemetry, the switches must be configured to
    /// stamp.
    pub congestion_control: CongestionControlChoice,
    /// Payload of all messages together; the last message is cut to fit. `None` for no limit.
    pub total: Option<Bytes>,
    /// Interval in packets between acknowledgement requests within a message; its last packet always requests one.
    /// `None` for the last only.
    pub ack_every: Option<NonZeroU32>,
    /// Timeout after which unacknowledged packets are sent again. `None` for no retransmission: each gap counts as a loss.
    pub retransmission: Option<Span>,
    /// Recovery of lost packets, if they are sent again.
    pub loss_recovery: LossRecovery,
    /// Transport of the flow.
    pub transport: Transport,
}

/// Schedule of a flow's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Long-lived flow: each message is released when the last frame of the previous one has been sent.
    BackToBack,
    /// Repeated bursts: a message each period, whether earlier ones are sent or not.
    Every(Span),
}

impl FlowConfig {
    /// Returns an endless RDMA flow from time 0: messages of 1 MB back to back at line rate, without retransmission.
    /// `class` is the priority group of `dscp` at the sender's port.
    pub fn new(queue_pair: QueuePair, peer: Peer, class: Class, dscp: Dscp) -> FlowConfig {
        FlowConfig {
            queue_pair,
            peer,
            class,
            dscp,
            operation: RdmaOperation::Write,
            message: Bytes::mb(1),
            start: Time::ZERO,
            stop: Time::NEVER,
            repeat: Repeat::BackToBack,
            rate: None,
            congestion_control: CongestionControlChoice::none(),
            total: None,
            ack_every: None,
            retransmission: None,
            loss_recovery: LossRecovery::GoBackN,
            transport: Transport::Rdma,
        }
    }

    /// Returns whether only missing packets are sent again, so that the receiver accepts packets in any order.
    pub fn is_selective(&self) -> bool {
        self.loss_recovery.is_selective() && self.retransmission.is_some() && !self.transport.is_tcp()
    }

    /// Returns whether each packet has an acknowledgement of its own.
    pub(super) fn acks_every_packet(&self) -> bool {
        self.is_selective() || self.congestion_control.feedback().acks_every_packet
    }

    /// Returns the flow's gauges, in the order of [`Host::show_gauges`](super::Host::show_gauges).
    pub fn gauges(&self) -> Vec<&'static Gauge> {
        match &self.transport {
            Transport::Rdma => self.congestion_control.gauges().collect(),
            Transport::Tcp(tcp) => tcp.gauges().collect(),
        }
    }

    /// Returns the configuration of the flow's receiving end, on its peer.
    pub fn receiver(&self, sender: &HostConfig) -> ReceiverConfig {
        let feedback = self.congestion_control.feedback();
        ReceiverConfig {
            queue_pair: self.peer.queue_pair,
            peer: sender.peer(self.queue_pair),
            cnp_interval: feedback.cnp_interval,
            retransmits: self.retransmission.is_some(),
            is_selective: self.is_selective(),
            acks_every_packet: self.acks_every_packet(),
            echoes_ecn: feedback.echoes_ecn || self.is_selective(),
            telemetry: feedback.telemetry,
            transport: self.transport.clone(),
            dscp: self.dscp,
        }
    }
}
