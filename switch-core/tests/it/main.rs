//! Tests of a whole switch, in one program.

mod buffer_bypass;
mod clones;
mod common;
mod delays;
mod fast_path;
mod forwarding_table;
mod late_polls;
mod link_rate;
mod links;
mod lldp;
mod load_balancing;
mod packet_memory;
mod pipeline;
mod queue_bypass;
mod recovery;
mod runs;
mod steering;
mod storm_control;
mod telemetry;
mod tx_queues;
mod vlans;
mod watchdog;
mod wide;
