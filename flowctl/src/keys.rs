//! Ranges of flow-control settings.

use std::ops::RangeInclusive;

use weir_units::{Bytes, Span};

/// Lengths of a queue, up to the largest buffer.
pub(crate) const LENGTHS: RangeInclusive<Bytes> = Bytes::new(1)..=Bytes::mb(2_000);

/// Times between two messages.
pub(crate) const PERIODS: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_secs(1);
