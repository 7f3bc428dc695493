//! `weir sweep`: many runs of one scenario in virtual time, with varied parameters, as one table.
//!
//! `file` is the user's input, and `plan` has all its points, checked. Each `point` runs in its own process, several in
//! parallel (`workers`), and leaves a folder in the sweep's `directory`. `results` are made from these folders alone,
//! so any machine or call may run any point.

mod base;
mod columns;
mod directory;
mod effect;
mod extension;
mod file;
mod hash;
mod merge;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
pub mod plot;
mod point;
mod point_file;
mod policies;
mod results;
mod runner;
mod stop;
mod values;
mod workers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

use self::directory::{Manifest, Origin, SweepDir};
use self::extension::SweepExtension;
use self::hash::Hash;
use crate::Failure;
use crate::experiment::{VERSION, cores};
use crate::files::{json_text, with_path};
use crate::progress;
use crate::slurm::{self, Job, JobArray};
use crate::switches;
use crate::table::count;

pub(crate) use self::columns::{ColumnSelection, check as check_column};
pub(crate) use self::directory::{FinishedPoint, PointOutcome, Shard, build_version};
pub use self::file::known_keys;
pub(crate) use self::file::{Axis, Parameter, SweepFile, load, parse};
pub(crate) use self::plan::SweepPlan;
pub(crate) use self::point_file::Point;
pub(crate) use self::results::PointRecord;
pub use self::runner::{PointProgress, PointRunner};
pub use self::stop::Stop;

/// Arguments of `weir sweep`, or one of its commands.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SweepArguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make one table of the shards of a sweep, and its figures.
    Merge(merge::MergeArguments),
    /// Run one point.
    #[command(hide = true)]
    Point(point::PointArguments),
}

#[derive(clap::Args)]
struct RunArguments {
    /// The sweep.
    #[arg(required = true, value_name = "SWEEP.toml")]
    file: Option<PathBuf>,
    /// Directory of the results; by default runs/ and the sweep's name. If the same sweep was begun there, it goes on.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Number of cores that run points: one each, or several if there are fewer points than cores; by default all. With --slurm, the
    /// cores of each task, by default 1.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    jobs: Option<u32>,
    /// Run every N-th point, from the K-th on, for one of several machines; see `weir sweep merge`.
    #[arg(long, value_name = "K/N", conflicts_with = "slurm")]
    shard: Option<Shard>,
    /// Check everything, and say how many points there are; with --slurm also write the job scripts.
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome of the sweep as JSON in place of sentences; the table itself stays in results.csv.
    #[arg(long, conflicts_with = "slurm")]
    json: bool,
    /// Submit a job array to Slurm, and a job that merges its results.
    #[arg(long)]
    slurm: bool,
    /// Tasks of the job array; by default one for each point, and 64 at most.
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u32).range(1..))]
    tasks: Option<u32>,
    /// A further option of sbatch, as it is: --sbatch=--partition=long
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    sbatch: Vec<String>,
}

/// Default maximum of tasks in a job array.
const TASKS_MAX: usize = 64;

/// Executes `weir sweep`.
pub fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(Command::Merge(arguments)) => merge::merge(arguments),
        Some(Command::Point(arguments)) => point::run(arguments),
        None => run(&arguments.run),
    }
}

fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let path = arguments.file.as_deref().expect("required");
    let jobs = arguments.jobs.map_or_else(cores, |jobs| jobs as usize);
    let file = load_sweep(path)?;
    let plan = SweepPlan::new(&file, jobs)?;
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("runs").join(&plan.name));
    let figures = file.figures.clone();
    let manifest = Manifest { shard: arguments.shard, figures, ..manifest(&plan, VERSION.to_owned()) };
    let mode = OutputMode { json: arguments.json };
    mode.print(&format!("{}: {} of {}.", plan.name, points(plan.points.len()), plan.scenario.display()));
    if arguments.slurm {
        return submit(arguments, path, &output, &manifest);
    }
    let extension = SweepExtension::find(&plan, &output, &manifest, |identity| identity);
    if arguments.dry_run {
        if extension.is_none() {
            directory::check(&output, &manifest)?;
        }
        if arguments.json {
            print!("{}", json_text(&serde_json::json!({ "sweep": plan.name, "points": plan.points.len() })));
        }
        return Ok(());
    }
    if let Some(extension) = extension {
        extension.apply(&output, &manifest)?;
    }
    let (records, all) = run_points(&plan, &output, &manifest, &PointRunner::of_command(jobs)?, mode)?;
    let has_all = manifest.shard.is_none() && records.len() == all;
    let drawn = if has_all { draw(&file.figures, &output, mode) } else { Ok(()) };
    conclude(&output, &records, all, mode).and(drawn)
}

