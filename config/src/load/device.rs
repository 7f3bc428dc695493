//! The device keys of `[[ports]]`.

use weir_reader::{Problem, Table, check_name};

use crate::keys::device as keys;
use crate::keys::device::NAMES;
use crate::{Device, PciDevice, ReplayConfig, ReplayPace, SocketAccess, SwitchConfig, VhostUser};

/// Minimum length of an Ethernet frame, without FCS.
pub(super) const FRAME_BYTES_MIN: u16 = 60;

/// Maximum length of a netdev name: IFNAMSIZ without its NUL.
const NETDEV_BYTES_MAX: usize = 15;
/// Maximum length of a socket path: `sun_path` without its NUL.
const SOCKET_BYTES_MAX: usize = 107;

/// Reads the one device of a port from the keys of its table; `None` if absent or invalid, with an error. `mtu` is the maximum payload of a
/// frame.
pub fn read(table: &Table<'_>, mtu: u64) -> Option<Device> {
    let doc = table.doc();
    let given: Vec<&str> = NAMES.iter().copied().filter(|key| table.has(key)).collect();
    match given[..] {
        [key] => device(table, key, mtu),
        [first, second, ..] => {
            let message = format!("a port has one device, this has `{}`", given.join("` and `"));
            let problem = Problem::new(message, "keep one of them");
            doc.refuse(
                problem.with_key_label(table.key_path(second), "").with_key_label(table.key_path(first), "and here"),
            );
            None
        }
        [] => {
            let misspelt = NAMES.iter().any(|key| !doc.sound(&[&table.key_path(key)]));
            if !misspelt {
                let help = format!("write one of {}, for example af_packet = \"veth0\"", NAMES.join(", "));
                doc.note(Problem::new("a port needs a device", help).with_label(table.path(), ""));
            }
            None
        }
    }
}

fn device(table: &Table<'_>, key: &str, mtu: u64) -> Option<Device> {
    match key {
        "pci" => pci(table).map(Device::Pci),
        "af_packet" => netdev(table, key).map(Device::AfPacket),
        "af_xdp" => netdev(table, key).map(Device::AfXdp),
        "tap" => netdev(table, key).map(Device::Tap),
        "vhost_user" => vhost_user(table).map(Device::VhostUser),
        "ring" => {
            let name = table.string(key, "link0")?;
            check_name(table, key, name);
            Some(Device::Ring(name.to_owned()))
        }
        "memif" => memif(&table.table(key, "ports.memif")),
        "pcap" => pcap(&table.table(key, "ports.pcap")),
        "replay" => replay(table).map(Device::Replay),
        "clone_of" => table.string(key, "p0").map(|name| Device::CloneOf(name.to_owned())),
        _ => {
            let null = table.table(key, "ports.null");
            // Header and VLAN tag; the frame here has no FCS.
            let most = mtu + SwitchConfig::FRAME_OVERHEAD_BYTES - 4;
            let frame_bytes = null.byte_count("frame_bytes", u64::from(FRAME_BYTES_MIN)..=most);
            Some(Device::Null { frame_bytes: frame_bytes.map_or(FRAME_BYTES_MIN, |n| n as u16) })
        }
    }
}

fn pci(port: &Table<'_>) -> Option<PciDevice> {
    let (table, is_table) = port.table_or_word("pci", "ports.pci");
    if !is_table {
        return Some(PciDevice { address: pci_address(port, "pci")?, devargs: None });
    }
    let address = pci_address(&table, "address");
    if !table.has("address") && table.doc().sound(&[table.path()]) {
        let help = "write pci = { address = \"0000:81:00.0\", devargs = \"KEY=VALUE\" }";
        table.doc().refuse(Problem::new("`pci` needs `address`", help).with_label(table.path(), ""));
    }
    let devargs = table.string("devargs", "KEY=VALUE");
    if let Some(text) = devargs {
        let is_pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or_default();
            !key.is_empty() && !value.is_empty()
        };
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) || !text.split(',').all(is_pair) {
            let help =
                "write KEY=VALUE pairs parted by commas, for example devargs = \"rx_vec_en=0,txq_inline_max=128\"";
            table.refuse("devargs", format!("\"{text}\" are no device arguments"), help);
        }
    }
    Some(PciDevice { address: address?, devargs: devargs.map(str::to_owned) })
}

