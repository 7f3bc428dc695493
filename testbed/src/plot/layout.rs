//! Where the parts of a figure go.

use std::sync::Once;

use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::style::{FontStyle, IntoFont, RGBColor, register_font};

use super::{FIGURE_TITLE, FONT, Figure, LABEL, PANEL_TITLE, Panel, TICK, px};

/// All in [`px`].
pub(super) struct Layout {
    pub(super) size: (i32, i32),
    pub(super) legend: Vec<LegendEntry>,
    /// One for each panel.
    pub(super) cells: Vec<Cell>,
    pub(super) x_range: (f64, f64),
}

/// A name that lines have, and what they look like.
pub(super) struct LegendEntry {
    pub(super) name: String,
    /// The left end, half way up.
    pub(super) at: (i32, i32),
    pub(super) stroke: Stroke,
}

/// What a line looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stroke {
    pub(super) color: RGBColor,
    pub(super) is_dashed: bool,
}

/// Where a panel goes.
pub(super) struct Cell {
    /// The upper left corner of the plot, without title and axes, and its size.
    pub(super) plot_at: (i32, i32),
    pub(super) plot: (i32, i32),
    /// Above the plot, to the left of it and below it.
    pub(super) title_area: i32,
    pub(super) y_area: i32,
    pub(super) x_area: i32,
    pub(super) y_range: (f64, f64),
    pub(super) y_label: Option<String>,
    /// Whether no other panel is below.
    pub(super) has_time_axis: bool,
}

/// Where an axis has numbers, and how they are written.
pub(super) struct Ticks {
    at: Vec<f64>,
    decimals: usize,
}

impl Layout {
    pub(super) fn new(figure: &Figure) -> Layout {
        register_fonts();
        let panels = &figure.panels;
        let columns = figure.columns.max(1);
        let y_ranges = y_ranges(figure, columns);
        // Plots are all of one size, large enough for the longest title and axis label.
        let plot = (
            widest(panels.iter().map(|panel| panel.title.as_str()), PANEL_TITLE).max(px(PLOT_WIDTH)),
            widest(panels.iter().map(|panel| panel.y_label.as_str()), LABEL).max(px(PLOT_HEIGHT)),
        );
        let y_labels: Vec<Option<String>> = (0..panels.len()).map(|i| y_label(panels, columns, i)).collect();
        // Panels one above the other line up.
        let column_of = |column: usize| (column..panels.len()).step_by(columns);
        let y_area = |column: usize| {
            let ticks = column_of(column).map(|i| Ticks::new(y_ranges[i], Y_TICKS).width()).max().unwrap_or(0);
            let has_label = column_of(column).any(|i| y_labels[i].is_some());
            ticks + px(TICK_AREA) + if has_label { px(AXIS_LABEL_AREA) } else { 0 }
        };
        let mark_area = |column: usize| {
            let labels = column_of(column).flat_map(|i| &panels[i].marks).map(|mark| mark.label.as_str());
            px(GAP).max(widest(labels, TICK) + px(MARK_LEADER + MARK_GAP))
        };
        let column_areas: Vec<(i32, i32)> =
            (0..columns.min(panels.len())).map(|column| (y_area(column), mark_area(column))).collect();

        let grid_width: i32 = column_areas.iter().map(|(y_area, mark_area)| y_area + plot.0 + mark_area).sum();
        let width = grid_width.max(text_width(&figure.title, FIGURE_TITLE)) + 2 * px(MARGIN);
        let (legend, mut y) = legend(figure, width);
        let mut cells = Vec::new();
        for row in (0..panels.len()).step_by(columns) {
            let of_row = row..panels.len().min(row + columns);
            let title_area =
                if panels[of_row.clone()].iter().all(|panel| panel.title.is_empty()) { 0 } else { TITLE_AREA };
            let has_time_axis = |i: usize| i + columns >= panels.len();
            let x_area = if of_row.clone().any(has_time_axis) { TIME_AREA } else { GAP };
            y += px(title_area);
            let mut x = px(MARGIN);
            for (i, (y_area, mark_area)) in of_row.zip(&column_areas) {
                cells.push(Cell {
                    plot_at: (x + y_area, y),
                    plot,
                    title_area: px(title_area),
                    y_area: *y_area,
                    x_area: px(x_area),
                    y_range: y_ranges[i],
                    y_label: y_labels[i].clone(),
                    has_time_axis: has_time_axis(i),
                });
                x += y_area + plot.0 + mark_area;
            }
            y += plot.1 + px(x_area);
        }
        Layout { size: (width, y + px(MARGIN)), legend, cells, x_range: x_range(figure) }
    }

