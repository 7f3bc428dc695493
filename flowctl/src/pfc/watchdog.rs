//! PFC watchdog: detects a peer that pauses a queue for too long, and restores the queue when the pauses end.

use weir_units::{Bytes, Span, Time};

/// SONiC's PFC watchdog of one egress queue, that is, of one priority at one port.
///
/// Sans-I/O: each poll takes the queue's counters and returns whether a PFC storm was detected or the
/// queue is restored. The switch carries out the [`WatchdogAction`] in between. Sources: sonic-swss
/// `orchagent/pfc_detect_broadcom.lua`, `pfc_detect_mellanox.lua`, `pfc_restore.lua`, `pfcwdorch.cpp` and
/// `pfcactionhandler.cpp`; sonic-mgmt `tests/pfcwd/test_pfcwd_timer_accuracy.py`.
///
/// **Detection**: the [`StormCondition`] has held in every interval between two polls for the detection time. The actual time
/// between polls counts, as in the newer scripts; older ones count nominal intervals. One
/// interval in which the condition does not hold restarts the count.
///
/// **Restoration**: no PFC frame of the class was received for the restoration time. As in `pfc_restore.lua`, which has one
/// counter for both, RESUME frames count too: a peer that keeps sending them keeps its queue in the
/// storm. Under [`WatchdogAction::Alert`] there is no restoration time; the storm ends at the first poll at which the
/// condition does not hold.
///
/// **Accuracy**: `detection_time <= measured < detection_time + poll_interval`, plus the delay of late polls; the same holds
/// for restoration. SONiC meets this if polls are punctual and the times are multiples of their interval. It counts
/// whole intervals, so that slightly early polls cost one more (the Mellanox script tolerates 1 % for that).
/// Here a pause that begins between two polls counts from its first instant, derived from the queue's pause time, and
/// a poll is due when the restoration time is over. The first instant is unknown if one pause ended and
/// another began between the same two polls; the count then starts at the second poll, and detection may take another interval.
///
/// A detection takes two polls during the pause: one finds its beginning, the other finds that it holds. A newer revision of
/// the Broadcom script requires two whole intervals, since a chip's counters are read at different instants. A
/// [`QueueObservation`] is read at one instant.
///
/// **Refreshes.** A PAUSE lasts up to 65,535 quanta (3.4 ms at 10 Gb/s, 34 ms at 1 Gb/s), and a peer may repeat it
/// late in that time. [`StormCondition::PfcReceived`] needs a frame in every interval: a poll interval shorter
/// than the peer's refresh never finds a storm. SONiC's intervals, from 100 ms up, are long enough.
///
/// Call [`Watchdog::poll`] when [`Watchdog::is_due`].
#[derive(Clone, Debug)]
pub struct Watchdog {
    config: WatchdogConfig,
    /// Last poll, with the observation.
    last: Option<(Time, QueueObservation)>,
    /// Outside a storm: known start of the time in which the condition has held. In a storm: instant of the last PFC frame, or the
    /// storm's start.
    since: Time,
    counters: StormCounters,
}

/// Watchdog settings of a port, as in SONiC's table `PFC_WD`, and the storm condition.
///
/// SONiC accepts 100 ms to 5 s for detection and 100 ms to 60 s for restoration. Its default is 200 ms for both and for the
/// poll interval. Weir accepts any times, for small or slowed-down networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Time for which the condition must hold before a storm is detected.
    pub detection_time: Span,
    /// Time without a PFC frame after which the queue is restored. `Span::from_picos(u64::MAX)` is never, as in SONiC without this
    /// setting.
    pub restoration_time: Span,
    /// Interval between polls.
    pub poll_interval: Span,
    /// Condition of a storm.
    pub condition: StormCondition,
    /// Action against a storm. The watchdog itself only compares it with [`WatchdogAction::Alert`].
    pub action: WatchdogAction,
}

/// Condition that each interval between two polls of a storm meets. SONiC's vendors disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StormCondition {
    /// Condition of Broadcom and of SONiC's virtual switch: a PFC frame of the class was received, the class was paused at both
    /// polls, and did not go from running to paused in between. It was thus paused throughout; a pause that expires breaks the
    /// condition. The queue may be empty.
    PfcReceived,
    /// Condition of Mellanox: packets are queued at the second poll, none was sent in the interval, and the class was paused for
    /// more than 99 % of it. Pauses may expire that briefly, and no new frame is required. An older Mellanox script accepted an
    /// empty queue too, and 80 %.
    QueueStalled,
}

/// Action of the switch on the queue during a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Discards queued packets, packets for the queue, and packets that its port receives for queues of its number. SONiC's default, whose
    /// ACL matches the traffic class of the queue's number on both sides; its platforms that empty the queue's buffer instead have kept
    /// received packets since 2022. SONiC also ends PFC of the priority, which here ends for priority groups of discarded packets alone.
    Drop,
    /// Ignores PFC: the queue sends, and the class is lossy.
    Forward,
    /// Reports the storm without any action.
    Alert,
}

