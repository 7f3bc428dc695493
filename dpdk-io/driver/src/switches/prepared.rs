//! Opening of ports and construction of switches, before any frame moves.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use weir_config::{Device, IdlePolicy, SwitchConfig};
use weir_dpdk_io::{Clock, Port, PortError, RingEnd, RxQueue, TxQueue};
use weir_switch_core::burst::Lcores;
use weir_switch_core::{DriverConfig, Shared, Switch};
use weir_units::{PortId, Span};

use super::captures::CaptureSenders;
use super::lldp::LldpChannels;
use super::removals::Removals;
use super::{RunningSwitch, RunningSwitches};
use crate::capture::captures;
use crate::catch_up::catch_up;
use crate::devices::{Devices, OpenPort};
use crate::dropped::{DroppedFrames, dropped_frames};
use crate::error::DriverError;
use crate::frame::{Frame, FrameStore};
use crate::guest_queues::GuestWatch;
use crate::lcore_loop::{self, LcoreStats, LoopControl};
use crate::link_rate::{LinkRates, port_info};
use crate::lldp::lldp_channel;
use crate::losses::LossMeters;
use crate::memory::{CACHE, CONTROL_CACHE, Memory, pool};
use crate::netdevs::Netdevs;
use crate::nic::{NicLinks, NicStatsCell, NicTask, model_config};
use crate::placement::{Placement, SwitchPlacement};
use crate::poll_gap;
use crate::replayer::{NO_REWRITING, ReplayStats, ReplayStream, ReplayTarget, Replayer, Trace, TraceEnd, streams};
use crate::runtime::Runtime;
use crate::switch_lcore::{DeviceBacklog, SwitchLcore, TxQueues};
use crate::tap::{TapPlan, Tapped, tap};
use crate::task::{Phase, Task};

/// Switches with their ports open, not running yet.
#[derive(Debug)]
pub struct PreparedSwitches<'a> {
    runtime: &'a Runtime,
    idle: IdlePolicy,
    clock: Clock,
    tasks: Vec<Vec<TaskBox>>,
    switches: Vec<RunningSwitch>,
    devices: Devices,
    other_ports: Vec<Port>,
    store: FrameStore,
    cpus: Vec<u32>,
    taps: Vec<PortTap>,
    dropped: Vec<DroppedFrames>,
    replays: Option<Arc<ReplayStats>>,
}

/// Tap plans by switch and port.
pub type TapPlans<'p> = &'p dyn Fn(usize, usize) -> Option<TapPlan>;

/// Receiver of copies of a port's frames, in one direction and of one queue.
#[derive(Debug)]
pub struct PortTap {
    /// The switch, by its index.
    pub switch: usize,
    /// Port of the tap.
    pub port: PortId,
    /// The frames.
    pub tapped: Tapped,
}

struct TaskBox(Box<dyn Task>);

