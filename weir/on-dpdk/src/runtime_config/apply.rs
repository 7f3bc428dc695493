//! Applies a configuration that was read and checked.

use std::collections::BTreeSet;

use weir_config::{PortConfig, PortState, SwitchConfig};
use weir_dpdk_driver::RunningSwitches;
use weir_experiments::table::count;
use weir_flowctl::MessageKind;
use weir_switch_core::{BuildError, Shared, buffer};
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, PortId, QueueId, Time};

use super::RunningConfig;

/// Attempts to enter a static address that an lcore has overwritten meanwhile.
const TRIES: usize = 5;

/// Sends a switch's lcores the changed keys. Returns notes on the consequences, a sentence each.
///
/// # Errors
/// The running switch can't take it; then nothing has changed.
pub(super) fn apply(
    running: &RunningSwitches,
    index: usize,
    before: &RunningConfig,
    wanted: &RunningConfig,
    keys: &BTreeSet<String>,
) -> Result<Vec<String>, String> {
    let shared: &Shared = running.shared(index);
    check(shared, &before.config, &wanted.config)?;
    let mut notes = Vec::new();
    // The one change that may fail comes first.
    set_static_macs(running, shared, &before.config, &wanted.config)?;
    let any = |prefix: &str| keys.iter().any(|key| key.starts_with(prefix));
    let config = &wanted.config;
    if any("buffer.") {
        shared.mmu.update_config(&*config.buffer.policy, config.xon(), config.buffer.lossy_alpha);
    }
    if any("classes.queues.") {
        shared.set_queues(&config.classes.queues);
    }
    shared.set_storm_control(config.storm_control);
    if let Some(watchdog) = config.pfc_watchdog.as_ref().filter(|_| any("pfc_watchdog.")) {
        shared.set_watchdog(watchdog);
    }
    for (number, (was, port)) in before.config.ports.iter().zip(&config.ports).enumerate() {
        let id = PortId(number as u16);
        if port.clone_of().is_some() {
            continue;
        }
        if was.rate != port.rate {
            set_rate(shared, id, port, &mut notes);
        }
        if was.flow_control.message_kind() != port.flow_control.message_kind() {
            notes.extend(switch_flow_control(shared, id, config, port));
        }
        if was.state != port.state {
            notes.extend(state_note(shared, id, port));
            shared.set_port_state(id, port.state);
        }
        shared.fdb.set_stations_max(id, port.stations_max);
        let pause = |setup: &RunningConfig| setup.pauses.get(&port.name).copied().unwrap_or(ClassSet::EMPTY);
        if pause(before) != pause(wanted) {
            shared.force_pause(id, pause(wanted));
        }
    }
    if any("buffer.") {
        notes.extend(above(shared, config, running.now()));
    }
    Ok(notes)
}

/// Checks limits fixed at the start against a new configuration's needs.
fn check(shared: &Shared, before: &SwitchConfig, wanted: &SwitchConfig) -> Result<(), String> {
    let layout = shared.mmu.layout();
    for (number, (was, port)) in before.ports.iter().zip(&wanted.ports).enumerate() {
        if was.rate == port.rate || wanted.lossless_classes() == 0 {
            continue;
        }
        let has = layout.ports()[number].headroom_max();
        if let Some(needed) = wanted.headroom(number).filter(|needed| *needed > has && port.clone_of().is_none()) {
            let rate = port.rate.map_or_else(|| "its link's rate".to_owned(), |rate| rate.to_string());
            return Err(format!(
                "port {} has {has} of headroom a class since the start, and the rule asks for {needed} at {rate}: lossless frames \
                 could be lost; start the switch with that rate, or with headroom = \"{needed}\" in [buffer]",
                port.name
            ));
        }
    }
    if let Some(threshold) = wanted.buffer.policy.constant_threshold() {
        let (shared, ports) = (layout.shared(), wanted.ports.len());
        let threshold = threshold.threshold(shared, ports);
        if threshold > shared {
            return Err(format!(
                "`threshold` {threshold} is above the shared buffer of {shared} that the switch has since the start; write \
                 threshold = \"{shared}\" or less"
            ));
        }
    }
    let rate = |(number, port): (usize, &PortConfig)| port.rate.unwrap_or_else(|| shared.ports()[number].rate());
    let rates: Vec<BitRate> = wanted.ports.iter().enumerate().map(rate).collect();
    match buffer::buffer_policy(wanted, layout, &rates) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.at_line(wanted).render(false)),
    }
}

fn set_rate(shared: &Shared, id: PortId, port: &PortConfig, notes: &mut Vec<String>) {
    let change = shared.set_rate(id, port.rate);
    let now = shared.ports()[id.index()].rate();
    if !change.policy_follows {
        notes.push(format!(
            "port {}: the buffer policy goes on with {}, as it can't count at {now}",
            port.name, change.before
        ));
    }
    if port.rate.is_none() {
        notes.push(format!("port {} has its link's rate, {now}", port.name));
    }
}

