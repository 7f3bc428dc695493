//! What all halves of one switch share: read by every lcore, changed only through atomics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use weir_config::FlowControl;
use weir_flowctl::Quantum;
use weir_flowctl::pfc::Gate;
use weir_mmu::{Charge, Mmu};
use weir_units::{BitRate, MacAddr, PortId, Time};

use crate::classify::Classifier;
use crate::fdb::ForwardingTable;

/// The switch's common parts.
#[derive(Debug)]
pub struct Shared {
    /// Who may keep a packet, who must pause.
    pub mmu: Mmu,
    /// Which station is behind which port.
    pub fdb: ForwardingTable,
    pub(crate) classifier: Classifier,
    pub(crate) charge: Charge,
    /// The longest frame that is forwarded, without FCS.
    pub(crate) frame_bytes_max: u32,
    pub(crate) ports: Box<[PortState]>,
}

/// One port, as all lcores see it.
#[derive(Debug)]
pub struct PortState {
    /// The port's name in the configuration.
    pub name: String,
    /// The port whose ingress this one copies; itself where this is no clone.
    pub real_port: PortId,
    /// Source address of control frames.
    pub mac: MacAddr,
    /// C, for quanta and the shaper.
    pub rate: BitRate,
    /// Which flow control it speaks.
    pub flow_control: FlowControl,
    /// Which classes may send.
    pub gate: CachePadded<Gate>,
    link_up: AtomicBool,
    /// When the arrival came that last turned an ingress queue of this port, or of a clone, OFF, in picoseconds.
    xoff_at: AtomicU64,
}

impl Shared {
    /// The ports, in the order of the configuration.
    pub fn ports(&self) -> &[PortState] {
        &self.ports
    }

    #[inline]
    pub(crate) fn port(&self, port: PortId) -> &PortState {
        &self.ports[port.index()]
    }

    /// The ports that copy this one's ingress.
    pub(crate) fn clones_of(&self, port: PortId) -> impl Iterator<Item = PortId> {
        let ports = self.ports.iter().zip(0..).map(|(state, id)| (state.real_port, PortId(id)));
        ports.filter(move |(real, id)| *real == port && *id != port).map(|(_, id)| id)
    }
}

impl PortState {
    pub(crate) fn new(
        name: &str,
        real_port: PortId,
        mac: MacAddr,
        rate: BitRate,
        flow_control: FlowControl,
    ) -> PortState {
        PortState {
            name: name.to_owned(),
            real_port,
            mac,
            rate,
            flow_control,
            gate: CachePadded::new(Gate::new(Quantum::at(rate))),
            link_up: AtomicBool::new(true),
            xoff_at: AtomicU64::new(0),
        }
    }

    /// Whether the port has a link. Frames for a port without one are dropped, since a lossless queue that can't
    /// drain would pause the whole network.
    #[inline]
    pub fn link_up(&self) -> bool {
        self.link_up.load(Ordering::Relaxed)
    }

    /// Tells the pipeline about the link, from the control thread.
    pub fn set_link_up(&self, up: bool) {
        self.link_up.store(up, Ordering::Relaxed);
    }

    /// Relaxed: the mark that makes the transmitter look is released after this, in the MMU; at worst a delay is
    /// measured from the Xoff before.
    #[inline]
    pub(crate) fn note_xoff(&self, now: Time) {
        self.xoff_at.store(now.as_picos(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn xoff_at(&self) -> Time {
        Time::from_picos(self.xoff_at.load(Ordering::Relaxed))
    }
}
