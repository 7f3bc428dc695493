//! Running switches of the process: [`prepared`] opens their ports, [`running`] queries them, [`links`], [`captures`] and [`removals`]
//! handle changes while they run, [`stop`] ends them.

mod captures;
mod links;
mod lldp;
mod prepared;
mod removals;
mod reports;
mod running;
mod stop;

use std::sync::{Arc, Mutex};

use weir_config::SwitchConfig;
use weir_dpdk_io::{Clock, LcoreHandle, Port};
use weir_switch_core::Shared;
use weir_switch_core::report::StatsCollector;

use crate::frame::FrameStore;
use crate::guest_queues::GuestWatch;
use crate::lcore_loop::{LcoreStats, LoopControl};
use crate::link_rate::LinkRates;
use crate::losses::LossMeters;
use crate::netdevs::Netdevs;
use crate::nic::NicStatsCell;
use crate::replayer::ReplayStats;
use crate::switch_lcore::DeviceBacklog;
use captures::CaptureSenders;
use lldp::LldpChannels;
pub use prepared::{PortTap, PreparedSwitches, TapPlans};
pub use removals::Removal;
use removals::Removals;
pub use reports::{DeviceReport, Stopped};

/// Running switches of the process.
#[derive(Debug)]
pub struct RunningSwitches {
    control: Arc<LoopControl>,
    netdevs: Netdevs,
    rates: LinkRates,
    guests: GuestWatch,
    removals: Removals,
    lcores: Vec<(u32, LcoreHandle, Arc<LcoreStats>)>,
    switches: Vec<RunningSwitch>,
    other_ports: Vec<Port>,
    store: FrameStore,
    clock: Clock,
    replays: Option<Arc<ReplayStats>>,
}

/// One switch, as the control thread has it.
#[derive(Debug)]
struct RunningSwitch {
    config: SwitchConfig,
    shared: Arc<Shared>,
    reporter: StatsCollector,
    /// `None` for clones, which have no device.
    ports: Vec<Option<Port>>,
    backlogs: Vec<Arc<DeviceBacklog>>,
    losses: LossMeters,
    /// Counters by port of the NIC in front of its host, if there is one.
    nics: Vec<Option<Arc<NicStatsCell>>>,
    /// Kernel interface by port, if the port drives one.
    interfaces: Vec<Option<String>>,
    captures: Mutex<CaptureSenders>,
    lldp: Mutex<LldpChannels>,
}
