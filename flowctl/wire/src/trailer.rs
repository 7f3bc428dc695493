//! Telemetry trailer: fields for congestion control, in an Ethernet trailer behind the IP packet.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | [`MAGIC`] |
//! | 4 | version, 1 |
//! | 5 | number of stamped hops |
//! | 6 | number of places for hops |
//! | 7 | 1: switches stamp the frame; 0: they do not |
//! | 8..16 | sending instant of the frame, or of the frame that it answers, in nanoseconds; all ones: absent |
//! | then 16 each | a place: nanoseconds (40 bits), bytes sent (40), queue in bytes (24), rate in Mb/s (24) |
//!
//! Numbers are in network byte order. Nanoseconds and bytes of a place wrap, queues saturate, and rates are rounded up. Receivers that do
//! not know the trailer see an ordinary frame: no length or checksum of the IP packet covers it.

use weir_units::{BitRate, Bytes, Span, Time};

use crate::ethernet;

/// First bytes of a trailer.
pub const MAGIC: [u8; 4] = *b"WINT";
/// Length of a trailer without its places, in bytes.
const HEADER_BYTES: usize = 16;
/// Length of a place, in bytes.
const PLACE_BYTES: usize = 16;
/// Period after which the instants of stamps wrap, some 18 minutes.
pub const TIME_WRAPS: Span = Span::from_nanos(1 << WRAPPING_BITS);

const VERSION: u8 = 1;
const STAMPED: usize = 5;
const COLLECTS: u8 = 1;
const ABSENT: u64 = u64::MAX;

/// Width of instants and of bytes sent, in bits.
const WRAPPING_BITS: u32 = 40;
const WRAPPING: u64 = (1 << WRAPPING_BITS) - 1;
/// Width of queues and rates, in bits.
const SATURATING_BITS: u32 = 24;
const SATURATING: u64 = (1 << SATURATING_BITS) - 1;
const BPS_PER_MBPS: u64 = 1_000_000;

/// Telemetry of an egress port when a packet leaves by it (HPCC, SIGCOMM 2019, Fig. 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// Instant when the packet's first bit is on the wire.
    pub at: Time,
    /// Bytes that the port has sent until then, with FCS, preamble and gap; without control frames.
    pub tx_bytes: u64,
    /// Remaining occupancy of the packet's egress queue, in charged bytes.
    pub queue: Bytes,
    /// Rate of the port.
    pub rate: BitRate,
}

/// Parsed trailer.
#[derive(Clone, Copy, Debug)]
pub struct Trailer<'t> {
    sent_at: u64,
    collects: bool,
    /// Stamped places.
    places: &'t [[u8; PLACE_BYTES]],
}

/// Returns the length of a trailer with this number of places, in bytes.
pub const fn bytes_with(places: usize) -> usize {
    HEADER_BYTES + PLACE_BYTES * places
}

impl<'t> Trailer<'t> {
    /// Parses the bytes behind an IP packet; `None` if they do not begin with a whole trailer of this version.
    pub fn read(behind: &'t [u8]) -> Option<Trailer<'t>> {
        let (header, rest) = behind.split_first_chunk::<HEADER_BYTES>()?;
        let Header { stamped, places, collects } = Header::read(header)?;
        let (all, _) = rest.as_chunks::<PLACE_BYTES>();
        let [.., a, b, c, d, e, f, g, h] = *header;
        let sent_at = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Some(Trailer { sent_at, collects, places: all.get(..places)?.get(..stamped)? })
    }

    /// Returns the sending instant of the frame, or of the frame that it answers, by the sender's clock; [`Time::NEVER`] if absent.
    pub fn sent_at(&self) -> Time {
        // An instant that exceeds a clock of picoseconds counts as absent.
        self.sent_at.checked_mul(1_000).map_or(Time::NEVER, Time::from_picos)
    }

    /// Whether switches stamp the frame.
    pub fn collects(&self) -> bool {
        self.collects
    }

    /// Returns the stamps of the ports on the path, in order. Instants and bytes sent wrap, each from its port's own origin.
    pub fn hops(&self) -> impl ExactSizeIterator<Item = Telemetry> + use<'t> {
        self.places.iter().map(|place| hop_of(u128::from_be_bytes(*place)))
    }
}

