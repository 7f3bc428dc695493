//! One lcore's part of one switch, and the queues of its ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_dpdk_io::{Arrival, Batch, Clock, RxQueue, TxQueue};
use weir_switch_core::burst::Lcore;
use weir_switch_core::counters::DropReason;
use weir_switch_core::{BURST_MAX, Burst, Direction, PacketStore, PortOutput, transmit_row_as_burst};
use weir_units::{MacAddr, PortId, Time};
use weir_wire::mac_control::ControlFrame;

use crate::frame::{Frame, FrameStore};
use crate::lcore_loop::{Phase, Task};
use crate::tap::Tap;

/// Frames received from a port at once.
const RX_BURST: usize = 64;

/// What one lcore runs of a switch, with the devices' queues.
#[derive(Debug)]
pub struct SwitchLcore {
    lcore: Lcore<Frame>,
    rx: Vec<Input>,
    world: World,
    batch: Batch,
    burst: Burst<Frame>,
    may_rest: bool,
}

/// A port's way in.
#[derive(Debug)]
struct Input {
    port: PortId,
    queue: RxQueue,
    tap: Option<Tap>,
}

/// The way out: transmit queues, and pools for frames that the switch makes.
#[derive(Debug)]
struct World {
    store: FrameStore,
    /// By port; `None` for ports that other lcores transmit on.
    tx: Vec<Option<Output>>,
    batch: Batch,
    /// Whether any port that this lcore transmits on has a tap.
    is_tapped: bool,
    /// When the round under way began to transmit; kept up only where there are taps.
    now: Time,
}

/// A port's way out.
#[derive(Debug)]
struct Output {
    /// Queue 0, by which all leaves where there are no more.
    queue: TxQueue,
    /// Queue 1 and those after it.
    more: Box<[TxQueue]>,
    /// Whether the device tells of its backlog.
    has_backlog: bool,
    told: Arc<DeviceBacklog>,
    tap: Option<Tap>,
}

/// What becomes of frames at a device's own transmit queues, where no counter of the MMU sees them.
#[derive(Debug, Default)]
pub struct DeviceBacklog {
    frames_max: AtomicU32,
    fallbacks: AtomicU64,
}

impl DeviceBacklog {
    /// The most frames that stood in a queue so far.
    pub fn frames_max(&self) -> u32 {
        self.frames_max.load(Ordering::Relaxed)
    }

    /// Frames that left by queue 0 as their own was not enabled.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Ordering::Relaxed)
    }

    /// One lcore writes.
    fn note(&self, frames: u32) {
        if frames > self.frames_max.load(Ordering::Relaxed) {
            self.frames_max.store(frames, Ordering::Relaxed);
        }
    }

    /// One lcore writes.
    pub(crate) fn note_fallbacks(&self, frames: usize) {
        self.fallbacks.store(self.fallbacks.load(Ordering::Relaxed) + frames as u64, Ordering::Relaxed);
    }
}

impl Output {
    fn new(mut queues: Vec<TxQueue>, told: &Arc<DeviceBacklog>, tap: Option<Tap>) -> Output {
        assert!(!queues.is_empty(), "a port that is transmitted on has a queue");
        let more = queues.split_off(1).into();
        let queue = queues.remove(0);
        Output { has_backlog: queue.backlog().is_some(), queue, more, told: told.clone(), tap }
    }
}

impl SwitchLcore {
    /// Puts an lcore's part and queues together. `rx` are the queues of the ports that this lcore receives from, `tx` those of
    /// the ports that it transmits on; `backlogs` are all ports'. `taps` gives a tap for each queue of a port that is to have
    /// one.
    pub fn new(
        lcore: Lcore<Frame>,
        rx: Vec<(PortId, Vec<RxQueue>)>,
        tx: Vec<(PortId, Vec<TxQueue>)>,
        backlogs: &[Arc<DeviceBacklog>],
        store: FrameStore,
        mut taps: impl FnMut(PortId) -> Option<Tap>,
    ) -> SwitchLcore {
        let ports = tx.iter().map(|(port, _)| port.index() + 1).max().unwrap_or(0);
        let mut by_port: Vec<Option<Output>> = (0..ports).map(|_| None).collect();
        for (port, queues) in tx {
            by_port[port.index()] = Some(Output::new(queues, &backlogs[port.index()], taps(port)));
        }
        let inputs = rx.into_iter().flat_map(|(port, queues)| queues.into_iter().map(move |queue| (port, queue)));
        let rx = inputs.map(|(port, queue)| Input { port, queue, tap: taps(port) }).collect();
        let is_tapped = by_port.iter().flatten().any(|output| output.tap.is_some());
        let world = World { store, tx: by_port, batch: Batch::new(), is_tapped, now: Time::ZERO };
        SwitchLcore { lcore, rx, world, batch: Batch::new(), burst: Burst::new(), may_rest: false }
    }

    /// The switch has no other lcore, and whatever sends to one of its ports either waits while the port is not polled, or can be
    /// waited for: the lcore may be left alone while it has nothing to do.
    pub fn may_rest(&mut self) {
        self.may_rest = true;
    }

