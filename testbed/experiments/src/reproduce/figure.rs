//! Drawing of the paper's figure from the runs' results: `figure.svg`, with PNG and PDF.

use std::path::{Path, PathBuf};

use weir_results::plot::{self, ConfidenceInterval, Figure, Marker, PlotMark, Scale, Style, XAxis};

use super::experiment::Experiment;
use super::measure::smoothed;
use super::paper::Paper;
use super::paper_file::{Panel, PanelKind, PanelLine, ReportedPoints};
use super::rows::{MessageQuery, ResultRow, ResultRows, parameter};
use crate::Failure;
use crate::cdf::{cumulative, to_the_end};
use crate::picture;
use crate::table::{statistics, units};

/// Draws an experiment's panels, and returns the SVG's path; `None` if there are none.
pub(super) fn draw(experiment: &Experiment, rows: &ResultRows, directory: &Path) -> Result<Option<PathBuf>, Failure> {
    let paper = &experiment.paper;
    // A reduced sweep may have no points for a panel.
    let has_points = |panel: &&Panel| panel.lines.iter().any(|line| rows.select(line.selection()).next().is_some());
    let panels: Vec<&Panel> = paper.panels.iter().filter(has_points).collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let mut figure = Figure {
        title: format!("{}: {}", experiment.id, paper.title),
        columns: paper.columns.min(panels.len()),
        panels: panels.into_iter().map(|panel| drawn(panel, rows)).collect::<Result<_, _>>()?,
        ..Figure::default()
    };
    if let Some(scheme) = experiment.of.as_ref().and_then(Paper::scheme) {
        let lines = figure.panels.iter_mut().flat_map(|panel| &mut panel.lines);
        lines.for_each(|line| line.is_main = names(line.compared_with.as_ref().unwrap_or(&line.name), scheme));
    }
    let svg = directory.join("figure.svg");
    let failed = |error: plot::PlotError| Failure::Run(error.to_string());
    let drawn = figure.to_svg().map_err(failed)?;
    picture::write_all(&drawn, &directory.join("figure")).map_err(failed)?;
    Ok(Some(svg))
}

/// Returns whether a line's name has the scheme's as a word: `GFC, H3 3 ms later`.
fn names(line: &str, scheme: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric()).any(|word| word == scheme)
}

fn drawn(panel: &Panel, rows: &ResultRows) -> Result<plot::Panel, Failure> {
    let scale = |is_log: bool| if is_log { Scale::Log } else { Scale::Linear };
    let mut drawn = plot::Panel {
        title: panel.title.clone(),
        x_axis: XAxis::Numbers(scale(panel.x_log)),
        y_label: with_unit(&panel.y, &panel.unit),
        y_scale: scale(panel.y_log),
        marks: panel
            .marks
            .iter()
            .map(|mark| PlotMark { label: mark.label.clone(), value: mark.value, ..PlotMark::default() })
            .collect(),
        ..plot::Panel::default()
    };
    let x_label = |usual: &str| panel.x_label.clone().unwrap_or_else(|| usual.to_owned());
    match panel.kind {
        PanelKind::Time => {
            drawn.x_label = x_label("time (ms)");
            for line in &panel.lines {
                drawn.lines.extend(over_time(panel, line, rows)?);
            }
            drawn.lines.extend(panel.paper.iter().map(|stated| of_paper(stated, &mut Vec::new())));
        }
        PanelKind::Sweep => {
            drawn.x_label = x_label(panel.x.as_deref().unwrap_or(""));
            let mut categories = Vec::new();
            let measured = panel.lines.iter().filter_map(|line| over_parameter(panel, line, rows, &mut categories));
            drawn.lines = measured.collect();
            let measured = drawn.lines.len();
            drawn.lines.extend(panel.paper.iter().map(|stated| of_paper(stated, &mut categories)));
            if !categories.is_empty() {
                without_what_is_common(&mut categories);
                // The paper's values stay markers on top of the bars.
                drawn.lines[..measured].iter_mut().for_each(|line| line.style = Style::Bars);
                drawn.x_axis = XAxis::Categories(categories);
            }
        }
        PanelKind::Cdf => {
            drawn.x_label = x_label(&with_unit(panel.value.as_deref().unwrap_or(""), &panel.unit));
            drawn.y_label = format!("{} (%)", panel.y);
            let mut unfinished = Vec::new();
            for line in &panel.lines {
                if let Some((drawn_line, percent)) = distribution(panel, line, rows)? {
                    unfinished.extend((percent > 0.0).then(|| format!("{} {} %", line.name, percent.ceil())));
                    drawn.lines.push(drawn_line);
                }
            }
            if !unfinished.is_empty() {
                drawn.title += &format!(" (unfinished: {})", unfinished.join(", "));
            }
            to_the_end(&mut drawn.lines);
        }
    }
    Ok(drawn)
}

