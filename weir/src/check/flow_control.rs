//! Derived values of the ports' flow control, from its own description: feedback delays, thresholds, stages, and the link share of
//! messages.

#[cfg(test)]
mod tests;

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_experiments::table::Table;
use weir_flowctl::{Description, DescriptionPart};
use weir_switch_core::BuildError;
use weir_switch_core::flow_control::{RATE_UNKNOWN, flow_control_context, port_flow_control};

use super::{GaugeNamed, gauge_lines};

/// Description of the flow control of some ports.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct FlowControlDescription {
    ports: Vec<String>,
    flow_control: String,
    rate: String,
    parts: Vec<DescriptionBlock>,
    gauges: Vec<GaugeNamed>,
}

/// Part of the description.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum DescriptionBlock {
    Line(String),
    /// Table whose first row is the head.
    Table(Vec<Vec<String>>),
}

/// Returns the non-empty descriptions of the ports' flow control; ports with equal descriptions share one.
pub(super) fn flow_control(switch: &SwitchConfig) -> Result<Vec<FlowControlDescription>, BuildError> {
    // Descriptions without ports, each with its ports' names.
    let mut all: Vec<(FlowControlDescription, Vec<String>)> = Vec::new();
    for port in switch.real_ports() {
        let config = &switch.ports[port];
        let rate = config.rate.unwrap_or(RATE_UNKNOWN);
        port_flow_control(switch, port, rate)?;
        let description = config.flow_control.describe(&flow_control_context(switch, port, rate));
        let described = FlowControlDescription {
            ports: Vec::new(),
            flow_control: config.flow_control.label().to_owned(),
            rate: rate.to_string(),
            parts: description.as_ref().map(blocks).unwrap_or_default(),
            gauges: GaugeNamed::all(config.flow_control.gauges()),
        };
        if described.parts.is_empty() && described.gauges.is_empty() {
            continue;
        }
        let name = config.name.clone();
        match all.iter_mut().find(|(known, _)| *known == described) {
            Some((_, ports)) => ports.push(name),
            None => all.push((described, vec![name])),
        }
    }
    Ok(all.into_iter().map(|(described, ports)| FlowControlDescription { ports, ..described }).collect())
}

fn blocks(description: &Description) -> Vec<DescriptionBlock> {
    let block = |part: &DescriptionPart| match part {
        DescriptionPart::Line(text) => DescriptionBlock::Line(text.clone()),
        DescriptionPart::Table(rows) => DescriptionBlock::Table(rows.clone()),
    };
    description.parts().iter().map(block).collect()
}

/// Returns the descriptions as text.
pub(super) fn text(all: &[FlowControlDescription]) -> String {
    all.iter().map(FlowControlDescription::text).collect()
}

impl FlowControlDescription {
    fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            DescriptionBlock::Line(text) => format!("{text}\n"),
            DescriptionBlock::Table(rows) => {
                let mut rows = rows.iter();
                let mut table = Table::new(rows.next().cloned().unwrap_or_default());
                rows.for_each(|row| table.row(row.clone()));
                table.to_string()
            }
        });
        let head = format!("  {}: {} at {}\n", self.ports.join(", "), self.flow_control, self.rate);
        let lines = parts.collect::<String>().lines().fold(head, |text, line| format!("{text}    {line}\n"));
        lines + &gauge_lines(&self.gauges)
    }
}
