//! Test of the list, and its outcome.

use serde::Serialize;

use crate::TestFailure;
use crate::bench::Bench;

/// Test of the list.
#[derive(Clone, Copy, Serialize)]
pub struct Test {
    /// Name in the list: `L01`, or SONiC's of a QoS test.
    pub id: &'static str,
    /// Subject of the test.
    pub title: &'static str,
    /// Criterion of a pass.
    pub criterion: &'static str,
    /// Tolerance of the criterion; "none" if it is exact.
    pub tolerance: &'static str,
    /// Reason for the tolerance.
    pub reason: &'static str,
    #[serde(skip)]
    pub(crate) run: fn(&mut Bench<'_>) -> Result<(), TestFailure>,
}

/// Tolerance of rates, and its reason.
pub(crate) const RATE: &str = "2 % of the rate, no lost frame";
pub(crate) const RATE_REASON: &str =
    "the plan's: frames wait for those of other classes, and the window ends between two frames";
/// Tolerance of counts, and its reason.
pub(crate) const EXACT: &str = "none";
pub(crate) const EXACT_REASON: &str = "frames are counted";

/// Outcome of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Name of the test.
    pub id: &'static str,
    /// Subject of the test.
    pub title: &'static str,
    /// Criterion of a pass.
    pub criterion: &'static str,
    /// Tolerance of the criterion.
    pub tolerance: &'static str,
    /// Reason for the tolerance.
    pub reason: &'static str,
    /// Measured values.
    pub measured: Vec<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason why it is not possible here, or the expectations that were not met.
    pub messages: Vec<String>,
    /// Time that the test took, in seconds of the device's time.
    pub seconds: f64,
}

/// Verdict of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All expectations were met.
    Passed,
    /// An expectation was not met, or an error occurred.
    Failed,
    /// Tester or device lack an ability.
    NotPossible,
}
