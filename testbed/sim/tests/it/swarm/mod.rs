//! Scenarios drawn at random, in virtual time: fabrics, buffers, flow control, congestion control, workloads, closed loops among
//! them, PFC watchdogs, slow receivers, and what goes wrong on links for a while. Each is a file that `weir testbed run` takes; one
//! that fails is printed.
//!
//! `SWARM_CASES` is how many are drawn; `SWARM_SEED` draws one of them again; `SWARM_FROM` is the first seed.
//! With `SWARM_GO_ON` a failure does not keep the rest from being drawn.

pub(crate) mod draw;
mod fabrics;
mod judge;
mod promises;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use judge::judge;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

#[test]
fn whatever_is_drawn_keeps_its_promises() {
    let seeds = match (number("SWARM_SEED"), number("SWARM_FROM").unwrap_or(0)) {
        (Some(seed), _) => seed..seed + 1,
        (None, from) => from..from + number("SWARM_CASES").unwrap_or(24),
    };
    let mut failed = Vec::new();
    let goes_on = number("SWARM_GO_ON").is_some();
    for seed in seeds {
        let case = draw::draw(seed);
        match catch_unwind(AssertUnwindSafe(|| judge(&case))) {
            Ok(outcome) => println!("seed {seed}: {outcome}; {}", case.promises),
            Err(panic) => {
                println!(
                    "# seed {seed}, again: SWARM_SEED={seed} cargo test -p weir-sim --test it swarm::\n\
                     # {}\n{}",
                    case.promises, case.text
                );
                if !goes_on {
                    resume_unwind(panic);
                }
                let what = panic.downcast_ref::<String>().cloned();
                failed.push((seed, what.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

/// Data that came twice, or long after it had been given up, has both ends of a link under credit count otherwise, until what the sender
/// says of itself is confirmed.
#[test]
fn links_under_credit_agree_again_after_data_that_came_twice_or_late() {
    for seed in [1_036, 20_018] {
        let case = draw::draw(seed);
        assert!(case.promises.may_miscount(), "seed {seed} draws something else now");
        judge(&case);
    }
}

/// Frames that faults hold back on a wire between two threads are released in the receiver's phase: in the sender's
/// phase, frames that overtake them may still be sent.
#[test]
fn what_faults_hold_back_between_threads_keeps_its_place() {
    for seed in [5_117, 5_216] {
        judge(&draw::draw(seed));
    }
}
