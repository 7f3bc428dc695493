//! HTTP request, read from a client.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::address::is_local_host;

/// Maximum length of a request's head, in bytes: far above any browser's.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of header fields of a request.
const FIELDS_MAX: usize = 100;
/// Timeout for a client's request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// HTTP request: GET or HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetRequest {
    /// Path, without the query string.
    pub path: String,
    /// Whether the client requests only the head of the answer.
    pub is_head: bool,
    /// True if the client accepts plain text, and not OpenMetrics.
    pub wants_plain_text: bool,
}

/// Reason why a request is not answered: a status, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) status: u16,
    pub(crate) why: String,
}

fn refused(status: u16, why: &str) -> RequestError {
    RequestError { status, why: why.to_owned() }
}

/// Reads a request's head. `Ok(None)`: the client has gone, or says nothing.
pub(crate) fn read(stream: &TcpStream, is_local: bool) -> Result<Option<GetRequest>, RequestError> {
    let deadline = Instant::now() + HEAD_WITHIN;
    let mut head = Vec::new();
    loop {
        if let Some(get) = parse(&head, is_local)? {
            return Ok(Some(get));
        }
        if head.len() > HEAD_BYTES_MAX {
            return Err(refused(431, "the request's head is longer than this server reads"));
        }
        // A bound on the whole head: a client that sends a byte now and then is not waited for longer than another one.
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(refused(408, "the request took too long"));
        }
        let mut some = [0; 2_048];
        match stream.set_read_timeout(Some(left)).and_then(|()| (&*stream).read(&mut some)) {
            Ok(0) => return Ok(None),
            Ok(length) => head.extend_from_slice(&some[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(refused(408, "the request took too long"));
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Parses a request head; `None` if it is incomplete.
pub(crate) fn parse(head: &[u8], is_local: bool) -> Result<Option<GetRequest>, RequestError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(refused(431, "the request has too many header fields")),
        Err(httparse::Error::Version) => return Err(refused(505, "this server speaks HTTP/1.1")),
        Err(error) => return Err(RequestError { status: 400, why: format!("this is no HTTP request: {error}") }),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(refused(400, "this is no HTTP request"));
    };
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(refused(405, "there is only GET: `weir set` and `weir clear` change a switch")),
    };
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map(|field| String::from_utf8_lossy(field.value));
    match (host, hosts.next()) {
        (None, _) if version >= 1 => return Err(refused(400, "the request has no Host")),
        (_, Some(_)) => return Err(refused(400, "the request has more than one Host")),
        (Some(host), None) if is_local && !is_local_host(host.trim()) => {
            return Err(refused(421, "this server is for this machine: ask it as localhost or by an IP address"));
        }
        _ => {}
    }
    let accepts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
    let takes = |kind: &str| accepts.clone().any(|field| String::from_utf8_lossy(field.value).contains(kind));
    let wants_plain_text = takes("text/plain") && !takes("application/openmetrics-text");
    // As of a proxy: `http://localhost:9111/metrics`.
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default().to_owned();
    Ok(Some(GetRequest { path, is_head, wants_plain_text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_local(text: &str) -> Result<Option<GetRequest>, u16> {
        parse(text.as_bytes(), true).map_err(|refused| refused.status)
    }

    #[test]
    fn a_request_names_a_path() {
        let get =
            |path: &str, is_head| Ok(Some(GetRequest { path: path.to_owned(), is_head, ..GetRequest::default() }));
        assert_eq!(parse_local("GET /metrics HTTP/1.1\r\nHost: localhost:9111\r\n\r\n"), get("/metrics", false));
        assert_eq!(parse_local("HEAD /?a=b#c HTTP/1.1\r\nhost: [::1]\r\n\r\n"), get("/", true));
        assert_eq!(parse_local("GET / HTTP/1.0\r\n\r\n"), get("/", false));
        assert_eq!(
            parse_local("GET http://127.0.0.1/api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
            get("/api/state", false)
        );
        assert_eq!(parse_local("GET http://127.0.0.1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), get("/", false));
        assert_eq!(parse_local("GET / HTTP/1.1\r\nHost: local"), Ok(None), "more is to come");
        let plain = |accept: &str| {
            let get = parse_local(&format!("GET / HTTP/1.0\r\nAccept: {accept}\r\n\r\n")).unwrap().unwrap();
            get.wants_plain_text
        };
        assert!(plain("text/plain") && !plain("*/*"));
        assert!(
            !plain("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"),
            "as Prometheus asks"
        );
    }

    #[test]
    fn what_is_no_request_for_this_server_is_refused() {
        for (text, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
            ("GET / HTTP/2.0\r\n\r\n", 505),
            ("{\"weir\":1,\"request\":\"hello\"}\n\r\n\r\n", 400),
            ("\u{16}\u{3}\u{1}", 400),
        ] {
            assert_eq!(parse_local(text), Err(status), "{text:?}");
        }
        assert!(parse(b"GET / HTTP/1.1\r\nHost: lab.example\r\n\r\n", false).is_ok(), "a server for others has names");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(parse_local(&many), Err(431));
    }
}
