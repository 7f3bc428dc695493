//! `weir doctor`: missing requirements of a machine and its hosts, with advice.

mod host;
mod veth;

use std::path::PathBuf;

use weir_config::{ClassMap, SwitchConfig, Trust};
use weir_experiments::files::json_text;
use weir_experiments::progress::{self, ProgressBar};
use weir_experiments::real_frames::{CheckResult, Health};
use weir_experiments::switches::load_all;
use weir_experiments::{Failure, real_frames};
use weir_units::Class;

/// Arguments of `weir doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArguments {
    /// Configurations of the switches that are to run here. Without one, needs of any switch are checked.
    #[arg(value_name = "SWITCH.toml")]
    files: Vec<PathBuf>,
    /// Send frames, PFC among them, between the first two ports of the file, which are cabled to each other. Without this they go
    /// over a link inside the process, and over a veth pair in a network namespace of its own.
    #[arg(long = "loop", requires = "files")]
    ports: bool,
    /// Look at a host by ssh too, at its interfaces with RDMA, or at this one. May be given more than once.
    #[arg(long, value_name = "USER@NAME[:IFACE]")]
    host: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGS")]
    eal: Vec<String>,
}

/// Examines everything, and prints all findings.
pub(crate) fn doctor(arguments: &DoctorArguments) -> Result<(), Failure> {
    let real_frames = real_frames::reach();
    let switches = load_all(&arguments.files)?;
    let steps = if arguments.ports { 2 } else { 3 } + arguments.host.len();
    let mut findings = Findings::new(arguments.json, steps);
    match real_frames {
        Ok(real_frames) => {
            findings.run_checks("this machine", || real_frames.examine(&switches));
            let is_ready = findings.all.iter().all(|finding| finding.state != Health::Error);
            let file = arguments.files.first().filter(|_| arguments.ports);
            if is_ready || file.is_none() {
                findings.run_checks("frames over a loop", || {
                    real_frames.try_loop(file.map(PathBuf::as_path), &arguments.eal).unwrap_or_else(|failure| {
                        let fix = "weir check --try FILE, for DPDK's own messages";
                        vec![CheckResult::bad(Health::Error, "loop", failure.into_message(), fix)]
                    })
                });
                if !arguments.ports {
                    findings.run_checks("frames over a veth pair", veth::try_pair);
                }
            } else {
                let fix = "fix the errors first";
                findings.run_checks("frames over a loop", || {
                    vec![CheckResult::bad(Health::Warning, "loop", "was not tried", fix)]
                });
            }
        }
        Err(missing) => {
            let fix = "apt-get install libdpdk-dev, or --backend sim, which needs none";
            findings
                .run_checks("this machine", || vec![CheckResult::bad(Health::Error, "DPDK", missing.to_string(), fix)]);
        }
    }
    for host in &arguments.host {
        findings.run_checks(host, || host::examine(host, switches.first()));
    }
    findings.bar.finish_and_clear();
    let findings = findings.all;
    if arguments.json {
        println!("{}", json_text(&findings).trim_end());
    }
    let count = |state: Health| findings.iter().filter(|finding| finding.state == state).count();
    match count(Health::Error) {
        0 => Ok(()),
        errors => Err(Failure::Run(format!("{errors} of {} checks failed", findings.len()))),
    }
}

/// Findings so far. As text each is printed at once, since a host may take ten seconds to answer.
struct Findings {
    all: Vec<CheckResult>,
    is_json: bool,
    bar: ProgressBar,
}

impl Findings {
    fn new(is_json: bool, steps: usize) -> Findings {
        let bar = progress::bar(steps as u64, 0, "{prefix} [{bar:32}] {pos} of {len} looked at, {left} left");
        Findings { all: Vec::new(), is_json, bar }
    }

    /// Adds and prints the findings of one subject.
    fn run_checks(&mut self, what: &str, look: impl FnOnce() -> Vec<CheckResult>) {
        self.bar.set_prefix(what.to_owned());
        let found = look();
        self.bar.inc(1);
        if !self.is_json {
            progress::above(|| found.iter().for_each(|finding| print!("{}", text(finding))));
        }
        self.all.extend(found);
    }
}

fn text(CheckResult { subject, state, message, fix }: &CheckResult) -> String {
    let state = match state {
        Health::Good => "good   ",
        Health::Warning => "warning",
        Health::Error => "ERROR  ",
    };
    let fix_line = fix.as_ref().map(|fix| format!("         -> {}\n", fix.trim_end().replace('\n', "\n            ")));
    format!("{state}  {subject}: {message}\n{}", fix_line.unwrap_or_default())
}

/// Lossless classes with the code points that have them at each port of the switch that trusts the DSCP; class 3 in DSCP 26 where there is
/// no switch.
fn lossless(switch: Option<&SwitchConfig>) -> Vec<(usize, Vec<usize>)> {
    let Some(switch) = switch else { return vec![(3, vec![26])] };
    let trusted = switch.class_maps().map(|(map, _)| map).filter(|map| map.trust == Trust::Dscp);
    let groups: Vec<[u8; 64]> = trusted.map(ClassMap::group_of_dscp).collect();
    let points = |class: Class| {
        let has_class =
            |point: &usize| !groups.is_empty() && groups.iter().all(|map| usize::from(map[*point]) == class.index());
        (0..64).filter(has_class).collect()
    };
    switch.classes.lossless.iter().map(|class| (class.index(), points(class))).collect()
}
