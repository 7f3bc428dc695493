//! A NIC in front of a real host: a task that has the host's device, and joins it to the switch's port by a pair of rings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::{NicModelConfig, SwitchConfig};
use weir_dpdk_io::{Batch, Clock, RingEnd, RxQueue, TxQueue};
use weir_nic::model::{ModelConfig, ModelDrop, ModelFrame, ModelReport, NicModel, ReceiveBuffer};
use weir_switch_core::burst::classes_of_queue;
use weir_switch_core::classify::{Classifier, FrameClass};
use weir_switch_core::flow_control::port_flow_control;
use weir_switch_core::{BuildError, Packet, PacketAllocator, Shared};
use weir_units::{BitRate, ClassSet, MacAddr, PortId, Time};
use weir_wire::ethernet::{self, Parsed};

use crate::descriptors::RING_SLOTS;
use crate::frame::{Frame, FrameStore};
use crate::switch_lcore::DeviceBacklog;
use crate::task::{Phase, Task};

/// Frames that are moved at once.
const BURST: usize = ModelConfig::STASH_FRAMES;
/// Rounds of a poll: no more are moved before the next task has its turn.
const ROUNDS: usize = 16;

const _: () = assert!(RING_SLOTS == NicModelConfig::BURST_FRAMES);

/// Passes a NIC's counters from the lcore to the control thread.
#[derive(Debug, Default)]
pub(crate) struct NicStatsCell {
    /// Request flag: set by the thread that wants a report, cleared by the lcore when it has written the report.
    is_requested: AtomicBool,
    report: Mutex<ModelReport>,
}

/// A NIC, on the lcore that polls it.
pub(crate) struct NicTask {
    model: NicModel<Frame>,
    shared: Arc<Shared>,
    port: PortId,
    classifier: Classifier,
    /// The device's queue pairs.
    host: Vec<HostQueue>,
    link: RingEnd,
    /// Frames for the switch's end of the link, which is full.
    to_switch: Batch,
    batch: Batch,
    store: FrameStore,
    /// Source address of its messages: of the first frame that the host sends, as its NIC's would be.
    mac: MacAddr,
    knows_mac: bool,
    backlog: Arc<DeviceBacklog>,
    stats: Arc<NicStatsCell>,
}

/// A queue pair of the host's device.
struct HostQueue {
    rx: RxQueue,
    tx: TxQueue,
    /// The classes that leave by it.
    classes: ClassSet,
    /// Frames that the device has not taken yet.
    pending: Batch,
}

/// Queues and link of a NIC.
pub(crate) struct NicLinks {
    pub(crate) host: Vec<(RxQueue, TxQueue)>,
    pub(crate) link: RingEnd,
    pub(crate) store: FrameStore,
    pub(crate) shared: Arc<Shared>,
    pub(crate) backlog: Arc<DeviceBacklog>,
}

impl ModelFrame for Frame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.data()
    }

    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.0.len()
    }
}

/// Returns the model configuration of a port's NIC; `None` for a port without one.
pub(crate) fn model_config(switch: &SwitchConfig, port: usize) -> Result<Option<ModelConfig>, BuildError> {
    let config = &switch.ports[port];
    let (Some(nic), Some(buffers)) = (config.nic, switch.nic_buffers(port)) else { return Ok(None) };
    // The file gives one.
    let rate = config.rate.unwrap_or(BitRate::gbps(10));
    Ok(Some(ModelConfig {
        rate,
        delay: config.delay,
        // The switch's headroom covers arrivals during `reaction`: two bursts of this length.
        slack: switch.pfc.reaction.divided_by(2),
        flow_control: port_flow_control(switch, port, rate)?,
        lossless: switch.classes.lossless,
        obeys: nic.obeys,
        pauses: nic.pauses,
        host_queues: usize::from(config.device.queues()),
        send_buffer: buffers.send,
        send_frames: buffers.send_frames as usize,
        receive: ReceiveBuffer {
            lossless: buffers.receive,
            lossless_frames: buffers.receive_frames as usize,
            lossy: buffers.lossy,
            lossy_frames: buffers.lossy_frames as usize,
            xoff: buffers.xoff,
            xon: buffers.xon,
        },
        receive_rate: nic.receive_rate,
    }))
}

