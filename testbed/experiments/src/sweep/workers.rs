//! Worker threads that run as many points in parallel as there are cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::directory::{FinishedPoint, SweepDir};
use super::plan::SweepPlan;
use super::point;
use super::point_file::Point;
use super::runner::PointRunner;
use crate::Failure;

/// Runs points: one point per core, or several cores per point with fewer points than cores. Calls `on_finished` for
/// each finished point, on any thread. Returns early if stopped.
///
/// # Errors
/// The first error outside a point, such as a full disk; nothing more is started then.
pub(super) fn run(
    runner: &PointRunner,
    plan: &SweepPlan,
    points: &[&Point],
    to: &SweepDir,
    on_finished: &(dyn Fn(FinishedPoint) + Sync),
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Failure>> = Mutex::default();
    std::thread::scope(|scope| {
        for cores in shares(runner.jobs, points.len()) {
            let (next, failed) = (&next, &failed);
            scope.spawn(move || {
                while let Some(point) =
                    points.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !runner.stop.is_asked())
                {
                    match point::finish(runner, cores, plan, point, to) {
                        Ok(Some(finished)) => on_finished(finished),
                        Ok(None) => {}
                        Err(error) => {
                            let failure = Failure::Run(format!("point {}: {error}", point.number));
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                            runner.stop.ask();
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Numbers of cores of the points that run in parallel.
fn shares(cores: usize, points: usize) -> Vec<usize> {
    let at_a_time = cores.min(points).max(1);
    (0..at_a_time.min(points)).map(|n| cores / at_a_time + usize::from(n < cores % at_a_time)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::super::directory::PointOutcome;
    use super::super::directory::tests::manifest;
    use super::super::plan::tests::plan;
    use super::super::stop::Stop;
    use super::*;

    const SWEEP: &str = "runs = [\"DT\"]\nseeds = [1, 2]\n";

    /// Program that replaces weir's own.
    fn program(directory: &TempDir, script: &str) -> PathBuf {
        let path = directory.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn runner(program: PathBuf, jobs: usize) -> PointRunner {
        let stop = Arc::new(Stop::default());
        PointRunner { program: vec![program.clone().into()], code: program, jobs, stop, progress: None }
    }

    fn sweep_dir(directory: &TempDir, plan: &SweepPlan) -> SweepDir {
        let to = SweepDir::open(&directory.path().join("out"), &manifest(&plan.identity)).unwrap();
        to.clear_unfinished().unwrap();
        to
    }

    #[test]
    fn few_points_have_several_cores_each() {
        assert_eq!(shares(16, 3), [6, 5, 5]);
        assert_eq!((shares(4, 100), shares(1, 2), shares(8, 0)), (vec![1; 4], vec![1], vec![]));
    }

    #[test]
    fn a_point_that_crashes_takes_no_other_with_it_and_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(&directory, SWEEP).unwrap();
        let to = sweep_dir(&directory, &plan);
        let points: Vec<&Point> = plan.points.iter().collect();
        let program = program(&directory, "echo out of luck >&2; kill -9 $$");
        let finished: Mutex<Vec<FinishedPoint>> = Mutex::default();
        let on_finished = |one: FinishedPoint| finished.lock().unwrap().push(one);
        run(&runner(program, 2), &plan, &points, &to, &on_finished).unwrap();
        let finished = finished.into_inner().unwrap();
        assert_eq!(finished.len(), 2);
        for one in &finished {
            assert_eq!(one.outcome, PointOutcome::Crashed);
            assert_eq!(one.reason, "killed (signal 9), as when memory runs out: out of luck");
            assert!(to.folder(&one.point).join("scenario.toml").exists() && to.finished(&one.point).is_none());
        }
    }

    #[test]
    fn points_stop_when_they_are_asked_to_and_leave_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(&directory, SWEEP).unwrap();
        let to = sweep_dir(&directory, &plan);
        let points: Vec<&Point> = plan.points.iter().collect();
        // The program ends with its standard input.
        let program = program(&directory, "cat");
        let runner = runner(program, 1);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&runner, &plan, &points, &to, &|_| panic!("finished")));
            while runner.stop.lines().is_empty() {
                std::thread::yield_now();
            }
            runner.stop.ask();
            running.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_dir(directory.path().join("out/runs")).unwrap().count(), 0);
    }

    #[test]
    fn a_program_that_is_not_there_ends_the_sweep() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(&directory, SWEEP).unwrap();
        let to = sweep_dir(&directory, &plan);
        let points: Vec<&Point> = plan.points.iter().collect();
        let failed = run(&runner("/nonexistent".into(), 1), &plan, &points, &to, &|_| {});
        let Err(Failure::Run(message)) = failed else { panic!("it ran") };
        assert!(message.starts_with("point 1: /nonexistent can't be started: "), "{message}");
        assert_eq!(fs::read_dir(directory.path().join("out/runs")).unwrap().count(), 0);
    }
}
