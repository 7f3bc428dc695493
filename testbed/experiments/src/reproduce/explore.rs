//! `weir explore`: map of the settings in which a paper's claims hold, over the parameters that the paper leaves
//! unspecified.
//!
//! `unspecified`, in the parent module, defines these parameters. `design` chooses the settings; `settings` runs and judges
//! them in batches; `analysis` finds the deciding parameter. `map` is the stored result, `picture` draws it, and `text`
//! prints it.

mod analysis;
mod design;
mod map;
mod picture;
mod settings;
mod text;

use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use weir_results::run_dir::Provenance;
use weir_units::Span;

use self::design::Setting;
use self::map::ExplorationResults;
use self::settings::{JudgedSetting, Runner};
use super::catalogue::{ExperimentSelection, catalogue};
use super::claim_map::ClaimMap;
use super::experiment::Experiment;
use super::outcome::{self, Environment};
use super::stored::{self, MAP_PICTURE, StoredMap};
use super::unspecified::UnspecifiedParameter;
use crate::Failure;
use crate::experiment::{VERSION, cores};
use crate::files::{json_text, quoted, read_json, slug, with_path, write_json};
use crate::slurm::{self, Job, JobArray};
use crate::sweep::{OutputMode, PointRunner, Shard, build_version};
use crate::table::typed::{Cell, TypedTable};

pub(super) use self::text::{extent, nearest};

/// Arguments of `weir explore`.
#[derive(clap::Args)]
pub struct ExploreArguments {
    /// Experiments to explore: gfc.9, all of a paper (gfc), all; or the folder of your own. Those without unspecified parameters are skipped.
    #[arg(value_name = "ID", required_unless_present = "list")]
    ids: Vec<String>,
    /// List the parameters that the papers leave unspecified, with the values that are tried.
    #[arg(long, conflicts_with = "ids")]
    list: bool,
    /// CPU time for each figure: settings are run until the next ones would take more. A longer time goes on with the same settings.
    #[arg(long, value_name = "TIME", default_value = "100s", value_parser = budget)]
    cpu: Span,
    /// Number of settings to run, in place of a CPU time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    settings: Option<u32>,
    /// Run only settings with this value of an unspecified parameter; repeat it for several values.
    #[arg(long, value_name = "NAME=VALUE")]
    pin: Vec<String>,
    /// Number of seeds for each setting, from the map's first on, in place of its own; written to a separate folder.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Check everything, and say how many settings and runs there are.
    #[arg(long)]
    dry_run: bool,
    /// Directory of the results, in which each map is ID/map; by default runs/papers.
    #[arg(short, long, value_name = "DIR", default_value = "runs/papers")]
    output: PathBuf,
    /// Number of cores; by default all.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    jobs: Option<u32>,
    /// Submit a job array to Slurm, and a job that draws the map; with --settings.
    #[arg(long, requires = "settings", conflicts_with = "json")]
    slurm: bool,
    /// Tasks of the job array.
    #[arg(long, value_name = "N", requires = "slurm", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    /// A further option of sbatch, as it is: --sbatch=--partition=long
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Run every N-th batch of settings, from the K-th on, without a map: for one of several machines with a common directory.
    #[arg(long, value_name = "K/N", requires = "settings", conflicts_with_all = ["slurm", "json"])]
    shard: Option<Shard>,
    /// A folder of papers, in place of scenarios/papers, here or where Weir was built; may be given several times.
    #[arg(long, value_name = "DIR")]
    papers: Vec<PathBuf>,
    /// Store each map in its experiment's folder: result.json, which keeps the results of weir reproduce, and map.svg.
    #[arg(long, conflicts_with_all = ["list", "pin", "dry_run", "slurm", "shard"])]
    store: bool,
    /// Print the maps as JSON in place of tables.
    #[arg(long)]
    json: bool,
}

/// Settings per sweep. A kill loses only the progress bar of a batch, not its runs.
const BATCH: usize = 8;
/// Maximum number of settings without `--settings`.
const SETTINGS_MAX: usize = 4_096;
const MAP: &str = "map.json";

fn budget(text: &str) -> Result<Span, String> {
    // Minutes are also written as `m`.
    let text = if text.ends_with(|c: char| c.is_ascii_digit()) || !text.ends_with('m') {
        text.to_owned()
    } else {
        format!("{text}in")
    };
    text.parse().map_err(|_| "write a time with its unit: --cpu 90s, --cpu 30min".to_owned())
}

