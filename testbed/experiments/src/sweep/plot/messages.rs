//! Percentiles of the messages of several seeds together. The percentile of a few messages is their maximum, and a mean of maxima is another
//! number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use toml::Table;
use weir_results::measure::{SIZE_BINS, SizeBin};
use weir_results::run_dir::read_messages;
use weir_units::{Bytes, Span};

use super::results::SweepRow;
use super::spec::MessageQuantity;
use crate::Failure;
use crate::sweep::directory::all_finished;
use crate::table::key_path::KeyPath;
use crate::table::statistics::{Estimate, is_below_max, pooled_percentile};

/// Column of a percentile of a traffic's messages.
#[derive(Debug)]
pub(super) struct PercentileColumn {
    traffic: String,
    bin: &'static SizeBin,
    is_slowdown: bool,
    /// Percentile, in thousandths.
    permille: u64,
}

impl PercentileColumn {
    /// Parses a column's name, such as `traffic.incast.bins.all.fct_ns.p99`; `None` for a column of another kind.
    pub(super) fn parse(name: &str) -> Option<PercentileColumn> {
        let path = KeyPath::parse(name)?;
        let [first, traffic, second, sizes, quantity, figure] = path.keys() else { return None };
        if (first.as_str(), second.as_str()) != ("traffic", "bins") {
            return None;
        }
        let is_slowdown = match quantity.as_str() {
            "fct_ns" => false,
            "slowdown_permille" => true,
            _ => return None,
        };
        let permille = match figure.as_str() {
            "p50" => 500,
            "p95" => 950,
            "p99" => 990,
            "p999" => 999,
            _ => return None,
        };
        let bin = SIZE_BINS.iter().find(|bin| bin.name == sizes)?;
        Some(PercentileColumn { traffic: traffic.clone(), bin, is_slowdown, permille })
    }

    /// Reads the values of a run's messages in the unit of the column, without those of the warm-up; infinite for unfinished ones, and none
    /// if a message has no ideal time.
    fn values(&self, run: &Path) -> Result<Vec<f64>, Failure> {
        let warm_up_us = warm_up(run).as_picos() as f64 / 1e6;
        let mut values: Vec<Option<f64>> = Vec::new();
        let read = read_messages(run, |message| {
            if message.flow == self.traffic
                && message.released_us >= warm_up_us
                && self.bin.holds(Bytes::new(message.bytes))
            {
                values.push(match message.fct_us {
                    None => Some(f64::INFINITY),
                    Some(fct_us) if self.is_slowdown => message.ideal_us.map(|ideal_us| fct_us / ideal_us),
                    some => some,
                });
            }
        });
        read.map_err(|error| Failure::Argument(error.to_string()))?;
        // Thousandths, and nanoseconds.
        let values: Option<Vec<f64>> = values.into_iter().map(|value| Some(value? * 1e3)).collect();
        Ok(values.unwrap_or_default())
    }
}

/// Reads values of the messages of a traffic: completion times in microseconds, or slowdowns; infinite for unfinished ones.
pub(super) fn values(run: &Path, traffic: &str, quantity: MessageQuantity) -> Result<Vec<f64>, Failure> {
    let is_slowdown = quantity == MessageQuantity::Slowdown;
    let column = PercentileColumn { traffic: traffic.to_owned(), bin: &SIZE_BINS[0], is_slowdown, permille: 0 };
    Ok(column.values(run)?.into_iter().map(|value| value / 1e3).collect())
}

/// Directories of the runs of a sweep, by number of the point.
pub(super) fn folders(directory: &Path) -> Result<BTreeMap<usize, PathBuf>, Failure> {
    let finished =
        all_finished(directory).map_err(|error| Failure::Argument(format!("{}; {NEEDED}", error.into_message())))?;
    Ok(finished.into_iter().map(|(number, (_, folder))| (number, folder)).collect())
}

const NEEDED: &str = "figures of messages are of those of all seeds, which are in the sweep's runs/";

