//! `weir compare ns3`: compares completion times and pauses of runs with those of an ns-3 simulator.

mod bins;
mod reading;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_results::measure::SIZE_BINS;
use weir_results::plot::{ConfidenceInterval, Figure, Panel, PlotLine, Style, XAxis};
use weir_units::{Bytes, count};

use crate::Failure;
use crate::files::json_text;
use crate::table::Table;
use bins::{BinVerdict, MEASURES, Slowdowns, Spread, deviation, spread, spreads, verdict};
use reading::{CompareInput, ComparedRun, Standalone, read};

/// Arguments of `weir compare ns3`.
#[derive(Debug, clap::Args)]
pub struct Ns3Arguments {
    /// The simulator's fct.txt and pfc.txt, one of each for each of its seeds, and directories of runs.
    #[arg(required = true, value_name = "FCT|PFC|RUN")]
    paths: Vec<PathBuf>,
    /// Maximum difference that counts as agreement, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    within: f64,
    /// Maximum difference of the number of PAUSEs, in percent.
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT")]
    pauses_within: f64,
    /// Draw both sides' slowdowns by size: an SVG, or where built with it a PNG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
}

/// Comparison of both sides.
pub struct Comparison {
    theirs: Vec<ComparedRun>,
    ours: Vec<ComparedRun>,
    rows: Vec<ComparisonRow>,
    notes: Vec<String>,
}

struct ComparisonRow {
    bin: &'static str,
    /// Numbers of messages: the simulator's and Weir's.
    messages: [usize; 2],
    measure: &'static str,
    sides: [Option<Spread>; 2],
    verdict: BinVerdict,
}

/// Compares both sides and prints the result.
///
/// # Errors
/// Files that are unreadable or of another kind. A difference in any bin, for exit code 1.
pub fn ns3(arguments: &Ns3Arguments) -> Result<(), Failure> {
    let comparison = Comparison::read(&arguments.paths, arguments.within, arguments.pauses_within)?;
    let Comparison { theirs, ours, rows, notes } = &comparison;
    if let Some(path) = &arguments.plot {
        plot(rows, path)?;
    }
    match arguments.json {
        true => print!("{}", json_text(&comparison.json())),
        false => {
            println!("{} of the simulator, {} of Weir\n", runs_of(theirs.len()), runs_of(ours.len()));
            print!("{}", table(rows));
            notes.iter().for_each(|note| println!("\n{note}"));
            arguments.plot.iter().for_each(|path| println!("\nfigure: {}", path.display()));
        }
    }
    let differing = rows.iter().filter(|row| matches!(row.verdict, BinVerdict::Differs | BinVerdict::Missing)).count();
    match differing {
        0 => Ok(()),
        n => Err(Failure::Run(format!("{n} of {} figures differ", rows.len()))),
    }
}

impl Comparison {
    /// Reads both sides and compares them: `within` and `pauses_within` are the maximum differences that count as agreement, in percent.
    ///
    /// # Errors
    /// Files that are unreadable or of another kind, or no percentages.
    pub fn read(paths: &[PathBuf], within: f64, pauses_within: f64) -> Result<Comparison, Failure> {
        for (option, percent) in [("--within", within), ("--pauses-within", pauses_within)] {
            if !(0.0..=1_000.0).contains(&percent) {
                return Err(Failure::Argument(format!("{option} {percent}: write per cent, like 5")));
            }
        }
        Ok(compare(sides(paths)?, within, pauses_within))
    }

    /// Comparison as of `weir compare ns3 --json`.
    pub fn json(&self) -> Value {
        as_json(&self.rows, &self.theirs, &self.ours, &self.notes)
    }
}

