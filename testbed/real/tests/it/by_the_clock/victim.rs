//! The victim experiment, small: real frames over DPDK ring ports, and the files that it leaves.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_nic::host::CongestionControlChoice;
use weir_real::DpdkBackend;
use weir_results::run_dir::{Provenance, RunDir, Summary, Window, read_summary};
use weir_scenario::victim::{PolicyChoice, Victim, VictimPolicy};
use weir_units::{Span, Time};

/// The paper's testbed with a burst of 5 ms; 3 s of real time. Without congestion control, so that rates can be reckoned.
fn small(burst_hosts: usize, kind: PolicyChoice) -> Victim {
    Victim {
        congestion_control: CongestionControlChoice::none(),
        time_dilation: 300,
        burst_start: Time::from_nanos(2_000_000),
        burst_stop: Time::from_nanos(7_000_000),
        end: Time::from_nanos(9_000_000),
        sample_every: Span::from_micros(200),
        capture: burst_hosts > 0,
        ..Victim::testbed(burst_hosts, VictimPolicy::new(kind))
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "with assertions lab/tests/test_demo.py runs it: make release-tests")]
fn the_victim_is_paused_for_what_others_do() {
    weir_alone::on_an_idle_machine(|| {
        let controlled = Victim::testbed(6, VictimPolicy::new(PolicyChoice::Spfc)).congestion_control;
        let victims = [
            small(0, PolicyChoice::Dynamic),
            small(6, PolicyChoice::Dynamic),
            small(6, PolicyChoice::Static),
            Victim { congestion_control: controlled, ..small(6, PolicyChoice::Spfc) },
        ];
        let scenarios = victims.each_ref().map(|victim| victim.scenario().unwrap());
        let backend = DpdkBackend::start(&scenarios).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (victim, scenario) in victims.iter().zip(&scenarios) {
            let name = format!("{}-{}", victim.policy.name(), victim.burst_hosts);
            let provenance = Provenance::new("test", [], UNIX_EPOCH);
            let run = RunDir::create(folder.path().join(&name), &provenance).unwrap();
            let path = run.path().to_owned();
            let summary = backend.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap();
            println!("{name}: {:?}", summary.notes);
            assert_eq!(read_summary(&path).unwrap(), summary);
            check_losslessness(&name, &summary);
            if victim.congestion_control.is_none() {
                check_victim(&name, victim, &summary);
            } else {
                check_controlled(&name, &summary);
            }
            check_series(&path, victim);
            if victim.capture {
                check_capture(&path);
            }
        }
    });
}

fn check_losslessness(name: &str, summary: &Summary) {
    assert!(summary.lossless, "{name}: {summary:?}");
    for flow in &summary.flows {
        assert!(flow.messages_done > 0, "{name}: {flow:?}");
        assert_eq!(flow.messages_done, flow.messages_sent, "{name}: {flow:?}");
        assert_eq!(flow.bytes_received, flow.bytes_sent, "{name}: {flow:?}");
        assert_eq!((flow.lost, flow.reordered, flow.duplicates), (0, 0, 0), "{name}: {flow:?}");
    }
    let leaks = summary.notes.iter().filter(|note| note.contains("given back") || note.contains("conserve"));
    assert_eq!(leaks.count(), 0, "{name}: {:?}", summary.notes);
}

fn check_victim(name: &str, victim: &Victim, summary: &Summary) {
    let [before, _, burst, _] = &summary.windows[..] else { panic!("{name}: windows missing") };
    let pauses = burst.ports[0].pauses_sent;
    if victim.burst_hosts == 0 {
        assert_eq!(pauses, 0, "{name}: half a line's load congests nothing");
        return;
    }
    assert!(pauses > 0 && burst.ports[0].paused_ns > 0, "{name}: {burst:?}");
    // Seven inputs share R2's link, so F2 has a seventh of it where it had half, and F1 is held to the same rate.
    let kept = [0, 1].map(|n| burst.flows[n].throughput_bps as f64 / before.flows[n].throughput_bps as f64);
    assert!(kept.iter().all(|share| *share < 0.6), "{name}: F1 and F2 keep {kept:.2?}");
    let is_undisturbed = summary.late_ns * 50 < summary.duration_ns;
    let as_reckoned = kept.iter().all(|share| (share - 2.0 / 7.0).abs() < 0.1);
    assert!(as_reckoned || !is_undisturbed, "{name}: F1 and F2 keep {kept:.2?}, not two sevenths");
}

/// F2 gives way, F1 takes what it leaves of the line, and the state of P0 is recorded.
fn check_controlled(name: &str, summary: &Summary) {
    let [before, _, burst, _] = &summary.windows[..] else { panic!("{name}: windows missing") };
    let [f1, f2] = [0, 1].map(|n| &summary.flows[n]);
    assert_eq!((f1.frames_marked, f1.congestion_notifications), (0, 0), "{name}: F1 crosses no congested port");
    assert!(f2.frames_marked > 0 && f2.congestion_notifications > 5, "{name}: {f2:?}");
    assert!(f2.congestion_notifications <= summary.duration_ns / 50_000, "{name}: one each 50 us at most: {f2:?}");
    let bursts = &summary.flows[2..];
    assert!(bursts.iter().all(|flow| flow.congestion_notifications == 0), "{name}: bursts are not controlled");
    let rate = |window: &Window, flow: usize| window.flows[flow].throughput_bps;
    assert!(rate(burst, 1) * 4 < rate(before, 1), "{name}: F2 keeps {} of {} b/s", rate(burst, 1), rate(before, 1));
    let is_undisturbed = summary.late_ns * 50 < summary.duration_ns;
    assert!(rate(burst, 0) > rate(before, 0) || !is_undisturbed, "{name}: F1 has {} b/s", rate(burst, 0));
    assert!(
        burst.ports[0].gauges.get("victim_permille").is_some_and(|permille| permille > 0),
        "{name}: {:?}",
        burst.ports[0]
    );
    let data = summary.ports[0].classes.iter().find(|class| class.lossless).unwrap();
    assert!(
        data.gauges.get("victim_permille").is_some() && data.gauges.get("headroom_estimate_bytes").is_none(),
        "{name}: {data:?}"
    );
}

fn check_series(run: &Path, victim: &Victim) {
    let series = fs::read_to_string(run.join("series.csv")).unwrap();
    let times: Vec<f64> = series.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted() && times.len() >= 10, "{} samples", times.len());
    let end = victim.end.as_nanos() as f64 / 1e3;
    assert!(*times.last().unwrap() >= end, "the last sample is of the end");
    assert!(fs::read_to_string(run.join("fct.csv")).unwrap().lines().count() > 10);
}

/// What tshark sees of PFC on P0 is what the events say.
fn check_capture(run: &Path) {
    let events = fs::read_to_string(run.join("events.csv")).unwrap();
    let of_p0 = |kinds: &[&str]| {
        let rows = events.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|row| row[1] == "p0" && kinds.contains(&row[3])).count()
    };
    let frames = of_p0(&["pause_sent", "pause_refreshed", "resume_sent"]);
    assert_eq!(of_p0(&["drop"]), 0);
    let capture = run.join("p0.pcapng");
    let tshark = Command::new("tshark").args(["-n", "-Y", "macc.opcode == 0x0101", "-r"]).arg(&capture).output();
    match tshark {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), frames),
        Err(error) => eprintln!("skipped: tshark does not run: {error}"),
    }
}