/// Fills `trailer` with as many places as fit, and `hops` in the first of them. Hops without a place are left out, and bytes beyond the
/// last place are zeros. A slice too short for a trailer stays unchanged.
pub fn write(trailer: &mut [u8], sent_at: Time, collects: bool, hops: &[Telemetry]) {
    let Some((header, rest)) = trailer.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    rest.fill(0);
    let (places, _) = rest.as_chunks_mut::<PLACE_BYTES>();
    let place_count = places.len().min(usize::from(u8::MAX));
    let stamped = hops.len().min(place_count);
    places.iter_mut().zip(&hops[..stamped]).for_each(|(place, hop)| *place = place_of(hop).to_be_bytes());
    let sent_at = if sent_at == Time::NEVER { ABSENT } else { sent_at.as_nanos() };
    let collects = if collects { COLLECTS } else { 0 };
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&[VERSION, stamped as u8, place_count as u8, collects]);
    header[8..].copy_from_slice(&sent_at.to_be_bytes());
}

/// Returns whether a frame has a place for the next switch's stamp: IPv4 without VLAN tag, followed by a whole trailer that collects
/// stamps.
#[inline]
pub fn has_place(frame: &[u8]) -> bool {
    next_place(frame).is_some()
}

/// Writes a stamp into the next place; a frame without one stays unchanged.
#[inline]
pub fn stamp(frame: &mut [u8], telemetry: &Telemetry) {
    let Some(NextStamp { trailer, stamped }) = next_place(frame) else { return };
    let at = trailer + HEADER_BYTES + stamped * PLACE_BYTES;
    if let Some(place) = frame.get_mut(at..at + PLACE_BYTES) {
        place.copy_from_slice(&place_of(telemetry).to_be_bytes());
        frame[trailer + STAMPED] = stamped as u8 + 1;
    }
}

/// Offset of a trailer in its frame, and the number of stamps in it.
struct NextStamp {
    trailer: usize,
    stamped: usize,
}

#[inline]
fn next_place(frame: &[u8]) -> Option<NextStamp> {
    let trailer = ethernet::behind_ipv4(frame)?;
    let (header, rest) = frame.get(trailer..)?.split_first_chunk::<HEADER_BYTES>()?;
    let Header { stamped, places, collects } = Header::read(header)?;
    let is_complete = rest.len() >= places * PLACE_BYTES;
    (collects && is_complete && stamped < places).then_some(NextStamp { trailer, stamped })
}

/// Fixed header of a trailer.
struct Header {
    stamped: usize,
    places: usize,
    collects: bool,
}

impl Header {
    #[inline]
    fn read(header: &[u8; HEADER_BYTES]) -> Option<Header> {
        let [m, a, g, i, version, stamped, places, flags, ..] = *header;
        let collects = flags & COLLECTS != 0;
        let is_ours = [m, a, g, i] == MAGIC && version == VERSION;
        is_ours.then_some(Header { stamped: usize::from(stamped), places: usize::from(places), collects })
    }
}

#[inline]
fn place_of(hop: &Telemetry) -> u128 {
    let wrapping = |value: u64| u128::from(value & WRAPPING);
    let saturating = |value: u64| u128::from(value.min(SATURATING));
    let rate = hop.rate.as_bps().div_ceil(BPS_PER_MBPS);
    let word = wrapping(hop.at.as_nanos()) << WRAPPING_BITS | wrapping(hop.tx_bytes);
    (word << SATURATING_BITS | saturating(hop.queue.get())) << SATURATING_BITS | saturating(rate)
}

