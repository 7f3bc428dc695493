//! `weir show`: state of a running switch.

mod tables;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use weir_control::protocol::{Reply, Request, ShowRequest, ShowView};
use weir_control::state::{State, ViewReply};
use weir_experiments::Failure;
use weir_experiments::files::json_text;
use weir_experiments::real_frames::duration;

use crate::control::{Target, failure};

/// Arguments of `weir show`.
#[derive(clap::Args)]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    target: Target,
    /// Show this port only; repeat it for several.
    #[arg(short, long, global = true, value_name = "PORT")]
    port: Vec<String>,
    /// Print JSON: the complete reply, also values that the table omits.
    #[arg(long, global = true)]
    json: bool,
    /// Again every so often, such as 500ms, until Ctrl-C; a bare number counts seconds.
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", value_parser = interval)]
    watch: Option<Duration>,
    #[command(subcommand)]
    view: View,
}

/// A view, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum View {
    /// Links, traffic, drops, and losses at devices.
    Interfaces,
    /// PFC frames and pauses, how long they take, and the PFC watchdog.
    #[command(subcommand)]
    Pfc(PfcView),
    /// Ingress queues: watermarks and drops.
    #[command(subcommand)]
    PriorityGroup(GroupView),
    /// Egress queues: traffic and watermarks.
    #[command(subcommand)]
    Queue(QueueView),
    /// The buffer's pools and its partition.
    #[command(subcommand)]
    Buffer(BufferView),
    /// Stations' addresses, and the ports that they are behind.
    Mac,
    /// Lossless ingress queues under any buffer policy: lengths, thresholds, headroom, the policy's own gauges.
    Policy,
    /// Victims and normal ports under SPFC, lengths, thresholds.
    Spfc,
    /// States of ports and queues under DSH, headroom.
    Dsh,
    /// Ports under other flow controls than PFC and PAUSE: messages, rates, queues, gauges.
    FlowControl,
    /// Ports that speak GFC: messages, rates, queues.
    Gfc,
    /// Ports that speak CBFC: messages, credits, queues.
    Cbfc,
    /// Load of the lcores, and gaps between their polls.
    Lcores,
    /// Lost frames: where, and why.
    Losses,
    /// Recent events.
    Events,
    /// All counters since the start, in OpenMetrics' format.
    Metrics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum PfcView {
    /// PFC frames received and sent, by class.
    Counters {
        /// Count and duration of the peer's pauses of each class, instead.
        #[arg(long)]
        history: bool,
    },
    /// Queues that are watched for PFC storms.
    Watchdog,
    /// Delays until flow-control messages are sent, and until they are obeyed.
    Delays,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum GroupView {
    /// Highest occupancy since watermarks were cleared.
    Watermark {
        /// Segment of the buffer.
        segment: Segment,
    },
    /// Highest occupancy since the start.
    PersistentWatermark {
        /// Segment of the buffer.
        segment: Segment,
    },
    /// Frames that found no room.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Segment {
    /// Shared segment: w_s.
    Shared,
    /// Headroom: w_h.
    Headroom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum QueueView {
    /// Highest occupancy since watermarks were cleared.
    Watermark,
    /// Highest occupancy since the start.
    PersistentWatermark,
    /// Frames and bytes sent, marked, dropped.
    Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum BufferView {
    /// Pools: size, use, watermarks.
    Pool,
    /// Partition of the buffer, and current thresholds.
    Configuration,
}

/// Prints the requested state.
pub(crate) fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let request = Request::Show(ShowRequest {
        what: arguments.view.what(),
        switch: arguments.target.switch.clone(),
        ports: arguments.port.clone(),
    });
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
    /// Sends one request on a new connection: the switch may have restarted.
    fn ask(&self, request: &Request) -> Result<String, Failure> {
        let mut client = self.target.connect()?;
        let reply = client.ask(request).map_err(failure)?;
        let reply = self.view.filter_reply(reply).map_err(Failure::Argument)?;
        match (&reply, self.json) {
            (Reply::Metrics(text), false) => Ok(text.clone()),
            (reply, true) => Ok(json_text(reply)),
            (reply, false) => tables::text(self.view, reply).ok_or_else(|| failure(client.unexpected_reply())),
        }
    }
}

impl View {
    fn what(self) -> ShowView {
        match self {
            View::Interfaces => ShowView::Interfaces,
            View::Pfc(PfcView::Counters { .. }) => ShowView::PfcCounters,
            View::Pfc(PfcView::Watchdog) => ShowView::PfcWatchdog,
            View::Pfc(PfcView::Delays) => ShowView::PauseDelays,
            View::PriorityGroup(_) => ShowView::PriorityGroups,
            View::Queue(_) => ShowView::Queues,
            View::Buffer(BufferView::Pool) => ShowView::BufferPools,
            View::Buffer(BufferView::Configuration) => ShowView::BufferConfiguration,
            View::Mac => ShowView::Mac,
            View::Policy | View::Spfc | View::Dsh => ShowView::Policy,
            View::FlowControl | View::Gfc | View::Cbfc => ShowView::FlowControl,
            View::Lcores => ShowView::Lcores,
            View::Losses => ShowView::Losses,
            View::Events => ShowView::Events,
            View::Metrics => ShowView::Metrics,
        }
    }

    /// Filters a reply by this view; an error is the reason for an empty result.
    fn filter_reply(self, reply: Reply) -> Result<Reply, String> {
        match (self, reply) {
            (View::Spfc, Reply::Switches(shown)) => filter_by_policy("spfc", shown),
            (View::Dsh, Reply::Switches(shown)) => filter_by_policy("dsh", shown),
            (View::FlowControl, Reply::Switches(shown)) => filter_by_flow_control("", shown),
            (View::Gfc, Reply::Switches(shown)) => filter_by_flow_control("gfc", shown),
            (View::Cbfc, Reply::Switches(shown)) => filter_by_flow_control("cbfc", shown),
            (_, reply) => Ok(reply),
        }
    }
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
            ports.retain(|port| port.flow_control.starts_with(family));
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
