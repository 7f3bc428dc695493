//! Two ports that are cabled to each other, tried without a switch: do frames pass as they are, do control frames pass, does
//! the device pause by itself, does it count what it takes and gives?

use std::fmt;
use std::time::{Duration, Instant};

use weir_config::SwitchConfig;
use weir_dpdk_io::{Batch, IoAddresses, Link, MAX_BURST, Mbuf, Mempool, PauseState, PortStats};
use weir_units::{ClassSet, MacAddr};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::device_pause::DevicePause;
use crate::devices::{Devices, OpenPort, close};
use crate::error::DriverError;
use crate::memory::{CACHE, Memory, pool};
use crate::poll_gap;
use crate::runtime::Runtime;

/// Frames sent each way.
const FRAMES: usize = 200;
/// How long a link may take to come up.
const LINK_WITHIN: Duration = Duration::from_secs(10);
/// How long frames may be on their way.
const FRAMES_WITHIN: Duration = Duration::from_millis(500);
/// Frames sent before what arrived is taken.
const AT_ONCE: usize = 16;
/// Tries of what hangs on time.
const TRIES: usize = 5;
/// IEEE 802's EtherType for local experiments.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const MARK: &[u8; 8] = b"weir-try";
/// Marks a frame that a PAUSE is to hold back: it may come much later, when the other way is tried.
const ANSWER: &[u8; 8] = b"weir-ans";
/// Tags of each kind that switches pass on: a customer's, a service's, both.
const TAGS: [&[u8]; 3] =
    [&[0x81, 0, 0x60, 0x64], &[0x88, 0xa8, 0x60, 0x64], &[0x88, 0xa8, 0x60, 0x64, 0x81, 0, 0, 0x65]];

/// What was seen.
#[derive(Clone, Debug)]
pub struct TrialReport {
    /// Both ports' devices.
    pub devices: [DeviceTried; 2],
    /// From the first port to the second, and back; fewer of a trial that was ended before its end.
    pub passed: Vec<Passed>,
    /// Whether packet memory is in hugepages.
    pub hugepages: bool,
    /// By which addresses devices reach it.
    pub addresses: IoAddresses,
}

/// One of the two devices.
#[derive(Clone, Debug)]
pub struct DeviceTried {
    /// The port's name in the file.
    pub port: String,
    /// Its device, as in the file.
    pub device: String,
    /// DPDK's driver.
    pub driver: String,
    /// Its link when it was tried.
    pub link: Option<Link>,
    /// Its own flow control, as it says.
    pub pause: PauseState,
    /// Frames that it says it received and sent in the trial, and that it lost, beside what was.
    pub counted: Counted,
}

/// A device's counters over the trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames given to it.
    pub given: u64,
    /// Frames that it says it sent.
    pub sent: u64,
    /// Frames taken from it.
    pub taken: u64,
    /// Frames that it says it received.
    pub received: u64,
    /// Frames that it says it lost, for whatever reason.
    pub lost: u64,
    /// Whether it keeps counters at all.
    pub counts: bool,
}

/// What became of frames one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Plain frames sent, of all lengths up to the MTU's.
    pub sent: usize,
    /// Frames among these that arrived as they were, in order.
    pub identical: usize,
    /// Lengths of the first few that did not.
    pub wrong: Vec<usize>,
    /// Whether a customer's tag, a service's, and both were kept.
    pub tags: [bool; 3],
    /// Whether a PFC frame arrived.
    pub pfc: bool,
    /// Whether it was, byte for byte, as it left.
    pub pfc_identical: bool,
    /// Whether a 802.3x PAUSE arrived at the program.
    pub pause: bool,
    /// Whether the receiver of a PAUSE stopped by itself; `None` if its link's speed is not known, or no frame passed.
    pub obeys: Option<bool>,
}

impl TrialReport {
    /// Whether the devices are fit for lossless ports.
    pub fn is_fit(&self) -> bool {
        self.passed.len() == 2
            && self.passed.iter().all(|way| {
                way.identical == way.sent && way.tags == [true; 3] && way.pfc_identical && way.obeys != Some(true)
            })
            && self.devices.iter().all(|device| device.pause != PauseState::On)
    }
}

