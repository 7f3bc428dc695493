//! HTTP request, read from a client.

use std::collections::BTreeMap;
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

/// HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpRequest {
    /// GET or HEAD.
    Get(GetRequest),
    /// POST.
    Change(ChangeRequest),
}

/// HTTP request for a change: POST, without a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Path, without the query string.
    pub path: String,
    /// Parameters of the query string, decoded.
    pub parameters: BTreeMap<String, String>,
}

/// HTTP request for a page or data: GET or HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetRequest {
    /// Path, without the query string.
    pub path: String,
    /// Whether the client requests only the head of the answer.
    pub is_head: bool,
    /// True if the client accepts plain text, and not OpenMetrics.
    pub wants_plain_text: bool,
}

/// Reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// HTTP status.
    pub status: u16,
    /// Reason, a sentence.
    pub why: String,
}

fn refused(status: u16, why: &str) -> RequestError {
    RequestError { status, why: why.to_owned() }
}

/// Reads a request's head. `Ok(None)`: the client has gone, or says nothing.
pub(crate) fn read(stream: &TcpStream, is_local: bool) -> Result<Option<HttpRequest>, RequestError> {
    let deadline = Instant::now() + HEAD_WITHIN;
    let mut head = Vec::new();
    loop {
        if let Some(request) = HttpRequest::parse(&head, is_local)? {
            return Ok(Some(request));
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

impl HttpRequest {
    /// Parses a request head; `None` if it is incomplete. A local server is for names of this machine.
    ///
    /// # Errors
    /// No request, or one that this server refuses.
    pub fn parse(head: &[u8], is_local: bool) -> Result<Option<HttpRequest>, RequestError> {
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
        if !matches!(method, "GET" | "HEAD" | "POST") {
            return Err(refused(405, "there are only GET, HEAD and POST"));
        }
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
        // As of a proxy: `http://localhost:9111/metrics`.
        let target = match target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => target,
        };
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.to_owned();
        if method == "POST" {
            check_change(request.headers)?;
            return Ok(Some(HttpRequest::Change(ChangeRequest { path, parameters: parameters(query) })));
        }
        let accepts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
        let takes = |kind: &str| accepts.clone().any(|field| String::from_utf8_lossy(field.value).contains(kind));
        let wants_plain_text = takes("text/plain") && !takes("application/openmetrics-text");
        Ok(Some(HttpRequest::Get(GetRequest { path, is_head: method == "HEAD", wants_plain_text })))
    }
}

/// Refuses requests that a foreign page makes, which a browser marks by their origin, and bodies.
fn check_change(headers: &[httparse::Header<'_>]) -> Result<(), RequestError> {
    let field = |name: &str| {
        let field = headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| String::from_utf8_lossy(field.value).trim().to_owned())
    };
    let host = field("host").unwrap_or_default();
    // A name could be another site's, whose owner has it lead here.
    if !is_local_host(&host) {
        return Err(refused(421, "changes are taken under localhost or an IP address alone"));
    }
    if field("origin").is_some_and(|origin| origin != format!("http://{host}")) {
        return Err(refused(403, "another site's page may change nothing here"));
    }
    if field("transfer-encoding").is_some() || field("content-length").is_some_and(|length| length != "0") {
        return Err(refused(413, "this server reads no body: write parameters after the path, as ?alpha=1/8"));
    }
    Ok(())
}

/// Parameters of a query string; the last of one name counts.
fn parameters(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// Decodes `%2F` and `+`; other text stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = others.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        let (byte, length) = match (first, hex) {
            (b'%', Some(byte)) => (byte, 3),
            (b'+', _) => (b' ', 1),
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_local(text: &str) -> Result<Option<GetRequest>, u16> {
        match HttpRequest::parse(text.as_bytes(), true) {
            Ok(Some(HttpRequest::Get(get))) => Ok(Some(get)),
            Ok(Some(HttpRequest::Change(change))) => panic!("{change:?}"),
            Ok(None) => Ok(None),
            Err(refused) => Err(refused.status),
        }
    }

    fn change(target: &str, fields: &str) -> Result<ChangeRequest, u16> {
        let text = format!("POST {target} HTTP/1.1\r\nHost: localhost:80\r\n{fields}\r\n");
        match HttpRequest::parse(text.as_bytes(), true) {
            Ok(Some(HttpRequest::Change(change))) => Ok(change),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused.status),
        }
    }

    #[test]
    fn a_change_has_parameters() {
        let request = change("/api/set?name=alpha&value=1%2F8+%&empty&name=beta#x", "Content-Length: 0\r\n").unwrap();
        let expected = [("name", "beta"), ("value", "1/8 %"), ("empty", "")];
        assert_eq!(request.path, "/api/set");
        assert_eq!(request.parameters, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert!(change("/api/set", "Origin: http://localhost:80\r\n").is_ok());
        for (fields, status) in [
            ("Origin: http://evil.example\r\n", 403),
            ("Origin: null\r\n", 403),
            ("Content-Length: 3\r\n", 413),
            ("Transfer-Encoding: chunked\r\n", 413),
        ] {
            assert_eq!(change("/", fields), Err(status), "{fields:?}");
        }
        let named = b"POST / HTTP/1.1\r\nHost: lab.example\r\n\r\n";
        assert_eq!(HttpRequest::parse(named, false).unwrap_err().status, 421);
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
            ("PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
            ("GET / HTTP/2.0\r\n\r\n", 505),
            ("{\"weir\":1,\"request\":\"hello\"}\n\r\n\r\n", 400),
            ("\u{16}\u{3}\u{1}", 400),
        ] {
            assert_eq!(parse_local(text), Err(status), "{text:?}");
        }
        assert!(
            HttpRequest::parse(b"GET / HTTP/1.1\r\nHost: lab.example\r\n\r\n", false).is_ok(),
            "a server for others has names"
        );
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(parse_local(&many), Err(431));
    }
}
