//! What a driver decides for a switch, and knows of its ports.

use weir_flowctl::CatchUp;
use weir_units::{Alpha, BitRate, Bytes, ClassSet, FrameTimes, LINK_OVERHEAD, MacAddr};
use weir_wire::digest::DigestConfig;

/// Addresses that the forwarding table is sized for.
const STATIONS_MAX: usize = 16_384;

/// What the driver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// How far a late poll may catch up on rates: not at all in virtual time.
    pub catch_up: CatchUp,
    /// Stations that the forwarding table is sized for.
    pub stations: usize,
    /// Whether stations are learned from what they send: not where all of them are known.
    pub learns: bool,
    /// By which the switch chooses among ports of equal cost otherwise than its neighbours.
    pub hash_seed: u32,
    /// Where the switch's random numbers begin, together with its name: another seed gives other marks and drawn ports, and so does
    /// another name.
    pub seed: u64,
    /// What a frame takes on a link beyond its length without FCS; on a real one, [`LINK_OVERHEAD`]. What the buffer reserves, and
    /// the bounds of GFC's thresholds, are reckoned with a real link's.
    pub link_overhead: Bytes,
    /// What frames take at a port's rate: in real time, what they take.
    pub frame_times: FrameTimes,
    /// By what frames are digested that ask for it; `None` leaves them as they are.
    pub digest: Option<DigestConfig>,
    /// Whether each frame takes an mbuf however short it is, as on DPDK, and is charged for it
    /// ([`SwitchConfig::charge_per_mbuf`](weir_config::SwitchConfig::charge_per_mbuf)). In virtual time memory is taken as it is needed.
    pub takes_mbufs: bool,
    /// Classes whose frames the buffer does not count: they are kept whatever it holds, and cause neither drop nor PAUSE. In virtual
    /// time, where memory is taken as it is needed.
    pub unbuffered: ClassSet,
    /// α of lossy frames that say that they are unscheduled, if they have another: in virtual time.
    pub unscheduled_alpha: Option<Alpha>,
}

/// What the driver knows of a port and the configuration may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// The device's own address.
    pub mac: MacAddr,
    /// The device's link speed: the rate of a port that has none in its configuration.
    pub rate: Option<BitRate>,
    /// Whether such a port is shaped to that speed, so that its backlog stands in its queues and not in its device.
    pub shaped: bool,
}

impl Surroundings {
    /// Surroundings in real time, of a switch that learns its stations.
    pub fn real_time(catch_up: CatchUp) -> Surroundings {
        Surroundings {
            catch_up,
            stations: STATIONS_MAX,
            learns: true,
            hash_seed: 0,
            seed: 0,
            link_overhead: LINK_OVERHEAD,
            frame_times: FrameTimes::Exact,
            digest: None,
            takes_mbufs: true,
            unbuffered: ClassSet::EMPTY,
            unscheduled_alpha: None,
        }
    }
}
