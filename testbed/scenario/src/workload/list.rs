//! Lists of messages as CSV files.

use weir_units::{Bytes, Span, Time};

use super::{Message, SizeCdf};

/// The file's first line.
pub(crate) const HEADER: &str = "start_us,from,to,bytes";

/// Error in a list of messages, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ListError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Error in the line.
    pub kind: ListErrorKind,
}

/// Error in a line of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListErrorKind {
    /// The header is missing or wrong.
    #[error("{0:?} is not the header; write `{HEADER}`")]
    Header(String),
    /// The list is empty.
    #[error("the list is empty; write `{HEADER}`, and then a line for each message")]
    Empty,
    /// The line has fewer values than four, or more.
    #[error("there are {0} values; write 4, `{HEADER}`, like `12.5,0,3,64000`")]
    Values(usize),
    /// The start is not a time.
    #[error("the start {0:?} is not a time in microseconds, to a picosecond; write for example 12.5")]
    Start(String),
    /// The host is unknown.
    #[error("there is no host {0:?}; write the name or the number of a host")]
    Host(String),
    /// The message's receiver is its sender.
    #[error("{0:?} is to send to itself; write another host")]
    ToItself(String),
    /// The size is not a number, or out of range.
    #[error("the size {0:?} is not a whole number of bytes from 1 to {max}; write for example 64000", max = SizeCdf::SIZE_MAX.get())]
    Size(String),
}

/// Reads a list: the header `start_us,from,to,bytes`, and a line for each message, in any order. `host` finds a host by its text. Blank
/// lines are ignored, and `#` begins a comment.
///
/// Messages are returned by start; those of one instant in the list's order.
///
/// # Errors
/// The first line that is wrong.
pub fn read(text: &str, mut host: impl FnMut(&str) -> Option<u32>) -> Result<Vec<Message>, ListError> {
    let mut lines = (1..)
        .zip(text.lines())
        .map(|(line, text)| (line, text.split_once('#').map_or(text, |(before, _)| before).trim()))
        .filter(|(_, text)| !text.is_empty());
    match lines.next() {
        None => return Err(ListError { line: 1, kind: ListErrorKind::Empty }),
        Some((line, text)) if !text.split(',').map(str::trim).eq(HEADER.split(',')) => {
            return Err(ListError { line, kind: ListErrorKind::Header(text.to_owned()) });
        }
        Some(_) => {}
    }
    let mut messages = Vec::new();
    for (line, text) in lines {
        messages.push(message(text, &mut host).map_err(|fault| ListError { line, kind: fault })?);
    }
    messages.sort_by_key(|message| message.start);
    Ok(messages)
}

fn message(line: &str, host: &mut impl FnMut(&str) -> Option<u32>) -> Result<Message, ListErrorKind> {
    let mut values = [""; 4];
    let count = line.split(',').count();
    if count != values.len() {
        return Err(ListErrorKind::Values(count));
    }
    values.iter_mut().zip(line.split(',')).for_each(|(value, text)| *value = text.trim());
    let [start, from, to, bytes] = values;
    let mut find = |name: &str| host(name).ok_or_else(|| ListErrorKind::Host(name.to_owned()));
    let (from, receiver) = (find(from)?, find(to)?);
    if from == receiver {
        return Err(ListErrorKind::ToItself(to.to_owned()));
    }
    let since: Span = format!("{start}us").parse().map_err(|_| ListErrorKind::Start(start.to_owned()))?;
    let size = bytes.parse().ok().map(Bytes::new).filter(|size| (Bytes::new(1)..=SizeCdf::SIZE_MAX).contains(size));
    let size = size.ok_or_else(|| ListErrorKind::Size(bytes.to_owned()))?;
    Ok(Message { start: Time::ZERO.saturating_add(since), from, to: receiver, size })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns hosts `H0` to `H9`, which can be named by their numbers, too.
    fn host(name: &str) -> Option<u32> {
        name.strip_prefix('H').unwrap_or(name).parse().ok().filter(|number| *number < 10)
    }

    #[test]
    fn messages_come_by_their_start() {
        let text = "# mine\nstart_us, from,to,bytes\n\n12.5,H1,H2,64000 # late\r\n0.000001,0,3,1\n12.5,H0,H2,7\n";
        let message = |ps, from, to, size| Message { start: Time::from_picos(ps), from, to, size: Bytes::new(size) };
        assert_eq!(
            read(text, host).unwrap(),
            [message(1, 0, 3, 1), message(12_500_000, 1, 2, 64_000), message(12_500_000, 0, 2, 7)]
        );
        assert_eq!(read("start_us,from,to,bytes", host).unwrap(), []);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("", "line 1: the list is empty; write `start_us,from,to,bytes`, and then a line for each message"),
            ("\n0,1,2,3", "line 2: \"0,1,2,3\" is not the header; write `start_us,from,to,bytes`"),
        ] {
            assert_eq!(read(text, host).unwrap_err().to_string(), error);
        }
        let size = "is not a whole number of bytes from 1 to 1000000000000000; write for example 64000";
        for (line, error) in [
            ("1,2,3", "there are 3 values; write 4, `start_us,from,to,bytes`, like `12.5,0,3,64000`".to_owned()),
            ("1,2,3,4,5", "there are 5 values; write 4, `start_us,from,to,bytes`, like `12.5,0,3,64000`".to_owned()),
            (
                "-1,1,2,3",
                "the start \"-1\" is not a time in microseconds, to a picosecond; write for example 12.5".to_owned(),
            ),
            (
                "1e3,1,2,3",
                "the start \"1e3\" is not a time in microseconds, to a picosecond; write for example 12.5".to_owned(),
            ),
            ("1,H11,2,3", "there is no host \"H11\"; write the name or the number of a host".to_owned()),
            ("1,H1,1,3", "\"1\" is to send to itself; write another host".to_owned()),
            ("1,1,2,0", format!("the size \"0\" {size}")),
            ("1,1,2,64KB", format!("the size \"64KB\" {size}")),
            ("1,1,2,1000000000000001", format!("the size \"1000000000000001\" {size}")),
        ] {
            let text = format!("{HEADER}\n\n0,1,2,3\n{line}\n");
            assert_eq!(read(&text, host).unwrap_err().to_string(), format!("line 4: {error}"));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(start_us,from,to,bytes\n)?([0-9H.,#-]{0,12}\n?){0,8}") {
            let _ = read(&text, host);
        }
    }
}
