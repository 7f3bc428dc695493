//! HTTP/1.1 server: a thread accepts connections, and each client has a thread of its own, up to [`CLIENTS_MAX`].
//!
//! A connection has one request. A slow or malicious client delays only its own thread, and only until a timeout. Where all clients are
//! served, one that has not sent its request, or takes its answer slowly, makes room for the next.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::address::is_local;
use crate::request::{self, GetRequest, RequestError};

/// Maximum number of clients served at a time. A browser has up to six connections.
pub const CLIENTS_MAX: usize = 32;
/// Maximum number of clients with server-sent events; the others are for pages and metrics.
pub const STREAMS_MAX: usize = 24;
/// Time after which an answer that is not taken makes room for another client.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Timeout for a client that takes no byte of an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Wait before the next `accept` where the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);
/// Time for which a refused client's remaining data are read, so that the client gets to read the reason.
const LINGER: Duration = Duration::from_millis(500);

/// Pages and data, by path, requested by several threads at a time.
pub trait Site: Send + Sync {
    /// Answers a request.
    fn answer(&self, get: &GetRequest) -> Response;
}

/// An answer.
pub enum Response {
    /// A file.
    File {
        /// MIME type of the file.
        kind: &'static str,
        /// Content of the file.
        content: Cow<'static, [u8]>,
    },
    /// Server-sent events.
    Events(EventStream),
    /// Refusal, with status and reason.
    Refused {
        /// The HTTP status.
        status: u16,
        /// A sentence.
        why: String,
    },
}

/// Events for a client, until it disconnects or the server ends.
pub struct EventStream {
    /// Interval between two messages.
    pub every: Duration,
    /// Returns the next event, a line of JSON; `None` ends the stream.
    pub next: Box<dyn FnMut() -> Option<Arc<str>> + Send>,
}

/// Listener at an address, not yet served: connections wait.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

/// Reason why an address can't be served.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    error: io::Error,
}

/// Serves clients until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    shared: Arc<ServerContext>,
    taking: Option<JoinHandle<()>>,
}

struct ServerContext {
    site: Box<dyn Site>,
    is_local: bool,
    state: Mutex<State>,
    /// Signalled when the server ends.
    ending: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// Connections that are served, oldest first.
    clients: BTreeMap<u64, Connection>,
}

struct Connection {
    stream: TcpStream,
    stage: Stage,
}

/// Stage of a connection.
#[derive(PartialEq, Eq)]
enum Stage {
    /// The request is incomplete.
    Request,
    /// The answer is being made, which no lost client ends.
    Making,
    /// The answer is being sent, since this instant.
    Answer(Instant),
    /// Server-sent events.
    Events,
}

impl State {
    /// Ends the oldest client that has not sent its request, or else one that takes its answer slowly. Returns false if there is none.
    fn make_room(&mut self) -> bool {
        let is_slow = |stage: &Stage| matches!(stage, Stage::Answer(since) if since.elapsed() > ANSWERED_WITHIN);
        let find = |is_meant: &dyn Fn(&Stage) -> bool| {
            self.clients.iter().find(|(_, client)| is_meant(&client.stage)).map(|(number, _)| *number)
        };
        let found = find(&|stage| *stage == Stage::Request).or_else(|| find(&is_slow));
        let ended = found.and_then(|number| self.clients.remove(&number));
        ended.is_some_and(|client| {
            let _ = client.stream.shutdown(Shutdown::Both);
            true
        })
    }
}

impl HttpListener {
    /// Claims an address.
    ///
    /// # Errors
    /// An address that is in use, or not of this machine, or missing permission.
    pub fn bind(address: SocketAddr) -> Result<HttpListener, BindError> {
        let failed = |error| BindError { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(HttpListener { listener, address })
    }

    /// Bound address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients from `site`.
    ///
    /// # Errors
    /// Failure to start a thread.
    pub fn serve(self, site: Box<dyn Site>) -> io::Result<Server> {
        let HttpListener { listener, address } = self;
        let is_local = is_local(&address);
        let shared = Arc::new(ServerContext { site, is_local, state: Mutex::default(), ending: Condvar::new() });
        let listener = Arc::new(listener);
        let (context, connections) = (shared.clone(), listener.clone());
        let taking = std::thread::Builder::new()
            .name("weir-http".to_owned())
            .spawn(move || take_connections(&connections, &context))?;
        Ok(Server { address, listener, shared, taking: Some(taking) })
    }
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BindError { address, error } = self;
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => "another program listens there; name another port, or 0 for a free one",
            io::ErrorKind::AddrNotAvailable => "this machine has no such address; 127.0.0.1 is for itself alone",
            io::ErrorKind::PermissionDenied => "this user may not; take a port from 1024 on",
            _ => "name another address",
        };
        write!(f, "{address} can't be served at: {error}; {help}")
    }
}

impl std::error::Error for BindError {}

impl Server {
    /// Address at which clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.ending.notify_all();
        // Wakes up the thread that waits in `accept`.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(taking) = self.taking.take() {
            let _ = taking.join();
        }
        for client in self.shared.state().clients.values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

