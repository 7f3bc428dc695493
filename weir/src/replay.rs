//! `weir replay`: configuration of the running switch, before DPDK is started.

use weir_config::SwitchConfig;
use weir_control::protocol::{Reply, Request};
use weir_control::runtime_config::SwitchSelector;
use weir_experiments::Failure;
use weir_experiments::real_frames::{self, ReplayArguments};

use crate::control::{Target, failure};

/// Arguments of `weir replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    replay: ReplayArguments,
}

/// Replays captures.
pub(crate) fn replay(arguments: &Arguments) -> Result<(), Failure> {
    let real_frames = real_frames::reach()?;
    let ports = &arguments.replay.ports;
    let switch = (!ports.is_empty()).then(|| running(&arguments.target, ports)).transpose()?;
    real_frames.replay(&arguments.replay, switch.as_ref())
}

/// The running switch that has these ports.
fn running(target: &Target, ports: &[String]) -> Result<SwitchConfig, Failure> {
    let mut client = target.connect()?;
    let selector = SwitchSelector { switch: target.switch.clone() };
    let Reply::Configurations(all) = client.ask(&Request::Configuration(selector)).map_err(failure)? else {
        return Err(failure(client.unexpected_reply()));
    };
    let mut switches = Vec::new();
    for running in &all {
        switches.push(weir_config::parse(&running.file, &running.text)?);
    }
    let has = |switch: &SwitchConfig, name: &String| switch.ports.iter().any(|port| port.name == *name);
    let (mut meant, others): (Vec<_>, Vec<_>) =
        switches.into_iter().partition(|switch| ports.iter().all(|port| has(switch, port)));
    match (meant.pop(), meant.is_empty()) {
        (Some(switch), true) => Ok(switch),
        (Some(_), false) => Err(Failure::Argument(format!(
            "several running switches have a port {}: choose one with --switch NAME",
            ports.join(", ")
        ))),
        (None, _) => {
            let names = others.iter().flat_map(|switch| &switch.ports).map(|port| port.name.as_str());
            let names: Vec<&str> = names.collect();
            Err(Failure::Argument(format!(
                "no running switch has --port {}; there are {}",
                ports.join(" and "),
                names.join(", ")
            )))
        }
    }
}