fn compare(sides: ComparedRuns, within: f64, pauses_within: f64) -> Comparison {
    let ComparedRuns { theirs, their_pauses, ours } = sides;
    let standalone = Standalone::from_runs(&theirs);
    let mut by_own = 0;
    let mut slowdowns = |sides: &[ComparedRun]| -> Vec<Slowdowns> {
        let mut of = |side: &ComparedRun| {
            let all = side.messages.iter().filter_map(|message| {
                let (slowdown, is_theirs) = standalone.slowdown(message)?;
                by_own += usize::from(!is_theirs);
                Some((Bytes::new(message.bytes), slowdown))
            });
            all.collect()
        };
        sides.iter().map(&mut of).collect()
    };
    let runs = [slowdowns(&theirs), slowdowns(&ours)];
    let mut rows = Vec::new();
    for bin in SIZE_BINS {
        let of_sides = [spreads(bin, &runs[0]), spreads(bin, &runs[1])];
        if of_sides == [None, None] {
            continue;
        }
        let messages = [bins::count(bin, &runs[0]), bins::count(bin, &runs[1])];
        for (n, measure) in MEASURES.into_iter().enumerate() {
            let sides = of_sides.map(|side| side.map(|measures| measures[n]));
            rows.push(row(bin.name, messages, measure, sides, within));
        }
    }
    let our_pauses: Option<Vec<u64>> = ours.iter().map(|side| side.pauses).collect();
    if let (Some(our_pauses), false) = (&our_pauses, their_pauses.is_empty()) {
        let sides = [&their_pauses, our_pauses].map(|pauses| Some(spread(pauses.iter().map(|n| *n as f64))));
        rows.push(row("", [0, 0], "PAUSEs", sides, pauses_within));
    }
    let mut notes = Vec::new();
    if by_own > 0 {
        notes.push(format!(
            "{} messages of runs, which the simulator has none like, have their slowdown by Weir's own ideal time",
            count(by_own as u64)
        ));
    }
    let unfinished: usize = ours.iter().map(|side| side.unfinished).sum();
    if unfinished > 0 {
        notes.push(format!(
            "{} messages of runs did not finish and are in none of the figures, so that these are too good: an fct.txt has \
             finished messages alone",
            count(unfinished as u64)
        ));
    }
    if our_pauses.is_none() && !their_pauses.is_empty() {
        notes.push("PAUSEs are not compared: a run has pfc.txt with `weir testbed run --ns3-files`".to_owned());
    }
    if theirs.len() == 1 || ours.len() == 1 {
        notes.push("one run on a side has no spread: name several seeds of each".to_owned());
    }
    Comparison { theirs, ours, rows, notes }
}

