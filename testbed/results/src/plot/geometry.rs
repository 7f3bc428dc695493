//! Ranges of axes, and points, sizes and rectangles of a picture.

/// Positions at the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Point of a picture: distances right and down from the upper left corner, in [`px`](super::px).
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: i32,
    pub(super) y: i32,
}

/// Size in [`px`](super::px).
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) width: i32,
    pub(super) height: i32,
}

/// Rectangle of a picture, given by its sides.
#[derive(Clone, Copy)]
pub(super) struct Rect {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Range {
    pub(super) fn contains(self, position: f64) -> bool {
        (self.low..=self.high).contains(&position)
    }

    pub(super) fn length(self) -> f64 {
        self.high - self.low
    }
}

impl Point {
    pub(super) fn new(x: i32, y: i32) -> Point {
        Point { x, y }
    }

    /// Returns the point in the drawing library's form.
    pub(super) fn coordinates(self) -> (i32, i32) {
        (self.x, self.y)
    }
}

impl Rect {
    /// Creates the rectangle with these two opposite corners, in any order.
    pub(super) fn between(one: Point, other: Point) -> Rect {
        Rect {
            left: one.x.min(other.x),
            top: one.y.min(other.y),
            right: one.x.max(other.x),
            bottom: one.y.max(other.y),
        }
    }

    /// Creates the rectangle with this middle and half this size.
    pub(super) fn around(middle: Point, half: Size) -> Rect {
        Rect {
            left: middle.x - half.width,
            top: middle.y - half.height,
            right: middle.x + half.width,
            bottom: middle.y + half.height,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.left == self.right || self.top == self.bottom
    }

    /// Returns the rectangle with each side moved inwards.
    pub(super) fn shrunk(self, by: i32) -> Rect {
        Rect { left: self.left + by, top: self.top + by, right: self.right - by, bottom: self.bottom - by }
    }

    /// Returns the corners clockwise from the upper left, in the drawing library's form.
    pub(super) fn corners(self) -> [(i32, i32); 4] {
        let Rect { left, top, right, bottom } = self;
        [(left, top), (right, top), (right, bottom), (left, bottom)]
    }
}
