//! `weir reproduce`: reproduces a paper's figure by one command, with a verdict.
//!
//! An `experiment` is a folder of data: a scenario, its sweeps, and the paper's findings. Its points run as a sweep.
//! `rows` holds their results, `measure` reads numbers from these, and `verdict` judges the numbers. `figure` draws,
//! `outcome` prints, and `page` writes a page for colleagues. `stored` keeps results in the experiment's folder, and
//! `site` makes pages of them.

pub mod backends;
mod catalogue;
mod check;
mod claim_map;
mod experiment;
pub mod explore;
mod figure;
mod joint;
mod late_runs;
mod lateness;
mod measure;
mod mutation;
mod mutation_test;
mod outcome;
mod page;
mod page_table;
mod paper;
mod paper_file;
mod rows;
mod sentence;
pub mod site;
mod stored;
mod unspecified;
mod verdict;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::time::{Instant, SystemTime};

use weir_results::run_dir::{Provenance, Summary};

use self::catalogue::{ExperimentSelection, catalogue};
use self::experiment::Experiment;
use self::lateness::Lateness;
use self::outcome::Environment;
use self::rows::ResultRows;
use self::stored::{FigureResults, StoredResult};
use self::verdict::{Conclusions, ExperimentOutcome};
use crate::Failure;
use crate::experiment::{Backend, VERSION, cores};
use crate::files::json_text;
use crate::real_frames;
use crate::slurm::{self, Job, JobArray};
use crate::sweep::{self, ColumnSelection, OutputMode, Shard, SweepFile, SweepPlan};
use crate::sweep::{PointOutcome, PointRecord, PointRunner};
use crate::table::key_path::KeyPath;

/// Arguments of `weir reproduce`.
#[derive(Default, clap::Args)]
pub struct ReproduceArguments {
    /// Experiments to reproduce: gfc.9, all of a paper (gfc), all; or the folder of an experiment or a paper of your own.
    #[arg(value_name = "ID", required_unless_present = "list")]
    ids: Vec<String>,
    /// List experiments, all by default, with the stored verdicts of virtual time on conclusions and numbers.
    #[arg(long)]
    list: bool,
    /// Reduced form of each, below a minute; the output names the omitted parts.
    #[arg(long)]
    quick: bool,
    /// Check everything, and say how much there is to run.
    #[arg(long)]
    dry_run: bool,
    /// Backend: virtual time, or real frames or real hosts if the experiment supports them.
    #[arg(long, value_name = "NAME", default_value = "sim")]
    backend: Backend,
    /// Directory of the results, in which each experiment gets one of its own; by default runs/papers, runs/papers-dpdk or
    /// runs/papers-hosts.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Number of cores: one for each run, or several if there are fewer runs than cores; by default all.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    jobs: Option<u32>,
    /// Override a value of the scenario at every point, to see its effect on the verdict: switch.buffer.spfc.k_spfc=1
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Number of seeds for each point, from the sweep's first on, in place of its own; repeats with real hosts.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with_all = ["list", "farm", "mutations"])]
    seeds: Option<u32>,
    /// Maximum share of its time that a run with real frames or hosts may lose to the machine and still be judged, 5 by default; the same
    /// command repeats the others. 100 judges all runs.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "list")]
    lateness: Option<f64>,
    /// Run each experiment's mutations too: a claim must fail under each, and the exit code is 1 if one does not.
    #[arg(long, conflicts_with_all = ["list", "set"])]
    mutations: bool,
    /// Run an experiment's farm.toml, or its full sweep, in this directory. Finished runs are never removed, and a call continues with the
    /// rest.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "output", "quick", "set", "mutations"])]
    farm: Option<PathBuf>,
    /// Run every N-th run of the farm, from the K-th on, without a verdict: for one of several machines with a common directory.
    #[arg(long, value_name = "K/N", requires = "farm", conflicts_with_all = ["slurm", "json"])]
    shard: Option<Shard>,
    /// Submit the farm to Slurm: a job array of shards, and a job that computes the verdict.
    #[arg(long, requires = "farm", conflicts_with = "json")]
    slurm: bool,
    /// Tasks of the job array.
    #[arg(long, value_name = "N", requires = "slurm", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    /// A further option of sbatch, as it is: --sbatch=--partition=long
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// A folder of papers, in place of scenarios/papers, here or where Weir was built; may be given several times.
    #[arg(long, value_name = "DIR", alias = "experiments")]
    papers: Vec<PathBuf>,
    /// Store the results in each experiment's folder: result.json, which keeps those of other backends and the map, and the figure.
    #[arg(long, conflicts_with_all = ["list", "set", "dry_run", "slurm", "shard"])]
    store: bool,
    /// Print all claims and reasons; by default 12 lines of claims.
    #[arg(long, conflicts_with_all = ["list", "json"])]
    all: bool,
    /// Print verdicts, numbers and claims as JSON in place of tables; with --list, the experiments.
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok();
    let number = number.filter(|percent| (0.0..=100.0).contains(percent));
    number.ok_or_else(|| "write a share of a run's time, 0 to 100 percent: --lateness 2".to_owned())
}

