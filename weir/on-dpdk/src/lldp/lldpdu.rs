//! LLDPDU of a port: identity, and DCBX from the configuration.

use weir_config::{Device, SwitchConfig};
use weir_switch_core::Shared;
use weir_units::{CLASSES, Class, ClassSet, MacAddr};
use weir_wire::lldp::{ApplicationPriority, Capabilities, EtsConfiguration, Identifier, Lldpdu, PfcConfiguration};
use weir_wire::rocev2;

/// Time for which an LLDPDU is valid, in seconds: four intervals and one second.
const TTL: u16 = 121;
/// DSCP of RoCEv2 by NIC vendors' convention, which selects its class where several are lossless.
const ROCEV2_DSCP: usize = 26;

/// Returns the chassis ID of a switch: the MAC address of its first NIC or kernel interface. Drivers of other devices give equal addresses
/// to the ports of several processes; a switch with such ports alone is named by its machine and first socket, or by its process.
pub(super) fn chassis(config: &SwitchConfig, shared: &Shared) -> Identifier {
    let has_own_mac =
        |device: &Device| matches!(device, Device::Pci(_) | Device::AfPacket(_) | Device::AfXdp(_) | Device::Tap(_));
    let ports = config.real_ports().filter(|port| has_own_mac(&config.ports[*port].device));
    let mac = ports.map(|port| shared.ports()[port].mac).find(|mac| *mac != MacAddr::default());
    mac.map_or_else(|| Identifier::Text { subtype: Identifier::LOCAL, text: local_name(config) }, Identifier::Mac)
}

/// Returns a name of the switch that no other one has. A socket has one listener at a time, so the name stays across restarts.
pub(super) fn local_name(config: &SwitchConfig) -> String {
    let own_socket = config
        .ports
        .iter()
        .map(|port| &port.device)
        .find(|device| matches!(device, Device::VhostUser(_) | Device::Memif { .. }));
    let own = own_socket.map_or_else(|| std::process::id().to_string(), Device::to_string);
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} {} {own}", config.name, machine.trim_end())
}

/// Returns the shutdown LLDPDU of a port, which withdraws all others.
pub(super) fn shutdown_lldpdu(chassis: &Identifier, config: &SwitchConfig, number: usize) -> Lldpdu {
    let text = config.ports[number].name.clone();
    Lldpdu::new(chassis.clone(), Identifier::Text { subtype: Identifier::PORT_NAME, text }, 0)
}

/// Returns the LLDPDU of a port. The switch is not willing: its classes are configured.
pub(super) fn port_lldpdu(chassis: &Identifier, config: &SwitchConfig, number: usize) -> Lldpdu {
    let (ets, pfc) = (ets(config), pfc_classes(config, number));
    let rocev2 =
        pfc.iter().find(|class| usize::from(config.class_map(number).group_of_dscp()[ROCEV2_DSCP]) == class.index());
    let rocev2 = rocev2.or_else(|| pfc.iter().next()).map(|class| ApplicationPriority {
        class,
        selector: ApplicationPriority::UDP,
        protocol: rocev2::UDP_PORT,
    });
    Lldpdu {
        ttl: TTL,
        port_description: Some(config.ports[number].device.to_string()),
        system_name: Some(config.name.clone()),
        system_description: Some(concat!("Weir ", env!("CARGO_PKG_VERSION")).to_owned()),
        capabilities: Some(Capabilities { system: Capabilities::BRIDGE, enabled: Capabilities::BRIDGE }),
        ets: Some(ets),
        ets_recommendation: Some(ets),
        pfc: Some(PfcConfiguration { willing: false, classes_max: CLASSES as u8, enabled: pfc }),
        applications: rocev2.into_iter().collect(),
        ..shutdown_lldpdu(chassis, config, number)
    }
}

/// Returns the classes in which a port sends and obeys PFC.
pub(super) fn pfc_classes(config: &SwitchConfig, number: usize) -> ClassSet {
    let kind = config.ports[config.real_port(number)].flow_control.message_kind();
    if kind.has_pfc() { config.classes.lossless } else { ClassSet::EMPTY }
}

/// Returns the class that a neighbour announces for RoCEv2.
pub(super) fn rocev2_class(lldpdu: &Lldpdu) -> Option<usize> {
    let is_rocev2 =
        |entry: &&ApplicationPriority| entry.selector == ApplicationPriority::UDP && entry.protocol == rocev2::UDP_PORT;
    lldpdu.applications.iter().find(is_rocev2).map(|entry| entry.class.index())
}

/// Returns the scheduling of the egress queues: a traffic class for each priority. Shares are whole percents that add up to 100, by the
/// largest remainder.
fn ets(config: &SwitchConfig) -> EtsConfiguration {
    let queues = &config.classes.queues;
    let weight = |class: usize| if queues[class].strict { 0 } else { u64::from(queues[class].quantum) };
    let total: u64 = (0..CLASSES).map(weight).sum();
    let mut percent: [u8; CLASSES] =
        std::array::from_fn(|class| (weight(class) * 100).checked_div(total).unwrap_or(0) as u8);
    let missing = if total == 0 { 0 } else { 100 - percent.iter().map(|share| usize::from(*share)).sum::<usize>() };
    let mut by_remainder: Vec<usize> = (0..CLASSES).collect();
    by_remainder.sort_by_key(|class| std::cmp::Reverse((weight(*class) * 100).checked_rem(total)));
    by_remainder.iter().take(missing).for_each(|class| percent[*class] += 1);
    EtsConfiguration {
        willing: false,
        traffic_classes: CLASSES as u8,
        class_of_priority: Class::ALL.map(|class| class.index() as u8),
        percent,
        algorithms: std::array::from_fn(|class| {
            if queues[class].strict { EtsConfiguration::STRICT } else { EtsConfiguration::SHARES }
        }),
    }
}
