//! Tests of the shared buffer as its users call it, in one program.

mod lossless;
mod policies;
mod reference;
mod slices;
mod steady_states;
mod stress;
mod transitions;