impl<'a> PreparedSwitches<'a> {
    /// Opens the ports and builds the switches. `extra_mbufs` are for other tasks in the process. On an error everything already opened is
    /// closed again.
    pub fn prepare(
        runtime: &'a Runtime,
        switches: &[SwitchConfig],
        placement: &Placement,
        extra_mbufs: u32,
    ) -> Result<PreparedSwitches<'a>, DriverError> {
        PreparedSwitches::prepare_tapped(runtime, switches, placement, extra_mbufs, &|_, _| None)
    }

    /// Prepares like [`PreparedSwitches::prepare`], with taps on ports, whose copies [`PreparedSwitches::take_taps`] returns.
    pub fn prepare_tapped(
        runtime: &'a Runtime,
        switches: &[SwitchConfig],
        placement: &Placement,
        extra_mbufs: u32,
        taps: TapPlans<'_>,
    ) -> Result<PreparedSwitches<'a>, DriverError> {
        let mut memory = Memory::for_switches(switches, placement.cpus.len(), extra_mbufs);
        memory.for_devices |= runtime.has_nics;
        let store = FrameStore {
            data: pool("weir_data", memory.mbufs(), CACHE, memory.data_room, memory.for_devices)?,
            control: pool(
                "weir_control",
                memory.control,
                CONTROL_CACHE,
                memory.control_data_room(),
                memory.for_devices,
            )?,
        };
        let poll_gap =
            if runtime.has_nics { poll_gap::measure(&placement.cpus, poll_gap::MEASURING_TIME) } else { Span::ZERO };
        let dilation = switches.first().map_or(1, |switch| switch.time_dilation);
        let mut prepared = PreparedSwitches {
            runtime,
            idle: busiest_idle_policy(switches),
            clock: runtime.clock.with_dilation(dilation),
            tasks: placement.cpus.iter().map(|_| Vec::new()).collect(),
            switches: Vec::new(),
            devices: Devices::new(poll_gap),
            other_ports: Vec::new(),
            store,
            cpus: placement.cpus.clone(),
            taps: Vec::new(),
            dropped: Vec::new(),
            replays: None,
        };
        let mut traces = Vec::new();
        for (index, (config, placed)) in switches.iter().zip(&placement.switches).enumerate() {
            prepared.add_switch(config, placed, &|port| taps(index, port), &mut traces)?;
        }
        let traces = traces.into_iter().map(|(config, port, end)| read_trace(config, port, end));
        let streams = streams(traces.collect::<Result<_, _>>()?);
        if !streams.is_empty() {
            prepared.add_replay(placement.replayer.unwrap_or(0), streams);
        }
        Ok(prepared)
    }

    /// Adds the replay of traces by one clock, on the CPU at this position of the placement.
    pub fn add_replay(&mut self, cpu: usize, streams: Vec<ReplayStream>) {
        let (replayer, stats) = Replayer::new(streams, self.store.data.clone());
        self.replays = Some(stats);
        self.add_task(cpu, Box::new(replayer));
    }

    /// Creates a process without switches, for tasks on devices of their own: with this memory, and a polling lcore on each CPU.
    pub fn without_switches(
        runtime: &'a Runtime,
        cpus: &[u32],
        memory: &Memory,
    ) -> Result<PreparedSwitches<'a>, DriverError> {
        let for_devices = memory.for_devices || runtime.has_nics;
        let store = FrameStore {
            data: pool("weir_data", memory.mbufs(), CACHE, memory.data_room, for_devices)?,
            control: pool("weir_control", memory.control, CONTROL_CACHE, memory.control_data_room(), for_devices)?,
        };
        Ok(PreparedSwitches {
            runtime,
            idle: IdlePolicy::Poll,
            clock: runtime.clock,
            tasks: cpus.iter().map(|_| Vec::new()).collect(),
            switches: Vec::new(),
            devices: Devices::new(Span::ZERO),
            other_ports: Vec::new(),
            store,
            cpus: cpus.to_vec(),
            taps: Vec::new(),
            dropped: Vec::new(),
            replays: None,
        })
    }

    fn add_switch<'c>(
        &mut self,
        config: &'c SwitchConfig,
        placed: &SwitchPlacement,
        taps: &dyn Fn(usize) -> Option<TapPlan>,
        traces: &mut Vec<(&'c SwitchConfig, usize, RingEnd)>,
    ) -> Result<(), DriverError> {
        let index = self.switches.len();
        let mut open: Vec<Option<OpenPort>> = Vec::new();
        for (index, port) in config.ports.iter().enumerate() {
            open.push(match port.clone_of() {
                None => Some(self.devices.open(config, index, &self.store.data)?),
                Some(_) => None,
            });
            traces.extend(self.devices.take_replay_end().map(|end| (config, index, end)));
        }
        let facts = port_info(config, &open);
        let driver_config = DriverConfig::real_time(catch_up(config));
        let switch = Switch::new(config, &facts, driver_config).map_err(|error| error.at_line(config))?;
        let Lcores { lcores, collector: reporter } = switch.into_lcores::<Frame>(&placed.plan);
        let shared = reporter.shared().clone();
        let backlogs: Vec<_> = open.iter().map(|_| Arc::new(DeviceBacklog::default())).collect();
        let (mut rx, mut tx, mut ports, mut nics) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, open) in open.into_iter().enumerate() {
            let (mut receive, mut transmit, mut port, mut nic) = (Vec::new(), TxQueues::default(), None, None);
            if let Some(open) = open {
                let mut queues: Vec<_> = std::iter::once((open.rx, open.tx)).chain(open.more).collect();
                if let Some(on) = placed.nics[number] {
                    let (at_switch, stats) = self.add_nic(config, number, on, queues, &shared, &backlogs[number])?;
                    (queues, nic) = (vec![at_switch], Some(stats));
                }
                (receive, transmit.data) = queues.into_iter().unzip();
                transmit.control = open.control;
                port = Some(open.port);
            }
            rx.push(receive);
            tx.push(transmit);
            ports.push(port);
            nics.push(nic);
        }
        let is_alone = lcores.len() == 1;
        let mut senders = Vec::new();
        let mut lldp = LldpChannels { channels: Vec::new(), transmitter_of: vec![0; config.ports.len()] };
        for (number, (lcore, on)) in lcores.into_iter().zip(&placed.on).enumerate() {
            lcore.role.transmits.iter().for_each(|port| lldp.transmitter_of[port.index()] = number);
            let rx = take_queues(&lcore.role.receives, &mut rx);
            let tx = take_queues(&lcore.role.transmits, &mut tx);
            let tapped = &mut self.taps;
            let tap = |port: PortId| {
                let (tap, out) = tap(taps(port.index())?);
                tapped.push(PortTap { switch: index, port, tapped: out });
                Some(tap)
            };
            let (captures, sender) = captures(&shared);
            senders.push(sender);
            let mut task = SwitchLcore::new(lcore, rx, tx, &backlogs, self.store.clone(), captures, tap);
            let (end, dropped) = dropped_frames(index);
            task.pass_dropped(end);
            self.dropped.push(dropped);
            if config.lldp {
                let (end, channel) = lldp_channel();
                task.exchange_lldp(end);
                lldp.channels.push(channel);
            }
            if is_alone && config.ports.iter().all(|port| port.nic.is_none() && waits_or_wakes(&port.device)) {
                task.may_rest();
            }
            self.tasks[*on].push(TaskBox(Box::new(task)));
        }
        let losses = LossMeters::default();
        for (port, open) in config.ports.iter().zip(&ports) {
            losses.add(&port.device, open.as_ref());
        }
        let interfaces = config.ports.iter().map(|port| port.device.netdev().map(str::to_owned)).collect();
        let config = config.clone();
        let captures = Mutex::new(CaptureSenders { senders, captures: Vec::new() });
        self.switches.push(RunningSwitch {
            config,
            shared,
            reporter,
            ports,
            backlogs,
            losses,
            nics,
            interfaces,
            captures,
            lldp: Mutex::new(lldp),
        });
        Ok(())
    }

    /// Puts a NIC between a port and its host's device, whose queues it takes. Returns the port's queues and the cell of the NIC's
    /// counters.
    fn add_nic(
        &mut self,
        config: &SwitchConfig,
        number: usize,
        on: usize,
        host: Vec<(RxQueue, TxQueue)>,
        shared: &Arc<Shared>,
        backlog: &Arc<DeviceBacklog>,
    ) -> Result<((RxQueue, TxQueue), Arc<NicStatsCell>), DriverError> {
        let failed = |error: PortError| {
            let message = format!("port {}: the link to its NIC: {error}", config.ports[number].name);
            let help = "DPDK's own messages stand above".to_owned();
            DriverError::Config(config.error_at(&format!("ports[{number}].nic"), message, help))
        };
        let model = model_config(config, number).map_err(|error| error.at_line(config))?;
        let model = model.expect("a port that has a place for a NIC has one");
        let mtu = config.mtu.get() as u16;
        let (at_switch, link) = self.devices.open_link(mtu, &self.store.data).map_err(failed)?;
        let (store, shared, backlog) = (self.store.clone(), shared.clone(), backlog.clone());
        let ends = NicLinks { host, link, store, shared, backlog };
        let task = NicTask::new(config, PortId(number as u16), &model, ends);
        let stats = task.stats();
        self.tasks[on].push(TaskBox(Box::new(task)));
        self.other_ports.push(at_switch.port);
        Ok(((at_switch.rx, at_switch.tx), stats))
    }

    /// The far end of a link inside the process that only one switch port names.
    pub fn open_far_end(&mut self, ring: &str) -> Result<RingEnd, PortError> {
        self.devices.open_far_end(ring)
    }

    /// The queues of a device that is no switch's port.
    pub fn open_device(&mut self, device: &Device, mtu: u16) -> Result<(RxQueue, TxQueue), PortError> {
        let OpenPort { rx, tx, port, .. } = self.devices.open_device(device, mtu, &self.store.data)?;
        self.other_ports.push(port);
        Ok((rx, tx))
    }

    /// Adds a task to the CPU at this position of the placement, polled after the existing tasks.
    pub fn add_task(&mut self, cpu: usize, task: Box<dyn Task>) {
        let cpus = self.tasks.len();
        self.tasks[cpu % cpus].push(TaskBox(task));
    }

    /// The pools, for tasks that make frames.
    pub fn store(&self) -> &FrameStore {
        &self.store
    }

    /// Returns the receivers of frame copies.
    pub fn take_taps(&mut self) -> Vec<PortTap> {
        std::mem::take(&mut self.taps)
    }

    /// Returns the readers of lcores' drops.
    pub fn take_dropped(&mut self) -> Vec<DroppedFrames> {
        std::mem::take(&mut self.dropped)
    }

    /// Clock of the switches.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// State shared by the lcores of switch `index`.
    pub fn shared(&self, index: usize) -> &Arc<Shared> {
        &self.switches[index].shared
    }

    /// Starts the loops.
    pub fn start(self) -> Result<RunningSwitches, DriverError> {
        let control = Arc::new(LoopControl::default());
        let mut running = RunningSwitches {
            control: control.clone(),
            netdevs: Netdevs::new(self.switches.iter().map(|switch| switch.interfaces.clone()).collect()),
            rates: LinkRates::default(),
            guests: GuestWatch::default(),
            removals: Removals::default(),
            lcores: Vec::new(),
            switches: self.switches,
            other_ports: self.other_ports,
            store: self.store,
            clock: self.clock,
            replays: self.replays,
        };
        let mut lcores: HashMap<u32, _> =
            self.runtime.eal.lcores().into_iter().filter_map(|lcore| Some((lcore.cpu?, lcore))).collect();
        for (cpu, tasks) in self.cpus.into_iter().zip(self.tasks) {
            if tasks.is_empty() {
                continue;
            }
            let lcore = lcores
                .remove(&cpu)
                .ok_or_else(|| DriverError::Stuck("DPDK has no lcore on a CPU of the plan".into()))?;
            let stats = Arc::new(LcoreStats::default());
            let (control, loop_stats, clock, idle) = (control.clone(), stats.clone(), self.clock, self.idle);
            let tasks = tasks.into_iter().map(|task| task.0).collect();
            let started =
                self.runtime.eal.launch(lcore, move || lcore_loop::run(tasks, clock, idle, &control, &loop_stats));
            match started {
                Ok(handle) => running.lcores.push((cpu, handle, stats)),
                Err(error) => {
                    running.control.enter(Phase::Stop);
                    return Err(error.into());
                }
            }
        }
        Ok(running)
    }
}

