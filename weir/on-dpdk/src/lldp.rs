//! LLDP agent (IEEE 802.1AB): announces each port with its DCBX configuration, keeps the neighbours, and runs the loop guard.

mod lldpdu;
mod loop_guard;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_config::{PortState, SwitchConfig};
use weir_control::state::{LldpNeighbour, LldpPort, PfcComparison};
use weir_dpdk_driver::RunningSwitches;
use weir_results::run_dir::EventKind;
use weir_switch_core::Shared;
use weir_units::{Class, ClassSet, PortId};
use weir_wire::lldp::{Identifier, Lldpdu, NEAREST_BRIDGE, is_lldp};
use weir_wire::loop_guard::{FORWARDED, encode};

use crate::event_sink::EventSink;
use lldpdu::{chassis, pfc_classes, port_lldpdu, shutdown_lldpdu};
use loop_guard::LoopGuard;

/// Agent of the switches that speak LLDP.
pub(crate) struct LldpAgent {
    /// Ports of each switch; empty for a switch without LLDP.
    switches: Vec<SwitchLldp>,
    /// Configurations at the last poll.
    configs: Option<Rc<[SwitchConfig]>>,
}

#[derive(Default)]
struct SwitchLldp {
    chassis: Option<Identifier>,
    ports: Vec<PortLldp>,
    loop_guard: LoopGuard,
}

/// Two ports of a switch that hear each other, or one port that hears itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortLoop {
    pub(crate) switch: usize,
    /// The port with the higher number.
    pub(crate) port: PortId,
    /// The other port.
    pub(crate) other: PortId,
}

/// LLDP at one port.
#[derive(Default)]
struct PortLldp {
    /// Instant of the next LLDPDU; `None` while the port is closed.
    next: Option<Instant>,
    /// Number of LLDPDUs that follow at [`FAST_INTERVAL`].
    fast: u8,
    neighbours: Vec<KnownNeighbour>,
    malformed: u64,
    /// Bound of recorded changes: an instant that each change moves on by a second.
    changes: Option<Instant>,
}

struct KnownNeighbour {
    lldpdu: Lldpdu,
    first_heard: Instant,
    expiry: Instant,
}

/// Change of a port's neighbours.
#[derive(Debug, PartialEq)]
enum NeighbourChange {
    Appeared(String),
    Lost(String),
    PfcMismatch(String),
}

/// Interval of LLDPDUs (msgTxInterval), and while neighbours are new (msgFastTx).
const INTERVAL: Duration = Duration::from_secs(30);
const FAST_INTERVAL: Duration = Duration::from_secs(1);
/// Number of LLDPDUs at the fast interval (txFastInit).
const FAST_LLDPDUS: u8 = 4;
/// Neighbours of a port, at most: a link has two ends.
const NEIGHBOURS_MAX: usize = 4;
/// Changes of a port's neighbours that are recorded at once; further ones are taken up a second later each.
const CHANGES_MAX: u32 = 10;

impl LldpAgent {
    pub(crate) fn new(switches: &[SwitchConfig]) -> LldpAgent {
        let switch = |config: &SwitchConfig| {
            let ports = if config.lldp { config.ports.len() } else { 0 };
            SwitchLldp {
                chassis: None,
                ports: (0..ports).map(|_| PortLldp::default()).collect(),
                loop_guard: LoopGuard::new(ports),
            }
        };
        LldpAgent { switches: switches.iter().map(switch).collect(), configs: None }
    }

