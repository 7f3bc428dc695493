//! Changes of a run, from the file's plan.

use std::sync::Arc;

use weir_config::{SwitchConfig, restart_reason};
use weir_mmu::policy::BUFFER_POLICIES;
use weir_switch_core::{buffer, flow_control};
use weir_units::BitRate;

use super::changes::ChangePart;
use super::plan::{RunContext, ScenarioPlan};
use super::run_diagnostics::RunDiagnostics;
use super::switches::Switches;
use crate::scenario::RuntimeChange;

/// Returns the changes of a run, with the switches' configurations from then on. Errors go to `diagnostics`.
pub(super) fn of_run(
    plan: &ScenarioPlan,
    run: usize,
    context: RunContext<'_>,
    started: &Switches,
    diagnostics: &mut RunDiagnostics,
) -> Vec<RuntimeChange> {
    let parts: Vec<&ChangePart> = plan.changes.iter().filter(|part| part.run.is_none_or(|own| own == run)).collect();
    let mut changes = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        if let Some((policy, own)) = started.distinct().find_map(|(_, config)| foreign_policy(&part.key, config)) {
            let message = format!("`{}` is a key of policy \"{policy}\", and the policy is \"{own}\"", part.key);
            let help = format!("write run = with a run under \"{policy}\", or take the change out");
            diagnostics.add(run, None, plan.source.error_at(&format!("changes[{}].key", part.number), message, help));
            break;
        }
        let Some(switches) = Switches::read(plan, run, context, &parts[..=n], diagnostics) else { break };
        let before = diagnostics.len();
        if let Some(reason) = started.distinct().find_map(|(_, config)| restart_reason(config, &part.key)) {
            let message = format!("`{}` does not change during a run: {reason}", part.key);
            let key = format!("changes[{}].key", part.number);
            diagnostics.add(run, None, plan.source.error_at(&key, message, "write it in [switch], for the whole run"));
            break;
        }
        for (switch, config) in switches.distinct() {
            if let Err(errors) = check(config) {
                switches.refuse(run, switch, errors, diagnostics);
            }
        }
        if diagnostics.len() > before {
            break;
        }
        changes.push(RuntimeChange {
            at: part.at,
            key: part.key.clone(),
            value: part.value().to_owned(),
            switches: Arc::from(switches.configs),
        });
    }
    changes
}

/// Returns the policy that a key is of, and the configured one, if they differ.
fn foreign_policy<'k>(key: &'k str, config: &SwitchConfig) -> Option<(&'k str, &'static str)> {
    let own = config.buffer.policy.name();
    let (policy, _) = key.strip_prefix("buffer.")?.split_once('.')?;
    (BUFFER_POLICIES.find(policy).is_some() && policy != own).then_some((policy, own))
}

/// Checks whether the buffer's policy and flow control can work with a configuration, by the rules of the start.
fn check(config: &SwitchConfig) -> Result<(), weir_config::ConfigErrors> {
    flow_control::check(config)?;
    let layout = buffer::buffer_layout(config).map_err(|error| error.at_line(config))?;
    let rate = |port: &weir_config::PortConfig| port.rate.unwrap_or(flow_control::RATE_UNKNOWN);
    let rates: Vec<BitRate> = config.ports.iter().map(rate).collect();
    buffer::buffer_policy(config, &layout, &rates).map_err(|error| error.at_line(config))?;
    Ok(())
}
