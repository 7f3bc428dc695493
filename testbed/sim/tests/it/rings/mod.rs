//! Rings of switches in virtual time: with the configurations of the GFC paper, drawn at random, with peers that know
//! PFC alone; and links that lose, double and reorder flow-control messages.
//!
//! `PROPTEST_CASES` is the number of scenarios; `RINGS_SEED` draws one of them again.

mod checks;
mod draw;
mod fabric;
mod faults;
mod paper;
mod pulses;
mod swarm;
mod uec_cbfc;
