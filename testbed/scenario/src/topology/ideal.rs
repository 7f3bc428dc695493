//! Ideal completion time of a message: that in an otherwise empty fabric.
//!
//! Switches store and forward: a frame has arrived with its last byte, takes no time to be switched, and then its time on the next link.
//! With t(j, i) the time of frame j on link i and d(i) the link's propagation delay, frame j has left link i's sender at
//!
//! D(j, i) = max(D(j, i-1) + d(i-1), D(j-1, i)) + t(j, i).
//!
//! Times are rounded up to a picosecond per frame and link, as [`BitRate::time_for`] does: exact at usual Ethernet rates. They can be
//! [cut to whole nanoseconds](SerialisationRounding) instead.

use weir_nic::host::FrameSizes;
use weir_units::{BitRate, Bytes, FCS_BYTES, SerialisationRounding, Span, WIRE_OVERHEAD_BYTES};

use super::LinkSpec;

/// Links of a path from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDelay {
    /// Links in order, the hosts' included.
    pub hops: Vec<LinkSpec>,
}

/// Framing of messages: frame sizes and header bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a full frame, in bytes; not 0.
    pub payload: u32,
    /// Bytes of a frame on a link besides its payload: headers, and those of FCS, preamble and gap that count.
    pub header: u32,
    /// Further bytes of a message's first frame.
    pub first_header: u32,
    /// Payload is padded to a multiple of this; 1 for none, not 0.
    pub padded_to: u32,
    /// Bytes of an acknowledgement on a link.
    pub ack: u32,
    /// Rounding of serialization times.
    pub times: SerialisationRounding,
}

/// Frames of a message by their bytes on a link: a first one, full ones, and a last one. A message of one frame has a first one only.
#[derive(Clone, Copy, Debug)]
struct MessageFrames {
    first: Bytes,
    full: Bytes,
    full_count: u64,
    last: Option<Bytes>,
}

impl PathDelay {
    /// Total propagation delay.
    pub fn propagation(&self) -> Span {
        self.hops.iter().map(|hop| hop.delay).sum()
    }

    /// Rate of the slowest link; `None` without links.
    pub fn bottleneck(&self) -> Option<BitRate> {
        self.hops.iter().map(|hop| hop.rate).min()
    }

    /// Returns the time of a single frame, of this size on the links, to the far end.
    fn time_for(&self, frame: Bytes, times: SerialisationRounding) -> Span {
        self.hops.iter().map(|hop| times.round(hop.rate.time_for(frame)) + hop.delay).sum()
    }
}

impl Framing {
    /// Framing of RDMA writes over RoCEv2 as [`weir_nic::host`] sends them with this path MTU, with FCS, preamble and gap.
    ///
    /// A frame has 82 bytes for Ethernet, IPv4, UDP, BTH (IBA 9.2) and ICRC; the first has 16 more for its RETH. Payload is padded to 4
    /// bytes. Acknowledgements have 86 bytes.
    pub const fn rocev2(path_mtu: u16) -> Framing {
        Framing::for_sizes(&FrameSizes::rocev2(path_mtu), (FCS_BYTES + WIRE_OVERHEAD_BYTES) as u32)
    }

    /// Framing with frames of these lengths, which have `overhead` more bytes on a link.
    pub const fn for_sizes(sizes: &FrameSizes, overhead: u32) -> Framing {
        Framing {
            payload: sizes.payload_max as u32,
            header: sizes.header as u32 + overhead,
            first_header: sizes.first_extra as u32,
            padded_to: sizes.padded_to as u32,
            ack: sizes.ack as u32 + overhead,
            times: SerialisationRounding::Exact,
        }
    }

    /// Framing of TCP segments with at most `mss` bytes of payload in frames of these lengths.
    pub const fn of_tcp(sizes: &FrameSizes, mss: u32, overhead: u32) -> Framing {
        let header = sizes.tcp_header as u32 + overhead;
        Framing {
            payload: mss,
            header,
            first_header: 0,
            padded_to: 1,
            ack: header,
            times: SerialisationRounding::Exact,
        }
    }

    /// Returns this framing with another rounding of times.
    pub const fn timed(self, times: SerialisationRounding) -> Framing {
        Framing { times, ..self }
    }

    /// Framing of the public HPCC simulator: 1,000 bytes of payload and 48 of headers, acknowledgements of 60, no FCS, preamble or gap.
    pub const fn hpcc() -> Framing {
        Framing::for_sizes(&FrameSizes::ns3(1_000), 0)
    }

    /// Returns the time of a full frame to the far end of a link, and that of an acknowledgement.
    pub(crate) fn times_on(&self, link: &LinkSpec) -> [Span; 2] {
        let frames = [self.full_frame(), Bytes::new(u64::from(self.ack))];
        frames.map(|frame| self.times.round(link.rate.time_for(frame)) + link.delay)
    }

