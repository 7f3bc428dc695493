//! Tests of scenarios with real frames, in one program. EAL starts once a process, so that each runs itself again in a process of its own.

/// Tests that are marked for an idle machine: by this name `make test` runs them alone, and all others beside other work.
mod by_the_clock {
    mod conformance;
    mod feedback;
    mod victim;
}
mod fabric;
mod workloads;
