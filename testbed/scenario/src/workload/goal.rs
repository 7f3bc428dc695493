//! Schedules in GOAL, the language of LogGOPSim and ATLAHS: text and binary files.
//!
//! `requires` is a dependency on an operation's end, `irequires` on its start. A receipt takes the oldest message of its
//! source and tag. A message ends with its acknowledgement.

use std::collections::HashMap;

use weir_nic::program::ProgramEdge;
use weir_units::{Bytes, Span, Time};

use super::error::{ScheduleError, SchedulePlace};
use super::graph::{GraphDraft, GraphError, MessageGraph};

/// Largest message in bytes.
const MESSAGE_BYTES_MAX: u64 = 1 << 31;
/// Number of ranks that a schedule may have.
const RANKS_MAX: usize = 1 << 20;
/// First number of a binary schedule, and that of one that LogGOPSim has used up with `--save-mem`.
const MAGIC: u64 = 4_223;
const MAGIC_SPENT: u64 = 2_342;

/// Operations of a schedule.
pub(crate) struct GoalSchedule {
    graph: GraphDraft,
    ranks: usize,
    /// Places in the file of each rank's operations: lines or bytes.
    places: Vec<Vec<u32>>,
    place_kind: fn(u32) -> SchedulePlace,
}

/// Operation as the file has it.
struct GoalOperation {
    kind: GoalKind,
    /// Duration in nanoseconds, or size in bytes.
    amount: u64,
    /// Rank at the other end; `None` for any.
    peer: Option<u32>,
    /// `None` for any.
    tag: Option<u32>,
    cpu: u64,
    nic: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GoalKind {
    Send,
    Receive,
    Compute,
}

impl GoalSchedule {
    /// Reads a schedule: text or binary.
    ///
    /// # Errors
    /// The first error in the file.
    pub(crate) fn read(file: &[u8]) -> Result<GoalSchedule, ScheduleError> {
        match file.first_chunk().map(|magic| u64::from_le_bytes(*magic)) {
            Some(MAGIC) => encoded_schedule(file),
            Some(MAGIC_SPENT) => Err(ScheduleError::byte(
                0,
                "LogGOPSim has used this schedule up with --save-mem; write it anew with txt2bin",
            )),
            _ => {
                let text = std::str::from_utf8(file);
                let message = "this is neither text nor begins with 4223, as binary schedules do; write GOAL";
                text.map_err(|error| ScheduleError::byte(error.valid_up_to(), message)).and_then(text_schedule)
            }
        }
    }

    /// Number of ranks.
    pub(crate) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Builds the graph; `hosts` has the host of each rank.
    ///
    /// # Errors
    /// Messages without receipts, receipts without messages, and operations that never start.
    pub(crate) fn graph(mut self, hosts: &[u32], from: Time, until: Time) -> Result<MessageGraph, ScheduleError> {
        for rank in 0..self.ranks as u32 {
            self.graph.repetition(rank, 0, 0, None);
        }
        let graph = self.graph.build(hosts, from, until, 1);
        graph.and_then(|graph| graph.idle_time(|_| Span::ZERO).map(|_| graph)).map_err(|error| {
            let place = |rank: u32, operation: u32| {
                // Marks come after the file's operations.
                let places = &self.places[rank as usize];
                let place = places.get(operation as usize).or(places.last()).copied().unwrap_or(0);
                (self.place_kind)(place)
            };
            match error {
                GraphError::Cycle { rank, operation } => ScheduleError {
                    place: place(rank, operation),
                    message: "the operation waits for itself; take a dependency out of the cycle".to_owned(),
                },
                GraphError::Deadlock { rank, operation } => ScheduleError {
                    place: place(rank, operation),
                    message: "the operation never starts, as ranks wait for each other; take a dependency out"
                        .to_owned(),
                },
                GraphError::Unmatched { from, to, .. } => {
                    // One of both ranks has an operation.
                    let rank = if self.places[to as usize].is_empty() { from } else { to };
                    ScheduleError { place: place(rank, 0), message: error.to_string() }
                }
            }
        })
    }

