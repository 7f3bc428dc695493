//! A sweep's file: a scenario, the parameters that vary, seeds, and the columns of the results. `docs/EXPERIMENTS.md` is the
//! reference.

use std::path::{Path, PathBuf};

use toml::Value;
use toml::de::{DeTable, DeValue};
use weir_config::{ConfigErrors, Source};
use weir_reader::{Format, Key, Keys, Problem, Table, TableSchema, is_name, read_file, read_text};

use super::columns::ColumnSelection;
use super::plot::{self, FigureSpec};
use super::values::{self, ValuesError};
use crate::experiment::Backend;
use crate::table::key_path::KeyPath;

#[derive(Clone, Debug)]
pub(crate) struct SweepFile {
    pub name: String,
    /// Scenario file, relative to the working directory.
    pub scenario: PathBuf,
    /// Names of the scenario's runs to execute; all if empty.
    pub runs: Vec<String>,
    /// Seeds in order; empty for the scenario's own.
    pub seeds: Vec<u32>,
    /// Axes, of which all combinations run.
    pub axes: Vec<Axis>,
    /// Filter of parameter combinations; `None` runs all.
    pub only: Option<CombinationFilter>,
    pub columns: ColumnSelection,
    pub figures: Vec<FigureSpec>,
    /// Overrides of the scenario at every point, applied after its parameters.
    pub overrides: Vec<(KeyPath, Value)>,
    /// Text of a scenario that no file has.
    pub scenario_text: Option<String>,
    pub backend: Backend,
    /// Text of the file, for later errors.
    pub source: Source,
}

impl SweepFile {
    /// Sets the number of seeds, if given: the first of the sweep's own, continued with the integers after the largest.
    pub(crate) fn with_seeds(mut self, count: Option<u32>) -> SweepFile {
        let Some(count) = count else { return self };
        let next = self.seeds.iter().max().map_or(1, |last| last.saturating_add(1));
        self.seeds.truncate(count as usize);
        let missing = count - self.seeds.len() as u32;
        // No seed exceeds `u32::MAX`.
        self.seeds.extend((next..=u32::MAX).take(missing as usize));
        self
    }
}

/// Filter of parameter combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CombinationFilter {
    /// Networks whose equal-cost paths have a cyclic buffer dependency, without which there is no deadlock.
    ProneToDeadlock,
}

/// Parameters that vary together: the first value of one with the first of the others, and so on.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub parameters: Vec<Parameter>,
}

#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub path: KeyPath,
    /// Key in the file.
    pub key: String,
    /// Whether the file lists the values one by one.
    pub is_list: bool,
    pub values: Vec<Value>,
}

const FORMAT: Format = Format {
    what: "a sweep's TOML file",
    reference: "docs/EXPERIMENTS.md",
    repeated: "[[zip]]",
    tables: &[
        TableSchema::table("", &[&NAME, &SCENARIO, &RUNS, &SEEDS, &ONLY, &PARAMETERS, &ZIP, &RESULTS, &FIGURES]),
        // Keys of these two tables are the scenario's.
        TableSchema::open("parameters"),
        TableSchema::open("zip"),
        TableSchema::table("results", &[&COLUMNS, &MORE]),
        TableSchema::array("figures", plot::KEYS),
        // Parameters with their values.
        TableSchema::open("figures.where"),
    ],
};

const NAME: Key<()> =
    Key::other("name", "name", "Names the default directory, `runs/NAME`.").or_else("the file's name without `.toml`");
const SCENARIO: Key<()> =
    Key::other("scenario", "path", "Scenario, relative to the sweep; valid by itself.").or_else("required");
