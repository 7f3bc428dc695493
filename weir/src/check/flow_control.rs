//! What follows from the ports' flow control: feedback delays, thresholds, stages, and what messages take of the link.

#[cfg(test)]
mod tests;

use weir_config::SwitchConfig;
use weir_experiments::table::{Table, count, put_together};
use weir_flowctl::cbfc::BLOCK;
use weir_flowctl::gfc::{Mapping, Pulse, StageTable};
use weir_flowctl::{Mechanism, Quantum};
use weir_switch_core::BuildError;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_switch_core::flow_control::{FeedbackDelay, highest_threshold, mechanism, queue_limit};
use weir_units::{BitRate, Bytes, FRAME_BYTES_MIN, Span, WIRE_OVERHEAD_BYTES};

/// What a message takes on the wire: the smallest frame with FCS, preamble and gap.
const MESSAGE: Bytes = Bytes::new(FRAME_BYTES_MIN + WIRE_OVERHEAD_BYTES);

/// Each port under GFC or CBFC, those that have the same put together; nothing of the others.
pub(super) fn flow_control(switch: &SwitchConfig) -> Result<String, BuildError> {
    let mut described = Vec::new();
    for port in switch.real_ports() {
        if let Some(text) = Speaker::of(switch, port)?.describe() {
            described.push((text, switch.ports[port].name.as_str()));
        }
    }
    Ok(put_together(described).iter().fold(String::new(), |text, (what, names)| format!("{text}  {names}: {what}")))
}

/// B_1 or B_0 by its name, under GFC.
pub(super) fn lowest_threshold(mechanism: &Mechanism) -> Option<(&'static str, Bytes)> {
    match mechanism {
        Mechanism::GfcBuffer { stages, .. } | Mechanism::GfcPulse { stages, .. } => Some(("B_1", stages.start(1)?)),
        Mechanism::GfcConceptual { mapping, .. } | Mechanism::GfcTime { mapping, .. } => Some(("B_0", mapping.b_0())),
        Mechanism::None | Mechanism::Pfc { .. } | Mechanism::Pause { .. } | Mechanism::Cbfc { .. } => None,
    }
}

/// A port and what it speaks.
struct Speaker<'c> {
    switch: &'c SwitchConfig,
    port: usize,
    rate: BitRate,
    mechanism: Mechanism,
}

