//! The end that is cabled to a port of a switch: where a generator or a replay sends from.

use std::fs;
use std::path::Path;

use weir_config::{Device, PciDevice};

use crate::error::BenchError;

/// The device that an argument names: `pci=0000:04:00.1`, `af_packet=veth1`, `af_xdp=veth1`.
///
/// # Errors
/// It names none, or an interface that is not there.
pub fn parse_device(argument: &str, text: &str) -> Result<Device, BenchError> {
    let device = match text.split_once('=') {
        Some(("pci", address)) if !address.is_empty() => {
            let (address, devargs) = match address.split_once(',') {
                Some((address, devargs)) => (address, Some(devargs.to_owned())),
                None => (address, None),
            };
            Device::Pci(PciDevice { address: address.to_owned(), devargs })
        }
        Some(("af_packet", netdev)) if !netdev.is_empty() => Device::AfPacket(netdev.to_owned()),
        Some(("af_xdp", netdev)) if !netdev.is_empty() => Device::AfXdp(netdev.to_owned()),
        _ => {
            return Err(BenchError::Plan(format!(
                "{argument} {text}: write pci=ADDRESS, af_packet=INTERFACE or af_xdp=INTERFACE"
            )));
        }
    };
    if let Some(netdev) = device.netdev()
        && !Path::new("/sys/class/net").join(netdev).exists()
    {
        return Err(BenchError::Plan(format!("{argument} {text}: there is no network interface {netdev}")));
    }
    Ok(device)
}

/// The interface at the other end of a veth pair, if it is in this network namespace.
pub fn veth_peer(class_net: &Path, netdev: &str) -> Option<String> {
    let number = |name: &str, file: &str| -> Option<u32> {
        fs::read_to_string(class_net.join(name).join(file)).ok()?.trim().parse().ok()
    };
    let peer = number(netdev, "iflink")?;
    let own = number(netdev, "ifindex")?;
    let names = fs::read_dir(class_net).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Numbers may recur in another namespace: the peer's link must lead back.
    names
        .filter(|name| name != netdev)
        .find(|name| number(name, "ifindex") == Some(peer) && number(name, "iflink") == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_veth_pair_is_found() {
        let class_net = tempfile::tempdir().unwrap();
        for (name, own, link) in [("v0", 3, 4), ("v1", 4, 3), ("eth0", 2, 2), ("far", 5, 9), ("nine", 9, 9)] {
            let folder = class_net.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("ifindex"), format!("{own}\n")).unwrap();
            fs::write(folder.join("iflink"), format!("{link}\n")).unwrap();
        }
        let peer = |name| veth_peer(class_net.path(), name);
        assert_eq!((peer("v0").as_deref(), peer("v1").as_deref()), (Some("v1"), Some("v0")));
        // A NIC, one whose peer is in another namespace, and none.
        assert_eq!((peer("eth0"), peer("far"), peer("nosuch")), (None, None, None));
    }
}
