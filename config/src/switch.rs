//! The switch as a whole, and its lcores.

use weir_units::{Bytes, Class, ClassSet, MacAddr, Span};

use crate::{
    BufferConfig, ClassConfig, ConfigErrors, PfcConfig, PortConfig, SocketAccess, Source, Trust, WatchdogConfig,
};

/// One switch, as configured.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// `[switch] name`: stands in logs and file names.
    pub name: String,
    /// `[switch] idle`.
    pub idle: Idle,
    /// `[switch] time_dilation`: the clock runs this many times slower than real time; 1 for a lab switch.
    pub time_dilation: u32,
    /// `[switch] mtu`: the largest payload of a frame, without Ethernet header, VLAN tag and FCS.
    pub mtu: Bytes,
    /// `[switch] mac_ageing`: a learned address is forgotten when unseen for this long.
    pub mac_ageing: Span,
    /// `[switch] stats_interval`, in real time.
    pub stats_interval: Span,
    /// `[switch] telemetry`: stamps frames that ask for it with what the port knows that they leave by.
    pub telemetry: bool,
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
    /// `[pfc_watchdog]`; `None` watches nothing.
    pub pfc_watchdog: Option<WatchdogConfig>,
    /// `[[ports]]`, in the order of the file, which numbers them.
    pub ports: Vec<PortConfig>,
    /// `[[static_macs]]`: address and index of the port.
    pub static_macs: Vec<(MacAddr, usize)>,
    /// The file this was read from, to point back at its lines.
    pub source: Source,
}

impl SwitchConfig {
    /// What a frame may add to the MTU: 14 B Ethernet header, 4 B VLAN tag, 4 B FCS.
    pub const FRAME_OVERHEAD_BYTES: u64 = 22;

    /// The longest frame: the MTU with Ethernet header, VLAN tag and FCS.
    pub fn frame_bytes_max(&self) -> Bytes {
        self.mtu + Bytes::new(Self::FRAME_OVERHEAD_BYTES)
    }

    /// The longest frame that is forwarded, with FCS: [`SwitchConfig::frame_bytes_max`] and a second VLAN tag. Thresholds and the
    /// headroom rule count one tag.
    pub fn tagged_frame_bytes_max(&self) -> Bytes {
        self.frame_bytes_max() + Bytes::new(4)
    }

    /// The number of lossless classes.
    pub fn lossless_classes(&self) -> u32 {
        self.classes.lossless.len() as u32
    }

    /// The port whose ingress a port copies; itself for a port that is no clone.
    ///
    /// # Panics
    /// If there is no port of this index.
    pub fn real_port(&self, port: usize) -> usize {
        let real = self.ports[port].clone_of().and_then(|name| self.ports.iter().position(|port| port.name == name));
        real.unwrap_or(port)
    }

    /// The ports that are no clones.
    pub fn real_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.len()).filter(|port| self.ports[*port].clone_of().is_none())
    }

    /// The ports that copy a port's ingress, in the order of the file; none for a port that is a clone itself.
    ///
    /// # Panics
    /// If there is no port of this index.
    pub fn clones_of(&self, port: usize) -> impl Iterator<Item = usize> {
        let name = self.ports[port].name.as_str();
        (0..self.ports.len()).filter(move |clone| self.ports[*clone].clone_of() == Some(name))
    }

    /// The classes that frames received on a port, or on a clone of it, can have.
    ///
    /// # Panics
    /// If there is no port of this index.
    pub fn classes_from(&self, port: usize) -> ClassSet {
        let told: &[u8] = match self.classes.trust {
            Trust::Dscp => &self.classes.dscp,
            Trust::Pcp => &self.classes.pcp,
            Trust::Port => &[],
        };
        let own = std::iter::once(port).chain(self.clones_of(port)).map(|port| self.ports[port].priority);
        told.iter().copied().chain(own).map(Class::new).collect()
    }

    /// An error that points at a key of this switch's file: [`Source::error_at`].
    pub fn error_at(&self, key: &str, message: impl Into<String>, help: impl Into<String>) -> ConfigErrors {
        self.source.error_at(key, message, help)
    }
}

/// `[control]`: the socket that `weir show` asks a running switch by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlConfig {
    /// `socket`: where it is; `None` leaves it at its usual place.
    pub socket: Option<ControlSocket>,
    /// `mode` and `group`. `None` leaves it to its owner alone.
    pub access: SocketAccess,
}

/// Where the control socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSocket {
    /// `socket = "none"`: there is none.
    Nowhere,
    /// `socket = "/run/lab.sock"`.
    At(String),
}

impl ControlSocket {
    /// What a key or an argument says: a path, or `none`.
    pub fn parse(text: &str) -> ControlSocket {
        if text == "none" { ControlSocket::Nowhere } else { ControlSocket::At(text.to_owned()) }
    }
}

/// What an lcore does when it finds no work; the first burns most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Polls on: lowest latency, a whole core burnt.
    Poll,
    /// Gives its time slice away after an empty poll.
    Yield,
    /// Sleeps after some empty polls: until a frame comes where the port's device tells of that, else in naps.
    Sleep,
}

/// Which lcores do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcoreConfig {
    /// `[lcores] layout`.
    pub layout: Layout,
    /// `[lcores] cores`: CPUs to pin to, in the order of the layout's roles; empty for the process's own.
    pub cores: Vec<usize>,
    /// `[lcores] catch_up`.
    pub catch_up: CatchUp,
}

/// The most that a poll which comes late makes up on the rates of ports and queues, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// As much as polls have lately been late, within a bound that the driver sets.
    Auto,
    /// So much.
    AtMost(Span),
}

/// How the pipeline is cut across lcores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As [`Layout::Single`], on as many lcores as suits the CPUs at hand.
    Auto,
    /// All of it on each lcore, for ports of its own.
    Single,
    /// RX and FWD on one lcore, TX on another.
    RxTx,
    /// RX, FWD and TX each on an lcore of its own, as in the papers' testbeds.
    RxFwdTx,
}
