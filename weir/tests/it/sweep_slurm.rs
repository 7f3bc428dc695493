//! `--slurm` of `weir sweep`, `weir explore` and `weir reproduce --farm` on a real Slurm: a cluster of one node, this machine, with its
//! daemons in a temporary directory.
//!
//! It needs Debian's `slurmctld`, `slurmd` and `slurm-client` (or `slurm-wlm`), and root, as slurmd does; without them it says so
//! and proves nothing, or fails if `WEIR_SLURM` is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::reproduce::{Lab, OPEN, PAPER};

const SCENARIO: &str = "[scenario]\nend = \"200us\"\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"4MB\"\npolicy = \"dt\"\n\
    [switch.buffer.dt]\nalpha = \"1/4\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n[topology]\n\
    kind = \"single\"\nhosts = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\n[[workloads]]\nname = \"incast\"\nkind = \"incast\"\nclass = 3\n\
    sizes = \"20KB\"\nreceivers = [\"H0\"]\n";

/// A job that takes longer has not been started.
const PATIENCE: Duration = Duration::from_secs(120);

/// The daemons of a cluster of one node, which end with it.
struct Cluster {
    directory: TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Cluster {
        let mut cluster = Cluster { directory: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        fs::create_dir(cluster.path("state")).unwrap();
        fs::create_dir(cluster.path("spool")).unwrap();
        fs::write(cluster.path("slurm.conf"), cluster.configuration()).unwrap();
        for daemon in ["slurmctld", "slurmd"] {
            let log = fs::File::create(cluster.path(&format!("{daemon}.out"))).unwrap();
            let mut command = cluster.command(daemon);
            command.arg("-D").stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            cluster.daemons.push(command.spawn().unwrap());
        }
        cluster.wait_for("an idle node", || cluster.said("sinfo", &["-h", "-o", "%t"]).trim() == "idle");
        cluster
    }

    /// Without munge, whose daemon would be one more: no authentication on a cluster of one's own.
    fn configuration(&self) -> String {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        let [controller, node] = free_ports();
        let at = self.directory.path().display();
        format!(
            "ClusterName=weir\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\nSlurmUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\nSlurmctldLogFile={at}/slurmctld.log\n\
             SlurmdLogFile={at}/slurmd.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             SlurmdParameters=config_overrides\nMailProg=/bin/true\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES State=UP\n"
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program).unwrap());
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    fn said(&self, program: &str, arguments: &[&str]) -> String {
        String::from_utf8(self.command(program).args(arguments).output().unwrap().stdout).unwrap()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            if started.elapsed() > PATIENCE {
                let logs = ["slurmctld.log", "slurmctld.out", "slurmd.log", "slurmd.out"];
                let logs = logs.map(|log| fs::read_to_string(self.path(log)).unwrap_or_default());
                panic!("{what}: not after {PATIENCE:?}\n{}\n{}", self.said("squeue", &[]), logs.join("\n---\n"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Cluster {
    /// Starts a cluster, or prints why there is none; fails if `WEIR_SLURM` requires one.
    fn wanted() -> Option<Cluster> {
        let Some(missing) = missing() else { return Some(Cluster::start()) };
        assert!(std::env::var_os("WEIR_SLURM").is_none(), "WEIR_SLURM asks for this test: {missing}");
        eprintln!("SKIPPED: --slurm was not tried: {missing}");
        None
    }

    /// Output of a successful command, with sbatch in its search path, in this directory.
    fn weir(&self, directory: &Path, arguments: &[&str]) -> String {
        let output = self.command(env!("CARGO_BIN_EXE_weir")).args(arguments).current_dir(directory).output().unwrap();
        let Output { status, stdout, stderr } = output;
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(status.success(), "{arguments:?}: {said}");
        said
    }

    fn wait_for_jobs(&self) {
        self.wait_for("jobs that end", || self.said("squeue", &["-h"]).trim().is_empty());
    }

    /// Cancels all jobs, as a user does.
    fn cancel(&self) {
        let user = self.said("squeue", &["-h", "-o", "%i"]);
        user.lines().for_each(|job| drop(self.said("scancel", &[job.trim()])));
        self.wait_for_jobs();
    }
}

/// A scenario that runs for so long that it can be cancelled, ten runs of it in each setting.
const LONG: &str =
    "scenario = \"scenario.toml\"\nseeds = [1, 2, 3, 4, 5]\n[parameters]\n\"scenario.end\" = [\"30ms\"]\n";

/// Runs that are finished below a directory.
fn finished(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let below = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir());
    below.map(|path| usize::from(path.join("point.json").exists()) + finished(&path)).sum()
}

#[test]
fn a_map_by_a_job_array_is_that_of_one_call_and_goes_on_after_it_was_cancelled() {
    let Some(cluster) = Cluster::wanted() else { return };
    let lab = Lab::new(&format!("{PAPER}{OPEN}"));
    fs::write(lab.path("more.0/map.toml"), LONG).unwrap();
    let (code, said) = lab.weir("explore", &["more.0", "--settings", "6", "-o", "whole"]);
    assert_eq!(code, 0, "{said}");
    let submit = || {
        let array = ["more.0", "--settings", "6", "-o", "array", "--slurm", "--tasks", "2", "--sbatch=--time=5"];
        let said = cluster.weir(&lab.path(""), &[&["explore"][..], &array].concat());
        assert!(said.contains("an array of 2 tasks, and job") && said.contains("which draws the map"), "{said}");
    };
    let (batches, all) = (lab.path("array/more.0/map"), finished(&lab.path("whole/more.0/map")));
    submit();
    cluster.wait_for("a run that is finished", || finished(&batches) > 0);
    cluster.cancel();
    let before = finished(&batches);
    assert!(before < all && !batches.join("map.json").exists(), "{before} of {all} runs, all too soon");
    submit();
    cluster.wait_for_jobs();
    let log = |name: &str| String::from_utf8_lossy(&lab.bytes(&format!("array/more.0/slurm/{name}.log"))).into_owned();
    for file in ["settings.csv", "map.svg"] {
        let [array, whole] = ["array", "whole"].map(|from| lab.bytes(&format!("{from}/more.0/map/{file}")));
        assert!(array == whole, "{file} differs\n{}\n{}\n{}", log("map"), log("array-1"), log("array-2"));
    }
    assert_eq!(finished(&batches), all);
    assert!(log("map").contains("more.0: holds in "), "{}", log("map"));
}

#[test]
fn a_farm_by_a_job_array_comes_to_the_verdict_of_one_call_and_goes_on_after_it_was_cancelled() {
    let Some(cluster) = Cluster::wanted() else { return };
    let lab = Lab::new(&PAPER.replace("full = \"2s\"", "full = \"2s\"\nfarm = \"2h\""));
    let loads = "\"workloads.bursts.load\" = [0.5, 0.9]\n";
    fs::write(lab.path("more.0/farm.toml"), format!("{LONG}{loads}")).unwrap();
    let (code, said) = lab.weir("reproduce", &["more.0", "--farm", "whole"]);
    assert_eq!(code, 0, "{said}");
    let submit = || {
        let array = ["more.0", "--farm", "array", "--slurm", "--tasks", "3", "--sbatch=--time=5"];
        let said = cluster.weir(&lab.path(""), &[&["reproduce"][..], &array].concat());
        assert!(said.contains("an array of 3 tasks, and job") && said.contains("which comes to the verdict"), "{said}");
    };
    let runs = lab.path("array/more.0");
    submit();
    cluster.wait_for("a run that is finished", || finished(&runs) > 0);
    cluster.cancel();
    let before = finished(&runs);
    assert!((1..20).contains(&before) && !runs.join("verdict.json").exists(), "{before} of 20 runs");
    submit();
    cluster.wait_for_jobs();
    let log = |name: &str| String::from_utf8_lossy(&lab.bytes(&format!("array/more.0/slurm/{name}.log"))).into_owned();
    for file in ["verdict.json", "numbers.csv", "sweep/results.csv"] {
        let [array, whole] = ["array", "whole"].map(|from| lab.bytes(&format!("{from}/more.0/{file}")));
        assert!(array == whole, "{file} differs\n{}\n{}", log("verdict"), log("array-1"));
    }
    assert_eq!(finished(&runs), 20);
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The node goes first, so that the controller hears of it.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn a_job_array_makes_the_table_of_one_call() {
    let Some(cluster) = Cluster::wanted() else { return };
    let lab = tempfile::tempdir().unwrap();
    let sweep = "scenario = \"lab.toml\"\nseeds = [1, 2]\n[parameters]\n\"workloads.incast.sizes\" = [\"10KB\", \"40KB\", \"80KB\"]\n";
    fs::write(lab.path().join("lab.toml"), SCENARIO).unwrap();
    fs::write(lab.path().join("sweep.toml"), sweep).unwrap();
    let weir = |arguments: &[&str]| cluster.weir(lab.path(), &[&["sweep"], arguments].concat());
    weir(&["sweep.toml", "-o", "whole"]);
    let said = weir(&["sweep.toml", "-o", "array", "--slurm", "--tasks", "3", "--sbatch=--time=5"]);
    assert!(said.contains("an array of 3 tasks, and job"), "{said}");
    cluster.wait_for_jobs();

    let read = |path: &str| fs::read(lab.path().join(path)).unwrap_or_default();
    let log = String::from_utf8(read("array/slurm/merge.log")).unwrap();
    for table in ["results.csv", "results.parquet"]
        .into_iter()
        .filter(|name| cfg!(feature = "parquet") || !name.ends_with("parquet"))
    {
        assert!(read(&format!("array/{table}")) == read(&format!("whole/{table}")), "{table} differs\n{log}");
    }
    assert_eq!(String::from_utf8(read("array/results.csv")).unwrap().lines().count(), 7);
    // Each task ran its own shard.
    for (shard, points) in [("1", ["1", "4"]), ("2", ["2", "5"]), ("3", ["3", "6"])] {
        let runs = fs::read_dir(lab.path().join("array/shards").join(shard).join("runs")).unwrap();
        let mut numbers: Vec<String> =
            runs.map(|run| run.unwrap().file_name().to_string_lossy()[..1].to_owned()).collect();
        numbers.sort();
        assert_eq!(numbers, points);
    }
}

/// Missing requirement of the cluster; `None` if all are met.
fn missing() -> Option<String> {
    let programs = ["slurmctld", "slurmd", "sbatch", "squeue", "sinfo"];
    if let Some(program) = programs.iter().find(|program| find(program).is_none()) {
        return Some(format!("there is no {program}; as root: apt-get install slurm-wlm"));
    }
    let id = Command::new("id").arg("-u").output().ok()?;
    (id.stdout != b"0\n").then(|| "slurmd wants root".to_owned())
}

/// A program by its path, or in the folders where programs are; daemons are not in every user's search path.
fn find(program: &str) -> Option<PathBuf> {
    if Path::new(program).is_absolute() {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/bin", "/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

/// Two ports that nobody listens on.
fn free_ports() -> [u16; 2] {
    let listeners = [0; 2].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
