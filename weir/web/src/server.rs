//! HTTP/1.1 server: a thread accepts connections, and each client has a thread of its own, up to [`CLIENTS_MAX`].
//!
//! A connection has one request. A slow or malicious client delays only its own thread, and only until a timeout. Where all clients are
//! served, one that has not sent its request, or takes its answer slowly, makes room for the next. Where all streams are in use, one that
//! takes its events slowly makes room for another, and so does one of an address that has two more than the client's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::address::is_local;
use crate::request::{self, ChangeRequest, GetRequest, HttpRequest, RequestError};

/// Maximum number of clients served at a time. A browser has up to six connections.
pub const CLIENTS_MAX: usize = 32;
/// Maximum number of clients with server-sent events; the others are for pages and metrics.
pub const STREAMS_MAX: usize = 24;
/// Time after which an answer or event that is not taken makes room for another client.
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

    /// Makes a change. By default a site refuses all.
    fn change(&self, _request: &ChangeRequest) -> Response {
        let why = "there is only GET: `weir set` and `weir clear` change a switch".to_owned();
        Response::Refused { status: 405, why }
    }
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
    peer: IpAddr,
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
    /// Server-sent events. An event is being sent since this instant.
    Events(Option<Instant>),
}

impl Stage {
    /// Whether the client has not taken an answer or event that was sent a while ago.
    fn is_slow(&self) -> bool {
        matches!(self, Stage::Answer(since) | Stage::Events(Some(since)) if since.elapsed() > ANSWERED_WITHIN)
    }

    fn is_events(&self) -> bool {
        matches!(self, Stage::Events(_))
    }
}

impl State {
    /// Ends the oldest client that has not sent its request, or else one that takes its answer slowly. Returns false if there is none.
    fn make_room(&mut self) -> bool {
        let is_slow_answer = |stage: &Stage| !stage.is_events() && stage.is_slow();
        let found = self.oldest(|client| client.stage == Stage::Request);
        let found = found.or_else(|| self.oldest(|client| is_slow_answer(&client.stage)));
        self.end(found)
    }

    /// Ends the oldest stream that is slow, or else of the address with the most streams, if that has two more than `peer`. Returns
    /// false if there is none.
    fn make_room_for_stream(&mut self, peer: IpAddr) -> bool {
        let mut streams = BTreeMap::new();
        for client in self.clients.values().filter(|client| client.stage.is_events()) {
            *streams.entry(client.peer).or_insert(0) += 1;
        }
        let own = streams.get(&peer).copied().unwrap_or(0);
        let most = streams.into_iter().filter(|(_, count)| *count > own + 1).max_by_key(|(_, count)| *count);
        let found = self.oldest(|client| client.stage.is_events() && client.stage.is_slow()).or_else(|| {
            let (greedy, _) = most?;
            self.oldest(|client| client.stage.is_events() && client.peer == greedy)
        });
        self.end(found)
    }

    fn oldest(&self, is_meant: impl Fn(&Connection) -> bool) -> Option<u64> {
        self.clients.iter().find(|(_, client)| is_meant(client)).map(|(number, _)| *number)
    }

    /// Ends a client; returns false if there is none.
    fn end(&mut self, number: Option<u64>) -> bool {
        let ended = number.and_then(|number| self.clients.remove(&number));
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

    /// Records the stage of a client.
    fn enter(&self, number: u64, stage: Stage) {
        if let Some(client) = self.state().clients.get_mut(&number) {
            client.stage = stage;
        }
    }

    /// Records that a client's events begin. Returns false if there are as many with events as may be, and none makes room.
    fn begin_events(&self, number: u64) -> bool {
        let mut state = self.state();
        let Some(peer) = state.clients.get(&number).map(|client| client.peer) else { return false };
        let streams = state.clients.values().filter(|client| client.stage.is_events()).count();
        if streams >= STREAMS_MAX && !state.make_room_for_stream(peer) {
            return false;
        }
        if let Some(client) = state.clients.get_mut(&number) {
            client.stage = Stage::Events(None);
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
            Ok((stream, peer)) => spawn_client(number, stream, peer.ip(), context),
            // For example, the process has too many open files; connections wait.
            Err(_) if context.ends_within(NO_ROOM) => return,
            Err(_) => {}
        }
    }
}

/// Gives a client a thread; refuses a client beyond the limit without waiting for it.
fn spawn_client(number: u64, stream: TcpStream, peer: IpAddr, context: &Arc<ServerContext>) {
    let Ok(own) = stream.try_clone() else { return };
    {
        let mut state = context.state();
        if state.clients.len() >= CLIENTS_MAX && !state.make_room() {
            let _ = stream.set_nonblocking(true);
            let why = format!("{CLIENTS_MAX} clients are served already; ask again when one has gone");
            let _ = send(&stream, &Response::Refused { status: 503, why }, false);
            return;
        }
        state.clients.insert(number, Connection { stream: own, peer, stage: Stage::Request });
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
    let request = match request::read(stream, context.is_local) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(()),
        Err(RequestError { status, why }) => {
            send(stream, &Response::Refused { status, why }, false)?;
            return linger(stream);
        }
    };
    context.enter(number, Stage::Making);
    let (answer, is_head) = match &request {
        HttpRequest::Get(get) => (context.site.answer(get), get.is_head),
        HttpRequest::Change(change) => (context.site.change(change), false),
    };
    context.enter(number, Stage::Answer(Instant::now()));
    match answer {
        Response::Events(_) if is_head => stream_head(stream),
        Response::Events(events) if context.begin_events(number) => send_events(number, stream, events, context),
        Response::Events(_) => {
            let why = format!("{STREAMS_MAX} clients have streams already; ask again when one has gone");
            send(stream, &Response::Refused { status: 503, why }, is_head)
        }
        response => send(stream, &response, is_head),
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

fn send_events(
    number: u64,
    mut stream: &TcpStream,
    mut events: EventStream,
    context: &ServerContext,
) -> io::Result<()> {
    stream_head(stream)?;
    while let Some(data) = (events.next)() {
        context.enter(number, Stage::Events(Some(Instant::now())));
        stream.write_all(format!("data: {data}\n\n").as_bytes())?;
        context.enter(number, Stage::Events(None));
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
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
