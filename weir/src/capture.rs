//! `weir capture`: frames of a running switch, into a file, a ring of files, or to another program.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use weir_control::capture::{CaptureDirection, CaptureFrames, CaptureRequest, CaptureStarted};
use weir_control::protocol::{Reply, Request};
use weir_experiments::Failure;
use weir_experiments::experiment::{once_stopped, stopped_by_signals};
use weir_units::Bytes;

use crate::control::{Target, failure};
use crate::runtime_config::time;

/// Arguments of `weir capture`.
#[derive(clap::Args)]
pub(crate) struct CaptureArguments {
    #[command(flatten)]
    target: Target,
    /// Capture this port only; repeat it for several. By default all ports.
    #[arg(short, long, value_name = "PORT")]
    port: Vec<String>,
    /// Data of this class alone, and PFC frames that name it. May be given more than once.
    #[arg(long, value_name = "CLASS", value_parser = clap::value_parser!(u8).range(0..8))]
    class: Vec<u8>,
    /// Flow control and other MAC control frames alone.
    #[arg(long)]
    control_only: bool,
    /// Frames that the switch drops, with the reason, alone; `--drops=also`: with those that pass.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "alone")]
    drops: Option<Drops>,
    /// Frames that ports receive, or those that they send, alone.
    #[arg(long, value_name = "WAY")]
    direction: Option<Direction>,
    /// The first bytes of each frame alone.
    #[arg(short, long, value_name = "BYTES")]
    snaplen: Option<u32>,
    /// End after this many frames.
    #[arg(short, long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time, such as 10s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// The file that is written, or written over; `-` for another program: weir capture -o - | tshark -r -
    #[arg(short, long, value_name = "FILE|-")]
    output: PathBuf,
    /// A new file when one has this size, such as 100MB: FILE_00001_20261124093000.pcapng and so on.
    #[arg(long, value_name = "SIZE")]
    file_size: Option<Bytes>,
    /// Keep this many files, the last ones.
    #[arg(long, value_name = "FILES", requires = "file_size", value_parser = clap::value_parser!(u32).range(1..))]
    files: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Drops {
    /// Dropped frames alone.
    Alone,
    /// Dropped frames, and frames that pass.
    Also,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// Received by the port.
    In,
    /// Sent by the port.
    Out,
}

/// Captures until Ctrl-C, or for the requested count or time.
pub(crate) fn capture(arguments: &CaptureArguments) -> Result<(), Failure> {
    let is_stdout = arguments.output == Path::new("-");
    if is_stdout && io::stdout().is_terminal() {
        let message = "--output -: a capture is no text for a terminal; pipe it: weir capture -o - | tshark -r -";
        return Err(Failure::Argument(message.to_owned()));
    }
    if is_stdout && arguments.file_size.is_some() {
        return Err(Failure::Argument("--file-size makes files: name one with --output".to_owned()));
    }
    let mut client = arguments.target.connect()?;
    let reply = client.ask(&Request::Capture(arguments.wanted())).map_err(failure)?;
    let Reply::Capturing(capturing) = reply else { return Err(failure(client.unexpected_reply())) };
    // Created only now: a refused request must not overwrite a file.
    let mut output = CaptureOutput::new(arguments)?;
    let stop = stopped_by_signals()?;
    let (mut frames, closer) = client.follow()?;
    once_stopped(stop, move || {
        // The error is ignored: the capture may already have ended.
        let _ = closer.end();
    });
    let totals = copy(&mut frames, &mut output).and_then(|totals| output.flush().map(|()| totals));
    match totals {
        Ok(totals) => {
            eprintln!("{}", summary(&capturing, &totals, arguments));
            if totals.is_complete {
                Ok(())
            } else {
                Err(Failure::Run("connection to the switch lost: frames may be missing".to_owned()))
            }
        }
        // A pipe closed by its reader is no error.
        Err(CopyError::Write(error)) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(error.into_failure(&output.path)),
    }
}

impl CaptureArguments {
    fn wanted(&self) -> CaptureRequest {
        CaptureRequest {
            switch: self.target.switch.clone(),
            ports: self.port.clone(),
            classes: self.class.clone(),
            passing: match (self.control_only, self.drops) {
                (true, _) => CaptureFrames::Control,
                (false, Some(Drops::Alone)) => CaptureFrames::None,
                (false, _) => CaptureFrames::All,
            },
            direction: self.direction.map(|direction| match direction {
                Direction::In => CaptureDirection::In,
                Direction::Out => CaptureDirection::Out,
            }),
            drops: self.drops.is_some(),
            snaplen: self.snaplen,
            frames: self.count,
            for_ms: self.duration.map(|duration| duration.as_millis() as u64),
        }
    }
}

/// Result of a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct CaptureSummary {
    frames: u64,
    /// Requested frames that are missing.
    missed: u64,
    /// Whether the capture is complete, with the statistics of each port.
    is_complete: bool,
}

