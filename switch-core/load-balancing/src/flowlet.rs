//! Load balancing `flowlet`: LetFlow of Vanini et al. (NSDI 2017). After a gap in a flow, a port is drawn for its next frames.

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{PortId, Span, Time};

use crate::{EqualCostPorts, PathRequest, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind};

pub(crate) static KIND: FlowletKind = FlowletKind;

const GAP: Key<Span> = Key::time(
    "flowlet_gap",
    Span::from_nanos(1)..=Span::from_secs(1),
    "Idle time after which a flow may change its port; only with `load_balancing = \"flowlet\"`.",
)
.or("100us")
.restart("forwarders are created for one load balancing at the start");

#[derive(Debug)]
pub(crate) struct FlowletKind;

impl Plugin for FlowletKind {
    fn id(&self) -> &'static str {
        "flowlet"
    }

    fn keys(&self) -> Keys {
        &[&GAP]
    }
}

impl PathSelectorKind for FlowletKind {
    fn read(&self, table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(FlowletConfig { gap: table.get(&GAP) })
    }
}

/// Configuration of `flowlet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowletConfig {
    /// Idle time after which a flow may change its port.
    pub gap: Span,
}

impl PathSelectorConfig for FlowletConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        let unused = Flowlet { last: Time::ZERO, port: PortId(u16::MAX) };
        Some(Box::new(FlowletTable { gap: self.gap, flowlets: vec![unused; FLOWLETS].into() }))
    }
}

/// Number of flowlets in a table; flows whose hashes share an entry are one flow, as in LetFlow.
const FLOWLETS: usize = 1 << 12;

#[derive(Clone, Debug)]
struct FlowletTable {
    gap: Span,
    flowlets: Box<[Flowlet]>,
}

#[derive(Clone, Copy, Debug)]
struct Flowlet {
    /// Arrival of the last frame.
    last: Time,
    port: PortId,
}

impl PathSelector for FlowletTable {
    fn select(&mut self, frame: PathRequest, ports: &mut dyn EqualCostPorts) -> usize {
        let flowlet = &mut self.flowlets[frame.flow_hash as usize % FLOWLETS];
        let goes_on = frame.now < flowlet.last.saturating_add(self.gap);
        flowlet.last = frame.now;
        // A flow of other ports may share the entry.
        let current = ports.ports().iter().position(|port| *port == flowlet.port).filter(|_| goes_on);
        let count = ports.ports().len() as u32;
        let index = current.unwrap_or_else(|| ports.below(count) as usize);
        flowlet.port = ports.ports()[index];
        index
    }
}
