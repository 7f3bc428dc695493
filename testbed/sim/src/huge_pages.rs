//! Huge pages for a fabric's state.
//!
//! Frames touch state all over a large fabric's memory. With 4 KiB pages the TLB covers little of it, so most accesses
//! also cost a page-table walk. Linux offers transparent huge pages of 2 MiB for all memory, only on request
//! (`madvise`, Debian's default), or not at all. glibc's allocator requests them by a tunable read at program start, so
//! the program re-executes itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{env, fs};

/// Environment variable set in the re-executed program. A user may set it to disable huge pages.
const SWITCH: &str = "WEIR_HUGE_PAGES";
/// Environment variable with the allocator's tunables, separated by colons.
const TUNABLES: &str = "GLIBC_TUNABLES";
const TUNABLE: &str = "glibc.malloc.hugetlb";

/// Re-executes this program with the same arguments and huge pages enabled. Call first in `main`.
///
/// Returns without effect if [`huge_page_environment`] has none, or if the program can't be executed.
pub fn restart_with_huge_pages() {
    let (Some(variables), Ok(own)) = (huge_page_environment(), env::current_exe()) else { return };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| own.clone().into());
    let _ = Command::new(own).arg0(name).args(arguments).envs(variables).exec();
}

/// Returns the environment variables that enable huge pages in a program.
///
/// `None` if this program was started with them, if the system's setting is not `madvise`, or if the environment has
/// `WEIR_HUGE_PAGES` or a tunable for huge pages.
pub fn huge_page_environment() -> Option<[(&'static str, OsString); 2]> {
    let modes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    if !cfg!(target_env = "gnu") || env::var_os(SWITCH).is_some() || !modes.contains("[madvise]") {
        return None;
    }
    let tunables = with_huge_pages(env::var_os(TUNABLES).as_deref())?;
    // The first prevents a loop: a program with capabilities of its own starts without the tunables.
    Some([(SWITCH, "asked".into()), (TUNABLES, tunables)])
}

/// Returns the tunables with huge pages added; `None` if they already contain that tunable.
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
