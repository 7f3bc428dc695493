//! Lost frames: those that ports' devices lost, judged at the end, and lossless ones that a switch dropped. Both are in the log, at
//! most once a second, for as long as their counts grow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::RunningSwitches;
use weir_dpdk_io::{DeviceLosses, Losses};
use weir_experiments::table::{Table, count};
use weir_results::run_dir::EventKind;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_units::{Class, PortId};

use crate::event_sink::EventSink;

/// Interval between reads of devices. Some NICs' counters saturate if they are not read for minutes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Reads the devices once a second, and logs new losses.
pub(crate) struct LossLog {
    next: Instant,
    /// Losses by switch and port, as last read.
    last: Vec<Vec<DeviceLosses>>,
    /// Losses at the last line of rates.
    in_line: Vec<u64>,
}

impl LossLog {
    /// Logs which devices have no counter for some of their losses.
    pub(crate) fn new(switches: &[SwitchConfig], running: &RunningSwitches) -> LossLog {
        let last: Vec<Vec<DeviceLosses>> = (0..switches.len()).map(|index| running.device_losses(index)).collect();
        for (config, losses) in switches.iter().zip(&last) {
            for (port, losses) in config.ports.iter().zip(losses) {
                for (direction, losses) in directions(losses) {
                    if let Some(uncounted) = losses.uncounted {
                        tracing::warn!(
                            switch = %config.name, port = %port.name,
                            "{} does not count all losses on {direction} ({uncounted}): losses there are unknown",
                            port.device
                        );
                    }
                }
            }
        }
        LossLog { next: Instant::now() + INTERVAL, in_line: vec![0; last.len()], last }
    }

    /// Reads the devices when it is time. Call it often.
    pub(crate) fn log(&mut self, switches: &[SwitchConfig], running: &RunningSwitches, sink: EventSink<'_>) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + INTERVAL;
        for (index, config) in switches.iter().enumerate() {
            let now = running.device_losses(index);
            for (number, ((port, is), was)) in config.ports.iter().zip(&now).zip(&self.last[index]).enumerate() {
                for ((direction, is), (_, was)) in directions(is).into_iter().zip(directions(was)) {
                    let new = is.since(was);
                    if new.counted() == 0 {
                        continue;
                    }
                    for (cause, frames) in new.causes() {
                        let kind = EventKind::DeviceLost { cause: cause.name(), frames };
                        sink(index, PortId(number as u16), None, kind);
                    }
                    if port.nic.is_some() && direction == RECEIVE {
                        tracing::warn!(
                            switch = %config.name, port = %port.name,
                            "the host sent more than its NIC took: {} frames were lost in the host ({}), {} since the start",
                            new.counted(), causes(&new), is.counted()
                        );
                        continue;
                    }
                    let of =
                        if config.classes.lossless.is_empty() { "" } else { "; lossless frames may be among them" };
                    tracing::error!(
                        switch = %config.name, port = %port.name,
                        "the device lost {} frames on {direction} ({}), {} since the start{of}",
                        new.counted(), causes(&new), is.counted()
                    );
                }
            }
            self.last[index] = now;
        }
    }

    /// Losses of the devices of switch `index`, by port, as last read.
    pub(crate) fn last(&self, index: usize) -> &[DeviceLosses] {
        &self.last[index]
    }

    /// Formats the frames that devices of switch `index` lost since the last line of rates, for the next one.
    pub(crate) fn in_line(&mut self, index: usize) -> String {
        let all = || self.last[index].iter().flat_map(directions);
        let counted: u64 = all().map(|(_, losses)| losses.counted()).sum();
        let since = counted - std::mem::replace(&mut self.in_line[index], counted);
        let is_complete = all().all(|(_, losses)| losses.uncounted.is_none());
        format!("  lost at devices {}", amount(since, is_complete))
    }
}

/// Logs lossless frames that switches dropped, each time their count has grown.
#[derive(Default)]
pub(crate) struct DropLog {
    /// Lossless frames dropped, as last logged, by switch, port, class and reason.
    logged: BTreeMap<(usize, usize, Class, DropReason), u64>,
}

/// Reasons for which no frame of a lossless class should be dropped. The others keep frames away from a port, lossless ones too.
const LOSSES: [DropReason; 2] = [DropReason::HeadroomViolation, DropReason::NoMemory];

