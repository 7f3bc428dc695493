//! The page's files, which are part of the program: it needs no network and no other file.

use std::borrow::Cow;

use crate::server::Response;

pub(crate) const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

macro_rules! files {
    ($($path:literal $kind:ident $from:literal;)*) => { &[$(($path, $kind, include_str!($from))),*] };
}

const FILES: &[(&str, &str, &str)] = files! {
    "/" HTML "../page/index.html";
};

/// A file of the page, or that there is none; `others` says what else is to be had.
pub(crate) fn file(path: &str, others: &str) -> Response {
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, content)) => Response::File { kind, content: Cow::Borrowed(content.as_bytes()) },
        None => Response::Refused { status: 404, why: format!("there is no such page; there are / and {others}") },
    }
}
