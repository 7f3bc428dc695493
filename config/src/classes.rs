//! Traffic classes, how they are served and marked, and how they are paused.

use weir_arbitration::Arbitration;
use weir_mmu::EcnMarker;
use weir_units::{BitRate, Bytes, ClassSet, Span};

/// Traffic classes (priorities 0 to 7): which are lossless, how frames get one, how they are served.
#[derive(Clone, Debug)]
pub struct ClassConfig {
    /// The lossless classes.
    pub lossless: ClassSet,
    /// Where a frame's class comes from.
    pub trust: Trust,
    /// Class of each DSCP.
    pub dscp: [u8; 64],
    /// Class of each PCP.
    pub pcp: [u8; 8],
    /// How egress queues that are not strict take turns.
    pub scheduler: SchedulerKind,
    /// How each class's egress queue is served.
    pub queues: [QueueConfig; 8],
}

impl ClassConfig {
    /// By which of a device's `queues` the class of each DSCP leaves, as a vhost-user port has it; `None` where the class does not come
    /// from the DSCP.
    pub fn queue_of_dscp(&self, queues: u8) -> Option<[u8; 64]> {
        (self.trust == Trust::Dscp).then(|| self.dscp.map(|class| class % queues.max(1)))
    }
}

/// How egress queues that are not strict take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// By bytes: deficit weighted round robin.
    #[default]
    Dwrr,
    /// By frames, whatever their lengths: weighted round robin.
    PacketRr,
}

/// The header field that a frame's class is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The IP header's DSCP; the port's own priority for what is not IP.
    Dscp,
    /// The VLAN tag's PCP; the port's own priority for untagged frames.
    Pcp,
    /// The port's own priority for everything.
    Port,
}

/// How one class's egress queue is served and marked.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Served before every queue that is not; among strict queues the higher class first.
    pub strict: bool,
    /// Service in a round: bytes by DWRR, frames where packets take turns.
    pub quantum: u32,
    /// The rate that the queue may not exceed; `None` is the port's.
    pub rate: Option<BitRate>,
    /// ECN marking; `None` never marks.
    pub ecn: Option<EcnConfig>,
    /// Which of the ingress ports that frames in the queue came from is served next.
    pub arbitration: Arbitration,
}

/// ECN marking on the egress queue's length: never below K_min, always above K_max, in between with a probability
/// that rises linearly to P_max. K_min = K_max is DCTCP's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnConfig {
    /// K_min.
    pub kmin: Bytes,
    /// K_max.
    pub kmax: Bytes,
    /// P_max in millionths.
    pub pmax_ppm: u32,
    /// The rate of a port at which K_min and K_max are so; at others they are in proportion. `None`: they are so at all.
    pub at_rate: Option<BitRate>,
    /// Whether frames are marked when they come into the queue, and not when they leave it.
    pub on_arrival: bool,
}

impl EcnConfig {
    /// What marks frames so.
    ///
    /// # Panics
    /// If K_min exceeds K_max or P_max exceeds one, which no file that is read does.
    pub fn marker(&self) -> EcnMarker {
        let EcnConfig { kmin, kmax, pmax_ppm, at_rate, on_arrival } = *self;
        let marker = match at_rate {
            Some(rate) => EcnMarker::at_rate(kmin, kmax, pmax_ppm, rate),
            None => EcnMarker::new(kmin, kmax, pmax_ppm),
        };
        if on_arrival { marker.of_arrivals() } else { marker }
    }
}

/// How Weir sends PFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// The pause time that a PAUSE asks for, in quanta of 512 bit times at the port's rate; 1 to 65,535.
    pub quanta: u16,
    /// A PAUSE is sent again after this share of its pause time, in percent; 1 to 90.
    pub refresh_percent: u8,
    /// How long the switch itself may take from a frame's arrival at the device to a PAUSE that leaves it: polling,
    /// and what the device has queued. The headroom rule adds what arrives meanwhile.
    pub reaction: Span,
    /// `obey = "all"`: a peer's PFC pauses lossy classes too, and is not ignored for them.
    pub obeys_for_lossy: bool,
}
