//! Reader of completed messages and pauses, from an ns-3 simulator's files and from run directories.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weir_results::run_dir::{has_messages, read_messages};

use super::wrong;
use crate::Failure;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message {
    /// Sending and receiving node; `None` for hosts without numbers.
    pub nodes: Option<[u32; 2]>,
    pub bytes: u64,
    pub fct_ns: f64,
    /// Completion time in an otherwise empty network, as the file has it.
    pub standalone_ns: Option<f64>,
}

/// Data of one run of the simulator or of Weir.
#[derive(Clone, Debug, Default)]
pub(super) struct ComparedRun {
    pub name: String,
    pub messages: Vec<Message>,
    /// Unfinished messages of a run; a simulator's file has only finished ones.
    pub unfinished: usize,
    /// Number of pauses begun, from `pfc.txt`; `None` without that file.
    pub pauses: Option<u64>,
}

/// Content of a path on the command line.
#[derive(Debug)]
pub(super) enum CompareInput {
    Fct(ComparedRun),
    Pfc(u64),
    Runs(Vec<ComparedRun>),
}

/// Reads a folder with runs, `fct.txt`, or `pfc.txt`.
pub(super) fn read(path: &Path) -> Result<CompareInput, Failure> {
    if path.is_dir() {
        return runs(path).map(CompareInput::Runs);
    }
    let text = text_of(path)?;
    let columns = text.lines().find(|line| !line.trim().is_empty()).map(|line| line.split_whitespace().count());
    match columns {
        Some(8) => {
            let messages = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let messages: Result<Vec<Message>, Failure> =
                messages.map(|(n, line)| message(path, n + 1, line)).collect();
            Ok(CompareInput::Fct(ComparedRun {
                name: path.display().to_string(),
                messages: messages?,
                ..ComparedRun::default()
            }))
        }
        Some(5) => pauses(path, &text).map(CompareInput::Pfc),
        // Without a pause the file is empty.
        None if path.file_name().is_some_and(|name| name.to_string_lossy().contains("pfc")) => Ok(CompareInput::Pfc(0)),
        _ => {
            let help =
                "fct.txt has 8 values a line, pfc.txt 5, and a run is the directory of `weir testbed run -o DIR`";
            Err(wrong(path, Some(1), &format!("this is neither fct.txt nor pfc.txt of an ns-3 simulator; {help}")))
        }
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| wrong(path, None, &format!("can't be read: {error}")))
}

fn field<T: FromStr>(path: &Path, line: usize, text: &str, what: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| wrong(path, Some(line), &format!("\"{text}\" is not {what}")))
}

/// Parses a line `sip dip sport dport size start fct standalone`.
fn message(path: &Path, line: usize, text: &str) -> Result<Message, Failure> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let &[from, to, _, _, bytes, _, fct, standalone] = &fields[..] else {
        return Err(wrong(path, Some(line), &format!("this line has {} values, and not 8", fields.len())));
    };
    let message = Message {
        nodes: Some([node(path, line, from)?, node(path, line, to)?]),
        bytes: field(path, line, bytes, "a size in bytes")?,
        fct_ns: field(path, line, fct, "a time in nanoseconds")?,
        standalone_ns: Some(field(path, line, standalone, "a time in nanoseconds")?),
    };
    if message.fct_ns > 0.0 && message.standalone_ns > Some(0.0) {
        return Ok(message);
    }
    Err(wrong(path, Some(line), "a completion time is not above 0"))
}

/// Parses a node: HPCC's simulator writes its address, 0x0b000001 plus 256 per node, and ConWeave's its number.
fn node(path: &Path, line: usize, text: &str) -> Result<u32, Failure> {
    if text.len() == 8 && text.starts_with("0b") {
        let address = u32::from_str_radix(text, 16);
        return address
            .map(|address| (address >> 8) & 0xffff)
            .map_err(|_| wrong(path, Some(line), &format!("\"{text}\" is not a host's address, like 0b000101")));
    }
    field(path, line, text, "a host, like 0b000101 or 1")
}

/// Counts the lines that begin a pause: `time node nodetype ifindex type`.
fn pauses(path: &Path, text: &str) -> Result<u64, Failure> {
    let mut begun = 0;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, _, _, _, "1"] => begun += 1,
            [_, _, _, _, "0"] => {}
            _ => return Err(wrong(path, Some(n + 1), "this is no line of pfc.txt: its five values end with 1 or 0")),
        }
    }
    Ok(begun)
}

/// Reads a folder's runs: the folder itself, or those in it.
fn runs(path: &Path) -> Result<Vec<ComparedRun>, Failure> {
    if has_messages(path) {
        return Ok(vec![run(path)?]);
    }
    let cannot = |error| wrong(path, None, &format!("can't be looked through: {error}"));
    let mut inside: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(cannot)? {
        inside.push(entry.map_err(cannot)?.path());
    }
    inside.retain(|inside| has_messages(inside));
    inside.sort();
    if inside.is_empty() {
        return Err(wrong(
            path,
            None,
            "no run is here: a run has fct.csv; name the directory of `weir testbed run -o DIR`",
        ));
    }
    inside.iter().map(|path| run(path)).collect()
}

fn run(path: &Path) -> Result<ComparedRun, Failure> {
    let (mut messages, mut unfinished) = (Vec::new(), 0);
    let read = read_messages(path, |message| match message.fct_us {
        None => unfinished += 1,
        Some(fct_us) => messages.push(Message {
            nodes: number(message.from).zip(number(message.to)).map(|(from, to)| [from, to]),
            bytes: message.bytes,
            fct_ns: fct_us * 1e3,
            standalone_ns: message.ideal_us.map(|ideal_us| ideal_us * 1e3),
        }),
    });
    read.map_err(|error| Failure::Argument(error.to_string()))?;
    let pfc = path.join("pfc.txt");
    let pauses = pfc.is_file().then(|| text_of(&pfc).and_then(|text| pauses(&pfc, &text))).transpose()?;
    Ok(ComparedRun { name: path.display().to_string(), messages, unfinished, pauses })
}

/// Node number of an imported host: 5 for H5, and for H5-2, another NIC of the same node.
fn number(name: &str) -> Option<u32> {
    let rest = name.strip_prefix('H')?;
    rest.split_once('-').map_or(rest, |(node, _)| node).parse().ok()
}

/// The simulator's completion times in an empty network, by nodes and size.
#[derive(Debug, Default)]
pub(super) struct Standalone(HashMap<([u32; 2], u64), f64>);

impl Standalone {
    pub(super) fn from_runs(sides: &[ComparedRun]) -> Standalone {
        let messages = sides.iter().flat_map(|side| &side.messages);
        Standalone(messages.filter_map(|one| Some(((one.nodes?, one.bytes), one.standalone_ns?))).collect())
    }

    /// Slowdown of a message by the simulator's ideal time, or by its own if the simulator had no such message; at
    /// least 1, as in the simulators' scripts. The flag is true for the simulator's time.
    pub(super) fn slowdown(&self, message: &Message) -> Option<(f64, bool)> {
        let theirs = message.nodes.and_then(|nodes| self.0.get(&(nodes, message.bytes)).copied());
        let slowdown = message.fct_ns / theirs.or(message.standalone_ns)?;
        slowdown.is_finite().then(|| (slowdown.max(1.0), theirs.is_some()))
    }
}
