//! Settings of a simulation's switches: buffer, thresholds, headroom, ECN, flow control.

use std::collections::BTreeMap;

use weir_units::{BitRate, Bytes, Span};

use super::Simulator;
use super::arguments::Arguments;
use super::config::Config;
use super::inet_tub::{self, Alphas, Policy};
use super::round_trips::RoundTrips;
use super::topology::{Link, Topology};
use crate::import::{ImportErrors, ImportNote, ImportReport};

/// `[switch]` of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SwitchSettings {
    pub mtu: u64,
    /// Buffer of most switches; others have theirs.
    pub size: Bytes,
    pub private: Bytes,
    /// Headroom Φ of most ports.
    pub headroom: Bytes,
    /// Factor of a link's bandwidth-delay product (one way) in Φ, and the constant part.
    rule: (u64, Bytes),
    pub xon_offset: Bytes,
    pub alpha: &'static str,
    /// Rates above the NIC rate, and α of their ports.
    pub alphas: Vec<(BitRate, &'static str)>,
    pub has_pfc: bool,
    pub ecn: Option<Ecn>,
    /// Buffers of all switches, in their order.
    sizes: Vec<Bytes>,
    /// Buffer policy of a command line, in place of dynamic thresholds.
    pub policy: Option<Policy>,
}

/// Further inputs of the settings.
pub(super) struct SwitchInputs<'g> {
    /// Number of lossless classes.
    pub lossless: usize,
    /// Number of hosts left out.
    pub idle: usize,
    /// Command line, and the α of its file.
    pub line: Option<(&'g Arguments, &'g Alphas)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ecn {
    pub kmin: Bytes,
    pub kmax: Bytes,
    pub pmax_ppb: u64,
    /// Rate of the ports with exactly these thresholds, if others are in proportion to their rate.
    pub at_rate: Option<BitRate>,
}

/// Built-in settings of a simulator's switches.
struct SwitchModel {
    private: Bytes,
    /// Whether the buffer lacks private bytes and headroom once a port, although each of 8 classes may take them.
    is_once_a_port: bool,
    xon_offset: Bytes,
    alpha: &'static str,
    /// Headroom in units of the link's bandwidth-delay product, one way.
    delays: u64,
    /// Constant part of the headroom.
    and: Bytes,
}

/// Header bytes of a packet.
const HEADERS: u64 = 48;
const CLASSES: u64 = 8;

impl Simulator {
    fn model(self, payload: u64) -> SwitchModel {
        let packet = Bytes::new(payload + HEADERS);
        match self {
            Simulator::Hpcc => SwitchModel {
                private: Bytes::new(4 << 10),
                is_once_a_port: true,
                xon_offset: Bytes::new(3 << 10),
                alpha: "1/8",
                delays: 3,
                and: Bytes::ZERO,
            },
            Simulator::ConWeave => SwitchModel {
                private: packet,
                is_once_a_port: false,
                xon_offset: Bytes::new(16),
                alpha: "1/16",
                delays: 2,
                and: packet * 2,
            },
            Simulator::InetTub => SwitchModel {
                private: Bytes::ZERO,
                is_once_a_port: false,
                xon_offset: Bytes::new(2_496),
                alpha: "1",
                delays: 2,
                and: packet * 2 + Bytes::new(3_860),
            },
        }
    }
}

