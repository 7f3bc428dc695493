//! Conformance of a buffer policy that is a Python class.

use std::sync::Mutex;

use pyo3::prelude::*;
use weir_mmu::conformance;
use weir_mmu::policy::BufferPolicyKind;
use weir_reader::{Format, Table, TableSchema, read_text};

use crate::Error;
use crate::kinds::{ExceptionHandler, KindSpec, PythonKind};
use crate::policy::PythonPolicyKind;

/// Number of ticks between checks for signals.
const CHECK_EVERY: u64 = 256;

/// Runs the loads of `seeds` seeds; returns the numbers of frames and of PAUSEs. `table` is the text of the policy's table.
#[pyfunction]
pub(crate) fn check_policy(py: Python<'_>, spec: KindSpec, table: &str, seeds: u64) -> PyResult<(u64, u64)> {
    let kind = PythonKind::leak(spec, ExceptionHandler::Keep(Mutex::default()))?;
    let policy = PythonPolicyKind::leak(kind);
    weir_experiments::plugin::check_policy(policy).map_err(Error::new_err)?;
    let tables = vec![
        TableSchema::table("", &[]).with_tables_of(["buffer"].into_iter()),
        TableSchema::table("buffer", &[]).with_tables_of([kind.name].into_iter()),
        TableSchema::of_kind("buffer", policy),
    ];
    let format =
        Format { what: "a policy's table", reference: "docs/POLICIES.md", repeated: "", tables: tables.leak() };
    let text = format!("[buffer.{}]\n{table}", kind.name);
    let read = |root: &Table<'_>| policy.parse(&root.table("buffer", "buffer").table_of_kind(policy));
    let config = read_text("policy", &text, &format, read);
    let (config, _) = config.map_err(|errors| Error::new_err(errors.render(false)))?;

    let (mut ticks, mut interruption) = (0, None);
    let result = conformance::check(&*config, 0..seeds, &mut || {
        ticks += 1;
        if ticks % CHECK_EVERY == 0 {
            interruption = py.check_signals().err();
        }
        interruption.is_none() && !kind.has_failed()
    });
    match (interruption, kind.take_error(), result) {
        (Some(error), ..) | (None, Some(error), _) => Err(error),
        (None, None, Err(violation)) => Err(Error::new_err(format!("{}: {violation}", kind.name))),
        (None, None, Ok(summary)) => Ok((summary.frames, summary.pauses)),
    }
}
