//! Parameters of a queue pair, in perftest's text format.

use std::net::Ipv4Addr;

/// Parameters of one end's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Queue pair number.
    pub queue_pair: u32,
    /// PSN of the first packet that the end sends.
    pub psn: u32,
    /// Remote key of the memory region.
    pub remote_key: u32,
    /// Start address of the memory region.
    pub virtual_address: u64,
    /// GID of the end's address.
    pub gid: [u8; 16],
}

/// Prefix of the GID of an IPv4 address.
pub(crate) const GID_OF_IPV4: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Keys {
    /// Length of the message: text, and a zero.
    pub(crate) const BYTES: usize = 108;

    /// Sets the GID of an IPv4 address.
    pub fn with_ip(self, ip: Ipv4Addr) -> Keys {
        let mut gid = [0; 16];
        gid[..12].copy_from_slice(&GID_OF_IPV4);
        gid[12..].copy_from_slice(&ip.octets());
        Keys { gid, ..self }
    }

    /// Returns the IPv4 address of the GID; `None` for another kind of GID.
    pub fn ip(&self) -> Option<Ipv4Addr> {
        let own: [u8; 4] = self.gid.strip_prefix(&GID_OF_IPV4)?.try_into().ok()?;
        Some(own.into())
    }

    /// Encodes LID, outstanding reads, queue pair, PSN, key, address, GID, and the queue pair of a shared receive
    /// queue, in hexadecimal.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Keys { queue_pair, psn, remote_key, virtual_address, gid } = self;
        let gid: Vec<String> = gid.iter().map(|byte| format!("{byte:02x}")).collect();
        let gid = gid.join(":");
        let mut text =
            format!("0000:0001:{queue_pair:06x}:{psn:06x}:{remote_key:08x}:{virtual_address:016x}:{gid}:00000000:")
                .into_bytes();
        text.resize(Self::BYTES, 0);
        text
    }

    pub(super) fn parse(message: &[u8]) -> Option<Keys> {
        let text = std::str::from_utf8(message).ok()?;
        let fields: Vec<&str> = text.trim_end_matches('\0').split(':').collect();
        let number = |n: usize| u64::from_str_radix(fields.get(n)?, 16).ok();
        let small = |n: usize| u32::try_from(number(n)?).ok();
        let mut gid = [0; 16];
        for (n, byte) in gid.iter_mut().enumerate() {
            *byte = u8::try_from(number(6 + n)?).ok()?;
        }
        let is_24_bits = |value: &u32| *value < 1 << 24;
        Some(Keys {
            queue_pair: small(2).filter(is_24_bits)?,
            psn: small(3).filter(is_24_bits)?,
            remote_key: small(4)?,
            virtual_address: number(5)?,
            gid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message of ib_write_bw 6.06 in a guest with Soft-RoCE.
    const SENT: &[u8; 108] =
        b"0000:0001:000011:859076:000002f7:00007fdf32a47000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:02:00000000:\0";

    #[test]
    fn keys_are_perftests() {
        let keys = Keys::parse(SENT).unwrap();
        let bare = Keys {
            queue_pair: 0x11,
            psn: 0x859076,
            remote_key: 0x2f7,
            virtual_address: 0x7fdf_32a4_7000,
            gid: [0; 16],
        };
        assert_eq!(keys, bare.with_ip([10, 0, 0, 2].into()));
        assert_eq!((keys.ip(), bare.ip()), (Some([10, 0, 0, 2].into()), None));
        assert_eq!(keys.to_bytes(), SENT);
    }

    #[test]
    fn other_text_is_no_keys() {
        let text = String::from_utf8_lossy(SENT).into_owned();
        for wrong in [text.replace("0a:", "100:"), text.replace("000011", "1000011"), text.replace("ff:ff", "gg:ff")] {
            assert_eq!(Keys::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Keys::parse(&SENT[..60]), None);
        assert_eq!(Keys::parse(&[0xff; 108]), None);
    }
}