fn runs_of(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

#[derive(Default)]
struct ComparedRuns {
    /// Runs of the simulator.
    theirs: Vec<ComparedRun>,
    /// Number of pauses in each `pfc.txt` of the simulator.
    their_pauses: Vec<u64>,
    ours: Vec<ComparedRun>,
}

fn sides(paths: &[PathBuf]) -> Result<ComparedRuns, Failure> {
    let ComparedRuns { mut theirs, their_pauses: mut pauses, mut ours } = ComparedRuns::default();
    for path in paths {
        match read(path)? {
            CompareInput::Fct(side) => theirs.push(side),
            CompareInput::Pfc(begun) => pauses.push(begun),
            CompareInput::Runs(runs) => ours.extend(runs),
        }
    }
    for (sides, what) in
        [(&theirs, "an fct.txt of the simulator"), (&ours, "the directory of a run, of `weir testbed run -o DIR`")]
    {
        if sides.is_empty() {
            return Err(Failure::Argument(format!("there is nothing to compare with: name {what} too")));
        }
        if let Some(side) = sides.iter().find(|side| side.messages.is_empty()) {
            return Err(Failure::Argument(format!("{}: no message was completed", side.name)));
        }
    }
    Ok(ComparedRuns { theirs, their_pauses: pauses, ours })
}

fn row(
    bin: &'static str,
    messages: [usize; 2],
    measure: &'static str,
    sides: [Option<Spread>; 2],
    within_percent: f64,
) -> ComparisonRow {
    let verdict = match sides {
        [Some(theirs), Some(ours)] => verdict(theirs, ours, within_percent / 100.0),
        _ => BinVerdict::Missing,
    };
    ComparisonRow { bin, messages, measure, sides, verdict }
}

impl ComparisonRow {
    fn deviation(&self) -> Option<f64> {
        deviation(self.sides[0]?, self.sides[1]?)
    }
}

fn table(rows: &[ComparisonRow]) -> String {
    let mut table = Table::new(["size", "messages", "", "simulator", "runs", "Weir", "runs", "deviation", "verdict"])
        .with_text_last();
    let mut above = None;
    for row in rows {
        let is_first = above != Some(row.bin);
        above = Some(row.bin);
        let messages = match row.messages {
            [0, 0] => String::new(),
            [theirs, ours] if theirs == ours => count(theirs as u64),
            [theirs, ours] => format!("{} / {}", count(theirs as u64), count(ours as u64)),
        };
        let digits = if row.bin.is_empty() { 0 } else { 3 };
        let value = |side: Option<Spread>| side.map_or("-".to_owned(), |side| format!("{:.digits$}", side.value));
        let range = |side: Option<Spread>| match side {
            Some(Spread { least, most, runs, .. }) if runs > 1 => format!("{least:.digits$} - {most:.digits$}"),
            _ => String::new(),
        };
        let [theirs, ours] = row.sides;
        table.row([
            if is_first { row.bin.to_owned() } else { String::new() },
            if is_first { messages } else { String::new() },
            row.measure.to_owned(),
            value(theirs),
            range(theirs),
            value(ours),
            range(ours),
            row.deviation().map_or("-".to_owned(), |share| format!("{:+.1} %", share * 100.0)),
            row.verdict.label().to_owned(),
        ]);
    }
    table.to_string()
}

fn as_json(rows: &[ComparisonRow], theirs: &[ComparedRun], ours: &[ComparedRun], notes: &[String]) -> Value {
    let names = |sides: &[ComparedRun]| sides.iter().map(|side| side.name.clone()).collect::<Vec<_>>();
    let side = |side: Option<Spread>| {
        side.map(|side| json!({ "value": side.value, "least": side.least, "most": side.most, "runs": side.runs }))
    };
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "size": row.bin,
                "measure": row.measure,
                "messages": { "simulator": row.messages[0], "weir": row.messages[1] },
                "simulator": side(row.sides[0]),
                "weir": side(row.sides[1]),
                "deviation": row.deviation(),
                "verdict": row.verdict.label(),
            })
        })
        .collect();
    json!({ "simulator": names(theirs), "weir": names(ours), "figures": rows, "notes": notes })
}

/// Draws both sides, with a panel for each measure.
fn plot(rows: &[ComparisonRow], path: &Path) -> Result<(), Failure> {
    let panel = |measure: &&str| {
        let of_measure: Vec<&ComparisonRow> = rows.iter().filter(|row| row.measure == *measure).collect();
        let line = |n: usize, name: &str| {
            let places = (0u32..).map(f64::from).zip(&of_measure).filter_map(|(x, row)| Some((x, row.sides[n]?)));
            let places: Vec<(f64, Spread)> = places.collect();
            let several = places.iter().filter(|(_, side)| side.runs > 1);
            PlotLine {
                name: name.to_owned(),
                style: Style::Bars,
                points: places.iter().map(|(x, side)| (*x, side.value)).collect(),
                intervals: several
                    .map(|(x, side)| ConfidenceInterval { x: *x, low: side.least, high: side.most })
                    .collect(),
                ..PlotLine::default()
            }
        };
        Panel {
            title: (*measure).to_owned(),
            x_axis: XAxis::Categories(of_measure.iter().map(|row| row.bin.to_owned()).collect()),
            y_label: "slowdown".to_owned(),
            lines: vec![line(0, "simulator"), line(1, "Weir")],
            ..Panel::default()
        }
    };
    let figure = Figure {
        title: "Slowdowns by size, with the least and most of the runs".to_owned(),
        columns: 2,
        panels: MEASURES.iter().map(panel).collect(),
        ..Figure::default()
    };
    let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    #[cfg(feature = "png")]
    if is_png {
        let drawn = figure.to_svg().and_then(|svg| crate::picture::write_svg_as_png(&svg, path));
        return drawn.map_err(|error| Failure::Run(error.to_string()));
    }
    if is_png {
        return Err(Failure::Unavailable("this weir is built without PNG; write --plot FILE.svg".to_owned()));
    }
    figure.write_svg(path).map_err(|error| Failure::Run(error.to_string()))
}

