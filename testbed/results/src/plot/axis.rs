//! Axes as drawn: range, ticks and labels.

use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::geometry::Range;
use super::text_width::text_width;
use super::{Scale, TICK, px};

/// Axis with its range and ticks. A position is a value, or its logarithm on a logarithmic axis.
#[derive(Clone)]
pub(super) struct Axis {
    /// Positions at the ends of the axis.
    range: Range,
    ticks: Vec<Tick>,
}

/// Labelled number or name on an axis.
#[derive(Clone)]
struct Tick {
    at: f64,
    label: String,
}

/// Length of an axis in [`px`]: across with labels side by side, or up with labels one above the other.
#[derive(Clone, Copy)]
pub(super) enum AxisLength {
    Across(i32),
    Up(i32),
}

impl Axis {
    /// Creates an axis of numbers, with as many ticks as there is room for.
    ///
    /// # Panics
    /// If the positions are not finite.
    pub(super) fn numbers(scale: Scale, range: Range, room: AxisLength) -> Axis {
        let range = not_empty(range);
        let ticks = match scale {
            Scale::Linear => linear_ticks(range, |ticks| room.is_enough(ticks, range)),
            Scale::Log => log_ticks(range, |ticks| room.is_enough(ticks, range)),
        };
        Axis { range, ticks }
    }

    /// Creates an axis of names, the first at 0.
    pub(super) fn categories(names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(i, name)| Tick { at: i as f64, label: name.clone() });
        Axis { range: Range { low: -0.5, high: names.len().max(1) as f64 - 0.5 }, ticks: ticks.collect() }
    }

    pub(super) fn range(&self) -> Range {
        self.range
    }

    pub(super) fn contains(&self, position: f64) -> bool {
        self.range.contains(position)
    }

    pub(super) fn clamp(&self, position: f64) -> f64 {
        position.clamp(self.range.low, self.range.high)
    }

    /// Returns the position as a fraction of the axis' length: 0 at the start, 1 at the end.
    pub(super) fn part(&self, position: f64) -> f64 {
        (position - self.range.low) / self.range.length()
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks.iter().map(|tick| (tick.at, tick.label.as_str()))
    }

    /// Returns the width of the widest label, in [`px`].
    pub(super) fn label_width(&self) -> i32 {
        self.ticks.iter().map(|tick| text_width(&tick.label, TICK)).max().unwrap_or(0)
    }

    /// Returns a copy of the axis with blank labels.
    pub(super) fn without_labels(&self) -> Axis {
        let mut axis = self.clone();
        axis.ticks.iter_mut().for_each(|tick| tick.label.clear());
        axis
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(Ranged::range(self)).map(position, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick.at).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.low..self.range.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, position: &f64) -> String {
        self.ticks.iter().find(|tick| tick.at == *position).map_or_else(String::new, |tick| tick.label.clone())
    }
}

impl AxisLength {
    /// Whether the labels are apart, and none exceeds an end of the axis by more than [`BEYOND`].
    fn is_enough(self, ticks: &[Tick], range: Range) -> bool {
        let length = match self {
            AxisLength::Across(length) | AxisLength::Up(length) => f64::from(length),
        };
        let ends = |tick: &Tick| {
            let middle = (tick.at - range.low) / range.length() * length;
            let size = match self {
                AxisLength::Across(_) => text_width(&tick.label, TICK),
                AxisLength::Up(_) => px(TICK),
            };
            (middle - f64::from(size) / 2.0, middle + f64::from(size) / 2.0)
        };
        let is_apart = |pair: &[Tick]| ends(&pair[1]).0 - ends(&pair[0]).1 >= f64::from(px(LABEL_SPACING));
        ticks.windows(2).all(is_apart)
            && ticks.first().is_none_or(|tick| ends(tick).0 >= -f64::from(px(BEYOND.0)))
            && ticks.last().is_none_or(|tick| ends(tick).1 <= length + f64::from(px(BEYOND.1)))
    }
}

impl Scale {
    /// Returns a value's position; −∞ for a value of 0 or below on a logarithmic axis.
    pub(super) fn position(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log if value <= 0.0 => f64::NEG_INFINITY,
            Scale::Log => libm::log10(value),
        }
    }
}

/// Returns the distance between the ticks of a linear axis with room for all; `None` if fewer than two ticks are in the range.
pub(super) fn tick_step(range: Range) -> Option<f64> {
    let ticks = key_points(range, TICKS_MAX);
    Some(ticks.get(1)? - ticks[0])
}

