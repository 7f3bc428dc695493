//! Measurements and their aims.

use weir_bench::forwarding::{CASES, CREDIT_AT, Case, Paths, Setup};
use weir_units::BitRate;

use crate::gbps;

/// A switch whose rate is measured.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) load_mode: LoadMode,
    lcores: usize,
    case: Case,
    frame_bytes: u16,
    policy: &'static str,
    flow_control: &'static str,
    paths: Paths,
    layout: &'static str,
    has_limits: bool,
    credit_at: BitRate,
}

/// Load of a measurement.
#[derive(Clone, Copy)]
pub(crate) enum LoadMode {
    /// Frames leave as they come.
    Usual,
    /// More frames may come than leave.
    Overrun,
    /// Queues hold this many bytes.
    Standing(u64),
    /// Each lcore has a switch of its own.
    Apart,
}

/// Aim for the ratio of two rates.
pub(crate) struct Aim {
    pub(crate) what: &'static str,
    pub(crate) of: &'static str,
    /// Divisor; without one the value is Gb/s on the wire.
    pub(crate) by: Option<&'static str>,
    /// Lower limit of the value.
    pub(crate) least: Option<f64>,
}

impl Measured {
    const fn of(name: &'static str, case: Case) -> Measured {
        Measured {
            name,
            load_mode: LoadMode::Usual,
            lcores: 1,
            case,
            frame_bytes: 64,
            policy: "dt",
            flow_control: "pfc",
            paths: Paths::Own,
            layout: "single",
            has_limits: false,
            credit_at: CREDIT_AT,
        }
    }

    const fn under(policy: &'static str) -> Measured {
        Measured { policy, ..Measured::of(policy, CASES[0]) }
    }

    /// Measurement with policy ST, which supports every flow control.
    const fn with(flow_control: &'static str, has_limits: bool) -> Measured {
        Measured { policy: "static", flow_control, has_limits, ..Measured::of(flow_control, CASES[0]) }
    }

    const fn on_two(name: &'static str, paths: Paths, layout: &'static str) -> Measured {
        // An lcore that is off its CPU for a while is sent more than it has room for.
        Measured { lcores: 2, load_mode: LoadMode::Overrun, paths, layout, ..Measured::of(name, CASES[1]) }
    }

    /// The switch, or those of all lcores, on the last of these CPUs.
    pub(crate) fn setups<'a>(&self, cpus: &'a [u32]) -> Vec<Setup<'a>> {
        let cpus = &cpus[cpus.len() - self.lcores..];
        let lcores = if matches!(self.load_mode, LoadMode::Apart) { 1 } else { self.lcores };
        cpus.chunks(lcores).map(|lcores| self.setup(lcores)).collect()
    }

    fn setup<'a>(&self, lcores: &'a [u32]) -> Setup<'a> {
        Setup {
            lcores,
            frame_bytes: self.frame_bytes,
            case: self.case,
            policy: self.policy,
            flow_control: self.flow_control,
            paths: self.paths,
            layout: self.layout,
            has_limits: self.has_limits,
            credit_at: self.credit_at,
        }
    }
}

impl Aim {
    const fn new(what: &'static str, of: &'static str, by: &'static str, least: f64) -> Aim {
        Aim { what, of, by: Some(by), least: Some(least) }
    }

    /// Number of lcores.
    pub(crate) fn lcores(&self) -> usize {
        measured(self.of).lcores
    }

    /// The aim in words.
    pub(crate) fn aim(&self) -> String {
        match (self.least, self.by) {
            (None, _) => "-".to_owned(),
            (Some(least), None) => format!(">= {least} Gb/s"),
            (Some(least), Some(_)) => format!(">= {least}"),
        }
    }

    /// Value of the aim in a round. `rate` is an lcore's; the rates of several lcores are added up.
    pub(crate) fn value(&self, rate: &dyn Fn(&str) -> f64) -> f64 {
        let of = rate(self.of) * measured(self.of).lcores as f64;
        self.by
            .map_or_else(|| gbps(of, measured(self.of).frame_bytes), |by| of / (rate(by) * measured(by).lcores as f64))
    }
}

fn measured(name: &str) -> &'static Measured {
    MEASURED.iter().find(|measured| measured.name == name).expect("an aim is of what is measured")
}

/// Frames of one class from each of nine ports to the eight others: each port has an eighth of what eight ports get.
const INCAST: Case = Case { destinations: 8, ..CASES[2] };
const FIVE_PORTS: Case = Case { destinations: 4, ..CASES[0] };

