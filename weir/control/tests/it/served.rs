//! A served socket, whatever its clients send.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use proptest::prelude::*;
use weir_control::capture::{CaptureDirection, CaptureFrames, CaptureRequest, CaptureStarted};
use weir_control::protocol::{
    ErrorReply, ErrorReplyKind, Hello, REQUEST_BYTES_MAX, Reply, Request, parse_request, request_line,
};
use weir_control::{CLIENTS_MAX, Client, ClientError, ControlListener, PendingRequest, Server, Stream};

/// A server whose control thread says hello, and refuses all else.
struct Switch {
    server: Option<Server>,
    answering: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
    /// Streams that were begun, and that are gone.
    begun: Arc<AtomicUsize>,
    gone: Arc<AtomicUsize>,
}

/// Numbers in lines, and a last line once it has ended.
struct Numbers {
    next: u64,
    until: u64,
    is_ended: AtomicBool,
    gone: Arc<AtomicUsize>,
}

impl Stream for Numbers {
    fn take(&mut self, bytes: &mut Vec<u8>) -> bool {
        if self.is_ended.load(Ordering::Relaxed) || self.next == self.until {
            bytes.extend(b"end\n");
            return false;
        }
        bytes.extend(format!("{}\n", self.next).bytes());
        self.next += 1;
        true
    }

