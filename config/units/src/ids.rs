//! Names of ports, classes and queues inside one switch.

use crate::archive::Value;
use std::fmt;

/// How many traffic classes (priorities) there are: 802.1Q has eight.
pub const CLASSES: usize = 8;

/// A port of one switch, by its position in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Value)]
pub struct PortId(pub u16);

/// A traffic class (priority), 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Value)]
pub struct Class(u8);

/// A queue of one switch: port and class. Whether it is an ingress or an egress queue, the place says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Value)]
pub struct QueueId(u16);

impl PortId {
    /// The port's position, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Class {
    /// All eight, from 0.
    pub const ALL: [Class; CLASSES] = [Class(0), Class(1), Class(2), Class(3), Class(4), Class(5), Class(6), Class(7)];

    /// Class `n`; only the low three bits count.
    pub const fn new(n: u8) -> Class {
        Class(n & 7)
    }

    /// The class as a number.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The class as a number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    /// The queue of this port and class.
    pub const fn new(port: PortId, class: Class) -> QueueId {
        QueueId(port.0 * CLASSES as u16 + class.0 as u16)
    }

    /// The queue in this position among all queues.
    ///
    /// # Panics
    /// If there is no such position, whatever the ports.
    #[inline(always)]
    pub const fn of_index(index: usize) -> QueueId {
        assert!(index <= u16::MAX as usize);
        QueueId(index as u16)
    }

    /// The queue's position among all queues, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The queue's port.
    pub const fn port(self) -> PortId {
        PortId(self.0 / CLASSES as u16)
    }

    /// The queue's class.
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
