//! Self-contained HTML page of a report.

use std::fmt::Write as _;

use serde::Serialize;
use weir_results::run_dir::TrafficSummary;

use super::Lead;
use super::charts::Chart;
use super::html::{escaped, in_script};
use super::input::{ConfigFile, Input, Run, RunCell, over_seeds};
use super::key_figures::key_figures;
use super::sections::{Plots, Section, plots};
use super::snapshots::{self, Snapshot};
use super::topology::drawings;
use crate::Failure;
use crate::run::traffic::{BIN_HEAD, bin_cells};
use crate::table::count;

const PLOT_SCRIPT: &str = include_str!("vendor/uPlot.iife.min.js");
const PLOT_STYLE: &str = include_str!("vendor/uPlot.min.css");
const PLOT_LICENCE: &str = include_str!("vendor/LICENSE-uPlot");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// Snapshots of a run, and the number of omitted ones.
type RunSnapshots = (Vec<Snapshot>, usize);

/// Maximum size of the switches' configurations on a page, in bytes: those of a large fabric are all similar.
const CONFIGS_MAX: usize = 30_000;

pub(super) fn page(input: &Input, lead: Option<&Lead>) -> Result<String, Failure> {
    let runs = &input.runs;
    let plots = plots(runs)?;
    let title = lead.map_or_else(|| title(runs), |lead| lead.title.clone());
    let mut html = String::new();
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n\
         <style>\n{PLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        escaped(&title),
        escaped(&title)
    );
    if let Some(lead) = lead {
        lead_section(&mut html, lead);
    }
    let is_folded = lead.is_some_and(|lead| lead.folds_runs);
    if is_folded {
        let runs = if runs.len() == 1 { "One run".to_owned() } else { format!("{} runs", runs.len()) };
        let _ = writeln!(
            html,
            "<details class=\"runs\"><summary>{runs}: summary, plots, topology, configuration</summary>"
        );
    }
    summary(&mut html, input, &plots);
    let run_snapshots = runs.iter().map(|run| snapshots::read(&run.directory)).collect::<Result<Vec<_>, _>>()?;
    contents(&mut html, &plots, &run_snapshots, runs);
    plot_sections(&mut html, &plots, runs);
    snapshots(&mut html, &run_snapshots, runs);
    topology(&mut html, runs);
    configurations(&mut html, runs);
    provenance(&mut html, runs);
    html += if is_folded { "</details>\n</main>\n" } else { "</main>\n" };
    data(&mut html, &plots);
    let _ = writeln!(
        html,
        "<!-- Plots: uPlot. {} -->\n<script>{PLOT_SCRIPT}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>",
        PLOT_LICENCE.replace("--", "- -")
    );
    Ok(html)
}

/// Title made of the scenarios' names.
pub(super) fn title(runs: &[Run]) -> String {
    let mut names: Vec<&str> = runs.iter().map(|run| run.summary.scenario.as_str()).collect();
    names.dedup();
    match (names.as_slice(), runs) {
        ([name], [run]) if run.label != *name => format!("{name}: {}", run.label),
        ([name], [_]) => (*name).to_owned(),
        ([name], runs) => format!("{name}: {} runs", runs.len()),
        (_, runs) => format!("{} runs", runs.len()),
    }
}

fn lead_section(html: &mut String, lead: &Lead) {
    *html += "<section id=\"lead\">\n";
    for sentence in &lead.sentences {
        let _ = writeln!(html, "<p>{}</p>", escaped(sentence));
    }
    if !lead.findings.is_empty() {
        *html += "<ul>\n";
        for finding in &lead.findings {
            let _ = writeln!(html, "<li>{}</li>", escaped(finding));
        }
        *html += "</ul>\n";
    }
    if !lead.numbers.is_empty() {
        *html +=
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\"><table class=\"figures\">\n";
        lead_rows(html, &lead.numbers);
        *html += "</table></div>\n";
    }
    for svg in &lead.figures {
        // HTML allows no XML declaration inside.
        let from = svg.find("<svg").unwrap_or(0);
        let _ = writeln!(html, "<figure class=\"lead\">{}</figure>", &svg[from..]);
    }
    *html += "</section>\n";
}

/// Appends rows of numbers, the head first.
fn lead_rows(html: &mut String, rows: &[Vec<String>]) {
    let Some((head, rows)) = rows.split_first() else { return };
    *html += "<thead>";
    lead_row(html, head, "th scope=\"col\"");
    *html += "</thead>\n<tbody>\n";
    rows.iter().for_each(|row| lead_row(html, row, "td"));
    *html += "</tbody>";
}

