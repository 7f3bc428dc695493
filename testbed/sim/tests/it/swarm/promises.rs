//! What a drawn scenario promises, by its file and its events.

use std::collections::BTreeSet;
use std::fmt;

use toml::Table;
use weir_config::{Headroom, WatchdogAction};
use weir_flowctl::MessageKind;
use weir_mmu::policy::HeadroomRequirement;
use weir_scenario::link::{ChosenFrames, FaultPlan};
use weir_scenario::{LinkRef, Scenario};
use weir_units::{Class, Time};

use super::events::Event;

/// What goes wrong on links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wrongs {
    pub data_lost: bool,
    /// Or held back.
    pub data_doubled: bool,
    pub control_lost: bool,
    pub control_doubled: bool,
    /// Messages that nobody sent: pauses, stages, credit.
    pub forged: bool,
    pub outages: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Promises {
    /// Kinds of flow control on links, as files name them, and `pulses`.
    pub kinds: BTreeSet<&'static str>,
    pub policy: &'static str,
    /// Whether the policy keeps enough headroom for all that may come.
    pub has_headroom: bool,
    pub wrongs: Wrongs,
    /// Hosts whose link goes for good.
    pub killed: Vec<usize>,
    /// Whether data comes that no host expects, and whether it should have been held by flow control or counted.
    pub has_strangers: bool,
    pub strangers_ignore_flow_control: bool,
    /// Whether what is lost is sent again.
    pub retransmits: bool,
    /// Whether RDMA may repeat itself without end, in a lossy class that overflows queues or as frames overtake each other: go-back-N sends
    /// whole messages again, and queues that are full of what came out of order may drop the one frame that is missing, each time.
    pub may_repeat: bool,
    /// Whether switches choose a path for each frame.
    pub sprays: bool,
    /// What a PFC watchdog does with a queue that it takes to be in a storm.
    pub watchdog: Option<WatchdogAction>,
    /// The lowest rate that congestion control may come down to is this part of the line's.
    pub slowest_part: u64,
}

impl Promises {
    pub(crate) fn of(file: &Table, scenario: &Scenario, events: &[Event]) -> Promises {
        let switch = &scenario.switches[0];
        let ports = scenario.switches.iter().flat_map(|switch| &switch.ports).map(|port| &port.flow_control);
        let kinds: BTreeSet<&str> = ports
            .map(|kind| if kind.message_kind() == MessageKind::Pulses { "pulses" } else { kind.kind() })
            .filter(|_| !switch.classes.lossless.is_empty())
            .collect();
        let policy = switch.buffer.policy.name();
        let goes_by_xoff = kinds.iter().all(|kind| ["pfc", "pause"].contains(kind));
        // Headroom by the rule is for what comes before a PAUSE is obeyed, and not for a queue of GFC's limit.
        let by_rule = !goes_by_xoff && policy != "static" && switch.buffer.headroom == Headroom::Auto;
        let has_headroom = match switch.buffer.policy.layout_requirements().headroom {
            // It follows the delays that it has seen.
            _ if policy == "adaptive" || by_rule => false,
            HeadroomRequirement::PerQueue | HeadroomRequirement::Pool(None) => true,
            HeadroomRequirement::Part { percent } => percent == 100,
            // A port's insurance is for one queue, behind a pause of all.
            HeadroomRequirement::PerPort => goes_by_xoff,
            HeadroomRequirement::Pool(Some(_)) | HeadroomRequirement::Uninsured => false,
        };
        let mut wrongs = Wrongs {
            forged: events.iter().any(Event::forges),
            outages: !scenario.outages.is_empty() || events.iter().any(Event::closes_a_port),
            ..Wrongs::default()
        };
        let faults = scenario.links.iter().flat_map(|link| link.faults);
        faults.chain(scenario.hosts.iter().flat_map(|host| host.faults)).for_each(|faults| wrongs.add(&faults));
        let killed = scenario.outages.iter().filter(|outage| outage.until == Time::NEVER);
        let killed = killed.filter_map(|outage| match outage.link {
            LinkRef::ToHost(host) => Some(host),
            LinkRef::Between(_) => None,
        });
        let tables = |name: &str| file.get(name).and_then(|all| all.as_array()).into_iter().flatten();
        let traffic = || tables("workloads").chain(tables("flows"));
        let nic = |key: &str| file.get("nic").and_then(|nic| nic.get(key)).and_then(|value| value.as_str());
        let uses_rdma = |table: &&toml::Value| table.get("transport").is_none();
        let class = |table: &toml::Value| table.get("class").and_then(|class| class.as_integer());
        let lossless = switch.classes.lossless;
        let is_lossy =
            |table: &toml::Value| class(table).is_none_or(|class| !lossless.contains(Class::new(class as u8)));
        let sprays = file.get("switch").is_some_and(|switch| switch.get("load_balancing").is_some());
        let goes_back = sprays && nic("loss_recovery").is_none();
        let preset =
            |table: &toml::Value| table.get("congestion_control").is_some_and(|name| name.as_str() != Some("none"));
        Promises {
            kinds,
            policy,
            has_headroom,
            wrongs,
            killed: killed.collect(),
            has_strangers: events.iter().any(|event| event.class_of_strangers().is_some()),
            strangers_ignore_flow_control: events
                .iter()
                .filter_map(Event::class_of_strangers)
                .any(|class| switch.classes.lossless.contains(class)),
            retransmits: nic("retransmit") != Some("none"),
            may_repeat: traffic().filter(uses_rdma).any(|table| goes_back || is_lossy(table)),
            sprays,
            watchdog: switch.pfc_watchdog.as_ref().map(|watchdog| watchdog.action),
            slowest_part: if traffic().any(preset) { 1_000 } else { 1 },
        }
    }

