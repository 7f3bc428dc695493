//! Tester: ports that send data and control frames to a switch, and count the frames that come back.

use weir_units::{BitRate, CLASSES, Class, ClassSet, MacAddr, Span, Time};

use crate::{Disturbance, TestFailure};

/// Traffic generator and analyser, with one port on each port of the switch, by number.
///
/// Order of calls: [`TrafficTester::start`] and [`TrafficTester::send_control`] any number of times, [`TrafficTester::run_for`] to let time pass, statistics at
/// any instant between, [`TrafficTester::reset`] after each test. Nothing happens outside of `run_for`, except that a tester in real time goes on.
pub trait TrafficTester {
    /// Number of ports.
    fn ports(&self) -> usize;

    /// Speed of a port's link.
    fn rate(&self, port: usize) -> BitRate;

    /// Address of the station behind a port.
    fn station(&self, port: usize) -> MacAddr;

    /// Time of the clock that all times here are of: the device's time.
    fn now(&self) -> Time;

    /// Lets time pass.
    ///
    /// # Errors
    /// If a port failed, or a signal interrupts the tests.
    fn run_for(&mut self, span: Span) -> Result<(), TestFailure>;

    /// Starts a stream now.
    ///
    /// # Errors
    /// If the tester cannot send such a stream.
    fn start(&mut self, stream: &TestStream) -> Result<StreamId, TestFailure>;

    /// Stops a stream of data or control frames. Frames under way still arrive and count.
    ///
    /// # Errors
    /// If a port failed.
    fn stop(&mut self, stream: StreamId) -> Result<(), TestFailure>;

    /// Returns the statistics of a data stream since its start, or since [`TrafficTester::clear_stats`].
    ///
    /// # Errors
    /// If a port failed.
    fn stats(&mut self, stream: StreamId) -> Result<StreamStats, TestFailure>;

    /// Sends a control frame now, and again by its period until it is stopped.
    ///
    /// # Errors
    /// If the tester cannot send such a frame.
    fn send_control(&mut self, control: &ControlStream) -> Result<StreamId, TestFailure>;

    /// Returns the control frames that arrived at a port since the last [`TrafficTester::clear_stats`].
    ///
    /// # Errors
    /// If a port failed.
    fn control_stats(&mut self, port: usize) -> Result<ControlStats, TestFailure>;

    /// Starts the statistics of all streams and ports anew. Frames in flight count when they arrive.
    ///
    /// # Errors
    /// If a port failed.
    fn clear_stats(&mut self) -> Result<(), TestFailure>;

    /// Sets how a port's data streams react to PFC of the device; at first, and after a reset, [`PfcReaction::Obey`] without delay.
    ///
    /// # Errors
    /// If the tester cannot react so.
    fn set_pfc_reaction(&mut self, port: usize, reaction: PfcReaction) -> Result<(), TestFailure>;

    /// Takes a port's link down, or up again.
    ///
    /// # Errors
    /// If the tester has no power over the link.
    fn set_link_up(&mut self, port: usize, up: bool) -> Result<(), TestFailure>;

    /// Stops all streams, forgets their statistics, takes all links up, and obeys PFC at all ports. The device has not drained yet.
    ///
    /// # Errors
    /// If a port failed.
    fn reset(&mut self) -> Result<(), TestFailure>;

    /// Returns the disturbances of the tester since the last reset; none in virtual time.
    fn disturbance(&mut self) -> Disturbance {
        Disturbance::default()
    }
}

/// Returns the address of the station behind a tester's port.
pub fn station_address(port: usize) -> MacAddr {
    let [high, low] = (port as u16).to_be_bytes();
    MacAddr([2, 0, 0, 9, high, low])
}

/// Number of a stream of data or control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub usize);

