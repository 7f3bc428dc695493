//! NICs on the PCI bus as sysfs shows them before DPDK takes them: driver, IOMMU, permissions, NUMA node, slot.

use std::fs;
use std::path::{Path, PathBuf};

/// Root folders of sysfs and device files; other folders in tests.
#[derive(Clone, Debug)]
pub struct Sysfs {
    sys: PathBuf,
    dev: PathBuf,
}

/// NIC, as sysfs shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciNicInfo {
    /// PCI address, as `0000:81:00.0`.
    pub address: String,
    /// Kernel driver of the NIC.
    pub driver: Option<String>,
    /// The IOMMU group, of devices that can only be given to DPDK together.
    pub group: Option<u32>,
    /// Other devices of the IOMMU group, with the kernel drivers that block it.
    pub group_conflicts: Vec<(String, String)>,
    /// NUMA node of the NIC's slot.
    pub node: Option<u32>,
    /// Current and best link of the slot, if the NIC could do more: `("8.0 GT/s x4", "8.0 GT/s x8")`.
    pub slot: Option<(String, String)>,
    /// Kernel network interface of the NIC.
    pub netdev: Option<String>,
    /// Carrier of the NIC's interface; `None` without one, or if it is down.
    pub carrier: Option<bool>,
    /// Whether this process may open the group's file.
    pub may_open: bool,
    /// Whether vfio goes without an IOMMU here.
    pub no_iommu: bool,
    /// The PCI class code, such as 0x020000 of an Ethernet controller.
    pub class: Option<u32>,
    /// Address of a virtual function's physical function (SR-IOV). `None` in a guest, which does not see it.
    pub physical_function: Option<String>,
}

/// Access of DPDK to a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IovaAccess {
    /// IOMMU addresses, through vfio.
    Iommu,
    /// Physical addresses, through uio, or vfio without an IOMMU. Hugepages are needed.
    Physical,
    /// The kernel's driver shares the NIC with DPDK (mlx).
    Shared,
}

/// Problem of a device, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIssue {
    /// The fault, in a sentence.
    pub message: String,
    /// The command that fixes it.
    pub help: String,
}

/// Base class of network controllers (PCI Code and ID Assignment Specification, 1.3).
const NETWORK: u32 = 0x02;
/// DPDK's drivers of virtual functions; mlx5 and others have one for both kinds.
const VF_DRIVERS: [&str; 3] = ["net_ixgbe_vf", "net_e1000_igb_vf", "net_iavf"];
const VFIO: &str = "vfio-pci";
const UIO: [&str; 2] = ["uio_pci_generic", "igb_uio"];
const SHARED: [&str; 3] = ["mlx5_core", "mlx4_core", "hv_netvsc"];
/// Bridges may stay with their drivers.
const HARMLESS: [&str; 2] = ["pcieport", "vfio-pci"];

impl Sysfs {
    /// Returns this machine's sysfs and device folders.
    pub fn here() -> Sysfs {
        Sysfs { sys: "/sys".into(), dev: "/dev".into() }
    }

    /// The NIC at an address; `None` if there is no device.
    pub fn nic(&self, address: &str) -> Option<PciNicInfo> {
        let device = self.sys.join("bus/pci/devices").join(address);
        if !device.exists() {
            return None;
        }
        let group_folder = device.join("iommu_group");
        let group = fs::read_link(&group_folder).ok().and_then(|link| link.file_name()?.to_str()?.parse().ok());
        let no_iommu =
            read(&self.sys.join("module/vfio/parameters/enable_unsafe_noiommu_mode")).as_deref() == Some("Y");
        let netdev = first_entry(&device.join("net"));
        let carrier = netdev.as_ref().and_then(|name| read(&device.join("net").join(name).join("carrier")));
        Some(PciNicInfo {
            address: address.to_owned(),
            driver: driver_of(&device),
            group,
            group_conflicts: group_conflicts(&group_folder.join("devices"), address),
            node: read(&device.join("numa_node")).and_then(|node| node.parse().ok()),
            slot: slot(&device),
            carrier: carrier.map(|text| text == "1"),
            netdev,
            class: read(&device.join("class"))
                .and_then(|class| u32::from_str_radix(class.strip_prefix("0x")?, 16).ok()),
            physical_function: fs::read_link(device.join("physfn"))
                .ok()
                .and_then(|link| Some(link.file_name()?.to_str()?.to_owned())),
            may_open: group.is_none_or(|group| may_open(&self.dev.join("vfio").join(group.to_string()))),
            no_iommu,
        })
    }

