//! Ethernet frames: addresses, VLAN tags, and the traffic class of the IP packet within, which is parsed and marked.

use weir_units::MacAddr;

use crate::mac_control::{ControlFrame, DecodeError};

const ETHERNET_BYTES: usize = 14;
const ADDRESSES_BYTES: usize = 12;
/// Length of a VLAN tag.
pub const TAG_BYTES: usize = 4;
const IPV4_BYTES_MIN: usize = 20;
pub(crate) const IPV6_BYTES: usize = 40;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Shortest frame of the fast parser: an IPv6 header behind a tag. A whole frame is longer.
pub(crate) const FAST_PARSE_BYTES_MIN: usize = ETHERNET_BYTES + TAG_BYTES + IPV6_BYTES;

const ECN_MASK: u8 = 0b11;
const ECN_CE: u8 = 0b11;

/// Headers of a frame, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A data frame, to be forwarded.
    Data(Headers),
    /// A MAC control frame for the switch itself, or the error in it.
    Control(Result<ControlFrame, DecodeError>),
    /// The frame is too short for a header, or its source address is a group address.
    Malformed,
}

/// Header fields that forwarding and classification need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Destination address.
    pub destination: MacAddr,
    /// Priority code point of the outer VLAN tag.
    pub pcp: Option<u8>,
    /// Differentiated services code point of the IPv4 or IPv6 header.
    pub dscp: Option<u8>,
}

/// Parses a frame: Ethernet, up to two VLAN tags, and the traffic class of IPv4 and IPv6. A frame that is malformed above Ethernet is
/// forwarded unchanged, without a traffic class: a switch is no firewall.
#[inline]
pub fn parse(frame: &[u8]) -> Parsed {
    let Some(ethernet) = frame.first_chunk::<ETHERNET_BYTES>() else { return Parsed::Malformed };
    if ControlFrame::is_control(frame) {
        return Parsed::Control(ControlFrame::decode(frame));
    }
    if source(ethernet).is_group() {
        return Parsed::Malformed;
    }
    let [d0, d1, d2, d3, d4, d5, ..] = *ethernet;
    let (pcp, ip) = network_header(frame);
    let dscp = ip.and_then(|ip| traffic_class(frame, ip)).map(|class| class >> 2);
    Parsed::Data(Headers { destination: MacAddr([d0, d1, d2, d3, d4, d5]), pcp, dscp })
}

/// Fast parse of the most common frames: IPv4 or IPv6, behind one VLAN tag or none, between unicast addresses. Equal to the result of
/// [`parse`] for such a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastHeaders {
    /// Destination address, [as a number](MacAddr::to_u64).
    pub destination: u64,
    /// Source address, as a number.
    pub source: u64,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Priority code point of the VLAN tag; 8 without one.
    pub pcp: u8,
    /// Whether the frame is of this kind. If not, all other fields are meaningless, and [`parse`] is needed.
    pub is_plain: bool,
}

impl FastHeaders {
    /// Value of `pcp` for a frame without tag.
    pub const NO_PCP: u8 = 8;

    /// Result for a frame of another kind.
    pub const OTHER: FastHeaders =
        FastHeaders { destination: 0, source: 0, dscp: 0, pcp: FastHeaders::NO_PCP, is_plain: false };

    /// Returns the headers as [`parse`] does.
    #[inline]
    pub fn headers(self) -> Headers {
        Headers {
            destination: MacAddr::from_u64(self.destination),
            pcp: (self.pcp != FastHeaders::NO_PCP).then_some(self.pcp),
            dscp: Some(self.dscp),
        }
    }
}

/// Parses the most common frames. Branches only on the frame's length, not on its contents: frames of a burst differ, and a mispredicted
/// branch takes as long as this whole function.
#[inline(always)]
pub fn parse_fast(frame: &[u8]) -> FastHeaders {
    const GROUP: u64 = 1 << 40;
    let Some(frame) = frame.first_chunk::<FAST_PARSE_BYTES_MIN>() else { return FastHeaders::OTHER };
    let eight = |at: usize| frame[at..].first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight));
    let (destination, source) = (eight(0) >> 16, eight(6) >> 16);
    // Either ethertype, tag, ethertype, and two bytes of the IP header; or ethertype and those two bytes.
    let behind_addresses = eight(ETHERNET_BYTES - 2);
    let is_tagged = behind_addresses >> 48 == u64::from(ETHERTYPE_VLAN);
    let pcp = if is_tagged { (behind_addresses >> 45 & 7) as u8 } else { FastHeaders::NO_PCP };
    let network = if is_tagged { behind_addresses as u32 } else { (behind_addresses >> 32) as u32 };
    let (ethertype, head) = ((network >> 16) as u16, network as u16);
    let is_ipv4 = ethertype == ETHERTYPE_IPV4 && head >> 12 == 4;
    let is_ipv6 = ethertype == ETHERTYPE_IPV6 && head >> 12 == 6;
    let class = if is_ipv4 { head as u8 } else { (head >> 4) as u8 };
    let is_plain = (is_ipv4 | is_ipv6) & ((destination | source) & GROUP == 0);
    FastHeaders { destination, source, dscp: class >> 2, pcp, is_plain }
}

