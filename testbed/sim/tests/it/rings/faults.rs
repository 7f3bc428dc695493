//! Links that lose, double and reorder flow-control messages, for a while: two switches in a line and an incast, so
//! that nothing waits in a circle.
//!
//! Expected during the faults:
//! - **CBFC**, UEC's as well, loses nothing. A limit is absolute and never goes back, so that a lost message is credit given later, and one
//!   that comes twice or late says nothing new, or under UEC takes credit until the next. Asserted.
//! - **PFC** loses frames: a lost PAUSE is refreshed after half of its time, 1.7 ms, while headroom is for a feedback
//!   delay. A lost RESUME costs time alone.
//! - **GFC** may lose frames. A lost message leaves the sender at a rate that was right before, until the next one: a change of
//!   stage or the refresh, or T later. τ (or T) is as much longer as messages are lost in a row, for which no threshold is made. A
//!   stage that comes late is taken for the last word, too.
//!
//! What must hold of all, once messages come again: nothing more is lost, no queue is stuck, the way out is full, and at the end
//! all is given back.

use weir_flowctl::cbfc::BLOCK;
use weir_scenario::link::{FaultPlan, ReorderDelay};
use weir_sim::Sim;
use weir_units::{BitRate, Bytes, Span, Time};

use super::checks::{conserves_frames, dropped, gave_all_back, is_at_rest};
use super::fabric::{CLASS, Fabric, Flow, Joint};

const RATE: BitRate = BitRate::gbps(10);
const DELAY: Span = Span::from_micros(5);
const B_M: Bytes = Bytes::kb(300);
/// Faults begin and end, and so do the flows.
const FROM: Time = Time::from_nanos(2_000_000);
const UNTIL: Time = Time::from_nanos(6_000_000);
/// The flow over the host's own switch fills the way out; the two over the link join it while messages are lost.
const STARTS: [Time; 3] = [Time::from_nanos(2_300_000), Time::from_nanos(3_100_000), Time::ZERO];
/// A PAUSE of 3.4 ms may be the last that was heard, with its RESUME lost.
const SETTLED: Time = Time::from_nanos(11_000_000);
const STOP: Time = Time::from_nanos(14_000_000);

/// H1 and H2 at S1, H3 and H4 at S2: all send to H4, two of them over the link.
fn line(flow_control: &str, ppm: [u32; 3], seed: u64) -> Fabric {
    let mut fabric = Fabric::ring(2, RATE, DELAY, flow_control);
    fabric.links.truncate(1);
    fabric.message = Bytes::kb(32);
    fabric.hosts = [0, 0, 1, 1].map(|at| (at, Joint::new([at, at], RATE, DELAY, flow_control))).into();
    (fabric.threshold, fabric.headroom) = (B_M, Bytes::kb(20));
    fabric.flows = (0..3).map(|from| Flow { from, to: 3, start: STARTS[from], stop: STOP }).collect();
    let [loss_ppm, duplication_ppm, reordering_ppm] = ppm;
    let joints = fabric.hosts.iter_mut().map(|(_, joint)| joint).chain(&mut fabric.links);
    for (joint, n) in joints.zip(0..) {
        joint.faults = [0, 1].map(|lane| FaultPlan {
            loss_ppm,
            duplication_ppm,
            reordering_ppm,
            reorder_delay: ReorderDelay::For(Span::from_micros(70)),
            from: FROM,
            until: UNTIL,
            seed: seed * 100 + n * 2 + lane,
            ..FaultPlan::default()
        });
    }
    fabric
}

/// What H4 has got, in frames.
fn arrived(sim: &Sim) -> u64 {
    sim.host(3).stats(sim.now()).receivers.iter().map(|end| end.frames).sum()
}

fn lost(sim: &mut Sim) -> u64 {
    let reports = sim.reports();
    conserves_frames(&reports, "while messages are lost");
    dropped(&reports)
}

