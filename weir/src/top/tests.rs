//! Screens of a constant switch; `lab/tests/test_top.py` has those of a running one.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use weir_control::protocol::Hello;
use weir_control::state::{
    BufferConfiguration, BufferPool, BufferQueue, Interface, Loss, LossPlace, PfcCounters, PolicyQueue, PolicyState,
    PriorityGroups, Queues, Traffic,
};
use weir_units::CLASSES;

use super::screen::{Glyphs, Screen, Theme, View};
use super::snapshot::{Snapshot, SwitchSnapshot, format_bytes, format_rate};

const PLAIN: Theme = Theme { glyphs: Glyphs::BLOCKS, has_color: false };

fn at_three(n: u64) -> [u64; CLASSES] {
    std::array::from_fn(|class| if class == 3 { n } else { 0 })
}

/// A switch after so many seconds: 1 Gb/s come in at p0, whose peer is paused for a quarter of the time.
fn switch(name: &str, seconds: u64) -> SwitchSnapshot {
    let none = [0; CLASSES];
    let port = |port: &str, link_up| Interface {
        port: port.into(),
        device: "tap".into(),
        link: None,
        link_up,
        state: "up".into(),
        forced_pause: Vec::new(),
        rate_bps: Some(10_000_000_000),
        flow_control: "pfc".into(),
        rx: Traffic::default(),
        tx: Traffic::default(),
        stations: Default::default(),
    };
    let group = PriorityGroups {
        port: "p0".into(),
        frames: at_three(125_000 * seconds),
        bytes: at_three(125_000_000 * seconds),
        private_bytes: none,
        shared_bytes: at_three(500_000),
        headroom_bytes: at_three(100_000),
        shared_watermark_bytes: none,
        headroom_watermark_bytes: none,
        shared_persistent_watermark_bytes: none,
        headroom_persistent_watermark_bytes: none,
        dropped: none,
    };
    let pfc = PfcCounters {
        port: "p0".into(),
        rx: none,
        tx: at_three(seconds),
        rx_pauses: none,
        rx_paused_us: none,
        rx_last_pause: [None; 8],
        tx_pauses: none,
        tx_paused_us: at_three(250_000 * seconds),
        rx_lossy: 0,
    };
    let queue = Queues {
        port: "p1".into(),
        frames: at_three(7 * seconds),
        bytes: at_three(12_500_000 * seconds),
        ce_marked: none,
        dropped: none,
        held_bytes: at_three(600_000),
        watermark_bytes: none,
        persistent_watermark_bytes: none,
    };
    let limit = BufferQueue {
        port: "p0".into(),
        class: 3,
        lossless: true,
        private_bytes: 0,
        threshold_bytes: 500_000,
        headroom_bytes: 200_000,
    };
    let policy = PolicyQueue {
        port: "p0".into(),
        class: 3,
        shared_bytes: 500_000,
        headroom_bytes: 100_000,
        threshold_bytes: 500_000,
        headroom_limit_bytes: 200_000,
        off: true,
        port_off: false,
        gauges: [("victim".to_owned(), 1)].into(),
    };
    SwitchSnapshot {
        name: name.into(),
        interfaces: vec![port("p0", true), port("p1", true), port("uplink-to-the-core", false)],
        pfc: vec![pfc],
        groups: vec![group],
        queues: vec![queue],
        pools: vec![BufferPool {
            pool: "shared".into(),
            size_bytes: 2_000_000,
            used_bytes: 1_000_000,
            watermark_bytes: 1_500_000,
            persistent_watermark_bytes: 1_500_000,
        }],
        buffer: Some(BufferConfiguration {
            policy: "spfc".into(),
            size_bytes: 2_500_000,
            private_bytes: 0,
            headroom_bytes: 500_000,
            shared_bytes: 2_000_000,
            queues: vec![limit],
        }),
        policy: Some(PolicyState { policy: "spfc".into(), queues: vec![policy] }),
        flow_control: Vec::new(),
        losses: vec![Loss {
            port: "p1".into(),
            place: LossPlace::Ingress,
            class: Some(0),
            reason: "egress_threshold".into(),
            frames: Some(31),
        }],
    }
}

