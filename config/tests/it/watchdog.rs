//! `[pfc_watchdog]`: its defaults as the reference states them, and its values.

use weir_config::{StormCondition, WatchdogAction, WatchdogConfig, parse};
use weir_units::Span;

/// Watchdog of a switch with this number of ports and clones.
fn watchdog(keys: &str, ports: usize, clones: usize) -> Option<WatchdogConfig> {
    let mut text = format!("{keys}\n[classes]\nlossless = [3]\n[buffer]\nheadroom = \"10KB\"\n");
    for port in 0..ports {
        text += &format!("[[ports]]\nname = \"p{port}\"\ntap = \"t{port}\"\n");
    }
    for clone in 0..clones {
        text += &format!("[[ports]]\nname = \"c{clone}\"\nclone_of = \"p0\"\n");
    }
    parse("lab.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false))).pfc_watchdog
}

#[test]
fn defaults_are_sonics() {
    assert_eq!(watchdog("", 2, 0), None);
    let time = Span::from_millis(200);
    let default = WatchdogConfig {
        action: WatchdogAction::Drop,
        detection_time: time,
        restoration_time: time,
        poll_interval: time,
        condition: StormCondition::PfcReceived,
    };
    assert_eq!(watchdog("[pfc_watchdog]", 2, 0), Some(default));
    assert_eq!(watchdog("[pfc_watchdog]", 32, 32), Some(default), "clones don't count");
    let time = Span::from_millis(400);
    let twice = WatchdogConfig { detection_time: time, restoration_time: time, poll_interval: time, ..default };
    assert_eq!(watchdog("[pfc_watchdog]", 33, 0), Some(twice));
    assert_eq!(watchdog("[pfc_watchdog]", 64, 0), Some(twice));
}

#[test]
fn values_arrive_where_they_belong() {
    let keys = "[pfc_watchdog]\naction = \"ACTION\"\ndetection_time = \"2us\"\nrestoration_time = \"1000s\"\n\
                poll_interval = \"1us\"\ncondition = \"queue-stalled\"";
    let with = |action| WatchdogConfig {
        action,
        detection_time: Span::from_micros(2),
        restoration_time: Span::from_secs(1_000),
        poll_interval: Span::from_micros(1),
        condition: StormCondition::QueueStalled,
    };
    for (word, action) in
        [("drop", WatchdogAction::Drop), ("forward", WatchdogAction::Forward), ("alert", WatchdogAction::Alert)]
    {
        assert_eq!(watchdog(&keys.replace("ACTION", word), 64, 0), Some(with(action)));
    }
}

#[test]
fn a_peer_that_is_pulsed_speaks_pfc() {
    let text = "
[pfc_watchdog]

[[ports]]
name = \"host\"
tap = \"t0\"
rate = \"10Gbps\"
flow_control = { kind = \"gfc-buffer\", peer = \"pfc\", b_m = \"400KB\" }

[[ports]]
name = \"next\"
tap = \"t1\"
rate = \"10Gbps\"
flow_control = { kind = \"gfc-buffer\", b_m = \"400KB\" }
";
    parse("lab.toml", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
}

#[test]
fn ports_are_watched_unless_they_say_otherwise() {
    let text = "[buffer]\nheadroom = \"10KB\"\n[pfc_watchdog]\n[[ports]]\nname = \"p0\"\ntap = \"t0\"\n[[ports]]\nname = \"p1\"\n\
                tap = \"t1\"\npfc_watchdog = false\n";
    let switch = parse("lab.toml", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    assert_eq!(switch.ports.iter().map(|port| port.pfc_watchdog).collect::<Vec<_>>(), [true, false]);
}