/// Reads a sweep's file; another kind of file is refused by name.
fn load_sweep(path: &Path) -> Result<SweepFile, Failure> {
    let kind = switches::FileKind::detect(path);
    if kind.is_scenario {
        let name = path.display();
        return Err(Failure::Argument(format!(
            "{name} is a scenario and not a sweep: weir testbed run {name}; a sweep is a file of its own, with scenario = \"{name}\""
        )));
    }
    if kind.is_switch {
        let name = path.display();
        return Err(Failure::Argument(format!("{name} is a switch and not a sweep: weir run {name}")));
    }
    Ok(file::load(path)?)
}

/// Sweep of another program.
#[derive(Clone, Copy, Debug)]
pub enum SweepSource<'s> {
    /// File of a sweep.
    File(&'s Path),
    /// Tables of a sweep, with paths relative to the working directory.
    Tables {
        /// Table of the sweep's file; `scenario` is optional where `scenario` below gives its table.
        sweep: &'s toml::Table,
        /// Table of the scenario.
        scenario: Option<&'s toml::Table>,
    },
}

/// Runs the unfinished points of another program's sweep and writes its tables, as `weir sweep` does. Returns the number of points that
/// are left by a stop. `plugin_identity` identifies the program's own kinds: results of others are not resumed.
///
/// # Errors
/// Invalid input, with the place and the fix; a directory of other results; a file that can't be written.
pub fn run_sweep(
    source: SweepSource<'_>,
    plugin_identity: &str,
    output: &Path,
    runner: &PointRunner,
) -> Result<usize, Failure> {
    let planned = |file: SweepFile| SweepPlan::new(&file, runner.jobs).map(|plan| (plan, file));
    let (plan, file) = match source {
        SweepSource::File(path) => planned(load_sweep(path)?)?,
        SweepSource::Tables { sweep, scenario } => {
            let mut sweep = sweep.clone();
            if scenario.is_some() {
                sweep.insert("scenario".to_owned(), SCENARIO_TABLE.into());
            }
            let text = base::text_of(&sweep);
            let file = parse(Path::new(SWEEP_TABLE), &text).map_err(Failure::from);
            let planned =
                file.and_then(|file| planned(SweepFile { scenario_text: scenario.map(base::text_of), ..file }));
            planned.map_err(|failure| without_text_of_tables(failure, &text))?
        }
    };
    let mode = OutputMode { json: true };
    let mut manifest = Manifest { figures: file.figures.clone(), ..manifest(&plan, VERSION.to_owned()) };
    manifest.identity = identity_with(plan.identity.clone(), plugin_identity);
    let identity = |of_plan| identity_with(of_plan, plugin_identity);
    if let Some(extension) = SweepExtension::find(&plan, output, &manifest, identity) {
        extension.apply(output, &manifest)?;
    }
    let (records, all) = run_points(&plan, output, &manifest, runner, mode)?;
    let left = all - records.len();
    if left == 0 {
        draw(&file.figures, output, mode)?;
    }
    Ok(left)
}

/// Identity of a sweep with a program's own kinds.
fn identity_with(of_plan: String, plugin_identity: &str) -> String {
    match plugin_identity {
        "" => of_plan,
        plugin => Hash::digest(format!("{of_plan} {plugin}").as_bytes()).text(),
    }
}

/// Errors in a sweep's tables, by the caller's keys: the caller does not know the text that they were read as.
fn without_text_of_tables(failure: Failure, text: &str) -> Failure {
    let Failure::Input(errors) = failure else { return failure };
    if errors.iter().any(|error| error.file() != SWEEP_TABLE) {
        return Failure::Input(errors);
    }
    let sentences = errors.iter().map(|error| {
        let line = error.line().and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
        let key = line.split(" = ").next().unwrap_or_default().trim_matches(['[', ']', '"', '\'']);
        let key = if error.message().contains(key) { String::new() } else { format!("{key}: ") };
        format!("{key}{}; {}", error.message(), error.help_text())
    });
    Failure::Argument(sentences.collect::<Vec<_>>().join("\n"))
}