fn hop_of(place: u128) -> Telemetry {
    let saturating = |place: u128| place as u64 & SATURATING;
    let wrapping = |place: u128| place as u64 & WRAPPING;
    let (queue, tx_bytes) = (place >> SATURATING_BITS, place >> (2 * SATURATING_BITS));
    Telemetry {
        at: Time::from_nanos(wrapping(tx_bytes >> WRAPPING_BITS)),
        tx_bytes: wrapping(tx_bytes),
        queue: Bytes::new(saturating(queue)),
        // No switch of this project writes a rate of 0.
        rate: BitRate::mbps(saturating(place).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame: an Ethernet header and an IPv4 packet of 24 B, 38 B in all, followed by `behind`.
    fn frame(behind: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        frame.extend([0x45, 0, 0, 24, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([1, 2, 3, 4]);
        frame.extend(behind);
        frame
    }

    fn trailer(places: usize, sent_at: Time, collects: bool, hops: &[Telemetry]) -> Vec<u8> {
        let mut trailer = vec![0xaa; bytes_with(places)];
        write(&mut trailer, sent_at, collects, hops);
        trailer
    }

    fn hop(ns: u64, tx_bytes: u64, queue: u64, gbps: u64) -> Telemetry {
        Telemetry { at: Time::from_nanos(ns), tx_bytes, queue: Bytes::new(queue), rate: BitRate::gbps(gbps) }
    }

    const HOP: [u8; 16] = [0x01, 2, 3, 4, 5, 0x06, 7, 8, 9, 10, 0x0b, 12, 13, 0x01, 0x86, 0xa0];

    fn hop_by_hand() -> Telemetry {
        hop(0x01_0203_0405, 0x06_0708_090a, 0x0b_0c0d, 100)
    }

    #[test]
    fn a_trailer_byte_by_byte() {
        let bytes = trailer(2, Time::from_nanos(0x0102_0304_0506), true, &[hop_by_hand()]);
        assert_eq!(bytes[..16], [b'W', b'I', b'N', b'T', 1, 1, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((&bytes[16..32], &bytes[32..]), (&HOP[..], &[0; 16][..]));
        let read = Trailer::read(&bytes).unwrap();
        assert_eq!((read.sent_at(), read.collects()), (Time::from_nanos(0x0102_0304_0506), true));
        assert_eq!(read.hops().collect::<Vec<_>>(), [hop_by_hand()]);
        let bytes = trailer(0, Time::NEVER, false, &[hop_by_hand()]);
        assert_eq!(bytes, [b'W', b'I', b'N', b'T', 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        let read = Trailer::read(&bytes).unwrap();
        assert_eq!((read.sent_at(), read.collects(), read.hops().len()), (Time::NEVER, false, 0));
    }

    #[test]
    fn what_does_not_fit_a_place_wraps_or_saturates() {
        let large = Telemetry { rate: BitRate::bps(20_000_000_000_001), ..hop(1 << 40, (1 << 40) + 7, 1 << 24, 1) };
        let read = Trailer::read(&trailer(1, Time::ZERO, true, &[large])).unwrap().hops().next().unwrap();
        let expected = Telemetry { rate: BitRate::mbps(0xff_ffff), ..hop(0, 7, 0xff_ffff, 1) };
        assert_eq!(read, expected);
        let slow = Telemetry { rate: BitRate::bps(8_000), ..hop(1, 1, 1, 1) };
        let read = Trailer::read(&trailer(1, Time::ZERO, true, &[slow])).unwrap().hops().next().unwrap();
        assert_eq!(read.rate, BitRate::mbps(1));
    }

    #[test]
    fn stamps_fill_the_places_in_their_order() {
        let sent_at = Time::from_nanos(77);
        let mut frame = frame(&trailer(2, sent_at, true, &[]));
        let stamps = [hop_by_hand(), hop(2, 3, 4, 25), hop(5, 6, 7, 10)];
        for (n, stamp_of) in stamps.iter().enumerate() {
            assert_eq!(has_place(&frame), n < 2);
            stamp(&mut frame, stamp_of);
        }
        let read = Trailer::read(&frame[38..]).unwrap();
        assert_eq!((read.sent_at(), read.hops().collect::<Vec<_>>()), (sent_at, stamps[..2].to_vec()));
        assert_eq!(frame[54..70], HOP);
    }

    #[test]
    fn what_does_not_ask_for_stamps_has_none() {
        let good = frame(&trailer(1, Time::ZERO, true, &[]));
        assert!(has_place(&good));
        let changed = |byte: usize, value: u8| {
            let mut frame = good.clone();
            frame[byte] = value;
            let before = frame.clone();
            stamp(&mut frame, &hop_by_hand());
            assert_eq!(frame, before, "byte {byte}");
            has_place(&frame)
        };
        assert!(!changed(12, 0x86), "another ethertype");
        assert!(!changed(14, 0x65), "another version of IP");
        for length in [0, 19, 23, 25, 255] {
            assert!(!changed(17, length), "an IP packet of {length} B");
        }
        assert!(!changed(38, b'w') && !changed(42, 2), "no trailer of ours");
        assert!(!changed(43, 1) && !changed(43, 255), "all places are taken");
        assert!(!changed(44, 2), "it has not the places that it tells of");
        assert!(!changed(45, 0), "an acknowledgement's");
        let mut tagged = good.clone();
        tagged.splice(12..12, [0x81, 0, 0, 3]);
        assert!(!has_place(&tagged) && !has_place(&good[..good.len() - 1]));
    }

    #[test]
    fn what_is_cut_is_not_read() {
        let full = trailer(2, Time::ZERO, false, &[hop_by_hand()]);
        for length in 0..full.len() {
            assert!(Trailer::read(&full[..length]).is_none(), "{length} B");
        }
        let mut too_many = full.clone();
        too_many[STAMPED] = 3;
        assert!(Trailer::read(&too_many).is_none());
        let padded = [&full[..], &[0; 3]].concat();
        assert_eq!(Trailer::read(&padded).unwrap().hops().len(), 1);
        let mut short = [7; 15];
        write(&mut short, Time::ZERO, true, &[]);
        assert_eq!(short, [7; 15]);
    }

    fn any_hop() -> impl Strategy<Value = Telemetry> {
        (0..1u64 << 40, 0..1u64 << 40, 0..1u64 << 24, 1..1u64 << 24).prop_map(|(ns, tx_bytes, queue, mbps)| Telemetry {
            rate: BitRate::mbps(mbps),
            ..hop(ns, tx_bytes, queue, 1)
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            hops in prop::collection::vec(any_hop(), 0..8),
            places in 0..8usize,
            sent_at in 0..1u64 << 54,
            collects: bool,
        ) {
            let bytes = trailer(places, Time::from_nanos(sent_at), collects, &hops);
            let read = Trailer::read(&bytes).unwrap();
            prop_assert_eq!((read.sent_at(), read.collects()), (Time::from_nanos(sent_at), collects));
            prop_assert_eq!(read.hops().collect::<Vec<_>>(), &hops[..hops.len().min(places)]);
        }

        #[test]
        fn any_bytes_are_read_without_harm(mut bytes: Vec<u8>) {
            let _ = Trailer::read(&bytes).map(|trailer| trailer.hops().count());
            stamp(&mut bytes, &hop_by_hand());
        }

        /// Nearly valid frames get further than arbitrary bytes. For any header, a stamp changes only the next place and the
        /// count of stamps.
        #[test]
        fn damaged_frames_are_stamped_where_they_may_be(
            places in 0..4usize,
            damage in prop::collection::vec((0..54usize, any::<u8>()), 0..3),
            cut in 0..120usize,
        ) {
            let mut bytes = frame(&trailer(places, Time::ZERO, true, &[]));
            for (byte, value) in damage {
                if let Some(byte) = bytes.get_mut(byte) {
                    *byte = value;
                }
            }
            bytes.truncate(cut);
            let before = bytes.clone();
            let has_place = has_place(&bytes);
            stamp(&mut bytes, &hop_by_hand());
            let changed: Vec<usize> = (0..bytes.len()).filter(|byte| bytes[*byte] != before[*byte]).collect();
            match (changed.first(), changed.last()) {
                (Some(first), Some(last)) => {
                    prop_assert!(has_place && bytes[*first] == before[*first] + 1);
                    let trailer = first - STAMPED;
                    prop_assert!(trailer >= 34, "no byte of a header is touched");
                    let place = trailer + bytes_with(usize::from(before[*first]));
                    let in_place = |byte: &usize| (place..place + PLACE_BYTES).contains(byte);
                    prop_assert!(changed[1..].iter().all(in_place) && *last < bytes.len());
                    prop_assert_eq!(&bytes[place..place + PLACE_BYTES], &HOP);
                }
                _ => prop_assert!(!has_place),
            }
        }
    }
}