impl WatchdogAction {
    /// Name in files and in SONiC's commands.
    pub const fn name(self) -> &'static str {
        match self {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        }
    }
}

/// State of the queue at a poll. Counters count since the start, and continue in a storm even if PFC is not obeyed then.
///
/// The first three fields come from [`PauseTimers`](super::PauseTimers). If another thread sets the timers, read them in this order: a
/// class paused at both polls, with a count of pauses that is unchanged when read thereafter, was paused throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueObservation {
    /// Whether PFC pauses the class now.
    pub paused: bool,
    /// Changes from running to paused, a pause after one that had run out included. SAI's
    /// `SAI_PORT_STAT_PFC_n_ON2OFF_RX_PKTS`.
    pub pauses: u64,
    /// Total time for which the class was paused, up to now.
    pub paused_for: Span,
    /// PFC frames received that pause the class, refreshes included. `xoff_frames` + `xon_frames` is SAI's
    /// `SAI_PORT_STAT_PFC_n_RX_PKTS`.
    pub xoff_frames: u64,
    /// PFC frames received that resume the class.
    pub xon_frames: u64,
    /// Occupancy of the queue, in any unit that is zero only for an empty queue.
    pub queued: Bytes,
    /// Frames sent from the queue.
    pub frames_sent: u64,
}

/// Event found by a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogEvent {
    /// The queue is in a PFC storm from now on: start the action.
    StormDetected,
    /// The storm is over: stop the action.
    StormRestored,
}

impl Watchdog {
    /// Creates a watchdog whose first poll is due at once.
    ///
    /// # Panics
    /// If the poll interval is zero or longer than one of the times, which SONiC's `pfcwd interval` refuses too.
    pub fn new(config: WatchdogConfig) -> Watchdog {
        let WatchdogConfig { poll_interval, detection_time, restoration_time, .. } = config;
        assert!(poll_interval > Span::ZERO, "a watchdog that polls all the time sees no interval");
        assert!(poll_interval <= detection_time, "polls every {poll_interval} cannot tell {detection_time}");
        assert!(poll_interval <= restoration_time, "polls every {poll_interval} cannot tell {restoration_time}");
        Watchdog { config, last: None, since: Time::ZERO, counters: StormCounters::default() }
    }

    /// Applies these times and this condition from the next poll on, also in a storm. A storm under
    /// way lasts until the new configuration restores it.
    ///
    /// # Panics
    /// As [`Watchdog::new`].
    pub fn set_config(&mut self, config: WatchdogConfig) {
        self.config = Watchdog::new(config).config;
    }

    /// Polls the queue's state at `now`. The first poll has nothing to compare with; a poll that is not due is ignored.
    pub fn poll(&mut self, now: Time, queue: &QueueObservation) -> Option<WatchdogEvent> {
        if !self.is_due(now) {
            return None;
        }
        let Some((then, before)) = self.last.replace((now, *queue)) else {
            self.since = now;
            return None;
        };
        let interval = PollInterval { then, now, before: &before, queue };
        let turns = if self.in_storm() { self.is_over(&interval) } else { self.is_detected(&interval) };
        turns.then(|| self.turn(now))
    }

    /// Returns whether a poll is due at `now`.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next_wakeup()
    }

    /// Returns the instant of the next poll: an interval after the last, or the end of the restoration time.
    pub fn next_wakeup(&self) -> Time {
        let Some((then, _)) = self.last else { return Time::ZERO };
        let next = then.saturating_add(self.config.poll_interval);
        if self.in_storm() && self.config.action != WatchdogAction::Alert {
            next.min(self.since.saturating_add(self.config.restoration_time))
        } else {
            next
        }
    }

    /// Returns whether the queue is in a storm.
    #[inline]
    pub fn in_storm(&self) -> bool {
        self.counters.in_storm()
    }

    /// Returns the number of storms detected.
    pub fn detected(&self) -> u64 {
        self.counters.deadlock_detected
    }

    /// Returns the number of storms restored.
    pub fn restored(&self) -> u64 {
        self.counters.deadlock_restored
    }

    /// Returns the counters of the queue's storms.
    pub fn counters(&self) -> &StormCounters {
        &self.counters
    }

    /// Adds packets since the last call to the current storm; outside a storm they are not counted. Call before each poll, so
    /// that a storm's last packets are counted.
    pub fn count_packets(&mut self, packets: &StormPackets) {
        if self.in_storm() {
            self.counters.all.add(packets);
            self.counters.last.add(packets);
        }
    }

    fn is_detected(&mut self, interval: &PollInterval) -> bool {
        if !interval.meets(self.config.condition) {
            self.since = interval.now.saturating_sub(interval.pause_begun(self.config.condition));
            return false;
        }
        if self.since == interval.then && !interval.before.paused {
            // Less than 1 % of the first interval was before the storm, with the class running.
            self.since = interval.now.saturating_sub(interval.paused_for());
        }
        interval.now.since(self.since) >= self.config.detection_time
    }

    fn is_over(&mut self, interval: &PollInterval) -> bool {
        if self.config.action == WatchdogAction::Alert {
            return !interval.meets(self.config.condition);
        }
        if interval.has_pfc() {
            self.since = interval.now;
        }
        interval.now.since(self.since) >= self.config.restoration_time
    }

    /// Enters or leaves a storm.
    fn turn(&mut self, now: Time) -> WatchdogEvent {
        self.since = now;
        if self.in_storm() {
            self.counters.deadlock_restored += 1;
            WatchdogEvent::StormRestored
        } else {
            self.counters.deadlock_detected += 1;
            self.counters.last = StormPackets::default();
            WatchdogEvent::StormDetected
        }
    }
}