    /// Bytes of a full frame on a link.
    fn full_frame(&self) -> Bytes {
        self.frame(u64::from(self.payload))
    }

    fn frame(&self, payload: u64) -> Bytes {
        Bytes::new(payload.next_multiple_of(u64::from(self.padded_to)) + u64::from(self.header))
    }

    /// Cuts a message into frames. An empty message is a frame without payload.
    fn cut(&self, message: Bytes) -> MessageFrames {
        let payload = u64::from(self.payload);
        let count = message.get().div_ceil(payload).max(1);
        let last = self.frame(message.get() - (count - 1) * payload);
        let extra = Bytes::new(u64::from(self.first_header));
        let full = self.full_frame();
        match count {
            1 => MessageFrames { first: last + extra, full, full_count: 0, last: None },
            _ => MessageFrames { first: full + extra, full, full_count: count - 2, last: Some(last) },
        }
    }
}

/// Returns the time from the start of a message's first frame to its last byte at the receiver, in an empty fabric and sent at the rate
/// of the first link.
///
/// The cost is proportional to the number of links, for any number of frames.
pub fn delivery(there: &PathDelay, message: Bytes, framing: &Framing) -> Span {
    let MessageFrames { first, full, full_count, last } = framing.cut(message);
    // Instants at which the first frame, the first and the last full one, and the last frame have left the links' senders. Propagation is
    // added later: it delays all alike.
    let [mut first_left, mut second_left, mut full_left, mut last_left] = [Span::ZERO; 4];
    for hop in &there.hops {
        let time_for = |frame: Bytes| framing.times.round(hop.rate.time_for(frame));
        first_left += time_for(first);
        let mut before_last = first_left;
        if full_count > 0 {
            let each = time_for(full);
            second_left = second_left.max(first_left) + each;
            // The last full frame waits for a train of frames back to one that found the link idle. Full frames arrive at instants that
            // are convex in their number, and leave at equal distances. Hence the train begins with one of the first two frames or the
            // last full one.
            full_left = (full_left + each).max(second_left + each * (full_count - 1));
            before_last = full_left;
        }
        if let Some(last) = last {
            last_left = last_left.max(before_last) + time_for(last);
        }
    }
    first_left.max(last_left) + there.propagation()
}

/// Returns the ideal completion time of a message, in an empty fabric and sent at the rate of the first link.
///
/// The time runs from the start of the message's first frame to its last byte at the receiver, plus the return of its last frame's
/// acknowledgement.
pub fn ideal_fct(there: &PathDelay, back: &PathDelay, message: Bytes, framing: &Framing) -> Span {
    delivery(there, message, framing) + back.time_for(Bytes::new(u64::from(framing.ack)), framing.times)
}

