//! Metrics of buffer policies, and of flow controls other than PFC's.

use std::fmt;

use prometheus_client::registry::Unit;

use super::families::{Families, Labels, class_labels, labels};
use super::{Metrics, SwitchMetrics};
use crate::state::{FlowControlPort, PolicyQueue};

impl Metrics {
    pub(super) fn policies(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        let queues = || self.switches.iter().flat_map(|switch| switch.policy.queues.iter().map(move |of| (switch, of)));
        let of = |switch: &SwitchMetrics, queue: &PolicyQueue| class_labels(&switch.switch, &queue.port, queue.class);
        let off = queues().map(|(switch, queue)| (of(switch, queue), u64::from(queue.off)));
        families.gauge("weir_policy_off", "Whether the sender of the ingress queue is to pause.", None, off)?;
        let gauges = queues().flat_map(|(switch, queue)| {
            queue.gauges.iter().map(move |(gauge, value)| {
                let mut labels = of(switch, queue);
                labels.push(("gauge", gauge.clone()));
                (labels, *value)
            })
        });
        let help = "What the buffer policy lets be seen of the ingress queue, as `weir show` names it.";
        families.gauge("weir_policy_gauge", help, None, gauges)
    }

    pub(super) fn flow_controls(&self, families: &mut Families<'_, '_>) -> fmt::Result {
        type Count = fn(&FlowControlPort) -> u64;
        let counters: [(&str, &str, Count); 6] = [
            ("weir_flow_control_rx_messages", "Messages of GFC or CBFC received.", |port| port.messages_rx),
            ("weir_flow_control_tx_messages", "Messages of GFC or CBFC sent.", |port| port.messages_tx),
            ("weir_flow_control_odd", "Invalid messages that were obeyed.", |port| port.invalid),
            ("weir_flow_control_foreign", "Messages of another flow control.", |port| port.foreign),
            (
                "weir_flow_control_aged",
                "How often the peer's word aged, and a class went on at the line rate.",
                |port| port.aged,
            ),
            ("weir_flow_control_resyncs", "How often counts of credit were set anew.", |port| port.resyncs),
        ];
        for (name, help, count) in counters {
            families.counter(
                name,
                help,
                None,
                self.flow_control_ports().map(|(labels, port)| (labels, count(port))),
            )?;
        }
        let rates = self.flow_control_ports().flat_map(|(labels, port)| {
            port.classes.iter().filter_map(move |class| {
                let mut labels = labels.clone();
                labels.push(("priority", class.class.to_string()));
                Some((labels, class.rate_rx_bps? / 8))
            })
        });
        let help = "The rate that the peer sets the class, in bytes per second.";
        families.gauge("weir_flow_control_rate", help, Some(Unit::Bytes), rates)
    }

    /// Ports under other flow controls than PFC and PAUSE, with the labels of their values.
    fn flow_control_ports(&self) -> impl Iterator<Item = (Labels, &FlowControlPort)> {
        self.switches.iter().flat_map(|switch| {
            let of = |port: &FlowControlPort| {
                labels([("switch", &switch.switch), ("port", &port.port), ("flow_control", &port.flow_control)])
            };
            switch.flow_control.iter().map(move |port| (of(port), port))
        })
    }
}
