//! `weir testbed run --checkpoint` and `--resume`: a killed run resumes, and leaves the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Some seconds of a tree.
const SCENARIO: &str = "[scenario]\nend = \"3ms\"\nsample_every = \"20us\"\nsnapshots = [\"1ms\", \"2.5ms\"]\n[switch]\nmtu = 1500\n\
    [switch.buffer]\nsize = \"400KB\"\npolicy = \"reverie\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
    [topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 8\nrate = \"25Gbps\"\ndelay = \"1us\"\n\
    [[workloads]]\nname = \"web\"\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n\
    congestion_control = \"hpcc\"\n[[workloads]]\nname = \"incast\"\nkind = \"incast\"\nclass = 3\nsizes = \"100KB\"\n\
    receivers = [\"H0\"]\nfan_in = 12\nevery = \"300us\"\n[[runs]]\nname = \"Tree\"\n";

struct Lab(TempDir);

impl Lab {
    fn new() -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        fs::write(lab.path("lab.toml"), SCENARIO).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, output: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["testbed", "run", "lab.toml", "--backend", "sim", "-o", output]).args(more);
        command.current_dir(self.0.path());
        command
    }

    /// Exit code, and all that was printed.
    fn weir(&self, output: &str, more: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = self.command(output, more).output().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.code(), said)
    }

    /// Starts a run, and kills it (SIGKILL) once it has written a checkpoint that it did not begin with.
    fn killed(&self, more: &[&str]) {
        let checkpoint = self.path("cut/tree/run.checkpoint");
        let before = fs::metadata(&checkpoint).and_then(|of| of.modified()).ok();
        let mut child = self.command("cut", more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while fs::metadata(&checkpoint).and_then(|of| of.modified()).ok() == before {
            assert!(child.try_wait().unwrap().is_none(), "it ended, and no checkpoint was seen");
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!self.path("cut/tree/summary.json").exists(), "killed too late");
    }
}

/// Files without those about the machine, and without the switches' state during the run.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| !["speed.json", "provenance.json"].contains(&name.as_str()));
    names.map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

#[test]
fn a_run_that_is_killed_goes_on_and_leaves_the_same_files() {
    let lab = Lab::new();
    let (code, said) = lab.weir("whole", &["--ns3-files", "-j", "1"]);
    assert_eq!(code, Some(0), "{said}");
    let often = ["--ns3-files", "--checkpoint", "1ms", "--resume"];
    // Twice, and on another number of threads each time.
    lab.killed(&[&often[..], &["-j", "1"]].concat());
    lab.killed(&[&often[..], &["-j", "2"]].concat());
    let checkpoint = lab.path("cut/tree/run.checkpoint");
    let whole = fs::read(&checkpoint).unwrap();
    // Other options are another run, and a damaged file is none.
    let (code, said) = lab.weir("cut", &["--resume"]);
    assert!(code == Some(2) && said.contains("of another scenario, or of other options"), "{code:?}: {said}");
    let mut damaged = whole.clone();
    damaged[whole.len() / 3] ^= 1;
    fs::write(&checkpoint, damaged).unwrap();
    let (code, said) = lab.weir("cut", &often);
    assert!(code == Some(2) && said.contains("no checkpoint, or a damaged one"), "{code:?}: {said}");
    fs::write(&checkpoint, whole).unwrap();
    let (code, said) = lab.weir("cut", &["--ns3-files", "--resume"]);
    assert_eq!(code, Some(0), "{said}");
    let [whole, cut] = ["whole", "cut"].map(|output| files(&lab.path(output).join("tree")));
    assert!(whole.len() > 10 && whole.contains_key("queues.csv"), "{:?}", whole.keys());
    assert!(cut.keys().eq(whole.keys()), "{:?}", cut.keys());
    for (file, text) in &cut {
        assert!(*text == whole[file], "{file} differs");
    }
    // It has its results, and is not run again.
    let summary = lab.path("cut/tree/summary.json");
    let before = fs::metadata(&summary).unwrap().modified().unwrap();
    let (code, said) = lab.weir("cut", &["--ns3-files", "--resume"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::metadata(&summary).unwrap().modified().unwrap(), before);
}

#[test]
fn checkpoints_are_of_virtual_time() {
    let lab = Lab::new();
    for option in [&["--checkpoint", "1min"][..], &["--resume"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["testbed", "run", "lab.toml", "--backend", "hosts"]).args(option).current_dir(lab.0.path());
        let Output { status, stderr, .. } = command.output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.code() == Some(2) && said.contains("only runs in virtual time can be resumed"), "{said}");
    }
}
