//! Summaries of scenarios with slow receivers in virtual time.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_results::run_dir::{Summary, Window, read_summary};
use weir_scenario::Scenario;
use weir_scenario::file::{self, Expectation};
use weir_sim::SimBackend;

use crate::run_directory;

fn run(scenario: &Scenario) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let run = run_directory::made(folder.path());
    let backend = SimBackend { expects: Expectation::Flow, ..SimBackend::default() };
    let summary = backend.run(scenario, run, &mut |_| (), &AtomicBool::new(false)).unwrap();
    assert_eq!(read_summary(folder.path()).unwrap(), summary);
    let frames = summary.frames.as_ref().unwrap();
    assert_eq!(frames.sides()[0], frames.sides()[1], "{frames:?}");
    summary
}

/// Two hosts at a switch, of which H1 is slow while H0 sends to it, 1 MB at 40 Gb/s.
fn pair(switch: &str, slow: &str, flow: &str) -> Summary {
    pair_at("10Gbps", switch, slow, flow)
}

/// As `pair`, where H1 takes `rate`.
fn pair_at(rate: &str, switch: &str, slow: &str, flow: &str) -> Summary {
    let text = format!(
        "[scenario]\nname = \"pair\"\nend = \"1ms\"\n[switch]\n{switch}\n[switch.pfc]\nreaction = \"0s\"\n\
         [topology]\nkind = \"single\"\nhosts = 2\nrate = \"40Gbps\"\ndelay = \"1us\"\n\
         [[slow_receivers]]\nhosts = [\"H1\"]\nrate = \"{rate}\"\n{slow}\n\
         [[flows]]\nfrom = \"H0\"\nto = \"H1\"\ntotal = \"1MB\"\n{flow}\n"
    );
    let runs = file::parse(Path::new("pair.toml"), &text);
    run(&runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario)
}

fn gbps(window: &Window) -> [f64; 2] {
    [0, 1].map(|flow| window.flows[flow].throughput_bps as f64 / 1e9)
}

/// Payload of so many Gb/s on the wire: 1,024 in 1,106 B.
fn payload(gbps: f64) -> f64 {
    gbps * 1_024.0 / 1_106.0
}

#[test]
fn a_slow_receiver_slows_a_flow_to_another_host_down() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/slow-receiver.toml");
    let summary = run(&file::load(&path).unwrap().remove(0).scenario);
    assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{:?}", summary.failures);
    let [before, slow, after] = &summary.windows[..] else { panic!("three windows") };
    for (flow, rate) in gbps(before).into_iter().enumerate() {
        assert!((rate / payload(20.0) - 1.0).abs() < 0.02, "half of the link for flow {flow}: {rate}");
    }
    let [own, victim] = gbps(slow);
    assert!((own / payload(10.0) - 1.0).abs() < 0.01, "{own}");
    // Without PFC's head-of-line blocking it would have 30.
    assert!(victim < payload(15.0), "{victim}");
    let all: f64 = gbps(after).iter().sum();
    assert!((all / payload(40.0) - 1.0).abs() < 0.02, "{all}");
    let flow_control = summary.flow_control.unwrap();
    assert!(flow_control.host_pauses_sent > 100 && flow_control.pauses_sent > 100, "{flow_control:?}");
    let [host] = &summary.hosts[..] else { panic!("one slow host: {:?}", summary.hosts) };
    let [class] = host.classes[..] else { panic!("one class: {host:?}") };
    assert_eq!((host.name.as_str(), host.receive_rate_bps, class.class), ("R1", 10_000_000_000, 3));
    assert_eq!((class.pauses_sent, class.receive_overflow), (flow_control.host_pauses_sent, 0));
    assert!((host.xoff_bytes..=host.receive_buffer_bytes).contains(&class.receive_buffer_max_bytes), "{host:?}");
}

/// Without flow control a slow receiver loses what a lossless class must not lose, even if it is sent again.
#[test]
fn an_overflown_receive_buffer_of_a_lossless_class_fails_the_run() {
    let none = "port.flow_control = \"none\"\n[switch.classes]\npreset = \"roce\"";
    for again in ["", "retransmit = \"100us\"\nack_every = 1"] {
        let summary = pair(none, "buffer = \"20KB\"", &format!("class = 3\n{again}"));
        let [host] = &summary.hosts[..] else { panic!("one slow host") };
        let lost = host.classes[0].receive_overflow;
        let expected = format!("{lost} lossless frames were lost, as they found no room in receive buffers: H1 {lost}");
        assert!(lost > 0 && summary.failures.contains(&expected), "{lost}: {:?}", summary.failures);
        assert!(!summary.lossless);
        let note = "slow receiver H1: no flow control, so that its buffer overflows";
        assert!(summary.notes.iter().any(|of| of == note), "{:?}", summary.notes);
        assert_eq!(summary.flow_control.unwrap().host_pauses_sent, 0);
    }
}

