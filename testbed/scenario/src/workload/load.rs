//! Offered load, as a share of links' rate.

use weir_units::{BitRate, Bytes};

use super::{SizeCdf, WorkloadError};

/// Share of a link's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    share: f64,
    rate: BitRate,
    framing: LoadFraming,
}

/// Bytes of a message that count for a load: payload, or bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadFraming {
    /// Payload of a full frame; above zero.
    pub payload: Bytes,
    /// Overhead of each frame that counts: headers, FCS, preamble and gap, or some of these.
    pub overhead: Bytes,
}

impl LoadFraming {
    /// Framing in which only payload counts, as in the public simulators. A load of 1 is then more than a link carries.
    pub const PAYLOAD_ONLY: LoadFraming = LoadFraming { payload: SizeCdf::SIZE_MAX, overhead: Bytes::ZERO };

    /// Mean bytes of a message that count.
    ///
    /// # Panics
    /// If a frame's payload is 0.
    pub fn mean(&self, sizes: &SizeCdf) -> f64 {
        sizes.mean() + self.overhead.get() as f64 * sizes.mean_frames(self.payload)
    }

    /// Bytes of a message that count.
    ///
    /// # Panics
    /// If a frame's payload is 0.
    pub fn counted_bytes(&self, size: Bytes) -> Bytes {
        size + self.overhead * size.get().div_ceil(self.payload.get())
    }
}

impl Load {
    /// Creates a load of `share` of a link of this rate; 1 is all of it.
    ///
    /// # Errors
    /// The share is not above 0 and up to 1, or the frames' payload is 0.
    pub fn new(share: f64, rate: BitRate, framing: LoadFraming) -> Result<Load, WorkloadError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(WorkloadError::Load(share));
        }
        if framing.payload == Bytes::ZERO {
            return Err(WorkloadError::NoPayload);
        }
        Ok(Load { share, rate, framing })
    }

    /// Returns the mean gap between messages for this load of one link, in picoseconds.
    pub(crate) fn mean_gap_ps(&self, sizes: &SizeCdf) -> f64 {
        self.framing.mean(sizes) * 8e12 / (self.share * self.rate.as_bps() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_worked_out_by_hand() {
        let sizes = SizeCdf::fixed(Bytes::new(2_500)).unwrap();
        let rate = BitRate::gbps(100);
        // 20,000 bits at 50 Gb/s.
        assert_eq!(Load::new(0.5, rate, LoadFraming::PAYLOAD_ONLY).unwrap().mean_gap_ps(&sizes), 400_000.0);
        // And three headers of 48 B: 21,152 bits.
        let framing = LoadFraming { payload: Bytes::kb(1), overhead: Bytes::new(48) };
        assert_eq!(Load::new(0.5, rate, framing).unwrap().mean_gap_ps(&sizes), 423_040.0);
        assert_eq!(framing.counted_bytes(Bytes::new(2_500)), Bytes::new(2_644));
        assert_eq!(framing.counted_bytes(Bytes::new(1_000)), Bytes::new(1_048));
    }

    #[test]
    fn loads_that_no_link_carries_are_refused() {
        for share in [0.0, -0.1, 1.000_1, 60.0, f64::NAN, f64::INFINITY] {
            let refused = Load::new(share, BitRate::gbps(1), LoadFraming::PAYLOAD_ONLY);
            assert!(matches!(refused, Err(WorkloadError::Load(_))), "{share}");
        }
        assert_eq!(
            Load::new(60.0, BitRate::gbps(1), LoadFraming::PAYLOAD_ONLY).unwrap_err().to_string(),
            "the load is 60; write a share of the links' rate above 0 and up to 1, like 0.6 for 60 %"
        );
        let empty = LoadFraming { payload: Bytes::ZERO, overhead: Bytes::ZERO };
        assert_eq!(Load::new(0.6, BitRate::gbps(1), empty), Err(WorkloadError::NoPayload));
    }
}
