//! Tests of the suite on Weir in virtual time, and on devices with faults.

mod discovery;
mod faults;
mod reports;
mod weir_passes;

use weir_config::SwitchConfig;

/// Returns a switch of three ports of 100 Gb/s with SONiC's classes, and this text in `[buffer]`.
fn three_ports(mtu: u32, buffer: &str) -> SwitchConfig {
    let ports: String = (0..3)
        .map(|port| {
            format!("[[ports]]\nname = \"p{port}\"\nring = \"r{port}\"\nrate = \"100Gbps\"\ndelay = \"500ns\"\n")
        })
        .collect();
    let text = format!(
        "[switch]\nmtu = {mtu}\n[buffer]\n{buffer}\n[classes]\npreset = \"sonic\"\n[pfc]\nreaction = \"1us\"\n{ports}"
    );
    weir_config::parse_for_virtual_time("switch.toml", &text)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}
