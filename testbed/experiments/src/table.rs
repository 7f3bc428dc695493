//! Text tables for the terminal. The modules below are parts of tables of results: typed cells, key paths, statistics, units.

pub(crate) mod key_path;
pub(crate) mod statistics;
pub(crate) mod typed;
pub(crate) mod units;

use std::fmt;

pub use weir_units::count;

/// Rate in Gb/s. Rates below 100 Mb/s, as of emulated guests, have more decimals.
pub fn gbps(bps: u64) -> String {
    if bps != 0 && bps < 100_000_000 { format!("{:.4}", bps as f64 / 1e9) } else { format!("{:.2}", bps as f64 / 1e9) }
}

/// Rows below a head; the first column is aligned left, the others right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    has_text_last: bool,
}

impl Table {
    /// Creates a table with this head.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![head.into_iter().map(Into::into).collect()], has_text_last: false }
    }

    /// Creates a table of rows, the head first.
    pub(crate) fn of_rows(rows: impl IntoIterator<Item = Vec<String>>) -> Table {
        Table { rows: rows.into_iter().collect(), has_text_last: false }
    }

    /// Aligns the last column left, for text.
    pub fn with_text_last(self) -> Table {
        Table { has_text_last: true, ..self }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Keeps the rows below the head for which this holds.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[String]) -> bool) {
        let mut is_head = true;
        self.rows.retain(|row| std::mem::take(&mut is_head) || keeps(row));
    }

    /// Whether the table has only its head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (n, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let is_text = column == 0 || (self.has_text_last && column + 1 == columns);
                if is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            if n == 0 {
                writeln!(f, "  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)))?;
            }
        }
        Ok(())
    }
}

/// Groups equal texts, with the names that each belongs to: `p0, p1`.
pub fn group_by_text<'n>(texts: impl IntoIterator<Item = (String, &'n str)>) -> Vec<(String, String)> {
    let mut together: Vec<(String, String)> = Vec::new();
    for (what, name) in texts {
        match together.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => *names += &format!(", {name}"),
            None => together.push((what, name.to_owned())),
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["Port", "Frames"]);
        table.row(["p0", "1"]);
        table.row(["long-name", "1,000"]);
        assert_eq!(
            table.to_string(),
            "  Port       Frames\n  -----------------\n  p0              1\n  long-name   1,000\n"
        );
    }
}