/// Appends a row of numbers; the first cell is a heading.
fn lead_row(html: &mut String, cells: &[String], tag: &str) {
    *html += "<tr>";
    for (n, cell) in cells.iter().enumerate() {
        let tag = if n == 0 { "th scope=\"row\"" } else { tag };
        let _ = write!(html, "<{tag}>{}</{}>", escaped(cell), &tag[..2]);
    }
    *html += "</tr>\n";
}

fn summary(html: &mut String, input: &Input, plots: &Plots) {
    let runs = &input.runs;
    let verdict = input.verdict();
    let class = if verdict.is_good { "good" } else { "failed" };
    let _ = writeln!(
        html,
        "<section id=\"summary\">\n<h2>Summary</h2>\n<div class=\"verdict {class}\" role=\"status\"><p><strong>{}</strong></p>",
        escaped(&verdict.headline)
    );
    if !verdict.findings.is_empty() {
        *html += "<ul>\n";
        for finding in &verdict.findings {
            let class = if finding.is_failure { "failure" } else { "finding" };
            let _ = writeln!(
                html,
                "<li class=\"{class}\"><b>{}</b>: {}</li>",
                escaped(&finding.run),
                escaped(&finding.text)
            );
        }
        *html += "</ul>\n";
    }
    *html += "</div>\n";
    *html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Comparison of the runs\"><table class=\"figures\">\n\
              <caption>Key figures</caption>\n<thead><tr><td></td>";
    for run in runs {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&run.label));
    }
    *html += "</tr></thead>\n<tbody>\n";
    for figure in key_figures(runs) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&figure.name));
        for cell in &figure.cells {
            let class = if cell == "FAILED" { " class=\"failure\"" } else { "" };
            let _ = write!(html, "<td{class}>{}</td>", escaped(cell));
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n";
    if let Some(rows) = over_seeds(runs) {
        *html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Figures over seeds\"><table class=\"figures\">\n\
                  <caption>Means over seeds</caption>\n";
        lead_rows(html, &rows);
        *html += "</table></div>\n";
    }
    traffic_tables(html, runs);
    notes(html, input, plots);
    *html += "</section>\n";
}

/// Appends FCT and slowdown by size, for each traffic and run.
fn traffic_tables(html: &mut String, runs: &[Run]) {
    let mut names: Vec<&str> = Vec::new();
    for traffic in runs.iter().flat_map(|run| &run.summary.traffic) {
        if !names.contains(&traffic.name.as_str()) {
            names.push(&traffic.name);
        }
    }
    let has_bins = |name: &str| {
        let traffics = runs.iter().flat_map(|run| &run.summary.traffic);
        traffics.filter(|of| of.name == name).any(|traffic| !traffic.bins.is_empty())
    };
    for name in names.into_iter().filter(|name| has_bins(name)) {
        let _ = write!(
            html,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Messages of {0}\"><table class=\"figures\">\n\
             <caption>{0}: messages by size</caption>\n<thead><tr><th scope=\"col\">size</th><th scope=\"col\" class=\"name\">run</th>",
            escaped(name)
        );
        for head in BIN_HEAD {
            let _ = write!(html, "<th scope=\"col\">{head}</th>");
        }
        *html += "</tr></thead>\n<tbody>\n";
        let of = |run: &Run| run.summary.traffic.iter().find(|of| of.name == name).cloned();
        let traffics: Vec<(&Run, TrafficSummary)> = runs.iter().filter_map(|run| Some((run, of(run)?))).collect();
        let mut sizes: Vec<(bool, u64, String)> = Vec::new();
        for bin in traffics.iter().flat_map(|(_, traffic)| &traffic.bins) {
            let size = (bin.sizes != "all", bin.from_bytes, bin.sizes.clone());
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes.sort();
        for (_, _, size) in sizes {
            for (run, traffic) in &traffics {
                let Some(bin) = traffic.bins.iter().find(|bin| bin.sizes == size) else { continue };
                let cells: String = bin_cells(bin).iter().map(|cell| format!("<td>{cell}</td>")).collect();
                let _ = writeln!(
                    html,
                    "<tr><th scope=\"row\">{}</th><td class=\"name\">{}</td>{cells}</tr>",
                    escaped(&size),
                    escaped(&run.label),
                );
            }
        }
        *html += "</tbody></table></div>\n";
    }
}

/// Appends the runs' notes, omitted runs, and downsampled series.
fn notes(html: &mut String, input: &Input, plots: &Plots) {
    let mut notes: Vec<String> = input.left_out.iter().map(|reason| format!("Left out: {reason}")).collect();
    notes.extend(noted(&input.runs));
    notes.extend(plots.downsampling_notes.iter().cloned());
    if notes.is_empty() {
        return;
    }
    let open = if notes.len() <= 6 { " open" } else { "" };
    let _ = writeln!(html, "<details{open}><summary>Notes ({})</summary><ul>", notes.len());
    for note in notes {
        let _ = writeln!(html, "<li>{}</li>", escaped(&note));
    }
    *html += "</ul></details>\n";
}

/// Notes of the runs; a note of several runs appears once.
pub(super) fn noted(runs: &[Run]) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for run in runs {
        for note in &run.summary.notes {
            match notes.iter_mut().find(|(of, _)| of == note) {
                Some((_, runs)) => runs.push(&run.label),
                None => notes.push((note, vec![&run.label])),
            }
        }
    }
    let texts = notes.into_iter().map(|(note, of)| match of.len() {
        _ if runs.len() == 1 => note.to_owned(),
        n if n == runs.len() => format!("All runs: {note}"),
        _ => format!("{}: {note}", of.join("; ")),
    });
    texts.collect()
}

