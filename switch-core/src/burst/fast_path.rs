//! Fast path for bursts of plain frames, which most are. Frames with a cached header take the cached route. Other headers go through the
//! fast parser, with prefetches some frames ahead. A frame that is not plain takes the slow path, and keeps its position among the others.

use std::mem;

use arrayvec::ArrayVec;
use weir_mmu::RouteGroup;
use weir_units::{CLASSES, Class, PortId, QueueId, Time, bits};
use weir_wire::HeaderKey;
use weir_wire::ethernet::Parsed;

use super::exact_match::{ExactMatchCache, QueueRoute};
use super::grouping::{BurstGroup, BurstGroups, group_by_route};
use crate::counters::Counters;
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

/// Leading frames of a burst whose routes are known.
struct CacheHits {
    routes: [QueueRoute; BURST_MAX],
    /// Length of each frame in bytes, without FCS; 0 behind the last frame.
    lengths: [u32; BURST_MAX],
    count: usize,
}

impl Default for CacheHits {
    #[inline(always)]
    fn default() -> CacheHits {
        CacheHits { routes: [QueueRoute::default(); BURST_MAX], lengths: [0; BURST_MAX], count: 0 }
    }
}

impl CacheHits {
    /// Adds leading frames that are cached and not too long, up to `most` frames in total.
    #[inline(always)]
    fn extend<P: Packet>(&mut self, frame_bytes_max: u32, frames: &[P], cache: &ExactMatchCache, most: usize) {
        let (routes, lengths) = (&mut self.routes[self.count..most], &mut self.lengths[self.count..]);
        self.count += find_cached(frame_bytes_max, frames, cache, routes, lengths);
    }

    #[inline(always)]
    fn frames(&self) -> (&[QueueRoute], &[u32]) {
        (&self.routes[..self.count], &self.lengths[..self.count])
    }
}

/// Frames parsed together at the first cache miss; the number doubles with each further one of the burst. With many misses, prefetches run
/// well ahead; with a single one, few frames are parsed in vain.
const PARSE_AHEAD_MIN: usize = 8;

/// Frames and bytes of each class, packed in one number, so that each is added to the counters once.
#[derive(Default)]
struct ClassTotals([u64; CLASSES]);

impl ClassTotals {
    const FRAME: u64 = 1 << 40;

    #[inline(always)]
    fn add(&mut self, class: Class, frame_bytes: u32) {
        self.0[class.index()] += ClassTotals::FRAME | u64::from(frame_bytes);
    }

    /// Returns the classes with frames, with their frames and bytes.
    #[inline(always)]
    fn classes(self) -> impl Iterator<Item = (Class, u64, u64)> {
        let totals = Class::ALL.into_iter().zip(self.0).filter(|(_, totals)| *totals > 0);
        totals.map(|(class, totals)| (class, totals / ClassTotals::FRAME, totals % ClassTotals::FRAME))
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
        let mut found = CacheHits::default();
        if self.dropping.is_empty() {
            cache.set_version(self.shared.fdb.version_at(now), port);
            found.extend(self.shared.frame_bytes_max, burst, cache, BURST_MAX);
            if found.count < burst.len() && burst[found.count].is_control() {
                self.find_around_control::<Sink>(now, port, burst, &mut found, cache, allocator);
            }
        }
        let staged = self.stage_found(port, &found);
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
        found: &mut CacheHits,
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
        let mut found = CacheHits::default();
        found.extend(self.shared.frame_bytes_max, frames, cache, self.request.room());
        self.stage_found(port, &found)
    }

    /// [`Forwarding::stage_cached`] for frames whose routes are found.
    #[inline(always)]
    fn stage_found(&mut self, port: PortId, found: &CacheHits) -> usize {
        let (routes, lengths) = found.frames();
        let Some(first) = routes.first().copied() else { return 0 };
        match routes.iter().fold(0, |differ, route| differ | route.differs_from(first)) {
            0 => self.stage_alike(port, first, lengths),
            differ => self.stage_different(port, found, differ),
        }
    }

    /// [`Forwarding::stage_cached`] for at least one frame, all on the same route.
    #[inline(always)]
    fn stage_alike(&mut self, port: PortId, route: QueueRoute, lengths: &[u32]) -> usize {
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        let (ingress, egress) = (route.ingress(), route.egress());
        if !shared.accepts(egress.port(), ingress.class()) {
            return 0;
        }
        let (length, packets) = (lengths[0], lengths.len());
        let frame_bytes = if are_alike(lengths) {
            let frame_bytes = length * packets as u32;
            request.push_uniform_batch(ingress, egress, packets, shared.charge.frame_charge(length), frame_bytes);
            if counts {
                arrived[ingress.class().index()] +=
                    shared.port(port).receive_accounting().count_of(length) * packets as u32;
            }
            frame_bytes
        } else {
            let (charge, frame_bytes) = (shared.charge, lengths.iter().sum());
            request.push_batch(ingress, egress, frame_bytes, lengths.iter().map(|bytes| charge.frame_charge(*bytes)));
            if counts {
                arrived[ingress.class().index()] += shared.port(port).receive_accounting().count_of_all(lengths);
            }
            frame_bytes
        };
        counters.add_frames(ingress, lengths.len() as u64, u64::from(frame_bytes));
        lengths.len()
    }

