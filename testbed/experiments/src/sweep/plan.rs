//! Points of a sweep: each is a scenario's text and one of its runs. All are checked before any runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use toml::{Table, Value};
use weir_config::{ConfigError, ConfigErrors};
use weir_scenario::Scenario;
use weir_scenario::file::{self as scenario_file, ScenarioRun};
use weir_scenario::topology::Routes;
use weir_units::BitRate;

use super::base::{BaseScenario, set_all, setting, text_of};
use super::effect;
use super::file::{CombinationFilter, Parameter, SweepFile};
use super::hash::Hash;
use super::plot;
use super::point_file::Point;
use super::policies;
use crate::Failure;
use crate::experiment::{Backend, GUEST_BOOT};
use crate::files::slug;
use crate::run::{fastest, fitting, real_device};
use crate::table::key_path::KeyPath;

const POINTS_MAX: usize = 1_000_000;

#[derive(Debug)]
pub(crate) struct SweepPlan {
    pub name: String,
    /// Scenario file; files that the scenario names are relative to its folder.
    pub scenario: PathBuf,
    /// Points in the order of the table.
    pub points: Vec<Point>,
    /// Names of the results' columns.
    pub columns: Vec<String>,
    /// Hash of all points, which identifies the sweep.
    pub identity: String,
    pub backend: Backend,
    /// Share of a run's time that may be lost to the machine, in percent. A later call repeats runs above it; `None`
    /// repeats none.
    pub allowed_lateness: Option<f64>,
    base: Table,
    settings: Vec<Vec<(KeyPath, Value)>>,
    overrides: Vec<(KeyPath, Value)>,
}

impl SweepPlan {
    /// Plans all points of a sweep's file and checks them, `jobs` scenarios at a time.
    pub(crate) fn new(file: &SweepFile, jobs: usize) -> Result<SweepPlan, Failure> {
        if file.scenario_text.is_none() && !file.scenario.is_file() {
            let message = format!("there is no file {}", file.scenario.display());
            let help = "write scenario = \"ring.toml\", as seen from this file's folder";
            return Err(file.source.error_at("scenario", message, help).into());
        }
        let base = BaseScenario::load(file)?;
        let chosen = chosen(file, &base.runs)?;
        for parameter in file.axes.iter().flat_map(|axis| &axis.parameters) {
            refuse_hidden(file, parameter, &base, &chosen)?;
        }
        let combinations = combinations(file, chosen.len())?;
        let (checked, left_out) = check(file, &base, &combinations, &chosen, jobs)?;
        let kept = combinations.into_iter().enumerate().filter(|(n, _)| !left_out.contains(n));
        let combinations: Vec<Vec<usize>> = kept.map(|(_, combination)| combination).collect();
        if combinations.is_empty() {
            let message = "no combination of the parameters has paths with a cyclic buffer dependency";
            return Err(file.source.error_at("only", message, "take `only` out, or vary the topology").into());
        }
        effect::check(file, &base, &combinations, &chosen)?;
        let columns = file.columns.names(checked.iter());
        let parameters = file.axes.iter().flat_map(|axis| &axis.parameters).map(|parameter| parameter.path.to_string());
        if let Err((n, wrong)) = plot::check(&file.figures, parameters.collect(), &columns) {
            let help = "name a column of results.csv, or words of one; docs/EXPERIMENTS.md has them";
            return Err(file.source.error_at(&format!("figures[{n}]"), wrong, help).into());
        }
        let mut plan = SweepPlan {
            name: file.name.clone(),
            scenario: file.scenario.clone(),
            points: Vec::new(),
            columns,
            identity: String::new(),
            settings: combinations.iter().map(|combination| setting(file, combination)).collect(),
            overrides: file.overrides.clone(),
            backend: file.backend,
            allowed_lateness: None,
            base: base.table,
        };
        plan.points = plan.all_points(file, &chosen, &base.runs)?;
        plan.identity = identity(&plan.points);
        Ok(plan)
    }

