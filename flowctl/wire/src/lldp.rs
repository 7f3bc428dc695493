//! LLDP codec (IEEE 802.1AB), with the TLVs of DCBX (802.1Q Annex D): ETS, PFC and application priorities.
//!
//! An LLDPDU is a sequence of TLVs: seven bits of type, nine bits of length, and the value. Chassis ID, port ID and TTL come first, in this
//! order. Lengths are a peer's: a TLV that is longer than the frame, or too short for its fields, makes the LLDPDU malformed.

use std::fmt;
use std::net::IpAddr;

use weir_units::{CLASSES, Class, ClassSet, FCS_BYTES, MacAddr};

#[cfg(test)]
mod tests;

/// Ethertype of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;
/// Destination of LLDPDUs for the device at the other end of the link: the nearest bridge group address.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

const ETHERNET_BYTES: usize = 14;
/// Length of the shortest frame, without FCS.
const FRAME_BYTES_MIN: usize = (weir_units::FRAME_BYTES_MIN - FCS_BYTES) as usize;
/// Length of the longest value of a text or an identifier.
const TEXT_BYTES_MAX: usize = 255;

mod tlv {
    pub(super) const END: u8 = 0;
    pub(super) const CHASSIS: u8 = 1;
    pub(super) const PORT: u8 = 2;
    pub(super) const TTL: u8 = 3;
    pub(super) const PORT_DESCRIPTION: u8 = 4;
    pub(super) const SYSTEM_NAME: u8 = 5;
    pub(super) const SYSTEM_DESCRIPTION: u8 = 6;
    pub(super) const CAPABILITIES: u8 = 7;
    pub(super) const ORGANISATION: u8 = 127;
}

/// Prefixes of DCBX TLVs: the organisation 00-80-C2 and a subtype.
mod dcbx {
    pub(super) const ETS: [u8; 4] = [0x00, 0x80, 0xc2, 0x09];
    pub(super) const ETS_RECOMMENDATION: [u8; 4] = [0x00, 0x80, 0xc2, 0x0a];
    pub(super) const PFC: [u8; 4] = [0x00, 0x80, 0xc2, 0x0b];
    pub(super) const APPLICATIONS: [u8; 4] = [0x00, 0x80, 0xc2, 0x0c];
    pub(super) const WILLING: u8 = 0x80;
    /// Number of bits of the first octet that count traffic classes; 0 counts 8.
    pub(super) const TRAFFIC_CLASSES: u8 = 0x07;
}

/// Kind of an identifier, with its subtypes of MAC and network addresses.
#[derive(Clone, Copy)]
struct IdentifierKind {
    mac: u8,
    address: u8,
}

const CHASSIS_ID: IdentifierKind = IdentifierKind { mac: 4, address: 5 };
const PORT_ID: IdentifierKind = IdentifierKind { mac: 3, address: 4 };
/// Address families of IANA.
const IPV4: u8 = 1;
const IPV6: u8 = 2;

/// LLDPDU, decoded. TLVs of other types are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldpdu {
    /// Chassis ID of the sender.
    pub chassis: Identifier,
    /// ID of the sender's port.
    pub port: Identifier,
    /// Seconds for which the information is valid; 0 withdraws it.
    pub ttl: u16,
    /// Description of the sender's port.
    pub port_description: Option<String>,
    /// Name of the sender.
    pub system_name: Option<String>,
    /// Description of the sender.
    pub system_description: Option<String>,
    /// Capabilities of the sender.
    pub capabilities: Option<Capabilities>,
    /// ETS configuration.
    pub ets: Option<EtsConfiguration>,
    /// ETS configuration that a willing peer adopts.
    pub ets_recommendation: Option<EtsConfiguration>,
    /// PFC configuration.
    pub pfc: Option<PfcConfiguration>,
    /// Priorities of applications.
    pub applications: Vec<ApplicationPriority>,
}

/// Chassis ID or port ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// MAC address.
    Mac(MacAddr),
    /// IP address.
    Address(IpAddr),
    /// Text of another subtype.
    Text {
        /// Subtype, such as [`Identifier::PORT_NAME`].
        subtype: u8,
        /// The text.
        text: String,
    },
}

impl Identifier {
    /// Subtype of a port ID that is an interface name.
    pub const PORT_NAME: u8 = 5;
    /// Subtype of an ID that is assigned locally.
    pub const LOCAL: u8 = 7;
}

