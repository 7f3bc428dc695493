//! `weir show`: state of a running switch.

mod commands;
mod lldp;
mod sonic;
mod sonic_config;
mod tables;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use weir_config::names_port;
use weir_control::protocol::{Reply, Request, ShowRequest};
use weir_control::runtime_config::{Configuration, SwitchSelector};
use weir_control::state::{State, ViewReply};
use weir_experiments::Failure;
use weir_experiments::files::json_text;
use weir_experiments::real_frames::duration;

use crate::control::{Target, failure};
use commands::{Content, Shows, View};

/// Arguments of `weir show`.
#[derive(clap::Args)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    target: Target,
    /// Show this port only; repeat it for several, or write a list with ranges: Ethernet4,Ethernet12-16.
    #[arg(short, long, global = true, value_name = "PORT", short_alias = 'i', alias = "interface")]
    port: Vec<String>,
    /// Print JSON: the complete reply, also values that the table omits.
    #[arg(long, global = true, short_alias = 'j')]
    json: bool,
    /// Again every so often, such as 500ms, until Ctrl-C; a bare number counts seconds.
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", value_parser = interval)]
    watch: Option<Duration>,
    #[command(subcommand)]
    view: View,
}

/// Prints the requested state.
pub(crate) fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let request = arguments.request();
    let Some(every) = arguments.watch else {
        let text = arguments.ask(&request)?;
        print!("{text}");
        return Ok(());
    };
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        let text = arguments.ask(&request)?;
        // Moves the cursor to the upper left corner and clears the screen.
        let (before, after) = if is_terminal { ("\x1b[H\x1b[J", "") } else { ("", "\n") };
        print!("{before}{text}{after}");
        std::io::stdout().flush()?;
        std::thread::sleep(every);
    }
}

impl ShowArguments {
    /// Ports to be shown, and ranges of them; empty means all.
    fn ports(&self) -> Vec<String> {
        self.port.iter().chain(&self.view.port).flat_map(|list| list.split(',')).map(str::to_owned).collect()
    }

    fn request(&self) -> Request {
        let switch = self.target.switch.clone();
        match self.view.command.target {
            Content::State { view: what, .. } | Content::Process(what) => {
                Request::Show(ShowRequest { what, switch, ports: self.ports() })
            }
            Content::Configuration(_) | Content::OfPorts(_) => Request::Configuration(SwitchSelector { switch }),
        }
    }

    /// Sends one request on a new connection: the switch may have restarted.
    fn ask(&self, request: &Request) -> Result<String, Failure> {
        let ports = self.ports();
        if !self.view.command.target.has_ports() && !ports.is_empty() {
            let message =
                format!("show {} is of the whole switch; leave out {}", self.view.command.path, ports.join(","));
            return Err(Failure::Argument(message));
        }
        let mut client = self.target.connect()?;
        let mut reply = client.ask(request).map_err(failure)?;
        if let Some(period) = self.view.period {
            let (earlier, at) = (reply, Instant::now());
            std::thread::sleep(period);
            client = self.target.connect()?;
            reply = client.ask(request).map_err(failure)?;
            reply = counted_since(reply, &earlier, at.elapsed());
        }
        let reply = self.view.filter_reply(reply, &ports).map_err(Failure::Argument)?;
        if let (Content::State { shows: Shows::Storm, .. }, Some(queue)) = (&self.view.command.target, storm(&reply)) {
            return Err(Failure::Run(format!("{queue} is in a PFC storm")));
        }
        match (&reply, self.json) {
            (Reply::Metrics(text), false) => Ok(text.clone()),
            (reply, true) => Ok(json_text(reply)),
            (reply, false) => self.view.text(reply, &ports).ok_or_else(|| failure(client.unexpected_reply())),
        }
    }
}

