//! Cache of messages that several texts share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use weir_reader::Doc;

use super::messages::MessageInputs;
use crate::scenario::TrafficSource;

/// Cache of workloads' messages. Texts with equal workloads and links share them: the points of a sweep differ in policies, buffers or
/// failed links.
///
/// The key is the full set of inputs of the messages. The latest are kept, a few million messages in total.
#[derive(Debug, Default)]
pub struct MessageCache {
    /// Entries, the latest last.
    kept: Mutex<VecDeque<CacheEntry>>,
}

#[derive(Debug)]
struct CacheEntry {
    terms: MessageInputs,
    sent: Arc<[TrafficSource]>,
}

/// Maximum number of cached messages: 130 MB.
const MESSAGES_MAX: usize = 4_000_000;
/// Maximum number of texts in the cache: each search compares all of them.
const TEXTS_MAX: usize = 256;

impl MessageCache {
    /// Returns the messages of each workload, cached or drawn. An error is not cached: `None`, and a report for each text.
    pub(super) fn get_or_draw(&self, doc: &Doc, inputs: MessageInputs) -> Option<Arc<[TrafficSource]>> {
        if let Some(sent) = self.find(&inputs) {
            return Some(sent);
        }
        // Drawn without the lock, so that others need not wait.
        let sent: Arc<[TrafficSource]> = inputs.draw(doc)?.into();
        self.keep(CacheEntry { terms: inputs, sent: sent.clone() });
        Some(sent)
    }

    fn find(&self, terms: &MessageInputs) -> Option<Arc<[TrafficSource]>> {
        let kept = self.kept.lock().expect("no thread panics with it");
        kept.iter().rev().find(|kept| kept.terms == *terms).map(|kept| kept.sent.clone())
    }

    fn keep(&self, latest: CacheEntry) {
        let mut kept = self.kept.lock().expect("no thread panics with it");
        kept.push_back(latest);
        while kept.len() > TEXTS_MAX || kept.iter().map(CacheEntry::count).sum::<usize>() > MESSAGES_MAX {
            kept.pop_front();
        }
    }
}

impl CacheEntry {
    fn count(&self) -> usize {
        self.sent.iter().map(TrafficSource::count).sum()
    }
}
