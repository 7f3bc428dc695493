//! Handshake of the two ends of `ib_write_bw` or `ib_send_bw` over TCP: versions, path MTU, queue pairs, memory,
//! and the end of the test.
//!
//! [`PerftestHandshake`] is either end, without I/O. In each step the client sends a message, and the server responds with one
//! of the same length. perftest reads a message with one call of `read`, so each message must arrive in one piece.
//!
//! | step | bytes | message |
//! |---|---|---|
//! | 1 | 16 | version, as text |
//! | 2, 3 | 4, 4 | page size and size of a cache line, for the layout of buffers |
//! | 4 | 2 | path MTU, as a digit: 1 for 256 B to 5 for 4096 B |
//! | 5, 6, 7 | 108 each | [`Keys`] of the queue pair: to learn it, to print it, and when it is ready to receive |
//! | | | the client sends its data |
//! | 8 | 108 | keys: the client has sent all |
//! | 9 to 13 | 8 each | [`BandwidthReport`]: size, messages, peak, average, millions of messages a second |
//! | 14 | 108 | keys, and then `done` from both ends |
//!
//! The table is for `ib_write_bw`. In `ib_send_bw`, step 8 repeats the keys when the server has posted receive buffers,
//! and step 14 follows: its server counts for itself.
//!
//! The protocol is that of perftest 5.70 or newer with one queue pair per side (`perftest_communication.c`,
//! `write_bw.c`, `send_bw.c`).

mod keys;

use std::collections::VecDeque;

use weir_nic::host::RdmaOperation;

pub use keys::Keys;

/// One end of the handshake, without I/O.
///
/// Send each message of [`PerftestHandshake::poll_transmit`] separately, and pass received bytes to [`PerftestHandshake::handle`]. When
/// [`PerftestHandshake::peer`] is known, prepare the connection and call [`PerftestHandshake::connect`]. Data may be sent once
/// [`PerftestHandshake::is_connected`]. A client calls [`PerftestHandshake::finish`] when all data has arrived. The handshake ends with
/// [`PerftestHandshake::is_done`].
#[derive(Debug)]
pub struct PerftestHandshake {
    role: Role,
    steps: &'static [Step],
    own: Keys,
    mtu: u16,
    peer: Option<Keys>,
    step: usize,
    is_connected_here: bool,
    report: BandwidthReport,
    has_finished: bool,
    inbox: Vec<u8>,
    outbox: VecDeque<Vec<u8>>,
    /// True if the client has sent its message of this step.
    is_asked: bool,
}

/// Role in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sender of the data.
    Client,
    /// Receiver of the data.
    Server,
}

/// Result of a client's test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BandwidthReport {
    /// Message size in bytes.
    pub size: u64,
    /// Number of messages.
    pub iterations: u64,
    /// Peak rate, in the unit of both ends' tables: Gb/s with `--report_gbits`.
    pub peak: f64,
    /// Mean rate, in the unit of the peak.
    pub average: f64,
    /// Message rate, in millions per second.
    pub message_rate: f64,
}

/// Protocol error of the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The peer's version is unsupported.
    #[error("the peer's perftest is version \"{0}\": install 5.70 or newer")]
    Version(String),
    /// The peer's message is invalid.
    #[error("the peer sent an invalid {what}: {text}")]
    Message {
        /// Expected message.
        what: &'static str,
        /// Received text.
        text: String,
    },
    /// The peer's path MTU is smaller than this end's.
    #[error("the peer's path MTU is {theirs} B, and {own} B here: set its interface's MTU to {} or more, or `mtu` to the peer's", u32::from(*own) + 60)]
    Mtu {
        /// Path MTU here, in bytes.
        own: u16,
        /// Path MTU of the peer, in bytes.
        theirs: u16,
    },
    /// The peer sends after the end.
    #[error("the peer sends bytes after the end")]
    AfterEnd,
}

/// Version sent by this end: that of Debian 12.
const VERSION: &str = "6.06";
const VERSION_MIN: f64 = 5.70;
const VERSION_BYTES: usize = 16;
const PAGE_BYTES: u32 = 4_096;
const CACHE_LINE_BYTES: u32 = 64;
const DONE: &[u8; 5] = b"done\0";

/// Message and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Version,
    PageSize,
    CacheLine,
    Mtu,
    /// Keys that make the connection known.
    Keys,
    /// Keys; after the response, both ends are ready.
    Ready,
    /// Keys sent when the client has sent all data.
    AllSent,
    Report(usize),
    Close,
}

