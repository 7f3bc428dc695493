//! Fast path for bursts of plain frames, which most are. Frames with a cached header take the [cached route](super::exact_match). The other
//! headers of the burst go through the fast parser together, which prefetches their stations, and are then looked up in order. A frame that
//! is not plain takes the slow path, and keeps its position among the others.

use std::mem;

use arrayvec::ArrayVec;
use weir_units::{PortId, QueueId, Time, bits};
use weir_wire::ethernet::Parsed;

use super::exact_match::{ExactMatchCache, QueueRoute};
use super::grouping::FrameRoutes;
use crate::classify::FrameClass;
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
    class: FrameClass,
    /// Whether the frame is [plain](weir_wire::ethernet::FastHeaders) and not too long. If not, the other fields are meaningless.
    is_plain: bool,
}

/// Frames of a burst without a route.
#[derive(Default)]
struct UnknownRoutes {
    /// Bit mask of the frames.
    frames: u64,
    /// Header fields of the frames, in order, and of earlier ones.
    headers: ArrayVec<HeaderFields, BURST_MAX>,
    /// Number of the earlier ones.
    earlier: usize,
    /// Whether all frames are without one, since the forwarding table changed.
    are_all: bool,
}

impl UnknownRoutes {
    /// Removes the first frame.
    fn pop(&mut self) {
        self.frames &= self.frames - 1;
        self.earlier += 1;
    }
}

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
        if !self.dropping.is_empty() || self.shared.vlans.is_some() {
            mem::take(burst).into_iter().for_each(|packet| self.handle_packet(now, port, packet, allocator, sink));
            return self.flush(now, port, allocator, sink);
        }
        cache.set_version(self.shared.fdb.version_at(now), port);
        let mut found = FrameRoutes { count: burst.len(), ..FrameRoutes::default() };
        let unknown = find_cached(self.shared.frame_bytes_max, burst, cache, &mut found);
        if unknown != 0 {
            return self.handle_unknown(now, port, burst, &mut found, unknown, cache, allocator, sink);
        }
        let staged = self.stage_frames(port, &found);
        if staged < burst.len() {
            let mut unknown = UnknownRoutes::default();
            return self.handle_rest(now, port, burst, &mut found, staged, &mut unknown, cache, allocator, sink);
        }
        if !burst.is_empty() {
            self.admit(now, port, burst, allocator, sink);
        }
        self.count_arrived(port);
    }

    /// Forwards a burst with `unknown`, a bit mask of the frames that are not cached.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `handle_burst`, and what it found")]
    fn handle_unknown<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        found: &mut FrameRoutes,
        unknown: u64,
        cache: &mut ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        let mut unknown = UnknownRoutes { frames: unknown, ..UnknownRoutes::default() };
        self.parse_unknown(port, burst, &mut unknown);
        self.find_unknown::<Sink>(now, port, burst, found, &mut unknown, cache, allocator);
        let staged = self.stage_frames(port, found);
        if staged < burst.len() {
            return self.handle_rest(now, port, burst, found, staged, &mut unknown, cache, allocator, sink);
        }
        if !burst.is_empty() {
            self.admit(now, port, burst, allocator, sink);
        }
        self.count_arrived(port);
    }

    /// Forwards a burst whose first `staged` frames are staged, and the next one takes the slow path.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `handle_burst`, and what it found")]
    fn handle_rest<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        found: &mut FrameRoutes,
        mut staged: usize,
        unknown: &mut UnknownRoutes,
        cache: &mut ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
        sink: &mut Sink,
    ) {
        loop {
            self.staged.extend(burst.drain(..staged));
            let Some(packet) = burst.pop_at(0) else { break };
            self.handle_packet(now, port, packet, allocator, sink);
            if unknown.frames >> staged & 1 != 0 {
                unknown.pop();
            }
            found.remove_front(staged + 1);
            unknown.frames = unknown.frames.checked_shr(staged as u32 + 1).unwrap_or(0);
            self.find_unknown::<Sink>(now, port, burst, found, unknown, cache, allocator);
            let (count, room) = (found.count, self.request.room());
            found.count = count.min(room);
            staged = self.stage_frames(port, found);
            if staged == room && room < count {
                // Frames that were flooded filled the request. It is admitted before the next frame, as on the slow path.
                self.staged.extend(burst.drain(..staged));
                self.flush(now, port, allocator, sink);
                found.remove_front(staged);
                found.count = count - staged;
                unknown.frames = unknown.frames.checked_shr(staged as u32).unwrap_or(0);
                staged = self.stage_frames(port, found);
            }
        }
        self.flush(now, port, allocator, sink);
    }

    /// Parses the frames without a route, and prefetches the forwarding entries of their stations.
    #[inline(always)]
    fn parse_unknown(&self, port: PortId, burst: &[P], unknown: &mut UnknownRoutes) {
        let shared = &*self.shared;
        let frame_bytes_max = shared.frame_bytes_max;
        unknown.earlier = 0;
        unknown.headers.clear();
        unknown.headers.extend(bits(unknown.frames).map(|n| {
            let packet = &burst[n];
            let (headers, frame_bytes) = (packet.parse_fast(), packet.frame_bytes());
            shared.fdb.prefetch_address(headers.destination);
            shared.fdb.prefetch_address(headers.source);
            HeaderFields {
                destination: headers.destination,
                source: headers.source,
                frame_bytes,
                class: shared.classifier.class_of_plain(port, &headers),
                is_plain: headers.is_plain & (frame_bytes <= frame_bytes_max),
            }
        }));
    }

    /// Finds the routes of frames that are not cached, in order, up to one that takes the slow path. Obeys control frames on the way, and
    /// removes them from the burst. Counts the leading frames with routes in `found`.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `handle_burst`, and what it found")]
    fn find_unknown<Sink: AdmittedSink<P>>(
        &mut self,
        now: Time,
        port: PortId,
        burst: &mut Burst<P>,
        found: &mut FrameRoutes,
        unknown: &mut UnknownRoutes,
        cache: &mut ExactMatchCache,
        allocator: &mut impl PacketAllocator<P>,
    ) {
        // The first frame whose route may be outdated.
        let mut rest = 0;
        loop {
            if !unknown.are_all && !cache.is_current(self.shared.fdb.version_at(now)) {
                // A frame of this burst, or another lcore, changed the table: no later frame counts as cached.
                unknown.frames = u64::MAX.checked_shr((BURST_MAX - burst.len()) as u32).unwrap_or(0)
                    & u64::MAX.checked_shl(rest as u32).unwrap_or(0);
                self.parse_unknown(port, burst, unknown);
                unknown.are_all = true;
            }
            if unknown.frames == 0 {
                found.count = burst.len();
                return;
            }
            let n = unknown.frames.trailing_zeros() as usize;
            if let Some(route) = self.find_route(now, port, &burst[n], &unknown.headers[unknown.earlier], cache) {
                (found.routes[n], found.lengths[n]) = (route, unknown.headers[unknown.earlier].frame_bytes);
                unknown.pop();
                rest = n + 1;
                continue;
            }
            if !burst[n].is_control() {
                found.count = n;
                return;
            }
            let frame = burst.remove(n);
            if let Parsed::Control(control) = frame.parse() {
                // The control frame's place is behind the frames with routes, which are not counted yet.
                self.handle_control::<Sink>(now, port, &control, |class, arrived| {
                    let of_class = (0..n).filter(|frame| found.routes[*frame].ingress().class() == class);
                    of_class.map(|frame| arrived.count_of(found.lengths[frame])).sum()
                });
            }
            allocator.recycle(frame);
            found.remove(n);
            unknown.pop();
            // No earlier frame is left.
            unknown.frames >>= 1;
            rest = n;
        }
    }

    /// Learns a frame's source address, looks its destination up, and caches the route; `None` for a frame that takes the slow path.
    #[inline(always)]
    fn find_route(
        &self,
        now: Time,
        port: PortId,
        packet: &P,
        frame: &HeaderFields,
        cache: &mut ExactMatchCache,
    ) -> Option<QueueRoute> {
        if !frame.is_plain {
            return None;
        }
        let shared = &*self.shared;
        let is_known = shared.learns && shared.fdb.learn_number(frame.source, port, now);
        let Some(Destination::Port(to)) = shared.fdb.lookup_number(frame.destination, now) else { return None };
        if to == port {
            return None;
        }
        let FrameClass { group, queue } = frame.class;
        let route = QueueRoute::new(QueueId::new(port, group), QueueId::new(to, queue));
        // A station's first frame alone leaves the cache to others.
        if is_known
            && let Some(key) = packet.header_key()
            && !cache.contains(key)
            && shared.fdb.mark_cached((frame.source, port), (frame.destination, to))
            && cache.is_current(shared.fdb.version_at(now))
        {
            cache.insert(key, route);
        }
        Some(route)
    }
}