/// Returns the round trip of a full frame, other than a message's first, and its acknowledgement.
pub(crate) fn base_rtt(there: &PathDelay, back: &PathDelay, framing: &Framing) -> Span {
    let frame = there.hops.iter().map(|link| framing.times_on(link)[0]);
    let ack = back.hops.iter().map(|link| framing.times_on(link)[1]);
    frame.chain(ack).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::{Clos, LeafSpine, Routes};

    fn path(hops: &[(u64, u64)]) -> PathDelay {
        let cable = |(mbps, ns): &(u64, u64)| LinkSpec::new(BitRate::mbps(*mbps), Span::from_nanos(*ns));
        PathDelay { hops: hops.iter().map(cable).collect() }
    }

    fn bare(payload: u32) -> Framing {
        Framing { payload, header: 0, first_header: 0, padded_to: 1, ack: 0, times: SerialisationRounding::Exact }
    }

    /// The recursion above, computed frame by frame.
    fn frame_by_frame(there: &PathDelay, message: Bytes, framing: &Framing) -> Span {
        let mut left = vec![Span::ZERO; there.hops.len()];
        let mut rest = message.get();
        let mut arrived = Span::ZERO;
        for number in 0.. {
            let payload = rest.min(u64::from(framing.payload));
            rest -= payload;
            let padded = payload.div_ceil(u64::from(framing.padded_to)) * u64::from(framing.padded_to);
            let extra = if number == 0 { framing.first_header } else { 0 };
            let bytes = Bytes::new(padded + u64::from(framing.header + extra));
            arrived = Span::ZERO;
            for (hop, left) in there.hops.iter().zip(&mut left) {
                *left = arrived.max(*left) + framing.times.round(hop.rate.time_for(bytes));
                arrived = *left + hop.delay;
            }
            if rest == 0 {
                break;
            }
        }
        arrived
    }

    proptest! {
        #[test]
        fn it_is_what_the_frames_take_one_by_one(
            hops in prop::collection::vec((1..400_000_u64, 0..5_000_u64), 1..8),
            message in 0..20_000_u64,
            payload in 1..1_500_u32,
            header in 0..100_u32,
            first_header in 0..2_000_u32,
            padded_to in 1..9_u32,
            times in prop_oneof![Just(SerialisationRounding::Exact), Just(SerialisationRounding::Nanoseconds), Just(SerialisationRounding::Ns3)],
        ) {
            let framing = Framing { payload, header, first_header, padded_to, ack: 60, times };
            let (there, message) = (path(&hops), Bytes::new(message));
            prop_assert_eq!(delivery(&there, message, &framing), frame_by_frame(&there, message, &framing));
        }
    }

    #[test]
    fn a_burst_between_two_hosts_takes_what_the_hosts_measure() {
        // 63 frames of 64 KB, 1,122 B, 61 times 1,106 B and 594 B, and 86 B back, at 80 ps a byte; 1 us each way.
        let wire = path(&[(100_000, 1_000)]);
        let bytes = 1_122 + 61 * 1_106 + 594 + 86;
        let expected = Span::from_picos(bytes * 80) + Span::from_micros(2);
        assert_eq!(ideal_fct(&wire, &wire, Bytes::kb(64), &Framing::rocev2(1_024)), expected);
    }

    #[test]
    fn frames_are_pipelined_at_the_bottleneck() {
        let framing = bare(1_000);
        // At 10, 1 and 10 Gb/s a frame takes 0.8, 8 and 0.8 us: ten of them 0.8 + 80 + 0.8 us.
        let there = path(&[(10_000, 0), (1_000, 500), (10_000, 0)]);
        assert_eq!((there.bottleneck(), there.propagation()), (Some(BitRate::gbps(1)), Span::from_nanos(500)));
        assert_eq!(delivery(&there, Bytes::kb(10), &framing), Span::from_nanos(81_600 + 500));
        // A last frame of 10 B leaves the bottleneck 0.08 us after the full one before it, which is still on the last link
        // then: it waits there, and takes 0.008 us.
        assert_eq!(delivery(&there, Bytes::new(10_010), &framing), Span::from_nanos(81_600 + 8 + 500));
        // A short last frame catches up with the full one before it, and waits: at 10 Gb/s and then at 1 Gb/s.
        let there = path(&[(10_000, 0), (1_000, 0)]);
        assert_eq!(delivery(&there, Bytes::new(1_010), &framing), Span::from_nanos(800 + 8_000 + 80));
        assert_eq!(delivery(&there, Bytes::ZERO, &framing), Span::ZERO);
    }

    #[test]
    fn base_round_trips_are_the_papers() {
        let rtt = |fabric: &crate::topology::Fabric, framing: &Framing| {
            let routes = Routes::shortest(fabric).unwrap();
            let (first, last) = (0, fabric.hosts.len() - 1);
            base_rtt(&routes.path_delay(first, last, 1), &routes.path_delay(last, first, 2), framing)
        };
        // Reverie: 17.28 us, which is 8 times 2 us and 4 times 1,000 B at 25 Gb/s.
        assert_eq!(rtt(&LeafSpine::reverie().fabric().unwrap(), &bare(1_000)), Span::from_nanos(17_280));
        // DSH: 16 us, and SPFC: 24 us, of propagation alone.
        assert_eq!(rtt(&LeafSpine::dsh().fabric().unwrap(), &bare(1)).as_micros(), 16);
        assert_eq!(rtt(&Clos::spfc().fabric().unwrap(), &bare(1)).as_micros(), 24);
        // HPCC's fabric: 12 us, 1,048 B there and 60 B back over two links of 100 and four of 400 Gb/s.
        let on_links = (1_048 + 60) * (2 * 80 + 4 * 20);
        let hpcc = rtt(&Clos::hpcc().fabric().unwrap(), &Framing::hpcc());
        assert_eq!(hpcc, Span::from_micros(12) + Span::from_picos(on_links));
    }

    #[test]
    fn a_message_of_gigabytes_takes_no_longer_to_compute() {
        let there = path(&[(100_000, 1_000), (400_000, 1_000), (100_000, 1_000)]);
        // 10^9 frames of 1,048 B at 80 ps a byte, of which one is alone on the other links.
        let expected = 1_000_000_000 * 1_048 * 80 + 1_048 * (20 + 80) + 3_000_000;
        assert_eq!(delivery(&there, Bytes::new(1_000_000_000_000), &Framing::hpcc()).as_picos(), expected);
    }
}
