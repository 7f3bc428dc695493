//! Guests: small Linux virtual machines with Soft-RoCE, perftest and iperf3 under QEMU, each with its NIC at a
//! vhost-user socket.
//!
//! An [`Image`] is built once from Debian packages, without installing any. A [`Fleet`] is a folder whose guests any
//! later process can find and end. A guest's process is identified by QEMU's arguments, so no other process is ended
//! and no guest is lost.

mod accelerator;
mod accelerator_choice;
mod fleet;
mod image;
mod machine;
mod memory;
mod process;
mod shell;

pub use accelerator::Accelerator;
pub use accelerator_choice::AcceleratorChoice;
pub use fleet::{Fleet, GuestProgram, RunningGuest, State};
pub use image::{Image, store};
pub use machine::{GuestLifetime, GuestPlan};
pub use memory::refuse_more_than_fits;
pub use shell::CommandOutput;

use std::io;
use std::path::PathBuf;

/// Error of a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The image can't be built.
    #[error("the guest's image can't be made: {0}")]
    Image(String),
    /// The machine has too little memory.
    #[error("{0}")]
    Memory(String),
    /// The guest's socket has no listening switch.
    #[error("no switch listens at {}: start it before its guests: weir run SWITCH.toml", .0.display())]
    NoSwitch(PathBuf),
    /// A guest of this name exists already.
    #[error("a guest named {0} is there already: weir vm list shows it, weir vm down {0} ends it")]
    Exists(String),
    /// The name belongs to no guest.
    #[error("no guest is named {name}{}", named_instead(.known))]
    Unknown {
        /// Requested name.
        name: String,
        /// Names of existing guests.
        known: Vec<String>,
    },
    /// QEMU has ended.
    #[error("guest {name}: QEMU has ended: {output}")]
    Ended {
        /// Name of the guest.
        name: String,
        /// Last output of QEMU and the guest's kernel.
        output: String,
    },
    /// The guest has not booted.
    #[error(
        "guest {name} has not booted after {seconds} s, {cpu_seconds} s of CPU time; end of its console: {console}"
    )]
    NotBooted {
        /// Name of the guest.
        name: String,
        /// Time since it was started.
        seconds: u64,
        /// CPU time of its QEMU.
        cpu_seconds: u64,
        /// End of its console.
        console: String,
    },
    /// The guest does not respond.
    #[error("guest {name} has not answered for {seconds} s; end of its console: {output}")]
    Silent {
        /// Name of the guest.
        name: String,
        /// Time waited, in seconds.
        seconds: u64,
        /// Last output of the guest's console.
        output: String,
    },
    /// All shells of the guest are in use.
    #[error("guest {0} runs {1} commands already, and no more at a time")]
    Busy(String, usize),
    /// A command timed out.
    #[error("guest {name}: a command has not ended within {seconds} s: {command}")]
    Overdue {
        /// Name of the guest.
        name: String,
        /// Timeout, in seconds.
        seconds: u64,
        /// Command run.
        command: String,
    },
    /// KVM was requested and does not run a guest.
    #[error("--accel kvm: {0}")]
    NoKvm(String),
    /// A system call for a file or process failed.
    #[error("{what}: {error}")]
    System {
        /// Operation that failed.
        what: String,
        /// System error.
        error: io::Error,
    },
}

fn named_instead(names: &[String]) -> String {
    if names.is_empty() {
        return "; no guest runs: weir vm up SWITCH.toml boots them".to_owned();
    }
    format!("; there are {}", names.join(", "))
}

/// Adds the failed operation to a system error.
fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> GuestError {
    let what = what.into();
    move |error| GuestError::System { what, error }
}
