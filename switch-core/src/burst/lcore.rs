//! Work of each lcore of a plan.

use std::vec::IntoIter;

use rtrb::RingBuffer;
use weir_config::SwitchConfig;
use weir_units::{PortId, PortSet, Time};

use super::burst_output::BurstOutput;
use super::forwarder::{Forwarder, RxForwarder, TxRings};
use super::handoff::{RECEIVED_MAX, RxRingConsumer, RxRingProducer, TxRingConsumer, TxRingProducer, tx_ring};
use super::local_output::LocalOutput;
use super::plan::{LcorePlan, LcoreRole};
use super::receiver::Receiver;
use super::transmitter::Transmitter;
use crate::buffer::buffer_layout;
use crate::counters::{Counters, DropReason};
use crate::packet::{Burst, Packet, PacketAllocator, PortOutput};
use crate::report::StatsCollector;
use crate::switch::Switch;

/// Lcores of a plan, and the collector of their counters.
#[derive(Debug)]
pub struct Lcores<P> {
    /// Lcores in the order of the plan.
    pub lcores: Vec<Lcore<P>>,
    /// Collector of all their counters.
    pub collector: StatsCollector,
}

/// Work of one lcore.
///
/// Order of calls in each round: for each port of [`LcoreRole::receives`], [`Lcore::room`] and then [`Lcore::handle_burst`] with the
/// received frames; [`Lcore::forward`]; [`Lcore::transmit`]; [`Lcore::serve`].
#[derive(Debug)]
pub struct Lcore<P> {
    /// Ports received, forwarded and transmitted here.
    pub role: LcoreRole,
    stages: PipelineStages<P>,
}

/// Pipeline stages that an lcore runs.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an lcore has one for its life")]
enum PipelineStages<P> {
    /// RX, for a forwarder on another lcore.
    Receive(Receiver<P>),
    /// FWD of frames from a receiver on another lcore.
    Forward(Forwarder<P>),
    /// RX and FWD.
    ReceiveForward(RxForwarder<P>, TxRings<P, true>),
    /// TX.
    Transmit(Transmitter<P>),
    /// RX, FWD and TX. Packets for its own ports are passed within a call, packets for other ports by rings.
    All(RxForwarder<P>, TxRings<P, true>, Transmitter<P>),
}

impl Switch {
    /// Divides the switch among the lcores of a plan, with all memory that it will need. A single lcore updates the MMU's counters without
    /// atomic read-modify-write.
    ///
    /// # Panics
    /// If an lcore of the plan has a set of roles that no layout has; [`LcorePlan::new`] makes no others. Also if the switch has more than
    /// 64 ports, since lcores keep port sets in a word, or if its shared state has other owners: [`Lcores::collector`] gives it.
    pub fn into_lcores<P: Packet>(self, plan: &LcorePlan) -> Lcores<P> {
        assert!(self.shared().ports().len() <= PortSet::PORTS_MAX, "a switch on lcores has at most 64 ports");
        let switch = if plan.lcores.len() == 1 { self.for_one_lcore() } else { self };
        let mut allocation = RingAllocation::new(&switch, plan);
        let lcore = |role: &LcoreRole| Lcore { role: role.clone(), stages: allocation.stages(&switch, role) };
        let lcores: Vec<Lcore<P>> = plan.lcores.iter().map(lcore).collect();
        let receivers = lcores.iter().filter_map(|lcore| match &lcore.stages {
            PipelineStages::Receive(receiver) => Some(receiver.published()),
            _ => None,
        });
        let forwarders = lcores.iter().filter_map(|lcore| match &lcore.stages {
            PipelineStages::Forward(forwarder) => Some(forwarder.published()),
            PipelineStages::ReceiveForward(forwarder, _) | PipelineStages::All(forwarder, ..) => {
                Some(forwarder.published())
            }
            PipelineStages::Receive(_) | PipelineStages::Transmit(_) => None,
        });
        let transmitters = lcores.iter().filter_map(|lcore| Some(lcore.transmitter()?.published()));
        let collector = StatsCollector::new(
            switch.shared().clone(),
            receivers.collect(),
            forwarders.collect(),
            transmitters.collect(),
        );
        Lcores { lcores, collector }
    }
}

/// Number of packets in an lcore's queues above which their memory no longer fits a core's own cache.
const STANDING_MIN: usize = 4_096;

/// Returns the largest number of frames in a switch's buffer. Packet memory has an mbuf for each, and the MMU keeps no more, as it charges
/// each frame for its mbuf. 0 if the configured segments do not fit the buffer: no switch can be built then.
pub fn frames_held_max(config: &SwitchConfig) -> usize {
    let charge = config.charge_per_mbuf();
    buffer_layout(config).map_or(0, |layout| charge.frames_max(layout.charged_by(charge).charges_max()) as usize)
}

