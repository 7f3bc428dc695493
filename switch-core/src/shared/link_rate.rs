//! A port's rate C, and the speed of its link, which may change while the switch runs.
//!
//! A port whose configuration has a `rate` keeps it. Another has its link's speed, by [`Shared::set_link_rate`]. Pause quanta, queue
//! limits, the shaper (where the port is [shaped to its link](crate::PortFacts::shaped)), thresholds of policies that depend on C,
//! and telemetry follow. The buffer's partition, headroom, and GFC's and CBFC's parameters depend on configured rates and sizes
//! alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_mmu::policy::PortRate;
use weir_units::archive::SharedState;
use weir_units::{BitRate, PortId};

use crate::Shared;
use crate::flow_control::RATE_UNKNOWN;

/// Written by the control thread, read by all. Relaxed: numbers that stand alone; the transmitter is told apart.
#[derive(Debug, SharedState)]
pub(crate) struct LinkRate {
    /// C, in b/s.
    rate: AtomicU64,
    /// The link's speed in b/s; 0 while nobody told.
    link: AtomicU64,
    /// Whether C is the link's speed.
    follows: AtomicBool,
    /// Whether the port is shaped while it follows.
    #[state(same)]
    shaped: bool,
}

/// What became of a port's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// C until now. Unchanged where the link has the speed that was assumed.
    pub before: BitRate,
    /// Whether the buffer's policy goes by the new one. It can't where it counts no window of so many bytes.
    pub policy_follows: bool,
}

impl Shared {
    /// Sets the speed of a port's link, from the control thread. Returns the change of rate of a port without a configured one;
    /// `None` if the speed is not new, and for a port with a rate.
    ///
    /// Lcores take it over without waiting for each other. A pause under way keeps its end; one that the port has out is repeated
    /// at once. A driver that serves ports singly serves this one now
    /// ([`Pipeline::run_ports`](crate::single::Pipeline::run_ports)).
    pub fn set_link_rate(&self, port: PortId, speed: BitRate) -> Option<RateChange> {
        let link = &self.port(port).rate;
        if link.of_link() == Some(speed) {
            return None;
        }
        let mut change = RateChange { before: link.get(), policy_follows: true };
        for id in std::iter::once(port).chain(self.clones_of(port)) {
            let state = self.port(id);
            state.rate.set(speed);
            if link.follows() {
                state.regulator.set_rate(speed);
                let rate = PortRate { line: speed, fill: self.charge.fill_rate(speed) };
                change.policy_follows &= self.mmu.set_rate(id, rate);
            }
        }
        self.port(port).note_new_rate();
        link.follows().then_some(change)
    }
}

impl LinkRate {
    /// The rate state of a port with this rate, on a link of this speed, if it is known.
    pub(crate) fn configured(rate: BitRate, link: Option<BitRate>) -> LinkRate {
        LinkRate { rate: rate.as_bps().into(), link: bps(link).into(), follows: false.into(), shaped: true }
    }

    /// The rate state of a port that goes by its link.
    pub(crate) fn of_the_link(link: Option<BitRate>, shaped: bool) -> LinkRate {
        let rate = link.unwrap_or(RATE_UNKNOWN);
        LinkRate { rate: rate.as_bps().into(), link: bps(link).into(), follows: true.into(), shaped }
    }

    fn set(&self, speed: BitRate) {
        self.link.store(speed.as_bps(), Ordering::Relaxed);
        if self.follows() {
            self.rate.store(speed.as_bps(), Ordering::Relaxed);
        }
    }

    /// From now on this rate, or the link's; returns it.
    pub(super) fn configure(&self, rate: Option<BitRate>) -> BitRate {
        let now = rate.or(self.of_link()).unwrap_or(RATE_UNKNOWN);
        self.follows.store(rate.is_none(), Ordering::Relaxed);
        self.rate.store(now.as_bps(), Ordering::Relaxed);
        now
    }

    #[inline]
    pub(crate) fn get(&self) -> BitRate {
        BitRate::bps(self.rate.load(Ordering::Relaxed))
    }

    pub(crate) fn of_link(&self) -> Option<BitRate> {
        let link = self.link.load(Ordering::Relaxed);
        (link > 0).then(|| BitRate::bps(link))
    }

    /// Whether C is the link's speed, whatever that is.
    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }

    /// What the port is shaped to, if to anything.
    pub(crate) fn shaped_to(&self) -> Option<BitRate> {
        if self.follows() { self.of_link().filter(|_| self.shaped) } else { Some(self.get()) }
    }
}

fn bps(rate: Option<BitRate>) -> u64 {
    rate.map_or(0, BitRate::as_bps)
}
