//! Closed form of GFC's thresholds at a port and its text: terms of τ, bounds, and share of the link taken by messages.

use weir_reader::{Key, Problem};
use weir_units::{BitRate, Bytes, FCS_BYTES, FRAME_BYTES_MIN, LINK_OVERHEAD, Span, WIRE_OVERHEAD_BYTES, count};

use crate::cbfc::Advertiser;
use crate::gfc::{RateMapping, ThresholdError};
use crate::keys::{LENGTHS, PERIODS};
use crate::{ConfigRejection, Description, FlowControlContext, PortCheck, wire_bytes};

/// Key of τ, for all kinds of GFC.
pub(crate) const TAU: Key<Span> = Key::time(
    "tau",
    Span::from_nanos(1)..=Span::from_secs(1),
    "τ: maximum delay from a queue's growth to arrivals at the new rate",
)
.or_else("2 MTU/C + 2 D_prop + `[pfc] reaction`, plus a NIC's transmit backlog");
/// Key of B_m, for all kinds of GFC.
pub(crate) const B_M: Key<Bytes> =
    Key::size("b_m", LENGTHS, "B_m: maximum length of an ingress queue").or_else(LIMIT_BY_DEFAULT);
/// Default of B_m, and of CBFC's buffer.
pub(crate) const LIMIT_BY_DEFAULT: &str = "under `static` what the buffer keeps for a queue (`private`, \
     `threshold` and headroom, each less a maximum frame, in whole cells); under other policies required";
/// Key of the lifetime of a GFC message.
pub(crate) const AGEING: Key<Span> = Key::time(
    "ageing",
    Span::from_micros(1)..=Span::from_secs(1_000),
    "lifetime of the peer's messages, after which classes return to the line rate; at least 4 times `refresh`",
)
.or_else("64 times `refresh`; with its default that is PFC's longest PAUSE, 3.36 ms at 10 Gb/s");
/// Key that permits thresholds which break their theorem.
pub(crate) const UNSAFE_THRESHOLDS: Key<bool> = Key::boolean(
    "unsafe_thresholds",
    "whether B_1 or B_0 may be above the highest safe one, and B_m above what the buffer keeps; frames can then be lost",
)
.or("false");
/// Key that stops the sender at B_m, in place of the least rate.
pub(crate) const STOP_AT_B_M: Key<bool> = Key::boolean(
    "stop_at_b_m",
    "whether a queue of length B_m [stops its sender](FLOW_CONTROL.md#gfc-beyond-b_m), which otherwise keeps the \
     least rate",
)
.or("false");
/// Key of the refresh period of GFC messages.
pub(crate) const REFRESH: Key<Span> =
    Key::time("refresh", PERIODS, "time after which a stage or length that has not changed is sent again")
        .or_else(PERIOD_BY_DEFAULT);
/// Default of the time between two periodic messages.
pub(crate) const PERIOD_BY_DEFAULT: &str = "65,535 byte times at the port's rate";

/// Default of `ageing`, in refresh periods. With the default refresh of 65,535 byte times this is the longest PAUSE of PFC:
/// 65,535 quanta of 64 B.
const AGEING_REFRESHES: u64 = 64;
/// Least `ageing`, in refresh periods, so that lost messages do no harm.
const AGEING_REFRESHES_MIN: u64 = 4;

/// Terms of a port's τ under GFC (gfc eq. 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackDelay {
    /// Configured value, which replaces the rule; without [`FeedbackDelay::period`].
    pub given: Option<Span>,
    /// 2·MTU/C: one frame in serialisation at each end, as on a real wire.
    pub frames: Span,
    /// 2·D_prop: propagation delay to the peer and back.
    pub wire: Span,
    /// `[pfc] reaction`: time to make and obey a message.
    pub reaction: Span,
    /// [`FlowControlContext::tx_backlog`].
    pub tx_backlog: Span,
    /// Longest wait of a change for its message. P toward a peer that only knows PFC; T, the shortest time between two messages,
    /// in conceptual GFC.
    pub period: Span,
}

impl FeedbackDelay {
    /// Computes the terms for a port.
    pub fn for_port(port: &FlowControlContext, given: Option<Span>, period: Span) -> FeedbackDelay {
        let frame = wire_bytes((port.frame_max.get() - FCS_BYTES) as u32, LINK_OVERHEAD);
        FeedbackDelay {
            given,
            frames: port.rate.time_for(frame) * 2,
            wire: port.delay * 2,
            reaction: port.reaction,
            tx_backlog: port.tx_backlog,
            period,
        }
    }

    /// Returns the rule's τ without the period: `2·MTU/C + 2·D_prop + reaction`, and a NIC's transmit backlog.
    pub fn by_rule(&self) -> Span {
        self.frames + self.wire + self.reaction + self.tx_backlog
    }

    /// Returns τ, period included.
    pub fn total(&self) -> Span {
        self.given.unwrap_or(self.by_rule()) + self.period
    }

