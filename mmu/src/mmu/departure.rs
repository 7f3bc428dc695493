//! Departures, and the sweep that looks again at what is OFF.

use weir_units::{Class, PortId, QueueId, Time};

use super::{Departure, Mmu};
use crate::levels::{Departed, Levels};
use crate::low_pass::whole_bytes;
use crate::policy;

impl Mmu {
    /// Returns what sent packets were charged. Neighbours of the same queues cost one update each.
    ///
    /// First all of them leave, then the OFF queues among theirs are looked at under the thresholds that this makes.
    pub fn release(&self, now: Time, departures: &[Departure]) {
        let mut left = Left::default();
        let mut any_off = false;
        for run in runs(departures) {
            any_off |= self.release_run(now, run, &mut left);
        }
        self.shared.give_back(left.shared);
        if let Some(pool) = &self.headroom {
            pool.give_back(left.headroom);
        }
        if let Some(pool) = &self.egress_lossy {
            pool.give_back(left.lossy);
        }
        if any_off {
            for run in runs(departures) {
                let port = run[0].ingress.port();
                self.reconsider_queue(run[0].ingress, now);
                self.reconsider_port(port);
            }
        }
    }

    /// Takes neighbours out of their queues; returns whether their ingress queue, or its port, is OFF.
    fn release_run(&self, now: Time, run: &[Departure], left: &mut Left) -> bool {
        let (ingress, egress) = (run[0].ingress, run[0].egress);
        let bytes = run.iter().map(|departure| departure.bytes).sum();
        let queue = &*self.ingress[ingress.index()];
        let lossless = queue.limits.lossless;
        let average_before = match self.rules.low_pass {
            Some(_) if lossless => queue.average.load(),
            _ => 0,
        };
        let (mut average, mut departed) = (average_before, Departed::default());
        let change = queue.levels.update(|levels| {
            let mut after = levels;
            average = average_before;
            match self.rules.low_pass {
                Some(filter) if lossless => {
                    departed = Departed::default();
                    for departure in run {
                        let part = after.depart(departure.bytes);
                        departed.headroom += part.headroom;
                        departed.shared += part.shared;
                        departed.private += part.private;
                        average = filter.step(average, u64::from(after.shared));
                    }
                }
                _ => departed = after.depart(bytes),
            }
            after
        });
        queue.take_private(departed.private);
        left.shared += u64::from(departed.shared);
        left.headroom += u64::from(departed.headroom);
        let egress_queue = &*self.egress[egress.index()];
        let length = egress_queue.remove(u64::from(bytes));
        let mut off = change.after.off;
        let view = if lossless {
            if self.rules.low_pass.is_some() {
                queue.average.advance(average_before, average);
            }
            off |= self.rules.port_xon_offset.is_some() && self.release_port(ingress.port(), departed);
            let mut view = self.ingress_view(ingress, change.after, self.shared.level(), now);
            if self.rules.low_pass.is_some() {
                view.average = whole_bytes(average);
            }
            view
        } else {
            left.lossy += u64::from(departed.shared);
            if let Some(filter) = self.rules.low_pass {
                let before = egress_queue.average.load();
                let step = |(average, length): (u64, u64), departure: &Departure| {
                    let length = length - u64::from(departure.bytes);
                    (filter.step(average, length), length)
                };
                let (average, _) = run.iter().fold((before, length + u64::from(bytes)), step);
                egress_queue.average.advance(before, average);
            }
            self.egress_view(egress, length, self.shared.level(), now)
        };
        let departed = policy::Departed { ingress, egress, bytes: u64::from(bytes) };
        self.policy.released(&departed, &view);
        off
    }

    /// Takes what left a queue out of its port; returns whether the port is OFF.
    fn release_port(&self, port: PortId, departed: Departed) -> bool {
        let change = self.ports[port.index()].levels.update(|levels| Levels {
            shared: levels.shared - departed.shared,
            headroom: levels.headroom - departed.headroom,
            ..levels
        });
        change.after.off
    }

    /// Looks again at OFF queues of `port` (those in `classes`): T moves when other queues move, and a queue that
    /// is OFF and empty gets no event of its own.
    pub fn reconsider(&self, port: PortId, classes: u8, now: Time) {
        for class in Class::in_mask(classes) {
            self.reconsider_queue(QueueId::new(port, class), now);
        }
        self.reconsider_port(port);
    }

    fn reconsider_queue(&self, id: QueueId, now: Time) {
        let queue = &*self.ingress[id.index()];
        if !queue.levels.load().off {
            return;
        }
        let change = queue.levels.update(|levels| {
            if !levels.off {
                return levels;
            }
            let view = self.ingress_view(id, levels, self.shared.level(), now);
            Levels { off: !levels.resumes(self.policy.threshold(&view).xoff, self.rules.xon_offset), ..levels }
        });
        if change.went_on() {
            self.note_turn(id, false);
        }
    }

    /// Looks again at a port that is OFF as a whole.
    fn reconsider_port(&self, id: PortId) {
        let Some(xon_offset) = self.rules.port_xon_offset else { return };
        let port = &*self.ports[id.index()];
        if !port.levels.load().off {
            return;
        }
        let change = port.levels.update(|levels| {
            let threshold = self.policy.port_threshold(id, self.shared.level());
            Levels { off: levels.off && !levels.resumes(threshold, xon_offset), ..levels }
        });
        if change.went_on() {
            port.changed.mark(port.lossless);
        }
    }
}

/// Bytes that a burst takes out of the pools.
#[derive(Default)]
struct Left {
    shared: u64,
    headroom: u64,
    lossy: u64,
}

/// Neighbours of the same two queues.
fn runs(departures: &[Departure]) -> impl Iterator<Item = &[Departure]> {
    departures.chunk_by(|one, next| one.ingress == next.ingress && one.egress == next.egress)
}