    /// Removes points for which `is_kept` is false. Remaining points keep their numbers and folders.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&Point) -> bool) {
        self.points.retain(is_kept);
        self.identity = identity(&self.points);
    }

    pub(crate) fn text(&self, point: &Point) -> String {
        let mut table = self.base.clone();
        set_all(&mut table, &self.settings[point.setting], point.seed, &self.overrides)
            .expect("checked when the plan was made");
        text_of(&table)
    }

    /// Real time of all points with real frames on this machine, each with its own length and time dilation.
    ///
    /// # Errors
    /// Missing real frames.
    pub(crate) fn real_time(&self) -> Result<Duration, Failure> {
        let (mut all, mut fits) = (Duration::ZERO, BTreeMap::new());
        let mut parsed: Option<(usize, Vec<ScenarioRun>)> = None;
        for point in &self.points {
            // Seeds change no run's length.
            if parsed.as_ref().is_none_or(|(setting, _)| *setting != point.setting) {
                parsed = Some((point.setting, scenario_file::parse(&self.scenario, &self.text(point))?));
            }
            let run = &parsed.as_ref().expect("just parsed").1[point.run];
            all += self.real_time_of(run, &mut fits)?;
        }
        Ok(all)
    }

    /// Hosts of the largest scenario.
    ///
    /// # Errors
    /// An invalid scenario.
    pub(crate) fn host_count(&self) -> Result<usize, Failure> {
        let (mut most, mut seen) = (0, BTreeSet::new());
        for point in self.points.iter().filter(|point| seen.insert(point.setting)) {
            let runs = scenario_file::parse(&self.scenario, &self.text(point))?;
            most = runs.iter().map(|run| run.scenario.hosts.len()).fold(most, usize::max);
        }
        Ok(most)
    }

    /// Real time of one run. The time dilation for this machine is measured once per rate.
    fn real_time_of(&self, run: &ScenarioRun, fits: &mut BTreeMap<Option<BitRate>, u32>) -> Result<Duration, Failure> {
        let (dilation, besides) = match self.backend {
            Backend::Hosts if run.has_machines() => (1, 5),
            Backend::Hosts => (run.time_dilation.unwrap_or(run.scenario.time_dilation()), 5),
            // Seconds for DPDK's start and end, and for frames in flight at a run's end.
            _ => (run.time_dilation.map_or_else(|| fitting_once(run, fits), Ok)?, 3),
        };
        let boot = if self.backend == Backend::Hosts && run.boots_guests() { GUEST_BOOT } else { Duration::ZERO };
        Ok(Duration::from_nanos(run.scenario.end.as_nanos()) * dilation + Duration::from_secs(besides) + boot)
    }

    /// Creates each combination, for each seed, in each run.
    fn all_points(&self, file: &SweepFile, chosen: &[usize], runs: &[ScenarioRun]) -> Result<Vec<Point>, Failure> {
        let seeds: Vec<Option<u32>> =
            if file.seeds.is_empty() { vec![None] } else { file.seeds.iter().copied().map(Some).collect() };
        let mut files = BTreeMap::new();
        let width = (self.settings.len() * seeds.len() * chosen.len()).to_string().len();
        let mut points = Vec::new();
        for (setting, values) in self.settings.iter().enumerate() {
            for seed in &seeds {
                let mut table = self.base.clone();
                set_all(&mut table, values, *seed, &self.overrides).expect("checked before");
                let mut hash = Hash::new();
                hash.add(text_of(&table).as_bytes());
                if self.backend.is_real() {
                    hash.add(self.backend.name().as_bytes());
                }
                add_files(&mut hash, &Value::Table(table), &self.scenario, &mut files)?;
                for run in chosen {
                    let mut hash = hash.clone();
                    hash.add(&(*run as u64).to_le_bytes());
                    let number = points.len() + 1;
                    let run_name = if runs.len() > 1 { runs[*run].name.as_str() } else { "" };
                    points.push(Point {
                        number,
                        run: *run,
                        run_name: runs[*run].name.clone(),
                        seed: *seed,
                        parameters: values.iter().map(|(path, value)| (path.to_string(), json(value))).collect(),
                        hash: hash.text(),
                        folder: format!("{number:0>width$}{}", short_name(values, *seed, run_name)),
                        setting,
                    });
                }
            }
        }
        Ok(points)
    }
}

