//! The PFC watchdogs of a port: what they are shown, and what follows from what they say.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_flowctl::pfc::{QueueObservation, StormPackets, Watchdog, WatchdogAction, WatchdogConfig};
use weir_units::archive::State;
use weir_units::{Bytes, Class, ClassSet, PortId, QueueId, Time};

use crate::counters::{Counters, queue_stat};
use crate::shared::Shared;
use crate::storm_tally::ClassTally;

/// The watchdogs of one port's egress queues, one for each watched class; with the transmitter that serves the port.
#[derive(Debug, State)]
#[repr(C)]
pub(crate) struct PortWatchdogs {
    /// The earliest poll of all of them.
    due: Time,
    /// Classes in a storm: all; those whose frames are dropped, and those that send whatever PFC says.
    in_storm: ClassSet,
    dropping: ClassSet,
    ignoring: ClassSet,
    #[state(same)]
    action: WatchdogAction,
    watched: Box<[Watched]>,
}

#[derive(Debug, State)]
struct Watched {
    class: Class,
    watchdog: Watchdog,
    /// What had been counted when packets were last added to the watchdog's.
    counted: StormPackets,
}

impl PortWatchdogs {
    /// Watches `classes`; none without a configuration.
    pub(crate) fn new(config: Option<&WatchdogConfig>, classes: ClassSet) -> PortWatchdogs {
        let config = config.copied();
        let watchdogs = config.iter().flat_map(|config| {
            classes.iter().map(|class| Watched {
                class,
                watchdog: Watchdog::new(*config),
                counted: StormPackets::default(),
            })
        });
        let watched: Box<[Watched]> = watchdogs.collect();
        PortWatchdogs {
            due: if watched.is_empty() { Time::NEVER } else { Time::ZERO },
            watched,
            action: config.map_or(WatchdogAction::Alert, |config| config.action),
            in_storm: ClassSet::EMPTY,
            dropping: ClassSet::EMPTY,
            ignoring: ClassSet::EMPTY,
        }
    }

    /// Has all of them go by this from their next polls on.
    pub(crate) fn set_config(&mut self, config: &WatchdogConfig) {
        self.action = config.action;
        self.watched.iter_mut().for_each(|watched| watched.watchdog.set_config(*config));
        self.due = self.watched.iter().map(|watched| watched.watchdog.next_wakeup()).min().unwrap_or(Time::NEVER);
    }

    /// When [`PortWatchdogs::poll`] is to be called next; [`Time::NEVER`] if nothing is watched.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Classes in a storm, whatever is done about it.
    pub(crate) fn in_storm(&self) -> ClassSet {
        self.in_storm
    }

    /// Classes whose frames are dropped.
    #[inline]
    pub(crate) fn dropping(&self) -> ClassSet {
        self.dropping
    }

    /// Classes that send whatever PFC says.
    #[inline]
    pub(crate) fn ignoring(&self) -> ClassSet {
        self.ignoring
    }

    /// Has each watchdog look at its queue, if that is due.
    pub(crate) fn poll(&mut self, now: Time, port: PortId, shared: &Shared, counters: &Counters) {
        self.count(port, shared, counters);
        for Watched { class, watchdog, .. } in &mut self.watched {
            if watchdog.poll(now, &observe(now, QueueId::new(port, *class), shared, counters)).is_some() {
                self.in_storm ^= class.alone();
            }
        }
        let classes_under = |action| if self.action == action { self.in_storm } else { ClassSet::EMPTY };
        (self.dropping, self.ignoring) = (classes_under(WatchdogAction::Drop), classes_under(WatchdogAction::Forward));
        self.due = self.watched.iter().map(|watched| watched.watchdog.next_wakeup()).min().unwrap_or(Time::NEVER);
        self.publish(port, shared);
    }

    /// Brings what readers find up to now.
    pub(crate) fn update(&mut self, port: PortId, shared: &Shared, counters: &Counters) {
        self.count(port, shared, counters);
        self.publish(port, shared);
    }

    /// Adds to the storms what came and went since the last call.
    fn count(&mut self, port: PortId, shared: &Shared, counters: &Counters) {
        let Some(tally) = shared.port(port).storms() else { return };
        for Watched { class, watchdog, counted } in &mut self.watched {
            let now = tally.packets(QueueId::new(port, *class), counters);
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
        let Some(tally) = shared.port(port).storms() else { return };
        for Watched { class, watchdog, .. } in &self.watched {
            let slots = &tally.classes[class.index()].counters;
            let values = watchdog.counters().named();
            slots.iter().zip(values).for_each(|(slot, (_, value))| slot.store(value, Ordering::Relaxed));
        }
    }
}

/// What a watchdog is shown of its queue. The regulator first, in the order that [`QueueObservation`] asks for.
fn observe(now: Time, queue: QueueId, shared: &Shared, counters: &Counters) -> QueueObservation {
    let (state, class) = (shared.port(queue.port()), queue.class());
    let paused = state.regulator.paused(now).contains(class);
    let (paused_for, pauses) = state.regulator.pause_time(now, class);
    let frames = |of: fn(&ClassTally) -> &AtomicU64| {
        state.storms().map_or(0, |tally| of(&tally.classes[class.index()]).load(Ordering::Relaxed))
    };
    QueueObservation {
        paused,
        pauses,
        paused_for,
        xoff_frames: frames(|tally| &tally.xoff_frames),
        xon_frames: frames(|tally| &tally.xon_frames),
        queued: Bytes::new(shared.mmu.egress_length(queue)),
        frames_sent: counters.get(queue, queue_stat::FRAMES),
    }
}
