//! Draws the figures of experiments: panels in a grid, with lines over time or over a parameter, distributions, and
//! bars by category.
//!
//! The picture is SVG with text as text, in the viewer's sans-serif. To lay it out, text is measured in DejaVu Sans, a
//! wide font, in which the PNG of `weir-experiments` has its text too; it is built in, as its licence allows (Bitstream
//! Vera's), so that no font need be installed.
//!
//! A name has one colour in all panels; the legend under the title lists them. The colours are those of Okabe and Ito
//! for colour-blind readers ("Color Universal Design", 2008) without yellow, which is faint on white. After the seventh
//! name they repeat: dashed, with square markers, and on pale bars.
//!
//! ```
//! use weir_results::plot::{Figure, ConfidenceInterval, PlotLine, Marker, Panel, Style, XAxis};
//!
//! let categories = ["PFC", "GFC"].map(str::to_owned).to_vec();
//! let measured = PlotLine {
//!     name: "measured".to_owned(),
//!     style: Style::Bars,
//!     points: vec![(0.0, 4.1), (1.0, 9.6)],
//!     intervals: vec![ConfidenceInterval { x: 1.0, low: 9.3, high: 9.9 }],
//!     ..PlotLine::default()
//! };
//! let stated = PlotLine {
//!     name: "as the paper states".to_owned(),
//!     compared_with: Some("measured".to_owned()),
//!     style: Style::Markers(Marker::Hollow),
//!     points: vec![(1.0, 9.5)],
//!     ..PlotLine::default()
//! };
//! let panel = Panel {
//!     x_axis: XAxis::Categories(categories),
//!     y_label: "goodput (Gb/s)".to_owned(),
//!     lines: vec![measured, stated],
//!     ..Panel::default()
//! };
//! let figure = Figure { title: "A ring".to_owned(), columns: 1, panels: vec![panel], ..Figure::default() };
//! assert!(figure.to_svg()?.contains("as the paper states"));
//! # Ok::<(), weir_results::plot::PlotError>(())
//! ```

mod axis;
mod bars;
mod cell;
mod geometry;
mod layout;
mod legend;
mod line;
mod offsets;
mod panel;
mod ranges;
mod shapes;
#[cfg(test)]
mod tests;
mod text_width;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, RGBColor, TextStyle, WHITE};

use axis::Axis;
use layout::Layout;

/// Panels in a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Title above all panels.
    pub title: String,
    /// Number of panels in a row.
    pub columns: usize,
    /// Panels, row by row. A default panel leaves its cell empty.
    pub panels: Vec<Panel>,
    /// Note below all panels, such as on the number of seeds; empty for none.
    pub note: String,
    /// Width on paper, in points of 1/72 inch; `None` shows each length as it is, at 96 pixels to an inch.
    pub width_pt: Option<u32>,
}

/// Lines and bars over one pair of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Label of the horizontal axis with its unit: `time (ms)`. Omitted, with the numbers, where the panel below has the same
    /// axis.
    pub x_label: String,
    /// Kind of horizontal axis.
    pub x_axis: XAxis,
    /// First and last number of the axis, finite, and above 0 on a logarithmic axis; points outside are omitted. `None` fits the
    /// lines and marks, in common with all panels of the figure that have this label and axis and no range. No effect on
    /// categories.
    pub x_range: Option<(f64, f64)>,
    /// Label of the vertical axis with its unit: `queue (KB)`. Omitted where the panel to the left has the same.
    pub y_label: String,
    /// Scale of the vertical axis.
    pub y_scale: Scale,
    /// Lowest and highest value, finite, and above 0 on a logarithmic axis; values outside are drawn at the edge. `None` fits the
    /// lines, marks and, on a linear axis, 0, in common with all panels of the row that have this label and scale and no range.
    pub y_range: Option<(f64, f64)>,
    /// Lines in drawing order; bars are below all others.
    pub lines: Vec<PlotLine>,
    /// Marks, drawn below the lines.
    pub marks: Vec<PlotMark>,
    /// Whether lines whose intervals would cover each other are drawn side by side, off their positions.
    pub separates_intervals: bool,
}

/// Kind of horizontal axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XAxis {
    /// Numbers, such as times.
    Numbers(Scale),
    /// Names, the first at 0, the next at 1. Long ones are written upright.
    Categories(Vec<String>),
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Linear: equal differences have equal length.
    #[default]
    Linear,
    /// Logarithmic: equal quotients have equal length. Values of 0 and below are omitted.
    Log,
}

/// Series of values over the panel's horizontal axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotLine {
    /// Name in the legend.
    pub name: String,
    /// Name of lines to compare with, such as measured values for stated ones. This line takes their colour, or its markers are
    /// on their bars.
    pub compared_with: Option<String>,
    /// True for a main line of the figure, such as that of a paper's own scheme: it has a thicker stroke, and a warm colour, and other lines
    /// have cold ones.
    pub is_main: bool,
    /// Style of the points.
    pub style: Style,
    /// Points (x, value). Numbers across are milliseconds and do not decrease; categories are numbered from 0. A value that is
    /// not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Confidence intervals of any number of the points.
    pub intervals: Vec<ConfidenceInterval>,
}

/// Style of a line's points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A stroke through the points.
    #[default]
    Stroke,
    /// A stroke, and a marker at each point.
    StrokeAndMarkers(Marker),
    /// A marker at each point.
    Markers(Marker),
    /// A bar for each point, from 0, or from the axis' end if logarithmic. Bars of several lines are next to each other.
    Bars,
}