/// Capabilities of a system, and those that are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bitmap of the system's capabilities.
    pub system: u16,
    /// Bitmap of the enabled capabilities.
    pub enabled: u16,
}

impl Capabilities {
    /// Bit of a bridge.
    pub const BRIDGE: u16 = 1 << 2;
    /// Bit of a router.
    pub const ROUTER: u16 = 1 << 4;
    /// Bit of a station without another capability.
    pub const STATION: u16 = 1 << 7;
}

/// Enhanced transmission selection: traffic class of each priority, share and algorithm of each traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsConfiguration {
    /// Whether the sender adopts its peer's configuration; false in a recommendation.
    pub willing: bool,
    /// Number of traffic classes, 1 to 8.
    pub traffic_classes: u8,
    /// Traffic class of each priority.
    pub class_of_priority: [u8; CLASSES],
    /// Share of the bandwidth of each traffic class, in percent.
    pub percent: [u8; CLASSES],
    /// Transmission selection algorithm of each traffic class.
    pub algorithms: [u8; CLASSES],
}

impl EtsConfiguration {
    /// Algorithm of strict priority.
    pub const STRICT: u8 = 0;
    /// Algorithm of shares.
    pub const SHARES: u8 = 2;
}

/// Priority-based flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfiguration {
    /// Whether the sender adopts its peer's configuration.
    pub willing: bool,
    /// Number of classes that may have PFC at a time, up to 15.
    pub classes_max: u8,
    /// Classes with PFC.
    pub enabled: ClassSet,
}

/// Priority of an application's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationPriority {
    /// Priority.
    pub class: Class,
    /// Kind of protocol ID, up to 7.
    pub selector: u8,
    /// Protocol ID: an ethertype or a port.
    pub protocol: u16,
}

impl ApplicationPriority {
    /// Selector of UDP ports.
    pub const UDP: u8 = 3;
}

/// LLDPDU that breaks the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Returns whether a frame is an untagged LLDP frame.
pub fn is_lldp(frame: &[u8]) -> bool {
    frame.get(12..ETHERNET_BYTES) == Some(&ETHERTYPE.to_be_bytes())
}

impl Lldpdu {
    /// Returns an LLDPDU without optional TLVs.
    pub fn new(chassis: Identifier, port: Identifier, ttl: u16) -> Lldpdu {
        Lldpdu {
            chassis,
            port,
            ttl,
            port_description: None,
            system_name: None,
            system_description: None,
            capabilities: None,
            ets: None,
            ets_recommendation: None,
            pfc: None,
            applications: Vec::new(),
        }
    }

    /// Encodes a frame from `source` to the nearest bridge, without FCS. Texts are cut to 255 bytes.
    pub fn encode(&self, source: MacAddr) -> Vec<u8> {
        let mut frame = Vec::with_capacity(512);
        frame.extend(NEAREST_BRIDGE.0);
        frame.extend(source.0);
        frame.extend(ETHERTYPE.to_be_bytes());
        put(&mut frame, tlv::CHASSIS, &self.chassis.encode(CHASSIS_ID));
        put(&mut frame, tlv::PORT, &self.port.encode(PORT_ID));
        put(&mut frame, tlv::TTL, &self.ttl.to_be_bytes());
        let texts = [
            (tlv::PORT_DESCRIPTION, &self.port_description),
            (tlv::SYSTEM_NAME, &self.system_name),
            (tlv::SYSTEM_DESCRIPTION, &self.system_description),
        ];
        for (kind, text) in texts {
            if let Some(text) = text {
                put(&mut frame, kind, cut(text, TEXT_BYTES_MAX).as_bytes());
            }
        }
        if let Some(Capabilities { system, enabled }) = self.capabilities {
            put(&mut frame, tlv::CAPABILITIES, &[system.to_be_bytes(), enabled.to_be_bytes()].concat());
        }
        for (prefix, ets) in [(dcbx::ETS, self.ets), (dcbx::ETS_RECOMMENDATION, self.ets_recommendation)] {
            if let Some(ets) = ets {
                put(&mut frame, tlv::ORGANISATION, &[&prefix[..], &ets.encode()].concat());
            }
        }
        if let Some(pfc) = self.pfc {
            put(&mut frame, tlv::ORGANISATION, &[&dcbx::PFC[..], &pfc.encode()].concat());
        }
        if !self.applications.is_empty() {
            let mut value = [&dcbx::APPLICATIONS[..], &[0]].concat();
            self.applications.iter().for_each(|application| value.extend(application.encode()));
            put(&mut frame, tlv::ORGANISATION, &value);
        }
        put(&mut frame, tlv::END, &[]);
        frame.resize(frame.len().max(FRAME_BYTES_MIN), 0);
        frame
    }

