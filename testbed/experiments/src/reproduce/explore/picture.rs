//! Picture of a map, `map.svg` and `map.png`: a matrix of claims by the values of unspecified parameters, and slices
//! through the two most influential parameters.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use weir_results::plot;

use super::analysis::HoldCount;
use crate::Failure;
use crate::picture::Point;
use crate::reproduce::claim_map::{ClaimMap, MapLine, MapLineKind, Slice};

const MARGIN: f64 = 16.0;
const CELL_WIDTH: f64 = 34.0;
const CELL_HEIGHT: f64 = 22.0;
/// Space between the blocks of two parameters.
const GAP: f64 = 14.0;
const LABEL: f64 = 430.0;
const SHARE: f64 = 166.0;
/// Approximate width of a letter.
const LETTER: f64 = 6.6;
const TEXT: f64 = 12.0;
/// Maximum number of slices in the row.
const SLICES_MAX: usize = 3;

/// Writes the picture as SVG, and as PNG and PDF if these are built in.
pub(super) fn write(map: &ClaimMap, directory: &Path) -> Result<(), Failure> {
    let svg = drawn(map);
    let failed = |error: plot::PlotError| Failure::Run(error.to_string());
    crate::picture::write_all(&svg, &directory.join("map")).map_err(failed)?;
    Ok(())
}

pub(super) fn drawn(map: &ClaimMap) -> String {
    let mut canvas = Canvas::default();
    canvas.text(
        Point { x: MARGIN, y: 28.0 },
        &format!("{}: {}", map.id, map.title),
        "font-size=\"17\" font-weight=\"bold\"",
    );
    canvas.text(Point { x: MARGIN, y: 48.0 }, &map.verdict, "");
    let key = "share of settings in which it holds, in %; framed: the value that is taken; underlined: what decides";
    canvas.text(Point { x: MARGIN, y: 66.0 }, key, "fill=\"#666\"");
    let bottom = matrix(&mut canvas, map, 80.0);
    slices(&mut canvas, map, bottom + 30.0);
    canvas.finished()
}

/// Draws the matrix of claims; returns its bottom.
fn matrix(canvas: &mut Canvas, map: &ClaimMap, top: f64) -> f64 {
    let lines: Vec<&MapLine> = map.lines.iter().filter(|line| line.of > 0).collect();
    let longest = map.open.iter().flat_map(|thing| &thing.values).map(|value| value.chars().count()).max().unwrap_or(0);
    let head = top + 20.0 + longest.min(26) as f64 * LETTER;
    let mut left = MARGIN + LABEL + SHARE;
    for (n, thing) in map.open.iter().enumerate() {
        let block = left;
        for (value, name) in thing.values.iter().enumerate() {
            let x = left + CELL_WIDTH / 2.0 + 4.0;
            let at = format!("transform=\"rotate(-90 {x:.1} {:.1})\"", head - 6.0);
            canvas.text(Point { x, y: head - 6.0 }, &shortened(name, 26), &at);
            for (row, line) in lines.iter().enumerate() {
                // Without colour where seeds decide little: undecided is not 0 %.
                let (holds, of) = if line.is_open() { (0, 0) } else { line.by_value[n][value] };
                let at = Point { x: left, y: head + row as f64 * CELL_HEIGHT };
                canvas.cell(at, HoldCount { holds, of }, value == thing.taken, false);
            }
            left += CELL_WIDTH;
        }
        let width = (left - block).max(thing.name.chars().count() as f64 * LETTER + 8.0);
        canvas.text(Point { x: block, y: top + 8.0 }, &thing.name, "font-weight=\"bold\"");
        left = block + width + GAP;
        for row in (0..lines.len()).filter(|row| lines[*row].decides.as_ref() == Some(&thing.name)) {
            let across = block + 1.0..block + thing.values.len() as f64 * CELL_WIDTH - 1.0;
            canvas.rule(across, head + (row + 1) as f64 * CELL_HEIGHT - 0.5);
        }
    }
    canvas.reach(left, head);
    for (row, line) in lines.iter().enumerate() {
        let y = head + row as f64 * CELL_HEIGHT;
        let weight = match line.kind {
            MapLineKind::Together | MapLineKind::Main => "font-weight=\"bold\"",
            _ => "",
        };
        // Bold letters are wider.
        let letters = if weight.is_empty() { 68 } else { 58 };
        canvas.text(Point { x: MARGIN, y: y + 15.0 }, &shortened(&line.statement, letters), weight);
        canvas.bar(Point { x: MARGIN + LABEL, y }, line);
        let interval =
            if map.is_all || line.is_open() { String::new() } else { format!(" ({})", line.interval_shown()) };
        canvas.text(Point { x: MARGIN + LABEL + 46.0, y: y + 15.0 }, &format!("{}{interval}", line.share_shown()), "");
    }
    head + lines.len() as f64 * CELL_HEIGHT
}

