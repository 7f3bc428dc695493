//! What each lcore of a plan runs.

use std::vec::IntoIter;

use rtrb::RingBuffer;
use weir_config::SwitchConfig;
use weir_units::{PortId, PortSet, Time};

use super::bursts::Bursts;
use super::forwarder::{Forwarder, Rings, RxForwarder};
use super::handoff::{FromForwarder, FromReceiver, RECEIVED_MAX, ToForwarder, ToTransmitter, to_transmitter};
use super::own_ports::OwnPorts;
use super::plan::{LcorePlan, LcoreRole};
use super::receiver::Receiver;
use super::transmitter::Transmitter;
use crate::buffer::buffer_layout;
use crate::counters::{Counters, DropReason};
use crate::packet::{Burst, Packet, PacketStore, PortOutput};
use crate::report::Reporter;
use crate::switch::Switch;

/// The lcores of a plan, and how to read their counters.
#[derive(Debug)]
pub struct Lcores<P> {
    /// In the order of the plan.
    pub lcores: Vec<Lcore<P>>,
    /// Reads the counters of all of them.
    pub reporter: Reporter,
}

/// What one lcore runs.
///
/// Order of calls, in each round: for each port of [`LcoreRole::receives`], [`Lcore::room`] and then [`Lcore::handle_burst`] with
/// what was received; [`Lcore::forward`]; [`Lcore::transmit`]; [`Lcore::serve`].
#[derive(Debug)]
pub struct Lcore<P> {
    /// Ports received, forwarded, transmitted here.
    pub role: LcoreRole,
    work: Work<P>,
}

/// The part of the switch that an lcore has.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an lcore has one for its life")]
enum Work<P> {
    /// RX, for a forwarder on another lcore.
    Receive(Receiver<P>),
    /// FWD, of what a receiver on another lcore hands over.
    Forward(Forwarder<P>),
    /// RX and FWD.
    ReceiveForward(RxForwarder<P>, Rings<P, true>),
    /// TX.
    Transmit(Transmitter<P>),
    /// RX, FWD and TX of ports of its own: packets for those go from one to the other in a call, packets for others by rings.
    All(RxForwarder<P>, Rings<P, true>, Transmitter<P>),
}

impl Switch {
    /// Cuts the switch for a plan, with all memory that it will need.
    ///
    /// # Panics
    /// If an lcore of the plan has roles that none of the layouts has: [`LcorePlan::new`] deals out no others. Or if the switch has
    /// more than 64 ports: lcores keep ports in a word.
    pub fn into_lcores<P: Packet>(self, plan: &LcorePlan) -> Lcores<P> {
        assert!(self.shared().ports().len() <= PortSet::PORTS_MAX, "more ports than a word has bits");
        let mut cut = Cut::new(&self, plan);
        let work = |role: &LcoreRole| Lcore { role: role.clone(), work: cut.work(&self, role) };
        let lcores: Vec<Lcore<P>> = plan.lcores.iter().map(work).collect();
        let receivers = lcores.iter().filter_map(|lcore| match &lcore.work {
            Work::Receive(receiver) => Some(receiver.published()),
            _ => None,
        });
        let forwarders = lcores.iter().filter_map(|lcore| match &lcore.work {
            Work::Forward(forwarder) => Some(forwarder.published()),
            Work::ReceiveForward(forwarder, _) | Work::All(forwarder, ..) => Some(forwarder.published()),
            Work::Receive(_) | Work::Transmit(_) => None,
        });
        let transmitters = lcores.iter().filter_map(|lcore| Some(lcore.transmitter()?.published()));
        let reporter =
            Reporter::new(self.shared().clone(), receivers.collect(), forwarders.collect(), transmitters.collect());
        Lcores { lcores, reporter }
    }
}

/// More packets in an lcore's queues than pass through in a few rounds: the memory of as many leaves a core's own cache.
const STANDING_MIN: usize = 4_096;

/// The largest number of frames in a switch's buffer. Packet memory has an mbuf for each, and the MMU keeps no more, as it charges each
/// frame for its mbuf. 0 where the configuration's segments do not fit the buffer: there is no switch then.
pub fn frames_held_max(config: &SwitchConfig) -> usize {
    let charge = config.charge_per_mbuf();
    buffer_layout(config).map_or(0, |layout| charge.frames_max(layout.charged_by(charge).charges_max()) as usize)
}

/// The rings of a plan, dealt out to its lcores in turn.
struct Cut<P> {
    to_forwarders: IntoIter<ToForwarder<P>>,
    from_receivers: IntoIter<FromReceiver<P>>,
    /// The rings to all transmitters, forwarder by forwarder.
    outputs: IntoIter<Vec<Option<ToTransmitter<P>>>>,
    /// The rings from all forwarders, transmitter by transmitter.
    inputs: IntoIter<Vec<FromForwarder<P>>>,
    /// The transmitter that serves each port.
    output_of: Box<[usize]>,
    /// The most packets that the transmitters hold.
    places: usize,
}

