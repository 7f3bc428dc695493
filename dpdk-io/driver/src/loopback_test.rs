//! Loopback test of two ports that are cabled to each other.
//!
//! It checks that frames and control frames arrive as they left, over the cable and after a switch forwarded them; that no device pauses
//! by itself; and that counters are right.
//!
//! ```text
//! program ──► A ══ cable ══► B ──► switch ──► A ══ cable ══► B ──► program
//! ```

use std::fmt;
use std::time::{Duration, Instant};

use weir_config::SwitchConfig;
use weir_dpdk_io::{Batch, Clock, IovaMode, LinkStatus, MAX_BURST, Mbuf, PauseState, PortStats, TxQueue};
use weir_flowctl::CatchUp;
use weir_switch_core::single::Pipeline;
use weir_switch_core::{Burst, DriverConfig, PacketAllocator, PortInfo, PortOutput, Switch};
use weir_units::{ClassSet, MacAddr, PortId, PortSet, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::device_pause::DevicePause;
use crate::devices::{Devices, OpenPort, close};
use crate::error::DriverError;
use crate::frame::{Frame, FrameStore};
use crate::memory::{CACHE, CONTROL_CACHE, Memory, pool};
use crate::poll_gap;
use crate::runtime::Runtime;
use crate::switch_lcore::send;

/// Frames of each kind of tags and direction, of lengths up to the MTU's.
const FRAMES: usize = 200;
/// Devices receive into buffers of whole KiB: lengths about these are tested.
const BUFFER_UNIT: usize = 1_024;
/// Longest wait for a link to come up.
const LINK_WITHIN: Duration = Duration::from_secs(10);
/// Time within which frames arrive.
const FRAMES_WITHIN: Duration = Duration::from_millis(500);
/// Frames sent before arrivals are taken.
const AT_ONCE: usize = 16;
/// Tries of a check that depends on time.
const TRIES: usize = 5;
/// IEEE 802's EtherType for local experiments.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const MARK: &[u8; 8] = b"weir-try";
/// Marks a frame that a PAUSE is to hold back. It may arrive later, when the other direction is tried.
const ANSWER: &[u8; 8] = b"weir-ans";
/// Tags of each kind that switches forward: a customer's, a service's, both.
const TAGS: [&[u8]; 3] =
    [&[0x81, 0, 0x60, 0x64], &[0x88, 0xa8, 0x60, 0x64], &[0x88, 0xa8, 0x60, 0x64, 0x81, 0, 0, 0x65]];

/// Result of a loopback test.
#[derive(Clone, Debug)]
pub struct LoopbackReport {
    /// Both ports' devices.
    pub devices: [DeviceResult; 2],
    /// Results from the first port to the second, and back; fewer if the test was interrupted.
    pub directions: Vec<DirectionResult>,
    /// Whether packet memory is in hugepages.
    pub hugepages: bool,
    /// Addresses by which devices reach it.
    pub iova_mode: IovaMode,
    /// The longest frame without a tag, in bytes without FCS.
    pub longest_untagged: usize,
}

/// Result of one of the two devices.
#[derive(Clone, Debug)]
pub struct DeviceResult {
    /// The port's name in the file.
    pub port: String,
    /// Device, as in the file.
    pub device: String,
    /// DPDK's driver.
    pub driver: String,
    /// Link state at the test.
    pub link: Option<LinkStatus>,
    /// State of the device's own flow control, as reported.
    pub pause: PauseState,
    /// Counters of the device over the test.
    pub counters: DeviceCounters,
}

/// A device's counters over the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames given to the device.
    pub given: u64,
    /// Frames that the device reports as sent.
    pub sent: u64,
    /// Frames taken from the device.
    pub taken: u64,
    /// Frames that the device reports as received.
    pub received: u64,
    /// Frames that the device reports as lost, for any cause.
    pub lost: u64,
    /// True if the device keeps counters at all.
    pub counts: bool,
}

/// Results of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionResult {
    /// Frames without tags.
    pub untagged: Delivery,
    /// Frames with a customer's tag, a service's, and both.
    pub tagged: [Delivery; 3],
    /// Whether a PFC frame arrived.
    pub pfc: bool,
    /// Whether the PFC frame arrived byte for byte as it left.
    pub pfc_identical: bool,
    /// Whether a 802.3x PAUSE arrived at the program.
    pub pause: bool,
    /// Whether the receiver of a PAUSE stopped by itself; `None` if its link's speed is not known, or no frame passed.
    pub obeys: Option<bool>,
}

