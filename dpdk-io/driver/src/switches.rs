//! All switches of the process, running.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_config::{Device, Idle, SwitchConfig};
use weir_dpdk_io::{
    Clock, DeviceLosses, Eal, EalArgs, IoAddresses, LcoreHandle, MemoryMode, Mempool, MempoolConfig, NetdevEvent, Port,
    PortError, PortStats, RingEnd, RxQueue, TxQueue, cpu,
};
use weir_nic::model::ModelReport;
use weir_switch_core::Shared;
use weir_switch_core::burst::Lcores;
use weir_switch_core::report::{Report, Reporter};
use weir_switch_core::{Surroundings, Switch};
use weir_units::{PortId, Span, Time};

use crate::capture::{CAPTURES_MAX, Capture, CapturePost, CaptureState, Wanted, captures};
use crate::catch_up::catch_up;
use crate::device_pause::DevicePause;
use crate::devices::{Devices, OpenPort};
use crate::error::DriverError;
use crate::frame::{Frame, FrameStore};
use crate::guest_queues::{GuestQueues, GuestWatch};
use crate::lcore_loop::{self, LcoreStats, LoopControl};
use crate::link_rate;
use crate::link_rate::{LinkRates, port_facts};
use crate::losses::LossMeters;
use crate::memory::{CACHE, CONTROL_CACHE, Memory};
use crate::netdevs::{Netdevs, PortEvent};
use crate::nic::{NicBoard, NicEnds, NicTask, model_config};
use crate::patience::Patience;
use crate::placement::Placement;
use crate::poll_gap;
use crate::replayer::{AS_IT_IS, FarEnd, Lane, ReplayBoard, ReplayReport, Replayer, Trace, TraceEnd, lanes};
use crate::switch_lcore::{DeviceBacklog, SwitchLcore};
use crate::tap::{TapPlan, Tapped, tap};
use crate::task::{Phase, Task};

/// How DPDK is started.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Arguments for EAL, after Weir's own.
    pub eal_args: Vec<String>,
    /// Under this name other processes (dpdk-telemetry, dpdk-dumpcap) find this one. Needs hugepages, which are then
    /// shared with them.
    pub file_prefix: Option<String>,
    /// Memory that EAL should have, in MiB; at least what [`Memory::megabytes`] says.
    pub memory_mb: u32,
}

/// DPDK, started, with one worker lcore on each CPU of a placement. Lives as long as anything made with it.
#[derive(Debug)]
pub struct Runtime {
    clock: Clock,
    eal: Eal,
    /// Whether NICs were named, which read and write packet memory by themselves.
    has_nics: bool,
}

/// Switches with their ports open, not running yet.
#[derive(Debug)]
pub struct PreparedSwitches<'a> {
    runtime: &'a Runtime,
    idle: Idle,
    clock: Clock,
    tasks: Vec<Vec<TaskBox>>,
    switches: Vec<RunningSwitch>,
    devices: Devices,
    other_ports: Vec<Port>,
    store: FrameStore,
    cpus: Vec<u32>,
    taps: Vec<PortTap>,
    replays: Option<Arc<ReplayBoard>>,
}

/// Which ports have taps: by switch and port.
pub type TapPlans<'p> = &'p dyn Fn(usize, usize) -> Option<TapPlan>;

/// Where copies of a port's frames come out, in one direction and of one queue.
#[derive(Debug)]
pub struct PortTap {
    /// The switch, by its place.
    pub switch: usize,
    /// Its port.
    pub port: PortId,
    /// The frames.
    pub tapped: Tapped,
}

/// Switches running.
#[derive(Debug)]
pub struct RunningSwitches {
    control: Arc<LoopControl>,
    netdevs: Netdevs,
    rates: LinkRates,
    guests: GuestWatch,
    lcores: Vec<(u32, LcoreHandle, Arc<LcoreStats>)>,
    switches: Vec<RunningSwitch>,
    other_ports: Vec<Port>,
    store: FrameStore,
    clock: Clock,
    replays: Option<Arc<ReplayBoard>>,
}