const WRITE_STEPS: [Step; 14] = [
    Step::Version,
    Step::PageSize,
    Step::CacheLine,
    Step::Mtu,
    Step::Keys,
    Step::Ready,
    Step::Ready,
    Step::AllSent,
    Step::Report(0),
    Step::Report(1),
    Step::Report(2),
    Step::Report(3),
    Step::Report(4),
    Step::Close,
];

const SEND_STEPS: [Step; 9] = [
    Step::Version,
    Step::PageSize,
    Step::CacheLine,
    Step::Mtu,
    Step::Keys,
    Step::Ready,
    Step::Ready,
    Step::Ready,
    Step::Close,
];

impl Step {
    fn bytes(self) -> usize {
        match self {
            Step::Version => VERSION_BYTES,
            Step::PageSize | Step::CacheLine => 4,
            Step::Mtu => 2,
            Step::Keys | Step::Ready | Step::AllSent | Step::Close => Keys::BYTES,
            Step::Report(_) => 8,
        }
    }
}

impl PerftestHandshake {
    /// Creates an end of `ib_write_bw` or `ib_send_bw` whose connection has these keys, and whose packets carry `mtu`
    /// bytes.
    pub fn new(role: Role, verb: RdmaOperation, own: Keys, mtu: u16) -> PerftestHandshake {
        let mut handshake = PerftestHandshake {
            role,
            steps: match verb {
                RdmaOperation::Write => &WRITE_STEPS,
                RdmaOperation::Send => &SEND_STEPS,
            },
            own,
            mtu,
            peer: None,
            step: 0,
            is_connected_here: false,
            report: BandwidthReport::default(),
            has_finished: false,
            inbox: Vec::new(),
            outbox: VecDeque::new(),
            is_asked: false,
        };
        handshake.ask();
        handshake
    }

    /// Returns the peer's connection, once known.
    pub fn peer(&self) -> Option<&Keys> {
        self.peer.as_ref()
    }

    /// Declares the connection ready to receive from the peer.
    pub fn connect(&mut self) {
        self.is_connected_here = true;
        self.ask();
        if self.role == Role::Server {
            // The waiting client's keys are in the inbox.
            let _ = self.handle(&[]);
        }
    }

    /// Whether both ends are ready.
    pub fn is_connected(&self) -> bool {
        self.step > self.steps.iter().rposition(|step| *step == Step::Ready).unwrap_or_default()
    }

    /// Declares, at the client, that all data has arrived.
    pub fn finish(&mut self, report: BandwidthReport) {
        (self.report, self.has_finished) = (report, true);
        self.ask();
    }

    /// Whether both ends have sent all but `done`; the peer may close the connection.
    pub fn may_close(&self) -> bool {
        self.step == self.steps.len()
    }

    /// Whether the handshake has ended.
    pub fn is_done(&self) -> bool {
        self.may_close() && self.outbox.is_empty()
    }

    /// Returns, at a server, the report of the client of `ib_write_bw`.
    pub fn report(&self) -> Option<BandwidthReport> {
        let is_reported = self.may_close() && self.steps.contains(&Step::Report(0));
        is_reported.then_some(self.report)
    }