/// Reads a PCI address, as in `0000:81:00.0`; the default domain is 0.
fn pci_address(table: &Table<'_>, key: &str) -> Option<String> {
    let text = table.string(key, "0000:81:00.0")?;
    let hex = |part: &str, digits: usize| {
        let good = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        good.then(|| u32::from_str_radix(part, 16).ok()).flatten()
    };
    let address = || {
        let (bus_part, function) = text.rsplit_once('.')?;
        let parts: Vec<&str> = bus_part.split(':').collect();
        let (domain, bus, device) = match parts[..] {
            [bus, device] => ("0000", bus, device),
            [domain, bus, device] => (domain, bus, device),
            _ => return None,
        };
        let (domain, bus) = (hex(domain, 4)?, hex(bus, 2)?);
        let device = hex(device, 2).filter(|device| *device < 32)?;
        let function = hex(function, 1).filter(|function| *function < 8)?;
        Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
    };
    let address = address();
    if address.is_none() {
        let help = format!("write it as lspci -D does: {key} = \"0000:81:00.0\"");
        table.refuse(key, format!("\"{text}\" is no PCI address"), help);
    }
    address
}

fn netdev(table: &Table<'_>, key: &str) -> Option<String> {
    let name = table.string(key, "veth0")?;
    let bad_letter = |c: char| c.is_whitespace() || c.is_control() || ['/', ':', ','].contains(&c);
    let wrong = if name.is_empty() || name == "." || name == ".." {
        "is no name of a network device".to_owned()
    } else if name.len() > NETDEV_BYTES_MAX {
        format!("has {} bytes, but a network device's name has at most {NETDEV_BYTES_MAX}", name.len())
    } else if name.contains(bad_letter) {
        "has a space, control character, '/', ':' or ',' in it".to_owned()
    } else {
        return Some(name.to_owned());
    };
    let help = format!("write a name that `ip link` shows, for example {key} = \"veth0\"");
    table.refuse(key, format!("\"{name}\" {wrong}"), help);
    None
}

/// Reads a path that fits DPDK's comma-separated device arguments.
fn path(table: &Table<'_>, key: &str, example: &str, bytes_max: usize) -> Option<String> {
    let path = table.string(key, example)?;
    let wrong = if path.is_empty() {
        "an empty path".to_owned()
    } else if path.len() > bytes_max {
        format!("the path has {} bytes, at most {bytes_max} fit", path.len())
    } else if path.contains(|c: char| c.is_control() || c == ',') {
        "the path has a comma or a control character in it".to_owned()
    } else {
        return Some(path.to_owned());
    };
    table.refuse(key, wrong, format!("write a shorter, plain path, for example {key} = \"{example}\""));
    None
}

pub(super) fn socket_path(table: &Table<'_>, key: &str, example: &str) -> Option<String> {
    path(table, key, example, SOCKET_BYTES_MAX)
}

fn vhost_user(port: &Table<'_>) -> Option<VhostUser> {
    const EXAMPLE: &str = "/run/vm0.sock";
    let (table, is_table) = port.table_or_word("vhost_user", "ports.vhost_user");
    if !is_table {
        return path(port, "vhost_user", EXAMPLE, SOCKET_BYTES_MAX).map(VhostUser::server);
    }
    let socket = path(&table, "socket", EXAMPLE, SOCKET_BYTES_MAX);
    if !table.has("socket") && table.doc().sound(&[table.path()]) {
        let help = "write vhost_user = { socket = \"/run/vm0.sock\", mode = \"0660\", group = \"kvm\" }";
        table.doc().refuse(Problem::new("`vhost_user` needs `socket`", help).with_label(table.path(), ""));
    }
    let client = table.get(&keys::CLIENT);
    let queues = table.get(&keys::QUEUES);
    let access = socket_access(&table, client.then_some("client = true"));
    Some(VhostUser { socket: socket?, client, queues, access })
}

/// Reads `mode` and `group` of a socket; `other_side` is the setting by which the peer creates the socket, which excludes both keys.
pub(super) fn socket_access(table: &Table<'_>, other_side: Option<&str>) -> SocketAccess {
    if let Some(setting) = other_side {
        for key in ["mode", "group"].into_iter().filter(|key| table.has(key)) {
            let message = format!("with {setting} the peer creates the socket and sets its `{key}`");
            table.refuse(key, message, format!("take `{key}` out, and set it at the peer"));
        }
        return SocketAccess::default();
    }
    SocketAccess { mode: socket_mode(table), group: socket_group(table) }
}

fn socket_mode(table: &Table<'_>) -> Option<u16> {
    let text = table.string("mode", "0660")?;
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    if mode.is_none() {
        let help = "write three octal digits for owner, group and others, as chmod takes them: mode = \"0660\"";
        table.refuse("mode", format!("\"{text}\" is no mode of a socket"), help);
    }
    mode
}

