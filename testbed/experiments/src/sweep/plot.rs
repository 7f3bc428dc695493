//! `weir plot`: figures of a sweep, with a choice of axes, series and panels; values are pooled over seeds.
//!
//! `names` resolves short names of columns, `results` reads a sweep's tables, `sizes` splits their rows by the size of messages, `messages` the messages of its runs, `pooled` makes points of
//! both, and `drawn` makes lines and panels of these.

mod distribution;
mod drawn;
mod messages;
mod names;
mod pooled;
mod results;
mod sizes;
mod spec;

use std::fs;
use std::path::{Path, PathBuf};

use weir_results::plot;

use crate::Failure;
use crate::files::with_path;
use crate::picture;
use crate::table::typed::TypedTable;
use crate::table::{Table, statistics};

pub use messages::warm_up;
use names::resolved;
pub(crate) use results::Results;
pub(crate) use spec::KEYS;
use spec::MESSAGE_SIZE;
pub use spec::{FigureSpec, FigureWidth, MessageQuantity};

/// Arguments of `weir plot`.
#[derive(clap::Args)]
pub struct PlotArguments {
    /// The sweep's directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Title; by default the sweep's name.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Width on paper: column, 240 pt with panels below each other; page, 504 pt with two panels a row.
    #[arg(long, value_name = "WIDTH")]
    width: Option<FigureWidth>,
    /// Label of the horizontal axis.
    #[arg(long, value_name = "TEXT")]
    x_label: Option<String>,
    /// Label of the vertical axes.
    #[arg(long, value_name = "TEXT")]
    y_label: Option<String>,
    /// Horizontal axis: a parameter of the sweep, or a unique part of its name: load; or message_size, the size bins of a workload.
    #[arg(long, value_name = "PARAMETER", required_unless_present = "cdf")]
    x: Option<String>,
    /// Vertical axis, several with commas: a column of results.csv, or a part of its name: slowdown_p99
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', required_unless_present = "cdf")]
    y: Vec<String>,
    /// Distribution of the messages of all seeds, in place of --x and --y.
    #[arg(long, value_name = "QUANTITY", conflicts_with_all = ["x", "y", "versus"])]
    cdf: Option<MessageQuantity>,
    /// Workload of the distribution's messages; by default the only one.
    #[arg(long, value_name = "NAME")]
    traffic: Option<String>,
    /// A line for each: run (or policy), or parameters with commas.
    #[arg(long, value_name = "PARAMETER", value_delimiter = ',')]
    by: Vec<String>,
    /// A panel for each value of this parameter, or run.
    #[arg(long, value_name = "PARAMETER")]
    panels: Option<String>,
    /// Value of a parameter that rows must have; may be given several times.
    #[arg(long = "where", value_name = "PARAMETER=VALUE")]
    keep: Vec<String>,
    /// Add panels with the differences of other lines to this one, paired by seed: --by policy --versus DT
    #[arg(long, value_name = "VALUE", requires = "by")]
    versus: Option<String>,
    /// Logarithmic horizontal axis.
    #[arg(long)]
    log_x: bool,
    /// Logarithmic vertical axis.
    #[arg(long)]
    log_y: bool,
    /// The figure's files without their ending; by default DIR/figures/ and a name made of the columns. SVG, PNG, PDF and CSV are written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Height of the text on a paper's page: 9 inches, as of ACM and USENIX.
const PAGE_HEIGHT_PT: f64 = 648.0;

/// Folder of a sweep's figures.
pub(crate) const FOLDER: &str = "figures";

/// Executes `weir plot`.
pub fn plot(arguments: &PlotArguments) -> Result<(), Failure> {
    let parse = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::Argument(format!("--where {text}: write PARAMETER=VALUE: --where load=0.5")))?;
        Ok((name.to_owned(), toml::Value::String(value.to_owned())))
    };
    // clap asks for no argument that another one excludes.
    if let (Some(traffic), None) = (&arguments.traffic, arguments.cdf) {
        let y = arguments.y.first().map_or("fct.p99", String::as_str);
        let text = format!("--traffic belongs to --cdf: write the workload before the column, as --y {traffic}.{y}");
        return Err(Failure::Argument(text));
    }
    let spec = FigureSpec {
        title: arguments.title.clone().unwrap_or_default(),
        width: arguments.width,
        x_label: arguments.x_label.clone(),
        y_label: arguments.y_label.clone(),
        cdf: arguments.cdf,
        traffic: arguments.traffic.clone(),
        x: arguments.x.clone().unwrap_or_default(),
        y: arguments.y.clone(),
        by: arguments.by.clone(),
        panels: arguments.panels.clone(),
        keep: arguments.keep.iter().map(parse).collect::<Result<_, Failure>>()?,
        versus: arguments.versus.clone(),
        x_log: arguments.log_x,
        y_log: arguments.log_y,
        ..FigureSpec::default()
    };
    let results = Results::read(&arguments.directory)?;
    let files = draw(&spec, &results, &arguments.directory, arguments.output.as_deref())?;
    files.notes.iter().for_each(|note| println!("{note}"));
    if let Some(differences) = &files.differences {
        println!("Differences, paired by seed, with 95 % intervals:\n{differences}");
    }
    files.written.iter().for_each(|file| println!("written: {}", file.display()));
    if files.written.is_empty() {
        return Err(Failure::Run("there is nothing to draw".to_owned()));
    }
    Ok(())
}

