//! Switch-wide configuration, and its lcores.

use std::collections::BTreeMap;

use weir_load_balancing::PathSelectorChoice;
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, Span};

use crate::{
    BufferConfig, ClassConfig, ClassMap, ConfigErrors, PfcConfig, PortConfig, SocketAccess, Source, Trust,
    WatchdogConfig,
};

/// Configuration of one switch.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// `[switch] name`: shown in logs and file names.
    pub name: String,
    /// `[switch] idle`.
    pub idle: IdlePolicy,
    /// `[switch] time_dilation`: the clock runs this many times slower than real time; 1 for a lab switch.
    pub time_dilation: u32,
    /// `[switch] mtu`: maximum payload of a frame, without Ethernet header, VLAN tag and FCS.
    pub mtu: Bytes,
    /// `[switch] mac_ageing`: idle time after which a learned address is removed.
    pub mac_ageing: Span,
    /// `[switch] fdb_size`: number of stations for which the forwarding table has room, in real time.
    pub fdb_size: u32,
    /// `[switch] stats_interval`, in real time.
    pub stats_interval: Span,
    /// `[switch] telemetry`: stamps frames that request it with the state of their egress port.
    pub telemetry: bool,
    /// `[switch] telemetry_queue`: queue that stamps contain.
    pub telemetry_queue: TelemetryQueue,
    /// `[switch] load_balancing`: choice of a frame's port among several of equal cost.
    pub load_balancing: PathSelectorChoice,
    /// `[switch] lldp`: sends and receives LLDP and DCBX.
    pub lldp: bool,
    /// `[switch] storm_control`: limit of the frames that each port may flood.
    pub storm_control: Option<BitRate>,
    /// `[lcores]`.
    pub lcores: LcoreConfig,
    /// `[control]`.
    pub control: ControlConfig,
    /// `[buffer]`.
    pub buffer: BufferConfig,
    /// `[classes]`.
    pub classes: ClassConfig,
    /// `[pfc]`.
    pub pfc: PfcConfig,
    /// `[pfc_watchdog]`; `None` disables the watchdog.
    pub pfc_watchdog: Option<WatchdogConfig>,
    /// `[[ports]]`, in file order, which defines the port numbers.
    pub ports: Vec<PortConfig>,
    /// `[[static_macs]]`: address and port index.
    pub static_macs: Vec<(MacAddr, usize)>,
    /// Source file, for errors that point at its lines.
    pub source: Source,
}

/// Ports that are members of a VLAN, clones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanMembers {
    /// Number of the VLAN, 1 to 4094.
    pub vlan: u16,
    /// Ports that send its frames without a tag.
    pub untagged: Vec<usize>,
    /// Ports that send its frames with a tag.
    pub tagged: Vec<usize>,
}

impl SwitchConfig {
    /// Maximum number of VLANs.
    pub const VLANS_MAX: usize = 255;

    /// Maximum frame overhead beyond the MTU: 14 B Ethernet header, 4 B VLAN tag, 4 B FCS.
    pub const FRAME_OVERHEAD_BYTES: u64 = 22;

    /// Maximum frame length: MTU, Ethernet header, VLAN tag and FCS.
    pub fn frame_bytes_max(&self) -> Bytes {
        self.mtu + Bytes::new(Self::FRAME_OVERHEAD_BYTES)
    }

    /// Maximum length of a forwarded frame, with FCS: [`SwitchConfig::frame_bytes_max`] and a second VLAN tag. Thresholds and the headroom
    /// rule count one tag.
    pub fn tagged_frame_bytes_max(&self) -> Bytes {
        self.frame_bytes_max() + Bytes::new(4)
    }

    /// Number of lossless classes.
    pub fn lossless_classes(&self) -> u32 {
        self.classes.lossless.len() as u32
    }