    /// Whether a sender is never stopped by some link's flow control.
    pub(crate) fn is_gentle(&self) -> bool {
        self.kinds.iter().any(|kind| kind.starts_with("gfc") || *kind == "pulses")
    }

    /// Whether queues that wait for each other in a circle may wait for good.
    pub(crate) fn may_lock(&self) -> bool {
        self.kinds.iter().any(|kind| ["pfc", "pause", "cbfc", "uec-cbfc", "pulses"].contains(kind))
    }

    /// Whether messages depend on queues alone, and stop when these are empty.
    pub(crate) fn falls_silent(&self) -> bool {
        self.kinds.iter().all(|kind| ["pfc", "pause", "none"].contains(kind))
    }

    /// Whether no lossless frame is dropped. A PAUSE or stage that is lost, or comes late, is made up for after longer
    /// than headroom is made for; credit is absolute. What comes twice, or is held back and let go, comes faster than
    /// the line. A link that was cut has lost its messages. A watchdog that forwards sends what its peer has no room
    /// for, and so does a peer behind pulses, a frame in each period. A forged message may be a RESUME, and forged data
    /// delays what a host has sent behind it until after a PAUSE.
    pub(crate) fn loses_nothing(&self) -> bool {
        let Wrongs { data_doubled, control_lost, outages, forged, .. } = self.wrongs;
        let heard = !control_lost || self.kinds.iter().all(|kind| kind.ends_with("cbfc"));
        !self.kinds.is_empty()
            && !self.kinds.contains("none")
            && !self.kinds.contains("pulses")
            && self.has_headroom
            && heard
            && !data_doubled
            && !outages
            && !forged
            && !self.has_strangers
            && self.watchdog != Some(WatchdogAction::Forward)
    }

    /// Whether a link's ends may count otherwise for a while. Data that came twice, or when it had been given up, is
    /// counted by who received it and not by who sent it, and is advertised as room beyond the buffer until the
    /// sender's count is confirmed.
    pub(crate) fn may_miscount(&self) -> bool {
        let counts = self.kinds.iter().any(|kind| kind.ends_with("cbfc") || *kind == "gfc-time");
        counts && (self.wrongs.data_doubled || self.strangers_ignore_flow_control) || self.wrongs.forged
    }

    /// Whether a class may stay paused though nobody wants it, until the pause ends: where a RESUME was lost, or a PAUSE forged.
    pub(crate) fn may_stay_paused(&self) -> bool {
        let Wrongs { control_lost, outages, forged, .. } = self.wrongs;
        control_lost || outages || forged
    }
}

impl Wrongs {
    fn add(&mut self, faults: &FaultPlan) {
        let (loses, doubles, reorders) =
            (faults.loss_ppm + faults.corruption_ppm > 0, faults.duplication_ppm > 0, faults.reordering_ppm > 0);
        if matches!(faults.frames, ChosenFrames::Control | ChosenFrames::All) {
            self.control_lost |= loses || reorders;
            self.control_doubled |= doubles;
        }
        if faults.frames != ChosenFrames::Control {
            self.data_lost |= loses;
            self.data_doubled |= doubles || reorders;
        }
    }
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrongs { data_lost, data_doubled, control_lost, control_doubled, forged, outages } = self.wrongs;
        let wrongs = [
            (data_lost, "data lost"),
            (data_doubled, "data doubled"),
            (control_lost, "messages lost"),
            (control_doubled, "messages doubled"),
            (forged, "messages forged"),
            (outages, "outages"),
            (!self.killed.is_empty(), "hosts killed"),
            (self.has_strangers, "strangers"),
            (self.watchdog.is_some(), "a watchdog"),
        ];
        let wrongs: Vec<&str> = wrongs.iter().filter(|(is_so, _)| *is_so).map(|(_, name)| *name).collect();
        write!(f, "{:?}, {}, {}", self.kinds, self.policy, wrongs.join(", "))
    }
}
