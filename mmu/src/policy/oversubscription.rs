//! Headroom oversubscription (dsh V-B; practice of Microsoft and SONiC): less headroom than the worst case requires.

use std::sync::Arc;

use weir_reader::{Key, Named, Table};
use weir_units::Alpha;

use super::dynamic_threshold::WithOtherHeadroom;
use super::{
    ALPHA, BuildContext, DynamicThreshold, HeadroomNeeds, LayoutNeeds, Policy, PolicyError, PolicyKind, PolicySettings,
};

/// Kind of `policy = "oversubscribed"`: SIH whose headroom is one pool of a part of Σ Φ, from which each queue takes at most its Φ. If more
/// queues are OFF at once than the pool was sized for, it runs dry, and lossless packets are lost. The thresholds are DT's.
#[derive(Debug)]
pub(super) struct Kind;

/// Settings of `[buffer.oversubscribed]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OversubscribedSettings {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
    /// `headroom_percent`: size of the pool in percent of `Σ Φ`.
    pub headroom_percent: u32,
}

/// The default is that of dsh V-B.
const HEADROOM_PERCENT: Key = Key::new("headroom_percent", "80", "the headroom pool in percent of Σ Φ");

impl Named for Kind {
    fn name(&self) -> &'static str {
        "oversubscribed"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA, HEADROOM_PERCENT]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        Arc::new(OversubscribedSettings {
            alpha: table.alpha_or(&ALPHA),
            headroom_percent: table.integer_or(&HEADROOM_PERCENT, 1..=100) as u32,
        })
    }
}

impl PolicySettings for OversubscribedSettings {
    fn kind(&self) -> &'static dyn PolicyKind {
        &Kind
    }

    fn needs(&self) -> LayoutNeeds {
        LayoutNeeds {
            headroom: HeadroomNeeds::Part { percent: self.headroom_percent },
            pools: None,
            keys: &[HEADROOM_PERCENT.name],
        }
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &[ALPHA.name]
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        Ok(Box::new(WithOtherHeadroom {
            threshold: DynamicThreshold::new(self.alpha),
            name: Kind.name(),
            description: |settings, alpha| {
                let percent = settings
                    .downcast()
                    .map_or(100, |OversubscribedSettings { headroom_percent, .. }| *headroom_percent);
                vec![
                    format!(
                        "headroom oversubscription (dsh V-B): DT with α = {alpha}, headroom is one pool of {percent} % \
                     of Σ Φ"
                    ),
                    "not lossless: with enough queues OFF at once the headroom pool runs dry".to_owned(),
                ]
            },
            alpha_of: |settings| settings.downcast().map(|OversubscribedSettings { alpha, .. }| *alpha),
            settings: Arc::new(*self),
        }))
    }
}
