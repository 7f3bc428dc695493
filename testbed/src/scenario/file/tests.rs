//! Good files.

use std::path::{Path, PathBuf};

use super::*;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn ring() -> Vec<ScenarioRun> {
    load(&repository("scenarios/gfc-ring.toml")).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn the_ring_has_eight_runs() {
    let runs = ring();
    assert_eq!(runs.len(), 8);
    for run in &runs {
        assert_eq!(run.scenario.check(), Ok(()));
    }
}
