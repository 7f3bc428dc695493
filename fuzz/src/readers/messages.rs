//! Requests: of the control socket, and of HTTP.

use std::sync::LazyLock;

use weir_control::protocol::{parse_request, request_line};
use weir_web::HttpRequest;

use super::bounded;
use crate::CaseOutcome;
use crate::input::FuzzInput;
use crate::mutation::SeedFiles;

static REQUESTS: LazyLock<SeedFiles> = LazyLock::new(|| {
    let lines = [
        r#"{"weir":1,"request":"hello"}"#,
        r#"{"weir":1,"request":{"show":{"what":"pfc_counters","switch":"lab","ports":["p0"]}}}"#,
        r#"{"weir":1,"request":{"set":{"changes":[{"key":"ports.p0.rate","value":"5Mbps"}],"for_ms":10000}}}"#,
        r#"{"weir":1,"request":{"clear":{"what":"watermarks"}}}"#,
        r#"{"weir":1,"request":{"capture":{"ports":["p0"],"classes":[3],"drops":true,"snaplen":96,"frames":10,"for_ms":1500}}}"#,
        r#"{"weir":1,"request":{"reload":{"switch":"lab"}}}"#,
    ];
    SeedFiles::new(lines.map(|line| line.as_bytes().to_vec()).to_vec())
});
static HEADS: LazyLock<SeedFiles> = LazyLock::new(|| {
    let heads = [
        "GET /metrics HTTP/1.1\r\nHost: localhost:9111\r\nAccept: text/plain\r\n\r\n",
        "HEAD /?a=b#c HTTP/1.1\r\nhost: [::1]\r\n\r\n",
        "GET http://127.0.0.1/api/state HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/openmetrics-text\r\n\r\n",
        "POST /api/set?alpha=1%2F8&x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 0\r\n\r\n",
    ];
    SeedFiles::new(heads.map(|head| head.as_bytes().to_vec()).to_vec())
});

/// Parses a request of the control socket.
///
/// # Panics
/// If an invariant does not hold.
pub fn socket(bytes: &[u8]) -> CaseOutcome {
    let line = REQUESTS.draw(&mut FuzzInput::new(bytes));
    bounded(|| match parse_request(&line) {
        Ok(request) => {
            let written = request_line(&request);
            assert_eq!(written.matches('\n').count(), 1, "{written}");
            assert_eq!(parse_request(written.trim_end().as_bytes()), Ok(request));
            true
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            false
        }
    })
}

/// Parses the head of an HTTP request.
///
/// # Panics
/// If an invariant does not hold.
pub fn http(bytes: &[u8]) -> CaseOutcome {
    let mut input = FuzzInput::new(bytes);
    let is_local = input.one_in(2);
    let head = HEADS.draw(&mut input);
    bounded(|| match HttpRequest::parse(&head, is_local) {
        Ok(Some(request)) => {
            let path = match &request {
                HttpRequest::Get(get) => &get.path,
                HttpRequest::Change(change) => &change.path,
            };
            assert!(!path.contains(['?', '#']), "{request:?}");
            // Bytes behind the head belong to no request.
            let longer = [&head[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(HttpRequest::parse(&longer, is_local), Ok(Some(request)));
            true
        }
        Ok(None) => false,
        Err(error) => {
            assert!((400..600).contains(&error.status) && !error.why.is_empty());
            false
        }
    })
}