fn contents(html: &mut String, plots: &Plots, run_snapshots: &[RunSnapshots], runs: &[Run]) {
    *html += "<nav aria-label=\"Contents\"><ul>\n";
    for section in &plots.sections {
        let _ = writeln!(html, "<li><a href=\"#{}\">{}</a></li>", section.id, escaped(&section.title));
    }
    if run_snapshots.iter().any(|(snapshots, _)| !snapshots.is_empty()) {
        *html += "<li><a href=\"#snapshots\">Queues at chosen instants</a></li>\n";
    }
    if runs.iter().any(|run| run.topology.is_some()) {
        *html += "<li><a href=\"#topology\">Topology</a></li>\n";
    }
    *html += "<li><a href=\"#configuration\">Configuration</a></li>\n<li><a href=\"#provenance\">Provenance</a></li>\n</ul></nav>\n";
}

fn plot_sections(html: &mut String, plots: &Plots, runs: &[Run]) {
    if plots.sections.is_empty() {
        return;
    }
    let end_ms = runs.iter().map(|run| run.end_us() / 1e3).fold(0.0, f64::max);
    let _ = write!(
        html,
        "<noscript><p class=\"note\">The plots are drawn by a script, which is switched off here; all else is complete.</p></noscript>\n\
         <form id=\"zoom\" class=\"controls\"><span>Time</span> <label>from <input id=\"zoom-from\" type=\"number\" min=\"0\" \
         max=\"{end_ms}\" step=\"any\" value=\"0\"></label> <label>to <input id=\"zoom-to\" type=\"number\" min=\"0\" max=\"{end_ms}\" \
         step=\"any\" value=\"{end_ms}\"></label> ms <button type=\"submit\">Show</button> <button type=\"reset\">All</button>\
         <small>or drag across a plot; a double click shows all</small></form>\n"
    );
    let mut number = 0;
    for section in &plots.sections {
        let _ = writeln!(
            html,
            "<section id=\"{}\">\n<div class=\"intro\"><h2>{}</h2>",
            section.id,
            escaped(&section.title)
        );
        for note in &section.notes {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escaped(note));
        }
        choices(html, section);
        let _ =
            writeln!(html, "</div>\n<div class=\"plots{}\">", if section.plots.len() == 1 { " single" } else { "" });
        for plot in &section.plots {
            let _ = writeln!(
                html,
                "<figure><figcaption>{}</figcaption><div class=\"plot\" data-chart=\"{number}\" role=\"img\" aria-label=\"{}: {}\"></div></figure>",
                escaped(&plot.caption),
                escaped(&plot.caption),
                escaped(&plot.alt)
            );
            number += 1;
        }
        *html += "</div>\n</section>\n";
    }
}

fn choices(html: &mut String, section: &Section) {
    if section.choices.is_empty() {
        return;
    }
    let _ = write!(html, "<p class=\"controls\"><label>Queue <select data-section=\"{}\">", section.id);
    for (n, choice) in section.choices.iter().enumerate() {
        let _ = write!(html, "<option value=\"{n}\">{}</option>", escaped(choice));
    }
    *html += "</select></label></p>\n";
    // A printed page has no selectable list.
    let _ = writeln!(html, "<p class=\"printed\" data-choice=\"{}\">{}</p>", section.id, escaped(&section.choices[0]));
}

