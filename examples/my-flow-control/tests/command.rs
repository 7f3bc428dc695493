//! The program is Weir's command with one more flow control.

use std::path::Path;
use std::process::Command;

#[test]
fn its_scenario_runs_in_virtual_time() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("my-flow-control");
    let run = Command::new(env!("CARGO_BIN_EXE_my-flow-control"))
        .args(["testbed", "run", "scenario.toml", "--backend", "sim", "--output"])
        .arg(&output)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