/// Reason why a capture fails.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The connection to the switch was lost.
    Read(io::Error),
    /// The capture can't be written.
    Write(io::Error),
    /// The data are no capture.
    Malformed(String),
}

impl CopyError {
    /// Failure for the user, of a capture to `output`.
    pub(crate) fn into_failure(self, output: &Path) -> Failure {
        Failure::Run(match self {
            CopyError::Read(error) => format!("connection to the switch lost: {error}"),
            CopyError::Write(error) => format!("{}: {error}", output.display()),
            CopyError::Malformed(what) => format!("what the switch sends is no capture: {what}"),
        })
    }
}

/// Types of pcapng's blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
pub(crate) const STATISTICS: u32 = 5;
pub(crate) const PACKET: u32 = 6;
/// Upper bound of a block: a frame of 16 KiB with its metadata.
const BLOCK_BYTES_MAX: u32 = 1 << 20;

/// Copies blocks to the end.
fn copy(frames: &mut BufReader<impl Read>, output: &mut CaptureOutput) -> Result<CaptureSummary, CopyError> {
    let mut totals = CaptureSummary::default();
    let mut block = Vec::new();
    loop {
        // Flushed whenever no data are buffered, so that a live reader sees all frames.
        if frames.buffer().is_empty() {
            output.flush()?;
        }
        if frames.fill_buf().map_err(CopyError::Read)?.is_empty() {
            return Ok(totals);
        }
        let kind = next_block(frames, &mut block)?;
        match kind {
            SECTION | INTERFACE => output.begin(&block)?,
            PACKET => {
                output.write(&block)?;
                totals.frames += 1;
            }
            STATISTICS => {
                output.last(&block)?;
                totals.missed += option(&block[20..], 5).and_then(number).unwrap_or(0);
                totals.is_complete = true;
            }
            _ => return Err(CopyError::Malformed(format!("a block of type {kind}"))),
        }
    }
}

/// Reads a block unchanged, and returns its type. The section is big-endian.
pub(crate) fn next_block(frames: &mut impl Read, block: &mut Vec<u8>) -> Result<u32, CopyError> {
    let mut head = [0; 8];
    frames.read_exact(&mut head).map_err(CopyError::Read)?;
    let [kind, length] = [0, 4].map(|at| u32::from_be_bytes(std::array::from_fn(|n| head[at + n])));
    let least = if kind == INTERFACE { 20 } else { 28 };
    if !(least..=BLOCK_BYTES_MAX).contains(&length) {
        return Err(CopyError::Malformed(format!("a block of {length} bytes")));
    }
    block.clear();
    block.extend_from_slice(&head);
    block.resize(length as usize, 0);
    frames.read_exact(&mut block[8..]).map_err(CopyError::Read)?;
    Ok(kind)
}

/// Value of an option.
pub(crate) fn option(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (head, rest) = options.split_first_chunk::<4>()?;
        let [code, length] = [0, 2].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
        match code {
            0 => return None,
            _ if code == wanted => return rest.get(..usize::from(length)),
            _ => options = rest.get(usize::from(length).next_multiple_of(4)..)?,
        }
    }
}

/// Number in an option of 8 bytes.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// Destination of a capture.
struct CaptureOutput {
    path: PathBuf,
    to: BufWriter<Box<dyn Write>>,
    /// Section header and interfaces, with which each file begins.
    head: Vec<u8>,
    /// Bytes of the current file, and whether it has a frame.
    bytes: u64,
    has_frames: bool,
    ring: Option<FileRing>,
}

/// Ring of files.
struct FileRing {
    file_bytes: u64,
    files: Option<u32>,
    /// Oldest first.
    made: std::collections::VecDeque<PathBuf>,
    number: u64,
}

impl CaptureOutput {
    fn new(arguments: &CaptureArguments) -> Result<CaptureOutput, Failure> {
        let path = arguments.output.clone();
        let mut ring = arguments.file_size.map(|size| FileRing {
            file_bytes: size.get().max(1),
            files: arguments.files,
            made: Default::default(),
            number: 0,
        });
        let failed = |error: io::Error| {
            let help = "name a file in a directory that exists and may be written to";
            Failure::Argument(format!("--output {}: {error}; {help}", arguments.output.display()))
        };
        let to: Box<dyn Write> = match &mut ring {
            Some(ring) => ring.next(&path).map_err(failed)?,
            None if path == Path::new("-") => Box::new(io::stdout()),
            None => Box::new(File::create(&path).map_err(failed)?),
        };
        Ok(CaptureOutput { path, to: BufWriter::new(to), head: Vec::new(), bytes: 0, has_frames: false, ring })
    }

    /// Writes a block with which each file begins.
    fn begin(&mut self, block: &[u8]) -> Result<(), CopyError> {
        self.head.extend_from_slice(block);
        self.put(block)
    }

