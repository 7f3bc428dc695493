//! The page's files, which are part of the program: it needs no network and no other file.

use std::borrow::Cow;

use crate::server::Response;

pub(crate) const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $kind:ident $from:literal;)*) => { &[$(($path, $kind, include_str!($from))),*] };
}

const FILES: &[(&str, &str, &str)] = files! {
    "/" HTML "../page/index.html";
    "/page.css" CSS "../page/page.css";
    "/main.js" JAVASCRIPT "../page/main.js";
    "/live.js" JAVASCRIPT "../page/live.js";
    "/recorded.js" JAVASCRIPT "../page/recorded.js";
    "/player.js" JAVASCRIPT "../page/player.js";
    "/topology.js" JAVASCRIPT "../page/topology.js";
    "/layout.js" JAVASCRIPT "../page/layout.js";
    "/buffers.js" JAVASCRIPT "../page/buffers.js";
    "/charts.js" JAVASCRIPT "../page/charts.js";
    "/ports.js" JAVASCRIPT "../page/ports.js";
    "/pauses.js" JAVASCRIPT "../page/pauses.js";
    "/tables.js" JAVASCRIPT "../page/tables.js";
    "/moment.js" JAVASCRIPT "../page/moment.js";
    "/marks.js" JAVASCRIPT "../page/marks.js";
    "/pane.js" JAVASCRIPT "../page/pane.js";
    "/growing.js" JAVASCRIPT "../page/growing.js";
    "/menu.js" JAVASCRIPT "../page/menu.js";
    "/words.js" JAVASCRIPT "../page/words.js";
    "/uplot.js" JAVASCRIPT "../../../testbed/experiments/src/report/vendor/uPlot.iife.min.js";
    "/uplot.css" CSS "../../../testbed/experiments/src/report/vendor/uPlot.min.css";
    "/LICENSE-uPlot" TEXT "../../../testbed/experiments/src/report/vendor/LICENSE-uPlot";
};

const TEXT: &str = "text/plain; charset=utf-8";

/// Returns a file of the page, or a 404 response that names the paths in `others`.
pub fn file(path: &str, others: &str) -> Response {
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, content)) => Response::File { kind, content: Cow::Borrowed(content.as_bytes()) },
        None => Response::Refused { status: 404, why: format!("there is no such page; there are / and {others}") },
    }
}
