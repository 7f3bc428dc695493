use weir_wire::lldp::PfcConfiguration;

use super::*;

const CLASS_3: ClassSet = ClassSet::from_bits(8);

fn lldpdu(port: &str, ttl: u16, pfc: Option<(bool, u8)>) -> Lldpdu {
    let name = |subtype, text: &str| Identifier::Text { subtype, text: text.to_owned() };
    let pfc =
        pfc.map(|(willing, bits)| PfcConfiguration { willing, classes_max: 8, enabled: ClassSet::from_bits(bits) });
    Lldpdu { pfc, ..Lldpdu::new(name(Identifier::LOCAL, "nic"), name(Identifier::PORT_NAME, port), ttl) }
}

#[test]
fn lldpdus_are_sent_fast_at_first() {
    let (mut port, start) = (PortLldp::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(!port.is_due(start, false, false));
    let sent: Vec<u64> = (0..95).filter(|second| port.is_due(at(*second), true, false)).collect();
    assert_eq!(sent, [0, 1, 2, 3, 33, 63, 93]);
    assert!(port.is_due(at(95), true, true), "a new configuration");
    assert!(!port.is_due(at(96), false, false) && port.is_due(at(96), true, false), "the link was away");
}

#[test]
fn neighbours_live_as_long_as_they_say() {
    let (mut port, now) = (PortLldp::default(), Instant::now());
    port.next = Some(now + INTERVAL);
    let changes = port.handle(now, lldpdu("eth0", 10, None), CLASS_3);
    assert_eq!(changes, [NeighbourChange::Appeared("nic eth0".into())]);
    assert_eq!(port.next, Some(now + FAST_INTERVAL), "a new neighbour learns soon");
    assert!(port.handle(now + Duration::from_secs(8), lldpdu("eth0", 10, None), CLASS_3).is_empty());
    assert!(port.expire(now + Duration::from_secs(17), true).is_empty());
    assert_eq!(port.expire(now + Duration::from_secs(18), true), [NeighbourChange::Lost("nic eth0".into())]);
    port.handle(now, lldpdu("eth1", 10, None), CLASS_3);
    assert_eq!(port.handle(now, lldpdu("eth1", 0, None), CLASS_3), [NeighbourChange::Lost("nic eth1".into())]);
    port.handle(now, lldpdu("eth2", 10, None), CLASS_3);
    assert_eq!(port.expire(now, false), [NeighbourChange::Lost("nic eth2".into())], "the link is away");
}

#[test]
fn other_pfc_classes_are_reported_once() {
    let (mut port, now) = (PortLldp::default(), Instant::now());
    let mut changes = |pfc| port.handle(now, lldpdu("eth0", 10, pfc), CLASS_3);
    assert_eq!(changes(Some((true, 0))).len(), 1, "a willing neighbour adopts the switch's classes");
    assert_eq!(changes(Some((true, 8))), []);
    assert_eq!(changes(Some((false, 0x11))), [NeighbourChange::PfcMismatch("0,4, not 3".into())]);
    assert_eq!(changes(Some((false, 0))), []);
    assert_eq!(changes(Some((false, 8))), []);
    assert_eq!(changes(Some((false, 0))), [NeighbourChange::PfcMismatch("none, not 3".into())]);
}

#[test]
fn a_peer_can_fill_neither_memory_nor_events() {
    let (mut port, now) = (PortLldp::default(), Instant::now());
    let mut changes = 0;
    for n in 0..1_000 {
        changes += port.handle(now, lldpdu(&n.to_string(), 10, None), CLASS_3).len();
        changes += port.handle(now, lldpdu(&n.to_string(), 0, None), CLASS_3).len();
    }
    assert_eq!((changes, port.neighbours.len()), (10, 0));
    let later = now + Duration::from_secs(60);
    (0..9).for_each(|n| drop(port.handle(later, lldpdu(&n.to_string(), 10, None), CLASS_3)));
    assert_eq!(port.neighbours.len(), NEIGHBOURS_MAX);
}

#[test]
fn an_lldpdu_has_the_configured_classes_and_shares() {
    let text = "[classes]\nlossless = [3, 4]\n[[classes.queues]]\nclass = 3\nweight = 4\n[[classes.queues]]\nclass = 6\nstrict = true\n\
                [[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\n\
                [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\nflow_control = \"pause\"\n";
    let text = text.to_owned()
        + "[[ports]]\nname = \"p2\"\nring = \"c\"\nrate = \"10Gbps\"\n\
           flow_control = { kind = \"gfc-buffer\", peer = \"pfc\", pulse_period = \"50us\", b_m = \"400KB\" }\n";
    let config = weir_config::parse("lab.toml", &text).unwrap();
    let pulses = port_lldpdu(&Identifier::Mac(weir_units::MacAddr::default()), &config, 2);
    assert_eq!(pulses.pfc.map(|pfc| pfc.enabled.bits()), Some(0b11000));
    let chassis = Identifier::Text { subtype: Identifier::LOCAL, text: "lab-1".into() };
    let [p0, p1] = [0, 1].map(|port| port_lldpdu(&chassis, &config, port));
    assert_eq!(p0.pfc.map(|pfc| (pfc.willing, pfc.enabled.bits())), Some((false, 0b11000)));
    assert_eq!(p1.pfc.map(|pfc| pfc.enabled), Some(ClassSet::EMPTY));
    let ets = p0.ets.unwrap();
    assert_eq!((ets.percent, ets.algorithms), ([10, 10, 10, 40, 10, 10, 0, 10], [2, 2, 2, 2, 2, 2, 0, 2]));
    assert_eq!((lldpdu::rocev2_class(&p0), lldpdu::rocev2_class(&p1)), (Some(3), None));
}

#[test]
fn a_switch_without_addresses_has_the_name_of_its_socket() {
    let config = |device: &str| {
        let port = |name| format!("[[ports]]\nname = \"{name}\"\n{device}\nrate = \"10Gbps\"\n");
        let text = port("a").replace("ID", "1") + &port("b").replace("ID", "2");
        weir_config::parse("lab.toml", &text).unwrap()
    };
    let name = |device| lldpdu::local_name(&config(device));
    let socket = "memif = { socket = \"/run/m.sock\", id = ID, role = \"client\" }";
    assert!(name(socket).ends_with(" memif \"/run/m.sock\" id 1 as client"), "{}", name(socket));
    assert!(name("ring = \"ID\"").ends_with(&format!(" {}", std::process::id())));
}