/// Returns the source address of a frame; all zero for one without a header.
#[inline]
pub fn source(frame: &[u8]) -> MacAddr {
    frame.first_chunk().map_or(MacAddr::default(), |[_, _, _, _, _, _, s0, s1, s2, s3, s4, s5]| {
        MacAddr([*s0, *s1, *s2, *s3, *s4, *s5])
    })
}

/// Returns the tag control information of a frame whose outer tag is an 802.1Q one (9.6): PCP, DEI and VLAN.
#[inline]
pub fn tag(frame: &[u8]) -> Option<u16> {
    let [.., high, low, tag_high, tag_low, _, _] = *frame.first_chunk::<{ ETHERNET_BYTES + TAG_BYTES }>()?;
    (u16::from_be_bytes([high, low]) == ETHERTYPE_VLAN).then_some(u16::from_be_bytes([tag_high, tag_low]))
}

/// Writes the tag control information of a frame that has a tag.
///
/// # Panics
/// If the frame is too short for a tag.
#[inline]
pub fn write_tag(frame: &mut [u8], tag: u16) {
    frame[ETHERNET_BYTES..][..2].copy_from_slice(&tag.to_be_bytes());
}

/// Inserts an 802.1Q tag into a frame that begins behind [`TAG_BYTES`] free bytes.
///
/// # Panics
/// If the frame is too short for addresses.
#[inline]
pub fn insert_tag(room_and_frame: &mut [u8], tag: u16) {
    room_and_frame.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
    room_and_frame[ADDRESSES_BYTES..ETHERNET_BYTES].copy_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
    write_tag(room_and_frame, tag);
}

/// Removes a frame's outer tag: the frame then begins behind [`TAG_BYTES`] unused bytes.
///
/// # Panics
/// If the frame is too short for a tag.
#[inline]
pub fn remove_tag(frame: &mut [u8]) {
    frame.copy_within(..ADDRESSES_BYTES, TAG_BYTES);
}

/// Sets CE on an ECN-capable IPv4 or IPv6 packet, and updates the IPv4 header checksum (RFC 1624, RFC 3168); returns whether it carries CE
/// now.
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let Some(ip) = network_header(frame).1 else { return false };
    let Some(class) = traffic_class(frame, ip) else { return false };
    match class & ECN_MASK {
        0 => return false,
        ECN_CE => return true,
        _ => {}
    }
    match ip {
        IpOffset::V4(at) => {
            let before = u16::from_be_bytes([frame[at], frame[at + 1]]);
            frame[at + 1] |= ECN_CE;
            let after = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let checksum = u16::from_be_bytes([frame[at + 10], frame[at + 11]]);
            let updated = update_checksum(checksum, before, after);
            frame[at + 10..at + 12].copy_from_slice(&updated.to_be_bytes());
        }
        // The traffic class straddles the first two bytes; ECN is bits 4 and 5 of the second.
        IpOffset::V6(at) => frame[at + 1] |= ECN_CE << 4,
    }
    true
}

/// Returns the end of the IPv4 packet, by its total length, in a frame without VLAN tag. `None` for other frames, and for a length too
/// short for a header. The end may be beyond the frame.
#[inline]
pub(crate) fn behind_ipv4(frame: &[u8]) -> Option<usize> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET_BYTES>()?;
    let [version, _, high, low, ..] = *packet.first_chunk::<IPV4_BYTES_MIN>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let is_ipv4 = word(ethernet, ETHERNET_BYTES - 2) == Some(ETHERTYPE_IPV4) && version >> 4 == 4;
    (is_ipv4 && length >= IPV4_BYTES_MIN).then_some(ETHERNET_BYTES + length)
}

/// Offset of a network header.
#[derive(Clone, Copy)]
pub(crate) enum IpOffset {
    V4(usize),
    V6(usize),
}

