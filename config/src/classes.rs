//! Traffic classes: scheduling, marking and PFC.

use weir_arbitration::ArbiterChoice;
use weir_mmu::EcnMarker;
use weir_units::{BitRate, Bytes, Class, ClassSet, Span};

/// `[classes]`: lossless classes, classification and scheduling of priorities 0 to 7.
#[derive(Clone, Debug)]
pub struct ClassConfig {
    /// Lossless priorities: the priority groups, egress queues and PFC priorities of these numbers.
    pub lossless: ClassSet,
    /// Map of ports without one of their own.
    pub map: ClassMap,
    /// Scheduling of egress queues that are not strict.
    pub scheduler: SchedulerKind,
    /// Scheduling and marking of each class's egress queue.
    pub queues: [QueueConfig; 8],
}

/// Map of received frames to classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassMap {
    /// Source of a frame's class.
    pub trust: Trust,
    /// Class of each DSCP.
    pub dscp: [u8; 64],
    /// Class of each PCP.
    pub pcp: [u8; 8],
    /// Priority group, the ingress queue, of each class.
    pub group: [u8; 8],
    /// Egress queue of each class.
    pub queue: [u8; 8],
}

impl ClassMap {
    /// Classes with priority groups and egress queues of their own numbers.
    pub const IDENTITY: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    /// Returns whether each class has the priority group and the egress queue of its number.
    pub fn is_identity(&self) -> bool {
        [self.group, self.queue] == [ClassMap::IDENTITY; 2]
    }

    /// Priority group of each DSCP.
    pub fn group_of_dscp(&self) -> [u8; 64] {
        self.dscp.map(|class| self.group[usize::from(class)])
    }

    /// Egress queue of each DSCP.
    pub fn queue_of_dscp(&self) -> [u8; 64] {
        self.dscp.map(|class| self.queue[usize::from(class)])
    }

    /// Transmit queue of each DSCP in a guest behind a vhost-user device with `queues` queues, by the priority group that the switch pauses;
    /// `None` if the class does not come from the DSCP.
    pub fn transmit_queue_of_dscp(&self, queues: u8) -> Option<[u8; 64]> {
        (self.trust == Trust::Dscp).then(|| self.group_of_dscp().map(|group| group % queues.max(1)))
    }
}

/// Scheduling of egress queues that are not strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Deficit weighted round robin, by bytes.
    #[default]
    Dwrr,
    /// Weighted round robin by frames, regardless of their lengths.
    PacketRr,
}

/// Header field that a frame's class is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// DSCP of the IP header; the port's own priority for non-IP frames.
    Dscp,
    /// PCP of the VLAN tag; the port's own priority for untagged frames.
    Pcp,
    /// Port's own priority for every frame.
    Port,
}

/// Scheduling and marking of one class's egress queue.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Whether the queue has strict priority; among strict queues the higher class comes first.
    pub strict: bool,
    /// Service per round: bytes under DWRR, frames under weighted round robin.
    pub quantum: u32,
    /// Maximum rate of the queue; `None` is the port's.
    pub rate: Option<BitRate>,
    /// ECN marking; `None` never marks.
    pub ecn: Option<EcnConfig>,
    /// Arbitration among the ingress ports of the queue's frames.
    pub arbitration: ArbiterChoice,
}

/// ECN marking by the egress queue's length: never below K_min, always above K_max, and between them with a probability that rises linearly
/// to P_max. K_min = K_max is DCTCP's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnConfig {
    /// K_min, in bytes.
    pub kmin: Bytes,
    /// K_max, in bytes.
    pub kmax: Bytes,
    /// P_max in millionths.
    pub pmax_ppm: u32,
    /// Port rate at which K_min and K_max apply; they scale with the rate of other ports. `None` applies them at every rate.
    pub at_rate: Option<BitRate>,
    /// Whether frames are marked at enqueue, and not at dequeue.
    pub on_arrival: bool,
}

impl EcnConfig {
    /// Creates the marker.
    ///
    /// # Panics
    /// If K_min exceeds K_max or P_max exceeds one; parsing rejects such files.
    pub fn marker(&self) -> EcnMarker {
        let EcnConfig { kmin, kmax, pmax_ppm, at_rate, on_arrival } = *self;
        let marker = match at_rate {
            Some(rate) => EcnMarker::at_rate(kmin, kmax, pmax_ppm, rate),
            None => EcnMarker::new(kmin, kmax, pmax_ppm),
        };
        if on_arrival { marker.at_enqueue() } else { marker }
    }
}

/// `[pfc]`: transmission of PFC frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// Pause time of a PAUSE, in quanta of 512 bit times at the port's rate; 1 to 65,535.
    pub quanta: u16,
    /// Share of the pause time after which a PAUSE is repeated, in percent; 1 to 90.
    pub refresh_percent: u8,
    /// Maximum reaction time of the switch, from a frame's arrival at the device to the departure of the PAUSE: polling, and frames queued
    /// in the device. The headroom rule adds the bytes that arrive meanwhile.
    pub reaction: Span,
    /// `obey = "all"`: a peer's PFC pauses lossy classes too.
    pub obeys_for_lossy: bool,
}

/// Named defaults of the DSCP map, the lossless classes and the strict class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preset {
    /// Class of the code points that `dscp` does not list.
    pub(crate) other: u8,
    pub(crate) dscp: &'static [(usize, u8)],
    pub(crate) lossless: ClassSet,
    pub(crate) strict: ClassSet,
}

/// Preset from SONiC's `qos_config.j2`.
pub(crate) const SONIC: Preset = Preset {
    other: 1,
    dscp: &[(3, 3), (4, 4), (46, 5), (48, 6), (8, 0), (5, 2)],
    lossless: ClassSet::from_members(&[Class::new(3), Class::new(4)]),
    strict: ClassSet::EMPTY,
};

/// Preset that NIC vendors recommend: RoCE at DSCP 26, congestion notifications (CNP) at DSCP 48.
pub(crate) const ROCE: Preset =
    Preset { other: 0, dscp: &[(26, 3), (48, 6)], lossless: Class::new(3).alone(), strict: Class::new(6).alone() };
