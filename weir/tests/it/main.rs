//! Tests of the command, in one program.

mod bench;
mod house;
mod huge_pages;
mod kept_names;
mod papers;
mod report;
mod reproduce;
mod site;
mod sweep;
mod sweep_slurm;
mod without_dpdk;
