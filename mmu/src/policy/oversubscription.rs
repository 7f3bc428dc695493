//! Headroom oversubscription (dsh V-B; practice of Microsoft and SONiC): less headroom than the worst case requires.

use std::sync::Arc;

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::Alpha;

use super::dynamic_threshold::DtWithHeadroom;
use super::{
    ALPHA, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, DynamicThreshold, HeadroomRequirement,
    LayoutRequirements, PolicyError,
};

/// Kind of `policy = "oversubscribed"`: SIH whose headroom is one pool of a part of Σ Φ, from which each queue takes at most its Φ. If more
/// queues are OFF at once than the pool was sized for, it runs dry, and lossless packets are lost. The thresholds are DT's.
#[derive(Debug)]
pub(super) struct OversubscribedKind;

/// Settings of `[buffer.oversubscribed]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OversubscribedConfig {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
    /// `headroom_percent`: size of the pool in percent of `Σ Φ`.
    pub headroom_percent: u32,
}

/// The default is that of dsh V-B.
const HEADROOM_PERCENT: Key<u32> =
    Key::<u32>::integer("headroom_percent", 1..=100, "headroom pool in percent of Σ Φ; a small one loses frames")
        .or("80");

impl Plugin for OversubscribedKind {
    fn id(&self) -> &'static str {
        "oversubscribed"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA, &HEADROOM_PERCENT]
    }
}

impl BufferPolicyKind for OversubscribedKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(OversubscribedConfig { alpha: table.get(&ALPHA), headroom_percent: table.get(&HEADROOM_PERCENT) })
    }
}

impl BufferPolicyConfig for OversubscribedConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &OversubscribedKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements {
            headroom: HeadroomRequirement::Part { percent: self.headroom_percent },
            pools: None,
            keys: &[HEADROOM_PERCENT.name],
        }
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(DtWithHeadroom {
            threshold: DynamicThreshold::new(self.alpha),
            name: OversubscribedKind.id(),
            description: |config, alpha| {
                let percent =
                    config.downcast().map_or(100, |OversubscribedConfig { headroom_percent, .. }| *headroom_percent);
                vec![
                    format!(
                        "headroom oversubscription (dsh V-B): DT with α = {alpha}, headroom is one pool of {percent} % \
                     of Σ Φ"
                    ),
                    "not lossless: with enough queues OFF at once the headroom pool runs dry".to_owned(),
                ]
            },
            alpha_of: |config| config.downcast().map(|OversubscribedConfig { alpha, .. }| *alpha),
            config: Arc::new(*self),
        }))
    }
}