/// Returns the most ticks that fit; if none fit, the first and the last of the fewest.
fn linear_ticks(range: Range, fit: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let mut fewest = numbered(&key_points(range, TICKS_MAX));
    for at_most in (2..=TICKS_MAX).rev() {
        let ticks = numbered(&key_points(range, at_most));
        // With large steps, the range may have no tick at all.
        if ticks.len() < 2 {
            break;
        }
        if fit(&ticks) {
            return ticks;
        }
        fewest = ticks;
    }
    if fewest.len() > 2 {
        fewest.drain(1..fewest.len() - 1);
    }
    fewest
}

fn key_points(range: Range, at_most: usize) -> Vec<f64> {
    RangedCoordf64::from(range.low..range.high).key_points(BoldPoints(at_most))
}

/// Returns ticks at these numbers, labelled with as many decimals as their step needs.
fn numbered(at: &[f64]) -> Vec<Tick> {
    let step = at.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    // A step is 1, 2 or 5 times a power of ten; a single tick has no step.
    let decimals = if step.is_finite() { (-libm::log10(step) - 1e-9).ceil().max(0.0) as usize } else { 0 };
    at.iter().map(|value| Tick { at: *value, label: number(*value, decimals) }).collect()
}

fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    // Avoids "-0.0".
    if text.contains(|digit: char| ('1'..='9').contains(&digit)) { text } else { text.replace('-', "") }
}

/// Returns ticks at 1, 2 and 5 times the powers of ten; if these do not fit, at each power, each second power, and so on. If none
/// of these choices has two ticks that fit, the values are at equal distances.
fn log_ticks(range: Range, fit: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let (first, last) = (range.low.floor() as i32, range.high.ceil() as i32);
    let written_out =
        |digit: i32, power: i32| number(f64::from(digit) * libm::exp10(f64::from(power)), (-power).max(0) as usize);
    let as_power = |_: i32, power: i32| format!("10{}", superscript(power));
    let ticks = |digits: &[i32], step: i32, label: &dyn Fn(i32, i32) -> String| -> Vec<Tick> {
        let powers = (first..=last).filter(|power| power.rem_euclid(step) == 0);
        let of_power = |power: i32| {
            let tick = move |digit: &i32| (f64::from(power) + libm::log10(f64::from(*digit)), label(*digit, power));
            digits.iter().map(tick).collect::<Vec<_>>()
        };
        // A logarithm may be off by its last bit.
        let almost = Range { low: range.low - 1e-9, high: range.high + 1e-9 };
        let within = powers.flat_map(of_power).filter(|(at, _)| almost.contains(*at));
        within.map(|(at, label)| Tick { at: at.clamp(range.low, range.high), label }).collect()
    };
    let is_short = first >= WRITTEN_OUT.0 && last <= WRITTEN_OUT.1;
    let short = [&[1, 2, 5][..], &[1]].into_iter().filter(|_| is_short).map(|digits| ticks(digits, 1, &written_out));
    let mut choices = short.chain((1..=last - first).map(|step| ticks(&[1], step, &as_power)));
    let chosen = choices.find(|ticks| ticks.len() >= 2 && fit(ticks));
    chosen.unwrap_or_else(|| {
        let on_axis = |ticks: &[Tick]| -> Vec<Tick> {
            let positions =
                ticks.iter().map(|tick| Tick { at: Scale::Log.position(tick.at), label: tick.label.clone() });
            positions.filter(|tick| tick.at.is_finite()).collect()
        };
        let values = Range { low: libm::exp10(range.low), high: libm::exp10(range.high) };
        on_axis(&linear_ticks(values, |ticks| fit(&on_axis(ticks))))
    })
}

fn superscript(power: i32) -> String {
    let raised = |digit: char| match digit {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32('⁰' as u32 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    };
    power.to_string().chars().map(raised).collect()
}

fn not_empty(range: Range) -> Range {
    let Range { low, high } = range;
    assert!(low.is_finite() && high.is_finite(), "a range from {low} to {high}");
    if low < high { range } else { Range { low, high: low + 1.0 } }
}

/// Most ticks of a linear axis.
const TICKS_MAX: usize = 6;

/// Least and greatest power of ten of an axis whose numbers are written out.
const WRITTEN_OUT: (i32, i32) = (-3, 6);

/// Most length of a label beyond the start and the end of an axis, as shown.
const BEYOND: (i32, i32) = (18, 24);

/// Least distance between labels, as shown.
const LABEL_SPACING: i32 = 5;
