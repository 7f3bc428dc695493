//! Distributions of messages: a line for each series, over the messages of all seeds.

use std::collections::BTreeSet;
use std::path::Path;

use weir_results::plot::{Figure, Panel, PlotLine, Scale, XAxis};

use super::drawn::{LINES_MAX, key_value, new_figure, series_name};
use super::messages::{folders, values};
use super::names::{ResolvedLines, resolved_lines};
use super::results::{ColumnNames, Results};
use super::spec::{FigureSpec, MessageQuantity};
use super::{FigureData, pooled};
use crate::Failure;
use crate::cdf::{cumulative, to_the_end};
use crate::table::count;
use crate::table::key_path::KeyPath;
use crate::table::typed::{Cell, TypedTable};

/// Values of the messages of a series in a panel.
struct SeriesMessages {
    panel: Option<String>,
    series: Vec<String>,
    values: Vec<f64>,
    runs: usize,
    /// Whether no run failed.
    is_good: bool,
}

/// Resolves the names of a figure's distribution: its lines, and the workload of its messages.
///
/// # Errors
/// The problem and the remedy.
pub(super) fn resolved(spec: &FigureSpec, names: &ColumnNames) -> Result<(ResolvedLines, String), String> {
    if !spec.x.is_empty() || !spec.y.is_empty() || spec.versus.is_some() {
        return Err("cdf: a distribution has no `x`, `y` and `versus`; leave them out".to_owned());
    }
    Ok((resolved_lines(spec, names)?, traffic(spec, names)?))
}

/// Makes the figure of a distribution. A line whose runs failed is left out.
///
/// # Errors
/// A name is wrong, another parameter varies, or messages can't be read.
pub(super) fn distribution(
    spec: &FigureSpec,
    quantity: MessageQuantity,
    results: &Results,
    directory: &Path,
) -> Result<FigureData, Failure> {
    let names = results.names();
    let (lines, traffic) = resolved(spec, &names).map_err(Failure::Argument)?;
    let folders = folders(directory)?;
    let mut groups: Vec<SeriesMessages> = Vec::new();
    for row in pooled::rows(&lines, None, results)? {
        let panel = lines.panels.map(|key| row.keys[key].clone());
        let series: Vec<String> = lines.by.iter().map(|key| row.keys[*key].clone()).collect();
        let of_row = match folders.get(&row.point) {
            Some(folder) if row.is_good => values(folder, &traffic, quantity)?,
            _ => Vec::new(),
        };
        match groups.iter_mut().find(|group| group.panel == panel && group.series == series) {
            Some(group) => {
                group.values.extend(of_row);
                group.runs += 1;
                group.is_good &= row.is_good;
            }
            None => groups.push(SeriesMessages { panel, series, values: of_row, runs: 1, is_good: row.is_good }),
        }
    }
    let quantity_label = match quantity {
        MessageQuantity::Fct => "FCT (us)",
        MessageQuantity::Slowdown => "slowdown",
    };
    let mut data = FigureData {
        name: format!("{}-cdf-of-{traffic}", quantity_label.trim_end_matches(" (us)").to_lowercase()),
        ..FigureData::default()
    };
    let failed = groups.iter().filter(|group| !group.is_good).count();
    if failed > 0 {
        let note = format!("{failed} of {} lines are left out: a run of theirs failed (failures.csv)", groups.len());
        data.notes.push(note);
    }
    groups.retain(|group| group.is_good);
    let seeds = groups.iter().map(|group| group.runs).max().filter(|seeds| *seeds > 1);
    let mut panels: Vec<(Option<String>, Vec<PlotLine>)> = Vec::new();
    let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); lines.by.len() + 3];
    for SeriesMessages { panel, series, values, .. } in groups {
        let name = series_name(&lines, &names.keys, &series);
        let name = if name.is_empty() { traffic.clone() } else { name };
        let all = values.len() as u64;
        let Some((line, unfinished)) = cumulative(&name, values) else { continue };
        if unfinished > 0 {
            let (unfinished, all) = (count(unfinished as u64), count(all));
            let place =
                panel_name(&lines, &names, panel.as_deref()).map_or_else(String::new, |place| format!(", {place}"));
            data.notes.push(format!("{name}{place}: {unfinished} of {all} messages did not finish"));
        }
        for (value, share) in &line.points {
            let texts =
                std::iter::once(panel.clone().unwrap_or_default()).chain(series.iter().cloned()).map(Cell::Text);
            let row = texts.chain([Cell::Float(*value), Cell::Float(*share)]);
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
        match panels.iter_mut().find(|(of, lines)| *of == panel && lines.len() < LINES_MAX) {
            Some((_, lines)) => lines.push(line),
            None => panels.push((panel, vec![line])),
        }
    }
    data.points = table(&lines, &names, cells);
    let panels = panels.into_iter().map(|(panel, mut of_panel)| {
        to_the_end(&mut of_panel);
        Panel {
            title: panel_name(&lines, &names, panel.as_deref()).unwrap_or_default(),
            x_label: spec.x_label.clone().unwrap_or_else(|| format!("{quantity_label} of {traffic}")),
            x_axis: XAxis::Numbers(Scale::Log),
            y_label: spec.y_label.clone().unwrap_or_else(|| "share of messages (%)".to_owned()),
            y_range: Some((0.0, 100.0)),
            lines: of_panel,
            ..Panel::default()
        }
    });
    let title = if spec.title.is_empty() { results.sweep.clone() } else { spec.title.clone() };
    let note = seeds.map(|seeds| format!("messages of {seeds} seeds")).unwrap_or_default();
    data.figure = Figure { note, ..new_figure(spec, title, panels.collect()) };
    Ok(data)
}

fn panel_name(lines: &ResolvedLines, names: &ColumnNames, panel: Option<&str>) -> Option<String> {
    lines.panels.zip(panel).map(|(key, text)| key_value(&names.keys, key, text))
}

/// Table with a row for each point of the lines; `cells` has columns of the panel, the keys, the value and the share.
fn table(lines: &ResolvedLines, names: &ColumnNames, cells: Vec<Vec<Cell>>) -> TypedTable {
    let keys = lines.by.iter().map(|key| names.keys[*key].clone());
    let panel = lines.panels.map(|key| names.keys[key].clone());
    let heads = std::iter::once(panel).chain(keys.map(Some)).chain(["value", "percent"].map(|of| Some(of.to_owned())));
    TypedTable { columns: heads.zip(cells).filter_map(|(head, cells)| Some((head?, cells))).collect() }
}

/// Workload of the messages: the figure's, or the only one.
fn traffic(spec: &FigureSpec, names: &ColumnNames) -> Result<String, String> {
    let of_column = |column: &String| {
        let path = KeyPath::parse(column)?;
        (path.keys().first()? == "traffic").then(|| path.keys().get(1).cloned())?
    };
    let all: BTreeSet<String> = names.columns.iter().filter_map(of_column).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    match (&spec.traffic, &all[..]) {
        (Some(traffic), _) if all.is_empty() || all.contains(&traffic.as_str()) => Ok(traffic.clone()),
        (Some(traffic), _) => {
            Err(format!("traffic {traffic}: no workload is called so; write one of: {}", all.join(", ")))
        }
        (None, [one]) => Ok((*one).to_owned()),
        (None, _) => Err(format!("cdf: name the workload by traffic: {}", all.join(", "))),
    }
}
