//! Policies of the experiment, with their names on the command line.

use std::fmt;
use std::str::FromStr;

use weir_mmu::policy::{ALPHA, BUFFER_POLICIES};
use weir_units::{Alpha, Bytes, Span, UnitError};

/// Policy and its α; other parameters are the papers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimPolicy {
    /// Kind of policy.
    pub kind: PolicyChoice,
    /// Factor α of the lossless ingress queues; ignored by a policy without α.
    pub alpha: Alpha,
}

/// Buffer policy: thresholds and headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// `st`: ST, an even share of the buffer.
    Static,
    /// `dt`: DT.
    Dynamic,
    /// `spfc`: SPFC.
    Spfc,
    /// `sih`: SIH.
    Sih,
    /// `oversubscribed`: headroom oversubscription.
    Oversubscribed,
    /// `adaptive`: adaptive headroom.
    Adaptive,
    /// `dsh`: DSH.
    Dsh,
    /// `dsh-no-insurance`: DSH's ablation of the insurance headroom.
    DshNoInsurance,
    /// `dsh-no-shared`: DSH's ablation of the shared headroom.
    DshNoShared,
    /// `sonic`: SONiC's four pools.
    Sonic,
    /// `abm`: ABM over SONiC's pools.
    Abm,
    /// `reverie`: Reverie.
    Reverie,
    /// Another policy of the program, by name, with its defaults and, if it has one, α.
    Other(&'static str),
}

/// Values of the policies' tables that depend on the scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicySetting {
    /// T of the static threshold.
    pub(super) static_threshold: Bytes,
    /// SPFC's TC.
    pub(super) spfc_window: Span,
}

/// Error in the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyNameError {
    /// The policy is unknown.
    #[error("`{0}` is no policy; there are {names}, each but `st` with an α behind a colon (`dt:1/8`) or with 1", names = all_names())]
    Unknown(String),
    /// ST takes no α.
    #[error("`st` has no α: its threshold is a fixed share of the buffer")]
    NoAlpha,
    /// The program's policy takes no α.
    #[error("`{0}` has no α")]
    NoAlphaOf(&'static str),
    /// The α is invalid.
    #[error(transparent)]
    Alpha(#[from] UnitError),
}

impl PolicyChoice {
    /// Weir's own policies.
    pub const ALL: [PolicyChoice; 12] = [
        PolicyChoice::Static,
        PolicyChoice::Dynamic,
        PolicyChoice::Spfc,
        PolicyChoice::Sih,
        PolicyChoice::Oversubscribed,
        PolicyChoice::Adaptive,
        PolicyChoice::Dsh,
        PolicyChoice::DshNoInsurance,
        PolicyChoice::DshNoShared,
        PolicyChoice::Sonic,
        PolicyChoice::Abm,
        PolicyChoice::Reverie,
    ];

    /// Returns the name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            PolicyChoice::Static => "st",
            PolicyChoice::Dynamic => "dt",
            PolicyChoice::Spfc => "spfc",
            PolicyChoice::Sih => "sih",
            PolicyChoice::Oversubscribed => "oversubscribed",
            PolicyChoice::Adaptive => "adaptive",
            PolicyChoice::Dsh => "dsh",
            PolicyChoice::DshNoInsurance => "dsh-no-insurance",
            PolicyChoice::DshNoShared => "dsh-no-shared",
            PolicyChoice::Sonic => "sonic",
            PolicyChoice::Abm => "abm",
            PolicyChoice::Reverie => "reverie",
            PolicyChoice::Other(name) => name,
        }
    }

    /// Returns the policy of this name on a command line.
    fn of_name(name: &str) -> Option<PolicyChoice> {
        let own = PolicyChoice::ALL.into_iter().find(|kind| kind.name() == name);
        own.or_else(|| others().find(|other| *other == name).map(PolicyChoice::Other))
    }

    /// Whether the policy has an α.
    fn has_alpha(self) -> bool {
        let keys = BUFFER_POLICIES.find(self.configured_name()).map_or(&[][..], |kind| kind.keys());
        keys.iter().any(|key| key.name() == ALPHA.name)
    }

    /// Returns the value of `[buffer] policy`.
    fn configured_name(self) -> &'static str {
        match self {
            PolicyChoice::Static => "static",
            PolicyChoice::DshNoInsurance | PolicyChoice::DshNoShared => PolicyChoice::Dsh.name(),
            other => other.name(),
        }
    }
}