const RUNS: Key<()> = Key::other("runs", "list of names", "The scenario's `[[runs]]` to run.").or_else("all");
const SEEDS: Key<()> = Key::other(
    "seeds",
    "number, list or range of 0 to 4294967295",
    "Values of `scenario.seed`; 5 is 1 to 5. Workloads and faults with their own `seed` keep it.",
)
.or_else("the scenario's");
const ONLY: Key<CombinationFilter> = Key::choice(
    "only",
    &[("prone-to-deadlock", CombinationFilter::ProneToDeadlock)],
    "Points that run: only fabrics with cyclic port dependencies on shortest paths, the condition for deadlock. \
     Needs paths of equal cost, the default with `[topology]`.",
)
.or_else("all");
const PARAMETERS: Key<()> = Key::other("parameters", "values by path", "Parameters, in all combinations.");
const ZIP: Key<()> = Key::other("zip", "values by path", "Parameters that vary together, with equally many values.");
const RESULTS: Key<()> = Key::other("results", "table", "Columns of the results.");
const FIGURES: Key<()> = Key::other("figures", "tables", "[Figures](EXPERIMENTS.md#figures) of the results.");
const COLUMNS: Key<()> =
    Key::other("columns", "list of columns", "Columns in place of the [default ones](EXPERIMENTS.md#the-table).");
const MORE: Key<()> = Key::other("more", "list of columns", "Columns besides the default ones.");

/// Returns every table of a sweep's file with its keys; the top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, Keys)> {
    FORMAT.tables.iter().map(|table| (table.name, table.keys))
}

/// Scenario key that `seeds` sets.
pub(super) const SEED: &str = "scenario.seed";

/// Reads a sweep's file without its scenario.
pub(crate) fn load(path: &Path) -> Result<SweepFile, ConfigErrors> {
    let text = read_file(path, &FORMAT)?;
    parse(path, &text)
}

/// Parses `text` as the file at `path`.
pub(crate) fn parse(path: &Path, text: &str) -> Result<SweepFile, ConfigErrors> {
    let name = path.display().to_string();
    let (read, source) = read_text(&name, text, &FORMAT, |root| read(root, path, text))?;
    let file = read.expect("what is wrong with the file is noted");
    Ok(SweepFile { source, ..file })
}

impl Axis {
    /// Number of values of each parameter.
    pub(crate) fn len(&self) -> usize {
        self.parameters.first().map_or(0, |parameter| parameter.values.len())
    }
}

impl Parameter {
    /// Key of a value in the file.
    pub(crate) fn key_of(&self, value: usize) -> String {
        if self.is_list { format!("{}[{value}]", self.key) } else { self.key.clone() }
    }
}

/// Parses the document and records its errors; `None` if a part is invalid.
fn read(root: &Table<'_>, path: &Path, text: &str) -> Option<SweepFile> {
    // Second parse, which keeps the order of keys and values of any type.
    let (document, _) = DeTable::parse_recoverable(text);
    let document = document.get_ref();
    let scenario = scenario(root, path);
    let name = name(root, path);
    let runs = root.strings("runs", "\"PFC\"").unwrap_or_default().into_iter().map(str::to_owned).collect();
    if root.strings("runs", "\"PFC\"").is_some_and(|runs| runs.is_empty()) {
        root.refuse("runs", "an empty list is no run", "name the runs, or leave the key out for all of them");
    }
    let seeds = document.get("seeds").map(|seeds| values::seeds(&value_of(seeds.get_ref())));
    let seeds = seeds.and_then(|seeds| seeds.map_err(|wrong| refuse(root, "seeds", wrong)).ok());
    let axes = axes(root, document);
    let only = root.given(&ONLY);
    refuse_twice(root, &axes, document.contains_key("seeds"));
    let figures = document.get("figures").map_or_else(Vec::new, |figures| figures_of(root, figures.get_ref()));
    let results = root.table("results", "results");
    let columns = ColumnSelection::read(&results);
    Some(SweepFile {
        name: name?,
        scenario: scenario?,
        runs,
        seeds: seeds.unwrap_or_default(),
        axes,
        only,
        columns: columns?,
        figures,
        overrides: Vec::new(),
        scenario_text: None,
        backend: Backend::Sim,
        source: Source::default(),
    })
}

