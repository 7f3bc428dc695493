//! Measurements on DPDK, so short that their figures mean nothing: what is tested is that every frame is accounted for.

mod bursts;
mod forwarding;
mod generator;
mod memif_tester;
