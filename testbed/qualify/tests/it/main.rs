//! Tests of the suite on Weir in virtual time, and on devices with faults.

mod discovery;
mod faults;
mod reports;
mod weir_passes;
