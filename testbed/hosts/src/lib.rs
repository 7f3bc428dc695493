//! Real hosts: guests that this machine boots, network namespaces, and machines that ssh reaches; and what is run on them.
//!
//! [`guest`] makes, boots and ends guests, which `weir vm` shows to a user.

#![forbid(unsafe_code)]

pub mod guest;
