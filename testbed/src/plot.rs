//! Draws time series: panels in a grid over one time axis, such as queues and rates (rows) under several flow controls
//! (columns).
//!
//! The picture is SVG with text as text, in the viewer's sans-serif. To lay it out, text is measured in DejaVu Sans, a
//! wide font, and PNG (feature `png`) has its text in it; it is built in, as its licence allows (Bitstream Vera's), so
//! that no font need be installed.
//!
//! A name stands for the same colour in all panels, and the legend under the title says for which. The colours are
//! those that Okabe and Ito chose for colour-blind readers ("Color Universal Design", 2008) but for their yellow, which
//! is lost on white. After the seventh name they come again, dashed.

mod layout;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{DashedLineSeries, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TRANSPARENT, TextStyle, WHITE};

use layout::{Cell, LEGEND_LINE, LEGEND_SPACING, Layout, LegendEntry, MARGIN, MARK_LEADER, Ticks, X_TICKS, Y_TICKS};

/// Panels in a grid, with one time axis for all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Above all.
    pub title: String,
    /// How many panels stand side by side.
    pub columns: usize,
    /// Row by row.
    pub panels: Vec<Panel>,
}

/// Lines over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Above the panel.
    pub title: String,
    /// What the lines show, with its unit: `queue (KB)`. Left out where the panel to the left has the same.
    pub y_label: String,
    /// Lowest and highest value, both finite; what lies beyond is drawn at the edge. `None`: what lines and marks need,
    /// and 0; the same for all panels in the row that have this label and no range.
    pub y_range: Option<(f64, f64)>,
    /// Drawn in this order, one over the other.
    pub lines: Vec<Line>,
    /// Drawn under the lines.
    pub marks: Vec<Mark>,
}

/// A value over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// Milliseconds, which don't decrease, and the value then. A value that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// A value to compare lines with, such as a threshold: a horizontal line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// To the right of it: `B_1 750 KB`.
    pub label: String,
    /// Where it is; without effect if that is outside the panel's range.
    pub value: f64,
}

/// Why a figure can't be drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The operating system says no.
    #[error("{}: can't be written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The drawing library says no.
    #[error("a figure can't be drawn: {reason}")]
    Draw {
        /// Why not.
        reason: String,
    },
}

impl Figure {
    /// The figure as an SVG document.
    ///
    /// # Panics
    /// If a panel's range is not finite.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let layout = Layout::new(self);
        let (width, height) = (layout.size.0 as u32, layout.size.1 as u32);
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area(), &layout);
        drawn.map_err(|error| PlotError::Draw { reason: error.to_string() })?;
        // Mitred joins, which are what SVG has if not told, would put spikes on peaks.
        let as_drawn = format!("<svg width=\"{width}\" height=\"{height}\"");
        let (width, height) = (width / SCALE as u32, height / SCALE as u32);
        let as_shown = format!("<svg width=\"{width}\" height=\"{height}\" stroke-linejoin=\"round\"");
        Ok(svg.replacen(&as_drawn, &as_shown, 1))
    }

    /// Writes the figure as SVG.
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        write(path, self.to_svg()?.as_bytes())
    }

    /// Writes the figure as PNG, with two pixels each way for one of the SVG's.
    #[cfg(feature = "png")]
    pub fn write_png(&self, path: &Path) -> Result<(), PlotError> {
        use resvg::{tiny_skia, usvg};

        const ZOOM: f32 = 2.0;
        let mut options = usvg::Options::default();
        options.fontdb_mut().load_font_data(dejavu::sans::regular().to_vec());
        options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
        let draw_error = |reason: String| PlotError::Draw { reason };
        let tree = usvg::Tree::from_str(&self.to_svg()?, &options).map_err(|error| draw_error(error.to_string()))?;
        let (width, height) = (tree.size().width() * ZOOM, tree.size().height() * ZOOM);
        let pixmap = tiny_skia::Pixmap::new(width as u32, height as u32);
        let mut pixmap = pixmap.ok_or_else(|| draw_error(format!("{width} x {height} pixels are too many")))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(ZOOM, ZOOM), &mut pixmap.as_mut());
        write(path, &pixmap.encode_png().map_err(|error| draw_error(error.to_string()))?)
    }

    fn draw(&self, root: &Canvas<'_>, layout: &Layout) -> Drawn {
        root.fill(&WHITE)?;
        let title_at = (layout.size.0 / 2, px(MARGIN));
        root.draw_text(&self.title, &text(FIGURE_TITLE, HPos::Center, VPos::Top), title_at)?;
        layout.legend.iter().try_for_each(|entry| draw_legend_entry(root, entry))?;
        for (panel, cell) in self.panels.iter().zip(&layout.cells) {
            panel.draw(root, layout, cell)?;
        }
        root.present()
    }
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

