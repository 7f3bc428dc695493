//! What a NIC's model has counted.

use weir_units::{CLASSES, Class, ClassSet, Span};

/// Why a NIC dropped a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ModelDrop {
    /// The host took frames more slowly than they came, and its class had no room left. In a lossless class: its PAUSE came too late
    /// for the headroom, or the switch did not obey.
    ReceiveBufferFull,
    /// A MAC control frame that the host sent.
    MacControl,
    /// There was no host, or it went away.
    NoHost,
    /// The NIC was stopped.
    Shutdown,
}

/// All counters of a NIC, in frames. They are a picture of one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelReport {
    /// From the host to the switch.
    pub to_switch: Way,
    /// From the switch to the host.
    pub to_host: Way,
    /// Messages from the switch that were not obeyed: broken, of another flow control, or by a NIC that obeys none.
    pub control_ignored: u64,
    /// Each class.
    pub classes: [ModelClass; CLASSES],
    /// The classes that the switch pauses.
    pub paused: ClassSet,
    /// The classes that the NIC pauses.
    pub pausing: ClassSet,
}

/// One direction. `came + made = left + obeyed + dropped + held`: see [`Way::balances`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Frames that came.
    pub came: u64,
    /// Messages of flow control that the NIC made.
    pub made: u64,
    /// Frames that were handed on.
    pub left: u64,
    /// Messages of flow control that ended here.
    pub ended: u64,
    /// Frames that were dropped, by [`ModelDrop`].
    pub dropped: [u64; ModelDrop::COUNT],
    /// Frames that are in the NIC or on its link, counted one by one.
    pub held: u64,
}

/// A class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelClass {
    /// Frames that the host sent.
    pub from_host: u64,
    /// Frames of them that went on the link.
    pub to_switch: u64,
    /// Frames that the host was given.
    pub to_host: u64,
    /// Frames dropped, by [`ModelDrop`].
    pub dropped: [u64; ModelDrop::COUNT],
    /// How often a queue of the host was held back, since a frame of this class found its send buffer full.
    pub held_back: u64,
    /// How often the switch paused it.
    pub pauses: u64,
    /// For how long.
    pub paused_for: Span,
    /// How often the NIC paused it at the switch.
    pub pauses_sent: u64,
    /// What stands in its send buffer, and the most that did, in bytes.
    pub send_bytes: u64,
    /// The most that stood in its send buffer.
    pub send_bytes_max: u64,
    /// What stands in the receive buffer.
    pub receive_bytes: u64,
    /// The most that stood in the receive buffer.
    pub receive_bytes_max: u64,
}

impl ModelDrop {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them.
    pub const ALL: [ModelDrop; ModelDrop::COUNT] =
        [ModelDrop::ReceiveBufferFull, ModelDrop::MacControl, ModelDrop::NoHost, ModelDrop::Shutdown];

    /// The name that reports have for it.
    pub fn name(self) -> &'static str {
        match self {
            ModelDrop::ReceiveBufferFull => "receive_buffer_full",
            ModelDrop::MacControl => "mac_control",
            ModelDrop::NoHost => "no_host",
            ModelDrop::Shutdown => "shutdown",
        }
    }
}

impl Way {
    /// Frames that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every frame is accounted for.
    pub fn balances(&self) -> bool {
        self.came + self.made == self.left + self.ended + self.dropped() + self.held
    }
}

impl ModelReport {
    /// Whether every frame is accounted for, in both directions.
    pub fn balances(&self) -> bool {
        self.to_switch.balances() && self.to_host.balances()
    }
}

/// Counts while frames pass.
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
    pub(super) fn drop_to_switch(&mut self, why: ModelDrop, class: Option<Class>) {
        self.dropped_to_switch[why as usize] += 1;
        self.of_class(why, class);
    }

    pub(super) fn drop_to_host(&mut self, why: ModelDrop, class: Option<Class>) {
        self.dropped_to_host[why as usize] += 1;
        self.of_class(why, class);
    }

    fn of_class(&mut self, why: ModelDrop, class: Option<Class>) {
        if let Some(class) = class {
            self.classes[class.index()].dropped[why as usize] += 1;
        }
    }

    pub(super) fn report(&self, inside: [usize; 2], waiting: [usize; 2]) -> ModelReport {
        let held = |way: usize| (inside[way] + waiting[way]) as u64;
        ModelReport {
            to_switch: Way {
                came: self.from_host,
                made: self.control_made,
                left: self.taken_to_switch - waiting[0] as u64,
                ended: 0,
                dropped: self.dropped_to_switch,
                held: held(0),
            },
            to_host: Way {
                came: self.from_switch,
                made: 0,
                left: self.taken_to_host - waiting[1] as u64,
                ended: self.control_from_switch,
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
