//! Where all frames have gone, and whether none has gone nowhere.

use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;

use crate::run_dir::FrameSummary;
use crate::scenario::{PortPlace, Scenario};
use crate::sim::Sim;

/// The account of all frames, from reports of this instant.
///
/// # Errors
/// Which books do not balance: a fault of the program.
pub(super) fn frames(scenario: &Scenario, sim: &Sim, reports: &[Report]) -> Result<FrameSummary, String> {
    let ports = || reports.iter().flat_map(|report| &report.ports);
    let is_wired = |place: &PortPlace| sim.switches[place.switch].wire(place.port).is_some();
    // What goes to a port without a link goes nowhere, flow control that is.
    let told = scenario.ports().filter(is_wired).map(|place| reports[place.switch].ports[place.port].control_tx);
    let hosts = || (0..scenario.hosts.len()).map(|host| sim.host_frames(host));
    // Each frame that a clone receives is a copy of its port's.
    let is_clone = |place: &PortPlace| scenario.switches[place.switch].real_port(place.port) != place.port;
    let cloned = scenario.ports().filter(is_clone).flat_map(|place| &reports[place.switch].ports[place.port].classes);
    let cloned: u64 = cloned.map(|class| class.rx_frames).sum();
    let faults = sim.fault_counters();
    let mut frames = FrameSummary {
        hosts_sent: hosts().map(|[sent, _]| sent).sum(),
        hosts_received: hosts().map(|[_, received]| received).sum(),
        control_sent: told.map(|told| told.pfc + told.pause + told.credit).sum(),
        control_received: ports()
            .map(|port| port.control_rx)
            .map(|heard| heard.pfc + heard.pause + heard.credit + heard.ignored + heard.malformed)
            .sum(),
        copied: reports.iter().map(|report| report.balance.copied).sum::<u64>() + cloned,
        doubled: faults.doubled,
        faults_lost: faults.lost,
        cut_off: sim.cut_off(),
        held: reports.iter().map(|report| report.balance.held()).sum(),
        on_links: sim.under_way() as u64,
        ..FrameSummary::default()
    };
    for reason in DropReason::ALL {
        let dropped: u64 = reports.iter().map(|report| report.dropped(reason)).sum();
        if dropped > 0 {
            frames.dropped.insert(reason.name().to_owned(), dropped);
        }
    }
    if let Some((switch, report)) = scenario.switches.iter().zip(reports).find(|(_, report)| !report.balance.holds) {
        return Err(format!("the books of switch {} do not balance: {:?}", switch.name, report.balance));
    }
    let forwarded: u64 = reports.iter().map(|report| report.balance.sent).sum();
    let put_on_links = frames.hosts_sent + frames.control_sent + forwarded;
    if put_on_links != sim.packet_hops() {
        let hops = sim.packet_hops();
        return Err(format!("{put_on_links} frames were sent, and {hops} put on links: {frames:?}"));
    }
    let [went_in, came_out] = frames.sides();
    if went_in != came_out {
        return Err(format!("{went_in} frames went in, and {came_out} came out or are there: {frames:?}"));
    }
    Ok(frames)
}