/// Returns the outer tag's PCP, and the offset of the IP header if it is complete.
#[inline]
pub(crate) fn network_header(frame: &[u8]) -> (Option<u8>, Option<IpOffset>) {
    let mut at = ETHERNET_BYTES;
    let mut pcp = None;
    let mut ethertype = word(frame, at - 2);
    for _ in 0..2 {
        if !matches!(ethertype, Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ)) {
            break;
        }
        pcp = pcp.or(frame.get(at).map(|first| first >> 5));
        ethertype = word(frame, at + 2);
        at += TAG_BYTES;
    }
    let ip = match ethertype {
        Some(ETHERTYPE_IPV4) if frame.len() >= at + IPV4_BYTES_MIN && frame[at] >> 4 == 4 => Some(IpOffset::V4(at)),
        Some(ETHERTYPE_IPV6) if frame.len() >= at + IPV6_BYTES && frame[at] >> 4 == 6 => Some(IpOffset::V6(at)),
        _ => None,
    };
    (pcp, ip)
}

/// Returns the traffic class byte, DSCP and ECN, of either IP version.
#[inline]
fn traffic_class(frame: &[u8], ip: IpOffset) -> Option<u8> {
    match ip {
        IpOffset::V4(at) => frame.get(at + 1).copied(),
        IpOffset::V6(at) => word(frame, at).map(|word| (word >> 4) as u8),
    }
}

