//! Reader of `series.csv` that downsamples while reading: a long run's file may exceed the memory.

use std::io::Read;
use std::path::{Path, PathBuf};

use weir_results::run_dir::complete_lines;

use crate::Failure;

/// Series of a run, with its columns and their maxima; samples are read later.
pub(super) struct SeriesFile {
    path: PathBuf,
    columns: Vec<SeriesColumn>,
    rows: usize,
    /// Time of the last row, in microseconds.
    end_us: f64,
}

pub(super) struct SeriesColumn {
    pub name: String,
    /// Largest number; NaN for an empty column.
    pub max: f64,
}

#[derive(Default)]
pub(super) struct Samples {
    /// Instants in milliseconds.
    pub at: Vec<f64>,
    /// Values by requested column; NaN for an empty field.
    pub values: Vec<Vec<f64>>,
    /// Rows per bucket; 1 if nothing was omitted.
    pub rows_each: usize,
}

/// Downsampler that keeps all peaks: each bucket of rows becomes two, with the smallest and largest value of each
/// column, in their order of occurrence.
pub(super) struct Downsampler {
    samples: Samples,
    at: Vec<f64>,
    bucket: Vec<Vec<f64>>,
}

#[derive(Default)]
pub(super) struct Means {
    /// Middles of the windows, in milliseconds.
    pub at: Vec<f64>,
    pub values: Vec<Vec<f64>>,
    /// Length of the windows, in microseconds.
    pub over_us: f64,
}

impl SeriesFile {
    /// Reads names and maxima; `None` if the run has no series.
    pub(super) fn survey(run: &Path) -> Result<Option<SeriesFile>, Failure> {
        let path = run.join("series.csv");
        if !path.exists() {
            return Ok(None);
        }
        let mut file = SeriesFile { path, columns: Vec::new(), rows: 0, end_us: 0.0 };
        let mut reader = file.open()?;
        let header = reader.headers().map_err(|error| file.wrong(&error))?.clone();
        if header.get(0) != Some("t_us") {
            return Err(Failure::Argument(format!(
                "{}: the first column is not t_us, so it is no run's series; name a run's directory as it was left",
                file.path.display()
            )));
        }
        let mut max = vec![f64::NAN; header.len()];
        let (mut rows, mut end_us) = (0, 0.0);
        file.each_row(|row| {
            rows += 1;
            end_us = row[0];
            max.iter_mut().zip(row).for_each(|(max, value)| *max = max.max(*value));
            Ok(())
        })?;
        let named = header.iter().zip(max).map(|(name, max)| SeriesColumn { name: name.to_owned(), max });
        (file.columns, file.rows, file.end_us) = (named.collect(), rows, end_us);
        Ok(Some(file))
    }

    pub(super) fn columns(&self) -> &[SeriesColumn] {
        &self.columns
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Samples of columns, downsampled to `points` by [`Downsampler`].
    pub(super) fn samples(&self, places: &[usize], points: usize) -> Result<Samples, Failure> {
        let mut downsampler = Downsampler::new(places.len(), self.rows, points);
        self.each_row(|row| {
            downsampler.push(row[0] / 1e3, places.iter().map(|place| row[*place]));
            Ok(())
        })?;
        Ok(downsampler.finish())
    }

    /// Means of rate columns, whose values refer to the time since the previous row. The window is `over_us`, or longer
    /// for at most `points` means.
    pub(super) fn means(&self, places: &[usize], over_us: f64, points: usize) -> Result<Means, Failure> {
        let over_us = over_us.max(self.end_us / points as f64).max(f64::MIN_POSITIVE);
        let mut means = Means { values: vec![Vec::new(); places.len()], over_us, ..Means::default() };
        let (mut span, mut last) = (None, 0.0);
        let (mut length, mut sums) = (0.0, vec![0.0; places.len()]);
        self.each_row(|row| {
            // A row at the exact end of a window belongs to it.
            let of_row = (row[0] / over_us - 1e-9).floor().max(0.0);
            if span != Some(of_row) {
                means.close(self.end_us, span, length, &sums);
                (span, length) = (Some(of_row), 0.0);
                sums.fill(0.0);
            }
            let since = row[0] - last;
            last = row[0];
            length += since;
            sums.iter_mut().zip(places).for_each(|(sum, place)| *sum += row[*place] * since);
            Ok(())
        })?;
        means.close(self.end_us, span, length, &sums);
        Ok(means)
    }

    fn each_row(&self, mut of_row: impl FnMut(&[f64]) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut reader = self.open()?;
        let (mut record, mut row) = (csv::StringRecord::new(), Vec::new());
        while reader.read_record(&mut record).map_err(|error| self.wrong(&error))? {
            row.clear();
            for field in &record {
                row.push(match field {
                    "" => f64::NAN,
                    field => field.parse().map_err(|_| self.no_number(field, &record))?,
                });
            }
            of_row(&row)?;
        }
        Ok(())
    }

    fn open(&self) -> Result<csv::Reader<impl Read + use<>>, Failure> {
        rows(&self.path)
    }

    fn wrong(&self, error: &dyn std::fmt::Display) -> Failure {
        unreadable(&self.path, error)
    }

    fn no_number(&self, field: &str, record: &csv::StringRecord) -> Failure {
        let line = record.position().map_or(0, csv::Position::line);
        self.wrong(&format!("line {line}: `{field}` is no number"))
    }
}

/// Reader of the complete rows of a run's CSV file; skips a row half-written by a killed run.
pub(super) fn rows(path: &Path) -> Result<csv::Reader<impl Read + use<>>, Failure> {
    Ok(csv::Reader::from_reader(complete_lines(path).map_err(|error| unreadable(path, &error))?))
}

/// Error for a CSV file that differs from a run's.
pub(super) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Argument(format!(
        "{}: can't be read: {error}; run the scenario again, or name another directory",
        path.display()
    ))
}