fn fitting_once(run: &ScenarioRun, fits: &mut BTreeMap<Option<BitRate>, u32>) -> Result<u32, Failure> {
    let run = std::slice::from_ref(run);
    let rate = fastest(run);
    if let Some(fits) = fits.get(&rate) {
        return Ok(*fits);
    }
    let dilation = fitting(run)?;
    fits.insert(rate, dilation);
    Ok(dilation)
}

fn identity(points: &[Point]) -> String {
    identity_of(points.iter().map(|point| point.hash.as_str()))
}

/// Identity of a plan with points of these hashes.
pub(super) fn identity_of<'h>(hashes: impl Iterator<Item = &'h str>) -> String {
    let mut identity = Hash::new();
    hashes.for_each(|hash| identity.add(hash.as_bytes()));
    identity.text()
}

/// Indices of the selected runs.
fn chosen(file: &SweepFile, runs: &[ScenarioRun]) -> Result<Vec<usize>, Failure> {
    if file.runs.is_empty() {
        return Ok((0..runs.len()).collect());
    }
    let mut chosen = Vec::new();
    for (n, name) in file.runs.iter().enumerate() {
        let key = format!("runs[{n}]");
        let Some(run) = runs.iter().position(|run| run.name == *name) else {
            let names: Vec<String> = runs.iter().map(|run| format!("\"{}\"", run.name)).collect();
            let message = format!("{} has no run \"{name}\"", file.scenario.display());
            return Err(file.source.error_at(&key, message, format!("write one of: {}", names.join(", "))).into());
        };
        if chosen.contains(&run) {
            let message = format!("run \"{name}\" is listed twice");
            return Err(file.source.error_at(&key, message, "leave one of them out").into());
        }
        chosen.push(run);
    }
    Ok(chosen)
}

/// Refuses a parameter that a run sets itself: a run's own setting has precedence over the common one, which would vary
/// without effect.
fn refuse_hidden(
    file: &SweepFile,
    parameter: &Parameter,
    base: &BaseScenario,
    chosen: &[usize],
) -> Result<(), ConfigErrors> {
    let Some(runs) = base.table.get("runs").and_then(Value::as_array) else { return Ok(()) };
    if parameter.path.after("switch").is_none() {
        return Ok(());
    }
    for run in chosen {
        let Some(table) = runs.get(*run).and_then(Value::as_table) else { continue };
        if parameter.path.is_in(table) {
            let name = &base.runs[*run].name;
            let own = KeyPath::parse(&format!("runs.{run}")).expect("two keys").below(&parameter.path);
            let message = format!(
                "run \"{name}\" of the scenario sets `{}` itself, so that this does nothing to it",
                parameter.path
            );
            let help = match policies::of_each_run(&parameter.path) {
                Some(whichever) => {
                    format!("write \"{whichever}\" for the policies of all runs, or \"{own}\" for that run")
                }
                None => format!(
                    "write \"{own}\" for that run, and in a [[zip]] beside this for both; or choose other runs: runs = [...]"
                ),
            };
            return Err(file.source.error_at(&parameter.key_of(0), message, help));
        }
    }
    Ok(())
}

/// All combinations of the axes' values: the index of a value on each axis, the last axis fastest.
fn combinations(file: &SweepFile, runs: usize) -> Result<Vec<Vec<usize>>, ConfigErrors> {
    let each = file.axes.iter().try_fold(1_usize, |points, axis| points.checked_mul(axis.len()));
    let points = each.and_then(|each| each.checked_mul(runs.max(1))?.checked_mul(file.seeds.len().max(1)));
    let Some((each, _)) = each.zip(points).filter(|(_, points)| *points <= POINTS_MAX) else {
        let message = format!("the sweep has more than {POINTS_MAX} points");
        return Err(file.source.error_at("parameters", message, "write fewer values, or several sweeps"));
    };
    let combination = |mut n: usize| {
        let mut places = vec![0; file.axes.len()];
        for (place, axis) in places.iter_mut().zip(&file.axes).rev() {
            *place = n % axis.len();
            n /= axis.len();
        }
        places
    };
    Ok((0..each).map(combination).collect())
}

