//! Server of the control socket, in the switch's process.
//!
//! A thread takes connections, and each client has a thread of its own, up to [`CLIENTS_MAX`]. None of them touches a switch:
//! a request goes to the control thread as a [`PendingRequest`], and the client's thread waits for the answer. So a client that is
//! slow, silent or broken delays only itself.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::protocol::{ErrorReply, ErrorReplyKind, REQUEST_BYTES_MAX, Reply, Request, answer_line, parse_request};
use crate::socket::{CLIENTS_MAX, ControlListener, SocketPath};

/// Timeout for a client's request, from the last answer on.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);
/// Timeout for a client that takes no byte of an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Timeout for the control thread to accept a request, and again to answer it.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Wait before the next `accept` where the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Timeout for a client of a stream that takes no byte.
const STREAM_TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// Interval of checks of a stream without data.
const STREAM_NAP: Duration = Duration::from_millis(2);
/// Time for clients to take their last answers when the server ends.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Answer of the control thread to a request.
pub type Answer = Result<Reply, ErrorReply>;

/// Data after a reply on its connection; at their end the connection closes. The client's thread reads it.
pub trait Stream: Send {
    /// Appends the data that are ready; returns true if more may follow.
    fn take(&mut self, bytes: &mut Vec<u8>) -> bool;

    /// Ends the stream: the client asked for it, or the switch is about to end. Data taken afterwards are the rest.
    fn end(&mut self);
}

/// Request with the destination of its answer. Dropping the request signals the client that the switch is about to end.
#[derive(Debug)]
pub struct PendingRequest {
    /// Request of the client.
    pub request: Request,
    answer: Sender<(Answer, Option<Box<dyn Stream>>)>,
}

/// Handle by which any thread sends requests to the control thread.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    requests: Sender<PendingRequest>,
}

/// Creates the channel to the control thread, for at most [`CLIENTS_MAX`] requests at a time.
pub fn control_channel() -> (ControlHandle, Receiver<PendingRequest>) {
    let (requests, asked) = bounded(CLIENTS_MAX);
    (ControlHandle { requests }, asked)
}

/// Serves clients on a socket until it is dropped.
#[derive(Debug)]
pub struct Server {
    path: SocketPath,
    listener: Arc<UnixListener>,
    shared: Arc<ServerContext>,
    taking: Option<JoinHandle<()>>,
}

/// State shared by the threads.
#[derive(Debug)]
struct ServerContext {
    is_over: AtomicBool,
    control: ControlHandle,
    /// Connections that are served, to end them with the server.
    clients: Mutex<BTreeMap<u64, UnixStream>>,
}

impl PendingRequest {
    /// Answers the request; has no effect if the client has gone.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.try_send((answer, None));
    }

    /// Answers, with a stream to follow. The stream is dropped if the client has gone.
    pub fn answer_with(self, reply: Reply, stream: Box<dyn Stream>) {
        let _ = self.answer.try_send((Ok(reply), Some(stream)));
    }
}

impl ControlHandle {
    /// Sends a request to the control thread, and waits up to 40 s for its answer.
    ///
    /// # Errors
    /// Reason for the missing answer.
    pub fn ask(&self, request: Request) -> Answer {
        self.ask_for_all(request).0
    }

    /// Returns the answer, and the stream after it on the client's connection.
    fn ask_for_all(&self, request: Request) -> (Answer, Option<Box<dyn Stream>>) {
        let busy = |what: &str| (Err(ErrorReply::new(ErrorReplyKind::Busy, what)), None);
        let (answer, answered) = bounded(1);
        let pending = PendingRequest { request, answer };
        if self.requests.send_timeout(pending, ANSWER_WITHIN).is_err() {
            return busy("the switch has other things to do; ask again");
        }
        match answered.recv_timeout(ANSWER_WITHIN) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => busy("the switch has not answered in time; ask again"),
            Err(RecvTimeoutError::Disconnected) => busy("the switch is about to end"),
        }
    }
}

impl ControlListener {
    /// Serves clients by `control`, those that wait already first.
    ///
    /// # Errors
    /// Failure to start a thread.
    pub fn serve(self, control: ControlHandle) -> io::Result<Server> {
        let shared = Arc::new(ServerContext { is_over: AtomicBool::new(false), control, clients: Mutex::default() });
        let listener = Arc::new(self.listener);
        let (context, connections) = (shared.clone(), listener.clone());
        let taking = std::thread::Builder::new()
            .name("weir-control".to_owned())
            .spawn(move || take_connections(&connections, &context))?;
        Ok(Server { path: self.path, listener, shared, taking: Some(taking) })
    }
}

impl Server {
    /// Path at which clients connect.
    pub fn path(&self) -> &Path {
        self.path.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Release; pairs with Acquire in `is_over`, so that woken threads see it.
        self.shared.is_over.store(true, Ordering::Release);
        // Wakes up the thread that waits in `accept`.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(taking) = self.taking.take() {
            let _ = taking.join();
        }
        // Threads that wait for a request end; threads that answer may finish.
        let end = |how| self.shared.clients().values().for_each(|client| drop(client.shutdown(how)));
        end(Shutdown::Read);
        let deadline = Instant::now() + LAST_ANSWERS_WITHIN;
        while !self.shared.clients().is_empty() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        end(Shutdown::Both);
    }
}

