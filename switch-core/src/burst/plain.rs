//! Bursts of plain frames: what most frames are is read of the whole burst at a glance, and what each of them will touch is asked
//! for, before the first is forwarded. Every other frame goes the long way, in its place among them.

use arrayvec::ArrayVec;
use weir_mmu::Arrival;
use weir_units::{CLASSES, Class, PortId, QueueId, Time};

use crate::fdb::Destination;
use crate::forwarding::{Forwarding, Onward};
use crate::packet::{BURST_MAX, Burst, Packet, PacketStore};

/// What forwarding goes by, of one frame of a burst.
#[derive(Clone, Copy)]
struct Seen {
    /// Addresses, as numbers.
    destination: u64,
    source: u64,
    frame_bytes: u32,
    class: Class,
    /// Whether the frame is [plain](weir_wire::ethernet::Glance) and not too long. If not, nothing else is known.
    is_plain: bool,
}

impl<P: Packet> Forwarding<P> {
    /// Forwards what a port without clones received, and empties the burst.
    pub(super) fn handle_burst<O: Onward<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        store: &mut impl PacketStore<P>,
        onward: &mut O,
    ) {
        self.take_turn(port);
        let mut seen = ArrayVec::new();
        self.look_at(port, burst, &mut seen);
        let mut row = self.stage_plain(now, port, &seen);
        if row == burst.len() {
            self.admit(now, port, burst, store, onward);
            return self.count_arrived(port);
        }
        let (mut packets, mut rest) = (burst.drain(..), &seen[..]);
        loop {
            self.staged.extend(packets.by_ref().take(row));
            rest = &rest[row..];
            let (Some(packet), false) = (packets.next(), rest.is_empty()) else { break };
            self.handle_packet(now, port, packet, store, onward);
            rest = &rest[1..];
            row = self.stage_plain(now, port, rest);
        }
        drop(packets);
        self.flush(now, port, store, onward);
    }

    /// Looks at all frames, and asks for what is known of their stations.
    #[inline(always)]
    fn look_at(&self, port: PortId, burst: &Burst<P>, seen: &mut ArrayVec<Seen, BURST_MAX>) {
        let shared = &*self.shared;
        let frame_bytes_max = shared.frame_bytes_max;
        seen.extend(burst.iter().map(|packet| {
            let (glance, frame_bytes) = (packet.glance(), packet.frame_bytes());
            shared.fdb.prefetch_address(glance.destination);
            shared.fdb.prefetch_address(glance.source);
            Seen {
                destination: glance.destination,
                source: glance.source,
                frame_bytes,
                class: shared.classifier.class_of_plain(port, &glance),
                is_plain: glance.is_plain & (frame_bytes <= frame_bytes_max),
            }
        }));
    }

    /// Counts the first frames as received, learns their senders, and has them ask to be admitted: as many in a row as are plain
    /// and go to one other port, which takes them. Returns how many; who calls it stages their packets.
    #[inline(always)]
    fn stage_plain(&mut self, now: Time, port: PortId, frames: &[Seen]) -> usize {
        let counts = self.counts(port);
        let Forwarding { shared, dropping, arrived, counters, intake, .. } = self;
        let shared = &**shared;
        if !dropping.is_empty() {
            return 0;
        }
        // Frames and bytes of each class in one number, counted once for all.
        const FRAME: u64 = 1 << 40;
        let mut came = [0u64; CLASSES];
        let mut row = 0;
        // Frames come in trains: what is known of a frame's stations holds for the next one between them.
        let (mut last, mut to) = ((u64::MAX, u64::MAX), port);
        for frame in frames.iter().take(intake.room()) {
            if !frame.is_plain {
                break;
            }
            if (frame.destination, frame.source) != last {
                if shared.learns {
                    shared.fdb.learn_number(frame.source, port, now);
                }
                let Some(Destination::Port(found)) = shared.fdb.lookup_number(frame.destination, now) else { break };
                (last, to) = ((frame.destination, frame.source), found);
            }
            if to == port || !shared.takes(to, frame.class) {
                break;
            }
            came[frame.class.index()] += FRAME | u64::from(frame.frame_bytes);
            if counts {
                arrived[frame.class.index()] += shared.port(port).arrived.count_of(frame.frame_bytes);
            }
            let (ingress, egress) = (QueueId::new(port, frame.class), QueueId::new(to, frame.class));
            intake.push(Arrival { ingress, egress, bytes: shared.charge.of(frame.frame_bytes) });
            row += 1;
        }
        for (class, came) in Class::ALL.into_iter().zip(came).filter(|(_, came)| *came > 0) {
            counters.add_frames(QueueId::new(port, class), came / FRAME, came % FRAME);
        }
        row
    }
}