/// Data frames from one port's station to another's.
#[derive(Clone, Debug, PartialEq)]
pub struct TestStream {
    /// Port that sends.
    pub from: usize,
    /// Port that receives.
    pub to: usize,
    /// Field by which the switch classifies.
    pub marking: Marking,
    /// Class whose PFC stops the stream.
    pub class: Class,
    /// Whether frames are ECN-capable: ECT(0).
    pub ect: bool,
    /// Lengths of the frames.
    pub lengths: Lengths,
    /// Rate on the wire, with preamble and gap; frames are evenly spaced.
    pub rate: BitRate,
    /// End of the stream.
    pub amount: Amount,
}

/// Field of a data frame that selects its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// Codepoint of an untagged IPv4 frame.
    Dscp(u8),
    /// Priority of a frame with a priority tag (VLAN 0), whose DSCP is 0.
    Pcp(u8),
}

/// Lengths of a stream's frames, in bytes with FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All frames are equally long.
    Fixed(u32),
    /// Simple IMIX: 64, 570 and 1,518 B, 7 : 4 : 1, in turn ([`Lengths::IMIX`]).
    Imix,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Number of frames.
    Frames(u64),
    /// End by [`TrafficTester::stop`].
    UntilStopped,
}

/// Control frame, sent once or by a period.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlStream {
    /// Port that sends.
    pub from: usize,
    /// Bytes without FCS, from the destination address on. Truncated frames are not padded.
    pub frame: Vec<u8>,
    /// Time between two frames; `None` for one frame.
    pub period: Option<Span>,
}

/// Reaction of a port's data streams to PFC of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PfcReaction {
    /// Streams of a paused class stop this long after the pause's last byte arrived, and at the end of a frame. A resume acts at once.
    Obey(Span),
    /// Streams go on.
    Ignore,
}

/// Statistics of a data stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames that came back, at the stream's port.
    pub received: u64,
    /// Bytes of the received frames on the wire, with FCS, preamble and gap.
    pub received_wire_bytes: u64,
    /// Received frames with a CE mark.
    pub ce: u64,
    /// Frames that arrived before one that was sent earlier, or twice.
    pub out_of_order: u64,
    /// Frames that arrived at another port.
    pub misdelivered: u64,
    /// Arrival of the first frame's last byte.
    pub first: Option<Time>,
    /// Arrival of the last frame's last byte.
    pub last: Option<Time>,
    /// Longest time between two arrivals. The first arrival after [`TrafficTester::clear_stats`] counts from that before.
    pub longest_gap: Option<Gap>,
}

/// Time between two arrivals of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Arrival before it.
    pub from: Time,
    /// Arrival after it.
    pub to: Time,
}

/// Control frames that a tester's port received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// PFC frames that enable each class, pauses and resumes.
    pub pfc: [u64; CLASSES],
    /// PFC frames that pause each class.
    pub xoff: [u64; CLASSES],
    /// PFC frames, of any classes.
    pub pfc_frames: u64,
    /// 802.3x PAUSE frames.
    pub pause_frames: u64,
    /// MAC control frames of any opcode whose source is a station of the tester: the device forwarded them.
    pub forwarded: u64,
    /// Arrival of the first frame that pauses each class.
    pub first_xoff: [Option<Time>; CLASSES],
    /// Arrival of the last frame that enables each class.
    pub last_pfc: [Option<Time>; CLASSES],
    /// Classes that are paused now, by the last frames and their quanta.
    pub paused: ClassSet,
}

impl Lengths {
    /// Lengths of [`Lengths::Imix`] in the order of departure.
    pub const IMIX: [u32; 12] = [64, 570, 64, 64, 570, 64, 1_518, 64, 570, 64, 570, 64];

    /// Length of the frame of this number in a stream.
    pub fn length_at(self, number: u64) -> u32 {
        match self {
            Lengths::Fixed(length) => length,
            Lengths::Imix => Lengths::IMIX[(number % Lengths::IMIX.len() as u64) as usize],
        }
    }
}

impl Gap {
    /// Length of the gap.
    pub fn length(self) -> Span {
        self.to.since(self.from)
    }
}
