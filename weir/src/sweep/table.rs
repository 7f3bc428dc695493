//! A table of typed columns, as CSV and as Parquet.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::files::whole;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Empty,
    Bool(bool),
    Whole(i64),
    Float(f64),
    Text(String),
}

/// Columns, each with its name and as many cells as the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<(String, Vec<Cell>)>,
}

/// What all cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Whole,
    Float,
    Text,
}

impl Cell {
    /// A counter; a text if it is too large for a whole number of Parquet.
    pub fn whole(n: u64) -> Cell {
        i64::try_from(n).map_or_else(|_| Cell::Text(n.to_string()), Cell::Whole)
    }

    /// Lists of texts are joined; other lists and tables stay JSON.
    pub fn of_json(value: &serde_json::Value) -> Cell {
        use serde_json::Value;
        match value {
            Value::Null => Cell::Empty,
            Value::Bool(is) => Cell::Bool(*is),
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => Cell::Whole(n),
                (_, Some(n), _) => Cell::whole(n),
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

    fn kind(&self) -> Option<Kind> {
        match self {
            Cell::Empty => None,
            Cell::Bool(_) => Some(Kind::Bool),
            Cell::Whole(_) => Some(Kind::Whole),
            Cell::Float(_) => Some(Kind::Float),
            Cell::Text(_) => Some(Kind::Text),
        }
    }

    /// As in CSV. A float has the fewest digits that are read as the same one, in whatever column: `1` or `0.1`.
    pub fn text(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Bool(is) => is.to_string(),
            Cell::Whole(n) => n.to_string(),
            Cell::Float(x) => x.to_string(),
            Cell::Text(text) => text.clone(),
        }
    }
}

impl Table {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, cells)| cells.len())
    }

    /// Writes it as CSV, whole or not at all.
    pub fn write_csv(&self, path: &Path) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows() {
            csv.write_record(self.columns.iter().map(|(_, cells)| cells[row].text()))?;
        }
        let text = csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        whole(path, |part| fs::write(part, &text))
    }

    /// Writes it as Parquet, whole or not at all: one row group, not compressed, so that the bytes depend on nothing but the
    /// table.
    pub fn write_parquet(&self, path: &Path) -> io::Result<()> {
        whole(path, |part| self.write_parquet_to(File::create(part)?).map_err(io::Error::other))
    }

    fn write_parquet_to(&self, file: File) -> Result<(), ParquetError> {
        let kinds: Vec<Kind> = self.columns.iter().map(|(_, cells)| kind_of(cells)).collect();
        let fields: Result<Vec<TypePtr>, ParquetError> =
            self.columns.iter().zip(&kinds).map(|((name, _), kind)| Ok(Arc::new(field(name, *kind)?))).collect();
        let schema = Type::group_type_builder("sweep").with_fields(fields?).build()?;
        let properties = WriterProperties::builder()
            .set_created_by("weir".to_owned())
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for ((_, cells), kind) in self.columns.iter().zip(&kinds) {
            let Some(mut column) = group.next_column()? else { break };
            write_cells(&mut column, cells, *kind)?;
            column.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

fn field(name: &str, kind: Kind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Whole => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    field.with_logical_type(logical).build()
}

fn write_cells(column: &mut SerializedColumnWriter<'_>, cells: &[Cell], kind: Kind) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(*cell != Cell::Empty)).collect();
    let there = || cells.iter().filter(|cell| **cell != Cell::Empty);
    let levels = Some(levels.as_slice());
    match kind {
        Kind::Bool => {
            let values: Vec<bool> = there().map(|cell| *cell == Cell::Bool(true)).collect();
            column.typed::<BoolType>().write_batch(&values, levels, None)?;
        }
        Kind::Whole => {
            let values: Vec<i64> =
                there().filter_map(|cell| if let Cell::Whole(n) = cell { Some(*n) } else { None }).collect();
            column.typed::<Int64Type>().write_batch(&values, levels, None)?;
        }
        Kind::Float => {
            let values: Vec<f64> = there().filter_map(float).collect();
            column.typed::<DoubleType>().write_batch(&values, levels, None)?;
        }
        Kind::Text => {
            let values: Vec<ByteArray> = there().map(|cell| ByteArray::from(cell.text().into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
        }
    }
    Ok(())
}

fn float(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Whole(n) => Some(*n as f64),
        Cell::Float(x) => Some(*x),
        _ => None,
    }
}

/// A column that is empty is one of numbers, as nearly all results are.
fn kind_of(cells: &[Cell]) -> Kind {
    let join = |one: Kind, other: Kind| match (one, other) {
        (one, other) if one == other => one,
        (Kind::Whole | Kind::Float, Kind::Whole | Kind::Float) => Kind::Float,
        _ => Kind::Text,
    };
    cells.iter().filter_map(Cell::kind).reduce(join).unwrap_or(Kind::Whole)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn table() -> Table {
        let text = |text: &str| Cell::Text(text.to_owned());
        Table {
            columns: vec![
                ("point".to_owned(), vec![Cell::Whole(1), Cell::Whole(2)]),
                ("load".to_owned(), vec![Cell::Float(0.1), Cell::Whole(1)]),
                ("run".to_owned(), vec![text("PFC, arrival"), text("DT \"a\"")]),
                ("lossless".to_owned(), vec![Cell::Bool(true), Cell::Bool(false)]),
                ("deadlock_since_ns".to_owned(), vec![Cell::Empty, Cell::Empty]),
                ("mtu".to_owned(), vec![Cell::Whole(9_000), text("jumbo")]),
            ],
        }
    }

    #[test]
    fn csv_and_parquet_say_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let [csv, parquet] = ["a.csv", "a.parquet"].map(|name| directory.path().join(name));
        table().write_csv(&csv).unwrap();
        table().write_parquet(&parquet).unwrap();
        assert_eq!(
            fs::read_to_string(&csv).unwrap(),
            "point,load,run,lossless,deadlock_since_ns,mtu\n1,0.1,\"PFC, arrival\",true,,9000\n\
             2,1,\"DT \"\"a\"\"\",false,,jumbo\n"
        );
        let reader = SerializedFileReader::new(File::open(&parquet).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            [
                "{point: 1, load: 0.1, run: \"PFC, arrival\", lossless: true, deadlock_since_ns: null, mtu: \"9000\"}",
                "{point: 2, load: 1.0, run: \"DT \"a\"\", lossless: false, deadlock_since_ns: null, mtu: \"jumbo\"}"
            ]
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_table_without_rows_is_one_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let empty = Table { columns: vec![("point".to_owned(), Vec::new())] };
        let path = directory.path().join("a.parquet");
        empty.write_parquet(&path).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn numbers_of_json_keep_their_kind() {
        let of = |text: &str| Cell::of_json(&serde_json::from_str(text).unwrap());
        assert_eq!(of("18446744073709551615"), Cell::Text("18446744073709551615".to_owned()));
        assert_eq!(
            [of("-1"), of("0.5"), of("null"), of("[\"a\",\"b\"]")],
            [Cell::Whole(-1), Cell::Float(0.5), Cell::Empty, Cell::Text("a; b".to_owned())]
        );
    }
}
