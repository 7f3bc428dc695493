//! `weir record`: converts the messages in captures to a scenario.
//!
//! A run directory of `weir testbed run` contains its scenario: switches, links and hosts are kept, and the captured
//! messages replace flows and workloads. Captures alone contain no switches: their hosts get one.

mod scenario;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_trace::{Capture, Choice, Recording};
use weir_units::{BitRate, Span};

use crate::files::{json_text, listed, write_scenario};
use crate::table::count;
use crate::{Failure, progress};
use scenario::{Made, Surroundings};

/// Arguments of `weir record`.
#[derive(clap::Args)]
pub struct RecordArguments {
    /// Captures of RoCEv2 or TCP (pcap, pcapng), which are of one clock, or run directories, whose captures are read.
    #[arg(required = true, value_name = "CAPTURE|DIR")]
    pub sources: Vec<PathBuf>,
    /// The scenario to write; its messages are written beside it.
    #[arg(short, long, value_name = "SCENARIO.toml")]
    pub output: PathBuf,
    /// The rate of all links, where no run directory tells it.
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    pub rate: BitRate,
    /// The delay of all links, one way, where no run directory tells it.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    pub delay: Span,
    /// TCP's data after a pause of so long is another message.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub idle: Span,
    /// Write over files that are there.
    #[arg(long)]
    pub force: bool,
    /// Print what was read as JSON.
    #[arg(long)]
    pub json: bool,
}

const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// Reads captures, and writes the scenario.
///
/// # Errors
/// Captures that can't be read or have no message; output files that can't be written or exist already.
pub fn record(arguments: &RecordArguments) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut surroundings = None;
    for source in &arguments.sources {
        if source.is_dir() {
            surroundings = surroundings.or(Surroundings::of(source)?);
            files.extend(captures_in(source)?);
        } else {
            files.push(source.clone());
        }
    }
    let captures = read_all(&files)?;
    let recording = Recording::of(&captures, arguments.idle);
    if recording.sent.is_empty() {
        return Err(Failure::Argument(format!(
            "no message of RoCEv2 or TCP in {} frames: {} answers, {} other frames; a capture of encrypted or tunnelled traffic shows none",
            count(captures.iter().map(|capture| capture.frames().len() as u64).sum()),
            count(recording.answers),
            count(recording.others)
        )));
    }
    let surroundings =
        surroundings.unwrap_or_else(|| Surroundings::around(&recording, arguments.rate, arguments.delay));
    let names: Vec<String> = arguments.sources.iter().map(|source| source.display().to_string()).collect();
    let stem = stem(&arguments.output)?;
    let made = surroundings.scenario(&recording, &names.join(", "), &stem)?;
    let written = write_scenario(&arguments.output, &made.scenario, &made.beside, arguments.force)?;
    let told = told(&recording, &made);
    if arguments.json {
        print!("{}", json_text(&as_json(&recording, &made, &told, &captures, &written)));
        return Ok(());
    }
    println!("{} messages of {} B between {} hosts", count(made.messages), count(bytes(&recording)), made.hosts);
    for Told { number, what, .. } in told.iter().filter(|told| told.number > 0) {
        println!("  {}: {what}", count(*number));
    }
    for capture in captures.iter().filter(|capture| capture.left_out().refused() > 0) {
        println!("  {}: {}", capture.path().display(), capture.left_out().told());
    }
    println!("written: {}", listed(&written));
    Ok(())
}

fn captures_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |what: String| Failure::Argument(format!("{}: {what}", directory.display()));
    let entries = fs::read_dir(directory).map_err(|error| wrong(error.to_string()))?;
    let is_capture =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "pcapng" || end == "pcap") && path.is_file();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_capture).collect();
    files.sort();
    if files.is_empty() {
        let help = "write [capture] in the scenario, or give weir run --capture PORT --capture-frames N";
        return Err(wrong(format!("there is no capture in it; {help}")));
    }
    Ok(files)
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Capture>, Failure> {
    let choice = Choice {
        headers_suffice: true,
        frame_bytes_max: usize::MAX,
        memory_bytes_max: MEMORY_BYTES_MAX,
        ..Choice::default()
    };
    let bytes = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|of| of.len()).sum();
    let bar = progress::bar(bytes, 0, "reading captures [{bar:32}] {bytes} of {total_bytes}, {left} left");
    let read = |file: &PathBuf| Capture::read_telling(file, &choice, &mut |bytes| bar.inc(bytes));
    let captures = files.iter().map(read).collect::<Result<_, _>>();
    bar.finish_and_clear();
    captures.map_err(|error| Failure::Argument(error.to_string()))
}

/// Name prefix of the files written with the scenario.
fn stem(output: &Path) -> Result<String, Failure> {
    let stem = output
        .file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|_| output.extension().is_some_and(|end| end == "toml"));
    stem.map(str::to_owned)
        .ok_or_else(|| Failure::Argument(format!("-o {}: name a file that ends in .toml", output.display())))
}

/// Count of the summary, with its description.
struct Told {
    key: &'static str,
    number: u64,
    what: &'static str,
}

fn bytes(recording: &Recording) -> u64 {
    recording.sent.iter().map(|sent| sent.bytes).sum()
}

fn told(recording: &Recording, made: &Made) -> [Told; 8] {
    let whole = recording.sent.iter().filter(|sent| sent.is_whole).count();
    let told = |key, number, what| Told { key, number, what };
    [
        told("packets", recording.packets, "packets with data"),
        told("sent_again", recording.sent_again, "of them sent again, and counted once"),
        told(
            "missing",
            recording.missing,
            "packets that are missing in the captures; messages have their bytes all the same where a RETH tells them",
        ),
        told(
            "not_whole",
            (recording.sent.len() - whole) as u64,
            "messages without beginning or end in the captures: their bytes are a least",
        ),
        told(
            "left_out",
            made.left_out,
            "messages of hosts that the run directory does not have, or to their own host: left out",
        ),
        told("seen_elsewhere", recording.seen_elsewhere, "frames that another capture has too"),
        told("answers", recording.answers, "acknowledgements and the like, which follow from messages"),
        told("others", recording.others, "other frames"),
    ]
}

fn as_json(recording: &Recording, made: &Made, told: &[Told], captures: &[Capture], written: &[PathBuf]) -> Value {
    let capture = |capture: &Capture| {
        json!({
            "file": capture.path(),
            "frames": capture.frames().len(),
            "refused_frames": capture.left_out().refused(),
            "left_out": capture.left_out().told(),
        })
    };
    let mut all = json!({
        "messages": made.messages,
        "bytes": bytes(recording),
        "hosts": made.hosts,
        "captures": captures.iter().map(capture).collect::<Vec<_>>(),
        "written": written,
    });
    for Told { key, number, .. } in told {
        all[key] = json!(number);
    }
    all
}
