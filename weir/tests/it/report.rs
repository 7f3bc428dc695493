//! `weir report` through the command: its content, its errors, and its self-contained page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Two hosts send to a third; the flow's name contains HTML.
const SCENARIO: &str = "[scenario]\nname = \"incast\"\nend = \"300us\"\nsample_every = \"5us\"\nseed = 7\n\
    [switch]\nmtu = 1500\n\
    [switch.buffer]\nsize = \"400KB\"\npolicy = \"dt\"\n[switch.buffer.dt]\nalpha = \"1/16\"\n[switch.classes]\npreset = \"roce\"\n\
    [switch.pfc]\nreaction = \"0s\"\n[topology]\nkind = \"single\"\nhosts = 4\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
    [[workloads]]\nname = \"incast\"\nkind = \"incast\"\nclass = 3\nsizes = \"60KB\"\nreceivers = [\"H0\"]\nfan_in = 3\n\
    [[runs]]\nname = \"DT </script><b>\"\n[[runs]]\nname = \"static\"\n[runs.switch.buffer]\npolicy = \"static\"\n";

struct Lab(TempDir);

impl Lab {
    /// With the scenario's runs in `runs`.
    fn new() -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        fs::write(lab.path("lab.toml"), SCENARIO).unwrap();
        let (code, said) = lab.weir(&["testbed", "run", "lab.toml", "--backend", "sim", "-o", "runs"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("as a page: weir report runs"), "{said}");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code, and all that was printed.
    fn weir(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).current_dir(self.0.path()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.code().unwrap_or(-1), said)
    }

    fn good(&self, arguments: &[&str]) -> String {
        let (code, said) = self.weir(arguments);
        assert_eq!(code, 0, "{said}");
        said
    }

    /// Message of a wrong call, which must leave no page.
    fn refused(&self, arguments: &[&str]) -> String {
        let (code, said) = self.weir(arguments);
        assert_eq!(code, 2, "{said}");
        let pages = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let pages: Vec<_> = pages.filter(|name| name.to_string_lossy().contains("report")).collect();
        assert!(pages.is_empty(), "{pages:?}");
        said
    }
}

/// The first run's folder.
const FIRST: &str = "runs/dt-script-b";