    /// Decodes a frame. Of a repeated TLV the first counts.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(frame: &[u8]) -> Result<Lldpdu, Malformed> {
        if !is_lldp(frame) {
            return Err(Malformed);
        }
        let mut tlvs = TlvReader(&frame[ETHERNET_BYTES..]);
        let chassis = Identifier::decode(tlvs.take_kind(tlv::CHASSIS)?, CHASSIS_ID)?;
        let port = Identifier::decode(tlvs.take_kind(tlv::PORT)?, PORT_ID)?;
        let ttl = *tlvs.take_kind(tlv::TTL)?.first_chunk().ok_or(Malformed)?;
        let mut lldpdu = Lldpdu::new(chassis, port, u16::from_be_bytes(ttl));
        while let Some((kind, value)) = tlvs.take()? {
            let text = |first: Option<String>| first.or_else(|| Some(text(value)));
            match kind {
                tlv::CHASSIS | tlv::PORT | tlv::TTL => return Err(Malformed),
                tlv::PORT_DESCRIPTION => lldpdu.port_description = text(lldpdu.port_description),
                tlv::SYSTEM_NAME => lldpdu.system_name = text(lldpdu.system_name),
                tlv::SYSTEM_DESCRIPTION => lldpdu.system_description = text(lldpdu.system_description),
                tlv::CAPABILITIES => {
                    let [s0, s1, e0, e1] = *value.first_chunk().ok_or(Malformed)?;
                    let (system, enabled) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([e0, e1]));
                    lldpdu.capabilities.get_or_insert(Capabilities { system, enabled });
                }
                tlv::ORGANISATION => lldpdu.decode_dcbx(value)?,
                _ => {}
            }
        }
        Ok(lldpdu)
    }

    fn decode_dcbx(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let (prefix, value) = value.split_first_chunk::<4>().ok_or(Malformed)?;
        match *prefix {
            dcbx::ETS => {
                self.ets.get_or_insert(EtsConfiguration::decode(value)?);
            }
            dcbx::ETS_RECOMMENDATION => {
                self.ets_recommendation
                    .get_or_insert(EtsConfiguration { willing: false, ..EtsConfiguration::decode(value)? });
            }
            dcbx::PFC => {
                let [first, enabled] = *value.first_chunk().ok_or(Malformed)?;
                let (willing, enabled) = (first & dcbx::WILLING != 0, ClassSet::from_bits(enabled));
                self.pfc.get_or_insert(PfcConfiguration { willing, classes_max: first & 0x0f, enabled });
            }
            dcbx::APPLICATIONS if self.applications.is_empty() => {
                let entries = value.get(1..).ok_or(Malformed)?;
                self.applications = entries.chunks_exact(3).map(ApplicationPriority::decode).collect();
            }
            _ => {}
        }
        Ok(())
    }
}

impl Identifier {
    fn encode(&self, kind: IdentifierKind) -> Vec<u8> {
        match self {
            Identifier::Mac(mac) => [&[kind.mac], &mac.0[..]].concat(),
            Identifier::Address(IpAddr::V4(address)) => [&[kind.address, IPV4], &address.octets()[..]].concat(),
            Identifier::Address(IpAddr::V6(address)) => [&[kind.address, IPV6], &address.octets()[..]].concat(),
            Identifier::Text { subtype, text } => [&[*subtype], cut(text, TEXT_BYTES_MAX).as_bytes()].concat(),
        }
    }