/// Interval between two polls, with both observations.
struct PollInterval<'a> {
    then: Time,
    now: Time,
    before: &'a QueueObservation,
    queue: &'a QueueObservation,
}

impl PollInterval<'_> {
    fn meets(&self, condition: StormCondition) -> bool {
        let (before, queue) = (self.before, self.queue);
        match condition {
            StormCondition::PfcReceived => {
                self.has_pfc() && before.paused && queue.paused && queue.pauses == before.pauses
            }
            StormCondition::QueueStalled => {
                let length = self.now.since(self.then);
                let running = length.saturating_sub(self.paused_for());
                let stalled = queue.queued > Bytes::ZERO && queue.frames_sent == before.frames_sent;
                stalled && running < length.divided_by(100)
            }
        }
    }

    fn has_pfc(&self) -> bool {
        self.queue.pfc_frames() != self.before.pfc_frames()
    }

    /// Returns the paused time, at most the interval: another thread may have added to the counter while it was read.
    fn paused_for(&self) -> Span {
        self.queue.paused_for.saturating_sub(self.before.paused_for).min(self.now.since(self.then))
    }

    /// Returns the age of the current pause if it is the only one that began in the interval and may start a storm; otherwise
    /// zero.
    fn pause_begun(&self, condition: StormCondition) -> Span {
        let (before, queue) = (self.before, self.queue);
        let begun = !before.paused && queue.paused && queue.pauses.wrapping_sub(before.pauses) == 1;
        let counts = condition == StormCondition::PfcReceived || queue.queued > Bytes::ZERO;
        if begun && counts { self.paused_for() } else { Span::ZERO }
    }
}

impl QueueObservation {
    fn pfc_frames(&self) -> u64 {
        self.xoff_frames.wrapping_add(self.xon_frames)
    }
}

/// Storm counters of a queue, as in SONiC. See [`StormCounters::named`] for its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormCounters {
    /// Storms detected.
    pub deadlock_detected: u64,
    /// Storms restored: equal to the detected ones, or one fewer.
    pub deadlock_restored: u64,
    /// Packets during all storms.
    pub all: StormPackets,
    /// Packets during the current or the last storm.
    pub last: StormPackets,
}

/// Packets during storms: TX packets for the queue, RX packets that its port receives for queues of its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormPackets {
    /// Sent from the queue.
    pub tx: u64,
    /// Dropped instead of being sent.
    pub tx_dropped: u64,
    /// Received and accepted.
    pub rx: u64,
    /// Received and dropped.
    pub rx_dropped: u64,
}

impl StormCounters {
    /// Whether a storm is under way.
    pub fn in_storm(&self) -> bool {
        self.deadlock_detected != self.deadlock_restored
    }

    /// Returns each counter with its name in SONiC's table `COUNTERS`, in the order of `show pfcwd stats`.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        let StormCounters { deadlock_detected, deadlock_restored, all, last } = *self;
        [
            ("PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED", deadlock_detected),
            ("PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED", deadlock_restored),
            ("PFC_WD_QUEUE_STATS_TX_PACKETS", all.tx),
            ("PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS", all.tx_dropped),
            ("PFC_WD_QUEUE_STATS_RX_PACKETS", all.rx),
            ("PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS", all.rx_dropped),
            ("PFC_WD_QUEUE_STATS_TX_PACKETS_LAST", last.tx),
            ("PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS_LAST", last.tx_dropped),
            ("PFC_WD_QUEUE_STATS_RX_PACKETS_LAST", last.rx),
            ("PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS_LAST", last.rx_dropped),
        ]
    }
}

impl StormPackets {
    fn add(&mut self, more: &StormPackets) {
        self.tx += more.tx;
        self.tx_dropped += more.tx_dropped;
        self.rx += more.rx;
        self.rx_dropped += more.rx_dropped;
    }
}

#[cfg(test)]
mod tests;