/// Parses each combination's scenario with the first seed, which represents the others. Returns the scenarios of the
/// first combination and the combinations that the sweep omits.
///
/// # Errors
/// Errors of the scenario, at the sweep's lines.
fn check(
    file: &SweepFile,
    base: &BaseScenario,
    combinations: &[Vec<usize>],
    chosen: &[usize],
    jobs: usize,
) -> Result<(Vec<Scenario>, BTreeSet<usize>), Failure> {
    let next = AtomicUsize::new(0);
    let left_out: Mutex<BTreeSet<usize>> = Mutex::default();
    let found: Mutex<BTreeMap<usize, Vec<PlanError>>> = Mutex::default();
    let first: Mutex<Vec<Scenario>> = Mutex::default();
    let good = ValidCombinations::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(combinations.len()) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let enough = || found.lock().is_ok_and(|found| found.len() >= ERRORS_MAX);
                    let Some(combination) = combinations.get(n).filter(|_| !enough()) else { break };
                    let checked = table_of(file, base, combination).and_then(|table| {
                        if n > 0 && good.leaves_out(file, &table) {
                            return Ok(None);
                        }
                        let scenarios = check_one(file, base, combination, &table, chosen)?;
                        good.add(file, table);
                        Ok(Some(scenarios))
                    });
                    match checked {
                        Ok(scenarios) => {
                            let is_one =
                                |only: CombinationFilter| scenarios.iter().flatten().any(|scenario| only.has(scenario));
                            if !file.only.is_none_or(is_one) {
                                left_out.lock().expect("no thread panics with it").insert(n);
                            }
                            if n == 0 {
                                *first.lock().expect("no thread panics with it") =
                                    scenarios.into_iter().flatten().collect();
                            }
                        }
                        Err(wrong) => drop(found.lock().expect("no thread panics with it").insert(n, wrong)),
                    }
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics with it");
    match joined_errors(file, found.into_values().flatten()) {
        Some(errors) => Err(errors.into()),
        None => Ok((
            first.into_inner().expect("no thread panics with it"),
            left_out.into_inner().expect("no thread panics with it"),
        )),
    }
}

/// Valid combinations without their link failures. Of thousands of networks few have cyclic dependencies, and the
/// others need not be parsed completely.
#[derive(Default)]
struct ValidCombinations(Mutex<BTreeSet<String>>);

impl ValidCombinations {
    fn add(&self, file: &SweepFile, table: Table) {
        if file.only.is_some() {
            self.0.lock().expect("no thread panics with it").insert(but_for_failures(table));
        }
    }

    /// Whether the fabric alone shows that the sweep omits a combination, whose other settings are known to be valid.
    /// False for an invalid fabric, so that the whole is checked.
    fn leaves_out(&self, file: &SweepFile, table: &Table) -> bool {
        let Some(CombinationFilter::ProneToDeadlock) = file.only else { return false };
        if !self.0.lock().expect("no thread panics with it").contains(&but_for_failures(table.clone())) {
            return false;
        }
        let topology = table.get("topology").map(|topology| ("topology".to_owned(), topology.clone()));
        let fabric = scenario_file::fabric(&file.scenario, &text_of(&topology.into_iter().collect()));
        let routes = fabric.and_then(|fabric| Routes::shortest(&fabric).ok());
        routes.is_some_and(|routes| !routes.has_cyclic_dependency())
    }
}

/// Text of a scenario without the seed of its link failures.
fn but_for_failures(mut table: Table) -> String {
    if let Some(topology) = table.get_mut("topology").and_then(Value::as_table_mut) {
        topology.remove("failure_seed");
    }
    text_of(&table)
}

impl CombinationFilter {
    fn has(self, scenario: &Scenario) -> bool {
        match self {
            CombinationFilter::ProneToDeadlock => scenario.routes.as_deref().is_some_and(Routes::has_cyclic_dependency),
        }
    }
}