/// Appends a table for each snapshot of all queues.
fn snapshots(html: &mut String, run_snapshots: &[RunSnapshots], runs: &[Run]) {
    if run_snapshots.iter().all(|(snapshots, _)| snapshots.is_empty()) {
        return;
    }
    *html += "<section id=\"snapshots\">\n<div class=\"intro\"><h2>Queues at chosen instants</h2>\n<p class=\"note\">What ingress queues held \
              by where it was charged, whether they were OFF (the peer should be paused), and what stood in the egress queue of the same \
              port and class: blocked, it held frames of so many ports while its peer let it send nothing. KB are 1000 B.</p></div>\n";
    for (run, (snapshots, left_out)) in runs.iter().zip(run_snapshots) {
        let of = if runs.len() == 1 { String::new() } else { format!("{}: ", run.label) };
        for snapshot in snapshots {
            let heading = escaped(&format!("{of}{}", snapshots::heading(snapshot)));
            let _ = write!(
                html,
                "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{heading}\"><table class=\"figures\">\n<caption>{heading}</caption>\n<thead>"
            );
            lead_row(html, &snapshots::HEAD.map(str::to_owned), "th scope=\"col\"");
            *html += "</thead>\n<tbody>\n";
            snapshot.rows.iter().for_each(|row| lead_row(html, row, "td"));
            *html += "</tbody></table></div>\n";
        }
        if *left_out > 0 {
            let _ = writeln!(
                html,
                "<p class=\"note\">{}</p>",
                escaped(&format!("{of}{}", snapshots::left_out_note(*left_out)))
            );
        }
    }
    *html += "</section>\n";
}

fn topology(html: &mut String, runs: &[Run]) {
    let drawings = drawings(runs);
    if drawings.is_empty() {
        return;
    }
    *html += "<section id=\"topology\">\n<div class=\"intro\"><h2>Topology</h2>\n<p class=\"note\">Blue: switches; below or outside them their \
              hosts, those of large fabrics together. Vermilion arrows: the cycle of a deadlock, each egress queue waiting for the next. \
              Dashed: links that are cut. Orange: hosts that take data in slowly.</p></div>\n<div class=\"drawings\">\n";
    for drawing in &drawings {
        let of =
            if drawing.runs.len() == runs.len() { String::new() } else { format!("{}: ", drawing.runs.join("; ")) };
        let _ = writeln!(
            html,
            "<figure><figcaption>{}{}</figcaption><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Topology\">{}</div></figure>",
            escaped(&of),
            escaped(&drawing.description),
            drawing.svg
        );
    }
    *html += "</div>\n</section>\n";
}

/// Appends the switches' files; equal ones appear once.
fn configurations(html: &mut String, runs: &[Run]) {
    *html += "<section id=\"configuration\">\n<h2>Configuration</h2>\n";
    let mut scenarios: Vec<(&str, Vec<&str>)> = Vec::new();
    for run in runs {
        let Some(text) = run.scenario.as_deref() else { continue };
        match scenarios.iter_mut().find(|(of, _)| *of == text) {
            Some((_, labels)) => labels.push(&run.label),
            None => scenarios.push((text, vec![&run.label])),
        }
    }
    for (text, labels) in &scenarios {
        let of = if labels.len() == runs.len() { String::new() } else { format!(" of {}", labels.join("; ")) };
        folded(html, &format!("The scenario{of}"), text);
    }
    // Runs with the same files share them.
    let mut shown: Vec<(&Vec<ConfigFile>, Vec<&str>)> = Vec::new();
    for run in runs.iter().filter(|run| !run.configs.is_empty()) {
        match shown.iter_mut().find(|(configs, _)| **configs == run.configs) {
            Some((_, labels)) => labels.push(&run.label),
            None => shown.push((&run.configs, vec![&run.label])),
        }
    }
    let (mut bytes, mut left_out) = (0, 0);
    for (configs, labels) in &shown {
        let what = if configs.len() == 1 { "The switch".to_owned() } else { format!("{} switches", configs.len()) };
        let of = if labels.len() == runs.len() { String::new() } else { format!(" of {}", labels.join("; ")) };
        let _ = write!(html, "<details class=\"file\"><summary>{}</summary>", escaped(&format!("{what}{of}")));
        for (name, text) in *configs {
            // The first file of each run appears at any length.
            if bytes + text.len() > CONFIGS_MAX && *name != configs[0].0 {
                left_out += 1;
                continue;
            }
            bytes += text.len();
            let _ = write!(html, "<h3>{}</h3><pre>{}</pre>", escaped(name), escaped(text));
        }
        *html += "</details>\n";
    }
    if left_out > 0 {
        let files = if left_out == 1 { "file".to_owned() } else { format!("{} files", count(left_out)) };
        let _ = writeln!(html, "<p class=\"note\">And {files} more in the runs' directories.</p>");
    }
    if scenarios.is_empty() && shown.is_empty() {
        *html += "<p>The runs' directories have none.</p>\n";
    }
    *html += "</section>\n";
}

