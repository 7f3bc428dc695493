//! `dpdk-testpmd` on the same ports, as the figure to compare with.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::ground::PeerConfig;
use crate::processes::{self, Daemon};

/// Packets per CPU-second of testpmd's forwarding thread in this mode, with this many frames a burst; `None` if it is not installed or does not run.
pub(crate) fn rate(mode: &str, burst: usize, ground: &PeerConfig, span: Duration) -> Option<f64> {
    rate_with(mode, burst, ground, span, None)
}

/// As [`rate`]. With a number of packet buffers they come in turn, each after all others, since no lcore keeps those that it used last.
pub(crate) fn rate_with(
    mode: &str,
    burst: usize,
    ground: &PeerConfig,
    span: Duration,
    buffers: Option<u32>,
) -> Option<f64> {
    let mut command = command(mode, burst, ground);
    command.arg("--interactive");
    if let Some(buffers) = buffers {
        command.args([&format!("--total-num-mbufs={buffers}"), "--mbcache=0"]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let measured = measure(&mut child, ground.lcore, span);
    if measured.is_none() {
        let _ = child.kill();
    }
    let _ = child.wait();
    measured
}

/// Starts it, forwarding in this mode; `None` if it is not installed.
pub(crate) fn start(mode: &str, burst: usize, ground: &PeerConfig) -> Option<Daemon> {
    Daemon::start(command(mode, burst, ground).arg("--auto-start").stdout(Stdio::null()))
}

fn command(mode: &str, burst: usize, &PeerConfig { ports, lcore, hugepages }: &PeerConfig) -> Command {
    let main = if lcore == 0 { 1 } else { 0 };
    // testpmd buffers what it prints when it prints into a pipe.
    let mut command = Command::new("stdbuf");
    command.args([
        "-oL",
        "dpdk-testpmd",
        "-l",
        &format!("{main},{lcore}"),
        "--main-lcore",
        &main.to_string(),
        "--no-pci",
    ]);
    command.args(if hugepages { vec!["--in-memory"] } else { vec!["--no-huge", "-m", "1000", "--no-shconf"] });
    command.args(ports.devices.iter().map(|port| format!("--vdev={port}")));
    ports.prepare(&mut command);
    command.args(["--", &format!("--forward-mode={mode}"), &format!("--burst={burst}"), "--nb-cores=1"]);
    // It ends where there is nothing to read.
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    command
}

fn measure(child: &mut Child, lcore: u32, span: Duration) -> Option<f64> {
    let pid = child.id();
    let (mut input, mut output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
    writeln!(input, "start").ok()?;
    let rate = processes::rate_over(span, || Some((sent(&mut input, &mut output)?, cpu_time_ns(pid, lcore)?)))?;
    writeln!(input, "stop\nquit").ok()?;
    drop(input);
    // Read to the end, so that it can write its final output.
    output.lines().for_each(drop);
    Some(rate)
}

/// Packets sent on both ports so far.
fn sent(input: &mut ChildStdin, output: &mut BufReader<ChildStdout>) -> Option<u64> {
    writeln!(input, "show port stats all").ok()?;
    let (mut ports, mut packets) = (0, 0);
    let mut line = String::new();
    while ports < 2 {
        line.clear();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(rest) = line.trim().strip_prefix("TX-packets:") {
            packets += rest.split_whitespace().next()?.parse::<u64>().ok()?;
            ports += 1;
        }
    }
    Some(packets)
}

/// CPU time of the worker lcore's thread.
fn cpu_time_ns(pid: u32, lcore: u32) -> Option<u64> {
    // DPDK has renamed its threads more than once.
    let names = ["rte-worker-", "lcore-worker-", "dpdk-worker"].map(|prefix| format!("{prefix}{lcore}"));
    processes::cpu_time_ns(pid, |name| names.iter().any(|known| known == name))
}
