//! The queues that guests at vhost-user ports have enabled.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use weir_dpdk_io::EnabledQueues;
use weir_switch_core::burst::queue_of_class;
use weir_units::{Class, PortId};

/// News of a port whose guest has enabled queues, or disabled some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestQueues {
    /// The switch's number.
    pub switch: usize,
    /// The port.
    pub port: PortId,
    /// Queue pairs that the port has.
    pub queues: u8,
    /// Queues that the guest takes frames from, in order.
    pub enabled: Vec<u8>,
    /// A queue that the guest may send by, and the port has not.
    pub beyond: Option<u16>,
}

impl GuestQueues {
    /// `None` while there is no guest.
    pub(crate) fn from_enabled(switch: usize, port: PortId, queues: u8, peers: EnabledQueues) -> Option<GuestQueues> {
        let enabled: Vec<u8> = (0..queues).filter(|queue| peers.receives.contains(u16::from(*queue))).collect();
        let beyond = peers.sends.first_from(u16::from(queues));
        (!enabled.is_empty()).then_some(GuestQueues { switch, port, queues, enabled, beyond })
    }

    /// Whether frames that the guest sends may not be received.
    pub fn is_warning(&self) -> bool {
        self.beyond.is_some()
    }
}

impl fmt::Display for GuestQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |numbers: &mut dyn Iterator<Item = u8>| numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        if let Some(beyond) = self.beyond {
            let queues = u16::from(self.queues);
            write!(f, "the guest may send by queue {beyond}, and the port has {queues} (0 to {}): ", queues - 1)?;
            return write!(f, "frames sent there stay in the guest; give both the same number of queues");
        }
        write!(f, "the guest takes frames from queue {} of {}", list(&mut self.enabled.iter().copied()), self.queues)?;
        let classes =
            Class::ALL.into_iter().filter(|class| !self.enabled.contains(&queue_of_class(*class, self.queues)));
        let classes = list(&mut classes.map(|class| class.index() as u8));
        if classes.is_empty() { Ok(()) } else { write!(f, "; frames of class {classes} leave by queue 0") }
    }
}

/// Last known queue state of each port with a guest, by switch and port.
#[derive(Debug, Default)]
pub(crate) struct GuestWatch(Mutex<BTreeMap<(usize, u16), GuestQueues>>);

impl GuestWatch {
    /// Returns a port's queues if they changed; `None` for a guest that has enabled a port's only queue.
    pub(crate) fn update(&self, switch: usize, port: PortId, found: Option<GuestQueues>) -> Option<GuestQueues> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (switch, port.0);
        if last.get(&key) == found.as_ref() {
            return None;
        }
        match &found {
            Some(found) => last.insert(key, found.clone()),
            None => last.remove(&key),
        };
        found.filter(|found| found.queues > 1 || found.is_warning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(queues: u8, enabled: &[u8], beyond: Option<u16>) -> GuestQueues {
        GuestQueues { switch: 0, port: PortId(1), queues, enabled: enabled.to_vec(), beyond }
    }

    #[test]
    fn classes_of_disabled_queues_are_named() {
        assert_eq!(
            found(4, &[0, 1], None).to_string(),
            "the guest takes frames from queue 0, 1 of 4; frames of class 2, 3, 6, 7 leave by queue 0"
        );
        assert_eq!(found(2, &[0, 1], None).to_string(), "the guest takes frames from queue 0, 1 of 2");
        let more = found(2, &[0, 1], Some(2)).to_string();
        assert!(more.contains("may send by queue 2, and the port has 2 (0 to 1)"), "{more}");
    }

    #[test]
    fn unchanged_queues_are_reported_once() {
        let watch = GuestWatch::default();
        let news = |port, found| watch.update(0, PortId(port), found);
        let two = Some(found(2, &[0, 1], None));
        assert_eq!(news(1, None), None);
        assert_eq!(news(1, two.clone()), two);
        assert_eq!(news(1, two.clone()), None);
        // A guest that has gone and come.
        assert_eq!(news(1, None), None);
        assert_eq!(news(1, two.clone()), two);
        assert_eq!(news(2, Some(found(1, &[0], None))), None);
        assert!(news(2, Some(found(1, &[0], Some(1)))).is_some());
    }
}
