//! Runs in virtual time use huge pages, where the system grants them on request.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Some seconds of a tree.
const SCENARIO: &str = "[scenario]\nend = \"100ms\"\n[switch.buffer]\nsize = \"400KB\"\n[switch.classes]\npreset = \"roce\"\n\
    [switch.pfc]\nreaction = \"0s\"\n[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 8\nrate = \"25Gbps\"\n\
    delay = \"1us\"\n[[workloads]]\nname = \"web\"\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n";

/// Environment of the continued run, started with `given`; `None` if it ended too soon.
fn environment_of_a_run(given: &[(&str, &str)]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lab.toml"), SCENARIO).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["testbed", "run", "lab.toml", "--backend", "sim", "-o", "out"]).current_dir(folder.path());
    command.env_remove("GLIBC_TUNABLES").env_remove("WEIR_HUGE_PAGES").envs(given.iter().copied());
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Its directory exists once all earlier steps are complete.
    while !folder.path().join("out").exists() && run.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let environment = fs::read(format!("/proc/{}/environ", run.id())).ok();
    let is_running = run.try_wait().unwrap().is_none();
    run.kill().unwrap();
    run.wait().unwrap();
    environment.filter(|_| is_running).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', "\n"))
}

#[test]
fn a_run_in_virtual_time_asks_for_huge_pages_unless_it_is_told_otherwise() {
    let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let are_to_be_asked_for = cfg!(target_env = "gnu") && modes.contains("[madvise]");
    let asked = |given: &[(&str, &str)]| {
        environment_of_a_run(given).expect("a run of some seconds").contains("glibc.malloc.hugetlb=1\n")
    };
    assert_eq!(asked(&[]), are_to_be_asked_for);
    assert_eq!(asked(&[("GLIBC_TUNABLES", "glibc.malloc.arena_max=4")]), are_to_be_asked_for);
    assert!(!asked(&[("WEIR_HUGE_PAGES", "no")]));
    assert!(!asked(&[("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")]));
}