/// Returns the settings of all switches; `lossless` classes have headroom.
pub(super) fn settings(
    config: &Config,
    topology: &Topology,
    simulator: Simulator,
    payload: u64,
    trips: &RoundTrips,
    SwitchInputs { lossless, idle, line }: SwitchInputs<'_>,
    report: &mut ImportReport,
) -> Result<SwitchSettings, ImportErrors> {
    let model = simulator.model(payload);
    let nic = topology.nic_rate();
    let has_pfc = config.is_on("ENABLE_PFC", true);
    if !has_pfc {
        let line = config.line("ENABLE_PFC").unwrap_or(1);
        report.taken.push(ImportNote::for_line(
            &config.file,
            line,
            "ENABLE_PFC 0: no flow control, and no lossless class",
        ));
    }
    // The default MTU, or a larger one with room for headers.
    let mtu = if payload + 100 <= 1_500 { 1_500 } else { payload + 100 };
    let mut switches = SwitchSettings {
        mtu,
        size: match line {
            None => size(config, nic, report),
            Some((arguments, _)) => {
                if let Some(line) = config.line("BUFFER_SIZE") {
                    report.left.push(ImportNote::for_line(
                        &config.file,
                        line,
                        "BUFFER_SIZE: the command line's buffersize counts",
                    ));
                }
                arguments.buffer
            }
        },
        private: model.private,
        headroom: model.headroom(topology, report),
        rule: (model.delays, model.and),
        xon_offset: model.xon_offset,
        alpha: model.alpha,
        alphas: Vec::new(),
        has_pfc,
        sizes: Vec::new(),
        ecn: ecn(config, topology, report)?,
        policy: None,
    };
    if let Some((arguments, alphas)) = line {
        let usual =
            most_common(topology.switches.iter().map(|switch| switches.headroom_at(topology, *switch, lossless)));
        let policy = inet_tub::policy(arguments, alphas, usual.unwrap_or(Bytes::ZERO), trips, report);
        switches.policy = Some(policy);
    }
    if idle > 0 {
        // Each host would have its private buffer and its headroom.
        let own = if has_pfc { switches.headroom } else { Bytes::ZERO } + model.private;
        let less = own * idle as u64;
        let text = format!("the buffer is {} B smaller, by the share of hosts that are left out", less.get());
        report.taken.push(ImportNote::general(text));
        switches.size = switches.size.saturating_sub(less);
    }
    let lossless = if has_pfc { lossless } else { 0 };
    model.report_differences(config, topology, &mut switches, nic, report);
    if lossless > 1 && line.is_none() && !model.is_once_a_port {
        let text = format!("headroom is kept for each of {lossless} lossless classes, in the simulator once a port");
        report.approximated.push(ImportNote::general(text));
    }
    switches.sizes = topology
        .switches
        .iter()
        .map(|switch| switches.size + model.beyond(&switches, topology, *switch, lossless))
        .collect();
    switches.check_size(config, topology, lossless)?;
    switches.size = most_common(switches.sizes.iter().copied()).unwrap_or(switches.size);
    Ok(switches)
}

impl SwitchModel {
    /// Returns the simulator's headroom of a port.
    fn headroom_of(&self, link: &Link) -> Bytes {
        link.rate.bytes_in(link.delay) * self.delays + self.and
    }

    /// Returns the bytes by which a switch's buffer is larger than in the simulator, as its classes reserve more.
    fn beyond(&self, switches: &SwitchSettings, topology: &Topology, switch: u32, lossless: usize) -> Bytes {
        if !self.is_once_a_port {
            return Bytes::ZERO;
        }
        let ports = topology.links_of(switch).count() as u64;
        self.private * (CLASSES - 1) * ports + switches.headroom_at(topology, switch, lossless.saturating_sub(1))
    }

    /// Returns the headroom of most ports; others have theirs at their links.
    fn headroom(&self, topology: &Topology, report: &mut ImportReport) -> Bytes {
        let usual = most_common(topology.ports().map(|link| self.headroom_of(link))).unwrap_or(Bytes::ZERO);
        let mut by_port: BTreeMap<(BitRate, Span), Bytes> = BTreeMap::new();
        for link in topology.ports() {
            by_port.insert((link.rate, link.delay), self.headroom_of(link));
        }
        let each =
            by_port.iter().map(|((rate, delay), headroom)| format!("{} B at {rate} and {delay}", headroom.get()));
        let text = format!("headroom by the simulator's rule, port by port: {}", each.collect::<Vec<_>>().join(", "));
        report.taken.push(ImportNote::general(text));
        usual
    }

