//! Table of typed columns, with a CSV writer.

use std::fs;
use std::io;
use std::path::Path;

use crate::files::write_atomic;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Empty,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

/// Columns with their names; all have the same number of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TypedTable {
    pub columns: Vec<(String, Vec<Cell>)>,
}

impl Cell {
    /// Cell of a counter; a text if the number exceeds Parquet's signed integers.
    pub(crate) fn from_u64(n: u64) -> Cell {
        i64::try_from(n).map_or_else(|_| Cell::Text(n.to_string()), Cell::Integer)
    }

    /// Converts JSON to a cell: lists of texts are joined, other lists and tables stay JSON.
    pub(crate) fn of_json(value: &serde_json::Value) -> Cell {
        use serde_json::Value;
        match value {
            Value::Null => Cell::Empty,
            Value::Bool(is) => Cell::Bool(*is),
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => Cell::Integer(n),
                (_, Some(n), _) => Cell::from_u64(n),
                (.., Some(x)) => Cell::Float(x),
                _ => Cell::Text(n.to_string()),
            },
            Value::String(text) => Cell::Text(text.clone()),
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_string) => {
                Cell::Text(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "))
            }
            other => Cell::Text(other.to_string()),
        }
    }

    /// Text in CSV. A float has the fewest digits that parse to the same number: `1` or `0.1`.
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Bool(is) => is.to_string(),
            Cell::Integer(n) => n.to_string(),
            Cell::Float(x) => x.to_string(),
            Cell::Text(text) => text.clone(),
        }
    }
}

impl TypedTable {
    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, cells)| cells.len())
    }

    /// Writes the table as CSV, completely or not at all.
    pub(crate) fn write_csv(&self, path: &Path) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows() {
            csv.write_record(self.columns.iter().map(|(_, cells)| cells[row].text()))?;
        }
        let text = csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        write_atomic(path, |part| fs::write(part, &text))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table() -> TypedTable {
        let text = |text: &str| Cell::Text(text.to_owned());
        TypedTable {
            columns: vec![
                ("point".to_owned(), vec![Cell::Integer(1), Cell::Integer(2)]),
                ("load".to_owned(), vec![Cell::Float(0.1), Cell::Integer(1)]),
                ("run".to_owned(), vec![text("PFC, arrival"), text("DT \"a\"")]),
                ("lossless".to_owned(), vec![Cell::Bool(true), Cell::Bool(false)]),
                ("deadlock_since_ns".to_owned(), vec![Cell::Empty, Cell::Empty]),
                ("mtu".to_owned(), vec![Cell::Integer(9_000), text("jumbo")]),
            ],
        }
    }

    #[test]
    fn csv_has_every_cell() {
        let directory = tempfile::tempdir().unwrap();
        let csv = directory.path().join("a.csv");
        table().write_csv(&csv).unwrap();
        assert_eq!(
            fs::read_to_string(&csv).unwrap(),
            "point,load,run,lossless,deadlock_since_ns,mtu\n1,0.1,\"PFC, arrival\",true,,9000\n\
             2,1,\"DT \"\"a\"\"\",false,,jumbo\n"
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn numbers_of_json_keep_their_kind() {
        let of = |text: &str| Cell::of_json(&serde_json::from_str(text).unwrap());
        assert_eq!(of("18446744073709551615"), Cell::Text("18446744073709551615".to_owned()));
        assert_eq!(
            [of("-1"), of("0.5"), of("null"), of("[\"a\",\"b\"]")],
            [Cell::Integer(-1), Cell::Float(0.5), Cell::Empty, Cell::Text("a; b".to_owned())]
        );
    }
}
