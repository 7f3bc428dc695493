//! Receive queue: copies frames from the ring into mbufs.

use std::sync::Arc;

use crate::batch::Batch;
use crate::mbuf::Mbuf;
use crate::mempool::Mempool;
use crate::netdev::checksum;
use crate::netdev::counters::Counters;
use crate::netdev::ring::{Received, RxRing};
use crate::rx_interrupts::RxInterrupt;

/// The receiving part of a netdev port.
#[derive(Debug)]
pub(crate) struct Receiver {
    ring: RxRing,
    pool: Mempool,
    /// Empty mbufs, allocated in bulk. Those that a poll does not fill stay for the next.
    empty: Batch,
    counters: Arc<Counters>,
}

impl Receiver {
    pub(super) fn new(ring: RxRing, pool: Mempool, counters: Arc<Counters>) -> Receiver {
        Receiver { ring, pool, empty: Batch::new(), counters }
    }

    /// Descriptor that becomes readable when the ring has a frame; `None` if the process has no descriptor left.
    pub(crate) fn rx_interrupt(&self) -> Option<RxInterrupt> {
        self.ring.socket().try_clone().ok().map(RxInterrupt)
    }

    /// Appends up to `wanted` frames, which the batch has room for. A frame for which there is no mbuf stays in the ring.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, wanted: usize) -> usize {
        if !self.ring.has_frame() {
            return 0;
        }
        self.receive_some(batch, wanted)
    }

    fn receive_some(&mut self, batch: &mut Batch, wanted: usize) -> usize {
        let missing = wanted.saturating_sub(self.empty.len());
        if !self.pool.alloc_bulk(&mut self.empty, missing)
            && self.empty.is_empty()
            && !self.pool.alloc_bulk(&mut self.empty, 1)
        {
            self.counters.rx.no_mbuf.add(1);
            return 0;
        }
        let (mut frames, mut bytes) = (0, 0);
        while frames < wanted && self.ring.has_frame() {
            let Some(mut mbuf) = self.empty.pop_front() else { break };
            self.ring.prefetch();
            let is_filled = fill(&mut mbuf, &self.ring.frame(), &self.counters);
            self.ring.release();
            if is_filled {
                bytes += u64::from(mbuf.len());
                frames += 1;
                batch.push(mbuf).expect("the caller left room");
            } else {
                self.empty.push_front(mbuf).expect("its place is free");
            }
        }
        self.counters.rx.frames.add(frames as u64);
        self.counters.rx.bytes.add(bytes);
        frames
    }
}

/// Copies a frame and restores its form on the wire. If that fails, counts the cause and returns false.
#[inline]
fn fill(mbuf: &mut Mbuf, received: &Received<'_>, counters: &Counters) -> bool {
    let bytes = received.bytes;
    if received.superframe {
        counters.rx.superframes.add(1);
        return false;
    }
    let tag_bytes = if received.tag.is_some() { TAG_BYTES } else { 0 };
    let len = bytes.len() + tag_bytes;
    if bytes.len() != received.len as usize || bytes.len() < ADDRESSES_BYTES || !fits(mbuf, len) {
        counters.rx.too_long.add(1);
        return false;
    }
    let data = mbuf.data_mut();
    if let Some([tag_type, control]) = received.tag {
        if !has_protocol(control, bytes) {
            counters.rx.no_protocol.add(1);
        }
        data[..ADDRESSES_BYTES].copy_from_slice(&bytes[..ADDRESSES_BYTES]);
        data[ADDRESSES_BYTES..][..2].copy_from_slice(&tag_type.to_be_bytes());
        data[ADDRESSES_BYTES + 2..][..2].copy_from_slice(&control.to_be_bytes());
        data[ADDRESSES_BYTES + TAG_BYTES..].copy_from_slice(&bytes[ADDRESSES_BYTES..]);
    } else {
        data.copy_from_slice(bytes);
    }
    let Some([start, offset]) = received.checksum else { return true };
    let (start, offset) = (usize::from(start) + tag_bytes, usize::from(offset));
    if offset == SCTP_OFFSET || !checksum::complete(data, start, offset) {
        counters.rx.bad_checksums.add(1);
        return false;
    }
    counters.rx.checksums.add(1);
    true
}

/// Returns whether the kernel has a protocol for a frame without its outer tag, whose control word is `control`: IPv4, IPv6 or ARP.
/// Behind an outer tag of VLAN 0 the kernel takes the next tag off too.
fn has_protocol(mut control: u16, untagged: &[u8]) -> bool {
    let word = |at: usize| untagged.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let mut at = ADDRESSES_BYTES;
    while control & VLAN_ID == 0
        && let (Some(0x8100 | 0x88a8), Some(next)) = (word(at), word(at + 2))
    {
        (control, at) = (next, at + TAG_BYTES);
    }
    matches!(word(at), Some(0x0800 | 0x0806 | 0x86dd))
}

#[inline(always)]
fn fits(mbuf: &mut Mbuf, len: usize) -> bool {
    u16::try_from(len).is_ok_and(|len| mbuf.set_len(len))
}

/// The bits of a tag's control word that name the VLAN.
const VLAN_ID: u16 = 0xfff;
/// Destination and source.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
/// Offset of SCTP's CRC-32C; TCP and UDP have their sums at 16 and 6.
const SCTP_OFFSET: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_behind_two_tags_have_no_protocol() {
        let frame = |fields: &[u16]| {
            let mut bytes = vec![0; ADDRESSES_BYTES];
            bytes.extend(fields.iter().flat_map(|word| word.to_be_bytes()));
            bytes
        };
        for (control, fields, expected) in [
            (5, &[0x0800][..], true),
            (5, &[0x86dd], true),
            (5, &[0x88b5], false),
            (5, &[0x8100, 5, 0x0800], false),
            (0, &[0x8100, 5, 0x0800], true),
            (0x6000, &[0x88a8, 0, 0x8100, 7, 0x0806], true),
            (0, &[0x8100, 7, 0x8100, 7, 0x0806], false),
            (0, &[0x8100], false),
            (5, &[], false),
        ] {
            assert_eq!(has_protocol(control, &frame(fields)), expected, "{control} {fields:x?}");
        }
    }
}