/// Number of combinations with errors after which the check stops.
const ERRORS_MAX: usize = 50;

enum PlanError {
    /// Complete errors at their place.
    Errors(ConfigErrors),
    /// Error of the scenario's reader about values.
    Values(ValueError),
}

/// Error of the scenario with some of the sweep's values.
struct ValueError {
    /// Key, in the sweep's file, of the last value in the message; `parameter` is its parameter.
    key: String,
    parameter: KeyPath,
    /// Settings in the message: `switch.mtu = 64000`.
    with: String,
    message: String,
    help: String,
}

/// Joins all errors. Equal errors about several values of a parameter are reported once, with their number.
fn joined_errors(file: &SweepFile, found: impl IntoIterator<Item = PlanError>) -> Option<ConfigErrors> {
    let mut errors: Vec<ConfigErrors> = Vec::new();
    let mut of_values: Vec<(ValueError, BTreeSet<String>)> = Vec::new();
    for finding in found {
        let it = match finding {
            PlanError::Errors(known) => {
                errors.push(known);
                continue;
            }
            PlanError::Values(it) => it,
        };
        let is_alike = |(other, _): &&mut (ValueError, BTreeSet<String>)| {
            (&other.parameter, &other.message, &other.help) == (&it.parameter, &it.message, &it.help)
        };
        match of_values.iter_mut().find(is_alike) {
            Some((first, others)) if first.with != it.with => drop(others.insert(it.with)),
            Some(_) => {}
            None => of_values.push((it, BTreeSet::new())),
        }
    }
    errors.extend(of_values.into_iter().map(|(it, others)| {
        let others = match others.len() {
            0 => String::new(),
            1 => ", as with another value".to_owned(),
            others => format!(", as with {others} others"),
        };
        // The reader does not know the sweep: its message is about the scenario's own key.
        file.source.error_at(&it.key, format!("the scenario with {}{others}: {}", it.with, it.message), it.help)
    }));
    let errors = ConfigErrors::joined(errors)?;
    ConfigErrors::from_vec(errors.into_iter().collect())
}

/// Scenario table with a combination's values.
fn table_of(file: &SweepFile, base: &BaseScenario, combination: &[usize]) -> Result<Table, Vec<PlanError>> {
    let mut table = base.table.clone();
    let values = setting(file, combination);
    set_all(&mut table, &values, file.seeds.first().copied(), &file.overrides).map_err(|(n, wrong)| {
        // Independent of the value.
        let key = file.axes.iter().flat_map(|axis| &axis.parameters).nth(n).map_or("seeds", |it| it.key.as_str());
        vec![PlanError::Errors(file.source.error_at(key, wrong.message, wrong.help))]
    })?;
    Ok(table)
}

fn check_one(
    file: &SweepFile,
    base: &BaseScenario,
    combination: &[usize],
    table: &Table,
    chosen: &[usize],
) -> Result<Vec<Scenario>, Vec<PlanError>> {
    let known = |errors: ConfigErrors| vec![PlanError::Errors(errors)];
    let runs = base.parse(file, table).map_err(|errors| match file.overrides.is_empty() {
        true => at_parameters(file, base, &setting(file, combination), &keys(file, combination), &errors),
        // Overrides come from the command and have no line in the file.
        false => known(errors),
    })?;
    let mut scenarios = Vec::new();
    for run in chosen {
        let problem = match runs.get(*run) {
            None => Some(format!("the scenario has no run number {run} any more")),
            Some(run) if file.backend == Backend::Dpdk => run.scenario.needs_virtual_time(),
            // Flows between real hosts need no virtual time; the remaining flows are checked after these are removed.
            Some(run) if file.backend == Backend::Hosts => {
                (!run.has_real_hosts()).then(|| "no host of the scenario says how it is reached".to_owned())
            }
            Some(run) if file.only.is_some() && run.scenario.routes.is_none() => {
                Some("`only` needs equal-cost paths, and the scenario's routes are static".to_owned())
            }
            Some(run) => real_device(&run.scenario).map(|device| format!("{device}, and a sweep runs in virtual time")),
        };
        if let Some(problem) = problem {
            let help = "write another scenario, or choose other runs";
            return Err(known(file.source.error_at("scenario", problem, help)));
        }
        scenarios.extend(runs.get(*run).map(|run| run.scenario.clone()));
    }
    Ok(scenarios)
}

