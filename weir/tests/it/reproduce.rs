//! `weir reproduce` through the command: a custom experiment, verdicts that follow the runs, and errors with their lines.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Two hosts send to a third: PFC pauses the senders, and loses nothing.
const SCENARIO: &str = r#"
[scenario]
end = "2ms"
sample_every = "10us"

[switch.buffer]
size = "1MB"
policy = "static"
headroom = "20KB"

[switch.buffer.static]
threshold = "50KB"

[switch.classes]
preset = "roce"

[switch.pfc]
reaction = "0s"

[topology]
kind = "single"
hosts = 3
rate = "10Gbps"
delay = "1us"

[[workloads]]
name = "bursts"
kind = "poisson"
class = 3
senders = ["H0", "H1"]
receivers = ["H2"]
sizes = "64KB"
load = 0.9

[[runs]]
name = "low"

[[runs]]
name = "high"

[runs.switch.buffer.static]
threshold = "300KB"
"#;

const SWEEP: &str =
    "scenario = \"scenario.toml\"\nseeds = [1, 2, 3, 4, 5]\n[parameters]\n\"workloads.bursts.load\" = [0.5, 0.9]\n";

const QUICK: &str = "scenario = \"scenario.toml\"\nseeds = [1]\n[parameters]\n\"workloads.bursts.load\" = [0.9]\n";

pub(crate) const PAPER: &str = r#"title = "More buffer, fewer PAUSEs"
paper = "Nobody et al., More Buffer, EXAMPLE 2026"
figure = "Fig. 0"
setting = "Two hosts send to a third."
found = "A higher threshold spares PAUSEs."

[takes]
full = "2s"

[quick]
leaves_out = "the lower load, and four seeds of five"

[[measures]]
name = "PAUSEs, low"
unit = "PAUSEs"
value = "pauses_sent"
runs = "low"
where = { "workloads.bursts.load" = 0.9 }

[[measures]]
name = "PAUSEs, high"
unit = "PAUSEs"
value = "pauses_sent"
runs = "high"
where = { "workloads.bursts.load" = 0.9 }

[[measures]]
name = "PAUSEs spared"
unit = "%"
reduction = ["PAUSEs, high", "PAUSEs, low"]

[[measures]]
name = "longest queue, low"
unit = "KB"
value = "ingress_max_bytes"
over = "max"
runs = "low"
paper = 55
tolerance = 0.5
source = "by hand"

[[measures]]
name = "PAUSEs at half the load"
value = "pauses_sent"
runs = "high"
where = { "workloads.bursts.load" = 0.5 }

[[claims]]
says = "A higher threshold spares PAUSEs"
conclusion = true
measure = "PAUSEs, high"
below = { measure = "PAUSEs, low" }

[[claims]]
says = "At half the load there are few"
measure = "PAUSEs at half the load"
at_most = 200

[[panels]]
kind = "sweep"
x = "workloads.bursts.load"
x_label = "load"
y = "PAUSEs"
lines = [{ name = "low", runs = "low", value = "pauses_sent" }, { name = "high", runs = "high", value = "pauses_sent" }]

[[panels]]
kind = "time"
y = "queue"
unit = "KB"
lines = [{ name = "low", runs = "low", series = "H0.3.ingress_bytes" }]

[[panels]]
kind = "cdf"
value = "slowdown"
unit = "x"
y = "messages"
lines = [{ name = "low", runs = "low" }, { name = "high", runs = "high" }]
"#;

/// Custom experiment in a temporary folder.
pub(crate) struct Lab(TempDir);

impl Lab {
    pub(crate) fn new(paper: &str) -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        fs::create_dir(lab.path("more.0")).unwrap();
        let files = [("scenario", SCENARIO), ("sweep", SWEEP), ("quick", QUICK), ("paper", paper)];
        for (name, text) in files {
            fs::write(lab.path(&format!("more.0/{name}.toml")), text).unwrap();
        }
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code and all that was printed.
    fn reproduce(&self, arguments: &[&str]) -> (i32, String) {
        self.weir("reproduce", arguments)
    }

