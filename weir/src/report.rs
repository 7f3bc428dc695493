//! `weir report`: the results of one run, or of several side by side, as one page that needs no network, or as text.

mod charts;
mod completion;
mod events;
mod html;
mod input;
mod key_figures;
mod page;
mod sections;
mod series;
mod text;
mod topology;
mod verdict;

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Arguments of `weir report`.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// Directories of runs, as `weir testbed run`, `weir demo` and `weir sweep` leave them, or folders of several such.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The page's file; by default report.html. With --text, the text's file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a plain report in place of the page.
    #[arg(long)]
    text: bool,
}

/// What a page begins with, before the summary of its runs.
#[derive(Debug, Default)]
pub struct Lead {
    /// The page's title.
    pub title: String,
    /// What it comes to, in sentences.
    pub sentences: Vec<String>,
    /// A figure: SVG, which is put into the page as it is.
    pub figure_svg: Option<String>,
}

/// Writes the page, or prints the text.
pub fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let input = input::read(&arguments.directories)?;
    for reason in &input.left_out {
        eprintln!("weir: left out: {reason}");
    }
    if arguments.text {
        let is_terminal = arguments.output.is_none() && std::io::stdout().is_terminal();
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
    let page = page::page(&input, None)?;
    write(&file, &page)?;
    let runs = if input.runs.len() == 1 { "one run".to_owned() } else { format!("{} runs", input.runs.len()) };
    println!("report of {runs}: {} ({:.1} MB)", file.display(), page.len() as f64 / 1e6);
    Ok(())
}

/// The page of the runs in these directories, or below them; with `lead`, that first.
#[allow(dead_code)]
pub fn page(directories: &[PathBuf], lead: Option<&Lead>) -> Result<String, Failure> {
    page::page(&input::read(directories)?, lead)
}

/// Writes a file whole, or not at all.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Argument(format!("{}: can't be written: {error}; name another file with -o", file.display()))
    };
    let Some(name) = file.file_name() else {
        return Err(Failure::Argument(format!("-o {}: name a file", file.display())));
    };
    let part = file.with_file_name(format!(".{}.part", name.to_string_lossy()));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map_err(failed)
}