    /// Reports the switches' built-in settings, and those that a scenario can't have.
    fn report_differences(
        &self,
        config: &Config,
        topology: &Topology,
        switches: &mut SwitchSettings,
        nic: BitRate,
        report: &mut ImportReport,
    ) {
        let mut approximated = |text: String| report.approximated.push(ImportNote::general(text));
        if self.is_once_a_port {
            let text = format!(
                "{} B and the headroom of a port are taken from the buffer once, but each class may use them: each switch's buffer is \
                 larger by what its other classes reserve here",
                self.private.get(),
            );
            report.taken.push(ImportNote::general(text));
            // The simulator's α is 2^-3 at the rate of its first host, and doubles with the rate, at most three times.
            let doublings = |rate: BitRate| (0..3).find(|n| rate.as_bps() <= nic.as_bps() << n).unwrap_or(3);
            let faster = rates(topology).into_keys().filter(|rate| *rate > nic);
            switches.alphas = faster.map(|rate| (rate, ["1/8", "1/4", "1/2", "1"][doublings(rate)])).collect();
            if !switches.alphas.is_empty() {
                let alphas: Vec<String> =
                    switches.alphas.iter().map(|(rate, alpha)| format!("{alpha} at {rate}")).collect();
                let text = format!("alpha is {}, and {}", self.alpha, alphas.join(", "));
                report.taken.push(ImportNote::general(text));
            }
        } else if topology.is_extended && switches.policy.is_none() {
            approximated(format!(
                "dynamic thresholds with alpha {}: the simulator's command line chooses the buffer's policy and its parameters",
                self.alpha
            ));
        }
        if let Some(line) = config.line("USE_DYNAMIC_PFC_THRESHOLD")
            && !config.is_on("USE_DYNAMIC_PFC_THRESHOLD", true)
        {
            let text = "USE_DYNAMIC_PFC_THRESHOLD 0: thresholds are dynamic nevertheless";
            report.left.push(ImportNote::for_line(&config.file, line, text));
        }
    }
}

impl SwitchSettings {
    fn by_rule(&self, link: &Link) -> Bytes {
        link.rate.bytes_in(link.delay) * self.rule.0 + self.rule.1
    }

    /// Returns Φ of a link's ports, if it differs from that of most.
    pub(super) fn headroom_of(&self, link: &Link) -> Option<Bytes> {
        Some(self.by_rule(link)).filter(|headroom| *headroom != self.headroom)
    }

    /// Returns the buffer of the switch of an index, if it differs from that of most.
    pub(super) fn size_of(&self, switch: usize) -> Option<Bytes> {
        Some(self.sizes[switch]).filter(|size| *size != self.size)
    }

    /// Returns a switch's headroom: that of all ports and lossless classes.
    fn headroom_at(&self, topology: &Topology, switch: u32, lossless: usize) -> Bytes {
        topology.links_of(switch).map(|link| self.by_rule(link)).sum::<Bytes>() * lossless as u64
    }

    /// Checks that private buffers and headroom are less than the buffer.
    fn check_size(&self, config: &Config, topology: &Topology, lossless: usize) -> Result<(), ImportErrors> {
        for (switch, size) in topology.switches.iter().zip(&self.sizes) {
            let ports = topology.links_of(*switch).count() as u64;
            let kept = self.private * CLASSES * ports + self.headroom_at(topology, *switch, lossless);
            if kept >= *size {
                let problem = format!(
                    "private buffers and headroom of switch {switch}, with {ports} ports, take {} B, and its buffer has {} B",
                    kept.get(),
                    size.get()
                );
                if self.policy.is_some() {
                    return Err(ImportErrors::one(
                        "--arguments",
                        None,
                        problem,
                        "write a larger --buffersize, in bytes",
                    ));
                }
                let file = if config.has("BUFFER_SIZE") { &config.file } else { "BUFFER_SIZE" };
                return Err(ImportErrors::one(
                    file,
                    config.line("BUFFER_SIZE"),
                    problem,
                    "write a larger BUFFER_SIZE, in MiB",
                ));
            }
        }
        Ok(())
    }
}