/// Parses `[[figures]]`; column names are checked later, when the points are known.
fn figures_of(root: &Table<'_>, figures: &DeValue<'_>) -> Vec<FigureSpec> {
    drop(root.tables("figures", "figures"));
    let Value::Array(list) = value_of(figures) else { return Vec::new() };
    let mut read = Vec::new();
    for (n, figure) in list.into_iter().enumerate() {
        match figure.try_into::<FigureSpec>() {
            Ok(spec) => read.push(spec),
            Err(error) => {
                let help = "write for example x = \"load\", y = \"fct_slowdown_p99\", by = \"run\"";
                let problem = Problem::new(format!("`figures[{n}]`: {}", error.message().trim()), help);
                root.doc().refuse(problem.with_label(format!("figures[{n}]"), ""));
            }
        }
    }
    read
}

fn scenario(root: &Table<'_>, path: &Path) -> Option<PathBuf> {
    if !root.has("scenario") {
        let help = "write scenario = \"ring.toml\", as seen from this file's folder";
        root.doc().refuse(Problem::new("the sweep names no scenario", help).with_label("scenario", ""));
    }
    let scenario = root.string("scenario", "ring.toml")?;
    Some(path.parent().unwrap_or(Path::new("")).join(scenario))
}

fn name(root: &Table<'_>, path: &Path) -> Option<String> {
    let name = if root.has("name") { root.string("name", "alpha")? } else { path.file_stem()?.to_str()? };
    if !is_name(name) {
        let help = "write a name of 1 to 31 letters, digits, `_`, `.` and `-`: name = \"alpha\"";
        root.doc().refuse(Problem::new(format!("\"{name}\" is no name of a sweep"), help).with_label("name", ""));
        return None;
    }
    Some(name.to_owned())
}

/// Parses `[parameters]`, one axis each, followed by each `[[zip]]`.
fn axes(root: &Table<'_>, document: &DeTable<'_>) -> Vec<Axis> {
    let mut axes = Vec::new();
    match document.get("parameters").map(|value| value.get_ref()) {
        Some(DeValue::Table(table)) => {
            let parameters = parameters(root, "parameters", table);
            axes.extend(parameters.into_iter().map(|parameter| Axis { parameters: vec![parameter] }));
        }
        Some(_) => drop(root.table("parameters", "parameters")),
        None => {}
    }
    match document.get("zip").map(|value| value.get_ref()) {
        Some(DeValue::Array(array)) => {
            for (n, element) in array.iter().enumerate() {
                let DeValue::Table(table) = element.get_ref() else { continue };
                axes.extend(zip(root, &format!("zip[{n}]"), table));
            }
            drop(root.tables("zip", "zip"));
        }
        Some(_) => drop(root.tables("zip", "zip")),
        None => {}
    }
    axes
}

fn zip(root: &Table<'_>, key: &str, table: &DeTable<'_>) -> Option<Axis> {
    let parameters = parameters(root, key, table);
    let first = parameters.first()?;
    for other in &parameters[1..] {
        let (have, has) = (first.values.len(), other.values.len());
        if have != has {
            let message =
                format!("`{}` has {has} values, and `{}`, with which it goes, {have}", other.path, first.path);
            let problem = Problem::new(message, "write as many values in each of a [[zip]]");
            root.doc().refuse(problem.with_label(&other.key, "").with_label(&first.key, "goes with it"));
        }
    }
    Some(Axis { parameters })
}

/// Parameters of a table, in the order of the file.
fn parameters(root: &Table<'_>, key: &str, table: &DeTable<'_>) -> Vec<Parameter> {
    let mut found = Vec::new();
    collect(root, ParentTable { key, path: None }, table, &mut found);
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, parameter)| parameter).collect()
}

/// Key of a table of parameters in the sweep's file, and its path in the scenario; `None` for the outermost table.
#[derive(Clone, Copy)]
struct ParentTable<'a> {
    key: &'a str,
    path: Option<&'a KeyPath>,
}

