//! MAC addresses.

use std::fmt;
use std::str::FromStr;

use crate::UnitError;

/// MAC address of 48 bits, in transmission order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Broadcast address, `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// Destination address of MAC control frames, `01:80:c2:00:00:01` (IEEE 802.3 Annex 31B, 802.1Q clause 36).
    pub const MAC_CONTROL: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x01]);

    /// Address in the low 48 bits of a word, first octet highest.
    // Two words: otherwise the compiler assembles eight octets one by one.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        (u16::from_be_bytes([a, b]) as u64) << 32 | u32::from_be_bytes([c, d, e, f]) as u64
    }

    /// Creates an address from the low 48 bits of `word`; the high 16 are ignored.
    pub const fn from_u64(word: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Whether the group bit is set: multicast or broadcast.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address is in `01-80-C2-00-00-00` to `-0F`, which bridges never forward (IEEE 802.1Q 8.6.3).
    pub const fn is_link_local(self) -> bool {
        // The first octet alone excludes most addresses.
        self.0[0] == 0x01 && self.to_u64() & !0xf == 0x0180_c200_0000
    }
}

impl FromStr for MacAddr {
    type Err = UnitError;

    /// Parses six hexadecimal octets separated by `:` or `-`.
    fn from_str(text: &str) -> Result<MacAddr, UnitError> {
        let wrong = || UnitError::new(text, "a MAC address", "02:00:00:00:00:01");
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or_else(wrong)?;
            if part.len() != 2 {
                return Err(wrong());
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(MacAddr(octets)) }
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let mac: MacAddr = "01:80:c2:00:00:01".parse().unwrap();
        assert_eq!(mac, MacAddr::MAC_CONTROL);
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        assert_eq!("01-80-C2-00-00-01".parse(), Ok(mac));
        assert_eq!(mac.to_string(), "01:80:c2:00:00:01");
    }

    #[test]
    fn link_local_is_sixteen_addresses() {
        assert!("01:80:c2:00:00:0f".parse::<MacAddr>().unwrap().is_link_local());
        assert!(!"01:80:c2:00:00:10".parse::<MacAddr>().unwrap().is_link_local());
        assert!(!MacAddr::BROADCAST.is_link_local());
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in ["", "01:80:c2:00:00", "01:80:c2:00:00:01:02", "1:80:c2:00:00:01", "g1:80:c2:00:00:01"] {
            assert!(text.parse::<MacAddr>().is_err(), "{text}");
        }
    }
}
