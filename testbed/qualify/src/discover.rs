//! Discovery of a black box's thresholds from the frames that its ports send.
//!
//! A lossless class is held by PFC of its receiver, while its sender ignores the device's PFC. The number of frames at which PFC comes, or
//! at which one is lost, is found by bisection; each probe begins with an empty buffer.

use serde::Serialize;
use weir_units::{BitRate, Class, ClassSet};

use crate::bench::{Bench, LENGTH, ResumePoint, TestFlow};
use crate::tester::{Amount, Lengths, PfcReaction, StreamId};
use crate::{BufferFacts, DeviceUnderTest, TestFailure, TrafficTester};

/// Thresholds of a lossless priority group, alone in the buffer unless stated otherwise, in charged bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Discovery {
    /// Bytes that the group holds when PFC is sent.
    pub xoff_bytes: u64,
    /// Bytes that it holds when it resumes.
    pub xon_bytes: u64,
    /// Bytes that it holds beyond Xoff before the first frame is lost.
    pub headroom_bytes: u64,
    /// Factor α of a dynamic threshold; `None` if the threshold does not move with another group's bytes.
    pub alpha: Option<f64>,
    /// Size of the shared pool under a dynamic threshold: Xoff (1 + α) / α.
    pub shared_pool_bytes: Option<u64>,
    /// Size of the headroom pool, if two lossless groups of two senders together get less headroom than alone.
    pub headroom_pool_bytes: Option<u64>,
    /// Number of probes.
    pub probes: u32,
}

/// Finds the thresholds of the device.
///
/// # Errors
/// If the device has no two ports that fit each other, or sends no PFC, or a port failed.
pub fn discover(tester: &mut dyn TrafficTester, device: &mut dyn DeviceUnderTest) -> Result<Discovery, TestFailure> {
    let mut bench = Bench::new(tester, device, &[])?;
    bench.introduce()?;
    bench.restore()?;
    let charges = bench.facts.buffer.clone().unwrap_or(BufferFacts { cell: 1, ..BufferFacts::default() });
    let class = bench.lossless()?;
    let mut search = ThresholdSearch { bench, class, charges, probes: 0 };
    let (frames, xoff) = search.xoff(0)?;
    let lost = search.smallest(frames, |search, frames| Ok(search.fill(0, frames, 0)?.is_lossy))?;
    let headroom = ((lost - 1) * search.charge(LENGTH)).saturating_sub(xoff);
    let xon = search.xon(frames)?;
    let (alpha, pool) = search.alpha(frames, xoff)?;
    let each = match (alpha, pool) {
        (Some(alpha), Some(pool)) => (alpha * pool as f64 / (1.0 + GROUPS as f64 * alpha)) as u64,
        _ => xoff,
    };
    let headroom_pool = search.headroom_pool(each, headroom)?;
    Ok(Discovery {
        xoff_bytes: xoff,
        xon_bytes: xon,
        headroom_bytes: headroom,
        alpha,
        shared_pool_bytes: pool,
        headroom_pool_bytes: headroom_pool,
        probes: search.probes,
    })
}

struct ThresholdSearch<'d> {
    bench: Bench<'d>,
    class: Class,
    charges: BufferFacts,
    probes: u32,
}

/// Reaction of the device to a number of frames.
struct Probe {
    is_paused: bool,
    is_lossy: bool,
}

/// Most frames of a probe: 128 MiB.
const FRAMES_MAX: u64 = 1 << 17;
/// Length of the frames that find a threshold between two longer ones.
const FINE: u32 = 64;
/// Length of the frames that fill several groups.
const SHORT: u32 = 256;
/// Groups that fill the headroom pool: two classes of two senders.
const GROUPS: u64 = 4;