pub(crate) const MEASURED: [Measured; 27] = [
    Measured::of("one class", CASES[0]),
    Measured::of("stations", CASES[1]),
    Measured::of("two classes", CASES[3]),
    Measured::of("mixed", CASES[4]),
    Measured::of("four destinations", FIVE_PORTS),
    Measured::under("static"),
    Measured::under("spfc"),
    Measured::under("sih"),
    Measured::under("oversubscribed"),
    Measured::under("adaptive"),
    Measured::under("dsh"),
    Measured::under("sonic"),
    Measured::under("abm"),
    Measured::under("reverie"),
    Measured::with("gfc-buffer", true),
    Measured::with("gfc-time", true),
    Measured::with("cbfc", false),
    Measured { name: "cbfc at 10 Gb/s", credit_at: BitRate::gbps(10), ..Measured::with("cbfc", false) },
    Measured { load_mode: LoadMode::Standing(0), ..Measured::of("hot queues", INCAST) },
    Measured { load_mode: LoadMode::Standing(8_000_000), ..Measured::of("cold queues", INCAST) },
    Measured { frame_bytes: 1_518, ..Measured::of("long frames", CASES[0]) },
    Measured::on_two("own ports", Paths::Own, "single"),
    Measured { load_mode: LoadMode::Apart, ..Measured::on_two("apart", Paths::Own, "single") },
    Measured::on_two("across", Paths::Across, "single"),
    Measured::on_two("rx-tx", Paths::Own, "rx-tx"),
    Measured { paths: Paths::ToOne, ..Measured::of("to one port, one lcore", CASES[2]) },
    Measured { case: CASES[2], ..Measured::on_two("to one port", Paths::ToOne, "single") },
];

pub(crate) const AIMS: [Aim; 25] = [
    Aim::new("two classes in turn, by one class", "two classes", "one class", 0.9),
    Aim::new("one class to four destinations, by one", "four destinations", "one class", 0.9),
    Aim::new(
        "two classes in turn, IPv4, IPv6 and VLAN, 64 stations a port, 4 destinations, by one class",
        "mixed",
        "one class",
        0.9,
    ),
    Aim::new("policy static, by DT", "static", "one class", 0.9),
    Aim::new("policy spfc, by DT", "spfc", "one class", 0.9),
    Aim::new("policy sih, by DT", "sih", "one class", 0.9),
    Aim::new("policy oversubscribed, by DT", "oversubscribed", "one class", 0.9),
    Aim::new("policy adaptive, by DT", "adaptive", "one class", 0.9),
    Aim::new("policy dsh, by DT", "dsh", "one class", 0.9),
    Aim::new("policy sonic, by DT", "sonic", "one class", 0.9),
    Aim::new("policy abm, by DT", "abm", "one class", 0.9),
    Aim::new("policy reverie, by DT", "reverie", "one class", 0.9),
    Aim::new("GFC by stages, a limiter on every queue, by DT with PFC", "gfc-buffer", "one class", 0.85),
    Aim::new("GFC by time, a limiter on every queue, by DT with PFC", "gfc-time", "one class", 0.85),
    Aim::new("CBFC, messages as often as at 100 Gb/s, by DT with PFC", "cbfc", "one class", 0.9),
    Aim::new("CBFC, messages as often as at 10 Gb/s, by DT with PFC", "cbfc at 10 Gb/s", "one class", 0.9),
    Aim::new("8 MB standing in queues of 8:1 incasts, by hot queues", "cold queues", "hot queues", 0.65),
    Aim { what: "1,518 B, Gb/s a core", of: "long frames", by: None, least: Some(150.0) },
    Aim::new("two lcores that own ports, by one", "own ports", "stations", 1.85),
    Aim {
        what: "two lcores with a switch each, by one: what the machine has",
        of: "apart",
        by: Some("stations"),
        least: None,
    },
    Aim::new("two lcores, all to one egress port, by one", "to one port", "to one port, one lcore", 1.4),
    Aim::new("two lcores, all frames across, by one", "across", "stations", 1.0),
    Aim::new("two lcores in layout rx-tx, by one", "rx-tx", "stations", 1.0),
    Aim { what: "64 stations a port, by one", of: "stations", by: Some("one class"), least: None },
    Aim { what: "nine ports with hot queues, by two", of: "hot queues", by: Some("one class"), least: None },
];