    /// Returns the next message to send, which must reach the peer in one piece.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// Processes received bytes.
    ///
    /// # Errors
    /// The message is invalid; close the connection.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.inbox.extend_from_slice(bytes);
        loop {
            let Some(step) = self.steps.get(self.step).copied() else {
                let is_farewell = DONE.starts_with(&self.inbox);
                return if is_farewell { Ok(()) } else { Err(HandshakeError::AfterEnd) };
            };
            // A client accepts a response only to a message that it has sent.
            if self.inbox.len() < step.bytes() || self.is_held(step) || (self.role == Role::Client && !self.is_asked) {
                return Ok(());
            }
            let message: Vec<u8> = self.inbox.drain(..step.bytes()).collect();
            self.take(step, &message)?;
            if self.role == Role::Server {
                self.queue_message(step);
            }
            self.step += 1;
            self.is_asked = false;
            if step == Step::Close {
                self.outbox.push_back(DONE.to_vec());
            }
            self.ask();
        }
    }

    /// Queues a client's next message, unless it must wait.
    fn ask(&mut self) {
        let Some(step) = self.steps.get(self.step).copied() else { return };
        if self.role == Role::Client && !self.is_asked && !self.is_held(step) {
            self.queue_message(step);
            self.is_asked = true;
        }
    }

    /// Whether the step waits for a call of this end's user.
    fn is_held(&self, step: Step) -> bool {
        match step {
            Step::Ready => !self.is_connected_here,
            Step::AllSent | Step::Close => self.role == Role::Client && !self.has_finished,
            _ => false,
        }
    }

    fn queue_message(&mut self, step: Step) {
        let message = match step {
            Step::Version => {
                let mut text = VERSION.as_bytes().to_vec();
                text.resize(VERSION_BYTES, 0);
                text
            }
            Step::PageSize => PAGE_BYTES.to_be_bytes().to_vec(),
            Step::CacheLine => CACHE_LINE_BYTES.to_be_bytes().to_vec(),
            Step::Mtu => vec![digit_of(self.mtu), 0],
            Step::Keys | Step::Ready | Step::AllSent | Step::Close => self.own.to_bytes(),
            // A server has no report, and the client ignores it.
            Step::Report(n) => self.report.fields()[n].to_be_bytes().to_vec(),
        };
        self.outbox.push_back(message);
    }

    fn take(&mut self, step: Step, message: &[u8]) -> Result<(), HandshakeError> {
        let none = |what| HandshakeError::Message { what, text: String::from_utf8_lossy(message).into_owned() };
        match step {
            Step::Version => {
                let text = String::from_utf8_lossy(message);
                let text = text.trim_end_matches('\0');
                match text.parse() {
                    Ok(version) if VERSION_MIN <= version => {}
                    _ => return Err(HandshakeError::Version(text.to_owned())),
                }
            }
            Step::Mtu => {
                let theirs = mtu_of(message[0]).ok_or_else(|| none("path MTU"))?;
                if theirs < self.mtu && self.role == Role::Client {
                    return Err(HandshakeError::Mtu { own: self.mtu, theirs });
                }
            }
            Step::Keys => self.peer = Some(Keys::parse(message).ok_or_else(|| none("queue pair"))?),
            Step::Report(n) if self.role == Role::Server => {
                self.report.set_field(n, u64::from_be_bytes(message.try_into().expect("8 bytes of a report")));
            }
            Step::PageSize | Step::CacheLine | Step::Ready | Step::AllSent | Step::Report(_) | Step::Close => {}
        }
        Ok(())
    }
}

impl BandwidthReport {
    fn fields(&self) -> [u64; 5] {
        let BandwidthReport { size, iterations, peak, average, message_rate } = *self;
        [size, iterations, peak.to_bits(), average.to_bits(), message_rate.to_bits()]
    }

    fn set_field(&mut self, n: usize, word: u64) {
        match n {
            0 => self.size = word,
            1 => self.iterations = word,
            2 => self.peak = f64::from_bits(word),
            3 => self.average = f64::from_bits(word),
            _ => self.message_rate = f64::from_bits(word),
        }
    }
}

/// Returns the `ibv_mtu` digit of the largest MTU of at most `bytes`.
fn digit_of(bytes: u16) -> u8 {
    (b'1'..=b'5').rev().find(|digit| mtu_of(*digit).is_some_and(|mtu| mtu <= bytes)).unwrap_or(b'1')
}

