//! Conformance of a buffer policy: invariants of every policy, under drawn loads.
//!
//! Weir's tests hold its own policies against it, and a program with a policy of its own can do so too. The load is [`ConformanceLoad`]: peers that obey
//! PAUSE after exactly the delay that the headroom rule is made for. [`check`] reports the first [`ConformanceViolation`]:
//!
//! - a lossless frame is dropped, or a buffer holds more frames than mbufs;
//! - bytes of ingress queues, of egress queues and of the frames differ;
//! - the lossless queue that fills the shared segment is not paused, or the lossy one goes on;
//! - a threshold rises although the policy [says](crate::BufferPolicy::has_non_increasing_thresholds) that none does;
//! - something stays in the buffer, or a peer paused, when all peers have stopped;
//! - a second run of the same load differs.
//!
//! ```
//! use weir_mmu::conformance::check;
//!
//! let spfc = weir_mmu::policy::parse_config("spfc", "").unwrap();
//! let summary = check(&*spfc, 0..1, &mut || true).unwrap();
//! assert!(summary.pauses > 0);
//! ```

mod load;
mod parameters;

use std::fmt;
use std::ops::Range;

use weir_units::{Alpha, Bytes, Class, PortId, QueueId, Time};

use crate::policy::{BufferPolicyConfig, PoolLevel, QueueView};
use crate::{Charge, Mmu};
pub use load::{ConformanceLoad, LOSSLESS, PORTS, XON, bounds, charges};
pub use parameters::Bounds;

/// Runs that a policy passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConformanceSummary {
    /// Number of frames that arrived.
    pub frames: u64,
    /// Number of PAUSEs. Few mean that the load proved little.
    pub pauses: u64,
}

/// Invariant that a policy violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConformanceViolation {
    /// Seed of the load.
    pub seed: u64,
    /// Description, a sentence.
    pub message: String,
}

impl fmt::Display for ConformanceViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (load of seed {})", self.message, self.seed)
    }
}

impl std::error::Error for ConformanceViolation {}

/// Number of ticks in which peers send.
pub const TICKS: u64 = 6_000;
/// Interval between checks of all queues, in ticks.
const CHECK_EVERY: u64 = 64;

