//! Progress of a run.

use weir_mmu::policy::Unit;
use weir_switch_core::Report;
use weir_switch_core::report::PortReport;
use weir_units::{BitRate, Bytes, Time};

use crate::run_dir::FlowSample;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Scenario time.
    pub now: Time,
    /// Throughput of the first flow since the last sample, in bits a second.
    pub first_flow_bps: u64,
    /// Throughput of all flows since the last sample, in bits a second.
    pub received_bps: u64,
    /// Number of times that the first switch has paused the first port's host.
    pub first_port_pauses: u64,
    /// Number of times that any switch has paused the peer of any port.
    pub pauses: u64,
    /// State of the first switch's first port, in one word; `None` under policies without a state of ports.
    pub first_port_state: Option<&'static str>,
    /// Shared buffer in use, of all switches.
    pub pool_used: Bytes,
    /// Frames sent on all links so far; 0 on DPDK, which does not count them during the run.
    pub packet_hops: u64,
    /// Messages of traffic completed so far.
    pub messages_done: u64,
}

/// Computes progress from successive samples.
#[derive(Debug, Default)]
pub struct ProgressMeter {
    last: Time,
    first_received: Bytes,
    received: Bytes,
    /// Pauses in each switch's last report, and its instant.
    pauses: Vec<(Time, u64)>,
}

impl ProgressMeter {
    /// Returns the progress at a sample.
    pub fn update(&mut self, now: Time, flows: &[FlowSample], reports: &[Report]) -> Progress {
        let span = now.since(self.last);
        let bps =
            |now: Bytes, before: Bytes| BitRate::average(now.saturating_sub(before), span).map_or(0, BitRate::as_bps);
        let first_received = flows.first().map_or(Bytes::ZERO, |flow| flow.received);
        let received: Bytes = flows.iter().map(|flow| flow.received).sum();
        let (first_flow_bps, received_bps) = (bps(first_received, self.first_received), bps(received, self.received));
        (self.last, self.first_received, self.received) = (now, first_received, received);
        let pauses = |port: &PortReport| port.classes.iter().map(|class| class.pauses_tx).sum::<u64>();
        self.pauses.resize(reports.len(), (Time::ZERO, 0));
        for (report, (at, counted)) in reports.iter().zip(&mut self.pauses) {
            if report.at > *at {
                (*at, *counted) = (report.at, report.ports.iter().map(pauses).sum());
            }
        }
        let first_port = reports.first().and_then(|report| report.ports.first());
        Progress {
            now,
            first_flow_bps,
            received_bps,
            first_port_pauses: first_port.map_or(0, pauses),
            pauses: self.pauses.iter().map(|(_, pauses)| pauses).sum(),
            first_port_state: first_port.and_then(port_state),
            pool_used: reports.iter().map(|report| report.pool.used).sum(),
            packet_hops: 0,
            messages_done: 0,
        }
    }
}

/// Returns the port's state under its policy; `None` under policies without a state of ports.
fn port_state(port: &PortReport) -> Option<&'static str> {
    let mut gauges = port.classes.iter().flat_map(|class| class.ingress.gauges.iter());
    gauges.find_map(|(gauge, value)| match gauge.unit {
        Unit::State { on, off } if gauge.of_port => Some(if value > 0 { on } else { off }),
        _ => None,
    })
}
