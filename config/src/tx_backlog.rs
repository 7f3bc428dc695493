//! Bound of the data in a NIC's transmit queues, which leaves ahead of a PAUSE.

use weir_flowctl::TxBacklog;
use weir_units::{Bytes, Span, WIRE_OVERHEAD_BYTES};

use crate::{Device, PortConfig, SwitchConfig};

/// Number of transmit descriptors of a port's queue; few, because the MMU does not count the frames in the queue.
pub const TX_DESCRIPTORS: u16 = 128;

/// Upper bound of the transmission time of a NIC's backlog, in real time. Equal to the default of `[pfc] reaction`, the longest expected
/// poll, so that the link does not run dry between two polls.
const TX_BACKLOG: Span = Span::from_micros(50);

impl SwitchConfig {
    /// Bound of the transmit backlog of a port's NIC; `None` for other devices, whose link speed is unknown.
    pub fn tx_backlog(&self, port: &PortConfig) -> Option<TxBacklog> {
        // A clone's PAUSE leaves by its port.
        let device = match port.clone_of() {
            Some(of) => &self.ports.iter().find(|port| port.name == of)?.device,
            None => &port.device,
        };
        matches!(device, Device::Pci(_)).then(|| TxBacklog {
            time: TX_BACKLOG.divided_by(u64::from(self.time_dilation)),
            frame_max: self.frame_bytes_max() + Bytes::new(WIRE_OVERHEAD_BYTES),
            dilation: self.time_dilation,
        })
    }

    /// Maximum bytes that arrive at a port while its transmit backlog leaves ahead of a PAUSE: the backlog's bound, or the bytes of
    /// maximum-length frames in all descriptors, if fewer.
    pub fn tx_backlog_bytes(&self, port: &PortConfig) -> Option<Bytes> {
        let (rate, backlog) = (port.rate?, self.tx_backlog(port)?);
        let in_descriptors = backlog.frame_max * u64::from(TX_DESCRIPTORS);
        Some(rate.bytes_in(backlog.bound(rate)).min(in_descriptors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes Φ of a port with this device, and its transmit backlog.
    fn sizes(mtu: u32, rate: &str, device: &str) -> (u64, Option<u64>) {
        let text = format!(
            "[switch]\nmtu = {mtu}\n[buffer]\nsize = \"64MB\"\n[pfc]\nreaction = \"0s\"\n\
             [[ports]]\nname = \"a\"\n{device}\nrate = \"{rate}\"\n[[ports]]\nname = \"c\"\nclone_of = \"a\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"{rate}\"\n"
        );
        let config = crate::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let [a, clone, b] = [0, 1, 2].map(|port| config.headroom(port).unwrap().get());
        let backlog = config.tx_backlog_bytes(&config.ports[0]).map(Bytes::get);
        assert_eq!(a, b + backlog.unwrap_or(0), "a term of the rule, of NICs alone");
        assert_eq!((clone, config.tx_backlog_bytes(&config.ports[2])), (a, None));
        (a, backlog)
    }

    #[test]
    fn headroom_has_room_for_what_leaves_ahead_of_a_pause() {
        let nic = "pci = \"81:00.0\"";
        // 2 (125 + 1,522) + 3,840, and 50 us.
        assert_eq!(sizes(1_500, "10Gbps", nic), (7_134 + 62_500, Some(62_500)));
        // Two frames of 9,042 B take longer at 1 Gb/s.
        assert_eq!(sizes(9_000, "1Gbps", nic).1, Some(18_084));
        // 128 descriptors hold less than 50 us at 100 Gb/s.
        assert_eq!(sizes(1_500, "100Gbps", nic).1, Some(128 * 1_542));
        for device in ["tap = \"a\"", "af_packet = \"lo\"", "vhost_user = \"/run/a.sock\""] {
            assert_eq!(sizes(1_500, "10Gbps", device), (7_134, None), "{device}");
        }
    }
}