    /// Index of the port whose ingress a clone copies; the port itself if it is no clone.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn real_port(&self, port: usize) -> usize {
        let real = self.ports[port].clone_of().and_then(|name| self.ports.iter().position(|port| port.name == name));
        real.unwrap_or(port)
    }

    /// Indices of the ports that are no clones.
    pub fn real_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.len()).filter(|port| self.ports[*port].clone_of().is_none())
    }

    /// Indices of a port's clones, in file order; none for a clone.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn clones_of(&self, port: usize) -> impl Iterator<Item = usize> {
        let name = self.ports[port].name.as_str();
        (0..self.ports.len()).filter(move |clone| self.ports[*clone].clone_of() == Some(name))
    }

    /// Members of each VLAN, in the order of numbers; none where no port has VLANs.
    pub fn vlan_members(&self) -> Vec<VlanMembers> {
        let mut vlans: BTreeMap<u16, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (index, port) in self.ports.iter().enumerate() {
            port.vlan.into_iter().for_each(|vlan| vlans.entry(vlan).or_default().0.push(index));
            port.tagged.iter().for_each(|vlan| vlans.entry(*vlan).or_default().1.push(index));
        }
        vlans.into_iter().map(|(vlan, (untagged, tagged))| VlanMembers { vlan, untagged, tagged }).collect()
    }

    /// Map of the frames received on a port to classes.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn class_map(&self, port: usize) -> &ClassMap {
        self.ports[port].class_map.as_deref().unwrap_or(&self.classes.map)
    }

    /// Maps and default classes of all ports.
    pub fn class_maps(&self) -> impl Iterator<Item = (&ClassMap, u8)> {
        self.ports.iter().enumerate().map(|(index, port)| (self.class_map(index), port.priority))
    }

    /// Path of the first of these keys of the map that holds at a port: the port's own, or the switch's; of `[classes]` without any.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn class_map_key(&self, port: usize, names: &[&str]) -> String {
        let real = self.real_port(port);
        let tables = [format!("ports[{real}]"), "classes".to_owned()];
        let keys = names.iter().flat_map(|name| tables.iter().map(move |table| format!("{table}.{name}")));
        keys.into_iter().find(|key| self.source.has(key)).unwrap_or_else(|| "classes".to_owned())
    }

    /// Priority groups that frames received on a port, or on a clone of it, can have.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn groups_from(&self, port: usize) -> ClassSet {
        let group = self.class_map(port).group;
        self.classes_from(port).iter().map(|class| Class::new(group[class.index()])).collect()
    }

    /// Classes that frames received on a port, or on a clone of it, can have.
    ///
    /// # Panics
    /// If `port` is out of range.
    pub fn classes_from(&self, port: usize) -> ClassSet {
        let map = self.class_map(port);
        let mapped: &[u8] = match map.trust {
            Trust::Dscp => &map.dscp,
            Trust::Pcp => &map.pcp,
            Trust::Port => &[],
        };
        let own = std::iter::once(port).chain(self.clones_of(port)).map(|port| self.ports[port].priority);
        mapped.iter().copied().chain(own).map(Class::new).collect()
    }

    /// Creates an error at a key of the switch's file ([`Source::error_at`]).
    pub fn error_at(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        self.source.error_at(key, message, help)
    }
}

/// `[control]`: socket on which a running switch answers `weir show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlConfig {
    /// `socket`: location; `None` is the default path.
    pub socket: Option<ControlSocket>,
    /// `mode` and `group`; `None` admits the owner alone.
    pub access: SocketAccess,
}

/// Location of the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// `socket = "none"`: no socket.
    Nowhere,
    /// `socket = "/run/lab.sock"`.
    At(String),
}

impl ControlSocket {
    /// Parses a key or an argument: a path, or `none`.
    pub fn parse(text: &str) -> ControlSocket {
        if text == "none" { ControlSocket::Nowhere } else { ControlSocket::At(text.to_owned()) }
    }
}

/// Queue in the stamps of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TelemetryQueue {
    /// Egress queue of the frame's class.
    #[default]
    Class,
    /// All egress queues of the port.
    Port,
}

/// Behaviour of an lcore without work, from the highest CPU use to the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdlePolicy {
    /// Polls on: lowest latency, full use of the core.
    Poll,
    /// Yields its time slice after an empty poll.
    Yield,
    /// Sleeps after some empty polls: until an RX interrupt if the port's device has one, otherwise for short intervals.
    Sleep,
}

/// Assignment of pipeline stages to lcores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcoreConfig {
    /// `[lcores] layout`.
    pub layout: LcoreLayout,
    /// `[lcores] cores`: CPUs to pin to, in the order of the layout's roles; empty uses the process's own.
    pub cores: Vec<usize>,
    /// `[lcores] catch_up`.
    pub catch_up: CatchUpBound,
}

/// Bound of the time that a late poll makes up on the rates of ports and queues, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUpBound {
    /// Recent lateness of polls, within a bound that the driver sets.
    Auto,
    /// Fixed bound.
    AtMost(Span),
}

/// Partition of the pipeline across lcores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcoreLayout {
    /// [`LcoreLayout::Single`], on as many lcores as suits the available CPUs.
    Auto,
    /// All stages on each lcore, for ports of its own.
    Single,
    /// RX and FWD on one lcore, TX on another.
    RxTx,
    /// RX, FWD and TX each on an lcore of its own, as in the papers' testbeds.
    RxFwdTx,
}
