//! `[[slow_receivers]]`: hosts that take data in more slowly than their links bring it.

use weir_config::headroom_by_rule;
use weir_flowctl::Tells;
use weir_nic::host::ReceiveLimit;
use weir_reader::{Problem, RATE, SIZE, Table, rates};
use weir_switch_core::flow_control::queue_limit;
use weir_units::{BitRate, Bytes, Time};

use super::build::Build;
use super::complaints::Complaints;
use super::host_names::HostNames;
use super::reading::{instant, require, stretch};
use super::topology::Topology;
use crate::scenario::HostPlan;

/// Half of a ConnectX's 262,016 B, which its driver cuts into a buffer for lossless traffic and one for the rest.
const BUFFER_DEFAULT: Bytes = Bytes::new(128 * 1_024);
/// Nobody's NIC has more.
const BUFFER_MAX: Bytes = Bytes::mb(1_000);

/// One table.
#[derive(Clone, Debug)]
pub(super) struct SlowReceivers {
    /// Its place among those of the file.
    pub number: usize,
    /// By their places in the topology.
    pub hosts: Vec<u32>,
    rate: BitRate,
    buffer: Option<Bytes>,
    xoff: Option<Bytes>,
    xon: Option<Bytes>,
    from: Time,
    until: Time,
}

/// Reads the tables; what has errors is left out.
pub(super) fn read(root: &Table<'_>, topology: &Topology, end: Time) -> Vec<SlowReceivers> {
    let tables = root.tables("slow_receivers", "slow_receivers");
    let names = HostNames::of(root, topology);
    let mut all: Vec<SlowReceivers> = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let Some(slow) = one(table, number, &names, end) else { continue };
        let twice = all.iter().find_map(|earlier| {
            let host = slow.hosts.iter().find(|host| earlier.hosts.contains(host))?;
            Some((earlier, &topology.hosts[*host as usize].name))
        });
        if let Some((earlier, name)) = twice {
            let key = |table: &Table<'_>| table.at(if table.has("hosts") { "hosts" } else { "rate" });
            let problem = Problem::new(format!("host {name} is in two of [[slow_receivers]]"), "name each host in one")
                .at(key(table), "again")
                .at(key(&tables[earlier.number]), "first here");
            table.doc().note(problem);
        }
        all.push(slow);
    }
    all
}

fn one(table: &Table<'_>, number: usize, names: &HostNames<'_>, end: Time) -> Option<SlowReceivers> {
    require(table, "rate", "a slow receiver", "rate = \"40Gbps\"");
    let rate = table.quantity("rate", &RATE, rates());
    let hosts = names.listed(table, "hosts");
    let size = |key: &str, least: u64| table.quantity(key, &SIZE, Bytes::new(least)..=BUFFER_MAX);
    let (buffer, xoff, xon) = (size("buffer", 1), size("xoff", 1), size("xon", 0));
    check_order(table, "xon", xon, "xoff", xoff);
    check_order(table, "xoff", xoff, "buffer", buffer);
    if xoff.is_none() {
        check_order(table, "xon", xon, "buffer", buffer);
    }
    let time = match table.has("until") {
        true => stretch(table, ["from", "until"], Time::ZERO..end, end),
        false => Some((instant(table, "from", Time::ZERO, end), Time::NEVER)),
    };
    let (from, until) = time.filter(|_| table.doc().sound(&[table.path()]))?;
    Some(SlowReceivers { number, hosts: hosts?, rate: rate?, buffer, xoff, xon, from, until })
}

/// The first must be less than the second, where both are given.
fn check_order(table: &Table<'_>, low_key: &str, low: Option<Bytes>, high_key: &str, high: Option<Bytes>) {
    let (Some(low), Some(high)) = (low, high) else { return };
    if low >= high {
        let message = format!("`{low_key}` {low} must be less than `{high_key}` {high}");
        let problem = Problem::new(message, format!("write a smaller `{low_key}` or a larger `{high_key}`"));
        table.doc().refuse(problem.at(table.at(low_key), "").at(table.at(high_key), "the larger one"));
    }
}

