//! HTTP server of a running switch, or of ended runs, for browsers and Prometheus.
//!
//! [`HttpListener`] claims an address, and [`HttpListener::serve`] answers requests there with a [`Site`]: [`LiveSite`] is a running switch, and
//! [`RecordedSite`] are runs to be played. Their pages are part of the program (`page/`). A site may take POSTs, which change its state;
//! these two refuse them. Requests are parsed by `httparse`, hyper's parser, and each has a connection of its own.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//!
//! use weir_web::{GetRequest, HttpListener, Response, Site};
//!
//! struct Greeting;
//!
//! impl Site for Greeting {
//!     fn answer(&self, get: &GetRequest) -> Response {
//!         match get.path.as_str() {
//!             "/" => Response::File { kind: "text/plain", content: b"a switch".as_slice().into() },
//!             other => Response::Refused { status: 404, why: format!("there is no {other} here") },
//!         }
//!     }
//! }
//!
//! let server = HttpListener::bind("127.0.0.1:0".parse()?)?.serve(Box::new(Greeting))?;
//! let mut client = TcpStream::connect(server.address())?;
//! client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("a switch"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod live;
mod page;
mod recorded;
mod request;
mod server;

pub use address::{http_address, is_local};
pub use live::LiveSite;
pub use page::file as page_file;
pub use recorded::RecordedSite;
pub use request::{ChangeRequest, GetRequest, HttpRequest, RequestError};
pub use server::{BindError, CLIENTS_MAX, EventStream, HttpListener, Response, STREAMS_MAX, Server, Site};