    /// Sends due frames and handles received ones; returns the loops found. Call it periodically.
    pub(crate) fn poll(
        &mut self,
        configs: &Rc<[SwitchConfig]>,
        running: &RunningSwitches,
        sink: EventSink<'_>,
    ) -> Vec<PortLoop> {
        let has_new_config = !self.configs.as_ref().is_some_and(|before| Rc::ptr_eq(before, configs));
        self.configs = Some(configs.clone());
        let (now, mut loops) = (Instant::now(), Vec::new());
        for (index, (agent, config)) in self.switches.iter_mut().zip(&**configs).enumerate() {
            if agent.ports.is_empty() {
                continue;
            }
            let shared: &Shared = running.shared(index);
            let own = agent.chassis.get_or_insert_with(|| chassis(config, shared)).clone();
            for number in config.real_ports() {
                let (id, state, port) = (PortId(number as u16), &shared.ports()[number], &mut agent.ports[number]);
                let is_open = state.link_up() && state.admin_state() == PortState::Up;
                if port.is_due(now, is_open, has_new_config) {
                    let frame = port_lldpdu(&own, config, number).encode(state.mac);
                    if !running.send_lldp(index, id, &frame) {
                        port.next = Some(now + FAST_INTERVAL);
                    }
                }
                if let Some(token) = agent.loop_guard.due(number, now, is_open) {
                    // A peer that counts data against credit gets none that is not counted.
                    let is_counted = state.receive_accounting().is_counted();
                    let destination = if is_counted { NEAREST_BRIDGE } else { FORWARDED };
                    running.send_lldp(index, id, &encode(destination, state.mac, token));
                }
                let lost = port.expire(now, is_open);
                record(config, index, id, &lost, sink);
            }
            for (from, frame) in running.take_lldp(index) {
                if !is_lldp(&frame) {
                    let sender = agent.loop_guard.handle(now, &frame);
                    let found =
                        |sender: PortId| PortLoop { switch: index, port: from.max(sender), other: from.min(sender) };
                    loops.extend(sender.map(found));
                    continue;
                }
                let port = &mut agent.ports[from.index()];
                let Ok(lldpdu) = Lldpdu::decode(&frame) else {
                    port.malformed += 1;
                    continue;
                };
                // No port is a neighbour of its own switch.
                if lldpdu.chassis != own {
                    let changes = port.handle(now, lldpdu, pfc_classes(config, from.index()));
                    record(config, index, from, &changes, sink);
                }
            }
        }
        loops
    }

    /// Withdraws the announcements, as the switches stop.
    pub(crate) fn withdraw(&self, running: &RunningSwitches) {
        let Some(configs) = &self.configs else { return };
        for (index, (agent, config)) in self.switches.iter().zip(&**configs).enumerate() {
            let Some(chassis) = &agent.chassis else { continue };
            for number in (0..agent.ports.len()).filter(|number| agent.ports[*number].next.is_some()) {
                let mac = running.shared(index).ports()[number].mac;
                running.send_lldp(index, PortId(number as u16), &shutdown_lldpdu(chassis, config, number).encode(mac));
            }
        }
    }

    /// Neighbours of a switch's port, with its frames received and sent. `None` for a switch without LLDP.
    pub(crate) fn port(
        &self,
        index: usize,
        config: &SwitchConfig,
        number: usize,
        frames: [u64; 2],
    ) -> Option<LldpPort> {
        let (port, now) = (self.switches[index].ports.get(number)?, Instant::now());
        let own = pfc_classes(config, number);
        let [rx, tx] = frames;
        Some(LldpPort {
            port: config.ports[number].name.clone(),
            rx,
            tx,
            malformed: port.malformed,
            pfc: own.iter().map(Class::index).collect(),
            neighbours: port.neighbours.iter().map(|neighbour| neighbour.state(now, own)).collect(),
        })
    }
}

impl PortLldp {
    /// Returns true if an LLDPDU is due, and sets the next instant.
    fn is_due(&mut self, now: Instant, is_open: bool, has_new_config: bool) -> bool {
        if !is_open {
            self.next = None;
            return false;
        }
        if self.next.is_none() {
            self.fast = FAST_LLDPDUS;
        }
        if !has_new_config && self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.fast = self.fast.saturating_sub(1);
        self.next = Some(now + if self.fast > 0 { FAST_INTERVAL } else { INTERVAL });
        true
    }

    /// Removes the neighbours that are too old, or all if the port is closed.
    fn expire(&mut self, now: Instant, is_open: bool) -> Vec<NeighbourChange> {
        let lost = self.neighbours.extract_if(.., |neighbour| !is_open || neighbour.expiry <= now);
        lost.map(|neighbour| NeighbourChange::Lost(neighbour.name())).collect()
    }

    /// Handles an LLDPDU of a neighbour. `own` are the port's PFC classes.
    fn handle(&mut self, now: Instant, lldpdu: Lldpdu, own: ClassSet) -> Vec<NeighbourChange> {
        let known = self.neighbours.iter().position(|known| {
            let known = &known.lldpdu;
            (&known.chassis, &known.port) == (&lldpdu.chassis, &lldpdu.port)
        });
        let expiry = now + Duration::from_secs(u64::from(lldpdu.ttl));
        let is_mismatch = |lldpdu: &Lldpdu| compare_pfc(lldpdu, own) == PfcComparison::Mismatch;
        let mut changes = Vec::new();
        match known {
            Some(known) if lldpdu == self.neighbours[known].lldpdu => self.neighbours[known].expiry = expiry,
            _ if !self.may_change(now) => {}
            Some(known) if lldpdu.ttl == 0 => {
                changes.push(NeighbourChange::Lost(self.neighbours.remove(known).name()));
            }
            Some(known) => {
                let neighbour = &mut self.neighbours[known];
                if is_mismatch(&lldpdu) && !is_mismatch(&neighbour.lldpdu) {
                    changes.push(mismatch(&lldpdu, own));
                }
                (neighbour.lldpdu, neighbour.expiry) = (lldpdu, expiry);
            }
            None if lldpdu.ttl > 0 && self.neighbours.len() < NEIGHBOURS_MAX => {
                let neighbour = KnownNeighbour { lldpdu, first_heard: now, expiry };
                changes.push(NeighbourChange::Appeared(neighbour.name()));
                if is_mismatch(&neighbour.lldpdu) {
                    changes.push(mismatch(&neighbour.lldpdu, own));
                }
                self.neighbours.push(neighbour);
                // The neighbour has heard nothing yet, perhaps.
                self.fast = FAST_LLDPDUS;
                self.next = self.next.map(|next| next.min(now + FAST_INTERVAL));
            }
            None => {}
        }
        changes
    }