/// Line over time of the first selected point; `None` if there is none.
fn over_time(panel: &Panel, line: &PanelLine, rows: &ResultRows) -> Result<Option<plot::PlotLine>, Failure> {
    let (Some(column), Some(row)) = (&line.series, rows.select(line.selection()).next()) else { return Ok(None) };
    let divisor = units::divisor(column, &panel.unit).expect("checked before");
    let time = |text: &Option<String>| text.as_ref().and_then(|text| units::micros(text));
    let (from, to) = (time(&panel.from).unwrap_or(0.0), time(&panel.to).unwrap_or(f64::INFINITY));
    let series = row.series(column)?;
    let series = match time(&line.smooth) {
        Some(over) => smoothed(series.into_iter(), over),
        None => series,
    };
    let within = series.into_iter().filter(|(at, _)| (from..=to).contains(at));
    let points = within.map(|(at, value)| (at / 1e3, value / divisor)).collect();
    Ok(Some(plot::PlotLine { name: line.name.clone(), points, ..plot::PlotLine::default() }))
}

/// Line with a point for each value of the parameter, and its interval over the seeds. Text values are `categories`.
fn over_parameter(
    panel: &Panel,
    line: &PanelLine,
    rows: &ResultRows,
    categories: &mut Vec<String>,
) -> Option<plot::PlotLine> {
    let (x, column) = (panel.x.as_ref()?, line.value.as_ref()?);
    let divisor = units::divisor(column, &panel.unit).expect("checked before");
    let mut places: Vec<(f64, Vec<Option<f64>>)> = Vec::new();
    for row in rows.select(line.selection()) {
        let value = rows.number(row, column).map(|value| value / divisor);
        let Some(at) = parameter(&row.point, x).and_then(|value| place(value, categories)) else { continue };
        match places.iter_mut().find(|(place, _)| *place == at) {
            Some((_, values)) => values.push(value),
            None => places.push((at, vec![value])),
        }
    }
    places.sort_by(|one, other| one.0.total_cmp(&other.0));
    // A seed without a value, because its messages did not finish, removes the mean: the other seeds' mean would
    // flatter.
    let mean = |values: Vec<Option<f64>>| statistics::mean(&values.into_iter().collect::<Option<Vec<f64>>>()?);
    let means: Vec<_> = places.into_iter().filter_map(|(at, values)| Some((at, mean(values)?))).collect();
    let interval = |(x, mean): &(f64, statistics::Estimate)| {
        mean.interval.map(|(low, high)| ConfidenceInterval { x: *x, low, high })
    };
    (!means.is_empty()).then(|| plot::PlotLine {
        name: line.name.clone(),
        style: Style::StrokeAndMarkers(Marker::Filled),
        points: means.iter().map(|(at, mean)| (*at, mean.value)).collect(),
        intervals: means.iter().filter_map(interval).collect(),
        ..plot::PlotLine::default()
    })
}

