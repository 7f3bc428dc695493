//! A new run directory of these tests.

use std::path::Path;
use std::time::SystemTime;

use weir_results::run_dir::{Provenance, RunDir};

/// A run directory in this folder, which must have none.
pub(crate) fn made(folder: &Path) -> RunDir {
    RunDir::create(folder, &Provenance::new("0.1.0", ["weir".to_owned()], SystemTime::now())).unwrap()
}