    fn new(ranks: usize, place_kind: fn(u32) -> SchedulePlace) -> GoalSchedule {
        GoalSchedule { graph: GraphDraft::new(ranks), ranks, places: vec![Vec::new(); ranks], place_kind }
    }

    /// Adds an operation; returns its number among the rank's.
    fn add(&mut self, rank: u32, operation: &GoalOperation, place: u32) -> Result<u32, String> {
        let GoalOperation { kind, amount, peer, tag, cpu, nic } = *operation;
        self.places[rank as usize].push(place);
        let cpu = u8::try_from(cpu).map_err(|_| format!("there is no CPU {cpu}; write 0 to 255"))?;
        if kind == GoalKind::Compute {
            let duration = amount.checked_mul(1_000).ok_or_else(|| format!("{amount} ns are too long; write less"))?;
            return Ok(self.graph.compute(rank, Span::from_picos(duration), cpu));
        }
        if nic > 0 {
            return Err(format!("a host has one NIC, not NIC {nic}; write nic 0"));
        }
        let peer = peer.ok_or("receipts from any rank (-1) are not simulated; write the rank that sends")?;
        let tag = tag.ok_or("receipts with any tag (-1) are not simulated; write the tag")?;
        if peer as usize >= self.ranks {
            return Err(format!("there is no rank {peer}; write 0 to {}", self.ranks - 1));
        }
        if peer == rank {
            return Err(format!("rank {rank} sends to itself; write `calc` for the copy"));
        }
        if amount > MESSAGE_BYTES_MAX {
            return Err(format!(
                "there is a message of {}, and RDMA has none above 2 GiB; split it",
                Bytes::new(amount)
            ));
        }
        Ok(match kind {
            // RDMA needs a frame for an empty message, too.
            GoalKind::Send => self.graph.send(rank, peer, tag, amount.max(1) as u32, cpu),
            _ => self.graph.receive(rank, peer, tag, cpu),
        })
    }
}

/// Words and signs of a schedule's text, with their lines.
struct Tokens<'t> {
    tokens: Vec<(u32, &'t str)>,
    next: usize,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t str) -> Result<Tokens<'t>, ScheduleError> {
        let mut tokens = Vec::new();
        let mut comment = None;
        for (line, text) in (1..).zip(text.lines()) {
            let mut rest = text;
            loop {
                if comment.is_some() {
                    let Some((_, after)) = rest.split_once("*/") else { break };
                    (comment, rest) = (None, after);
                }
                rest = rest.trim_start();
                if rest.is_empty() || rest.starts_with("//") {
                    break;
                }
                if let Some(after) = rest.strip_prefix("/*") {
                    (comment, rest) = (Some(line), after);
                    continue;
                }
                let is_end = |sign: char| sign.is_whitespace() || ":{}".contains(sign);
                let length = match rest.find(is_end).unwrap_or(rest.len()) {
                    0 => 1,
                    length => rest[..length].find("//").or(rest[..length].find("/*")).unwrap_or(length),
                };
                let (token, after) = rest.split_at(length);
                tokens.push((line, token));
                rest = after;
            }
        }
        match comment {
            Some(line) => Err(ScheduleError::line(line, "the comment has no end; write */")),
            None => Ok(Tokens { tokens, next: 0 }),
        }
    }

    /// Line of the next token, or the last one.
    fn line(&self) -> u32 {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(1, |(line, _)| *line)
    }

    fn front(&self) -> Option<&'t str> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    fn is_label(&self) -> bool {
        self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == ":")
    }

    fn take(&mut self) -> Option<&'t str> {
        let token = self.front()?;
        self.next += 1;
        Some(token)
    }

    /// Takes the next token if it is this one.
    fn skip(&mut self, token: &str) -> bool {
        let is_next = self.front() == Some(token);
        self.next += usize::from(is_next);
        is_next
    }

    fn require(&mut self, token: &str, example: &str) -> Result<(), ScheduleError> {
        let line = self.line();
        if self.skip(token) { Ok(()) } else { Err(self.unexpected(line, example)) }
    }

    fn unexpected(&self, line: u32, example: &str) -> ScheduleError {
        let found = self.front().map_or("the end of the file".to_owned(), |token| format!("\"{token}\""));
        ScheduleError::line(line, format!("{found} is out of place; write for example {example}"))
    }

    /// Takes a number that ends with `unit`.
    fn number(&mut self, unit: &str, example: &str) -> Result<u64, ScheduleError> {
        let line = self.line();
        let number = self.front().and_then(|token| token.strip_suffix(unit)?.parse().ok());
        let number = number.ok_or_else(|| self.unexpected(line, example))?;
        self.next += 1;
        Ok(number)
    }

    /// Takes a number, or `None` for -1.
    fn number_or_any(&mut self, example: &str) -> Result<Option<u32>, ScheduleError> {
        if self.skip("-1") {
            return Ok(None);
        }
        let line = self.line();
        let number = self.number("", example)?;
        u32::try_from(number)
            .map(Some)
            .map_err(|_| ScheduleError::line(line, format!("{number} is too high; write {example}")))
    }
}

