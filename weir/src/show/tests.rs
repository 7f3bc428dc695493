//! Expected texts of tables, and arguments.

use clap::Parser;
use weir_control::state::*;

use super::commands::{COMMANDS, Rows};
use super::*;

const NONE: ByClass = [0; 8];

fn at_three(value: u64) -> ByClass {
    std::array::from_fn(|class| if class == 3 { value } else { 0 })
}

fn shown(state: State) -> Reply {
    Reply::Switches(vec![ViewReply { switch: "lab".into(), counters_cleared_unix_ms: None, state }])
}

fn view(path: &str) -> View {
    let command = COMMANDS.iter().find(|of| of.path == path);
    let command = command.unwrap_or_else(|| panic!("no command {path}"));
    View { command, port: None, rows: Rows::All, period: None }
}

fn text(path: &str, reply: &Reply) -> String {
    view(path).text(reply, &[]).expect("a reply to this view")
}

/// Text without its empty first line and its indentation.
fn lines(text: &str) -> String {
    let lines = text.lines().skip(1).map(|line| line.strip_prefix("        ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n"
}

fn interfaces() -> Vec<Interface> {
    let rx = Traffic {
        frames: 1_234_567,
        bytes: 1_234_567_000,
        bits_per_second: Some(998_000_000),
        frames_per_second: Some(124_750),
        dropped: 3,
        errors: 1,
        lost_at_device: None,
    };
    let port = |name: &str, link_up| Interface {
        port: name.into(),
        link: None,
        device: "tap \"t0\"".into(),
        link_up,
        state: "up".into(),
        forced_pause: Vec::new(),
        rate_bps: Some(10_000_000_000),
        flow_control: "pfc".into(),
        rx,
        tx: Traffic { lost_at_device: Some(1_000), ..Traffic::default() },
        stations: Stations { learned: 2, max: Some(2), refused_frames: 1_234, moves: 7 },
    };
    let idle = Traffic { bits_per_second: Some(0), lost_at_device: Some(1_000), ..Traffic::default() };
    vec![port("p0", true), Interface { rate_bps: None, tx: idle, ..port("uplink", false) }]
}

#[test]
fn interfaces_have_sonics_columns() {
    let reply = shown(State::Interfaces(interfaces()));
    let expected = "
          IFACE   STATE   SPEED      RX_OK   RX_BPS  RX_UTIL  RX_DRP  RX_OVR  TX_OK  TX_BPS  TX_UTIL  TX_DRP  TX_OVR
          ----------------------------------------------------------------------------------------------------------
          p0          U  10Gbps  1,234,567  998Mbps    9.98%       3     N/A      0     N/A      N/A       0   1,000
          uplink      D     N/A  1,234,567  998Mbps      N/A       3     N/A      0    0bps      N/A       0   1,000
        ";
    assert_eq!(text("interfaces", &reply), lines(expected));
}

#[test]
fn ports_have_stations() {
    let mut ports = interfaces();
    ports[1].stations = Stations::default();
    let expected = "
          Port    Stations  Maximum  Moves  Not learned
          ---------------------------------------------
          p0             2        2      7        1,234
          uplink         0     none      0            0
        ";
    assert_eq!(text("interfaces stations", &shown(State::Interfaces(ports))), lines(expected));
}

fn pfc_port() -> PfcCounters {
    PfcCounters {
        port: "p0".into(),
        rx: at_three(12_345),
        tx: NONE,
        rx_pauses: at_three(6),
        rx_paused_us: at_three(1_000_000),
        rx_last_pause: std::array::from_fn(|class| {
            (class == 3).then_some(LastPause { unix_ms: 1_764_078_414_123, us: 51_200 })
        }),
        tx_pauses: NONE,
        tx_paused_us: NONE,
        rx_lossy: 0,
    }
}

#[test]
fn pfc_counters_have_sonics_columns() {
    let reply = shown(State::PfcCounters(vec![pfc_port()]));
    let expected = "
          Port Rx  PFC0  PFC1  PFC2    PFC3  PFC4  PFC5  PFC6  PFC7
          ---------------------------------------------------------
          p0          0     0     0  12,345     0     0     0     0

          Port Tx  PFC0  PFC1  PFC2  PFC3  PFC4  PFC5  PFC6  PFC7
          -------------------------------------------------------
          p0          0     0     0     0     0     0     0     0
        ";
    assert_eq!(text("pfc counters", &reply), lines(expected));
    let history = text("pfc counters --history", &reply);
    let head = "  Port  Priority  RX Pause Transitions  Total RX Pause Time US  Recent RX Pause Time US  Recent RX Pause Timestamp";
    assert_eq!(history.lines().next(), Some(head));
    let at_three = "  p0        PFC3                     6               1,000,000                   51,200   2025-11-25T13:46:54.123Z";
    assert!(history.lines().any(|line| line == at_three), "{history}");
    let never = "  p0        PFC4                     0                       0                      N/A                        N/A";
    assert!(history.lines().any(|line| line == never), "{history}");
    assert_eq!(history.lines().count(), 2 + 8);
}

#[test]
fn delays_are_listed_by_lengths_that_occurred() {
    let delay = |messages: [u64; 5]| Delay {
        count: messages.iter().sum(),
        p50_ns: 1_000,
        p99_ns: 2_000,
        p999_ns: 3_000,
        max_ns: 40_000,
        sum_ns: 50_000,
        lengths: std::iter::zip([Some(128), Some(256), Some(512), Some(1_024), None], messages)
            .map(|(up_to_ns, messages)| DelayBucket { up_to_ns, messages })
            .collect(),
    };
    let delays = PauseDelays { message: delay([0, 1_700, 0, 0, 0]), reaction: delay([0, 0, 0, 4, 1]) };
    let expected = "
          Delay              Measured  p50 us  p99 us  p99.9 us  Longest us
          -----------------------------------------------------------------
          Xoff to message       1,700     1.0     2.0       3.0        40.0
          message to obeyed         5     1.0     2.0       3.0        40.0

          Up to us  Xoff to message  message to obeyed
          --------------------------------------------
          0.256               1,700                  0
          0.512                   0                  0
          1.024                   0                  4
          longer                  0                  1
        ";
    assert_eq!(text("pfc delays", &shown(State::PauseDelays(delays))), lines(expected));
    let none = text("pfc delays", &shown(State::PauseDelays(PauseDelays::default())));
    assert_eq!(none.lines().count(), 4, "no table by length: {none}");
}

#[test]
fn watermarks_have_a_column_for_each_class() {
    let ports = vec![PriorityGroups {
        port: "p0".into(),
        frames: NONE,
        bytes: NONE,
        private_bytes: NONE,
        shared_bytes: NONE,
        headroom_bytes: NONE,
        shared_watermark_bytes: at_three(1),
        headroom_watermark_bytes: at_three(2),
        shared_persistent_watermark_bytes: at_three(3),
        headroom_persistent_watermark_bytes: at_three(4_000),
        dropped: at_three(5),
    }];
    let reply = shown(State::PriorityGroups(ports));
    let views = [
        ("priority-group watermark shared", "Ingress shared pool occupancy per PG:", "1"),
        ("priority-group watermark headroom", "Ingress headroom per PG:", "2"),
        ("priority-group persistent-watermark shared", "Ingress shared pool occupancy per PG:", "3"),
        ("priority-group persistent-watermark headroom", "Ingress headroom per PG:", "4000"),
        ("priority-group drop", "Ingress PG dropped packets:", "5"),
    ];
    for (view, title, value) in views {
        let text = text(view, &reply);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(text.lines().next(), Some(title));
        assert_eq!(lines[1], ["Port", "PG0", "PG1", "PG2", "PG3", "PG4", "PG5", "PG6", "PG7"]);
        assert_eq!(lines[3], ["p0", "0", "0", "0", value, "0", "0", "0", "0"], "{text}");
    }
}

#[test]
fn the_watchdog_has_sonics_columns() {
    let all = StormPackets { tx: 1, tx_dropped: 2_000, rx: 3, rx_dropped: 4 };
    let last = StormPackets { tx: 5, tx_dropped: 6, rx: 7, rx_dropped: 8 };
    let queue = WatchedQueue { port: "p0".into(), queue: 3, in_storm: true, detected: 2, restored: 1, all, last };
    let expected = "
          QUEUE   STATUS  STORM DETECTED/RESTORED  TX OK/DROP  RX OK/DROP  TX LAST OK/DROP  RX LAST OK/DROP
          -------------------------------------------------------------------------------------------------
          p0:3   stormed                      2/1      1/2000         3/4              5/6              7/8
        ";
    let text = text("pfc watchdog", &shown(State::PfcWatchdog(vec![queue])));
    assert_eq!(text, lines(expected));
}

#[test]
fn addresses_are_numbered_and_counted() {
    let entry = |mac: &str, is_static| MacEntry { vlan: None, mac: mac.into(), port: "p0".into(), is_static };
    let entries = vec![entry("02:00:00:00:00:01", true), entry("02:00:00:00:00:02", false)];
    let expected = "
          No.         MacAddress  Port     Type
          -------------------------------------
          1    02:00:00:00:00:01    p0   Static
          2    02:00:00:00:00:02    p0  Dynamic
        Total number of entries 2
        ";
    assert_eq!(text("mac", &shown(State::Mac(entries))), lines(expected));
}

#[test]
fn a_run_of_several_switches_and_cleared_counters_say_so() {
    let part = |switch: &str, counters_cleared_unix_ms| ViewReply {
        switch: switch.into(),
        counters_cleared_unix_ms,
        state: State::Losses(Vec::new()),
    };
    let reply = Reply::Switches(vec![part("left", None), part("right", Some(1_700_000_000_123))]);
    let losses = text("losses", &reply);
    let said = "right\nCounters since 2023-11-14T22:13:20.123Z, when they were cleared\n";
    assert!(losses.starts_with("left\n  Port") && losses.contains(said), "{losses}");
    // Watermarks have a base of their own.
    let pools = ViewReply { state: State::BufferPools(Vec::new()), ..part("lab", Some(0)) };
    let pools = text("buffer pool", &Reply::Switches(vec![pools]));
    assert!(!pools.contains("cleared"), "{pools}");
}

#[test]
fn lcores_show_their_work_and_their_gaps_by_powers_of_two() {
    let lcore = |cpu, gaps: &[(u64, u64)]| Lcore {
        cpu,
        roles: vec!["lab: RX 0 + FWD 0".into()],
        polls: 2_000,
        busy_polls: 500,
        work: match cpu {
            0 => LcoreWork {
                packets: 6_400,
                bursts: 250,
                timed_packets: 6_000,
                timed_ns: 300_000,
                tsc_hz: 3_000_000_000,
            },
            _ => LcoreWork::default(),
        },
        gap_p50_ns: 900,
        gap_p99_ns: 1_500,
        gap_p999_ns: 2_000,
        gap_max_ns: 20_000,
        gaps: gaps.iter().map(|(up_to_ns, polls)| GapBucket { up_to_ns: *up_to_ns, polls: *polls }).collect(),
        cpu_waited_ms: Some(7),
        cpu_preempted: None,
        cpu_stolen_ms: None,
    };
    let reply = Reply::Lcores(vec![lcore(0, &[(895, 10), (1_023, 5)]), lcore(2, &[(1_279, 1)])]);
    let text = text("lcores", &reply);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[2][..7], ["0", "25.0", "2,000", "6,400", "25.6", "150", "50.0"], "{text}");
    assert_eq!(rows[3][..7], ["2", "25.0", "2,000", "0", "-", "-", "-"], "{text}");
    assert_eq!(rows[7], ["0", "0.9", "1.5", "2.0", "20.0", "7", "N/A", "N/A"], "{text}");
    assert!(rows.contains(&vec!["1.024", "15", "0"]) && rows.contains(&vec!["2.048", "0", "1"]), "{text}");
}

#[test]
fn a_policy_or_flow_control_that_is_not_there_is_told() {
    let policy = |name: &str| shown(State::Policy(PolicyState { policy: name.into(), queues: Vec::new() }));
    assert!(view("dsh").filter_reply(policy("dsh"), &[]).is_ok());
    let victim = PolicyQueue {
        port: "p0".into(),
        class: 3,
        shared_bytes: 1_000,
        headroom_bytes: 0,
        threshold_bytes: 2_000,
        headroom_limit_bytes: 60_000,
        off: false,
        port_off: true,
        gauges: [("victim".to_owned(), 1)].into(),
    };
    let spfc = PolicyState { policy: "spfc".into(), queues: vec![victim] };
    let spfc = shown(State::Policy(spfc));
    let of_any = text("policy", &spfc);
    assert!(of_any.contains("Buffer policy: spfc\n") && of_any.contains("victim"), "{of_any}");
    let rows = text("spfc", &spfc);
    let row: Vec<&str> = rows.lines().last().unwrap_or_default().split_whitespace().collect();
    assert_eq!(row, ["p0", "3", "port", "OFF", "1,000", "2,000", "0", "60,000", "victim"], "{rows}");
    assert_eq!(
        view("spfc").filter_reply(policy("dt"), &[]).unwrap_err(),
        "no switch of this run has the buffer policy spfc: lab has dt"
    );
    assert!(view("policy").filter_reply(policy("one-of-its-own"), &[]).is_ok());
    let port = |name: &str, kind: &str| FlowControlPort {
        port: name.into(),
        flow_control: kind.into(),
        messages_rx: 1,
        messages_tx: 2,
        invalid: 0,
        foreign: 0,
        aged: 0,
        resyncs: 0,
        rate_bps: Some(10_000_000_000),
        classes: vec![FlowControlClass {
            class: 3,
            ingress_bytes: 1_000,
            egress_bytes: 0,
            rate_rx_bps: Some(5_000_000_000),
            gauges: [("stage".to_owned(), 2)].into(),
        }],
    };
    let ports = || shown(State::FlowControl(vec![port("p0", "gfc-buffer"), port("p1", "gfc-time")]));
    assert!(view("cbfc").filter_reply(ports(), &[]).unwrap_err().contains("speaks CBFC"));
    let by_cells = shown(State::FlowControl(vec![port("p0", "uec-cbfc")]));
    assert!(view("cbfc").filter_reply(by_cells, &[]).is_ok());
    let own = || shown(State::FlowControl(vec![port("p0", "one-of-its-own")]));
    assert!(text("flow-control", &view("flow-control").filter_reply(own(), &[]).unwrap()).contains("one-of-its-own"));
    assert!(view("gfc").filter_reply(own(), &[]).is_err());
    let none = view("flow-control").filter_reply(shown(State::FlowControl(Vec::new())), &[]).unwrap_err();
    assert!(none.contains("speaks more than PFC or PAUSE"), "{none}");
    let text = text("gfc", &view("gfc").filter_reply(ports(), &[]).unwrap());
    assert!(text.contains("gfc-buffer") && text.contains("5Gbps") && text.contains("stage"), "{text}");
}

/// A reply of another kind than requested makes no table.
#[test]
fn another_views_state_makes_no_table() {
    assert!(view("mac").text(&shown(State::Interfaces(Vec::new())), &[]).is_none());
    assert!(view("lcores").text(&Reply::Done(Vec::new()), &[]).is_none());
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: ShowArguments,
}

#[test]
fn options_stand_before_and_after_what_is_shown() {
    let parse = |line: &str| Line::try_parse_from(line.split(' ')).map(|line| line.arguments);
    let after = parse("show pfc counters --history --json --watch 0.5 -p p0 --port p1 --switch lab")
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(after.view.command.path, "pfc counters --history");
    assert_eq!((after.watch, after.json), (Some(Duration::from_millis(500)), true));
    assert_eq!(
        (after.port.as_slice(), after.target.switch.as_deref()),
        (&["p0".to_owned(), "p1".to_owned()][..], Some("lab"))
    );
    let before = parse("show --json interfaces --watch").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((before.view.command.path, before.watch), ("interfaces", Some(Duration::from_secs(2))));
    let group = parse("show priority-group persistent-watermark headroom").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(group.view.command.path, "priority-group persistent-watermark headroom");
    for wrong in [
        "show",
        "show pfc",
        "show priority-group watermark",
        "show mac --watch 0",
        "show mac --watch x",
        "show interfaces counters -p p0",
        "show interfaces counters --period 0",
        "show interfaces counters detailed",
        "show pfc counters --period 5",
        "show weather",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

/// Commands as SONiC's operators type them, and heads of their tables in sonic-utilities' tests (commit 691b1bbc): portstat_test.py,
/// pfcstat_input, queue_counter_test.py, wm_input, pgdropstat_test.py, pfcwd_input, pfc_input, ecn_input, intfutil_test.py.
#[test]
fn sonics_commands_have_its_columns() {
    const CLASSES: [&str; 3] = ["PG", "UC", "ALL"];
    let by_class = |column: &str| {
        let columns: Vec<String> = (0..8).map(|class| format!("{column}{class}")).collect();
        format!("Port {}", columns.join(" "))
    };
    let [groups, queues, all] = CLASSES.map(by_class);
    let shared = "Ingress shared pool occupancy per PG:";
    let pools = "Shared pool maximum occupancy:";
    let unicast = "Egress shared pool occupancy per unicast queue:";
    let counters = "IFACE STATE RX_OK RX_BPS RX_UTIL RX_ERR RX_DRP RX_OVR TX_OK TX_BPS TX_UTIL TX_ERR TX_DRP TX_OVR";
    let watchdog = "QUEUE STATUS STORM DETECTED/RESTORED TX OK/DROP RX OK/DROP TX LAST OK/DROP RX LAST OK/DROP";
    let watched = "PORT ACTION DETECTION TIME RESTORATION TIME HISTORY";
    let history =
        "Port Priority RX Pause Transitions Total RX Pause Time US Recent RX Pause Time US Recent RX Pause Timestamp";
    for (line, heads) in [
        ("show interfaces counters", &[counters][..]),
        ("show interfaces counters -i p0", &[counters]),
        ("show interfaces counters -i Ethernet4,p0-4", &[counters]),
        ("show interfaces counters --nonzero", &[counters]),
        ("show interfaces counters --period 5", &["The rates are calculated within 5 seconds period", counters]),
        ("show interfaces counters -p 5 -i p0", &["The rates are calculated within 5 seconds period", counters]),
        ("show interfaces counters -d all --verbose", &[counters]),
        (
            "show interfaces counters detailed p0",
            &[
                "Packets Received 64 Octets..................... N/A",
                "Overruns Received.............................. N/A",
            ],
        ),
        ("show interfaces description p0", &["Interface Oper Admin Alias Description", "p0 up up N/A tap \"t0\""]),
        ("show interfaces switchport status", &["Interface Mode", "p0 access", "p1 trunk"]),
        ("show interfaces switchport config", &["Interface Mode Untagged Tagged", "p1 trunk 10 20,30"]),
        ("show dropcounters counts", &["IFACE STATE RX_ERR RX_DROPS TX_ERR TX_DROPS", "p0 U 1 2 0 0"]),
        (
            "show interfaces counters -a --nonzero",
            &[
                "IFACE STATE RX_OK RX_BPS RX_PPS RX_UTIL RX_ERR RX_DRP RX_OVR TX_OK TX_BPS TX_PPS TX_UTIL TX_ERR TX_DRP TX_OVR \
                 TRIM TRIM_TX TRIM_DRP",
            ],
        ),
        ("show interfaces counters trim p0", &["IFACE STATE TRIM_PKTS TRIM_TX_PKTS TRIM_DRP_PKTS", "p0 U N/A N/A N/A"]),
        (
            "show interfaces counters fec-stats",
            &[
                "IFACE STATE FEC_CORR FEC_UNCORR FEC_SYMBOL_ERR FEC_PRE_BER FEC_POST_BER FEC_PRE_BER_MAX FLR(O) FLR(P) (Accuracy) \
                 FEC_MAX_T",
            ],
        ),
        ("show interfaces counters fec-histogram p0", &["Symbol Errors Per Codeword Codewords", "BIN15 N/A"]),
        ("show interface counters errors -p 1", &["IFACE STATE RX_ERR RX_DRP RX_OVR TX_ERR TX_DRP TX_OVR"]),
        (
            "show int counters rates",
            &[
                "IFACE STATE RX_OK RX_BPS RX_PPS RX_UTIL TX_OK TX_BPS TX_PPS TX_UTIL",
                "p0 U 1,234,567 124.75 MB/s 124750.00/s 9.98% 0 N/A N/A N/A",
            ],
        ),
        ("show interfaces status", &["Interface Lanes Speed MTU FEC Alias Vlan Oper Admin Type Asym PFC"]),
        ("show interfaces status p0", &["Interface Lanes Speed MTU FEC Alias Vlan Oper Admin Type Asym PFC"]),
        (
            "show pfc counters",
            &["Port Rx PFC0 PFC1 PFC2 PFC3 PFC4 PFC5 PFC6 PFC7", "Port Tx PFC0 PFC1 PFC2 PFC3 PFC4 PFC5 PFC6 PFC7"],
        ),
        ("show pfc counters --history", &[history]),
        ("show pfc priority", &["Interface Lossless priorities"]),
        ("show pfc asymmetric", &["Interface Asymmetric"]),
        ("show pfcwd stats", &[watchdog]),
        ("show pfcwd stats --empty", &[watchdog]),
        ("show pfcwd config", &["Changed polling interval to 200ms", watched]),
        ("show queue counters", &["Port TxQ Counter/pkts Counter/bytes Drop/pkts Drop/bytes"]),
        ("show queue counters p0", &["Port TxQ Counter/pkts Counter/bytes Drop/pkts Drop/bytes"]),
        (
            "show queue counters -a --nonzero",
            &["Port TxQ Counter/pkts Counter/bytes Drop/pkts Drop/bytes Trim/pkts TrimSent/pkts TrimDrop/pkts"],
        ),
        ("show queue counters -T", &["Port TxQ Trim/pkts TrimSent/pkts TrimDrop/pkts"]),
        ("show queue counters p0 --nonzero", &["Port TxQ Counter/pkts Counter/bytes Drop/pkts Drop/bytes"]),
        ("show queue watermark unicast", &[unicast, &queues]),
        ("show queue watermark all", &["Egress shared pool occupancy per all queues:", &all]),
        (
            "show queue watermark multicast",
            &[
                "Object map from the COUNTERS_DB is empty because the multicast queues are not configured in the CONFIG_DB!",
            ],
        ),
        ("show queue persistent-watermark unicast", &[unicast, &queues]),
        ("show queue persistent-watermark all", &["Egress shared pool occupancy per all queues:", &all]),
        ("show queue wredcounters --nonzero", &["Port TxQ WredDrp/pkts WredDrp/bytes EcnMarked/pkts EcnMarked/bytes"]),
        ("show priority-group watermark shared", &[shared, &groups]),
        ("show priority-group watermark headroom", &["Ingress headroom per PG:", &groups]),
        ("show priority-group persistent-watermark shared", &[shared, &groups]),
        ("show priority-group persistent-watermark headroom", &["Ingress headroom per PG:", &groups]),
        ("show priority-group drop counters", &["Ingress PG dropped packets:", &groups]),
        ("show buffer_pool watermark", &[pools, "Pool Bytes"]),
        ("show buffer_pool persistent-watermark", &[pools, "Pool Bytes"]),
        ("show headroom-pool watermark", &["Headroom pool maximum occupancy:", "Pool Bytes"]),
        ("show headroom-pool persistent-watermark", &["Headroom pool maximum occupancy:", "Pool Bytes"]),
        ("show ecn", &["Profile: queue3", "green_min_threshold 1000", "green_drop_probability 5"]),
        ("show qos map dscp-tc", &["DSCP TC"]),
        ("show qos map tc-queue", &["TC QUEUE"]),
    ] {
        let arguments =
            Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}")).arguments;
        if line.ends_with(" p0") {
            assert_eq!(arguments.ports(), ["p0"], "{line}");
        }
        let text = arguments.view.text(&reply_to(&arguments.request()), &arguments.ports());
        let text = text.unwrap_or_else(|| panic!("{line}: another view's reply"));
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for head in heads {
            assert!(lines.iter().any(|line| line == head), "{line}: {head}\n{text}");
        }
    }
}

#[test]
fn sonics_tools_and_short_options_are_words_of_show() {
    for (line, expected) in [
        ("weir queuestat -nz p0", "weir show queue counters --nonzero p0"),
        ("weir queuestat -c", "weir clear counters"),
        ("weir pfcstat -c", "weir clear counters"),
        ("weir portstat", "weir show interfaces counters"),
        ("weir portstat -a -nz", "weir show interfaces counters --printall --nonzero"),
        ("weir portstat -e -p 5", "weir show interfaces counters errors -p 5"),
        ("weir portstat -i p0,p1 --rate", "weir show interfaces counters rates -i p0,p1"),
        ("weir portstat -l -i p0 -p 2", "weir show interfaces counters detailed p0 -p 2"),
        ("weir portstat -l", "weir show interfaces counters"),
        ("weir portstat -c", "weir clear counters"),
        ("weir show mmu -vv", "weir show mmu --verbose"),
        ("weir run -vv", "weir run -vv"),
    ] {
        let words = crate::without_sonics_tools(line.split(' ').map(Into::into).collect());
        assert_eq!(words, expected.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn commands_of_the_whole_switch_take_no_port() {
    for line in ["show ecn p0", "show qos map dscp-tc p0", "show buffer_pool watermark p0", "show lcores p0"] {
        assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
    for line in ["show ecn -i p0", "show qos map tc-queue --port p0", "show headroom-pool watermark -i p0"] {
        let arguments =
            Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}")).arguments;
        let Err(Failure::Argument(message)) = arguments.ask(&arguments.request()) else { panic!("{line}") };
        assert!(message.contains("of the whole switch; leave out p0"), "{line}: {message}");
    }
    let arguments = Line::try_parse_from("show pfc priority p1-1".split(' ')).unwrap().arguments;
    let text = arguments.view.text(&reply_to(&arguments.request()), &arguments.ports()).unwrap();
    assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), ["  p1         3,4"]);
}

#[test]
fn ranges_of_numbers_name_ports() {
    for (name, port, is_meant) in [
        ("Ethernet12-16", "Ethernet12", true),
        ("Ethernet12-16", "Ethernet16", true),
        ("Ethernet12-16", "Ethernet17", false),
        ("p-1", "p-1", true),
        ("p-1", "p1", false),
        ("", "p1", false),
    ] {
        assert_eq!(names_port(name, port), is_meant, "{name} {port}");
    }
}

/// Reply to a request, with a row or none.
fn reply_to(request: &Request) -> Reply {
    let Request::Show(ShowRequest { what, .. }) = request else {
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nnull = {{}}\nrate = \"10Gbps\"\nvlan = 10\n");
        let ports = port("p0") + &port("p1") + "tagged = [20, 30]\n";
        let ecn = "[[classes.queues]]\nclass = 3\necn = { kmin = \"1000B\", kmax = \"2000B\", pmax = 0.05 }\n";
        let text = format!("[buffer]\nheadroom = \"60KB\"\n[pfc_watchdog]\n{ecn}{ports}");
        let (switch, file) = ("lab".to_owned(), "lab.toml".to_owned());
        return Reply::Configurations(vec![weir_control::runtime_config::Configuration {
            switch,
            file,
            text,
            for_a_time: Vec::new(),
        }]);
    };
    use weir_control::protocol::ShowView;
    shown(match what {
        ShowView::Interfaces => State::Interfaces(interfaces()),
        ShowView::PfcCounters => State::PfcCounters(vec![pfc_port()]),
        ShowView::PfcWatchdog => State::PfcWatchdog(Vec::new()),
        ShowView::PriorityGroups => State::PriorityGroups(Vec::new()),
        ShowView::Queues => State::Queues(Vec::new()),
        ShowView::BufferPools => State::BufferPools(Vec::new()),
        other => panic!("{other:?}"),
    })
}

#[test]
fn maps_of_ports_have_their_ports() {
    let port = |name: &str, keys: &str| {
        format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n{keys}\n")
    };
    let file = |keys: &str| port("p0", "") + &port("p1", keys) + &port("p2", "");
    let config = |keys: &str| weir_config::parse("lab.toml", &file(keys)).unwrap();
    assert!(!super::sonic_config::dscp_map(&config("")).contains("Ports"));
    let own = super::sonic_config::dscp_map(&config("dscp = { 26 = 3 }"));
    let (most, own) = own.split_once("Ports: p1\n").unwrap();
    let row = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).any(|line| line == "26 3")
    };
    assert!(most.starts_with("Ports: p0, p2\n") && !row(most) && row(own), "{own}");
    assert!(!super::sonic_config::pcp_map(&config("dscp = { 26 = 3 }")).contains("Ports"));
}

