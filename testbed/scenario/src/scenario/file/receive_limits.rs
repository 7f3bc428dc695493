//! Receive limits of hosts that are slow receivers.

use weir_config::headroom_by_rule;
use weir_flowctl::MessageKind;
use weir_nic::host::ReceiveLimit;
use weir_switch_core::flow_control::queue_limit;
use weir_units::Bytes;

use super::build::Build;
use super::run_diagnostics::RunDiagnostics;
use super::slow_receivers::SlowReceivers;
use crate::scenario::{HostPlan, HostPorts};

/// Half of a ConnectX's 262,016 B: its driver divides them between lossless and other traffic.
const BUFFER_DEFAULT: Bytes = Bytes::new(128 * 1_024);

/// Error in a limit: its key, message and fix.
struct LimitConflict(&'static str, String, String);

/// Sets the hosts' limits, and returns remarks for readers of the results.
pub(super) fn slow_down(build: &Build<'_>, hosts: &mut [HostPlan], diagnostics: &mut RunDiagnostics) -> Vec<String> {
    let (ports, mut notes) = (HostPorts::new(hosts, None, 0), Vec::new());
    for slow in &build.plan.slow_receivers {
        let mut note = None;
        for host in &slow.hosts {
            let plan = &mut hosts[*host as usize];
            if ports.count(*host) > 1 {
                let message = format!("host {} has several ports, whose buffers are not modelled", plan.name);
                let key = format!("slow_receivers[{}].rate", slow.number);
                build.refuse(&key, message, "name hosts with one port".to_owned(), diagnostics);
                break;
            }
            match slow.limit(build, plan) {
                Ok((limit, warning)) => {
                    plan.nic.receive = Some(limit);
                    let more = |warning| format!("slow receiver {}: {warning}", plan.name);
                    note = note.or(warning.map(more));
                }
                Err(LimitConflict(key, message, help)) => {
                    let key = format!("slow_receivers[{}].{key}", slow.number);
                    build.refuse(&key, format!("host {}: {message}", plan.name), help, diagnostics);
                    // One error suffices for many equal hosts.
                    break;
                }
            }
        }
        notes.extend(note);
    }
    notes
}

impl SlowReceivers {
    /// Returns a host's limit, and a warning about it if there is one.
    fn limit(&self, build: &Build<'_>, host: &HostPlan) -> Result<(ReceiveLimit, Option<String>), LimitConflict> {
        let (config, line) = (&build.switches.configs[host.switch], host.nic.rate);
        if self.rate > line {
            let message = format!("`rate` {} is more than the {line} of its link, so that it is not slow", self.rate);
            return Err(LimitConflict("rate", message, format!("write \"{line}\" or less")));
        }
        let frame = config.frame_bytes_max();
        let has_lossless = !host.nic.lossless.is_empty();
        let total_buffer = |room: Bytes| self.buffer.unwrap_or(BUFFER_DEFAULT.max(room));
        let mut warning = None;
        let (xoff, buffer) = match host.nic.flow_control.message_kind() {
            MessageKind::Pfc | MessageKind::Pause if has_lossless => {
                let after =
                    headroom_by_rule(line, config.ports[host.port].delay, frame) + line.bytes_in(config.pfc.reaction);
                let buffer = total_buffer(self.xoff.map_or(after * 2, |xoff| xoff + after));
                let xoff = self.xoff.unwrap_or(buffer.saturating_sub(after));
                if self.xoff.is_none() && xoff < frame {
                    let message = format!(
                        "`buffer` {buffer} is too small: {after} may still come after a PAUSE by the rule of headroom, and a \
                         frame has up to {frame}"
                    );
                    return Err(LimitConflict("buffer", message, format!("write \"{}\" or more", after + frame)));
                }
                if buffer - xoff < after {
                    warning = Some(format!(
                        "{} above `xoff` are less than the {after} that may still come after a PAUSE by the rule of \
                         headroom: lossless frames can be lost",
                        buffer - xoff
                    ));
                }
                (xoff, buffer)
            }
            MessageKind::Nothing if has_lossless => {
                warning = Some("no flow control, so that its buffer overflows".to_owned());
                let buffer = total_buffer(Bytes::ZERO);
                (buffer, buffer)
            }
            // Limit of a queue under GFC and CBFC; other flow controls have none.
            _ => {
                let limit = queue_limit(config, host.port).unwrap_or_default();
                // GFC's last stage has a rate above zero, so a queue near B_m still grows by a frame now and then; a switch's port has
                // headroom for it.
                let beyond = match host.nic.flow_control.message_kind() {
                    MessageKind::Stages => headroom_by_rule(line, config.ports[host.port].delay, frame),
                    _ => Bytes::ZERO,
                };
                let buffer = total_buffer(limit + beyond);
                if has_lossless && buffer < limit {
                    warning = Some(format!(
                        "`buffer` {buffer} is less than the {limit} that {} lets a queue hold: lossless frames can be lost",
                        config.ports[host.port].flow_control.label()
                    ));
                }
                (buffer, buffer)
            }
        };
        // Only PAUSE uses XON.
        let pauses = host.nic.flow_control.message_kind().advertises_xoff();
        let xon = self.xon.filter(|_| pauses).unwrap_or(xoff.saturating_sub(frame));
        if xon >= xoff {
            let message = format!("`xon` {xon} must be less than `xoff`, which is {xoff} by default");
            return Err(LimitConflict("xon", message, "write a smaller `xon`, or a larger `xoff`".to_owned()));
        }
        let (rate, headroom) = (self.rate, buffer - xoff);
        Ok((ReceiveLimit { rate, buffer: xoff, xon, headroom, from: self.from, until: self.until }, warning))
    }
}
