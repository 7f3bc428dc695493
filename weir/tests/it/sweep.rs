//! `weir sweep` through the command: the same table by any workers, resumption, and a separate table of failures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use tempfile::TempDir;

const SCENARIO: &str = "[scenario]\nend = \"200us\"\nsample_every = \"20us\"\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"4MB\"\n\
    policy = \"dt\"\n[switch.buffer.dt]\nalpha = \"1/4\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
    [topology]\nkind = \"single\"\nhosts = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\n[[workloads]]\nname = \"incast\"\n\
    kind = \"incast\"\nclass = 3\nsizes = \"20KB\"\nreceivers = [\"H0\"]\nfan_in = 2\n[[runs]]\nname = \"DT\"\n";

/// Six points.
const SWEEP: &str = "scenario = \"lab.toml\"\nseeds = { from = 1, count = 3 }\n[parameters]\n\
    \"workloads.incast.sizes\" = [\"10KB\", \"40KB\"]\n";

struct Lab(TempDir);

impl Lab {
    fn new(sweep: &str) -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        fs::write(lab.path("lab.toml"), SCENARIO).unwrap();
        fs::write(lab.path("sweep.toml"), sweep).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `weir sweep sweep.toml -o OUT ...` in the lab.
    fn sweep(&self, output: &str, more: &[&str]) -> (i32, String) {
        self.weir(&[&["sweep.toml", "-o", output], more].concat())
    }

    /// Exit code, and all that was printed.
    fn weir(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.arg("sweep").args(arguments).current_dir(self.0.path()).output().unwrap();
        let Output { status, stdout, stderr } = output;
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.code().unwrap_or(-1), said)
    }

    fn good(&self, output: &str, more: &[&str]) -> String {
        let (code, said) = self.sweep(output, more);
        assert_eq!(code, 0, "{said}");
        said
    }

    /// `results.csv` and, where it is built in, `results.parquet`.
    fn tables(&self, output: &str) -> Vec<Vec<u8>> {
        let names = ["results.csv", "results.parquet"].into_iter().filter(|name| is_built(name));
        names.map(|name| fs::read(self.path(output).join(name)).unwrap()).collect()
    }

    fn text(&self, output: &str, name: &str) -> String {
        fs::read_to_string(self.path(output).join(name)).unwrap()
    }

    /// When each point was finished.
    fn finished(&self, output: &str) -> BTreeMap<String, SystemTime> {
        let entries = fs::read_dir(self.path(output).join("runs")).unwrap();
        let of = |path: &Path| fs::metadata(path.join("point.json")).unwrap().modified().unwrap();
        entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), of(&entry.path())))
            .collect()
    }
}

/// Whether this build writes the file.
fn is_built(name: &str) -> bool {
    cfg!(feature = "parquet") || !name.ends_with(".parquet")
}