#[inline]
fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// HC' = ~(~HC + ~m + m') (RFC 1624 eq. 3).
fn update_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::mac_control::PfcFrame;
    use proptest::prelude::*;
    use weir_units::ClassSet;

    use super::*;

    pub(crate) fn frame(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for (tpid, tci) in tags {
            frame.extend(tpid.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// The example header of RFC 1071's literature, with this traffic class and a valid checksum.
    pub(crate) fn ipv4(class: u8) -> Vec<u8> {
        let mut header =
            vec![0x45, class, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0, 0, 172, 16, 10, 99, 172, 16, 10, 12];
        let checksum = checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn ipv6(class: u8) -> Vec<u8> {
        let mut header = vec![0; 40];
        header[0] = 0x60 | class >> 4;
        header[1] = class << 4;
        header
    }

    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn headers(frame: &[u8]) -> Headers {
        match parse(frame) {
            Parsed::Data(headers) => headers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn classes_are_read_where_they_stand() {
        assert_eq!(headers(&frame(&[], 0x0800, &ipv4(26 << 2))).dscp, Some(26));
        assert_eq!(headers(&frame(&[], 0x86dd, &ipv6(46 << 2 | 1))).dscp, Some(46));
        let tagged = headers(&frame(&[(0x8100, 0x6064)], 0x0800, &ipv4(8)));
        assert_eq!((tagged.pcp, tagged.dscp), (Some(3), Some(2)));
        let double = headers(&frame(&[(0x88a8, 0xa001), (0x8100, 0x2002)], 0x0800, &ipv4(0)));
        assert_eq!((double.pcp, double.dscp), (Some(5), Some(0)));
        assert_eq!(headers(&frame(&[], 0x0806, &[0; 28])).dscp, None);
    }

    #[test]
    fn tags_are_written_and_removed() {
        let plain = frame(&[], 0x0800, &ipv4(0));
        let mut bytes = [&[0xee; TAG_BYTES][..], &plain].concat();
        insert_tag(&mut bytes, 0x600a);
        assert_eq!((&bytes[..], tag(&bytes)), (&frame(&[(0x8100, 0x600a)], 0x0800, &ipv4(0))[..], Some(0x600a)));
        write_tag(&mut bytes, 0xb014);
        assert_eq!(bytes, frame(&[(0x8100, 0xb014)], 0x0800, &ipv4(0)));
        remove_tag(&mut bytes);
        assert_eq!((&bytes[TAG_BYTES..], tag(&bytes[TAG_BYTES..])), (&plain[..], None));
        assert_eq!(tag(&frame(&[(0x88a8, 10)], 0x0800, &ipv4(0))), None, "a service tag");
        assert_eq!(tag(&frame(&[(0x8100, 10)], 0x0800, &[])[..17]), None, "a tag without an end");
    }

    #[test]
    fn broken_headers_have_no_class() {
        assert_eq!(headers(&frame(&[], 0x0800, &ipv4(104)[..19])).dscp, None);
        assert_eq!(headers(&frame(&[], 0x0800, &ipv6(104))).dscp, None, "version 6 under IPv4's ethertype");
        assert_eq!(headers(&frame(&[(0x8100, 0x6000)], 0x8100, &[])).pcp, Some(3), "tag without an end");
    }

    /// Holds for any address and any tags: a switch behind this one may remove the tags.
    #[test]
    fn tagged_control_frames_are_no_data() {
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::from_bits(8), times: [u16::MAX; 8] })
            .encode(MacAddr([2, 0, 0, 0, 0, 1]));
        let tags = [&[(0x8100, 0x6064)][..], &[(0x88a8, 1), (0x8100, 2)], &[(0x8100, 1), (0x8100, 2), (0x88a8, 3)]];
        for tags in tags {
            let mut tagged = frame(tags, 0x8808, &pfc[14..]);
            for destination in [MacAddr::MAC_CONTROL, MacAddr([2, 0, 0, 0, 0, 2]), MacAddr::BROADCAST] {
                tagged[..6].copy_from_slice(&destination.0);
                assert!(ControlFrame::is_control(&tagged), "{tagged:?}");
                assert_eq!(parse(&tagged), Parsed::Control(Err(DecodeError::Tagged)));
            }
            assert!(matches!(parse(&tagged[..14 + 4 * tags.len() - 1]), Parsed::Data(_)), "a tag without an end");
        }
    }

    #[test]
    fn what_has_no_sender_is_malformed() {
        assert_eq!(parse(&[0; 13]), Parsed::Malformed);
        let mut from_group = frame(&[], 0x0800, &ipv4(0));
        from_group[6] |= 1;
        assert_eq!(parse(&from_group), Parsed::Malformed);
    }

    #[test]
    fn ce_is_set_only_on_capable_packets_and_the_checksum_stays_right() {
        for dscp in 0..64 {
            for ecn in 0..4 {
                let mut v4 = frame(&[(0x8100, 1)], 0x0800, &ipv4(dscp << 2 | ecn));
                assert_eq!(mark_ce(&mut v4), ecn != 0);
                assert_eq!(v4[19], if ecn == 0 { dscp << 2 } else { dscp << 2 | 3 });
                assert_eq!(checksum(&v4[18..38]), 0, "dscp {dscp}, ecn {ecn}");
                let mut v6 = frame(&[], 0x86dd, &ipv6(dscp << 2 | ecn));
                assert_eq!(mark_ce(&mut v6), ecn != 0);
                assert_eq!(headers(&v6).dscp, Some(dscp));
            }
        }
        assert!(!mark_ce(&mut frame(&[], 0x0806, &[0; 28])));
    }

    /// Frames of all kinds, mostly whole.
    pub(crate) fn some_frame() -> impl Strategy<Value = Vec<u8>> {
        let tpid = prop::sample::select(vec![ETHERTYPE_VLAN, ETHERTYPE_VLAN, ETHERTYPE_QINQ]);
        let tags = prop::collection::vec((tpid, any::<u16>()), 0..3);
        let ethertype = prop::sample::select(vec![ETHERTYPE_IPV4, ETHERTYPE_IPV6, 0x0806, 0x8808]);
        let payload = (prop::sample::select(vec![4u8, 6, 5]), prop::collection::vec(any::<u8>(), 8..80));
        (tags, ethertype, payload, any::<[u8; 12]>(), 0..8u8).prop_map(
            |(tags, ethertype, payload, addresses, groups)| {
                let (version, mut payload) = payload;
                payload[0] = version << 4 | payload[0] & 15;
                let mut frame = frame(&tags, ethertype, &payload);
                frame[..12].copy_from_slice(&addresses);
                // One frame in eight has a group address at either end.
                frame[0] = frame[0] & !1 | u8::from(groups == 0);
                frame[6] = frame[6] & !1 | u8::from(groups == 1);
                frame
            },
        )
    }

    proptest! {
        #[test]
        fn at_a_glance_as_read_in_full(frame in some_frame()) {
            let seen = parse_fast(&frame);
            if seen.is_plain {
                prop_assert_eq!(parse(&frame), Parsed::Data(seen.headers()));
                prop_assert_eq!(MacAddr::from_u64(seen.source), source(&frame));
                prop_assert!(!seen.headers().destination.is_group());
            } else if let Parsed::Data(headers) = parse(&frame) {
                let is_short = frame.len() < 58;
                let has_tags = frame[12..14] == [0x88, 0xa8] || frame[16..18] == [0x81, 0] || frame[16..18] == [0x88, 0xa8];
                prop_assert!(is_short || has_tags || headers.dscp.is_none() || headers.destination.is_group());
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(mut bytes: Vec<u8>) {
            let _ = parse(&bytes);
            let _ = mark_ce(&mut bytes);
        }
    }
}
