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

const FIGURE: &str = "[[figures]]\nname = \"fct\"\nx = \"sizes\"\ny = \"fct_mean\"\nby = \"policy\"\n";

/// Messages of two policies with draws that differ between seeds.
const COMPARED: &str = "scenario = \"two.toml\"\nseeds = 4\n[parameters]\n\"workloads.0.load\" = [0.4, 0.8]\n";

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

    /// Exit code of any command in the lab, and all that was printed.
    fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let Output { status, stdout, stderr } = command.args(arguments).current_dir(self.0.path()).output().unwrap();
        (status.code(), [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat())
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

/// Results that can't be read are one point's failure: merges, figures and later calls have the others.
#[test]
fn a_point_whose_results_are_cut_fails_alone() {
    let lab = Lab::new(SWEEP);
    lab.good("one", &["-j", "2"]);
    let file = lab.path("one/runs/1-sizes-10kb-seed-1/summary.json");
    let whole = fs::read_to_string(&file).unwrap();
    for (number, cut) in ["", "no JSON", &whole[..whole.len() / 2]].into_iter().enumerate() {
        fs::write(&file, cut).unwrap();
        let merged = format!("merged-{number}");
        let (code, said) = lab.weir(&["merge", "one", "-o", &merged]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("1-sizes-10kb-seed-1: its results can't be read: "), "{said}");
        assert!(said.contains("summary.json: ") && said.contains("1 of 6 points failed"), "{said}");
        assert_eq!(lab.text(&merged, "results.csv").lines().count(), 6);
        assert!(
            lab.text(&merged, "failures.csv").lines().nth(1).unwrap().contains(",crashed,its results can't be read: ")
        );
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["plot", &merged, "--x", "workloads.incast.sizes", "--y", "lossless_frames_dropped"])
            .current_dir(lab.0.path())
            .output();
        assert!(output.unwrap().status.success());
    }
    let said = lab.good("one", &[]);
    assert!(
        said.contains("1-sizes-10kb-seed-1: its results can't be read: ") && said.contains("it runs anew"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(lab.text("one", "results.csv").lines().count(), 7);
}

/// A record that can't be read is one point's failure too.
#[test]
fn a_point_whose_record_is_cut_fails_alone() {
    let lab = Lab::new(SWEEP);
    lab.good("one", &["-j", "2"]);
    let file = lab.path("one/runs/1-sizes-10kb-seed-1/point.json");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let (code, said) = lab.weir(&["merge", "one", "-o", "merged"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("1-sizes-10kb-seed-1: its results can't be read: ") && said.contains("point.json: "),
        "{said}"
    );
    assert_eq!(lab.text("merged", "results.csv").lines().count(), 6);
    assert!(lab.text("merged", "results.csv").starts_with("point,run,seed,workloads.incast.sizes,"));
    assert!(
        lab.text("merged", "failures.csv")
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("1,,,,crashed,its results can't be read: ")
    );
    lab.good("one", &[]);
    assert_eq!(lab.text("one", "results.csv").lines().count(), 7);
}

#[test]
fn a_finished_sweep_takes_further_values_and_seeds() {
    let lab = Lab::new(SWEEP);
    lab.good("out", &[]);
    let runs = |lab: &Lab, output: &str| {
        let csv = lab.text(output, "results.csv");
        csv.lines().map(|line| line.split_once(',').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let before = runs(&lab, "out");
    // All numbers change: values come before seeds.
    let larger = SWEEP.replace("count = 3", "count = 5").replace("\"10KB\", ", "\"5KB\", \"10KB\", ");
    fs::write(lab.path("sweep.toml"), &larger).unwrap();
    lab.good("out", &["--dry-run"]);
    let said = lab.good("out", &[]);
    assert!(said.contains("15 points") && said.contains("6 of them finished by an earlier call."), "{said}");
    lab.good("anew", &[]);
    assert_eq!(lab.tables("out"), lab.tables("anew"));
    assert_eq!(lab.finished("out").keys().collect::<Vec<_>>(), lab.finished("anew").keys().collect::<Vec<_>>());
    assert!(before.iter().all(|row| runs(&lab, "out").contains(row)));
    // Neither without one of its points nor before its end.
    fs::write(lab.path("sweep.toml"), larger.replace("\"5KB\", ", "\"6KB\", ")).unwrap();
    let (code, said) = lab.sweep("out", &[]);
    assert!(
        code == 2 && said.contains("a finished sweep takes further values, seeds and runs if all others stay"),
        "{said}"
    );
    fs::write(lab.path("sweep.toml"), larger.replace("count = 5", "count = 6")).unwrap();
    fs::remove_dir_all(lab.path("out/runs/01-sizes-5kb-seed-1")).unwrap();
    assert_eq!(lab.sweep("out", &[]).0, 2);
    assert_eq!(lab.finished("out").len(), 14);
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
    let figures = FIGURE;
    let lab = Lab::new(&format!("{SWEEP}{figures}"));
    let said = lab.good("out", &[]);
    assert!(said.contains("figure: out/figures/fct.svg"), "{said}");
    let svg = lab.text("out", "figures/fct.svg");
    assert!(svg.contains("FCT mean of incast (us)") && svg.contains("sizes (KB)"), "{svg}");
    let csv = lab.text("out", "figures/fct.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "column,run,workloads.incast.sizes,value,low,high,runs,failed,is_maximum,against,difference,difference_low,difference_high"
    );
    assert!(lines.len() == 3 && lines[1..].iter().all(|line| line.ends_with(",3,0,false,,,,")), "{csv}");
    let weir = |arguments: &[&str]| lab.command(arguments);
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
    assert!(lab.text("", "pooled.svg").contains("percentiles of 3 seeds"), "{said}");
    assert!(!lab.text("", "mine.svg").contains("seeds"), "a point is of one seed");
    // A figure that fails leaves neither files nor folders.
    for (arguments, code, wanted) in [
        (&["--y", "deadlock_since"] as &[&str], 1, "new/f: not written, since no point has a value"),
        (&["--y", "fct_p99", "--title", "a\u{1}b"], 2, "title \"a\\u{1}b\": a control character can't be drawn"),
        (&["--y", "fct_p99", "--by", "run,policy"], 2, "by policy: named twice; write it once"),
    ] {
        let (got, said) = weir(&[&["plot", "out", "--x", "sizes", "-o", "new/f"], arguments].concat());
        assert!(got == Some(code) && said.contains(wanted), "{said}");
        assert!(!lab.path("new").exists(), "{said}");
    }
    let (code, said) = weir(&["plot", "out", "--x", "sizes", "--y", "fct_p99", "--traffic", "incast"]);
    assert!(code == Some(2) && said.contains("--y incast.fct_p99"), "{said}");
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

#[test]
fn merged_shards_have_figures_and_a_report() {
    let lab = Lab::new(&format!("{SWEEP}{FIGURE}"));
    lab.good("whole", &[]);
    lab.good("a", &["--shard", "1/2"]);
    lab.good("b", &["--shard", "2/2"]);
    assert!(!lab.path("a/figures").exists(), "a shard has not all points");
    let (code, said) = lab.command(&["plot", "a", "--x", "sizes", "--y", "fct_mean", "-o", "a"]);
    assert!(code == Some(0) && said.starts_with("only 3 of the sweep's 6 points are there, of shard 1/2\n"), "{said}");
    let (code, said) = lab.weir(&["merge", "a", "b", "-o", "merged"]);
    assert!(code == 0 && said.contains("figure: merged/figures/fct.svg"), "{said}");
    for file in ["figures/fct.svg", "figures/fct.csv"] {
        assert_eq!(lab.text("merged", file), lab.text("whole", file));
    }
    let (code, said) = lab.command(&["report", "merged", "-o", "page.html"]);
    assert_eq!(code, Some(0), "{said}");
    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    assert!(page.contains("FCT mean of incast (us)") && page.contains("sizes 40KB, seed 3"), "figure and runs");
    // Shards of one sweep with other figures: the newer file is told apart.
    fs::write(lab.path("sweep.toml"), format!("{SWEEP}{}", FIGURE.replace("fct_mean", "pauses_sent"))).unwrap();
    lab.good("b", &["--shard", "2/2"]);
    let (code, said) = lab.weir(&["merge", "a", "b", "-o", "merged"]);
    assert!(code == 2 && said.contains("a and b have different [[figures]]; call the shards' sweeps again"), "{said}");
    lab.good("a", &["--shard", "1/2"]);
    let (code, said) = lab.weir(&["merge", "a", "b", "-o", "merged"]);
    assert!(code == 0 && lab.text("merged", "figures/fct.svg").contains("pauses sent"), "{said}");
}

/// Lab with the results of [`COMPARED`] in `out`.
fn compared() -> Lab {
    let lab = Lab::new(COMPARED);
    let (head, _) = SCENARIO.split_once("[[workloads]]").unwrap();
    let head = head.replace("end = \"200us\"", "end = \"2ms\"").replace("4MB", "100KB");
    let workload = "[[workloads]]\nname = \"rpc\"\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n";
    let runs = "[[runs]]\nname = \"DT\"\n[[runs]]\nname = \"SPFC\"\nswitch.buffer.policy = \"spfc\"\n";
    fs::write(lab.path("two.toml"), format!("{head}{workload}{runs}")).unwrap();
    lab.good("out", &[]);
    lab
}

#[test]
fn policies_are_compared_seed_by_seed() {
    let lab = compared();
    let (code, said) = lab.command(&["testbed", "check", "two.toml"]);
    assert_eq!((code, said.as_str()), (Some(0), "two.toml: 2 runs of two, one switch, 4 hosts\n"));
    let plot = |more: &[&str]| {
        let (code, said) = lab.command(&[&["plot", "out", "--by", "policy", "-o", "f"], more].concat());
        assert_eq!(code, Some(0), "{said}");
        (said, lab.text("", "f.svg"), lab.text("", "f.csv"))
    };
    let (said, svg, csv) =
        plot(&["--x", "load", "--y", "slowdown.mean,pauses_sent", "--versus", "SPFC", "--width", "column"]);
    assert!(svg.starts_with("<svg width=\"240pt\" height=") && svg.contains("difference to SPFC (x)"), "{svg}");
    assert!(svg.contains("means over 4 seeds"), "{svg}");
    assert!(!said.contains(" pt high"), "{said}");
    assert!(said.contains("Differences, paired by seed") && said.contains("load 0.8: DT less SPFC"), "{said}");
    let of_all = "slowdown.mean,pauses_sent,paused_ns,fct.mean,messages_completed";
    let (said, ..) = plot(&["--x", "load", "--y", of_all, "--width", "column"]);
    assert!(
        said.contains(" pt high, and a page has 648 pt; name fewer columns or panels, or the width of a page"),
        "{said}"
    );
    let (said, ..) = plot(&["--x", "load", "--y", of_all, "--width", "page"]);
    assert!(!said.contains(" pt high"), "{said}");
    // The difference by hand: of the table's values of a seed.
    let table = lab.text("out", "results.csv");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let place = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let values = |run: &str, column: &str| -> Vec<f64> {
        let of_run = rows.iter().filter(|row| row[place("run")] == run && row[place("workloads.0.load")] == "0.8");
        of_run.map(|row| row[place(column)].parse().unwrap()).collect()
    };
    let figures: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for column in ["traffic.rpc.bins.all.slowdown_permille.mean", "pauses_sent"] {
        let differences: Vec<f64> =
            values("DT", column).iter().zip(values("SPFC", column)).map(|(one, other)| one - other).collect();
        let mean = differences.iter().sum::<f64>() / 4.0;
        let deviation = (differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
        let row = figures.iter().find(|row| row[0] == column && row[1] == "DT" && row[2] == "0.8").unwrap();
        assert_eq!(row[9], "SPFC");
        let found: Vec<f64> = row[10..].iter().filter_map(|cell| cell.parse().ok()).collect();
        let half = 3.182 * deviation / 2.0;
        let wanted = if half > 0.0 { vec![mean, mean - half, mean + half] } else { vec![mean] };
        assert!(found.len() == wanted.len(), "{row:?}, {wanted:?}");
        let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-6 * other.abs().max(1.0);
        assert!(found.iter().zip(&wanted).all(is_near), "{found:?}, {wanted:?}");
    }
    let slowdowns = figures.iter().filter(|row| row[0].contains("slowdown") && !row[4].is_empty());
    assert!(slowdowns.clone().count() > 0);
    assert!(slowdowns.into_iter().all(|row| row[4].parse::<f64>().unwrap() >= 1e3), "a slowdown below 1: {csv}");
    let (code, said) =
        lab.command(&["plot", "out", "--x", "load", "--y", "pauses_sent", "--by", "policy", "--versus", "ABM"]);
    assert!(code == Some(2) && said.contains("versus ABM: no line has this value; write one of: DT, SPFC"), "{said}");
    let (code, said) = lab.command(&["report", "out", "--text"]);
    assert!(code == Some(0) && said.contains("Means over seeds") && said.contains("less DT, seed by seed"), "{said}");
    assert!(said.contains("SPFC, load 0.8"), "{said}");
}

#[test]
fn figures_have_sizes_or_a_distribution_across() {
    let lab = compared();
    let (code, said) = lab.command(&[
        "plot",
        "out",
        "--x",
        "message_size",
        "--y",
        "slowdown_p50",
        "--by",
        "policy",
        "--where",
        "load=0.8",
        "-o",
        "s",
    ]);
    assert_eq!(code, Some(0), "{said}");
    // The percentile of a bin is that of all seeds' messages of these sizes.
    let (mut slowdowns, table) = (Vec::new(), lab.text("", "s.csv"));
    for folder in fs::read_dir(lab.path("out/runs")).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("dt") && name.contains("0-8") {
            let text = fs::read_to_string(folder.join("fct.csv")).unwrap();
            let [bytes, fct, ideal] = ["bytes", "fct_us", "ideal_us"].map(|column| csv_column(&text, column));
            let within = (0..bytes.len()).filter(|n| (1e4..1e5).contains(&bytes[*n]));
            slowdowns.extend(within.map(|n| fct[n] / ideal[n]));
        }
    }
    slowdowns.sort_by(f64::total_cmp);
    let median = slowdowns[slowdowns.len().div_ceil(2) - 1] * 1e3;
    let row = table.lines().find(|line| line.contains(",DT,10KB-100KB,")).unwrap();
    let value: f64 = row.split(',').nth(3).unwrap().parse().unwrap();
    assert!((value - median).abs() < 1e-9 * median, "{row}, {median}");

    let distribution = ["plot", "out", "--cdf", "slowdown", "--by", "policy", "--where", "load=0.8", "-o", "c"];
    let (code, said) = lab.command(&distribution);
    assert_eq!(code, Some(0), "{said}");
    let csv = lab.text("", "c.csv");
    assert_eq!(csv.lines().next(), Some("run,value,percent"));
    let last = csv.lines().rfind(|line| line.starts_with("DT,")).unwrap();
    let share: f64 = last.split(',').nth(2).unwrap().parse().unwrap();
    let is_whole = !said.contains("DT: ");
    assert!(if is_whole { share == 100.0 } else { share < 100.0 }, "{last}, {said}");
    assert!(lab.text("", "c.svg").contains("slowdown of rpc"));
    let (code, said) = lab.command(&["plot", "out", "--cdf", "fct", "--by", "policy"]);
    assert!(code == Some(2) && said.contains("workloads.0.load varies too"), "{said}");
    let wrong = Lab::new(&format!("{SWEEP}[[figures]]\ncdf = \"fct\"\ntraffic = \"rpc\"\n"));
    let (code, said) = wrong.sweep("out", &[]);
    assert!(code == 2 && said.contains("traffic rpc: no workload is called so; write one of: incast"), "{said}");
}

/// Each command that prints ends without a message where nobody reads.
#[test]
fn output_without_a_reader_is_no_panic() {
    let lab = compared();
    let calls: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["keys", "scenario"],
        &["keys"],
        &["completions", "bash"],
        &["reproduce", "--list"],
        &["testbed", "run", "two.toml", "--backend", "sim", "-o", "r"],
        &["testbed", "run", "two.toml", "--backend", "sim", "-o", "r", "--json"],
        &["testbed", "run", "two.toml", "--backend", "sim", "-o", "s", "--seeds", "2"],
        &["testbed", "check", "two.toml"],
        &["sweep", "sweep.toml", "-o", "out"],
        &["sweep", "sweep.toml", "-o", "out", "--json"],
        &["plot", "out", "--x", "load", "--y", "pauses_sent", "--by", "policy", "-o", "f"],
        &["report", "out", "--text"],
        &["report", "out", "--json"],
        &["explore", "--help"],
        &["import", "ns3", "--help"],
    ];
    for call in calls {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let folder = if call[0] == "reproduce" { Path::new(papers) } else { lab.0.path() };
        let output = command.args(*call).current_dir(folder).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panic") && !said.contains("Broken pipe"), "{call:?}: {said}");
        assert!(matches!(output.status.code(), Some(0..=2)), "{call:?}: {} {said}", output.status);
        // Errors without a reader, too.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let wrong =
            command.args(*call).arg("--no-such-option").current_dir(folder).stdout(Stdio::null()).stderr(writer);
        assert!(matches!(wrong.status().unwrap().code(), Some(0..=2)), "{call:?}");
    }
}