/// Delivery of frames with one kind of tags, of all lengths up to the MTU's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Frames sent.
    pub sent: usize,
    /// Frames that arrived at the other device as they left, in order.
    pub identical: usize,
    /// Frames among these that a switch then forwarded to the first device, and that arrived again as they left.
    pub forwarded: usize,
    /// Lengths of the first five frames that did not arrive as they left.
    pub wrong: Vec<usize>,
    /// Least length of which no frame arrived, where all shorter frames did; `None` if all arrived, or losses follow no length.
    pub too_long: Option<usize>,
}

impl Delivery {
    /// Whether all frames arrived as they left, both times.
    pub fn is_complete(&self) -> bool {
        self.identical == self.sent && self.forwarded == self.sent
    }

    /// Judges frames in the order of their lengths, each with whether it arrived and whether it was forwarded.
    fn judge(frames: &[(usize, bool, bool)]) -> Delivery {
        let is_right = |frame: &&(usize, bool, bool)| frame.1 && frame.2;
        let first_wrong = frames.iter().position(|frame| !is_right(&frame));
        let rest_is_wrong = |first: usize| !frames[first..].iter().any(|frame| is_right(&frame));
        Delivery {
            sent: frames.len(),
            identical: frames.iter().filter(|frame| frame.1).count(),
            forwarded: frames.iter().filter(is_right).count(),
            wrong: frames.iter().filter(|frame| !is_right(frame)).map(|frame| frame.0).take(5).collect(),
            too_long: first_wrong.filter(|first| *first > 0 && rest_is_wrong(*first)).map(|first| frames[first].0),
        }
    }
}

impl DirectionResult {
    /// Returns whether all frames passed, but for tagged ones that are longer than the longest untagged frame: `too_long` names those.
    fn is_complete(&self, longest_untagged: usize) -> bool {
        let is_delivered =
            |kind: &Delivery| kind.is_complete() || kind.too_long.is_some_and(|length| length > longest_untagged);
        self.untagged.is_complete() && self.tagged.iter().all(is_delivered)
    }
}

impl LoopbackReport {
    /// Whether the devices are fit for lossless ports.
    pub fn is_fit(&self) -> bool {
        self.directions.len() == 2
            && self.directions.iter().all(|result| {
                result.is_complete(self.longest_untagged) && result.pfc_identical && result.obeys != Some(true)
            })
            && self.devices.iter().all(|device| device.pause != PauseState::On)
    }
}

/// Tests the first two ports of a switch, which are cabled to each other. Once `goes_on` returns false, no further direction is tested.
pub fn test_loopback(
    runtime: &Runtime,
    switch: &SwitchConfig,
    cpus: &[u32],
    goes_on: &dyn Fn() -> bool,
) -> Result<LoopbackReport, DriverError> {
    let memory = Memory::for_switches(std::slice::from_ref(switch), 1, 0);
    let store = FrameStore {
        data: pool("weir_try", memory.mbufs(), CACHE, memory.data_room, memory.for_devices)?,
        control: pool("weir_control", memory.control, CONTROL_CACHE, memory.control_data_room(), memory.for_devices)?,
    };
    let mut devices = Devices::new(poll_gap::measure(cpus, poll_gap::MEASURING_TIME));
    let mut a = devices.open(switch, 0, &store.data)?;
    let mut b = devices.open(switch, 1, &store.data)?;
    wait_for_links(&[&a, &b], goes_on);
    let before = [stats(&a), stats(&b)];
    let longest = switch.mtu.get() as usize + 14;
    let pipeline = pipeline(switch)?;
    let mut test = LoopbackTest { store, pipeline, clock: runtime.clock, longest, moved: [[0; 2]; 2] };
    test.discard_pending(&mut a, &mut b);
    let mut directions = Vec::new();
    for direction in 0..2 {
        if !goes_on() {
            break;
        }
        directions.push(match direction {
            0 => test.try_direction(&mut a, &mut b, direction),
            _ => test.try_direction(&mut b, &mut a, direction),
        });
    }
    // Drivers update their counters now and then.
    std::thread::sleep(FRAMES_WITHIN);
    let device_result = |index: usize, open: &OpenPort| {
        let config = &switch.ports[index];
        DeviceResult {
            port: config.name.clone(),
            device: config.device.to_string(),
            driver: open.port.driver_name(),
            link: open.port.link().ok(),
            pause: DevicePause::read(switch, config, &open.port).state(),
            counters: counters(before[index], stats(open), test.moved[index]),
        }
    };
    let report = LoopbackReport {
        devices: [device_result(0, &a), device_result(1, &b)],
        directions,
        hugepages: runtime.eal().has_hugepages(),
        iova_mode: runtime.eal().iova_mode(),
        longest_untagged: longest,
    };
    for OpenPort { rx, tx, more, control, port } in [a, b] {
        drop((rx, tx, more, control));
        close(port);
    }
    Ok(report)
}