    /// One round: receive from every port, forward, transmit on every port. Returns how many frames moved, or are overdue.
    // Not inlined: benchmark `forwarding` counts its instructions by its name, without those of a loop that has nothing left.
    #[inline(never)]
    fn run_once(&mut self, clock: &Clock) -> usize {
        let mut moved = 0;
        for Input { port, queue, tap } in &mut self.rx {
            let received = queue.receive(&mut self.batch, self.lcore.room().min(RX_BURST));
            if received == 0 {
                continue;
            }
            moved += received;
            let now = now(clock);
            for mbuf in self.batch.as_slice() {
                mbuf.prefetch();
            }
            if let Some(tap) = tap {
                self.batch.as_slice().iter().for_each(|mbuf| tap.note(now, Direction::Inbound, mbuf));
            }
            self.batch.give_to(&mut self.burst);
            self.lcore.handle_burst(now, *port, &mut self.burst, &mut self.world.store);
        }
        moved + self.forward_and_transmit(clock)
    }

    #[inline]
    fn forward_and_transmit(&mut self, clock: &Clock) -> usize {
        let forwarded = self.lcore.forward(|| now(clock), &mut self.world.store);
        if self.world.is_tapped {
            self.world.now = now(clock);
        }
        let moved = forwarded + self.lcore.transmit(|| now(clock), &mut self.world);
        if self.lcore.is_behind() { moved.max(1) } else { moved }
    }
}

impl Task for SwitchLcore {
    fn poll(&mut self, clock: &Clock, phase: Phase) -> usize {
        let moved = match phase {
            Phase::Run => self.run_once(clock),
            Phase::Drain => self.forward_and_transmit(clock),
            Phase::Discard | Phase::Stop => {
                self.lcore.discard(now(clock), DropReason::Shutdown);
                0
            }
        };
        self.lcore.serve(|| now(clock));
        moved
    }

    fn rests_until(&self, now: Time) -> Option<Time> {
        self.may_rest.then(|| self.lcore.next_wakeup(now))
    }

    fn arrivals(&self) -> Option<Vec<Arrival>> {
        self.rx.iter().map(|input| input.queue.arrival()).collect()
    }
}

impl PacketStore<Frame> for World {
    fn copy(&mut self, packet: &Frame) -> Option<Frame> {
        self.store.copy(packet)
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<Frame> {
        self.store.control(frame, source)
    }
}

impl PortOutput<Frame> for World {
    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut Burst<Frame>) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { unreachable!("a port transmitted on elsewhere") };
        let limit = burst.len();
        let sent = send(&mut output.queue, &mut output.tap, self.now, &mut self.batch, burst, limit);
        if output.has_backlog {
            output.told.note(output.queue.backlog().unwrap_or(0));
        }
        sent
    }

    #[inline]
    fn transmit_row(&mut self, port: PortId, row: &mut [Option<Frame>]) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { unreachable!("a port transmitted on elsewhere") };
        if output.tap.is_some() {
            return transmit_row_as_burst(row, |burst| self.transmit(port, burst));
        }
        self.batch.take_from_row(row);
        let sent = output.queue.send(&mut self.batch);
        if !self.batch.is_empty() {
            row[sent..].iter_mut().zip(self.batch.drain()).for_each(|(place, mbuf)| *place = Some(Frame(mbuf)));
        }
        if output.has_backlog {
            output.told.note(output.queue.backlog().unwrap_or(0));
        }
        sent
    }

    fn transmit_by(&mut self, port: PortId, queue: u8, burst: &mut Burst<Frame>, limit: usize) -> usize {
        let Some(output) = &mut self.tx[port.index()] else { unreachable!("a port transmitted on elsewhere") };
        let own = usize::from(queue).checked_sub(1).map(|after_first| &mut output.more[after_first]);
        let (by, is_fallback) = match own {
            Some(own) if own.is_enabled() => (own, false),
            // The guest takes nothing from there.
            Some(_) => (&mut output.queue, true),
            None => (&mut output.queue, false),
        };
        let sent = send(by, &mut output.tap, self.now, &mut self.batch, burst, limit);
        if is_fallback && sent > 0 {
            output.told.note_fallbacks(sent);
        }
        sent
    }
}

/// Sends up to `limit` frames from the front of the burst, and leaves the rest there; returns how many went.
#[inline]
fn send(
    queue: &mut TxQueue,
    tap: &mut Option<Tap>,
    now: Time,
    batch: &mut Batch,
    burst: &mut Burst<Frame>,
    limit: usize,
) -> usize {
    const { assert!(BURST_MAX <= weir_dpdk_io::MAX_BURST) };
    if let Some(tap) = tap
        && tap.may_want(burst.first().map(|frame| &frame.0))
    {
        return send_tapped(queue, tap, now, batch, burst, limit);
    }
    batch.take_from(burst, limit);
    let sent = queue.send(batch);
    if !batch.is_empty() {
        // Frames that are left go before those that were not offered.
        let not_offered = std::mem::take(burst);
        burst.extend(batch.drain().map(Frame));
        burst.extend(not_offered);
    }
    sent
}

/// Sends up to `limit` frames one by one, so that a tap has those that were sent and no others.
#[cold]
fn send_tapped(
    queue: &mut TxQueue,
    tap: &mut Tap,
    now: Time,
    batch: &mut Batch,
    burst: &mut Burst<Frame>,
    limit: usize,
) -> usize {
    let mut sent = 0;
    let mut is_full = false;
    for (n, frame) in std::mem::take(burst).into_iter().enumerate() {
        if is_full || n >= limit {
            burst.push(frame);
            continue;
        }
        tap.stage_wanted(now, &frame.0);
        assert!(batch.push(frame.0).is_ok(), "a frame fits an empty batch");
        if queue.send(batch) == 1 {
            tap.commit();
            sent += 1;
        } else {
            tap.withdraw();
            burst.extend(batch.drain().map(Frame));
            is_full = true;
        }
    }
    sent
}

#[inline]
fn now(clock: &Clock) -> Time {
    Time::from_picos(clock.now_ps())
}
