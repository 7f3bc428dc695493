//! Checks a configuration against this machine before anything is started.

use std::fs;
use std::path::Path;

use weir_config::{ConfigErrors, Device, PortConfig, SwitchConfig, VhostUser};
use weir_dpdk_io::{InterfaceNic, PORTS_MAX};
use weir_units::FCS_BYTES;

use crate::device_pause::check_control_transmit;
use crate::memory::Memory;
use crate::nics::{DeviceIssue, Sysfs};
use crate::replay::{self, FRAMES_MAX};
use crate::replayer::{NO_REWRITING, Trace};
use crate::socket::check_access;

/// A capability (linux/capability.h): its bit and name.
pub(crate) type Capability = (u32, &'static str);
const CAP_NET_ADMIN: Capability = (12, "CAP_NET_ADMIN");
const CAP_NET_RAW: Capability = (13, "CAP_NET_RAW");
pub(crate) const CAP_IPC_LOCK: Capability = (14, "CAP_IPC_LOCK");
const CAP_SYS_ADMIN: Capability = (21, "CAP_SYS_ADMIN");
/// Capabilities that DPDK's AF_XDP driver needs: to load and attach its program, open sockets, and lock memory.
const AF_XDP: [Capability; 4] = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_ADMIN];

/// Longest frame of DPDK's tap driver: MTU 1500 and two tags. It takes no larger MTU.
const TAP_FRAME_BYTES_MAX: u64 = 1_522;

/// Checks that netdevs, PCI devices, files and permissions are there, and that DPDK has as many ports; each failure points at
/// its line.
pub fn check_machine(switches: &[SwitchConfig]) -> Result<(), ConfigErrors> {
    let all = switches.iter().flat_map(|switch| {
        // The link to a NIC in front of a host is one more.
        let taken = |port: &PortConfig| {
            let by_device = !matches!(port.device, Device::CloneOf(_) | Device::AfPacket(_));
            usize::from(by_device) + usize::from(port.nic.is_some())
        };
        let ports = switch.ports.iter().enumerate();
        ports.flat_map(move |(index, port)| std::iter::repeat_n((switch, index), taken(port)))
    });
    let too_many = all.clone().nth(PORTS_MAX).map(|(switch, index)| {
        let message =
            format!("there are {} ports, and DPDK as it is built here has {PORTS_MAX} in a process", all.count());
        let help = "write fewer ports; clones of ports and af_packet ports take none of DPDK's".to_owned();
        switch.error_at(&format!("ports[{index}]"), message, help)
    });
    let memory = Memory::for_switches(switches, 1, 0);
    let problems = switches.iter().flat_map(|switch| {
        let ports = switch.ports.iter().enumerate();
        ports.filter_map(move |(index, port)| {
            let problem = check_device(&port.device, memory)
                .or_else(|| check_replay(&port.device, &memory))
                .or_else(|| check_length(&port.device, switch))
                .or_else(|| check_sends(switch, port))
                .or_else(|| check_trace(switch, index))?;
            let key = format!("ports[{index}].{}", port.device.key());
            Some(switch.error_at(&key, problem.message, problem.help))
        })
    });
    ConfigErrors::joined(too_many.into_iter().chain(problems)).map_or(Ok(()), Err)
}

fn check_device(device: &Device, memory: Memory) -> Option<DeviceIssue> {
    match device {
        Device::AfPacket(netdev) => check_netdev(netdev).or_else(|| needs("af_packet", &[CAP_NET_RAW])),
        Device::AfXdp(netdev) => check_netdev(netdev).or_else(|| needs("af_xdp", &AF_XDP)),
        Device::Tap(_) => needs("tap", &[CAP_NET_ADMIN]),
        Device::Pci(pci) => check_pci(&pci.address, memory),
        Device::VhostUser(VhostUser { socket, .. }) | Device::Memif { socket, .. } => {
            check_parent(socket).or_else(|| check_access(device.own_socket()?.1))
        }
        Device::Pcap { rx, tx, .. } => {
            let missing = rx.as_deref().filter(|file| fs::File::open(file).is_err()).map(|file| DeviceIssue {
                message: format!("the capture file {file} can't be read"),
                help: "name a readable pcap file; paths are relative to the directory that weir is started in".into(),
            });
            missing.or_else(|| tx.as_deref().and_then(check_parent))
        }
        Device::Ring(_) | Device::Replay(_) | Device::Null { .. } | Device::CloneOf(_) => None,
    }
}