impl std::fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

impl ServerContext {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client's answer, or its events, begin. Returns false if there are as many with events as may be.
    fn begin_answer(&self, number: u64, stage: Stage) -> bool {
        let mut state = self.state();
        let streams = state.clients.values().filter(|client| client.stage == Stage::Events).count();
        if stage == Stage::Events && streams >= STREAMS_MAX {
            return false;
        }
        if let Some(client) = state.clients.get_mut(&number) {
            client.stage = stage;
        }
        true
    }

    /// Waits for `time`; returns true if the server has ended meanwhile.
    fn ends_within(&self, time: Duration) -> bool {
        let waited = self.ending.wait_timeout_while(self.state(), time, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

fn take_connections(listener: &TcpListener, context: &Arc<ServerContext>) {
    for number in 0.. {
        let connection = listener.accept();
        if context.state().is_over {
            return;
        }
        match connection {
            Ok((stream, _)) => spawn_client(number, stream, context),
            // For example, the process has too many open files; connections wait.
            Err(_) if context.ends_within(NO_ROOM) => return,
            Err(_) => {}
        }
    }
}

/// Gives a client a thread; refuses a client beyond the limit without waiting for it.
fn spawn_client(number: u64, stream: TcpStream, context: &Arc<ServerContext>) {
    let Ok(own) = stream.try_clone() else { return };
    {
        let mut state = context.state();
        if state.clients.len() >= CLIENTS_MAX && !state.make_room() {
            let _ = stream.set_nonblocking(true);
            let why = format!("{CLIENTS_MAX} clients are served already; ask again when one has gone");
            let _ = send(&stream, &Response::Refused { status: 503, why }, false);
            return;
        }
        state.clients.insert(number, Connection { stream: own, stage: Stage::Request });
    }
    let client_of = context.clone();
    let serve = move || {
        // A client that breaks off is no event.
        let _ = serve_client(number, &stream, &client_of);
        client_of.state().clients.remove(&number);
        let _ = stream.shutdown(Shutdown::Both);
    };
    if std::thread::Builder::new().name(format!("weir-http-{number}")).spawn(serve).is_err() {
        context.state().clients.remove(&number);
    }
}

fn serve_client(number: u64, stream: &TcpStream, context: &ServerContext) -> io::Result<()> {
    stream.set_write_timeout(Some(TAKEN_WITHIN))?;
    stream.set_nodelay(true)?;
    let get = match request::read(stream, context.is_local) {
        Ok(Some(get)) => get,
        Ok(None) => return Ok(()),
        Err(RequestError { status, why }) => {
            send(stream, &Response::Refused { status, why }, false)?;
            return linger(stream);
        }
    };
    context.begin_answer(number, Stage::Making);
    let answer = context.site.answer(&get);
    context.begin_answer(number, Stage::Answer(Instant::now()));
    match answer {
        Response::Events(_) if get.is_head => stream_head(stream),
        Response::Events(events) if context.begin_answer(number, Stage::Events) => send_events(stream, events, context),
        Response::Events(_) => {
            let why = format!("{STREAMS_MAX} clients have streams already; ask again when one has gone");
            send(stream, &Response::Refused { status: 503, why }, get.is_head)
        }
        response => send(stream, &response, get.is_head),
    }
}

/// Reads on for a moment: closing with unread data would reset the connection and lose the answer.
fn linger(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LINGER))?;
    let mut rest = [0; 4_096];
    for _ in 0..64 {
        if io::Read::read(&mut stream, &mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

fn send(mut stream: &TcpStream, response: &Response, is_head: bool) -> io::Result<()> {
    let text;
    let (status, kind, content): (u16, &str, &[u8]) = match response {
        Response::File { kind, content } => (200, kind, content),
        Response::Refused { status, why } => {
            text = format!("{why}\n");
            (*status, "text/plain; charset=utf-8", text.as_bytes())
        }
        Response::Events(_) => return Ok(()),
    };
    let mut head = head(status, kind);
    // Writing to a string never fails.
    let _ = write!(head, "Content-Length: {}\r\n", content.len());
    if status == 405 {
        head += "Allow: GET, HEAD\r\n";
    }
    head += "\r\n";
    let mut answer = head.into_bytes();
    if !is_head {
        answer.extend_from_slice(content);
    }
    stream.write_all(&answer)
}

fn stream_head(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all((head(200, "text/event-stream") + "\r\n").as_bytes())
}

fn send_events(mut stream: &TcpStream, mut events: EventStream, context: &ServerContext) -> io::Result<()> {
    stream_head(stream)?;
    while let Some(data) = (events.next)() {
        stream.write_all(format!("data: {data}\n\n").as_bytes())?;
        if context.ends_within(events.every) {
            break;
        }
    }
    Ok(())
}

/// Returns the common head of an answer, without its own fields and the empty line. Pages may load only files of this server.
fn head(status: u16, kind: &str) -> String {
    format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nCache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
         frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n",
        reason(status)
    )
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
