//! Keys and rules of SONiC's pools (reverie 2.2).

use std::cmp::Reverse;

use weir_reader::{Key, Problem, Table};
use weir_units::Bytes;

use super::kind::SIZES;
use super::{BufferPolicyConfig, BufferSizes, ConfigContext, HeadroomRequirement, LayoutRequirements, PoolSizes};
use crate::layout::BufferLayout;

/// Sizes of SONiC's pools; `None` is the default. The egress lossless pool is always the whole buffer (Reverie 2.2, heuristic 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// `ingress_pool`; by default the rest after private buffers and the headroom pool.
    pub ingress: Option<Bytes>,
    /// `headroom_pool`; by default Σ Φ over all lossless ingress queues.
    pub headroom: Option<Bytes>,
    /// `egress_lossy_pool`; by default 80 % of the ingress pool.
    pub egress_lossy: Option<Bytes>,
}

pub(super) const INGRESS: Key<Bytes> = Key::size("ingress_pool", SIZES, "b_in: pool of all ingress queues")
    .or_else("`size` − private buffers − `headroom_pool`");
pub(super) const HEADROOM: Key<Bytes> = Key::size(
    "headroom_pool",
    Bytes::ZERO..=BufferLayout::CONFIGURED_MAX,
    "b_h: pool of the lossless ingress queues' headroom",
)
.or_else("Σ Φ over all lossless ingress queues");
pub(super) const EGRESS_LOSSY: Key<Bytes> =
    Key::size("egress_lossy_pool", SIZES, "b°: pool of the lossy egress queues").or_else("80 % of `ingress_pool`");

impl Pools {
    pub(super) fn read(table: &Table<'_>) -> Pools {
        Pools {
            ingress: table.given(&INGRESS),
            headroom: table.given(&HEADROOM),
            egress_lossy: table.given(&EGRESS_LOSSY),
        }
    }

    pub(super) fn layout_requirements(&self) -> LayoutRequirements {
        LayoutRequirements {
            headroom: HeadroomRequirement::Pool(self.headroom),
            pools: Some(PoolSizes { ingress: self.ingress, egress_lossy: self.egress_lossy }),
            keys: &[INGRESS.name, HEADROOM.name],
        }
    }

    pub(super) fn check(&self, policy: &dyn BufferPolicyConfig, file: &ConfigContext<'_>, sizes: &BufferSizes<'_>) {
        self.headroom_holds_a_queue(policy, file, sizes);
        if sizes.fit || self.ingress.is_some() {
            self.egress_lossy_fits(policy, file, sizes.shared);
        }
    }

    /// Checks that the headroom pool holds the frames that arrive until a PAUSE takes effect, at least those of one queue.
    fn headroom_holds_a_queue(
        &self,
        policy: &dyn BufferPolicyConfig,
        file: &ConfigContext<'_>,
        sizes: &BufferSizes<'_>,
    ) {
        let Some(pool) = self.headroom.filter(|_| file.lossless_classes > 0) else { return };
        let phis = || sizes.ports.iter().filter_map(|port| port.headroom);
        let ports = sizes.ports.iter().enumerate().filter_map(|(n, port)| Some((port.headroom?, n, port.name)));
        let Some((phi, _, name)) = ports.max_by_key(|(phi, n, _)| (*phi, Reverse(*n))) else { return };
        if pool >= phi {
            return;
        }
        let all = phis().sum::<Bytes>() * u64::from(file.lossless_classes);
        let message =
            format!("`headroom_pool` {pool} is less than the headroom of one lossless queue of port \"{name}\", {phi}");
        let help = format!("write headroom_pool = \"{phi}\" or more; \"{all}\", the default, holds that of all queues");
        let problem = Problem::new(message, help).with_label(policy.key_path(HEADROOM.name), "");
        file.doc.note(problem.with_label("buffer.headroom", "the headroom"));
    }

    /// Checks that the egress lossy pool fits the ingress pool, which lossy packets also count in (Reverie 2.2, heuristic 3).
    fn egress_lossy_fits(&self, policy: &dyn BufferPolicyConfig, file: &ConfigContext<'_>, ingress: Bytes) {
        let own = policy.key_path(EGRESS_LOSSY.name);
        let Some(pool) = self.egress_lossy.filter(|pool| *pool > ingress && file.doc.sound(&[&own])) else { return };
        let from = if self.ingress.is_some() { "" } else { " (what private buffers and headroom leave, the default)" };
        let message = format!(
            "`egress_lossy_pool` {pool} is above `ingress_pool` {ingress}{from}, through which its frames come in"
        );
        let help = format!("write egress_lossy_pool = \"{ingress}\" or less, or a larger ingress_pool");
        let problem = Problem::new(message, help).with_label(own, "");
        file.doc.note(problem.with_label(policy.key_path(INGRESS.name), "the ingress pool"));
    }
}
