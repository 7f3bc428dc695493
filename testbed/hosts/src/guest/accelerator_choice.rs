//! Choice of the accelerator: KVM where a guest boots with it, emulation elsewhere.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::GuestError;
use super::accelerator::Accelerator;
use super::image::Image;
use super::machine;

/// Accelerator requested by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceleratorChoice {
    /// KVM if a guest boots with it here, otherwise emulation.
    #[default]
    Auto,
    /// KVM or an error.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

/// Timeout of the trial boot, which takes less than a second with KVM.
const PROBE_WITHIN: Duration = Duration::from_secs(12);
/// Console output of a guest that boots.
const BOOTS: &str = "weir: it boots";

impl AcceleratorChoice {
    /// Returns the accelerator for this machine.
    ///
    /// A trial boot decides. A machine may have `/dev/kvm`, and even create a virtual machine, yet not run an ordinary
    /// kernel. The result is kept in the store until the next reboot or another image.
    ///
    /// # Errors
    /// KVM was requested and no guest boots with it.
    pub fn resolve(self, store: &Path, image: &Image) -> Result<Accelerator, GuestError> {
        if self == AcceleratorChoice::Tcg {
            return Ok(Accelerator::Tcg);
        }
        match (probed(store, image), self) {
            (Ok(()), _) => Ok(Accelerator::Kvm),
            (Err(_), AcceleratorChoice::Auto) => Ok(Accelerator::Tcg),
            (Err(reason), _) => Err(GuestError::NoKvm(reason)),
        }
    }
}

/// Tests whether a guest boots with KVM, or reads the stored result.
fn probed(store: &Path, image: &Image) -> Result<(), String> {
    fs::File::options().read(true).write(true).open("/dev/kvm").map_err(|error| format!("/dev/kvm: {error}"))?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let key = format!("{} {}\n", boot.trim(), image.initrd.display());
    let known = store.join("kvm");
    if let Some(reason) = fs::read_to_string(&known).ok().and_then(|text| text.strip_prefix(&key).map(str::to_owned)) {
        return if reason.is_empty() { Ok(()) } else { Err(reason) };
    }
    let found = probe(image);
    // Without a stored result the test is repeated.
    let _ = fs::write(&known, key + found.as_ref().err().map_or("", String::as_str));
    found
}

/// Boots a guest with KVM and ends it at once.
fn probe(image: &Image) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let console = folder.path().join("console");
    let mut command = machine::bare(image, Accelerator::Kvm, 192, &console, "weir.accept=1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| format!("QEMU does not start: {error}"))?;
    let deadline = Instant::now() + PROBE_WITHIN;
    let outcome = loop {
        let output = fs::read(&console).unwrap_or_default();
        if String::from_utf8_lossy(&output).contains(BOOTS) {
            break Ok(());
        }
        match process.try_wait() {
            Ok(Some(status)) => break Err(format!("QEMU ended with {status} before a guest had booted")),
            _ if Instant::now() > deadline => {
                break Err(format!("a guest did not boot with /dev/kvm within {} s", PROBE_WITHIN.as_secs()));
            }
            _ => thread::sleep(Duration::from_millis(20)),
        }
    };
    let _ = process.kill();
    let _ = process.wait();
    outcome
}
