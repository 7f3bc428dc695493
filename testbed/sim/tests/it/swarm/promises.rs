//! What a drawn scenario promises.

use std::fmt;

/// Flow control of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Pfc,
    /// 802.3x: all classes at once.
    Pause,
    /// GFC by stages.
    Stages,
    /// GFC by time.
    Rates,
    Credit,
    /// Nothing, and no class is lossless.
    Nothing,
}

impl Speaks {
    /// Whether a sender is never stopped.
    pub(crate) fn is_gentle(self) -> bool {
        matches!(self, Speaks::Stages | Speaks::Rates)
    }

    /// Whether queues that wait for each other in a circle may wait for good.
    pub(crate) fn may_lock(self) -> bool {
        matches!(self, Speaks::Pfc | Speaks::Pause | Speaks::Credit)
    }
}

/// What goes wrong on links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wrongs {
    pub data_lost: bool,
    /// Or held back.
    pub data_doubled: bool,
    pub control_lost: bool,
    pub control_doubled: bool,
    pub outages: bool,
}

/// What a PFC watchdog does with a queue that it takes to be in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watchdog {
    /// There is none.
    None,
    Alerts,
    Drops,
    Forwards,
}

#[derive(Clone, Debug)]
pub(crate) struct Promises {
    pub speaks: Speaks,
    pub policy: &'static str,
    /// Whether the policy keeps enough headroom for all that may come.
    pub has_headroom: bool,
    pub wrongs: Wrongs,
    /// Whether what is lost is sent again.
    pub retransmits: bool,
    /// Whether RDMA in a lossy class may overflow queues without end: go-back-N sends whole messages again, and queues that are
    /// full of what came out of order may drop the one frame that is missing, each time.
    pub is_lossy: bool,
    pub watchdog: Watchdog,
    /// The lowest rate that congestion control may come down to is this part of the line's.
    pub slowest_part: u64,
}

impl Promises {
    /// Whether no lossless frame is dropped. A PAUSE or stage that is lost, or comes late, is made up for after longer
    /// than headroom is made for; credit is absolute. What comes twice, or is held back and let go, comes faster than
    /// the line. A link that was cut has lost its messages. A watchdog that forwards sends what its peer has no room
    /// for.
    pub(crate) fn loses_nothing(&self) -> bool {
        let Wrongs { data_doubled, control_lost, outages, .. } = self.wrongs;
        let heard = !control_lost || self.speaks == Speaks::Credit;
        self.speaks != Speaks::Nothing
            && self.has_headroom
            && heard
            && !data_doubled
            && !outages
            && self.watchdog != Watchdog::Forwards
    }

    /// Whether a link's ends may count otherwise for a while. Data that came twice, or when it had been given up, is
    /// counted by who received it and not by who sent it, and is advertised as room beyond the buffer until the
    /// sender's count is confirmed.
    pub(crate) fn may_miscount(&self) -> bool {
        matches!(self.speaks, Speaks::Rates | Speaks::Credit) && self.wrongs.data_doubled
    }
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {}, {:?}", self.speaks, self.policy, self.wrongs)?;
        if self.watchdog == Watchdog::None { Ok(()) } else { write!(f, ", a watchdog that {:?}", self.watchdog) }
    }
}