    fn write(&mut self, block: &[u8]) -> Result<(), CopyError> {
        if let Some(ring) = &mut self.ring
            && self.has_frames
            && self.bytes + block.len() as u64 > ring.file_bytes
        {
            self.to.flush().map_err(CopyError::Write)?;
            self.to = BufWriter::new(ring.next(&self.path).map_err(CopyError::Write)?);
            self.bytes = 0;
            let head = std::mem::take(&mut self.head);
            self.put(&head)?;
            self.head = head;
        }
        self.has_frames = true;
        self.put(block)
    }

    /// Writes a block to the current file, at any size.
    fn last(&mut self, block: &[u8]) -> Result<(), CopyError> {
        self.put(block)
    }

    fn put(&mut self, block: &[u8]) -> Result<(), CopyError> {
        self.bytes += block.len() as u64;
        self.to.write_all(block).map_err(CopyError::Write)
    }

    fn flush(&mut self) -> Result<(), CopyError> {
        self.to.flush().map_err(CopyError::Write)
    }
}

impl FileRing {
    /// Opens the next file, and removes the oldest above the limit.
    fn next(&mut self, path: &Path) -> io::Result<Box<dyn Write>> {
        self.number += 1;
        let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = path.extension().map_or("pcapng".into(), |extension| extension.to_string_lossy());
        let made = path.with_file_name(format!("{stem}_{:05}_{now}.{extension}", self.number));
        let file = File::create(&made)?;
        self.made.push_back(made);
        if self.files.is_some_and(|files| self.made.len() > files as usize)
            && let Some(oldest) = self.made.pop_front()
        {
            std::fs::remove_file(oldest)?;
        }
        Ok(Box::new(file))
    }
}

fn summary(capturing: &CaptureStarted, totals: &CaptureSummary, arguments: &CaptureArguments) -> String {
    let CaptureStarted { switch, ports } = capturing;
    let mut text = format!("{switch}: {} frames of {}", totals.frames, ports.join(", "));
    if totals.missed > 0 {
        text += &format!(
            "; {} more are missing, for which the capture came too late (the switch forwarded them): ask for less, by --snaplen, \
             --class or --control-only",
            totals.missed
        );
    }
    if arguments.output != Path::new("-") && arguments.file_size.is_none() {
        text += &format!(", in {}", arguments.output.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of these contents.
    fn block(kind: u32, contents: &[u8]) -> Vec<u8> {
        let length = (12 + contents.len()) as u32;
        [&kind.to_be_bytes(), &length.to_be_bytes(), contents, &length.to_be_bytes()].concat()
    }

    fn statistics(missed: u64) -> Vec<u8> {
        let options = [&[0, 4, 0, 8][..], &9u64.to_be_bytes(), &[0, 5, 0, 8], &missed.to_be_bytes(), &[0; 4]].concat();
        block(STATISTICS, &[&[0; 12][..], &options].concat())
    }

    fn output(path: PathBuf, ring: Option<FileRing>) -> CaptureOutput {
        let to: Box<dyn Write> = Box::new(File::create(&path).unwrap());
        CaptureOutput { path, to: BufWriter::new(to), head: Vec::new(), bytes: 0, has_frames: false, ring }
    }

    #[test]
    fn a_ring_keeps_the_last_files_each_a_capture_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pcapng");
        let head = [block(SECTION, &[1; 16]), block(INTERFACE, &[2; 8])].concat();
        let frames: Vec<Vec<u8>> = (0..9).map(|n| block(PACKET, &[n; 40])).collect();
        let stream = [head.clone(), frames.concat(), statistics(7)].concat();
        // Each file has room for two frames.
        let ring =
            FileRing { file_bytes: head.len() as u64 + 110, files: Some(3), made: Default::default(), number: 0 };
        let mut output = output(path.clone(), Some(ring));
        let totals = copy(&mut BufReader::new(&stream[..]), &mut output).unwrap();
        output.flush().unwrap();
        assert_eq!(totals, CaptureSummary { frames: 9, missed: 7, is_complete: true });
        std::fs::remove_file(path).unwrap();
        let mut files: Vec<PathBuf> = directory.path().read_dir().unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let read: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        let expected = [
            [&head[..], &frames[4], &frames[5]].concat(),
            [&head[..], &frames[6], &frames[7]].concat(),
            [&head[..], &frames[8], &statistics(7)].concat(),
        ];
        assert_eq!(read, expected, "{files:?}");
    }

    #[test]
    fn malformed_data_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        for (stream, expected) in [
            (block(9, &[0; 20]), "a block of type 9"),
            (b"HTTP/1.1 400 Bad Request".to_vec(), "a block of"),
            (block(PACKET, &[0; 40])[..30].to_vec(), ""),
        ] {
            let mut output = output(directory.path().join("x"), None);
            match copy(&mut BufReader::new(&stream[..]), &mut output) {
                Err(CopyError::Malformed(what)) => assert!(!expected.is_empty() && what.contains(expected), "{what}"),
                Err(CopyError::Read(_)) => assert!(expected.is_empty()),
                other => panic!("{other:?}"),
            }
        }
    }
}
