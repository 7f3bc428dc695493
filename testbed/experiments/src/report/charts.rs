//! What the page's script draws: columns of numbers, and charts that refer to them.

use std::fmt::Write as _;

use serde::Serialize;

/// All numbers of a page. A column that several charts show is there once.
#[derive(Default)]
pub(super) struct Columns {
    columns: Vec<Vec<f64>>,
}

/// A column, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Column(usize);

/// One plot.
#[derive(Debug, Default, Serialize)]
pub(super) struct Chart {
    pub x: Axis,
    pub y: Axis,
    /// Their instants or sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Column>,
    pub lines: Vec<ChartLine>,
    /// In place of `lines`, one of these at a time, as the section's list has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Vec<ChartLine>>,
    /// Instants that are worth a line across.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ChartMark>,
    /// In place of lines, bars in rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// In place of numbers, what stands below.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// An axis.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Axis {
    pub label: String,
    pub from: f64,
    pub to: f64,
    /// Whether it is the runs' time, by which all charts are zoomed together.
    pub is_time: bool,
    pub is_log: bool,
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartLine {
    pub name: String,
    pub column: Column,
    /// One of the palette.
    pub color: usize,
    pub is_dashed: bool,
    pub is_stepped: bool,
    /// Whether the area below is filled.
    pub is_filled: bool,
}

/// An instant with a name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartMark {
    pub at: f64,
    pub text: String,
}

/// A row of bars.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub name: String,
    pub bars: Vec<Bars>,
}

/// Bars of one kind in a row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Bars {
    /// The name of the bars, which is shown for one under the pointer.
    pub what: String,
    pub color: usize,
    /// Whether they are instants rather than spans.
    pub are_ticks: bool,
    pub spans: Vec<(f64, f64)>,
}

/// Colours of the page, by what they stand for.
pub(super) mod color {
    /// As many as the palette has.
    pub(crate) const COUNT: usize = 7;
    pub(crate) const BLUE: usize = 0;
    pub(crate) const VERMILION: usize = 1;
    pub(crate) const GREEN: usize = 2;
    pub(crate) const ORANGE: usize = 4;
    pub(crate) const BLACK: usize = 6;
}

impl Columns {
    /// Adds a column; not a number is a gap.
    pub(super) fn add(&mut self, values: Vec<f64>) -> Column {
        self.columns.push(values);
        Column(self.columns.len() - 1)
    }

    /// A column's numbers.
    pub(super) fn of(&self, column: Column) -> &[f64] {
        &self.columns[column.0]
    }

    /// As JSON: of a column that is the same all along, that value alone.
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

/// With six significant digits at least, and all of what is before the point.
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
    /// The runs' time, in milliseconds.
    pub(super) fn time(end_ms: f64) -> Axis {
        Axis { label: "time (ms)".to_owned(), to: end_ms, is_time: true, ..Axis::default() }
    }

    /// From 0 to a little above the largest value.
    pub(super) fn up_to(label: &str, max: f64) -> Axis {
        let to = if max > 0.0 && max.is_finite() { max * 1.05 } else { 1.0 };
        Axis { label: label.to_owned(), to, ..Axis::default() }
    }
}

impl ChartLine {
    /// A plain line, the `n`-th of a chart.
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
