//! Files to be accepted: the examples and the reference's blocks. Defaults are as the reference states them.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::{
    CatchUpBound, ControlConfig, ControlSocket, Device, DeviceFlowControl, EcnConfig, Headroom, IdlePolicy,
    LcoreLayout, PciDevice, SchedulerKind, SocketAccess, Trust, VhostUser, VlanMembers, load, parse,
};
use weir_mmu::policy::{DynamicThresholdConfig, StaticThresholdConfig};
use weir_units::{Alpha, BitRate, Bytes, ClassSet, MacAddr, Span};

/// Minimal file: two ports.
const LEAST: &str = "
[[ports]]
name = \"p0\"
af_packet = \"veth0\"
rate = \"10Gbps\"

[[ports]]
name = \"p1\"
af_packet = \"veth1\"
rate = \"10Gbps\"
";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn good(text: &str) -> weir_config::SwitchConfig {
    parse("lab.toml", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn example_files_are_accepted() {
    for name in ["lab-gfc-veth-4", "lab-veth-2", "lab-veth-4", "server-82599", "server-connectx", "spfc-testbed-82599"]
    {
        let config =
            load(&repository(&format!("scenarios/{name}.toml"))).unwrap_or_else(|e| panic!("{}", e.render(false)));
        assert_eq!(config.name, name);
        assert!(config.shared_size() > Bytes::ZERO);
    }
}

#[test]
fn examples_of_the_page_are_valid() {
    let text = fs::read_to_string(repository("docs/CONFIGURATION.md")).unwrap();
    let blocks: Vec<&str> = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        good(block);
    }
}

