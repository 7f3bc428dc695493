//! Driver configuration of a switch, and the driver's information about ports.

use weir_flowctl::CatchUp;
use weir_units::{Alpha, BitRate, Bytes, ClassSet, LINK_OVERHEAD, MacAddr, SerialisationRounding};
use weir_wire::digest::DigestConfig;

/// Settings of a switch that its driver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverConfig {
    /// Bound on the catch-up of late polls; none in virtual time.
    pub catch_up: CatchUp,
    /// Number of stations for which the forwarding table has room, if not the configuration's.
    pub stations: Option<usize>,
    /// Whether source addresses are learned; false where all stations are known.
    pub learns: bool,
    /// Seed of the ECMP hash, so that neighbours choose differently among ports of equal cost.
    pub hash_seed: u32,
    /// Seed of the switch's random numbers, together with its name. Another seed or name gives other marks and drawn ports.
    pub seed: u64,
    /// Bytes of link time per frame beyond its length without FCS; on a real link, [`LINK_OVERHEAD`]. The buffer's reserves and the bounds
    /// of GFC's thresholds always use a real link's.
    pub link_overhead: Bytes,
    /// Rounding of a frame's serialisation time; exact in real time.
    pub frame_times: SerialisationRounding,
    /// Encoding of digests in frames that ask for them; `None` leaves frames unchanged.
    pub digest: Option<DigestConfig>,
    /// Whether each frame takes an mbuf however short it is, as on DPDK, and is charged for it
    /// ([`SwitchConfig::charge_per_mbuf`](weir_config::SwitchConfig::charge_per_mbuf)). In virtual time memory is allocated as needed.
    pub takes_mbufs: bool,
    /// Classes whose frames the buffer does not count: they are always admitted, and cause neither drop nor PAUSE. Only in virtual time,
    /// where memory is allocated as needed.
    pub unbuffered: ClassSet,
    /// Threshold factor α of lossy frames that are marked unscheduled, if it differs; only in virtual time.
    pub unscheduled_alpha: Option<Alpha>,
}

/// Information about a port that the driver has and the configuration may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Address of the device.
    pub mac: MacAddr,
    /// Link speed of the device: the rate of a port without a configured one.
    pub rate: Option<BitRate>,
    /// Whether a port without a configured rate is shaped to the link speed, so that its backlog is in its queues and not in its device.
    pub shaped: bool,
}

impl DriverConfig {
    /// Returns the settings in real time, for a switch that learns addresses.
    pub fn real_time(catch_up: CatchUp) -> DriverConfig {
        DriverConfig {
            catch_up,
            stations: None,
            learns: true,
            hash_seed: 0,
            seed: 0,
            link_overhead: LINK_OVERHEAD,
            frame_times: SerialisationRounding::Exact,
            digest: None,
            takes_mbufs: true,
            unbuffered: ClassSet::EMPTY,
            unscheduled_alpha: None,
        }
    }
}
