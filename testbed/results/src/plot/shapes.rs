//! Boxes and markers, and the colour styles that distinguish names.

use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::{Color, RGBColor, ShapeStyle, WHITE};

use super::geometry::{Point, Rect, Size};
use super::{Canvas, DrawResult, Marker, TEXT, px};

/// Colour that distinguishes a line from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ColorStyle {
    pub(super) color: RGBColor,
    /// Whether the colour is repeated: an earlier name has it too. Such a line is dashed, with square markers and pale bars.
    pub(super) is_repeated: bool,
    /// Whether the line is a main line, with a thicker stroke.
    pub(super) is_main: bool,
}

impl ColorStyle {
    /// Width of the line's stroke where that of other lines is `width`.
    pub(super) fn stroke(&self, width: i32) -> u32 {
        (if self.is_main { width * 2 } else { width }) as u32
    }
}

/// Colour style of a name whose lines differ in it, and of lines and intervals on bars.
pub(super) const NEUTRAL: ColorStyle = ColorStyle { color: TEXT, is_repeated: false, is_main: false };

/// Draws a bar; pale inside if its colour is repeated.
pub(super) fn draw_box(root: &Canvas<'_>, outline: Rect, look: ColorStyle) -> DrawResult {
    let pale = |part: u8| part / 3 + 170;
    let RGBColor(red, green, blue) = look.color;
    let inside = if look.is_repeated { RGBColor(pale(red), pale(green), pale(blue)) } else { look.color };
    if outline.is_empty() {
        // A value of 0 has no bar: the PNG renderer logs a warning on a rectangle without height.
        return Ok(());
    }
    fill(root, outline, inside)?;
    if look.is_repeated {
        draw_frame(root, outline.shrunk(px(1) / 2), look.color.stroke_width(px(1) as u32))?;
    }
    Ok(())
}

/// Draws a frame of this style. The backend's own frames always have the least width.
pub(super) fn draw_frame(root: &Canvas<'_>, outline: Rect, style: ShapeStyle) -> DrawResult {
    let [one, two, three, four] = outline.corners();
    // The first side is drawn twice, so that the last corner is joined like the others.
    root.draw(&PathElement::new([one, two, three, four, one, two], style))
}

/// Draws a disc or a ring; a square if the colour is repeated.
pub(super) fn draw_marker(root: &Canvas<'_>, at: Point, marker: Marker, look: ColorStyle) -> DrawResult {
    let inside = if marker == Marker::Filled { look.color } else { WHITE };
    let outline = (marker == Marker::Hollow).then(|| look.color.stroke_width(RING_WIDTH));
    if look.is_repeated {
        let square = Rect::around(at, Size { width: SQUARE_HALF, height: SQUARE_HALF });
        fill(root, square, inside)?;
        outline.map_or(Ok(()), |style| draw_frame(root, square, style))
    } else {
        root.draw(&Circle::new(at.coordinates(), MARKER_RADIUS, inside.filled()))?;
        outline.map_or(Ok(()), |style| root.draw(&Circle::new(at.coordinates(), MARKER_RADIUS, style)))
    }
}

fn fill(root: &Canvas<'_>, outline: Rect, color: RGBColor) -> DrawResult {
    let [top_left, _, bottom_right, _] = outline.corners();
    root.draw(&Rectangle::new([top_left, bottom_right], color.filled()))
}

// As drawn.
const MARKER_RADIUS: i32 = 15;
const SQUARE_HALF: i32 = 13;
const RING_WIDTH: u32 = 6;