/// Shape at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Filled,
    /// A ring.
    Hollow,
}

/// Confidence interval of a value, such as 95 %: a vertical line with a cap at each end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConfidenceInterval {
    /// Horizontal position of the point.
    pub x: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Reference value, such as a threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotMark {
    /// Text to the right of a horizontal mark, above a vertical one: `B_1 750 KB`.
    pub label: String,
    /// Position; no effect outside the panel's range.
    pub value: f64,
    /// Orientation of the mark's line.
    pub orientation: Orientation,
}

/// Orientation of a mark's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orientation {
    /// A horizontal line at a value of the vertical axis.
    #[default]
    Horizontal,
    /// A vertical line at a value of the horizontal axis.
    Vertical,
}

/// Error of drawing or writing a figure.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The operating system reported an error.
    #[error("{}: can't be written: {source}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The drawing library reported an error.
    #[error("a figure can't be drawn: {reason}")]
    Draw {
        /// Error message.
        reason: String,
    },
}

impl Figure {
    /// Renders the figure as an SVG document.
    ///
    /// # Panics
    /// If a panel's range is not finite, or not above 0 on a logarithmic axis.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let layout = Layout::new(self);
        let (width, height) = (layout.size.width as u32, layout.size.height as u32);
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area(), &layout);
        drawn.map_err(|error| PlotError::Draw { reason: error.to_string() })?;
        // SVG's default, mitred joins, would put spikes on peaks.
        let as_drawn = format!("<svg width=\"{width}\" height=\"{height}\"");
        let (shown_width, shown_height) = match self.width_pt.zip(layout.height_in_points(self)) {
            None => ((width / SCALE as u32).to_string(), (height / SCALE as u32).to_string()),
            Some((width, height)) => (format!("{width}pt"), format!("{height:.1}pt")),
        };
        let as_shown = format!("<svg width=\"{shown_width}\" height=\"{shown_height}\" stroke-linejoin=\"round\"");
        Ok(svg.replacen(&as_drawn, &as_shown, 1))
    }

    /// Height on paper, in points; `None` without a width on paper.
    pub fn height_in_points(&self) -> Option<f64> {
        Layout::new(self).height_in_points(self)
    }

    /// Writes the figure as SVG.
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        write_file(path, self.to_svg()?.as_bytes())
    }

    fn draw(&self, root: &Canvas<'_>, layout: &Layout) -> DrawResult {
        root.fill(&WHITE)?;
        for (line, title) in layout.title.iter().enumerate() {
            let title_at = (layout.size.width / 2, px(MARGIN + TITLE_LINE * line as i32));
            root.draw_text(title, &text(FIGURE_TITLE, HPos::Center, VPos::Top), title_at)?;
        }
        layout.legend.draw(root)?;
        let cells = self.panels.iter().zip(&layout.cells).filter(|(panel, _)| !panel.is_empty());
        cells.into_iter().try_for_each(|(panel, cell)| panel.draw(root, layout, cell))?;
        for (line, note) in layout.note.iter().rev().enumerate() {
            let note_at = (layout.size.width / 2, layout.size.height - px(MARGIN + NOTE_LINE * line as i32));
            root.draw_text(note, &text(TICK, HPos::Center, VPos::Bottom), note_at)?;
        }
        root.present()
    }
}

/// Writes a drawn file.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    fs::write(path, bytes).map_err(|source| PlotError::Io { path: path.to_owned(), source })
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
type DrawResult = Result<(), DrawingAreaErrorKind<io::Error>>;

impl Panel {
    /// Whether the panel is a placeholder.
    fn is_empty(&self) -> bool {
        *self == Panel::default()
    }

    fn x_position(&self, x: f64) -> f64 {
        match self.x_axis {
            XAxis::Numbers(scale) => scale.position(x),
            XAxis::Categories(_) => x,
        }
    }
}

impl Default for XAxis {
    fn default() -> XAxis {
        XAxis::Numbers(Scale::Linear)
    }
}

impl Style {
    fn has_stroke(self) -> bool {
        matches!(self, Style::Stroke | Style::StrokeAndMarkers(_))
    }

    fn marker(self) -> Option<Marker> {
        match self {
            Style::StrokeAndMarkers(marker) | Style::Markers(marker) => Some(marker),
            Style::Stroke | Style::Bars => None,
        }
    }
}

fn text(size: i32, h: HPos, v: VPos) -> TextStyle<'static> {
    (FONT, px(size)).into_font().color(&TEXT).pos(Pos::new(h, v))
}

/// Converts a displayed length to the backend's whole units, which are finer by [`SCALE`].
fn px(shown: i32) -> i32 {
    shown * SCALE
}

const FONT: &str = "sans-serif";

const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);

const SCALE: i32 = 4;

// Sizes of text, and lengths, as shown.
const FIGURE_TITLE: i32 = 22;
/// Distance between the lines of a title.
const TITLE_LINE: i32 = 26;
/// Distance between the lines of a note.
const NOTE_LINE: i32 = 18;
const PANEL_TITLE: i32 = 17;
const LABEL: i32 = 15;
const TICK: i32 = 14;
const MARGIN: i32 = 12;
const DASH: i32 = 8;
const DASH_SPACING: i32 = 4;
