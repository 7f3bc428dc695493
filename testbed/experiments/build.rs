//! Records the commit of the build, which results name.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Without git, as in a source archive, it is unknown.
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed = git(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|text| !text.is_empty());
    println!("cargo::rustc-env=WEIR_COMMIT={commit}{}", if changed { "+changes" } else { "" });
    // Not the index, which even `git status` rewrites: half of the workspace would be recompiled.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={folder}/HEAD");
        println!("cargo::rerun-if-changed={folder}/logs/HEAD");
    }
}