/// Rings of a plan, which its lcores take in turn.
struct RingAllocation<P> {
    to_forwarders: IntoIter<RxRingProducer<P>>,
    from_receivers: IntoIter<RxRingConsumer<P>>,
    /// Rings to all transmitters, by forwarder.
    outputs: IntoIter<Vec<Option<TxRingProducer<P>>>>,
    /// Rings from all forwarders, by transmitter.
    inputs: IntoIter<Vec<TxRingConsumer<P>>>,
    /// Transmitter of each port.
    output_of: Box<[usize]>,
    /// Largest number of packets that the transmitters hold.
    places: usize,
}

impl<P: Packet> RingAllocation<P> {
    fn new(switch: &Switch, plan: &LcorePlan) -> RingAllocation<P> {
        let places = switch.packets_max();
        let transmitting: Vec<&LcoreRole> = plan.lcores.iter().filter(|role| !role.transmits.is_empty()).collect();
        let output_of = switch.shared().ports().iter().map(|port| {
            let serves = |role: &&LcoreRole| role.transmits.contains(&port.real_port);
            transmitting.iter().position(serves).expect("a plan transmits on every port that is no clone")
        });
        let mut inputs: Vec<Vec<TxRingConsumer<P>>> = transmitting.iter().map(|_| Vec::new()).collect();
        let forwarding = || plan.lcores.iter().filter(|role| !role.forwards.is_empty());
        let rings_of = |forwarder: &LcoreRole| -> Vec<Option<TxRingProducer<P>>> {
            let ring = |(input, transmitter): (&mut Vec<TxRingConsumer<P>>, &&LcoreRole)| {
                if std::ptr::eq(*transmitter, forwarder) {
                    return None;
                }
                let (output, end) = tx_ring(places);
                input.push(end);
                Some(output)
            };
            inputs.iter_mut().zip(&transmitting).map(ring).collect()
        };
        let outputs: Vec<_> = forwarding().map(rings_of).collect();
        let handed = forwarding().filter(|role| role.receives.is_empty()).map(|_| RingBuffer::new(RECEIVED_MAX));
        let (to_forwarders, from_receivers): (Vec<_>, Vec<_>) = handed.unzip();
        RingAllocation {
            to_forwarders: to_forwarders.into_iter(),
            from_receivers: from_receivers.into_iter(),
            outputs: outputs.into_iter(),
            inputs: inputs.into_iter(),
            output_of: output_of.collect(),
            places,
        }
    }

    fn stages(&mut self, switch: &Switch, role: &LcoreRole) -> PipelineStages<P> {
        let [receives, forwards, transmits] =
            [&role.receives, &role.forwards, &role.transmits].map(|ports| !ports.is_empty());
        let rx_forwarder = || RxForwarder::new(switch.shared().clone(), &role.forwards);
        match (receives, forwards, transmits) {
            (true, false, false) => PipelineStages::Receive(self.receiver(switch)),
            (false, true, false) => PipelineStages::Forward(self.forwarder(switch, role)),
            (true, true, false) => PipelineStages::ReceiveForward(rx_forwarder(), self.rings()),
            (false, false, true) => PipelineStages::Transmit(self.transmitter(switch, role)),
            (true, true, true) => PipelineStages::All(rx_forwarder(), self.rings(), self.transmitter(switch, role)),
            _ => panic!("no layout has an lcore with these roles: {role}"),
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

    fn rings<const OBEYS_CONTROL: bool>(&mut self) -> TxRings<P, OBEYS_CONTROL> {
        TxRings::new(self.outputs.next().expect("rings for each forwarder"), self.output_of.clone())
    }

    fn transmitter(&mut self, switch: &Switch, role: &LcoreRole) -> Transmitter<P> {
        let bursts = BurstOutput::new(
            role.transmits.len(),
            switch.driver_config().catch_up,
            switch.shared().mmu.pending_bytes(),
        );
        let counters = Counters::upfront(switch.shared().ports().len());
        let transmission = switch.transmission(&role.transmits, self.places, self.places, counters, bursts);
        Transmitter::new(transmission, self.inputs.next().expect("rings for each transmitter").into())
    }
}

impl<P: Packet> Lcore<P> {
    /// Returns the number of packets that may be received at once, which only a ring to a forwarder bounds.
    #[inline]
    pub fn room(&self) -> usize {
        match &self.stages {
            PipelineStages::Receive(receiver) => receiver.room(),
            _ => usize::MAX,
        }
    }

    /// Takes the burst that `port` received at `now`, and empties it.
    ///
    /// # Panics
    /// If the lcore doesn't receive, or the burst is larger than [`Lcore::room`].
    #[inline]
    pub fn handle_burst(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        match &mut self.stages {
            PipelineStages::Receive(receiver) => receiver.handle_burst(now, port, burst),
            PipelineStages::ReceiveForward(forwarder, rings) => {
                forwarder.handle_burst(now, port, burst, allocator, rings)
            }
            PipelineStages::All(forwarder, rings, transmitter) => {
                let mut sink = LocalOutput { transmission: transmitter.transmission(), rings };
                forwarder.handle_burst(now, port, burst, allocator, &mut sink);
            }
            PipelineStages::Forward(_) | PipelineStages::Transmit(_) => {
                panic!("this lcore does not receive: {}", self.role)
            }
        }
    }

    /// Returns whether the memory for received packets has left the caches of this core. That is so if other lcores send the received
    /// packets, or if the queues are so long that free memory was used long ago.
    #[inline]
    pub fn receives_into_cold_memory(&self) -> bool {
        match &self.stages {
            PipelineStages::Receive(_) | PipelineStages::ReceiveForward(..) => true,
            PipelineStages::All(_, _, transmitter) => transmitter.queued() > STANDING_MIN,
            PipelineStages::Forward(_) | PipelineStages::Transmit(_) => false,
        }
    }

    /// Forwards the frames of a receiver on another lcore, and hands over frames for which other lcores had no room. Returns the number of
    /// forwarded frames. `now` is called only if there may be any.
    #[inline]
    pub fn forward(&mut self, now: impl FnOnce() -> Time, allocator: &mut impl PacketAllocator<P>) -> usize {
        self.hand_over_waiting();
        match &mut self.stages {
            PipelineStages::Forward(forwarder) => forwarder.run_once(now(), allocator),
            _ => 0,
        }
    }

    /// Serves the ports that it transmits on; returns the number of moved frames. `now` is called only if there are any ports.
    #[inline]
    pub fn transmit<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: impl FnOnce() -> Time,
        driver: &mut D,
    ) -> usize {
        self.transmitter_mut().map_or(0, |transmitter| transmitter.run_once(now(), driver))
    }

    /// Sends an LLDP frame by a port that it transmits on; returns it if the port does not accept it now. Call it between two rounds.
    pub fn send_lldp<D: PortOutput<P> + PacketAllocator<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packet: P,
        driver: &mut D,
    ) -> Result<(), P> {
        self.transmitter_mut().map_or(Ok(()), |transmitter| transmitter.send_lldp(now, port, packet, driver))
    }