/// Tries the first two ports of a switch, which are cabled to each other. Once `goes_on` says no, what was not begun is left.
pub fn try_ports(
    runtime: &Runtime,
    switch: &SwitchConfig,
    cpus: &[u32],
    goes_on: &dyn Fn() -> bool,
) -> Result<TrialReport, DriverError> {
    let memory = Memory::of(std::slice::from_ref(switch), 1, 0);
    let frames = pool("weir_try", memory.mbufs(), CACHE, memory.data_room, memory.for_devices)?;
    let mut devices = Devices::new(poll_gap::measure(cpus, poll_gap::LONG_ENOUGH));
    let mut a = devices.open(switch, 0, &frames)?;
    let mut b = devices.open(switch, 1, &frames)?;
    wait_for_links(&[&a, &b], goes_on);
    let before = [stats(&a), stats(&b)];
    let mut bench = Bench { frames, longest: switch.mtu.get() as usize + 14, moved: [[0; 2]; 2] };
    bench.forget(&mut a, &mut b);
    let mut passed = Vec::new();
    for way in 0..2 {
        if !goes_on() {
            break;
        }
        passed.push(match way {
            0 => bench.try_way(&mut a, &mut b, way),
            _ => bench.try_way(&mut b, &mut a, way),
        });
    }
    // Drivers update their counters now and then.
    std::thread::sleep(FRAMES_WITHIN);
    let tried = |index: usize, open: &OpenPort| {
        let config = &switch.ports[index];
        DeviceTried {
            port: config.name.clone(),
            device: config.device.to_string(),
            driver: open.port.driver_name(),
            link: open.port.link().ok(),
            pause: DevicePause::read(switch, config, &open.port).state(),
            counted: counted(before[index], stats(open), bench.moved[index]),
        }
    };
    let report = TrialReport {
        devices: [tried(0, &a), tried(1, &b)],
        passed,
        hugepages: runtime.eal().has_hugepages(),
        addresses: runtime.eal().io_addresses(),
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

fn counted(before: Option<PortStats>, after: Option<PortStats>, [given, taken]: [u64; 2]) -> Counted {
    let (Some(before), Some(after)) = (before, after) else { return Counted { given, taken, ..Counted::default() } };
    let lost = |stats: PortStats| stats.imissed + stats.ierrors + stats.rx_nombuf + stats.oerrors;
    Counted {
        given,
        taken,
        sent: after.opackets - before.opackets,
        received: after.ipackets - before.ipackets,
        lost: lost(after) - lost(before),
        counts: after.opackets > 0 || after.ipackets > 0,
    }
}

/// The pool of frames to send, and what was moved: for each port, the frames given to it and taken from it.
struct Bench {
    frames: Mempool,
    /// The longest untagged frame, without FCS.
    longest: usize,
    moved: [[u64; 2]; 2],
}

impl Bench {
    /// Takes what was on its way before the trial.
    fn forget(&mut self, a: &mut OpenPort, b: &mut OpenPort) {
        let mut batch = Batch::new();
        for open in [a, b] {
            while open.rx.receive(&mut batch, MAX_BURST) > 0 {
                batch.clear();
            }
        }
    }

    fn try_way(&mut self, from: &mut OpenPort, to: &mut OpenPort, way: usize) -> Passed {
        let lengths = (0..FRAMES).map(|n| match n {
            0 => 60,
            1 => self.longest,
            n => 60 + n * 1_237 % (self.longest - 59),
        });
        let sent: Vec<Vec<u8>> = lengths.enumerate().map(|(n, length)| frame(n, length, &[])).collect();
        let arrived = self.pass(from, to, way, &sent, is_ours);
        let wrong = sent.iter().zip(arrived.iter().map(Some).chain(std::iter::repeat(None)));
        let wrong: Vec<usize> =
            wrong.filter(|(sent, arrived)| Some(*sent) != *arrived).map(|(sent, _)| sent.len()).collect();
        let wrong_all = wrong.len() == sent.len();
        let tags = TAGS.map(|tags| {
            let tagged = [frame(FRAMES, 200, tags)];
            self.pass(from, to, way, &tagged, is_ours) == tagged
        });
        // Resumes all classes, which nobody minds.
        let pfc = ControlFrame::Pfc(PfcFrame { enabled: ClassSet::ALL, times: [0; 8] }).encode(SOURCE).to_vec();
        let pause = ControlFrame::Pause(0).encode(SOURCE).to_vec();
        let pfc_arrived = self.pass(from, to, way, std::slice::from_ref(&pfc), is_control);
        Passed {
            sent: sent.len(),
            identical: sent.len() - wrong.len(),
            wrong: wrong.into_iter().take(5).collect(),
            tags,
            pfc: !pfc_arrived.is_empty(),
            pfc_identical: pfc_arrived == [pfc],
            pause: !self.pass(from, to, way, &[pause], is_control).is_empty(),
            obeys: if wrong_all { None } else { self.stops_for_pause(from, to, way) },
        }
    }

    /// Whether `to` holds back what it is given while a PAUSE from `from` lasts: in each of a few tries.
    fn stops_for_pause(&mut self, from: &mut OpenPort, to: &mut OpenPort, way: usize) -> Option<bool> {
        let mbps = to.port.link().ok()?.speed_mbps.filter(|mbps| *mbps > 0)?;
        let pause_time = Duration::from_nanos(u64::from(u16::MAX) * 512 * 1_000 / u64::from(mbps));
        for attempt in 0..TRIES {
            let pause = ControlFrame::Pause(u16::MAX).encode(SOURCE).to_vec();
            self.give(from, way, &[pause]);
            let start = Instant::now();
            let answer = [marked(ANSWER, attempt, 60, &[])];
            let arrived = self.pass(to, from, 1 - way, &answer, is_answer);
            let held = arrived != answer || start.elapsed() > pause_time * 9 / 10;
            let resume = ControlFrame::Pause(0).encode(SOURCE).to_vec();
            self.pass(from, to, way, &[resume], is_control);
            if !held {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Sends frames, a few at a time, and returns those that arrive and are meant.
    fn pass(
        &mut self,
        from: &mut OpenPort,
        to: &mut OpenPort,
        way: usize,
        frames: &[Vec<u8>],
        is_meant: fn(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        let mut due = 0;
        for some in frames.chunks(AT_ONCE) {
            let before = arrived.len();
            due += self.give(from, way, some);
            let deadline = Instant::now() + FRAMES_WITHIN;
            while arrived.len() < due && Instant::now() < deadline {
                self.take(to, 1 - way, &mut arrived, is_meant);
            }
            // Where nothing passes the rest need not be waited for.
            if arrived.len() == before {
                break;
            }
        }
        arrived
    }

    /// Gives frames to a port; returns how many it took.
    fn give(&mut self, from: &mut OpenPort, port: usize, frames: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for bytes in frames {
            let Some(mut mbuf) = self.frames.alloc() else { break };
            let Some(room) = mbuf.append(bytes.len() as u16) else { break };
            room.copy_from_slice(bytes);
            if batch.push(mbuf).is_err() {
                break;
            }
        }
        // By the queue that a switch would send them by.
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

    fn take(&mut self, to: &mut OpenPort, port: usize, arrived: &mut Vec<Vec<u8>>, is_meant: fn(&[u8]) -> bool) {
        let mut batch = Batch::new();
        self.moved[port][1] += to.rx.receive(&mut batch, MAX_BURST) as u64;
        for mbuf in batch.drain() {
            let bytes = bytes(&mbuf);
            if is_meant(&bytes) {
                arrived.push(bytes);
            }
        }
    }
}

const SOURCE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
const DESTINATION: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x02]);

/// A frame of this length, whose every byte hangs on its number.
fn frame(number: usize, length: usize, tags: &[u8]) -> Vec<u8> {
    marked(MARK, number, length, tags)
}

fn marked(mark: &[u8], number: usize, length: usize, tags: &[u8]) -> Vec<u8> {
    let mut bytes = [&DESTINATION.0[..], &SOURCE.0, tags, &ETHERTYPE, mark].concat();
    bytes.extend((bytes.len()..length).map(|at| (number * 131 + at * 7) as u8));
    bytes
}

/// Not what the kernel or a neighbour sends meanwhile.
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

impl fmt::Display for Counted {
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
