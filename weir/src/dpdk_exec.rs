//! `weir-dpdk`, in the same folder as this program: the same command, linked with libdpdk.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use weir_experiments::real_frames::BackendUnavailable;

use crate::version;

/// Name of the program, in the folder of `weir`.
const PROGRAM: &str = "weir-dpdk";

/// Replaces this process by `weir-dpdk`, with the same arguments. Returns only on failure, with the reason.
///
/// Requests the version of `weir-dpdk` first: only a start shows whether its libraries can be loaded, and after `exec` no process
/// is left to explain the loader's error.
pub fn exec_dpdk() -> BackendUnavailable {
    let program = match env::current_exe() {
        Ok(own) => own.with_file_name(PROGRAM),
        Err(error) => {
            return BackendUnavailable(format!(
                "{PROGRAM} is expected in the folder of this program, which can't be found: {error}"
            ));
        }
    };
    if let Err(missing) = probe(&program) {
        return missing;
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| "weir".into());
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    BackendUnavailable(format!("ports and real frames need {}, which can't be started: {error}", program.display()))
}

/// Checks that the program starts here, and is of the same build.
fn probe(program: &Path) -> Result<(), BackendUnavailable> {
    let path = program.display();
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
        BackendUnavailable(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "ports and real frames need {path}, and there is none: copy it from where weir was built; virtual time needs none: \
                 --backend sim"
            ),
            _ => format!("ports and real frames need {path}, which can't be started: {error}"),
        })
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(BackendUnavailable(refusal(&path.to_string(), &errors, &output.status.to_string())));
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    if stdout.trim_end() != format!("weir {}", *version::LONG) {
        let version = stdout.lines().next().unwrap_or_default().trim_start_matches("weir ").to_owned();
        return Err(BackendUnavailable(format!(
            "{path} is of another build ({version}) than this weir ({}): install both from one build",
            version::SHORT
        )));
    }
    Ok(())
}

/// Reason why the program did not start, from its own or its loader's messages.
fn refusal(program: &str, errors: &str, status: &str) -> String {
    let message = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or(status);
    let message = message.rsplit_once("error while loading shared libraries: ").map_or(message, |(_, message)| message);
    let message = message.strip_prefix(program).map_or(message, |message| message.trim_start_matches(": "));
    format!(
        "ports and real frames need the DPDK that this weir was built with, and it can't be loaded ({message}): install it (Debian, \
         Ubuntu: apt-get install libdpdk-dev), or build weir anew for this machine's; virtual time needs none: --backend sim"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Result of `probe` for this shell script.
    fn probe_script(script: &str) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(PROGRAM);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // Another thread's fork may briefly hold the file open for writing.
        for _ in 0..100 {
            match probe(&program) {
                Err(BackendUnavailable(message)) if message.contains("Text file busy") => std::thread::yield_now(),
                other => return other.map_err(|BackendUnavailable(message)| message),
            }
        }
        panic!("the script stays busy");
    }

    #[test]
    fn a_program_of_the_same_build_may_take_over() {
        assert_eq!(probe_script(&format!("test \"$1\" = --version && echo 'weir {}'", *version::LONG)), Ok(()));
        let other = probe_script("echo 'weir 0.0.1 (of old)'").unwrap_err();
        assert!(other.contains("another build (0.0.1 (of old))") && other.contains(version::SHORT), "{other}");
    }

    #[test]
    fn a_library_that_is_missing_is_named() {
        let loader = "echo \"$0: error while loading shared libraries: librte_eal.so.23: cannot open shared object file: \
                      No such file or directory\" >&2; exit 127";
        let message = probe_script(loader).unwrap_err();
        assert!(
            message.contains("(librte_eal.so.23: cannot open shared object file: No such file or directory)"),
            "{message}"
        );
        assert!(message.contains("apt-get install libdpdk-dev") && !message.contains('\n'), "{message}");
        let other_version =
            probe_script("echo \"$0: $0: version DPDK_23 not found (required by $0)\" >&2; exit 1").unwrap_err();
        assert!(other_version.contains("version DPDK_23 not found"), "{other_version}");
        assert!(probe_script("kill -ILL $$").unwrap_err().contains("SIGILL"));
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let Err(BackendUnavailable(message)) = probe(&directory.path().join(PROGRAM)) else { panic!("there is one") };
        assert!(message.contains(&format!("{}/{PROGRAM}, and there is none", directory.path().display())), "{message}");
    }
}
