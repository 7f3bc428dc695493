//! What axes cover, and places and sizes in a picture.

/// Positions at the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A place in a picture: so far right and down of its upper left corner, in [`px`](super::px).
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: i32,
    pub(super) y: i32,
}

/// In [`px`](super::px).
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) width: i32,
    pub(super) height: i32,
}

/// A part of a picture, by its sides.
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

    /// As the drawing library has places.
    pub(super) fn coordinates(self) -> (i32, i32) {
        (self.x, self.y)
    }
}

impl Rect {
    /// With two opposite corners there, in any order.
    pub(super) fn between(one: Point, other: Point) -> Rect {
        Rect {
            left: one.x.min(other.x),
            top: one.y.min(other.y),
            right: one.x.max(other.x),
            bottom: one.y.max(other.y),
        }
    }

    /// So far from its middle to its sides.
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

    /// Smaller by so much at each side.
    pub(super) fn shrunk(self, by: i32) -> Rect {
        Rect { left: self.left + by, top: self.top + by, right: self.right - by, bottom: self.bottom - by }
    }

    /// The upper left corner, and on clockwise, as the drawing library has places.
    pub(super) fn corners(self) -> [(i32, i32); 4] {
        let Rect { left, top, right, bottom } = self;
        [(left, top), (right, top), (right, bottom), (left, bottom)]
    }
}
