//! Distributions of message sizes.

mod file;

use weir_units::Bytes;

use super::error::MESSAGE_BYTES_MAX;
use super::{Rng, WorkloadError};

pub use file::{CdfError, CdfErrorKind};

/// Distribution of sizes: cumulative shares at some sizes, linearly interpolated. Two shares at one size are a step: the share between
/// them has exactly that size. A first share above 0 is a step, too.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeCdf {
    /// Sizes with their cumulative shares, both non-decreasing. The last share is 1; 0 and 1 occur at most once each.
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// Size in bytes.
    size: f64,
    /// Share of messages of at most this size; 1 for all.
    share: f64,
}

/// Name and file of each built-in distribution.
const BUILT_IN: [(&str, &str); 11] = [
    ("cache", include_str!("../../workloads/cache.txt")),
    ("data-mining", include_str!("../../workloads/data-mining.txt")),
    ("enterprise", include_str!("../../workloads/enterprise.txt")),
    ("google-rpc", include_str!("../../workloads/google-rpc.txt")),
    ("hadoop", include_str!("../../workloads/hadoop.txt")),
    ("hadoop-2015", include_str!("../../workloads/hadoop-2015.txt")),
    ("solar2022", include_str!("../../workloads/solar2022.txt")),
    ("storage", include_str!("../../workloads/storage.txt")),
    ("web-search", include_str!("../../workloads/web-search.txt")),
    ("web-search-reverie", include_str!("../../workloads/web-search-reverie.txt")),
    ("web-server", include_str!("../../workloads/web-server.txt")),
];

impl SizeCdf {
    /// Maximum size of a message.
    pub const SIZE_MAX: Bytes = MESSAGE_BYTES_MAX;

    /// Creates a distribution of one size.
    ///
    /// # Errors
    /// The size is zero, or above [`SizeCdf::SIZE_MAX`].
    pub fn fixed(size: Bytes) -> Result<SizeCdf, WorkloadError> {
        if size == Bytes::ZERO || size > SizeCdf::SIZE_MAX {
            return Err(WorkloadError::Size(size));
        }
        Ok(SizeCdf { points: vec![Point { size: size.get() as f64, share: 1.0 }] })
    }

    /// Returns the built-in distribution of this name; `None` if there is none. The source is stated in its file.
    pub fn built_in(name: &str) -> Option<SizeCdf> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(SizeCdf::parse(text).expect("a test reads them all"))
    }

    /// Returns the names of [`SizeCdf::built_in`], sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads lines of a size in whole bytes and a cumulative share, separated by blanks or a comma. Neither may fall.
    ///
    /// Shares are percentages that end at 100, or fractions that end at 1. `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is wrong, or an incomplete end.
    pub fn parse(text: &str) -> Result<SizeCdf, CdfError> {
        let mut points = file::read(text)?;
        // Segments along 0 and along 1 contain no messages.
        let first = points.iter().take_while(|point| point.share == 0.0).count().saturating_sub(1);
        points.drain(..first);
        let all = points.iter().position(|point| point.share == 1.0).expect("the shares end at 1");
        points.truncate(all + 1);
        Ok(SizeCdf { points })
    }

    /// Mean in bytes: that of the linear interpolation, but not below 1.
    pub fn mean(&self) -> f64 {
        self.integral(|size| size * size / 2.0, |size| size).max(1.0)
    }

    /// Mean number of frames of a message, with `payload` bytes per full frame.
    ///
    /// # Panics
    /// If `payload` is 0.
    pub(super) fn mean_frames(&self, payload: Bytes) -> f64 {
        assert!(payload > Bytes::ZERO, "a frame carries something");
        let payload = payload.get() as f64;
        let frames = |size: f64| (size / payload).ceil();
        // Where the k frames before are full, the rest of the size counts k + 1 times.
        let area = |size: f64| {
            let full = (size / payload).floor();
            payload * full * (full + 1.0) / 2.0 + (size - full * payload) * (full + 1.0)
        };
        self.integral(area, frames).max(1.0)
    }

    /// Returns the mean of a function of the size, given its integral from 0 on, and itself for steps.
    fn integral(&self, area: impl Fn(f64) -> f64, at: impl Fn(f64) -> f64) -> f64 {
        let first = self.points[0];
        let between = self.points.windows(2).map(|pair| {
            let [low, high] = [pair[0], pair[1]];
            let share = high.share - low.share;
            if low.size == high.size {
                share * at(low.size)
            } else {
                share * (area(high.size) - area(low.size)) / (high.size - low.size)
            }
        });
        first.share * at(first.size) + between.sum::<f64>()
    }

    /// Returns the smallest size that a share of all messages does not exceed, to the nearest byte and at least 1. `share` is 0.5 for the
    /// median; it is clamped to 0 to 1.
    pub fn quantile(&self, share: f64) -> Bytes {
        let place = self.points.partition_point(|point| point.share < share).min(self.points.len() - 1);
        let high = self.points[place];
        let size = match place.checked_sub(1) {
            None => high.size,
            Some(before) => {
                let low = self.points[before];
                let along = ((share - low.share) / (high.share - low.share)).min(1.0);
                low.size + (high.size - low.size) * along
            }
        };
        Bytes::new((size + 0.5) as u64).max(Bytes::new(1))
    }

    /// Returns the share of messages of at most this size; 1 for all.
    pub fn share_up_to(&self, size: Bytes) -> f64 {
        let size = size.get() as f64;
        let place = self.points.partition_point(|point| point.size <= size);
        let (Some(before), Some(high)) = (place.checked_sub(1), self.points.get(place)) else {
            return if place == 0 { 0.0 } else { 1.0 };
        };
        let low = self.points[before];
        low.share + (high.share - low.share) * (size - low.size) / (high.size - low.size)
    }

    /// Draws the size of a message, at least 1.
    pub fn sample(&self, rng: &mut Rng) -> Bytes {
        self.quantile(rng.unit())
    }

    /// Maximum size.
    pub fn largest(&self) -> Bytes {
        self.quantile(1.0)
    }
}

#[cfg(test)]
mod tests;
