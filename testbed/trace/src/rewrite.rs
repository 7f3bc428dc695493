//! Rewriting of addresses in frames, with valid checksums: IPv4's, TCP's, UDP's, ICMPv6's, and RoCEv2's ICRC.

use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use weir_units::MacAddr;

use crate::checksum::{icrc, updated};
use crate::headers::{Ip, Network, Transport, network, word};

/// Changes to each frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewriting {
    /// Mappings of addresses in headers, as source or destination, and in ARP. The first match counts.
    pub mappings: Vec<Mapping>,
    /// Source MAC of all frames, set after the mappings.
    pub source: Option<MacAddr>,
    /// Destination MAC of all unicast frames, set after the mappings.
    pub destination: Option<MacAddr>,
}

/// Mapping of an address: `02:00:00:00:00:01=02:00:00:00:00:09`, `10.0.0.1=10.9.0.1`, `10.0.0.0/24=10.9.0.0/24`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// A MAC address.
    Mac(MacAddr, MacAddr),
    /// IP addresses that match the first one in this many bits; those bits become the second one's.
    Ip(IpAddr, IpAddr, u8),
}

/// Error in the text of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: no mapping; write OLD=NEW with two MAC addresses, two IP addresses of one family, or two networks of one length"
)]
pub struct RewritingError(String);

/// UDP port of RoCEv2.
const ROCE: u16 = 4791;

impl Rewriting {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Rewriting::default()
    }

    /// Rewrites a frame.
    pub fn apply(&self, frame: &mut [u8]) {
        if self.is_empty() {
            return;
        }
        match network(frame, frame.len()) {
            Network::Ip(ip) => self.apply_ip(frame, &ip),
            Network::Arp(body) => {
                for station in [body + 8, body + 18] {
                    self.map_mac(frame, station);
                    self.map_ip(frame, station + 6..station + 10);
                }
            }
            Network::Other => {}
        }
        self.map_mac(frame, 0);
        self.map_mac(frame, 6);
        if let Some(mac) = self.source {
            frame[6..12].copy_from_slice(&mac.0);
        }
        if let Some(mac) = self.destination.filter(|_| frame[0] & 1 == 0) {
            frame[0..6].copy_from_slice(&mac.0);
        }
    }

    fn apply_ip(&self, frame: &mut [u8], ip: &Ip) {
        let fields = ip.address_fields();
        let all = fields[0].start..fields[1].end;
        let before = frame[all.clone()].to_vec();
        let roce = roce_udp(frame, ip).filter(|udp| icrc(&frame[ip.start..ip.end], *udp) == frame[ip.end - 4..ip.end]);
        fields.into_iter().for_each(|field| self.map_ip(frame, field));
        let after = frame[all].to_vec();
        if before == after {
            return;
        }
        let update = |frame: &mut [u8], at: usize| update(frame, at, &before, &after);
        if ip.addresses[0].is_ipv4() {
            update(frame, ip.start + 10);
        }
        match ip.transport {
            Transport::Tcp(at) => update(frame, at + 16),
            Transport::IcmpV6(at) => update(frame, at + 2),
            Transport::Udp(at) => update_udp(frame, at, &before, &after),
            Transport::Other => {}
        }
        if let Some(udp) = roce {
            let place = ip.end - 4..ip.end;
            let (before, after) = (frame[place.clone()].to_vec(), icrc(&frame[ip.start..ip.end], udp));
            frame[place].copy_from_slice(&after);
            // The UDP checksum, if there is one, covers the ICRC.
            update_udp(frame, ip.start + udp, &before, &after);
        }
    }

    fn map_mac(&self, frame: &mut [u8], at: usize) {
        let field = &mut frame[at..at + 6];
        let new = self.mappings.iter().find_map(|mapping| match mapping {
            Mapping::Mac(old, new) if old.0 == *field => Some(new),
            _ => None,
        });
        if let Some(new) = new {
            field.copy_from_slice(&new.0);
        }
    }

    fn map_ip(&self, frame: &mut [u8], field: Range<usize>) {
        let field = &mut frame[field];
        let new = self.mappings.iter().find_map(|mapping| match mapping {
            Mapping::Ip(old, new, bits) => mapped(field, &octets(*old), &octets(*new), *bits),
            Mapping::Mac(..) => None,
        });
        if let Some(new) = new {
            field.copy_from_slice(&new);
        }
    }
}

/// Updates the checksum at `at` after bytes that it covers were replaced.
fn update(frame: &mut [u8], at: usize, before: &[u8], after: &[u8]) {
    let Some(checksum) = word(frame, at) else { return };
    frame[at..at + 2].copy_from_slice(&updated(checksum, before, after).to_be_bytes());
}

/// Updates the checksum of the UDP datagram at `udp`. 0 means no checksum, and a sum of 0 is written as 0xffff.
fn update_udp(frame: &mut [u8], udp: usize, before: &[u8], after: &[u8]) {
    let at = udp + 6;
    if word(frame, at) == Some(0) {
        return;
    }
    update(frame, at, before, after);
    if word(frame, at) == Some(0) {
        frame[at..at + 2].fill(0xff);
    }
}

