//! Ports that are copies of another port's ingress.

use weir_config::{Device, SwitchConfig, check_process, parse};
use weir_units::{BitRate, Bytes, Span};

/// Clones before and after their port, none of whose keys is at its default.
const TEXT: &str = "
[pfc]
reaction = \"0s\"

[[ports]]
name = \"early\"
clone_of = \"real\"

[[ports]]
name = \"real\"
ring = \"a\"
rate = \"40Gbps\"
delay = \"1.5us\"
mac = \"02:00:00:00:00:01\"
flow_control = \"pause\"
priority = 3

[[ports]]
name = \"other\"
ring = \"b\"
rate = \"10Gbps\"

[[ports]]
name = \"late\"
clone_of = \"real\"
priority = 5

[[static_macs]]
mac = \"02:00:00:00:00:09\"
port = \"real\"
";

fn switch() -> SwitchConfig {
    parse("lab.toml", TEXT).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn a_clone_has_what_its_port_has() {
    let config = switch();
    for (clone, priority) in [(0, 3), (3, 5)] {
        let port = &config.ports[clone];
        assert_eq!(port.device, Device::CloneOf("real".into()));
        assert_eq!((port.rate, port.delay), (Some(BitRate::gbps(40)), Span::from_nanos(1_500)));
        assert_eq!((port.flow_control.kind(), port.priority, port.mac), ("pause", priority, None));
        assert_eq!(port.clone_of(), Some("real"));
    }
    assert_eq!(config.ports[1].clone_of(), None);
    assert_eq!(config.static_macs[0].1, 1);
}

#[test]
fn clones_and_their_port_know_each_other() {
    let config = switch();
    let clones = |port| config.clones_of(port).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3].map(|port| config.real_port(port)), [1, 1, 2, 1]);
    assert_eq!([0, 1, 2, 3].map(clones), [vec![], vec![0, 3], vec![], vec![]]);
}

#[test]
fn a_clone_has_a_buffer_of_its_own() {
    let config = switch();
    // 2 (7500 + 1522) + 3840 for three ports and 2 (125 + 1522) + 3840 for one, for two classes each.
    assert_eq!(config.headroom(3), Some(Bytes::new(21_884)));
    assert_eq!(config.headroom_size(), Bytes::new(2 * (3 * 21_884 + 7_134)));
}

#[test]
fn clones_take_no_device() {
    let (a, b) = (Device::CloneOf("real".into()), Device::AfPacket("real".into()));
    assert!(!a.shares_with(&a) && !a.shares_with(&b) && !b.shares_with(&a));
    assert_eq!((a.key(), a.to_string().as_str()), ("clone_of", "clone_of \"real\""));
    let text = |name: &str, rings: [&str; 2]| {
        let named = format!("[switch]\nname = \"{name}\"\n{TEXT}");
        let text = named.replace("\"a\"", &format!("\"{}\"", rings[0])).replace("\"b\"", &format!("\"{}\"", rings[1]));
        parse(name, &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
    };
    // Each ring has its two ends, however many clones a port has.
    check_process(&[text("x", ["r", "s"]), text("y", ["r", "s"])]).unwrap();
}
