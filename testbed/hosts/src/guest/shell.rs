//! Guest's shell on a serial port.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use crate::nonblocking::{self, events};

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code.
    pub code: i32,
    /// Combined output on stdout and stderr.
    pub output: String,
}

/// Connection to a shell, which runs one command at a time.
#[derive(Debug)]
pub(super) struct Shell {
    stream: UnixStream,
    commands: u64,
}

/// Running command that exchanges lines.
#[derive(Debug)]
pub(super) struct ShellProgram {
    stream: UnixStream,
    /// Start of the line that ends the command.
    mark: String,
    to_send: VecDeque<u8>,
    received: Vec<u8>,
    /// Last line of the command.
    last: String,
}

/// Time until the second probe for a response.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// Longest single wait for output.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Bytes read at a time.
const PIECE: usize = 16 * 1024;

impl Shell {
    /// Connects to a shell's socket, and waits until the guest responds.
    ///
    /// # Errors
    /// `TimedOut` if it does not respond within `within`; `UnexpectedEof` if its QEMU ends.
    pub(super) fn connect(socket: &Path, within: Duration) -> io::Result<Shell> {
        let stream = UnixStream::connect(socket)?;
        let mut shell = Shell { stream, commands: 0 };
        let deadline = Instant::now() + within;
        // Until the guest has opened its end, sent bytes are lost. Output of an earlier command is skipped. The
        // interval between probes doubles: each probe is work for a guest on a busy machine, and a new one would
        // precede the response to the last.
        let mut timeout = ASK_AGAIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match shell.run("true", left.min(timeout), &mut |_| ()) {
                Ok(_) => return Ok(shell),
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < deadline => timeout *= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a shell command to its end; returns the exit code. `shown` is called with output as it arrives.
    ///
    /// # Errors
    /// `TimedOut`, with the command still running; `UnexpectedEof` if the guest's QEMU has ended.
    pub(super) fn run(&mut self, command: &str, within: Duration, shown: &mut dyn FnMut(&[u8])) -> io::Result<i32> {
        let mark = self.write(&format!("( {command}\n) </dev/null"))?;
        let deadline = Instant::now() + within;
        let (mut kept, mut piece) = (Vec::new(), vec![0; PIECE]);
        loop {
            if let Some((at, code)) = end_of(&kept, mark.as_bytes()) {
                shown(&without_returns(&kept[..at]));
                return Ok(code);
            }
            let safe = before_mark(&kept, mark.as_bytes());
            if safe > 0 {
                shown(&without_returns(&kept[..safe]));
                kept.drain(..safe);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(LOOK_EVERY)))?;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => kept.extend_from_slice(&piece[..bytes]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a shell command, whose input is the shell's. Write to it only after its first line: the shell may read ahead until then.
    pub(super) fn start(mut self, command: &str) -> io::Result<ShellProgram> {
        let mark = self.write(command)?;
        self.stream.set_nonblocking(true)?;
        let (to_send, received) = (VecDeque::new(), Vec::new());
        Ok(ShellProgram { stream: self.stream, mark, to_send, received, last: String::new() })
    }

    /// Writes a command, and returns the mark of its end.
    fn write(&mut self, command: &str) -> io::Result<String> {
        self.commands += 1;
        let mark = format!("<{}.{} ended ", std::process::id(), self.commands);
        // In two pieces, so that an echo of the command is not taken for its end.
        let line = format!("{command}; echo '{}''{}'$?'>'\n", &mark[..3], &mark[3..]);
        self.stream.write_all(line.as_bytes())?;
        Ok(mark)
    }

    /// Runs a shell command to its end, and returns its output.
    ///
    /// # Errors
    /// Same as [`Shell::run`].
    #[cfg(test)]
    fn output(&mut self, command: &str, within: Duration) -> io::Result<CommandOutput> {
        let mut output = Vec::new();
        let code = self.run(command, within, &mut |piece| output.extend_from_slice(piece))?;
        Ok(CommandOutput { code, output: String::from_utf8_lossy(&output).into_owned() })
    }
}

impl ShellProgram {
    /// Queues a line for the command.
    pub(super) fn write(&mut self, line: &str) {
        self.to_send.extend(line.bytes());
        self.to_send.push_back(b'\n');
    }

    /// Sends queued lines, and returns the next line of the command, without waiting; `None` if there is none yet.
    ///
    /// # Errors
    /// The command has ended, or its shell.
    pub(super) fn poll_line(&mut self) -> io::Result<Option<String>> {
        while !self.to_send.is_empty()
            && let Some(sent) = bytes_moved(self.stream.write(self.to_send.as_slices().0))?
        {
            self.to_send.drain(..sent);
        }
        let mut piece = [0; PIECE];
        while !self.received.contains(&b'\n') {
            let Some(bytes) = bytes_moved(self.stream.read(&mut piece))? else { return Ok(None) };
            self.received.extend_from_slice(&piece[..bytes]);
        }
        let length = self.received.iter().position(|byte| *byte == b'\n').expect("a line has been received");
        let line: Vec<u8> = self.received.drain(..=length).collect();
        let line = String::from_utf8_lossy(&without_returns(&line)).trim_end().to_owned();
        if let Some((before, code)) = line.split_once(&self.mark) {
            let last = if before.is_empty() { &self.last } else { before };
            let code = code.trim_end_matches('>');
            return Err(io::Error::other(format!("its program has ended with code {code}: {last}")));
        }
        self.last.clone_from(&line);
        Ok(Some(line))
    }

    /// Waits until lines can be received, or queued ones be sent, for this long at most.
    pub(super) fn wait(&self, most: Duration) {
        nonblocking::wait(&mut [PollFd::new(&self.stream, events(!self.to_send.is_empty()))], most);
    }
}

/// Returns the bytes moved; `None` if none can move now.
fn bytes_moved(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    nonblocking::bytes_moved(moved, "its guest has ended")
}

/// Returns the length of the text before a complete or partial mark.
fn before_mark(text: &[u8], mark: &[u8]) -> usize {
    let may_be = |at: &usize| text[*at..].iter().zip(mark).all(|(byte, of_mark)| byte == of_mark);
    (0..text.len()).find(may_be).unwrap_or(text.len())
}

/// Returns the position of the mark, and the exit code after it.
fn end_of(text: &[u8], mark: &[u8]) -> Option<(usize, i32)> {
    let at = text.windows(mark.len()).position(|part| part == mark)?;
    let behind = &text[at + mark.len()..];
    let end = behind.iter().position(|byte| *byte == b'>')?;
    Some((at, std::str::from_utf8(&behind[..end]).ok()?.parse().ok()?))
}

/// Removes the carriage returns of a serial line.
fn without_returns(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| *byte != b'\r').collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    /// Serves this machine's shell at a socket, as a guest would.
    fn served() -> (tempfile::TempDir, std::path::PathBuf) {
        served_after(Duration::ZERO)
    }

    /// Serves this machine's shell at a socket, with a delay for each line.
    fn served_after(each: Duration) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shell");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let output = std::os::fd::OwnedFd::from(stream.try_clone().unwrap());
            let mut shell = Command::new("sh").stdin(Stdio::piped()).stdout(output).spawn().unwrap();
            let mut input = shell.stdin.take().unwrap();
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                thread::sleep(each);
                if input.write_all(format!("{line}\n").as_bytes()).is_err() {
                    break;
                }
            }
            drop(input);
            let _ = shell.wait();
        });
        (folder, path)
    }

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn commands_end_with_their_codes_and_output() {
        let (_folder, path) = served();
        let mut shell = Shell::connect(&path, SOON).unwrap();
        let ended = shell.output("echo one; echo '<two ended 3>'; exit 7", SOON).unwrap();
        assert_eq!(ended, CommandOutput { code: 7, output: "one\n<two ended 3>\n".into() });
        assert_eq!(shell.output("printf 'no newline'", SOON).unwrap().output, "no newline");
    }

    #[test]
    fn output_longer_than_a_piece_is_complete() {
        let (_folder, path) = served();
        let mut shell = Shell::connect(&path, SOON).unwrap();
        let ended = shell.output("i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done", SOON).unwrap();
        let expected: String = (0..9000).map(|n| format!("line {n}\n")).collect();
        assert!(ended.code == 0 && ended.output == expected);
    }

    #[test]
    fn what_is_printed_is_shown_while_the_command_runs() {
        let (folder, path) = served();
        let seen = folder.path().join("seen");
        let mut shell = Shell::connect(&path, SOON).unwrap();
        let command = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo '<over'", seen.display());
        let mut shown = Vec::new();
        let code = shell.run(&command, SOON, &mut |piece| {
            shown.extend_from_slice(piece);
            std::fs::write(&seen, "").unwrap();
        });
        assert_eq!((code.unwrap(), String::from_utf8(shown).unwrap().as_str()), (0, "begun\n<over\n"));
    }

    #[test]
    fn a_guest_that_answers_late_is_waited_for() {
        // Slower than the first interval between probes.
        let (_folder, path) = served_after(Duration::from_millis(400));
        let mut shell = Shell::connect(&path, SOON).unwrap();
        assert_eq!(
            shell.output("echo here; exit 7", SOON).unwrap(),
            CommandOutput { code: 7, output: "here\n".into() }
        );
    }

    #[test]
    fn a_program_answers_lines_until_it_ends() {
        let (_folder, path) = served();
        let shell = Shell::connect(&path, SOON).unwrap();
        let command =
            "sh -c 'echo ready; while read -r line; do [ \"$line\" != end ] || exit 7; echo \"got $line\"; done'";
        let mut program = shell.start(command).unwrap();
        let mut line = || loop {
            match program.poll_line() {
                Ok(None) => program.wait(SOON),
                Ok(Some(line)) => {
                    program.write(if line == "ready" { "a b" } else { "end" });
                    return Ok(line);
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        assert_eq!(line().unwrap(), "ready");
        assert_eq!(line().unwrap(), "got a b");
        assert_eq!(line().unwrap_err(), "its program has ended with code 7: got a b");
    }

    #[test]
    fn a_command_that_takes_too_long_times_out() {
        let (_folder, path) = served();
        let mut shell = Shell::connect(&path, SOON).unwrap();
        let error = shell.output("sleep 30", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
