//! Resume threshold of a paused queue: `xon` and `xon_offset`.

use std::fmt::Write;

use super::profile::{Profile, Threshold, each_once};
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath};

/// Resume threshold of a paused queue. In SONiC a queue resumes at an occupancy of max(`xon`, limit - `xon_offset`) or less, with its
/// headroom free. Its limit is its reservation plus its threshold, so the same is computed here from the shared part of its occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumeThreshold {
    /// Reservation of a queue outside the shared segment.
    private: u64,
    /// Value of SONiC, or below its threshold; `None` leaves Weir's default, two frames.
    given: Option<u64>,
    /// Resulting offset.
    offset: u64,
    floor: u64,
}

impl ResumeThreshold {
    /// `frame_max` is the longest frame.
    pub(super) fn new(groups: &[&Profile], private: u64, threshold: Threshold, frame_max: u64) -> ResumeThreshold {
        // Largest offset and smallest floor: a later resume causes no loss.
        let given = groups.iter().filter_map(|profile| profile.xon_offset).max().filter(|offset| *offset > 0);
        let floors = groups.iter().map(|profile| profile.xon.saturating_sub(private));
        let below = match threshold {
            Threshold::Static(limit) if limit > 0 => limit - 1,
            _ => u64::MAX,
        };
        let default = 2 * frame_max;
        ResumeThreshold {
            private,
            given: given.or_else(|| (below < default).then_some(default)).map(|offset| offset.min(below)),
            offset: given.unwrap_or(default).min(below),
            floor: floors.min().unwrap_or(0).min(below),
        }
    }

    pub(super) fn write(self, text: &mut String) {
        if let Some(offset) = self.given {
            let _ = writeln!(text, "xon_offset = \"{offset}B\"");
        }
        if self.floor > 0 {
            let _ = writeln!(text, "xon_floor = \"{}B\"", self.floor);
        }
    }

    pub(super) fn account(self, tables: &mut ConfigDb, groups: &[&Profile]) {
        for profile in each_once(groups) {
            let at = |field| FieldPath::new(profile.table, profile.name.as_str(), field);
            let later = self.offset.saturating_sub(profile.xon_offset.unwrap_or(0));
            let why = match self.given {
                Some(_) => format!("queues of this resume up to {later} B later"),
                None => format!(
                    "two frames, so that a queue does not go ON and OFF with each: it resumes up to {later} B later"
                ),
            };
            let of_offset = format!("buffer.xon_offset is {} B at all ports: {why}", self.offset);
            let (mut outcome, mut detail) = self.floor_of(profile);
            match profile.xon_offset {
                Some(own) if own == self.offset => {
                    tables.account(ImportOutcome::Taken, at("xon_offset"), format!("buffer.xon_offset = {own} B"));
                }
                Some(_) => tables.account(ImportOutcome::Approximated, at("xon_offset"), of_offset),
                // Without an xon_offset, the outcome is reported on xon.
                None => {
                    outcome = ImportOutcome::Approximated;
                    detail = format!("{detail}; without an xon_offset it resumes at its threshold, where {of_offset}");
                }
            }
            tables.account(outcome, at("xon"), detail);
        }
    }

    /// Outcome of `xon`, and its distance from Weir's resume threshold.
    fn floor_of(self, Profile { xon, .. }: &Profile) -> (ImportOutcome, String) {
        let ResumeThreshold { private, floor, offset, .. } = self;
        let resumes_at = format!(
            "a queue resumes where {floor} B of the shared pool are left to it, or below its threshold less xon_offset"
        );
        match (xon.saturating_sub(private), private.saturating_sub(*xon)) {
            (0, 0) => (
                ImportOutcome::Taken,
                "a queue resumes with what it reserves alone, or below its threshold less xon_offset".to_owned(),
            ),
            (0, sooner) => {
                let sooner = sooner.min(offset);
                let detail = format!(
                    "{resumes_at}: with the {private} B that it reserves, up to {sooner} B sooner than at {xon} B, while its threshold is below \
                     xon_offset"
                );
                (ImportOutcome::Approximated, detail)
            }
            (own, _) if own == floor => (
                ImportOutcome::Taken,
                format!("buffer.xon_floor = {floor} B, besides the {private} B that a queue reserves"),
            ),
            (own, _) => {
                let detail = format!(
                    "buffer.xon_floor = {floor} B at all ports: queues of this resume up to {} B later",
                    own - floor
                );
                (ImportOutcome::Approximated, detail)
            }
        }
    }
}