/// Written files, and notes for the reader.
pub(crate) struct DrawnFigure {
    /// Files; none for a figure without values.
    pub written: Vec<PathBuf>,
    pub notes: Vec<String>,
    /// Table of the differences to one line; `None` without any.
    pub differences: Option<Table>,
}

/// Figure before it is written.
#[derive(Default)]
struct FigureData {
    figure: plot::Figure,
    /// Table of the points.
    points: TypedTable,
    /// Default name of the files.
    name: String,
    notes: Vec<String>,
    /// Table of the differences to one line; `None` without any.
    differences: Option<Table>,
}

/// Draws a figure of a sweep's results as SVG, and as PNG and PDF if these are built in; writes its points as CSV.
pub(crate) fn draw(
    spec: &FigureSpec,
    results: &Results,
    directory: &Path,
    output: Option<&Path>,
) -> Result<DrawnFigure, Failure> {
    let FigureData { figure, points, name, mut notes, differences } = match spec.cdf {
        Some(quantity) => distribution::distribution(spec, quantity, results, directory)?,
        None => {
            let of_sizes = if spec.x == MESSAGE_SIZE { Some(sizes::by_size(spec, results, directory)?) } else { None };
            let results = of_sizes.as_ref().unwrap_or(results);
            let wanted = resolved(spec, &results.names()).map_err(Failure::Argument)?;
            let pooled = pooled::points(&wanted, results, directory)?;
            FigureData {
                figure: drawn::figure(spec, &wanted, &pooled, results),
                points: drawn::table(&wanted, &pooled, results),
                name: wanted.file_name(results),
                notes: pooled::notes(&pooled),
                differences: drawn::differences(&wanted, &pooled, results),
            }
        }
    };
    let name = spec.name.clone().unwrap_or(name);
    let base = output.map_or_else(|| directory.join(FOLDER).join(&name), Path::to_owned);
    // A known file extension in the name is dropped.
    let base = match base.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "png" | "pdf" | "csv") => base.with_extension(""),
        _ => base,
    };
    notes.splice(..0, results.missing_points());
    if figure.panels.iter().all(|panel| panel.lines.is_empty()) {
        notes.push(format!("{}: not written, since no point has a value", base.display()));
        return Ok(DrawnFigure { written: Vec::new(), notes, differences });
    }
    if let Some(height) = figure.height_in_points().filter(|height| *height > PAGE_HEIGHT_PT) {
        let other = if spec.width == Some(FigureWidth::Column) { ", or the width of a page" } else { "" };
        notes.push(format!(
            "{}: {height:.0} pt high, and a page has {PAGE_HEIGHT_PT} pt; name fewer columns or panels{other}",
            base.display()
        ));
    }
    let failed = |error: plot::PlotError| Failure::Run(error.to_string());
    let mut written = picture::write_all(&figure.to_svg().map_err(failed)?, &base).map_err(failed)?;
    let csv = PathBuf::from(format!("{}.csv", base.display()));
    points.write_csv(&csv).map_err(with_path(&csv))?;
    written.push(csv);
    Ok(DrawnFigure { written, notes, differences })
}

/// Number and its 95 % interval over several runs; `None` for the interval of runs without spread.
pub type EstimatedNumber = (f64, Option<(f64, f64)>);

/// Returns a percentile of the values of all runs together, infinite for unfinished messages, whose interval ends at the `least` possible value; `None`
/// without values, or where a rank is that of an unfinished message.
pub fn pooled_percentile(runs: &[Vec<f64>], percent: f64, least: f64) -> Option<EstimatedNumber> {
    let estimate = statistics::pooled_percentile(runs, percent)?.bounded(least).with_spread();
    Some((estimate.value, estimate.interval))
}

/// Returns the difference of two such percentiles over runs of the same seeds, in the same order; `None` where one is missing, or for one run.
pub fn paired_difference(one: &[Vec<f64>], other: &[Vec<f64>], percent: f64) -> Option<EstimatedNumber> {
    let [one, other] = [one, other].map(|runs| statistics::pooled_percentile(runs, percent));
    let difference = one?.paired_difference(&other?)?;
    Some((difference.value, difference.interval))
}

/// Checks, before anything runs, that a sweep has the columns and parameters (by path) that its figures name.
///
/// # Errors
/// Index of the figure, and the problem.
pub(crate) fn check(
    figures: &[FigureSpec],
    parameters: Vec<String>,
    columns: &[String],
) -> Result<(), (usize, String)> {
    let names = results::ColumnNames::of_sweep(parameters, columns);
    figures.iter().enumerate().try_for_each(|(n, spec)| {
        if spec.cdf.is_some() {
            return distribution::resolved(spec, &names).map(drop).map_err(|wrong| (n, wrong));
        }
        let names = if spec.x == MESSAGE_SIZE { sizes::names_by_size(&names) } else { names.clone() };
        resolved(spec, &names).map(drop).map_err(|wrong| (n, wrong))
    })
}

/// SVGs of a sweep's figures, sorted by file name.
pub(crate) fn of_sweep(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory.join(FOLDER)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "svg"));
    files.sort();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}
