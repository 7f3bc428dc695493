//! Summaries of reports.

use std::sync::Arc;

use weir_switch_core::report::{ControlReport, FrameConservation, ProtocolMismatch};
use weir_units::Time;

use super::*;

/// Four ports of 10 Gb/s, twice slower than real time: GFC by stages, pulsed, CBFC and PFC.
fn config() -> SwitchConfig {
    let ports = ["\"gfc-buffer\"", "{ kind = \"gfc-buffer\", peer = \"pfc\" }", "\"cbfc\"", "\"pfc\""];
    let port = |(n, flow_control)| {
        format!("\n[[ports]]\nname = \"p{n}\"\ntap = \"t{n}\"\nrate = \"10Gbps\"\nflow_control = {flow_control}\n")
    };
    let ports: String = ports.iter().enumerate().map(port).collect();
    let text =
        format!("[switch]\ntime_dilation = 2\n[classes]\nlossless = [3]\n[buffer]\npolicy = \"static\"\n{ports}");
    weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// An empty report.
fn report() -> Report {
    let port = |n: usize| PortReport {
        name: format!("p{n}"),
        link_up: true,
        link_rate: None,
        classes: Default::default(),
        control_rx: ControlReport::default(),
        control_tx: ControlReport::default(),
        invalid_messages: 0,
        mismatch: ProtocolMismatch::default(),
        line_time: None,
    };
    Report {
        at: Time::ZERO,
        ports: (0..4).map(port).collect(),
        pool: PoolUsage::default(),
        headroom_pool: None,
        egress_lossy_pool: None,
        conservation: FrameConservation::default(),
        message_delay: DelayStats::default(),
        reaction: DelayStats::default(),
    }
}

fn class_3(report: &mut Report, port: usize) -> &mut ClassReport {
    Arc::make_mut(&mut report.ports[port].classes[3])
}

fn summary(report: &Report) -> SwitchSummary {
    switch_summary(&config(), report, &[DeviceReport::default(); 4], Duration::from_millis(2), |_| None)
}

fn lines(table: &weir_experiments::table::Table) -> Vec<String> {
    table.to_string().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn messages_of_each_kind_and_what_they_take_of_the_link() {
    let mut report = report();
    report.ports[0].control_tx.pfc = 20;
    report.ports[0].invalid_messages = 3;
    report.ports[2].control_tx.credit = 1_234;
    report.ports[2].control_rx.credit = 1_200;
    let summary = summary(&report);
    assert_eq!(
        lines(&tables::message_table(&summary)).join("\n").replace("-", ""),
        // 20 x 672 bit of the 10 Mbit that pass in a millisecond of the switch's clock.
        "Port Flow control PFC sent Credits sent Credits received Odd Sent % of link\n\n\
         p0 GFC by stages 20 0 0 3 0.1344\n\
         p2 CBFC 0 1,234 1,200 0 8.2925"
    );
    let json = serde_json::to_value(&summary).unwrap();
    let port = |n: usize, key: &str| json["ports"][n][key].clone();
    assert_eq!(
        (port(2, "credit_tx"), port(2, "credit_rx"), port(0, "odd_messages")),
        (1_234.into(), 1_200.into(), 3.into())
    );
    assert_eq!(
        (port(1, "flow_control"), port(3, "control_tx_link_percent")),
        ("GFC by stages, pulsed".into(), 0.0.into())
    );
    assert!((port(0, "control_tx_link_percent").as_f64().unwrap() - 0.1344).abs() < 1e-9);
}

#[test]
fn what_is_wrong_between_peers_is_told() {
    let mut report = report();
    report.ports[2].mismatch =
        ProtocolMismatch { foreign: 4, excessive_credits: 5, resyncs: 6, aged: 0, heard_at: Time::ZERO };
    let summary = summary(&report);
    assert_eq!(
        lines(&tables::message_table(&summary)).join("\n").replace("-", ""),
        "Port Flow control Of another kind Counts set anew Sent % of link\n\np2 CBFC 4 6 0.0000"
    );
    let json = serde_json::to_value(&summary).unwrap();
    let of = |key: &str| json["ports"][2][key].as_u64().unwrap();
    let keys = ["foreign_messages", "excessive_credits", "credit_resyncs", "rates_aged"];
    assert_eq!(keys.map(of), [4, 5, 6, 0]);
}

/// Lossless frames lost under credit violate no headroom.
#[test]
fn a_fault_speaks_of_what_the_port_speaks() {
    let fault = |port: usize| {
        let mut report = report();
        class_3(&mut report, port).rx_drops[DropReason::HeadroomViolation as usize] = 9;
        let switch = summary(&report);
        let summary = RunSummary {
            weir_version: "",
            dpdk_version: String::new(),
            ran_for_s: 1.0,
            switches: vec![switch],
            lcores: Vec::new(),
            mbufs_missing: 0,
            replay: None,
        };
        summary.fault().unwrap()
    };
    assert_eq!(fault(0), "lab: 9 lossless frames were dropped (a queue exceeded b_m)");
    assert_eq!(fault(2), "lab: 9 lossless frames were dropped (arrivals exceeded the credit)");
    assert_eq!(fault(3), "lab: 9 lossless frames were dropped (headroom violated)");
}

#[test]
fn without_a_rate_the_share_is_of_the_link_if_its_speed_is_known() {
    let mut config = config();
    config.ports[3].rate = None;
    let mut report = report();
    report.ports[3].control_tx.pfc = 1;
    let summary = switch_summary(&config, &report, &[DeviceReport::default(); 4], Duration::from_secs(1), |_| None);
    assert_eq!(lines(&tables::message_table(&summary)).last().unwrap(), "p3 PFC 1 -");
    assert!(serde_json::to_value(&summary).unwrap()["ports"][3]["control_tx_link_percent"].is_null());
    // 84 B in half a second of the switch's clock.
    report.ports[3].link_rate = Some(BitRate::mbps(1));
    let summary = switch_summary(&config, &report, &[DeviceReport::default(); 4], Duration::from_secs(1), |_| None);
    assert_eq!(lines(&tables::message_table(&summary)).last().unwrap(), "p3 PFC 1 0.1344");
}

#[test]
fn classes_that_the_peer_slows_down_are_told_even_without_traffic() {
    let mut report = report();
    let (line, slow) = (BitRate::gbps(10), BitRate::mbps(2_500));
    class_3(&mut report, 0).rate_rx = Some(slow);
    class_3(&mut report, 1).rate_rx = Some(line);
    let summary = summary(&report);
    assert_eq!(lines(&tables::rate_table(&summary))[2..], ["p0 3 2.5Gbps 10Gbps"]);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["ports"][0]["classes"][0]["rate_rx_bps"], 2_500_000_000u64);
    assert_eq!(json["ports"][1]["classes"], serde_json::json!([]));
    class_3(&mut report, 3).rx_frames = 1;
    let json = serde_json::to_value(self::summary(&report)).unwrap();
    assert!(json["ports"][3]["classes"][0].get("rate_rx_bps").is_none(), "PFC sets no rate");
}

#[test]
fn a_port_below_its_rate_is_told_with_the_cause() {
    let mut report = report();
    let (ms, us) = (Span::from_millis, Span::from_micros);
    let line = LineTimeLoss {
        waited: ms(200),
        lost_late: ms(50),
        lost_refused: us(1_250),
        burst_max: ms(20),
        pending: Span::ZERO,
    };
    report.ports[1].line_time = Some(line);
    report.ports[2].line_time = Some(LineTimeLoss { lost_late: Span::ZERO, lost_refused: Span::ZERO, ..line });
    let late = |port: PortId| (port.0 == 1).then(|| PollDelay { cpu: 7, gap_max: ms(30), ..PollDelay::default() });
    let summary = switch_summary(&config(), &report, &[DeviceReport::default(); 4], Duration::from_millis(400), late);
    assert_eq!(lines(&tables::line_table(&summary))[2..], ["p1 10Gbps 200,000 25.62 50,000 1,250 20,000"]);
    let json = serde_json::to_value(&summary).unwrap();
    let line = |n: usize, key: &str| json["ports"][n]["line_time"][key].clone();
    assert_eq!((line(1, "below_rate_percent"), line(2, "below_rate_percent")), (25.625.into(), 0.0.into()));
    let told = line(1, "below_rate").as_str().unwrap().to_owned();
    assert!(
        told.contains("below its rate, 25.6 %: 50.0 ms of its line time lost to late polls (longest poll gap 30.0 ms")
    );
    assert!(line(2, "below_rate").is_null() && json["ports"][0]["line_time"].is_null());
}

/// A GFC stage stands in a PFC frame, which is no pause.
#[test]
fn stages_are_no_pauses() {
    let mut report = report();
    (0..report.ports.len()).for_each(|port| class_3(&mut report, port).xoff_rx = 5);
    let told = lines(&tables::pause_table(&summary(&report)));
    let ports: Vec<&str> = told[2..].iter().map(|line| &line[..2]).collect();
    assert_eq!(ports, ["p1", "p3"], "nor are they at a port that speaks credits");
}

#[test]
fn delays_have_names_that_fit_what_ports_speak() {
    let mut report = report();
    report.message_delay = DelayStats { count: 7, p50: 1, p99: 2, p999: 3, max: 4, ..DelayStats::default() };
    report.reaction = DelayStats { count: 8, p50: 5, p99: 6, p999: 7, max: 8, ..DelayStats::default() };
    let mut summary = summary(&report);
    assert_eq!(tables::message_delay(&summary), "Xoff to PAUSE, or stage's start to message");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["pause_delay_ns"]["count"], &json["reaction_delay_ns"]["p999"]), (&7.into(), &7.into()));
    summary.ports.truncate(3);
    assert_eq!(tables::message_delay(&summary), "stage's start to message");
    summary.ports.remove(0);
    assert_eq!(tables::message_delay(&summary), "Xoff to PAUSE");
}
