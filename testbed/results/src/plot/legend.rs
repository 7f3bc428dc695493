//! Legend of a figure: the colour style of each name.

use plotters::element::PathElement;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use super::bars::Bars;
use super::geometry::{Point, Rect, Size};
use super::shapes::{ColorStyle, NEUTRAL, draw_box, draw_marker};
use super::text_width::text_width;
use super::{Canvas, DASH, DASH_SPACING, DrawResult, Figure, LABEL, MARGIN, PlotLine, Style, px, text};

pub(super) struct Legend {
    pub(super) entries: Vec<Entry>,
    /// Lower end of the legend, in [`px`].
    pub(super) end: i32,
    looks: Vec<(String, ColorStyle)>,
}

/// Name of lines, with their colour style.
pub(super) struct Entry {
    name: String,
    /// Middle of the left side.
    at: Point,
    look: ColorStyle,
    style: Style,
}

impl Legend {
    /// Creates the legend of a figure of this width, in as many rows as needed, `below_title` lower than under a title of one line.
    pub(super) fn new(figure: &Figure, width: i32, below_title: i32) -> Legend {
        let mut looks: Vec<(String, ColorStyle)> = Vec::new();
        let mut lines: Vec<&PlotLine> = Vec::new();
        let has_main = figure.panels.iter().flat_map(|panel| &panel.lines).any(|line| line.is_main);
        for line in figure.panels.iter().flat_map(|panel| &panel.lines) {
            if looks.iter().all(|(name, _)| name != line.looks_as()) {
                let colors: &[RGBColor] = match (has_main, line.is_main) {
                    (false, _) => &COLORS,
                    (true, true) => &WARM,
                    (true, false) => &COLD,
                };
                let i = looks.iter().filter(|(_, look)| colors.contains(&look.color)).count();
                let look = ColorStyle {
                    color: colors[i % colors.len()],
                    is_repeated: i / colors.len() % 2 == 1,
                    is_main: line.is_main,
                };
                looks.push((line.looks_as().to_owned(), look));
            }
            if lines.iter().all(|other| other.name != line.name) {
                lines.push(line);
            }
        }
        let mut legend = Legend { entries: Vec::new(), end: 0, looks };
        legend.place(figure, &lines, width, below_title);
        legend
    }

    /// Returns the colour style of lines with this name and of lines compared with them.
    ///
    /// # Panics
    /// If no line of the figure has the name.
    pub(super) fn color_style(&self, name: &str) -> ColorStyle {
        let found = self.looks.iter().find(|(other, _)| other == name);
        found.expect("the legend has all names").1
    }

    pub(super) fn draw(&self, root: &Canvas<'_>) -> DrawResult {
        self.entries.iter().try_for_each(|entry| entry.draw(root))
    }

    fn place(&mut self, figure: &Figure, lines: &[&PlotLine], width: i32, below_title: i32) {
        let entry_width = |name: &str| px(LINE_LENGTH + SPACING + GAP) + text_width(name, LABEL);
        let mut rows: Vec<Vec<&PlotLine>> = Vec::new();
        let mut row_end = i32::MAX;
        for line in lines {
            let entry = entry_width(&line.name);
            if row_end.saturating_add(entry) > width - 2 * px(MARGIN) {
                rows.push(Vec::new());
                row_end = 0;
            }
            rows.last_mut().expect("the first name starts a row").push(line);
            row_end += entry;
        }
        let mut y = px(MARGIN + FIGURE_TITLE_AREA) + below_title;
        for row in rows {
            let row_width = row.iter().map(|line| entry_width(&line.name)).sum::<i32>() - px(GAP);
            let mut x = (width - row_width) / 2;
            for line in row {
                let look = self.look_of_all(figure, &line.name);
                let at = Point::new(x, y + px(ROW_HEIGHT) / 2);
                self.entries.push(Entry { name: line.name.clone(), at, look, style: line.style });
                x += entry_width(&line.name);
            }
            y += px(ROW_HEIGHT);
        }
        self.end = y + px(BELOW);
    }

    /// Returns the common colour style of all lines with this name; [`NEUTRAL`] if they differ.
    fn look_of_all(&self, figure: &Figure, name: &str) -> ColorStyle {
        let lines = figure.panels.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)));
        let mut looks =
            lines.filter(|(_, line)| line.name == name).map(|(panel, line)| self.look_in(&Bars::new(panel), line));
        let first = looks.next().expect("the name is a line's");
        if looks.all(|look| look == first) { first } else { NEUTRAL }
    }

    /// Returns the colour style of a line in a panel with these bars; [`NEUTRAL`] on bars of its own colour, which would hide it.
    pub(super) fn look_in(&self, bars: &Bars<'_>, line: &PlotLine) -> ColorStyle {
        if bars.has(line) && line.style != Style::Bars { NEUTRAL } else { self.color_style(line.looks_as()) }
    }
}

impl Entry {
    fn draw(&self, root: &Canvas<'_>) -> DrawResult {
        let Point { x, y } = self.at;
        let end = x + px(LINE_LENGTH);
        let middle = (x + end) / 2;
        if self.style == Style::Bars {
            let half = Size { width: px(BOX.width) / 2, height: px(BOX.height) / 2 };
            draw_box(root, Rect::around(Point::new(middle, y), half), self.look)?;
        }
        if self.style.has_stroke() {
            let dash = if self.look.is_repeated { px(DASH) } else { end - x };
            for from in (x..end).step_by((dash + px(DASH_SPACING)) as usize) {
                let style = self.look.color.stroke_width(self.look.stroke(px(2)));
                root.draw(&PathElement::new([(from, y), ((from + dash).min(end), y)], style))?;
            }
        }
        if let Some(marker) = self.style.marker() {
            draw_marker(root, Point::new(middle, y), marker, self.look)?;
        }
        root.draw_text(&self.name, &text(LABEL, HPos::Left, VPos::Center), (end + px(SPACING), y))
    }
}

impl PlotLine {
    /// Returns the name that determines the line's colour.
    pub(super) fn looks_as(&self) -> &str {
        self.compared_with.as_ref().unwrap_or(&self.name)
    }
}

const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const BLUISH_GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const REDDISH_PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const SKY_BLUE: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
const BLACK: RGBColor = RGBColor(0x00, 0x00, 0x00);

const COLORS: [RGBColor; 7] = [BLUE, VERMILION, BLUISH_GREEN, REDDISH_PURPLE, ORANGE, SKY_BLUE, BLACK];
/// Colours of main lines, and of the others in a figure with main lines.
const WARM: [RGBColor; 3] = [VERMILION, ORANGE, REDDISH_PURPLE];
const COLD: [RGBColor; 4] = [BLUE, BLUISH_GREEN, SKY_BLUE, BLACK];

// Lengths as shown.
const FIGURE_TITLE_AREA: i32 = 28;
const ROW_HEIGHT: i32 = 20;
const LINE_LENGTH: i32 = 24;
const BOX: Size = Size { width: 16, height: 11 };
const SPACING: i32 = 6;
const GAP: i32 = 22;
const BELOW: i32 = 8;
