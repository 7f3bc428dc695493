//! Draws the figures of experiments: panels in a grid, with lines over time or over a parameter, distributions, and
//! bars by category.
//!
//! The picture is SVG with text as text, in the viewer's sans-serif. To lay it out, text is measured in DejaVu Sans, a
//! wide font, in which the PNG of `weir-experiments` has its text too; it is built in, as its licence allows (Bitstream
//! Vera's), so that no font need be installed.
//!
//! A name stands for the same colour in all panels, and the legend under the title says for which. The colours are
//! those that Okabe and Ito chose for colour-blind readers ("Color Universal Design", 2008) but for their yellow, which
//! is lost on white. After the seventh name they come again: dashed, with squares for markers, and on pale bars.
//!
//! ```
//! use weir_results::plot::{Figure, Interval, Line, Marker, Panel, Style, XAxis};
//!
//! let categories = ["PFC", "GFC"].map(str::to_owned).to_vec();
//! let measured = Line {
//!     name: "measured".to_owned(),
//!     style: Style::Bars,
//!     points: vec![(0.0, 4.1), (1.0, 9.6)],
//!     intervals: vec![Interval { x: 1.0, low: 9.3, high: 9.9 }],
//!     ..Line::default()
//! };
//! let stated = Line {
//!     name: "as the paper states".to_owned(),
//!     compared_with: Some("measured".to_owned()),
//!     style: Style::Markers(Marker::Hollow),
//!     points: vec![(1.0, 9.5)],
//!     ..Line::default()
//! };
//! let panel = Panel {
//!     x_axis: XAxis::Categories(categories),
//!     y_label: "goodput (Gb/s)".to_owned(),
//!     lines: vec![measured, stated],
//!     ..Panel::default()
//! };
//! let figure = Figure { title: "A ring".to_owned(), columns: 1, panels: vec![panel] };
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
    /// Above all.
    pub title: String,
    /// How many panels stand side by side.
    pub columns: usize,
    /// Row by row. A default one leaves its place empty.
    pub panels: Vec<Panel>,
}

/// Lines and bars over one pair of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Above the panel.
    pub title: String,
    /// What the lines depend on, with its unit: `time (ms)`. Left out, with the numbers, where the panel below has the
    /// same axis.
    pub x_label: String,
    /// What the horizontal axis is made of.
    pub x_axis: XAxis,
    /// First and last of the numbers across, finite, and above 0 on a logarithmic axis; what lies beyond is left out.
    /// `None`: what lines and marks need; the same for all panels of the figure that have this label and axis and no
    /// range. Without effect on categories.
    pub x_range: Option<(f64, f64)>,
    /// What the lines show, with its unit: `queue (KB)`. Left out where the panel to the left has the same.
    pub y_label: String,
    /// How values go up.
    pub y_scale: Scale,
    /// Lowest and highest value, finite, and above 0 on a logarithmic axis; what lies beyond is drawn at the edge.
    /// `None`: what lines and marks need, and 0 on a linear axis; the same for all panels in the row that have this
    /// label and scale and no range.
    pub y_range: Option<(f64, f64)>,
    /// Drawn in this order, one over the other, but bars under all others.
    pub lines: Vec<Line>,
    /// Drawn under the lines.
    pub marks: Vec<Mark>,
}

/// What a horizontal axis is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XAxis {
    /// Numbers, such as times.
    Numbers(Scale),
    /// Names, the first at 0, the next at 1. Long ones are written upright.
    Categories(Vec<String>),
}

/// How numbers go along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal quotients are equally long. Values that are not above 0 are left out.
    Log,
}

/// Values of one kind, over what the panel has across.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// The name of lines that these values are to be compared with, such as measured ones if these are stated ones: this
    /// line has their colour, or stands on their bars.
    pub compared_with: Option<String>,
    /// How the points are drawn.
    pub style: Style,
    /// Each a place across, and the value there: milliseconds, which don't decrease, and the value then; or the number
    /// of a category. A value that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Between which values a point's true one is; for none, some or all points.
    pub intervals: Vec<Interval>,
}

/// How a line's points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A stroke through the points.
    #[default]
    Stroke,
    /// A stroke, and a marker at each point.
    StrokeAndMarkers(Marker),
    /// A marker at each point.
    Markers(Marker),
    /// A bar for each point, from 0, or from the axis' end if that is logarithmic. Bars of several lines stand side by
    /// side.
    Bars,
}

/// What stands at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Filled,
    /// A ring.
    Hollow,
}

/// Where a value is with some confidence, such as 95 %: a vertical line with a cap at each end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The place across, as the point's.
    pub x: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A value to compare lines with, such as a threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// To the right of a horizontal one, above a vertical one: `B_1 750 KB`.
    pub label: String,
    /// Where it is; without effect if that is outside the panel's range.
    pub value: f64,
    /// Whether it is a value that lines show, or one that they depend on.
    pub direction: Direction,
}

/// Which way a mark's line goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// At a value of the vertical axis.
    #[default]
    Horizontal,
    /// At a value of the horizontal axis.
    Vertical,
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
    /// If a panel's range is not finite, or not above 0 on a logarithmic axis.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let layout = Layout::new(self);
        let (width, height) = (layout.size.width as u32, layout.size.height as u32);
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
        write_file(path, self.to_svg()?.as_bytes())
    }

    fn draw(&self, root: &Canvas<'_>, layout: &Layout) -> Drawn {
        root.fill(&WHITE)?;
        let title_at = (layout.size.width / 2, px(MARGIN));
        root.draw_text(&self.title, &text(FIGURE_TITLE, HPos::Center, VPos::Top), title_at)?;
        layout.legend.draw(root)?;
        let cells = self.panels.iter().zip(&layout.cells).filter(|(panel, _)| !panel.is_empty());
        cells.into_iter().try_for_each(|(panel, cell)| panel.draw(root, layout, cell))?;
        root.present()
    }
}

/// Writes a drawn file.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    fs::write(path, bytes).map_err(|source| PlotError::Io { path: path.to_owned(), source })
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

impl Panel {
    /// Whether it only leaves a place.
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

/// The length drawn for a length as shown. The backend knows whole units only, which are made small by this.
fn px(shown: i32) -> i32 {
    shown * SCALE
}

const FONT: &str = "sans-serif";

const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);

const SCALE: i32 = 4;

// Sizes of text, and lengths, as shown.
const FIGURE_TITLE: i32 = 22;
const PANEL_TITLE: i32 = 17;
const LABEL: i32 = 15;
const TICK: i32 = 14;
const MARGIN: i32 = 12;
const DASH: i32 = 8;
const DASH_SPACING: i32 = 4;
