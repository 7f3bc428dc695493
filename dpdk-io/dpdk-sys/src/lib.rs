//! Raw bindings to the system's libdpdk (22.11 or newer).
//!
//! `rte_*` are exported DPDK functions whose signature needs no DPDK structure.
//! `weir_*` are shim functions and plain structures in place of inline functions,
//! macros, and structures that change from release to release. `WEIR_*` are
//! constants, among them the offsets of the mbuf fields that are read without a
//! call. So the Rust side never mirrors the layout of a DPDK structure.
//!
//! Nothing here is safe to call directly; the `weir-dpdk-io` crate is.
//!
//! ```
//! use std::ffi::CStr;
//!
//! // SAFETY: it may be called before EAL starts, and returns a string with a zero at its end that lives as long as the process.
//! let version = unsafe { CStr::from_ptr(weir_dpdk_sys::rte_version()) };
//! assert!(version.to_str()?.starts_with("DPDK "));
//! # Ok::<(), std::str::Utf8Error>(())
//! ```

// Generated code: names, comments and layout are those of C.
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, rustdoc::all)]
#![no_std]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// The version of DPDK that these bindings are of.
pub const BUILT_FOR: &str = env!("WEIR_DPDK_VERSION");

// Layout on which the Rust side relies when it reads mbuf fields in place.
const _: () = assert!(WEIR_MBUF_BUF_ADDR as usize % align_of::<*mut u8>() == 0);
const _: () = assert!(WEIR_MBUF_NEXT as usize % align_of::<*mut u8>() == 0);
const _: () = assert!(WEIR_MBUF_DATA_OFF % 2 == 0 && WEIR_MBUF_DATA_LEN % 2 == 0);
const _: () = assert!(WEIR_MBUF_REFCNT % 2 == 0 && WEIR_MBUF_NB_SEGS % 2 == 0);
const _: () = assert!(WEIR_MBUF_PKT_LEN % 4 == 0);
const _: () = assert!(WEIR_MBUF_SIZE == 128);
