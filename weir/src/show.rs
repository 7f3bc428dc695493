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
    /// This port alone. May be given more than once.
    #[arg(short, long, global = true, value_name = "PORT")]
    port: Vec<String>,
    /// As JSON: all that the switch says, also what the table leaves out.
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
    /// Ingress queues: what they hold at most, and drop.
    #[command(subcommand)]
    PriorityGroup(GroupView),
    /// Egress queues: traffic, and what they hold at most.
    #[command(subcommand)]
    Queue(QueueView),
    /// The buffer's pools and its partition.
    #[command(subcommand)]
    Buffer(BufferView),
    /// Stations' addresses, and the ports that they are behind.
    Mac,
    /// Lossless ingress queues under whichever buffer policy: lengths, thresholds, headroom, the policy's own gauges.
    Policy,
    /// Under SPFC: victims and normal ports, lengths, thresholds.
    Spfc,
    /// Under DSH: states of ports and queues, headroom.
    Dsh,
    /// Ports that speak something else than PFC or PAUSE: messages, rates, queues, gauges.
    FlowControl,
    /// Ports that speak GFC: messages, rates, queues.
    Gfc,
    /// Ports that speak CBFC: messages, credits, queues.
    Cbfc,
    /// How busy the lcores are, and how long they do not poll.
    Lcores,
    /// Lost frames: where, and why.
    Losses,
    /// What happened last.
    Events,
    /// All counters since the start, in OpenMetrics' format.
    Metrics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum PfcView {
    /// PFC frames received and sent, by class.
    Counters {
        /// How often and for how long the peer paused each class, instead.
        #[arg(long)]
        history: bool,
    },
    /// Queues that are watched for PFC storms.
    Watchdog,
    /// How long messages take to be sent and to be obeyed, of whatever flow control the ports speak.
    Delays,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum GroupView {
    /// The most since watermarks were cleared.
    Watermark {
        /// Which part of the buffer.
        segment: Segment,
    },
    /// The most since the start.
    PersistentWatermark {
        /// Which part of the buffer.
        segment: Segment,
    },
    /// Frames that found no room.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Segment {
    /// w_s.
    Shared,
    /// w_h.
    Headroom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum QueueView {
    /// The most since watermarks were cleared.
    Watermark,
    /// The most since the start.
    PersistentWatermark,
    /// Frames and bytes sent, marked, dropped.
    Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum BufferView {
    /// Pools: size, use, watermarks.
    Pool,
    /// How the buffer is cut, and thresholds as they are now.
    Configuration,
}

/// Shows the state asked for.
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
    /// Asks once. A connection for each time: the switch may be started anew meanwhile.
    fn ask(&self, request: &Request) -> Result<String, Failure> {
        let mut client = self.target.connect()?;
        let reply = client.ask(request).map_err(failure)?;
        let reply = self.view.filter_reply(reply).map_err(Failure::Argument)?;
        match (&reply, self.json) {
            (Reply::Metrics(text), false) => Ok(text.clone()),
            (reply, true) => Ok(json_text(reply)),
            (reply, false) => tables::text(self.view, reply).ok_or_else(|| failure(client.unfit())),
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

    /// The part of a reply that this view is of; or why there is none.
    fn filter_reply(self, reply: Reply) -> Result<Reply, String> {
        match (self, reply) {
            (View::Spfc, Reply::Switches(shown)) => under_policy("spfc", shown),
            (View::Dsh, Reply::Switches(shown)) => under_policy("dsh", shown),
            (View::FlowControl, Reply::Switches(shown)) => speaking("", shown),
            (View::Gfc, Reply::Switches(shown)) => speaking("gfc", shown),
            (View::Cbfc, Reply::Switches(shown)) => speaking("cbfc", shown),
            (_, reply) => Ok(reply),
        }
    }
}

/// The switches with this buffer policy.
fn under_policy(name: &str, shown: Vec<ViewReply>) -> Result<Reply, String> {
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

/// Ports that speak a flow control of this family; of any where it has no name.
fn speaking(family: &str, mut shown: Vec<ViewReply>) -> Result<Reply, String> {
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
            "no port that is asked for speaks {wanted}: weir show interfaces --json tells what they speak"
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