impl DropLog {
    /// Logs and records the lossless frames dropped since the last call.
    pub(crate) fn log(&mut self, switches: &[SwitchConfig], reports: &[Report], sink: EventSink<'_>) {
        for (index, (config, report)) in switches.iter().zip(reports).enumerate() {
            for (number, port, class, reason, frames) in lossless_drops(config, report) {
                let all = self.logged.entry((index, number, class, reason)).or_default();
                let new = frames - std::mem::replace(all, frames).min(frames);
                if new == 0 {
                    continue;
                }
                sink(index, PortId(number as u16), Some(class), EventKind::Drop { reason: reason.name(), frames: new });
                let why = match reason {
                    DropReason::HeadroomViolation => {
                        let (what, look_at) = config.ports[number].flow_control.loss_hint();
                        format!("{what}; {look_at}")
                    }
                    _ => "no packet memory".to_owned(),
                };
                tracing::error!(
                    switch = %config.name, port = %port, class = class.index(),
                    "{new} lossless frames dropped ({}), {frames} since the start: {why}", reason.name()
                );
            }
        }
    }
}

/// The lossless frames that a switch dropped so far: port, its name, class, reason, frames.
fn lossless_drops<'r>(
    config: &'r SwitchConfig,
    report: &'r Report,
) -> impl Iterator<Item = (usize, &'r str, Class, DropReason, u64)> {
    report.ports.iter().enumerate().flat_map(move |(number, port)| {
        config.classes.lossless.iter().flat_map(move |class| {
            let dropped =
                move |reason| (number, &*port.name, class, reason, port.classes[class.index()].dropped(reason));
            LOSSES.into_iter().map(dropped)
        })
    })
}

/// Losses of a port's device, in the summary.
#[derive(Serialize)]
pub(crate) struct LossSummary {
    receive: DirectionSummary,
    transmit: DirectionSummary,
}

#[derive(Serialize)]
struct DirectionSummary {
    /// Lost frames that the device counted; null where it counted none and does not count all.
    frames: Option<u64>,
    /// True if the device counts all its losses.
    complete: bool,
    /// Losses that the device has no counter for, as a phrase.
    #[serde(rename = "untold", skip_serializing_if = "Option::is_none")]
    uncounted: Option<&'static str>,
    /// Upper bound on the `frames` that were of lossless classes.
    lossless_at_most: u64,
    by_cause: BTreeMap<&'static str, u64>,
    /// True if the host lost the frames, by sending more than its NIC took: no loss of the network's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_host: bool,
    #[serde(skip)]
    causes: String,
}

impl LossSummary {
    /// Judges the losses of the device of port `index`. A device does not count lost frames by class: all of them may have been
    /// lossless, unless no frame of that direction can be.
    pub(crate) fn new(config: &SwitchConfig, index: usize, losses: &DeviceLosses) -> LossSummary {
        let comes = |port: usize| !(config.groups_from(port) & config.classes.lossless).is_empty();
        let leaves = config.real_ports().any(|from| from != index && comes(from));
        let in_host = config.ports[index].nic.is_some();
        LossSummary {
            receive: DirectionSummary { in_host, ..DirectionSummary::new(&losses.receive, comes(index)) },
            transmit: DirectionSummary::new(&losses.transmit, leaves),
        }
    }

    /// Reason why the run failed, if frames of a lossless class may have been lost.
    pub(crate) fn fault(&self) -> Option<String> {
        self.directions().into_iter().find(|(_, losses)| losses.lossless_at_most > 0 && !losses.in_host).map(
            |(direction, losses)| {
                format!(
                    "its device lost {} frames on {direction} ({}), up to {} of them lossless",
                    count(losses.frames.unwrap_or(0)),
                    losses.causes,
                    count(losses.lossless_at_most)
                )
            },
        )
    }

    fn directions(&self) -> [(&'static str, &DirectionSummary); 2] {
        [(RECEIVE, &self.receive), (TRANSMIT, &self.transmit)]
    }
}

impl DirectionSummary {
    fn new(losses: &Losses, may_be_lossless: bool) -> DirectionSummary {
        let counted = losses.counted();
        DirectionSummary {
            frames: frames(losses),
            complete: losses.uncounted.is_none(),
            uncounted: losses.uncounted,
            lossless_at_most: if may_be_lossless { counted } else { 0 },
            by_cause: losses.causes().map(|(cause, frames)| (cause.name(), frames)).collect(),
            in_host: false,
            causes: causes(losses),
        }
    }
}

/// The losses of the ports that had any, or that do not count all; empty if no device lost a frame.
pub(crate) fn loss_table<'s>(ports: impl Iterator<Item = (&'s str, &'s LossSummary)>) -> Table {
    let mut table = Table::new(["Port", "Lost at device on", "Frames", "Lossless at most", "Why", "Not counted"]);
    for (port, losses) in ports {
        for (direction, losses) in losses.directions() {
            if losses.frames != Some(0) {
                table.row([
                    port.to_owned(),
                    direction.to_owned(),
                    amount(losses.frames.unwrap_or(0), losses.complete),
                    if losses.frames.is_some() { count(losses.lossless_at_most) } else { "unknown".to_owned() },
                    if losses.in_host && losses.frames != Some(0) {
                        format!("{} (in the host, before its NIC)", losses.causes)
                    } else {
                        losses.causes.clone()
                    },
                    losses.uncounted.unwrap_or("").to_owned(),
                ]);
            }
        }
    }
    table
}

