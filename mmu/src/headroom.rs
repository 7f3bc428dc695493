//! How much headroom an ingress queue needs so that nothing is lost between PAUSE and silence.

use weir_units::{BitRate, Bytes, Span};

/// What a peer may still send while it makes up its mind to pause: 802.1Qbb caps the response time at this many
/// byte times (dsh II-B).
pub const PFC_RESPONSE_BYTES: Bytes = Bytes::new(3_840);

/// `Φ = 2 (C·D_prop + L_MTU) + 3840 B` (dsh eq. 1): the PAUSE waits for a frame being sent (L_MTU) and travels
/// (D_prop), the peer responds (3840 B) after the frame that it is sending (L_MTU), whose last bit travels (D_prop).
///
/// `propagation` is one way; `mtu_frame` is the largest frame with FCS. A software switch adds its own polling
/// delay: give it as part of `propagation`.
pub fn headroom(rate: BitRate, propagation: Span, mtu_frame: Bytes) -> Bytes {
    (rate.bytes_in(propagation) + mtu_frame) * 2 + PFC_RESPONSE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_values() {
        let phi = headroom(BitRate::gbps(40), Span::from_nanos(1_500), Bytes::new(1_500));
        assert_eq!(phi, Bytes::new(21_840));
        assert_eq!(phi * 32 * 8, Bytes::new(5_591_040));
        assert_eq!(headroom(BitRate::gbps(100), Span::from_micros(2), Bytes::new(1_500)), Bytes::new(56_840));
    }
}
