//! The program is Weir's command with one more buffer policy, which keeps the invariants of all policies.

use std::path::Path;
use std::process::Command;

use my_policy::TwoStepsKind;
use weir_mmu::conformance;
use weir_mmu::policy::{BUFFER_POLICIES, parse_config};

#[test]
fn its_scenario_runs_in_virtual_time() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("my-policy");
    let run = Command::new(env!("CARGO_BIN_EXE_my-policy"))
        .args(["testbed", "run", "scenario.toml", "--backend", "sim", "--output"])
        .arg(&output)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn it_conforms_under_drawn_loads() {
    BUFFER_POLICIES.add(&TwoStepsKind).unwrap();
    let config = parse_config("two-steps", "").unwrap();
    let summary = conformance::check(&*config, 0..4, &mut || true).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(summary.pauses > 100, "{} PAUSEs prove little", summary.pauses);
}
