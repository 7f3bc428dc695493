//! Table of all commands of `weir show`: Weir's own, and SONiC's with their words and columns.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use weir_config::SwitchConfig;
use weir_control::protocol::{Reply, ShowView};
use weir_control::runtime_config::Configuration;
use weir_control::state::{ByClass, PriorityGroups, Queues, State, ViewReply, WatchedQueue};
use weir_experiments::table::Table;

use super::{lldp, sonic, sonic_config, tables};
use crate::command_table::{INTERFACE, PathCommand, command_of, has_command, with_commands};

/// Content of a command.
pub(super) enum Content {
    /// State of switches as a table.
    State {
        view: ShowView,
        /// Whether it has counters, which can be cleared.
        counts: bool,
        table: TableText,
        shows: Shows,
    },
    /// State of the process.
    Process(ShowView),
    /// Running configuration of switches.
    Configuration(fn(&SwitchConfig) -> String),
    /// Running configuration of ports: those to be shown; empty means all.
    OfPorts(fn(&SwitchConfig, &[String]) -> String),
}

impl Content {
    /// Whether it is of ports, some of which can be chosen.
    pub(super) fn has_ports(&self) -> bool {
        match self {
            Content::State { view, .. } => !matches!(view, ShowView::BufferPools | ShowView::PauseDelays),
            Content::Process(view) => *view == ShowView::Events,
            Content::Configuration(_) => false,
            Content::OfPorts(_) => true,
        }
    }
}

/// Formats a view of a switch; `None` if it is of another kind.
pub(super) type TableText = fn(&ViewReply, Rows) -> Option<String>;

/// Rows of a table of counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    All,
    /// Rows with a count above 0.
    Counted,
}

impl Rows {
    /// Formats these rows of a table, whose first two columns are names.
    fn text(self, mut table: Table) -> String {
        let is_counted = |cell: &String| cell.starts_with(|digit| ('1'..='9').contains(&digit));
        if self == Rows::Counted {
            table.retain(|row| row.iter().skip(2).any(is_counted));
        }
        table.to_string()
    }
}