fn wait_for_links(ports: &[&OpenPort], goes_on: &dyn Fn() -> bool) {
    let deadline = Instant::now() + LINK_WITHIN;
    let is_up = |open: &&OpenPort| open.port.link().is_ok_and(|link| link.up);
    while !ports.iter().all(is_up) && Instant::now() < deadline && goes_on() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stats(open: &OpenPort) -> Option<PortStats> {
    open.port.stats().ok()
}

fn counters(before: Option<PortStats>, after: Option<PortStats>, [given, taken]: [u64; 2]) -> DeviceCounters {
    let (Some(before), Some(after)) = (before, after) else {
        return DeviceCounters { given, taken, ..DeviceCounters::default() };
    };
    let lost = |stats: PortStats| stats.imissed + stats.ierrors + stats.rx_nombuf + stats.oerrors;
    DeviceCounters {
        given,
        taken,
        sent: after.opackets - before.opackets,
        received: after.ipackets - before.ipackets,
        lost: lost(after) - lost(before),
        counts: after.opackets > 0 || after.ipackets > 0,
    }
}

/// The switch with its first two ports, between which frames for [`DESTINATIONS`] pass.
fn pipeline(switch: &SwitchConfig) -> Result<Pipeline<Frame>, DriverError> {
    let mut config = switch.clone();
    // Frames of all tags are to pass unchanged.
    config.ports.iter_mut().for_each(|port| (port.vlan, port.tagged) = (None, Vec::new()));
    config.static_macs = vec![(DESTINATIONS[0], 0), (DESTINATIONS[1], 1)];
    let facts = vec![PortInfo::default(); config.ports.len()];
    let made =
        Switch::new(&config, &facts, DriverConfig::real_time(CatchUp::NONE)).map_err(|error| error.at_line(switch))?;
    let pipeline = made.into_pipeline::<Frame, PortSet>();
    for port in BOTH.iter() {
        pipeline.shared().set_link_up(port, true);
    }
    Ok(pipeline)
}

/// Ports under test.
const BOTH: PortSet = PortSet::from_members(&[PortId(0), PortId(1)]);

/// The switch's output while a frame that arrived at one device leaves by the other.
struct LoopbackOutput<'a> {
    store: &'a mut FrameStore,
    port: PortId,
    queue: &'a mut TxQueue,
    batch: Batch,
    sent: usize,
}

impl PacketAllocator<Frame> for LoopbackOutput<'_> {
    fn copy(&mut self, packet: &Frame) -> Option<Frame> {
        self.store.copy(packet)
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<Frame> {
        self.store.control(frame, source)
    }
}

impl PortOutput<Frame> for LoopbackOutput<'_> {
    fn transmit(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        if port != self.port {
            return 0;
        }
        let limit = burst.len();
        let sent = send(self.queue, &mut self.batch, burst, limit);
        self.sent += sent;
        sent
    }
}

/// Packet memory and the switch of a test.
struct LoopbackTest {
    store: FrameStore,
    pipeline: Pipeline<Frame>,
    clock: Clock,
    /// The longest untagged frame, without FCS.
    longest: usize,
    /// Frames given to each port, and taken from it.
    moved: [[u64; 2]; 2],
}

impl LoopbackTest {
    /// Discards frames from before the test.
    fn discard_pending(&mut self, a: &mut OpenPort, b: &mut OpenPort) {
        let mut batch = Batch::new();
        for open in [a, b] {
            while open.rx.receive(&mut batch, MAX_BURST) > 0 {
                batch.clear();
            }
        }
    }