    /// [`Forwarding::stage_cached`] for frames whose routes differ in the bits `differ`.
    #[inline(never)]
    fn stage_different(&mut self, port: PortId, found: &CacheHits, differ: u32) -> usize {
        let CacheHits { routes, lengths, count } = found;
        let count = *count;
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        let takes = |route: QueueRoute| shared.accepts(route.egress().port(), route.ingress().class());
        let mut groups = BurstGroups::new();
        if !group_by_route(count, routes, differ, &mut groups) || !groups.iter().all(|group| takes(group.route)) {
            return self.stage_each(port, &routes[..count], &lengths[..count]);
        }
        let length = lengths[0];
        if are_alike(&lengths[..count]) {
            let charge = shared.charge.frame_charge(length);
            let charged = |group: &BurstGroup| group.with_bytes(group.packets * charge, group.packets * length);
            let groups = groups.iter().map(charged).inspect(|group| count_group(counters, group));
            request.push_uniform_groups(count, charge, groups);
        } else {
            let mut charges = [0; BURST_MAX];
            charges
                .iter_mut()
                .zip(&lengths[..count])
                .for_each(|(charge, bytes)| *charge = shared.charge.frame_charge(*bytes));
            // The last group gets the remainder of the sums.
            let mut rest = (charges[..count].iter().sum::<u32>(), lengths[..count].iter().sum::<u32>());
            let last = groups.len() - 1;
            let charged = |(n, group): (usize, &BurstGroup)| {
                let (bytes, frame_bytes) = if n == last { rest } else { sums_of(group, routes, &charges, lengths) };
                rest = (rest.0 - bytes, rest.1 - frame_bytes);
                group.with_bytes(bytes, frame_bytes)
            };
            let groups = groups.iter().enumerate().map(charged).inspect(|group| count_group(counters, group));
            request.push_groups(&charges[..count], groups);
        }
        if counts {
            let state = shared.port(port).receive_accounting();
            for (route, frame_bytes) in routes.iter().zip(lengths).take(count) {
                arrived[route.ingress().class().index()] += state.count_of(*frame_bytes);
            }
        }
        count
    }

    /// [`Forwarding::stage_cached`] for frames on many routes, or on one that is not accepted.
    #[inline(never)]
    fn stage_each(&mut self, port: PortId, routes: &[QueueRoute], lengths: &[u32]) -> usize {
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        let (charge, pairs) = (shared.charge, routes.iter().map(|route| (route.ingress(), route.egress())));
        let takes = |ingress: QueueId, egress: QueueId| shared.accepts(egress.port(), ingress.class());
        let staged = request.push_each(pairs, lengths, lengths.iter().map(|bytes| charge.frame_charge(*bytes)), takes);
        let mut totals = ClassTotals::default();
        for (route, frame_bytes) in routes.iter().zip(lengths).take(staged) {
            totals.add(route.ingress().class(), *frame_bytes);
        }
        for (class, frames, bytes) in totals.classes() {
            counters.add_frames(QueueId::new(port, class), frames, bytes);
        }
        if counts {
            let state = shared.port(port).receive_accounting();
            for (route, frame_bytes) in routes.iter().zip(lengths).take(staged) {
                arrived[route.ingress().class().index()] += state.count_of(*frame_bytes);
            }
        }
        staged
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
        let mut found = CacheHits::default();
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
        self.stage_found(port, &found)
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

/// Number of frames from which a branch-free sum over all frames beats one over the members.
const TOGETHER_MIN: u32 = 14;

/// Returns whether all frames have one length. That is common, and their sum is then a product.
#[inline(always)]
fn are_alike(lengths: &[u32]) -> bool {
    let length = lengths[0];
    lengths.iter().fold(0, |differ, other| differ | (other ^ length)) == 0
}

#[inline(always)]
fn count_group(counters: &mut Counters, RouteGroup { ingress, packets, frame_bytes, .. }: &RouteGroup) {
    counters.add_frames(*ingress, u64::from(*packets), u64::from(*frame_bytes));
}

/// Sums the charges and the lengths of the frames on one route. Both are 0 behind the last frame.
#[inline(always)]
fn sums_of(
    BurstGroup { route, members, packets }: &BurstGroup,
    routes: &[QueueRoute; BURST_MAX],
    charges: &[u32; BURST_MAX],
    lengths: &[u32; BURST_MAX],
) -> (u32, u32) {
    if *packets >= TOGETHER_MIN {
        return sums_of_many(*route, routes, charges, lengths);
    }
    bits(*members).fold((0, 0), |(bytes, frame_bytes), n| (bytes + charges[n], frame_bytes + lengths[n]))
}

/// Sums without a branch, so that the compiler vectorises the loop.
#[inline(never)]
fn sums_of_many(
    route: QueueRoute,
    routes: &[QueueRoute; BURST_MAX],
    charges: &[u32; BURST_MAX],
    lengths: &[u32; BURST_MAX],
) -> (u32, u32) {
    let frames = routes.iter().zip(charges.iter().zip(lengths));
    frames.fold((0, 0), |(bytes, frame_bytes), (other, (charge, length))| {
        let mask = if *other == route { u32::MAX } else { 0 };
        (bytes + (charge & mask), frame_bytes + (length & mask))
    })
}
