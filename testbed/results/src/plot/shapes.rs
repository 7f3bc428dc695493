//! Boxes and markers, and what tells those of one name from others.

use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::{Color, RGBColor, ShapeStyle, WHITE};

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
pub(super) fn draw_box(root: &Canvas<'_>, one: (i32, i32), other: (i32, i32), look: Look) -> Drawn {
    let pale = |part: u8| part / 3 + 170;
    let RGBColor(red, green, blue) = look.color;
    let inside = if look.comes_again { RGBColor(pale(red), pale(green), pale(blue)) } else { look.color };
    let (top_left, bottom_right) = ((one.0.min(other.0), one.1.min(other.1)), (one.0.max(other.0), one.1.max(other.1)));
    if top_left.0 == bottom_right.0 || top_left.1 == bottom_right.1 {
        // A value of 0 has no bar; PNG's renderer would complain of one without height.
        return Ok(());
    }
    root.draw(&Rectangle::new([top_left, bottom_right], inside.filled()))?;
    if look.comes_again {
        let half = px(1) / 2;
        let (inner_start, inner_end) =
            ((top_left.0 + half, top_left.1 + half), (bottom_right.0 - half, bottom_right.1 - half));
        draw_frame(root, inner_start, inner_end, look.color.stroke_width(px(1) as u32))?;
    }
    Ok(())
}

/// The backend's own frames are always as thin as can be.
pub(super) fn draw_frame(root: &Canvas<'_>, one: (i32, i32), other: (i32, i32), style: ShapeStyle) -> Drawn {
    // The first side comes twice, so that the last corner is joined as the others are.
    root.draw(&PathElement::new([one, (other.0, one.1), other, (one.0, other.1), one, (other.0, one.1)], style))
}

/// A disc or a ring, or squares of colours that come again.
pub(super) fn draw_marker(root: &Canvas<'_>, (x, y): (i32, i32), marker: Marker, look: Look) -> Drawn {
    let inside = if marker == Marker::Filled { look.color } else { WHITE };
    let outline = (marker == Marker::Hollow).then(|| look.color.stroke_width(RING_WIDTH));
    if look.comes_again {
        let (one, other) = ((x - SQUARE_HALF, y - SQUARE_HALF), (x + SQUARE_HALF, y + SQUARE_HALF));
        root.draw(&Rectangle::new([one, other], inside.filled()))?;
        outline.map_or(Ok(()), |style| draw_frame(root, one, other, style))
    } else {
        root.draw(&Circle::new((x, y), MARKER_RADIUS, inside.filled()))?;
        outline.map_or(Ok(()), |style| root.draw(&Circle::new((x, y), MARKER_RADIUS, style)))
    }
}

// As drawn.
const MARKER_RADIUS: i32 = 15;
const SQUARE_HALF: i32 = 13;
const RING_WIDTH: u32 = 6;
