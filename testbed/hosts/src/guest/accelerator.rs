//! QEMU accelerators.

/// Accelerator that executes a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// Hardware virtualisation.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl Accelerator {
    /// Returns QEMU's name of the accelerator.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }
}
