//! Reader of `queues.csv`: the content of all queues at chosen instants.

use std::path::Path;

use super::key_figures::kb;
use super::series::{rows, unreadable};
use crate::Failure;
use crate::table::count;

/// Maximum number of queues in an instant's table: the fullest ones.
const QUEUES_MAX: usize = 12;
const INSTANTS_MAX: usize = 16;

/// Headings of the tables' columns.
pub(super) const HEAD: [&str; 8] =
    ["queue", "private, KB", "shared, KB", "headroom, KB", "threshold, KB", "is", "egress, KB", "blocked ports"];

/// Queues at one instant that held bytes, were OFF or were blocked.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub at_ms: f64,
    /// Cells below [`HEAD`]: the fullest queues, followed by the sum of all.
    pub rows: Vec<[String; HEAD.len()]>,
    /// Counts of OFF, blocked and omitted queues, in words.
    pub summary: String,
}

struct Queue {
    name: String,
    /// Bytes: private, shared, headroom, threshold, egress.
    bytes: [u64; 5],
    off: bool,
    blocked: u64,
}

/// Snapshots of a run, and the number of omitted ones. A run without snapshots has no file.
pub(super) fn read(run: &Path) -> Result<(Vec<Snapshot>, usize), Failure> {
    let path = run.join("queues.csv");
    if !path.exists() {
        return Ok((Vec::new(), 0));
    }
    let (mut snapshots, mut left_out) = (Vec::new(), 0);
    let mut add = |at_us: f64, queues: &mut Vec<Queue>| {
        if snapshots.len() == INSTANTS_MAX {
            left_out += 1;
            queues.clear();
        } else {
            snapshots.push(Snapshot::new(at_us / 1e3, std::mem::take(queues)));
        }
    };
    let (mut reader, mut record) = (rows(&path)?, csv::StringRecord::new());
    let (mut instant, mut queues) = (None, Vec::new());
    while reader.read_record(&mut record).map_err(|error| unreadable(&path, &error))? {
        let (at_us, queue) = Queue::read(&path, &record)?;
        if let Some(before) = instant.replace(at_us).filter(|before| *before != at_us) {
            add(before, &mut queues);
        }
        queues.push(queue);
    }
    if let Some(last) = instant {
        add(last, &mut queues);
    }
    Ok((snapshots, left_out))
}

impl Queue {
    /// Parses the instant in microseconds, and the queue.
    fn read(path: &Path, record: &csv::StringRecord) -> Result<(f64, Queue), Failure> {
        let line = record.position().map_or(0, csv::Position::line);
        let field = |place: usize| record.get(place).unwrap_or_default();
        let wrong = |place: usize| unreadable(path, &format!("line {line}: `{}` is no number", field(place)));
        let number = |place: usize| field(place).parse::<u64>().map_err(|_| wrong(place));
        let bytes = [number(3)?, number(4)?, number(5)?, number(6)?, number(8)?];
        let name = format!("{} class {}", field(1), field(2));
        let at_us = field(0).parse().map_err(|_| wrong(0))?;
        Ok((at_us, Queue { name, bytes, off: number(7)? != 0, blocked: number(9)? }))
    }

    /// Occupancy in bytes: the larger of ingress and egress.
    fn held(&self) -> u64 {
        let [private, shared, headroom, _, egress] = self.bytes;
        (private + shared + headroom).max(egress)
    }

    fn cells(&self) -> [String; HEAD.len()] {
        let [private, shared, headroom, threshold, egress] = self.bytes.map(kb);
        let is = match (self.off, self.blocked) {
            (true, 0) => "OFF",
            (true, _) => "OFF, blocked",
            (false, 0) => "-",
            (false, _) => "blocked",
        };
        let blocked = count(self.blocked);
        [self.name.clone(), private, shared, headroom, threshold, is.to_owned(), egress, blocked]
    }
}