/// What does not fit: the key, what is wrong, and what to write instead.
struct Misfit(&'static str, String, String);

/// Gives hosts their limits, and returns what a reader of the results should know.
pub(super) fn slow_down(build: &Build<'_>, hosts: &mut [HostPlan], complaints: &mut Complaints) -> Vec<String> {
    let mut notes = Vec::new();
    for slow in &build.plan.slow_receivers {
        let mut note = None;
        for host in &slow.hosts {
            let plan = &mut hosts[*host as usize];
            match slow.limit(build, plan) {
                Ok((limit, doubt)) => {
                    plan.nic.receive = Some(limit);
                    let more = |doubt| format!("slow receiver {}: {doubt}", plan.name);
                    note = note.or(doubt.map(more));
                }
                Err(Misfit(key, message, help)) => {
                    let key = format!("slow_receivers[{}].{key}", slow.number);
                    build.refuse(&key, format!("host {}: {message}", plan.name), help, complaints);
                    // One error is enough for a thousand hosts alike.
                    break;
                }
            }
        }
        notes.extend(note);
    }
    notes
}

impl SlowReceivers {
    /// The limit of a host, and what is doubtful about it.
    fn limit(&self, build: &Build<'_>, host: &HostPlan) -> Result<(ReceiveLimit, Option<String>), Misfit> {
        let (config, line) = (&build.switches.configs[host.switch], host.nic.rate);
        if self.rate > line {
            let message = format!("`rate` {} is more than the {line} of its link, so that it is not slow", self.rate);
            return Err(Misfit("rate", message, format!("write \"{line}\" or less")));
        }
        let frame = config.frame_bytes_max();
        let has_lossless = !host.nic.lossless.is_empty();
        let whole = |room: Bytes| self.buffer.unwrap_or(BUFFER_DEFAULT.max(room));
        let mut doubt = None;
        let (xoff, buffer) = match host.nic.flow_control.tells() {
            Tells::Pfc | Tells::Pause if has_lossless => {
                let after =
                    headroom_by_rule(line, config.ports[host.port].delay, frame) + line.bytes_in(config.pfc.reaction);
                let buffer = whole(self.xoff.map_or(after * 2, |xoff| xoff + after));
                let xoff = self.xoff.unwrap_or(buffer.saturating_sub(after));
                if self.xoff.is_none() && xoff < frame {
                    let message = format!(
                        "`buffer` {buffer} is too small: {after} may still come after a PAUSE (2 (C D_prop + L_MTU) + 3840 B + C \
                         reaction), and a frame has up to {frame}"
                    );
                    return Err(Misfit("buffer", message, format!("write \"{}\" or more", after + frame)));
                }
                if buffer - xoff < after {
                    doubt = Some(format!(
                        "{} above `xoff` are less than the {after} that may still come after a PAUSE (2 (C D_prop + L_MTU) + \
                         3840 B + C reaction): lossless frames can be lost",
                        buffer - xoff
                    ));
                }
                (xoff, buffer)
            }
            Tells::Nothing if has_lossless => {
                doubt = Some("no flow control, so that its buffer overflows".to_owned());
                let buffer = whole(Bytes::ZERO);
                (buffer, buffer)
            }
            // What GFC and CBFC let a queue hold; other flow controls have no such limit.
            _ => {
                let limit = queue_limit(config, host.port).unwrap_or_default();
                // The rate of GFC's last stage is not zero: a queue near B_m grows on by a frame now and then, for which a switch's
                // port has headroom.
                let beyond = match host.nic.flow_control.tells() {
                    Tells::Stages => headroom_by_rule(line, config.ports[host.port].delay, frame),
                    _ => Bytes::ZERO,
                };
                let buffer = whole(limit + beyond);
                if has_lossless && buffer < limit {
                    doubt = Some(format!(
                        "`buffer` {buffer} is less than the {limit} that {} lets a queue hold: lossless frames can be lost",
                        config.ports[host.port].flow_control.name()
                    ));
                }
                (buffer, buffer)
            }
        };
        // Nothing but a PAUSE goes by it.
        let pauses = host.nic.flow_control.tells().off_classes();
        let xon = self.xon.filter(|_| pauses).unwrap_or(xoff.saturating_sub(frame));
        if xon >= xoff {
            let message = format!("`xon` {xon} must be less than `xoff`, which is {xoff} by default");
            return Err(Misfit("xon", message, "write a smaller `xon`, or a larger `xoff`".to_owned()));
        }
        let (rate, headroom) = (self.rate, buffer - xoff);
        Ok((ReceiveLimit { rate, buffer: xoff, xon, headroom, from: self.from, until: self.until }, doubt))
    }
}
