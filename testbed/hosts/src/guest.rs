//! Guests: small Linux machines with Soft-RoCE, perftest and iperf3 under QEMU, each with its NIC at a vhost-user socket.
//!
//! An [`Image`] is made once of Debian's packages, without installing any. A [`Fleet`] is a folder in which guests are booted, found again
//! and ended by any later process: what belongs to it is told by QEMU's own arguments, so that nothing else is ever ended, and nothing
//! that was started is ever forgotten.

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
pub use fleet::{Fleet, Running, State};
pub use image::{Image, store};
pub use machine::{GuestPlan, Life};
pub use memory::refuse_more_than_fits;
pub use shell::Ended;

use std::io;
use std::path::PathBuf;

/// Why there is no guest, or it does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The image can't be made.
    #[error("the guest's image can't be made: {0}")]
    Image(String),
    /// This machine has too little memory.
    #[error("{0}")]
    Memory(String),
    /// No switch has this socket.
    #[error("no switch listens at {}: start it before its guests: weir run SWITCH.toml", .0.display())]
    NoSwitch(PathBuf),
    /// A guest of this name is there already.
    #[error("a guest named {0} is there already: weir vm list shows it, weir vm down {0} ends it")]
    Exists(String),
    /// No guest has this name.
    #[error("no guest is named {name}{}", named_instead(.known))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The ones that there are.
        known: Vec<String>,
    },
    /// QEMU ended, and what it said.
    #[error("guest {name}: QEMU has ended: {said}")]
    Ended {
        /// The guest.
        name: String,
        /// The last of what QEMU and the guest's kernel said.
        said: String,
    },
    /// A guest has not booted.
    #[error(
        "guest {name} has not booted after {seconds} s, {cpu_seconds} s of CPU time; its console said last: {said}"
    )]
    NotBooted {
        /// Name of the guest.
        name: String,
        /// Time since it was started.
        seconds: u64,
        /// CPU time of its QEMU.
        cpu_seconds: u64,
        /// End of its console.
        said: String,
    },
    /// The guest says nothing.
    #[error("guest {name} has not answered for {seconds} s; its console said last: {said}")]
    Silent {
        /// The guest.
        name: String,
        /// For how long.
        seconds: u64,
        /// The end of its console.
        said: String,
    },
    /// All ways to a guest's shell are in use.
    #[error("guest {0} runs {1} commands already, and no more at a time")]
    Busy(String, usize),
    /// A command took too long.
    #[error("guest {name}: a command has not ended within {seconds} s: {command}")]
    Overdue {
        /// The guest.
        name: String,
        /// How long it had.
        seconds: u64,
        /// What was run.
        command: String,
    },
    /// KVM was asked for and does not run a guest.
    #[error("--accel kvm: {0}")]
    NoKvm(String),
    /// A file or a process.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: String,
        /// The system's reason.
        error: io::Error,
    },
}

fn named_instead(names: &[String]) -> String {
    if names.is_empty() {
        return "; no guest runs: weir vm up SWITCH.toml boots them".to_owned();
    }
    format!("; there are {}", names.join(", "))
}

/// Gives the system's reason a subject.
fn while_doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> GuestError {
    let what = what.into();
    move |error| GuestError::System { what, error }
}
