//! Load of conformance tests: a switch's buffer between peers and egress ports.
//!
//! Peers on links of 100 Gb/s send frames of all sizes, classes and destinations in random phases, and obey PAUSE after
//! exactly the delay that the headroom rule is made for. Egress ports drain at line rate, and stall at random. A tick is
//! the time of one full frame on the wire, or of as many shorter ones as that has room for.

use std::collections::VecDeque;

use weir_units::{BitRate, Bytes, Class, ClassSet, PortId, QueueId, Time};

use super::Bounds;
use crate::{Admission, BufferRequest, Charge, DropReason, Mmu, PortWriter, Xon};

/// Number of ports.
pub const PORTS: u16 = 6;
/// Lossless classes.
pub const LOSSLESS: [Class; 4] = [Class::new(2), Class::new(3), Class::new(4), Class::new(5)];
/// Lossy class of the load.
const LOSSY: Class = Class::new(0);
/// Longest frame, with FCS.
const FRAME_MAX: u32 = 1_518;
const WIRE_MAX: u64 = 1_538;
const WIRE_OVERHEAD: u64 = 20;
/// Propagation, in ticks: about 1 us.
const PROPAGATION: u64 = 8;
/// Delay from the decision to pause until the peer's last frame has begun: the frame before the PAUSE, the link, and the 3,840
/// bytes that a peer may take to react.
const REACTION: u64 = 1 + PROPAGATION + 2;
/// Hysteresis.
pub const XON: Xon = Xon { offset: Bytes::new(3_000), floor: Bytes::new(2_000) };

/// Buffer with headroom by the rule, with the propagation delay in bytes of the wire.
pub fn bounds() -> Bounds {
    let headroom = Bytes::new(2 * (PROPAGATION * WIRE_MAX + u64::from(FRAME_MAX)) + 3_840);
    Bounds {
        size: headroom * (LOSSLESS.len() as u64 * u64::from(PORTS)) + Bytes::kb(220),
        ports: PORTS,
        private: Bytes::ZERO,
        headroom,
        lossless: ClassSet::from_members(&LOSSLESS),
        rate: BitRate::gbps(100),
    }
}

/// Charges by the byte, and charges of at least an mbuf, four times that of the shortest frame.
pub fn charges() -> [Charge; 2] {
    [Charge::in_cells(1), Charge::in_cells(1).at_least_shortest(4)]
}

/// The switch's buffer between its peers and its egress ports.
#[derive(Debug)]
pub struct ConformanceLoad {
    mmu: Mmu,
    charge: Charge,
    random: u64,
    now: u64,
    peers: Vec<SendingPeer>,
    /// Egress queue of each class from a port: its own at half of the ports; at the others, drawn for lossless classes.
    queue_of: Vec<[Class; 8]>,
    egress: Vec<EgressPort>,
    lost: u64,
    /// Ingress queue of the first dropped lossless frame.
    lost_by: Option<QueueId>,
    frames: u64,
    /// Digest of all frames' admissions and all changes of pauses.
    digest: u64,
}

#[derive(Debug)]
struct SendingPeer {
    writer: PortWriter,
    /// Frames in flight, each with its arrival.
    link: VecDeque<(u64, LoadFrame)>,
    /// Classes that the switch advertises.
    advertised: ClassSet,
    signals: VecDeque<(u64, ClassSet)>,
    paused: ClassSet,
    phase: TrafficPhase,
}

#[derive(Clone, Copy, Debug)]
struct LoadFrame {
    arrival: BufferRequest,
    /// Bytes on the wire.
    wire: u64,
}

/// Traffic of a peer for some time.
#[derive(Clone, Copy, Debug)]
struct TrafficPhase {
    until: u64,
    class: Option<Class>,
    to: Option<u16>,
    bytes: Option<u32>,
    idle: bool,
}

#[derive(Debug, Default)]
struct EgressPort {
    queues: [VecDeque<LoadFrame>; 8],
    stalled_until: u64,
    turn: usize,
}

