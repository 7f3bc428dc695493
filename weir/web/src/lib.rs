//! What a browser and Prometheus are served: a running switch, or runs that have ended, over HTTP.
//!
//! [`Bound`] claims an address, and [`Bound::serve`] answers requests there with a [`Site`]: [`Live`] is a running switch, and
//! [`Recorded`] are runs to be played. Both have one page, whose files are part of the program (`page/`), and neither changes
//! anything: there is only GET. Requests are read by `httparse`, which is also what hyper reads them with; all else that a site of
//! this kind needs of HTTP is a connection for each request.

#![forbid(unsafe_code)]

mod address;
mod live;
mod page;
mod recorded;
mod request;
mod server;

pub use address::{http_address, is_local};
pub use live::Live;
pub use recorded::Recorded;
pub use request::Get;
pub use server::{BindError, Bound, CLIENTS_MAX, Events, Response, Server, Site};
