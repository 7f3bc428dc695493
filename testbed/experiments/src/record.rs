//! `weir record`: converts the messages in captures to a scenario.
//!
//! A run directory of `weir testbed run` contains its scenario: switches, links and hosts are kept, and the captured
//! messages replace flows and workloads. Captures alone contain no switches: their hosts get one.

mod scenario;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_trace::{Capture, CaptureError, FrameSelection, Recording};
use weir_units::{BitRate, Span};

use crate::files::{json_text, listed, write_scenario};
use crate::table::count;
use crate::{Failure, progress};
use scenario::{GeneratedScenario, RecordedNetwork};

/// Arguments of `weir record`.
#[derive(clap::Args)]
pub struct RecordArguments {
    /// Captures of RoCEv2 or TCP (pcap, pcapng), which are of one clock, or run directories, whose captures are read.
    #[arg(required = true, value_name = "CAPTURE|DIR")]
    pub sources: Vec<PathBuf>,
    /// Scenario to write; its messages are written into the same folder.
    #[arg(short, long, value_name = "SCENARIO.toml")]
    pub output: PathBuf,
    /// Rate of all links, if no run directory has it.
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    pub rate: BitRate,
    /// One-way delay of all links, if no run directory has it.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    pub delay: Span,
    /// Idle time after which TCP's data are another message.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub idle: Span,
    /// Record damaged and truncated captures too, without their unreadable frames.
    #[arg(long)]
    pub allow_damaged: bool,
    /// Write over files that are there.
    #[arg(long)]
    pub force: bool,
    /// Print the recording's contents as JSON.
    #[arg(long)]
    pub json: bool,
}

const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// Reads captures, and writes the scenario.
///
/// # Errors
/// Captures that can't be read, lack frames or have no message; output files that can't be written or exist already.
pub fn record(arguments: &RecordArguments) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut network = None;
    for source in &arguments.sources {
        if source.is_dir() {
            network = network.or(RecordedNetwork::from_run_dir(source)?);
            files.extend(captures_in(source)?);
        } else {
            files.push(source.clone());
        }
    }
    let captures = read_all(&files)?;
    let damaged: Vec<String> = captures.iter().filter_map(incomplete).collect();
    if !damaged.is_empty() && !arguments.allow_damaged {
        let help = "messages may be missing or too short; --allow-damaged records the rest";
        return Err(Failure::Run(format!("{}; {help}", damaged.join("\n"))));
    }
    let recording = Recording::from_captures(&captures, arguments.idle);
    if recording.messages.is_empty() {
        return Err(Failure::Argument(format!(
            "no message of RoCEv2 or TCP in {} frames: {} answers, {} other frames; a capture of encrypted or tunnelled traffic shows none",
            count(captures.iter().map(|capture| capture.frames().len() as u64).sum()),
            count(recording.answers),
            count(recording.others)
        )));
    }
    let network =
        network.unwrap_or_else(|| RecordedNetwork::from_recording(&recording, arguments.rate, arguments.delay));
    let names: Vec<String> = arguments.sources.iter().map(|source| source.display().to_string()).collect();
    let stem = stem(&arguments.output)?;
    let generated = network.scenario(&recording, &names.join(", "), &stem)?;
    let written = write_scenario(&arguments.output, &generated.scenario, &generated.data_files, arguments.force)?;
    let counts = summary_counts(&recording, &generated);
    if arguments.json {
        print!("{}", json_text(&as_json(&recording, &generated, &counts, &captures, &written)));
        return Ok(());
    }
    println!(
        "{} messages of {} B between {} hosts",
        count(generated.messages),
        count(bytes(&recording)),
        generated.hosts
    );
    for SummaryCount { number, what, .. } in counts.iter().filter(|entry| entry.number > 0) {
        println!("  {}: {what}", count(*number));
    }
    for text in damaged {
        println!("  {text}");
    }
    println!("written: {}", listed(&written));
    Ok(())
}

/// Describes the unread frames of a capture, if any.
fn incomplete(capture: &Capture) -> Option<String> {
    let skipped = capture.skipped();
    (!skipped.is_complete()).then(|| format!("{}: not read: {}", capture.path().display(), skipped.describe()))
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
    let choice = FrameSelection {
        headers_suffice: true,
        with_mac_control: true,
        frame_bytes_max: usize::MAX,
        memory_bytes_max: MEMORY_BYTES_MAX,
        ..FrameSelection::default()
    };
    let bytes = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|of| of.len()).sum();
    let bar = progress::bar(bytes, 0, "reading captures [{bar:32}] {bytes} of {total_bytes}, {left} left");
    let read = |file: &PathBuf| Capture::read_with_progress(file, &choice, &mut |bytes| bar.inc(bytes));
    let captures = files.iter().map(read).collect::<Result<_, _>>();
    bar.finish_and_clear();
    captures.map_err(|error| match error {
        CaptureError::NoEthernet { .. } => Failure::Run(error.to_string()),
        _ => Failure::Argument(error.to_string()),
    })
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
struct SummaryCount {
    key: &'static str,
    number: u64,
    what: &'static str,
}

fn bytes(recording: &Recording) -> u64 {
    recording.messages.iter().map(|sent| sent.bytes).sum()
}

fn summary_counts(recording: &Recording, generated: &GeneratedScenario) -> [SummaryCount; 8] {
    let complete = recording.messages.iter().filter(|sent| sent.is_complete).count();
    let entry = |key, number, what| SummaryCount { key, number, what };
    [
        entry("packets", recording.packets, "packets with data"),
        entry("sent_again", recording.sent_again, "of them sent again, and counted once"),
        entry(
            "missing",
            recording.missing,
            "packets that are missing in the captures; with a RETH, their messages still have the right size",
        ),
        entry(
            "not_whole",
            (recording.messages.len() - complete) as u64,
            "messages without beginning or end in the captures: their bytes are a least",
        ),
        entry(
            "left_out",
            generated.left_out,
            "messages of hosts that the run directory does not have, or to their own host: left out",
        ),
        entry("seen_elsewhere", recording.seen_elsewhere, "frames that another capture has too"),
        entry("answers", recording.answers, "acknowledgements and the like, which follow from messages"),
        entry("others", recording.others, "other frames"),
    ]
}

fn as_json(
    recording: &Recording,
    generated: &GeneratedScenario,
    counts: &[SummaryCount],
    captures: &[Capture],
    written: &[PathBuf],
) -> Value {
    let capture = |capture: &Capture| {
        json!({
            "file": capture.path(),
            "frames": capture.frames().len(),
            "refused_frames": capture.skipped().rejected(),
            "left_out": capture.skipped().describe(),
        })
    };
    let mut all = json!({
        "messages": generated.messages,
        "bytes": bytes(recording),
        "hosts": generated.hosts,
        "captures": captures.iter().map(capture).collect::<Vec<_>>(),
        "written": written,
    });
    for SummaryCount { key, number, .. } in counts {
        all[key] = json!(number);
    }
    all
}