/// The last word of switches that have stopped.
#[derive(Debug)]
pub struct Stopped {
    /// Each switch's last report, everything given back.
    pub reports: Vec<Report>,
    /// Each lcore's CPU and what its loop tells.
    pub lcores: Vec<(u32, Arc<LcoreStats>)>,
    /// Mbufs that did not come back: 0, or a leak. Mbufs that devices keep when they are closed are not counted
    /// ([`Port::mbufs_kept_max`]), so that a smaller leak beside an AF_XDP port is not seen.
    pub mbufs_missing: u32,
    /// Each switch's ports' devices at the end.
    pub devices: Vec<Vec<DeviceReport>>,
    /// What the replay of traces came to, where there was one.
    pub replay: Option<ReplayReport>,
}

impl Stopped {
    /// The longest time between two polls of any lcore, in real time.
    pub fn gap_max(&self) -> Span {
        self.lcores.iter().map(|(_, stats)| stats.gap_max()).max().unwrap_or_default()
    }
}

/// What a port's device tells of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceReport {
    /// Its own statistics, where it keeps any.
    pub stats: Option<PortStats>,
    /// The most frames that stood in its transmit queue, out of the MMU's sight; `None` where it does not tell.
    pub backlog_max: Option<u32>,
    /// Frames that left by queue 0 as the guest takes none from their own; 0 for a port with one queue.
    pub queue_fallbacks: u64,
    /// What it lost.
    pub losses: DeviceLosses,
    /// What the NIC between it and the switch has counted; `None` where there is none.
    pub nic: Option<ModelReport>,
}

/// One switch, as the control thread has it.
#[derive(Debug)]
struct RunningSwitch {
    config: SwitchConfig,
    shared: Arc<Shared>,
    reporter: Reporter,
    /// `None` for clones, which have no device.
    ports: Vec<Option<Port>>,
    backlogs: Vec<Arc<DeviceBacklog>>,
    losses: LossMeters,
    /// By port: what the NIC in front of its host counts, if there is one.
    nics: Vec<Option<Arc<NicBoard>>>,
    /// By port: the kernel's interface, if it drives one.
    interfaces: Vec<Option<String>>,
    captures: Mutex<Posts>,
}

/// A switch's captures, and the way to its lcores.
#[derive(Debug)]
struct Posts {
    posts: Vec<CapturePost>,
    captures: Vec<Arc<CaptureState>>,
}

struct TaskBox(Box<dyn Task>);

impl Runtime {
    /// Starts DPDK with one worker lcore on each of `cpus`. Once a process.
    pub fn start(
        program: &str,
        cpus: &[u32],
        pci: &[String],
        options: &RuntimeOptions,
    ) -> Result<Runtime, DriverError> {
        let allowed = cpu::allowed();
        // The main lcore only waits and reports; its pinning is undone below.
        let main = allowed.first().copied().unwrap_or(0);
        let lcores: Vec<(u32, u32)> = std::iter::once((0, main)).chain((1..).zip(cpus.iter().copied())).collect();
        let mut args =
            EalArgs::new(program).lcores(&lcores).memory_mb(options.memory_mb).extra(options.eal_args.clone());
        for address in pci {
            args = args.allow_pci(address);
        }
        if let Some(prefix) = &options.file_prefix {
            args = args.file_prefix(prefix).memory(MemoryMode::Shared);
        }
        let args = args.build();
        tracing::debug!("EAL arguments: {}", args.join(" "));
        let eal = Eal::init(&args)?;
        if let Err(error) = cpu::set_affinity(&allowed) {
            tracing::debug!("the main thread stays on its CPU: {error}");
        }
        let pages = if eal.has_hugepages() { "hugepages" } else { "ordinary pages" };
        let addresses = match eal.io_addresses() {
            IoAddresses::Virtual => "virtual addresses",
            IoAddresses::Physical => "physical addresses",
        };
        tracing::info!("memory in {pages}; devices reach it by {addresses}");
        Ok(Runtime { clock: Clock::new(), eal, has_nics: !pci.is_empty() })
    }

    /// DPDK itself.
    pub fn eal(&self) -> &Eal {
        &self.eal
    }
}

/// NICs that the switches use, with their devargs, for EAL to probe.
pub fn pci_addresses(switches: &[SwitchConfig]) -> Vec<String> {
    pci_addresses_of(switches.iter().flat_map(|switch| &switch.ports).map(|port| &port.device))
}

/// NICs among devices, with their devargs.
pub fn pci_addresses_of<'a>(devices: impl Iterator<Item = &'a Device>) -> Vec<String> {
    devices.filter_map(|device| if let Device::Pci(pci) = device { Some(pci.with_devargs()) } else { None }).collect()
}