/// Mbufs that a port's NIC and its link hold; 0 for a port without one.
pub(crate) fn mbufs(switch: &SwitchConfig, port: usize) -> u32 {
    let Ok(Some(model)) = model_config(switch, port) else { return 0 };
    let batches = (2 + model.host_queues) * BURST;
    (model.frames_max() + batches) as u32 + 2 * RING_SLOTS
}

impl NicTask {
    /// A NIC for port `port` of a switch.
    pub(crate) fn new(switch: &SwitchConfig, port: PortId, model: &ModelConfig, links: NicLinks) -> NicTask {
        let queues = links.host.len() as u8;
        let host = links.host.into_iter().zip(0..).map(|((rx, tx), queue)| HostQueue {
            rx,
            tx,
            classes: classes_of_queue(queue, queues),
            pending: Batch::new(),
        });
        let mut mac = links.shared.ports()[port.index()].mac;
        mac.0[0] = mac.0[0] & !1 | 2;
        mac.0[5] ^= 0x80;
        NicTask {
            model: NicModel::new(model),
            port,
            classifier: Classifier::new(switch.class_maps()),
            host: host.collect(),
            link: links.link,
            to_switch: Batch::new(),
            batch: Batch::new(),
            store: links.store,
            mac,
            knows_mac: false,
            backlog: links.backlog,
            shared: links.shared,
            stats: Arc::default(),
        }
    }

    /// Cell of its counters.
    pub(crate) fn stats(&self) -> Arc<NicStatsCell> {
        self.stats.clone()
    }

    /// Returns how many frames moved, and at least 1 while one waits for nothing but the link.
    fn run_once(&mut self, clock: &Clock, takes_from_host: bool) -> usize {
        let mut total = 0;
        for _ in 0..ROUNDS {
            let now = Time::from_picos(clock.now_ps());
            let mut moved = self.take_from_switch(now) + self.give_to_host(now);
            if takes_from_host {
                moved += self.take_from_host() + self.send_to_switch(now);
            }
            total += moved;
            if moved == 0 {
                if self.model.waits_for_link(now) {
                    return total.max(1);
                }
                break;
            }
        }
        total
    }

    /// Moves the switch's sent frames onto the link, and frames at its end into the NIC.
    fn take_from_switch(&mut self, now: Time) -> usize {
        let received = self.link.receive(&mut self.batch, BURST.min(self.model.link_room()));
        for mbuf in self.batch.drain() {
            let frame = Frame(mbuf);
            let queue = || class_of(&self.classifier, self.port, &frame).queue;
            let class = if frame.is_control() { None } else { Some(queue()) };
            self.model.handle_from_switch(now, class, frame);
        }
        received + self.model.poll(now)
    }

    fn give_to_host(&mut self, now: Time) -> usize {
        let mut moved = 0;
        let waiting = self.model.classes_to_host();
        let mut elsewhere = ClassSet::EMPTY;
        let queues = self.host.len();
        // Queue 0 last: it has the classes of queues that the guest has not enabled.
        for number in (0..queues).rev() {
            let queue = &mut self.host[number];
            let mut classes = queue.classes;
            if number == 0 {
                classes |= elsewhere;
            } else if (waiting & classes).is_empty() && queue.pending.is_empty() {
                continue;
            } else if !queue.tx.is_enabled() {
                elsewhere |= classes;
                classes = ClassSet::EMPTY;
            }
            while queue.pending.len() < BURST
                && let Some(frame) = self.model.take_to_host(now, classes)
            {
                assert!(queue.pending.push(frame.0).is_ok(), "a burst fits a batch");
            }
            if !queue.pending.is_empty() {
                let sent = queue.tx.send(&mut queue.pending);
                moved += sent;
                if number == 0 && !elsewhere.is_empty() {
                    self.backlog.record_fallbacks(sent);
                }
            }
        }
        moved
    }