/// Parses a schedule's text.
fn text_schedule(text: &str) -> Result<GoalSchedule, ScheduleError> {
    let mut tokens = Tokens::new(text)?;
    let first = tokens.line();
    tokens.require("num_ranks", "num_ranks 2")?;
    let ranks = tokens.number("", "num_ranks 2")? as usize;
    if !(1..=RANKS_MAX).contains(&ranks) {
        return Err(ScheduleError::line(first, format!("there are {ranks} ranks; write 1 to {RANKS_MAX}")));
    }
    let mut schedule = GoalSchedule::new(ranks, SchedulePlace::Line);
    for rank in 0..ranks as u32 {
        let line = tokens.line();
        let example = format!("rank {rank} {{");
        tokens.require("rank", &example)?;
        let number = tokens.number("", &example)?;
        if number != u64::from(rank) {
            return Err(ScheduleError::line(line, format!("rank {number} is out of order; write rank {rank} here")));
        }
        tokens.require("{", &example)?;
        rank_text(&mut tokens, &mut schedule, rank)?;
    }
    match tokens.front() {
        Some(_) => Err(tokens.unexpected(tokens.line(), &format!("a higher num_ranks than {ranks}"))),
        None => Ok(schedule),
    }
}

/// Parses a rank's statements, up to the closing brace.
fn rank_text(tokens: &mut Tokens<'_>, schedule: &mut GoalSchedule, rank: u32) -> Result<(), ScheduleError> {
    const EXAMPLE: &str = "a: send 4096b to 1 tag 7";
    let mut labels: HashMap<&str, u32> = HashMap::new();
    loop {
        let line = tokens.line();
        if tokens.skip("}") {
            return Ok(());
        }
        let label = match tokens.is_label() {
            true => {
                let label = tokens.take();
                tokens.next += 1;
                label
            }
            false => None,
        };
        let word = tokens.take();
        let kind = match word {
            Some("send") => GoalKind::Send,
            Some("recv") => GoalKind::Receive,
            Some("calc") => GoalKind::Compute,
            Some(after) if label.is_none() && matches!(tokens.front(), Some("requires" | "irequires")) => {
                let event = if tokens.take() == Some("requires") { ProgramEdge::End } else { ProgramEdge::Start };
                let before = tokens.take().unwrap_or_default();
                let operation = |label: &str| {
                    let message = format!(
                        "no operation of rank {rank} before has the label \"{label}\"; write the operation with that label first"
                    );
                    labels.get(label).copied().ok_or_else(|| ScheduleError::line(line, message))
                };
                schedule.graph.require_event(rank, operation(after)?, operation(before)?, event);
                continue;
            }
            _ => {
                tokens.next -= usize::from(word.is_some());
                return Err(tokens.unexpected(line, EXAMPLE));
            }
        };
        let operation = operation_text(tokens, kind)?;
        let number = schedule.add(rank, &operation, line).map_err(|message| ScheduleError::line(line, message))?;
        if let Some(label) = label {
            let is_word = |label: &str| {
                label.starts_with(|sign: char| sign.is_ascii_alphabetic())
                    && label.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
            };
            if !is_word(label) {
                let message = format!("\"{label}\" is no label; write a letter, then letters, digits and _");
                return Err(ScheduleError::line(line, message));
            }
            if labels.insert(label, number).is_some() {
                let message = format!("rank {rank} has the label \"{label}\" twice; write another one");
                return Err(ScheduleError::line(line, message));
            }
        }
    }
}

