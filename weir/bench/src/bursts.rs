//! Cost of small bursts, as under partial load: a fixed number of frames arrives at each of two ports between two polls.
//!
//! A task on the lcore's own CPU hands the frames over between the lcore's rounds, so that the burst size does not depend on the
//! machine's load. Frames sent by one port arrive at the other one again.

use std::time::Duration;

use weir_config::SwitchConfig;
use weir_dpdk_driver::{Phase, Placement, PreparedSwitches, Runtime, Task};
use weir_dpdk_io::{Batch, Clock, MAX_BURST, cpu};
use weir_units::{FCS_BYTES, FRAME_BYTES_MIN};

use crate::error::{BenchError, from_arguments};
use crate::forwarding::{Forwarded, RoundEnd, sent_by};
use crate::frames::{HEADER_BYTES, Station, headers};
use crate::testbed::check_conservation;
use crate::tester::{TesterPort, fresh};

const PORTS: [&str; 2] = ["left", "right"];
/// DSCP of a lossless class in the preset `roce`.
const DSCP: u8 = 26;
const LENGTH: u16 = FRAME_BYTES_MIN as u16 - FCS_BYTES as u16;
/// Time limit for frames in flight to leave when the switch stops.
const DRAIN: Duration = Duration::from_secs(1);

/// Returns the switch's configuration, with one lcore on this CPU.
///
/// # Errors
/// A switch may not use this CPU.
pub fn switch(lcore: u32) -> Result<SwitchConfig, BenchError> {
    let mut text = format!(
        "[switch]\nname = \"bench\"\nidle = \"poll\"\n[buffer]\nsize = \"4MB\"\nmean_frame = \"exact\"\npolicy = \"dt\"\n\
         [lcores]\nlayout = \"single\"\ncores = [{lcore}]\n[classes]\npreset = \"roce\"\n[pfc]\nreaction = \"1us\"\n"
    );
    for name in PORTS {
        text += &format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"400Gbps\"\n");
    }
    weir_config::parse("weir bench bursts", &text).map_err(|errors| from_arguments(&errors))
}

/// Runs the [switch] with `frames` frames of 64 B a port and round, each from another station.
///
/// # Errors
/// The switch does not start or stop, or frames are not accounted for.
///
/// # Panics
/// If `frames` is not 1 to [`MAX_BURST`].
pub fn forward(
    runtime: &Runtime,
    switch: &SwitchConfig,
    frames: usize,
    until: RoundEnd,
) -> Result<Forwarded, BenchError> {
    assert!((1..=MAX_BURST).contains(&frames), "{frames} frames a round");
    let placement = Placement::new(std::slice::from_ref(switch), &cpu::allowed(), 0)?;
    let mut prepared = PreparedSwitches::prepare(runtime, std::slice::from_ref(switch), &placement, 0)?;
    let mut ends = Vec::new();
    for (port, name) in PORTS.iter().enumerate() {
        let end = TesterPort::Ring(prepared.open_far_end(name)?);
        ends.push((end, burst(&prepared, port as u8, frames)?));
    }
    let [(left, to_left), (right, to_right)] = ends.try_into().unwrap_or_else(|_| unreachable!("two ports"));
    prepared.add_task(placement.switches[0].on[0], Box::new(Shuttle { left, to_left, right, to_right }));
    let running = prepared.start()?;
    until.wait(|| sent_by(&running))?;
    Ok(Forwarded::from_stopped(&check_conservation(running.stop(DRAIN)?)?))
}

/// Creates the frames that arrive at `port`, addressed to the other port.
fn burst(prepared: &PreparedSwitches<'_>, port: u8, frames: usize) -> Result<Batch, BenchError> {
    let mut batch = Batch::new();
    for number in 0..frames as u16 {
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

/// Far ends of both ports' rings, which pass each received frame to the other port.
struct Shuttle {
    left: TesterPort,
    /// Frames to hand to the left port.
    to_left: Batch,
    right: TesterPort,
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
        // The switch sends frames of the left port to the right one. Frames without room in a ring stay here.
        self.right.receive(&mut self.to_left) + self.left.receive(&mut self.to_right)
    }
}