    fn decode(value: &[u8], kind: IdentifierKind) -> Result<Identifier, Malformed> {
        let (subtype, value) = value.split_first().ok_or(Malformed)?;
        if value.is_empty() || value.len() > TEXT_BYTES_MAX {
            return Err(Malformed);
        }
        if *subtype == kind.mac {
            return value.try_into().map(|mac| Identifier::Mac(MacAddr(mac))).map_err(|_| Malformed);
        }
        let address = match value {
            [IPV4, address @ ..] => <[u8; 4]>::try_from(address).map(IpAddr::from).ok(),
            [IPV6, address @ ..] => <[u8; 16]>::try_from(address).map(IpAddr::from).ok(),
            _ => None,
        };
        Ok(match address.filter(|_| *subtype == kind.address) {
            Some(address) => Identifier::Address(address),
            None => Identifier::Text { subtype: *subtype, text: text(value) },
        })
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Mac(mac) => mac.fmt(f),
            Identifier::Address(address) => address.fmt(f),
            Identifier::Text { text, .. } => f.write_str(text),
        }
    }
}

impl EtsConfiguration {
    fn encode(&self) -> Vec<u8> {
        let willing = if self.willing { dcbx::WILLING } else { 0 };
        let (pairs, _) = self.class_of_priority.as_chunks::<2>();
        let mut value = vec![willing | self.traffic_classes & dcbx::TRAFFIC_CLASSES];
        value.extend(pairs.iter().map(|[first, second]| first << 4 | second & 0x0f));
        value.extend(self.percent);
        value.extend(self.algorithms);
        value
    }

    fn decode(value: &[u8]) -> Result<EtsConfiguration, Malformed> {
        let [first, value @ ..] = value.first_chunk::<21>().ok_or(Malformed)?;
        let class_of_priority = std::array::from_fn(|priority| {
            let pair = value[priority / 2];
            if priority % 2 == 0 { pair >> 4 } else { pair & 0x0f }
        });
        let traffic_classes = match first & dcbx::TRAFFIC_CLASSES {
            0 => CLASSES as u8,
            count => count,
        };
        let row = |from: usize| std::array::from_fn(|class| value[from + class]);
        let willing = first & dcbx::WILLING != 0;
        Ok(EtsConfiguration { willing, traffic_classes, class_of_priority, percent: row(4), algorithms: row(12) })
    }
}

impl PfcConfiguration {
    fn encode(self) -> [u8; 2] {
        let willing = if self.willing { dcbx::WILLING } else { 0 };
        [willing | self.classes_max & 0x0f, self.enabled.bits()]
    }
}

impl ApplicationPriority {
    fn encode(&self) -> [u8; 3] {
        let [high, low] = self.protocol.to_be_bytes();
        [(self.class.index() as u8) << 5 | self.selector & 7, high, low]
    }

    fn decode(entry: &[u8]) -> ApplicationPriority {
        let (first, protocol) = (entry[0], u16::from_be_bytes([entry[1], entry[2]]));
        ApplicationPriority { class: Class::new(first >> 5), selector: first & 7, protocol }
    }
}

/// TLVs that are not decoded yet.
struct TlvReader<'f>(&'f [u8]);

impl<'f> TlvReader<'f> {
    /// Takes the next TLV, its type and value; `None` at the end.
    fn take(&mut self) -> Result<Option<(u8, &'f [u8])>, Malformed> {
        // The end is marked, or the frame is over.
        let Some((head, rest)) = self.0.split_first_chunk() else {
            return if self.0.is_empty() { Ok(None) } else { Err(Malformed) };
        };
        let head = u16::from_be_bytes(*head);
        let (kind, length) = ((head >> 9) as u8, usize::from(head & 0x1ff));
        if kind == tlv::END {
            return Ok(None);
        }
        let (value, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some((kind, value)))
    }

    /// Takes the next TLV, which has to be of this type.
    fn take_kind(&mut self, kind: u8) -> Result<&'f [u8], Malformed> {
        self.take()?.filter(|(found, _)| *found == kind).map(|(_, value)| value).ok_or(Malformed)
    }
}

/// Appends a TLV.
fn put(frame: &mut Vec<u8>, kind: u8, value: &[u8]) {
    debug_assert!(value.len() <= 0x1ff, "a length has nine bits");
    frame.extend((u16::from(kind) << 9 | value.len() as u16).to_be_bytes());
    frame.extend(value);
}

/// Returns a peer's text without characters that a terminal would obey.
fn text(value: &[u8]) -> String {
    let is_shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(value).trim_end_matches('\0').chars().map(is_shown).collect()
}

/// Returns the longest prefix of up to `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