/// Reproduction for another program, in virtual time.
#[derive(Clone, Debug, Default)]
pub struct FigureRequest {
    /// Name of the experiment, or its folder.
    pub id: String,
    /// Whether to run the reduced form.
    pub quick: bool,
    /// Overrides of the scenario, `PATH=VALUE`.
    pub set: Vec<String>,
    /// Number of seeds for each point, in place of its own.
    pub seeds: Option<u32>,
    /// Folders of papers; if empty, those of the command.
    pub papers: Vec<PathBuf>,
}

impl FigureRequest {
    /// Runs the unfinished points into a directory, as `weir reproduce` does, and returns the outcome as JSON.
    ///
    /// # Errors
    /// An unknown experiment, several of a name, invalid overrides, or an interruption.
    pub fn run(&self, directory: &Path, runner: &PointRunner) -> Result<String, Failure> {
        let arguments = ReproduceArguments {
            ids: vec![self.id.clone()],
            quick: self.quick,
            set: self.set.clone(),
            seeds: self.seeds,
            papers: self.papers.clone(),
            json: true,
            ..ReproduceArguments::default()
        };
        let choice = ExperimentSelection { ids: &arguments.ids, papers: &arguments.papers };
        let chosen = choice.experiments(|experiment| experiment.paper.backends.contains(&Backend::Sim))?;
        let [experiment] = &chosen[..] else {
            let ids: Vec<&str> = chosen.iter().map(|experiment| experiment.id.as_str()).collect();
            return Err(Failure::Argument(format!("\"{}\": name one of: {}", self.id, ids.join(", "))));
        };
        let plan = plan(experiment, &arguments, &overrides(&arguments.set)?, runner.jobs)?;
        let version = sweep::build_version(&runner.code)?;
        Ok(json_text(&run(experiment, &plan, &arguments, directory, &version, runner)?.0))
    }
}