impl fmt::Debug for TaskBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// Reads the trace of a port.
fn read_trace(config: &SwitchConfig, port: usize, end: RingEnd) -> Result<TraceEnd<'_>, DriverError> {
    let trace = Trace::of_port(config, port, &NO_REWRITING).expect("the port replays one");
    let capture = trace.read().map_err(|error| {
        let help = "did the file change meanwhile?".to_owned();
        config.error_at(&format!("ports[{port}].replay"), error.to_string(), help)
    })?;
    tracing::info!(
        switch = %config.name, port = %trace.name,
        "replays {} frames of {}; not sent as they are: {}",
        capture.frames().len(), trace.config.file, capture.skipped().describe()
    );
    Ok((trace, capture, ReplayTarget::Ring(end)))
}

/// Common idle policy of switches that share lcores: the policy that uses most CPU time.
fn busiest_idle_policy(switches: &[SwitchConfig]) -> IdlePolicy {
    let policies = switches.iter().map(|switch| switch.idle);
    policies.min_by_key(|idle| *idle as u8).unwrap_or(IdlePolicy::Yield)
}

/// Returns true if senders to this device wait while it is not polled, or an lcore can wait for their frames. NICs and AF_XDP's rings do
/// neither: they drop frames that do not fit their descriptors.
fn waits_or_wakes(device: &Device) -> bool {
    !matches!(device, Device::Pci(_) | Device::AfXdp(_))
}

fn take_queues<Q: Default>(ports: &[PortId], queues: &mut [Q]) -> Vec<(PortId, Q)> {
    ports.iter().map(|port| (*port, std::mem::take(&mut queues[port.index()]))).collect()
}