    /// Whether another change may be recorded now: a peer can't fill the events.
    fn may_change(&mut self, now: Instant) -> bool {
        let changes = self.changes.map_or(now, |changes| changes.max(now)) + FAST_INTERVAL;
        let may_change = changes <= now + FAST_INTERVAL * CHANGES_MAX;
        if may_change {
            self.changes = Some(changes);
        }
        may_change
    }
}

impl KnownNeighbour {
    /// Name and port, for events.
    fn name(&self) -> String {
        let Lldpdu { chassis, port, system_name, .. } = &self.lldpdu;
        let name = system_name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| chassis.to_string());
        format!("{name} {port}")
    }

    fn state(&self, now: Instant, own: ClassSet) -> LldpNeighbour {
        let lldpdu = &self.lldpdu;
        LldpNeighbour {
            chassis_id: lldpdu.chassis.to_string(),
            port_id: lldpdu.port.to_string(),
            ttl: lldpdu.ttl,
            known_for_s: now.saturating_duration_since(self.first_heard).as_secs(),
            port_description: lldpdu.port_description.clone(),
            system_name: lldpdu.system_name.clone(),
            system_description: lldpdu.system_description.clone(),
            capabilities: lldpdu.capabilities.map_or(0, |capabilities| capabilities.enabled),
            pfc: lldpdu.pfc.map(|pfc| pfc.enabled.iter().map(Class::index).collect()),
            pfc_willing: lldpdu.pfc.is_some_and(|pfc| pfc.willing),
            pfc_comparison: compare_pfc(lldpdu, own),
            ets_percent: lldpdu.ets.map(|ets| ets.percent),
            rocev2_class: lldpdu::rocev2_class(lldpdu),
        }
    }
}

/// Compares a neighbour's PFC classes with the port's.
fn compare_pfc(lldpdu: &Lldpdu, own: ClassSet) -> PfcComparison {
    match lldpdu.pfc {
        None => PfcComparison::Unknown,
        Some(pfc) if pfc.enabled == own => PfcComparison::Equal,
        Some(pfc) if pfc.willing => PfcComparison::Willing,
        Some(_) => PfcComparison::Mismatch,
    }
}

fn mismatch(lldpdu: &Lldpdu, own: ClassSet) -> NeighbourChange {
    let list = |classes: ClassSet| {
        let classes: Vec<String> = classes.iter().map(|class| class.index().to_string()).collect();
        if classes.is_empty() { "none".to_owned() } else { classes.join(",") }
    };
    let theirs = lldpdu.pfc.map_or(ClassSet::EMPTY, |pfc| pfc.enabled);
    NeighbourChange::PfcMismatch(format!("{}, not {}", list(theirs), list(own)))
}

/// Logs and records changes of neighbours.
fn record(config: &SwitchConfig, index: usize, id: PortId, changes: &[NeighbourChange], sink: EventSink<'_>) {
    let (switch, port) = (&config.name, &config.ports[id.index()].name);
    for change in changes {
        let kind = match change {
            NeighbourChange::Appeared(name) => {
                tracing::info!(switch = %switch, port = %port, "LLDP neighbour {name}");
                EventKind::NeighbourFound(name)
            }
            NeighbourChange::Lost(name) => {
                tracing::info!(switch = %switch, port = %port, "LLDP neighbour {name} is gone");
                EventKind::NeighbourLost(name)
            }
            NeighbourChange::PfcMismatch(classes) => {
                tracing::warn!(
                    switch = %switch, port = %port,
                    "the neighbour has PFC for classes {classes}, and is not willing to change: PAUSEs of the other classes are not obeyed"
                );
                EventKind::PfcMismatch(classes)
            }
        };
        sink(index, id, None, kind);
    }
}