/// Draws slices of claims that vary: all main claims together, and the main claims that vary most.
fn slices(canvas: &mut Canvas, map: &ClaimMap, top: f64) {
    let mut chosen: Vec<(&MapLine, &Slice)> = map
        .lines
        .iter()
        .filter(|line| line.kind != MapLineKind::Number && !line.is_open())
        .filter_map(|line| Some((line, line.slice.as_ref()?)))
        .collect();
    let rank = |line: &MapLine| {
        (line.kind != MapLineKind::Together, line.kind != MapLineKind::Main, ((line.share - 0.5).abs() * 1e6) as u64)
    };
    chosen.sort_by_key(|(line, _)| rank(line));
    let mut left = MARGIN;
    for (line, slice) in chosen.into_iter().take(SLICES_MAX) {
        let [across, down] = slice.things.map(|thing| &map.open[thing]);
        let names =
            down.values.iter().map(|name| name.chars().count().min(20)).max().unwrap_or(0) as f64 * LETTER + 10.0;
        let longest = across.values.iter().map(|name| name.chars().count().min(20)).max().unwrap_or(0) as f64 * LETTER;
        let head = top + 42.0 + longest;
        let width = (names + across.values.len() as f64 * CELL_WIDTH).max(330.0);
        canvas.text(
            Point { x: left, y: top },
            &shortened(&line.statement, (width / LETTER) as usize),
            "font-weight=\"bold\"",
        );
        canvas.text(
            Point { x: left, y: top + 17.0 },
            &format!("across: {}; down: {}", across.name, down.name),
            "fill=\"#666\"",
        );
        for (column, name) in across.values.iter().enumerate() {
            let x = left + names + column as f64 * CELL_WIDTH + CELL_WIDTH / 2.0 + 4.0;
            let at = format!("transform=\"rotate(-90 {x:.1} {:.1})\"", head - 5.0);
            canvas.text(Point { x, y: head - 5.0 }, &shortened(name, 20), &at);
        }
        for (row, name) in down.values.iter().enumerate() {
            let y = head + row as f64 * CELL_HEIGHT;
            canvas.text(Point { x: left, y: y + 15.0 }, &shortened(name, 20), "");
            for (column, (holds, of)) in slice.counts[row].iter().copied().enumerate() {
                let is_taken = row == down.taken && column == across.taken;
                let at = Point { x: left + names + column as f64 * CELL_WIDTH, y };
                canvas.cell(at, HoldCount { holds, of }, is_taken, true);
            }
        }
        left += width + 2.0 * GAP;
    }
}

#[derive(Default)]
struct Canvas {
    body: String,
    width: f64,
    height: f64,
}