impl Snapshot {
    fn new(at_ms: f64, mut queues: Vec<Queue>) -> Snapshot {
        // Equal queues stay in the file's order.
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.held()));
        let of_all = |place: usize| kb(queues.iter().map(|queue| queue.bytes[place]).sum());
        let (all, off) = (queues.len(), queues.iter().filter(|queue| queue.off).count());
        let blocked = queues.iter().filter(|queue| queue.blocked > 0).count();
        let mut rows: Vec<_> = queues.iter().take(QUEUES_MAX).map(Queue::cells).collect();
        let [private, shared, headroom, egress] = [0, 1, 2, 4].map(of_all);
        let none = || "-".to_owned();
        rows.push([format!("all {}", count(all as u64)), private, shared, headroom, none(), none(), egress, none()]);
        let mut summary = format!("{} OFF, {} blocked", count(off as u64), count(blocked as u64));
        if all > QUEUES_MAX {
            summary += &format!("; the {QUEUES_MAX} fullest queues of {}", count(all as u64));
        }
        Snapshot { at_ms, rows, summary }
    }
}

pub(super) fn heading(snapshot: &Snapshot) -> String {
    format!("Queues at {} ms: {}", snapshot.at_ms, snapshot.summary)
}

pub(super) fn left_out_note(left_out: usize) -> String {
    format!("{left_out} more instants are in queues.csv.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "t_us,port,class,private_bytes,shared_bytes,headroom_bytes,threshold_bytes,off,egress_bytes,blocked_ports\n";

    fn parse(text: &str) -> Result<(Vec<Snapshot>, usize), Failure> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("queues.csv"), format!("{HEADER}{text}")).unwrap();
        read(folder.path())
    }

    #[test]
    fn queues_stand_by_what_they_hold_and_add_up() {
        let (snapshots, left_out) = parse(
            "1500.000000,L1.H1,3,4096,10000,0,20000,0,0,0\n\
             1500.000000,L1.up,3,4096,16000,2000,16000,1,0,0\n\
             1500.000000,L1.H2,3,0,0,0,20000,0,36192,2\n\
             2000.000000,L1.H2,3,0,0,0,20000,1,1000,1\n",
        )
        .unwrap();
        assert_eq!((snapshots.len(), left_out), (2, 0));
        let names: Vec<&str> = snapshots[0].rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["L1.H2 class 3", "L1.up class 3", "L1.H1 class 3", "all 3"]);
        assert_eq!(
            snapshots[0].rows[1],
            ["L1.up class 3", "4.1", "16", "2.0", "16", "OFF", "0.0", "0"].map(str::to_owned)
        );
        assert_eq!(snapshots[0].rows[3], ["all 3", "8.2", "26", "2.0", "-", "-", "36", "-"].map(str::to_owned));
        assert_eq!(heading(&snapshots[0]), "Queues at 1.5 ms: 1 OFF, 1 blocked");
        assert_eq!(snapshots[1].rows[0][5], "OFF, blocked");
    }

    #[test]
    fn the_fullest_queues_and_the_first_instants_have_tables() {
        let many: String = (0..30).map(|n| format!("1,S.p{n},3,0,{n},0,9,0,0,0\n")).collect();
        let (snapshots, _) = parse(&many).unwrap();
        assert_eq!((snapshots[0].rows.len(), snapshots[0].rows[0][0].as_str()), (QUEUES_MAX + 1, "S.p29 class 3"));
        assert!(heading(&snapshots[0]).ends_with("; the 12 fullest queues of 30"), "{}", snapshots[0].summary);
        let often: String = (0..20).map(|n| format!("{n},S.p,3,0,1,0,9,0,0,0\n")).collect();
        let (snapshots, left_out) = parse(&often).unwrap();
        assert_eq!((snapshots.len(), left_out), (INSTANTS_MAX, 4));
        assert_eq!(snapshots[INSTANTS_MAX - 1].at_ms, 0.015);
    }

    #[test]
    fn an_invalid_file_is_reported_with_its_line() {
        let Err(Failure::Argument(text)) = parse("1,S.p,3,0,x,0,9,0,0,0\n") else { panic!("it is wrong") };
        assert!(text.contains("queues.csv") && text.contains("line 2: `x` is no number"), "{text}");
        let Err(Failure::Argument(text)) = parse("1,S.p,3\n") else { panic!("it is short") };
        assert!(text.contains("queues.csv"), "{text}");
        assert!(parse("").unwrap().0.is_empty());
    }
}
