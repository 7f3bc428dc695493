//! Client of the control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::protocol::{ErrorReply, Hello, Reply, ReplyError, Request, VERSION, parse_answer, request_line};
use crate::socket::connected;

/// A connection to a process of `weir run`.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

/// Handle that ends the data after a reply.
#[derive(Debug)]
pub struct StreamCloser(UnixStream);

impl StreamCloser {
    /// Asks the switch to end the stream; data sent until then still arrive.
    ///
    /// # Errors
    /// The connection has ended already.
    pub fn end(&self) -> io::Result<()> {
        self.0.shutdown(std::net::Shutdown::Write)
    }
}

/// Reason why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The path has no process that answers.
    #[error("{}: {}", .path.display(), connect_failure(.error))]
    Connect {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The connection was lost.
    #[error("{}: the switch does not answer: {error}", .path.display())]
    Broken {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The switch is of another build.
    #[error(
        "{}: the switch speaks version {theirs} of the control protocol, and this weir version {VERSION}: use the `weir` that the \
         switch was started with{}", .path.display(), in_brackets(.message)
    )]
    Version {
        /// The path.
        path: PathBuf,
        /// The switch's version.
        theirs: u64,
        /// Message of the switch.
        message: String,
    },
    /// The peer is no switch.
    #[error("{}: {what}; is it the socket of a switch?", .path.display())]
    NoSwitch {
        /// The path.
        path: PathBuf,
        /// Reason why the peer's data are no answer.
        what: String,
    },
    /// Refusal by the switch.
    #[error("{}", .0.message)]
    Refused(ErrorReply),
}

/// Timeout of a connection and of each answer: longer than the switch's own timeouts.
const WITHIN: Duration = Duration::from_secs(45);

impl Client {
    /// Connects to a socket.
    ///
    /// # Errors
    /// A missing socket, a socket without a process, or missing permission.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let failed = |error: io::Error| ClientError::Connect { path: path.to_owned(), error };
        let stream = connected(path, WITHIN).map_err(failed)?;
        stream.set_read_timeout(Some(WITHIN)).map_err(failed)?;
        Ok(Client { stream: BufReader::new(stream), path: path.to_owned() })
    }

    /// Sends a request, and waits for the reply.
    ///
    /// # Errors
    /// The switch refuses, does not answer, or is of another build.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let broken = |error: io::Error| ClientError::Broken { path: self.path.clone(), error };
        let written = self.stream.get_mut().write_all(request_line(request).as_bytes());
        let mut line = Vec::new();
        // A client refused at once has its answer, and a closed connection.
        match self.stream.read_until(b'\n', &mut line) {
            Ok(_) if !line.is_empty() => {}
            Ok(_) => {
                return Err(broken(written.err().unwrap_or_else(|| io::Error::other("it has closed the connection"))));
            }
            Err(error) => return Err(broken(error)),
        }
        match parse_answer(&line) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(refusal)) => Err(ClientError::Refused(refusal)),
            Err(ReplyError::Version(theirs, message)) => {
                Err(ClientError::Version { path: self.path.clone(), theirs, message })
            }
            Err(ReplyError::Malformed(what)) => Err(ClientError::NoSwitch { path: self.path.clone(), what }),
        }
    }

    /// Returns the data after the last reply on the connection, up to its end. The [`StreamCloser`] asks for that end.
    ///
    /// # Errors
    /// The system's.
    pub fn follow(self) -> io::Result<(BufReader<UnixStream>, StreamCloser)> {
        // A port may be quiet for long.
        self.stream.get_ref().set_read_timeout(None)?;
        let closer = StreamCloser(self.stream.get_ref().try_clone()?);
        Ok((self.stream, closer))
    }

    /// Requests version, process and switches.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn hello(&mut self) -> Result<Hello, ClientError> {
        match self.ask(&Request::Hello)? {
            Reply::Hello(hello) => Ok(hello),
            _ => Err(self.unexpected_reply()),
        }
    }

    /// Error for a reply that does not fit the request.
    pub fn unexpected_reply(&self) -> ClientError {
        ClientError::NoSwitch { path: self.path.clone(), what: "the reply is to another request".to_owned() }
    }
}

impl ClientError {
    /// Returns true for a failure, false for a user's error, as a wrong name.
    pub fn is_failure(&self) -> bool {
        matches!(self, ClientError::Broken { .. })
    }
}

fn connect_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket: no switch runs with it".to_owned(),
        io::ErrorKind::ConnectionRefused => "no switch listens there: the one that did has ended".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this user may not connect: ask as the switch's user, or give the socket a group ([control] in its file)"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" (its message: {text})") }
}