/// Collects parameters. Tables come from unquoted keys, `switch.mtu = [...]`, unless they are ranges.
fn collect(root: &Table<'_>, above: ParentTable<'_>, table: &DeTable<'_>, found: &mut Vec<(usize, Parameter)>) {
    for (name, value) in table {
        let key = format!("{}.{}", above.key, name.get_ref());
        let path =
            KeyPath::parse(name.get_ref()).map(|path| above.path.map_or(path.clone(), |above| above.below(&path)));
        let Some(path) = path else {
            let help = "write the keys of the scenario with dots between them: \"switch.buffer.dt.alpha\", \"workloads.0.load\"";
            root.doc()
                .refuse(Problem::new(format!("\"{}\" is no parameter", name.get_ref()), help).with_key_label(&key, ""));
            continue;
        };
        match value.get_ref() {
            DeValue::Table(below) if !is_range(below) => {
                collect(root, ParentTable { key: &key, path: Some(&path) }, below, found)
            }
            value_there => match values::values(&value_of(value_there)) {
                Ok(values) => {
                    let is_list = matches!(value_there, DeValue::Array(_));
                    found.push((name.span().start, Parameter { path, key, is_list, values }));
                }
                Err(wrong) => {
                    refuse(root, &key, ValuesError { message: format!("`{path}`: {}", wrong.message), ..wrong })
                }
            },
        }
    }
}

/// Distinguishes a range from keys of a scenario such as `from`, which have lists below them.
fn is_range(table: &DeTable<'_>) -> bool {
    let is_single = |value: &DeValue<'_>| !matches!(value, DeValue::Table(_) | DeValue::Array(_));
    !table.is_empty() && table.values().all(|value| is_single(value.get_ref()))
}

fn refuse(root: &Table<'_>, key: &str, wrong: ValuesError) {
    root.doc().refuse(Problem::new(wrong.message, wrong.help).with_label(key, ""));
}

