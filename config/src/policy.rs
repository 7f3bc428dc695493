//! The buffer policies with their parameters.

use weir_units::{Alpha, Bytes, Span};

/// `[buffer] policy`, with the policy's own parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyConfig {
    /// ST: the same constant threshold for each ingress queue.
    Static {
        /// `[buffer.static] threshold`; `None` shares the buffer out evenly over the ports: `B_s / N_p`.
        threshold: Option<Bytes>,
    },
    /// DT: `T = α·(B_s − Σ w_s)`.
    Dt {
        /// `[buffer.dt] alpha`.
        alpha: Alpha,
    },
    /// SPFC (IV-V): a port whose frames depart fast enough is a victim and may take the whole buffer, the others have
    /// DT.
    Spfc {
        /// `[buffer.spfc] alpha`: α of the normal ports.
        alpha: Alpha,
        /// `[buffer.spfc] k_spfc`: a port is a victim from `C / K_spfc` on.
        k_spfc: u32,
        /// `[buffer.spfc] tc`: TC, the window over which a port's rate of departures is counted; 4 RTT or more.
        tc: Span,
    },
    /// SIH: DT with worst-case headroom, always by the rule, for every ingress queue of every lossless class.
    Sih {
        /// `[buffer.sih] alpha`.
        alpha: Alpha,
    },
    /// Headroom oversubscription (DSH V-B): DT with one headroom pool, of which each queue takes at most Φ.
    Oversubscribed {
        /// `[buffer.oversubscribed] alpha`.
        alpha: Alpha,
        /// `[buffer.oversubscribed] headroom_percent`: the pool's size in percent of `Σ Φ`.
        headroom_percent: u32,
    },
    /// Adaptive headroom (802.1Qdt; DSH V-B): SIH whose Φ follows the delay that a queue's PAUSEs are seen to have.
    Adaptive {
        /// `[buffer.adaptive] alpha`.
        alpha: Alpha,
        /// `[buffer.adaptive] samples`: PAUSEs measured on a queue before its headroom follows the measured delay.
        samples: u32,
    },
    /// DSH (IV).
    Dsh(DshConfig),
    /// SONiC's four pools (Reverie 2.2), with DT in each.
    Sonic {
        /// `[buffer.sonic] alpha`: α of the lossless ingress queues.
        alpha: Alpha,
        /// The pools' sizes.
        pools: PoolsConfig,
    },
    /// ABM over SONiC's pools, extended to lossless classes (Reverie 2.3).
    Abm {
        /// `[buffer.abm] alpha`: α of the lossless ingress queues.
        alpha: Alpha,
        /// The pools' sizes.
        pools: PoolsConfig,
        /// `[buffer.abm] congested`: a queue counts in n_p from this length on.
        congested: Bytes,
        /// `[buffer.abm] interval`: the time over which μ, a queue's rate of departures, is measured.
        interval: Span,
    },
    /// Reverie (3): one pool for lossless and lossy queues, each admitted by its low-pass filtered length.
    Reverie {
        /// `[buffer.reverie] alpha`: α● of the lossless ingress queues.
        alpha: Alpha,
        /// `[buffer.reverie] gamma`: γ, the weight of a queue's past, in parts per billion; below 1.
        gamma_ppb: u32,
        /// `[buffer.reverie] congested`: a queue counts in n_p from this length on.
        congested: Bytes,
    },
}

impl PolicyConfig {
    /// The policy of a file that names none.
    pub(crate) const DEFAULT_NAME: &str = "dt";

    /// The policy's name, as in `[buffer] policy`.
    pub fn name(&self) -> &'static str {
        match self {
            PolicyConfig::Static { .. } => "static",
            PolicyConfig::Dt { .. } => "dt",
            PolicyConfig::Spfc { .. } => "spfc",
            PolicyConfig::Sih { .. } => "sih",
            PolicyConfig::Oversubscribed { .. } => "oversubscribed",
            PolicyConfig::Adaptive { .. } => "adaptive",
            PolicyConfig::Dsh(_) => "dsh",
            PolicyConfig::Sonic { .. } => "sonic",
            PolicyConfig::Abm { .. } => "abm",
            PolicyConfig::Reverie { .. } => "reverie",
        }
    }

    /// The sizes of SONiC's pools, if the policy has them.
    pub(crate) fn pools(&self) -> Option<&PoolsConfig> {
        match self {
            PolicyConfig::Sonic { pools, .. } | PolicyConfig::Abm { pools, .. } => Some(pools),
            _ => None,
        }
    }
}

/// `[buffer.dsh]`, with the names of DSH (IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DshConfig {
    /// `alpha`: α of `T(t)`.
    pub alpha: Alpha,
    /// `estimator`: how φ̂ is reckoned.
    pub estimator: Estimator,
    /// `w_g`: the weight of a new gradient in g_avg; at most 1, and 1/2^n for [`Estimator::Table`].
    pub w_g: Alpha,
    /// `w_v`: the weight of a new variation in v_avg; at most 1, and 1/2^n for [`Estimator::Table`].
    pub w_v: Alpha,
    /// `k`: `ĝ = g_avg + k·v_avg`; 0 or a power of two for [`Estimator::Table`].
    pub k: u32,
    /// `window`: τ is 0 when all packets of a port in the last window were of one queue (Algorithm 4).
    pub window: Span,
    /// `port_xon_offset`: δ_p. `None` is as `[buffer] xon_offset`.
    pub port_xon_offset: Option<Bytes>,
    /// `insurance`: whether each port has Φ of insurance headroom. Without it frames of lossless classes can drop.
    pub insurance: bool,
    /// `shared_headroom`: whether congested queues have headroom in the shared buffer.
    pub shared_headroom: bool,
}

/// How DSH estimates the headroom that a queue needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// By multiplication and division.
    Exact,
    /// By shifts and a table of quotients, as a switch chip would (Algorithm 3, Fig. 12).
    Table,
}

/// The sizes of SONiC's pools; `None` is the default. The egress lossless pool is always the whole buffer
/// (Reverie 2.2, heuristic 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolsConfig {
    /// `ingress_pool`; `None` is what private buffers and the headroom pool leave.
    pub ingress: Option<Bytes>,
    /// `headroom_pool`; `None` is Σ Φ over all lossless ingress queues.
    pub headroom: Option<Bytes>,
    /// `egress_lossy_pool`; `None` is 80 % of the ingress pool.
    pub egress_lossy: Option<Bytes>,
}
