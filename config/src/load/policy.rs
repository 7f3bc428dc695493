//! `[buffer] policy` and the policies' tables.

use std::ops::RangeInclusive;
use std::str::FromStr;

use weir_reader::{Problem, SIZE, TIME, Table};
use weir_units::{Alpha, Bytes, Span, UnitError};

use crate::buffer::BUFFER_MAX;
use crate::{DshConfig, Estimator, PolicyConfig, PoolsConfig};

/// The length at which Reverie's public simulator takes a queue for congested.
const CONGESTED_DEFAULT: Bytes = Bytes::new(20 << 10);

/// Reads the chosen policy, and refuses the tables of the others.
pub(super) fn read(table: &Table<'_>) -> PolicyConfig {
    // Each is read so that its own errors are told even if it must go.
    let mut policies = read_all(table);
    let choices: Vec<(&'static str, usize)> =
        policies.iter().enumerate().map(|(index, policy)| (policy.name(), index)).collect();
    let default = policies.iter().position(|policy| policy.name() == PolicyConfig::DEFAULT_NAME).unwrap_or(0);
    let chosen = policies.swap_remove(table.choice("policy", &choices).unwrap_or(default));
    for policy in policies {
        if table.has(policy.name()) && table.doc().sound(&["buffer.policy"]) {
            refuse_other(table, policy.name(), chosen.name());
        }
    }
    chosen
}

fn refuse_other(table: &Table<'_>, name: &str, chosen: &str) {
    let given = if table.has("policy") { "" } else { " (the default)" };
    let message = format!("[buffer.{name}] is given, but `policy` is \"{chosen}\"{given}");
    let problem = Problem::new(message, format!("write policy = \"{name}\" in [buffer], or take [buffer.{name}] out"))
        .at_key(table.at(name), "not the chosen policy")
        .at(table.at("policy"), "chosen here");
    table.doc().note(problem);
}

/// Every policy as its table has it, in the order of the reference.
fn read_all(buffer: &Table<'_>) -> Vec<PolicyConfig> {
    let fixed = buffer.table("static", "buffer.static");
    let dt = buffer.table("dt", "buffer.dt");
    let spfc = buffer.table("spfc", "buffer.spfc");
    let sih = buffer.table("sih", "buffer.sih");
    let oversubscribed = buffer.table("oversubscribed", "buffer.oversubscribed");
    let adaptive = buffer.table("adaptive", "buffer.adaptive");
    let sonic = buffer.table("sonic", "buffer.sonic");
    let abm = buffer.table("abm", "buffer.abm");
    let reverie = buffer.table("reverie", "buffer.reverie");
    vec![
        PolicyConfig::Static { threshold: size(&fixed, "threshold") },
        PolicyConfig::Dt { alpha: alpha(&dt) },
        PolicyConfig::Spfc {
            alpha: alpha(&spfc),
            k_spfc: spfc.integer("k_spfc", 1..=64).map_or(5, |n| n as u32),
            tc: spfc.quantity("tc", &TIME, up_to(Span::from_secs(1))).unwrap_or(Span::from_micros(80)),
        },
        PolicyConfig::Sih { alpha: alpha(&sih) },
        PolicyConfig::Oversubscribed {
            alpha: alpha(&oversubscribed),
            headroom_percent: oversubscribed.integer("headroom_percent", 1..=100).map_or(80, |n| n as u32),
        },
        PolicyConfig::Adaptive {
            alpha: alpha(&adaptive),
            samples: adaptive.integer("samples", 1..=1_000_000).map_or(8, |n| n as u32),
        },
        PolicyConfig::Dsh(dsh(&buffer.table("dsh", "buffer.dsh"))),
        PolicyConfig::Sonic { alpha: alpha(&sonic), pools: pools(&sonic) },
        PolicyConfig::Abm {
            alpha: alpha(&abm),
            pools: pools(&abm),
            congested: size(&abm, "congested").unwrap_or(CONGESTED_DEFAULT),
            interval: abm.quantity("interval", &TIME, up_to(Span::from_secs(1))).unwrap_or(Span::from_micros(25)),
        },
        PolicyConfig::Reverie {
            alpha: alpha(&reverie),
            gamma_ppb: reverie.number("gamma", "gamma = 0.999").map_or(999_000_000, |PartsPerBillion(ppb)| ppb),
            congested: size(&reverie, "congested").unwrap_or(CONGESTED_DEFAULT),
        },
    ]
}

fn alpha(table: &Table<'_>) -> Alpha {
    table.alpha("alpha").unwrap_or(Alpha::ONE)
}

/// A size that is not nothing.
fn size(table: &Table<'_>, key: &str) -> Option<Bytes> {
    table.quantity(key, &SIZE, Bytes::new(1)..=BUFFER_MAX)
}

/// The windows that a policy may measure over.
fn up_to(most: Span) -> RangeInclusive<Span> {
    Span::from_micros(1)..=most
}

fn pools(table: &Table<'_>) -> PoolsConfig {
    PoolsConfig {
        ingress: size(table, "ingress_pool"),
        headroom: table.quantity("headroom_pool", &SIZE, Bytes::ZERO..=BUFFER_MAX),
        egress_lossy: size(table, "egress_lossy_pool"),
    }
}

fn dsh(table: &Table<'_>) -> DshConfig {
    let estimator = table
        .choice("estimator", &[("exact", Estimator::Exact), ("table", Estimator::Table)])
        .unwrap_or(Estimator::Exact);
    let weight = |key| table.number(key, &format!("{key} = \"1/4\"")).map_or_else(quarter, |Weight(weight)| weight);
    let dsh = DshConfig {
        alpha: alpha(table),
        estimator,
        w_g: weight("w_g"),
        w_v: weight("w_v"),
        k: table.integer("k", 0..=64).map_or(4, |n| n as u32),
        window: table.quantity("window", &TIME, up_to(Span::from_secs(10))).unwrap_or(Span::from_millis(10)),
        port_xon_offset: table.quantity("port_xon_offset", &SIZE, Bytes::ZERO..=BUFFER_MAX),
        insurance: table.boolean("insurance").unwrap_or(true),
        shared_headroom: table.boolean("shared_headroom").unwrap_or(true),
    };
    if estimator == Estimator::Table {
        refuse_unshiftable(table, &dsh);
    }
    dsh
}

fn quarter() -> Alpha {
    Alpha::ratio(1, 4).expect("1/4 is an α")
}

/// The table estimator has shifts in place of products.
fn refuse_unshiftable(table: &Table<'_>, dsh: &DshConfig) {
    let refuse = |key: &str, wrong: &str, instead: &str| {
        let message = format!("`{key}` is {wrong}, but `estimator` \"table\" shifts where \"exact\" multiplies");
        let problem = Problem::new(message, format!("write {key} = {instead}, or estimator = \"exact\""));
        table.doc().note(problem.at(table.at(key), "").at(table.at("estimator"), "the estimator"));
    };
    for (key, weight) in [("w_g", dsh.w_g), ("w_v", dsh.w_v)] {
        // α of 2^16 bytes is α's own numerator over 2^16.
        if !weight.of(Bytes::new(1 << 16)).get().is_power_of_two() {
            refuse(key, "not 1/2^n", "\"1/4\"");
        }
    }
    if dsh.k != 0 && !dsh.k.is_power_of_two() {
        refuse("k", "neither 0 nor a power of two", "4");
    }
}

/// The weight of what is new in an average.
struct Weight(Alpha);

impl FromStr for Weight {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Weight, UnitError> {
        match text.parse() {
            Ok(weight) if weight <= Alpha::ONE => Ok(Weight(weight)),
            // An α has 16 bits for its fraction.
            _ => Err(UnitError::new(text, "a number or fraction from 1/65536 to 1", "1/4")),
        }
    }
}

/// A number below 1 by its decimals, which a float would round.
#[derive(Debug, PartialEq, Eq)]
struct PartsPerBillion(u32);

impl FromStr for PartsPerBillion {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<PartsPerBillion, UnitError> {
        let wrong = || UnitError::new(text, "a number from 0 to below 1 with at most 9 decimals", "0.999");
        let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let decimals = decimals.trim_end_matches('0');
        let digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
        if whole != "0" || decimals.len() > 9 || !digits {
            return Err(wrong());
        }
        format!("{decimals:0<9}").parse().map(PartsPerBillion).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_is_read_to_its_last_decimal() {
        let read = |text: &str| text.parse().map(|PartsPerBillion(ppb)| ppb).ok();
        for (text, ppb) in [
            ("0", 0),
            ("0.0", 0),
            ("0.5", 500_000_000),
            (" 0.999 ", 999_000_000),
            ("0.999999", 999_999_000),
            ("0.999999999", 999_999_999),
            ("0.000000001", 1),
            ("0.123456789", 123_456_789),
            ("0.9990000000000", 999_000_000),
        ] {
            assert_eq!(read(text), Some(ppb), "{text}");
        }
        for text in
            ["", ".", "1", "1.0", "-0.5", "0.0000000001", "0.9999999999", "9e-1", "0.9e-1", "nan", "0.9.9", "0.+5"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_weight_is_at_most_one() {
        let read = |text: &str| text.parse().map(|Weight(weight)| weight).ok();
        assert_eq!(read("1/4"), Some(quarter()));
        assert_eq!(read("0.25"), Some(quarter()));
        assert_eq!(read("1"), Some(Alpha::ONE));
        for text in ["0", "5/4", "2", "-1", "1e-9", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
