//! Samples of all switches: use of the buffer segments, and the queue nearest to a PAUSE.

use weir_config::SwitchConfig;
use weir_flowctl::MessageKind;
use weir_scenario::{PortRef, Scenario};
use weir_switch_core::Report;
use weir_units::{Bytes, Class, ClassSet, Time};

/// Maxima over the samples of all switches.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Lossless classes of each switch.
    lossless: Vec<ClassSet>,
    /// Most bytes in each switch's private buffers, and in its headroom.
    used: Vec<[Bytes; 2]>,
    nearest: Option<Nearest>,
    samples: u64,
}

/// Ingress queue with the highest ratio of shared occupancy to threshold.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    place: PortRef,
    class: Class,
    at: Time,
    shared: Bytes,
    threshold: Bytes,
}

impl Survey {
    pub(crate) fn new(scenario: &Scenario) -> Survey {
        let lossless = |switch: &SwitchConfig| switch.classes.lossless;
        Survey {
            lossless: scenario.switches.iter().map(lossless).collect(),
            used: vec![[Bytes::ZERO; 2]; scenario.switches.len()],
            nearest: None,
            samples: 0,
        }
    }

    /// Adds a sample of all switches at `at`; `is_new` selects the reports that may have changed since the last one.
    pub(crate) fn record(&mut self, at: Time, reports: &[Report], is_new: impl Fn(&Report) -> bool) {
        self.samples += 1;
        for (switch, report) in reports.iter().enumerate().filter(|(_, report)| is_new(report)) {
            let mut used = [Bytes::ZERO; 2];
            for (port, of_port) in report.ports.iter().enumerate() {
                for (class, of_class) in Class::ALL.into_iter().zip(&of_port.classes) {
                    let ingress = &of_class.ingress;
                    used[0] += ingress.private;
                    used[1] += ingress.headroom;
                    if self.lossless[switch].contains(class) && ingress.shared > Bytes::ZERO {
                        let (shared, threshold) = (ingress.shared, ingress.threshold);
                        let queue = Nearest { place: PortRef { switch, port }, class, at, shared, threshold };
                        if self.nearest.is_none_or(|nearest| queue.is_nearer_than(&nearest)) {
                            self.nearest = Some(queue);
                        }
                    }
                }
            }
            self.used[switch].iter_mut().zip(used).for_each(|(most, now)| *most = now.max(*most));
        }
    }

    /// Returns the highest use of all private buffers of a switch together.
    pub(crate) fn private_max(&self, switch: usize) -> Bytes {
        self.used[switch][0]
    }

    /// Returns the highest use of all headroom of a switch together.
    pub(crate) fn headroom_max(&self, switch: usize) -> Bytes {
        self.used[switch][1]
    }

    /// Describes the queue nearest to a PAUSE, for a run that sent none; `None` without samples, or if no port speaks PFC.
    pub(crate) fn nearest_note(&self, scenario: &Scenario) -> Option<String> {
        let mut ports = scenario.switches.iter().flat_map(|switch| &switch.ports);
        if self.samples == 0 || !ports.any(|port| port.flow_control.message_kind() == MessageKind::Pfc) {
            return None;
        }
        let Some(nearest) = &self.nearest else {
            return Some("no PAUSE was sent: no sample found a lossless queue beyond its private buffer".to_owned());
        };
        let percent = u128::from(nearest.shared.get()) * 100 / u128::from(nearest.threshold.get().max(1));
        Some(format!(
            "no PAUSE was sent: of all samples, the fullest ingress queue reached {percent} % of its threshold ({} class {}, \
             {} of {} at {})",
            scenario.port_name(nearest.place),
            nearest.class.index(),
            nearest.shared,
            nearest.threshold,
            nearest.at.since(Time::ZERO)
        ))
    }
}

impl Nearest {
    fn is_nearer_than(&self, other: &Nearest) -> bool {
        let product = |shared: Bytes, threshold: Bytes| u128::from(shared.get()) * u128::from(threshold.get());
        product(self.shared, other.threshold) > product(other.shared, self.threshold)
    }
}
