//! The papers that experiments are of.

use serde::Deserialize;

/// In the order of their figures in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PaperName {
    Gfc,
    Dsh,
    Reverie,
    Spfc,
}

impl PaperName {
    /// How it is cited.
    pub(super) fn citation(self) -> &'static str {
        match self {
            PaperName::Gfc => "Qian et al., Gentle Flow Control, SIGCOMM 2019",
            PaperName::Dsh => {
                "Shan et al., Efficient Headroom Allocation With Two-Level Flow Control, IEEE Trans. Networking 2025"
            }
            PaperName::Reverie => "Addanki et al., Reverie, NSDI 2024",
            PaperName::Spfc => {
                "Huang et al., Re-Architecting Buffer Management in Lossless Ethernet, IEEE/ACM Trans. Networking"
            }
        }
    }
}
