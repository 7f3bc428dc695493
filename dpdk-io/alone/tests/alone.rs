//! Tests that run themselves again: that they run elsewhere, that they fail, and that marked ones are repeated.

use std::env;
use std::fs;
use std::os::unix::process::parent_id;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process;

use weir_alone::{ATTEMPTS, in_a_process, on_an_idle_machine};

/// How a body fails here: a panic would be caught in the child too.
const FAILED: i32 = 3;

/// A file in which children of a process leave a line each.
fn lines_for(process: u32, test: &str) -> PathBuf {
    env::temp_dir().join(format!("weir-alone-{test}-{process}"))
}

/// In a child: writes its process number for its parent. Returns how many children did before.
fn leave_line(test: &str) -> usize {
    let file = lines_for(parent_id(), test);
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::write(file, format!("{before}{}\n", process::id())).unwrap();
    before.lines().count()
}

/// Returns, in the parent, the children's lines. `None` in a child, which gets here after its body.
fn take_lines(test: &str) -> Option<Vec<u32>> {
    if env::var_os("WEIR_TEST_ALONE").is_some() {
        return None;
    }
    let file = lines_for(process::id(), test);
    let text = fs::read_to_string(&file).expect("a child left a line");
    fs::remove_file(file).unwrap();
    Some(text.lines().map(|line| line.parse().unwrap()).collect())
}

mod deeper {
    use super::*;

    #[test]
    fn a_body_runs_once_and_elsewhere() {
        in_a_process(|| assert_eq!(leave_line("once"), 0));
        if let Some(children) = take_lines("once") {
            assert!(children.len() == 1 && children[0] != process::id(), "{children:?}");
        }
    }
}

#[test]
fn a_body_that_fails_fails_its_test() {
    let result = catch_unwind(|| {
        in_a_process(|| {
            leave_line("fails");
            process::exit(FAILED);
        });
    });
    assert!(result.is_err());
    assert_eq!(take_lines("fails").unwrap().len(), 1);
}

#[test]
fn a_marked_test_passes_if_its_last_attempt_does() {
    on_an_idle_machine(|| {
        if leave_line("last") < ATTEMPTS as usize - 1 {
            process::exit(FAILED);
        }
    });
    if let Some(children) = take_lines("last") {
        assert_eq!(children.len(), ATTEMPTS as usize);
    }
}

#[test]
fn a_marked_test_that_always_fails_fails() {
    let result = catch_unwind(|| {
        on_an_idle_machine(|| {
            leave_line("always");
            process::exit(FAILED);
        });
    });
    assert!(result.is_err());
    assert_eq!(take_lines("always").unwrap().len(), ATTEMPTS as usize);
}
