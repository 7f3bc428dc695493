//! Reader of `fct.csv`, as written by [`FctWriter`](super::FctWriter).

use std::io::Read;
use std::path::Path;

use super::{FCT, RunDirError, complete_lines, io_at};

/// Message of a run that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunMessage<'a> {
    /// Name of the flow or traffic.
    pub flow: &'a str,
    /// Name of the sending host.
    pub from: &'a str,
    /// Name of the receiving host.
    pub to: &'a str,
    /// Payload of the message.
    pub bytes: u64,
    /// Release to the NIC, in microseconds from the start of the run.
    pub released_us: f64,
    /// Flow completion time in microseconds; `None` if it did not finish.
    pub fct_us: Option<f64>,
    /// Flow completion time in an empty fabric, in microseconds, above 0; `None` if unknown.
    pub ideal_us: Option<f64>,
}

const COLUMNS: [&str; 7] = ["flow", "from", "to", "bytes", "released_us", "fct_us", "ideal_us"];

/// Reads all messages of a run's directory: completed messages in order of completion, then unfinished messages. Omits an
/// incomplete last row, as of a killed run.
///
/// # Errors
/// If the file cannot be read, or a column is missing, or a row is invalid; the error names file, line and reason.
pub fn read_messages(run: &Path, note: impl FnMut(&RunMessage<'_>)) -> Result<(), RunDirError> {
    let path = run.join(FCT);
    read(&path, complete_lines(&path).map_err(io_at(&path, "can't be read"))?, note)
}

/// Whether the directory has messages of a run.
pub fn has_messages(run: &Path) -> bool {
    run.join(FCT).is_file()
}

fn read(path: &Path, lines: impl Read, mut note: impl FnMut(&RunMessage<'_>)) -> Result<(), RunDirError> {
    let wrong = |line: u64, what: String| RunDirError::Row { path: path.to_owned(), line, what };
    let of_csv = |error: &csv::Error| wrong(error.position().map_or(1, csv::Position::line), error.to_string());
    let mut csv = csv::Reader::from_reader(lines);
    let header = csv.headers().map_err(|error| of_csv(&error))?;
    let place = |name: &str| {
        let missing = || wrong(1, format!("there is no column \"{name}\""));
        header.iter().position(|column| column == name).ok_or_else(missing)
    };
    let mut places = [0; COLUMNS.len()];
    for (place_of, name) in places.iter_mut().zip(COLUMNS) {
        *place_of = place(name)?;
    }
    let mut row = csv::StringRecord::new();
    while csv.read_record(&mut row).map_err(|error| of_csv(&error))? {
        let line = row.position().map_or(0, csv::Position::line);
        let [flow, from, to, bytes, released, fct, ideal] = places.map(|place| &row[place]);
        let micros = |text: &str| match text {
            "" => Ok(None),
            text => text
                .parse::<f64>()
                .ok()
                .filter(|time| *time >= 0.0 && time.is_finite())
                .map(Some)
                .ok_or_else(|| wrong(line, format!("\"{text}\" is not a time in microseconds"))),
        };
        let bytes = bytes.parse().map_err(|_| wrong(line, format!("\"{bytes}\" is not a size in bytes")))?;
        let released_us = micros(released)?.ok_or_else(|| wrong(line, "there is no time of release".to_owned()))?;
        let (fct_us, ideal_us) = (micros(fct)?, micros(ideal)?.filter(|ideal| *ideal > 0.0));
        note(&RunMessage { flow, from, to, bytes, released_us, fct_us, ideal_us });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message's flow and hosts, bytes, time, and ideal time.
    type MessageRow = (String, u64, Option<f64>, Option<f64>);

    fn read_all(text: &str) -> Result<Vec<MessageRow>, String> {
        let mut all = Vec::new();
        let note = |it: &RunMessage<'_>| {
            all.push((format!("{} {}>{}", it.flow, it.from, it.to), it.bytes, it.fct_us, it.ideal_us));
        };
        read(Path::new("out/fct.csv"), text.as_bytes(), note).map_err(|error| error.to_string())?;
        Ok(all)
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "flow,released_us,bytes,fct_us,from,to,ideal_us\na,0,5,10.5,x,y,7\na,0,6,,x,y,0\n";
        let all = [("a x>y".to_owned(), 5, Some(10.5), Some(7.0)), ("a x>y".to_owned(), 6, None, None)];
        assert_eq!(read_all(text).unwrap(), all);
        let text = "ideal_us,to,from,fct_us,bytes,flow,new,released_us\n7,y,x,10.5,5,a,?,0\n,y,x,,6,a,?,0\n";
        assert_eq!(read_all(text).unwrap(), all);
    }

    #[test]
    fn errors_name_the_line() {
        let header = "flow,released_us,bytes,fct_us,from,to,ideal_us\n";
        let wrong = |rest: &str| read_all(&format!("{header}a,0,5,10,x,y,7\n{rest}")).unwrap_err();
        assert_eq!(wrong("a,0,5,ten,x,y,7\n"), "out/fct.csv:3: \"ten\" is not a time in microseconds");
        assert_eq!(wrong("a,0,5,NaN,x,y,7\n"), "out/fct.csv:3: \"NaN\" is not a time in microseconds");
        assert_eq!(wrong("a,0,5,10,x,y,-7\n"), "out/fct.csv:3: \"-7\" is not a time in microseconds");
        assert_eq!(wrong("a,0,5 B,10,x,y,7\n"), "out/fct.csv:3: \"5 B\" is not a size in bytes");
        assert_eq!(wrong("a,,5,10,x,y,7\n"), "out/fct.csv:3: there is no time of release");
        assert!(wrong("a,0,5\n").starts_with("out/fct.csv:3: "), "{}", wrong("a,0,5\n"));
        assert_eq!(read_all("a,b\n1,2\n").unwrap_err(), "out/fct.csv:1: there is no column \"flow\"");
    }

    #[test]
    fn a_row_that_was_not_written_to_its_end_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_messages(folder.path()));
        let text = "flow,released_us,bytes,fct_us,from,to,ideal_us\na,0,5,10,x,y,7\na,0,5,1";
        std::fs::write(folder.path().join(FCT), text).unwrap();
        let mut all = 0;
        read_messages(folder.path(), |_| all += 1).unwrap();
        assert!(all == 1 && has_messages(folder.path()));
    }
}
