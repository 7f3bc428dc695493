//! Flow control of each port, from its configuration, with thresholds checked against the theorems.

#[cfg(test)]
mod tests;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_flowctl::kinds::{NoFlowControl, PauseKind, PfcKind};
use weir_flowctl::{FlowControlConfig, FlowControlContext, PortFlowControl};
use weir_units::{BitRate, Bytes, Span};

use crate::build_error::BuildError;

/// Rate C of a port without a configured rate or a known link speed: for quanta only, as the port is not shaped.
pub const RATE_UNKNOWN: BitRate = BitRate::gbps(10);

/// Checks the flow control of all ports of a file before anything is started. A port without a rate is assumed to have [`RATE_UNKNOWN`].
///
/// # Errors
/// Thresholds that break their theorem, and queues for which the buffer reserves too little, unless declared unsafe; each at its line.
pub fn check(config: &SwitchConfig) -> Result<(), ConfigErrors> {
    let wrong = config.real_ports().flat_map(|port| {
        let rate = config.ports[port].rate.unwrap_or(RATE_UNKNOWN);
        [port_flow_control(config, port, rate).err(), check_room(config, port).err()].into_iter().flatten()
    });
    ConfigErrors::joined(wrong.map(|error| error.at_line(config))).map_or(Ok(()), Err)
}

/// Returns a port's flow control at this rate.
///
/// # Errors
/// [`BuildError::FlowControl`] if a value breaks a guarantee of the flow control.
pub fn port_flow_control(config: &SwitchConfig, port: usize, rate: BitRate) -> Result<PortFlowControl, BuildError> {
    let made = config.ports[port].flow_control.build(&flow_control_context(config, port, rate));
    made.map_err(|refusal| BuildError::FlowControl { port, refusal })
}

/// Compares the values that the ports at a link's ends must have in common; `ends` are their names. Returns the first difference as a
/// message with a hint; `None` without one, and between different flow controls.
pub fn difference(ports: [(&SwitchConfig, usize); 2], ends: [&str; 2]) -> Option<(String, String)> {
    let [one, other] = ports.map(|(config, port)| config.ports[port].flow_control.label());
    if one != other {
        return None;
    }
    let [ones, others] = ports.map(|(config, port)| {
        let port_config = &config.ports[port];
        let rate = port_config.rate.unwrap_or(RATE_UNKNOWN);
        port_config.flow_control.common_values(&flow_control_context(config, port, rate))
    });
    let ((key, value), (_, other)) = ones.into_iter().zip(others).find(|(one, other)| one != other)?;
    let message = format!("`{key}` is {value} at {}, but {other} at {}", ends[0], ends[1]);
    Some((message, format!("write the same `{key}` for both ports of a link")))
}

/// Returns the alternatives at run time: PFC, PAUSE or none, without the configured one. Empty for a port with any other flow control.
pub(crate) fn alternatives(config: &SwitchConfig, port: usize, rate: BitRate) -> Vec<PortFlowControl> {
    let own = config.ports[port].flow_control.message_kind();
    let all: [&dyn FlowControlConfig; 3] = [&PfcKind, &PauseKind, &NoFlowControl];
    let alternatives = all.into_iter().filter(|other| own.is_switchable() && other.message_kind() != own);
    alternatives.filter_map(|other| other.build(&flow_control_context(config, port, rate)).ok()).collect()
}

/// Returns the parameters of a port for its flow control.
pub fn flow_control_context(config: &SwitchConfig, port: usize, rate: BitRate) -> FlowControlContext {
    let backlog = config.tx_backlog_bytes(&config.ports[port]);
    FlowControlContext {
        rate,
        delay: config.ports[port].delay,
        reaction: config.pfc.reaction,
        tx_backlog: backlog.map_or(Span::ZERO, |bytes| rate.time_for(bytes)),
        frame_max: config.frame_bytes_max(),
        cell_bytes: config.buffer.cell_bytes,
        quanta: config.pfc.quanta,
        refresh_percent: config.pfc.refresh_percent,
        limit: queue_limit(config, port).unwrap_or_default(),
        has_room: has_room(config, port),
    }
}

/// Returns the length limit of a port's lossless ingress queue under GFC and CBFC: B_m, or CBFC's buffer, as configured or by default.
/// `None` for other flow controls.
pub fn queue_limit(config: &SwitchConfig, port: usize) -> Option<Bytes> {
    let limit = config.ports[port].flow_control.limit()?;
    Some(limit.given.or(config.b_m_by_default(port)).unwrap_or_default())
}

/// Checks that the buffer reserves enough for a port's queues at their limit, plus the frame that passes it. Only the static policy can
/// fail, since every other policy's thresholds move.
///
/// # Errors
/// [`BuildError::Room`] if it reserves less, and that is not declared unsafe.
pub(crate) fn check_room(config: &SwitchConfig, port: usize) -> Result<(), BuildError> {
    match (config.ports[port].flow_control.limit(), queue_limit(config, port), config.kept_for_a_queue(port)) {
        (Some(of_port), Some(limit), Some(kept)) if of_port.is_unsafe != Some(true) && !has_room(config, port) => {
            Err(BuildError::Room { port, key: of_port.key, limit, kept })
        }
        _ => Ok(()),
    }
}

/// Whether the buffer's reserve for a port's queue holds the longest queue and a frame, both in whole cells.
fn has_room(config: &SwitchConfig, port: usize) -> bool {
    let cell = u64::from(config.buffer.cell_bytes);
    match (queue_limit(config, port), config.b_m_by_default(port)) {
        (Some(limit), Some(highest)) => limit.get() / cell * cell <= highest.get(),
        _ => true,
    }
}