fn snapshot(start: Instant, seconds: u64) -> Snapshot {
    let names = ["lab", "other"];
    Snapshot {
        at: start + Duration::from_secs(seconds),
        hello: Hello { weir_version: "0".into(), process: 7, switches: names.map(str::to_owned).to_vec() },
        switches: names.map(|name| switch(name, seconds)).to_vec(),
        lcores: Vec::new(),
        events: Vec::new(),
    }
}

fn screen(look: Theme) -> Screen {
    let start = Instant::now();
    let mut screen = Screen::new(look, Duration::from_secs(1), snapshot(start, 1));
    screen.take(snapshot(start, 3));
    screen
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal
}

fn lines(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let terminal = drawn(screen, width, height);
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn queues_fit_eighty_columns() {
    let lines = lines(&mut screen(PLAIN), 80, 8);
    assert_eq!(
        lines,
        [
            " lab  policy spfc  switch 1 of 2  process 7                           every 1 s",
            "shared        ██████████████······│······· 1.00M of 2.00M  most 1.50M",
            "Port         C L    Rx    Tx Ingress     In  Xoff   Out Tell% Told% State",
            "p0           3 U 1.00G     - ██████│▒  600K  500K     0    25     0 OFF,victim",
            "p1           3 U     -  100M ········     0     -  600K     -     -",
            "uplink-to-th 0 D     -     - ········     0     -     0     -     -",
            "",
            " 1 QUEUES 2 losses 3 events 4 lcores  Tab switch  s by port  ? help  q quit",
        ]
    );
}

#[test]
fn keys_change_what_is_shown() {
    let mut screen = screen(PLAIN);
    screen.view(View::Losses);
    assert!(
        lines(&mut screen, 80, 24)
            .iter()
            .any(|line| line.contains("switch, ingress") && line.ends_with("egress threshold"))
    );
    screen.view(View::Queues);
    screen.next_order();
    assert!(lines(&mut screen, 80, 24)[3].starts_with("p0 ") && lines(&mut screen, 80, 24)[23].contains("s by held"));
    screen.next_switch(1);
    assert!(lines(&mut screen, 80, 24)[0].starts_with(" other "));
    screen.toggle_all();
    // Three ports of eight classes are more than there is room for.
    let all = lines(&mut screen, 80, 20);
    assert!(all[18].contains("9 more below"), "{all:?}");
    screen.scroll(100);
    assert!(lines(&mut screen, 80, 20)[18].starts_with("uplink-to-th 7"));
    screen.toggle_still();
    screen.take(snapshot(Instant::now(), 9));
    assert!(lines(&mut screen, 80, 24)[0].contains("STANDS STILL"));
    screen.record_silence("the one that did has ended".into());
    let silent = lines(&mut screen, 80, 24);
    assert!(silent[0].contains("NO ANSWER") && silent[23].contains("has ended"), "{silent:?}");
}

#[test]
fn colours_are_left_out_and_blocks_too_where_they_are_not_wanted() {
    let colors = |look| {
        let terminal = drawn(&mut screen(look), 80, 24);
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colors(PLAIN), 0);
    assert!(colors(Theme { has_color: true, ..PLAIN }) > 10);
    let ascii = lines(&mut screen(Theme { glyphs: Glyphs::ASCII, has_color: false }), 80, 24);
    assert!(ascii[3].contains("####") && ascii[3].contains("+") && ascii.concat().is_ascii(), "{ascii:?}");
}

#[test]
fn any_size_is_drawn() {
    let mut screen = screen(PLAIN);
    for view in View::ALL {
        screen.view(view);
        for (width, height) in [(1, 1), (10, 2), (40, 5), (200, 60)] {
            drawn(&mut screen, width, height);
        }
    }
    assert!(lines(&mut screen, 30, 5)[4].contains("? help  q quit"));
    screen.toggle_help();
    drawn(&mut screen, 20, 4);
}

#[test]
fn numbers_take_five_letters() {
    for (value, words) in
        [(0, "0"), (999, "999"), (1_000, "1.00K"), (999_600, "1.00M"), (746_020, "746K"), (19_990_000, "20.0M")]
    {
        assert_eq!((format_bytes(value), format_rate(value as f64)), (words.to_owned(), words.to_owned()));
    }
}
