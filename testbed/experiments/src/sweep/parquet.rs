//! Parquet writer of a table.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::files::write_atomic;
use crate::table::typed::{Cell, TypedTable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnType {
    Bool,
    Integer,
    Float,
    Text,
}

impl TypedTable {
    /// Writes the table as Parquet, completely or not at all: one row group, not compressed, so that the bytes depend
    /// only on the table.
    pub(crate) fn write_parquet(&self, path: &Path) -> io::Result<()> {
        write_atomic(path, |part| self.write_parquet_to(File::create(part)?).map_err(io::Error::other))
    }

    fn write_parquet_to(&self, file: File) -> Result<(), ParquetError> {
        let kinds: Vec<ColumnType> = self.columns.iter().map(|(_, cells)| kind_of(cells)).collect();
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

fn field(name: &str, kind: ColumnType) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        ColumnType::Bool => (Physical::BOOLEAN, None),
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Float => (Physical::DOUBLE, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    field.with_logical_type(logical).build()
}

fn write_cells(column: &mut SerializedColumnWriter<'_>, cells: &[Cell], kind: ColumnType) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(*cell != Cell::Empty)).collect();
    let there = || cells.iter().filter(|cell| **cell != Cell::Empty);
    let levels = Some(levels.as_slice());
    match kind {
        ColumnType::Bool => {
            let values: Vec<bool> = there().map(|cell| *cell == Cell::Bool(true)).collect();
            column.typed::<BoolType>().write_batch(&values, levels, None)?;
        }
        ColumnType::Integer => {
            let values: Vec<i64> =
                there().filter_map(|cell| if let Cell::Integer(n) = cell { Some(*n) } else { None }).collect();
            column.typed::<Int64Type>().write_batch(&values, levels, None)?;
        }
        ColumnType::Float => {
            let values: Vec<f64> = there().filter_map(float).collect();
            column.typed::<DoubleType>().write_batch(&values, levels, None)?;
        }
        ColumnType::Text => {
            let values: Vec<ByteArray> = there().map(|cell| ByteArray::from(cell.text().into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
        }
    }
    Ok(())
}

fn float(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Integer(n) => Some(*n as f64),
        Cell::Float(x) => Some(*x),
        _ => None,
    }
}

fn kind(cell: &Cell) -> Option<ColumnType> {
    match cell {
        Cell::Empty => None,
        Cell::Bool(_) => Some(ColumnType::Bool),
        Cell::Integer(_) => Some(ColumnType::Integer),
        Cell::Float(_) => Some(ColumnType::Float),
        Cell::Text(_) => Some(ColumnType::Text),
    }
}

/// Common type of the cells; an empty column has the type of numbers, as nearly all results.
fn kind_of(cells: &[Cell]) -> ColumnType {
    let join = |one: ColumnType, other: ColumnType| match (one, other) {
        (one, other) if one == other => one,
        (ColumnType::Integer | ColumnType::Float, ColumnType::Integer | ColumnType::Float) => ColumnType::Float,
        _ => ColumnType::Text,
    };
    cells.iter().filter_map(kind).reduce(join).unwrap_or(ColumnType::Integer)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::table::typed::tests::table;

    #[test]
    fn a_row_has_every_cell_with_its_type() {
        let directory = tempfile::tempdir().unwrap();
        let parquet = directory.path().join("a.parquet");
        table().write_parquet(&parquet).unwrap();
        let reader = SerializedFileReader::new(File::open(&parquet).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            [
                "{point: 1, load: 0.1, run: \"PFC, arrival\", lossless: true, deadlock_since_ns: null, mtu: \"9000\"}",
                "{point: 2, load: 1.0, run: \"DT \"a\"\", lossless: false, deadlock_since_ns: null, mtu: \"jumbo\"}"
            ]
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_table_without_rows_is_one_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let empty = TypedTable { columns: vec![("point".to_owned(), Vec::new())] };
        let path = directory.path().join("a.parquet");
        empty.write_parquet(&path).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