/// Names of tables that no file has, as of files.
const SWEEP_TABLE: &str = "sweep";
const SCENARIO_TABLE: &str = "scenario";

/// Submits a sweep to Slurm: the shards, and the job that merges their results.
fn submit(arguments: &RunArguments, file: &Path, output: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let manifest = Manifest { made_by: Origin::Merge, ..manifest.clone() };
    directory::check(output, &manifest)?;
    let [program, file, shards, directory] =
        [slurm::program(), slurm::shown(file), slurm::shown(&output.join("shards")), slurm::shown(output)];
    let (program, shards) = (program?, shards?);
    let jobs = JobArray {
        folder: output.join("slurm"),
        array: Job {
            name: "sweep",
            command: format!("{program} sweep {} -o {shards}/\"$SLURM_ARRAY_TASK_ID\" \\\n   ", file?),
        },
        last: Job { name: "merge", command: format!("{program} sweep merge {shards}/* -o {}", directory?) },
        last_does: "merges them",
        tasks: arguments.tasks.map_or(TASKS_MAX, |tasks| tasks as usize).min(manifest.points),
        cores: arguments.jobs.map_or(1, |jobs| jobs as usize),
        options: &arguments.sbatch,
        is_rehearsal: arguments.dry_run,
    };
    jobs.check()?;
    fs::create_dir_all(output).map_err(with_path(output))?;
    manifest.write(output)?;
    jobs.submit()?;
    if !arguments.dry_run {
        println!("the tables will be in {}; the logs are in {}", output.display(), jobs.folder.display());
    }
    Ok(())
}

fn draw(figures: &[plot::FigureSpec], output: &Path, mode: OutputMode) -> Result<(), Failure> {
    if figures.is_empty() {
        return Ok(());
    }
    let results = plot::Results::read(output)?;
    for spec in figures {
        let drawn = plot::draw(spec, &results, output, None)?;
        drawn.notes.iter().for_each(|note| mode.print(note));
        drawn.written.iter().take(1).for_each(|file| mode.print(&format!("figure: {}", file.display())));
    }
    Ok(())
}

/// Output mode: sentences on standard output, or only JSON at the end.
#[derive(Clone, Copy)]
pub struct OutputMode {
    /// Whether the output is JSON.
    pub json: bool,
}

impl OutputMode {
    /// Prints a line of text, unless the output is JSON.
    pub(crate) fn print(self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }
}

/// Runs a plan for another command, in its own directory. Returns the record of each point in order; fewer if
/// interrupted. Results of another `version` of the program or another sweep are removed.
pub(crate) fn run_plan(
    plan: &SweepPlan,
    output: &Path,
    version: String,
    runner: &PointRunner,
    mode: OutputMode,
) -> Result<Vec<PointRecord>, Failure> {
    let manifest = manifest(plan, version);
    let is_others = Manifest::read(output).is_ok_and(|there| manifest.clash(&there).is_some());
    if is_others {
        mode.print(&format!("Other runs stood in {}: they are removed.", output.display()));
        fs::remove_dir_all(output)?;
    }
    Ok(run_points(plan, output, &manifest, runner, mode)?.0)
}

/// Runs the unfinished points of a plan, or of a shard, and removes nothing: a directory with other runs is refused.
/// Shards have their own directories in `output`; the call without a shard takes over their finished points. Returns
/// the records and the number of points.
pub(crate) fn run_unfinished(
    plan: &SweepPlan,
    output: &Path,
    version: String,
    shard: Option<Shard>,
    runner: &PointRunner,
    mode: OutputMode,
) -> Result<(Vec<PointRecord>, usize), Failure> {
    let shards = output.join("shards");
    let manifest = Manifest { shard, ..manifest(plan, version) };
    let directory = match shard {
        Some(Shard { number, of }) => shards.join(format!("{number}-of-{of}")),
        None => output.join("sweep"),
    };
    if shard.is_none() {
        merge::take_over(&shards, &directory, &manifest)?;
    }
    run_points(plan, &directory, &manifest, runner, mode)
}

fn manifest(plan: &SweepPlan, version: String) -> Manifest {
    Manifest {
        format: Manifest::FORMAT.to_owned(),
        version,
        name: plan.name.clone(),
        made_by: Origin::Run,
        identity: plan.identity.clone(),
        points: plan.points.len(),
        shard: None,
        columns: plan.columns.clone(),
        figures: Vec::new(),
    }
}