    fn take_from_host(&mut self) -> usize {
        let mut moved = 0;
        for number in 0..self.host.len() {
            let takes = self.model.takes(number).min(BURST);
            moved += self.host[number].rx.receive(&mut self.batch, takes);
            for mbuf in self.batch.drain() {
                let frame = Frame(mbuf);
                if !self.knows_mac {
                    self.knows_mac = true;
                    self.mac = frame.source();
                }
                let class = class_of(&self.classifier, self.port, &frame).group;
                self.model.handle_from_host(number, class, frame);
            }
        }
        moved
    }

    fn send_to_switch(&mut self, now: Time) -> usize {
        let (store, mac) = (&mut self.store, self.mac);
        let mut moved = self.model.transmit(now, |message| store.control(message, mac));
        while self.to_switch.len() < BURST
            && let Some(frame) = self.model.take_to_switch(now)
        {
            assert!(self.to_switch.push(frame.0).is_ok(), "a burst fits a batch");
        }
        if !self.to_switch.is_empty() {
            moved += self.link.send(&mut self.to_switch);
        }
        moved
    }

    /// Drops all frames held here.
    fn discard(&mut self, why: ModelDrop) {
        self.model.discard(why);
        let pending = self.host.iter().map(|queue| queue.pending.len()).sum();
        self.model.record_dropped(why, [self.to_switch.len(), pending]);
        self.to_switch.clear();
        self.host.iter_mut().for_each(|queue| queue.pending.clear());
    }

    /// Publishes the counters if they are requested.
    fn publish_if_requested(&mut self, clock: &Clock) {
        // Acquire and release: the pair orders reports after the request, and makes them complete.
        if self.stats.is_requested.load(Ordering::Acquire) {
            let pending = self.host.iter().map(|queue| queue.pending.len()).sum();
            let report = self.model.report(Time::from_picos(clock.now_ps()), [self.to_switch.len(), pending]);
            *self.stats.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
            self.stats.is_requested.store(false, Ordering::Release);
        }
    }
}

impl Task for NicTask {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let is_up = self.shared.ports()[self.port.index()].link_up();
        if is_up != self.model.is_up() {
            self.model.set_link(Time::from_picos(clock.now_ps()), is_up);
            if !is_up {
                self.discard(ModelDrop::NoHost);
            }
        }
        let moved = match phase {
            Phase::Run => self.run_once(clock, true),
            // The switch takes no more, and still sends.
            Phase::Drain => self.run_once(clock, false),
            Phase::Discard | Phase::Stop => {
                // Frames that the switch had put on the link before it stopped.
                while self.take_from_switch(Time::from_picos(clock.now_ps())) > 0 {}
                self.discard(ModelDrop::Shutdown);
                0
            }
        };
        self.publish_if_requested(clock);
        moved
    }
}

impl NicStatsCell {
    /// Returns the counters as of now. `wait` is called until the lcore answers; if it returns false, they are those of the last answer.
    pub(crate) fn collect(&self, wait: impl Fn() -> bool) -> ModelReport {
        self.is_requested.store(true, Ordering::Release);
        while self.is_requested.load(Ordering::Acquire) {
            if !wait() {
                break;
            }
        }
        *self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the priority group that the switch gives a frame of the host, and the queue that a frame for the host has by the same map.
fn class_of(classifier: &Classifier, port: PortId, frame: &Frame) -> FrameClass {
    let glance = frame.parse_fast();
    if glance.is_plain {
        return classifier.class_of_plain(port, &glance);
    }
    match ethernet::parse(frame.0.data()) {
        Parsed::Data(headers) => classifier.class(port, &headers),
        Parsed::Control(_) | Parsed::Malformed => classifier.port_class(port),
    }
}