/// Executes `weir reproduce`. A claim that does not hold is a result, not a failure; an experiment that is not judged
/// is a failure.
pub fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let usual = match arguments.backend {
        Backend::Sim => "runs/papers",
        Backend::Dpdk => "runs/papers-dpdk",
        Backend::Hosts => "runs/papers-hosts",
    };
    let output = arguments.farm.clone().or_else(|| arguments.output.clone()).unwrap_or_else(|| PathBuf::from(usual));
    let choice = ExperimentSelection { ids: &arguments.ids, papers: &arguments.papers };
    if arguments.list {
        let mut all = Vec::new();
        let listed =
            if arguments.ids.is_empty() { catalogue(&choice.folders()?) } else { choice.experiments(|_| true) };
        for experiment in listed? {
            let outcome = FigureResults::read(&experiment)?.result(Backend::Sim).map(|result| result.outcome.clone());
            all.push((experiment, outcome));
        }
        if arguments.json {
            print!("{}", json_text(&outcome::listed(&all)));
        } else {
            outcome::list(&all, !arguments.ids.is_empty());
        }
        return Ok(());
    }
    let jobs = arguments.jobs.map_or_else(cores, |jobs| jobs as usize);
    let overrides = overrides(&arguments.set)?;
    let chosen = choice.experiments(|experiment| experiment.paper.backends.contains(&arguments.backend))?;
    if chosen.is_empty() {
        let (backend, lack) = (arguments.backend.name(), lack(arguments.backend));
        return Err(Failure::Argument(format!(
            "--backend {backend}: each of these experiments {lack}; name another one"
        )));
    }
    let mut planned = Vec::new();
    for experiment in &chosen {
        planned.push((experiment, plan(experiment, arguments, &overrides, jobs)?));
    }
    match arguments.backend {
        _ if arguments.json => {}
        Backend::Sim if arguments.farm.is_some() => outcome::introduce(&chosen, Experiment::farm_cpu_seconds, jobs),
        Backend::Sim => outcome::introduce(&chosen, |experiment| experiment.cpu_seconds(arguments.quick), jobs),
        Backend::Dpdk | Backend::Hosts => {
            real_frames::reach()?;
            let time: Result<_, Failure> = planned.iter().map(|(_, plan)| plan.real_time()).sum();
            outcome::introduce_real(&chosen, arguments.backend, time?);
        }
    }
    if arguments.slurm {
        return planned.iter().try_for_each(|(experiment, _)| submit(experiment, arguments, &output));
    }
    if arguments.dry_run && arguments.json {
        let runs = planned.iter().map(|(experiment, plan)| {
            Ok(serde_json::json!({ "id": experiment.id, "runs": plan.points.len(), "hosts": plan.host_count()? }))
        });
        print!("{}", json_text(&runs.collect::<Result<Vec<_>, Failure>>()?));
        return Ok(());
    }
    if arguments.dry_run {
        for (experiment, plan) in &planned {
            let count = plan.points.len();
            println!("{}: {count} run{}", experiment.id, if count == 1 { "" } else { "s" });
        }
        return Ok(());
    }
    let runner = PointRunner::of_command(jobs)?;
    let (mut outcomes, mut mutation_results, version) = (Vec::new(), Vec::new(), sweep::build_version(&runner.code)?);
    for (experiment, plan) in planned {
        let directory = output.join(&experiment.id);
        if let Some(shard) = arguments.shard {
            work_off(experiment, &plan, &directory, &version, Some(shard), &runner, OutputMode { json: false })?;
            continue;
        }
        match run(experiment, &plan, arguments, &directory, &version, &runner) {
            Ok((outcome, of_mutations)) => {
                outcomes.push(outcome);
                mutation_results.push((experiment.id.clone(), of_mutations));
            }
            // Finished experiments are reported despite the failure.
            Err(failure) => {
                conclude(&outcomes, arguments.json);
                return Err(failure);
            }
        }
    }
    conclude(&outcomes, arguments.json);
    mutation_test::conclude(&mutation_results)?;
    match outcomes.iter().find(|outcome| outcome.conclusions == Conclusions::NotJudged) {
        None => Ok(()),
        Some(outcome) => Err(Failure::Unavailable(format!(
            "{}: not judged: {}; the same command runs what was late anew",
            outcome.id,
            outcome.lateness.as_ref().map_or_else(String::new, Lateness::in_short)
        ))),
    }
}

fn conclude(outcomes: &[ExperimentOutcome], json: bool) {
    if json {
        print!("{}", json_text(&outcomes));
    } else if outcomes.len() > 1 {
        outcome::print_all(outcomes);
    }
}

/// Reason why an experiment can't run on this backend.
fn lack(backend: Backend) -> &'static str {
    if backend == Backend::Hosts { "has no real hosts" } else { "can't run with real frames" }
}

/// Plans all points of an experiment, checked.
fn plan(
    experiment: &Experiment,
    arguments: &ReproduceArguments,
    overrides: &[(KeyPath, toml::Value)],
    jobs: usize,
) -> Result<SweepPlan, Failure> {
    if arguments.mutations && arguments.backend.is_real() {
        return Err(Failure::Argument("--mutations: mutations run in virtual time; leave --backend out".to_owned()));
    }
    if !experiment.paper.backends.contains(&arguments.backend) {
        let (backend, id, lack) = (arguments.backend.name(), &experiment.id, lack(arguments.backend));
        return Err(Failure::Argument(format!("--backend {backend}: {id} {lack}; leave it out")));
    }
    if arguments.lateness.is_some() && !arguments.backend.is_real() {
        return Err(Failure::Argument("--lateness: virtual time is never late; leave it out".to_owned()));
    }
    if arguments.farm.is_some() && arguments.backend.is_real() {
        return Err(Failure::Argument("--farm: a farm runs in virtual time; leave --backend out".to_owned()));
    }
    let sweep = match &arguments.farm {
        Some(_) => experiment.farm_sweep()?,
        None => experiment.sweep(arguments.quick, arguments.backend)?.with_seeds(arguments.seeds),
    };
    let file = SweepFile {
        columns: ColumnSelection::only(experiment.columns()),
        overrides: overrides.to_vec(),
        backend: arguments.backend,
        ..sweep
    };
    let mut plan = SweepPlan::new(&file, jobs).map_err(|failure| blamed(failure, &arguments.set))?;
    plan.allowed_lateness =
        arguments.backend.is_real().then(|| arguments.lateness.unwrap_or(Summary::LATE_PERCENT_MAX));
    // Measures may refer to points that only a farm runs.
    let is_all = arguments.farm.is_some() || !experiment.has_farm();
    let is_full = is_all && experiment.less(arguments.quick, arguments.backend).is_none();
    check::of_plan(experiment, &plan, is_full)?;
    Ok(plan)
}