impl ServerContext {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_connections(listener: &UnixListener, context: &Arc<ServerContext>) {
    for number in 0.. {
        let connection = listener.accept();
        if context.is_over() {
            return;
        }
        let Ok((stream, _)) = connection else {
            // For example, the process has too many open files; connections wait.
            std::thread::park_timeout(NO_ROOM);
            continue;
        };
        if let Err(refusal) = spawn_client(number, &stream, context) {
            refuse(stream, refusal);
        }
    }
}

/// Gives a client a thread.
fn spawn_client(number: u64, stream: &UnixStream, context: &Arc<ServerContext>) -> Result<(), ErrorReply> {
    let failed = |error: io::Error| {
        ErrorReply::new(ErrorReplyKind::Busy, format!("the switch can't serve this client: {error}"))
    };
    let own = stream.try_clone().map_err(failed)?;
    {
        let mut clients = context.clients();
        if clients.len() >= CLIENTS_MAX {
            let message = format!("the switch serves {CLIENTS_MAX} clients already; ask again when one has gone");
            return Err(ErrorReply::new(ErrorReplyKind::Busy, message));
        }
        clients.insert(number, stream.try_clone().map_err(failed)?);
    }
    let client_of = context.clone();
    let serve = move || {
        // A client that breaks off is no event.
        let _ = serve_client(own, &client_of);
        client_of.clients().remove(&number);
    };
    let started = std::thread::Builder::new().name(format!("weir-client-{number}")).spawn(serve);
    started.map(drop).map_err(|error| {
        context.clients().remove(&number);
        failed(error)
    })
}

/// Sends the reason and closes the connection. Must not wait: the accepting thread calls it.
fn refuse(mut stream: UnixStream, refusal: ErrorReply) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write_all(answer_line(&Err(refusal)).as_bytes());
    }
}

/// Answers a client's requests in turn, until it goes, takes too long, or sends a line that is too long.
fn serve_client(stream: UnixStream, context: &ServerContext) -> io::Result<()> {
    stream.set_write_timeout(Some(TAKEN_WITHIN))?;
    let mut requests = RequestReader { stream: &stream, pending: Vec::new() };
    while !context.is_over() {
        let ((answer, follows), is_last) = match requests.next()? {
            RequestLine::Line(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
            RequestLine::Line(line) => {
                (parse_request(&line).map_or_else(|no| (Err(no), None), |yes| context.control.ask_for_all(yes)), false)
            }
            RequestLine::TooLong => {
                let message = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
                ((Err(ErrorReply::new(ErrorReplyKind::Malformed, message)), None), true)
            }
            RequestLine::End => return Ok(()),
        };
        (&stream).write_all(answer_line(&answer).as_bytes())?;
        if let Some(follows) = follows {
            return serve_stream(&stream, follows, context);
        }
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}

/// Sends a client the stream after a reply, to its end. The client ends it by shutting down its half of the connection.
fn serve_stream(mut stream: &UnixStream, mut follows: Box<dyn Stream>, context: &ServerContext) -> io::Result<()> {
    stream.set_write_timeout(Some(STREAM_TAKEN_WITHIN))?;
    let (mut bytes, mut is_ended) = (Vec::new(), false);
    loop {
        bytes.clear();
        let goes_on = follows.take(&mut bytes);
        stream.write_all(&bytes)?;
        if !goes_on {
            return stream.shutdown(Shutdown::Write);
        }
        if !is_ended && (context.is_over() || has_ended(stream)) {
            is_ended = true;
            follows.end();
        } else if bytes.is_empty() {
            std::thread::park_timeout(STREAM_NAP);
        }
    }
}

/// Returns true if a client has shut down its half of the connection. Never blocks; discards other data of the client.
fn has_ended(stream: &UnixStream) -> bool {
    let mut some = [0; 256];
    match rustix::net::recv(stream, &mut some, RecvFlags::DONTWAIT) {
        Ok((read, _)) => read == 0,
        Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Lines of a client.
struct RequestReader<'s> {
    stream: &'s UnixStream,
    /// Bytes after the last line, without a line end.
    pending: Vec<u8>,
}

enum RequestLine {
    Line(Vec<u8>),
    TooLong,
    End,
}

impl RequestReader<'_> {
    /// The next line, without its end.
    fn next(&mut self) -> io::Result<RequestLine> {
        let deadline = Instant::now() + REQUEST_WITHIN;
        let mut looked = 0;
        loop {
            if let Some(end) = self.pending[looked..].iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(looked + end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(if line.len() > REQUEST_BYTES_MAX { RequestLine::TooLong } else { RequestLine::Line(line) });
            }
            looked = self.pending.len();
            if looked > REQUEST_BYTES_MAX {
                return Ok(RequestLine::TooLong);
            }
            // A bound on the whole line: a client that sends a byte now and then is not waited for longer than another one.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(RequestLine::End);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut some = [0; 4_096];
            match self.stream.read(&mut some) {
                Ok(0) => return Ok(RequestLine::End),
                Ok(length) => self.pending.extend_from_slice(&some[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