impl Canvas {
    fn reach(&mut self, x: f64, y: f64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    fn text(&mut self, Point { x, y }: Point, text: &str, look: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{text}</text>");
        let across = if look.contains("rotate") { 0.0 } else { text.chars().count() as f64 * LETTER };
        self.reach(x + across, y);
    }

    /// Draws a share as a colour and a number: percent, or counts if `is_counted`.
    fn cell(&mut self, Point { x, y }: Point, count: HoldCount, is_taken: bool, is_counted: bool) {
        let HoldCount { holds, of } = count;
        let fill = if of == 0 { "#ffffff".to_owned() } else { color(count.share()) };
        let (w, h) = (CELL_WIDTH - 2.0, CELL_HEIGHT - 2.0);
        let _ = writeln!(
            self.body,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w}\" height=\"{h}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"{}\"/>",
            x + 1.0,
            y + 1.0,
            if is_taken { "#000000" } else { "#dddddd" },
            if is_taken { 2 } else { 1 },
        );
        if of > 0 {
            let share = count.share();
            let label = if is_counted { format!("{holds}/{of}") } else { format!("{:.0}", 100.0 * share) };
            let ink = if !(0.2..=0.8).contains(&share) { "#ffffff" } else { "#222222" };
            let size = if label.len() > 4 { 9 } else { 11 };
            let look = format!("text-anchor=\"middle\" font-size=\"{size}\" fill=\"{ink}\"");
            let _ = writeln!(
                self.body,
                "<text x=\"{:.1}\" y=\"{:.1}\" {look}>{label}</text>",
                x + CELL_WIDTH / 2.0,
                y + CELL_HEIGHT / 2.0 + 4.0
            );
        }
        self.reach(x + CELL_WIDTH, y + CELL_HEIGHT);
    }

    /// Draws a thick line below a row of cells.
    fn rule(&mut self, across: Range<f64>, y: f64) {
        let (from, to) = (across.start, across.end);
        let _ = writeln!(self.body, "<path d=\"M{from:.1} {y:.1}H{to:.1}\" stroke=\"#000000\" stroke-width=\"3\"/>");
    }

    /// Draws the share of all settings as a bar with its interval.
    fn bar(&mut self, Point { x, y }: Point, line: &MapLine) {
        const LONG: f64 = 40.0;
        let (low, high) = line.interval;
        let (y, middle) = (y + 6.0, y + 11.0);
        let _ =
            writeln!(self.body, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{LONG}\" height=\"10\" fill=\"#eeeeee\"/>",);
        if line.is_open() {
            return;
        }
        // Renderers warn about a rectangle of zero width.
        if line.holds > 0 {
            let _ = writeln!(
                self.body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"10\" fill=\"{}\"/>",
                LONG * line.share,
                color(line.share),
            );
        }
        if high > low {
            let (from, to) = (x + LONG * low, x + LONG * high);
            let _ = writeln!(
                self.body,
                "<path d=\"M{from:.1} {middle:.1}H{to:.1}\" stroke=\"#222222\" stroke-width=\"1.5\"/>"
            );
        }
    }

    fn finished(self) -> String {
        let (width, height) = ((self.width + MARGIN).ceil(), (self.height + MARGIN).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"{TEXT}\" fill=\"#222222\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Colour of a share: from vermilion for 0 over white to blue for 1, of Okabe and Ito's palette, which is safe for
/// colour-blind readers.
fn color(share: f64) -> String {
    const ENDS: [[f64; 3]; 3] = [[213.0, 94.0, 0.0], [245.0, 245.0, 245.0], [0.0, 114.0, 178.0]];
    let (from, to, at) = if share < 0.5 { (0, 1, 2.0 * share) } else { (1, 2, 2.0 * share - 1.0) };
    let [r, g, b] = [0, 1, 2].map(|n| (ENDS[from][n] + (ENDS[to][n] - ENDS[from][n]) * at).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_vermilion_to_blue() {
        assert_eq!([color(0.0), color(0.5), color(1.0)], ["#d55e00", "#f5f5f5", "#0072b2"]);
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(
            [shortened("order of service", 16), shortened("order of service", 6)],
            ["order of service", "order…"]
        );
    }
}
