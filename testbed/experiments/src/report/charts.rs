//! Data for the page's script: columns of numbers, and charts that refer to them.

use std::fmt::Write as _;

use serde::Serialize;

/// All numbers of a page. A column that several charts show is stored once.
#[derive(Default)]
pub(super) struct Columns {
    columns: Vec<Vec<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Column(usize);

#[derive(Debug, Default, Serialize)]
pub(super) struct Chart {
    pub x: Axis,
    pub y: Axis,
    /// Instants or sizes of the lines' points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Column>,
    pub lines: Vec<ChartLine>,
    /// Alternative sets of lines, of which the section's list selects one; replaces `lines`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Vec<ChartLine>>,
    /// Instants marked by a vertical line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ChartMark>,
    /// Rows of bars; replaces lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<BarRow>,
    /// Labels of the horizontal axis; replaces numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Axis {
    pub label: String,
    pub from: f64,
    pub to: f64,
    /// Whether the axis is the runs' time; all such charts zoom together.
    pub is_time: bool,
    pub is_log: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartLine {
    pub name: String,
    pub column: Column,
    /// Index in the palette.
    pub color: usize,
    pub is_dashed: bool,
    pub is_stepped: bool,
    pub is_filled: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartMark {
    pub at: f64,
    pub text: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct BarRow {
    pub name: String,
    pub bars: Vec<Bars>,
}

/// Bars of one kind in a row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bars {
    /// Name of the bars, shown for the bar under the pointer.
    pub what: String,
    pub color: usize,
    /// Whether the bars are instants instead of intervals.
    pub are_ticks: bool,
    pub spans: Vec<(f64, f64)>,
}

/// Palette indices of the page, by name.
pub(super) mod color {
    pub(crate) const COUNT: usize = 7;
    pub(crate) const BLUE: usize = 0;
    pub(crate) const VERMILION: usize = 1;
    pub(crate) const GREEN: usize = 2;
    pub(crate) const ORANGE: usize = 4;
    pub(crate) const BLACK: usize = 6;
}

impl Columns {
    /// Adds a column; NaN is a gap.
    pub(super) fn add(&mut self, values: Vec<f64>) -> Column {
        self.columns.push(values);
        Column(self.columns.len() - 1)
    }

    pub(super) fn values(&self, column: Column) -> &[f64] {
        &self.columns[column.0]
    }

    /// Columns as JSON; a constant column is stored as one value and a length.
    pub(super) fn json(&self) -> String {
        let mut json = String::from("[");
        for (n, column) in self.columns.iter().enumerate() {
            if n > 0 {
                json.push_str(",\n");
            }
            match column.as_slice() {
                [first, rest @ ..] if rest.iter().all(|value| value == first) => {
                    let _ = write!(json, "{{\"all\":{},\"length\":{}}}", number(*first), column.len());
                }
                values => {
                    let numbers: Vec<String> = values.iter().map(|value| number(*value)).collect();
                    let _ = write!(json, "[{}]", numbers.join(","));
                }
            }
        }
        json + "]"
    }
}

/// Number with at least six significant digits, and all digits before the decimal point.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let text = format!("{value:.*}", (5 - digits).clamp(0, 9) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Axis {
    /// Time axis in milliseconds.
    pub(super) fn time(end_ms: f64) -> Axis {
        Axis { label: "time (ms)".to_owned(), to: end_ms, is_time: true, ..Axis::default() }
    }

    /// Axis from 0 to 5 % above the largest value.
    pub(super) fn up_to(label: &str, max: f64) -> Axis {
        let to = if max > 0.0 && max.is_finite() { max * 1.05 } else { 1.0 };
        Axis { label: label.to_owned(), to, ..Axis::default() }
    }
}

impl ChartLine {
    /// Plain line, the `n`-th of a chart.
    pub(super) fn nth(n: usize, name: &str, column: Column) -> ChartLine {
        ChartLine {
            name: name.to_owned(),
            column,
            color: n % color::COUNT,
            is_dashed: n / color::COUNT % 2 == 1,
            is_stepped: false,
            is_filled: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_true() {
        let shown = [0.0, 1.0, -2.5, 1_234_567.0, 0.000_123_456_7, 2.345_678_912, 30.000_05, f64::NAN].map(number);
        assert_eq!(shown, ["0", "1", "-2.5", "1234567", "0.000123457", "2.34568", "30.0001", "null"]);
    }

    #[test]
    fn a_column_that_never_changes_is_short() {
        let mut columns = Columns::default();
        columns.add(vec![5.0; 1_000]);
        columns.add(vec![1.0, f64::NAN]);
        assert_eq!(columns.json(), "[{\"all\":5,\"length\":1000},\n[1,null]]");
    }
}