    /// What lines of that name look like.
    pub(super) fn stroke(&self, name: &str) -> Stroke {
        let entry = self.legend.iter().find(|entry| entry.name == name);
        entry.expect("the legend has all names").stroke
    }
}

impl Ticks {
    pub(super) fn new(range: (f64, f64), at_most: usize) -> Ticks {
        let at = RangedCoordf64::from(range.0..range.1).key_points(BoldPoints(at_most));
        let step = at.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        // Steps are 1, 2 or 5 times a power of ten; there is none if there is but one tick.
        let decimals = if step.is_finite() { (-step.log10() - 1e-9).ceil().max(0.0) as usize } else { 0 };
        Ticks { at, decimals }
    }

    pub(super) fn label(&self, value: f64) -> String {
        let text = format!("{value:.*}", self.decimals);
        // No "-0.0".
        if text.contains(|digit: char| ('1'..='9').contains(&digit)) { text } else { text.replace('-', "") }
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = String> {
        self.at.iter().map(|value| self.label(*value))
    }

    /// Of the widest label.
    fn width(&self) -> i32 {
        self.labels().map(|label| text_width(&label, TICK)).max().unwrap_or(0)
    }

    fn step(&self) -> Option<f64> {
        Some(self.at.get(1)? - self.at[0])
    }
}

/// The legend of a figure so wide, in as many lines as it takes, and where what follows it begins.
fn legend(figure: &Figure, width: i32) -> (Vec<LegendEntry>, i32) {
    let mut names: Vec<&str> = Vec::new();
    for line in figure.panels.iter().flat_map(|panel| &panel.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let entry_width = |name: &str| px(LEGEND_LINE + LEGEND_SPACING + LEGEND_GAP) + text_width(name, LABEL);
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let mut row_end = i32::MAX;
    for name in names {
        let entry = entry_width(name);
        if row_end.saturating_add(entry) > width - 2 * px(MARGIN) {
            rows.push(Vec::new());
            row_end = 0;
        }
        rows.last_mut().expect("the first name starts a row").push(name);
        row_end += entry;
    }
    let mut y = px(MARGIN + FIGURE_TITLE_AREA);
    let mut entries = Vec::new();
    for row in rows {
        let row_width = row.iter().map(|name| entry_width(name)).sum::<i32>() - px(LEGEND_GAP);
        let mut x = (width - row_width) / 2;
        for name in row {
            let i = entries.len();
            let stroke = Stroke { color: COLORS[i % COLORS.len()], is_dashed: i / COLORS.len() % 2 == 1 };
            entries.push(LegendEntry { name: name.to_owned(), at: (x, y + px(LEGEND_HEIGHT) / 2), stroke });
            x += entry_width(name);
        }
        y += px(LEGEND_HEIGHT);
    }
    (entries, y + px(LEGEND_BELOW))
}

/// The panel's label, if the panel to the left does not have it already.
fn y_label(panels: &[Panel], columns: usize, i: usize) -> Option<String> {
    let label = &panels[i].y_label;
    let is_repeated = !i.is_multiple_of(columns) && panels[i - 1].y_label == *label;
    (!is_repeated && !label.is_empty()).then(|| label.clone())
}

/// From the first to the last instant of all lines, and on to the ticks before and after if these are near.
fn x_range(figure: &Figure) -> (f64, f64) {
    let points = figure.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let (first, last) = extent(points.map(|(at, _)| *at)).map_or((0.0, 1.0), not_empty);
    let Some(step) = Ticks::new((first, last), X_TICKS).step() else { return (first, last) };
    let (before, after) = ((first / step).floor() * step, (last / step).ceil() * step);
    let is_near = |distance: f64| distance < 0.02 * (last - first);
    (if is_near(first - before) { before } else { first }, if is_near(after - last) { after } else { last })
}

/// Each panel's range, as it says or as its row needs it.
fn y_ranges(figure: &Figure, columns: usize) -> Vec<(f64, f64)> {
    let mut ranges = Vec::new();
    for row in figure.panels.chunks(columns) {
        let automatic = |label: &str| {
            let panels = || row.iter().filter(move |panel| panel.y_range.is_none() && panel.y_label == label);
            let of_lines = panels().flat_map(|panel| &panel.lines).flat_map(|line| &line.points).map(|point| point.1);
            let of_marks = panels().flat_map(|panel| &panel.marks).map(|mark| mark.value);
            let (low, high) = extent(of_lines.chain(of_marks).chain([0.0])).expect("0 is finite");
            // Some air, so that no line hides in the frame.
            let air = 0.05 * (high - low);
            (if low < 0.0 { low - air } else { low }, if high > 0.0 { high + air } else { high })
        };
        ranges.extend(row.iter().map(|panel| not_empty(panel.y_range.unwrap_or_else(|| automatic(&panel.y_label)))));
    }
    ranges
}

/// The lowest and the highest of the finite values.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.filter(|value| value.is_finite());
    let first = finite.next()?;
    Some(finite.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

fn not_empty((low, high): (f64, f64)) -> (f64, f64) {
    assert!(low.is_finite() && high.is_finite(), "a range from {low} to {high}");
    if low < high { (low, high) } else { (low, low + 1.0) }
}

/// How wide the widest of the texts is; 0 if there is none.
fn widest<'a>(texts: impl Iterator<Item = &'a str>, size: i32) -> i32 {
    texts.map(|text| text_width(text, size)).max().unwrap_or(0)
}

/// How wide the text is in a font that is wider than most.
fn text_width(text: &str, size: i32) -> i32 {
    let ((left, _), (right, _)) = (FONT, px(size)).into_font().layout_box(text).expect("the font is registered");
    right - left
}

fn register_fonts() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let is_font = register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok();
        assert!(is_font, "the built-in font is a font");
    });
}