    fn try_direction(&mut self, from: &mut OpenPort, to: &mut OpenPort, direction: usize) -> DirectionResult {
        let untagged = self.try_kind(from, to, direction, &[]);
        let tagged = TAGS.map(|tags| self.try_kind(from, to, direction, tags));
        let is_dead = untagged.identical == 0;
        // Resumes all classes, which has no effect.
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::ALL, times: [0; 8] }).encode(SOURCE).to_vec();
        let pause = ControlFrame::Pause(0).encode(SOURCE).to_vec();
        let pfc_arrived = self.pass(from, to, direction, std::slice::from_ref(&pfc), is_control);
        DirectionResult {
            untagged,
            tagged,
            pfc: !pfc_arrived.is_empty(),
            pfc_identical: pfc_arrived == [pfc],
            pause: !self.pass(from, to, direction, &[pause], is_control).is_empty(),
            obeys: if is_dead { None } else { self.stops_for_pause(from, to, direction) },
        }
    }

    /// Sends frames with these tags, of all lengths, to `to`. Frames that arrive pass through the switch to `from`, and to `to` again.
    fn try_kind(&mut self, from: &mut OpenPort, to: &mut OpenPort, direction: usize, tags: &[u8]) -> Delivery {
        let mut lengths = lengths(self.longest + tags.len());
        lengths.sort_unstable();
        let sent: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(n, length)| frame(DESTINATIONS[direction], n, *length, tags)).collect();
        let mut judged = Vec::new();
        for some in sent.chunks(AT_ONCE) {
            let due = self.give(from, direction, some);
            let received = self.take_frames(to, 1 - direction, due);
            let arrived = in_order(some, &received.iter().map(bytes).collect::<Vec<_>>());
            let due = self.forward(from, direction, received);
            let received = self.take_frames(to, 1 - direction, due);
            let forwarded = in_order(some, &received.iter().map(bytes).collect::<Vec<_>>());
            let lengths = some.iter().map(Vec::len);
            judged
                .extend(lengths.zip(arrived).zip(forwarded).map(|((length, arrived), again)| (length, arrived, again)));
            // Where nothing passes the rest need not be waited for.
            if !judged.iter().any(|frame| frame.1) {
                break;
            }
        }
        let waiting = sent[judged.len()..].iter();
        judged.extend(waiting.map(|frame| (frame.len(), false, false)));
        Delivery::judge(&judged)
    }

    /// Has the switch forward frames of the other device to `from`; returns how many left.
    fn forward(&mut self, from: &mut OpenPort, port: usize, received: Vec<Mbuf>) -> usize {
        let LoopbackTest { store, pipeline, clock, .. } = self;
        let (ingress, egress) = (PortId(1 - port as u16), PortId(port as u16));
        let mut output = LoopbackOutput { store, port: egress, queue: &mut from.tx, batch: Batch::new(), sent: 0 };
        let now = || Time::from_picos(clock.now_ps());
        let deadline = Instant::now() + FRAMES_WITHIN;
        for mbuf in received {
            let before = output.sent;
            pipeline.handle(now(), ingress, Frame(mbuf), false, &mut output);
            // One by one, so that a small buffer takes all.
            while output.sent == before && Instant::now() < deadline {
                pipeline.run_ports(now(), BOTH, &mut output);
            }
        }
        let sent = output.sent;
        self.moved[port][0] += sent as u64;
        sent
    }

    /// Returns whether `to` holds frames back while a PAUSE from `from` lasts, in each of a few tries.
    fn stops_for_pause(&mut self, from: &mut OpenPort, to: &mut OpenPort, direction: usize) -> Option<bool> {
        let mbps = to.port.link().ok()?.speed_mbps.filter(|mbps| *mbps > 0)?;
        let pause_time = Duration::from_nanos(u64::from(u16::MAX) * 512 * 1_000 / u64::from(mbps));
        for attempt in 0..TRIES {
            let pause = ControlFrame::Pause(u16::MAX).encode(SOURCE).to_vec();
            self.give(from, direction, &[pause]);
            let start = Instant::now();
            let answer = [marked(DESTINATIONS[direction], ANSWER, attempt, 60, &[])];
            let arrived = self.pass(to, from, 1 - direction, &answer, is_answer);
            let held = arrived != answer || start.elapsed() > pause_time * 9 / 10;
            let resume = ControlFrame::Pause(0).encode(SOURCE).to_vec();
            self.pass(from, to, direction, &[resume], is_control);
            if !held {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Sends a few frames, and returns those that arrive and match.
    fn pass(
        &mut self,
        from: &mut OpenPort,
        to: &mut OpenPort,
        direction: usize,
        frames: &[Vec<u8>],
        is_meant: fn(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        let due = self.give(from, direction, frames);
        let arrived = self.take(to, 1 - direction, due, is_meant);
        arrived.iter().map(bytes).collect()
    }

    fn take_frames(&mut self, to: &mut OpenPort, port: usize, due: usize) -> Vec<Mbuf> {
        self.take(to, port, due, is_ours)
    }

    /// Gives frames to a port; returns how many it took.
    fn give(&mut self, from: &mut OpenPort, port: usize, frames: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for bytes in frames {
            let Some(mut mbuf) = self.store.data.alloc() else { break };
            let Some(room) = mbuf.append(bytes.len() as u16) else { break };
            room.copy_from_slice(bytes);
            if batch.push(mbuf).is_err() {
                break;
            }
        }
        // Control frames leave by the queue that a switch would use.
        let queue = match &mut from.control {
            Some(control) if frames.iter().all(|frame| is_control(frame)) => control,
            _ => &mut from.tx,
        };
        let deadline = Instant::now() + FRAMES_WITHIN;
        let mut given = 0;
        while !batch.is_empty() && Instant::now() < deadline {
            given += queue.send(&mut batch);
        }
        self.moved[port][0] += given as u64;
        given
    }

    /// Takes frames that match, until `due` have arrived or the time is over.
    fn take(&mut self, to: &mut OpenPort, port: usize, due: usize, is_meant: fn(&[u8]) -> bool) -> Vec<Mbuf> {
        let mut arrived = Vec::new();
        let mut batch = Batch::new();
        let deadline = Instant::now() + FRAMES_WITHIN;
        while arrived.len() < due && Instant::now() < deadline {
            self.moved[port][1] += to.rx.receive(&mut batch, MAX_BURST) as u64;
            arrived.extend(batch.drain().filter(|mbuf| is_meant(mbuf.data())));
        }
        arrived
    }
}

/// Marks the frames of `sent` that are among `arrived`, in order.
fn in_order(sent: &[Vec<u8>], arrived: &[Vec<u8>]) -> Vec<bool> {
    let mut rest = arrived;
    let is_there = |frame: &Vec<u8>| match rest.iter().position(|other| other == frame) {
        Some(at) => {
            rest = &rest[at + 1..];
            true
        }
        None => false,
    };
    sent.iter().map(is_there).collect()
}

/// Lengths from 60 B to the longest: both, those about whole buffers, and others between.
fn lengths(longest: usize) -> Vec<usize> {
    let buffers = (1..).map(|n| n * BUFFER_UNIT).take_while(|buffer| *buffer < longest);
    let edges = buffers.flat_map(|buffer| [buffer - 1, buffer, buffer + 1]).chain([60, longest - 1, longest]);
    let between = (1..).map(|n| 60 + n * 1_237 % (longest - 59));
    edges.filter(|length| *length <= longest).chain(between).take(FRAMES).collect()
}

const SOURCE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// Addresses at the first and at the second port, to which the switch forwards frames of the other one.
const DESTINATIONS: [MacAddr; 2] = [MacAddr([0x02, 0, 0, 0, 0, 0x02]), MacAddr([0x02, 0, 0, 0, 0, 0x03])];

/// A frame of this length, whose bytes depend on its number.
fn frame(to: MacAddr, number: usize, length: usize, tags: &[u8]) -> Vec<u8> {
    marked(to, MARK, number, length, tags)
}

fn marked(to: MacAddr, mark: &[u8], number: usize, length: usize, tags: &[u8]) -> Vec<u8> {
    let mut bytes = [&to.0[..], &SOURCE.0, tags, &ETHERTYPE, mark].concat();
    bytes.extend((bytes.len()..length).map(|at| (number * 131 + at * 7) as u8));
    bytes
}

/// Returns whether a frame is one of the test's, and none of the kernel's or a neighbour's.
fn is_ours(frame: &[u8]) -> bool {
    has(frame, MARK)
}

fn is_answer(frame: &[u8]) -> bool {
    has(frame, ANSWER)
}

fn has(frame: &[u8], mark: &[u8]) -> bool {
    frame.windows(mark.len()).take(40).any(|window| window == mark)
}

fn is_control(frame: &[u8]) -> bool {
    ControlFrame::is_control(frame)
}

/// Long frames may lie in several segments.
fn bytes(mbuf: &Mbuf) -> Vec<u8> {
    mbuf.segments().flatten().copied().collect()
}

impl fmt::Display for DeviceCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.counts {
            return f.write_str("keeps none");
        }
        if (self.sent, self.received, self.lost) == (self.given, self.taken, 0) {
            return f.write_str("right");
        }
        write!(
            f,
            "sent {} of {}, received {} of {}, lost {}",
            self.sent, self.given, self.received, self.taken, self.lost
        )
    }
}