/// The capture of a port that replays one is read as a whole.
fn check_trace(switch: &SwitchConfig, port: usize) -> Option<DeviceIssue> {
    let trace = Trace::of_port(switch, port, &NO_REWRITING)?;
    let error = trace.read().err()?;
    let help = "name a pcap or pcapng file with frames; paths are relative to the directory that weir is started in";
    Some(DeviceIssue { message: error.to_string(), help: help.to_owned() })
}

/// A file that is replayed without end is kept in memory, and each frame must fit an mbuf.
fn check_replay(device: &Device, memory: &Memory) -> Option<DeviceIssue> {
    let Device::Pcap { rx: Some(file), infinite: true, .. } = device else { return None };
    let problem = |message: String, help: &str| Some(DeviceIssue { message, help: help.into() });
    let (mut frames, mut longest) = (0, 0);
    let read = replay::read(file, &mut |frame| (frames, longest) = (frames + 1, longest.max(frame.len())));
    if let Err(error) = read {
        return problem(format!("{file} can't be read as a capture file: {error}"), "name a pcap or pcapng file");
    }
    if frames == 0 {
        problem(
            format!("{file} has no frame, so none can be repeated"),
            "name a file with frames, or take infinite out",
        )
    } else if frames > FRAMES_MAX {
        problem(
            format!("{file} has {frames} frames, and with infinite each is kept in memory: at most {FRAMES_MAX}"),
            &format!(
                "take infinite out, or take the first part of the file: editcap -r {file} part.pcap 1-{FRAMES_MAX}"
            ),
        )
    } else if longest > memory.frame_bytes_max() {
        let help = match longest.saturating_sub(14) {
            mtu if mtu <= 16_000 => format!("write mtu = {mtu} in [switch], or take infinite out"),
            _ => "take infinite out: such frames are then dropped as oversize".to_owned(),
        };
        problem(
            format!(
                "{file} has a frame of {longest} B, longer than the {} B of a packet buffer: with infinite it must fit one",
                memory.frame_bytes_max()
            ),
            &help,
        )
    } else {
        None
    }
}

/// Refuses a lossless port on a kernel interface whose driver drops the PFC and PAUSE that it is to send. For a PCI device this is
/// known once DPDK has its driver.
fn check_sends(switch: &SwitchConfig, port: &PortConfig) -> Option<DeviceIssue> {
    let nic = InterfaceNic::find(Path::new("/sys"), port.device.netdev()?)?;
    check_control_transmit(switch, port, nic.sends_mac_control(), &nic.driver)
}

/// DPDK's driver never takes a frame that is longer than its bound: all behind it would wait for ever.
fn check_length(device: &Device, switch: &SwitchConfig) -> Option<DeviceIssue> {
    let longest = switch.tagged_frame_bytes_max().get() - FCS_BYTES;
    let is_too_long = matches!(device, Device::Tap(_)) && longest > TAP_FRAME_BYTES_MAX;
    is_too_long.then(|| DeviceIssue {
        message: format!(
            "a tap device sends no frame longer than {TAP_FRAME_BYTES_MAX} B (without FCS), and those of mtu {} have up to {longest} B",
            switch.mtu.get()
        ),
        help: format!(
            "write mtu = 1500 in [switch] (at most {}), or make a veth pair and write af_packet = \"…\"",
            switch.mtu.get() - (longest - TAP_FRAME_BYTES_MAX)
        ),
    })
}

fn check_netdev(netdev: &str) -> Option<DeviceIssue> {
    if Path::new("/sys/class/net").join(netdev).exists() {
        return None;
    }
    let mut known: Vec<String> = fs::read_dir("/sys/class/net")
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    known.sort();
    Some(DeviceIssue {
        message: format!("there is no network interface {netdev}"),
        help: format!(
            "interfaces here: {}; make a veth pair with: ip link add {netdev} type veth peer name …",
            known.join(", ")
        ),
    })
}

fn check_pci(address: &str, memory: Memory) -> Option<DeviceIssue> {
    let Some(facts) = Sysfs::here().nic(address) else {
        return Some(DeviceIssue {
            message: format!("there is no PCI device {address}"),
            help: "list the devices with: dpdk-devbind.py --status-dev net".into(),
        });
    };
    facts.problem(memory.fits_hugepages(), memory.hugepages())
}

