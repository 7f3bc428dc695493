//! Huge pages for a fabric's state.
//!
//! Frames touch pieces of state all over a large fabric's memory. With pages of 4 KiB the processor's table of addresses
//! (TLB) holds a small part of it, and most pieces cost a walk through page tables besides. Linux has transparent huge pages of
//! 2 MiB for all memory, or only for what asks for them (`madvise`, Debian's default), or not at all. glibc's allocator asks by a
//! tunable, which it reads when the program starts: so the program starts once more.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{env, fs};

/// Set in a program that has been started so. A user who sets it goes without.
const SWITCH: &str = "WEIR_HUGE_PAGES";
/// Where the allocator's tunables stand, parted by colons.
const TUNABLES: &str = "GLIBC_TUNABLES";
const TUNABLE: &str = "glibc.malloc.hugetlb";

/// Starts this program anew in place, with the same arguments, so that its memory is of huge pages: to be called first of all.
///
/// It returns where that has been done; where it would change nothing, for the system has them for all or for nobody; if the
/// environment has `WEIR_HUGE_PAGES`, or a word on them for the allocator; and if the program can't be started. All goes on without them
/// then.
pub fn begin_with_huge_pages() {
    let Ok(modes) = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled") else { return };
    if !cfg!(target_env = "gnu") || env::var_os(SWITCH).is_some() || !modes.contains("[madvise]") {
        return;
    }
    let (Some(tunables), Ok(own)) = (with_huge_pages(env::var_os(TUNABLES).as_deref()), env::current_exe()) else {
        return;
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| own.clone().into());
    // The switch besides: a program with capabilities of its own is started without the tunables, and would go round.
    let _ = Command::new(own).arg0(name).args(arguments).env(SWITCH, "asked").env(TUNABLES, tunables).exec();
}

/// These tunables and the one for huge pages, unless they have a word on that.
fn with_huge_pages(tunables: Option<&OsStr>) -> Option<OsString> {
    let mut all = tunables.unwrap_or_default().to_owned();
    if all.to_string_lossy().contains(TUNABLE) {
        return None;
    }
    if !all.is_empty() {
        all.push(":");
    }
    all.push(format!("{TUNABLE}=1"));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_tunables_stay() {
        let of = |tunables: Option<&str>| with_huge_pages(tunables.map(OsStr::new));
        assert_eq!(of(None), Some("glibc.malloc.hugetlb=1".into()));
        assert_eq!(of(Some("")), Some("glibc.malloc.hugetlb=1".into()));
        assert_eq!(of(Some("glibc.malloc.check=3")), Some("glibc.malloc.check=3:glibc.malloc.hugetlb=1".into()));
        assert_eq!(of(Some("glibc.malloc.hugetlb=0")), None);
    }
}