impl<'a> PreparedSwitches<'a> {
    /// Opens the ports and builds the switches. `extra_mbufs` are for other tasks in the process. On an error
    /// everything that was opened is closed again.
    pub fn prepare(
        runtime: &'a Runtime,
        switches: &[SwitchConfig],
        placement: &Placement,
        extra_mbufs: u32,
    ) -> Result<PreparedSwitches<'a>, DriverError> {
        PreparedSwitches::prepare_tapped(runtime, switches, placement, extra_mbufs, &|_, _| None)
    }

    /// As [`PreparedSwitches::prepare`], with taps on ports: copies of their frames come out at [`PreparedSwitches::take_taps`].
    pub fn prepare_tapped(
        runtime: &'a Runtime,
        switches: &[SwitchConfig],
        placement: &Placement,
        extra_mbufs: u32,
        taps: TapPlans<'_>,
    ) -> Result<PreparedSwitches<'a>, DriverError> {
        let mut memory = Memory::of(switches, placement.cpus.len(), extra_mbufs);
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
            if runtime.has_nics { poll_gap::measure(&placement.cpus, poll_gap::LONG_ENOUGH) } else { Span::ZERO };
        let dilation = switches.first().map_or(1, |switch| switch.time_dilation);
        let mut prepared = PreparedSwitches {
            runtime,
            idle: idlest(switches),
            clock: runtime.clock.with_dilation(dilation),
            tasks: placement.cpus.iter().map(|_| Vec::new()).collect(),
            switches: Vec::new(),
            devices: Devices::new(poll_gap),
            other_ports: Vec::new(),
            store,
            cpus: placement.cpus.clone(),
            taps: Vec::new(),
            replays: None,
        };
        let mut traces = Vec::new();
        for (index, (config, placed)) in switches.iter().zip(&placement.switches).enumerate() {
            prepared.add_switch(config, placed, &|port| taps(index, port), &mut traces)?;
        }
        let traces = traces.into_iter().map(|(config, port, end)| read_trace(config, port, end));
        let lanes = lanes(traces.collect::<Result<_, _>>()?);
        if !lanes.is_empty() {
            prepared.add_replay(placement.replayer.unwrap_or(0), lanes);
        }
        Ok(prepared)
    }

    /// Has traces replayed by one clock on the CPU at this position of the placement.
    pub fn add_replay(&mut self, cpu: usize, lanes: Vec<Lane>) {
        let (replayer, board) = Replayer::new(lanes, self.store.data.clone());
        self.replays = Some(board);
        self.add_task(cpu, Box::new(replayer));
    }

    /// No switch, for tasks on devices of their own: with this memory, and an lcore on each CPU, which polls.
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
            idle: Idle::Poll,
            clock: runtime.clock,
            tasks: cpus.iter().map(|_| Vec::new()).collect(),
            switches: Vec::new(),
            devices: Devices::new(Span::ZERO),
            other_ports: Vec::new(),
            store,
            cpus: cpus.to_vec(),
            taps: Vec::new(),
            replays: None,
        })
    }

    fn add_switch<'c>(
        &mut self,
        config: &'c SwitchConfig,
        placed: &crate::placement::SwitchPlacement,
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
        let facts = port_facts(config, &open);
        let surroundings = Surroundings::real_time(catch_up(config));
        let switch = Switch::new(config, &facts, surroundings).map_err(|error| error.at_line(config))?;
        let shared = switch.shared().clone();
        let Lcores { lcores, reporter } = switch.into_lcores::<Frame>(&placed.plan);
        let backlogs: Vec<_> = open.iter().map(|_| Arc::new(DeviceBacklog::default())).collect();
        let (mut rx, mut tx, mut ports, mut nics) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, open) in open.into_iter().enumerate() {
            let (mut receive, mut transmit, mut port, mut nic) = (Vec::new(), Vec::new(), None, None);
            if let Some(open) = open {
                let mut queues: Vec<_> = std::iter::once((open.rx, open.tx)).chain(open.more).collect();
                if let Some(on) = placed.nics[number] {
                    let (at_switch, board) = self.add_nic(config, number, on, queues, &shared, &backlogs[number])?;
                    (queues, nic) = (vec![at_switch], Some(board));
                }
                (receive, transmit) = queues.into_iter().unzip();
                port = Some(open.port);
            }
            rx.push(receive);
            tx.push(transmit);
            ports.push(port);
            nics.push(nic);
        }
        let is_alone = lcores.len() == 1;
        let mut posts = Vec::new();
        for (lcore, on) in lcores.into_iter().zip(&placed.on) {
            let rx = take_queues(&lcore.role.receives, &mut rx);
            let tx = take_queues(&lcore.role.transmits, &mut tx);
            let tapped = &mut self.taps;
            let tap = |port: PortId| {
                let (tap, out) = tap(taps(port.index())?);
                tapped.push(PortTap { switch: index, port, tapped: out });
                Some(tap)
            };
            let (captures, post) = captures(&shared);
            posts.push(post);
            let mut task = SwitchLcore::new(lcore, rx, tx, &backlogs, self.store.clone(), captures, tap);
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
        let captures = Mutex::new(Posts { posts, captures: Vec::new() });
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
        });
        Ok(())
    }

    /// Puts a NIC between a port and its host's device, whose queues it gets; returns the port's, and where the NIC's counters come
    /// out.
    fn add_nic(
        &mut self,
        config: &SwitchConfig,
        number: usize,
        on: usize,
        host: Vec<(RxQueue, TxQueue)>,
        shared: &Arc<Shared>,
        backlog: &Arc<DeviceBacklog>,
    ) -> Result<((RxQueue, TxQueue), Arc<NicBoard>), DriverError> {
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
        let ends = NicEnds { host, link, store, shared, backlog };
        let task = NicTask::new(config, PortId(number as u16), &model, ends);
        let board = task.board();
        self.tasks[on].push(TaskBox(Box::new(task)));
        self.other_ports.push(at_switch.port);
        Ok(((at_switch.rx, at_switch.tx), board))
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

    /// Has another task polled on the CPU at this position of the placement, after what is there.
    pub fn add_task(&mut self, cpu: usize, task: Box<dyn Task>) {
        let cpus = self.tasks.len();
        self.tasks[cpu % cpus].push(TaskBox(task));
    }

    /// The pools, for tasks that make frames.
    pub fn store(&self) -> &FrameStore {
        &self.store
    }

    /// Where copies of frames come out.
    pub fn take_taps(&mut self) -> Vec<PortTap> {
        std::mem::take(&mut self.taps)
    }

    /// The clock that the switches will go by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What the lcores of switch `index` share.
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
            let (control, told, clock, idle) = (control.clone(), stats.clone(), self.clock, self.idle);
            let tasks = tasks.into_iter().map(|task| task.0).collect();
            let started = self.runtime.eal.launch(lcore, move || lcore_loop::run(tasks, clock, idle, &control, &told));
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

impl RunningSwitches {
    /// Now, on the switches' clock.
    pub fn now(&self) -> Time {
        Time::from_picos(self.clock.now_ps())
    }

    /// How fast the counter runs that the clock goes by, in Hz.
    pub fn counter_hz(&self) -> u64 {
        self.clock.frequency_hz()
    }

    /// A report of switch `index`.
    pub fn report(&self, index: usize) -> Result<Report, DriverError> {
        let patience = self.patience();
        let report = self.switches[index].reporter.collect(self.now(), || self.waits(&patience));
        report.ok_or_else(|| self.stuck("no counters", &patience))
    }

    fn patience(&self) -> Patience {
        Patience::new(self.lcores.iter().map(|(cpu, _, stats)| (*cpu, stats.clone())).collect())
    }

    /// Waits for lcores to answer, a little at each call; says whether to go on. They don't when they have been stopped, or one has
    /// ended.
    fn waits(&self, patience: &Patience) -> bool {
        patience.wait() && !self.lcores.is_empty() && !self.has_failed()
    }

    fn stuck(&self, what: &str, patience: &Patience) -> DriverError {
        DriverError::Stuck(match self.has_failed() {
            true => "its loop has ended".to_owned(),
            false => format!("{what} {}", patience.told()),
        })
    }

    /// A report of each switch.
    pub fn reports(&self) -> Result<Vec<Report>, DriverError> {
        (0..self.switches.len()).map(|index| self.report(index)).collect()
    }

    /// Begins a capture of switch `index`: frames from now on come out of it, until it is dropped. `None` if the switch has
    /// [`CAPTURES_MAX`].
    ///
    /// # Errors
    /// An lcore does not take it up.
    pub fn capture(&self, index: usize, wanted: Wanted) -> Result<Option<Capture>, DriverError> {
        self.end_captures();
        let switch = &self.switches[index];
        let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
        if own.captures.len() >= CAPTURES_MAX {
            return Ok(None);
        }
        let (capture, taps) = Capture::new(wanted, switch.config.ports.len(), own.posts.len());
        let state = capture.state().clone();
        let lcores = taps.len();
        own.posts.iter_mut().zip(taps).for_each(|(post, tap)| post.post(tap));
        own.captures.push(state.clone());
        self.control.call();
        let patience = self.patience();
        while state.taken_up() < lcores {
            if !self.waits(&patience) {
                return Err(self.stuck("it takes up no capture", &patience));
            }
        }
        Ok(Some(capture))
    }

    /// Has lcores let go of captures that are over, and frees what those had. To be called now and then.
    pub fn end_captures(&self) {
        let mut has_ended = false;
        for switch in &self.switches {
            let mut own = switch.captures.lock().unwrap_or_else(PoisonError::into_inner);
            let Posts { posts, captures } = &mut *own;
            if captures.is_empty() {
                continue;
            }
            has_ended |= captures.iter().any(|state| state.is_over());
            posts.iter_mut().for_each(CapturePost::free_spent);
            let lcores = posts.len();
            captures.retain(|state| state.given_back() < lcores);
        }
        if has_ended {
            self.control.call();
        }
    }

    /// All that [`RunningSwitches::stop`] would tell, as of now; frames on their way are no leak, so no mbufs are missing.
    pub fn so_far(&self) -> Result<Stopped, DriverError> {
        Ok(Stopped {
            reports: self.reports()?,
            lcores: self.lcores.iter().map(|(cpu, _, stats)| (*cpu, stats.clone())).collect(),
            mbufs_missing: 0,
            devices: (0..self.switches.len()).map(|index| self.device_reports(index)).collect(),
            replay: self.replay_report(),
        })
    }

    /// What the replay of traces has come to; `None` where there is none.
    pub(crate) fn replay_report(&self) -> Option<ReplayReport> {
        let patience = self.patience();
        self.replays.as_ref().map(|board| board.collect(|| self.waits(&patience)))
    }

    /// Whether all frames of traces have left; `None` where none are replayed.
    pub fn replay_is_done(&self) -> Option<bool> {
        self.replays.as_ref().map(|board| board.is_done())
    }

    /// What the lcores of switch `index` share.
    pub fn shared(&self, index: usize) -> &Arc<Shared> {
        &self.switches[index].shared
    }

    /// Each lcore's CPU and what its loop tells.
    pub fn lcores(&self) -> impl Iterator<Item = (u32, &LcoreStats)> {
        self.lcores.iter().map(|(cpu, _, stats)| (*cpu, &**stats))
    }

    /// Whether an lcore's loop has ended, which before [`RunningSwitches::stop`] only a bug makes it do.
    pub fn has_failed(&self) -> bool {
        self.lcores.iter().any(|(_, handle, _)| handle.is_finished())
    }

    /// What became of the kernel's interfaces below ports since the last call. A port whose interface is gone has no link from
    /// then on, until one of its name is made again: ports that are ours and not DPDK's then go over to that. To be called
    /// before [`RunningSwitches::update_links`].
    pub fn netdev_events(&self) -> Vec<PortEvent> {
        let mut events = self.netdevs.poll();
        for told in events.iter_mut().filter(|told| matches!(told.event, NetdevEvent::Made(_))) {
            let port = self.switches[told.switch].ports[told.port].as_ref();
            match port.map(Port::reattach) {
                Some(Ok(true)) => {
                    told.attached = true;
                    self.netdevs.attached_again(told.switch, told.port);
                }
                Some(Err(error)) => tracing::debug!("{error}"),
                Some(Ok(false)) | None => {}
            }
        }
        events
    }

    /// Looks at every port's link and its speed, and tells the pipeline; returns the ports whose link changed. What becomes of
    /// the rates of ports is logged.
    pub fn update_links(&self) -> Vec<(usize, PortId, bool)> {
        let mut changed = Vec::new();
        let asks = self.rates.turn();
        self.netdevs.look();
        for (index, switch) in self.switches.iter().enumerate() {
            for (state, (number, port)) in switch.shared.ports().iter().zip(switch.ports.iter().enumerate()) {
                let Some(Ok(mut link)) = port.as_ref().map(Port::link) else { continue };
                let (id, config) = (PortId(number as u16), &switch.config.ports[number]);
                // Each port's carrier is told by one alone, as two do not tell of a change at the same time: DPDK's driver for AF_XDP
                // says that every link is up, and there it is netlink.
                if matches!(config.device, Device::AfXdp(_)) {
                    link.up = self.netdevs.has_carrier(index, number);
                }
                link.up &= self.netdevs.is_there(index, number);
                let comes_up = link.up && !state.has_carrier();
                if let Some(rate) = asks.rate(config, &link, comes_up)
                    && let Some(change) = switch.shared.set_link_rate(id, rate)
                {
                    link_rate::tell(&switch.config, config, rate, &change);
                }
                if link.up != state.has_carrier() {
                    switch.shared.set_link_up(id, link.up);
                    if link.up
                        && let Some(port) = port
                    {
                        // A link that comes up may have negotiated PAUSE.
                        let found = DevicePause::read(&switch.config, config, port);
                        if found.danger().is_some() {
                            found.tell(&switch.config.name);
                        }
                    }
                    changed.push((index, id, link.up));
                }
            }
        }
        changed
    }

    /// Which queues the guests at vhost-user ports have enabled by now, where that has changed since the last call and is to be
    /// told.
    pub fn guest_queues(&self) -> Vec<GuestQueues> {
        let mut news = Vec::new();
        for (index, switch) in self.switches.iter().enumerate() {
            for (number, (port, config)) in switch.ports.iter().zip(&switch.config.ports).enumerate() {
                let Some(peers) = port.as_ref().and_then(Port::peer_queues) else { continue };
                let id = PortId(number as u16);
                news.extend(self.guests.news(index, id, GuestQueues::of(index, id, config.device.queues(), peers)));
            }
        }
        news
    }

    /// What the device of each port of switch `index` lost since the start; nothing for a clone. To be called every second or
    /// so, see [`weir_dpdk_io::LossMeter::read`].
    pub fn device_losses(&self, index: usize) -> Vec<DeviceLosses> {
        let switch = &self.switches[index];
        switch.losses.read(&switch.ports)
    }

    /// What the NIC in front of the host at each port of switch `index` has counted; `None` where there is none.
    pub fn nic_reports(&self, index: usize) -> Vec<Option<ModelReport>> {
        let patience = self.patience();
        let report =
            |board: &Option<Arc<NicBoard>>| board.as_ref().map(|board| board.collect(|| self.waits(&patience)));
        self.switches[index].nics.iter().map(report).collect()
    }

    /// Frames that NICs still have for their hosts.
    fn held_for_hosts(&self) -> u64 {
        let reports = (0..self.switches.len()).flat_map(|index| self.nic_reports(index));
        reports.flatten().map(|report| report.to_host.held).sum()
    }

    /// What the device of each port of switch `index` tells of itself; nothing for a clone.
    pub(crate) fn device_reports(&self, index: usize) -> Vec<DeviceReport> {
        let switch = &self.switches[index];
        let report = |(((port, backlog), losses), nic): (((&Option<Port>, &Arc<DeviceBacklog>), _), _)| {
            let frames = backlog.frames_max();
            let stats = port.as_ref().and_then(|port| port.stats().ok());
            let queue_fallbacks = backlog.fallbacks();
            DeviceReport { stats, backlog_max: (frames > 0).then_some(frames), queue_fallbacks, losses, nic }
        };
        switch
            .ports
            .iter()
            .zip(&switch.backlogs)
            .zip(self.device_losses(index))
            .zip(self.nic_reports(index))
            .map(report)
            .collect()
    }

    /// Stops: no more frames are received, what is held is sent for up to `drain`, the rest is given up and counted.
    pub fn stop(mut self, drain: Duration) -> Result<Stopped, DriverError> {
        self.control.enter(Phase::Drain);
        let deadline = Instant::now() + drain;
        while Instant::now() < deadline && !self.has_failed() {
            let held: u64 = (0..self.switches.len())
                .map(|index| self.report(index).map_or(0, |report| report.balance.held()))
                .sum();
            if held == 0 && self.held_for_hosts() == 0 {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        self.control.enter(Phase::Discard);
        let reports = (0..self.switches.len()).map(|index| self.report_discarded(index)).collect::<Result<Vec<_>, _>>();
        (0..self.switches.len()).for_each(|index| self.wait_for_nics(index));
        self.lcores.iter().for_each(|(cpu, _, stats)| stats.note_last_cpu_use(*cpu));
        // The first answer may be of a poll that began before.
        self.replay_report();
        let replay = self.replay_report();
        self.control.enter(Phase::Stop);
        let mut lcores = Vec::new();
        let mut panicked = Ok(());
        for (cpu, handle, stats) in std::mem::take(&mut self.lcores) {
            if let Err(panic) = handle.join() {
                panicked = Err(panic);
            }
            lcores.push((cpu, stats));
        }
        panicked?;
        let devices = (0..self.switches.len()).map(|index| self.device_reports(index)).collect();
        let others = std::mem::take(&mut self.other_ports);
        let ports = std::mem::take(&mut self.switches).into_iter().flat_map(|switch| switch.ports).flatten();
        let mut kept_max = 0;
        for port in ports.chain(others) {
            kept_max += port.mbufs_kept_max();
            port.close()?;
        }
        let mbufs_missing = self.store.data.in_use().saturating_sub(kept_max) + self.store.control.in_use();
        Ok(Stopped { reports: reports?, lcores, mbufs_missing, devices, replay })
    }

    /// Waits until NICs have given up what they had; their last answer stays.
    fn wait_for_nics(&self, index: usize) {
        // The first answer may be of a poll that began before, and so is thrown away.
        self.nic_reports(index);
        let has_any = |report: &ModelReport| report.to_switch.held + report.to_host.held > 0;
        for _ in 0..100 {
            if !self.nic_reports(index).iter().flatten().any(has_any) {
                break;
            }
        }
    }

    /// Reports until what the lcores hand each other while they give up is gone.
    fn report_discarded(&self, index: usize) -> Result<Report, DriverError> {
        for _ in 0..100 {
            let report = self.report(index)?;
            if report.balance.held() == 0 {
                return Ok(report);
            }
        }
        self.report(index)
    }
}

impl Drop for RunningSwitches {
    fn drop(&mut self) {
        self.control.enter(Phase::Stop);
    }
}

impl std::fmt::Debug for TaskBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}

/// Reads the trace of a port.
fn read_trace(config: &SwitchConfig, port: usize, end: RingEnd) -> Result<TraceEnd<'_>, DriverError> {
    let trace = Trace::of_port(config, port, &AS_IT_IS).expect("the port replays one");
    let capture = trace.read().map_err(|error| {
        let help = "did the file change meanwhile?".to_owned();
        config.error_at(&format!("ports[{port}].replay"), error.to_string(), help)
    })?;
    tracing::info!(
        switch = %config.name, port = %trace.name,
        "replays {} frames of {}; not sent as they are: {}",
        capture.frames().len(), trace.config.file, capture.left_out().told()
    );
    Ok((trace, capture, FarEnd::Ring(end)))
}

/// A pool of so many mbufs, of which each lcore keeps so many at hand.
pub(crate) fn pool(
    name: &str,
    count: u32,
    cache: u32,
    data_room: u16,
    for_devices: bool,
) -> Result<Mempool, DriverError> {
    Ok(Mempool::new(name, MempoolConfig { count, cache, data_room, socket: None, for_devices })?)
}

/// Switches that share lcores share the idle policy: the one that burns most.
fn idlest(switches: &[SwitchConfig]) -> Idle {
    let policies = switches.iter().map(|switch| switch.idle);
    policies.min_by_key(|idle| *idle as u8).unwrap_or(Idle::Yield)
}

/// Whether what sends to this device waits while the device is not polled, or an lcore can wait for it. NICs and AF_XDP's rings
/// do neither: they drop what does not fit their descriptors.
fn waits_or_wakes(device: &Device) -> bool {
    !matches!(device, Device::Pci(_) | Device::AfXdp(_))
}

fn take_queues<Q>(ports: &[PortId], queues: &mut [Vec<Q>]) -> Vec<(PortId, Vec<Q>)> {
    ports.iter().map(|port| (*port, std::mem::take(&mut queues[port.index()]))).collect()
}