/// Warm-up of a run's scenario, by the run's directory.
pub fn warm_up(run: &Path) -> Span {
    let text = fs::read_to_string(run.join("scenario.toml")).unwrap_or_default();
    let table: Table = text.parse().unwrap_or_default();
    let written = table.get("scenario").and_then(|scenario| scenario.get("warm_up")).and_then(toml::Value::as_str);
    written.and_then(|text| text.parse().ok()).unwrap_or(Span::ZERO)
}

/// Reader of the messages of a sweep's runs.
pub(super) struct RunMessages<'d> {
    directory: &'d Path,
    /// Directories of the runs by number of the point, once they are listed.
    folders: Option<BTreeMap<usize, PathBuf>>,
}

impl<'d> RunMessages<'d> {
    /// Creates a reader of the runs in a sweep's directory.
    pub(super) fn new(directory: &'d Path) -> RunMessages<'d> {
        RunMessages { directory, folders: None }
    }

    /// Returns the percentile of the messages of these points together, and whether it is their maximum; `None` if there are none, or its rank
    /// is that of an unfinished message.
    ///
    /// # Errors
    /// A run's messages can't be read, or are not those of the table.
    pub(super) fn percentile(
        &mut self,
        column: &PercentileColumn,
        rows: &[(&SweepRow, &str)],
    ) -> Result<Option<(Estimate, bool)>, Failure> {
        let percent = column.permille as f64 / 10.0;
        if self.folders.is_none() {
            self.folders = Some(folders(self.directory)?);
        }
        let mut runs = Vec::new();
        for (row, cell) in rows {
            let found = self.folders.as_ref().and_then(|folders| folders.get(&row.point));
            let wrong = |what: &str| {
                Failure::Argument(format!("{}: point {} {what}; {NEEDED}", self.directory.display(), row.point))
            };
            let values = column.values(found.ok_or_else(|| wrong("has no run directory"))?)?;
            // The table rounds to an integer.
            let own = pooled_percentile(slice::from_ref(&values), percent).map(|of| of.value);
            let is_same = match (own, cell.parse::<f64>().ok()) {
                (Some(own), Some(of_table)) => (own - of_table).abs() <= 1.0,
                (own, of_table) => own.is_none() && of_table.is_none(),
            };
            if !is_same {
                return Err(wrong("has other messages now than when the table was made: repeat weir sweep"));
            }
            runs.push(values);
        }
        let count = runs.iter().map(Vec::len).sum::<usize>();
        let is_maximum = !is_below_max(count as u64, column.permille);
        Ok(pooled_percentile(&runs, percent).map(|estimate| (estimate, is_maximum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_column() {
        let folder = tempfile::tempdir().unwrap();
        let text = "flow,released_us,bytes,fct_us,from,to,ideal_us\n\
                    a,4,20000,9,x,y,3\na,5,20000,8,x,y,4\na,6,9999,7,x,y,1\nb,6,20000,6,x,y,1\na,7,20000,,x,y,2\n";
        fs::write(folder.path().join("fct.csv"), text).unwrap();
        fs::write(folder.path().join("scenario.toml"), "[scenario]\nend = \"1ms\"\nwarm_up = \"5us\"\n").unwrap();
        let of = |name: &str| PercentileColumn::parse(name).unwrap().values(folder.path()).unwrap();
        assert_eq!(of("traffic.a.bins.'10KB-100KB'.fct_ns.p99"), [8_000.0, f64::INFINITY]);
        assert_eq!(of("traffic.a.bins.all.slowdown_permille.p50"), [2_000.0, 7_000.0, f64::INFINITY]);
        for other in
            ["traffic.a.bins.all.fct_ns.mean", "traffic.a.completed", "pauses_sent", "flows.a.bins.all.fct_ns.p99"]
        {
            assert!(PercentileColumn::parse(other).is_none(), "{other}");
        }
    }
}