/// Maximum of BUFFER_SIZE, in MiB.
const SIZE_MIB_MAX: u64 = 1_800;

/// Reads BUFFER_SIZE, in MiB. Default: 16 MiB at 50 Gb/s and in proportion, as in HPCC's run.py.
fn size(config: &Config, nic: BitRate, report: &mut ImportReport) -> Bytes {
    match config.numbers.get("BUFFER_SIZE").filter(|mib| **mib > 0) {
        Some(mib) => {
            let line = config.line("BUFFER_SIZE").unwrap_or(1);
            let taken = (*mib).min(SIZE_MIB_MAX);
            let text = format!("BUFFER_SIZE {mib}: {taken} MiB");
            match taken == *mib {
                true => report.taken.push(ImportNote::for_line(&config.file, line, text)),
                false => {
                    let text = format!("{text}, the largest buffer of a switch");
                    report.approximated.push(ImportNote::for_line(&config.file, line, text));
                }
            }
            Bytes::new(taken << 20)
        }
        None => {
            let mib = (nic.as_bps() / 1_000_000 * 16 / 50_000).max(1);
            let text = |missing| format!("{missing}: {mib} MiB, as HPCC's run.py has it at {nic}");
            report.approximated.push(match config.line("BUFFER_SIZE") {
                Some(line) => ImportNote::for_line(&config.file, line, text("BUFFER_SIZE 0 is no buffer")),
                None => ImportNote::general(text("no BUFFER_SIZE")),
            });
            Bytes::new(mib << 20)
        }
    }
}

