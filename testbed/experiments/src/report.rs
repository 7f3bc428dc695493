//! `weir report`: results of one or several runs as text, or as one page that needs no network.

mod charts;
mod completion;
mod events;
mod html;
mod input;
mod json;
mod key_figures;
mod page;
mod recorded;
mod sections;
mod series;
mod snapshots;
mod text;
mod topology;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

pub use recorded::RecordedRuns;

use crate::files::{json_text, write_atomic};
use crate::{Failure, has_color};

/// Arguments of `weir report`.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// Directories of runs, as `weir run -o`, `weir testbed run`, `weir demo` and `weir sweep` leave them, or folders of several such.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The page's file; by default report.html. With --text or --json, the file of that in place of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a plain report in place of the page.
    #[arg(long)]
    text: bool,
    /// Print the verdict and each run's summary and provenance as JSON in place of the page.
    #[arg(long, conflicts_with = "text")]
    json: bool,
}

/// Beginning of a page, before the summary of its runs.
#[derive(Debug, Default)]
pub struct Lead {
    /// Title of the page.
    pub title: String,
    /// Results, in sentences.
    pub sentences: Vec<String>,
    /// Items of a list below the sentences.
    pub findings: Vec<String>,
    /// Rows of a table; the first is its heading.
    pub numbers: Vec<Vec<String>>,
    /// Figures as SVG, included unchanged.
    pub figures: Vec<String>,
    /// Whether the runs are folded.
    pub folds_runs: bool,
}

/// Writes the page, or prints the text.
pub fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let input = input::read(&arguments.directories)?;
    for reason in &input.left_out {
        eprintln!("weir: left out: {reason}");
    }
    if arguments.json {
        let text = json_text(&json::report(&input));
        return match &arguments.output {
            Some(file) => write(file, &text),
            None => {
                print!("{text}");
                Ok(())
            }
        };
    }
    if arguments.text {
        let is_terminal = arguments.output.is_none() && has_color(&std::io::stdout());
        let text = text::report(&input, is_terminal)?;
        return match &arguments.output {
            Some(file) => write(file, &text),
            None => {
                print!("{text}");
                Ok(())
            }
        };
    }
    let file = arguments.output.clone().unwrap_or_else(|| PathBuf::from("report.html"));
    let lead = of_sweep(&arguments.directories);
    let page = page::page(&input, lead.as_ref())?;
    write(&file, &page)?;
    let runs = if input.runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", input.runs.len()) };
    println!("report of {runs}: {} ({:.1} MB)", file.display(), page.len() as f64 / 1e6);
    Ok(())
}

/// Lead with a sweep's figures; `None` without figures, or for other directories.
fn of_sweep(directories: &[PathBuf]) -> Option<Lead> {
    let [directory] = directories else { return None };
    let figures = crate::sweep::plot::of_sweep(directory);
    let name = directory.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned();
    (!figures.is_empty()).then(|| Lead { title: name, figures, folds_runs: true, ..Lead::default() })
}

/// Renders the page of the runs in the given directories, or below them, after `lead`. For commands that run and then
/// report.
pub fn page(directories: &[PathBuf], lead: Option<&Lead>) -> Result<String, Failure> {
    page::page(&input::read(directories)?, lead)
}

/// Writes a file completely, or not at all.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Argument(format!("{}: can't be written: {error}; name another file with -o", file.display()))
    };
    if file.file_name().is_none() {
        return Err(Failure::Argument(format!("-o {}: name a file", file.display())));
    }
    write_atomic(file, |part| fs::write(part, text)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use weir_results::run_dir::{Provenance, RunDir, Summary};

    use super::*;

    #[test]
    fn a_lead_stands_before_the_summary() {
        let folder = tempfile::tempdir().unwrap();
        let provenance = Provenance::new("0.1.0", ["weir".to_owned()], UNIX_EPOCH);
        let run = RunDir::create(folder.path().join("a"), &provenance).unwrap();
        let summary = Summary { scenario: "ring".into(), lossless: true, ..Summary::default() };
        let directory = run.finish(&summary).unwrap();
        let lead = Lead {
            title: "Figure <9>".into(),
            sentences: vec!["As the paper has it, a < b.".into()],
            findings: vec!["c > d".into()],
            numbers: vec![vec!["".into(), "paper".into()], vec!["peak".into(), "<884>".into()]],
            figures: vec!["<?xml version=\"1.0\"?>\n<svg width=\"7\"></svg>".into()],
            folds_runs: true,
        };
        let page = page(&[directory], Some(&lead)).unwrap();
        let parts = [
            "<h1>Figure &lt;9&gt;</h1>",
            "a &lt; b.",
            "<li>c &gt; d</li>",
            "<td>&lt;884&gt;</td>",
            "<svg width=\"7\">",
            "<details class=\"runs\">",
            "<h2>Summary</h2>",
            "Provenance</h2>",
        ];
        let places: Vec<usize> = parts.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(!page.contains("<?xml") && !page.contains("id=\"zoom\""), "a run without series has no plots");
    }
}