/// Runs the unfinished points and writes the tables of all finished ones. Returns the records and the number of points.
fn run_points(
    plan: &SweepPlan,
    output: &Path,
    manifest: &Manifest,
    runner: &PointRunner,
    mode: OutputMode,
) -> Result<(Vec<PointRecord>, usize), Failure> {
    let to = SweepDir::open(output, manifest)?;
    to.clear_unfinished()?;
    let mine: Vec<&Point> =
        plan.points.iter().filter(|point| manifest.shard.is_none_or(|shard| shard.has(point.number))).collect();
    let ResumeState { records, pending, late, unreadable } = resume_state(plan, &to, &mine)?;
    if !records.is_empty() {
        mode.print(&format!("{} of them finished by an earlier call.", count(records.len() as u64)));
    }
    if late > 0 {
        mode.print(&format!("{} of them lost too much of their time to the machine, and run anew.", count(late)));
    }
    unreadable.iter().for_each(|point| mode.print(&format!("{point}; it runs anew.")));
    let bar = match &runner.progress {
        Some(_) => ProgressBar::hidden(),
        None => {
            runner.stop.on_signals()?;
            progress_bar(&plan.name, mine.len(), &records)
        }
    };
    runner.report(records.len(), mine.len(), None);
    let records = Mutex::new((records, Ok(())));
    let on_finished = |finished: FinishedPoint| {
        let number = finished.point.number;
        let read = record(&to, finished, &plan.columns);
        let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(record) => drop(records.0.insert(number, record)),
            Err(failure) => records.1 = Err(failure),
        }
        bar.set_message(failed_so_far(&records.0));
        bar.inc(1);
        runner.report(records.0.len(), mine.len(), Some(number));
    };
    let ran = workers::run(runner, plan, &pending, &to, &on_finished);
    bar.finish_and_clear();
    let (records, read) = records.into_inner().unwrap_or_else(PoisonError::into_inner);
    ran.and(read)?;
    let records: Vec<PointRecord> = records.into_values().collect();
    results::write(output, &plan.points[0], &plan.columns, &records)?;
    Ok((records, mine.len()))
}

/// Finished and remaining points of an earlier call.
struct ResumeState<'p> {
    records: BTreeMap<usize, PointRecord>,
    pending: Vec<&'p Point>,
    /// Number of pending points that are finished but were late.
    late: u64,
    /// Pending points whose results can't be read, each with the reason.
    unreadable: Vec<String>,
}

fn resume_state<'p>(plan: &SweepPlan, to: &SweepDir, points: &[&'p Point]) -> Result<ResumeState<'p>, Failure> {
    let mut state = ResumeState { records: BTreeMap::new(), pending: Vec::new(), late: 0, unreadable: Vec::new() };
    for point in points {
        let finished = to.finished(point).map(|finished| record(to, finished, &plan.columns)).transpose()?;
        match finished {
            Some(PointRecord { finished, .. }) if finished.outcome == PointOutcome::Crashed => {
                state.unreadable.push(format!("{}: {}", finished.point.folder, finished.reason));
                state.pending.push(*point);
            }
            Some(record) if !record.is_late(plan.allowed_lateness) => drop(state.records.insert(point.number, record)),
            finished => {
                state.late += u64::from(finished.is_some());
                state.pending.push(*point);
            }
        }
    }
    Ok(state)
}

fn record(to: &SweepDir, finished: FinishedPoint, columns: &[String]) -> Result<PointRecord, Failure> {
    let folder = to.folder(&finished.point);
    PointRecord::read(finished, &folder, columns)
}

/// Reports the results, failures first.
fn conclude(output: &Path, records: &[PointRecord], all: usize, mode: OutputMode) -> Result<(), Failure> {
    let bad: Vec<&FinishedPoint> =
        records.iter().filter(|record| !record.is_good()).map(|record| &record.finished).collect();
    let missing = all - records.len();
    if mode.json {
        let failed = |finished: &&FinishedPoint| serde_json::json!({ "point": finished.point.folder, "reason": finished.reason });
        print!(
            "{}",
            json_text(&serde_json::json!({
                "results": output,
                "points": all,
                "good": records.len() - bad.len(),
                "failed": bad.iter().map(failed).collect::<Vec<_>>(),
                "left": missing,
            }))
        );
    } else {
        print_summary(output, records, &bad, all);
    }
    let crashed = bad.iter().filter(|finished| finished.outcome == PointOutcome::Crashed).count();
    let again =
        if crashed > 0 { format!("; weir sweep called again tries the {crashed} that crashed") } else { String::new() };
    match (bad.len(), missing) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Run(format!("interrupted with {} left", points(missing)))),
        (bad, _) => Err(Failure::Run(format!("{bad} of {} failed{again}", points(all)))),
    }
}