fn check_parent(file: &str) -> Option<DeviceIssue> {
    let parent = Path::new(file).parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (!parent.is_dir()).then(|| DeviceIssue {
        message: format!("the directory of {file} does not exist"),
        help: format!("make it with: mkdir -p {}", parent.display()),
    })
}

/// Returns an issue if the process lacks capabilities. An `af_packet` port needs only CAP_NET_RAW: neither promiscuous mode nor bypassing
/// the queueing discipline requires CAP_NET_ADMIN.
fn needs(device: &str, needed: &[Capability]) -> Option<DeviceIssue> {
    lacks(device, needed, effective_capabilities()?)
}

/// Returns whether this process has a capability; true where that can't be read.
pub(crate) fn has_capability((bit, _): Capability) -> bool {
    effective_capabilities().is_none_or(|effective| effective >> bit & 1 == 1)
}

fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(effective.trim(), 16).ok()
}

fn lacks(device: &str, needed: &[Capability], effective: u64) -> Option<DeviceIssue> {
    let lacking = needed.iter().filter(|(bit, _)| effective >> bit & 1 == 0);
    let names: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    let all: Vec<&str> = needed.iter().map(|(_, name)| *name).collect();
    let set = all.join(",").to_lowercase();
    (!names.is_empty()).then(|| DeviceIssue {
        message: format!(
            "{device} ports need {}, which this process does not have",
            if names.len() == 1 {
                format!("the capability {}", names[0])
            } else {
                format!("the capabilities {}", names.join(", "))
            }
        ),
        help: format!(
            "run as root, or give the program what such ports need, as root: setcap {set}+ep $(command -v weir); or use \
             ring, pcap, null, memif or vhost_user ports"
        ),
    })
}

#[cfg(test)]
mod tests {
    use weir_dpdk_io::MacControlTransmit;

    use super::*;

    fn problem(port: &str) -> String {
        let text = format!(
            "[[ports]]\nname = \"a\"\nrate = \"1Gbps\"\n{port}\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"1Gbps\"\n"
        );
        let config = weir_config::parse("test.toml", &text).unwrap();
        check_machine(&[config]).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_named_with_its_line() {
        for (port, message) in [
            ("af_packet = \"nosuch0\"", "no network interface nosuch0"),
            ("pci = \"ffff:1f:1f.7\"", "no PCI device ffff:1f:1f.7"),
            ("pcap = { rx = \"/nowhere/in.pcap\" }", "/nowhere/in.pcap can't be read"),
            ("vhost_user = \"/nowhere/vm.sock\"", "directory of /nowhere/vm.sock"),
            (
                "vhost_user = { socket = \"/tmp/vm.sock\", group = \"nobody-of-that-name\" }",
                "no group nobody-of-that-name",
            ),
        ] {
            let text = problem(port);
            assert!(text.contains(message) && text.contains("test.toml:4"), "{text}");
        }
    }

    #[test]
    fn files_that_cannot_be_replayed_without_end_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, lengths: &[usize]| {
            let file = folder.path().join(name);
            crate::replay::tests::write(&file, lengths);
            format!("pcap = {{ rx = \"{}\", infinite = true }}", file.display())
        };
        let text = problem(&file("empty.pcap", &[]));
        assert!(text.contains("empty.pcap has no frame") && text.contains("test.toml:4"), "{text}");
        let text = problem(&file("jumbo.pcap", &[60, 9_014, 60]));
        assert!(text.contains("has a frame of 9014 B, longer than the 1600 B of a packet buffer"), "{text}");
        assert!(text.contains("write mtu = 9000 in [switch]"), "{text}");
        let text = problem(&file("giant.pcap", &[60_000]));
        assert!(text.contains("take infinite out: such frames"), "{text}");
        let nothing = folder.path().join("no.pcap");
        std::fs::write(&nothing, "[switch]\nmtu = 9000\n and so on").unwrap();
        let text = problem(&format!("pcap = {{ rx = \"{}\", infinite = true }}", nothing.display()));
        assert!(text.contains("can't be read as a capture file"), "{text}");
        let good = |mtu: u32| {
            let text = format!(
                "[switch]\nmtu = {mtu}\n[[ports]]\nname = \"a\"\nrate = \"1Gbps\"\n{}\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"1Gbps\"\n",
                file("jumbo.pcap", &[60, 9_014, 60])
            );
            check_machine(&[weir_config::parse("test.toml", &text).unwrap()]).is_ok()
        };
        assert!(good(9_000) && !good(1_500));
    }