/// A receiver that nearly stands still pauses the switch for long. Under a watchdog the frames for it are dropped, which fails no run.
#[test]
fn what_a_watchdog_drops_fails_no_run() {
    let classes = "[switch.classes]\npreset = \"roce\"\n[switch.pfc_watchdog]\ndetection_time = \"100us\"\n\
                   restoration_time = \"100us\"\npoll_interval = \"20us\"\ncondition = \"queue-stalled\"\n";
    for (action, drops) in [("drop", true), ("alert", false)] {
        let watchdog = format!("{classes}action = \"{action}\"");
        let summary = pair_at(
            "1Mbps",
            &watchdog,
            "from = \"100us\"\nuntil = \"600us\"",
            "class = 3\nretransmit = \"100us\"\nack_every = 1",
        );
        let dropped = summary.frames.as_ref().unwrap().dropped.get("pfc_watchdog").copied().unwrap_or(0);
        assert_eq!(dropped > 0, drops, "{action}: {:?}", summary.frames);
        assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{action}: {:?}", summary.failures);
        let note = format!("{dropped} frames of lossless classes were dropped in PFC storms, by the watchdog");
        assert_eq!(summary.notes.contains(&note), drops, "{action}: {:?}", summary.notes);
        assert_eq!(summary.lossless_drops(), dropped, "as a column of a sweep has it");
    }
}

#[test]
fn a_class_that_is_not_lossless_may_lose_frames() {
    let summary =
        pair("[switch.classes]\npreset = \"roce\"", "buffer = \"60KB\"", "class = 0\ntransport = \"tcp-cubic\"");
    assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{:?}", summary.failures);
    let lost = summary.hosts[0].classes[0].receive_overflow;
    let note = format!("{lost} frames of classes that are not lossless found no room in the receive buffers of hosts");
    assert!(lost > 0 && summary.notes.contains(&note), "{lost}: {:?}", summary.notes);
}

/// Each flow control slows the sender down in its own way, and none loses a frame.
#[test]
fn every_flow_control_protects_a_receive_buffer() {
    let buffer = "buffer.size = \"2MB\"\nbuffer.policy = \"static\"\n[switch.buffer.static]\nthreshold = \"300KB\"\n\
                  [switch.classes]\npreset = \"roce\"";
    let kinds = [("pfc", 0), ("pause", 0), ("gfc-buffer", 1), ("gfc-time", 1), ("cbfc", 1), ("uec-cbfc", 1)];
    for (kind, least) in kinds {
        let cell_bytes = if kind == "uec-cbfc" { 128 } else { 1 };
        let switch = format!("port.flow_control = \"{kind}\"\nbuffer.cell_bytes = {cell_bytes}\n{buffer}");
        let summary = pair(&switch, "", "class = 3\nmessage = \"1MB\"");
        assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{kind}: {:?}", summary.failures);
        let host = &summary.hosts[0];
        assert_eq!(host.classes[0].receive_overflow, 0, "{kind}");
        assert!(host.messages_sent > 0, "{kind}: {host:?}");
        let pauses = summary.flow_control.unwrap().host_pauses_sent;
        assert_eq!(pauses == 0, least > 0, "{kind}: {pauses}");
        assert!(!summary.notes.iter().any(|note| note.starts_with("slow receiver")), "{kind}: {:?}", summary.notes);
    }
}

/// The ring of the GFC paper, all of whose hosts nearly stand still for 4 ms: a queue comes to B_m, and the last stage still has a rate.
#[test]
fn hosts_that_stand_still_lose_nothing_under_gfc_by_stages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
    let stalled = "[[slow_receivers]]\nrate = \"1Mbps\"\nfrom = \"10ms\"\nuntil = \"14ms\"\n";
    let run_with = |more: &str| {
        let text = format!("{}\n{stalled}{more}", std::fs::read_to_string(&path).unwrap());
        let runs = file::parse(&path, &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        run(&runs.into_iter().find(|run| run.name == "GFC by stages, round-robin").unwrap().scenario)
    };
    let summary = run_with("");
    assert_eq!((summary.failures.len(), summary.lossless), (0, true), "{:?}", summary.failures);
    for host in &summary.hosts {
        let most = host.classes.iter().filter(|class| class.lossless).map(|class| class.receive_buffer_max_bytes).max();
        assert!(most > Some(1_000_000), "its queue comes beyond B_m: {host:?}");
    }
    // With room for B_m alone each host loses a frame.
    assert!(!run_with("buffer = \"1MB\"\n").lossless);
}
