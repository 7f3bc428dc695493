//! UEC's credit-based flow control against closed forms, to the frame: a host sends over one link to a switch, from which all leaves at once.
//!
//! The credit of a frame is back after r = s + 2 D_prop + e, where s is the frame's time and e that of CF_Update, 8 B. An update that comes
//! too early waits for the spacing g.

use weir_sim::Sim;
use weir_units::{BitRate, Bytes, Span, Time};

use super::checks::{conserves_frames, dropped};
use super::fabric::{CLASS, Fabric, Flow, Joint};

const RATE: BitRate = BitRate::gbps(10);
const DELAY: Span = Span::from_micros(5);
/// Bytes of a frame on the wire, and its cells of 128 B.
const WIRE: u64 = 1_106;
const CELLS: u64 = 9;
/// Bytes on the wire for which the credit of a frame is away, without spacing.
const AWAY: u64 = WIRE + 2 * 6_250 + 8;

/// Starts a link with a limit of this many frames.
fn link(frames: u64, spacing: u64) -> Sim {
    let mut fabric = Fabric::ring(1, RATE, DELAY, "\"none\"");
    fabric.cell_bytes = 128;
    fabric.message = Bytes::mb(500);
    let limit = frames * CELLS * 128;
    let credit = format!(
        "{{ kind = \"uec-cbfc\", limit = \"{limit}B\", cf_min_spacing = \"{spacing}B\", cc_period = \"250ms\" }}"
    );
    fabric.links.clear();
    fabric.hosts = [&credit, "\"none\""].map(|flow_control| (0, Joint::new([0, 0], RATE, DELAY, flow_control))).into();
    fabric.flows = vec![Flow { from: 0, to: 1, start: Time::ZERO, stop: Time::NEVER }];
    let mut sim = fabric.sim();
    sim.run_until(Time::from_nanos(2_000_000));
    sim
}

/// Frames that arrive at the switch in this many byte times of the link.
fn frames_in(sim: &mut Sim, byte_times: u64) -> u64 {
    let count = |sim: &mut Sim| sim.report(0).ports[0].classes[CLASS.index()].rx_frames;
    let before = count(sim);
    sim.run_for(RATE.time_for(Bytes::new(byte_times)));
    conserves_frames(&sim.reports(), "under credit");
    assert_eq!(dropped(&sim.reports()), 0);
    count(sim) - before
}

#[test]
fn a_limit_passes_its_frames_each_round_trip() {
    for frames in 1..=12 {
        assert_eq!(frames_in(&mut link(frames, 800), AWAY * 500), frames * 500, "{frames} frames");
    }
}

/// All frames in use come back before the next update may go.
#[test]
fn a_limit_passes_its_frames_each_spacing_where_that_is_longer() {
    let spacing = 20_000;
    for frames in 1..=(spacing - AWAY) / WIRE + 1 {
        assert_eq!(frames_in(&mut link(frames, spacing), spacing * 500), frames * 500, "{frames} frames");
    }
}

/// CF_Updates are; the CC_Update at the start is a frame.
#[test]
fn freed_cells_are_ordered_sets() {
    let mut sim = link(6, 800);
    let sent = sim.report(0).ports[0].control_tx;
    assert!(sent.ordered_sets > 100, "{sent:?}");
    assert_eq!(sent.messages() - sent.ordered_sets, 1, "{sent:?}");
}

#[test]
fn the_least_limit_for_the_full_rate_is_exact() {
    // Frames come further apart than by the least spacing, so that no update waits.
    for (spacing, wait) in [(800, 0), (6_400, 6_400), (20_000, 20_000)] {
        let least = (AWAY + wait).div_ceil(WIRE);
        let passed = [least - 1, least].map(|frames| frames_in(&mut link(frames, spacing), WIRE * 5_000));
        // The host's own updates, 8 B each 262,144, take less than a frame's time.
        assert!(passed[0] < 4_999 && passed[1] >= 4_999, "{least} frames, spacing {spacing}: {passed:?}");
    }
}