fn operation_text(tokens: &mut Tokens<'_>, kind: GoalKind) -> Result<GoalOperation, ScheduleError> {
    let (unit, example) = match kind {
        GoalKind::Compute => ("", "calc 500 cpu 1"),
        GoalKind::Send => ("b", "send 4096b to 1 tag 7"),
        GoalKind::Receive => ("b", "recv 4096b from 0 tag 7"),
    };
    let amount = tokens.number(unit, example)?;
    let peer = match kind {
        GoalKind::Compute => None,
        _ => {
            tokens.require(if kind == GoalKind::Send { "to" } else { "from" }, example)?;
            tokens.number_or_any(example)?
        }
    };
    let mut operation = GoalOperation { kind, amount, peer, tag: Some(0), cpu: 0, nic: 0 };
    while !tokens.is_label() {
        match tokens.front() {
            Some("cpu") => {
                tokens.next += 1;
                operation.cpu = tokens.number("", example)?;
            }
            Some("tag") if kind != GoalKind::Compute => {
                tokens.next += 1;
                operation.tag = tokens.number_or_any(example)?;
            }
            Some("nic") if kind != GoalKind::Compute => {
                tokens.next += 1;
                operation.nic = tokens.number("", example)?;
            }
            _ => break,
        }
    }
    Ok(operation)
}

/// Numbers of a binary schedule, little-endian.
struct EncodedReader<'f> {
    file: &'f [u8],
    at: usize,
}