    /// Formats τ with its terms; `period` is the name of the last term in the paper or in Weir.
    fn shown(&self, period: &str) -> String {
        let mut rule = format!("2 MTU/C {} + 2 D_prop {} + reaction {}", self.frames, self.wire, self.reaction);
        if self.tx_backlog > Span::ZERO {
            rule += &format!(" + transmit backlog {}", self.tx_backlog);
        }
        let waits = if self.period > Span::ZERO { format!(" + {period} {}", self.period) } else { String::new() };
        match self.given {
            None => format!("τ = {} by the rule: {rule}{waits}", self.total()),
            Some(given) => {
                let sum = if waits.is_empty() { String::new() } else { format!(": {given}{waits}") };
                format!(
                    "τ = {} as configured{sum}; the rule asks for {}: {rule}{waits}",
                    self.total(),
                    self.by_rule() + self.period
                )
            }
        }
    }
}

/// Theorem that a threshold of a port obeys, with its bound.
pub(crate) struct ThresholdBound<'p, F> {
    pub port: &'p FlowControlContext,
    pub delay: FeedbackDelay,
    /// Key of the threshold in the file.
    pub key: &'static str,
    pub symbol: &'static str,
    /// Bound as a formula, for `weir check`.
    pub formula: &'static str,
    /// Highest safe threshold below a given B_m; `None` if there is none.
    pub highest_below: F,
    /// Configured B_m.
    pub b_m: Option<Bytes>,
    /// Name of [`FeedbackDelay::period`] in the paper or in Weir.
    pub period: &'static str,
}

impl<F: Fn(Bytes) -> Option<Bytes>> ThresholdBound<'_, F> {
    /// Returns the highest safe threshold; `None` where the buffer is too small for any.
    pub(crate) fn highest(&self) -> Option<Bytes> {
        (self.highest_below)(self.port.limit)
    }

    /// Returns the bytes that must be free above the threshold, for any B_m: 2Cτ, 4Cτ, or (√(τ/T) + 1)²·C·T.
    fn kept_free(&self) -> Option<Bytes> {
        let any = Bytes::new(u64::MAX);
        Some(any - (self.highest_below)(any)?)
    }

    /// Builds the rejection of a threshold, with a hint.
    pub(crate) fn rejection(&self, error: ThresholdError) -> ConfigRejection {
        let key = self.key;
        let (bound, highest) = match error {
            ThresholdError::NotBelowBuffer => ("", None),
            ThresholdError::Theorem41 { highest } => ("B_m - 4 C tau (GFC, theorem 4.1)", highest),
            ThresholdError::Equation5 { highest } => ("B_m - 2 C tau (GFC, equation 5)", highest),
            ThresholdError::Theorem51 { highest } => ("B_m - (sqrt(tau/T) + 1)^2 C T (GFC, theorem 5.1)", highest),
        };
        let message = match (error, highest) {
            (ThresholdError::NotBelowBuffer, _) => format!("`{key}` is not below `b_m`"),
            (_, Some(highest)) => format!("`{key}` is above {bound}, which is {highest}: the buffer may overflow"),
            (_, None) => format!("no `{key}` keeps to {bound}: the buffer is too small for this feedback delay"),
        };
        let help = match (highest, self.kept_free()) {
            (Some(highest), _) => format!("write {key} = \"{highest}\" or less"),
            (None, Some(free)) => {
                format!("b_m must be above {free}: make it larger (or `threshold` in [buffer.static]), or tau smaller")
            }
            (None, None) => "make b_m larger or tau smaller".to_owned(),
        };
        ConfigRejection { key, message, help: help + FOR_AN_EXPERIMENT }
    }

    /// Describes τ, B_m, and B_1 or B_0 with its bound.
    pub(crate) fn describe(&self, threshold: Bytes) -> Description {
        let formula = self.formula;
        let safe = match self.highest() {
            Some(highest) => {
                let is_safe = if threshold > highest { "UNSAFE, above" } else { "safe up to" };
                format!("{is_safe} {formula} = {} B", count(highest.get()))
            }
            None => format!("UNSAFE: no threshold is safe, since {formula} is negative"),
        };
        Description::default()
            .line(self.delay.shown(self.period))
            .line(format!("B_m = {} B{}", count(self.port.limit.get()), limit_from(self.b_m)))
            .line(format!("{} = {} B, {safe}", self.symbol, count(threshold.get())))
    }

    /// Warns of a τ below the rule, and of thresholds declared unsafe, needed or not. `threshold` is the one in force, if any.
    pub(crate) fn warnings(&self, threshold: Option<Bytes>, is_unsafe: bool) -> Vec<String> {
        let short = self.delay.given.filter(|given| *given < self.delay.by_rule()).map(|given| {
            format!(
                "tau {given} is less than the {} that the rule asks for (2 MTU/C + 2 D_prop + reaction): with the real delay, thresholds \
                 that look safe may not be",
                self.delay.by_rule()
            )
        });
        let declared = threshold.filter(|_| is_unsafe).map(|threshold| {
            let above = self.highest().is_none_or(|highest| threshold > highest);
            let above = above.then(|| format!("{} is above the highest that is safe", self.symbol));
            let longer =
                (!self.port.has_room).then(|| "B_m and a frame are more than the buffer keeps for a queue".to_owned());
            let reasons: Vec<String> = above.into_iter().chain(longer).collect();
            if reasons.is_empty() {
                "unsafe_thresholds without need: its thresholds are safe".to_owned()
            } else {
                format!("unsafe_thresholds: {}, so lossless frames can be lost", reasons.join("; "))
            }
        });
        short.into_iter().chain(declared).collect()
    }
}

