//! Report as plain text, no wider than a terminal.

use std::fmt::Write as _;

use super::input::{Input, Run, over_seeds};
use super::key_figures::key_figures;
use super::page::{noted, origins, title};
use super::sections::{Plots, plots};
use super::snapshots;
use super::topology;
use crate::Failure;
use crate::run::traffic::{bin_cells, unfinished};
use crate::table::{Table, count};

const WIDTH: usize = 100;
/// Characters of a sparkline.
const SPARK: usize = 48;
/// Maximum number of runs with sparklines.
const SPARK_RUNS_MAX: usize = 16;

/// Renders the report; `colors` for a terminal.
pub(super) fn report(input: &Input, colors: bool) -> Result<String, Failure> {
    let runs = &input.runs;
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", plain(&title(runs)));
    let verdict = input.verdict();
    let (on, off) = match (colors, verdict.is_good) {
        (false, _) => ("", ""),
        (true, true) => ("\x1b[1;32m", "\x1b[0m"),
        (true, false) => ("\x1b[1;31m", "\x1b[0m"),
    };
    let _ = writeln!(text, "{on}{}{off}", verdict.headline);
    for finding in &verdict.findings {
        wrapped(&mut text, &format!("{}: {}", finding.run, finding.text));
    }
    text.push('\n');
    comparison(&mut text, runs);
    if let Some(rows) = over_seeds(runs) {
        let plain_row = |row: Vec<String>| row.iter().map(|cell| plain(cell)).collect::<Vec<String>>();
        let _ = writeln!(text, "Means over seeds\n{}", Table::of_rows(rows.into_iter().map(plain_row)));
    }
    for run in runs {
        messages(&mut text, run, runs.len() == 1);
    }
    over_time(&mut text, &plots(runs)?, runs);
    for run in runs {
        at_instants(&mut text, run, runs.len() == 1)?;
    }
    let notes: Vec<String> =
        input.left_out.iter().map(|reason| format!("left out: {reason}")).chain(noted(runs)).collect();
    if !notes.is_empty() {
        text += "Notes\n";
        notes.iter().for_each(|note| wrapped(&mut text, note));
        text.push('\n');
    }
    let mut topologies: Vec<String> =
        runs.iter().filter_map(|run| run.topology.as_ref()).map(topology::description).collect();
    topologies.dedup();
    if !topologies.is_empty() {
        text += "Topology\n";
        topologies.iter().for_each(|description| wrapped(&mut text, description));
        text.push('\n');
    }
    text += "Provenance\n";
    for (name, cells) in origins(runs) {
        match cells.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => {
                wrapped(&mut text, &format!("{name}: {first}"))
            }
            _ => runs
                .iter()
                .zip(&cells)
                .for_each(|(run, cell)| wrapped(&mut text, &format!("{name}, {}: {cell}", run.label))),
        }
    }
    Ok(text)
}

/// Appends the key figures, with as many runs per table as fit.
fn comparison(text: &mut String, runs: &[Run]) {
    let figures = key_figures(runs);
    let first = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0) + 2;
    let width = |run: usize| {
        let cells = figures.iter().map(|figure| figure.cells[run].chars().count());
        cells.chain([runs[run].label.chars().count()]).max().unwrap_or(0) + 2
    };
    let mut from = 0;
    while from < runs.len() {
        let (mut to, mut used) = (from, first);
        while to < runs.len() && (to == from || used + width(to) <= WIDTH) {
            used += width(to);
            to += 1;
        }
        let mut table =
            Table::new(std::iter::once(String::new()).chain(runs[from..to].iter().map(|run| plain(&run.label))));
        for figure in &figures {
            table
                .row(std::iter::once(plain(&figure.name)).chain(figure.cells[from..to].iter().map(|cell| plain(cell))));
        }
        let _ = writeln!(text, "{table}");
        from = to;
    }
}