#[test]
fn rows_without_counts_are_left_out_on_request() {
    let text = |path, reply: &Reply| View { rows: Rows::Counted, ..view(path) }.text(reply, &[]).unwrap();
    let idle = Interface { rx: Traffic::default(), tx: Traffic::default(), ..interfaces().remove(0) };
    let reply = shown(State::Interfaces(vec![idle, interfaces().remove(1)]));
    for path in ["interfaces counters", "interfaces counters --printall", "interfaces counters errors"] {
        let table = text(path, &reply);
        assert!(table.contains("uplink") && !table.contains("p0"), "{table}");
    }
    let queues = Queues {
        port: "p0".into(),
        frames: [0, 0, 5, 0, 0, 0, 0, 0],
        bytes: [0, 0, 500, 0, 0, 0, 0, 0],
        ce_marked: [0, 0, 1, 0, 0, 0, 0, 0],
        dropped: [0, 0, 0, 0, 1, 0, 0, 0],
        held_bytes: [0; 8],
        watermark_bytes: [0; 8],
        persistent_watermark_bytes: [0; 8],
    };
    let queues = shown(State::Queues(vec![queues]));
    let rows = |path| -> Vec<String> {
        let table = text(path, &queues);
        table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1).filter(|queue| queue.starts_with("UC")))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(rows("queue counters"), ["UC2", "UC4"]);
    assert_eq!(rows("queue wredcounters"), ["UC2"]);
    let stormed = |detected| WatchedQueue {
        port: "p0".into(),
        queue: 3,
        in_storm: detected > 0,
        detected,
        restored: 0,
        all: StormPackets::default(),
        last: StormPackets::default(),
    };
    let watched = |detected| shown(State::PfcWatchdog(vec![stormed(detected)]));
    let has_row = |path, detected| super::tests::text(path, &watched(detected)).contains("p0:3");
    assert!(has_row("pfcwd stats", 1) && !has_row("pfcwd stats", 0) && has_row("pfcwd stats --empty", 0));
    assert_eq!([0, 1].map(|detected| storm(&watched(detected))), [None, Some("p0:3".to_owned())]);
    assert_eq!(super::tests::text("pfcwd stats --check-storm", &watched(0)), "");
}