    fn end(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

impl Switch {
    fn new() -> Switch {
        let folder = tempfile::tempdir().unwrap();
        let (asker, questions) = weir_control::control_channel();
        let server = ControlListener::bind(&folder.path().join("lab.sock")).unwrap().serve(asker).unwrap();
        let (begun, gone) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (begun.clone(), gone.clone());
        let answering = std::thread::spawn(move || answer_all(&questions, &counts.0, &counts.1));
        Switch { server: Some(server), answering: Some(answering), folder, begun, gone }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("lab.sock")
    }

    fn is_well(&self) -> bool {
        Client::connect(&self.path()).and_then(|mut client| client.hello()).is_ok_and(|hello| hello.process == 7)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.server = None;
        assert!(!self.path().exists());
        self.answering.take().unwrap().join().unwrap();
    }
}

/// Answers until all clients' ends of the channel are gone.
fn answer_all(questions: &Receiver<PendingRequest>, begun: &AtomicUsize, gone: &Arc<AtomicUsize>) {
    for question in questions {
        if let Request::Capture(wanted) = &question.request {
            begun.fetch_add(1, Ordering::Relaxed);
            let until = wanted.frames.unwrap_or(u64::MAX);
            let stream = Numbers { next: 0, until, is_ended: AtomicBool::new(false), gone: gone.clone() };
            let capturing = CaptureStarted { switch: "lab".into(), ports: Vec::new() };
            question.answer_with(Reply::Capturing(capturing), Box::new(stream));
            continue;
        }
        let answer = match &question.request {
            Request::Hello => {
                Ok(Reply::Hello(Hello { weir_version: "0".into(), process: 7, switches: vec!["lab".into()] }))
            }
            _ => Err(ErrorReply::new(ErrorReplyKind::Unknown, "it has nothing to show")),
        };
        question.answer(answer);
    }
}

/// Requests a stream; returns the data after the reply, and the handle that ends them.
fn streaming(switch: &Switch, frames: Option<u64>) -> (BufReader<UnixStream>, weir_control::StreamCloser) {
    let mut client = Client::connect(&switch.path()).unwrap();
    let asked = Request::Capture(CaptureRequest { frames, ..CaptureRequest::default() });
    assert!(matches!(client.ask(&asked), Ok(Reply::Capturing(_))));
    client.follow().unwrap()
}

/// All that a client receives after it sends these bytes.
fn heard(path: &Path, sent: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    // A server that has had enough closes before all is written.
    let _ = stream.write_all(sent);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8(heard).expect("answers are text")
}

#[test]
fn requests_are_answered_in_turn() {
    let switch = Switch::new();
    let mut client = Client::connect(&switch.path()).unwrap();
    for _ in 0..3 {
        assert_eq!(client.hello().unwrap().switches, ["lab"]);
    }
    let hello = "{\"weir\":1,\"request\":\"hello\"}\n";
    let answers = heard(&switch.path(), format!("{hello}\n  \n{hello}nonsense\n{hello}").as_bytes());
    let kinds: Vec<bool> = answers.lines().map(|line| line.contains("\"hello\"")).collect();
    assert_eq!(kinds, [true, true, false, true], "{answers}");
}

#[test]
fn a_line_without_end_is_not_waited_for_for_ever() {
    let switch = Switch::new();
    let too_long = heard(&switch.path(), &vec![b' '; REQUEST_BYTES_MAX + 5_000]);
    assert!(too_long.is_empty() || too_long.contains("at most"), "{too_long}");
    let with_end = [vec![b'x'; REQUEST_BYTES_MAX + 1], b"\n".to_vec()].concat();
    let answers = heard(&switch.path(), &with_end);
    assert!(answers.is_empty() || answers.contains("at most"), "{answers}");
    assert!(switch.is_well());
}

#[test]
fn clients_beyond_the_most_are_refused_and_later_ones_served() {
    let switch = Switch::new();
    let mut clients: Vec<Client> = (0..CLIENTS_MAX).map(|_| Client::connect(&switch.path()).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert!(client.hello().is_ok()));
    match Client::connect(&switch.path()).unwrap().hello() {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.kind, ErrorReplyKind::Busy),
        // The connection may be closed before the request is written.
        Err(ClientError::Broken { .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(clients);
    // Their threads see that they have gone in their own time.
    while !switch.is_well() {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_ends_lets_its_clients_go() {
    let mut switch = Switch::new();
    let stream = UnixStream::connect(switch.path()).unwrap();
    let mut client = Client::connect(&switch.path()).unwrap();
    assert!(client.hello().is_ok());
    switch.server = None;
    assert_eq!(BufReader::new(stream).read_line(&mut String::new()).unwrap_or(0), 0);
    assert!(client.hello().is_err_and(|error| error.is_failure()));
    match Client::connect(&switch.path()) {
        Err(error @ ClientError::Connect { .. }) => assert!(error.to_string().contains("no such socket"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_comes_whole_and_ends_by_itself_by_its_client_and_with_the_server() {
    let mut switch = Switch::new();
    let (mut follows, _ender) = streaming(&switch, Some(1_000));
    let mut all = String::new();
    follows.read_to_string(&mut all).unwrap();
    let expected: String = (0..1_000).map(|n| format!("{n}\n")).chain(["end\n".to_owned()]).collect();
    assert_eq!(all, expected);
    // By its client, who hears the rest.
    let (mut follows, ender) = streaming(&switch, None);
    let mut line = String::new();
    follows.read_line(&mut line).unwrap();
    assert_eq!(line, "0\n");
    ender.end().unwrap();
    let mut rest = String::new();
    follows.read_to_string(&mut rest).unwrap();
    assert!((line + &rest).ends_with("\nend\n"), "{}", &rest[rest.len().saturating_sub(40)..]);
    // One that goes without a word, having read nothing: its place is free again.
    drop(streaming(&switch, None));
    while switch.gone.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    assert!(switch.is_well());
    // With the server.
    let (mut follows, _ender) = streaming(&switch, None);
    let reader = std::thread::spawn(move || {
        // The server may go before there is a number: a line's start all the same.
        let mut rest = "\n".to_owned();
        follows.read_to_string(&mut rest).map(|_| rest)
    });
    switch.server = None;
    assert!(reader.join().unwrap().unwrap().ends_with("\nend\n"));
    assert_eq!((switch.begun.load(Ordering::Relaxed), switch.gone.load(Ordering::Relaxed)), (4, 4));
}

#[test]
fn a_flood_of_connections_and_half_lines_leaves_room_for_the_next_client() {
    let switch = Switch::new();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let floods: Vec<JoinHandle<()>> = (0..4)
        .map(|n| {
            let path = switch.path();
            std::thread::spawn(move || {
                for m in 0..100 {
                    let Ok(mut stream) = UnixStream::connect(&path) else { continue };
                    // Half a line, a long one, nothing, a request whose answer nobody reads.
                    let _ = match (n + m) % 4 {
                        0 => stream.write_all(b"{\"weir\":1,\"request\":{\"show"),
                        1 => stream.write_all(&vec![b'['; 3 * REQUEST_BYTES_MAX]),
                        2 => Ok(()),
                        _ => stream.write_all(request_line(&Request::Hello).repeat(20).as_bytes()),
                    };
                }
            })
        })
        .collect();
    // A thread for each client at most, whatever they do, beside the floods' own and those of other tests.
    let most = (0..50).map(|_| threads()).max().unwrap();
    assert!(most <= before + 4 + 8 * (CLIENTS_MAX + 4), "{before} threads, then {most}");
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    while !switch.is_well() {
        std::thread::yield_now();
    }
}

#[test]
fn whoever_is_no_switch_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let said = |answer: &'static str| {
        let listener = listener.try_clone().unwrap();
        let other = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            (&stream).write_all(answer.as_bytes()).unwrap();
        });
        let error = Client::connect(&path).unwrap().hello().unwrap_err();
        other.join().unwrap();
        error.to_string()
    };
    assert!(said("HTTP/1.1 400 Bad Request\r\n").contains("is it the socket of a switch?"));
    let later = said("{\"weir\":2,\"error\":{\"message\":\"you are of old\"}}\n");
    assert!(later.contains("speaks version 2") && later.contains("you are of old"), "{later}");
    let other = said("{\"weir\":1,\"reply\":{\"metrics\":\"\"}}\n");
    assert!(other.contains("another request"), "{other}");
}

/// Bytes like a request's, so that more than the first look is tried.
fn nearly_a_request() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"weir\"",
        "1",
        "2",
        "\"request\"",
        "\"show\"",
        "\"what\"",
        "\"mac\"",
        "\"hello\"",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    let byte = any::<u8>().prop_map(|byte| vec![byte]);
    prop::collection::vec(prop_oneof![8 => word, 1 => byte], 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_line_makes_the_parser_panic(line in prop_oneof![nearly_a_request(), prop::collection::vec(any::<u8>(), 0..200)]) {
        if let Err(refusal) = parse_request(&line) {
            prop_assert!(!refusal.message.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each line gets an answer of a line, and the server lives on.
    #[test]
    fn no_bytes_stop_the_server(lines in prop::collection::vec(nearly_a_request(), 0..5)) {
        let switch = Switch::new();
        let sent = lines.join(&b'\n');
        let answers = heard(&switch.path(), &sent);
        for answer in answers.lines() {
            let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
            prop_assert!(answer["weir"] == 1 && (answer.get("reply").is_some() != answer.get("error").is_some()));
        }
        let ended = sent.split(|byte| *byte == b'\n').rev().skip(1);
        prop_assert_eq!(answers.lines().count(), ended.filter(|line| !line.iter().all(u8::is_ascii_whitespace)).count());
        prop_assert!(switch.is_well());
    }
}

/// Requests whose form is right, with values that nobody would send.
fn odd_capture() -> impl Strategy<Value = CaptureRequest> {
    let passing = prop::sample::select(vec![CaptureFrames::All, CaptureFrames::Control, CaptureFrames::None]);
    let direction = prop::option::of(prop::sample::select(vec![CaptureDirection::In, CaptureDirection::Out]));
    let number = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let names = prop::collection::vec("\\PC{0,40}", 0..4);
    let numbers = (prop::collection::vec(any::<u8>(), 0..20), prop::option::of(any::<u32>()), prop::option::of(number));
    (names, passing, direction, any::<bool>(), numbers).prop_map(|(ports, passing, direction, drops, numbers)| {
        let (classes, snaplen, for_ms) = numbers;
        CaptureRequest { switch: None, ports, classes, passing, direction, drops, snaplen, frames: Some(1), for_ms }
    })
}

proptest! {
    #[test]
    fn odd_captures_read_as_they_were_written(capture in odd_capture()) {
        let request = Request::Capture(capture);
        let line = request_line(&request);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(parse_request(line.trim_end().as_bytes()), Ok(request));
    }
}