impl Downsampler {
    /// Creates a downsampler from `rows` to about `points` rows.
    pub(super) fn new(columns: usize, rows: usize, points: usize) -> Downsampler {
        let rows_each = if rows <= points { 1 } else { (2 * rows).div_ceil(points) };
        let samples = Samples { values: vec![Vec::new(); columns], rows_each, ..Samples::default() };
        Downsampler { samples, at: Vec::new(), bucket: vec![Vec::new(); columns] }
    }

    pub(super) fn push(&mut self, at_ms: f64, row: impl Iterator<Item = f64>) {
        self.at.push(at_ms);
        self.bucket.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        if self.at.len() == self.samples.rows_each {
            self.close();
        }
    }

    pub(super) fn finish(mut self) -> Samples {
        self.close();
        self.samples
    }

    fn close(&mut self) {
        let columns = self.samples.values.iter_mut().zip(&mut self.bucket);
        match self.at.as_slice() {
            [] => return,
            [at] => {
                self.samples.at.push(*at);
                columns.for_each(|(values, bucket)| values.append(bucket));
            }
            [first, .., last] => {
                self.samples.at.extend([*first, *last]);
                columns.for_each(|(values, bucket)| values.extend(extremes(bucket.drain(..))));
            }
        }
        self.at.clear();
    }
}

impl Means {
    fn close(&mut self, end_us: f64, span: Option<f64>, length: f64, sums: &[f64]) {
        let Some(span) = span else { return };
        self.at.push(((span + 0.5) * self.over_us).min(end_us) / 1e3);
        let mean = |sum: &f64| if length > 0.0 { sum / length } else { 0.0 };
        self.values.iter_mut().zip(sums).for_each(|(values, sum)| values.push(mean(sum)));
    }
}

/// Smallest and largest value, in their order of occurrence; NaN without values.
fn extremes(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (mut least, mut greatest) = ((0, f64::NAN), (0, f64::NAN));
    for (n, value) in values.enumerate().filter(|(_, value)| !value.is_nan()) {
        if least.1.is_nan() || value < least.1 {
            least = (n, value);
        }
        if greatest.1.is_nan() || value > greatest.1 {
            greatest = (n, value);
        }
    }
    if least.0 <= greatest.0 { [least.1, greatest.1] } else { [greatest.1, least.1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, SeriesFile) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("series.csv"), text).unwrap();
        let file = SeriesFile::survey(folder.path()).unwrap().unwrap();
        (folder, file)
    }

    const FOUR: &str = "t_us,a,b\n1000,1,\n2000,9,4\n3000,2,3\n4000,0,5\n";

    #[test]
    fn few_rows_stay_as_they_are() {
        let (_folder, file) = file(FOUR);
        assert_eq!((file.rows(), file.columns()[1].max, file.place("b")), (4, 9.0, Some(2)));
        let samples = file.samples(&[1], 4).unwrap();
        assert_eq!(
            (samples.at, samples.values, samples.rows_each),
            (vec![1.0, 2.0, 3.0, 4.0], vec![vec![1.0, 9.0, 2.0, 0.0]], 1)
        );
    }

    #[test]
    fn no_peak_is_lost_among_many() {
        let (_folder, file) = file(FOUR);
        let samples = file.samples(&[1, 2], 2).unwrap();
        assert_eq!(samples.rows_each, 4);
        assert_eq!(samples.at, [1.0, 4.0]);
        assert_eq!(samples.values, [[9.0, 0.0], [3.0, 5.0]]);
    }

    #[test]
    fn rates_are_means_over_time() {
        let (_folder, file) = file("t_us,r\n100,4\n200,8\n250,2\n400,6\n");
        let means = file.means(&[1], 200.0, 100).unwrap();
        assert_eq!((means.at, means.over_us), (vec![0.1, 0.3], 200.0));
        // 100 us of 4 and of 8; 50 us of 2 and 150 us of 6.
        assert_eq!(means.values, [[6.0, 5.0]]);
        assert_eq!(file.means(&[1], 1.0, 1).unwrap().values, [[5.5]]);
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("series.csv"), "t_us,a\n1,2\n2,x\n").unwrap();
        let Err(Failure::Argument(message)) = SeriesFile::survey(folder.path()) else { panic!("accepted") };
        assert!(message.contains("series.csv: can't be read: line 3: `x` is no number"), "{message}");
        std::fs::remove_file(folder.path().join("series.csv")).unwrap();
        assert!(SeriesFile::survey(folder.path()).unwrap().is_none());
    }
}