/// Appends slowdown and FCT by size.
fn messages(text: &mut String, run: &Run, is_alone: bool) {
    for traffic in &run.summary.traffic {
        if traffic.bins.is_empty() {
            continue;
        }
        let unfinished = unfinished(traffic);
        let of = if is_alone { String::new() } else { format!("{}, ", run.label) };
        let _ = writeln!(
            text,
            "{}",
            plain(&format!("{of}{}: {} messages completed{unfinished}", traffic.name, count(traffic.completed)))
        );
        let mut table =
            Table::new(["size", "messages", "slowdown: mean", "50 %", "99 %", "max", "FCT, us: mean", "99 %"]);
        for bin in &traffic.bins {
            let [messages, mean, p50, _, p99, _, max, fct_mean, _, fct_p99] = bin_cells(bin);
            table.row([bin.sizes.clone(), messages, mean, p50, p99, max, fct_mean, fct_p99]);
        }
        let _ = writeln!(text, "{table}");
    }
}

/// Appends the snapshots of all queues.
fn at_instants(text: &mut String, run: &Run, is_alone: bool) -> Result<(), Failure> {
    let (stood, left_out) = snapshots::read(&run.directory)?;
    let of = if is_alone { String::new() } else { format!("{}: ", run.label) };
    for snapshot in &stood {
        let _ = writeln!(text, "{}", plain(&format!("{of}{}", snapshots::heading(snapshot))));
        let mut table = Table::new(snapshots::HEAD);
        snapshot.rows.iter().for_each(|row| table.row(row.iter().map(|cell| plain(cell))));
        let _ = writeln!(text, "{table}");
    }
    if left_out > 0 {
        let _ = writeln!(text, "{}\n", plain(&format!("{of}{}", snapshots::left_out_note(left_out))));
    }
    Ok(())
}

/// Appends the page's plots, a sparkline for each of their lines.
fn over_time(text: &mut String, plots: &Plots, runs: &[Run]) {
    if runs.len() > SPARK_RUNS_MAX {
        return;
    }
    for section in plots.sections.iter().filter(|section| ["ingress", "pool", "flows"].contains(&&*section.id)) {
        let Some(first) = section.plots.first() else { continue };
        let _ = writeln!(text, "{}: {}, up to", section.title, first.chart.y.label);
        for plot in &section.plots {
            if runs.len() > 1 {
                let _ = writeln!(text, "  {}", plain(&plot.caption));
            }
            // A dashed line among few is a limit.
            for line in plot.chart.lines.iter().filter(|line| !line.is_dashed).take(4) {
                let at = plot.chart.at.map_or(&[][..], |at| plots.columns.values(at));
                let values = plots.columns.values(line.column);
                let most = values.iter().copied().fold(0.0, f64::max);
                let spark = spark(at, values, plot.chart.x.to, plot.chart.y.to);
                let name: String = plain(&line.name).chars().take(24).collect();
                let _ = writeln!(text, "    {name:<24} {spark} {most:>9.1}");
            }
        }
        text.push('\n');
    }
}

/// Sparkline with the largest value of each part of the time.
fn spark(at: &[f64], values: &[f64], end: f64, top: f64) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut most = [0.0_f64; SPARK];
    for (at, value) in at.iter().zip(values).filter(|(_, value)| value.is_finite()) {
        let place = ((at / end * SPARK as f64) as usize).min(SPARK - 1);
        most[place] = most[place].max(*value);
    }
    // Values above 0 have a block.
    most.iter().map(|value| BLOCKS[((value / top * 8.0).ceil() as usize).min(8)]).collect()
}

/// Appends a paragraph with a hanging indent; words longer than a line are not split.
fn wrapped(text: &mut String, paragraph: &str) {
    let mut line = String::from(" ");
    for word in plain(paragraph).split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.trim() != "" {
            let _ = writeln!(text, "{line}");
            line = String::from("   ");
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(text, "{line}");
}

/// Replaces control characters, which a terminal would interpret.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_rise_with_values() {
        let at: Vec<f64> = (0..480).map(f64::from).collect();
        let line = spark(&at, &at, 480.0, 480.0);
        assert_eq!(line.chars().count(), SPARK);
        assert!(line.starts_with("▁▁") && line.ends_with("█"), "{line}");
        assert_eq!(spark(&[1.0], &[f64::NAN], 2.0, 1.0).trim(), "");
    }

    #[test]
    fn lines_are_no_wider_than_the_terminal() {
        let mut text = String::new();
        wrapped(&mut text, &"many words \x1b[31m".repeat(30));
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(!text.contains('\x1b'));
    }
}