/// Switches a port to another flow control; returns a note on the consequences.
fn switch_flow_control(shared: &Shared, id: PortId, config: &SwitchConfig, port: &PortConfig) -> Option<String> {
    let (name, spoken) = (&port.name, port.flow_control.label());
    if !shared.set_flow_control(id, port.flow_control.message_kind()) {
        return Some(format!("port {name} can't change to {spoken}: a bug"));
    }
    let is_watched = shared.ports()[id.index()].is_watched();
    match port.flow_control.message_kind() {
        MessageKind::Nothing if config.lossless_classes() > 0 => Some(format!(
            "port {name} sends and obeys no flow control: frames of lossless classes are dropped once headroom is full"
        )),
        MessageKind::Pfc if config.pfc_watchdog.is_some() && port.pfc_watchdog && !is_watched => {
            Some(format!("port {name} speaks PFC, and its queues are not watched for storms before a restart"))
        }
        _ => None,
    }
}

/// Describes the fate of frames at a port that is closed or opened.
fn state_note(shared: &Shared, id: PortId, port: &PortConfig) -> Option<String> {
    let held: u64 = Class::ALL.iter().map(|class| shared.mmu.egress_length(QueueId::new(id, *class))).sum();
    let name = &port.name;
    match port.state {
        PortState::Up => None,
        PortState::Down if held > 0 => Some(format!(
            "port {name} is as without a link: the {} B that wait for it are dropped (port down)",
            count(held)
        )),
        PortState::Down => {
            Some(format!("port {name} is as without a link: what comes for it or by it is dropped (port down)"))
        }
        PortState::Blocked => Some(format!(
            "port {name} forwards no data: what comes for it or by it is dropped (port down); the {} B that wait for it leave",
            count(held)
        )),
    }
}

/// Queues that hold more than they may from now on.
fn above(shared: &Shared, config: &SwitchConfig, now: Time) -> Vec<String> {
    let mut notes = Vec::new();
    for (number, port) in config.ports.iter().enumerate() {
        for class in Class::ALL {
            let id = QueueId::new(PortId(number as u16), class);
            if shared.mmu.layout().is_lossless(id.port(), class) {
                let queue = shared.mmu.ingress_usage(id, now);
                if queue.shared > queue.threshold {
                    notes.push(format!(
                        "port {}, class {}: the ingress queue holds {} B, above its threshold of now, {} B. Nothing of that is \
                         dropped: the peer is paused, from the next frame on that comes, until the queue is below; headroom takes \
                         what comes meanwhile",
                        port.name,
                        class.index(),
                        count(queue.shared.get()),
                        count(queue.threshold.get())
                    ));
                }
                continue;
            }
            let (held, threshold) = (shared.mmu.egress_length(id), shared.mmu.lossy_threshold(id, now));
            if Bytes::new(held) > threshold {
                notes.push(format!(
                    "port {}, class {}: the egress queue holds {} B, above its threshold of now, {} B. Nothing of that is dropped: \
                     frames that come for it are, until it is below",
                    port.name,
                    class.index(),
                    count(held),
                    count(threshold.get())
                ));
            }
        }
    }
    notes
}

/// Enters and removes static addresses. If one finds no room, the entered ones are removed again.
fn set_static_macs(
    running: &RunningSwitches,
    shared: &Shared,
    before: &SwitchConfig,
    wanted: &SwitchConfig,
) -> Result<(), String> {
    let (was, is) = (&before.static_macs, &wanted.static_macs);
    let new: Vec<(MacAddr, PortId)> =
        is.iter().filter(|entry| !was.contains(entry)).map(|(mac, port)| (*mac, PortId(*port as u16))).collect();
    let restore = |mac: &MacAddr| match was.iter().find(|(known, _)| known == mac) {
        Some((mac, port)) => drop(shared.enter_static(*mac, PortId(*port as u16))),
        None => shared.remove_static(*mac),
    };
    for (number, (mac, port)) in new.iter().enumerate() {
        if !shared.enter_static(*mac, *port) {
            // In some VLANs it may have found room.
            new[..=number].iter().for_each(|(mac, _)| restore(mac));
            return Err(BuildError::StaticMac(*mac).at_line(wanted).render(false));
        }
    }
    for (mac, _) in was.iter().filter(|(mac, _)| !is.iter().any(|(other, _)| other == mac)) {
        shared.remove_static(*mac);
    }
    // Once each lcore has answered, no burst is left in which one may have chosen an entry's place.
    for _ in 0..TRIES {
        if new.is_empty() || running.reports().is_err() {
            break;
        }
        let is_lost = |(mac, port): &&(MacAddr, PortId)| !shared.has_static(*mac, *port);
        let lost: Vec<&(MacAddr, PortId)> = new.iter().filter(is_lost).collect();
        if lost.is_empty() {
            break;
        }
        for (mac, port) in lost {
            shared.enter_static(*mac, *port);
        }
    }
    Ok(())
}
