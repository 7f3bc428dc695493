//! A served site, whatever its clients send.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketType};
use serde_json::Value;
use weir_control::protocol::{ErrorReply, Hello, Reply, Request, ShowRequest, ShowView};
use weir_control::state::{MacEntry, State, ViewReply};
use weir_web::{
    CLIENTS_MAX, EventStream, GetRequest, HttpListener, LiveSite, RecordedSite, Response, STREAMS_MAX, Server, Site,
    http_address,
};

/// A switch with one address and some metrics, which counts how often it is asked who it is.
struct Switch {
    server: Option<Server>,
    answering: Option<JoinHandle<()>>,
    states: Arc<AtomicU64>,
    /// How often it is asked for its metrics.
    metrics: Arc<AtomicU64>,
}

impl Switch {
    fn new() -> Switch {
        let (asker, questions) = weir_control::control_channel();
        let server = served(Box::new(LiveSite::new(asker)));
        let states = Arc::new(AtomicU64::new(0));
        let metrics = Arc::new(AtomicU64::new(0));
        let (counted, counted_metrics) = (states.clone(), metrics.clone());
        let answering = std::thread::spawn(move || {
            for question in questions {
                let answer = answer(&question.request, &counted, &counted_metrics);
                question.answer(answer);
            }
        });
        Switch { server: Some(server), answering: Some(answering), states, metrics }
    }

    fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    fn is_well(&self) -> bool {
        get(self.address(), "/metrics")
            .is_some_and(|(head, body)| head.starts_with("HTTP/1.1 200") && body == "# EOF\n")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.server = None;
        // No sender of requests is left.
        self.answering.take().unwrap().join().unwrap();
    }
}

fn answer(request: &Request, states: &AtomicU64, metrics: &AtomicU64) -> Result<Reply, ErrorReply> {
    let Request::Show(ShowRequest { what, .. }) = request else {
        states.fetch_add(1, Ordering::Relaxed);
        return Ok(Reply::Hello(Hello { weir_version: "0".into(), process: 7, switches: vec!["lab".into()] }));
    };
    let state = match what {
        ShowView::Metrics => {
            metrics.fetch_add(1, Ordering::Relaxed);
            return Ok(Reply::Metrics("# EOF\n".into()));
        }
        ShowView::Lcores => return Ok(Reply::Lcores(Vec::new())),
        ShowView::Events => return Ok(Reply::Events(Vec::new())),
        ShowView::Mac => State::Mac(vec![MacEntry {
            vlan: None,
            mac: "02:00:00:00:00:01".into(),
            port: "p0".into(),
            is_static: true,
        }]),
        ShowView::Losses => State::Losses(Vec::new()),
        _ => State::Interfaces(Vec::new()),
    };
    let shown = |name: &str| ViewReply { switch: name.into(), counters_cleared_unix_ms: None, state: state.clone() };
    Ok(Reply::Switches(vec![shown("lab"), shown("other")]))
}

fn served(site: Box<dyn Site>) -> Server {
    HttpListener::bind(http_address("0").unwrap()).unwrap().serve(site).unwrap()
}

/// All that a client receives after it sends these bytes.
fn heard(address: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that has had enough closes before all is written.
    let _ = stream.write_all(sent);
    let _ = stream.shutdown(Shutdown::Write);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    heard
}

/// An answer's head and body; `None` if there is none.
fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let heard = heard(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes());
    let text = String::from_utf8(heard).expect("answers are text");
    text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

#[test]
fn a_switch_is_served() {
    let switch = Switch::new();
    let (head, _) = get(switch.address(), "/metrics").unwrap();
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    let (head, body) = get(switch.address(), "/api/state").unwrap();
    assert!(head.contains("application/json") && head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let state: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&state["weir"], &state["process"]), (&1.into(), &7.into()));
    assert_eq!(state["switches"].as_array().map(Vec::len), Some(2));
    assert_eq!(state["switches"][1]["switch"], "other");
    assert_eq!(state["switches"][1]["mac"][0]["port"], "p0");
    assert!(state["lcores"].is_array() && state["events"].is_array() && state["unix_ms"].as_u64() > Some(0));
    let (head, body) = get(switch.address(), "/").unwrap();
    assert!(head.contains("text/html") && body.contains("<title>Weir"), "{body}");
    let (head, body) = get(switch.address(), "/../Cargo.toml").unwrap();
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("/api/state"), "{head}\n{body}");
    let whole = heard(switch.address(), format!("HEAD / HTTP/1.1\r\nHost: {}\r\n\r\n", switch.address()).as_bytes());
    assert!(whole.ends_with(b"\r\n\r\n") && whole.starts_with(b"HTTP/1.1 200 "));
}

