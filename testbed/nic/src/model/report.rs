//! Counters of a NIC model.

use weir_units::{CLASSES, Class, ClassSet, Span};

weir_units::drop_reasons! {
    /// Reason for which a NIC dropped a frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(usize)]
    pub enum ModelDrop {
        /// The host took frames more slowly than they arrived, and the class had no room left. In a lossless class: the NIC's PAUSE came
        /// too late for the headroom, or the switch did not obey it.
        ReceiveBufferFull = "receive_buffer_full",
        /// The host sent a MAC control frame.
        MacControl = "mac_control",
        /// The host was not attached, or detached while the NIC had the frame.
        NoHost = "no_host",
        /// The NIC was stopped.
        Shutdown = "shutdown",
    }
}

/// Snapshot of all counters of a NIC, in frames, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelReport {
    /// Frames from the host to the switch.
    pub to_switch: DirectionCounters,
    /// Frames from the switch to the host.
    pub to_host: DirectionCounters,
    /// Flow-control messages from the switch that were ignored: malformed, of another flow control, or sent to a
    /// NIC that obeys none.
    pub control_ignored: u64,
    /// Counters of each class.
    pub classes: [ModelClass; CLASSES],
    /// Classes that the switch pauses.
    pub paused: ClassSet,
    /// Classes that the NIC pauses.
    pub pausing: ClassSet,
}

/// Counters of a direction. `received + generated = forwarded + consumed + dropped + held`: see
/// [`DirectionCounters::balances`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// Frames received.
    pub received: u64,
    /// Flow-control messages that the NIC generated.
    pub generated: u64,
    /// Frames forwarded.
    pub forwarded: u64,
    /// Flow-control messages that the NIC consumed.
    pub consumed: u64,
    /// Frames dropped, by [`ModelDrop`].
    pub dropped: [u64; ModelDrop::COUNT],
    /// Frames in the NIC or on its link, by direct count.
    pub held: u64,
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelClass {
    /// Frames that the host sent.
    pub from_host: u64,
    /// Frames from the host that were sent on the link.
    pub to_switch: u64,
    /// Frames delivered to the host.
    pub to_host: u64,
    /// Frames dropped, by [`ModelDrop`].
    pub dropped: [u64; ModelDrop::COUNT],
    /// Number of times that a host queue was blocked, since a frame of this class found its send buffer full.
    pub held_back: u64,
    /// Number of times that the switch paused the class.
    pub pauses: u64,
    /// Total time for which the switch paused the class.
    pub paused_for: Span,
    /// Number of times that the NIC paused the class at the switch.
    pub pauses_sent: u64,
    /// Occupancy of the send buffer in bytes.
    pub send_bytes: u64,
    /// Highest occupancy of the send buffer in bytes.
    pub send_bytes_max: u64,
    /// Occupancy of the receive buffer in bytes.
    pub receive_bytes: u64,
    /// Highest occupancy of the receive buffer in bytes.
    pub receive_bytes_max: u64,
}

impl DirectionCounters {
    /// Returns the number of dropped frames.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every frame is accounted for.
    pub fn balances(&self) -> bool {
        self.received + self.generated == self.forwarded + self.consumed + self.dropped() + self.held
    }
}

impl ModelReport {
    /// Whether every frame is accounted for, in both directions.
    pub fn balances(&self) -> bool {
        self.to_switch.balances() && self.to_host.balances()
    }
}

/// Counters that are updated while frames pass.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) from_host: u64,
    pub(super) from_switch: u64,
    pub(super) taken_to_switch: u64,
    pub(super) taken_to_host: u64,
    pub(super) control_made: u64,
    pub(super) control_from_switch: u64,
    pub(super) control_ignored: u64,
    pub(super) classes: [ModelClass; CLASSES],
    dropped_to_switch: [u64; ModelDrop::COUNT],
    dropped_to_host: [u64; ModelDrop::COUNT],
}

impl Counters {
    pub(super) fn drop_to_switch(&mut self, reason: ModelDrop, class: Option<Class>) {
        self.dropped_to_switch[reason as usize] += 1;
        self.of_class(reason, class);
    }

    pub(super) fn drop_to_host(&mut self, reason: ModelDrop, class: Option<Class>) {
        self.dropped_to_host[reason as usize] += 1;
        self.of_class(reason, class);
    }

    fn of_class(&mut self, reason: ModelDrop, class: Option<Class>) {
        if let Some(class) = class {
            self.classes[class.index()].dropped[reason as usize] += 1;
        }
    }

    pub(super) fn report(&self, inside: [usize; 2], waiting: [usize; 2]) -> ModelReport {
        let held = |direction: usize| (inside[direction] + waiting[direction]) as u64;
        ModelReport {
            to_switch: DirectionCounters {
                received: self.from_host,
                generated: self.control_made,
                forwarded: self.taken_to_switch - waiting[0] as u64,
                consumed: 0,
                dropped: self.dropped_to_switch,
                held: held(0),
            },
            to_host: DirectionCounters {
                received: self.from_switch,
                generated: 0,
                forwarded: self.taken_to_host - waiting[1] as u64,
                consumed: self.control_from_switch,
                dropped: self.dropped_to_host,
                held: held(1),
            },
            control_ignored: self.control_ignored,
            classes: self.classes,
            paused: ClassSet::EMPTY,
            pausing: ClassSet::EMPTY,
        }
    }
}
