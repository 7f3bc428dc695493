//! Tables of a sweep as text: parameters and results. Failed points are read too, so that they are not omitted
//! silently.

use std::path::Path;

use crate::Failure;
use crate::sweep::directory::Manifest;

#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub sweep: String,
    names: ColumnNames,
    pub rows: Vec<SweepRow>,
    /// Note on points without rows; `None` for a whole sweep.
    missing_points: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct SweepRow {
    /// Number of the point.
    pub point: usize,
    /// Values of the keys; `cells` has those of the columns.
    pub keys: Vec<String>,
    pub cells: Vec<String>,
    pub is_good: bool,
}

impl Results {
    /// Reads results.csv and failures.csv of a directory.
    pub(crate) fn read(directory: &Path) -> Result<Results, Failure> {
        let Manifest { name: sweep, columns, points, shard, .. } = Manifest::read(directory)?;
        let mut results = Results { sweep, ..Results::default() };
        for (file, is_good) in [("results.csv", true), ("failures.csv", false)] {
            let path = directory.join(file);
            let wrong = |what: String| Failure::Argument(format!("{}: {what}", path.display()));
            if !path.is_file() {
                return Err(wrong("the sweep is not finished; repeat weir sweep to go on with it".to_owned()));
            }
            let mut csv = csv::Reader::from_path(&path).map_err(|error| wrong(error.to_string()))?;
            let head = csv.headers().cloned().map_err(|error| wrong(error.to_string()))?;
            let is_key = |name: &str| {
                !["point", "outcome", "reason", "folder"].contains(&name) && !columns.iter().any(|it| it == name)
            };
            let keys: Vec<usize> = (0..head.len()).filter(|place| is_key(&head[*place])).collect();
            let names: Vec<String> = keys.iter().map(|place| head[*place].to_owned()).collect();
            let cells: Vec<Option<usize>> = columns.iter().map(|name| head.iter().position(|it| it == name)).collect();
            for record in csv.records() {
                let record = record.map_err(|error| wrong(error.to_string()))?;
                let at = |place: usize| record.get(place).unwrap_or_default().to_owned();
                let point = head.iter().position(|name| name == "point").and_then(|place| at(place).parse().ok());
                results.rows.push(SweepRow {
                    point: point.ok_or_else(|| wrong("a row has no number of its point".to_owned()))?,
                    keys: keys.iter().map(|place| at(*place)).collect(),
                    cells: cells.iter().map(|place| place.map_or_else(String::new, at)).collect(),
                    is_good,
                });
            }
            if is_good {
                results.names = ColumnNames { keys: names, columns: columns.clone() };
            }
        }
        if results.rows.len() < points {
            let of_shard = shard.map_or(String::new(), |shard| format!(", of shard {}/{}", shard.number, shard.of));
            let note = format!("only {} of the sweep's {points} points are there{of_shard}", results.rows.len());
            results.missing_points = Some(note);
        }
        Ok(results)
    }

    /// Note on points without rows; `None` for a whole sweep.
    pub(super) fn missing_points(&self) -> Option<String> {
        self.missing_points.clone()
    }

    /// Creates results of these rows.
    pub(super) fn of_rows(sweep: String, names: ColumnNames, rows: Vec<SweepRow>) -> Results {
        Results { sweep, names, rows, missing_points: None }
    }

    pub(crate) fn names(&self) -> ColumnNames {
        self.names.clone()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnNames {
    /// `run`, `seed` if the sweep has seeds, and the parameters.
    pub keys: Vec<String>,
    pub columns: Vec<String>,
}

impl ColumnNames {
    /// Names of the future tables of a sweep.
    pub(super) fn of_sweep(parameters: Vec<String>, columns: &[String]) -> ColumnNames {
        let keys = ["run", "seed"].map(str::to_owned).into_iter().chain(parameters).collect();
        ColumnNames { keys, columns: columns.to_vec() }
    }
}
