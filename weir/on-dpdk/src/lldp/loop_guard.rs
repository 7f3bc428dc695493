//! Loop guard: finds ports that hear each other, over a cable or over other bridges.
//!
//! Each port sends a frame with a fresh random token every second. A frame that returns within two seconds has found a way from its port to
//! another; a second one with another token within [`CONFIRMED_WITHIN`] shows that the way lasts. So no frame raises an alarm that is forged
//! without the token, taken from a capture, or mirrored once.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use weir_units::PortId;
use weir_wire::loop_guard;

/// Loop guard of a switch.
#[derive(Default)]
pub(super) struct LoopGuard {
    /// Key of the tokens, which are hashes of the number of frames sent.
    key: RandomState,
    sent: u64,
    ports: Vec<PortGuard>,
}

#[derive(Clone, Default)]
struct PortGuard {
    /// Instant of the next frame; `None` while the port is closed.
    next: Option<Instant>,
    /// Tokens of the last two frames, unless they have returned.
    tokens: [Option<u64>; 2],
    /// Instant at which a frame last returned.
    heard: Option<Instant>,
}

/// Interval of frames.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time in which a second frame has to return.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

impl LoopGuard {
    pub(super) fn new(ports: usize) -> LoopGuard {
        LoopGuard { ports: vec![PortGuard::default(); ports], ..LoopGuard::default() }
    }

    /// Returns the token of the frame that is due at a port, if one is.
    pub(super) fn due(&mut self, port: usize, now: Instant, is_open: bool) -> Option<u64> {
        let own = &mut self.ports[port];
        if !is_open {
            *own = PortGuard::default();
            return None;
        }
        if own.next.is_some_and(|next| now < next) {
            return None;
        }
        self.sent += 1;
        let token = self.key.hash_one(self.sent);
        (own.next, own.tokens) = (Some(now + INTERVAL), [Some(token), own.tokens[0]]);
        Some(token)
    }

    /// Handles a frame that a port received. Returns the port that sent it if it closes a loop.
    pub(super) fn handle(&mut self, now: Instant, frame: &[u8]) -> Option<PortId> {
        let token = loop_guard::token(frame)?;
        let sender = self.ports.iter().position(|port| port.tokens.contains(&Some(token)))?;
        let port = &mut self.ports[sender];
        // Each frame counts once, in however many copies it returns.
        port.tokens.iter_mut().filter(|own| **own == Some(token)).for_each(|own| *own = None);
        let before = port.heard.replace(now)?;
        (now.saturating_duration_since(before) <= CONFIRMED_WITHIN).then_some(PortId(sender as u16))
    }
}

#[cfg(test)]
mod tests {
    use weir_units::MacAddr;

    use super::*;

    /// Two ports: frames that each sent at the seconds from 0.
    fn guard(seconds: u64) -> (LoopGuard, Instant, [Vec<Vec<u8>>; 2]) {
        let (mut guard, start) = (LoopGuard::new(2), Instant::now());
        let mut sent = [(); 2].map(|()| Vec::new());
        for second in 0..seconds {
            for (port, sent) in sent.iter_mut().enumerate() {
                let token = guard.due(port, start + Duration::from_secs(second), true).unwrap();
                sent.push(loop_guard::encode(loop_guard::FORWARDED, MacAddr::default(), token).to_vec());
            }
        }
        (guard, start + Duration::from_secs(seconds - 1), sent)
    }

    #[test]
    fn a_loop_returns_two_frames() {
        let (mut guard, now, [_, sent]) = guard(2);
        assert_eq!(guard.handle(now, &sent[0]), None, "a frame that was mirrored once");
        assert_eq!(guard.handle(now, &sent[0]), None, "its copies");
        assert_eq!(guard.handle(now, &sent[1]), Some(PortId(1)));
    }

    #[test]
    fn neither_captured_nor_forged_frames_are_returned() {
        let (mut guard, now, sent) = guard(4);
        for captured in sent.iter().flat_map(|sent| &sent[..2]) {
            assert_eq!(guard.handle(now, captured), None, "from a capture");
        }
        for token in [0, 1, 4, u64::MAX] {
            let forged = loop_guard::encode(loop_guard::FORWARDED, MacAddr::default(), token);
            assert_eq!(guard.handle(now, &forged), None);
        }
        assert_eq!(guard.handle(now, &sent[0][2]), None);
        assert_eq!(guard.handle(now + CONFIRMED_WITHIN + INTERVAL, &sent[0][3]), None, "once in a while");
        let tokens = sent.iter().flatten().filter_map(|frame| loop_guard::token(frame));
        assert_eq!(tokens.collect::<std::collections::BTreeSet<_>>().len(), 8);
    }

    #[test]
    fn closed_ports_send_and_receive_nothing() {
        let (mut guard, now, [sent, _]) = guard(2);
        assert_eq!(guard.handle(now, &sent[0]), None);
        assert_eq!(guard.due(0, now, false), None);
        assert_eq!(guard.handle(now, &sent[1]), None);
        assert!(guard.due(0, now, true).is_some() && guard.due(0, now, true).is_none());
    }
}