fn summary(run: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn queues_at_chosen_instants_have_tables() {
    let lab = Lab(tempfile::tempdir().unwrap());
    fs::write(lab.path("lab.toml"), SCENARIO.replacen("seed = 7", "seed = 7\nsnapshots = [\"20us\"]", 1)).unwrap();
    let run = |more: &[&str]| {
        let common = ["testbed", "run", "lab.toml", "--backend", "sim", "-o", "runs", "--run", "static"];
        lab.weir(&[&common[..], more].concat())
    };
    let (code, said) = run(&["--snapshot", "soon"]);
    assert!(
        code == 2 && said.contains("--snapshot: \"soon\" is not a time with its unit: it begins with no number"),
        "{said}"
    );
    let (code, said) = run(&["--until", "100us", "--snapshot", "50us,101us"]);
    assert!(code == 2 && said.contains("--snapshot 101us: the run ends at 100us; write no more than that"), "{said}");
    let (code, said) = run(&["--snapshot", "40us,30us", "--snapshot", "20us"]);
    assert_eq!(code, 0, "{said}");
    let rows = fs::read_to_string(lab.path("runs/static/queues.csv")).unwrap();
    let mut instants: Vec<&str> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    instants.dedup();
    assert_eq!(instants, ["20.000000", "30.000000", "40.000000"]);
    // Three ports send to a fourth, and egress holds what ingress does.
    let held = |column: usize| -> u64 {
        let rows = rows.lines().filter(|row| row.starts_with("30.000000,"));
        rows.map(|row| row.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum()
    };
    let egress = held(8);
    assert!(egress > 0 && held(3) + held(4) + held(5) == egress, "{rows}");
    let told = format!(" {}", (egress + 500) / 1_000);
    let text = lab.good(&["report", "runs", "--text"]);
    assert!(
        ["Queues at 0.02 ms: ", "Queues at 0.03 ms: ", "Queues at 0.04 ms: "].iter().all(|of| text.contains(of)),
        "{text}"
    );
    let all = text.split("Queues at 0.03 ms").nth(1).unwrap().lines().find(|line| line.contains("  all ")).unwrap();
    assert!(all.contains(&told), "{told}: {all}");
    lab.good(&["report", "runs", "-o", "page.html"]);
    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    assert!(page.contains("<section id=\"snapshots\">") && page.contains("href=\"#snapshots\""));
    assert!(page.contains("<caption>Queues at 0.03 ms: "));
}

#[test]
fn the_text_tells_what_the_runs_came_to() {
    let lab = Lab::new();
    let text = lab.good(&["report", "runs", "--text"]);
    assert!(text.starts_with("incast: 2 runs\n\nNo failure.\n"), "{text}");
    let pauses = |run: &str| summary(&lab.path(run))["flow_control"]["pauses_sent"].to_string();
    let row = text.lines().find(|line| line.contains("PAUSEs sent by switches")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().rev().take(2).collect();
    assert_eq!(cells, [pauses("runs/static"), pauses(FIRST)], "in the scenario's order");
    assert_ne!(cells[1], "0");
    for part in
        ["incast: 3 messages completed", "slowdown: mean", "Ingress queues", "▂▂▂", "seed: 7", "one switch, 4 hosts\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.contains("/")), "{text}");
    assert!(!text.contains('\x1b'), "no colours but on a terminal");
    assert!(!lab.path("report.html").exists());
    lab.good(&["report", "runs/static", "--text", "-o", "one.txt"]);
    assert!(fs::read_to_string(lab.path("one.txt")).unwrap().starts_with("incast: static\n\nNo failure."));
}

#[test]
fn the_page_needs_nothing_else_and_names_stay_names() {
    let lab = Lab::new();
    let said = lab.good(&["report", FIRST, "runs/static"]);
    assert!(said.starts_with("report of 2 runs: report.html"), "{said}");
    let page = fs::read_to_string(lab.path("report.html")).unwrap();
    assert!(page.contains("DT &lt;/script&gt;&lt;b&gt;") && !page.contains("<b>\""), "the run's name is escaped");
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count(), "no name ends a script");
    assert!(!page.contains("DT </script>"));
    // The library's own first comment names its source; nothing is fetched.
    for (place, _) in page.match_indices("://") {
        let from = page[..place].rfind(['\n', '"', '(']).unwrap_or(0);
        assert!(page[from..place].contains("/*! http"), "{}", &page[from..place + 40]);
    }
    for part in [" src=", "@import", "url(", "<link rel=\"stylesheet", "fetch("] {
        assert!(!page.contains(part), "{part}");
    }
    for id in ["summary", "ingress", "segments", "pool", "rates", "pauses", "distributions", "topology", "provenance"] {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
    }
    for id in ["victim", "stages", "peer-rates", "headroom-estimate", "flows"] {
        assert!(!page.contains(&format!("<section id=\"{id}\">")), "nothing to show: {id}");
    }
    for data in ["columns", "charts"] {
        let from = page.find(&format!("id=\"{data}\">")).unwrap() + data.len() + 6;
        let json = &page[from..from + page[from..].find("</script>").unwrap()];
        serde_json::from_str::<serde_json::Value>(json).unwrap();
    }
    lab.good(&["report", FIRST, "runs/static", "-o", "again.html"]);
    assert_eq!(page, fs::read_to_string(lab.path("again.html")).unwrap(), "the same runs, the same page");
}

#[test]
fn a_failed_run_stands_first() {
    let lab = Lab::new();
    let path = lab.path(FIRST).join("summary.json");
    let mut failed = summary(&lab.path(FIRST));
    failed["failures"] = serde_json::json!(["2 lossless frames <were> lost"]);
    fs::write(&path, failed.to_string()).unwrap();
    let text = lab.good(&["report", "runs", "--text"]);
    assert!(text.contains("1 of 2 runs failed.\n  DT </script><b>: 2 lossless frames <were> lost"), "{text}");
    lab.good(&["report", "runs"]);
    let page = fs::read_to_string(lab.path("report.html")).unwrap();
    let [verdict, plots] = ["class=\"verdict failed\"", "id=\"ingress\""].map(|part| page.find(part).unwrap());
    assert!(verdict < plots && page.contains("2 lossless frames &lt;were&gt; lost"));
}

#[test]
fn what_is_no_run_is_refused_with_what_to_name() {
    let lab = Lab::new();
    assert!(
        lab.refused(&["report", "nowhere"]).contains("nowhere: there is no such directory; name a directory that weir")
    );
    assert!(lab.refused(&["report", "lab.toml"]).contains("lab.toml: is a file; name a directory"));
    fs::create_dir(lab.path("empty")).unwrap();
    assert!(lab.refused(&["report", "empty"]).contains("empty: no run's directory: summary.json is missing"));
    assert!(lab.refused(&["report", FIRST, "nowhere"]).contains("nowhere: there is no such directory"));
    let said = lab.refused(&["report", FIRST, "-o", "missing/report.html"]);
    assert!(
        said.contains("missing/report.html: can't be written") && said.contains("name another file with -o"),
        "{said}"
    );
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let lab = Lab::new();
    let file = |name: &str| lab.path(FIRST).join(name);
    let with = |name: &str, text: &str| {
        let before = fs::read_to_string(file(name)).unwrap();
        fs::write(file(name), text).unwrap();
        let said = lab.refused(&["report", FIRST]);
        fs::write(file(name), before).unwrap();
        said
    };
    let provenance = fs::read_to_string(file("provenance.json")).unwrap();
    let said = with("provenance.json", &provenance.replace("weir-run-2", "weir-run-9").replace("0.1.0", "9.9.9"));
    assert!(said.contains("provenance.json: the run's files are of format weir-run-9, which weir 9.9.9 ("), "{said}");
    assert!(said.contains("run the scenario again"), "{said}");
    // What an earlier version left is read still.
    fs::write(file("provenance.json"), provenance.replace("weir-run-2", "weir-run-1")).unwrap();
    lab.good(&["report", FIRST, "--text"]);
    fs::write(file("provenance.json"), &provenance).unwrap();
    let said = with("summary.json", "{\"failures\": []}");
    assert!(
        said.contains("summary.json: missing field") && said.contains("make the report with the version"),
        "{said}"
    );
    let said = with("summary.json", "{\"failures\": [");
    assert!(said.contains("the file is damaged: run the scenario again") && !said.contains("version"), "{said}");
    // Of several runs the others are shown.
    let whole = fs::read_to_string(file("summary.json")).unwrap();
    for cut in ["", "no JSON", "{\"failures\": []}", &whole[..whole.len() / 2]] {
        fs::write(file("summary.json"), cut).unwrap();
        let text = lab.good(&["report", "runs", "--text"]);
        assert!(text.contains("left out: ") && text.contains(&format!("{FIRST}/summary.json: ")), "{text}");
        assert!(text.contains("incast: static"), "{text}");
    }
    fs::write(file("summary.json"), whole).unwrap();
    assert!(with("series.csv", "t_us,x\n1,two\n").contains("series.csv: can't be read: line 2: `two` is no number"));
    // A killed run leaves a part of a row, which is skipped.
    assert!(with("series.csv", "t_us,x\n1,two\n2,thr").contains("line 2: `two`"));
    assert!(with("events.csv", "t_us\n1\n").contains("events.csv: can't be read"));
    assert!(with("fct.csv", "a,b\n1,2\n").contains("fct.csv:1: there is no column \"flow\"; run the scenario again"));
    fs::remove_file(file("provenance.json")).unwrap();
    let said = lab.refused(&["report", FIRST]);
    assert!(said.contains("dt-script-b: provenance.json is missing, so the run is incomplete"), "{said}");
    fs::write(file("provenance.json"), provenance).unwrap();
    fs::remove_file(file("summary.json")).unwrap();
    assert!(lab.refused(&["report", FIRST]).contains("dt-script-b: summary.json is missing: the run did not end"));
    let text = lab.good(&["report", "runs", "--text"]);
    assert!(
        text.contains("left out: runs/dt-script-b: summary.json is missing") && text.contains("incast: static"),
        "{text}"
    );
}

#[test]
fn points_of_a_sweep_stand_with_their_parameters() {
    let lab = Lab::new();
    let sweep = "scenario = \"lab.toml\"\nruns = [\"static\"]\nseeds = [3]\n[parameters]\n\"workloads.incast.sizes\" = [\"10KB\", \"40KB\"]\n";
    fs::write(lab.path("sweep.toml"), sweep).unwrap();
    lab.good(&["sweep", "sweep.toml", "-o", "swept"]);
    let text = lab.good(&["report", "swept", "--text"]);
    let row = text.lines().find(|line| line.contains("workloads.incast.sizes")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.trim_end().ends_with("40KB") && row.contains("10KB"), "{row}");
    assert!(text.contains("seed: 3"), "{text}");
}
