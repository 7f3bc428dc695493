//! `weir plot`: figures of a sweep, with a choice of axes, series and panels; values are pooled over seeds.
//!
//! `names` resolves short names of columns, `results` reads a sweep's tables, `messages` the messages of its runs, `pooled` makes points of
//! both, and `drawn` makes lines and panels of these.

mod drawn;
mod messages;
mod names;
mod pooled;
mod results;
mod spec;

use std::fs;
use std::path::{Path, PathBuf};

use weir_results::plot;

use crate::Failure;
use crate::files::with_path;
use crate::picture;
use crate::table::statistics;

pub use messages::warm_up;
use names::resolved;
pub(crate) use results::Results;
pub use spec::FigureSpec;
pub(crate) use spec::KEYS;

/// Arguments of `weir plot`.
#[derive(clap::Args)]
pub struct PlotArguments {
    /// The sweep's directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Horizontal axis: a parameter of the sweep, or a unique part of its name: load
    #[arg(long, value_name = "PARAMETER")]
    x: String,
    /// Vertical axis, several with commas: a column of results.csv, or a part of its name: slowdown_p99
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', required = true)]
    y: Vec<String>,
    /// A line for each: run (or policy), or parameters with commas.
    #[arg(long, value_name = "PARAMETER", value_delimiter = ',')]
    by: Vec<String>,
    /// A panel for each value of this parameter, or run.
    #[arg(long, value_name = "PARAMETER")]
    panels: Option<String>,
    /// Value of a parameter that rows must have; may be given several times.
    #[arg(long = "where", value_name = "PARAMETER=VALUE")]
    keep: Vec<String>,
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
    let spec = FigureSpec {
        x: arguments.x.clone(),
        y: arguments.y.clone(),
        by: arguments.by.clone(),
        panels: arguments.panels.clone(),
        keep: arguments.keep.iter().map(parse).collect::<Result<_, Failure>>()?,
        x_log: arguments.log_x,
        y_log: arguments.log_y,
        ..FigureSpec::default()
    };
    let results = Results::read(&arguments.directory)?;
    let files = draw(&spec, &results, &arguments.directory, arguments.output.as_deref())?;
    files.notes.iter().for_each(|note| println!("{note}"));
    files.written.iter().for_each(|file| println!("written: {}", file.display()));
    Ok(())
}

/// Written files, and notes for the reader.
pub(crate) struct DrawnFigure {
    pub written: Vec<PathBuf>,
    pub notes: Vec<String>,
}

/// Draws a figure of a sweep's results as SVG, and as PNG and PDF if these are built in; writes its points as CSV.
pub(crate) fn draw(
    spec: &FigureSpec,
    results: &Results,
    directory: &Path,
    output: Option<&Path>,
) -> Result<DrawnFigure, Failure> {
    let wanted = resolved(spec, &results.names()).map_err(Failure::Argument)?;
    let points = pooled::points(&wanted, results, directory)?;
    let figure = drawn::figure(spec, &wanted, &points, results);
    let name = spec.name.clone().unwrap_or_else(|| wanted.file_name(results));
    let base = output.map_or_else(|| directory.join(FOLDER).join(&name), Path::to_owned);
    // A known file extension in the name is dropped.
    let base = match base.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "png" | "pdf" | "csv") => base.with_extension(""),
        _ => base,
    };
    if let Some(folder) = base.parent() {
        fs::create_dir_all(folder).map_err(with_path(folder))?;
    }
    let failed = |error: plot::PlotError| Failure::Run(error.to_string());
    let mut written = picture::write_all(&figure.to_svg().map_err(failed)?, &base).map_err(failed)?;
    let csv = PathBuf::from(format!("{}.csv", base.display()));
    drawn::table(&wanted, &points, results).write_csv(&csv).map_err(with_path(&csv))?;
    written.push(csv);
    Ok(DrawnFigure { written, notes: pooled::notes(&points) })
}

/// Returns a percentile of the values of all runs together, infinite for unfinished messages, and its 95 % interval over several runs; `None` without
/// values, or where a rank is that of an unfinished message.
pub fn pooled_percentile(runs: &[Vec<f64>], percent: f64) -> Option<(f64, Option<(f64, f64)>)> {
    statistics::pooled_percentile(runs, percent).map(|estimate| (estimate.value, estimate.interval))
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
    figures.iter().enumerate().try_for_each(|(n, spec)| resolved(spec, &names).map(drop).map_err(|wrong| (n, wrong)))
}

/// SVGs of a sweep's figures, sorted by file name.
pub(crate) fn of_sweep(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory.join(FOLDER)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "svg"));
    files.sort();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}