/// Horizontal position of a parameter's value: the number itself, or a text's index in the categories.
fn place(value: &serde_json::Value, categories: &mut Vec<String>) -> Option<f64> {
    match value {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(text) => Some(category(text, categories)),
        other => Some(category(&other.to_string(), categories)),
    }
}

fn category(text: &str, categories: &mut Vec<String>) -> f64 {
    let place = categories.iter().position(|known| known == text).unwrap_or_else(|| {
        categories.push(text.to_owned());
        categories.len() - 1
    });
    place as f64
}

/// Removes a file extension common to all texts.
fn without_what_is_common(categories: &mut [String]) {
    let ending = categories[0].rfind('.').map(|dot| categories[0][dot..].to_owned());
    let Some(ending) = ending.filter(|ending| ending[1..].starts_with(char::is_alphabetic)) else { return };
    if categories.iter().all(|text| text.len() > ending.len() && text.ends_with(&ending)) {
        categories.iter_mut().for_each(|text| text.truncate(text.len() - ending.len()));
    }
}

/// Values that the paper states, as hollow markers.
fn of_paper(stated: &ReportedPoints, categories: &mut Vec<String>) -> plot::PlotLine {
    let point = |(x, value): &(toml::Value, f64)| {
        let x = serde_json::to_value(x).ok()?;
        Some((place(&x, categories)?, *value))
    };
    plot::PlotLine {
        name: stated.name.clone(),
        compared_with: stated.of.clone(),
        style: Style::Markers(Marker::Hollow),
        points: stated.points.iter().filter_map(point).collect(),
        ..plot::PlotLine::default()
    }
}

/// CDF of the messages of all selected points, and the percentage of unfinished ones.
fn distribution(panel: &Panel, line: &PanelLine, rows: &ResultRows) -> Result<Option<(plot::PlotLine, f64)>, Failure> {
    let mut values = Vec::new();
    for row in rows.select(line.selection()) {
        values.extend(messages(panel, row)?);
    }
    let all = values.len();
    let line = cumulative(&line.name, values);
    Ok(line.map(|(line, unfinished)| (line, 100.0 * unfinished as f64 / all as f64)))
}

/// Value of each message of the panel: infinite for the completion time of an unfinished message, and 0 for its
/// throughput.
fn messages(panel: &Panel, row: &ResultRow) -> Result<Vec<f64>, Failure> {
    let of = MessageQuery {
        value: panel.value.as_deref().unwrap_or("fct"),
        unit: &panel.unit,
        traffic: panel.traffic.as_deref(),
        sizes: panel.sizes.as_ref(),
    };
    Ok(row.messages(&[of])?.remove(0))
}

fn with_unit(what: &str, unit: &str) -> String {
    // A text such as "PAUSEs of all switches" names its unit already.
    if unit.is_empty() || what.split(' ').any(|word| word == unit) {
        what.to_owned()
    } else {
        format!("{what} ({unit})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_papers_scheme_are_found_by_their_names() {
        let found = ["DSH", "DSH, DCQCN", "SIH", "under DSH (8 ports)", "DSHx"].map(|line| names(line, "DSH"));
        assert_eq!(found, [true, true, false, true, false]);
    }

    #[test]
    fn names_have_only_differences_and_a_unit_stands_once() {
        let of = |texts: &[&str]| {
            let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            without_what_is_common(&mut texts);
            texts.join(" ")
        };
        assert_eq!(of(&["1.toml", "12.toml"]), "1 12");
        assert_eq!(of(&["1.toml", "2.csv"]), "1.toml 2.csv");
        assert_eq!((of(&["0.5", "1.5"]), of(&["dcqcn", "timely"])), ("0.5 1.5".to_owned(), "dcqcn timely".to_owned()));
        assert_eq!(with_unit("throughput", "Gb/s"), "throughput (Gb/s)");
        assert_eq!(with_unit("PAUSEs in 11 ms", "PAUSEs"), "PAUSEs in 11 ms");
    }
}
