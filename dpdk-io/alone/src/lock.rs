//! One lock for the tests of this user on this machine.

use std::env;
use std::fs::{File, OpenOptions};

use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;

/// Held while it lives; the kernel releases it when its process ends.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Shared lock: other shared holders may run.
    pub(crate) fn shared() -> Lock {
        Lock::take(FlockOperation::LockShared)
    }

    /// Exclusive lock.
    pub(crate) fn exclusive() -> Lock {
        Lock::take(FlockOperation::LockExclusive)
    }

    fn take(how: FlockOperation) -> Lock {
        let path = env::temp_dir().join(format!("weir-tests-{}.lock", getuid().as_raw()));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        while let Err(error) = flock(&file, how) {
            assert_eq!(error, rustix::io::Errno::INTR, "{}", path.display());
        }
        Lock { _file: file }
    }
}
