//! SIH: static and independent headroom (dsh II), as in commercial switch chips.

use std::sync::Arc;

use weir_reader::{Keys, Plugin, Table};
use weir_units::Alpha;

use super::dynamic_threshold::DtWithHeadroom;
use super::{
    ALPHA, BufferPolicy, BufferPolicyConfig, BufferPolicyKind, BuildContext, ConfigContext, DynamicThreshold,
    LayoutRequirements, PolicyError,
};

/// Kind of `policy = "sih"`: DT over the rest of the buffer after **every** lossless ingress queue has its worst-case headroom Φ reserved,
/// in use or not.
#[derive(Debug)]
pub(super) struct SihKind;

/// Settings of `[buffer.sih]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SihConfig {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
}

impl Plugin for SihKind {
    fn id(&self) -> &'static str {
        "sih"
    }

    fn keys(&self) -> Keys {
        &[&ALPHA]
    }
}

impl BufferPolicyKind for SihKind {
    fn parse(&self, table: &Table<'_>) -> Arc<dyn BufferPolicyConfig> {
        Arc::new(SihConfig { alpha: table.get(&ALPHA) })
    }
}

impl BufferPolicyConfig for SihConfig {
    fn kind(&self) -> &'static dyn BufferPolicyKind {
        &SihKind
    }

    fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements::PER_QUEUE
    }

    fn check(&self, file: &ConfigContext<'_>) {
        file.refuse_given_headroom("\"sih\" sets the worst-case headroom by the rule");
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        Ok(Box::new(DtWithHeadroom {
            threshold: DynamicThreshold::new(self.alpha),
            name: SihKind.id(),
            description: |_, alpha| {
                vec![format!("SIH (dsh II): DT with α = {alpha}, and Φ set aside for every lossless ingress queue")]
            },
            alpha_of: |config| config.downcast().map(|SihConfig { alpha }| *alpha),
            config: Arc::new(*self),
        }))
    }
}
