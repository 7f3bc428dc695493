//! From a configuration to the buffer's partition and its policy.

use weir_config::{DshConfig, Estimator, PolicyConfig, SwitchConfig};
use weir_mmu::policy::gradient::Form;
use weir_mmu::policy::{
    Abm, AdaptiveHeadroom, Dsh, DshParameters, DynamicThreshold, Oversubscription, Reverie, Sih, Sonic, Spfc,
    StaticThreshold, departures::Windows,
};
use weir_mmu::{BufferLayout, Charge, Headroom, Policy, PortLayout};
use weir_units::{BitRate, Bytes, Class, FCS_BYTES, Span};

use crate::build_error::BuildError;

/// How the configured buffer is cut.
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
    let headroom = match &config.buffer.policy {
        PolicyConfig::Oversubscribed { .. } | PolicyConfig::Sonic { .. } | PolicyConfig::Abm { .. } => {
            Headroom::Pool(config.headroom_size())
        }
        PolicyConfig::Dsh(DshConfig { insurance: true, .. }) => Headroom::PerPort,
        PolicyConfig::Dsh(DshConfig { insurance: false, .. }) => Headroom::Uninsured,
        _ => Headroom::PerQueue,
    };
    let layout = BufferLayout::new(config.buffer.size, ports.collect(), headroom).map_err(BuildError::Layout)?;
    match config.egress_lossy_pool() {
        Some(egress_lossy) => layout.with_pools(config.shared_size(), egress_lossy).map_err(BuildError::Layout),
        None => Ok(layout),
    }
}

/// The configured policy over a partition, for ports of these rates.
pub fn buffer_policy(
    config: &SwitchConfig,
    layout: &BufferLayout,
    rates: &[BitRate],
) -> Result<Box<dyn Policy>, BuildError> {
    let ports = layout.ports().len();
    let charge = Charge::in_cells(config.buffer.cell_bytes);
    // Headroom covers what the worst frames waste of their cells, so beside it stands the rate at which those fill the buffer.
    let fill_rates: Vec<BitRate> = rates.iter().map(|rate| charge.fill_rate(*rate)).collect();
    let too_long = |key| BuildError::Window { key, longest: longest_window(rates) };
    Ok(match &config.buffer.policy {
        PolicyConfig::Static { threshold: Some(threshold) } => Box::new(StaticThreshold::new(*threshold)),
        PolicyConfig::Static { threshold: None } => Box::new(StaticThreshold::even(layout.shared(), ports)),
        PolicyConfig::Dt { alpha } => Box::new(DynamicThreshold::new(*alpha)),
        PolicyConfig::Spfc { alpha, k_spfc, tc } => {
            Box::new(Spfc::new(*alpha, *k_spfc, *tc, rates).ok_or(too_long("buffer.spfc.tc"))?)
        }
        PolicyConfig::Sih { alpha } => Box::new(Sih::new(*alpha)),
        PolicyConfig::Oversubscribed { alpha, headroom_percent } => {
            Box::new(Oversubscription::new(*alpha, *headroom_percent))
        }
        PolicyConfig::Adaptive { alpha, samples } => {
            let frame_max = charge.of((config.frame_bytes_max().get() - FCS_BYTES) as u32);
            Box::new(AdaptiveHeadroom::new(*alpha, *samples, Bytes::new(u64::from(frame_max)), layout, &fill_rates))
        }
        PolicyConfig::Dsh(dsh) => Box::new(Dsh::new(dsh_parameters(dsh, config.xon_offset()), layout, &fill_rates)),
        PolicyConfig::Sonic { alpha, .. } => Box::new(Sonic::new(*alpha)),
        PolicyConfig::Abm { alpha, congested, interval, .. } => {
            Box::new(Abm::new(*alpha, *congested, *interval, rates).ok_or(too_long("buffer.abm.interval"))?)
        }
        PolicyConfig::Reverie { alpha, gamma_ppb, congested } => {
            Box::new(Reverie::new(*alpha, *gamma_ppb, *congested, ports))
        }
    })
}

fn dsh_parameters(dsh: &DshConfig, xon_offset: Bytes) -> DshParameters {
    DshParameters {
        threshold: DynamicThreshold::new(dsh.alpha),
        form: match dsh.estimator {
            Estimator::Exact => Form::exact(dsh.w_g, dsh.w_v, dsh.k),
            Estimator::Table => {
                Form::table(dsh.w_g, dsh.w_v, dsh.k).expect("a checked configuration has powers of two here")
            }
        },
        window: dsh.window,
        port_xon_offset: dsh.port_xon_offset.unwrap_or(xon_offset),
        shared_headroom: dsh.shared_headroom,
    }
}

/// The longest window in which the fastest port's departures are counted, in whole microseconds.
pub fn longest_window(rates: &[BitRate]) -> Span {
    let fastest = rates.iter().copied().max().unwrap_or(BitRate::gbps(1));
    Span::from_micros(fastest.time_for(Bytes::new(Windows::BYTES_MAX)).as_micros())
}