impl EncodedReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ScheduleError> {
        let bytes = self.file.get(self.at..).and_then(|rest| rest.first_chunk().copied());
        let bytes =
            bytes.ok_or_else(|| ScheduleError::byte(self.at, "the file ends here; write it anew with txt2bin"))?;
        self.at += N;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, ScheduleError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, ScheduleError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ScheduleError> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Reads a binary schedule. Places in it are counted from the byte after its first number.
fn encoded_schedule(file: &[u8]) -> Result<GoalSchedule, ScheduleError> {
    const HEADER: usize = 8;
    /// Bytes of an operation.
    const NODE: usize = 39;
    let mut header = EncodedReader { file, at: HEADER };
    let ranks = header.u32()? as usize;
    if !(1..=RANKS_MAX).contains(&ranks) {
        return Err(ScheduleError::byte(HEADER, format!("there are {ranks} ranks; write 1 to {RANKS_MAX}")));
    }
    header.take::<2>()?;
    let mut schedule = GoalSchedule::new(ranks, SchedulePlace::Byte);
    for rank in 0..ranks as u32 {
        let start = header.u64()?;
        header.u64()?;
        let start = usize::try_from(start).ok().and_then(|start| start.checked_add(HEADER)).unwrap_or(usize::MAX);
        let mut reader = EncodedReader { file, at: start };
        let (nodes, roots) = (reader.u32()? as usize, reader.u32()? as usize);
        let first = reader.at.saturating_add(roots.saturating_mul(4));
        let lists = first.saturating_add(nodes.saturating_mul(NODE));
        if lists > file.len() {
            return Err(ScheduleError::byte(
                start,
                format!("rank {rank} has more than the file; write it anew with txt2bin"),
            ));
        }
        reader.at = first;
        let mut edges = Vec::new();
        for node in 0..nodes as u32 {
            let at = reader.at;
            let fail = |message: String| ScheduleError::byte(at, message);
            reader.u32()?;
            let kind = match reader.u8()? {
                1 => GoalKind::Send,
                2 => GoalKind::Receive,
                3 => GoalKind::Compute,
                other => return Err(fail(format!("there is no kind {other} of operations; write 1, 2 or 3"))),
            };
            let peer = Some(reader.u32()?).filter(|peer| *peer != u32::MAX);
            let amount = reader.u64()?;
            let tag = Some(reader.u32()?).filter(|tag| *tag != u32::MAX);
            let (cpu, nic) = (u64::from(reader.u8()?), u64::from(reader.u8()?));
            for event in [ProgramEdge::End, ProgramEdge::Start] {
                let (count, place) = (reader.u32()? as usize, reader.u32()? as usize);
                let mut list = EncodedReader { file, at: lists.saturating_add(place.saturating_mul(4)) };
                for _ in 0..count {
                    let after = list.u32()?;
                    if after as usize >= nodes {
                        return Err(fail(format!("operation {after} waits for this one, and rank {rank} has {nodes}")));
                    }
                    edges.push((after, node, event));
                }
            }
            schedule.add(rank, &GoalOperation { kind, amount, peer, tag, cpu, nic }, at as u32).map_err(fail)?;
        }
        for (after, before, event) in edges {
            schedule.graph.require_event(rank, after, before, event);
        }
    }
    Ok(schedule)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_nic::program::{ProgramStep, RankProgram};

    use super::*;

    fn read(file: &[u8]) -> Result<MessageGraph, String> {
        let schedule = GoalSchedule::read(file).map_err(|error| error.to_string())?;
        let hosts: Vec<u32> = (0..schedule.ranks() as u32).collect();
        schedule.graph(&hosts, Time::ZERO, Time::NEVER).map_err(|error| error.to_string())
    }

    const TEXT: &str = "/* two\nranks */ num_ranks 2\nrank 0 { // first\na: calc 500 cpu 1\n\
                        s: send 4096b to 1 tag 7 cpu 0 nic 0\ns requires a\ncalc 3\n}\nrank 1 {\n\
                        r: recv 4096b from 0 tag 7\nc: calc 9\nc irequires r }\n";

    /// The binary form of [`TEXT`], field by field.
    fn encode_text() -> Vec<u8> {
        let node = |waits: u32, kind: u8, peer: u32, amount: u64, tag: u32, cpu: u8, lists: [u32; 4]| {
            let mut bytes = [&waits.to_le_bytes()[..], &[kind], &peer.to_le_bytes(), &amount.to_le_bytes()].concat();
            bytes.extend([&tag.to_le_bytes()[..], &[cpu, 0]].concat());
            bytes.extend(lists.iter().flat_map(|number| number.to_le_bytes()));
            bytes
        };
        let encode = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let first = [
            encode(&[3, 2, 0, 2]),
            node(0, 3, 0, 500, 0, 1, [1, 0, 0, 1]),
            node(1, 1, 1, 4_096, 7, 0, [0, 1, 0, 1]),
            node(0, 3, 0, 3, 0, 0, [0, 1, 0, 1]),
            encode(&[1]),
        ];
        let second = [
            encode(&[2, 1, 0]),
            node(0, 2, 0, 4_096, 7, 0, [0, 0, 1, 0]),
            node(1, 3, 0, 9, 0, 0, [0, 1, 0, 1]),
            encode(&[1]),
        ];
        let [first, second] = [first.concat(), second.concat()];
        let start = 4 + 2 + 32;
        let ends = [start, start + first.len(), start + first.len(), start + first.len() + second.len()];
        let mut file = [&MAGIC.to_le_bytes()[..], &2u32.to_le_bytes(), &[1, 0]].concat();
        file.extend(ends.iter().flat_map(|end| (*end as u64).to_le_bytes()));
        [file, first, second].concat()
    }

    #[test]
    fn text_and_binary_are_one_schedule() {
        let graph = read(TEXT.as_bytes()).unwrap();
        assert_eq!(read(&encode_text()).unwrap(), graph);
        let program = |rank: usize| -> &RankProgram { &graph.ranks()[rank].program };
        let nanoseconds = |duration, cpu| ProgramStep::Compute { duration: Span::from_nanos(duration), cpu };
        assert_eq!(
            program(0).steps().take(3).collect::<Vec<_>>(),
            [
                nanoseconds(500, 1),
                ProgramStep::Send { cpu: 0, connection: 0, channel: 0, size: 4_096 },
                nanoseconds(3, 0)
            ]
        );
        assert_eq!(program(1).dependents(0, ProgramEdge::Start), [1]);
        // Marks of start and end follow.
        assert_eq!((program(0).len(), program(1).len()), (5, 4));
        let ends = [0, 1].map(|operation| program(1).dependents(operation, ProgramEdge::End));
        assert_eq!(ends, [[3]; 2], "the end waits for both");
    }

    #[test]
    fn errors_name_the_line() {
        for (rank, error) in [
            ("a: send 4096 to 1", "line 3: \"4096\" is out of place; write for example send 4096b to 1 tag 7"),
            ("a: calc 1 tag 2", "line 3: \"tag\" is out of place; write for example a: send 4096b to 1 tag 7"),
            ("a: calc 1\na: calc 2", "line 4: rank 0 has the label \"a\" twice; write another one"),
            (
                "b: calc 1\nb requires c\nc: calc 1",
                "line 4: no operation of rank 0 before has the label \"c\"; write the operation with that label first",
            ),
            (
                "a: calc 1\nb: calc 1\na requires b\nb requires a",
                "line 3: the operation waits for itself; take a dependency out of the cycle",
            ),
            ("1a: calc 1", "line 3: \"1a\" is no label; write a letter, then letters, digits and _"),
            ("recv 1b from -1", "line 3: receipts from any rank (-1) are not simulated; write the rank that sends"),
            ("recv 1b from 1 tag -1", "line 3: receipts with any tag (-1) are not simulated; write the tag"),
            ("send 1b to 0", "line 3: rank 0 sends to itself; write `calc` for the copy"),
            ("send 1b to 2", "line 3: there is no rank 2; write 0 to 1"),
            ("send 1b to 1 nic 1", "line 3: a host has one NIC, not NIC 1; write nic 0"),
            ("calc 1 cpu 256", "line 3: there is no CPU 256; write 0 to 255"),
            (
                "send 1b to 1",
                "line 5: rank 0 sends 1 messages with tag 0 to rank 1, which receives 0 of them; write as many of both",
            ),
            ("/* open", "line 3: the comment has no end; write */"),
            ("call 3", "line 3: \"call\" is out of place; write for example a: send 4096b to 1 tag 7"),
        ] {
            let text = format!("num_ranks 2\nrank 0 {{\n{rank}\n}}\nrank 1 {{ calc 1 }}\n");
            let error = if error.starts_with("line 5: rank 0 sends") {
                format!("line {}{}", text.lines().count(), &error[6..])
            } else {
                error.to_owned()
            };
            assert_eq!(read(text.as_bytes()).unwrap_err(), error);
        }
        for (text, error) in [
            ("", "line 1: the end of the file is out of place; write for example num_ranks 2"),
            ("num_ranks 0", "line 1: there are 0 ranks; write 1 to 1048576"),
            ("num_ranks 2\nrank 1 {}", "line 2: rank 1 is out of order; write rank 0 here"),
            (
                "num_ranks 1\nrank 0 {}\nrank 1 {}",
                "line 3: \"rank\" is out of place; write for example a higher num_ranks than 1",
            ),
            (
                "num_ranks 2\nrank 0 {\nr: recv 1b from 1\ns: send 1b to 1\ns requires r\n}\nrank 1 {\nr: recv 1b from 0\ns: send 1b to 0\ns requires r\n}",
                "line 4: the operation never starts, as ranks wait for each other; take a dependency out",
            ),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err(), error);
        }
        let spent = [&MAGIC_SPENT.to_le_bytes()[..], &[0; 9]].concat();
        assert!(read(&spent).unwrap_err().starts_with("byte 0: LogGOPSim has used this schedule up"));
    }

    proptest! {
        #[test]
        fn no_file_panics(
            text in "(num_ranks [12]\n)?(rank 0 \\{)?([a-z0-9:{}/* \n-]{0,12}(send 1b to 1|recv 2b from 0|calc 3|requires|tag|cpu)?){0,8}",
            cut in 0..200usize,
            at in 0..200usize,
            byte in any::<u8>(),
        ) {
            let _ = read(text.as_bytes());
            let mut file = encode_text();
            file.truncate(cut.max(9));
            let place = 8 + at % (file.len() - 8);
            file[place] = byte;
            let _ = read(&file);
        }
    }
}