/// Frames that arrive from now until then, a millisecond.
fn a_millisecond_before(sim: &mut Sim, end: Time) -> u64 {
    sim.run_until(end.saturating_sub(Span::from_millis(1)));
    let before = arrived(sim);
    sim.run_until(end);
    arrived(sim) - before
}

#[test]
fn flow_control_recovers_from_lost_doubled_and_reordered_messages() {
    let kinds = [
        ("PFC", "\"pfc\""),
        ("GFC by stages", "{ kind = \"gfc-buffer\", b_m = \"300KB\" }"),
        ("GFC by time", "{ kind = \"gfc-time\", b_m = \"300KB\" }"),
        ("CBFC", "{ kind = \"cbfc\", buffer = \"300KB\" }"),
        ("UEC CBFC", "{ kind = \"uec-cbfc\", limit = \"300KB\" }"),
    ];
    for (name, flow_control) in kinds {
        for (seed, ppm) in [[300_000, 0, 0], [0, 300_000, 0], [0, 0, 300_000], [300_000; 3]].into_iter().enumerate() {
            let context = format!("{name}, lost, doubled, reordered: {ppm:?} ppm");
            let mut fabric = line(flow_control, ppm, seed as u64);
            let has_credit = name.ends_with("CBFC");
            fabric.cell_bytes = if name == "UEC CBFC" { 128 } else { 1 };
            let mut sim = fabric.sim();
            let before = a_millisecond_before(&mut sim, FROM);
            assert_eq!(lost(&mut sim), 0, "{context}: lost before any message was");
            sim.run_until(UNTIL);
            let (lost_meanwhile, faults) = (lost(&mut sim), sim.fault_counters());
            assert!(faults.lost + faults.duplicated + faults.reordered > 0, "{context}: {faults:?}");
            // Doubled messages alone lose no frames under any flow control; CBFC loses none under any of these faults.
            if has_credit || (ppm[0], ppm[2]) == (0, 0) {
                assert_eq!(lost_meanwhile, 0, "{context}: lost frames");
            }
            // What was let through too much may still be on its way.
            sim.run_for(Span::from_millis(2));
            let lost_in_all = lost(&mut sim);
            let after = a_millisecond_before(&mut sim, SETTLED);
            assert!(after.abs_diff(before) <= 2, "{context}: {before} frames a millisecond before, {after} after");
            println!("{context}: lost {lost_meanwhile} + {}, {faults:?}", lost_in_all - lost_meanwhile);
            sim.run_until(STOP);
            while !is_at_rest(&mut sim) && sim.now() < STOP + Span::from_millis(20) {
                sim.run_for(Span::from_micros(100));
            }
            assert_eq!(lost(&mut sim), lost_in_all, "{context}: lost after all messages came again");
            let left: u64 = sim.reports().iter().map(|report| report.conservation.held()).sum();
            assert_eq!(left, 0, "{context}: frames are stuck");
            if lost_in_all == 0 {
                assert!(is_at_rest(&mut sim), "{context}: not at rest");
                gave_all_back(&mut sim, &context);
            }
            if has_credit {
                credit_is_whole(&mut sim, &fabric, &context);
            }
        }
    }
}

/// Each sender's credit is the whole buffer that it is for, and no more.
fn credit_is_whole(sim: &mut Sim, fabric: &Fabric, context: &str) {
    sim.run_for(Span::from_millis(1));
    let block = BLOCK.get().max(u64::from(fabric.cell_bytes));
    let blocks = B_M.get() / block;
    let without_fcs = |blocks: u64| (blocks * block - 4) as u32;
    for switch in 0..fabric.switches {
        for (port, state) in sim.shared(switch).ports().iter().enumerate() {
            let regulator = &state.regulator;
            let (whole, more) = (
                regulator.has_credit(CLASS, without_fcs(blocks)),
                regulator.has_credit(CLASS, without_fcs(blocks + 1)),
            );
            assert_eq!((whole, more), (true, false), "{context}: S{}.p{port}", switch + 1);
        }
    }
}
