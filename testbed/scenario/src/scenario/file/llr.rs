//! `[llr]`.

use weir_reader::{Problem, Table};
use weir_units::{BitRate, Bytes, Span};

use super::keys::llr as keys;
use super::topology::Topology;
use crate::link::LlrPlan;

/// Settings of link layer retry that the file gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct LlrPart {
    outstanding_bytes: Option<Bytes>,
    outstanding_frames: u32,
    replay_timer: Option<Span>,
    replay_count: u32,
    pcs_lost_timeout: Option<Span>,
}

/// Link that retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct LlrLink {
    /// Rates of both directions.
    pub rates: [BitRate; 2],
    pub delay: Span,
    /// Longest frame, without FCS, and bytes on the link beyond it.
    pub frame_bytes_max: u32,
    pub overhead: Bytes,
}

impl LlrLink {
    fn frame(&self) -> Bytes {
        Bytes::new(self.frame_bytes_max.into()) + self.overhead
    }

    /// Returns the longest time from a frame's first byte to its acknowledgement, which waits for its spacing and a frame.
    pub(super) fn acknowledgement_time(&self) -> Span {
        let [one, other] = self.rates;
        let acknowledged = self.frame() * 2 + LlrPlan::MESSAGE_SPACING + LlrPlan::MESSAGE_BYTES;
        self.delay * 2 + one.min(other).time_for(acknowledged)
    }
}

impl LlrPart {
    pub(super) fn read(root: &Table<'_>, topology: &Topology) -> LlrPart {
        let is_used = topology.links.iter().any(|link| link.has_llr) || topology.hosts.iter().any(|host| host.has_llr);
        if root.has("llr") && !is_used && root.doc().sound(&["topology", "links", "hosts"]) {
            let help = "write llr = true in [topology], [[links]] or [[hosts]], or take [llr] out";
            root.doc().note(Problem::new("no link has `llr`", help).with_label("llr", ""));
        }
        let table = root.table("llr", "llr");
        LlrPart {
            outstanding_bytes: table.given(&keys::OUTSTANDING_BYTES),
            outstanding_frames: table.get(&keys::OUTSTANDING_FRAMES),
            replay_timer: table.given(&keys::REPLAY_TIMER),
            replay_count: table.get(&keys::REPLAY_COUNT),
            pcs_lost_timeout: table.given(&keys::PCS_LOST_TIMEOUT),
        }
    }

    /// Returns the settings of a link. Defaults suit full rate: a copy is kept for a frame's own time, a round trip, and an
    /// acknowledgement that waits for its spacing and a frame. The timer is 5 us longer, as in SONiC's sample profiles.
    pub(super) fn plan(&self, link: LlrLink) -> LlrPlan {
        let (round_trip, [one, other]) = (link.acknowledgement_time(), link.rates);
        let full_rate = one.max(other).bytes_in(round_trip) + link.frame();
        let replay_timer = self.replay_timer.unwrap_or(Span::from_micros(5) + round_trip);
        LlrPlan {
            outstanding_bytes: self.outstanding_bytes.unwrap_or(full_rate),
            outstanding_frames: self.outstanding_frames,
            replay_timer,
            replay_count: self.replay_count,
            pcs_lost_timeout: self.pcs_lost_timeout.unwrap_or(replay_timer * 10),
            frame_bytes_max: link.frame_bytes_max,
        }
    }

    /// Whether frames that arrive on the link are acknowledged before the replay timer expires.
    pub(super) fn waits_for(&self, link: LlrLink) -> bool {
        self.replay_timer.is_none_or(|timer| timer >= link.acknowledgement_time())
    }

    /// Whether a replay buffer has room for a frame of this length, without FCS.
    pub(super) fn holds(&self, frame_bytes: u32) -> bool {
        self.outstanding_bytes.is_none_or(|bytes| bytes >= Bytes::new(frame_bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400 Gb/s over 40 m, for which SONiC's sample has 67,760 B and 5.5 us.
    #[test]
    fn defaults_allow_full_rate() {
        let part = LlrPart {
            outstanding_bytes: None,
            outstanding_frames: 133,
            replay_timer: None,
            replay_count: 3,
            pcs_lost_timeout: None,
        };
        let link = LlrLink {
            rates: [BitRate::gbps(400); 2],
            delay: Span::from_nanos(200),
            frame_bytes_max: 9_214,
            overhead: Bytes::new(24),
        };
        let plan = part.plan(link);
        // 400 ns and 20,532 B at 50 B/ns, and a frame.
        assert_eq!(plan.outstanding_bytes.get(), 20_000 + 20_532 + 9_238);
        assert_eq!(plan.replay_timer.as_picos(), 5_400_000 + 410_640);
        assert_eq!(plan.pcs_lost_timeout, plan.replay_timer * 10);
        let small = LlrPart { outstanding_bytes: Some(Bytes::new(9_213)), ..part };
        assert_eq!([9_213, 9_214].map(|bytes| small.holds(bytes)), [true, false]);
        let waits = |nanos| LlrPart { replay_timer: Some(Span::from_nanos(nanos)), ..part }.waits_for(link);
        assert_eq!([810, 811].map(waits), [false, true]);
    }
}