    /// The NUMA node of a CPU, where the machine has several.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<u32> {
        let folder = self.sys.join("devices/system/cpu").join(format!("cpu{cpu}"));
        let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
    }
}

impl PciNicInfo {
    /// Returns DPDK's access to the NIC; `None` if it has none.
    pub fn access(&self) -> Option<IovaAccess> {
        match self.driver.as_deref()? {
            VFIO if self.no_iommu => Some(IovaAccess::Physical),
            VFIO => Some(IovaAccess::Iommu),
            driver if UIO.contains(&driver) => Some(IovaAccess::Physical),
            driver if SHARED.contains(&driver) => Some(IovaAccess::Shared),
            _ => None,
        }
    }

    /// Returns the problem that prevents use of the NIC. `has_hugepages`: free hugepages hold the packet memory; `hugepages`: 2 MiB pages
    /// needed.
    pub(crate) fn problem(&self, has_hugepages: bool, hugepages: u32) -> Option<DeviceIssue> {
        let address = &self.address;
        let finding = |message: String, help: String| Some(DeviceIssue { message, help });
        if let Some(class) = self.class.filter(|class| class >> 16 != NETWORK) {
            return finding(
                format!("PCI device {address} is no NIC: its class is 0x{class:06x}, and NICs have 0x02...."),
                "name a NIC; dpdk-devbind.py --status-dev net lists them".to_owned(),
            );
        }
        let Some(driver) = &self.driver else {
            return finding(
                format!("PCI device {address} has no driver"),
                format!("bind one with: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}"),
            );
        };
        match self.access() {
            None => finding(
                format!("PCI device {address} belongs to the kernel's driver {driver}"),
                format!("give it to DPDK with: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}"),
            ),
            Some(IovaAccess::Iommu) if self.group.is_none() => finding(
                format!("PCI device {address} is bound to vfio-pci, but no IOMMU is on"),
                "switch it on in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on iommu=pt; without one: \
                 modprobe uio_pci_generic, dpdk-devbind.py --bind=uio_pci_generic, and hugepages"
                    .to_owned(),
            ),
            Some(IovaAccess::Iommu) if !self.group_conflicts.is_empty() => {
                let others: Vec<String> =
                    self.group_conflicts.iter().map(|(other, driver)| format!("{other} ({driver})")).collect();
                let addresses: Vec<&str> = self.group_conflicts.iter().map(|(other, _)| other.as_str()).collect();
                finding(
                    format!("PCI device {address} shares its IOMMU group with {}", others.join(", ")),
                    format!("give these to vfio-pci too: dpdk-devbind.py --bind=vfio-pci {}", addresses.join(" ")),
                )
            }
            Some(IovaAccess::Iommu) if !self.may_open => {
                let group = self.group.unwrap_or(0);
                finding(
                    format!("this process may not open /dev/vfio/{group}, the IOMMU group of {address}"),
                    format!(
                        "run as root, or: chown $USER /dev/vfio/{group}, and let it lock memory (ulimit -l unlimited)"
                    ),
                )
            }
            Some(IovaAccess::Physical) if !has_hugepages => finding(
                format!(
                    "PCI device {address} is reached by physical addresses ({driver}), for which hugepages are needed"
                ),
                format!(
                    "echo {hugepages} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; or bind it to vfio-pci with an IOMMU"
                ),
            ),
            Some(_) => None,
        }
    }

    /// Returns performance problems and surprises. `cpu_nodes` are the NUMA nodes of the CPUs in use.
    pub fn warnings(&self, cpu_nodes: &[u32]) -> Vec<DeviceIssue> {
        let address = &self.address;
        let mut found: Vec<DeviceIssue> = self.virtual_function("").into_iter().collect();
        if let Some(node) = self.node
            && !cpu_nodes.is_empty()
            && !cpu_nodes.contains(&node)
        {
            found.push(DeviceIssue {
                message: format!("PCI device {address} is on NUMA node {node}, and the cores are on {cpu_nodes:?}"),
                help: format!(
                    "write cores of node {node} in [lcores]: cat /sys/devices/system/node/node{node}/cpulist"
                ),
            });
        }
        if let Some((now, most)) = &self.slot {
            found.push(DeviceIssue {
                message: format!("PCI device {address} has a slot of {now}, and could use {most}"),
                help: "plug it into a wider slot".to_owned(),
            });
        }
        if let (Some(netdev), Some(false)) = (&self.netdev, self.carrier) {
            found.push(DeviceIssue {
                message: format!("{netdev} ({address}) has no link"),
                help: format!("ip link set {netdev} up; look at the cable and the peer"),
            });
        }
        found
    }
}