/// Counts and rates over a period; counters that were cleared in between count from then on.
#[test]
fn a_period_has_its_own_counts() {
    let mut ports = interfaces();
    let earlier = ports.clone();
    ports[0].rx.frames += 1_000;
    ports[0].rx.bytes += 5_000_000;
    ports[0].tx.lost_at_device = Some(1_007);
    ports[1].rx = Traffic { frames: 3, ..Traffic::default() };
    let reply =
        counted_since(shown(State::Interfaces(ports)), &shown(State::Interfaces(earlier)), Duration::from_secs(5));
    let view = View { period: Some(Duration::from_secs(5)), ..view("interfaces counters") };
    let expected = "
        The rates are calculated within 5 seconds period
          IFACE   STATE  RX_OK        RX_BPS  RX_UTIL  RX_ERR  RX_DRP  RX_OVR  TX_OK    TX_BPS  TX_UTIL  TX_ERR  TX_DRP  TX_OVR
          ---------------------------------------------------------------------------------------------------------------------
          p0          U  1,000  1000.00 KB/s    0.08%       0       0     N/A      0  0.00 B/s    0.00%       0       0       7
          uplink      D      3      0.00 B/s      N/A       0       0     N/A      0  0.00 B/s      N/A       0       0       0
        ";
    assert_eq!(view.text(&reply, &[]).unwrap(), lines(expected));
}