impl VictimPolicy {
    /// Creates a policy with α = 1.
    pub const fn new(kind: PolicyChoice) -> VictimPolicy {
        VictimPolicy { kind, alpha: Alpha::ONE }
    }

    /// Returns the name in files and tables: `st`, or name and α, `dt-1/8`.
    pub fn name(&self) -> String {
        let name = self.kind.name();
        if self.kind.has_alpha() { format!("{name}-{}", self.alpha) } else { name.to_owned() }
    }

    /// Returns the lines of `[buffer]` and the policy's own table.
    pub(super) fn toml(&self, setting: &PolicySetting) -> String {
        let own = match self.kind {
            PolicyChoice::Static => format!("threshold = \"{}\"\n", setting.static_threshold),
            PolicyChoice::Spfc => format!("k_spfc = {K_SPFC}\ntc = \"{}\"\n", setting.spfc_window),
            PolicyChoice::DshNoInsurance => "insurance = false\n".to_owned(),
            PolicyChoice::DshNoShared => "shared_headroom = false\n".to_owned(),
            _ => String::new(),
        };
        let alpha = if self.kind.has_alpha() { format!("alpha = \"{}\"\n", self.alpha) } else { String::new() };
        let policy = self.kind.configured_name();
        format!("policy = \"{policy}\"\n\n[buffer.{policy}]\n{alpha}{own}")
    }
}

/// K_spfc (SPFC VII-A).
const K_SPFC: u32 = 5;

impl FromStr for VictimPolicy {
    type Err = PolicyNameError;

    /// Parses `NAME` or `NAME:ALPHA`.
    fn from_str(text: &str) -> Result<VictimPolicy, PolicyNameError> {
        let (name, alpha) = text.split_once(':').map_or((text, None), |(name, alpha)| (name, Some(alpha)));
        let kind = PolicyChoice::of_name(name).ok_or_else(|| PolicyNameError::Unknown(name.to_owned()))?;
        match alpha {
            None => Ok(VictimPolicy::new(kind)),
            Some(_) if kind == PolicyChoice::Static => Err(PolicyNameError::NoAlpha),
            Some(_) if !kind.has_alpha() => Err(PolicyNameError::NoAlphaOf(kind.name())),
            Some(alpha) => Ok(VictimPolicy { kind, alpha: alpha.parse::<Alpha>()? }),
        }
    }
}

impl VictimPolicy {
    /// Returns the command-line argument, which can be parsed again: `dt:1/8`.
    pub fn argument(&self) -> String {
        let name = self.kind.name();
        if self.kind.has_alpha() { format!("{name}:{}", self.alpha) } else { name.to_owned() }
    }
}

impl fmt::Display for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

fn all_names() -> String {
    PolicyChoice::ALL.map(PolicyChoice::name).into_iter().chain(others()).collect::<Vec<_>>().join(", ")
}

/// Returns the program's policies that are not Weir's own.
fn others() -> impl Iterator<Item = &'static str> {
    BUFFER_POLICIES.names().filter(|name| !PolicyChoice::ALL.iter().any(|kind| kind.configured_name() == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_with_and_without_alpha() {
        for kind in PolicyChoice::ALL {
            assert_eq!(kind.name().parse(), Ok(VictimPolicy::new(kind)));
            let eighth = format!("{}:1/8", kind.name()).parse::<VictimPolicy>();
            if let Ok(policy) = eighth {
                assert_eq!(policy.argument().parse(), eighth);
            }
            match kind {
                PolicyChoice::Static => assert_eq!(eighth, Err(PolicyNameError::NoAlpha)),
                _ => assert_eq!(eighth, Ok(VictimPolicy { kind, alpha: "1/8".parse().unwrap() })),
            }
        }
        assert_eq!("dsh-no-shared:2".parse::<VictimPolicy>().unwrap().name(), "dsh-no-shared-2");
    }

    #[test]
    fn an_unknown_policy_is_an_error_that_lists_all() {
        let error = "red".parse::<VictimPolicy>().unwrap_err().to_string();
        assert!(PolicyChoice::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
        let error = "dt:none".parse::<VictimPolicy>().unwrap_err().to_string();
        assert!(error.starts_with("\"none\" is not"), "{error}");
    }
}