impl Panel {
    fn draw(&self, root: &Canvas<'_>, layout: &Layout, cell: &Cell) -> Drawn {
        let title_at = (cell.plot_at.0 + cell.plot.0 / 2, cell.plot_at.1 - cell.title_area);
        root.draw_text(&self.title, &text(PANEL_TITLE, HPos::Center, VPos::Top), title_at)?;

        let at = (cell.plot_at.0 - cell.y_area, cell.plot_at.1);
        let size = ((cell.y_area + cell.plot.0) as u32, (cell.plot.1 + cell.x_area) as u32);
        let mut chart = ChartBuilder::on(&root.clone().shrink(at, size))
            .x_label_area_size(cell.x_area)
            .y_label_area_size(cell.y_area)
            .build_cartesian_2d(layout.x_range.0..layout.x_range.1, cell.y_range.0..cell.y_range.1)?;
        draw_axes(&mut chart, layout, cell)?;
        self.draw_marks(root, &mut chart, layout, cell)?;
        for (i, line) in self.lines.iter().enumerate() {
            // The later, the thinner: a line shows under others that coincide with it.
            let covered_by = (self.lines.len() - 1 - i).min(LINE_COVERED_MAX as usize) as i32;
            line.draw(&mut chart, layout, cell, LINE_WIDTH + covered_by * LINE_WIDTH_STEP)?;
        }
        Ok(())
    }

    /// Draws marks, and to the right of the plot their labels, moved apart where they would overlap.
    fn draw_marks(&self, root: &Canvas<'_>, chart: &mut Chart<'_>, layout: &Layout, cell: &Cell) -> Drawn {
        let (low, high) = cell.y_range;
        let mut marks: Vec<&Mark> = self.marks.iter().filter(|mark| (low..=high).contains(&mark.value)).collect();
        marks.sort_by(|one, other| other.value.total_cmp(&one.value));
        let ends: Vec<_> = marks.iter().map(|mark| chart.backend_coord(&(layout.x_range.1, mark.value))).collect();
        let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
        let levels = moved_apart(&wanted, px(TICK), cell.plot_at.1 + cell.plot.1);
        let style = MARK.stroke_width(px(1) as u32);
        for ((mark, end), level) in marks.iter().zip(ends).zip(levels) {
            let across = [layout.x_range.0, layout.x_range.1].map(|at| (at, mark.value));
            chart.draw_series(DashedLineSeries::new(across, px(MARK_DASH), px(MARK_DASH), style))?;
            let text_x = end.0 + px(MARK_LEADER);
            root.draw(&PathElement::new([end, (text_x - px(3), level)], style))?;
            root.draw_text(&mark.label, &text(TICK, HPos::Left, VPos::Center), (text_x, level))?;
        }
        Ok(())
    }
}

impl Line {
    fn draw(&self, chart: &mut Chart<'_>, layout: &Layout, cell: &Cell, width: i32) -> Drawn {
        let stroke = layout.stroke(&self.name);
        let style = stroke.color.stroke_width(width as u32);
        let (low, high) = cell.y_range;
        for piece in self.points.split(|(at, value)| !at.is_finite() || !value.is_finite()) {
            let mut points = thinned(piece, layout.x_range, (cell.plot.0 / COLUMN_WIDTH) as usize);
            points.iter_mut().for_each(|(_, value)| *value = value.clamp(low, high));
            if let [alone] = points[..] {
                chart.draw_series([Circle::new(alone, width, style.filled())])?;
            } else if stroke.is_dashed {
                chart.draw_series(DashedLineSeries::new(points, px(DASH), px(DASH_SPACING), style))?;
            } else {
                chart.draw_series([PathElement::new(points, style)])?;
            }
        }
        Ok(())
    }
}