fn wrong(path: &Path, line: Option<usize>, what: &str) -> Failure {
    let path = path.display();
    Failure::Argument(match line {
        Some(line) => format!("{path}:{line}: {what}"),
        None => format!("{path}: {what}"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn compared(folder: &Path, names: &[&str]) -> Result<(), Failure> {
        ns3(&Ns3Arguments {
            paths: names.iter().map(|name| folder.join(name)).collect(),
            within: 5.0,
            pauses_within: 10.0,
            plot: Some(folder.join("figure.svg")),
            json: false,
        })
    }

    fn message(result: Result<(), Failure>) -> (u8, String) {
        let failure = result.unwrap_err();
        (failure.exit_code(), failure.into_message())
    }

    /// Creates a folder with a simulator's files and Weir's runs, whose completion times are `times` as long.
    fn results(times: f64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        // Nodes 0 and 5; the simulator's standalone times are 8 us and 80 us.
        write(
            "fct.txt",
            "0b000001 0b000501 10000 100 5000 2000000000 16000 8000\n0b000001 0b000501 10001 100 50000 2000000000 80000 80000\n",
        );
        write("pfc.txt", "2000000100 6 1 1 1\n2000000200 6 1 1 0\n");
        fs::create_dir_all(folder.path().join("out/one")).unwrap();
        let [small, large] = [16.0, 80.0].map(|us| us * times);
        write(
            "out/one/fct.csv",
            &format!(
                "flow,released_us,bytes,fct_us,from,to,ideal_us\nflows,0,5000,{small},H0,H5,7.0\nflows,0,50000,{large},H0,H5,\n"
            ),
        );
        write("out/one/pfc.txt", "100 6 1 1 1\n200 6 1 1 0\n");
        folder
    }

    #[test]
    fn slowdowns_are_by_the_simulators_standalone_times() {
        let alike = results(1.02);
        assert!(compared(alike.path(), &["fct.txt", "pfc.txt", "out"]).is_ok());
        assert!(fs::read_to_string(alike.path().join("figure.svg")).unwrap().contains("simulator"));
        // A message faster than its ideal time counts as slowdown 1 on both sides: only the small message's bin and the
        // bin of all differ.
        let fast = results(0.9);
        assert_eq!(message(compared(fast.path(), &["fct.txt", "out/one"])), (1, "7 of 12 figures differ".to_owned()));
    }

    #[test]
    fn messages_that_did_not_finish_are_counted_apart() {
        let folder = results(1.0);
        let file = folder.path().join("out/one/fct.csv");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text + "flows,0,50000,,H0,H5,\n").unwrap();
        assert!(compared(folder.path(), &["fct.txt", "pfc.txt", "out"]).is_ok());
        let CompareInput::Runs(runs) = read(&folder.path().join("out")).unwrap() else { panic!("these are runs") };
        assert_eq!((runs[0].messages.len(), runs[0].unfinished), (2, 1));
    }

    #[test]
    fn files_that_are_no_results_are_reported() {
        let folder = results(1.0);
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(folder.path().join("config.txt"), "CC_MODE 1\n").unwrap();
        let (code, text) = message(compared(folder.path(), &["config.txt"]));
        assert_eq!(code, 2);
        assert!(text.starts_with(&format!("{}:1: this is neither fct.txt nor pfc.txt", path("config.txt"))), "{text}");
        fs::write(folder.path().join("bad.txt"), "0b000001 0b00050x 1 1 1 1 1 1\n").unwrap();
        let (_, text) = message(compared(folder.path(), &["bad.txt", "out"]));
        assert!(text.ends_with("bad.txt:1: \"0b00050x\" is not a host's address, like 0b000101"), "{text}");
        let (_, text) = message(compared(folder.path(), &["fct.txt"]));
        assert!(text.starts_with("there is nothing to compare with: name the directory of a run"), "{text}");
        fs::create_dir(folder.path().join("empty")).unwrap();
        let (_, text) = message(compared(folder.path(), &["fct.txt", "empty"]));
        assert!(text.contains("empty: no run is here"), "{text}");
        assert_eq!(message(compared(folder.path(), &["none.txt"])).0, 2);
    }
}
