//! Classification of frames by their headers.

use weir_config::{ClassConfig, Trust};
use weir_units::{Class, PortId};
use weir_wire::ethernet::{FastHeaders, Headers};

/// Classifier of frames by DSCP, PCP or ingress port.
#[derive(Clone, Debug)]
pub struct Classifier {
    trust: Trust,
    dscp: [Class; 64],
    pcp: [Class; 8],
    port_class: Box<[Class]>,
}

impl Classifier {
    /// Returns the classifier of a configuration; `port_priorities` are the ports' default classes.
    pub fn new(config: &ClassConfig, port_priorities: impl IntoIterator<Item = u8>) -> Classifier {
        Classifier {
            trust: config.trust,
            dscp: config.dscp.map(Class::new),
            pcp: config.pcp.map(Class::new),
            port_class: port_priorities.into_iter().map(Class::new).collect(),
        }
    }

    /// Returns the class of a frame that arrived on `port`.
    #[inline]
    pub fn class(&self, port: PortId, headers: &Headers) -> Class {
        let trusted = match self.trust {
            Trust::Dscp => headers.dscp.map(|dscp| self.dscp[usize::from(dscp & 63)]),
            Trust::Pcp => headers.pcp.map(|pcp| self.pcp[usize::from(pcp & 7)]),
            Trust::Port => None,
        };
        trusted.unwrap_or(self.port_class[port.index()])
    }

    /// Returns the class of a [plain](FastHeaders::is_plain) frame that arrived on `port`; equals [`Classifier::class`] of its headers.
    #[inline]
    pub fn class_of_plain(&self, port: PortId, headers: &FastHeaders) -> Class {
        match self.trust {
            Trust::Dscp => self.dscp[usize::from(headers.dscp & 63)],
            Trust::Pcp if headers.pcp != FastHeaders::NO_PCP => self.pcp[usize::from(headers.pcp & 7)],
            Trust::Pcp | Trust::Port => self.port_class[port.index()],
        }
    }

    /// Returns the class of a frame without headers.
    pub fn port_class(&self, port: PortId) -> Class {
        self.port_class[port.index()]
    }
}

#[cfg(test)]
mod tests {
    use weir_units::MacAddr;

    use super::*;

    fn classifier(trust: Trust) -> Classifier {
        let mut dscp = [Class::new(1); 64];
        dscp[26] = Class::new(3);
        Classifier { trust, dscp, pcp: Class::ALL, port_class: Box::new([Class::new(0), Class::new(5)]) }
    }

    #[test]
    fn each_trust_reads_its_own_field() {
        let headers = Headers { destination: MacAddr::BROADCAST, pcp: Some(6), dscp: Some(26) };
        assert_eq!(classifier(Trust::Dscp).class(PortId(1), &headers), Class::new(3));
        assert_eq!(classifier(Trust::Pcp).class(PortId(1), &headers), Class::new(6));
        assert_eq!(classifier(Trust::Port).class(PortId(1), &headers), Class::new(5));
    }

    #[test]
    fn plain_frames_are_classified_by_their_headers() {
        for trust in [Trust::Dscp, Trust::Pcp, Trust::Port] {
            for (dscp, pcp) in [(26, 6), (26, FastHeaders::NO_PCP), (0, 0), (63, 7)] {
                let headers = FastHeaders { dscp, pcp, is_plain: true, ..FastHeaders::OTHER };
                let (classifier, port) = (classifier(trust), PortId(1));
                assert_eq!(classifier.class_of_plain(port, &headers), classifier.class(port, &headers.headers()));
            }
        }
    }

    #[test]
    fn what_lacks_the_field_gets_the_ports_class() {
        let headers = Headers { destination: MacAddr::BROADCAST, pcp: None, dscp: None };
        assert_eq!(classifier(Trust::Dscp).class(PortId(1), &headers), Class::new(5));
        assert_eq!(classifier(Trust::Pcp).class(PortId(0), &headers), Class::new(0));
    }
}
