//! One program for the crate's integration tests.

mod served;
