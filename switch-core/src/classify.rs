//! Classification of frames by their headers.

use weir_config::{ClassMap, Trust};
use weir_units::{Class, ClassSet, PortId};
use weir_wire::ethernet::{FastHeaders, Headers};

/// Classifier of frames by DSCP, PCP or ingress port.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// Source of a frame's class; `None` where ports have different maps.
    trust: Option<Trust>,
    /// Whether each class has the priority group and the queue of its number, at all ports.
    is_identity: bool,
    dscp: [FrameClass; 64],
    pcp: [FrameClass; 8],
    port_class: Box<[FrameClass]>,
    /// Classifiers of single ports, where maps differ.
    of_port: Box<[Classifier]>,
}

/// Queues of a frame by its class: the priority group at the ingress port, and the queue at any egress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameClass {
    /// Priority group: ingress queue.
    pub group: Class,
    /// Egress queue.
    pub queue: Class,
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
        let queues = |map: &ClassMap, class: u8| {
            let [group, queue] = [map.group, map.queue].map(|numbers| Class::new(numbers[usize::from(class)]));
            FrameClass { group, queue }
        };
        Classifier {
            trust: is_one.then_some(map.trust),
            is_identity: ports.iter().all(|(map, _)| map.is_identity()),
            dscp: map.dscp.map(|class| queues(map, class)),
            pcp: map.pcp.map(|class| queues(map, class)),
            port_class: ports.iter().map(|(map, class)| queues(map, *class)).collect(),
            of_port: own.iter().map(|port| Classifier::new([*port])).collect(),
        }
    }

    /// Returns whether every frame has a priority group and a queue of one number.
    #[inline]
    pub(crate) fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// Returns the priority groups of frames received by a port whose queue at egress ports is `queue`.
    #[cold]
    pub(crate) fn groups_of(&self, port: PortId, queue: Class) -> ClassSet {
        if self.is_identity {
            return queue.alone();
        }
        if let Some(own) = self.of_port.get(port.index()) {
            return own.groups_of(PortId(0), queue);
        }
        let trusted = match self.trust {
            Some(Trust::Dscp) => &self.dscp[..],
            Some(Trust::Pcp) => &self.pcp,
            _ => &[],
        };
        let classes = trusted.iter().chain(&self.port_class);
        classes.filter(|class| class.queue == queue).map(|class| class.group).collect()
    }

    /// Returns the class of a frame that arrived on `port`.
    #[inline]
    pub fn class(&self, port: PortId, headers: &Headers) -> FrameClass {
        if self.trust != Some(Trust::Dscp) {
            return self.class_by_other(port, headers);
        }
        let trusted = headers.dscp.map(|dscp| self.dscp[usize::from(dscp & 63)]);
        trusted.unwrap_or(self.port_class[port.index()])
    }

    /// [`Classifier::class`] where not all ports trust the DSCP by one map.
    #[inline(never)]
    fn class_by_other(&self, port: PortId, headers: &Headers) -> FrameClass {
        let Some(trust) = self.trust else { return self.of_port[port.index()].class(PortId(0), headers) };
        let pcp = headers.pcp.filter(|_| trust == Trust::Pcp);
        pcp.map_or(self.port_class[port.index()], |pcp| self.pcp[usize::from(pcp & 7)])
    }

    /// Returns the class of a [plain](FastHeaders::is_plain) frame that arrived on `port`; equals [`Classifier::class`] of its headers.
    #[inline]
    pub fn class_of_plain(&self, port: PortId, headers: &FastHeaders) -> FrameClass {
        if self.trust == Some(Trust::Dscp) {
            return self.dscp[usize::from(headers.dscp & 63)];
        }
        self.class_by_other(port, &headers.headers())
    }

    /// Returns the class of a frame without headers.
    pub fn port_class(&self, port: PortId) -> FrameClass {
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
        ClassMap { trust, dscp, pcp: ClassMap::IDENTITY, group: ClassMap::IDENTITY, queue: ClassMap::IDENTITY }
    }

    fn same(class: u8) -> FrameClass {
        FrameClass { group: Class::new(class), queue: Class::new(class) }
    }

    fn classifier(trust: Trust) -> Classifier {
        let map = map(trust);
        Classifier::new([(&map, 0), (&map, 5)])
    }

    #[test]
    fn each_trust_reads_its_own_field() {
        let headers = Headers { destination: MacAddr::BROADCAST, pcp: Some(6), dscp: Some(26) };
        assert_eq!(classifier(Trust::Dscp).class(PortId(1), &headers), same(3));
        assert_eq!(classifier(Trust::Pcp).class(PortId(1), &headers), same(6));
        assert_eq!(classifier(Trust::Port).class(PortId(1), &headers), same(5));
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
            assert_eq!(classifier.class_of_plain(port, &headers), same(class));
            assert_eq!(classifier.class(port, &headers.headers()), same(class));
        }
    }

    #[test]
    fn what_lacks_the_field_gets_the_ports_class() {
        let headers = Headers { destination: MacAddr::BROADCAST, pcp: None, dscp: None };
        assert_eq!(classifier(Trust::Dscp).class(PortId(1), &headers), same(5));
        assert_eq!(classifier(Trust::Pcp).class(PortId(0), &headers), same(0));
    }

    #[test]
    fn a_class_has_the_group_and_the_queue_of_its_ports_tables() {
        let headers = |dscp| Headers { destination: MacAddr::BROADCAST, pcp: None, dscp: Some(dscp) };
        let plain = map(Trust::Dscp);
        let own = ClassMap { group: [0, 0, 2, 2, 4, 5, 6, 7], queue: [0, 1, 2, 6, 4, 5, 6, 7], ..plain.clone() };
        let classifier = Classifier::new([(&plain, 0), (&own, 3)]);
        assert!(!classifier.is_identity() && Classifier::new([(&plain, 0)]).is_identity());
        assert_eq!([26, 1].map(|dscp| classifier.class(PortId(0), &headers(dscp))), [same(3), same(1)]);
        let [group, queue] = [2, 6].map(Class::new);
        assert_eq!(classifier.class(PortId(1), &headers(26)), FrameClass { group, queue });
        assert_eq!(classifier.port_class(PortId(1)), FrameClass { group, queue });
        assert_eq!(classifier.groups_of(PortId(1), queue), group.alone());
        assert_eq!(classifier.groups_of(PortId(0), Class::new(1)), Class::new(1).alone());
        assert!(classifier.groups_of(PortId(1), Class::new(3)).is_empty());
    }
}
