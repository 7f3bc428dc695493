//! Runs that have ended as a site.

use std::borrow::Cow;

use serde_json::json;

use crate::page;
use crate::request::GetRequest;
use crate::server::{Response, Site};

/// Site that plays recorded runs: their names, and their recorded data.
pub struct RecordedSite {
    title: String,
    labels: Vec<String>,
    speed: Option<f64>,
    read: Box<dyn Fn(usize) -> Result<String, String> + Send + Sync>,
}

impl RecordedSite {
    /// Creates a site of runs with these names. `read` returns a run's record, as JSON, for each request. `speed` is in seconds of the run
    /// per second; `None` lets the page choose.
    pub fn new(
        title: String,
        labels: Vec<String>,
        speed: Option<f64>,
        read: Box<dyn Fn(usize) -> Result<String, String> + Send + Sync>,
    ) -> RecordedSite {
        RecordedSite { title, labels, speed, read }
    }
}

impl Site for RecordedSite {
    fn answer(&self, get: &GetRequest) -> Response {
        let path = get.path.as_str();
        let file = |text: String| Response::File { kind: page::JSON, content: Cow::Owned(text.into_bytes()) };
        if path == "/api/source" {
            let source = json!({ "kind": "recorded", "title": self.title, "runs": self.labels, "speed": self.speed });
            return file(source.to_string());
        }
        let run = path.strip_prefix("/api/runs/").and_then(|number| number.parse::<usize>().ok());
        match run.filter(|run| *run < self.labels.len()) {
            Some(run) => match (self.read)(run) {
                Ok(record) => file(record),
                Err(why) => Response::Refused { status: 500, why },
            },
            None => page::file(path, "/api/source and /api/runs/0 and so on"),
        }
    }
}
