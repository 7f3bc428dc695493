//! Text format of distributions.

use super::{Point, SizeCdf};

/// Error in a distribution's text, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct CdfError {
    /// Number of the line, from 1; the last one if the end is incomplete.
    pub line: usize,
    /// Error in the line.
    pub kind: CdfErrorKind,
}

/// Error in a line of a distribution, or in the distribution as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdfErrorKind {
    /// The line has one number, or more than two.
    #[error("{0:?} is not two numbers; write a size in bytes and a cumulative share, like `10000 15`")]
    NotTwo(String),
    /// The size is no whole number, or is negative.
    #[error("the size {0:?} is not a whole number of bytes; write for example 10000")]
    Size(String),
    /// The size is above the maximum of messages.
    #[error("the size {0} is too large; write {max} at most, in bytes and not in bits", max = SizeCdf::SIZE_MAX.get())]
    TooLarge(u64),
    /// The share is no number.
    #[error("the cumulative share {0:?} is not a number; write a percentage like 15, or a fraction like 0.15")]
    Share(String),
    /// The share is below 0 or above 100.
    #[error("the cumulative share {0} is not between 0 and 100; write a percentage, or a fraction of 1")]
    OutOfRange(String),
    /// The size is below that of the line before.
    #[error("the size {0} is below {1} of the line before; write the points by growing size")]
    SizeFalls(u64, u64),
    /// The share is below that of the line before.
    #[error(
        "the cumulative share {0} is below {1} of the line before; write the share of all messages up to the size, not of those between"
    )]
    ShareFalls(String, String),
    /// The last share is neither 100 nor 1.
    #[error(
        "the last cumulative share is {0}; end with 100 if the shares are percentages, with 1 if they are fractions"
    )]
    End(String),
    /// The distribution has fewer than two points.
    #[error("too few points: {0}; write two at least, like `0 0` and `10000 100`")]
    TooFew(usize),
    /// All messages are empty.
    #[error("the largest size is 0; write a size of 1 byte or more")]
    Nothing,
}

/// Reads the points of a text, with shares up to 1.
pub(super) fn read(text: &str) -> Result<Vec<Point>, CdfError> {
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut last = (1, String::new());
    for (n, line) in text.lines().enumerate() {
        let line_number = n + 1;
        let fault = |fault| CdfError { line: line_number, kind: fault };
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if line.is_empty() {
            continue;
        }
        let mut fields = line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let (Some(size_text), Some(share_text), None) = (fields.next(), fields.next(), fields.next()) else {
            return Err(fault(CdfErrorKind::NotTwo(line.to_owned())));
        };
        let (size, share) = (size(size_text).map_err(fault)?, share(share_text).map_err(fault)?);
        if let Some((size_before, share_before)) = points.last() {
            if size < *size_before {
                return Err(fault(CdfErrorKind::SizeFalls(size, *size_before)));
            }
            if share < *share_before {
                return Err(fault(CdfErrorKind::ShareFalls(share_text.to_owned(), last.1)));
            }
        }
        points.push((size, share));
        last = (line_number, share_text.to_owned());
    }
    let (line, share_text) = last;
    let (size, total_share) = match points.as_slice() {
        [_, .., last] => *last,
        few => return Err(CdfError { line, kind: CdfErrorKind::TooFew(few.len()) }),
    };
    if total_share != 100.0 && total_share != 1.0 {
        return Err(CdfError { line, kind: CdfErrorKind::End(share_text) });
    }
    if size == 0 {
        return Err(CdfError { line, kind: CdfErrorKind::Nothing });
    }
    Ok(points.iter().map(|(size, share)| Point { size: *size as f64, share: share / total_share }).collect())
}

fn size(text: &str) -> Result<u64, CdfErrorKind> {
    let size: u64 = text.parse().map_err(|_| CdfErrorKind::Size(text.to_owned()))?;
    if size > SizeCdf::SIZE_MAX.get() { Err(CdfErrorKind::TooLarge(size)) } else { Ok(size) }
}

fn share(text: &str) -> Result<f64, CdfErrorKind> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => Ok(share),
        Ok(share) if share.is_finite() => Err(CdfErrorKind::OutOfRange(text.to_owned())),
        _ => Err(CdfErrorKind::Share(text.to_owned())),
    }
}
