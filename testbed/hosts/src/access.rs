//! Command execution on hosts.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guest::{CommandOutput, RunningGuest};

/// Access to a host's shell.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Serial ports of a guest.
    Guest(RunningGuest),
    /// Network namespace of this machine.
    Netns(String),
    /// Remote machine over ssh.
    Ssh {
        /// Destination argument of ssh.
        target: String,
        /// Path of the socket of ssh's shared connection.
        control: PathBuf,
    },
}

/// Connection timeout of ssh, in seconds.
const CONNECT_S: u64 = 10;
/// Longest time from SIGTERM to a command's end; then SIGKILL follows.
const END_WITHIN: Duration = Duration::from_secs(3);

impl Access {
    /// Runs a POSIX shell script to its end, or until `stop` is set; stdout and stderr are combined.
    pub(crate) fn run(&self, script: &str, within: Duration, stop: &Arc<AtomicBool>) -> Result<CommandOutput, String> {
        match self {
            Access::Guest(guest) => {
                let mut output = Vec::new();
                let is_stopped = || stop.load(Ordering::Relaxed);
                let mut keep = |piece: &[u8]| output.extend_from_slice(piece);
                let code = guest.run(script, within, &mut keep, &is_stopped).map_err(|error| error.to_string())?;
                Ok(CommandOutput { code, output: String::from_utf8_lossy(&output).into_owned() })
            }
            Access::Netns(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "sh", "-c", script]);
                run_here(command, script, within, stop)
            }
            Access::Ssh { target, control } => {
                let mut command = Command::new(std::env::var_os("WEIR_SSH").unwrap_or_else(|| "ssh".into()));
                command.args(["-o", "BatchMode=yes", "-o", &format!("ConnectTimeout={CONNECT_S}")]);
                command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=30"]);
                command.arg("-o").arg(format!("ControlPath={}", control.display()));
                // The remote login shell may not be POSIX.
                command.args([target, &format!("exec sh -c '{}'", script.replace('\'', "'\\''"))]);
                let ended = run_here(command, script, within, stop)?;
                // Exit code of ssh itself; no command here uses it.
                if ended.code == 255 {
                    return Err(format!("ssh {target}: {}", ended.output.trim()));
                }
                Ok(ended)
            }
        }
    }
}

/// Runs a local command, which runs `script`, to its end.
fn run_here(
    mut command: Command,
    script: &str,
    within: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<CommandOutput, String> {
    let file = tempfile::tempfile().map_err(|error| error.to_string())?;
    let both = |file: &File| file.try_clone().map_err(|error| error.to_string());
    command.stdin(Stdio::null()).stdout(both(&file)?).stderr(both(&file)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let deadline = Instant::now() + within;
    let mut terminated_at = None;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
        let now = Instant::now();
        match terminated_at {
            None if now > deadline || stop.load(Ordering::Relaxed) => {
                let process = Pid::from_child(&child);
                let _ = kill_process(process, Signal::TERM);
                terminated_at = Some(now);
            }
            Some(at) if now > at + END_WITHIN => {
                let _ = child.kill();
            }
            _ => {}
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut output = Vec::new();
    let mut file = file;
    std::io::Seek::rewind(&mut file).and_then(|()| file.read_to_end(&mut output)).map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&output).into_owned();
    if terminated_at.is_some() && !stop.load(Ordering::Relaxed) {
        let (within, output) = (within.as_secs(), output.trim());
        return Err(format!("a command has not ended within {within} s: {script}; output: {output}"));
    }
    Ok(CommandOutput { code: status.code().unwrap_or(1), output })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within: Duration, stop: bool) -> Result<CommandOutput, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_here(command, script, within, &Arc::new(AtomicBool::new(stop)))
    }

    #[test]
    fn both_outputs_and_the_code_come_back() {
        let ended = shell("echo one; echo two >&2; exit 3", Duration::from_secs(60), false).unwrap();
        assert_eq!(ended, CommandOutput { code: 3, output: "one\ntwo\n".into() });
    }

    #[test]
    fn what_takes_too_long_or_is_stopped_ends() {
        let late = shell("echo begun; exec sleep 60", Duration::from_millis(300), false).unwrap_err();
        assert_eq!(late, "a command has not ended within 0 s: echo begun; exec sleep 60; output: begun");
        assert_ne!(shell("exec sleep 60", Duration::from_secs(60), true).unwrap().code, 0);
    }
}
