//! Classification of frames by their headers.

use weir_config::{ClassMap, Trust};
use weir_units::{Class, PortId};
use weir_wire::ethernet::{FastHeaders, Headers};

/// Classifier of frames by DSCP, PCP or ingress port.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// Source of a frame's class; `None` where ports have different maps.
    trust: Option<Trust>,
    dscp: [Class; 64],
    pcp: [Class; 8],
    port_class: Box<[Class]>,
    /// Classifiers of single ports, where maps differ.
    of_port: Box<[Classifier]>,
}

impl Classifier {
    /// Returns the classifier of ports with these maps and default classes.
    ///
    /// # Panics
    /// If there is no port.
    pub fn new<'m>(ports: impl IntoIterator<Item = (&'m ClassMap, u8)>) -> Classifier {
        let ports: Vec<(&ClassMap, u8)> = ports.into_iter().collect();
        let map = ports[0].0;
        let is_one = ports.iter().all(|(other, _)| *other == map);
        let own = if is_one { &[] } else { &ports[..] };
        Classifier {
            trust: is_one.then_some(map.trust),
            dscp: map.dscp.map(Class::new),
            pcp: map.pcp.map(Class::new),
            port_class: ports.iter().map(|(_, class)| Class::new(*class)).collect(),
            of_port: own.iter().map(|port| Classifier::new([*port])).collect(),
        }
    }

    /// Returns the class of a frame that arrived on `port`.
    #[inline]
    pub fn class(&self, port: PortId, headers: &Headers) -> Class {
        if self.trust != Some(Trust::Dscp) {
            return self.class_by_other(port, headers);
        }
        let trusted = headers.dscp.map(|dscp| self.dscp[usize::from(dscp & 63)]);
        trusted.unwrap_or(self.port_class[port.index()])
    }

    /// [`Classifier::class`] where not all ports trust the DSCP by one map.
    #[inline(never)]
    fn class_by_other(&self, port: PortId, headers: &Headers) -> Class {
        let Some(trust) = self.trust else { return self.of_port[port.index()].class(PortId(0), headers) };
        let pcp = headers.pcp.filter(|_| trust == Trust::Pcp);
        pcp.map_or(self.port_class[port.index()], |pcp| self.pcp[usize::from(pcp & 7)])
    }

    /// Returns the class of a [plain](FastHeaders::is_plain) frame that arrived on `port`; equals [`Classifier::class`] of its headers.
    #[inline]
    pub fn class_of_plain(&self, port: PortId, headers: &FastHeaders) -> Class {
        if self.trust == Some(Trust::Dscp) {
            return self.dscp[usize::from(headers.dscp & 63)];
        }
        self.class_by_other(port, &headers.headers())
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

    fn map(trust: Trust) -> ClassMap {
        let mut dscp = [1; 64];
        dscp[26] = 3;
        ClassMap { trust, dscp, pcp: [0, 1, 2, 3, 4, 5, 6, 7] }
    }

    fn classifier(trust: Trust) -> Classifier {
        let map = map(trust);
        Classifier::new([(&map, 0), (&map, 5)])
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
    fn each_port_has_its_own_map() {
        let (by_dscp, by_pcp) = (map(Trust::Dscp), map(Trust::Pcp));
        let own = ClassMap { dscp: [2; 64], ..by_dscp.clone() };
        let classifier = Classifier::new([(&by_dscp, 0), (&own, 0), (&by_pcp, 0)]);
        let headers = FastHeaders { dscp: 26, pcp: 6, is_plain: true, ..FastHeaders::OTHER };
        for (port, class) in [(0, 3), (1, 2), (2, 6)] {
            let port = PortId(port);
            assert_eq!(classifier.class_of_plain(port, &headers), Class::new(class));
            assert_eq!(classifier.class(port, &headers.headers()), Class::new(class));
        }
    }

    #[test]
    fn what_lacks_the_field_gets_the_ports_class() {
        let headers = Headers { destination: MacAddr::BROADCAST, pcp: None, dscp: None };
        assert_eq!(classifier(Trust::Dscp).class(PortId(1), &headers), Class::new(5));
        assert_eq!(classifier(Trust::Pcp).class(PortId(0), &headers), Class::new(0));
    }
}