/// Runs the loads of these seeds, each with frames that are charged by the byte, and with short ones that are charged an mbuf. Stops early,
/// with the runs so far, if `goes_on` returns false; it is called once a tick.
///
/// # Errors
/// The first violation.
pub fn check(
    config: &dyn BufferPolicyConfig,
    seeds: Range<u64>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<ConformanceSummary, ConformanceViolation> {
    let mut all = ConformanceSummary::default();
    for seed in seeds {
        for charge in charges() {
            let run = |goes_on: &mut dyn FnMut() -> bool| {
                run(config, charge, seed, goes_on).map_err(|message| ConformanceViolation { seed, message })
            };
            let Some(first) = run(goes_on)? else { return Ok(all) };
            let Some(second) = run(goes_on)? else { return Ok(all) };
            if first != second {
                let message = "a second run of the same load differs: the policy uses something besides its arguments";
                return Err(ConformanceViolation { seed, message: message.to_owned() });
            }
            let (summary, _) = first;
            all = ConformanceSummary { frames: all.frames + summary.frames, pauses: all.pauses + summary.pauses };
        }
    }
    Ok(all)
}

/// Summary and digest of a run; `None` if it was stopped.
fn run(
    config: &dyn BufferPolicyConfig,
    charge: Charge,
    seed: u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<(ConformanceSummary, u64)>, String> {
    let bounds = bounds();
    let layout = bounds.layout(config).charged_by(charge);
    let policy = bounds.policy(config, &layout, XON.offset).map_err(|error| error.to_string())?;
    let mut load = ConformanceLoad::new(Mmu::new(layout, policy, XON, Alpha::ONE), charge, seed);
    let goes_to_its_end = run_load(&mut load, goes_on)
        .map_err(|message| format!("{message}, {} after the load's begin", load.time().since(Time::ZERO)))?;
    let summary = ConformanceSummary { frames: load.frames(), pauses: load.pauses() };
    Ok(goes_to_its_end.then(|| (summary, load.digest())))
}

/// Runs a load with its checks; false if it was stopped.
fn run_load(load: &mut ConformanceLoad, goes_on: &mut dyn FnMut() -> bool) -> Result<bool, String> {
    for tick in 0..TICKS {
        if !goes_on() {
            return Ok(false);
        }
        load.tick(true);
        lost_nothing(load)?;
        if tick % CHECK_EVERY == 0 {
            accounts(load)?;
            thresholds(load)?;
        }
    }
    // All held bytes leave within their time on the wire, and every peer may send again.
    let ticks_max = load.frames_max() + 100;
    for tick in 0.. {
        if !goes_on() {
            return Ok(false);
        }
        if load.is_idle() {
            break;
        }
        if tick == ticks_max {
            return Err(not_drained(load, ticks_max));
        }
        load.tick(false);
        lost_nothing(load)?;
    }
    accounts(load)?;
    let pools = [load.mmu().headroom_pool_usage(), load.mmu().egress_lossy_pool_usage()];
    if let Some(pool) = pools.into_iter().flatten().find(|pool| pool.used > Bytes::ZERO) {
        return Err(format!("a pool of an empty buffer holds {}", pool.used));
    }
    Ok(true)
}

fn lost_nothing(load: &ConformanceLoad) -> Result<(), String> {
    match (load.lost(), load.held(), load.frames_max()) {
        (0, held, most) if held > most => Err(format!("{held} frames in {most} mbufs")),
        (0, ..) => Ok(()),
        (lost, ..) => {
            let queue = load.lost_by().map_or_else(String::new, |queue| format!(" of the ingress queue of {queue:?}"));
            Err(format!("{lost} lossless frames{queue} were dropped: the headroom did not hold them"))
        }
    }
}

fn not_drained(load: &ConformanceLoad, ticks: u64) -> String {
    let usage = |queue: &QueueId| {
        let usage = load.mmu().ingress_usage(*queue, load.time());
        [usage.private, usage.shared, usage.headroom].map(|bytes| bytes.get()).iter().sum::<u64>()
    };
    let is_off = |queue: &QueueId| load.mmu().bounded_view(*queue, load.time()).off;
    let stuck = all_queues().find(|queue| is_off(queue) || usage(queue) > 0);
    let state = stuck.map_or_else(String::new, |queue| {
        let off = if is_off(&queue) { "is OFF" } else { "is not OFF" };
        format!("; the ingress queue of {queue:?} {off} and holds {} B", usage(&queue))
    });
    format!("not drained {ticks} ticks after the last frame: queues stay OFF, or bytes held{state}")
}

/// Compares the MMU's counts with the frames.
fn accounts(load: &ConformanceLoad) -> Result<(), String> {
    let mmu = load.mmu();
    let queues = all_queues().map(|queue| mmu.ingress_usage(queue, load.time()));
    let (mut held, mut shared) = (0, 0);
    for usage in queues {
        held += [usage.private, usage.shared, usage.headroom].map(|bytes| bytes.get()).iter().sum::<u64>();
        shared += usage.shared.get();
    }
    let egress: u64 = all_queues().map(|queue| mmu.egress_length(queue)).sum();
    let (pool, most) = (mmu.pool_usage(), mmu.layout().charges_max().get());
    if [held, egress] != [load.bytes(); 2] || shared != pool.used.get() || held > most || pool.used > pool.capacity {
        return Err(format!(
            "counts differ: frames {} B, ingress queues {held} B, egress queues {egress} B, of a buffer of {most} B; \
             shared {shared} B, pool {pool:?}",
            load.bytes()
        ));
    }
    Ok(())
}

/// Asks the policy for thresholds of queues as they are, and as they could be.
fn thresholds(load: &ConformanceLoad) -> Result<(), String> {
    let policy = load.mmu().policy();
    let views = all_queues().map(|queue| load.mmu().bounded_view(queue, load.time()));
    for view in views {
        let capacity = view.shared_pool.capacity;
        let bound = |view: &QueueView| match view.lossless {
            true => policy.threshold(view).xoff,
            false => policy.lossy_threshold(view, Alpha::ONE),
        };
        let fills_all = filled_by(&view, capacity);
        let at_full = bound(&fills_all);
        if at_full > capacity {
            let what = if view.lossless { "is not paused: Xoff" } else { "may grow on: its threshold" };
            return Err(format!("{:?} fills the shared segment of {capacity} B and {what} is {at_full} B", view.queue));
        }
        if !policy.has_non_increasing_thresholds() {
            continue;
        }
        let mut before = bound(&view);
        for more in [1, 1_000, capacity / 7, capacity / 2] {
            let fuller = filled_by(&view, (view.shared_pool.used + more).min(capacity));
            let after = bound(&fuller);
            if after > before {
                return Err(format!(
                    "the threshold of {:?} rises from {before} B to {after} B with {more} B more in queue and pool, although \
                     has_non_increasing_thresholds is true",
                    view.queue
                ));
            }
            before = after;
        }
    }
    Ok(())
}

/// View of a queue that grew until the shared segment holds `used` bytes: if that is all of it, with this queue's bytes alone.
fn filled_by(view: &QueueView, used: u64) -> QueueView {
    let QueueView { length, average, shared_pool, egress_lossy_pool, .. } = *view;
    let (more, is_full) = (used.saturating_sub(shared_pool.used), used == shared_pool.capacity);
    let lossy_used = match (view.lossless, is_full) {
        (true, _) => egress_lossy_pool.used,
        (false, true) => egress_lossy_pool.capacity,
        (false, false) => (egress_lossy_pool.used + more).min(egress_lossy_pool.capacity),
    };
    QueueView {
        length: if is_full { length.max(used) } else { length + more },
        average: if is_full { average.max(used) } else { average + more },
        shared_pool: PoolLevel { used, ..shared_pool },
        egress_lossy_pool: PoolLevel { used: lossy_used, ..egress_lossy_pool },
        ..*view
    }
}

fn all_queues() -> impl Iterator<Item = QueueId> {
    (0..PORTS).flat_map(|port| Class::ALL.map(|class| QueueId::new(PortId(port), class)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn headroom_that_a_policy_cuts_is_found() {
        let config = policy::parse_config("dsh", "insurance = false").unwrap();
        let violation = (0..8).find_map(|seed| check(&*config, seed..seed + 1, &mut || true).err());
        let message = violation.unwrap().message;
        let named =
            ["lossless frames of the ingress queue of port ", " class ", " were dropped", "us after the load's begin"];
        assert!(named.iter().all(|part| message.contains(part)), "{message}");
    }

    #[test]
    fn a_stop_ends_it() {
        let config = policy::parse_config("dt", "").unwrap();
        let mut ticks = 0;
        let summary = check(&*config, 0..8, &mut || {
            ticks += 1;
            ticks < 10
        });
        assert_eq!((summary, ticks), (Ok(ConformanceSummary::default()), 10));
    }
}
