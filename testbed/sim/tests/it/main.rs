//! Tests of virtual time, in one program.

mod allocation;
mod bounced_back;
mod critical_path;
mod fidelity;
mod import;
mod rings;
mod run_directory;
mod slow_receivers;
mod steady_states;
mod swarm;
mod threads;
mod virtual_time;
