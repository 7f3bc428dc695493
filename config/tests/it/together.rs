//! The files of one process against each other.

use weir_config::{SwitchConfig, check_process, parse};

fn switch(name: &str, head: &str, devices: [&str; 2]) -> SwitchConfig {
    let [a, b] = devices;
    let text = format!(
        "{head}\n[[ports]]\nname = \"p0\"\n{a}\nrate = \"1Gbps\"\n[[ports]]\nname = \"p1\"\n{b}\nrate = \"1Gbps\"\n"
    );
    parse(name, &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn complaint(switches: &[SwitchConfig]) -> String {
    check_process(switches).unwrap_err().to_string()
}

const RINGS: [&str; 2] = ["ring = \"x\"", "ring = \"y\""];

#[test]
fn two_switches_joined_by_rings_are_fine() {
    let switches = [switch("a.toml", "[lcores]\ncores = [1]", RINGS), switch("b.toml", "[lcores]\ncores = [1]", RINGS)];
    assert!(check_process(&switches).is_ok());
    assert!(check_process(&[switch("a.toml", "", ["ring = \"x\"", "ring = \"x\""])]).is_ok());
    assert!(check_process(&[]).is_ok());
}

#[test]
fn a_ring_has_two_ends() {
    let one = switch("a.toml", "", ["ring = \"x\"", "null = {}"]);
    assert_eq!(
        complaint(std::slice::from_ref(&one)),
        "a.toml:4: ring \"x\" has this one end only; write ring = \"x\" in one more port, of this switch or of another \
         in the same process"
    );
    let more = [one, switch("b.toml", "", ["ring = \"x\"", "ring = \"x\""])];
    assert_eq!(
        complaint(&more),
        "b.toml:8: a third port is on ring \"x\", which has two ends; give this link another name"
    );
}

#[test]
fn names_differ_and_clocks_agree() {
    let switches = [
        switch("a.toml", "[switch]\nname = \"s\"", RINGS),
        switch("b.toml", "[switch]\nname = \"s\"\ntime_dilation = 100", RINGS),
    ];
    assert_eq!(
        complaint(&switches),
        "b.toml:2: the switch is named \"s\", as is the one in a.toml:2; write another name in [switch]\n\
         b.toml:3: `time_dilation` is 100, but 1 in a.toml:1: the switches of a process share a clock; write the same \
         time_dilation in all files"
    );
}

#[test]
fn a_device_is_used_once() {
    let switches = [
        switch("a.toml", "", ["af_packet = \"veth0\"", "null = {}"]),
        switch("b.toml", "", ["null = {}", "af_xdp = \"veth0\""]),
    ];
    assert_eq!(
        complaint(&switches),
        "b.toml:8: af_xdp \"veth0\" is the device of port \"p0\" in a.toml:4 too; give each port its own device"
    );
}

#[test]
fn a_polling_switch_shares_no_core() {
    let switches = [
        switch("a.toml", "[switch]\nidle = \"poll\"\n[lcores]\ncores = [1, 2]", RINGS),
        switch("b.toml", "[lcores]\ncores = [2, 3]", RINGS),
    ];
    assert_eq!(
        complaint(&switches),
        "b.toml:2: core 2 is also in `cores` of a.toml:4, and a switch with `idle` \"poll\" never gives it up; name \
         other cores, or write idle = \"yield\" in both files"
    );
}
