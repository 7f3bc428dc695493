//! Summary of the NICs in front of hosts.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::RunningSwitches;
use weir_experiments::table::{Table, count};
use weir_nic::model::{DirectionCounters, ModelClass, ModelDrop, ModelReport};
use weir_units::Class;

/// Advice for lossless frames that a NIC drops.
const MORE_ROOM: &str = "give it a larger `receive_buffer`, or is `tx_pause` off?";

/// Logs NICs' drops while they grow.
pub(crate) struct NicLog {
    /// Frames dropped so far, and lossless frames dropped by a full receive buffer, by switch and port.
    last: Vec<Vec<[u64; 2]>>,
}

impl NicLog {
    /// Creates a log with no drops so far.
    pub(crate) fn new(switches: &[SwitchConfig]) -> NicLog {
        NicLog { last: switches.iter().map(|switch| vec![[0; 2]; switch.ports.len()]).collect() }
    }

    /// Logs the NICs of switch `index` that have dropped frames since the last call.
    pub(crate) fn log(&mut self, index: usize, config: &SwitchConfig, running: &RunningSwitches) {
        if config.ports.iter().all(|port| port.nic.is_none()) {
            return;
        }
        for (port, report) in running.nic_reports(index).iter().enumerate() {
            let Some(report) = report else { continue };
            let now = [report.to_switch.dropped() + report.to_host.dropped(), lossless_dropped(config, report)];
            let last = std::mem::replace(&mut self.last[index][port], now);
            let (new, lossless) = (now[0] - last[0], now[1] - last[1]);
            let (switch, port) = (&config.name, &config.ports[port].name);
            if lossless > 0 {
                tracing::error!(
                    %switch, %port, "the NIC dropped {lossless} lossless frames: its receive buffer is full; {MORE_ROOM}"
                );
            } else if new > 0 {
                tracing::warn!(%switch, %port, "the NIC dropped {new} frames; weir show losses has the reasons");
            }
        }
    }
}

/// The NIC in front of a port's host. Frames and bytes are without FCS, buffers with it.
#[derive(Serialize)]
pub(crate) struct NicSummary {
    /// Whether every frame is accounted for: came + made = left + ended + dropped + held.
    holds: bool,
    to_switch: NicDirectionSummary,
    to_host: NicDirectionSummary,
    /// Messages of flow control that were not obeyed.
    control_ignored: u64,
    classes: Vec<NicClassSummary>,
    /// Lossless frames that found the receive buffer full.
    #[serde(skip)]
    lossless_dropped: u64,
}

#[derive(Serialize)]
struct NicDirectionSummary {
    #[serde(rename = "came")]
    received: u64,
    made: u64,
    left: u64,
    ended: u64,
    dropped: u64,
    held: u64,
    drops: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct NicClassSummary {
    class: usize,
    from_host: u64,
    to_switch: u64,
    to_host: u64,
    drops: BTreeMap<&'static str, u64>,
    /// Number of times a queue of the host was held back for this class.
    held_back: u64,
    pauses_rx: u64,
    paused_rx_us: u64,
    pauses_tx: u64,
    send_max_bytes: u64,
    receive_max_bytes: u64,
}

impl NicSummary {
    /// Creates the summary of a NIC's counters.
    pub(crate) fn new(config: &SwitchConfig, report: &ModelReport) -> NicSummary {
        let is_used = |class: &ModelClass| *class != ModelClass::default();
        let classes = report.classes.iter().enumerate().filter(|(_, class)| is_used(class));
        NicSummary {
            holds: report.balances(),
            to_switch: direction(&report.to_switch),
            to_host: direction(&report.to_host),
            control_ignored: report.control_ignored,
            classes: classes.map(|(number, counted)| class_summary(number, counted)).collect(),
            lossless_dropped: lossless_dropped(config, report),
        }
    }

    /// Reason why the run failed, if the NIC caused one.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.lossless_dropped > 0 {
            let frames = count(self.lossless_dropped);
            return Some(format!("its NIC dropped {frames} lossless frames (receive_buffer_full): {MORE_ROOM}"));
        }
        (!self.holds).then(|| "its NIC does not conserve frames".to_owned())
    }
}

/// Frames of lossless classes that found the receive buffer full.
fn lossless_dropped(config: &SwitchConfig, report: &ModelReport) -> u64 {
    let full = |class: Class| report.classes[class.index()].dropped[ModelDrop::ReceiveBufferFull as usize];
    config.classes.lossless.iter().map(full).sum()
}

