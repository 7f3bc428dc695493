//! Properties of frames that links use.

/// Frame on a link.
pub trait LinkFrame {
    /// Whether the frame is a MAC control frame.
    fn is_control(&self) -> bool;

    /// DSCP of an IPv4 frame.
    fn dscp(&self) -> Option<u8>;
}

/// DSCP of an IPv4 frame without options or a VLAN tag.
pub fn ipv4_dscp(frame: &[u8]) -> Option<u8> {
    /// Ethertype of IPv4, and the first byte of a header without options; the DSCP comes next.
    const IPV4: [u8; 3] = [0x08, 0x00, 0x45];
    const DSCP: usize = 15;
    if frame.get(12..15) == Some(&IPV4) { frame.get(DSCP).map(|byte| byte >> 2) } else { None }
}
