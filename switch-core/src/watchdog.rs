//! PFC watchdogs of a port: their observations, and the consequences of a storm.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_flowctl::pfc::{QueueObservation, StormPackets, Watchdog, WatchdogAction, WatchdogConfig};
use weir_units::{Bytes, Class, ClassSet, PortId, QueueId, Time};

use crate::counters::{Counters, queue_stat};
use crate::shared::Shared;
use crate::storm_counters::ClassStormCounters;

/// Watchdogs of one port's egress queues, one per watched class; owned by the transmitter that serves the port.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PortWatchdogs {
    /// Earliest poll of all watchdogs.
    due: Time,
    /// Queues in a storm: all; those whose frames are dropped; and those that ignore PFC.
    in_storm: ClassSet,
    dropping: ClassSet,
    ignoring: ClassSet,
    /// Priority groups of the port that only frames for the `dropping` queues come in.
    dropped_groups: ClassSet,
    action: WatchdogAction,
    watched: Box<[WatchedClass]>,
}

#[derive(Debug)]
struct WatchedClass {
    class: Class,
    watchdog: Watchdog,
    /// Packet counts at the last update of the watchdog.
    counted: StormPackets,
}

impl PortWatchdogs {
    /// Returns watchdogs of `classes`; none without a configuration.
    pub(crate) fn new(config: Option<&WatchdogConfig>, classes: ClassSet) -> PortWatchdogs {
        let config = config.copied();
        let watchdogs = config.iter().flat_map(|config| {
            classes.iter().map(|class| WatchedClass {
                class,
                watchdog: Watchdog::new(*config),
                counted: StormPackets::default(),
            })
        });
        let watched: Box<[WatchedClass]> = watchdogs.collect();
        PortWatchdogs {
            due: if watched.is_empty() { Time::NEVER } else { Time::ZERO },
            watched,
            action: config.map_or(WatchdogAction::Alert, |config| config.action),
            in_storm: ClassSet::EMPTY,
            dropping: ClassSet::EMPTY,
            ignoring: ClassSet::EMPTY,
            dropped_groups: ClassSet::EMPTY,
        }
    }

    /// Sets the configuration of all watchdogs from their next polls on.
    pub(crate) fn set_config(&mut self, config: &WatchdogConfig) {
        self.action = config.action;
        self.watched.iter_mut().for_each(|watched| watched.watchdog.set_config(*config));
        self.due = self.watched.iter().map(|watched| watched.watchdog.next_wakeup()).min().unwrap_or(Time::NEVER);
    }

    /// Returns when [`PortWatchdogs::poll`] is due; [`Time::NEVER`] if nothing is watched.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Returns the queues in a storm, under any action.
    pub(crate) fn in_storm(&self) -> ClassSet {
        self.in_storm
    }

    /// Returns the queues whose frames are dropped.
    #[inline]
    pub(crate) fn dropping(&self) -> ClassSet {
        self.dropping
    }

    /// Returns the priority groups whose frames are dropped on arrival, so that the peer need not be paused.
    #[inline]
    pub(crate) fn dropped_groups(&self) -> ClassSet {
        self.dropped_groups
    }

    /// Returns the queues that send regardless of PFC.
    #[inline]
    pub(crate) fn ignoring(&self) -> ClassSet {
        self.ignoring
    }

    pub(crate) fn poll(&mut self, now: Time, port: PortId, shared: &Shared, counters: &Counters) {
        self.count(port, shared, counters);
        for WatchedClass { class, watchdog, .. } in &mut self.watched {
            if watchdog.poll(now, &observe(now, QueueId::new(port, *class), shared, counters)).is_some() {
                self.in_storm ^= class.alone();
            }
        }
        let classes_under = |action| if self.action == action { self.in_storm } else { ClassSet::EMPTY };
        (self.dropping, self.ignoring) = (classes_under(WatchdogAction::Drop), classes_under(WatchdogAction::Forward));
        self.dropped_groups =
            shared.groups_of(port, self.dropping) - shared.groups_of(port, ClassSet::ALL - self.dropping);
        self.due = self.watched.iter().map(|watched| watched.watchdog.next_wakeup()).min().unwrap_or(Time::NEVER);
        self.publish(port, shared);
    }

    pub(crate) fn update(&mut self, port: PortId, shared: &Shared, counters: &Counters) {
        self.count(port, shared, counters);
        self.publish(port, shared);
    }

    /// Adds the packets since the last call to the storms' counts.
    fn count(&mut self, port: PortId, shared: &Shared, counters: &Counters) {
        let Some(storms) = shared.port(port).storms() else { return };
        for WatchedClass { class, watchdog, counted } in &mut self.watched {
            let now = storms.packets(QueueId::new(port, *class), counters);
            watchdog.count_packets(&StormPackets {
                tx: now.tx - counted.tx,
                tx_dropped: now.tx_dropped - counted.tx_dropped,
                rx: now.rx - counted.rx,
                rx_dropped: now.rx_dropped - counted.rx_dropped,
            });
            *counted = now;
        }
    }

    fn publish(&self, port: PortId, shared: &Shared) {
        let Some(storms) = shared.port(port).storms() else { return };
        for WatchedClass { class, watchdog, .. } in &self.watched {
            let slots = &storms.classes[class.index()].counters;
            let values = watchdog.counters().named();
            slots.iter().zip(values).for_each(|(slot, (_, value))| slot.store(value, Ordering::Relaxed));
        }
    }
}

/// Returns the observation of a queue for its watchdog. The regulator is read first, in the order that [`QueueObservation`] requires.
fn observe(now: Time, queue: QueueId, shared: &Shared, counters: &Counters) -> QueueObservation {
    let (state, class) = (shared.port(queue.port()), queue.class());
    let paused = state.regulator.paused(now).contains(class);
    let (paused_for, pauses) = state.regulator.pause_time(now, class);
    let frames = |of: fn(&ClassStormCounters) -> &AtomicU64| {
        state.storms().map_or(0, |storms| of(&storms.classes[class.index()]).load(Ordering::Relaxed))
    };
    QueueObservation {
        paused,
        pauses,
        paused_for,
        xoff_frames: frames(|storms| &storms.xoff_frames),
        xon_frames: frames(|storms| &storms.xon_frames),
        queued: Bytes::new(shared.mmu.egress_length(queue)),
        frames_sent: counters.get(queue, queue_stat::FRAMES),
    }
}