/// Part of a state that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    All,
    /// Switches with this buffer policy.
    Policy(&'static str),
    /// Check for storms: a queue in one is a failure.
    Storm,
    /// Ports with flow controls of this family; an empty name is any but PFC and PAUSE.
    FlowControl(&'static str),
}

/// View, and the port that it was asked of.
#[derive(Clone)]
pub(crate) struct View {
    pub(super) command: &'static PathCommand<Content>,
    pub(super) port: Option<String>,
    pub(super) rows: Rows,
    /// Time over which counters are to be counted.
    pub(super) period: Option<Duration>,
}

impl View {
    /// Formats a reply; `None` if it belongs to another view. `ports` are those of a configuration to be shown; empty means all.
    pub(super) fn text(&self, reply: &Reply, ports: &[String]) -> Option<String> {
        match (&self.command.target, reply) {
            (_, Reply::Lcores(lcores)) => Some(tables::lcores_text(lcores)),
            (_, Reply::Events(events)) => Some(tables::events_table(events).to_string()),
            (_, Reply::Metrics(text)) => Some(text.clone()),
            (Content::State { counts, table, .. }, Reply::Switches(switches)) => {
                let is_one_of_several = switches.len() > 1;
                let text = |shown: &ViewReply| {
                    let table = table(shown, self.rows)?;
                    Some(self.head(*counts, shown, is_one_of_several) + &table)
                };
                Some(switches.iter().map(text).collect::<Option<Vec<String>>>()?.join("\n"))
            }
            (content, Reply::Configurations(all)) => {
                let text = |of: &Configuration| {
                    let config = weir_config::parse(&of.file, &of.text).ok()?;
                    let head = if all.len() > 1 { format!("{}\n", of.switch) } else { String::new() };
                    match content {
                        Content::Configuration(text) => Some(head + &text(&config)),
                        Content::OfPorts(text) => Some(head + &text(&config, ports)),
                        _ => None,
                    }
                };
                Some(all.iter().map(text).collect::<Option<Vec<String>>>()?.join("\n"))
            }
            _ => None,
        }
    }

    /// Lines above a switch's table.
    fn head(&self, counts: bool, shown: &ViewReply, is_one_of_several: bool) -> String {
        let mut text = if is_one_of_several { format!("{}\n", shown.switch) } else { String::new() };
        if let Some(period) = self.period {
            text += &format!("The rates are calculated within {} seconds period\n", period.as_secs());
        } else if let Some(ms) = shown.counters_cleared_unix_ms.filter(|_| counts) {
            text += &format!("Counters since {}, when they were cleared\n", tables::instant(ms));
        }
        text
    }
}

impl FromArgMatches for View {
    fn from_arg_matches(matches: &ArgMatches) -> Result<View, clap::Error> {
        let (command, own) = command_of(matches, COMMANDS)?;
        let is_nonzero = own.try_get_one::<bool>(NONZERO).ok().flatten() == Some(&true);
        Ok(View {
            command,
            port: own.try_get_one::<String>(INTERFACE).ok().flatten().cloned(),
            rows: if is_nonzero { Rows::Counted } else { Rows::All },
            period: own.try_get_one::<Duration>(PERIOD).ok().flatten().copied(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = View::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for View {
    fn augment_subcommands(command: Command) -> Command {
        let nonzero = || Arg::new(NONZERO).long(NONZERO).action(ArgAction::SetTrue).help("Rows with counters above 0");
        let counters = |command: Command| {
            // SONiC's -p is the period here, not the port.
            let port = Arg::new("port").short('i').long("port").alias("interface").action(ArgAction::Append);
            let period = Arg::new(PERIOD).short('p').long(PERIOD).value_name("SECONDS").help("Count for this long");
            let period = period.value_parser(period_of);
            let own = [port.value_name("PORT").help("Show this port only"), period, nonzero()];
            let of_one_port = |command: Command| command.mut_arg(INTERFACE, |port| port.required(true));
            let command = command.args(own.map(|arg| arg.global(true)));
            ["detailed", "fec-histogram"]
                .into_iter()
                .fold(command, |command, of| command.mut_subcommand(of, of_one_port))
        };
        let queue = |command: Command| {
            ["counters", "wredcounters"]
                .into_iter()
                .fold(command, |command, of| command.mut_subcommand(of, |of| of.arg(nonzero())))
        };
        with_commands(command, COMMANDS, GROUPS, Content::has_ports)
            .mut_subcommand("interfaces", |command| command.mut_subcommand("counters", counters))
            .mut_subcommand("queue", queue)
            // Of SONiC; here without effect: there is one ASIC, and no command behind a command.
            .arg(
                Arg::new("display")
                    .short('d')
                    .long("display")
                    .value_parser(["all", "frontend"])
                    .global(true)
                    .hide(true),
            )
            .arg(Arg::new("verbose").long("verbose").action(ArgAction::SetTrue).global(true).hide(true))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        View::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        has_command(COMMANDS, name)
    }
}

fn period_of(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
    let period = seconds.map(Duration::from_secs);
    period.ok_or_else(|| "write whole seconds, such as 5; a port is -i PORT".to_owned())
}

const NONZERO: &str = "nonzero";
const PERIOD: &str = "period";

const GROUPS: &[(&str, &str)] = &[
    ("buffer", "The buffer's pools and its partition."),
    ("dropcounters", "Errors and drops of ports."),
    ("interfaces switchport", "VLANs of ports."),
    ("buffer_pool", "Highest use of the buffer's pools."),
    ("headroom-pool", "Highest use of the headroom pool."),
    ("lldp", "Neighbours of ports by LLDP, and their DCBX configuration."),
    ("pfc", "PFC frames and pauses, how long they take, and the PFC watchdog."),
    ("pfcwd", "The PFC watchdog."),
    ("priority-group", "Ingress queues: watermarks and drops."),
    ("priority-group watermark", "Highest occupancy since watermarks were cleared."),
    ("priority-group persistent-watermark", "Highest occupancy since persistent watermarks were cleared."),
    ("qos", "Maps to classes."),
    ("qos map", "Maps to classes."),
    ("queue", "Egress queues: traffic and watermarks."),
    ("vlan", "VLANs."),
];

/// Table of a state of one kind.
macro_rules! table {
    ($kind:ident, $table:expr) => {
        |shown, _| match &shown.state {
            State::$kind(state) => Some(($table)(state).to_string()),
            _ => None,
        }
    };
}

/// Command of counters, whose rows without counts can be left out.
macro_rules! counters {
    ($path:literal, $help:literal, $kind:ident, $table:expr) => {
        PathCommand {
            path: $path,
            help: $help,
            target: Content::State {
                view: ShowView::$kind,
                counts: true,
                table: |shown, rows| match &shown.state {
                    State::$kind(state) => Some(rows.text(($table)(state))),
                    _ => None,
                },
                shows: Shows::All,
            },
        }
    };
}

macro_rules! state {
    ($path:literal, $help:literal, $view:ident, $kind:ident, $counts:literal, $table:expr) => {
        state!($path, $help, $view, $kind, $counts, $table, Shows::All)
    };
    ($path:literal, $help:literal, $view:ident, $kind:ident, $counts:literal, $table:expr, $shows:expr) => {
        PathCommand {
            path: $path,
            help: $help,
            target: Content::State {
                view: ShowView::$view,
                counts: $counts,
                table: table!($kind, $table),
                shows: $shows,
            },
        }
    };
}

macro_rules! groups {
    ($path:literal, $help:literal, $counts:literal, $title:literal, $of:ident) => {
        state!($path, $help, PriorityGroups, PriorityGroups, $counts, |ports: &[PriorityGroups]| {
            sonic::by_class($title, "PG", ports.iter().map(|port| -> (&str, &ByClass) { (&port.port, &port.$of) }))
        })
    };
}

macro_rules! queues {
    ($path:literal, $help:literal, $type:literal, $column:literal, $of:ident) => {
        state!($path, $help, Queues, Queues, false, |ports: &[Queues]| {
            let title = concat!("Egress shared pool occupancy per ", $type, ":");
            sonic::by_class(title, $column, ports.iter().map(|port| -> (&str, &ByClass) { (&port.port, &port.$of) }))
        })
    };
}

const fn process(path: &'static str, help: &'static str, view: ShowView) -> PathCommand<Content> {
    PathCommand { path, help, target: Content::Process(view) }
}

const fn configured(path: &'static str, help: &'static str, content: Content) -> PathCommand<Content> {
    PathCommand { path, help, target: content }
}

const COUNTER_LINES: PathCommand<Content> = PathCommand {
    path: "interfaces counters detailed",
    help: "Counters of a port, a line each.",
    target: Content::State {
        view: ShowView::Interfaces,
        counts: false,
        table: |shown, _| match &shown.state {
            State::Interfaces(ports) => Some(sonic::counter_lines(ports, shown.counters_cleared_unix_ms)),
            _ => None,
        },
        shows: Shows::All,
    },
};

#[rustfmt::skip]
pub(super) static COMMANDS: &[PathCommand<Content>] = &[
    state!("interfaces", "Links, traffic, drops, and losses at devices.", Interfaces, Interfaces, true, tables::interfaces),
    counters!("interfaces counters", "Frames, bytes a second, errors and drops.", Interfaces, sonic::interface_counters),
    counters!("interfaces counters --printall", "All counters.", Interfaces, sonic::all_interface_counters),
    counters!("interfaces counters errors", "Errors and drops.", Interfaces, sonic::interface_errors),
    counters!("interfaces counters rates", "Frames and bytes a second.", Interfaces, sonic::interface_rates),
    counters!("interfaces counters trim", "None: no frame is trimmed.", Interfaces, sonic::trim_interface_counters),
    counters!("interfaces counters fec-stats", "None: the FEC of devices is not read.", Interfaces, sonic::fec_counters),
    state!("interfaces counters fec-histogram", "None: the FEC of devices is not read.", Interfaces, Interfaces, false, sonic::fec_histogram),
    COUNTER_LINES,
    state!("interfaces status", "Speed and state of ports.", Interfaces, Interfaces, false, sonic::interface_status),
    state!("interfaces description", "State and device of ports.", Interfaces, Interfaces, false, sonic::interface_devices),
    configured("interfaces switchport status", "Whether ports are access ports or trunks.", Content::OfPorts(sonic_config::vlan_mode_table)),
    configured("interfaces switchport config", "VLANs of ports.", Content::OfPorts(sonic_config::vlan_ports)),
    counters!("dropcounters counts", "Errors and drops of ports.", Interfaces, sonic::drop_counters),
    state!("pfc counters", "PFC frames received and sent, by class.", PfcCounters, PfcCounters, true, tables::pfc_counters),
    state!("pfc counters --history", "Count and duration of the peer's pauses of each class, instead.", PfcCounters, PfcCounters, true, tables::pfc_history),
    configured("pfc priority", "Lossless classes of ports.", Content::OfPorts(sonic_config::pfc_priority)),
    configured("pfc asymmetric", "Whether PFC pauses lossy classes too.", Content::OfPorts(sonic_config::pfc_asymmetric)),
    state!("pfc watchdog", "Queues that are watched for PFC storms.", PfcWatchdog, PfcWatchdog, true, tables::watchdog),
    state!("pfc delays", "Delays until flow-control messages are sent, and until they are obeyed.", PauseDelays, PauseDelays, false, tables::delays),
    state!("pfcwd stats", "Queues that had PFC storms.", PfcWatchdog, PfcWatchdog, true, sonic::storm_rows),
    state!("pfcwd stats --check-storm", "Nothing; exit code 1 if a queue is in a storm.", PfcWatchdog, PfcWatchdog, false, |_: &[WatchedQueue]| "", Shows::Storm),
    state!("pfcwd stats --empty", "All watched queues.", PfcWatchdog, PfcWatchdog, true, tables::watchdog),
    configured("pfcwd config", "Ports that are watched for PFC storms, times and action.", Content::OfPorts(sonic_config::watchdog)),
    groups!("priority-group watermark shared", "Shared segment: w_s.", false, "Ingress shared pool occupancy per PG:", shared_watermark_bytes),
    groups!("priority-group watermark headroom", "Headroom: w_h.", false, "Ingress headroom per PG:", headroom_watermark_bytes),
    groups!("priority-group persistent-watermark shared", "Shared segment: w_s.", false, "Ingress shared pool occupancy per PG:", shared_persistent_watermark_bytes),
    groups!("priority-group persistent-watermark headroom", "Headroom: w_h.", false, "Ingress headroom per PG:", headroom_persistent_watermark_bytes),
    groups!("priority-group drop", "Frames that found no room.", true, "Ingress PG dropped packets:", dropped),
    groups!("priority-group drop counters", "Frames that found no room.", true, "Ingress PG dropped packets:", dropped),
    queues!("queue watermark", "Highest occupancy since watermarks were cleared.", "unicast queue", "UC", watermark_bytes),
    queues!("queue watermark unicast", "Of each class's queue.", "unicast queue", "UC", watermark_bytes),
    queues!("queue watermark all", "Of each class's queue.", "all queues", "ALL", watermark_bytes),
    state!("queue watermark multicast", "None: frames to several ports have no queues of their own.", Queues, Queues, false, sonic::no_multicast),
    queues!("queue persistent-watermark", "Highest occupancy since persistent watermarks were cleared.", "unicast queue", "UC", persistent_watermark_bytes),
    queues!("queue persistent-watermark unicast", "Of each class's queue.", "unicast queue", "UC", persistent_watermark_bytes),
    queues!("queue persistent-watermark all", "Of each class's queue.", "all queues", "ALL", persistent_watermark_bytes),
    state!("queue persistent-watermark multicast", "None: frames to several ports have no queues of their own.", Queues, Queues, false, sonic::no_multicast),
    counters!("queue counters", "Frames and bytes sent, frames dropped.", Queues, sonic::queue_counters),
    counters!("queue counters --all", "All counters; no frame is trimmed.", Queues, sonic::all_queue_counters),
    counters!("queue counters --trim", "None: no frame is trimmed.", Queues, sonic::trim_counters),
    counters!("queue wredcounters", "Frames marked by ECN.", Queues, sonic::ecn_counters),
    state!("buffer pool", "Pools: size, use, watermarks.", BufferPools, BufferPools, false, tables::pools),
    state!("buffer configuration", "Partition of the buffer, and current thresholds.", BufferConfiguration, BufferConfiguration, false, tables::buffer),
    state!("buffer information", "Partition of the buffer, and current thresholds.", BufferConfiguration, BufferConfiguration, false, tables::buffer),
    state!("mmu", "Partition of the buffer, and current thresholds.", BufferConfiguration, BufferConfiguration, false, tables::buffer),
    state!("buffer_pool watermark", "Since watermarks were cleared.", BufferPools, BufferPools, false, sonic::pool_watermarks),
    state!("buffer_pool persistent-watermark", "Since persistent watermarks were cleared.", BufferPools, BufferPools, false, sonic::pool_peaks),
    state!("headroom-pool watermark", "Since watermarks were cleared.", BufferPools, BufferPools, false, sonic::headroom_watermarks),
    state!("headroom-pool persistent-watermark", "Since persistent watermarks were cleared.", BufferPools, BufferPools, false, sonic::headroom_peaks),
    configured("ecn", "ECN marking of queues.", Content::Configuration(sonic_config::ecn)),
    configured("qos map dscp-tc", "Class of each DSCP.", Content::Configuration(sonic_config::dscp_map)),
    configured("qos map dot1p-tc", "Class of each PCP.", Content::Configuration(sonic_config::pcp_map)),
    configured("qos map tc-queue", "Queue of each class.", Content::Configuration(sonic_config::queue_map)),
    configured("qos map tc-pg", "Priority group of each class.", Content::Configuration(sonic_config::group_map)),
    configured("qos map pfc-queue", "Queue of each PFC priority.", Content::Configuration(sonic_config::pfc_map)),
    state!("mac", "Stations' addresses, and the ports that they are behind.", Mac, Mac, false, tables::mac),
    state!("interfaces stations", "Learned stations of each port, and stations that moved to it.", Interfaces, Interfaces, false, tables::stations),
    configured("vlan brief", "Members of VLANs.", Content::OfPorts(sonic_config::vlans)),
    state!("policy", "Lossless ingress queues under any buffer policy: lengths, thresholds, headroom, the policy's own gauges.", Policy, Policy, false, tables::any_policy),
    state!("spfc", "Victims and normal ports under SPFC, lengths, thresholds.", Policy, Policy, false, tables::policy, Shows::Policy("spfc")),
    state!("dsh", "States of ports and queues under DSH, headroom.", Policy, Policy, false, tables::policy, Shows::Policy("dsh")),
    state!("flow-control", "Ports under other flow controls than PFC and PAUSE: messages, rates, queues, gauges.", FlowControl, FlowControl, true, tables::flow_control, Shows::FlowControl("")),
    state!("gfc", "Ports that speak GFC: messages, rates, queues.", FlowControl, FlowControl, true, tables::flow_control, Shows::FlowControl("gfc")),
    state!("cbfc", "Ports that speak CBFC: messages, credits, queues.", FlowControl, FlowControl, true, tables::flow_control, Shows::FlowControl("cbfc")),
    process("lcores", "Load of the lcores, and gaps between their polls.", ShowView::Lcores),
    state!("losses", "Lost frames: where, and why.", Losses, Losses, true, tables::losses),
    state!("lldp neighbors", "Neighbours, in the form of lldpd.", Lldp, Lldp, false, lldp::neighbours_text),
    state!("lldp table", "A line for each neighbour.", Lldp, Lldp, false, lldp::table_text),
    process("events", "Recent events.", ShowView::Events),
    process("metrics", "All counters since the start, in OpenMetrics' format.", ShowView::Metrics),
];