fn direction(direction: &DirectionCounters) -> NicDirectionSummary {
    NicDirectionSummary {
        received: direction.received,
        made: direction.generated,
        left: direction.forwarded,
        ended: direction.consumed,
        dropped: direction.dropped(),
        held: direction.held,
        drops: reasons(&direction.dropped),
    }
}

fn class_summary(class: usize, counted: &ModelClass) -> NicClassSummary {
    NicClassSummary {
        class,
        from_host: counted.from_host,
        to_switch: counted.to_switch,
        to_host: counted.to_host,
        drops: reasons(&counted.dropped),
        held_back: counted.held_back,
        pauses_rx: counted.pauses,
        paused_rx_us: counted.paused_for.as_micros(),
        pauses_tx: counted.pauses_sent,
        send_max_bytes: counted.send_bytes_max,
        receive_max_bytes: counted.receive_bytes_max,
    }
}

/// The reasons that occurred.
fn reasons(dropped: &[u64; ModelDrop::COUNT]) -> BTreeMap<&'static str, u64> {
    let all = ModelDrop::ALL.into_iter().map(|why| (why.name(), dropped[why as usize]));
    all.filter(|(_, frames)| *frames > 0).collect()
}

/// A row for each class of each NIC; empty where there is none.
pub(crate) fn nic_table<'s>(nics: impl Iterator<Item = (&'s str, &'s NicSummary)>) -> Table {
    let mut table = Table::new([
        "NIC of",
        "Class",
        "From host",
        "Host held back",
        "To switch",
        "PAUSE received",
        "for us",
        "To host",
        "PAUSE sent",
        "Peak to switch B",
        "Peak to host B",
        "Dropped",
    ]);
    for (port, nic) in nics {
        for class in &nic.classes {
            let drops: Vec<_> = class.drops.iter().map(|(why, n)| format!("{why} {}", count(*n))).collect();
            table.row([
                port.to_owned(),
                class.class.to_string(),
                count(class.from_host),
                count(class.held_back),
                count(class.to_switch),
                count(class.pauses_rx),
                count(class.paused_rx_us),
                count(class.to_host),
                count(class.pauses_tx),
                count(class.send_max_bytes),
                count(class.receive_max_bytes),
                if drops.is_empty() { "0".to_owned() } else { drops.join(", ") },
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SwitchConfig {
        let port =
            |name: &str| format!("[[ports]]\nname = \"{name}\"\ntap = \"{name}\"\nrate = \"1Gbps\"\nnic = {{}}\n");
        weir_config::parse("lab", &format!("[classes]\nlossless = [3]\n{}{}", port("a"), port("b"))).unwrap()
    }

    /// Nine frames came for the host, of which six of a class were dropped and two are there.
    fn report(class: usize) -> ModelReport {
        let mut report = ModelReport::default();
        let full = ModelDrop::ReceiveBufferFull as usize;
        report.to_host = DirectionCounters { received: 9, forwarded: 1, held: 2, ..DirectionCounters::default() };
        report.to_host.dropped[full] = 6;
        report.classes[class].dropped[full] = 6;
        report.classes[class].to_host = 1;
        report
    }

    #[test]
    fn a_run_fails_where_a_nic_drops_lossless_frames() {
        let fault = |class| NicSummary::new(&config(), &report(class)).fault();
        assert_eq!(fault(0), None);
        assert!(fault(3).unwrap().starts_with("its NIC dropped 6 lossless frames (receive_buffer_full)"));
    }

    #[test]
    fn a_run_fails_where_a_frame_is_missing() {
        let mut report = report(0);
        report.to_switch.received = 1;
        assert_eq!(NicSummary::new(&config(), &report).fault().unwrap(), "its NIC does not conserve frames");
    }

    #[test]
    fn drops_stand_in_table_and_json_with_their_reason() {
        let summary = NicSummary::new(&config(), &report(3));
        let table = nic_table([("a", &summary)].into_iter()).to_string();
        assert!(table.lines().last().unwrap().trim_end().ends_with("receive_buffer_full 6"), "{table}");
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(
            (&json["to_host"]["drops"]["receive_buffer_full"], &json["classes"][0]["class"]),
            (&6.into(), &3.into())
        );
        assert_eq!(json["holds"], true);
    }
}
