//! Tests of a whole switch, in one program.

mod bypass;
mod clones;
mod common;
mod delays;
mod lanes;
mod late_polls;
mod link_rate;
mod links;
mod packet_memory;
mod passage;
mod pipeline;
mod plain;
mod recovery;
mod rows;
mod steering;
mod telemetry;
mod watchdog;
mod wide;