/// Runs the unfinished points and returns the outcome; with `--mutations`, also the mutations' results.
fn run(
    experiment: &Experiment,
    plan: &SweepPlan,
    arguments: &ReproduceArguments,
    directory: &Path,
    version: &str,
    runner: &PointRunner,
) -> Result<(ExperimentOutcome, Vec<mutation_test::MutationResult>), Failure> {
    if !arguments.json {
        outcome::head(experiment);
    }
    let (started, began) = (Instant::now(), SystemTime::now());
    // Real frames need the whole machine.
    let runner = &PointRunner { jobs: if arguments.backend.is_real() { 1 } else { runner.jobs }, ..runner.clone() };
    fs::create_dir_all(directory).map_err(|error| Failure::Argument(format!("{}: {error}", directory.display())))?;
    let mode = OutputMode { json: arguments.json };
    let records = match arguments.farm {
        Some(_) => work_off(experiment, plan, directory, version, None, runner, mode)?,
        None => {
            let records = sweep::run_plan(plan, &directory.join("sweep"), version.to_owned(), runner, mode)?;
            uninterrupted(experiment, records, plan.points.len())?
        }
    };
    let cpu_ms = records.iter().filter_map(|record| record.cpu_ms).sum();
    let lateness = Lateness::from_records(&records, plan.allowed_lateness);
    let rows = ResultRows::new(plan.columns.clone(), records.clone());
    let readings = measure::read(&experiment.paper.measures, &rows)?;
    let (mut numbers, mut claims) = verdict::judge(&experiment.paper, &readings);
    if !arguments.backend.is_real() && arguments.seeds.is_none() {
        // An experiment's own seeds are a sample of messages: a single seed's value means nothing.
        numbers.iter_mut().for_each(|number| number.least_and_most = None);
    }
    late_runs::fail_claims_of_failed_runs(&experiment.paper, &records, &mut claims);
    if let Some(lateness) = &lateness {
        lateness.unjudge(&experiment.paper, &records, &mut numbers, &mut claims);
    }
    let seeds: BTreeSet<Option<u32>> = plan.points.iter().map(|point| point.seed).collect();
    let less = experiment.less(arguments.quick, arguments.backend);
    let outcome = ExperimentOutcome {
        format: ExperimentOutcome::FORMAT.to_owned(),
        id: experiment.id.clone(),
        conclusions: Conclusions::default(),
        summary: String::new(),
        numbers_summary: String::new(),
        reasons: Vec::new(),
        failed_runs: records.iter().filter(|record| !record.is_good()).count(),
        failures: failures(&records),
        lateness,
        left_out: less.map(|less| less.leaves_out.clone()),
        set: arguments.set.clone(),
        backend: arguments.backend.name().to_owned(),
        hosts: plan.host_count()?,
        points: plan.points.len(),
        seeds: seeds.len(),
        numbers,
        claims,
    };
    let outcome = outcome.with_sentences();
    let environment = Environment {
        commit: env!("WEIR_COMMIT").to_owned(),
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        cpu_ms,
        provenance: Provenance::new(VERSION, std::env::args(), began),
    };
    outcome::write(directory, &outcome, &environment)?;
    let figure = figure::draw(experiment, &rows, directory)?;
    let page = page::write(experiment, &outcome, &rows, figure.as_ref(), directory)?;
    if !arguments.json {
        outcome::print(&outcome, &experiment.paper, arguments.all, figure.iter().chain([&page]), directory);
        if let Some(map) = explore::read(directory)? {
            println!("over what the paper leaves open: it {}", map.verdict);
        } else if !experiment.paper.open.is_empty() {
            let folder = experiment.folder().display().to_string();
            let by_folder = arguments.ids.iter().any(|id| Path::new(id).is_dir());
            let named = if by_folder { &folder } else { &experiment.id };
            println!("in which of the settings that the paper leaves open: weir explore {named}");
        }
    }
    let mutation_test =
        mutation_test::MutationTest { experiment, quick: arguments.quick, directory, version, runner, mode };
    let mutation_results = if arguments.mutations { mutation_test.run(&records)? } else { Vec::new() };
    if arguments.store {
        let result =
            StoredResult { outcome: outcome.clone(), environment, mutations: mutation_results.clone(), note: None };
        mode.print(&format!(
            "stored: {}",
            stored::store_result(experiment, arguments.backend, result, figure)?.display()
        ));
    }
    Ok((outcome, mutation_results))
}

