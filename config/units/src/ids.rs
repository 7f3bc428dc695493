//! Identifiers of ports, classes and queues inside one switch.

use std::fmt;

/// Number of traffic classes (priorities): 802.1Q has eight.
pub const CLASSES: usize = 8;

/// Port of one switch, by its position in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u16);

/// Traffic class (priority), 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Class(u8);

/// Queue of one switch: port and class. The context determines whether it is an ingress or an egress queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueId(u16);

impl PortId {
    /// Position of the port, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Class {
    /// All eight classes, from 0.
    pub const ALL: [Class; CLASSES] = [Class(0), Class(1), Class(2), Class(3), Class(4), Class(5), Class(6), Class(7)];

    /// Creates class `n`; only the low three bits count.
    pub const fn new(n: u8) -> Class {
        Class(n & 7)
    }

    /// Number of the class.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Number of the class, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    /// Creates the identifier of this port and class.
    pub const fn new(port: PortId, class: Class) -> QueueId {
        QueueId(port.0 * CLASSES as u16 + class.0 as u16)
    }

    /// Creates the identifier from its index.
    ///
    /// # Panics
    /// If `index` exceeds 65,535.
    #[inline(always)]
    pub const fn of_index(index: usize) -> QueueId {
        assert!(index <= u16::MAX as usize);
        QueueId(index as u16)
    }

    /// Index of the queue among all queues.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Port of the queue.
    pub const fn port(self) -> PortId {
        PortId(self.0 / CLASSES as u16)
    }

    /// Class of the queue.
    pub const fn class(self) -> Class {
        Class((self.0 % CLASSES as u16) as u8)
    }
}

impl fmt::Debug for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}", self.0)
    }
}

impl fmt::Debug for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.port(), self.class())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_knows_its_port_and_class() {
        let queue = QueueId::new(PortId(31), Class::new(6));
        assert_eq!((queue.port(), queue.class(), queue.index()), (PortId(31), Class::new(6), 254));
    }
}