impl ThresholdSearch<'_> {
    fn charge(&self, length: u32) -> u64 {
        self.charges.charge(length)
    }

    /// Holds the class at its receiver, and has senders ignore PFC.
    fn hold(&mut self) -> Result<StreamId, TestFailure> {
        self.hold_classes(self.class.alone())
    }

    fn hold_classes(&mut self, classes: ClassSet) -> Result<StreamId, TestFailure> {
        self.probes += 1;
        self.bench.restore()?;
        for port in [Some(self.bench.t), self.bench.u().ok()].into_iter().flatten() {
            self.bench.tester.set_pfc_reaction(port, PfcReaction::Ignore)?;
        }
        self.bench.storm(self.bench.r, classes)
    }

    /// Fills the buffer with frames of another sender, then with those of the probed one, long and fine.
    fn fill(&mut self, of_other: u64, frames: u64, fine: u64) -> Result<Probe, TestFailure> {
        let storm = self.hold()?;
        let (t, r, class) = (self.bench.t, self.bench.r, self.class);
        if of_other > 0 {
            let u = self.bench.u()?;
            self.bench.fill(u, r, class, LENGTH, of_other)?;
        }
        let mut flows = Vec::new();
        for (frames, length) in [(frames, LENGTH), (fine, FINE)].into_iter().filter(|(frames, _)| *frames > 0) {
            flows.push(self.bench.fill(t, r, class, length, frames)?);
        }
        let is_paused = self.bench.received_control(t)?.xoff[class.index()] > 0;
        let is_lossy = self.release(class.alone(), storm, flows)?;
        Ok(Probe { is_paused, is_lossy })
    }

    /// Ends the storm that holds classes, and lets the buffer drain. Returns whether a frame of the flows was lost.
    fn release(&mut self, classes: ClassSet, storm: StreamId, flows: Vec<TestFlow>) -> Result<bool, TestFailure> {
        self.bench.end_storm(self.bench.r, classes, storm)?;
        self.bench.drain()?;
        let mut is_lossy = false;
        for flow in flows {
            let stats = self.bench.stats(flow)?;
            is_lossy |= stats.received < stats.sent;
        }
        Ok(is_lossy)
    }

    /// Returns the smallest number above `from` for which `holds`: doubled until it does, then bisected.
    fn smallest(
        &mut self,
        from: u64,
        mut holds: impl FnMut(&mut Self, u64) -> Result<bool, TestFailure>,
    ) -> Result<u64, TestFailure> {
        let (mut too_few, mut step) = (from, 8);
        while !holds(self, too_few + step)? {
            too_few += step;
            step *= 2;
            if too_few > FRAMES_MAX {
                return Err(TestFailure::impossible(format!("neither PFC nor a loss up to {too_few} frames")));
            }
        }
        let mut enough = too_few + step;
        while enough - too_few > 1 {
            let middle = (too_few + enough) / 2;
            if holds(self, middle)? {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Ok(enough)
    }

    /// Returns the number of long frames that cause PFC while another group holds some, and the bytes that do, to a fine frame.
    fn xoff(&mut self, of_other: u64) -> Result<(u64, u64), TestFailure> {
        let paused = |search: &mut Self, frames| Ok(search.fill(of_other, frames, 0)?.is_paused);
        let frames = self.smallest(0, paused)?;
        let paused = |search: &mut Self, fine| Ok(search.fill(of_other, frames - 1, fine)?.is_paused);
        let fine = self.smallest(0, paused)?;
        Ok((frames, (frames - 1) * self.charge(LENGTH) + fine * self.charge(FINE)))
    }

    /// Returns the bytes at which the group resumes, to a long frame.
    fn xon(&mut self, frames: u64) -> Result<u64, TestFailure> {
        let storm = self.hold()?;
        let (t, r, class) = (self.bench.t, self.bench.r, self.class);
        let flow = self.bench.fill(t, r, class, LENGTH, frames)?;
        match self.bench.drain_to_resume(storm, flow, frames)? {
            ResumePoint { held, is_resumed: true } => Ok(held * self.charge(LENGTH)),
            _ => Err(TestFailure::impossible("PFC is not followed by a resume")),
        }
    }

    /// Returns the size of the headroom pool: the bytes beyond `shared` of each of several groups when the first frame is lost. `None` if
    /// each has its `own` headroom.
    fn headroom_pool(&mut self, shared: u64, own: u64) -> Result<Option<u64>, TestFailure> {
        if self.bench.u().is_err() || self.bench.two_lossless().is_err() {
            return Ok(None);
        }
        let charge = self.charge(SHORT);
        let frames = self.smallest(shared / charge, |search, frames| search.is_lossy_for_all(frames))?;
        let pool = GROUPS * ((frames - 1) * charge).saturating_sub(shared);
        Ok((pool + GROUPS * 2 * self.charge(LENGTH) < GROUPS * own).then_some(pool))
    }

    /// Fills several groups with this many short frames each, at equal rates; returns whether a frame was lost.
    fn is_lossy_for_all(&mut self, frames: u64) -> Result<bool, TestFailure> {
        let classes = self.bench.two_lossless()?;
        let storm = self.hold_classes(classes.into_iter().collect())?;
        let (senders, r) = ([self.bench.t, self.bench.u()?], self.bench.r);
        let rate = BitRate::bps(self.bench.tester.rate(r).as_bps() / 2);
        let mut flows = Vec::new();
        for from in senders {
            for class in classes {
                let amount = Amount::Frames(frames);
                flows.push(self.bench.flow_of(from, r, class, rate, Lengths::Fixed(SHORT), amount)?);
            }
        }
        self.bench.run(self.bench.frame_time(r, SHORT) * (2 * frames))?;
        self.bench.settle()?;
        self.release(classes.into_iter().collect(), storm, flows)
    }

    /// Returns α and the pool: the threshold falls by α / (1 + α) of another group's bytes.
    fn alpha(&mut self, frames: u64, xoff: u64) -> Result<(Option<f64>, Option<u64>), TestFailure> {
        if self.bench.u().is_err() {
            return Ok((None, None));
        }
        let of_other = frames / 2;
        if of_other == 0 {
            return Ok((None, None));
        }
        let (_, with_other) = self.xoff(of_other)?;
        let share = xoff.saturating_sub(with_other) as f64 / (of_other * self.charge(LENGTH)) as f64;
        if share < 0.005 {
            return Ok((None, None));
        }
        let measured = share / (1.0 - share);
        // Switches have powers of two.
        let power = measured.log2().round().exp2();
        let alpha = if (measured / power - 1.0).abs() < 0.1 { power } else { measured };
        Ok((Some(alpha), Some((xoff as f64 * (1.0 + alpha) / alpha).round() as u64)))
    }
}