/// Runs the unfinished points of a farm, or of a shard, and removes nothing.
fn work_off(
    experiment: &Experiment,
    plan: &SweepPlan,
    directory: &Path,
    version: &str,
    shard: Option<Shard>,
    runner: &PointRunner,
    mode: OutputMode,
) -> Result<Vec<PointRecord>, Failure> {
    let (records, all) = sweep::run_unfinished(plan, directory, version.to_owned(), shard, runner, mode)?;
    uninterrupted(experiment, records, all)
}

/// Records of all runs.
///
/// # Errors
/// An interrupted sweep, with runs left.
fn uninterrupted(experiment: &Experiment, records: Vec<PointRecord>, all: usize) -> Result<Vec<PointRecord>, Failure> {
    let left = all - records.len();
    if left > 0 {
        return Err(Failure::Run(format!(
            "{}: interrupted with {left} of {all} runs left; repeat the command to go on with them",
            experiment.id,
        )));
    }
    Ok(records)
}

/// Submits a farm to Slurm: the shards, and the job that computes the verdict.
fn submit(experiment: &Experiment, arguments: &ReproduceArguments, output: &Path) -> Result<(), Failure> {
    let [folder, to] = [experiment.folder(), output].map(slurm::shown);
    let command = format!("{} reproduce {} --farm {}", slurm::program()?, folder?, to?);
    let jobs = JobArray {
        folder: absolute(output.join(&experiment.id).join("slurm"))?,
        last: Job { name: "verdict", command: format!("{command} -j 1") },
        array: Job { name: "array", command },
        last_does: "comes to the verdict",
        tasks: arguments.tasks as usize,
        cores: arguments.jobs.unwrap_or(1) as usize,
        options: &arguments.sbatch,
        is_rehearsal: arguments.dry_run,
    };
    jobs.check()?;
    jobs.submit()
}

/// Failed runs, in sentences.
fn failures(records: &[PointRecord]) -> Vec<String> {
    const NAMED_MAX: usize = 3;
    let bad: Vec<&PointRecord> =
        records.iter().filter(|record| record.finished.outcome != PointOutcome::Good).collect();
    let describe = |record: &&PointRecord| {
        let finished = &record.finished;
        format!("the run {} failed: {}", finished.point.folder, finished.reason)
    };
    let mut sentences: Vec<String> = bad.iter().take(NAMED_MAX).map(describe).collect();
    if bad.len() > NAMED_MAX {
        sentences.push(format!(
            "{} more of {} runs failed, see sweep/failures.csv",
            bad.len() - NAMED_MAX,
            records.len()
        ));
    }
    sentences
}

/// Parses `PATH=VALUE` arguments; a value that is not TOML is a string.
fn overrides(set: &[String]) -> Result<Vec<(KeyPath, toml::Value)>, Failure> {
    let wrong =
        |text: &String| Failure::Argument(format!("--set {text}: write PATH=VALUE: --set switch.buffer.spfc.k_spfc=1"));
    let parse = |text: &String| {
        let (path, value) = text.split_once('=').ok_or_else(|| wrong(text))?;
        let path = KeyPath::parse(path.trim()).ok_or_else(|| wrong(text))?;
        let parsed = format!("value = {value}").parse::<toml::Table>();
        let parsed = parsed.ok().and_then(|mut table| table.remove("value"));
        Ok((path, parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()))))
    };
    set.iter().map(parse).collect()
}

/// Attributes a scenario error to `--set`, if given: the scenario alone is valid.
fn blamed(failure: Failure, set: &[String]) -> Failure {
    match failure {
        Failure::Input(errors) if !set.is_empty() => {
            let messages: Vec<String> =
                errors.iter().take(1).map(|error| format!("{}; {}", error.message(), error.help_text())).collect();
            Failure::Argument(format!("--set {}: {}", set.join(" --set "), messages.concat()))
        }
        other => other,
    }
}
