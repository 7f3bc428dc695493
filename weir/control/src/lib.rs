//! Control socket of a running switch: server and client.
//!
//! A process of `weir run` has one Unix socket ([`ControlListener`], [`Server`]); `weir show` and `weir clear` are its clients ([`Client`]).
//! Either side writes a line of JSON at a time ([`protocol`]), and each kind of state has a type ([`state`]). After the reply
//! to a capture ([`capture`]) the connection carries its frames, and nothing else ([`Stream`]). The server's
//! threads know nothing of switches: they hand each [`PendingRequest`] to the thread that does, by a channel ([`ControlHandle`]), and wait for its answer.
//!
//! Order of calls: [`ControlListener::bind`], or [`ControlListener::bind_default`], claims the path before anything else of the run starts; [`control_channel`]
//! makes the channel, and [`ControlListener::serve`] begins to answer. The path is removed with the [`Server`].
//!
//! ```
//! use weir_control::protocol::{Hello, Reply, Request};
//! use weir_control::{Client, ControlListener, control_channel};
//!
//! let folder = tempfile::tempdir()?;
//! let (control, requests) = control_channel();
//! let server = ControlListener::bind(&folder.path().join("lab.sock"))?.serve(control)?;
//! let switch = std::thread::spawn(move || {
//!     let pending = requests.recv().expect("a request");
//!     assert_eq!(pending.request, Request::Hello);
//!     let hello = Hello { weir_version: "0.1.0".to_owned(), process: 1, switches: vec!["lab".to_owned()] };
//!     pending.answer(Ok(Reply::Hello(hello)));
//! });
//! assert_eq!(Client::connect(server.path())?.hello()?.switches, ["lab"]);
//! # switch.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod capture;
mod client;
pub mod metrics;
mod path;
pub mod protocol;
pub mod runtime_config;
mod server;
mod socket;
pub mod state;

pub use client::{Client, ClientError, StreamCloser};
pub use path::{make_own_directory, sockets};
pub use server::{Answer, ControlHandle, PendingRequest, Server, Stream, control_channel};
pub use socket::{BindError, CLIENTS_MAX, ControlListener};