#[test]
fn tables_are_the_same_by_whatever_number_of_cores_and_in_shards() {
    let lab = Lab::new(SWEEP);
    lab.good("one", &["-j", "1"]);
    lab.good("two", &["-j", "2"]);
    let whole = lab.tables("one");
    assert_eq!(whole, lab.tables("two"));
    assert_eq!(fs::read(lab.path("one/runs/1-sizes-10kb-seed-1/fct.csv")).unwrap(), {
        fs::read(lab.path("two/runs/1-sizes-10kb-seed-1/fct.csv")).unwrap()
    });

    let csv = String::from_utf8(whole[0].clone()).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[0].starts_with("point,run,seed,workloads.incast.sizes,lossless,lossless_frames_dropped,"), "{csv}");
    assert!(lines[0].ends_with(",traffic.incast.bins.all.slowdown_permille.p999"), "{csv}");
    assert!(lines[5].starts_with("5,DT,2,40KB,true,0,"), "{csv}");
    assert_eq!(lab.text("one", "failures.csv").lines().count(), 1);
    assert_eq!(lab.text("one", "timings.csv").lines().count(), 7);

    lab.good("shards/1", &["--shard", "1/2"]);
    let (code, said) = lab.weir(&["merge", "shards/1", "-o", "merged"]);
    assert_eq!(code, 2);
    assert!(said.contains("3 of 6 points are missing: 2, 4, 6 (of shard 2/2); name the other shards too"), "{said}");
    lab.good("shards/2", &["--shard", "2/2"]);
    let (code, said) = lab.weir(&["merge", "shards/2", "shards/1", "shards/1", "-o", "merged"]);
    assert_eq!(code, 2);
    assert!(said.contains("point 1 is in shards/1 and in shards/1; name each"), "{said}");
    let (code, said) = lab.weir(&["merge", "shards/2", "shards/1", "-o", "merged"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(whole, lab.tables("merged"));
    let run = "runs/1-sizes-10kb-seed-1/fct.csv";
    assert_eq!(lab.text("merged", run), lab.text("one", run));

    fs::write(lab.path("sweep.toml"), SWEEP.replace("count = 3", "count = 2")).unwrap();
    lab.good("other", &[]);
    let (code, said) = lab.weir(&["merge", "shards/2", "other", "-o", "merged"]);
    assert_eq!(code, 2);
    assert!(said.contains("shards/2 and other are of different sweeps"), "{said}");
}

#[test]
fn a_second_call_goes_on_where_the_first_one_stopped() {
    let lab = Lab::new(SWEEP);
    lab.good("out", &[]);
    let (whole, before) = (lab.tables("out"), lab.finished("out"));
    // As if it had been killed: a point is missing, one is half written, and one lacks its end.
    fs::remove_dir_all(lab.path("out/runs/2-sizes-10kb-seed-2")).unwrap();
    fs::remove_file(lab.path("out/runs/4-sizes-40kb-seed-1/point.json")).unwrap();
    fs::create_dir(lab.path("out/runs/.2.part")).unwrap();
    fs::write(lab.path("out/runs/.2.part/series.csv"), "half").unwrap();
    fs::remove_file(lab.path("out/results.csv")).unwrap();
    let said = lab.good("out", &[]);
    assert!(said.contains("4 of them finished by an earlier call."), "{said}");
    assert_eq!(lab.tables("out"), whole);
    let after = lab.finished("out");
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let again: Vec<&str> =
        before.iter().filter(|(name, at)| after[*name] != **at).map(|(name, _)| &name[..1]).collect();
    assert_eq!(again, ["2", "4"]);

    // Other columns need no runs; other points are another sweep.
    fs::write(lab.path("sweep.toml"), format!("{SWEEP}[results]\ncolumns = [\"pauses_sent\"]\n")).unwrap();
    lab.good("out", &[]);
    assert!(
        lab.text("out", "results.csv").starts_with("point,run,seed,workloads.incast.sizes,pauses_sent\n1,DT,1,10KB,")
    );
    assert_eq!(lab.finished("out"), after);
    fs::write(lab.path("sweep.toml"), SWEEP.replace("40KB", "50KB")).unwrap();
    let (code, said) = lab.sweep("out", &[]);
    assert_eq!(code, 2);
    assert!(
        said.contains("out holds results that do not belong to this sweep: the sweep, its scenario or a file"),
        "{said}"
    );
    assert!(said.contains("name another directory, or remove that one"), "{said}");
    assert_eq!(lab.finished("out"), after);
}

#[test]
fn interruption_leaves_what_is_finished() {
    // Each takes a while, more than all others together by when the first is done.
    let lab = Lab::new(&SWEEP.replace("count = 3", "count = 20").replace("40KB", "20MB"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["sweep", "sweep.toml", "-o", "out", "-j", "1"]).current_dir(lab.0.path());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let first = lab.path("out/runs/01-sizes-10kb-seed-1/point.json");
    while !first.exists() {
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let Output { status, stdout, .. } = running.wait_with_output().unwrap();
    let said = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("are left. Repeat the command to go on with them."), "{said}");
    let left =
        fs::read_dir(lab.path("out/runs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.collect();
    assert!(!left.is_empty() && left.len() < 40 && left.iter().all(|name| !name.starts_with('.')), "{left:?}");
    assert_eq!(lab.text("out", "results.csv").lines().count(), left.len() + 1);
}

#[test]
fn failing_points_are_kept_apart() {
    let lab =
        Lab::new("scenario = \"lab.toml\"\n[parameters]\n\"runs.DT.expect\" = [\"flow\", \"deadlock\", \"either\"]\n");
    let (code, said) = lab.sweep("out", &[]);
    assert_eq!(code, 1);
    let told = "1 of 3 points FAILED:\n  2-expect-deadlock: no deadlock, and the scenario expects one\n";
    assert!(said.contains(told), "{said}");
    assert!(said.ends_with("weir: 1 of 3 points failed\n"), "{said}");
    let points = |name: &str| {
        let text = lab.text("out", name);
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (points("results.csv"), points("failures.csv")),
        (vec!["1".to_owned(), "3".to_owned()], vec!["2".to_owned()])
    );
    let row = "2,DT,deadlock,failed,\"no deadlock, and the scenario expects one\",2-expect-deadlock,true,";
    assert!(lab.text("out", "failures.csv").lines().nth(1).unwrap().starts_with(row));
    // It would fail again.
    let before = lab.finished("out");
    assert_eq!((lab.sweep("out", &[]).0, lab.finished("out")), (1, before));
}

#[test]
fn bad_input_starts_nothing() {
    let lab = Lab::new("scenario = \"lab.toml\"\n[parameters]\n\"workloads.incast.fan_in\" = [\n    2,\n    0,\n]\n");
    let (code, said) = lab.sweep("out", &[]);
    assert_eq!(code, 2);
    for part in ["the scenario with workloads.incast.fan_in = 0: ", "sweep.toml:5:5", "help: write "] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!lab.path("out").exists());
    let (code, said) = Lab::new("seeds = [1]\nscenario = \"elsewhere.toml\"\n").sweep("out", &[]);
    assert_eq!(code, 2);
    assert!(said.contains("there is no file elsewhere.toml") && said.contains("sweep.toml:2:"), "{said}");
    let lab = Lab::new(SWEEP);
    for (arguments, message) in [
        (&["--shard", "3/2"] as &[&str], "write K/N with K from 1 to N: --shard 3/16"),
        (&["--tasks", "3"], "--slurm"),
        (&["--slurm", "--shard", "1/2"], "cannot be used with"),
    ] {
        let (code, said) = lab.sweep("out", arguments);
        assert_eq!(code, 2);
        assert!(said.contains(message), "{said}");
    }
    lab.good("out", &["--dry-run"]);
    assert!(!lab.path("out").exists());
}

#[test]
fn job_scripts_are_written_without_slurm() {
    let lab = Lab::new(SWEEP);
    let arguments = ["sweep.toml", "-o", "out", "--slurm"];
    let without_path = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output =
            command.arg("sweep").args(arguments).args(more).env("PATH", "/nonexistent").current_dir(lab.0.path());
        output.output().unwrap()
    };
    let Output { status, stderr, .. } = without_path(&[]);
    assert_eq!(status.code(), Some(2));
    let said = String::from_utf8(stderr).unwrap();
    assert!(said.contains("there is no sbatch on this machine; submit from a machine of a Slurm cluster"), "{said}");
    assert!(!lab.path("out").exists());
    assert!(without_path(&["--dry-run", "--tasks", "3", "-j", "2"]).status.success());
    let script = lab.text("out", "slurm/array.sh");
    assert!(script.contains("#SBATCH --array=1-3\n") && script.contains("#SBATCH --cpus-per-task=2\n"), "{script}");
    assert!(lab.text("out", "slurm/merge.sh").contains(" sweep merge "));
}

/// Numbers of a column.
fn csv_column(text: &str, name: &str) -> Vec<f64> {
    let place = text.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_sweep_makes_figures_with_seeds_pooled_and_they_come_first_on_its_page() {
    let figures = "[[figures]]\nname = \"fct\"\nx = \"sizes\"\ny = \"fct_mean\"\nby = \"policy\"\n";
    let lab = Lab::new(&format!("{SWEEP}{figures}"));
    let said = lab.good("out", &[]);
    assert!(said.contains("figure: out/figures/fct.svg"), "{said}");
    let svg = lab.text("out", "figures/fct.svg");
    assert!(svg.contains("FCT mean of incast (us)") && svg.contains("sizes (KB)"), "{svg}");
    let csv = lab.text("out", "figures/fct.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "column,run,workloads.incast.sizes,value,low,high,runs,failed");
    assert!(lines.len() == 3 && lines[1..].iter().all(|line| line.ends_with(",3,0")), "{csv}");
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let Output { status, stdout, stderr } = command.args(arguments).current_dir(lab.0.path()).output().unwrap();
        (status.code(), [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat())
    };
    // A percentile is that of the messages of three seeds.
    let (code, said) = weir(&["plot", "out", "--x", "sizes", "--y", "fct_p99", "-o", "pooled.svg"]);
    assert_eq!(code, Some(0), "{said}");
    let pooled = fs::read_to_string(lab.path("pooled.csv")).unwrap();
    let mut fcts: Vec<f64> = (1..=3)
        .flat_map(|seed| csv_column(&lab.text("out", &format!("runs/{seed}-sizes-10kb-seed-{seed}/fct.csv")), "fct_us"))
        .collect();
    fcts.sort_by(f64::total_cmp);
    let p99 = fcts[(fcts.len() * 99).div_ceil(100) - 1] * 1e3;
    let value: f64 = pooled.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().unwrap();
    assert!((value - p99).abs() < 1e-3, "{pooled}, {p99}");
    // A figure of the finished sweep, with a name of its own; seeds apart.
    let (code, said) =
        weir(&["plot", "out", "--x", "sizes", "--y", "pauses_sent,fct_p99", "--by", "seed", "-o", "mine.svg"]);
    assert!(code == Some(0) && said.contains("written: mine.svg"), "{said}");
    assert_eq!(fs::read_to_string(lab.path("mine.csv")).unwrap().lines().count(), 1 + 2 * 2 * 3);
    for (arguments, wanted) in [
        (["--x", "sizes", "--y", "fct"], "columns are called so; write one of: traffic.incast"),
        (
            ["--x", "load", "--y", "pauses_sent"],
            "x load: the sweep has no such column; write one of: run, seed, workloads",
        ),
        (
            ["--x", "run", "--y", "pauses_sent"],
            "workloads.incast.sizes varies too, and a mean would be over more than seeds",
        ),
    ] {
        let (code, said) = weir(&[&["plot", "out"], &arguments[..]].concat());
        assert!(code == Some(2) && said.contains(wanted), "{said}");
    }
    let (code, said) = weir(&["report", "out", "-o", "page.html"]);
    assert_eq!(code, Some(0), "{said}");
    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    let places = ["<svg", "<details class=\"runs\">", "<h2>Summary</h2>"].map(|part| page.find(part).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("sizes 10KB, seed 1"), "runs are named by what differs");
    // A figure of a missing column is an error before anything runs.
    let wrong = Lab::new(&format!("{SWEEP}{}", figures.replace("fct_mean", "fct_men")));
    let (code, said) = wrong.sweep("out", &[]);
    assert!(
        code == 2 && said.contains("y fct_men: the sweep has no such column") && said.contains("sweep.toml:5:1"),
        "{said}"
    );
    assert!(!wrong.path("out").exists());
}