/// Executes `weir explore`. A claim that holds nowhere is a result, not a failure.
pub fn explore(arguments: &ExploreArguments) -> Result<(), Failure> {
    let choice = ExperimentSelection { ids: &arguments.ids, papers: &arguments.papers };
    if arguments.list {
        text::list(&catalogue(&choice.folders()?)?);
        return Ok(());
    }
    let chosen = chosen(&choice)?;
    let points = PointRunner::of_command(arguments.jobs.map_or_else(cores, |jobs| jobs as usize))?;
    let (version, mode) = (build_version(&points.code)?, OutputMode { json: true });
    let mut maps = Vec::new();
    chosen.iter().try_for_each(check_axes)?;
    for experiment in &chosen {
        let of_map = experiment.of_map();
        let (open, pins) = pinned(experiment, &arguments.pin, chosen.len())?;
        let seeds = arguments.seeds.map(|seeds| format!("seeds {seeds}"));
        let special: Vec<&str> = pins.iter().chain(&seeds).map(String::as_str).collect();
        let name = if special.is_empty() { "map".to_owned() } else { format!("map-{}", slug(&special.join(" "))) };
        let directory = arguments.output.join(&experiment.id).join(name);
        let runner = Runner {
            experiment: &of_map,
            open: &open,
            seeds: arguments.seeds,
            directory: &directory,
            version: &version,
            points: &points,
            mode,
        };
        let exploration = Exploration { runner, pins: &pins, arguments, began: SystemTime::now() };
        if arguments.dry_run {
            exploration.rehearse()?;
            continue;
        }
        if arguments.slurm {
            exploration.runner.plan(&[taken(&open)], &experiment.id)?;
            submit(arguments, experiment)?;
            continue;
        }
        if let Some(map) = exploration.run()? {
            if !arguments.json {
                text::print(&of_map, &map, &directory);
            }
            maps.push(map);
        }
    }
    if arguments.json && !arguments.dry_run {
        print!("{}", json_text(&maps));
    } else if maps.len() > 1 {
        text::print_all(&maps);
    }
    Ok(())
}

/// Submits the batches of a map to Slurm, and the job that draws it.
fn submit(arguments: &ExploreArguments, experiment: &Experiment) -> Result<(), Failure> {
    let [folder, output] = [experiment.folder(), &arguments.output].map(slurm::shown);
    let settings = arguments.settings.unwrap_or_default();
    let pins = arguments.pin.iter().map(|pin| format!(" --pin {}", quoted(pin)));
    let pins: String = pins.chain(arguments.seeds.map(|seeds| format!(" --seeds {seeds}"))).collect();
    let command = format!("{} explore {} -o {} --settings {settings}{pins}", slurm::program()?, folder?, output?);
    let jobs = JobArray {
        folder: absolute(arguments.output.join(&experiment.id).join("slurm"))?,
        last: Job { name: "map", command: format!("{command} -j 1") },
        array: Job { name: "array", command },
        last_does: "draws the map",
        tasks: arguments.tasks as usize,
        cores: arguments.jobs.unwrap_or(1) as usize,
        options: &arguments.sbatch,
        is_rehearsal: arguments.dry_run,
    };
    jobs.check()?;
    jobs.submit()
}

/// Selected experiments that have unspecified parameters.
fn chosen(choice: &ExperimentSelection<'_>) -> Result<Vec<Experiment>, Failure> {
    let all = choice.experiments(|_| true)?;
    let (open, closed): (Vec<Experiment>, Vec<Experiment>) =
        all.into_iter().partition(|experiment| !experiment.paper.open.is_empty());
    if open.is_empty() {
        let ids: Vec<&str> = closed.iter().map(|experiment| experiment.id.as_str()).collect();
        return Err(Failure::Argument(format!(
            "{}: nothing is open there; write [[open]] in paper.toml, see docs/EXPERIMENTS.md, or see weir explore --list",
            ids.join(", ")
        )));
    }
    Ok(open)
}