fn refuse_twice(root: &Table<'_>, axes: &[Axis], has_seeds: bool) {
    let all: Vec<&Parameter> = axes.iter().flat_map(|axis| &axis.parameters).collect();
    for (n, parameter) in all.iter().enumerate() {
        let help = "leave one of them out";
        if let Some(other) = all[..n].iter().find(|other| other.path == parameter.path) {
            let problem = Problem::new(format!("`{}` varies twice", parameter.path), help);
            root.doc().refuse(problem.with_key_label(&parameter.key, "").with_key_label(&other.key, "here too"));
        }
        if has_seeds && parameter.path.to_string() == SEED {
            let problem = Problem::new(format!("`{SEED}` varies twice, and `seeds` sets it too"), help);
            root.doc().refuse(problem.with_key_label(&parameter.key, "").with_key_label("seeds", "here too"));
        }
    }
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        // The parser has accepted the number, but it may be too large.
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).map_or_else(|_| Value::String(n.to_string()), Value::Integer)
        }
        DeValue::Float(x) => x.as_str().parse().map_or_else(|_| Value::String(x.to_string()), Value::Float),
        DeValue::Boolean(is) => Value::Boolean(*is),
        DeValue::Datetime(at) => Value::Datetime(*at),
        DeValue::Array(list) => Value::Array(list.iter().map(|element| value_of(element.get_ref())).collect()),
        DeValue::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), value_of(value.get_ref()))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str) -> Result<SweepFile, String> {
        parse(Path::new("lab/sweep.toml"), text).map_err(|errors| errors.to_string())
    }

    #[test]
    fn seeds_may_be_more_or_fewer_than_the_file_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sweep.toml");
        let seeds = |own: &str, count: Option<u32>| {
            parse(&path, &format!("scenario = \"x.toml\"\n{own}")).unwrap().with_seeds(count).seeds
        };
        assert_eq!(seeds("seeds = [7, 3]", None), [7, 3]);
        assert_eq!(seeds("seeds = [7, 3]", Some(1)), [7]);
        assert_eq!(seeds("seeds = [7, 3]", Some(4)), [7, 3, 8, 9]);
        assert_eq!(seeds("", Some(3)), [1, 2, 3]);
    }

    #[test]
    fn parameters_stand_in_the_order_of_the_file() {
        let text = "scenario = \"../ring.toml\"\nseeds = { from = 3, count = 2 }\n\
            [parameters]\nswitch.mtu = [1500, 9000]\n\"hosts.'S1.x'.rate\" = \"10Gbps\"\n\
            workloads.0.from = [\"1us\"]\nalpha.x = { from = 1, to = 3, step = 1 }\n\
            [[zip]]\nb = [1, 2]\na = [{ kind = \"pfc\" }, { kind = \"cbfc\" }]\n";
        let file = sweep(text).unwrap();
        assert_eq!((file.name.as_str(), file.scenario.to_str()), ("sweep", Some("lab/../ring.toml")));
        assert_eq!(file.seeds, [3, 4]);
        let axes = file.axes.iter().map(|axis| {
            let paths: Vec<String> = axis.parameters.iter().map(|parameter| parameter.path.to_string()).collect();
            (paths.join("+"), axis.len())
        });
        let expected =
            [("switch.mtu", 2), ("hosts.'S1.x'.rate", 1), ("workloads.0.from", 1), ("alpha.x", 3), ("b+a", 2)];
        assert_eq!(axes.collect::<Vec<_>>(), expected.map(|(path, n)| (path.to_owned(), n)));
        assert_eq!(file.source.line_of(&file.axes[0].parameters[0].key_of(1)), Some(4));
        assert_eq!(file.axes[3].parameters[0].key_of(1), "parameters.alpha.x");
    }

    #[test]
    fn errors_have_their_line_and_a_fix() {
        for (text, message) in [
            ("seeds = [1]", "lab/sweep.toml: the sweep names no scenario; write scenario = "),
            ("scenario = \"a\"\nseed = [1]", "lab/sweep.toml:2: unknown key `seed` in the top level; write `seeds`"),
            ("scenario = \"a\"\nseeds = [1, 1]", "lab/sweep.toml:2: seed 1 is listed twice; "),
            ("scenario = \"a\"\nruns = []", "lab/sweep.toml:2: `runs`: an empty list is no run; name the runs"),
            ("scenario = \"a\"\nname = \"a b\"", "lab/sweep.toml:2: \"a b\" is no name of a sweep; "),
            (
                "scenario = \"a\"\nparameters = 1",
                "lab/sweep.toml:2: `parameters`: this is an integer, but must be a table",
            ),
            ("scenario = \"a\"\nzip = [1]", "lab/sweep.toml:2: `zip[0]`: this is an integer, but must be a table"),
            (
                "scenario = \"a\"\n[parameters]\n\"a.\" = [1]",
                "lab/sweep.toml:3: \"a.\" is no parameter; write the keys",
            ),
            (
                "scenario = \"a\"\n[parameters]\na = []",
                "lab/sweep.toml:3: `a`: an empty list makes no run; write one value",
            ),
            (
                "scenario = \"a\"\n[parameters]\na = { from = 1, to = 2 }",
                "lab/sweep.toml:3: `a`: a range has `from` and `step`, and `to` or `count`; write for example",
            ),
            (
                "scenario = \"a\"\n[parameters]\na = [1]\n[[zip]]\na = [2]",
                "lab/sweep.toml:5: `a` varies twice; leave one",
            ),
            (
                "scenario = \"a\"\nseeds = [1]\n[parameters]\nscenario.seed = [2]",
                "lab/sweep.toml:4: `scenario.seed` varies twice, and `seeds` sets it too; ",
            ),
            (
                "scenario = \"a\"\n[[zip]]\na = [1, 2]\nb = [1]",
                "lab/sweep.toml:4: `b` has 1 values, and `a`, with which it goes, 2; write as many values",
            ),
            (
                "scenario = \"a\"\n[results]\ncolumns = [\"pauses_sen\"]",
                "lab/sweep.toml:3: `columns[0]`: \"pauses_sen\" is no column, and nothing in summary.json; ",
            ),
        ] {
            let errors = sweep(text).unwrap_err();
            assert!(errors.starts_with(message), "{errors}\n\nexpected: {message}");
        }
    }
}
