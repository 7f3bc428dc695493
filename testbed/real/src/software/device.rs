//! Device of smoltcp on a host's channel.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use weir_scenario::Scenario;
use weir_units::MacAddr;

use crate::software_channel::{FRAME_BYTES_MAX, Frame, SoftwareQueues};

/// Device that answers ARP requests for all hosts of the scenario itself. So no ARP request is flooded, which would
/// circulate forever in a ring of switches.
pub(super) struct ChannelDevice {
    pub(super) software_queues: SoftwareQueues,
    hosts: Vec<([u8; 4], MacAddr)>,
    arp_replies: VecDeque<Vec<u8>>,
    frame_bytes_max: usize,
}

const ETHERNET_BYTES: usize = 14;
/// ARP request for IPv4, from its EtherType on.
const ARP_REQUEST: [u8; 10] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1];

impl ChannelDevice {
    pub(super) fn new(scenario: &Scenario, host: usize, software_queues: SoftwareQueues) -> ChannelDevice {
        let mtu = scenario.switches[scenario.hosts[host].switch].mtu.get() as usize;
        ChannelDevice {
            software_queues,
            hosts: scenario.hosts.iter().map(|host| (host.nic.ip.octets(), host.nic.mac)).collect(),
            arp_replies: VecDeque::new(),
            frame_bytes_max: (ETHERNET_BYTES + mtu).min(FRAME_BYTES_MAX),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if let Some(reply) = arp_reply(bytes, &self.hosts) {
            self.arp_replies.push_back(reply);
        } else if let Some(frame) = Frame::new(bytes) {
            // There is space: tokens are only given out with it.
            let _ = self.software_queues.leaving.push(frame);
        }
    }
}

/// Returns the ARP reply of the requested host; `None` if the frame is no request for a known host.
fn arp_reply(request: &[u8], hosts: &[([u8; 4], MacAddr)]) -> Option<Vec<u8>> {
    if request.get(12..22)? != ARP_REQUEST {
        return None;
    }
    let (sender, wanted) = (request.get(22..32)?, request.get(38..42)?);
    let (ip, mac) = hosts.iter().find(|(ip, _)| ip == wanted)?;
    let reply = [&sender[..6], &mac.0, &ARP_REQUEST[..9], &[2], &mac.0, ip, sender];
    Some(reply.concat())
}

impl Device for ChannelDevice {
    type RxToken<'a> = LinkRxToken;
    type TxToken<'a> = LinkTxToken<'a>;

    fn receive(&mut self, _: Instant) -> Option<(LinkRxToken, LinkTxToken<'_>)> {
        if self.software_queues.leaving.is_full() {
            return None;
        }
        let bytes = match self.arp_replies.pop_front() {
            Some(reply) => reply,
            None => self.software_queues.arrived.pop().ok()?.bytes().to_vec(),
        };
        Some((LinkRxToken(bytes), LinkTxToken(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<LinkTxToken<'_>> {
        (!self.software_queues.leaving.is_full()).then_some(LinkTxToken(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.frame_bytes_max;
        capabilities
    }
}

pub(super) struct LinkRxToken(Vec<u8>);

impl RxToken for LinkRxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Transmit token, with space for one frame.
pub(super) struct LinkTxToken<'a>(&'a mut ChannelDevice);

impl TxToken for LinkTxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        self.0.send(&bytes);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_the_scenario_are_known() {
        let hosts = [([10, 0, 0, 1], MacAddr([2, 0, 0, 0, 0, 1])), ([10, 0, 0, 2], MacAddr([2, 0, 0, 0, 0, 2]))];
        let request = |wanted: u8| {
            let mut bytes = vec![0xff; 6];
            bytes.extend([2, 0, 0, 0, 0, 1]);
            bytes.extend(ARP_REQUEST);
            bytes.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
            bytes.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, wanted]);
            bytes
        };
        let reply = arp_reply(&request(2), &hosts).unwrap();
        assert_eq!(reply[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert_eq!(reply[12..22], [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
        assert_eq!(reply[22..], [2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        assert_eq!(arp_reply(&request(9), &hosts), None);
        assert_eq!(arp_reply(&reply, &hosts), None, "an answer is no question");
        assert_eq!(arp_reply(&request(2)[..30], &hosts), None);
    }
}