/// Finds the routes of cached frames that are not too long, and the lengths of all. Returns a bit mask of the other frames.
#[inline(never)]
fn find_cached<P: Packet>(frame_bytes_max: u32, frames: &[P], cache: &ExactMatchCache, found: &mut FrameRoutes) -> u64 {
    let (mut unknown, mut longest) = (0, 0);
    let places = found.routes.iter_mut().zip(&mut found.lengths);
    for (n, (frame, (to_route, to_length))) in frames.iter().zip(places).enumerate() {
        *to_length = frame.frame_bytes();
        longest = longest.max(*to_length);
        let Some(key) = frame.header_key() else {
            unknown |= 1 << n;
            continue;
        };
        let (route, is_hit) = cache.first(key);
        *to_route = route;
        // No branch: in a burst with some unknown it would be mispredicted.
        unknown |= u64::from(!is_hit) << n;
    }
    if unknown == 0 && longest <= frame_bytes_max {
        return 0;
    }
    let too_long =
        if longest <= frame_bytes_max { 0 } else { too_long(frame_bytes_max, &found.lengths[..frames.len()]) };
    find_second(frames, cache, found, unknown & !too_long) | too_long
}

/// Continues [`find_cached`] for the frames whose routes are not the first of their sets. Returns those that are not cached.
#[inline(never)]
fn find_second<P: Packet>(frames: &[P], cache: &ExactMatchCache, found: &mut FrameRoutes, unknown: u64) -> u64 {
    bits(unknown).fold(unknown, |unknown, n| {
        let cached = frames[n].header_key().and_then(|key| cache.second(key));
        cached.map_or(unknown, |route| {
            found.routes[n] = route;
            unknown & !(1 << n)
        })
    })
}

/// Returns a bit mask of the frames with more than this length.
#[cold]
fn too_long(frame_bytes_max: u32, lengths: &[u32]) -> u64 {
    let too_long = lengths.iter().enumerate().filter(|(_, length)| **length > frame_bytes_max);
    too_long.fold(0, |all, (n, _)| all | 1 << n)
}
