//! The full build where DPDK's libraries, or the program that is linked with them, are missing.

#![cfg(feature = "dpdk")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Two switches' ports and a scenario, in a directory of their own.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        let port = |name: &str| format!("[[ports]]\nname = \"{name}\"\nring = \"r\"\nrate = \"10Gbps\"\n");
        fs::write(lab.0.path().join("switch.toml"), port("p0") + &port("p1")).unwrap();
        lab
    }

    /// DPDK's libraries as the loader finds them first: files with nothing in them.
    fn hide_libraries(&self) {
        let program = fs::read(env!("CARGO_BIN_EXE_weir-dpdk")).unwrap();
        for start in program.windows(7).enumerate().filter(|(_, bytes)| bytes == b"librte_").map(|(at, _)| at) {
            let name: Vec<u8> = program[start..].iter().copied().take_while(|byte| *byte != 0).take(64).collect();
            let name = String::from_utf8(name).unwrap_or_default();
            if name.contains(".so.") && !name.contains('/') {
                fs::write(self.0.path().join(name), "").unwrap();
            }
        }
        let hidden = fs::read_dir(self.0.path()).unwrap().flatten();
        assert!(hidden.filter(|file| file.file_name().to_string_lossy().starts_with("librte_")).count() > 3);
    }

    fn weir(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("LD_LIBRARY_PATH", self.0.path());
        command.args(arguments).output().unwrap()
    }
}

/// Exit code, and all that was printed.
fn told(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said)
}

/// Virtual time works, `check` names what it omits, and commands that need ports fail with `reason`.
fn does_what_it_can(lab: &Lab, program: &Path, reason: &str) {
    let (code, said) = told(&lab.weir(program, &["demo", "--backend", "sim", "--policy", "st", "--bursts", "1"]));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = told(&lab.weir(program, &["check", "switch.toml"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("lcores, memory and devices were not checked: ") && said.contains(reason), "{said}");
    let benches = [&["bench", "forwarding"][..], &["bench", "rfc2544", "switch.toml", "--from", "p0", "--to", "p1"]];
    for arguments in [&["run", "switch.toml"][..], &["demo"], &["check", "--try", "switch.toml"]].iter().chain(&benches)
    {
        let output = lab.weir(program, arguments);
        let (code, said) = told(&output);
        assert_eq!((code, output.stdout.len(), said.lines().count()), (Some(3), 0, 1), "{said}");
        assert!(said.starts_with("weir: ports and real frames need ") && said.contains(reason), "{said}");
    }
}

#[test]
fn a_library_that_can_not_be_loaded_is_named() {
    let lab = Lab::new();
    lab.hide_libraries();
    does_what_it_can(&lab, Path::new(WEIR), "apt-get install libdpdk-dev");
    let (_, said) = told(&lab.weir(Path::new(WEIR), &["run", "switch.toml"]));
    assert!(said.contains("/librte_") && said.contains("file too short"), "{said}");
}

#[test]
fn weir_alone_says_what_is_missing_beside_it() {
    let lab = Lab::new();
    let alone = lab.0.path().join("weir");
    if fs::hard_link(WEIR, &alone).is_err() {
        fs::copy(WEIR, &alone).unwrap();
    }
    does_what_it_can(&lab, &alone, "weir-dpdk, and there is none");
}

/// `--version` and `--help` are the same in both programs, and name the built-in features.
#[test]
fn the_version_tells_the_features() {
    let lab = Lab::new();
    let answers = [WEIR, env!("CARGO_BIN_EXE_weir-dpdk")]
        .map(|program| ["--version", "--help"].map(|argument| told(&lab.weir(Path::new(program), &[argument])).1));
    assert_eq!(answers[0], answers[1]);
    for said in &answers[0] {
        assert!(said.contains("built with dpdk (ports and real frames)"), "{said}");
    }
}
