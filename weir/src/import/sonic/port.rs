//! Imported port.

/// Port of the switch file, with SONiC's values.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// Name in SONiC.
    pub(super) sonic_name: String,
    pub(super) name: String,
    /// Rate in Mb/s.
    pub(super) speed: Option<u64>,
    /// Cable length, as `40m`.
    pub(super) cable: Option<String>,
    pub(super) metres: f64,
    /// VLAN of untagged frames.
    pub(super) vlan: Option<u16>,
    /// VLANs of which the port is a tagged member.
    pub(super) tagged: Vec<u16>,
    /// Whether it is administratively down.
    pub(super) is_down: bool,
    pub(super) device: String,
}