impl PciNicInfo {
    /// Describes a virtual function's limits. `None` for other NICs, as the system and DPDK's `driver` name them.
    pub(crate) fn virtual_function(&self, driver: &str) -> Option<DeviceIssue> {
        if self.physical_function.is_none() && !VF_DRIVERS.contains(&driver) {
            return None;
        }
        let of = self.physical_function.as_ref().map_or(String::new(), |of| format!(" of {of}"));
        Some(DeviceIssue {
            message: format!(
                "PCI device {} is a virtual function{of}: many NICs drop the PFC and PAUSE frames that it sends, and pass it none; its link \
                 and its MTU are the physical function's; it gets frames of its own MAC address and VLANs alone, unless it is trusted",
                self.address
            ),
            help: "use the physical function for lossless ports; or, for what this one may: ip link set PF vf N trust on spoofchk off, \
                   and weir check --try FILE"
                .to_owned(),
        })
    }
}

fn read(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn driver_of(device: &Path) -> Option<String> {
    let link = fs::read_link(device.join("driver")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

fn first_entry(folder: &Path) -> Option<String> {
    Some(fs::read_dir(folder).ok()?.flatten().next()?.file_name().to_string_lossy().into_owned())
}

/// Other devices of an IOMMU group with a kernel driver: vfio then refuses the group.
fn group_conflicts(group: &Path, address: &str) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(group) else { return Vec::new() };
    let mut others: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy() != address)
        .filter_map(|entry| Some((entry.file_name().to_string_lossy().into_owned(), driver_of(&entry.path())?)))
        .filter(|(_, driver)| !HARMLESS.contains(&driver.as_str()))
        .collect();
    others.sort();
    others
}

fn slot(device: &Path) -> Option<(String, String)> {
    let link = |which: &str| {
        let speed = read(&device.join(format!("{which}_link_speed")))?;
        let width = read(&device.join(format!("{which}_link_width")))?;
        Some(format!("{} x{width}", speed.trim_end_matches(" PCIe")))
    };
    let (now, most) = (link("current")?, link("max")?);
    (now != most && !now.starts_with("Unknown")).then_some((now, most))
}

fn may_open(file: &Path) -> bool {
    // A group can be opened once: where another process has it, that is another problem.
    match fs::OpenOptions::new().read(true).write(true).open(file) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const NIC: &str = "0000:81:00.0";

    /// A made-up machine with a NIC.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            machine.device(NIC);
            machine
        }

        fn device(&self, address: &str) -> PathBuf {
            let folder = self.0.path().join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&folder).unwrap();
            folder
        }

        fn bind(&self, address: &str, driver: &str) {
            symlink(format!("../../../../bus/pci/drivers/{driver}"), self.device(address).join("driver")).unwrap();
        }

        fn group(&self, number: u32, addresses: &[&str]) {
            let group = self.0.path().join(format!("sys/kernel/iommu_groups/{number}"));
            fs::create_dir_all(group.join("devices")).unwrap();
            for address in addresses {
                symlink(self.device(address), group.join("devices").join(address)).unwrap();
                symlink(&group, self.device(address).join("iommu_group")).unwrap();
            }
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.device(NIC).join(file), text).unwrap();
        }

        fn facts(&self) -> PciNicInfo {
            Sysfs { sys: self.0.path().join("sys"), dev: self.0.path().join("dev") }.nic(NIC).unwrap()
        }

        fn problem(&self, has_hugepages: bool) -> String {
            self.facts()
                .problem(has_hugepages, 300)
                .map_or(String::new(), |found| format!("{} | {}", found.message, found.help))
        }
    }

    #[test]
    fn each_problem_has_its_command() {
        let machine = Machine::new();
        assert!(machine.problem(true).contains("no driver | bind one with: modprobe vfio-pci"));
        machine.bind(NIC, "ixgbe");
        assert!(machine.problem(true).contains("kernel's driver ixgbe | give it to DPDK"));
        fs::remove_file(machine.device(NIC).join("driver")).unwrap();
        machine.bind(NIC, VFIO);
        assert!(machine.problem(true).contains("no IOMMU is on | switch it on in the firmware"));
        machine.bind("0000:81:00.1", "ixgbe");
        machine.bind("0000:80:00.0", "pcieport");
        machine.group(17, &[NIC, "0000:81:00.1", "0000:80:00.0"]);
        let text = machine.problem(true);
        assert!(
            text.contains("group with 0000:81:00.1 (ixgbe) |") && text.ends_with("vfio-pci 0000:81:00.1"),
            "{text}"
        );
        fs::remove_file(machine.device("0000:81:00.1").join("driver")).unwrap();
        assert_eq!(machine.problem(false), "", "an IOMMU needs no hugepages");
        assert_eq!((machine.facts().group, machine.facts().access()), (Some(17), Some(IovaAccess::Iommu)));
    }

    #[test]
    fn what_is_no_nic_is_refused_whatever_its_driver() {
        let machine = Machine::new();
        for driver in ["", "i801_smbus", VFIO] {
            let _ = fs::remove_file(machine.device(NIC).join("driver"));
            if !driver.is_empty() {
                machine.bind(NIC, driver);
            }
            machine.write("class", "0x0c0500\n");
            let text = machine.problem(true);
            assert!(text.starts_with("PCI device 0000:81:00.0 is no NIC: its class is 0x0c0500"), "{text}");
            assert!(!text.contains("--bind"), "{text}");
        }
        // InfiniBand's, as ConnectX may have it.
        machine.write("class", "0x020700\n");
        assert!(machine.problem(true).contains("no IOMMU is on"));
    }

    #[test]
    fn a_virtual_function_is_named_with_its_limits() {
        let machine = Machine::new();
        assert_eq!((machine.facts().warnings(&[]), machine.facts().virtual_function("net_ixgbe")), (Vec::new(), None));
        symlink("../0000:80:00.1", machine.device(NIC).join("physfn")).unwrap();
        let message = &machine.facts().warnings(&[])[0].message;
        assert!(message.contains("is a virtual function of 0000:80:00.1: many NICs drop the PFC"), "{message}");
        // A guest sees its driver alone.
        let guest = PciNicInfo { address: NIC.to_owned(), ..PciNicInfo::default() };
        assert!(guest.virtual_function("net_ixgbe_vf").unwrap().message.contains("a virtual function: many"));
        for (dpdk, is_virtual) in
            [("net_iavf", true), ("net_e1000_igb_vf", true), ("net_e1000_igb", false), ("mlx5_pci", false)]
        {
            assert_eq!(guest.virtual_function(dpdk).is_some(), is_virtual, "{dpdk}");
        }
    }

    #[test]
    fn uio_needs_hugepages() {
        let machine = Machine::new();
        machine.bind(NIC, "uio_pci_generic");
        assert_eq!(machine.problem(true), "");
        let text = machine.problem(false);
        assert!(text.contains("hugepages are needed") && text.contains("echo 300 >"), "{text}");
    }

    #[test]
    fn a_shared_nic_is_usable_as_it_is() {
        let machine = Machine::new();
        machine.bind(NIC, "mlx5_core");
        fs::create_dir_all(machine.device(NIC).join("net/ens1")).unwrap();
        machine.write("net/ens1/carrier", "0\n");
        assert_eq!((machine.problem(false), machine.facts().access()), (String::new(), Some(IovaAccess::Shared)));
        assert!(machine.facts().warnings(&[])[0].message.contains("ens1 (0000:81:00.0) has no link"));
    }

    #[test]
    fn nodes_and_slots_are_compared() {
        let machine = Machine::new();
        machine.bind(NIC, VFIO);
        for (file, text) in [
            ("numa_node", "1"),
            ("current_link_speed", "8.0 GT/s PCIe"),
            ("max_link_speed", "8.0 GT/s PCIe"),
            ("current_link_width", "4"),
            ("max_link_width", "8"),
        ] {
            machine.write(file, text);
        }
        let found: Vec<String> = machine.facts().warnings(&[0]).into_iter().map(|found| found.message).collect();
        assert!(found[0].contains("on NUMA node 1, and the cores are on [0]"), "{found:?}");
        assert!(found[1].contains("8.0 GT/s x4, and could use 8.0 GT/s x8"), "{found:?}");
        assert_eq!(machine.facts().warnings(&[1]).len(), 1);
        machine.write("numa_node", "-1");
        assert_eq!(machine.facts().node, None);
    }
}