#[test]
fn defaults_are_the_declared_ones() {
    let config = good(LEAST);
    assert_eq!(config.name, "lab");
    assert_eq!((config.idle, config.time_dilation, config.telemetry), (IdlePolicy::Yield, 1, false));
    assert_eq!(config.mtu, Bytes::new(1_500));
    assert_eq!((config.mac_ageing, config.stats_interval), (Span::from_secs(300), Span::from_secs(1)));
    assert_eq!((config.lcores.layout, config.lcores.cores.len()), (LcoreLayout::Auto, 0));
    assert_eq!(config.lcores.catch_up, CatchUpBound::Auto);
    for (text, is) in [
        ("auto", CatchUpBound::Auto),
        ("0s", CatchUpBound::AtMost(Span::ZERO)),
        ("5ms", CatchUpBound::AtMost(Span::from_millis(5))),
    ] {
        assert_eq!(good(&format!("[lcores]\ncatch_up = \"{text}\"\n{LEAST}")).lcores.catch_up, is);
    }
    assert_eq!((config.buffer.size, config.buffer.cell_bytes), (Bytes::mb(12), 1));
    assert_eq!((config.buffer.private, config.buffer.headroom), (Bytes::ZERO, Headroom::Auto));
    assert_eq!((config.buffer.xon_offset, config.buffer.lossy_alpha), (None, Alpha::ONE));
    assert_eq!(
        config.buffer.policy.downcast(),
        Some(&DynamicThresholdConfig { alpha: Alpha::ONE, alpha_at_rate: None })
    );
    assert_eq!((config.classes.lossless, config.classes.map.trust), (ClassSet::from_bits(0b1_1000), Trust::Dscp));
    assert_eq!(config.classes.map.dscp[3..6], [3, 4, 2]);
    assert_eq!((config.classes.map.dscp[26], config.classes.map.dscp[46], config.classes.map.dscp[8]), (1, 5, 0));
    assert_eq!(config.classes.map.pcp, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(config.classes.queues.iter().all(|queue| !queue.strict && queue.quantum == 1_600 && queue.ecn.is_none()));
    assert_eq!((config.pfc.quanta, config.pfc.refresh_percent), (65_535, 50));
    let port = &config.ports[0];
    assert_eq!((port.delay, port.mac, port.priority), (Span::from_nanos(100), None, 0));
    assert_eq!((port.flow_control.kind(), port.rate), ("pfc", Some(BitRate::gbps(10))));
    assert!(config.static_macs.is_empty());
    assert_eq!(config.control, ControlConfig::default());
    // 2 (125 + 1522) + 3840, and 50 us at 10 Gb/s.
    assert_eq!(config.headroom(0), Some(Bytes::new(69_634)));
    assert_eq!(config.shared_size(), Bytes::new(12_000_000 - 4 * 69_634));
}

#[test]
fn values_arrive_where_they_belong() {
    let config = good(
        "[switch]
name = \"rack.1\"
mtu = \"9000B\"
telemetry = true
[control]
socket = \"/run/rack.sock\"
group = \"lab\"
[buffer]
headroom = \"60KB\"
policy = \"static\"
xon_offset = \"2KiB\"
[buffer.static]
threshold = \"100KB\"
[classes]
preset = \"roce\"
[classes.dscp]
\"24-31\" = 4
[classes.pcp]
0 = 1
[[classes.queues]]
class = 6
weight = 2
[[classes.queues]]
class = 3
ecn = { kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }
[[ports]]
name = \"a\"
memif = { socket = \"/run/m\", id = 7, role = \"client\" }
flow_control = \"pause\"
[[ports]]
name = \"b\"
pci = { address = \"81:00.1\", devargs = \"a=1,b=2\" }
device_flow_control = { require = \"off\", sends = true }
rx_descriptors = 2048
mac = \"02:00:00:00:00:02\"
[[static_macs]]
mac = \"02:00:00:00:00:09\"
port = \"b\"
",
    );
    assert_eq!(config.name, "rack.1");
    assert_eq!((config.frame_bytes_max(), config.telemetry), (Bytes::new(9_022), true));
    assert_eq!(config.control.socket, Some(ControlSocket::At("/run/rack.sock".into())));
    assert_eq!(
        (config.control.access.wanted_mode(), config.control.access.group.as_deref()),
        (Some(0o660), Some("lab"))
    );
    assert_eq!(config.buffer.policy.downcast(), Some(&StaticThresholdConfig { threshold: Some(Bytes::kb(100)) }));
    assert_eq!(config.buffer.xon_offset, Some(Bytes::new(2_048)));
    assert_eq!((config.classes.map.dscp[24], config.classes.map.dscp[31], config.classes.map.dscp[48]), (4, 4, 6));
    assert_eq!((config.classes.lossless, config.classes.map.pcp[0]), (ClassSet::from_bits(0b1000), 1));
    let (queue, ecn) = (&config.classes.queues[6], config.classes.queues[3].ecn);
    assert_eq!((queue.strict, queue.quantum), (false, 18_044));
    let (kmin, kmax) = (Bytes::kb(100), Bytes::kb(400));
    assert_eq!(ecn, Some(EcnConfig { kmin, kmax, pmax_ppm: 200_000, at_rate: None, on_arrival: false }));
    assert_eq!(
        config.ports[0].device,
        Device::Memif { socket: "/run/m".into(), id: 7, server: false, access: SocketAccess::default() }
    );
    assert_eq!(
        config.ports[1].device,
        Device::Pci(PciDevice { address: "0000:81:00.1".into(), devargs: Some("a=1,b=2".into()) })
    );
    assert_eq!(config.ports[1].device_flow_control, DeviceFlowControl { requires_off: true, sends: true });
    assert_eq!((config.ports[1].rx_descriptors, config.ports[0].rx_descriptors), (Some(2_048), None));
    assert_eq!(config.static_macs, [(MacAddr([2, 0, 0, 0, 0, 9]), 1)]);
}

#[test]
fn a_key_keeps_its_line_for_later_checks() {
    let config = good(LEAST);
    let report = config.error_at("ports[1].af_packet", "there is no netdev \"veth1\"", "make it with `ip link add`");
    let error = report.iter().next().unwrap();
    assert_eq!((error.file(), error.line(), error.spanned_text()), ("lab.toml", Some(9), "\"veth1\""));
    // The line of a default is its table's, or none.
    let at_default = config.error_at("ports[1].mac", "x", "");
    assert_eq!(at_default.iter().next().unwrap().line(), Some(7));
    let nowhere = config.error_at("buffer.size", "the buffer does not fit", "");
    assert_eq!(nowhere.to_string(), "lab.toml: the buffer does not fit");
}

#[test]
fn unreadable_files_are_errors() {
    let missing = load(Path::new("/nonexistent/lab.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/lab.toml: can't read the file: "), "{missing}");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), b"name = \"\xff\"").unwrap();
    assert!(load(file.path()).unwrap_err().to_string().contains("no UTF-8 text: byte 8"));
    let large = "#".repeat((1 << 20) + 1);
    assert!(parse("lab.toml", &large).unwrap_err().to_string().contains("larger than 1 MiB"));
}

#[test]
fn sockets_have_their_permissions_ends_and_queues() {
    let config = good(
        "
[[ports]]
name = \"a\"
vhost_user = \"/run/a\"
rate = \"1Gbps\"
[[ports]]
name = \"b\"
vhost_user = { socket = \"/run/b\", mode = \"0660\", group = \"kvm\", queues = 8 }
rate = \"1Gbps\"
[[ports]]
name = \"c\"
vhost_user = { socket = \"/run/c\", client = true, queues = 2 }
rate = \"1Gbps\"
[[ports]]
name = \"d\"
memif = { socket = \"/run/d\", id = 1, group = \"107\" }
rate = \"1Gbps\"
[[ports]]
name = \"e\"
memif = { socket = \"/run/d\", id = 2, group = \"107\" }
rate = \"1Gbps\"
",
    );
    let device = |port: usize| &config.ports[port].device;
    assert_eq!(*device(0), Device::VhostUser(VhostUser::server("/run/a")));
    assert_eq!(device(0).own_socket().unwrap().1.wanted_mode(), None);
    let access = SocketAccess { mode: Some(0o660), group: Some("kvm".into()) };
    let b = VhostUser { queues: 8, access: access.clone(), ..VhostUser::server("/run/b") };
    assert_eq!(
        (device(1), device(1).own_socket(), device(1).queues()),
        (&Device::VhostUser(b), Some(("/run/b", &access)), 8)
    );
    assert_eq!((device(2).own_socket(), device(2).queues()), (None, 2));
    assert_eq!(device(3).own_socket().unwrap().1.wanted_mode(), Some(SocketAccess::GROUP_MODE));
}

#[test]
fn packets_that_take_turns_have_weights_in_frames() {
    let text = format!("[classes]\nscheduler = 'packet-rr'\n[[classes.queues]]\nclass = 4\nweight = 3\n{LEAST}");
    let classes = good(&text).classes;
    let quanta = classes.queues.each_ref().map(|queue| queue.quantum);
    assert_eq!((classes.scheduler, quanta), (SchedulerKind::PacketRr, [1, 1, 1, 1, 3, 1, 1, 1]));
}

#[test]
fn a_port_without_vlan_keys_is_in_the_default_vlan_beside_others() {
    let ports = |keys: [&str; 3]| -> String {
        let port = |(n, keys): (usize, &str)| {
            format!("[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"10Gbps\"\n{keys}\n")
        };
        keys.into_iter().enumerate().map(port).collect()
    };
    assert_eq!(good(&ports(["", "", ""])).vlan_members(), []);
    let config =
        good(&(ports(["vlan = 4094", "tagged = [20, 1]", ""]) + "[[ports]]\nname = \"c\"\nclone_of = \"p1\"\n"));
    let members = |vlan, untagged: &[usize], tagged: &[usize]| VlanMembers {
        vlan,
        untagged: untagged.to_vec(),
        tagged: tagged.to_vec(),
    };
    assert_eq!(
        config.vlan_members(),
        [members(1, &[2], &[1, 3]), members(20, &[], &[1, 3]), members(4_094, &[0], &[])]
    );
    let refused =
        weir_config::parse_for_virtual_time("lab.toml", &ports(["", "", "vlan = 1"])).unwrap_err().render(false);
    assert!(refused.contains("scenarios have no VLANs") && refused.contains("lab.toml:15"), "{refused}");
}

#[test]
fn ports_have_maps_of_their_own_over_the_switchs() {
    let port = |name: &str, keys: &str| {
        format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n{keys}\n")
    };
    let ports = port("a", "")
        + &port("b", "dscp = { 26 = 4, \"40-47\" = 5 }")
        + &port("c", "trust = \"pcp\"\n[ports.pcp]\n3 = 1")
        + "[[ports]]\nname = \"d\"\nclone_of = \"b\"\n";
    let config = good(&format!("[classes]\npreset = \"roce\"\n[classes.dscp]\n20 = 3\n{ports}"));
    let class = |port: usize, dscp: usize| config.class_map(port).dscp[dscp];
    assert_eq!([0, 1, 2, 3].map(|port| class(port, 26)), [3, 4, 3, 4]);
    assert_eq!([0, 1, 2, 3].map(|port| class(port, 20)), [3; 4]);
    assert_eq!((class(1, 40), class(0, 40)), (5, 0));
    assert_eq!((config.class_map(2).trust, config.class_map(2).pcp), (Trust::Pcp, [0, 1, 2, 1, 4, 5, 6, 7]));
    assert!(config.ports[0].class_map.is_none());
    assert_eq!(config.groups_from(1), ClassSet::from_bits(0b111_1001));
    assert_eq!(config.groups_from(2), ClassSet::from_bits(0b1111_0111));
}

#[test]
fn classes_have_priority_groups_and_queues_of_their_own() {
    let port = |name: &str, keys: &str| {
        format!("[[ports]]\nname = \"{name}\"\nring = \"{name}\"\nrate = \"10Gbps\"\n{keys}\n")
    };
    let config = good(
        &("[classes]\nlossless = [2, 3]\ntc_to_pg = { \"0-1\" = 0 }\ntc_to_queue = { 3 = 2 }\n".to_owned()
            + &port("a", "")
            + &port("b", "tc_to_pg = { 3 = 2, 1 = 1 }")),
    );
    let map = |port: usize| (config.class_map(port).group, config.class_map(port).queue);
    assert_eq!(map(0), ([0, 0, 2, 3, 4, 5, 6, 7], [0, 1, 2, 2, 4, 5, 6, 7]));
    assert_eq!(map(1), ([0, 1, 2, 2, 4, 5, 6, 7], [0, 1, 2, 2, 4, 5, 6, 7]));
    assert_eq!([0, 1].map(|port| config.class_map(port).group_of_dscp()[3]), [3, 2]);
    assert_eq!(config.class_map(0).queue_of_dscp()[3], 2);
    // A guest's frames leave by the ring of the group that the switch pauses.
    assert_eq!(config.class_map(0).transmit_queue_of_dscp(8).map(|rings| rings[3]), Some(3));
    // Classes 1 to 6 by the preset, and 0 without an IP header.
    assert_eq!(config.groups_from(1), ClassSet::from_bits(0b111_0111));
}