impl<P: Packet> Cut<P> {
    fn new(switch: &Switch, plan: &LcorePlan) -> Cut<P> {
        let places = switch.packets_max();
        let transmitting: Vec<&LcoreRole> = plan.lcores.iter().filter(|role| !role.transmits.is_empty()).collect();
        let output_of = switch.shared().ports().iter().map(|port| {
            let serves = |role: &&LcoreRole| role.transmits.contains(&port.real_port);
            transmitting.iter().position(serves).expect("a plan transmits on every port that is no clone")
        });
        let mut inputs: Vec<Vec<FromForwarder<P>>> = transmitting.iter().map(|_| Vec::new()).collect();
        let forwarding = || plan.lcores.iter().filter(|role| !role.forwards.is_empty());
        let rings_of = |forwarder: &LcoreRole| -> Vec<Option<ToTransmitter<P>>> {
            let ring = |(input, transmitter): (&mut Vec<FromForwarder<P>>, &&LcoreRole)| {
                if std::ptr::eq(*transmitter, forwarder) {
                    return None;
                }
                let (output, end) = to_transmitter(places);
                input.push(end);
                Some(output)
            };
            inputs.iter_mut().zip(&transmitting).map(ring).collect()
        };
        let outputs: Vec<_> = forwarding().map(rings_of).collect();
        let handed = forwarding().filter(|role| role.receives.is_empty()).map(|_| RingBuffer::new(RECEIVED_MAX));
        let (to_forwarders, from_receivers): (Vec<_>, Vec<_>) = handed.unzip();
        Cut {
            to_forwarders: to_forwarders.into_iter(),
            from_receivers: from_receivers.into_iter(),
            outputs: outputs.into_iter(),
            inputs: inputs.into_iter(),
            output_of: output_of.collect(),
            places,
        }
    }

    fn work(&mut self, switch: &Switch, role: &LcoreRole) -> Work<P> {
        let [receives, forwards, transmits] =
            [&role.receives, &role.forwards, &role.transmits].map(|ports| !ports.is_empty());
        let rx_forwarder = || RxForwarder::new(switch.shared().clone(), &role.forwards);
        match (receives, forwards, transmits) {
            (true, false, false) => Work::Receive(self.receiver(switch)),
            (false, true, false) => Work::Forward(self.forwarder(switch, role)),
            (true, true, false) => Work::ReceiveForward(rx_forwarder(), self.rings()),
            (false, false, true) => Work::Transmit(self.transmitter(switch, role)),
            (true, true, true) => Work::All(rx_forwarder(), self.rings(), self.transmitter(switch, role)),
            _ => panic!("an lcore with these roles: {role}"),
        }
    }

    fn receiver(&mut self, switch: &Switch) -> Receiver<P> {
        let output = self.to_forwarders.next().expect("a forwarder for each receiver");
        Receiver::new(switch.shared().clone(), output)
    }

    fn forwarder(&mut self, switch: &Switch, role: &LcoreRole) -> Forwarder<P> {
        let input = self.from_receivers.next().expect("a ring for each forwarder");
        Forwarder::new(switch.shared().clone(), &role.forwards, input, self.rings())
    }

    fn rings<const OBEYS_CONTROL: bool>(&mut self) -> Rings<P, OBEYS_CONTROL> {
        Rings::new(self.outputs.next().expect("rings for each forwarder"), self.output_of.clone())
    }

    fn transmitter(&mut self, switch: &Switch, role: &LcoreRole) -> Transmitter<P> {
        let bursts = Bursts::new(role.transmits.len(), switch.surroundings().catch_up, switch.shared().mmu.gone());
        let counters = Counters::upfront(switch.shared().ports().len());
        let transmission = switch.transmission(&role.transmits, self.places, self.places, counters, bursts);
        Transmitter::new(transmission, self.inputs.next().expect("rings for each transmitter").into())
    }
}

impl<P: Packet> Lcore<P> {
    /// How many packets may be received at once: no bound but where a ring to a forwarder has no more room.
    #[inline]
    pub fn room(&self) -> usize {
        match &self.work {
            Work::Receive(receiver) => receiver.room(),
            _ => usize::MAX,
        }
    }