fn folded(html: &mut String, title: &str, text: &str) {
    let _ = writeln!(
        html,
        "<details class=\"file\"><summary>{}</summary><pre>{}</pre></details>",
        escaped(title),
        escaped(text)
    );
}

fn provenance(html: &mut String, runs: &[Run]) {
    *html += "<section id=\"provenance\">\n<h2>Provenance</h2>\n\
              <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Provenance\"><table class=\"provenance\">\n<thead><tr><td></td>";
    for run in runs {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&run.label));
    }
    *html += "</tr></thead>\n<tbody>\n";
    for (name, cells) in origins(runs) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(name));
        // A value common to all runs appears once.
        if runs.len() > 1 && cells.iter().all(|cell| *cell == cells[0]) {
            let _ = write!(html, "<td colspan=\"{}\">{}</td>", cells.len(), escaped(&cells[0]));
        } else {
            cells.iter().for_each(|cell| {
                let _ = write!(html, "<td>{}</td>", escaped(cell));
            });
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n</section>\n";
}

/// Start of a run, in whole seconds.
fn started(run: &Run) -> String {
    let started = &run.provenance.started;
    started.split_once('.').map_or_else(|| started.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// Provenance of the runs, a cell for each; lines without any value are omitted.
pub(super) fn origins(runs: &[Run]) -> Vec<(&'static str, Vec<String>)> {
    let rows: [(&'static str, RunCell<'_>); 9] = [
        ("directory", &|run| Some(run.directory.display().to_string())),
        ("weir", &|run| Some(run.provenance.version.clone())),
        ("run by", &|run| {
            Some(match run.summary.backend.as_str() {
                "sim" => "virtual time".to_owned(),
                "dpdk" if run.summary.time_dilation > 1 => {
                    format!("DPDK, {} times slower than real time", run.summary.time_dilation)
                }
                "dpdk" => "DPDK, in real time".to_owned(),
                other => other.to_owned(),
            })
        }),
        ("seed", &Run::seed),
        ("command", &|run| Some(run.provenance.command_line.join(" "))),
        ("started", &|run| Some(started(run))),
        ("machine", &|run| {
            let machine = &run.provenance.machine;
            Some(format!(
                "{}, {} cores, {} MiB, {}",
                machine.cpu,
                machine.cores,
                count(machine.memory_mib),
                machine.kernel
            ))
        }),
        ("real time", &|run| {
            let wall = run.speed.map(|speed| speed.wall_ms).or(run.summary.wall_ms)?;
            Some(format!("{:.2} s", wall as f64 / 1e3))
        }),
        ("packet-hops a CPU-second", &|run| Some(count(run.speed?.packet_hops_per_cpu_second?))),
    ];
    let rows = rows.into_iter().map(|(name, cell)| {
        (name, runs.iter().map(|run| cell(run).unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>())
    });
    rows.filter(|(_, cells)| cells.iter().any(|cell| cell != "-")).collect()
}

/// Appends the charts' data for the script.
fn data(html: &mut String, plots: &Plots) {
    #[derive(Serialize)]
    struct Charts<'a> {
        charts: Vec<&'a Chart>,
    }
    let charts =
        Charts { charts: plots.sections.iter().flat_map(|section| &section.plots).map(|plot| &plot.chart).collect() };
    let charts = serde_json::to_string(&charts).expect("numbers and names only");
    let _ = writeln!(
        html,
        "<script type=\"application/json\" id=\"columns\">{}</script>\n<script type=\"application/json\" id=\"charts\">{}</script>",
        in_script(&plots.columns.json()),
        in_script(&charts)
    );
}
