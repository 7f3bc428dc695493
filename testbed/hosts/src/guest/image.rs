//! Guest image: QEMU, a kernel and a file system, built from Debian packages and kept in a folder.
//!
//! The builder is a small Python program embedded in this crate. The lab's tests build their guests with the same
//! functions. Most of its work is done by apt and dpkg.

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::{GuestError, while_doing};

/// Files of the builder, as a Python package.
const BUILDER: [(&str, &str); 5] = [
    ("__init__.py", ""),
    ("packages.py", include_str!("../../../../lab/weirlab/guest/packages.py")),
    ("image.py", include_str!("../../../../lab/weirlab/guest/image.py")),
    ("roce.py", include_str!("../../../../lab/weirlab/guest/roce.py")),
    ("rank.py", include_str!("../../../../lab/weirlab/guest/rank.py")),
];
const PACKAGE: &str = "weirguest";

/// Paths of a guest image.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Image {
    /// Kernel.
    pub kernel: PathBuf,
    /// File system, which the kernel unpacks into memory.
    pub initrd: PathBuf,
    /// QEMU with its folder arguments.
    pub qemu: Vec<String>,
    /// Environment variables for QEMU.
    pub environment: BTreeMap<String, String>,
}

/// Returns the folder of images: `$WEIR_GUEST_DIR`, or `weir/guest` in the user's cache.
pub fn store() -> PathBuf {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    folder("WEIR_GUEST_DIR").unwrap_or_else(|| {
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        cache.unwrap_or_else(|| PathBuf::from("/var/cache")).join("weir/guest")
    })
}

impl Image {
    /// Returns the image of a store, building missing parts from the network. `on_progress` is called before a build.
    ///
    /// # Errors
    /// This machine lacks a prerequisite, or a download or package fails.
    pub fn load_or_build(store: &Path, on_progress: &mut dyn FnMut(&str)) -> Result<Image, GuestError> {
        fs::create_dir_all(store).map_err(while_doing(format!("the folder {}", store.display())))?;
        let builder = unpacked(store)?;
        if !has_parts(store) {
            on_progress(&format!(
                "making the guest's image of Debian's packages in {} (once, about a minute and 150 MB of downloads)",
                store.display()
            ));
        }
        let mut command = Command::new("python3");
        command.arg("-m").arg(format!("{PACKAGE}.roce")).arg(store).current_dir(&builder).stdin(Stdio::null());
        let made = command.output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                GuestError::Image("there is no python3, which builds it: apt-get install python3-minimal".to_owned())
            }
            _ => GuestError::Image(format!("python3: {error}")),
        })?;
        if !made.status.success() {
            let stderr = String::from_utf8_lossy(&made.stderr);
            return Err(GuestError::Image(stderr.trim().lines().last().unwrap_or("no reason given").to_owned()));
        }
        serde_json::from_slice(&made.stdout)
            .map_err(|error| GuestError::Image(format!("the builder's answer: {error}")))
    }
}

fn has_parts(store: &Path) -> bool {
    let mut entries = fs::read_dir(store).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("parts-"))
}

/// Returns the folder of the builder's package; writes it if this version is missing.
fn unpacked(store: &Path) -> Result<PathBuf, GuestError> {
    let mut hash = DefaultHasher::new();
    BUILDER.hash(&mut hash);
    let builder = store.join(format!("builder-{:016x}", hash.finish()));
    let package = builder.join(PACKAGE);
    let failed = || while_doing(format!("the guest's builder in {}", builder.display()));
    if !package.is_dir() {
        // Written atomically, since other processes may search for it now.
        let making = tempfile::tempdir_in(store).map_err(failed())?;
        let made = making.path().join(PACKAGE);
        fs::create_dir(&made).map_err(failed())?;
        for (name, text) in BUILDER {
            fs::write(made.join(name), text).map_err(failed())?;
        }
        fs::create_dir_all(&builder).map_err(failed())?;
        if let Err(error) = fs::rename(&made, &package)
            && !package.is_dir()
        {
            return Err(failed()(error));
        }
    }
    Ok(builder)
}
