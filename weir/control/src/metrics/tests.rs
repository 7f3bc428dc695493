use super::*;
use crate::state::{
    DelayBucket, FlowControlClass, GapBucket, LcoreWork, LldpNeighbour, PolicyQueue, Stations, Traffic,
};

fn metrics() -> Metrics {
    let at_three = |n: u64| std::array::from_fn(|class| if class == 3 { n } else { 0 });
    let none = [0; weir_units::CLASSES];
    let port = "p0".to_owned();
    Metrics {
        weir_version: "0.1.0".into(),
        switches: vec![SwitchMetrics {
            switch: "lab".into(),
            frame_conservation: FrameConservation {
                received: 10,
                copied: 1,
                sent: 9,
                dropped: 2,
                held: 0,
                conserved: true,
            },
            interfaces: vec![Interface {
                port: port.clone(),
                device: "ring \"a\"".into(),
                link: Some("a".into()),
                link_up: true,
                state: "up".into(),
                forced_pause: Vec::new(),
                rate_bps: Some(10_000_000_000),
                flow_control: "pfc".into(),
                rx: Traffic::default(),
                tx: Traffic::default(),
                stations: Stations { learned: 11, max: Some(12), refused_frames: 13, moves: 14 },
            }],
            pfc: vec![PfcCounters {
                port: port.clone(),
                rx: at_three(4),
                tx: none,
                rx_pauses: at_three(2),
                rx_paused_us: at_three(1_500_000),
                rx_last_pause: [None; 8],
                tx_pauses: none,
                tx_paused_us: none,
                rx_lossy: 101,
            }],
            watchdog: Vec::new(),
            lldp: vec![LldpPort {
                port: port.clone(),
                rx: 5,
                tx: 6,
                malformed: 0,
                pfc: vec![3],
                neighbours: vec![LldpNeighbour { pfc_comparison: PfcComparison::Mismatch, ..LldpNeighbour::default() }],
            }],
            priority_groups: vec![PriorityGroups {
                port: port.clone(),
                frames: at_three(10),
                bytes: at_three(10_000),
                private_bytes: none,
                shared_bytes: at_three(3_000),
                headroom_bytes: at_three(200),
                shared_watermark_bytes: at_three(5_000),
                headroom_watermark_bytes: none,
                shared_persistent_watermark_bytes: at_three(7_000),
                headroom_persistent_watermark_bytes: none,
                dropped: none,
            }],
            limits: vec![BufferQueue {
                port: port.clone(),
                class: 3,
                lossless: true,
                private_bytes: 0,
                threshold_bytes: 4_000,
                headroom_bytes: 600,
            }],
            queues: Vec::new(),
            pools: vec![BufferPool {
                pool: "shared".into(),
                size_bytes: 1_000_000,
                used_bytes: 0,
                watermark_bytes: 5_000,
                persistent_watermark_bytes: 7_000,
            }],
            policy: PolicyState {
                policy: "spfc".into(),
                queues: vec![PolicyQueue {
                    port: port.clone(),
                    class: 3,
                    shared_bytes: 3_000,
                    headroom_bytes: 200,
                    threshold_bytes: 4_000,
                    headroom_limit_bytes: 600,
                    off: true,
                    port_off: false,
                    gauges: [("port state".to_owned(), 1)].into(),
                }],
            },
            flow_control: vec![FlowControlPort {
                port: "p1".into(),
                flow_control: "gfc-buffer".into(),
                messages_rx: 7,
                messages_tx: 5,
                invalid: 0,
                foreign: 0,
                aged: 1,
                resyncs: 0,
                rate_bps: Some(10_000_000_000),
                classes: vec![FlowControlClass {
                    class: 3,
                    ingress_bytes: 0,
                    egress_bytes: 0,
                    rate_rx_bps: Some(5_000_000_000),
                    gauges: std::collections::BTreeMap::new(),
                }],
            }],
            losses: vec![Loss {
                port,
                place: LossPlace::Ingress,
                class: Some(3),
                reason: "headroom_violation".into(),
                frames: Some(2),
            }],
            delays: PauseDelays {
                message: Delay {
                    count: 4,
                    max_ns: 4_000,
                    sum_ns: 8_000,
                    lengths: [(Some(1_024), 1), (Some(2_048), 2), (None, 1)]
                        .map(|(up_to_ns, messages)| DelayBucket { up_to_ns, messages })
                        .to_vec(),
                    ..Delay::default()
                },
                reaction: Delay::default(),
            },
        }],
        lcores: vec![Lcore {
            cpu: 1,
            roles: Vec::new(),
            polls: 12,
            busy_polls: 3,
            work: LcoreWork { packets: 64, bursts: 2, timed_packets: 60, timed_ns: 6_000, tsc_hz: 2_000_000_000 },
            gap_p50_ns: 100,
            gap_p99_ns: 200,
            gap_p999_ns: 300,
            gap_max_ns: 20_000_000_000,
            gaps: [(127, 6), (129, 5), (20_000_000_000, 1)]
                .map(|(up_to_ns, polls)| GapBucket { up_to_ns, polls })
                .to_vec(),
            cpu_waited_ms: Some(1_500),
            cpu_preempted: None,
            cpu_stolen_ms: None,
        }],
    }
}

