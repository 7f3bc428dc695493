//! Device of smoltcp on a host's channel.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use weir_scenario::Scenario;
use weir_units::MacAddr;

use crate::door::{FRAME_BYTES_MAX, Frame, Inside};

/// Device that answers ARP requests for all hosts of the scenario itself. So no ARP request is flooded, which would
/// circulate forever in a ring of switches.
pub(super) struct Link {
    pub(super) inside: Inside,
    hosts: Vec<([u8; 4], MacAddr)>,
    answers: VecDeque<Vec<u8>>,
    frame_bytes_max: usize,
}

const ETHERNET_BYTES: usize = 14;
/// ARP request for IPv4, from its EtherType on.
const QUESTION: [u8; 10] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1];

impl Link {
    pub(super) fn new(scenario: &Scenario, host: usize, inside: Inside) -> Link {
        let mtu = scenario.switches[scenario.hosts[host].switch].mtu.get() as usize;
        Link {
            inside,
            hosts: scenario.hosts.iter().map(|host| (host.nic.ip.octets(), host.nic.mac)).collect(),
            answers: VecDeque::new(),
            frame_bytes_max: (ETHERNET_BYTES + mtu).min(FRAME_BYTES_MAX),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if let Some(answer) = answer(bytes, &self.hosts) {
            self.answers.push_back(answer);
        } else if let Some(frame) = Frame::new(bytes) {
            // There is space: tokens are only given out with it.
            let _ = self.inside.leaving.push(frame);
        }
    }
}

/// Returns the ARP reply of the requested host; `None` if the frame is no request for a known host.
fn answer(question: &[u8], hosts: &[([u8; 4], MacAddr)]) -> Option<Vec<u8>> {
    if question.get(12..22)? != QUESTION {
        return None;
    }
    let (asker, wanted) = (question.get(22..32)?, question.get(38..42)?);
    let (ip, mac) = hosts.iter().find(|(ip, _)| ip == wanted)?;
    let answer = [&asker[..6], &mac.0, &QUESTION[..9], &[2], &mac.0, ip, asker];
    Some(answer.concat())
}

impl Device for Link {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving<'_>)> {
        if self.inside.leaving.is_full() {
            return None;
        }
        let bytes = match self.answers.pop_front() {
            Some(answer) => answer,
            None => self.inside.arrived.pop().ok()?.bytes().to_vec(),
        };
        Some((Arrived(bytes), Leaving(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        (!self.inside.leaving.is_full()).then_some(Leaving(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.frame_bytes_max;
        capabilities
    }
}

pub(super) struct Arrived(Vec<u8>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Transmit token, with space for one frame.
pub(super) struct Leaving<'a>(&'a mut Link);

impl TxToken for Leaving<'_> {
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
        let question = |wanted: u8| {
            let mut bytes = vec![0xff; 6];
            bytes.extend([2, 0, 0, 0, 0, 1]);
            bytes.extend(QUESTION);
            bytes.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
            bytes.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, wanted]);
            bytes
        };
        let told = answer(&question(2), &hosts).unwrap();
        assert_eq!(told[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert_eq!(told[12..22], [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
        assert_eq!(told[22..], [2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        assert_eq!(answer(&question(9), &hosts), None);
        assert_eq!(answer(&told, &hosts), None, "an answer is no question");
        assert_eq!(answer(&question(2)[..30], &hosts), None);
    }
}
