//! Commands to a guest's shell, by a serial port of its.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// What it printed, on both outputs.
    pub output: String,
}

/// A connection to a shell, which runs one command after the other.
#[derive(Debug)]
pub(super) struct Shell {
    stream: UnixStream,
    commands: u64,
}

/// Asking for the second time whether the guest listens.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// One wait for what the guest says.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Bytes of the output that are looked through at a time.
const PIECE: usize = 16 * 1024;

impl Shell {
    /// Connects to a shell's socket, and waits until the guest answers.
    ///
    /// # Errors
    /// `TimedOut` if it does not answer within this time; `UnexpectedEof` if its QEMU ends.
    pub(super) fn connect(socket: &Path, within: Duration) -> io::Result<Shell> {
        let stream = UnixStream::connect(socket)?;
        let mut shell = Shell { stream, commands: 0 };
        let deadline = Instant::now() + within;
        // Until the guest has opened its end, what is sent goes nowhere. What an earlier command left is read on the way. A guest that has
        // little of a busy machine is asked the less often the longer it takes: each question is work for it, and each new one would
        // come before the answer to the one that is waited for.
        let mut patience = ASK_AGAIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match shell.run("true", left.min(patience), &mut |_| ()) {
                Ok(_) => return Ok(shell),
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < deadline => patience *= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a shell command to its end. `shown` is given what it prints as it comes.
    ///
    /// # Errors
    /// `TimedOut`, and the command goes on; `UnexpectedEof` if the guest's QEMU has ended.
    pub(super) fn run(&mut self, command: &str, within: Duration, shown: &mut dyn FnMut(&[u8])) -> io::Result<i32> {
        self.commands += 1;
        let mark = format!("<{}.{} ended ", std::process::id(), self.commands);
        // In two pieces, so that an echo of the command is not taken for its end.
        let line = format!("( {command}\n) </dev/null; echo '{}''{}'$?'>'\n", &mark[..3], &mark[3..]);
        self.stream.write_all(line.as_bytes())?;
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

    /// Runs a shell command to its end, and returns what it printed.
    ///
    /// # Errors
    /// As [`Shell::run`].
    #[cfg(test)]
    fn output(&mut self, command: &str, within: Duration) -> io::Result<Ended> {
        let mut output = Vec::new();
        let code = self.run(command, within, &mut |piece| output.extend_from_slice(piece))?;
        Ok(Ended { code, output: String::from_utf8_lossy(&output).into_owned() })
    }
}

/// How much of the text comes before what is the mark or may become it.
fn before_mark(text: &[u8], mark: &[u8]) -> usize {
    let may_be = |at: &usize| text[*at..].iter().zip(mark).all(|(byte, of_mark)| byte == of_mark);
    (0..text.len()).find(may_be).unwrap_or(text.len())
}

/// Where the mark begins, and the exit code behind it.
fn end_of(text: &[u8], mark: &[u8]) -> Option<(usize, i32)> {
    let at = text.windows(mark.len()).position(|part| part == mark)?;
    let behind = &text[at + mark.len()..];
    let end = behind.iter().position(|byte| *byte == b'>')?;
    Some((at, std::str::from_utf8(&behind[..end]).ok()?.parse().ok()?))
}

/// A serial line's ends of lines.
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

    /// A socket behind which this machine's shell is, as the guest's is behind its.
    fn served() -> (tempfile::TempDir, std::path::PathBuf) {
        served_after(Duration::ZERO)
    }

    /// One that takes this long for each line, besides.
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
        assert_eq!(ended, Ended { code: 7, output: "one\n<two ended 3>\n".into() });
        assert_eq!(shell.output("printf 'no newline'", SOON).unwrap().output, "no newline");
    }

    #[test]
    fn output_longer_than_a_piece_comes_whole() {
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
        // Slower for each line than it is asked at first.
        let (_folder, path) = served_after(Duration::from_millis(400));
        let mut shell = Shell::connect(&path, SOON).unwrap();
        assert_eq!(shell.output("echo here; exit 7", SOON).unwrap(), Ended { code: 7, output: "here\n".into() });
    }

    #[test]
    fn a_command_that_takes_too_long_is_told() {
        let (_folder, path) = served();
        let mut shell = Shell::connect(&path, SOON).unwrap();
        let error = shell.output("sleep 30", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
