//! What runs a guest's instructions.

/// What runs a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The machine itself.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl Accelerator {
    /// As QEMU has it.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }
}
