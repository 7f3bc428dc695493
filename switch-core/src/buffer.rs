//! From a configuration to the buffer's partition and its policy.

use weir_config::SwitchConfig;
use weir_mmu::policy::BuildContext;
use weir_mmu::{BufferLayout, Charge, Policy, PortLayout};
use weir_units::{BitRate, Bytes, Class, FCS_BYTES};

use crate::build_error::BuildError;

/// How the configured buffer is cut, by the needs of its policy.
pub fn buffer_layout(config: &SwitchConfig) -> Result<BufferLayout, BuildError> {
    let ports = (0..config.ports.len()).map(|port| {
        let phi = config.headroom(port).unwrap_or(Bytes::ZERO);
        let lossless = |class: Class| config.classes.lossless.contains(class);
        PortLayout {
            private: [config.buffer.private; 8],
            headroom: Class::ALL.map(|class| if lossless(class) { phi } else { Bytes::ZERO }),
            lossless: config.classes.lossless,
        }
    });
    config.buffer.policy.needs().cut(config.buffer.size, ports.collect()).map_err(BuildError::Layout)
}

/// The configured policy over a partition, for ports of these rates.
pub fn buffer_policy(
    config: &SwitchConfig,
    layout: &BufferLayout,
    rates: &[BitRate],
) -> Result<Box<dyn Policy>, BuildError> {
    let charge = Charge::in_cells(config.buffer.cell_bytes);
    // Headroom covers what the worst frames waste of their cells, so beside it stands the rate at which those fill the buffer.
    let fill_rates: Vec<BitRate> = rates.iter().map(|rate| charge.fill_rate(*rate)).collect();
    let frame_max = charge.of((config.frame_bytes_max().get() - FCS_BYTES) as u32);
    let context = BuildContext {
        layout,
        rates,
        fill_rates: &fill_rates,
        frame_max: Bytes::new(u64::from(frame_max)),
        xon_offset: config.xon_offset(),
        reaction: config.pfc.reaction,
    };
    config.buffer.policy.build(&context).map_err(BuildError::Policy)
}