    /// Takes what `port` received at `now`, and empties the burst.
    ///
    /// # Panics
    /// If the lcore doesn't receive, or the burst is larger than [`Lcore::room`].
    #[inline]
    pub fn handle_burst(&mut self, now: Time, port: PortId, burst: &mut Burst<P>, store: &mut impl PacketStore<P>) {
        match &mut self.work {
            Work::Receive(receiver) => receiver.handle_burst(now, port, burst),
            Work::ReceiveForward(forwarder, rings) => forwarder.handle_burst(now, port, burst, store, rings),
            Work::All(forwarder, rings, transmitter) => {
                let mut onward = OwnPorts { transmission: transmitter.transmission(), rings };
                forwarder.handle_burst(now, port, burst, store, &mut onward);
            }
            Work::Forward(_) | Work::Transmit(_) => panic!("an lcore that does not receive: {}", self.role),
        }
    }

    /// Whether the memory that packets are received into has left the caches of this core, where more comes than leaves: other lcores
    /// send what comes here, or so much stands in queues that what is free was used long ago.
    #[inline]
    pub fn receives_into_cold_memory(&self) -> bool {
        match &self.work {
            Work::Receive(_) | Work::ReceiveForward(..) => true,
            Work::All(_, _, transmitter) => transmitter.queued() > STANDING_MIN,
            Work::Forward(_) | Work::Transmit(_) => false,
        }
    }

    /// Forwards what a receiver on another lcore handed over, and hands on what other lcores had no room for; returns how many frames
    /// were forwarded. `now` is asked only if there may be any.
    #[inline]
    pub fn forward(&mut self, now: impl FnOnce() -> Time, store: &mut impl PacketStore<P>) -> usize {
        self.hand_over_waiting();
        match &mut self.work {
            Work::Forward(forwarder) => forwarder.run_once(now(), store),
            _ => 0,
        }
    }

    /// Serves the ports that it transmits on; returns how many frames moved. `now` is asked only if there are any ports.
    #[inline]
    pub fn transmit<D: PortOutput<P> + PacketStore<P>>(&mut self, now: impl FnOnce() -> Time, driver: &mut D) -> usize {
        self.transmitter_mut().map_or(0, |transmitter| transmitter.run_once(now(), driver))
    }

    /// Whether the last [`Lcore::transmit`] left a port frames that were to have left by now: they go with the next rounds,
    /// before which an lcore should not give its CPU away.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.transmitter().is_some_and(Transmitter::is_behind)
    }

    /// The earliest instant after `now` at which there may be something to transmit without a packet arriving.
    pub fn next_wakeup(&self, now: Time) -> Time {
        self.transmitter().map_or(Time::NEVER, |transmitter| transmitter.next_wakeup(now))
    }

    /// Gives up everything that is held, counting it as lost for this reason; returns how much. To be called until all lcores of a
    /// switch have nothing left.
    pub fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        self.hand_over_waiting();
        match &mut self.work {
            Work::Forward(forwarder) => forwarder.discard(reason),
            Work::Transmit(transmitter) | Work::All(_, _, transmitter) => transmitter.discard(now, reason),
            Work::Receive(_) | Work::ReceiveForward(..) => 0,
        }
    }

    /// In debug builds: whether the books of its halves balance. Between any two calls.
    ///
    /// # Panics
    /// If one does not: a fault of the program.
    pub fn audit(&self) {
        match &self.work {
            Work::Forward(forwarder) => forwarder.audit(),
            Work::ReceiveForward(forwarder, _) | Work::All(forwarder, ..) => forwarder.audit(),
            Work::Receive(_) | Work::Transmit(_) => {}
        }
        if let Some(transmitter) = self.transmitter() {
            transmitter.audit();
        }
    }

    /// Answers a reader's request for counters. Called between bursts. `now` is asked only if it transmits.
    #[inline]
    pub fn serve(&mut self, now: impl FnOnce() -> Time) {
        match &mut self.work {
            Work::Receive(receiver) => receiver.serve(),
            Work::Forward(forwarder) => forwarder.serve(),
            Work::ReceiveForward(forwarder, _) | Work::All(forwarder, ..) => forwarder.serve(),
            Work::Transmit(_) => {}
        }
        if let Some(transmitter) = self.transmitter_mut() {
            transmitter.serve(now());
        }
    }

    /// Hands over what other lcores had no room for.
    #[inline]
    fn hand_over_waiting(&mut self) {
        match &mut self.work {
            Work::Forward(forwarder) => forwarder.hand_over_waiting(),
            Work::ReceiveForward(_, rings) | Work::All(_, rings, _) => rings.hand_over_waiting(),
            Work::Receive(_) | Work::Transmit(_) => {}
        }
    }

    #[inline]
    fn transmitter(&self) -> Option<&Transmitter<P>> {
        match &self.work {
            Work::Transmit(transmitter) | Work::All(_, _, transmitter) => Some(transmitter),
            _ => None,
        }
    }

    #[inline]
    fn transmitter_mut(&mut self) -> Option<&mut Transmitter<P>> {
        match &mut self.work {
            Work::Transmit(transmitter) | Work::All(_, _, transmitter) => Some(transmitter),
            _ => None,
        }
    }
}