/// Returns the start of a RoCEv2 packet's UDP header, relative to the IP header.
fn roce_udp(frame: &[u8], ip: &Ip) -> Option<usize> {
    let Transport::Udp(at) = ip.transport else { return None };
    let is_roce = word(frame, at + 2) == Some(ROCE) && ip.end >= at + 8 + 12 + 4;
    is_roce.then(|| at - ip.start)
}

/// Returns the address with its first bits replaced by those of `new`, if they match `old`.
fn mapped(field: &[u8], old: &[u8], new: &[u8], bits: u8) -> Option<Vec<u8>> {
    if field.len() != old.len() {
        return None;
    }
    let mask = |byte: usize| match usize::from(bits).saturating_sub(byte * 8) {
        0 => 0,
        more => 0xffu8 << (8 - more.min(8)),
    };
    let agrees = (0..field.len()).all(|byte| (field[byte] ^ old[byte]) & mask(byte) == 0);
    agrees.then(|| (0..field.len()).map(|byte| new[byte] & mask(byte) | field[byte] & !mask(byte)).collect())
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

impl FromStr for Mapping {
    type Err = RewritingError;

    fn from_str(text: &str) -> Result<Mapping, RewritingError> {
        let (old, new) = text.split_once('=').ok_or_else(|| RewritingError(format!("{text:?} has no `=`")))?;
        if let (Ok(old), Ok(new)) = (old.parse::<MacAddr>(), new.parse::<MacAddr>()) {
            return Ok(Mapping::Mac(old, new));
        }
        let prefix = |text: &str| -> Result<(IpAddr, u8), RewritingError> {
            let wrong = || RewritingError(format!("{text:?} is no address"));
            let (address, bits) = match text.split_once('/') {
                Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.unwrap_or(most);
            if bits > most { Err(wrong()) } else { Ok((address, bits)) }
        };
        let ((old, bits), (new, other_bits)) = (prefix(old)?, prefix(new)?);
        if bits != other_bits || old.is_ipv4() != new.is_ipv4() {
            return Err(RewritingError(format!("{text:?} has one of each kind")));
        }
        Ok(Mapping::Ip(old, new, bits))
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::rocev2::{Dscp, Ecn, Packet};

    use super::*;

    fn rewriting(mappings: &[&str]) -> Rewriting {
        Rewriting { mappings: mappings.iter().map(|text| text.parse().unwrap()).collect(), ..Rewriting::default() }
    }

    /// An RDMA WRITE of 10.0.0.1 to 10.0.0.2, with a right ICRC by `weir-wire`.
    fn roce() -> Vec<u8> {
        use weir_wire::rocev2::{Operation, PacketPosition, Psn, QueuePair, Repr, source_port};
        let repr = Repr {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            source_ip: [10, 0, 0, 1].into(),
            destination_ip: [10, 0, 0, 2].into(),
            source_port: source_port(QueuePair::new(7), QueuePair::new(9)),
            dscp: Dscp::new(26),
            ecn: Ecn::Ect0,
            queue_pair: QueuePair::new(7),
            psn: Psn::new(5),
            operation: Operation::Write { position: PacketPosition::Middle, ack_request: false },
        };
        let mut frame = vec![0; repr.frame_bytes(256)];
        repr.write(&[7; 256], &mut frame).unwrap();
        frame
    }

    #[test]
    fn a_rewritten_roce_frame_has_right_checksums() {
        let mut frame = roce();
        assert!(Packet::new(&frame).unwrap().icrc_holds());
        rewriting(&["10.0.0.0/24=10.9.7.0/24", "02:00:00:00:00:02=02:00:00:00:00:77"]).apply(&mut frame);
        let packet = Packet::new(&frame).unwrap();
        assert!(packet.icrc_holds(), "the ICRC covers addresses");
        assert_eq!((packet.source_ip(), packet.destination_ip()), ([10, 9, 7, 1].into(), [10, 9, 7, 2].into()));
        assert_eq!((packet.source().0[5], packet.destination().0[5]), (1, 0x77));
    }

    #[test]
    fn all_frames_get_one_source_but_groups_stay_groups() {
        let to = Rewriting {
            source: Some(MacAddr([2, 0, 0, 0, 0, 8])),
            destination: Some(MacAddr([2, 0, 0, 0, 0, 9])),
            ..Rewriting::default()
        };
        let mut frame = [0xff; 60];
        to.apply(&mut frame);
        assert_eq!((&frame[..6], &frame[6..12]), (&[0xff; 6][..], &[2, 0, 0, 0, 0, 8][..]));
        frame[0] = 2;
        to.apply(&mut frame);
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for text in ["10.0.0.1", "10.0.0.1=fd00::1", "10.0.0.0/24=10.0.0.0/25", "10.0.0.0/33=10.0.0.0/33", "a=b"] {
            assert!(text.parse::<Mapping>().is_err(), "{text}");
        }
        let v6: Mapping = "fd00::/64=fd01::/64".parse().unwrap();
        assert!(matches!(v6, Mapping::Ip(_, _, 64)));
        assert_eq!(mapped(&[10, 0, 7, 9], &[10, 0, 4, 0], &[10, 1, 8, 0], 22), Some(vec![10, 1, 11, 9]));
        assert_eq!(mapped(&[10, 0, 8, 9], &[10, 0, 4, 0], &[10, 1, 8, 0], 22), None);
    }
}