impl View {
    /// Filters a reply by this view. An error is the reason for an empty result, or names a port that no switch has.
    fn filter_reply(&self, reply: Reply, ports: &[String]) -> Result<Reply, String> {
        match (&self.command.target, reply) {
            (Content::State { shows: Shows::Policy(name), .. }, Reply::Switches(shown)) => {
                filter_by_policy(name, shown)
            }
            (Content::State { shows: Shows::FlowControl(family), .. }, Reply::Switches(shown)) => {
                filter_by_flow_control(family, shown)
            }
            (_, Reply::Configurations(all)) => check_ports(&all, ports).map(|()| Reply::Configurations(all)),
            (_, Reply::Switches(shown)) if !shown.is_empty() && shown.iter().all(lacks_lldp) => {
                Err("no switch of this run speaks LLDP; write lldp = true in its [switch]".to_owned())
            }
            (_, reply) => Ok(reply),
        }
    }
}

/// Subtracts an earlier reply's counts of ports, and takes rates over the time between.
fn counted_since(mut reply: Reply, earlier: &Reply, time: Duration) -> Reply {
    let (Reply::Switches(switches), Reply::Switches(earlier)) = (&mut reply, earlier) else { return reply };
    for shown in switches {
        let State::Interfaces(ports) = &mut shown.state else { continue };
        let before = earlier.iter().find(|before| before.switch == shown.switch).map(|before| &before.state);
        for port in ports {
            let Some(State::Interfaces(before)) = before else { continue };
            let Some(before) = before.iter().find(|before| before.port == port.port) else { continue };
            for (now, before) in [(&mut port.rx, &before.rx), (&mut port.tx, &before.tx)] {
                *now = now.since(before, time);
            }
        }
    }
    reply
}

/// Finds a queue in a PFC storm, as `Ethernet0:3`.
fn storm(reply: &Reply) -> Option<String> {
    let Reply::Switches(switches) = reply else { return None };
    let mut queues = switches.iter().flat_map(|shown| match &shown.state {
        State::PfcWatchdog(queues) => &queues[..],
        _ => &[],
    });
    queues.find(|queue| queue.in_storm).map(|queue| format!("{}:{}", queue.port, queue.queue))
}

/// Refuses a port that none of the switches has.
fn check_ports(all: &[Configuration], ports: &[String]) -> Result<(), String> {
    let configs = all.iter().filter_map(|of| weir_config::parse(&of.file, &of.text).ok());
    let known: Vec<String> = configs.flat_map(|config| config.ports).map(|port| port.name).collect();
    match ports.iter().find(|port| !known.iter().any(|known| names_port(port, known))) {
        Some(port) => Err(format!("no port is named `{port}`; the ports are: {}", known.join(", "))),
        None => Ok(()),
    }
}

fn lacks_lldp(shown: &ViewReply) -> bool {
    matches!(&shown.state, State::Lldp(ports) if ports.is_empty())
}

/// Filters by buffer policy.
fn filter_by_policy(name: &str, shown: Vec<ViewReply>) -> Result<Reply, String> {
    let policy = |shown: &ViewReply| match &shown.state {
        State::Policy(state) => state.policy.clone(),
        _ => String::new(),
    };
    let others: Vec<String> = shown.iter().map(|shown| format!("{} has {}", shown.switch, policy(shown))).collect();
    let shown: Vec<ViewReply> = shown.into_iter().filter(|shown| policy(shown) == name).collect();
    if shown.is_empty() {
        return Err(format!("no switch of this run has the buffer policy {name}: {}", others.join(", ")));
    }
    Ok(Reply::Switches(shown))
}

/// Filters ports by family of flow control; an empty name is any but PFC and PAUSE.
fn filter_by_flow_control(family: &str, mut shown: Vec<ViewReply>) -> Result<Reply, String> {
    let mut is_empty = true;
    for shown in &mut shown {
        if let State::FlowControl(ports) = &mut shown.state {
            ports.retain(|port| port.flow_control.contains(family));
            is_empty &= ports.is_empty();
        }
    }
    if is_empty {
        let wanted = if family.is_empty() { "more than PFC or PAUSE".to_owned() } else { family.to_uppercase() };
        return Err(format!(
            "no requested port speaks {wanted}: weir show interfaces --json prints their flow control"
        ));
    }
    Ok(Reply::Switches(shown))
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let every = duration(text).ok().filter(|every| (MIN_INTERVAL..=MAX_INTERVAL).contains(every));
    every.ok_or_else(|| "write a time of 100ms to 24h, such as 500ms or 2s".to_owned())
}

const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(86_400);
