//! What a switch does that gets few frames at a time, as one with partial load does: two ports, at each of which so many come between
//! two polls.
//!
//! A task on the lcore's own CPU hands them over between the lcore's rounds, so that how many a round finds is no matter of the
//! machine's hour. What leaves by one port comes to the other one again.

use std::time::Duration;

use weir_config::SwitchConfig;
use weir_dpdk_driver::{Phase, Placement, PreparedSwitches, Runtime, Task};
use weir_dpdk_io::{Batch, Clock, MAX_BURST, cpu};
use weir_units::{FCS_BYTES, FRAME_BYTES_MIN};

use crate::bed::check_books;
use crate::error::{BenchError, of_arguments};
use crate::forwarding::{Forwarded, Until};
use crate::frames::{HEADER_BYTES, Station, headers};
use crate::tester::{End, fresh};

const PORTS: [&str; 2] = ["left", "right"];
/// The preset `roce` has a lossless class for it.
const DSCP: u8 = 26;
const LENGTH: u16 = FRAME_BYTES_MIN as u16 - FCS_BYTES as u16;
/// How long frames that are on their way may take to leave.
const DRAIN: Duration = Duration::from_secs(1);

/// The switch, with one lcore on this CPU.
///
/// # Errors
/// The CPU is none that a switch may have.
pub fn switch(lcore: u32) -> Result<SwitchConfig, BenchError> {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[buffer]\nsize = \"4MB\"\nmean_frame = \"exact\"\npolicy = \"dt\"\n\
         [lcores]\nlayout = \"single\"\ncores = [{lcore}]\n[classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1us\"\n"
    );
    for name in PORTS {
        text += &format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"400Gbps\"\n");
    }
    weir_config::parse("weir bench bursts", &text).map_err(|errors| of_arguments(&errors))
}

/// Runs the [switch] with so many frames of 64 B a port and round, each of another station.
///
/// # Errors
/// It does not start or stop, or frames are not accounted for.
///
/// # Panics
/// A port takes at most [`MAX_BURST`] frames a round.
pub fn forward(runtime: &Runtime, switch: &SwitchConfig, frames: usize, until: Until) -> Result<Forwarded, BenchError> {
    assert!((1..=MAX_BURST).contains(&frames), "{frames} frames a round");
    let placement = Placement::new(std::slice::from_ref(switch), &cpu::allowed(), 0)?;
    let mut prepared = PreparedSwitches::prepare(runtime, std::slice::from_ref(switch), &placement, 0)?;
    let mut ends = Vec::new();
    for (port, name) in PORTS.iter().enumerate() {
        let end = End::Ring(prepared.open_far_end(name)?);
        ends.push((end, burst(&prepared, port as u8, frames)?));
    }
    let [(left, to_left), (right, to_right)] = ends.try_into().unwrap_or_else(|_| unreachable!("two ports"));
    prepared.add_task(placement.switches[0].on[0], Box::new(Shuttle { left, to_left, right, to_right }));
    let running = prepared.start()?;
    until.wait(&running)?;
    Ok(Forwarded::from_stopped(&check_books(running.stop(DRAIN)?)?))
}

/// Frames that come to a port, for the other one.
fn burst(prepared: &PreparedSwitches<'_>, port: u8, frames: usize) -> Result<Batch, BenchError> {
    let mut batch = Batch::new();
    for number in 0..frames as u8 {
        let [from, to] = [port, 1 - port].map(|port| Station { port, number });
        let mut mbuf =
            fresh(&prepared.store().data, LENGTH).ok_or_else(|| BenchError::Run("no packet buffer".to_owned()))?;
        mbuf.data_mut()[..HEADER_BYTES].copy_from_slice(&headers(from, to, DSCP, 1_000, LENGTH));
        if batch.push(mbuf).is_err() {
            unreachable!("a batch has room for a burst");
        }
    }
    Ok(batch)
}

/// The other ends of both ports' cables, which hand each frame that comes over to the other port.
struct Shuttle {
    left: End,
    /// Frames that are to come to the left port.
    to_left: Batch,
    right: End,
    to_right: Batch,
}

impl Task for Shuttle {
    fn poll(&mut self, _: &Clock, phase: Phase) -> usize {
        if phase == Phase::Run {
            self.left.send(&mut self.to_left);
            self.right.send(&mut self.to_right);
        } else {
            self.to_left.clear();
            self.to_right.clear();
        }
        // A switch sends frames of the left port to the right one. Frames that a ring had no room for stay.
        self.right.receive(&mut self.to_left) + self.left.receive(&mut self.to_right)
    }
}