/// Returns the thresholds of the most common rate; `None` if ECN is off.
fn ecn(config: &Config, topology: &Topology, report: &mut ImportReport) -> Result<Option<Ecn>, ImportErrors> {
    if !config.is_on("ENABLE_QCN", true) {
        let line = config.line("ENABLE_QCN").unwrap_or(1);
        report.taken.push(ImportNote::for_line(&config.file, line, "ENABLE_QCN 0: switches never mark"));
        return Ok(None);
    }
    let Some(usual) = most_common(topology.ports().map(|link| link.rate)) else { return Ok(None) };
    if !["KMIN_MAP", "KMAX_MAP", "PMAX_MAP"].iter().any(|key| config.has(key)) {
        let kmin = Bytes::new(usual.as_bps() / 1_000_000 * 4);
        let text = format!(
            "no KMIN_MAP, KMAX_MAP and PMAX_MAP: {} and {} KB and 0.2 at {usual} and in proportion, as HPCC's run.py has them",
            kmin.get() / 1_000,
            kmin.get() * 4 / 1_000
        );
        report.approximated.push(ImportNote::general(text));
        return Ok(Some(Ecn { kmin, kmax: kmin * 4, pmax_ppb: 200_000_000, at_rate: Some(usual) }));
    }
    let of_rate = |rate: BitRate| -> Result<Ecn, ImportErrors> {
        let of = |key: &str| {
            // The simulators, in the build that is used, take 0 for missing values.
            let uncounted = config.uncounted.get(key).filter(|others| others.contains(&rate)).map(|_| 0);
            config.maps.get(key).and_then(|map| map.get(&rate)).copied().or(uncounted).ok_or_else(|| {
                let problem = format!("{key} has nothing for links of {rate}");
                let help = format!("write a pair of {} and a threshold", rate.as_bps());
                ImportErrors::one(&config.file, config.line(key), problem, help)
            })
        };
        // Threshold of a non-empty queue.
        let least = Bytes::new(1);
        let [kmin, kmax] = [of("KMIN_MAP")?, of("KMAX_MAP")?].map(|kb| Bytes::kb(kb).max(least));
        let pmax_ppb = if kmax == least { 1_000_000_000 } else { of("PMAX_MAP")? };
        Ok(Ecn { kmin, kmax, pmax_ppb, at_rate: None })
    };
    let chosen = of_rate(usual)?;
    let line = config.line("KMIN_MAP").unwrap_or(1);
    if chosen.kmin > chosen.kmax || chosen.pmax_ppb > 1_000_000_000 {
        let problem = format!(
            "at {usual} K_min is {}, K_max {} and P_max {}",
            chosen.kmin,
            chosen.kmax,
            chosen.pmax_ppb as f64 / 1e9
        );
        return Err(ImportErrors::one(
            &config.file,
            Some(line),
            problem,
            "write K_min <= K_max, and P_max of 1 at most",
        ));
    }
    let mut others = BTreeMap::new();
    for rate in rates(topology).into_keys().filter(|rate| *rate != usual) {
        others.insert(rate, of_rate(rate)?);
    }
    // Thresholds are equal at all ports, or in proportion to the rate: the rule that fits more ports is chosen.
    let in_proportion = |rate: BitRate| {
        let scaled = |size: Bytes| {
            Bytes::new((u128::from(size.get()) * u128::from(rate.as_bps()) / u128::from(usual.as_bps())) as u64)
        };
        Ecn { kmin: scaled(chosen.kmin), kmax: scaled(chosen.kmax), ..chosen }
    };
    let fitting = others.iter().filter(|(_, ecn)| **ecn == chosen).count();
    let by_rate = others.iter().filter(|(rate, ecn)| **ecn == in_proportion(**rate)).count() > fitting;
    let at_rate = by_rate.then_some(usual);
    let here = |rate: BitRate| if by_rate { in_proportion(rate) } else { chosen };
    let deviations: Vec<String> = others
        .iter()
        .filter(|(rate, ecn)| **ecn != here(**rate))
        .map(|(rate, ecn)| format!("{rate}: {} to {} with {}", ecn.kmin, ecn.kmax, ecn.pmax_ppb as f64 / 1e9))
        .collect();
    let text = format!("ECN from {} to {} with P_max {}", chosen.kmin, chosen.kmax, chosen.pmax_ppb as f64 / 1e9);
    let text = if by_rate { format!("{text} at {usual}, at other rates in proportion") } else { text };
    if deviations.is_empty() {
        report.taken.push(ImportNote::for_line(&config.file, line, text));
    } else {
        let text = format!("{text}; in the simulator otherwise at {}", deviations.join(", "));
        report.approximated.push(ImportNote::for_line(&config.file, line, text));
    }
    for (key, others) in &config.uncounted {
        let line = config.line(key).unwrap_or(1);
        let of_links = others.iter().any(|rate| rates(topology).contains_key(rate));
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let ports =
            if of_links { "ports of that rate mark all that leaves others behind, as there" } else { "no link has it" };
        let text = format!(
            "{key} has more pairs than its first number says, and that of {} does not count: {ports}",
            others.join(", ")
        );
        report.taken.push(ImportNote::for_line(&config.file, line, text));
    }
    // Nothing is marked below K_max, everything above it.
    let chosen = Ecn { at_rate, ..chosen };
    Ok(Some(if chosen.pmax_ppb == 0 { Ecn { kmin: chosen.kmax, pmax_ppb: 1_000_000_000, ..chosen } } else { chosen }))
}

/// Number of switch ports by rate.
fn rates(topology: &Topology) -> BTreeMap<BitRate, usize> {
    let mut rates = BTreeMap::new();
    for link in topology.ports() {
        *rates.entry(link.rate).or_default() += 1;
    }
    rates
}

/// Returns the most frequent value; of several the least.
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, times)| *times == most).map(|(value, _)| value)
}
