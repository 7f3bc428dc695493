//! SIH: static and independent headroom (dsh II), as in commercial switch chips.

use std::sync::Arc;

use weir_reader::{Key, Named, Table};
use weir_units::Alpha;

use super::dynamic_threshold::WithOtherHeadroom;
use super::{
    ALPHA, BuildContext, DynamicThreshold, FileFacts, LayoutNeeds, Policy, PolicyError, PolicyKind, PolicySettings,
};

/// Kind of `policy = "sih"`: DT over the rest of the buffer after **every** lossless ingress queue has its worst-case headroom Φ reserved,
/// in use or not.
#[derive(Debug)]
pub(super) struct Kind;

/// Settings of `[buffer.sih]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SihSettings {
    /// `alpha`: α of DT.
    pub alpha: Alpha,
}

impl Named for Kind {
    fn name(&self) -> &'static str {
        "sih"
    }

    fn keys(&self) -> &'static [Key] {
        &[ALPHA]
    }
}

impl PolicyKind for Kind {
    fn read(&self, table: &Table<'_>) -> Arc<dyn PolicySettings> {
        Arc::new(SihSettings { alpha: table.alpha_or(&ALPHA) })
    }
}

impl PolicySettings for SihSettings {
    fn kind(&self) -> &'static dyn PolicyKind {
        &Kind
    }

    fn needs(&self) -> LayoutNeeds {
        LayoutNeeds::PER_QUEUE
    }

    fn live_keys(&self) -> &'static [&'static str] {
        &[ALPHA.name]
    }

    fn check(&self, file: &FileFacts<'_>) {
        file.refuse_given_headroom("\"sih\" sets the worst-case headroom by the rule");
    }

    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        Ok(Box::new(WithOtherHeadroom {
            threshold: DynamicThreshold::new(self.alpha),
            name: Kind.name(),
            description: |_, alpha| {
                vec![format!("SIH (dsh II): DT with α = {alpha}, and Φ set aside for every lossless ingress queue")]
            },
            alpha_of: |settings| settings.downcast().map(|SihSettings { alpha }| *alpha),
            settings: Arc::new(*self),
        }))
    }
}
