//! Rate C of a port and the speed of its link, both changeable at run time.
//!
//! A port whose configuration has a `rate` keeps it. Any other port has its link's speed, set by [`Shared::set_link_rate`]. Pause quanta,
//! queue limits, the shaper (where the port is [shaped to its link](crate::PortInfo::shaped)), thresholds of policies that depend on C,
//! and telemetry follow. The buffer's partition, headroom, and GFC's and CBFC's parameters depend on configured rates and sizes alone.

use weir_mmu::policy::PortRate;
use weir_units::{BitRate, PortId};

use crate::Shared;
use crate::flow_control::RATE_UNKNOWN;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Rate state of a port, written by the control thread and read by all. Relaxed: independent numbers; the transmitter is notified
/// separately.
#[derive(Debug)]
pub(crate) struct LinkRate {
    /// Rate C, in b/s.
    rate: AtomicU64,
    /// Speed of the link in b/s; 0 while unknown.
    link: AtomicU64,
    /// True if C follows the link's speed.
    follows: AtomicBool,
    /// True if the port is shaped while C follows the link.
    shaped: bool,
}

/// Change of a port's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// Previous C; equal to the new one if the link has the assumed speed.
    pub before: BitRate,
    /// Whether the buffer's policy uses the new rate. It can't if its counter can't hold a window of that many bytes.
    pub policy_follows: bool,
}

impl Shared {
    /// Sets the speed of a port's link, from the control thread. Returns the change of rate of a port without a configured one; `None` if
    /// the speed is not new, and for a port with a rate.
    ///
    /// Lcores take it over without waiting for each other. A received pause in progress keeps its end; a sent one is refreshed at once. A
    /// driver that serves ports singly must serve this port now ([`Pipeline::run_ports`](crate::single::Pipeline::run_ports)).
    pub fn set_link_rate(&self, port: PortId, speed: BitRate) -> Option<RateChange> {
        let link = &self.port(port).rate;
        if link.link_speed() == Some(speed) {
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
        self.port(port).mark_new_rate();
        link.follows().then_some(change)
    }
}

impl LinkRate {
    /// Returns the state of a port with a configured rate; `link` is the link's speed, if known.
    pub(crate) fn configured(rate: BitRate, link: Option<BitRate>) -> LinkRate {
        LinkRate { rate: rate.as_bps().into(), link: bps(link).into(), follows: false.into(), shaped: true }
    }

    /// Returns the state of a port that follows its link.
    pub(crate) fn following_link(link: Option<BitRate>, shaped: bool) -> LinkRate {
        let rate = link.unwrap_or(RATE_UNKNOWN);
        LinkRate { rate: rate.as_bps().into(), link: bps(link).into(), follows: true.into(), shaped }
    }

    fn set(&self, speed: BitRate) {
        self.link.store(speed.as_bps(), Ordering::Relaxed);
        if self.follows() {
            self.rate.store(speed.as_bps(), Ordering::Relaxed);
        }
    }

    /// Sets a fixed rate, or `None` for the link's; returns the new C.
    pub(super) fn configure(&self, rate: Option<BitRate>) -> BitRate {
        let now = rate.or(self.link_speed()).unwrap_or(RATE_UNKNOWN);
        self.follows.store(rate.is_none(), Ordering::Relaxed);
        self.rate.store(now.as_bps(), Ordering::Relaxed);
        now
    }

    #[inline]
    pub(crate) fn get(&self) -> BitRate {
        BitRate::bps(self.rate.load(Ordering::Relaxed))
    }

    pub(crate) fn link_speed(&self) -> Option<BitRate> {
        let link = self.link.load(Ordering::Relaxed);
        (link > 0).then(|| BitRate::bps(link))
    }

    /// True if C follows the link's speed.
    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }

    /// Returns the rate to which the port is shaped, if any.
    pub(crate) fn shaped_to(&self) -> Option<BitRate> {
        if self.follows() { self.link_speed().filter(|_| self.shaped) } else { Some(self.get()) }
    }
}

fn bps(rate: Option<BitRate>) -> u64 {
    rate.map_or(0, BitRate::as_bps)
}