/// Returns the lifetime of a message that is not repeated, configured or by default.
pub(crate) fn ageing(given: Option<Span>, refresh: Span) -> Span {
    given.unwrap_or(refresh * AGEING_REFRESHES)
}

/// Checks that `ageing` outlasts several refreshes, so that lost messages do no harm. `key` names the time between two messages.
pub(crate) fn outlives_its_refresh(port: &PortCheck<'_>, ageing: Option<Span>, key: &str, given: Option<Span>) {
    let (Some(ageing), Some(rate)) = (ageing, port.rate) else { return };
    let refresh = given.unwrap_or_else(|| Advertiser::period_by_default(rate));
    let least = refresh * AGEING_REFRESHES_MIN;
    if ageing >= least || !port.doc.sound(&[&port.key("ageing"), &port.key(key)]) {
        return;
    }
    let from = if given.is_some() { "" } else { " (the default)" };
    let message = format!(
        "`ageing` {ageing} is less than {AGEING_REFRESHES_MIN} times `{key}` {refresh}{from}: a peer that is still there would be \
         taken for gone"
    );
    let problem =
        Problem::new(message, format!("write ageing = \"{}\" or more, or a shorter {key}", as_shown(least.as_picos())));
    port.doc
        .note(problem.with_label(port.key("ageing"), "").with_label(port.key(key), "the time between two messages"));
}

/// Rounds a time up to the three decimals that are shown of it.
pub(crate) fn as_shown(picos: u64) -> Span {
    let mut step = 1;
    while picos / step >= 1_000_000 {
        step *= 1_000;
    }
    Span::from_picos(picos.div_ceil(step) * step)
}

/// Adds a line on [`STOP_AT_B_M`], if set.
pub(crate) fn stops(description: Description, stop_at_b_m: bool) -> Description {
    if !stop_at_b_m {
        return description;
    }
    description.line("at B_m the sender stops: no frame is lost, and hold and wait may come back".to_owned())
}

/// Returns the note on a limit that is not configured.
pub(crate) fn limit_from(given: Option<Bytes>) -> &'static str {
    if given.is_some() { "" } else { ", what the buffer keeps for a queue less a frame" }
}

/// Tabulates R(q) from B_0 to B_m.
pub(crate) fn rate_rows(mapping: &RateMapping) -> Vec<Vec<String>> {
    let range = (mapping.b_m() - mapping.b_0()).get();
    let row = |sixteenths: u128| {
        let queue = mapping.b_0() + Bytes::new((u128::from(range) * sixteenths / 16) as u64);
        vec![count(queue.get()), mapping.rate(queue).to_string()]
    };
    let head = vec!["Queue q B".to_owned(), "Rate R(q)".to_owned()];
    std::iter::once(head).chain([0, 4, 8, 12, 14, 15, 16].map(row)).collect()
}

/// Formats the share of the link taken by one message each `span`; at most 100 %.
pub(crate) fn share(rate: BitRate, span: Span) -> String {
    let bits = rate.as_bps() as f64 * span.as_secs_f64();
    format!("{:.3} % of the link", (MESSAGE.get() as f64 * 8.0 * 100.0 / bits).min(100.0))
}

/// Rejects a time between two messages, by its key, in which they take more than half of the link.
pub(super) fn check_share(key: &'static str, rate: BitRate, period: Span) -> Result<(), ConfigRejection> {
    let least = rate.time_for(MESSAGE) * 2;
    if period >= least {
        return Ok(());
    }
    let message = format!("a message each `{key}`, {period}, takes more than half of the link");
    Err(ConfigRejection { key, message, help: format!("write {key} = \"{}\" or more", as_shown(least.as_picos())) })
}

/// Formats the line on control overhead.
pub(crate) fn overhead_text(messages: &str) -> String {
    format!("messages of {} B on the wire: {messages}", MESSAGE.get())
}

/// Formats the line on a message's lifetime.
pub(crate) fn ageing_text(ageing: Span) -> String {
    format!("ageing: back to the line rate after {ageing} without a message")
}

/// Size of a message on the wire: the smallest frame with FCS, preamble and gap.
pub(super) const MESSAGE: Bytes = Bytes::new(FRAME_BYTES_MIN + WIRE_OVERHEAD_BYTES);

/// Texts for a silent peer, and for a queue that overflows, at a port under GFC.
pub(crate) const SILENCE: &str = "its classes are sent at the line rate";
pub(crate) const OVERRUN: (&str, &str) =
    ("a queue exceeded b_m", "does the peer speak GFC with the same thresholds, and is tau right?");

/// Hint appended to errors where frames may be lost on purpose.
pub const FOR_AN_EXPERIMENT: &str = "; for an experiment that may lose frames, unsafe_thresholds = true";
