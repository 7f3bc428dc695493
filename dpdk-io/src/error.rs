//! Errors, one enum per operation.

use std::ffi::CStr;
use std::fmt;

use weir_dpdk_sys as sys;

/// An error number of the C library or of DPDK, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Returns the errno of a DPDK return value, whose sign carries no meaning here.
    pub(crate) fn from_return(value: i32) -> Errno {
        Errno(value.saturating_abs())
    }

    /// `rte_errno` of this thread.
    pub(crate) fn last() -> Errno {
        // SAFETY: reads a thread-local integer.
        Errno::from_return(unsafe { sys::weir_errno() })
    }

    /// `errno` of this thread, after a system call that failed.
    pub(crate) fn of_system() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Whether the device or driver just does not know the operation.
    pub(crate) fn is_unsupported(self) -> bool {
        matches!(self.0, libc::ENOTSUP | libc::ENOSYS)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: returns a NUL-terminated string in a buffer of this thread,
        // valid until its next call; it is copied before that.
        let text = unsafe { CStr::from_ptr(sys::rte_strerror(self.0)) };
        write!(f, "{}", text.to_string_lossy())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

/// Starting DPDK, or a function on one of its lcores, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EalError {
    /// DPDK can be started once in the life of a process.
    #[error("DPDK was already started in this process, and cannot be started twice")]
    AlreadyStarted,
    /// An argument holds a NUL byte.
    #[error("the EAL argument {0:?} contains a NUL byte")]
    Argument(String),
    /// The argument list is empty: its first entry is the program's name.
    #[error("EAL arguments must begin with the program name")]
    NoProgramName,
    /// `rte_eal_init` refused; its own messages went to stderr.
    #[error("DPDK did not start ({errno}) with the EAL arguments: {arguments}")]
    Init {
        /// Error of the call.
        errno: Errno,
        /// The arguments, joined by spaces.
        arguments: String,
    },
    /// The worker lcore does not exist.
    #[error("lcore {0} is not a worker lcore of this process")]
    NoSuchLcore(u32),
    /// The lcore already runs a function.
    #[error("lcore {0} is busy")]
    LcoreBusy(u32),
}

/// A mempool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MempoolError {
    /// [`crate::Eal::init`] was not called.
    #[error("mempool {name}: DPDK is not running")]
    NoEal {
        /// The pool's name.
        name: String,
    },
    /// The name is empty, too long, or has a NUL byte.
    #[error("mempool name {name:?} must have 1 to {max} bytes and no NUL")]
    Name {
        /// The name.
        name: String,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// DPDK refused, most often for want of memory.
    #[error("mempool {name}: {count} mbufs of {data_room} bytes ({bytes} bytes in all): {errno}")]
    Create {
        /// The pool's name.
        name: String,
        /// Mbufs asked for.
        count: u32,
        /// Data room of each, in bytes.
        data_room: u16,
        /// Memory that the pool would need.
        bytes: u64,
        /// Error of the call.
        errno: Errno,
    },
}

/// An operation on a port failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// [`crate::Eal::init`] was not called.
    #[error("port {0}: DPDK is not running")]
    NoEal(String),
    /// The device could not be attached.
    #[error("device {devargs:?} could not be attached: {errno}")]
    Attach {
        /// The device arguments as given.
        devargs: String,
        /// Error of the call.
        errno: Errno,
    },
    /// A value would break the device-argument syntax.
    #[error(
        "{what} {value:?} cannot stand in device arguments \
         (empty, too long, or with a comma, equals sign, blank or control character)"
    )]
    Devargs {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// The process has no port of this name.
    #[error("there is no port named {0:?}")]
    NotFound(String),
    /// Another [`crate::Port`] owns the port.
    #[error("port {0} is already in use")]
    InUse(String),
    /// The port's queues are still held, maybe by another thread.
    #[error("port {0}: {1} needs its queues to be dropped first")]
    QueuesHeld(String, &'static str),
    /// More queues than the device has.
    #[error("port {port}: {asked} {direction} queues asked for, the device has {max}")]
    TooManyQueues {
        /// The port's name.
        port: String,
        /// `RX` or `TX`.
        direction: &'static str,
        /// Queues requested.
        asked: u16,
        /// Queues that the device supports.
        max: u32,
    },
    /// The MTU is outside the device's range.
    #[error("port {port}: MTU {mtu} is outside of the device's {min} to {max}")]
    Mtu {
        /// The port's name.
        port: String,
        /// The MTU asked for, in bytes.
        mtu: u16,
        /// The device's smallest.
        min: u16,
        /// The device's largest.
        max: u16,
    },
    /// A frame of the MTU does not fit one mbuf of the receive pool.
    #[error("port {port}: MTU {mtu} needs a pool with a data room of {needed} bytes, it has {data_room}")]
    DataRoom {
        /// The port's name.
        port: String,
        /// The MTU asked for, in bytes.
        mtu: u16,
        /// The smallest data room that would do.
        needed: u32,
        /// The pool's data room.
        data_room: u16,
    },
    /// The socket's group or mode could not be set.
    #[error("device {device}: {reason}")]
    Access {
        /// The device.
        device: String,
        /// Setting that failed, and the reason.
        reason: String,
    },
    /// The receive pool lies where the device cannot reach it.
    #[error("port {port}: the receive pool has no addresses for devices, which would write elsewhere in memory")]
    NoDeviceMemory {
        /// The port's name.
        port: String,
    },
    /// DPDK or the driver refused.
    #[error("port {port}: {step}: {errno}")]
    Driver {
        /// The port's name.
        port: String,
        /// Step that failed.
        step: &'static str,
        /// Error of the step.
        errno: Errno,
    },
}

/// Packet capture by other processes could not be enabled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PdumpError {
    /// `--in-memory`, `--no-huge` or `--no-shconf` keep other processes out.
    #[error("packet capture needs memory that other processes can share, which {0} rules out")]
    NoSharedMemory(&'static str),
    /// DPDK refused.
    #[error("packet capture could not be enabled: {0}")]
    Init(Errno),
}
