//! Fast path for bursts of plain frames, which most are. Frames with a cached header take the [cached route](super::exact_match). Other
//! headers go through the fast parser, with prefetches some frames ahead. A frame that is not plain takes the slow path, and keeps its position among the others.

use std::mem;

use arrayvec::ArrayVec;
use weir_units::{Class, PortId, QueueId, Time};
use weir_wire::HeaderKey;
use weir_wire::ethernet::Parsed;

use super::exact_match::{ExactMatchCache, QueueRoute};
use super::grouping::FrameRoutes;
use crate::fdb::Destination;
use crate::forwarding::{AdmittedSink, Forwarding};
use crate::packet::{BURST_MAX, Burst, Packet, PacketAllocator};

/// Header fields that forwarding needs of one frame of a burst.
#[derive(Clone, Copy)]
struct HeaderFields {
    /// Addresses, as numbers.
    destination: u64,
    source: u64,
    frame_bytes: u32,
    class: Class,
    /// Whether the frame is [plain](weir_wire::ethernet::FastHeaders) and not too long. If not, the other fields are meaningless.
    is_plain: bool,
    /// Cache key of the frame.
    key: Option<HeaderKey>,
}

impl FrameRoutes {
    /// Adds leading frames that are cached and not too long, up to `most` frames in total.
    #[inline(always)]
    fn extend<P: Packet>(&mut self, frame_bytes_max: u32, frames: &[P], cache: &ExactMatchCache, most: usize) {
        let (routes, lengths) = (&mut self.routes[self.count..most], &mut self.lengths[self.count..]);
        self.count += find_cached(frame_bytes_max, frames, cache, routes, lengths);
    }
}

/// Frames parsed together at the first cache miss; the number doubles with each further one of the burst. With many misses, prefetches run
/// well ahead; with a single one, few frames are parsed in vain.
const PARSE_AHEAD_MIN: usize = 8;