impl ConformanceLoad {
    /// Creates the load of a seed for an MMU over [`bounds`], whose frames are charged by `charge`.
    ///
    /// # Panics
    /// If the ports' writers are taken.
    pub fn new(mmu: Mmu, charge: Charge, seed: u64) -> ConformanceLoad {
        let phase = TrafficPhase { until: 0, class: None, to: None, bytes: None, idle: true };
        let peer = |port| SendingPeer {
            writer: mmu.writer(PortId(port)).unwrap(),
            link: VecDeque::new(),
            advertised: ClassSet::EMPTY,
            signals: VecDeque::new(),
            paused: ClassSet::EMPTY,
            phase,
        };
        let mut load = ConformanceLoad {
            peers: (0..PORTS).map(peer).collect(),
            queue_of: vec![Class::ALL; usize::from(PORTS)],
            egress: (0..PORTS).map(|_| EgressPort::default()).collect(),
            mmu,
            charge,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: 0,
            lost: 0,
            lost_by: None,
            frames: 0,
            digest: 0,
        };
        for port in usize::from(PORTS) / 2..usize::from(PORTS) {
            for class in LOSSLESS {
                load.queue_of[port][class.index()] = LOSSLESS[load.draw(4) as usize];
            }
        }
        load
    }

    /// Returns the current time.
    pub fn time(&self) -> Time {
        Time::ZERO + BitRate::gbps(100).time_for(Bytes::new(WIRE_MAX * self.now))
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// Runs a tick: peers send unless `sending` is false, frames arrive and leave, and PAUSEs are sent.
    pub fn tick(&mut self, sending: bool) {
        for port in 0..usize::from(PORTS) {
            if sending {
                self.send(port);
            }
            self.receive(port);
        }
        for port in 0..usize::from(PORTS) {
            self.drain(port, sending);
        }
        for port in 0..usize::from(PORTS) {
            self.signal(port);
        }
        self.now += 1;
    }

    /// Frames of unpaused classes, if the phase has any: as many as a tick has room for.
    fn send(&mut self, port: usize) {
        if self.peers[port].phase.until <= self.now {
            let length = 1 + self.draw(400);
            let any = |load: &mut ConformanceLoad| load.draw(3) == 0;
            let classes = [LOSSLESS[0], LOSSLESS[1], LOSSLESS[2], LOSSLESS[3], LOSSY];
            self.peers[port].phase = TrafficPhase {
                until: self.now + length,
                class: if any(self) { None } else { Some(classes[self.draw(5) as usize]) },
                to: if any(self) { None } else { Some(self.draw(u64::from(PORTS)) as u16) },
                bytes: if any(self) { None } else { Some([64, 700, FRAME_MAX, FRAME_MAX][self.draw(4) as usize]) },
                idle: self.draw(5) == 0,
            };
        }
        let phase = self.peers[port].phase;
        if phase.idle {
            return;
        }
        let mut left = WIRE_MAX;
        loop {
            let class = phase.class.unwrap_or_else(|| LOSSLESS[self.draw(4) as usize]);
            let to = phase.to.unwrap_or_else(|| self.draw(u64::from(PORTS)) as u16);
            let bytes = phase.bytes.unwrap_or_else(|| 64 + self.draw(u64::from(FRAME_MAX) - 63) as u32);
            let wire = u64::from(bytes) + WIRE_OVERHEAD;
            if left < wire || self.peers[port].paused.contains(class) {
                return;
            }
            left -= wire;
            self.put_on_link(port, class, to, bytes);
        }
    }

    fn put_on_link(&mut self, port: usize, class: Class, to: u16, bytes: u32) {
        let queue = self.queue_of[port][class.index()];
        let (ingress, egress) = (QueueId::new(PortId(port as u16), class), QueueId::new(PortId(to), queue));
        let arrival = BufferRequest { ingress, egress, bytes: self.charge.frame_charge(bytes - 4) };
        let frame = LoadFrame { arrival, wire: u64::from(bytes) + WIRE_OVERHEAD };
        self.peers[port].link.push_back((self.now + PROPAGATION + 1, frame));
    }

    fn receive(&mut self, port: usize) {
        let now = self.time();
        let peer = &mut self.peers[port];
        while let Some((at, frame)) = peer.link.front().copied() {
            if at > self.now {
                break;
            }
            peer.link.pop_front();
            let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
            let BufferRequest { ingress, egress, .. } = frame.arrival;
            self.mmu.admit(&mut peer.writer, now, &[frame.arrival], &mut verdicts);
            match verdicts[0] {
                Admission::Admit(_) => {
                    self.egress[egress.port().index()].queues[egress.class().index()].push_back(frame);
                }
                Admission::Drop(DropReason::HeadroomViolation) => {
                    self.lost += 1;
                    self.lost_by.get_or_insert(ingress);
                }
                Admission::Drop(_) => {
                    assert_eq!(ingress.class(), LOSSY, "a lossless frame dropped like a lossy one");
                }
            }
            self.frames += 1;
            let segment = match verdicts[0] {
                Admission::Admit(segment) => 1 + segment as u64,
                Admission::Drop(_) => 0,
            };
            self.digest = add_to_digest(self.digest, segment);
        }
    }

    /// Frames of the classes in turn, as many as a tick has room for, unless the port stalls.
    fn drain(&mut self, port: usize, stalling: bool) {
        if stalling && self.draw(500) == 0 {
            self.egress[port].stalled_until = self.now + self.draw(600);
        }
        let now = self.time();
        let egress = &mut self.egress[port];
        if stalling && egress.stalled_until > self.now {
            return;
        }
        let (mut left, mut nothing) = (WIRE_MAX, 0);
        while nothing < 8 {
            let class = egress.turn % 8;
            match egress.queues[class].front() {
                Some(frame) if frame.wire > left => return,
                Some(frame) => {
                    left -= frame.wire;
                    self.mmu.release(now, &[frame.arrival]);
                    egress.queues[class].pop_front();
                    nothing = 0;
                }
                None => nothing += 1,
            }
            egress.turn = class + 1;
        }
    }

    /// Acts as the transmitter: reads the classes, sweeps the OFF ones, and signals a change to the peer.
    fn signal(&mut self, port: usize) {
        let (id, now) = (PortId(port as u16), self.time());
        let peer = &mut self.peers[port];
        let mut off = self.mmu.off_classes(id, peer.advertised);
        if !off.is_empty() {
            self.mmu.reconsider(id, off, now);
            off = self.mmu.off_classes(id, off);
        }
        if off != peer.advertised {
            peer.advertised = off;
            self.digest = add_to_digest(self.digest, self.now << 8 | u64::from(off.bits()));
            // Known at the end of a tick, it holds from the next on.
            peer.signals.push_back((self.now + REACTION - 1, off));
        }
        while let Some((at, off)) = peer.signals.front().copied() {
            if at > self.now {
                break;
            }
            peer.signals.pop_front();
            peer.paused = off;
        }
    }

    /// Returns the MMU.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// Returns the number of dropped frames of lossless classes.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the ingress queue of the first of them; `None` if there is none.
    pub fn lost_by(&self) -> Option<QueueId> {
        self.lost_by
    }

    /// Returns the number of frames that arrived.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of PAUSEs.
    pub fn pauses(&self) -> u64 {
        let queues = (0..PORTS).flat_map(|port| LOSSLESS.map(|class| QueueId::new(PortId(port), class)));
        queues.map(|queue| self.mmu.ingress_usage(queue, self.time()).pauses).sum()
    }

    /// Returns the number of frames in the buffer.
    pub fn held(&self) -> u64 {
        self.queues().map(|queue| queue.len() as u64).sum()
    }

    /// Returns the most frames that the buffer can hold.
    pub fn frames_max(&self) -> u64 {
        self.charge.frames_max(self.mmu.layout().charges_max())
    }

    /// Returns the charges of all frames in the buffer, in bytes.
    pub fn bytes(&self) -> u64 {
        self.queues().flatten().map(|frame| u64::from(frame.arrival.bytes)).sum()
    }

    /// Returns whether the buffer and the links are empty, and no peer is paused.
    pub fn is_idle(&self) -> bool {
        self.held() == 0 && self.peers.iter().all(|peer| peer.link.is_empty() && peer.paused.is_empty())
    }

    /// Returns a digest of all admissions and pauses: that of another run differs if one of them does.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    fn queues(&self) -> impl Iterator<Item = &VecDeque<LoadFrame>> {
        self.egress.iter().flat_map(|port| &port.queues)
    }

    /// Runs a tick in which nothing leaves, and each peer sends a full frame of its first class that is not paused.
    pub fn fill(&mut self) {
        for port in 0..usize::from(PORTS) {
            let paused = self.peers[port].paused;
            if let Some(class) = LOSSLESS.into_iter().find(|class| !paused.contains(*class)) {
                self.put_on_link(port, class, 0, FRAME_MAX);
            }
            self.receive(port);
            self.signal(port);
        }
        self.now += 1;
    }
}

/// FNV-1a over words.
fn add_to_digest(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}
