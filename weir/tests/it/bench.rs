//! `weir bench`: errors start nothing, and a short run's table and JSON have the documented shape.

#![cfg(feature = "dpdk")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const RINGS: &str = "[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"1Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"1Gbps\"\n";

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn weir(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

#[test]
fn mistakes_are_told_and_start_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rings.toml"), RINGS).unwrap();
    fs::write(folder.path().join("one-cpu.toml"), format!("[lcores]\ncores = [1023]\n{RINGS}")).unwrap();
    let rfc2544 = |more: &[&'static str]| [&["bench", "rfc2544"][..], more].concat();
    for (arguments, said) in [
        (
            vec!["bench", "forwarding", "--case", "two-clases"],
            "write one of one-class, stations, lossy, two-classes, mixed, ecn",
        ),
        (
            vec!["bench", "forwarding", "--lcores", "99999", "--json", "left.json"],
            "--lcores 99999: this process may use",
        ),
        (vec!["bench", "forwarding", "--frame-bytes", "63"], "--frame-bytes 63: frames have 64 to"),
        (vec!["bench", "forwarding", "--frame-bytes", "many"], "invalid value 'many'"),
        (vec!["bench", "forwarding", "--policy", "ddt"], "ddt"),
        (vec!["bench", "forwarding", "--flow-control", "pcf"], "pcf"),
        (vec!["bench", "forwarding", "--rounds", "0"], "nothing to measure"),
        (vec!["bench", "forwarding", "--json", "no/such/folder.json"], "--json: the results can't be written to"),
        (vec!["bench", "forwarding", "--frames", "9", "--duration", "1s"], "cannot be used with"),
        (rfc2544(&["rings.toml", "--from", "a"]), "--to <PORT>"),
        (rfc2544(&["nosuch.toml", "--from", "a", "--to", "b"]), "nosuch.toml"),
        (
            rfc2544(&["rings.toml", "--from", "x", "--to", "b"]),
            "--from x: that is none of its ports; ports with a link are a, b",
        ),
        (rfc2544(&["rings.toml", "--from", "a", "--to", "a"]), "are both a"),
        (
            rfc2544(&["rings.toml", "--from", "a", "--to", "b", "--frame-bytes", "9000"]),
            "--frame-bytes 9000: frames through",
        ),
        (rfc2544(&["rings.toml", "--from", "a", "--to", "b", "--to-device", "eth0"]), "write pci=ADDRESS"),
        (rfc2544(&["rings.toml", "--from", "a", "--to", "b", "--max-rate", "10"]), "10"),
        (rfc2544(&["rings.toml", "--from", "a", "--to", "b", "--loss", "100"]), "--loss"),
        (rfc2544(&["one-cpu.toml", "--from", "a", "--to", "b"]), "there is no CPU 1023"),
        (vec!["bench", "pause", "--load", "100"], "--load: 1 to 90 percent"),
        (vec!["bench", "pause", "--layout", "double"], "double"),
        (vec!["bench", "idle", "--mode", "nap"], "write one of poll, yield, sleep"),
        (vec!["bench", "idle", "--interval", "2s"], "--interval must be less"),
    ] {
        let ran = weir(folder.path(), &arguments);
        let code = if arguments.contains(&"one-cpu.toml") { 3 } else { 2 };
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
        assert!(!ran.err.contains("panicked"), "{arguments:?}: {}", ran.err);
    }
    assert!(!folder.path().join("no").exists() && !folder.path().join("left.json").exists());
}

#[test]
fn a_short_run_has_its_table_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let ran = weir(
        folder.path(),
        &[
            "bench",
            "forwarding",
            "--lcores",
            "1",
            "--case",
            "one-class,two-classes",
            "--frame-bytes",
            "64,512",
            "--rounds",
            "2",
            "--frames",
            "20000",
            "--json",
            "forwarding.json",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for said in ["CPUs, Linux ", "policy dt, flow control pfc", "M packets per CPU-second", "frames, all accounted for"]
    {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    let rows = ran.out.lines().filter(|line| line.contains("a lossless class") || line.contains("in turn"));
    assert_eq!(rows.count(), 4, "{}", ran.out);
    let report: Value = serde_json::from_slice(&fs::read(folder.path().join("forwarding.json")).unwrap()).unwrap();
    assert_eq!((&report["policy"], &report["rounds"]), (&"dt".into(), &2.into()));
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0 && report["host_load"]["wall_s"].as_f64().unwrap() > 0.0);
    let rows = report["rows"].as_array().unwrap();
    let of = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| (row["case"].as_str().unwrap(), of(row, "frame_bytes"))).collect();
    assert_eq!(kinds, [("one-class", 64), ("one-class", 512), ("two-classes", 64), ("two-classes", 512)]);
    for row in rows {
        assert!(of(row, "sent") >= 40_000, "{row}");
        assert_eq!(of(row, "received") + of(row, "copied"), of(row, "sent") + of(row, "dropped"), "{row}");
        for figure in ["mpps", "ns", "gbps", "relative"] {
            let [min, median, max] = ["min", "median", "max"].map(|key| row[figure][key].as_f64().unwrap());
            assert!(0.0 < min && min <= median && median <= max, "{row}");
        }
    }
}
