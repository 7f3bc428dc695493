//! VLANs (IEEE 802.1Q): members, the VLAN of a received frame, and the tag of a sent one.

use weir_config::SwitchConfig;
use weir_units::{MacAddr, PortId, PortSet, QueueId};

use crate::fdb::FdbKey;
use crate::packet::Packet;

/// VLANs of a switch. Each one learns and floods by itself.
#[derive(Debug)]
pub struct Vlans {
    vlans: Box<[Vlan]>,
    /// Index of each VLAN in `vlans`, plus one; 0 for a VLAN without members.
    indices: Box<[u8; IDS]>,
    /// VLAN of each port's untagged frames (PVID); 0 for none.
    own: Box<[u16]>,
}

/// One VLAN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vlan {
    /// Number, 1 to 4094.
    id: u16,
    /// Index in the forwarding table.
    index: u8,
    members: PortSet,
    /// Members that send the VLAN's frames with a tag.
    tagged: PortSet,
}

/// Number of VLANs that a frame's 12 bits can name.
const IDS: usize = 4_096;
/// Bits of the VLAN in the tag control information (9.6).
const ID_MASK: u16 = IDS as u16 - 1;
const PCP_SHIFT: u32 = 13;

impl Vlans {
    /// Returns the VLANs of a configuration; `None` if it has none.
    ///
    /// # Panics
    /// If it has more than [`SwitchConfig::VLANS_MAX`], or more ports than a [`PortSet`].
    pub(crate) fn new(config: &SwitchConfig) -> Option<Vlans> {
        let members = config.vlan_members();
        if members.is_empty() {
            return None;
        }
        assert!(members.len() <= SwitchConfig::VLANS_MAX && config.ports.len() <= PortSet::PORTS_MAX);
        let mut indices = Box::new([0; IDS]);
        let vlan = |(index, members): (u8, &weir_config::VlanMembers)| {
            indices[usize::from(members.vlan)] = index;
            let ports = |of: &[usize]| of.iter().map(|port| PortId(*port as u16)).collect();
            let tagged = ports(&members.tagged);
            Vlan { id: members.vlan, index, members: tagged | ports(&members.untagged), tagged }
        };
        let vlans = (1..=u8::MAX).zip(&members).map(vlan).collect();
        let own = config.ports.iter().map(|port| port.vlan.unwrap_or(0)).collect();
        Some(Vlans { vlans, indices, own })
    }

    /// Returns the VLAN of a frame received by a port, by its tag (6.9.1, 8.6.2); `None` if the port is no member of it, or the frame has
    /// none.
    #[inline]
    pub(crate) fn of_frame(&self, port: PortId, tag: Option<u16>) -> Option<&Vlan> {
        let id = match tag.map_or(0, |tag| tag & ID_MASK) {
            // Untagged, or with a priority alone.
            0 => self.own[port.index()],
            id => id,
        };
        let index = usize::from(self.indices[usize::from(id)]).checked_sub(1)?;
        Some(&self.vlans[index]).filter(|vlan| vlan.members.contains(port))
    }

    /// Changes the tag of a frame received by `from` to that of the VLAN at the egress port. A priority is kept, and one without tag gets
    /// the queue's.
    /// Returns false if the frame has no room for a tag.
    #[inline]
    pub(crate) fn set_tag<P: Packet>(&self, from: PortId, egress: QueueId, packet: &mut P) -> bool {
        let received = packet.tag();
        let Some(vlan) = self.of_frame(from, received) else { return false };
        let priority = received.map_or((egress.class().index() as u16) << PCP_SHIFT, |tag| tag & !ID_MASK);
        let tag = vlan.tagged.contains(egress.port()).then_some(priority | vlan.id);
        tag == received || packet.set_tag(tag)
    }

    /// Returns the number of a VLAN by its index in the forwarding table.
    pub fn id(&self, index: u8) -> Option<u16> {
        Some(self.vlans.get(usize::from(index).checked_sub(1)?)?.id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vlan> {
        self.vlans.iter()
    }
}

impl Vlan {
    #[inline]
    pub(crate) fn contains(&self, port: PortId) -> bool {
        self.members.contains(port)
    }

    /// Returns the key of an address of this VLAN in the forwarding table.
    #[inline]
    pub(crate) fn key(&self, address: MacAddr) -> FdbKey {
        FdbKey::in_vlan(self.index, address)
    }
}