impl<P: Packet> Forwarding<P> {
    /// Forwards the frames received by a port without clones, and empties the burst.
    #[inline]
    pub(super) fn handle_burst<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        cache: &mut ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        self.set_current_port(port);
        let mut found = FrameRoutes::default();
        if self.dropping.is_empty() {
            cache.set_version(self.shared.fdb.version_at(now), port);
            found.extend(self.shared.frame_bytes_max, burst, cache, BURST_MAX);
            if found.count < burst.len() && burst[found.count].is_control() {
                self.find_around_control::<Sink>(now, port, burst, &mut found, cache, allocator);
            }
        }
        let staged = self.stage_frames(port, &found);
        if staged < burst.len() {
            let mut packets = mem::take(burst).into_iter();
            self.staged.extend(packets.by_ref().take(staged));
            return self.handle_mixed(now, port, &mut packets, cache, allocator, sink);
        }
        if !burst.is_empty() {
            self.admit(now, port, burst, allocator, sink);
        }
        self.count_arrived(port);
    }

    /// Takes control frames out of a burst. The next frame behind the `found` ones is a control frame. Frames before and behind the control
    /// frames are then staged and admitted together.
    #[inline(never)]
    fn find_around_control<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        found: &mut FrameRoutes,
        cache: &ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        let frame_bytes_max = self.shared.frame_bytes_max;
        while found.count < burst.len() && burst[found.count].is_control() {
            let frame = burst.remove(found.count);
            if let Parsed::Control(control) = frame.parse() {
                // The control frame's place is behind the found data frames, which are not counted yet.
                self.handle_control::<Sink>(now, port, &control, |class, arrived| {
                    let (routes, lengths) = found.frames();
                    let of_class = routes.iter().zip(lengths).filter(|(route, _)| route.ingress().class() == class);
                    of_class.map(|(_, frame_bytes)| arrived.count_of(*frame_bytes)).sum()
                });
            }
            allocator.recycle(frame);
            found.extend(frame_bytes_max, &burst[found.count..], cache, BURST_MAX);
        }
    }

    /// Forwards the rest of a burst, whose first frame could not be staged from the cache. Earlier frames are staged already.
    #[inline(never)]
    fn handle_mixed<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        packets: &mut arrayvec::IntoIter<P, BURST_MAX>,
        cache: &mut ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        let mut parse_ahead = PARSE_AHEAD_MIN;
        while packets.len() > 0 {
            let mut parsed = ArrayVec::new();
            self.parse_ahead(port, &packets.as_slice()[..parse_ahead.min(packets.len())], &mut parsed);
            parse_ahead *= 2;
            let mut rest = &parsed[..];
            loop {
                let staged = self.stage_plain(now, port, rest, cache);
                self.staged.extend(packets.by_ref().take(staged));
                let Some((_, behind)) = rest[staged..].split_first() else { break };
                let Some(packet) = packets.next() else { break };
                self.handle_packet(now, port, packet, allocator, sink);
                rest = behind;
            }
            let staged = self.stage_cached(now, port, packets.as_slice(), cache);
            self.staged.extend(packets.by_ref().take(staged));
        }
        self.flush(now, port, allocator, sink);
    }

    /// Counts the leading frames as received, and stages their requests: those cached, whose egress port accepts them. Returns their
    /// number; the caller stages the packets.
    #[inline(always)]
    fn stage_cached(&mut self, now: Time, port: PortId, frames: &[P], cache: &mut ExactMatchCache) -> usize {
        if !self.dropping.is_empty() {
            return 0;
        }
        cache.set_version(self.shared.fdb.version_at(now), port);
        let mut found = FrameRoutes::default();
        found.extend(self.shared.frame_bytes_max, frames, cache, self.request.room());
        self.stage_frames(port, &found)
    }

    /// Parses frames, and prefetches the forwarding entries of their stations.
    #[inline(always)]
    fn parse_ahead(&self, port: PortId, frames: &[P], parsed: &mut ArrayVec<HeaderFields, BURST_MAX>) {
        let shared = &*self.shared;
        let frame_bytes_max = shared.frame_bytes_max;
        parsed.extend(frames.iter().map(|packet| {
            let (headers, frame_bytes) = (packet.parse_fast(), packet.frame_bytes());
            shared.fdb.prefetch_address(headers.destination);
            shared.fdb.prefetch_address(headers.source);
            HeaderFields {
                destination: headers.destination,
                source: headers.source,
                frame_bytes,
                class: shared.classifier.class_of_plain(port, &headers),
                is_plain: headers.is_plain & (frame_bytes <= frame_bytes_max),
                key: packet.header_key(),
            }
        }));
    }

    /// Looks up the leading frames, learns their source addresses, caches their routes, and [stages](Forwarding::stage_cached) them: those
    /// that are plain and go to a single other port, which accepts them. Returns their number; the caller stages the packets.
    #[inline(always)]
    fn stage_plain(&mut self, now: Time, port: PortId, frames: &[HeaderFields], cache: &mut ExactMatchCache) -> usize {
        if !self.dropping.is_empty() {
            return 0;
        }
        let shared = &*self.shared;
        // As of now: if one of these frames, or another lcore, changes the table, the cached routes are soon outdated.
        cache.set_version(shared.fdb.version_at(now), port);
        let mut found = FrameRoutes::default();
        let places = found.routes.iter_mut().zip(&mut found.lengths).take(self.request.room());
        for (frame, (to_route, to_length)) in frames.iter().zip(places) {
            if !frame.is_plain {
                break;
            }
            if shared.learns {
                shared.fdb.learn_number(frame.source, port, now);
            }
            let Some(Destination::Port(to)) = shared.fdb.lookup_number(frame.destination, now) else { break };
            if to == port || !shared.accepts(to, frame.class) {
                break;
            }
            let route = QueueRoute::new(QueueId::new(port, frame.class), QueueId::new(to, frame.class));
            if let Some(key) = frame.key {
                cache.insert(key, route);
            }
            (*to_route, *to_length) = (route, frame.frame_bytes);
            found.count += 1;
        }
        self.stage_frames(port, &found)
    }
}

/// Finds routes and lengths of the leading frames that are cached and not too long, up to the length of `routes`. Returns their number.
#[inline(never)]
fn find_cached<P: Packet>(
    frame_bytes_max: u32,
    frames: &[P],
    cache: &ExactMatchCache,
    routes: &mut [QueueRoute],
    lengths: &mut [u32],
) -> usize {
    let mut found = 0;
    for (frame, (to_route, to_length)) in frames.iter().zip(routes.iter_mut().zip(lengths)) {
        let Some(route) = frame.header_key().and_then(|key| cache.find(key)) else { break };
        let frame_bytes = frame.frame_bytes();
        if frame_bytes > frame_bytes_max {
            break;
        }
        (*to_route, *to_length) = (route, frame_bytes);
        found += 1;
    }
    found
}