const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2), // blue
    RGBColor(0xd5, 0x5e, 0x00), // vermilion
    RGBColor(0x00, 0x9e, 0x73), // bluish green
    RGBColor(0xcc, 0x79, 0xa7), // reddish purple
    RGBColor(0xe6, 0x9f, 0x00), // orange
    RGBColor(0x56, 0xb4, 0xe9), // sky blue
    RGBColor(0x00, 0x00, 0x00), // black
];

pub(super) const X_TICKS: usize = 6;
pub(super) const Y_TICKS: usize = 6;

// Lengths as shown.
const PLOT_WIDTH: i32 = 270;
const PLOT_HEIGHT: i32 = 180;
pub(super) const MARGIN: i32 = 12;
const GAP: i32 = 18;
const FIGURE_TITLE_AREA: i32 = 28;
const TITLE_AREA: i32 = 26;
const TICK_AREA: i32 = 10;
const AXIS_LABEL_AREA: i32 = 20;
const TIME_AREA: i32 = 40;
const LEGEND_HEIGHT: i32 = 20;
pub(super) const LEGEND_LINE: i32 = 24;
pub(super) const LEGEND_SPACING: i32 = 6;
const LEGEND_GAP: i32 = 22;
const LEGEND_BELOW: i32 = 8;
pub(super) const MARK_LEADER: i32 = 12;
const MARK_GAP: i32 = 8;