/// Lost frames that the device counted; `None` where it counted none and does not count all.
pub(crate) fn frames(losses: &Losses) -> Option<u64> {
    let counted = losses.counted();
    (counted > 0 || losses.uncounted.is_none()).then_some(counted)
}

/// `12`, `at least 12`, or `unknown`.
fn amount(frames: u64, is_complete: bool) -> String {
    match (frames, is_complete) {
        (frames, true) => count(frames),
        (0, false) => "unknown".to_owned(),
        (frames, false) => format!("at least {}", count(frames)),
    }
}

fn causes(losses: &Losses) -> String {
    losses
        .causes()
        .map(|(cause, frames)| format!("{} {}", cause.phrase(), count(frames)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn directions(losses: &DeviceLosses) -> [(&'static str, &Losses); 2] {
    [(RECEIVE, &losses.receive), (TRANSMIT, &losses.transmit)]
}

const RECEIVE: &str = "receive";
const TRANSMIT: &str = "transmit";

#[cfg(test)]
mod tests {
    use weir_dpdk_io::LossCause;

    use super::*;

    fn lost(frames: u64, uncounted: Option<&'static str>) -> Losses {
        let mut losses = Losses::default();
        losses.uncounted = uncounted;
        losses.add(LossCause::ReceiveFull, frames);
        losses
    }

    #[test]
    fn what_is_unknown_is_no_zero() {
        let json = |losses, lossless| serde_json::to_value(DirectionSummary::new(&losses, lossless)).unwrap();
        let unknown = json(lost(0, Some("its ring")), true);
        assert_eq!((&unknown["frames"], &unknown["complete"]), (&serde_json::Value::Null, &false.into()));
        assert_eq!(json(lost(0, None), true)["frames"], 0);
        assert_eq!(json(lost(5, None), true)["lossless_at_most"], 5);
        assert_eq!(json(lost(5, None), false)["lossless_at_most"], 0);
        assert_eq!([amount(0, false), amount(5, false), amount(0, true)], ["unknown", "at least 5", "0"]);
    }

    /// Every lost frame may have been lossless, even if no lossless frame ever arrived.
    #[test]
    fn frames_that_may_have_been_lossless_are_counted_as_such() {
        let losses = DeviceLosses { receive: lost(7, None), transmit: lost(5, None) };
        let at_most = |classes: &str| {
            let port = |name, priority| {
                format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"1Gbps\"\npriority = {priority}\n")
            };
            let text = format!("[classes]\n{classes}\n[buffer]\nsize = \"1MB\"\n{}{}", port("a", 0), port("b", 3));
            let config = weir_config::parse("test.toml", &text).unwrap();
            [0, 1].map(|port| {
                let summary = LossSummary::new(&config, port, &losses);
                summary.directions().map(|(_, losses)| losses.lossless_at_most)
            })
        };
        assert_eq!(at_most("lossless = [3]"), [[7, 5]; 2], "each port's frames may have any code point");
        assert_eq!(at_most("lossless = []"), [[0, 0]; 2]);
        // By port: a's frames are of class 0, b's of class 3.
        assert_eq!(at_most("lossless = [3]\ntrust = \"port\""), [[0, 5], [7, 0]]);
        // No code point leads to class 7, nor is it a port's own.
        assert_eq!(at_most("lossless = [7]\n[classes.dscp]\n\"0-63\" = 1"), [[0, 0]; 2]);
    }

    #[test]
    fn a_run_fails_only_where_lossless_frames_may_be_lost() {
        let summary = |lossless| LossSummary {
            receive: DirectionSummary::new(&lost(1_200, None), lossless),
            transmit: DirectionSummary::new(&lost(0, Some("all")), true),
        };
        let fault = "its device lost 1,200 frames on receive (receive queue full 1,200), up to 1,200 of them lossless";
        assert_eq!(summary(true).fault().as_deref(), Some(fault));
        assert_eq!(summary(false).fault(), None);
        let both = summary(false);
        let table = loss_table([("p0", &both)].into_iter()).to_string();
        assert!(table.contains("1,200") && table.contains("unknown"), "{table}");
    }
}