fn print_summary(output: &Path, records: &[PointRecord], bad: &[&FinishedPoint], all: usize) {
    const NAMED_MAX: usize = 5;
    if !bad.is_empty() {
        println!("{} of {} FAILED:", count(bad.len() as u64), points(all));
    }
    for finished in bad.iter().take(NAMED_MAX) {
        println!("  {}: {}", finished.point.folder, finished.reason);
    }
    if bad.len() > NAMED_MAX {
        println!("  and {} more, see failures.csv", bad.len() - NAMED_MAX);
    }
    let missing = all - records.len();
    if missing > 0 {
        println!("INTERRUPTED: {} are left. Repeat the command to go on with them.", points(missing));
    }
    let parquet = if cfg!(feature = "parquet") { " and results.parquet" } else { "" };
    println!("results: {}/results.csv{parquet} ({})", output.display(), points(records.len() - bad.len()));
    println!("with them: failures.csv, timings.csv");
}

fn points(n: usize) -> String {
    if n == 1 { "1 point".to_owned() } else { format!("{} points", count(n as u64)) }
}

fn failed_so_far(records: &BTreeMap<usize, PointRecord>) -> String {
    match records.values().filter(|record| !record.is_good()).count() {
        0 => String::new(),
        failed => format!("{} failed", count(failed as u64)),
    }
}

fn progress_bar(name: &str, points: usize, records: &BTreeMap<usize, PointRecord>) -> ProgressBar {
    let template = "{prefix} [{bar:32}] {pos:>6} of {len} points, {left} left  {msg}";
    let bar = progress::bar(points as u64, records.len() as u64, template);
    bar.set_prefix(name.to_owned());
    bar.set_message(failed_so_far(records));
    bar
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::Summary;

    use super::plan::tests::plan;
    use super::*;

    #[test]
    fn a_later_call_runs_what_was_late_anew_and_keeps_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = plan(&directory, "seeds = [1, 2]\nruns = [\"DT\"]\n").unwrap();
        let to = SweepDir::open(&directory.path().join("out"), &manifest(&plan, "1".to_owned())).unwrap();
        for (point, late_ns) in plan.points.iter().zip([10_000, 80_000]) {
            let [part, text, log] = to.unfinished_paths(point);
            fs::create_dir_all(&part).unwrap();
            let summary = Summary { duration_ns: 1_000_000, late_ns, ..Summary::default() };
            fs::write(part.join("summary.json"), serde_json::to_string(&summary).unwrap()).unwrap();
            fs::write(&text, "").unwrap();
            fs::write(&log, "").unwrap();
            let finished =
                FinishedPoint { point: point.clone(), outcome: PointOutcome::Good, reason: String::new(), wall_ms: 1 };
            to.finish(&finished).unwrap();
        }
        let remaining = |plan: &SweepPlan| {
            let points: Vec<&Point> = plan.points.iter().collect();
            let ResumeState { records, pending, late, .. } = resume_state(plan, &to, &points).unwrap();
            let pending: Vec<usize> = pending.into_iter().map(|point| point.number).collect();
            (records.into_keys().collect::<Vec<_>>(), pending, late)
        };
        assert_eq!(remaining(&plan), (vec![1, 2], vec![], 0), "nothing is said to be too much");
        plan.allowed_lateness = Some(5.0);
        assert_eq!(remaining(&plan), (vec![1], vec![2], 1));
        plan.allowed_lateness = Some(0.5);
        assert_eq!(remaining(&plan), (vec![], vec![1, 2], 2));
        plan.allowed_lateness = Some(100.0);
        assert_eq!(remaining(&plan), (vec![1, 2], vec![], 0));
        fs::write(to.folder(&plan.points[1]).join("summary.json"), "{\n  \"durat").unwrap();
        assert_eq!(remaining(&plan), (vec![1], vec![2], 0), "results that can't be read");
        let ResumeState { unreadable, .. } = resume_state(&plan, &to, &[&plan.points[1]]).unwrap();
        assert!(matches!(&unreadable[..], [what] if what.contains("summary.json")), "{unreadable:?}");
    }
}