/// Lines of sonic-utilities' portstat, cnstat_intf_diff_print.
#[test]
fn counter_lines_are_sonics_lines() {
    let state = State::Interfaces(vec![interfaces().remove(0)]);
    let reply = ViewReply { switch: "lab".into(), counters_cleared_unix_ms: Some(1_764_078_414_123), state };
    let text = text("interfaces counters detailed", &Reply::Switches(vec![reply]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 42, "{text}");
    assert_eq!(lines[11], "Total Packets Received Without Errors.......... 1,234,567");
    assert_eq!(lines[19], "Overruns Received.............................. N/A");
    assert_eq!(lines[30], "Packets Transmitted 9217-16383 Octets.......... N/A");
    assert_eq!(lines[32], "Total Packets Transmitted Successfully......... 0");
    assert_eq!(lines[37], "Trimmed Packets................................ N/A");
    assert_eq!(lines[41], "Time Since Counters Last Cleared............... 2025-11-25T13:46:54.123Z");
}

#[test]
fn rates_and_errors_are_in_sonics_units() {
    let reply = shown(State::Interfaces(interfaces()));
    let expected = "
          IFACE   STATE      RX_OK       RX_BPS  RX_UTIL  RX_ERR  RX_DRP  RX_OVR  TX_OK    TX_BPS  TX_UTIL  TX_ERR  TX_DRP  TX_OVR
          ------------------------------------------------------------------------------------------------------------------------
          p0          U  1,234,567  124.75 MB/s    9.98%       1       2     N/A      0       N/A      N/A       0       0   1,000
          uplink      D  1,234,567  124.75 MB/s      N/A       1       2     N/A      0  0.00 B/s      N/A       0       0   1,000
        ";
    assert_eq!(text("interfaces counters", &reply), lines(expected));
    let pool = |pool: &str, watermark_bytes| BufferPool {
        pool: pool.into(),
        size_bytes: 9_000_000,
        used_bytes: 0,
        watermark_bytes,
        persistent_watermark_bytes: 3_000_000,
    };
    let pools =
        shown(State::BufferPools(vec![pool("shared", 2_000_000), pool("headroom", 1_000), pool("egress_lossy", 0)]));
    let rows = |path: &str| -> Vec<String> {
        let text = text(path, &pools);
        text.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(rows("buffer_pool watermark"), ["ingress_lossless_pool 2000000", "egress_lossy_pool 0"]);
    assert_eq!(rows("headroom-pool watermark"), ["ingress_lossless_pool 1000"]);
    assert_eq!(rows("headroom-pool persistent-watermark"), ["ingress_lossless_pool 3000000"]);
}

fn lldp() -> Reply {
    let neighbour = LldpNeighbour {
        chassis_id: "02:00:00:00:00:01".into(),
        port_id: "Ethernet8".into(),
        ttl: 120,
        known_for_s: 90_061,
        port_description: Some("to weir".into()),
        system_name: Some("leaf".into()),
        capabilities: 1 << 2 | 1 << 4,
        pfc: Some(vec![3]),
        pfc_comparison: PfcComparison::Mismatch,
        ets_percent: Some([0, 10, 0, 90, 0, 0, 0, 0]),
        rocev2_class: Some(3),
        ..LldpNeighbour::default()
    };
    let port = |port: &str, neighbours| LldpPort {
        port: port.into(),
        rx: 1,
        tx: 2,
        malformed: 0,
        pfc: vec![3, 4],
        neighbours,
    };
    shown(State::Lldp(vec![port("p0", vec![neighbour]), port("p1", Vec::new())]))
}

#[test]
fn neighbours_have_sonics_columns() {
    let expected = "
        Capability codes: (R) Router, (B) Bridge, (O) Other
          LocalPort  RemoteDevice  RemotePortID  Capability  RemotePortDescr  PFC      Local PFC
          --------------------------------------------------------------------------------------
          p0                 leaf     Ethernet8          BR          to weir    3  3,4, MISMATCH
        --------------------------------------------------
        Total entries displayed:  1
        ";
    assert_eq!(text("lldp table", &lldp()), lines(expected));
    let expected = "
        -------------------------------------------------------------------------------
        LLDP neighbors:
        -------------------------------------------------------------------------------
        Interface:    p0, via: LLDP, RID: 1, Time: 1 day, 01:01:01
          Chassis:
            ChassisID:    02:00:00:00:00:01
            SysName:      leaf
            Capability:   Bridge, on
            Capability:   Router, on
          Port:
            PortID:       Ethernet8
            PortDescr:    to weir
            TTL:          120
          DCBX:
            PFC:          3, willing: no
            Local PFC:    3,4, MISMATCH
            ETS:          0% 10% 0% 90% 0% 0% 0% 0%
            RoCEv2:       3
        -------------------------------------------------------------------------------
        ";
    assert_eq!(text("lldp neighbors", &lldp()), lines(expected));
}
