//! Tests of scenarios with real frames, in one program. EAL starts once a process, so that each runs itself again in a process of its own.

mod conformance;
mod fabric;
mod feedback;
mod victim;
mod workloads;
