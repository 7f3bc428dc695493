//! Output of `weir check` for each policy.

use weir_config::SwitchConfig;
use weir_switch_core::buffer::{buffer_layout, buffer_policy};
use weir_switch_core::flow_control::RATE_UNKNOWN;

use super::{buffer, warnings};

/// 10 MB and four ports of 100 Gb/s, one of 10 Gb/s; Φ = 100 KB for each of two lossless classes.
fn switch(buffer: &str) -> SwitchConfig {
    let headroom = if buffer.contains("headroom =") { "" } else { "headroom = \"100KB\"" };
    let port = |n: usize| {
        let rate = if n < 4 { 100 } else { 10 };
        format!("\n[[ports]]\nname = \"p{n}\"\ntap = \"t{n}\"\nrate = \"{rate}Gbps\"\n")
    };
    let ports: String = (0..5).map(port).collect();
    let text = format!(
        "[buffer]\nsize = \"10MB\"\nxon_offset = \"3KB\"\n{headroom}\n{buffer}\n[pfc]\nreaction = \"0s\"\n{ports}"
    );
    weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// All lines that are printed of the buffer, runs of spaces as one, and the warnings.
fn told(buffer: &str) -> (Vec<String>, Vec<String>) {
    let switch = switch(buffer);
    let layout = buffer_layout(&switch).unwrap();
    let rates: Vec<_> = switch.ports.iter().map(|port| port.rate.unwrap_or(RATE_UNKNOWN)).collect();
    let policy = buffer_policy(&switch, &layout, &rates).unwrap();
    let text = format!("{}{}", buffer::partition(&switch, &layout), buffer::policy(&switch, &layout, &*policy));
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    (lines, warnings::warnings(&switch, &layout))
}

fn check(buffer: &str, lines: &[&str], warned: &[&str]) {
    let (told, warnings) = told(buffer);
    for line in lines {
        assert!(told.iter().any(|told| told == line), "{line:?} is missing in\n{}", told.join("\n"));
    }
    let is_warned = warnings.len() == warned.len() && warnings.iter().zip(warned).all(|(is, part)| is.contains(part));
    assert!(is_warned, "{warnings:?}");
}

#[test]
fn a_lossless_class_that_leaves_by_a_queue_of_another_number_is_warned_of() {
    let classes = |queue: u8| {
        format!(
            "policy = \"dt\"\n[buffer.dt]\nalpha = \"1\"\n[classes]\nlossless = [2, 3]\ntc_to_queue = {{ 3 = {queue} }}"
        )
    };
    check(&classes(3), &[], &[]);
    let warned = "p0, p1, p2, p3, p4: class 3 arrives in priority group 3 and leaves by queue 2: a peer that receives it in another";
    check(&classes(2), &[], &[warned]);
}

#[test]
fn thresholds_are_those_of_a_slice() {
    check(
        "policy = \"dt\"\nslices = 3\n[buffer.dt]\nalpha = \"1\"",
        &[
            "B_s shared 9,000,000 90.0 %",
            "3 slices; loads, thresholds and shares below are those of one",
            "none none 3,000,000 2,997,000 3,000,000 0.0 %",
            "1 none 1,500,000 1,497,000 - 50.0 %",
        ],
        &[],
    );
}

#[test]
fn static_threshold() {
    check(
        "policy = \"static\"",
        &[
            "headroom, Φ for each lossless ingress queue 1,000,000 10.0 %",
            "B_s shared 9,000,000 90.0 %",
            "ST, static threshold (spfc III): T = 1.8MB",
            "none none 1,800,000 1,797,000 9,000,000 0.0 %",
            "4 none 1,800,000 1,797,000 - 80.0 %",
            // Four lossy queues and what is left free share 1.8 MB.
            "4 4 1,800,000 1,797,000 360,000 96.0 %",
        ],
        &[],
    );
}

#[test]
fn what_limits_which_frames_on_dpdk() {
    // 3 MB beside 10 MB for short frames in 1 MB of headroom.
    check(
        "",
        &[
            "on DPDK: 50,781 mbufs, 15,625 of them for headroom; frames of under 256 B with FCS are charged 256 B, so mbufs limit them, and \
           the buffer's bytes limit longer ones",
        ],
        &[],
    );
    let exact = "on DPDK: 156,250 mbufs, 15,625 of them for headroom; the buffer's bytes limit frames of every length";
    check("mean_frame = \"exact\"", &[exact], &[]);
    let cells = "on DPDK: 48,076 mbufs, 4,807 of them for headroom; the buffer's bytes limit frames of every length";
    check("cell_bytes = 208", &[cells], &[]);
}

#[test]
fn dynamic_threshold() {
    check(
        "policy = \"dt\"\n[buffer.dt]\nalpha = 1",
        &[
            "policy \"dt\"",
            "Xoff is what w_s of a lossless ingress queue is compared with; Xon = Xoff - 3,000 B",
            "Overloaded lossless queues Overloaded lossy queues Xoff B Xon B Each lossy queue B Shared in use",
            "none none 9,000,000 8,997,000 9,000,000 0.0 %",
            "1 none 4,500,000 4,497,000 - 50.0 %",
            "2 2 1,800,000 1,797,000 1,800,000 80.0 %",
        ],
        &[],
    );
}

#[test]
fn spfc() {
    check(
        "policy = \"spfc\"",
        &[
            "victim: departs at C / K_spfc or more, K_spfc = 5, in windows of TC = 80us; from the instant at which a window reaches the count",
            "1 none 4,500,000 4,497,000 - 50.0 %",
            "a port of 10Gbps (1 of them) is a victim when 20,000 B or more depart in TC = 80us, that is C/K_spfc = 2Gbps; \
             T of a victim: 9,000,000 B",
            "a port of 100Gbps (4 of them) is a victim when 200,000 B or more depart in TC = 80us, that is C/K_spfc = 20Gbps; \
             T of a victim: 9,000,000 B",
        ],
        &[],
    );
}

#[test]
fn a_lending_policy_without_a_lender_gives_a_warning() {
    let told = |keys: &str, ports: &str| {
        let text = format!("[buffer]\nsize = \"10MB\"\npolicy = \"spfc\"\n[buffer.spfc]\n{keys}\n{ports}");
        let switch = weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let layout = buffer_layout(&switch).unwrap();
        let rates: Vec<_> = switch.ports.iter().map(|port| port.rate.unwrap_or(RATE_UNKNOWN)).collect();
        warnings::no_lender(&switch, &*buffer_policy(&switch, &layout, &rates).unwrap())
    };
    let port =
        |name: &str, keys: &str| format!("[[ports]]\nname = \"{name}\"\ntap = \"{name}\"\nrate = \"10Gbps\"\n{keys}\n");
    let (all, to_host) = ("victim_memory = \"all\"", "peer = \"host\"");
    let switches = [port("a", ""), port("b", "")].concat();
    assert!(told(all, &switches).is_some_and(|warning| warning.starts_with("no port lends headroom")));
    assert_eq!(told("", &switches), None);
    assert_eq!(told(all, &[port("a", to_host), port("b", "")].concat()), None);
    // A host that is not paused lends nothing.
    let silent = port("a", &format!("{to_host}\nflow_control = \"none\""));
    assert!(told(all, &[silent, port("b", "")].concat()).is_some());
}

#[test]
fn headroom_by_the_rule_for_each_queue() {
    // 2 (1,250 + 1,522) + 3,840 B at 100 Gb/s, 2 (125 + 1,522) + 3,840 B at 10 Gb/s; two classes.
    let headroom = "headroom, Φ for each lossless ingress queue 89,340 0.9 %";
    check("headroom = \"auto\"\npolicy = \"sih\"", &[headroom, "1 none 4,955,330 4,952,330 - 50.0 %"], &[]);
    check("headroom = \"auto\"\npolicy = \"adaptive\"", &[headroom], &["relies on past delays"]);
}

#[test]
fn oversubscribed() {
    check(
        "policy = \"oversubscribed\"",
        &["headroom, one pool 800,000 8.0 %", "B_s shared 9,200,000 92.0 %", "1 none 4,600,000 4,597,000 - 50.0 %"],
        &["pool of 800,000 B is less than the 1,000,000 B"],
    );
    check("policy = \"oversubscribed\"\n[buffer.oversubscribed]\nheadroom_percent = 100", &[], &[]);
}

#[test]
fn dsh() {
    check(
        "policy = \"dsh\"",
        &[
            "headroom, insurance of Φ for each port 500,000 5.0 %",
            "Overloaded lossless queues Overloaded lossy queues Xoff B Xon B X_poff B Each lossy queue B Shared in use",
            "none none 9,500,000 9,497,000 19,000,000 9,500,000 0.0 %",
            "1 none 4,750,000 4,747,000 9,500,000 - 50.0 %",
        ],
        &[],
    );
    check(
        "policy = \"dsh\"\n[buffer.dsh]\ninsurance = false",
        &["headroom, none kept apart 0 0.0 %", "B_s shared 10,000,000 100.0 %"],
        &["no insurance headroom"],
    );
}

#[test]
fn four_pools() {
    let pools = [
        "headroom, one pool 1,000,000 10.0 %",
        "ingress pool 8,000,000 80.0 %",
        "in no pool 1,000,000 10.0 %",
        "egress lossy pool (lossy frames a second time) 6,000,000 60.0 %",
        // q° = 6 / 2, and half of the 8 - 3 MB left.
        "1 1 2,500,000 2,497,000 3,000,000 68.8 %",
        "none none 8,000,000 7,997,000 6,000,000 0.0 %",
    ];
    for policy in ["sonic", "abm"] {
        let keys =
            format!("policy = \"{policy}\"\n[buffer.{policy}]\ningress_pool = \"8MB\"\negress_lossy_pool = \"6MB\"");
        check(&keys, &pools, &[]);
        check(&format!("{keys}\nheadroom_pool = \"500KB\""), &[], &["pool of 500,000 B is less than the 1,000,000 B"]);
    }
    check("policy = \"sonic\"", &["ingress pool 9,000,000 90.0 %"], &[]);
}

#[test]
fn reverie() {
    check(
        "policy = \"reverie\"\nlossy_alpha = \"1/2\"\n[buffer.reverie]\nalpha = 1",
        &[
            "Xoff is what q̂ of a lossless ingress queue is compared with; Xon = Xoff",
            "n_p counts queues whose q̂ is 20.48KB or more",
            "none none 9,000,000 9,000,000 4,500,000 0.0 %",
            // 9 MB / (1 + 1 + 1/2) are free, as many for lossless and half of it for lossy, whatever the number.
            "2 2 1,800,000 1,800,000 900,000 60.0 %",
            "4 4 900,000 900,000 450,000 60.0 %",
        ],
        &[],
    );
}

#[test]
fn a_lossy_switch_has_no_xoff() {
    let text = "[classes]\nlossless = []\n[buffer]\nsize = \"10MB\"\n[[ports]]\nname = \"a\"\ntap = \"a\"\n[[ports]]\nname = \"b\"\ntap = \"b\"";
    let switch = weir_config::parse("lab", text).unwrap();
    let layout = buffer_layout(&switch).unwrap();
    let policy = buffer_policy(&switch, &layout, &[RATE_UNKNOWN; 2]).unwrap();
    let text = buffer::policy(&switch, &layout, &*policy).to_string();
    assert!(text.contains("5,000,000") && !text.contains("4,99"), "{text}");
    assert_eq!(warnings::warnings(&switch, &layout), [""; 0]);
}

#[test]
fn a_queue_faster_than_its_port_is_told() {
    let text = |rate: &str| format!("policy = \"dt\"\n[[classes.queues]]\nclass = 5\nrate = \"{rate}\"");
    check(&text("10Gbps"), &[], &[]);
    check(
        &text("10.1Gbps"),
        &[],
        &["`rate` 10.1Gbps of class 5's queue is above the port's own of p4 (10Gbps): it limits"],
    );
    check(&(text("101Gbps") + "\n[classes]\nlossless = []"), &[], &["p0 (100Gbps), p1 (100Gbps), p2 (100Gbps)"]);
}
