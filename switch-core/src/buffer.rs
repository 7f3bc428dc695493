//! Partition and policy of the buffer, from a configuration.

use weir_config::{PeerKind, PortConfig, SwitchConfig};
use weir_mmu::policy::BuildContext;
use weir_mmu::{BufferLayout, BufferPolicy, Mmu, PortLayout};
use weir_units::{Alpha, BitRate, Bytes, Class, FCS_BYTES};

use crate::build_error::BuildError;

/// Returns the partition of the configured buffer, by the requirements of its policy.
///
/// # Errors
/// [`BuildError::Layout`] if the segments do not fit.
pub fn buffer_layout(config: &SwitchConfig) -> Result<BufferLayout, BuildError> {
    let ports = (0..config.ports.len()).map(|port| {
        let phi = config.headroom(port).unwrap_or(Bytes::ZERO);
        let lossless = |class: Class| config.classes.lossless.contains(class);
        PortLayout {
            private: [config.private(port); 8],
            headroom: Class::ALL.map(|class| if lossless(class) { phi } else { Bytes::ZERO }),
            lossless: config.classes.lossless,
        }
    });
    config
        .buffer
        .policy
        .layout_requirements()
        .partition(config.buffer.size, ports.collect())
        .map_err(BuildError::Layout)
}

/// Returns the configured policy for a partition, with ports of these rates.
///
/// # Errors
/// [`BuildError::Policy`] if the policy can't work with ports of these rates.
pub fn buffer_policy(
    config: &SwitchConfig,
    layout: &BufferLayout,
    rates: &[BitRate],
) -> Result<Box<dyn BufferPolicy>, BuildError> {
    let charge = config.buffer.charge();
    // Headroom covers the cell waste of the worst frames; the policy therefore also gets the rate at which those fill the buffer.
    let fill_rates: Vec<BitRate> = rates.iter().map(|rate| charge.fill_rate(*rate)).collect();
    let frame_max = charge.frame_charge((config.frame_bytes_max().get() - FCS_BYTES) as u32);
    let alphas: Vec<Option<Alpha>> = (0..config.ports.len()).map(|port| config.given_alpha(port)).collect();
    // Lending relies on when the peer has paused: by PAUSE or PFC, at a rate that is known.
    let pauses = |port: &PortConfig| port.rate.is_some() && port.flow_control.message_kind().advertises_xoff();
    let hosts: Vec<bool> = config.ports.iter().map(|port| port.peer == PeerKind::Host && pauses(port)).collect();
    let context = BuildContext {
        layout,
        rates,
        alphas: &alphas,
        hosts: &hosts,
        fill_rates: &fill_rates,
        frame_max: Bytes::new(u64::from(frame_max)),
        xon_offset: config.xon_offset(),
        reaction: config.pfc.reaction,
    };
    config.buffer.policy.build(&context).map_err(BuildError::Policy)
}

/// Returns the MMU of a partition, with ports of these rates.
///
/// # Errors
/// Those of [`buffer_policy`].
pub fn buffer_mmu(config: &SwitchConfig, layout: BufferLayout, rates: &[BitRate]) -> Result<Mmu, BuildError> {
    let policy = || buffer_policy(config, &layout, rates);
    let slices = (0..config.buffer.slices).filter(|_| config.buffer.slices > 1).map(|_| policy());
    let (slices, whole) = (slices.collect::<Result<_, _>>()?, policy()?);
    Ok(Mmu::new(layout, whole, config.xon(), config.buffer.lossy_alpha).in_slices(slices))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_by_their_own_values_and_those_of_their_rate() {
        let text = "[buffer]\nprivate = \"2KB\"\nheadroom = \"60KB\"\n[buffer.dt]\nalpha = \"1/8\"\n\
             [[buffer.rates]]\nrate = \"400Gbps\"\nheadroom = \"200KB\"\nprivate = \"8KB\"\nalpha = \"1/2\"\n[classes]\nlossless = [3]\n\
             [[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"400Gbps\"\n\
             [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"400Gbps\"\nprivate = \"1KB\"\n\
             [[ports]]\nname = \"c\"\nring = \"c\"\nrate = \"100Gbps\"\n";
        let config = weir_config::parse("lab", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let layout = buffer_layout(&config).unwrap();
        let of = |port: &PortLayout| (port.private[0], port.headroom[3], port.headroom[4]);
        let kb = Bytes::kb;
        let expected = [(8, 200), (1, 200), (2, 60)].map(|(private, phi)| (kb(private), kb(phi), Bytes::ZERO));
        assert_eq!(layout.ports().iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(layout.shared(), kb(12_000 - 8 * (8 + 1 + 2) - (200 + 200 + 60)));
        let rates = [400, 400, 100].map(BitRate::gbps);
        let policy = buffer_policy(&config, &layout, &rates).unwrap();
        assert!(
            policy.describe()[0].ends_with("α = 1/8, others at ports that have their own"),
            "{:?}",
            policy.describe()
        );
    }
}
