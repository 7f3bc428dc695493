//! A served socket, whatever its clients send.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use proptest::prelude::*;
use weir_control::protocol::{Hello, REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request, parse_request};
use weir_control::{Bound, CLIENTS_MAX, Client, ClientError, Question, Server};

/// A server whose control thread says hello, and refuses all else.
struct Switch {
    server: Option<Server>,
    answering: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Switch {
    fn new() -> Switch {
        let folder = tempfile::tempdir().unwrap();
        let (asker, questions) = weir_control::questions();
        let server = Bound::at(&folder.path().join("lab.sock")).unwrap().serve(asker).unwrap();
        let answering = std::thread::spawn(move || answer_all(&questions));
        Switch { server: Some(server), answering: Some(answering), folder }
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

/// Ends when there is nobody left who could ask.
fn answer_all(questions: &Receiver<Question>) {
    for question in questions {
        let answer = match &question.request {
            Request::Hello => {
                Ok(Reply::Hello(Hello { weir_version: "0".into(), process: 7, switches: vec!["lab".into()] }))
            }
            _ => Err(Refusal::new(RefusalKind::Unknown, "it has nothing to show")),
        };
        question.answer(answer);
    }
}

/// All that a client hears who sends these bytes and no more.
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
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.kind, RefusalKind::Busy),
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