impl Speaker<'_> {
    fn of(switch: &SwitchConfig, port: usize) -> Result<Speaker<'_>, BuildError> {
        let rate = switch.ports[port].rate.unwrap_or(RATE_UNKNOWN);
        Ok(Speaker { switch, port, rate, mechanism: mechanism(switch, port, rate)? })
    }

    /// All lines but for the ports' names; `None` where nothing is to be said.
    fn describe(&self) -> Option<String> {
        let lines = match &self.mechanism {
            Mechanism::None | Mechanism::Pfc { .. } | Mechanism::Pause { .. } => return None,
            Mechanism::GfcBuffer { stages, refresh, ageing } => {
                let (changing, at_rest) = (self.share(self.delay().total()), self.share(*refresh));
                let messages = format!(
                    "{changing} with one per τ while stages change, as the paper reckons; {at_rest} with one each {refresh} at rest; \
                     more if a queue swings about the start of a stage"
                );
                self.gfc("B_m - 2 C τ") + &self.stages(stages, None) + &told(&messages) + &ages(*ageing)
            }
            Mechanism::GfcPulse { stages, period } => {
                self.gfc("B_m - 2 C τ")
                    + &format!(
                        "pulses: a pause of P (1 - R_k/C) in each period P = {period}, none longer than {} ({} quanta); P is part \
                         of τ\n",
                        longest_pause(*period),
                        count(u64::from(Quantum::at(self.rate).in_span(longest_pause(*period))))
                    )
                    + &self.stages(stages, Some(*period))
                    + &told(&format!("{} with one per P, none while all queues are below B_1", self.share(*period)))
            }
            Mechanism::GfcConceptual { mapping, period, refresh, ageing } => {
                let (changing, at_rest) = (self.share(*period), self.share(*refresh));
                let messages = format!(
                    "{changing} with one per T while lengths change; {at_rest} with one each {refresh} at rest"
                );
                self.gfc("B_m - 4 C τ")
                    + &format!("T = {period} between two messages at least; it is part of τ\n{}", mapped(mapping))
                    + &told(&messages)
                    + &ages(*ageing)
            }
            Mechanism::GfcTime { mapping, period, ageing, .. } => {
                self.gfc("B_m - (√(τ/T) + 1)² C T")
                    + &format!("T = {period}\n{}", mapped(mapping))
                    + &told(&format!("{} with one per T", self.share(*period)))
                    + &ages(*ageing)
            }
            Mechanism::Cbfc { buffer, period } => {
                let blocks = format!("{} blocks of {} B", count(buffer.get() / BLOCK.get()), BLOCK.get());
                format!("buffer = {} B{}: {blocks}\nT = {period}\n", count(buffer.get()), self.limit_from())
                    + &told(&format!("{} with one per T", self.share(*period)))
            }
        };
        let name = self.switch.ports[self.port].flow_control.name();
        let lines = lines.lines().fold(String::new(), |text, line| format!("{text}    {line}\n"));
        Some(format!("{name} at {}\n{lines}", self.rate))
    }

    fn delay(&self) -> FeedbackDelay {
        FeedbackDelay::of(self.switch, self.port, self.rate)
    }

    /// τ, B_m, and B_1 or B_0 beside its bound.
    fn gfc(&self, bound: &str) -> String {
        let (key, threshold) = lowest_threshold(&self.mechanism).unwrap_or_default();
        let limit = queue_limit(self.switch, self.port).unwrap_or_default();
        let is_conceptual = matches!(self.mechanism, Mechanism::GfcConceptual { .. });
        let safe = match highest_threshold(self.switch, self.port, self.rate) {
            Some(highest) => {
                let is_safe = if threshold > highest { "UNSAFE, above" } else { "safe up to" };
                format!("{is_safe} {bound} = {} B", count(highest.get()))
            }
            None => format!("UNSAFE, as any is: B_m is less than what {bound} takes off"),
        };
        format!(
            "{}B_m = {} B{}\n{key} = {} B, {safe}\n",
            feedback_delay(&self.delay(), if is_conceptual { "T" } else { "P" }),
            count(limit.get()),
            self.limit_from(),
            count(threshold.get())
        )
    }

    fn limit_from(&self) -> &'static str {
        let given = self.switch.ports[self.port].flow_control.limit().and_then(|(_, given)| given);
        if given.is_some() { "" } else { ", what the buffer keeps for a queue less a frame" }
    }

    /// The first stages and the last; with pulses of this period, their pauses.
    fn stages(&self, stages: &StageTable, pulses: Option<Span>) -> String {
        let pause = pulses.map(|_| "Pause in each P");
        let mut table = Table::new(["Stage k", "From B_k B", "Rate R_k"].into_iter().chain(pause));
        for stage in 0..=stages.stages() {
            let rate = stages.rate(stage);
            let pause = pulses.map(|period| (period - at_rate(period, rate, self.rate)).min(longest_pause(period)));
            if stage <= STAGES_SHOWN || stage == stages.stages() {
                let start = stages.start(stage).unwrap_or(Bytes::ZERO);
                let cells = [stage.to_string(), count(start.get()), rate.to_string()];
                table.row(cells.into_iter().chain(pause.map(|pause| pause.to_string())));
            } else if stage == STAGES_SHOWN + 1 {
                table.row(["…"; 4].into_iter().take(3 + usize::from(pulses.is_some())));
            }
        }
        format!("N = {} stages\n{table}", stages.stages())
    }

    /// What messages take of the link, one in each span. More than all of it they can't.
    fn share(&self, span: Span) -> String {
        let bits = self.rate.as_bps() as f64 * span.as_secs_f64();
        format!("{:.3} % of the link", (MESSAGE.get() as f64 * 8.0 * 100.0 / bits).min(100.0))
    }
}

/// τ with its terms; `period` is what the paper or Weir calls the last one.
fn feedback_delay(delay: &FeedbackDelay, period: &str) -> String {
    let rule = format!("2 MTU/C {} + 2 D_prop {} + reaction {}", delay.frames, delay.wire, delay.reaction);
    let waits = if delay.period > Span::ZERO { format!(" + {period} {}", delay.period) } else { String::new() };
    match delay.given {
        None => format!("τ = {} by the rule: {rule}{waits}\n", delay.total()),
        Some(given) => {
            let sum = if waits.is_empty() { String::new() } else { format!(": {given}{waits}") };
            format!(
                "τ = {} as configured{sum}; the rule asks for {}: {rule}{waits}\n",
                delay.total(),
                delay.by_rule() + delay.period
            )
        }
    }
}

fn told(messages: &str) -> String {
    format!("messages of {} B on the wire: {messages}\n", MESSAGE.get())
}

fn ages(ageing: Span) -> String {
    format!("ageing: back to the line rate after {ageing} without a message\n")
}

/// R(q) from B_0 to B_m.
fn mapped(mapping: &Mapping) -> String {
    let mut table = Table::new(["Queue q B", "Rate R(q)"]);
    let range = (mapping.b_m() - mapping.b_0()).get();
    for sixteenths in [0, 4, 8, 12, 14, 15, 16] {
        let queue = mapping.b_0() + Bytes::new((u128::from(range) * sixteenths / 16) as u64);
        table.row([count(queue.get()), mapping.rate(queue).to_string()]);
    }
    table.to_string()
}

/// The longest pause that a period has.
fn longest_pause(period: Span) -> Span {
    period - Pulse::open_at_least(period)
}

/// The part of a period that a class of this rate runs.
fn at_rate(period: Span, rate: BitRate, line: BitRate) -> Span {
    let picos = u128::from(period.as_picos()) * u128::from(rate.as_bps()) / u128::from(line.as_bps());
    Span::from_picos(picos as u64)
}

/// Stages above stage 0 that are shown, beside the last.
const STAGES_SHOWN: u16 = 8;
