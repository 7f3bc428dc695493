//! Loop test over a veth pair in a separate network namespace; the kernel carries the frames.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use serde::Deserialize;
use weir_experiments::real_frames::{CheckResult, Health};

/// Script that makes the pair and has this program test it. A sysfs of its own shows the namespace's interfaces. Everything made here ends
/// with the process, however it ends.
const SCRIPT: &str = "\
mount -t sysfs none /sys 2>/dev/null
sysctl -q -w net.ipv6.conf.default.disable_ipv6=1 2>/dev/null
ip link add doctor-a type veth peer name doctor-b && ip link set doctor-a up && ip link set doctor-b up || exit 9
exec \"$0\" doctor /dev/stdin --loop --json";

/// Switch whose ports are the ends of the pair.
const SWITCH: &str = "[switch]\nname = \"doctor\"\n[lcores]\nlayout = \"single\"\n\
                      [[ports]]\nname = \"doctor-a\"\naf_packet = \"doctor-a\"\nrate = \"1Gbps\"\n\
                      [[ports]]\nname = \"doctor-b\"\naf_packet = \"doctor-b\"\nrate = \"1Gbps\"\n";

const SUBJECT: &str = "veth pair";

/// Used fields of a check result of the program in the namespace.
#[derive(Deserialize)]
struct LoopFinding {
    subject: String,
    state: String,
    message: String,
}

/// Findings on frames over the pair.
pub(super) fn try_pair() -> Vec<CheckResult> {
    match run() {
        Ok(found) => found.into_iter().map(finding).collect(),
        Err((message, fix)) => vec![CheckResult::bad(Health::Warning, SUBJECT, message, fix)],
    }
}

fn finding(found: LoopFinding) -> CheckResult {
    let subject = found.subject.replacen("loop ", &format!("{SUBJECT} "), 1);
    match found.state.as_str() {
        "good" => CheckResult::good(subject, found.message),
        _ => CheckResult::bad(
            Health::Error,
            subject,
            found.message,
            "weir check --try FILE, with a veth pair of your own, has the details",
        ),
    }
}

/// Findings of the program in the namespace on its loop; or the reason of a failure, with advice.
fn run() -> Result<Vec<LoopFinding>, (String, String)> {
    let program =
        env::current_exe().map_err(|error| (format!("this program can't be found: {error}"), AS_ROOT.to_owned()))?;
    let is_root = rustix::process::geteuid().is_root();
    let mut unshare = Command::new("unshare");
    // Without root privileges, a user namespace grants them, where the kernel permits it.
    unshare.args(if is_root {
        &["--net", "--mount"][..]
    } else {
        &["--user", "--map-root-user", "--net", "--mount"][..]
    });
    unshare.args(["sh", "-c", SCRIPT]).arg(program);
    let output = fed(unshare).map_err(|error| {
        let message = format!("was not tried in a namespace of its own: {error}");
        (message, "apt-get install util-linux iproute2".to_owned())
    })?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no error message");
    let Ok(found) = serde_json::from_slice::<Vec<LoopFinding>>(&output.stdout) else {
        return Err((
            format!("was not tried, as there can be none in a namespace of its own: {}", last.trim()),
            AS_ROOT.to_owned(),
        ));
    };
    let found: Vec<LoopFinding> = found.into_iter().filter(|found| found.subject.starts_with("loop")).collect();
    match found.is_empty() {
        true => Err((format!("was not tried: {}", last.trim()), AS_ROOT.to_owned())),
        false => Ok(found),
    }
}

/// Runs the command with the switch's configuration as its input: a memory file, which can be read more than once.
fn fed(mut command: Command) -> io::Result<Output> {
    let mut switch = File::from(rustix::fs::memfd_create("weir-doctor", MemfdFlags::CLOEXEC)?);
    switch.write_all(SWITCH.as_bytes())?;
    let mut child = command.stdin(Stdio::from(switch)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let started = Instant::now();
    // The child's output fits into the pipe's buffer, so that it need not be read before the child ends.
    while child.try_wait()?.is_none() {
        if started.elapsed() > TIMEOUT {
            // The namespace ends with its only process.
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no result within {} s", TIMEOUT.as_secs())));
        }
        sleep(LOOK_EVERY);
    }
    child.wait_with_output()
}

/// A trial takes a second or two. A machine whose links take their time to come up has 10 s more.
const TIMEOUT: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(20);

const AS_ROOT: &str = "sudo weir doctor, with unshare and ip there (apt-get install util-linux iproute2)";