/// Refuses a map that lacks a parameter which decides other figures of its paper.
fn check_axes(experiment: &Experiment) -> Result<(), Failure> {
    let Some(of) = &experiment.of else { return Ok(()) };
    let is_open = |axis: &&String| experiment.paper.open.iter().any(|open| open.name == **axis);
    match of.axes.iter().find(|axis| !is_open(axis)) {
        None => Ok(()),
        Some(axis) => Err(Failure::Argument(format!(
            "{}: paper.toml has no [[open]] \"{axis}\", which about.toml lists in axes: add it, with the values that the figure may have",
            experiment.id
        ))),
    }
}

/// The default setting.
fn taken(open: &[UnspecifiedParameter]) -> Setting {
    open.iter().map(UnspecifiedParameter::taken).collect()
}

/// Unspecified parameters with the values that `--pin` leaves, and the pins of this experiment. With several
/// experiments, some may lack a pinned parameter.
fn pinned(
    experiment: &Experiment,
    pins: &[String],
    experiments: usize,
) -> Result<(Vec<UnspecifiedParameter>, Vec<String>), Failure> {
    let mut open = experiment.paper.open.clone();
    let mut mine = Vec::new();
    for thing in &mut open {
        let names = thing.names();
        let mut left = Vec::new();
        for pin in pins {
            let Some((_, value)) = pin.split_once('=').filter(|(name, _)| *name == thing.name) else { continue };
            let Some(place) = names.iter().position(|name| name == value) else {
                return Err(Failure::Argument(format!("--pin {pin}: write one of: {}", names.join(", "))));
            };
            left.push(place);
            mine.push(pin.clone());
        }
        if !left.is_empty() {
            *thing = thing.pinned(&left);
            if !left.iter().any(|place| names[*place] == thing.taken) {
                thing.taken = names[left[0]].clone();
            }
        }
    }
    if let Some(unknown) = pins.iter().find(|pin| !mine.contains(pin)).filter(|_| experiments == 1) {
        let names: Vec<String> = open.iter().map(|thing| format!("\"{}=...\"", thing.name)).collect();
        return Err(Failure::Argument(format!("--pin {unknown}: {} has open: {}", experiment.id, names.join(", "))));
    }
    Ok((open, mine))
}

struct Exploration<'a> {
    runner: Runner<'a>,
    pins: &'a [String],
    arguments: &'a ExploreArguments,
    began: SystemTime,
}

