//! What follows from the ports' flow control, as each says it of itself: feedback delays, thresholds, stages, and what messages take
//! of the link.

#[cfg(test)]
mod tests;

use weir_config::SwitchConfig;
use weir_experiments::table::{Table, put_together};
use weir_flowctl::{Description, Part};
use weir_switch_core::BuildError;
use weir_switch_core::flow_control::{RATE_UNKNOWN, controlled_port, mechanism};

use super::gauge_lines;

/// Each port whose flow control has something to say, those that have the same put together.
pub(super) fn flow_control(switch: &SwitchConfig) -> Result<String, BuildError> {
    let mut described = Vec::new();
    for port in switch.real_ports() {
        let config = &switch.ports[port];
        let rate = config.rate.unwrap_or(RATE_UNKNOWN);
        mechanism(switch, port, rate)?;
        let description = config.flow_control.describe(&controlled_port(switch, port, rate));
        let text = description.as_ref().map(lines).unwrap_or_default() + &gauge_lines(config.flow_control.gauges());
        if !text.is_empty() {
            described.push((format!("{} at {rate}\n{text}", config.flow_control.name()), config.name.as_str()));
        }
    }
    Ok(put_together(described).iter().fold(String::new(), |text, (what, names)| format!("{text}  {names}: {what}")))
}

fn lines(description: &Description) -> String {
    let parts = description.parts().iter().map(|part| match part {
        Part::Line(text) => format!("{text}\n"),
        Part::Table(rows) => {
            let mut rows = rows.iter();
            let mut table = Table::new(rows.next().cloned().unwrap_or_default());
            rows.for_each(|row| table.row(row.clone()));
            table.to_string()
        }
    });
    parts.collect::<String>().lines().fold(String::new(), |text, line| format!("{text}    {line}\n"))
}
