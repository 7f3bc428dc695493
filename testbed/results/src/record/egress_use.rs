//! Bytes in egress queues, of lossless and of lossy classes.

use weir_scenario::Scenario;
use weir_switch_core::Report;
use weir_units::{Bytes, Class, ClassSet};

use super::counts::{ValueCounts, percentile};
use crate::run_dir::EgressUseSummary;

/// Resolution of the statistics, which bounds their memory.
const STEP_BYTES: u64 = 100;

/// Bytes in all egress queues of a switch together, over the samples of the switches with hosts.
#[derive(Debug)]
pub(crate) struct EgressUse {
    /// Number and lossless classes of each switch with hosts, and the bytes that its last report has.
    switches: Vec<(usize, ClassSet, [Bytes; 2])>,
    /// Lengths of lossless queues together, and of lossy ones, in steps.
    held: [ValueCounts; 2],
}

impl EgressUse {
    pub(crate) fn new(scenario: &Scenario) -> EgressUse {
        let has_hosts = |switch: usize| scenario.hosts.iter().any(|host| host.switch == switch);
        let switches = scenario.switches.iter().enumerate().filter(|(switch, _)| has_hosts(*switch));
        EgressUse {
            switches: switches.map(|(switch, config)| (switch, config.classes.lossless, Default::default())).collect(),
            held: Default::default(),
        }
    }

    /// Adds a sample of all switches; `is_new` selects the reports that may have changed since the last one.
    pub(crate) fn record(&mut self, reports: &[Report], is_new: impl Fn(&Report) -> bool) {
        for (switch, lossless, held) in &mut self.switches {
            let report = &reports[*switch];
            if is_new(report) {
                *held = Default::default();
                for port in &report.ports {
                    for (class, of_class) in Class::ALL.into_iter().zip(&port.classes) {
                        held[usize::from(!lossless.contains(class))] += of_class.egress;
                    }
                }
            }
            for (all, now) in self.held.iter_mut().zip(held) {
                *all.entry(now.get() / STEP_BYTES).or_insert(0) += 1;
            }
        }
    }

    /// Summarises the samples; `None` without any.
    pub(crate) fn summary(&self) -> Option<EgressUseSummary> {
        let samples: u64 = self.held[0].values().sum();
        let of = |kind: usize, percent: u32| percentile(&self.held[kind], percent).unwrap_or(0) * STEP_BYTES;
        (samples > 0).then(|| EgressUseSummary {
            samples,
            lossless_p50_bytes: of(0, 50),
            lossless_p99_bytes: of(0, 99),
            lossy_p50_bytes: of(1, 50),
            lossy_p99_bytes: of(1, 99),
        })
    }
}