    #[test]
    fn capabilities_that_are_lacking_are_named() {
        let raw_alone = 1 << CAP_NET_RAW.0;
        assert!(lacks("af_packet", &[CAP_NET_RAW], raw_alone).is_none());
        assert!(lacks("af_xdp", &AF_XDP, u64::MAX).is_none());
        let problem = lacks("af_packet", &[CAP_NET_RAW], 1 << CAP_NET_ADMIN.0).unwrap();
        assert!(problem.message.contains("need the capability CAP_NET_RAW,"), "{}", problem.message);
        assert!(problem.help.contains("setcap cap_net_raw+ep"), "{}", problem.help);
        let problem = lacks("af_xdp", &AF_XDP, raw_alone).unwrap();
        assert!(problem.message.contains("CAP_NET_ADMIN, CAP_IPC_LOCK, CAP_SYS_ADMIN"), "{}", problem.message);
    }

    #[test]
    fn dpdks_ports_are_counted_over_all_switches() {
        let ports = |count: usize, clones: usize| {
            let own = (0..count).map(|n| format!("[[ports]]\nname = \"p{n}\"\nring = \"p{n}\"\nrate = \"1Gbps\"\n"));
            let clones = (0..clones).map(|n| format!("[[ports]]\nname = \"c{n}\"\nclone_of = \"p0\"\n"));
            weir_config::parse("test.toml", &own.chain(clones).collect::<String>()).unwrap()
        };
        let half = PORTS_MAX / 2;
        assert!(check_machine(&[ports(half, 3), ports(half, 0)]).is_ok());
        let text = check_machine(&[ports(half, 3), ports(half + 2, 0)]).unwrap_err().to_string();
        let line = format!("test.toml:{}:", 4 * half + 1);
        assert!(text.contains(&format!("there are {} ports", PORTS_MAX + 2)) && text.contains(&line), "{text}");
    }

    #[test]
    fn lossless_ports_whose_pauses_never_leave_are_refused() {
        let found = |classes: &str, port: &str, sends| {
            let text = format!(
                "[classes]\nlossless = [{classes}]\n[buffer]\nheadroom = \"10KB\"\n[[ports]]\nname = \"a\"\naf_packet = \"x\"\n{port}\n\
                 [[ports]]\nname = \"b\"\nring = \"b\"\n"
            );
            let config = weir_config::parse("test.toml", &text).unwrap();
            check_control_transmit(&config, &config.ports[0], sends, "ice").map(|found| found.message)
        };
        let drops = MacControlTransmit::DroppedByDevice;
        let message = found("3", "", drops).expect("refused");
        assert!(message.contains("port a: PFC will not be sent: the ice driver"), "{message}");
        assert_eq!(found("3", "device_flow_control = { sends = true }", drops), None);
        assert_eq!(found("3", "flow_control = \"none\"", drops), None);
        assert_eq!(found("", "", drops), None);
        assert_eq!(found("3", "", MacControlTransmit::Unknown), None);
    }

    #[test]
    fn a_tap_has_no_jumbo_frames() {
        let checked = |mtu: u32, device: &str| {
            let port = |n: u32| format!("[[ports]]\nname = \"p{n}\"\n{device} = \"a{n}\"\nrate = \"1Gbps\"\n");
            let text = format!("[switch]\nmtu = {mtu}\n[buffer]\nsize = \"1MB\"\n{}{}", port(0), port(1));
            let config = weir_config::parse("test.toml", &text).unwrap();
            check_length(&config.ports[1].device, &config).map(|found| format!("{}; {}", found.message, found.help))
        };
        assert_eq!((checked(1_500, "tap"), checked(9_000, "af_packet")), (None, None));
        let message = checked(1_501, "tap").expect("too long");
        assert!(
            message.contains("1522 B") && message.contains("up to 1523 B") && message.contains("(at most 1500)"),
            "{message}"
        );
    }
}
