//! Tests of configuration files as users write them, in one program.

mod bad_files;
mod clones;
mod expectations;
mod flow_control;
mod good_files;
mod no_panic;
mod policies;
mod together;
mod watchdog;