    /// Returns whether the last [`Lcore::transmit`] left frames that were due. They go with the next rounds, before which an lcore should
    /// not yield its CPU.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.transmitter().is_some_and(Transmitter::is_behind)
    }

    /// Returns the earliest instant after `now` with possible transmit work, if no packet arrives.
    pub fn next_wakeup(&self, now: Time) -> Time {
        self.transmitter().map_or(Time::NEVER, |transmitter| transmitter.next_wakeup(now))
    }

    /// Drops all held frames, counted with this reason; returns their number. Call it until all lcores of the switch have none left.
    pub fn discard(&mut self, now: Time, reason: DropReason) -> usize {
        self.hand_over_waiting();
        match &mut self.stages {
            PipelineStages::Forward(forwarder) => forwarder.discard(reason),
            PipelineStages::Transmit(transmitter) | PipelineStages::All(_, _, transmitter) => {
                transmitter.discard(now, reason)
            }
            PipelineStages::Receive(_) | PipelineStages::ReceiveForward(..) => 0,
        }
    }

    /// Checks the frame conservation of its pipeline stages, in debug builds. Holds between any two calls.
    ///
    /// # Panics
    /// If a frame is missing, which is a bug.
    pub fn audit(&self) {
        match &self.stages {
            PipelineStages::Forward(forwarder) => forwarder.audit(),
            PipelineStages::ReceiveForward(forwarder, _) | PipelineStages::All(forwarder, ..) => forwarder.audit(),
            PipelineStages::Receive(_) | PipelineStages::Transmit(_) => {}
        }
        if let Some(transmitter) = self.transmitter() {
            transmitter.audit();
        }
    }

    /// Answers a reader's request for counters. Call it between bursts. `now` is called only if the lcore transmits.
    #[inline]
    pub fn serve(&mut self, now: impl FnOnce() -> Time) {
        match &mut self.stages {
            PipelineStages::Receive(receiver) => receiver.serve(),
            PipelineStages::Forward(forwarder) => forwarder.serve(),
            PipelineStages::ReceiveForward(forwarder, _) | PipelineStages::All(forwarder, ..) => forwarder.serve(),
            PipelineStages::Transmit(_) => {}
        }
        if let Some(transmitter) = self.transmitter_mut() {
            transmitter.serve(now());
        }
    }

    /// Hands over frames for which other lcores had no room.
    #[inline]
    fn hand_over_waiting(&mut self) {
        match &mut self.stages {
            PipelineStages::Forward(forwarder) => forwarder.hand_over_waiting(),
            PipelineStages::ReceiveForward(_, rings) | PipelineStages::All(_, rings, _) => rings.hand_over_waiting(),
            PipelineStages::Receive(_) | PipelineStages::Transmit(_) => {}
        }
    }

    #[inline]
    fn transmitter(&self) -> Option<&Transmitter<P>> {
        match &self.stages {
            PipelineStages::Transmit(transmitter) | PipelineStages::All(_, _, transmitter) => Some(transmitter),
            _ => None,
        }
    }

    #[inline]
    fn transmitter_mut(&mut self) -> Option<&mut Transmitter<P>> {
        match &mut self.stages {
            PipelineStages::Transmit(transmitter) | PipelineStages::All(_, _, transmitter) => Some(transmitter),
            _ => None,
        }
    }
}