/// Keys of a combination's values in the sweep's file.
fn keys(file: &SweepFile, combination: &[usize]) -> Vec<String> {
    let of_axis = file.axes.iter().zip(combination);
    of_axis.flat_map(|(axis, place)| axis.parameters.iter().map(|parameter| parameter.key_of(*place))).collect()
}

/// Attributes the scenario reader's errors to the value that causes them. An error of several values together is
/// attributed to the last and lists all.
fn at_parameters(
    file: &SweepFile,
    base: &BaseScenario,
    setting: &[(KeyPath, Value)],
    keys: &[String],
    errors: &ConfigErrors,
) -> Vec<PlanError> {
    let alone = |n: usize| {
        let mut table = base.table.clone();
        let (path, value) = &setting[n];
        policies::set(path, &mut table, value).ok()?;
        base.parse(file, &table).err()
    };
    let alone: Vec<Option<ConfigErrors>> = match setting.len() {
        1 => vec![Some(errors.clone())],
        several => (0..several).map(alone).collect(),
    };
    let all: Vec<String> = setting.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    let finding = |error: &ConfigError| {
        let same = |errors: &Option<ConfigErrors>| {
            errors.iter().flat_map(ConfigErrors::iter).any(|other| other.message() == error.message())
        };
        let culprit = alone.iter().position(same);
        let Some(last) = culprit.or_else(|| setting.len().checked_sub(1)) else {
            let message = format!("the scenario: {}", error.message());
            return PlanError::Errors(file.source.error_at("seeds", message, error.help_text()));
        };
        let with = if culprit.is_some() { all[last].clone() } else { all.join(", ") };
        let parameter = setting[last].0.clone();
        let message = error.message().to_owned();
        PlanError::Values(ValueError {
            key: keys[last].clone(),
            parameter,
            with,
            message,
            help: error.help_text().to_owned(),
        })
    };
    errors.iter().map(finding).collect()
}

/// Adds the files that a scenario names, switches' and messages', to its hash.
fn add_files(
    hash: &mut Hash,
    value: &Value,
    scenario: &Path,
    read: &mut BTreeMap<PathBuf, String>,
) -> Result<(), Failure> {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                if let (true, Value::String(name)) = (["file", "config"].contains(&key.as_str()), value) {
                    let path = scenario.parent().unwrap_or(Path::new("")).join(name);
                    if !read.contains_key(&path) {
                        let failed = |error| Failure::Argument(format!("{}: {error}", path.display()));
                        read.insert(path.clone(), Hash::digest(&fs::read(&path).map_err(failed)?).text());
                    }
                    hash.add(read[&path].as_bytes());
                }
                add_files(hash, value, scenario, read)?;
            }
            Ok(())
        }
        Value::Array(list) => list.iter().try_for_each(|value| add_files(hash, value, scenario, read)),
        _ => Ok(()),
    }
}

fn json(value: &Value) -> serde_json::Value {
    // Scenarios have no dates, which JSON lacks.
    serde_json::to_value(value).unwrap_or_else(|_| serde_json::Value::String(value.to_string()))
}

/// Readable part of a folder's name: `-alpha-1-16-seed-3-dsh`; the number alone identifies the point.
fn short_name(setting: &[(KeyPath, Value)], seed: Option<u32>, run: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let values = setting.iter().map(|(path, value)| format!("{} {value}", path.last()));
    let parts: Vec<String> = values.chain(seed.map(|seed| format!("seed {seed}"))).chain([run.to_owned()]).collect();
    let name = slug(&parts.join(" "));
    let name = &name[..name.len().min(LENGTH_MAX)];
    if name.is_empty() { String::new() } else { format!("-{}", name.trim_end_matches('-')) }
}

#[cfg(test)]
pub(super) mod tests;