/// Reads server-sent events until there are so many.
fn streamed(address: SocketAddr, events: usize) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /api/stream HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    while text.matches("\n\ndata: ").count() + 1 < events || !text.ends_with("\n\n") {
        let mut some = [0; 1_024];
        let length = stream.read(&mut some).unwrap();
        assert!(length > 0, "{text}");
        text += std::str::from_utf8(&some[..length]).unwrap();
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/event-stream"), "{head}");
    let data = body.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn clients_of_a_stream_share_what_the_switch_is_asked() {
    let switch = Switch::new();
    let address = switch.address();
    let clients: Vec<_> = (0..8).map(|_| std::thread::spawn(move || streamed(address, 2))).collect();
    for client in clients {
        let events = client.join().unwrap();
        assert!(events.len() >= 2 && events[1]["at_ms"].as_f64() > events[0]["at_ms"].as_f64(), "{events:?}");
    }
    let asked = switch.states.load(Ordering::Relaxed);
    // Not once for each of 16 events, however late the machine lets clients be.
    assert!((2..16).contains(&asked), "{asked}");
}

#[test]
fn clients_of_metrics_share_what_the_switch_is_asked() {
    let switch = Switch::new();
    let address = switch.address();
    let begun = Instant::now();
    for _ in 0..64 {
        assert!(switch.is_well());
    }
    let fresh_for = Duration::from_millis(200);
    let periods = begun.elapsed().div_duration_f64(fresh_for) as u64;
    let asked = switch.metrics.load(Ordering::Relaxed);
    assert!((1..=periods + 1).contains(&asked), "{asked} times in {periods} periods, at {address}");
}

/// Client with a stream, or the answer's first line.
fn stream(address: SocketAddr) -> Result<TcpStream, String> {
    stream_of([127, 0, 0, 1], address)
}

/// As `stream`, of a client with this address.
fn stream_of(client: [u8; 4], address: SocketAddr) -> Result<TcpStream, String> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((client, 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(format!("GET /api/stream HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut some = [0; 15];
    stream.read_exact(&mut some).unwrap();
    let line = String::from_utf8_lossy(&some).into_owned();
    if line == "HTTP/1.1 200 OK" { Ok(stream) } else { Err(line) }
}

#[test]
fn neither_streams_nor_silent_clients_starve_metrics() {
    let switch = Switch::new();
    let address = switch.address();
    let streams: Vec<TcpStream> = (0..STREAMS_MAX).map(|_| stream(address).unwrap()).collect();
    assert_eq!(stream(address).unwrap_err(), "HTTP/1.1 503 Se");
    let mut silent = Vec::new();
    for n in 0..4 * CLIENTS_MAX {
        let mut client = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            client.write_all(b"GET /metrics HT").unwrap();
        }
        silent.push(client);
        assert!(switch.is_well(), "after {n} silent clients");
    }
    drop(streams);
    while stream(address).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn one_client_with_all_streams_leaves_some_to_others() {
    let switch = Switch::new();
    let address = switch.address();
    let greedy: Vec<TcpStream> = (0..STREAMS_MAX).map(|_| stream(address).unwrap()).collect();
    assert!(stream(address).is_err(), "the address has them all");
    let others: Vec<TcpStream> = (0..STREAMS_MAX / 2).map(|_| stream_of([127, 0, 0, 2], address).unwrap()).collect();
    // Both have as many now.
    assert!(stream_of([127, 0, 0, 2], address).is_err() && stream(address).is_err());
    let third = stream_of([127, 0, 0, 3], address).unwrap();
    let is_served = |stream: &TcpStream| {
        let mut rest = Vec::new();
        let _ = (&mut &*stream).take(2_000).read_to_end(&mut rest);
        rest.len() == 2_000
    };
    let served = [&greedy, &others].map(|streams| streams.iter().filter(|stream| is_served(stream)).count());
    assert!(is_served(&third));
    assert_eq!(served.iter().sum::<usize>(), STREAMS_MAX - 1, "{served:?}");
    assert!(served.iter().all(|count| *count >= STREAMS_MAX / 2 - 1), "{served:?}");
}

/// A site with one stream of long events.
struct Torrent;

impl Site for Torrent {
    fn answer(&self, _: &GetRequest) -> Response {
        let event: Arc<str> = "x".repeat(1 << 20).into();
        let next = move || Some(event.clone());
        Response::Events(EventStream { every: Duration::from_millis(1), next: Box::new(next) })
    }
}

#[test]
fn a_stream_that_is_taken_drop_by_drop_makes_room() {
    let server = served(Box::new(Torrent));
    let address = server.address();
    let mut slow: Vec<TcpStream> = (0..STREAMS_MAX).map(|_| stream(address).unwrap()).collect();
    // Each takes some of its events again and again, so that no write times out.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut some = vec![0; 1 << 18];
            while !is_over.load(Ordering::Relaxed) {
                for stream in &mut slow {
                    let _ = stream.read(&mut some);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        while stream(address).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_server_that_ends_lets_its_clients_go() {
    let mut switch = Switch::new();
    let address = switch.address();
    let mut silent = TcpStream::connect(address).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /api/stream HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    assert!(stream.read(&mut [0; 64]).unwrap() > 0);
    switch.server = None;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn runs_are_read_when_they_are_asked_for() {
    let read = |run: usize| if run == 0 { Ok("{\"run\":0}".to_owned()) } else { Err("its files have gone".to_owned()) };
    let labels = vec!["PFC".to_owned(), "<GFC>".to_owned()];
    let server = served(Box::new(RecordedSite::new("ring".into(), labels, None, Box::new(read))));
    let (_, source) = get(server.address(), "/api/source").unwrap();
    let source: Value = serde_json::from_str(&source).unwrap();
    assert_eq!((&source["kind"], &source["runs"][1]), (&"recorded".into(), &"<GFC>".into()));
    assert_eq!(get(server.address(), "/api/runs/0").unwrap().1, "{\"run\":0}");
    let (head, body) = get(server.address(), "/api/runs/1").unwrap();
    assert!(head.starts_with("HTTP/1.1 500 ") && body.contains("its files have gone"));
    for path in ["/api/runs/2", "/api/runs/-1", "/api/runs/", "/api/state"] {
        assert!(get(server.address(), path).unwrap().0.starts_with("HTTP/1.1 404 "), "{path}");
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let bound = HttpListener::bind(http_address("0").unwrap()).unwrap();
    let said = HttpListener::bind(bound.address()).unwrap_err().to_string();
    assert!(said.contains("another program listens there"), "{said}");
}

/// Bytes like a request's, so that more than the first look is tried.
fn nearly_a_request() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "GET ",
        "POST ",
        "/",
        "/api/state",
        "/metrics",
        " HTTP/1.1",
        " HTTP/9",
        "\r\n",
        "\r\n\r\n",
        "\n\n",
        "Host: ",
        "localhost",
        "a",
        ": ",
        "Content-Length: 99999999999999999999\r\n",
        "%00",
        "..",
        "\0",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    let byte = any::<u8>().prop_map(|byte| vec![byte]);
    prop::collection::vec(prop_oneof![8 => word, 1 => byte], 0..24).prop_map(|parts| parts.concat())
}

#[test]
fn no_bytes_stop_the_server() {
    let switch = Switch::new();
    proptest!(ProptestConfig::with_cases(300), |(sent in nearly_a_request())| {
        let answer = heard(switch.address(), &sent);
        prop_assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
    });
    let endless = heard(switch.address(), &[b"GET / HTTP/1.1\r\nA: ".as_slice(), &vec![b'a'; 1 << 20]].concat());
    assert!(endless.is_empty() || endless.starts_with(b"HTTP/1.1 431 "));
    assert!(switch.is_well());
}