    pub(crate) fn weir(&self, command: &str, arguments: &[&str]) -> (i32, String) {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir.arg(command).args(arguments).current_dir(self.0.path()).output().unwrap();
        let Output { status, stdout, stderr } = output;
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.code().unwrap_or(-1), said)
    }

    fn verdict(&self, output: &str, more: &[&str]) -> serde_json::Value {
        let (code, said) = self.reproduce(&[&["more.0", "-o", output], more].concat());
        assert_eq!(code, 0, "{said}");
        let text = fs::read_to_string(self.path(output).join("more.0/verdict.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

#[test]
fn an_experiment_has_a_verdict_numbers_and_a_figure_and_is_the_same_again() {
    let lab = Lab::new(PAPER);
    let verdict = lab.verdict("a", &["-j", "2"]);
    assert_eq!((&verdict["conclusions"], &verdict["hosts"]), (&"reproduced".into(), &3.into()), "{verdict:#}");
    assert_eq!((&verdict["points"], &verdict["seeds"]), (&20.into(), &5.into()));
    let spared = &verdict["numbers"][2];
    let (low, high) = (spared["interval"][0].as_f64().unwrap(), spared["interval"][1].as_f64().unwrap());
    assert!(low < spared["weir"].as_f64().unwrap() && spared["weir"].as_f64().unwrap() < high, "{spared}");
    for file in ["figure.svg", "figure.png", "numbers.csv", "environment.json", "report.html", "sweep/results.csv"] {
        if file.ends_with("png") && cfg!(not(feature = "png")) {
            continue;
        }
        assert!(!lab.bytes(&format!("a/more.0/{file}")).is_empty(), "{file}");
    }
    let svg = String::from_utf8(lab.bytes("a/more.0/figure.svg")).unwrap();
    assert!(svg.contains("queue (KB)") && svg.contains("time (ms)") && svg.contains("messages (%)"));
    // Another directory, one core: the same bytes.
    lab.verdict("b", &["-j", "1"]);
    // Side by side, as results of two backends stand.
    let (code, page) = lab.weir("compare", &["backends", "a/more.0", "b/more.0"]);
    assert_eq!(code, 0, "{page}");
    let weir = verdict["numbers"][0]["weir"].as_f64().unwrap();
    for row in [
        "|  | sim | sim |",
        "| conclusions | **reproduced** | **reproduced** |",
        "| **A higher threshold spares PAUSEs** | holds | holds |",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    let row = page.lines().find(|line| line.starts_with("| PAUSEs, low |")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert!(cells[2] == cells[3] && cells[2].starts_with(&weir.to_string()[..3]), "{row}");
    let (code, said) = lab.weir("compare", &["backends", "a/more.0", "a"]);
    assert!(code == 2 && said.contains("no verdict.json stands there"), "{said}");
    for file in ["verdict.json", "numbers.csv", "figure.svg", "sweep/results.csv"] {
        assert_eq!(lab.bytes(&format!("a/more.0/{file}")), lab.bytes(&format!("b/more.0/{file}")), "{file}");
    }
}

/// Shards of a farm, followed by the call for all: finished points are not run again, have the same results, and are never removed.
#[test]
fn a_farm_is_worked_off_in_parts_and_keeps_them() {
    let more = PAPER.replace("full = \"2s\"", "full = \"2s\"\nfarm = \"2h\"");
    let lab = Lab::new(&more);
    let (code, said) = lab.reproduce(&["more.0", "--farm", "a"]);
    assert!(code == 2 && said.contains("farm.toml and `farm` of [takes] go together"), "{said}");
    fs::write(lab.path("more.0/farm.toml"), SWEEP.replace("[1, 2, 3, 4, 5]", "[1, 2, 3]")).unwrap();
    let (code, said) = lab.reproduce(&["more.0", "--farm", "a", "--shard", "2/3"]);
    assert!(code == 0 && said.contains("about") && !lab.path("a/more.0/verdict.json").exists(), "{said}");
    let of_shard = lab.path("a/more.0/shards/2-of-3/runs");
    assert_eq!(fs::read_dir(&of_shard).unwrap().count(), 4);
    let (code, said) = lab.reproduce(&["more.0", "--farm", "a"]);
    assert!(code == 0 && said.contains("4 of them finished by an earlier call"), "{said}");
    assert_eq!(fs::read_dir(&of_shard).unwrap().count(), 0);
    let (code, said) = lab.reproduce(&["more.0", "--farm", "b"]);
    assert_eq!(code, 0, "{said}");
    for file in ["verdict.json", "numbers.csv", "sweep/results.csv"] {
        assert_eq!(lab.bytes(&format!("a/more.0/{file}")), lab.bytes(&format!("b/more.0/{file}")), "{file}");
    }
    let verdict: serde_json::Value = serde_json::from_slice(&lab.bytes("a/more.0/verdict.json")).unwrap();
    assert_eq!(
        (&verdict["points"], &verdict["seeds"], &verdict["left_out"]),
        (&12.into(), &3.into(), &serde_json::Value::Null)
    );
    // Another sweep does not take its place.
    fs::write(lab.path("more.0/farm.toml"), SWEEP).unwrap();
    let (code, said) = lab.reproduce(&["more.0", "--farm", "a"]);
    assert!(code == 2 && said.contains("do not belong to this sweep"), "{said}");
    assert_eq!(fs::read_dir(lab.path("a/more.0/sweep/runs")).unwrap().count(), 12);
    // A job array makes these calls.
    let (code, said) =
        lab.reproduce(&["more.0", "--farm", "c", "--slurm", "--tasks", "4", "--sbatch=--partition=long", "--dry-run"]);
    assert_eq!(code, 0, "{said}");
    let script = |name: &str| String::from_utf8(lab.bytes(&format!("c/more.0/slurm/{name}.sh"))).unwrap();
    let (array, last) = (script("array"), script("verdict"));
    assert!(array.contains("#SBATCH --array=1-4\n") && array.contains("#SBATCH --partition=long\n"), "{array}");
    assert!(array.contains("--shard \"$SLURM_ARRAY_TASK_ID\"/4") && array.contains("/c --shard"), "{array}");
    assert!(last.contains(" reproduce ") && last.ends_with("/c -j 1\n") && !last.contains("--shard"), "{last}");
}

/// Over all loads and seeds, where a mean would be of seeds alone.
#[test]
fn a_measure_may_be_the_sum_of_whatever_points() {
    let sum = "\n[[measures]]\nname = \"all PAUSEs\"\nvalue = \"pauses_sent\"\nover = \"sum\"\nruns = \"low\"\n";
    let lab = Lab::new(&format!("{PAPER}{sum}"));
    let verdict = lab.verdict("a", &[]);
    assert_eq!(verdict["numbers"].as_array().unwrap().last().unwrap()["over"], "sum");
    let table = String::from_utf8(lab.bytes("a/more.0/sweep/results.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let of_low = rows.iter().filter(|row| row[column("run")] == "low");
    let pauses: Vec<f64> = of_low.map(|row| row[column("pauses_sent")].parse().unwrap()).collect();
    assert_eq!(pauses.len(), 10);
    let number = verdict["numbers"].as_array().unwrap().last().unwrap();
    assert_eq!(number["weir"].as_f64().unwrap(), pauses.iter().sum::<f64>(), "{number}");
}

/// A ratio of 0 to 0 has no size: it is not off by a factor, and a paper that states 0 is not contradicted.
#[test]
fn nothing_on_both_sides_is_not_far_off() {
    // At a hundredth of the load there is not one PAUSE, whatever the threshold.
    let few = |name: &str, run: &str| {
        format!(
            "\n[[measures]]\nname = \"{name}\"\nvalue = \"pauses_sent\"\nruns = \"{run}\"\nwhere = {{ \"workloads.bursts.load\" = 0.01 }}\n"
        )
    };
    let stated = |name: &str, kind: &str, unit: &str, paper: &str| {
        format!(
            "\n[[measures]]\nname = \"{name}\"\nunit = \"{unit}\"\n{kind} = [\"few, high\", \"few, low\"]\npaper = {paper}\nwithin = 0.1\n\
             source = \"by hand\"\n"
        )
    };
    let direct = "\n[[measures]]\nname = \"none\"\nvalue = \"pauses_sent\"\nruns = \"low\"\nwhere = { \"workloads.bursts.load\" = 0.01 }\n\
        paper = 0\ntolerance = 0.5\nsource = \"by hand\"\n";
    let measures = [
        few("few, low", "low"),
        few("few, high", "high"),
        stated("spared, 60", "reduction", "%", "60"),
        stated("spared, 0", "reduction", "%", "0"),
        stated("ratio, 0", "ratio", "", "0"),
        direct.to_owned(),
    ];
    let paper = PAPER.replace("over = \"max\"\n", "over = \"max\"\nwhere = { \"workloads.bursts.load\" = 0.9 }\n");
    let lab = Lab::new(&format!("{paper}{}", measures.concat()));
    let sweep = "scenario = \"scenario.toml\"\nseeds = [1, 2, 3, 4, 5]\n[parameters]\n\"workloads.bursts.load\" = [0.01, 0.5, 0.9]\n";
    fs::write(lab.path("more.0/sweep.toml"), sweep).unwrap();
    let verdict = lab.verdict("a", &[]);
    let of = |name: &str| {
        let numbers = verdict["numbers"].as_array().unwrap();
        let number = numbers.iter().find(|number| number["name"] == name).unwrap_or_else(|| panic!("{verdict:#}"));
        (number["judgement"].as_str().unwrap_or("").to_owned(), number["none"].as_str().unwrap_or("").to_owned())
    };
    let nothing = "0 on both sides: nothing that could differ";
    assert_eq!(of("few, low"), (String::new(), String::new()));
    assert_eq!(of("spared, 60"), ("not-exercised".to_owned(), nothing.to_owned()));
    for name in ["spared, 0", "ratio, 0"] {
        assert_eq!(of(name), ("arithmetic".to_owned(), nothing.to_owned()), "{name}");
    }
    assert_eq!(of("none"), ("holds".to_owned(), String::new()));
    // Numbers are no part of the conclusions.
    assert_eq!(verdict["conclusions"], "reproduced", "{verdict:#}");
    let reasons = verdict["reasons"].to_string();
    assert!(
        reasons.contains("Not exercised: spared, 60 (the paper has 60 +- 0.1 %, measured none (0 on both"),
        "{reasons}"
    );
}

/// How many loads have a run with PAUSEs, and what messages of a size took.
#[test]
fn measures_may_count_values_of_a_parameter_and_read_messages() {
    let measures = "\n[[measures]]\nname = \"loads\"\ncount = \"pauses_sent\"\neach = \"workloads.bursts.load\"\n\
        \n[[measures]]\nname = \"runs\"\ncount = \"pauses_sent\"\nruns = \"low\"\n\
        \n[[measures]]\nname = \"slowdown\"\nunit = \"\"\nmessages = \"slowdown\"\ntraffic = \"bursts\"\nsizes = [\"10KB\", \"100KB\"]\n\
        percentile = 100\nruns = \"low\"\nwhere = { \"workloads.bursts.load\" = 0.9 }\n\
        \n[[measures]]\nname = \"mean FCT\"\nunit = \"us\"\nmessages = \"fct\"\nruns = \"low\"\nwhere = { \"workloads.bursts.load\" = 0.9 }\n\
        \n[[measures]]\nname = \"large ones\"\nunit = \"us\"\nmessages = \"fct\"\nsizes = [\"1MB\", \"10MB\"]\nruns = \"low\"\n\
        where = { \"workloads.bursts.load\" = 0.9 }\n";
    let lab = Lab::new(&format!("{PAPER}{measures}"));
    let sweep =
        "scenario = \"scenario.toml\"\nseeds = [1, 2]\n[parameters]\n\"workloads.bursts.load\" = [0.01, 0.5, 0.9]\n";
    fs::write(lab.path("more.0/sweep.toml"), sweep).unwrap();
    let verdict = lab.verdict("a", &[]);
    let of = |name: &str| {
        verdict["numbers"].as_array().unwrap().iter().find(|number| number["name"] == name).unwrap().clone()
    };
    assert_eq!((of("loads")["weir"].as_f64(), of("runs")["weir"].as_f64()), (Some(2.0), Some(4.0)), "{verdict:#}");
    // As the runs' own tables of messages have it.
    let runs: Vec<PathBuf> =
        fs::read_dir(lab.path("a/more.0/sweep/runs")).unwrap().map(|run| run.unwrap().path()).collect();
    let (mut slowest, mut means) = (Vec::new(), Vec::new());
    for run in
        runs.iter().filter(|run| run.to_string_lossy().contains("load-0-9") && run.to_string_lossy().ends_with("low"))
    {
        let table = fs::read_to_string(run.join("fct.csv")).unwrap();
        let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let rows: Vec<(f64, f64)> = rows.map(|row| (row[3].parse().unwrap(), row[6].parse().unwrap())).collect();
        slowest.push(rows.iter().map(|(fct, ideal)| fct / ideal).fold(0.0, f64::max));
        means.push(rows.iter().map(|(fct, _)| fct).sum::<f64>() / rows.len() as f64);
    }
    let near = |name: &str, values: &[f64]| {
        let (is, wanted) = (of(name)["weir"].as_f64().unwrap(), values.iter().sum::<f64>() / values.len() as f64);
        assert!(values.len() == 2 && (is - wanted).abs() < 1e-6 * wanted, "{name}: {is}, {wanted}");
    };
    near("slowdown", &slowest);
    near("mean FCT", &means);
    assert_eq!(of("large ones")["none"], "never in 2 of 2 runs");
}

#[test]
fn a_mutation_does_not_hold() {
    let lab = Lab::new(PAPER);
    // Both have the same threshold then.
    let verdict = lab.verdict("a", &["--set", "runs.high.switch.buffer.static.threshold=50KB"]);
    assert_eq!(verdict["conclusions"], "not", "{verdict:#}");
    assert_eq!(verdict["set"][0], "runs.high.switch.buffer.static.threshold=50KB");
    let claim = &verdict["claims"][0];
    assert_eq!(claim["judgement"], "fails", "{claim}");
    // Without flow control frames are lost, which no number can make good.
    let verdict = lab.verdict("b", &["--set", "switch.port.flow_control=none"]);
    assert_eq!(verdict["conclusions"], "not");
    assert!(verdict["reasons"][0].as_str().unwrap().contains("lossless"), "{verdict:#}");
}

/// A mutated scheme runs the points of one claim; a mutation that the claim does not detect fails the command.
#[test]
fn mutations_must_be_detected() {
    let scheme = |set: &str, fails: &str| {
        let broken = format!(
            "\n[[mutations]]\nwhat = \"as low as the other\"\nsubtle = true\nset = {set}\nfails = \"{fails}\"\n"
        );
        Lab::new(&format!("{PAPER}{broken}"))
    };
    let claim = "A higher threshold spares PAUSEs";
    let low = "{ \"runs.high.switch.buffer.static.threshold\" = \"50KB\" }";
    let lab = scheme(low, claim);
    let arguments = ["more.0", "-o", "a", "--mutations"];
    let (code, said) = lab.reproduce(&arguments);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains(&format!("subtle, detected: as low as the other\n    \"{claim}\" fails: expected less than")),
        "{said}"
    );
    let told: serde_json::Value = serde_json::from_slice(&lab.bytes("a/more.0/mutations.json")).unwrap();
    assert_eq!((&told[0]["sound"]["judgement"], &told[0]["mutated"]["judgement"]), (&"holds".into(), &"fails".into()));
    // The mutated run, with five seeds at one load, of the twenty points; the verdict itself uses the others.
    let runs = fs::read_dir(lab.path("a/more.0/mutation-1/runs")).unwrap().count();
    let verdict: serde_json::Value = serde_json::from_slice(&lab.bytes("a/more.0/verdict.json")).unwrap();
    assert_eq!((runs, &verdict["conclusions"], &verdict["points"]), (5, &"reproduced".into(), &20.into()));
    // A threshold that is hardly higher changes too little.
    let lab = scheme("{ \"runs.low.switch.buffer.static.threshold\" = \"51KB\" }", "longest queue, low");
    let (code, said) = lab.reproduce(&arguments);
    assert!(code == 1 && said.contains("1 of 1 mutations are not detected: more.0: as low"), "{said}");
    // Lost frames invalidate the run's measures.
    let lab = scheme("{ \"switch.port.flow_control\" = \"none\" }", "longest queue, low");
    let (code, said) = lab.reproduce(&arguments);
    assert!(code == 0 && said.contains("\"longest queue, low\" fails: the run"), "{said}");
    for (set, fails, wanted) in [
        ("{ \"switch.buffer.static.threshold\" = \"50KB\" }", claim, "sets this itself"),
        ("{}", claim, "the mutation changes nothing"),
        (low, "longest queue, low", "these runs have no point of \"longest queue, low\" that the mutation affects"),
        (low, "No claim", "nothing claims \"No claim\""),
        (low, "PAUSEs spared", "nothing claims \"PAUSEs spared\""),
    ] {
        let (code, said) = scheme(set, fails).reproduce(&arguments);
        let one_line = said.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
        assert!(code == 2 && one_line.contains(wanted) && one_line.contains("paper.toml:"), "{wanted}: {said}");
    }
}

#[test]
fn conclusions_and_numbers_have_separate_verdicts() {
    let lab = Lab::new(&PAPER.replace("paper = 55\ntolerance = 0.5", "paper = 550\ntolerance = 0.1"));
    let verdict = lab.verdict("a", &["--quick"]);
    assert_eq!(verdict["conclusions"], "reproduced");
    assert_eq!(verdict["says"], "Provisional, of a quick run. Reproduced: the only main claim comes out.");
    let numbers = verdict["numbers_summary"].as_str().unwrap();
    assert!(numbers.starts_with("The only stated number is outside its tolerance; Weir's is 0."), "{verdict:#}");
    assert!(verdict["reasons"][0].as_str().unwrap().starts_with("Not reproduced: longest queue, low ("), "{verdict:#}");
}

/// The main claims come first, and 12 lines of claims are enough without `--all`.
#[test]
fn twelve_lines_of_claims_are_printed() {
    let further = |n: usize| format!("[[claims]]\nsays = \"Further {n}\"\nmeasure = \"PAUSEs, high\"\nat_least = 0\n");
    let lab = Lab::new(&format!("{PAPER}\n{}", (1..=12).map(further).collect::<String>()));
    let lines = |said: &str| said.lines().filter(|line| line.contains("urther")).count();
    let (code, said) = lab.reproduce(&["more.0", "--quick", "-o", "a"]);
    assert!(code == 0 && said.contains("\n  * holds          A higher threshold spares PAUSEs\n"), "{said}");
    assert!(said.contains("\n    3 further claims: --all, or verdict.json\n"), "{said}");
    assert_eq!(lines(&said), 10, "{said}");
    let (code, said) = lab.reproduce(&["more.0", "--quick", "-o", "a", "--all"]);
    assert_eq!((code, lines(&said)), (0, 12), "{said}");
}

#[test]
fn a_quick_run_says_what_it_left_out() {
    let lab = Lab::new(PAPER);
    let verdict = lab.verdict("a", &["--quick"]);
    assert_eq!((&verdict["points"], &verdict["claims"][1]["judgement"]), (&2.into(), &"left-out".into()));
    assert_eq!(verdict["left_out"], "the lower load, and four seeds of five");
    let (code, said) = lab.reproduce(&["more.0", "--quick", "-o", "b"]);
    assert!(code == 0 && said.contains("quick:   provisional, without the lower load"), "{said}");
}

#[test]
fn mistakes_are_told_with_their_lines_before_anything_runs() {
    let refused = |paper: &str, arguments: &[&str], wanted: &[&str]| {
        let lab = Lab::new(paper);
        let (code, said) = lab.reproduce(&[&["more.0", "-o", "a"], arguments].concat());
        assert_eq!(code, 2, "{said}");
        let one_line = said.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
        wanted.iter().for_each(|wanted| assert!(one_line.contains(wanted), "{wanted}: {said}"));
        assert!(!lab.path("a").exists());
    };
    let with = |from: &str, to: &str| PAPER.replacen(from, to, 1);
    let line = |text: &str| PAPER.lines().position(|line| line == text).unwrap() + 1;
    let at = format!("paper.toml:{}:", line("value = \"pauses_sent\""));
    refused(&with("pauses_sent", "pauses"), &[], &[&at, "\"pauses\" is no column", "write \""]);
    refused(&with("unit = \"KB\"", "unit = \"ms\""), &[], &["\"ms\" is no unit of this", "write one of: B, KB, MB"]);
    refused(&with("runs = \"low\"", "runs = \"lower\""), &[], &["the sweep has no run \"lower\"", "\"low\""]);
    refused(&with("over = \"max\"\n", ""), &[], &["a mean is over seeds alone"]);
    let over = |what: &str| with("value = \"ingress_max_bytes\"\nover = \"max\"", what);
    refused(&over("each = \"x\"\nvalue = \"ingress_max_bytes\""), &[], &["values of a parameter are counted"]);
    let each = "count = \"pauses_sent\"\neach = \"workloads.bursts.lod\"";
    refused(
        &over(each),
        &[],
        &["the sweep has no parameter \"workloads.bursts.lod\"", "write one of: workloads.bursts"],
    );
    refused(&over("messages = \"fct\""), &[], &["\"KB\" is no unit of this"]);
    refused(&over("messages = \"size\""), &[], &["messages have no \"size\"", "write \"fct\", \"slowdown\""]);
    let percentile = "messages = \"slowdown\"\npercentile = 101\nsizes = [\"1\", \"many\"]";
    refused(&over(percentile), &[], &["a percentile is above 0 and at most 100", "\"many\" is no size"]);
    refused(&over("percentile = 95\nvalue = \"ingress_max_bytes\""), &[], &["percentile, traffic and sizes are of"]);
    refused(&with("tolerance = 0.5\n", ""), &[], &["a paper's number has a tolerance and a source"]);
    refused(&with("conclusion = true\n", ""), &[], &["no claim is a conclusion"]);
    refused(&with("below = { measure = \"PAUSEs, low\" }", "below = { measure = \"x\" }"), &[], &["no measure \"x\""]);
    refused(&with("title =", "titel ="), &[], &["unknown field `titel`", "paper.toml:1:"]);
    refused(PAPER, &["--set", "switch.buffer.size"], &["write PATH=VALUE"]);
    refused(PAPER, &["--set", "switch.buffer.size=1KB"], &["--set switch.buffer.size=1KB:"]);
    refused(PAPER, &["--set", "nonsense.path=3"], &["--set nonsense.path=3:", "nonsense"]);
    // A value that is set elsewhere would be ignored.
    let hidden = [
        "run \"high\" of the scenario sets this itself",
        "--set \"switch.buffer.*.threshold=70KB\" for the policies of all runs",
        "runs.high.switch.buffer.static.threshold=70KB",
    ];
    refused(PAPER, &["--set", "switch.buffer.static.threshold=70KB"], &hidden);
    refused(PAPER, &["--set", "switch.buffer.*.alpha=1"], &["no policy of the scenario has `alpha`"]);
    refused(PAPER, &["--set", "workloads.bursts.load=0.9", "--set", "scenario.end=2ms"], &["that value"]);
    // Links of the topology have the delay that it gives them.
    let elsewhere = "the scenario has `delay` elsewhere: write --set \"topology.delay=3us\"";
    refused(PAPER, &["--set", "switch.port.delay=3us"], &["it changes nothing", elsewhere]);
    refused(
        &with("below = { measure = \"PAUSEs, low\" }", "at_most = { measure = \"PAUSEs, high\" }"),
        &[],
        &["is compared with itself"],
    );
    refused(PAPER, &["--backend", "dpdk"], &["more.0 can't run with real frames"]);
    refused(PAPER, &["--backend", "hosts"], &["more.0 has no real hosts"]);
    let real = with("[takes]", "[dpdk]\nleaves_out = \"much\"\n\n[takes]");
    refused(&real, &[], &["the table [dpdk] is about a dpdk.toml, and there is none"]);
    let lab = Lab::new(PAPER);
    fs::write(lab.path("more.0/dpdk.toml"), QUICK).unwrap();
    let (code, said) = lab.reproduce(&["more.0", "-o", "a"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("dpdk.toml is for --backend dpdk"), "{said}");
}

/// What a paper leaves open, and a map of one claim over it.
pub(crate) const OPEN: &str = r#"
[[open]]
name = "threshold"
why = "The paper calls it higher."
path = "runs.high.switch.buffer.static.threshold"
values = ["50KB", "100KB", "300KB"]
taken = "300KB"

[[open]]
name = "traffic"
why = "The paper has no load."
values = [
  { name = "light", set = { "workloads.bursts.load" = 0.6, "workloads.bursts.sizes" = "64KB" } },
  { name = "heavy", set = { "workloads.bursts.load" = 0.7, "workloads.bursts.sizes" = "64KB" } },
]
taken = "heavy"

[[map.measures]]
name = "PAUSEs, low"
value = "pauses_sent"
runs = "low"

[[map.measures]]
name = "PAUSEs, high"
value = "pauses_sent"
runs = "high"

[[map.claims]]
says = "A higher threshold spares PAUSEs"
conclusion = true
measure = "PAUSEs, high"
below = { measure = "PAUSEs, low" }
"#;

#[test]
fn a_map_says_where_claims_hold_and_goes_on_where_it_was_stopped() {
    let lab = Lab::new(&format!("{PAPER}{OPEN}"));
    fs::write(lab.path("more.0/map.toml"), "scenario = \"scenario.toml\"\nseeds = [1, 2, 3, 4, 5]\n").unwrap();
    let explore = |arguments: &[&str]| lab.weir("explore", &[&["more.0", "-o", "out"], arguments].concat());
    let map = || -> serde_json::Value { serde_json::from_slice(&lab.bytes("out/more.0/map/map.json")).unwrap() };
    let (code, said) = explore(&["--dry-run"]);
    assert!(code == 0 && said.contains("more.0: 6 settings of 2 things, 10 runs in each"), "{said}");
    let (code, said) = explore(&["--settings", "2"]);
    assert_eq!((code, &map()["settings"]), (0, &2.into()), "{said}");
    // The rest, up to all; what is finished is not run again.
    let finished = || {
        let folder = fs::read_dir(lab.path("out/more.0/map/batch-000/runs")).unwrap().next().unwrap().unwrap().path();
        fs::metadata(folder.join("point.json")).unwrap().modified().unwrap()
    };
    let before = finished();
    let (code, said) = explore(&["--cpu", "10m"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("more.0: holds in 33 % of the allowed settings (all 6 of them)"), "{said}");
    let whole = map();
    assert_eq!((&whole["is_all"], &whole["lines"][0]["holds"]), (&true.into(), &2.into()), "{whole:#}");
    // With the same threshold there is nothing to spare, and twice as high a one is too little for five seeds to tell.
    assert_eq!(whole["lines"][2]["by_value"][0], serde_json::json!([[0, 2], [0, 2], [2, 2]]));
    assert_eq!(whole["nearest"][0], serde_json::json!([]), "it holds as taken");
    for file in ["map.svg", "map.png", "settings.csv"] {
        assert!(
            cfg!(feature = "png") == lab.path(&format!("out/more.0/map/{file}")).exists() || !file.ends_with("png"),
            "{file}"
        );
    }
    assert_eq!(finished(), before, "the first setting ran once");
    // Narrowed.
    let (code, said) = explore(&["--pin", "threshold=50KB"]);
    assert!(code == 0 && said.contains("holds in 0 % of the allowed settings (all 2 of them)"), "{said}");
    // Twice as high a threshold is too little for five seeds to tell, and more of them have a folder of their own.
    let (code, said) = explore(&["--pin", "threshold=100KB"]);
    let open = "is decided by its 5 seeds in none of the 2 settings that were run; more seeds would decide it, and take longer \
                (weir explore more.0 --seeds 20, with a longer --cpu)";
    assert!(code == 0 && said.contains(open) && said.contains("  open "), "{said}");
    let settings = String::from_utf8(lab.bytes("out/more.0/map-threshold-100kb/settings.csv")).unwrap();
    assert!(settings.lines().skip(1).all(|line| line.split(',').nth(2) == Some("open")), "{settings}");
    let (code, said) = explore(&["--pin", "threshold=100KB", "--seeds", "2"]);
    assert!(code == 0 && said.contains("2 settings of 2 open things, all that are listed: 8 runs"), "{said}");
    assert!(lab.path("out/more.0/map-threshold-100kb-seeds-2/map.json").exists());
    for (arguments, wanted) in [
        (["--pin", "threshold=60KB"], "--pin threshold=60KB: write one of: 50KB, 100KB, 300KB"),
        (["--pin", "colour=red"], "--pin colour=red: more.0 has open: \"threshold=...\", \"traffic=...\""),
        (["--cpu", "soon"], "write a time with its unit"),
    ] {
        let (code, said) = explore(&arguments);
        assert!(code == 2 && said.contains(wanted), "{said}");
    }
    // Messages that take as long as the runs.
    let scenario = SCENARIO.replace("end = \"2ms\"", "end = \"50us\"");
    fs::write(lab.path("more.0/scenario.toml"), scenario).unwrap();
    let (code, said) = explore(&["--settings", "1"]);
    assert!(
        code == 2 && said.contains("more.0: the map's runs end after 50us, and messages of bursts take "),
        "{said}"
    );
    let closed = Lab::new(PAPER);
    let (code, said) = closed.weir("explore", &["more.0"]);
    assert!(code == 2 && said.contains("more.0: nothing is open there; write [[open]] in paper.toml"), "{said}");
}

/// An unknown paper is data: found by its folder, chosen by its id, and cited.
#[test]
fn a_paper_of_ones_own_needs_no_program_of_its_own() {
    let lab = Lab::new(PAPER);
    let own = PAPER.replacen("paper = \"Nobody et al., More Buffer, EXAMPLE 2026\"\n", "", 1);
    let about =
        "id = \"fifth\"\nname = \"More Buffer\"\nauthors = \"Nobody et al.\"\nvenue = \"EXAMPLE\"\nyear = 2026\n";
    fs::create_dir_all(lab.path("papers/fifth/fifth.1")).unwrap();
    fs::write(lab.path("papers/fifth/fifth.1/paper.toml"), &own).unwrap();
    for (name, text) in [("scenario", SCENARIO), ("sweep", SWEEP), ("quick", QUICK)] {
        fs::write(lab.path(&format!("papers/fifth/fifth.1/{name}.toml")), text).unwrap();
    }
    fs::write(lab.path("papers/fifth/about.toml"), about).unwrap();
    let citation = "Nobody et al., More Buffer, EXAMPLE 2026";
    let (code, said) = lab.reproduce(&["--list", "--papers", "papers"]);
    assert!(code == 0 && said.contains("fifth.1") && said.contains(citation), "{said}");
    let (code, said) = lab.reproduce(&["fifth1", "--papers", "papers"]);
    assert!(code == 2 && said.ends_with("weir: \"fifth1\" is no experiment; did you mean fifth.1?\n"), "{said}");
    let (code, said) = lab.reproduce(&["fifth", "--papers", "papers", "-o", "a", "-j", "2"]);
    assert!(
        code == 0
            && said.contains(&format!("{citation}: Fig. 0"))
            && said.contains("fifth.1: Reproduced: the only main claim comes out"),
        "{said}"
    );
    // By its folder alone, and from within it.
    let (code, said) = lab.reproduce(&["papers/fifth", "-o", "b", "--dry-run"]);
    assert!(code == 0 && said.contains("fifth.1: 20 runs"), "{said}");
    let from_within = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["reproduce", ".", "--dry-run"])
        .current_dir(lab.path("papers/fifth/fifth.1"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&from_within.stdout).contains("fifth.1: 20 runs"), "{from_within:?}");
    // An error in a paper's file has its line.
    for (text, wanted) in [
        (about.replace("venue", "venu"), "unknown key `venu`"),
        (about.replace("id = \"fifth\"", "id = \"all\""), "\"all\" can't name a paper"),
        (about.replace("2026", "\"2026\""), "about.toml:5"),
    ] {
        fs::write(lab.path("papers/fifth/about.toml"), text).unwrap();
        let (code, said) = lab.reproduce(&["fifth", "--papers", "papers"]);
        assert!(code == 2 && said.contains(wanted), "{wanted}: {said}");
    }
    // A map needs the parameters that decide other figures of the paper.
    fs::write(lab.path("papers/fifth/about.toml"), format!("{about}axes = [\"threshold\", \"rate\"]\n")).unwrap();
    fs::write(lab.path("papers/fifth/fifth.1/paper.toml"), format!("{own}{OPEN}")).unwrap();
    let (code, said) = lab.weir("explore", &["fifth", "--papers", "papers", "--dry-run"]);
    assert!(code == 2 && said.contains("fifth.1: paper.toml has no [[open]] \"rate\""), "{said}");
    fs::write(lab.path("papers/fifth/about.toml"), about).unwrap();
    fs::write(lab.path("papers/fifth/fifth.1/paper.toml"), PAPER).unwrap();
    let (code, said) = lab.reproduce(&["papers/fifth/fifth.1"]);
    assert!(code == 2 && said.contains("the folder above is of the paper fifth"), "{said}");
}

/// The smaller sweep in `dpdk.toml` for real frames is checked and reported as a sweep.
#[test]
#[cfg(feature = "dpdk")]
fn real_frames_may_have_a_sweep_of_their_own() {
    let table = "backends = [\"sim\", \"dpdk\"]\n\n[dpdk]\nleaves_out = \"four of five seeds\"\n\n[takes]";
    let lab = Lab::new(&PAPER.replacen("[takes]", table, 1));
    let call = |arguments: &[&str]| {
        lab.reproduce(&[&["more.0", "-o", "a", "--backend", "dpdk", "--dry-run"], arguments].concat())
    };
    fs::write(
        lab.path("more.0/dpdk.toml"),
        "scenario = \"scenario.toml\"\nseeds = [1]\n[parameters]\n\"workloads.bursts.load\" = [0.9]\n",
    )
    .unwrap();
    let made_up = SCENARIO.replacen("[topology]", "[nic]\nframes = \"ns3\"\n\n[topology]", 1);
    fs::write(lab.path("more.0/scenario.toml"), made_up).unwrap();
    let (code, said) = call(&[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("its frames have lengths that real ones have not"), "{said}");
    let scenario = SCENARIO.replacen("[scenario]", "[scenario]\ntime_dilation = 100", 1);
    fs::write(lab.path("more.0/scenario.toml"), scenario).unwrap();
    for arguments in [&[][..], &["--quick"]] {
        let (code, said) = call(arguments);
        assert_eq!(code, 0, "{said}");
        // Two runs of 2 ms, a hundred times slower, and what DPDK takes to start.
        assert!(said.contains("One experiment with real frames, one run after the other, about 6 s in all."), "{said}");
        assert!(said.contains("more.0: 2 runs"), "{said}");
    }
}

/// More or fewer seeds than the sweep's: numbers list single seeds, and claims use as many.
#[test]
fn points_have_as_many_seeds_as_are_asked_for() {
    let lab = Lab::new(PAPER);
    let own = lab.verdict("own", &["--quick"]);
    assert!(
        (&own["seeds"], &own["points"]) == (&1.into(), &2.into()) && own["numbers"][0].get("least_and_most").is_none()
    );
    let verdict = lab.verdict("more", &["--quick", "--seeds", "3"]);
    assert_eq!((&verdict["seeds"], &verdict["points"]), (&3.into(), &6.into()));
    let number = &verdict["numbers"][0];
    let of = |place: usize| number["least_and_most"][place].as_f64().unwrap();
    let mean = number["weir"].as_f64().unwrap();
    assert!(
        of(0) <= mean && mean <= of(1) && of(0) < of(1) && number["interval"][0].as_f64().unwrap() < mean,
        "{number:#}"
    );
    // The first seed is the sweep's own, and what it came to is among them.
    let first = own["numbers"][0]["weir"].as_f64().unwrap();
    assert!((of(0)..=of(1)).contains(&first), "{first}: {number:#}");
    let csv = String::from_utf8(lab.bytes("more/more.0/numbers.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",source,least,most"), "{csv}");
    let (code, page) = lab.weir("compare", &["backends", "own/more.0", "more/more.0"]);
    assert!(code == 0 && page.contains(&format!("of 3 from {} to {}", of(0), of(1))), "{page}");
    let (code, said) = lab.reproduce(&["more.0", "--quick", "--seeds", "3", "-o", "more"]);
    assert!(code == 0 && said.contains("least to most") && said.contains("  runs:    6, 3 seeds"), "{said}");
    let (code, said) = lab.reproduce(&["more.0", "--seeds", "3", "--mutations"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
}

/// The page of several backends marks the verdict of runs that the machine delayed.
#[test]
fn what_is_not_judged_is_told_wherever_verdicts_stand() {
    let lab = Lab::new(&PAPER.replace("[takes]", "backends = [\"sim\", \"dpdk\"]\n\n[takes]"));
    let mut verdict = lab.verdict("sim", &["--quick"]);
    assert!(verdict.get("lateness").is_none(), "virtual time is never late: {verdict:#}");
    verdict["conclusions"] = "not-judged".into();
    verdict["backend"] = "dpdk".into();
    verdict["says"] = "Not judged: the machine was late in 1 of 2 runs, on which the only main claim depends.".into();
    verdict["lateness"] = serde_json::json!({
        "allowed_percent": 5.0, "most_percent": 23.4, "runs": 2, "late": [{ "run": "1-low", "lost_percent": 23.4 }]
    });
    verdict["reasons"] =
        serde_json::json!(["Not judged: A higher threshold spares PAUSEs (the run 1-low lost 23.4 %)"]);
    verdict["claims"][0]["judgement"] = "not-judged".into();
    for number in [0, 2, 3] {
        verdict["numbers"][number]["is_late"] = true.into();
    }
    verdict["numbers"][3]["judgement"] = "not-judged".into();
    let made = lab.bytes("sim/more.0/environment.json");
    fs::create_dir_all(lab.path("real/more.0")).unwrap();
    fs::write(lab.path("real/more.0/environment.json"), made).unwrap();
    fs::write(lab.path("real/more.0/verdict.json"), verdict.to_string()).unwrap();

    let (code, page) = lab.weir("compare", &["backends", "sim/more.0", "real/more.0"]);
    assert_eq!(code, 0, "{page}");
    for row in [
        "| conclusions | **reproduced** | **not judged** |",
        "| most of a run that the machine took | - | 23.4 % |",
        "| **A higher threshold spares PAUSEs** | holds | not judged |",
        "dpdk: Not judged: the machine was late",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    let row = page.lines().find(|line| line.starts_with("| PAUSEs, low |")).unwrap();
    assert!(row.ends_with(" PAUSEs (not judged) |"), "{row}");
}

/// What `--store` leaves next to `paper.toml`: each call replaces its own part, and keeps the others.
#[test]
fn results_are_stored_next_to_the_paper() {
    let set = "{ \"runs.high.switch.buffer.static.threshold\" = \"50KB\" }";
    let fails = "A higher threshold spares PAUSEs";
    let broken = format!("\n[[mutations]]\nwhat = \"as low as the other\"\nset = {set}\nfails = \"{fails}\"\n");
    let lab = Lab::new(&format!("{PAPER}{OPEN}{broken}"));
    fs::write(lab.path("more.0/map.toml"), "scenario = \"scenario.toml\"\nseeds = [1, 2]\n").unwrap();
    fs::create_dir(lab.path("papers")).unwrap();
    fs::rename(lab.path("more.0"), lab.path("papers/more.0")).unwrap();
    let weir = |command: &str, more: &[&str]| {
        lab.weir(command, &[&["more.0", "--papers", "papers", "-o", "out"], more].concat())
    };
    let stored = || -> serde_json::Value { serde_json::from_slice(&lab.bytes("papers/more.0/result.json")).unwrap() };
    let same = |one: &str, other: &str| {
        assert_eq!(lab.bytes(&format!("papers/more.0/{one}")), lab.bytes(&format!("out/more.0/{other}")), "{one}");
    };
    let (code, said) = lab.reproduce(&["--list", "--papers", "papers"]);
    assert!(code == 0 && !said.contains("reproduced") && !said.contains("Conclusions"), "{said}");
    let (code, said) = weir("reproduce", &["--quick", "--mutations", "--store"]);
    assert!(code == 0 && said.contains("stored: papers/more.0/result.json"), "{said}");
    let first = stored();
    let run = &first["backends"]["sim"];
    assert_eq!(
        (&run["outcome"]["conclusions"], &run["mutations"][0]["detected"]),
        (&"reproduced".into(), &true.into()),
        "{first:#}"
    );
    assert_eq!(run["outcome"]["left_out"], "the lower load, and four seeds of five");
    assert!(run["outcome"].get("says").is_none() && run["environment"]["commit"].is_string(), "{first:#}");
    same("figure.svg", "figure.svg");
    // The map; and results without mutations keep the earlier ones.
    let (code, said) = weir("explore", &["--settings", "2", "--store"]);
    assert_eq!(code, 0, "{said}");
    let map = stored();
    assert_eq!((&map["map"]["map"]["settings"], &map["backends"]), (&2.into(), &first["backends"]), "{map:#}");
    same("map.svg", "map/map.svg");
    let (code, said) = weir("reproduce", &["--store"]);
    assert_eq!(code, 0, "{said}");
    let last = stored();
    let (run, earlier) = (&last["backends"]["sim"], &first["backends"]["sim"]);
    assert_eq!(
        (&run["outcome"]["points"], &run["mutations"], &last["map"]),
        (&20.into(), &earlier["mutations"], &map["map"])
    );
    let (code, said) = lab.reproduce(&["--list", "--papers", "papers"]);
    let row = said.lines().find(|line| line.contains("more.0")).unwrap_or_default();
    assert!(code == 0 && row.contains("  reproduced  1 of 1, ratio "), "{said}");
    assert!(
        row.ends_with("  More buffer, fewer PAUSEs") && said.contains("\nConclusions of 1 figure: 1 reproduced.\n"),
        "{said}"
    );
    let (code, said) = lab.reproduce(&["--list", "--json", "--papers", "papers"]);
    assert!(code == 0 && said.contains("\"conclusions\": \"reproduced\""), "{said}");
    // Not the paper's experiment, and another experiment's results.
    let (code, said) = weir("reproduce", &["--store", "--set", "switch.buffer.size=2MB"]);
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
    let other = last.to_string().replace("\"id\":\"more.0\"", "\"id\":\"more.1\"");
    fs::write(lab.path("papers/more.0/result.json"), other).unwrap();
    let (code, said) = lab.reproduce(&["--list", "--papers", "papers"]);
    assert!(
        code == 2 && said.contains("result.json: weir-result-1 of more.1; expected weir-result-1 of more.0"),
        "{said}"
    );
}

#[test]
fn how_late_a_run_may_be_is_a_share_of_its_time_with_real_frames() {
    let lab = Lab::new(PAPER);
    let (code, said) = lab.reproduce(&["more.0", "--lateness", "2"]);
    assert!(code == 2 && said.contains("--lateness: virtual time is never late; leave it out"), "{said}");
    for wrong in ["-1", "101", "NaN", "a little"] {
        let (code, said) = lab.reproduce(&["more.0", "--backend", "dpdk", &format!("--lateness={wrong}")]);
        assert!(code == 2 && said.contains("0 to 100 percent: --lateness 2"), "{wrong}: {said}");
    }
}

/// Weir's own experiment with real hosts: all its points are valid, and an experiment without such hosts is refused.
#[test]
#[cfg(feature = "dpdk")]
fn real_hosts_run_what_has_some() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/spfc-testbed-guests");
    let lab = Lab::new(&PAPER.replace("[takes]", "backends = [\"sim\", \"hosts\"]\n\n[takes]"));
    // With emulated hosts a run takes 47 ms a hundred times slower, as the sweep and not the scenario has it, and three seconds besides; guests
    // run 46 to 53 ms five hundred times slower, and boot.
    for (backend, takes) in [("sim", ""), ("dpdk", "about 92 s in all"), ("hosts", "about 12 min in all")] {
        let (code, said) = lab.reproduce(&[own, "--backend", backend, "--dry-run"]);
        assert!(
            code == 0 && said.contains("spfc-testbed-guests: 12 runs") && said.contains(takes),
            "{backend}: {said}"
        );
    }
    let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/papers");
    let (code, said) = lab.reproduce(&["all", "--papers", papers, "--backend", "hosts", "--dry-run"]);
    assert!(code == 2 && said.contains("each of these experiments has no real hosts"), "{said}");
    let (code, said) = lab.reproduce(&["more.0", "--backend", "hosts", "--dry-run"]);
    assert!(code == 2 && said.contains("no host of the scenario says how it is reached"), "{said}");
}
