//! Boxes and markers, and what tells those of one name from others.

use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::{Color, RGBColor, ShapeStyle, WHITE};

use super::geometry::{Point, Rect, Size};
use super::{Canvas, Drawn, Marker, TEXT, px};

/// What tells a line from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    pub(super) color: RGBColor,
    /// Whether another line has the colour too, so that this one's is dashed, its markers are squares, its bars pale.
    pub(super) comes_again: bool,
}

/// The look of a name whose lines look different, and of what is drawn upon bars.
pub(super) const NEUTRAL: Look = Look { color: TEXT, comes_again: false };

/// A bar; of colours that come again the inside is pale.
pub(super) fn draw_box(root: &Canvas<'_>, outline: Rect, look: Look) -> Drawn {
    let pale = |part: u8| part / 3 + 170;
    let RGBColor(red, green, blue) = look.color;
    let inside = if look.comes_again { RGBColor(pale(red), pale(green), pale(blue)) } else { look.color };
    if outline.is_empty() {
        // A value of 0 has no bar; PNG's renderer would complain of one without height.
        return Ok(());
    }
    fill(root, outline, inside)?;
    if look.comes_again {
        draw_frame(root, outline.shrunk(px(1) / 2), look.color.stroke_width(px(1) as u32))?;
    }
    Ok(())
}

/// The backend's own frames are always as thin as can be.
pub(super) fn draw_frame(root: &Canvas<'_>, outline: Rect, style: ShapeStyle) -> Drawn {
    let [one, two, three, four] = outline.corners();
    // The first side comes twice, so that the last corner is joined as the others are.
    root.draw(&PathElement::new([one, two, three, four, one, two], style))
}

/// A disc or a ring, or squares of colours that come again.
pub(super) fn draw_marker(root: &Canvas<'_>, at: Point, marker: Marker, look: Look) -> Drawn {
    let inside = if marker == Marker::Filled { look.color } else { WHITE };
    let outline = (marker == Marker::Hollow).then(|| look.color.stroke_width(RING_WIDTH));
    if look.comes_again {
        let square = Rect::around(at, Size { width: SQUARE_HALF, height: SQUARE_HALF });
        fill(root, square, inside)?;
        outline.map_or(Ok(()), |style| draw_frame(root, square, style))
    } else {
        root.draw(&Circle::new(at.coordinates(), MARKER_RADIUS, inside.filled()))?;
        outline.map_or(Ok(()), |style| root.draw(&Circle::new(at.coordinates(), MARKER_RADIUS, style)))
    }
}

fn fill(root: &Canvas<'_>, outline: Rect, color: RGBColor) -> Drawn {
    let [top_left, _, bottom_right, _] = outline.corners();
    root.draw(&Rectangle::new([top_left, bottom_right], color.filled()))
}

// As drawn.
const MARKER_RADIUS: i32 = 15;
const SQUARE_HALF: i32 = 13;
const RING_WIDTH: u32 = 6;
