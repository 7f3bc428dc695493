//! Real host of a run.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_scenario::{HostBackend, RealHost};

use crate::HostError;
use crate::access::Access;
use crate::guest::CommandOutput;
use crate::netns;
use crate::probe::{self, ProbeResult};
use crate::script::CLOCK;

/// Timeout of a short command: on a guest emulated together with others, on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(180);
const CLOCK_READINGS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub name: String,
    pub plan: RealHost,
    pub access: Access,
    pub ip: Ipv4Addr,
    pub interface: String,
}

/// Offset between a host's clock and this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    here: Instant,
    /// Host's clock at `here`, in hundredths of a second.
    there: u64,
}

impl Host {
    pub(crate) fn new(name: &str, plan: &RealHost, access: Access, ip: Ipv4Addr) -> Host {
        let (interface, ip) = match &plan.backend {
            HostBackend::Vm { .. } | HostBackend::Netns => (netns::INTERFACE, ip),
            HostBackend::Ssh { interface, ip: own, .. } => (interface.as_str(), own.unwrap_or(ip)),
        };
        Host { name: name.to_owned(), plan: plan.clone(), access, ip, interface: interface.to_owned() }
    }

    fn wanted_rdma(&self) -> Option<&str> {
        match &self.plan.backend {
            HostBackend::Ssh { rdma, .. } => rdma.as_deref(),
            _ => None,
        }
    }

    /// Runs a script to its end; returns any exit code.
    pub(crate) fn run(
        &self,
        script: &str,
        within: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<CommandOutput, HostError> {
        // Root's tools, which not every login's PATH has.
        let script = format!("export PATH=$PATH:/usr/sbin:/sbin; {script}");
        self.access.run(&script, within, stop).map_err(|why| HostError::for_host(&self.name, why))
    }

    /// Runs a short script that must not fail.
    pub(crate) fn must(&self, script: &str, what: &str, stop: &Arc<AtomicBool>) -> Result<String, HostError> {
        let ended = self.run(script, SHORT, stop)?;
        if ended.code != 0 {
            return Err(HostError::for_host(&self.name, format!("{what}: {}", ended.output.trim())));
        }
        Ok(ended.output)
    }

    pub(crate) fn probe(&self, stop: &Arc<AtomicBool>) -> Result<ProbeResult, HostError> {
        let script = probe::script(&self.interface, self.wanted_rdma(), self.ip);
        Ok(probe::parse(&self.run(&script, SHORT, stop)?.output))
    }

    /// Reads the host's clock relative to this machine's.
    pub(crate) fn clock(&self, stop: &Arc<AtomicBool>) -> Result<HostClock, HostError> {
        let mut best: Option<(Duration, HostClock)> = None;
        for _ in 0..CLOCK_READINGS {
            let asked = Instant::now();
            let text = self.must(CLOCK, "its clock", stop)?;
            let took = asked.elapsed();
            let there = text
                .trim()
                .parse()
                .map_err(|_| HostError::for_host(&self.name, format!("invalid clock: {}", text.trim())))?;
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, HostClock { here: asked + took / 2, there }));
            }
        }
        Ok(best.expect("it was read").1)
    }
}

impl HostClock {
    /// Returns the host's clock at an instant of this machine, in hundredths of a second.
    pub(crate) fn time_at(&self, instant: Instant) -> u64 {
        let later = instant.saturating_duration_since(self.here).as_millis() as u64 / 10;
        let earlier = self.here.saturating_duration_since(instant).as_millis() as u64 / 10;
        (self.there + later).saturating_sub(earlier)
    }
}
