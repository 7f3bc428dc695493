//! Ends of connections: opened, joined and closed while the host runs.

use weir_units::Time;
use weir_wire::rocev2::{Psn, QueuePair};

use super::config::{HostError, Peer};
use super::flow::FlowConfig;
use super::receiver::{Receiver, ReceiverConfig};
use super::sender::Sender;
use super::slab::EndpointId;
use super::{Endpoint, Host, longest_answer};

impl Host {
    /// Opens a receiving end while the host runs; returns its number and its place.
    pub(crate) fn open_receiver(&mut self, config: &ReceiverConfig) -> (QueuePair, usize) {
        let host = &self.config;
        let make =
            |queue_pair| Ok::<_, HostError>(Receiver::new(&ReceiverConfig { queue_pair, ..config.clone() }, host));
        let place = self.receivers.open(false, make).expect("a receiver can always be made");
        self.frame_bytes_max = self.frame_bytes_max.max(longest_answer(config.telemetry, host));
        (self.receivers[place].config().queue_pair, place)
    }

    /// Opens a sending end while the host runs; returns its number, and its place, by which its completions name it.
    /// `config`'s own queue pair is ignored.
    pub(crate) fn open_sender(&mut self, now: Time, config: &FlowConfig) -> Result<(QueuePair, usize), HostError> {
        let host = &self.config;
        let make = |queue_pair| Sender::new(&FlowConfig { queue_pair, ..config.clone() }, host);
        let place = self.senders.open(true, make)?;
        self.frame_bytes_max = self.frame_bytes_max.max(self.senders[place].frame_bytes_max());
        self.give_turn(now, place);
        Ok((self.senders[place].config().queue_pair, place))
    }

    /// Sets the sender of a receiving end, by its place.
    pub(crate) fn set_sender(&mut self, receiver: usize, queue_pair: QueuePair) {
        self.receivers[receiver].set_peer(queue_pair, &self.config);
    }

    /// Sets the sender of a receiving end without one, by its place, and the number of its first packet. Two hosts exchange
    /// both before they use a reliable connection.
    pub fn connect_receiver(&mut self, place: usize, peer: Peer, first: Psn) {
        self.receivers[place].connect(peer, first, &self.config);
    }

    /// Sets the receiver of a flow, by its place, whose peer was [`Peer::UNKNOWN`], and the number of its first packet. The flow
    /// sends from now on, or from its start.
    pub fn connect_sender(&mut self, now: Time, place: usize, peer: Peer, first: Psn) {
        self.senders[place].connect(peer, first, &self.config);
        self.give_turn(now, place);
    }

    /// Closes a receiving end. Its later packets have no receiver.
    pub fn close_receiver(&mut self, place: usize) {
        // Its place is not reused while it is in a queue.
        let receiver = &mut self.receivers[place];
        receiver.is_closing = receiver.has_pending_answers();
        if !receiver.is_closing {
            self.receivers.close(place);
        }
    }

    /// Closes a sending end.
    pub fn close_sender(&mut self, place: usize) {
        let sender = &mut self.senders[place];
        sender.is_closing = sender.has_turn;
        if !sender.is_closing {
            self.senders.close(place);
        }
    }

    /// Takes a sender's turn; returns whether the sender is still open.
    #[inline]
    pub(super) fn take_turn(&mut self, flow: usize) -> bool {
        let sender = &mut self.senders[flow];
        sender.has_turn = false;
        if sender.is_closing {
            self.senders.close(flow);
            return false;
        }
        true
    }

    /// Frees the place of a closing receiver that has sent its pending answers.
    #[inline]
    pub(super) fn finish_close(&mut self, receiver: usize) {
        let state = &self.receivers[receiver];
        if state.is_closing && !state.has_pending_answers() {
            self.receivers.close(receiver);
        }
    }

    #[inline]
    pub(super) fn endpoint(&self, queue_pair: QueuePair) -> Option<Endpoint> {
        match EndpointId::from_queue_pair(queue_pair) {
            Some(id) if id.is_sender => self.senders.place(id).map(Endpoint::Sender),
            Some(id) => self.receivers.place(id).map(Endpoint::Receiver),
            None => {
                let place = self.ends.binary_search_by_key(&queue_pair, |(number, _)| *number).ok()?;
                Some(self.ends[place].1)
            }
        }
    }
}