impl Exploration<'_> {
    /// Prints the number of settings and of runs in each, and checks all settings of a first batch.
    fn rehearse(&self) -> Result<(), Failure> {
        let (id, open) = (&self.runner.experiment.id, self.runner.open);
        let one = self.runner.plan(&[taken(open)], id)?;
        self.runner.plan(&self.order(BATCH), id)?;
        let all = design::combinations(&values(open)).map_or("more than a million".to_owned(), |all| all.to_string());
        println!("{id}: {all} settings of {} things, {} runs in each", open.len(), one.points.len());
        Ok(())
    }

    /// First settings, in the order in which they run.
    fn order(&self, wanted: usize) -> Vec<Setting> {
        design::settings(&values(self.runner.open), wanted)
    }

    /// Runs settings within the budget, draws the map, and writes it. A shard returns `None`.
    fn run(&self) -> Result<Option<ClaimMap>, Failure> {
        let id = &self.runner.experiment.id;
        let of = design::combinations(&values(self.runner.open));
        let order = self.order(self.arguments.settings.map_or(SETTINGS_MAX, |settings| settings as usize));
        let first = taken(self.runner.open);
        let is_mine = |batch: usize| self.arguments.shard.is_none_or(|shard| shard.has(batch + 1));
        if !self.arguments.json {
            println!("{id}: {}", self.runner.experiment.paper.title);
        }
        let mut all: Vec<JudgedSetting> = Vec::new();
        let mut is_interrupted = false;
        // The default setting runs first and alone, whether or not the design includes it.
        let batches = std::iter::once(std::slice::from_ref(&first)).chain(order.chunks(BATCH));
        for (batch, settings) in batches.enumerate() {
            if !is_mine(batch) {
                continue;
            }
            if !self.is_affordable(&all, settings.len()) {
                break;
            }
            let wanted: Vec<Setting> =
                settings.iter().filter(|setting| batch == 0 || **setting != first).cloned().collect();
            let name = format!("{id}: settings {} to {} of {}", all.len() + 1, all.len() + wanted.len(), order.len());
            match self.runner.run(&wanted, batch, &name)? {
                Some(judged) => all.extend(judged),
                None => {
                    is_interrupted = true;
                    break;
                }
            }
        }
        if self.arguments.shard.is_some() {
            return if is_interrupted { Err(interrupted(id)) } else { Ok(None) };
        }
        if all.is_empty() {
            return Err(interrupted(id));
        }
        let design: Vec<JudgedSetting> =
            order.iter().filter_map(|it| all.iter().find(|judged| judged.setting == *it)).cloned().collect();
        let explored = ExplorationResults {
            experiment: self.runner.experiment,
            open: self.runner.open,
            pins: self.pins,
            taken: &all[0],
            judged: &design,
            of,
            seeds: self.runner.sweep()?.seeds.len().max(1),
            runs: all.iter().map(|judged| judged.runs).sum(),
            cpu_ms: all.iter().map(|judged| judged.cpu_ms).sum(),
        };
        let map = ClaimMap::new(&explored);
        let environment = self.write(&map, &design)?;
        if is_interrupted {
            text::print(self.runner.experiment, &map, self.runner.directory);
            return Err(interrupted(id));
        }
        if self.arguments.store {
            let picture = self.runner.directory.join(MAP_PICTURE);
            let stored = StoredMap { map: map.clone(), environment };
            let path = stored::store_map(self.runner.experiment, stored, picture)?;
            if !self.arguments.json {
                println!("stored: {}", path.display());
            }
        }
        Ok(Some(map))
    }

    /// Whether `more` settings stay within the budget, estimated by the mean CPU time so far.
    fn is_affordable(&self, so_far: &[JudgedSetting], more: usize) -> bool {
        let used: u64 = so_far.iter().map(|judged| judged.cpu_ms).sum();
        let each = used / so_far.len().max(1) as u64;
        self.arguments.settings.is_some()
            || so_far.len() <= 1
            || used + each * more as u64 <= self.arguments.cpu.as_micros() / 1_000
    }

    fn write(&self, map: &ClaimMap, judged: &[JudgedSetting]) -> Result<Environment, Failure> {
        let directory = self.runner.directory;
        fs::create_dir_all(directory).map_err(with_path(directory))?;
        let (began, wall_ms) = (self.began, self.began.elapsed().map_or(0, |wall| wall.as_millis() as u64));
        let environment = Environment {
            commit: env!("WEIR_COMMIT").to_owned(),
            wall_ms,
            cpu_ms: map.cpu_ms,
            provenance: Provenance::new(VERSION, std::env::args(), began),
        };
        outcome::write_environment(directory, &environment)?;
        write_json(&directory.join(MAP), map)?;
        let path = directory.join("settings.csv");
        table(map, judged).write_csv(&path).map_err(with_path(&path))?;
        picture::write(map, directory)?;
        Ok(environment)
    }
}

fn interrupted(id: &str) -> Failure {
    Failure::Run(format!("{id}: interrupted; repeat the command to go on with the rest"))
}

fn values(open: &[UnspecifiedParameter]) -> Vec<usize> {
    open.iter().map(|thing| thing.values.len()).collect()
}

/// Map of an earlier call in an experiment's results; `None` if there is none.
pub(super) fn read(directory: &Path) -> Result<Option<ClaimMap>, Failure> {
    let path = directory.join("map").join(MAP);
    if !path.is_file() {
        return Ok(None);
    }
    let map: ClaimMap = read_json(&path)?;
    Ok(Some(map.with_updated_verdict()))
}

/// Table with a row per setting: values of the unspecified parameters, and each claim's judgement.
fn table(map: &ClaimMap, judged: &[JudgedSetting]) -> TypedTable {
    let mut columns: Vec<(String, Vec<Cell>)> = Vec::new();
    for (n, thing) in map.open.iter().enumerate() {
        let value = |judged: &JudgedSetting| Cell::Text(thing.values[judged.setting[n]].clone());
        columns.push((thing.name.clone(), judged.iter().map(value).collect()));
    }
    columns.push((
        "main claims together".to_owned(),
        judged.iter().map(|it| Cell::Text(it.together.to_string())).collect(),
    ));
    columns.push(("all together".to_owned(), judged.iter().map(|it| Cell::Text(it.all.to_string())).collect()));
    for (n, line) in map.lines[2..].iter().enumerate() {
        let cell = |judged: &JudgedSetting| Cell::Text(judged.judgements[n].to_string());
        columns.push((line.statement.clone(), judged.iter().map(cell).collect()));
    }
    TypedTable { columns }
}
