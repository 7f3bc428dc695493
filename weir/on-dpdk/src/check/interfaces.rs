//! `weir check`: the kernel's interfaces below ports, which the kernel uses too.

use std::fs;
use std::path::Path;

use weir_config::{Device, PortConfig, SwitchConfig};
use weir_dpdk_driver::DeviceIssue;

/// Returns problems of a port's interface: an MTU below the switch's, an address, a bridge or bond.
pub(super) fn warnings(switch: &SwitchConfig, port: &PortConfig) -> Vec<DeviceIssue> {
    warnings_below(Path::new("/"), switch, port)
}

/// Returns [`warnings`] by `sys` and `proc` below this folder.
fn warnings_below(root: &Path, switch: &SwitchConfig, port: &PortConfig) -> Vec<DeviceIssue> {
    let mut found = Vec::new();
    let Some(interface) = interface(port) else { return found };
    let sysfs = root.join("sys/class/net").join(interface);
    let mtu = fs::read_to_string(sysfs.join("mtu")).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(mtu) = mtu.filter(|mtu| *mtu < switch.mtu.get()) {
        let wanted = switch.mtu.get();
        found.push(DeviceIssue {
            message: format!(
                "the MTU of {interface} is {mtu}, less than the switch's {wanted}: longer frames will be lost at the device"
            ),
            help: format!("ip link set {interface} mtu {wanted}, or write mtu = {mtu} in [switch]"),
        });
    }
    if let Some(master) = fs::read_link(sysfs.join("master")).ok().and_then(|of| of.file_name().map(ToOwned::to_owned))
    {
        found.push(DeviceIssue {
            message: format!("{interface} belongs to {}, which forwards its frames too", master.display()),
            help: format!("ip link set {interface} nomaster"),
        });
    }
    if has_address(root, interface) {
        found.push(DeviceIssue {
            message: format!("{interface} has an IP address: the kernel answers frames that the switch forwards too"),
            help: format!("ip address flush dev {interface}"),
        });
    }
    found
}

fn interface(port: &PortConfig) -> Option<&str> {
    match &port.device {
        Device::AfPacket(interface) | Device::AfXdp(interface) => Some(interface),
        _ => None,
    }
}

/// Whether an interface has an IPv4 address, by the routes that come with one, or an IPv6 address beyond the link's scope.
fn has_address(root: &Path, interface: &str) -> bool {
    let lines = |file: &str| fs::read_to_string(root.join("proc/net").join(file)).unwrap_or_default();
    let is_of = |field: Option<&str>| field == Some(interface);
    lines("route").lines().any(|line| is_of(line.split_whitespace().next()))
        // Address, index, prefix length, scope (0: global), flags, interface.
        || lines("if_inet6").lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            is_of(fields.last().copied()) && fields.get(3) == Some(&"00")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_the_kernel_uses_are_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/class/net/a/mtu", "1500\n");
        write("sys/class/net/b/mtu", "9000\n");
        fs::create_dir_all(root.path().join("sys/class/net/br0")).unwrap();
        std::os::unix::fs::symlink("../br0", root.path().join("sys/class/net/b/master")).unwrap();
        write("proc/net/route", "Iface Destination Gateway\nc 00000A0A 00000000\n");
        write("proc/net/if_inet6", "fe80 03 40 20 80 a\nfd00 04 40 00 80 d\n");
        let file = "[switch]\nmtu = 9000\n[buffer]\nsize = \"9MB\"\npolicy = \"dt\"\n[buffer.dt]\nalpha = 1\n"
            .to_owned()
            + &["a", "b", "c", "d"]
                .map(|name| format!("[[ports]]\nname = \"{name}\"\naf_packet = \"{name}\"\nrate = \"1Gbps\"\n"))
                .concat();
        let path = root.path().join("switch.toml");
        fs::write(&path, file).unwrap();
        let switch = weir_config::load(&path).unwrap();
        let warnings = switch.ports.iter().flat_map(|port| warnings_below(root.path(), &switch, port));
        let messages: Vec<String> = warnings.map(|issue| issue.message).collect();
        assert_eq!(
            messages,
            [
                "the MTU of a is 1500, less than the switch's 9000: longer frames will be lost at the device",
                "b belongs to br0, which forwards its frames too",
                "c has an IP address: the kernel answers frames that the switch forwards too",
                "d has an IP address: the kernel answers frames that the switch forwards too",
            ]
        );
    }
}