#[test]
fn counters_have_sonics_labels() {
    let text = metrics().text();
    for line in [
        "weir_received_frames_total{switch=\"lab\"} 10",
        "weir_port_rx_frames_total{switch=\"lab\",port=\"p0\",priority=\"3\"} 10",
        "weir_port_rx_bytes_total{switch=\"lab\",port=\"p0\",priority=\"3\"} 10000",
        "weir_pfc_rx_frames_total{switch=\"lab\",port=\"p0\",priority=\"3\"} 4",
        "weir_pfc_rx_pause_seconds_total{switch=\"lab\",port=\"p0\",priority=\"3\"} 1.5",
        "weir_pfc_rx_lossy_frames_total{switch=\"lab\",port=\"p0\"} 101",
        "weir_lldp_tx_frames_total{switch=\"lab\",port=\"p0\"} 6",
        "weir_port_stations{switch=\"lab\",port=\"p0\"} 11",
        "weir_port_station_moves_total{switch=\"lab\",port=\"p0\"} 14",
        "weir_port_stations_refused_frames_total{switch=\"lab\",port=\"p0\"} 13",
        "weir_lldp_pfc_mismatches{switch=\"lab\",port=\"p0\"} 1",
        "weir_priority_group_held_bytes{switch=\"lab\",port=\"p0\",priority=\"3\",segment=\"shared\"} 3000",
        "weir_priority_group_held_bytes{switch=\"lab\",port=\"p0\",priority=\"3\",segment=\"headroom\"} 200",
        "weir_priority_group_watermark_bytes{switch=\"lab\",port=\"p0\",priority=\"3\",segment=\"shared\"} 5000",
        "weir_priority_group_persistent_watermark_bytes{switch=\"lab\",port=\"p0\",priority=\"3\",segment=\"shared\"} 7000",
        "weir_priority_group_threshold_bytes{switch=\"lab\",port=\"p0\",priority=\"3\"} 4000",
        "weir_priority_group_headroom_limit_bytes{switch=\"lab\",port=\"p0\",priority=\"3\"} 600",
        "weir_policy_off{switch=\"lab\",port=\"p0\",priority=\"3\"} 1",
        "weir_policy_gauge{switch=\"lab\",port=\"p0\",priority=\"3\",gauge=\"port state\"} 1",
        "weir_flow_control_rx_messages_total{switch=\"lab\",port=\"p1\",flow_control=\"gfc-buffer\"} 7",
        "weir_flow_control_rate_bytes{switch=\"lab\",port=\"p1\",flow_control=\"gfc-buffer\",priority=\"3\"} 625000000",
        "weir_buffer_pool_persistent_watermark_bytes{switch=\"lab\",pool=\"shared\"} 7000",
        "weir_port_speed_bytes{switch=\"lab\",port=\"p0\"} 1250000000",
        "weir_pause_message_delay_seconds_bucket{le=\"0.000001024\",switch=\"lab\"} 1",
        "weir_pause_message_delay_seconds_bucket{le=\"0.000002048\",switch=\"lab\"} 3",
        "weir_pause_message_delay_seconds_bucket{le=\"+Inf\",switch=\"lab\"} 4",
        "weir_pause_message_delay_seconds_count{switch=\"lab\"} 4",
        "weir_pause_message_delay_seconds_sum{switch=\"lab\"} 0.000008",
        "weir_pause_message_delay_max_seconds{switch=\"lab\"} 0.000004",
        "weir_pause_reaction_seconds_count{switch=\"lab\"} 0",
        "weir_lcore_packets_total{cpu=\"1\"} 64",
        "weir_lcore_timed_packets_total{cpu=\"1\"} 60",
        "weir_lcore_timed_seconds_total{cpu=\"1\"} 0.000006",
        "weir_lcore_tsc_hertz{cpu=\"1\"} 2000000000",
        "weir_lcore_cpu_waited_seconds_total{cpu=\"1\"} 1.5",
        "weir_lcore_poll_gap_seconds_bucket{le=\"1.28e-7\",cpu=\"1\"} 6",
        "weir_lcore_poll_gap_seconds_bucket{le=\"2.56e-7\",cpu=\"1\"} 11",
        "weir_lcore_poll_gap_seconds_bucket{le=\"+Inf\",cpu=\"1\"} 12",
        "weir_lcore_poll_gap_seconds_count{cpu=\"1\"} 12",
        "weir_port_drops_total{switch=\"lab\",port=\"p0\",reason=\"headroom_violation\",direction=\"rx\",priority=\"3\"} 2",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains("weir_lcore_cpu_stolen_seconds_total{"), "the kernel does not tell");
    assert!(text.ends_with("# EOF\n"));
}

/// OpenMetrics requires one description of each family, before its values, whose names begin with the family's.
#[test]
fn families_are_described_once() {
    let text = metrics().text();
    let mut seen = std::collections::BTreeSet::new();
    let mut family = "";
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, _) = described.split_once(' ').unwrap();
            assert!(seen.insert(name), "{name} is described twice");
        } else if let Some(described) = line.strip_prefix("# HELP ") {
            family = described.split_once(' ').unwrap().0;
        } else if !line.starts_with("# UNIT ") {
            assert!(line.starts_with(family), "{line} is not of {family}");
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn the_older_format_names_counters_as_their_values() {
    let text = plain(&metrics().text());
    assert!(
        text.contains("# TYPE weir_pfc_rx_pause_seconds_total counter\nweir_pfc_rx_pause_seconds_total{"),
        "{text}"
    );
    assert!(
        text.contains("# TYPE weir_port_link_up gauge\n")
            && text.contains("# TYPE weir_lcore_poll_gap_seconds histogram\n")
    );
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}
