//! Profiles of lossless priority groups.

/// Profile of a lossless priority group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Profile {
    /// Table of the profile: BUFFER_PROFILE, or the lookup table.
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) xon: u64,
    pub(super) xoff: u64,
    pub(super) xon_offset: Option<u64>,
    pub(super) threshold: Threshold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Threshold {
    /// Dynamic threshold with α = 2^n.
    Dynamic(i64),
    /// Bytes; 0 is no limit.
    Static(u64),
}

/// The profiles, without repetition.
pub(super) fn each_once<'p>(groups: &[&'p Profile]) -> Vec<&'p Profile> {
    let mut known = groups.to_vec();
    known.sort();
    known.dedup();
    known
}