fn socket_group(table: &Table<'_>) -> Option<String> {
    let name = table.string("group", "kvm")?;
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || [':', ','].contains(&c)) {
        let help = "write a name that `getent group` shows, or its number: group = \"kvm\"";
        table.refuse("group", format!("\"{name}\" is no name of a group"), help);
        return None;
    }
    Some(name.to_owned())
}

fn memif(table: &Table<'_>) -> Option<Device> {
    let socket = path(table, "socket", "/run/memif.sock", SOCKET_BYTES_MAX);
    if !table.has("socket") && table.doc().sound(&[table.path()]) {
        let help = "write memif = { socket = \"/run/memif.sock\", id = 0, role = \"server\" }";
        table.doc().refuse(Problem::new("`memif` needs `socket`", help).with_label(table.path(), ""));
    }
    let id = table.get(&keys::ID);
    let server = table.get(&keys::ROLE);
    let access = socket_access(table, (!server).then_some("role = \"client\""));
    Some(Device::Memif { socket: socket?, id, server, access })
}

fn pcap(table: &Table<'_>) -> Option<Device> {
    const PATH_BYTES_MAX: usize = 4_095;
    let doc = table.doc();
    let rx = path(table, "rx", "in.pcap", PATH_BYTES_MAX);
    let tx = path(table, "tx", "out.pcap", PATH_BYTES_MAX);
    let infinite = table.get(&keys::INFINITE);
    if !table.has("rx") && !table.has("tx") && doc.sound(&[table.path()]) {
        let help = "write pcap = { rx = \"in.pcap\" }, pcap = { tx = \"out.pcap\" } or both";
        doc.refuse(Problem::new("`pcap` needs `rx` or `tx`", help).with_label(table.path(), ""));
    } else if infinite && !table.has("rx") && doc.sound(&[table.path()]) {
        let problem =
            Problem::new("`infinite` repeats the file of `rx`, which is not given", "write rx = \"in.pcap\" too");
        doc.note(problem.with_label(table.key_path("infinite"), ""));
    }
    if rx.is_some() && rx == tx {
        let problem = Problem::new("`rx` and `tx` are the same file, which `tx` would overwrite", "write two names");
        doc.note(problem.with_label(table.key_path("tx"), "").with_label(table.key_path("rx"), "read here"));
    }
    Some(Device::Pcap { rx, tx, infinite })
}

fn replay(port: &Table<'_>) -> Option<ReplayConfig> {
    const EXAMPLE: &str = "trace.pcapng";
    let (table, is_table) = port.table_or_word("replay", "ports.replay");
    if !is_table {
        return replay_path(port, "replay", EXAMPLE).map(ReplayConfig::new);
    }
    let file = replay_path(&table, "file", EXAMPLE);
    if !table.has("file") && table.doc().sound(&[table.path()]) {
        let help = "write replay = { file = \"trace.pcapng\", speed = \"2.5\" }";
        table.doc().refuse(Problem::new("`replay` needs `file`", help).with_label(table.path(), ""));
    }
    let rate = table.given(&keys::SEND_RATE);
    let pace = match (replay_speed(&table), rate) {
        (Some(_), Some(_)) => {
            let problem =
                Problem::new("frames leave by a `speed` or at a `send_rate`, and not by both", "take one out");
            table.doc().note(
                problem.with_label(table.key_path("send_rate"), "").with_label(table.key_path("speed"), "and here"),
            );
            ReplayPace::default()
        }
        (_, Some(rate)) => ReplayPace::Rate(rate),
        (speed, None) => speed.unwrap_or_default(),
    };
    Some(ReplayConfig {
        pace,
        loops: table.get(&keys::LOOPS),
        after: table.get(&keys::AFTER),
        when_paused: table.get(&keys::WHEN_PAUSED),
        direction: table.given(&keys::DIRECTION),
        with_mac_control: table.get(&keys::MAC_CONTROL),
        core: table.given(&keys::CORE),
        file: file?,
    })
}

/// Reads a path that only the operating system interprets.
fn replay_path(table: &Table<'_>, key: &str, example: &str) -> Option<String> {
    let path = table.string(key, example)?;
    if path.is_empty() {
        table.refuse(key, "an empty path", format!("write the name of a capture, for example {key} = \"{example}\""));
        return None;
    }
    Some(path.to_owned())
}

fn replay_speed(table: &Table<'_>) -> Option<ReplayPace> {
    let text = table.text("speed")?;
    let pace = ReplayPace::parse_speed(&text);
    if pace.is_none() {
        let help = "write how many times as fast as it was captured, speed = \"1\" or \"2.5\", or speed = \"max\"";
        table.refuse("speed", format!("\"{text}\" is no speed"), help);
    }
    pace
}