fn mtu_of(digit: u8) -> Option<u16> {
    (b'1'..=b'5').contains(&digit).then(|| 128 << (digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(n: u8) -> Keys {
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, n];
        Keys {
            queue_pair: 0x10 + u32::from(n),
            psn: 0x859076,
            remote_key: 0x2f7,
            virtual_address: 0x7fdf_32a4_7000,
            gid,
        }
    }

    /// Carries messages until neither end has one; returns their lengths, the client's first.
    fn carry(client: &mut PerftestHandshake, server: &mut PerftestHandshake) -> [Vec<usize>; 2] {
        let mut lengths = [Vec::new(), Vec::new()];
        loop {
            let (there, back) = (client.poll_transmit(), server.poll_transmit());
            if there.is_none() && back.is_none() {
                return lengths;
            }
            if let Some(message) = there {
                lengths[0].push(message.len());
                server.handle(&message).unwrap();
            }
            if let Some(message) = back {
                lengths[1].push(message.len());
                client.handle(&message).unwrap();
            }
        }
    }

    #[test]
    fn both_ends_understand_each_other() {
        let mut client = PerftestHandshake::new(Role::Client, RdmaOperation::Write, keys(1), 1_024);
        let mut server = PerftestHandshake::new(Role::Server, RdmaOperation::Write, keys(2), 1_024);
        assert_eq!(carry(&mut client, &mut server), [vec![16, 4, 4, 2, 108], vec![16, 4, 4, 2, 108]]);
        assert_eq!((client.peer(), server.peer()), (Some(&keys(2)), Some(&keys(1))));
        client.connect();
        assert_eq!(carry(&mut client, &mut server), [vec![108], vec![]], "the server is not ready");
        assert!(!client.is_connected());
        server.connect();
        assert_eq!(carry(&mut client, &mut server), [vec![108], vec![108, 108]]);
        assert!(client.is_connected() && server.is_connected() && !server.is_done());
        let report = BandwidthReport { size: 65_536, iterations: 500, peak: 0.5, average: 0.25, message_rate: 0.001 };
        client.finish(report);
        carry(&mut client, &mut server);
        assert!(client.is_done() && server.is_done());
        assert_eq!(server.report(), Some(report));
    }

    /// `ib_send_bw` has no report, and one more response before data.
    #[test]
    fn ends_of_sends_understand_each_other() {
        let mut client = PerftestHandshake::new(Role::Client, RdmaOperation::Send, keys(1), 1_024);
        let mut server = PerftestHandshake::new(Role::Server, RdmaOperation::Send, keys(2), 1_024);
        client.connect();
        server.connect();
        let lengths = vec![16, 4, 4, 2, 108, 108, 108, 108];
        assert_eq!(carry(&mut client, &mut server), [lengths.clone(), lengths]);
        assert!(client.is_connected() && server.is_connected() && !server.may_close());
        client.finish(BandwidthReport::default());
        assert_eq!(carry(&mut client, &mut server), [vec![108, 5], vec![108, 5]]);
        assert!(client.is_done() && server.is_done() && server.report().is_none());
    }

    /// Messages split into pieces, and two at once.
    #[test]
    fn a_stream_has_no_messages() {
        let mut server = PerftestHandshake::new(Role::Server, RdmaOperation::Write, keys(2), 1_024);
        server.handle(b"6.06\0").unwrap();
        assert_eq!(server.poll_transmit(), None);
        server.handle(&[0; 11]).unwrap();
        assert_eq!(server.poll_transmit().unwrap(), b"6.06\0\0\0\0\0\0\0\0\0\0\0\0");
        server.handle(&[0, 0, 16, 0, 0, 0, 0, 64, b'3', 0]).unwrap();
        let all: Vec<Vec<u8>> = std::iter::from_fn(|| server.poll_transmit()).collect();
        assert_eq!(all, [vec![0, 0, 16, 0], vec![0, 0, 0, 64], vec![b'3', 0]]);
    }

    #[test]
    fn invalid_messages_are_errors() {
        let server =
            |bytes: &[u8]| PerftestHandshake::new(Role::Server, RdmaOperation::Write, keys(2), 1_024).handle(bytes);
        let version = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        };
        assert_eq!(server(&version("5.60")), Err(HandshakeError::Version("5.60".into())));
        assert_eq!(server(&version("HTTP/1.1 400")), Err(HandshakeError::Version("HTTP/1.1 400".into())));
        let after_version = |rest: &[u8]| server(&[&version("6.25"), &[0; 8][..], rest].concat());
        assert!(after_version(b"9\0").unwrap_err().to_string().contains("invalid path MTU: 9"));
        let no_keys = after_version(&[b"3\0", &[b'x'; 108][..]].concat());
        assert!(no_keys.unwrap_err().to_string().contains("invalid queue pair: xxx"));
        // A client can't send packets shorter than configured; a server accepts any length.
        let mut client = PerftestHandshake::new(Role::Client, RdmaOperation::Write, keys(1), 1_024);
        let short =
            client.handle(&version("6.06")).and_then(|()| client.handle(&[0; 8])).and_then(|()| client.handle(b"2\0"));
        assert_eq!(short, Err(HandshakeError::Mtu { own: 1_024, theirs: 512 }));
        assert!(after_version(b"2\0").is_ok());
    }

    #[test]
    fn path_mtus_are_digits() {
        assert_eq!([256, 512, 1_024, 2_048, 4_096, 1_500, 9_000].map(digit_of), *b"1234535");
        assert_eq!((mtu_of(b'3'), mtu_of(b'0'), mtu_of(b'6')), (Some(1_024), None, None));
    }
}
