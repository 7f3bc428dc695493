//! Frame conservation across the whole network.

use weir_results::run_dir::FrameSummary;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;

use super::Sim;

/// Returns the frame conservation summary from reports of the current instant.
///
/// # Errors
/// Describes the counters that do not balance: a bug in the program.
pub(super) fn frames(sim: &Sim, reports: &[Report]) -> Result<FrameSummary, String> {
    let switches = || (0..sim.partition.switches()).map(|switch| sim.partition.switch(switch));
    // Flow control to a port without a link is discarded.
    let control_tx = switches().zip(reports).flat_map(|(switch, report)| {
        let ports = report.ports.iter().enumerate();
        ports.filter(|(port, _)| switch.wire(*port).is_some()).map(|(_, port)| port.control_tx)
    });
    // A message of another flow control than the port's counts by its kind, and as ignored.
    let control_rx = switches().zip(reports).flat_map(|(switch, report)| {
        report.ports.iter().zip(switch.shared().ports()).map(|(port, state)| {
            let foreign = port.mismatch.foreign - state.regulator.mismatched_messages();
            port.control_rx.messages() + port.control_rx.ignored + port.control_rx.malformed - foreign
        })
    });
    let control_rx: u64 = control_rx.sum();
    let hosts = || (0..sim.partition.hosts()).map(|host| sim.host_frames(host));
    // Each frame received by a clone is a copy of the real port's frame.
    let cloned = switches().zip(reports).flat_map(|(switch, report)| {
        let ports = switch.shared().ports().iter().zip(0..).zip(&report.ports);
        ports.filter(|((state, port), _)| state.real_port.0 != *port).flat_map(|(_, report)| &report.classes)
    });
    let cloned: u64 = cloned.map(|class| class.rx_frames).sum();
    let faults = sim.fault_counters();
    let mut frames = FrameSummary {
        hosts_sent: sim.injected + hosts().map(|[sent, _]| sent).sum::<u64>(),
        hosts_received: hosts().map(|[_, received]| received).sum(),
        control_sent: control_tx.map(|counters| counters.messages()).sum(),
        control_received: control_rx,
        copied: reports.iter().map(|report| report.conservation.copied).sum::<u64>() + cloned,
        duplicated: faults.duplicated,
        faults_lost: faults.lost,
        faults_corrupted: faults.corrupted,
        lost_link_down: sim.lost_link_down(),
        llr_sent: sim.llr_ports().map(|port| port.traffic().sent).sum::<u64>() + sim.bad_fcs_on_llr_links(),
        llr_taken: sim.llr_ports().map(|port| port.traffic().taken).sum(),
        held: reports.iter().map(|report| report.conservation.held()).sum(),
        on_links: sim.frames_in_flight() as u64,
        ..FrameSummary::default()
    };
    for reason in DropReason::ALL {
        let dropped: u64 = reports.iter().map(|report| report.dropped(reason)).sum();
        if dropped > 0 {
            frames.dropped.insert(reason.name().to_owned(), dropped);
        }
    }
    for (switch, report) in reports.iter().enumerate() {
        check_switch(switch, report)?;
    }
    let forwarded: u64 = reports.iter().map(|report| report.conservation.sent).sum();
    let put_on_links = frames.hosts_sent + frames.control_sent + forwarded;
    if put_on_links != sim.packet_hops() {
        let hops = sim.packet_hops();
        return Err(format!("{put_on_links} frames were sent, but {hops} were put on links: {frames:?}"));
    }
    let [frames_in, frames_out] = frames.sides();
    if frames_in != frames_out {
        return Err(format!("{frames_in} frames entered, but {frames_out} left or are in the network: {frames:?}"));
    }
    Ok(frames)
}

/// Checks frame conservation of a switch, by index in the scenario.
///
/// # Errors
/// Describes the counters that do not balance.
pub(super) fn check_switch(switch: usize, report: &Report) -> Result<(), String> {
    let balance = &report.conservation;
    let out = balance.sent + balance.dropped + balance.held();
    if balance.holds && balance.received + balance.copied == out {
        Ok(())
    } else {
        Err(format!("switch {switch} does not conserve frames: {balance:?}"))
    }
}