fn draw_axes(chart: &mut Chart<'_>, layout: &Layout, cell: &Cell) -> Drawn {
    let (x_ticks, y_ticks) = (Ticks::new(layout.x_range, X_TICKS), Ticks::new(cell.y_range, Y_TICKS));
    let x_label = |at: &f64| if cell.has_time_axis { x_ticks.label(*at) } else { String::new() };
    let y_label = |value: &f64| y_ticks.label(*value);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID.stroke_width(px(1) as u32))
        .light_line_style(TRANSPARENT)
        .axis_style(AXIS.stroke_width(px(1) as u32))
        .x_labels(X_TICKS)
        .y_labels(Y_TICKS)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .label_style(text(TICK, HPos::Center, VPos::Center))
        .axis_desc_style(text(LABEL, HPos::Center, VPos::Center))
        .set_all_tick_mark_size(px(4));
    if cell.has_time_axis {
        mesh.x_desc(TIME_LABEL);
    }
    if let Some(label) = &cell.y_label {
        mesh.y_desc(label);
    }
    mesh.draw()
}

fn draw_legend_entry(root: &Canvas<'_>, entry: &LegendEntry) -> Drawn {
    let (x, y) = entry.at;
    let end = x + px(LEGEND_LINE);
    let dash = if entry.stroke.is_dashed { px(DASH) } else { end - x };
    for from in (x..end).step_by((dash + px(DASH_SPACING)) as usize) {
        let style = entry.stroke.color.stroke_width(px(2) as u32);
        root.draw(&PathElement::new([(from, y), ((from + dash).min(end), y)], style))?;
    }
    root.draw_text(&entry.name, &text(LABEL, HPos::Left, VPos::Center), (end + px(LEGEND_SPACING), y))
}

/// At most four points for each column of the plot: the first, the lowest, the highest and the last.
///
/// A line through them covers what one through all points covers, so that no peak is lost.
fn thinned(points: &[(f64, f64)], x_range: (f64, f64), columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 4 * columns {
        return points.to_vec();
    }
    let column = |at: f64| ((at - x_range.0) / (x_range.1 - x_range.0) * columns as f64) as usize;
    let mut kept = Vec::new();
    for points in points.chunk_by(|one, other| column(one.0) == column(other.0)) {
        let by_value = |one: &usize, other: &usize| points[*one].1.total_cmp(&points[*other].1);
        let all = 0..points.len();
        let extremes = [all.clone().min_by(by_value), all.clone().max_by(by_value)].into_iter().flatten();
        let mut indices: Vec<usize> = extremes.chain([all.start, all.end - 1]).collect();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|i| points[i]));
    }
    kept
}

/// Levels of labels no closer than `distance`, none beyond `end`, and else as near to the wanted ones, which ascend, as
/// those before allow.
fn moved_apart(wanted: &[i32], distance: i32, end: i32) -> Vec<i32> {
    let mut levels = wanted.to_vec();
    for i in 1..levels.len() {
        levels[i] = levels[i].max(levels[i - 1] + distance);
    }
    let mut end = end;
    for level in levels.iter_mut().rev() {
        *level = (*level).min(end);
        end = *level - distance;
    }
    levels
}

fn text(size: i32, h: HPos, v: VPos) -> TextStyle<'static> {
    (FONT, px(size)).into_font().color(&TEXT).pos(Pos::new(h, v))
}

/// What is drawn for a length as shown. The backend knows whole units only, which are made small by this.
fn px(shown: i32) -> i32 {
    shown * SCALE
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    fs::write(path, bytes).map_err(|source| PlotError::Io { path: path.to_owned(), source })
}

const FONT: &str = "sans-serif";
const TIME_LABEL: &str = "time (ms)";

const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const AXIS: RGBColor = RGBColor(0x55, 0x55, 0x55);
const MARK: RGBColor = RGBColor(0x77, 0x77, 0x77);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

const SCALE: i32 = 4;

// Sizes of text, and lengths, as shown.
const FIGURE_TITLE: i32 = 22;
const PANEL_TITLE: i32 = 17;
const LABEL: i32 = 15;
const TICK: i32 = 14;
const MARK_DASH: i32 = 4;
const DASH: i32 = 8;
const DASH_SPACING: i32 = 4;

// Widths of lines, and of the columns that they are thinned by, as drawn.
const LINE_WIDTH: i32 = 6;
const LINE_WIDTH_STEP: i32 = 4;
const LINE_COVERED_MAX: i32 = 3;
const COLUMN_WIDTH: i32 = 2;
