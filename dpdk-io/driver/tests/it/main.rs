//! Tests of the switch on lcores, in one program. EAL starts once a process, so that each runs itself again in a process of its own.

mod clones;
mod common;
mod control_frames;
mod guest_queues;
mod incast;
mod violation;
