//! What the switches of a simulation are like: buffer, thresholds, headroom, ECN, flow control.

use std::collections::BTreeMap;

use weir_units::{BitRate, Bytes, Span};

use super::Simulator;
use super::config::Config;
use super::text::count;
use super::topology::{Link, Topology};
use crate::import::{ImportErrors, Note, Report};

/// `[switch]` of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Switches {
    pub mtu: u64,
    pub size: Bytes,
    pub private: Bytes,
    /// Φ; none for Weir's rule, port by port.
    pub headroom: Option<Bytes>,
    /// What that rule adds to a round trip.
    pub reaction: Span,
    pub xon_offset: Bytes,
    pub alpha: &'static str,
    pub has_pfc: bool,
    pub ecn: Option<Ecn>,
}

/// Thresholds of ECN marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ecn {
    pub kmin: Bytes,
    pub kmax: Bytes,
    pub pmax_ppb: u64,
}

/// What one simulator's switches have that no file says.
struct Model {
    private: Bytes,
    /// Whether the buffer keeps the private size once a port, and not for each of 8 classes.
    is_once_a_port: bool,
    xon_offset: Bytes,
    alpha: &'static str,
    /// Headroom: so many propagation delays of bytes,
    delays: u64,
    /// and so many besides.
    and: Bytes,
}

/// Headers of a packet.
const HEADERS: u64 = 48;
/// Weir's rule of headroom: what a peer still sends until it obeys (3840 B), and what a frame has beyond the MTU.
const RULE_CONSTANT: u64 = 3_840;
const FRAME_BEYOND_MTU: u64 = 22;
const CLASSES: u64 = 8;

impl Simulator {
    fn model(self, payload: u64) -> Model {
        let packet = Bytes::new(payload + HEADERS);
        match self {
            Simulator::Hpcc => Model {
                private: Bytes::new(4 << 10),
                is_once_a_port: true,
                xon_offset: Bytes::new(3 << 10),
                alpha: "1/8",
                delays: 3,
                and: Bytes::ZERO,
            },
            Simulator::ConWeave => Model {
                private: packet,
                is_once_a_port: false,
                xon_offset: Bytes::new(16),
                alpha: "1/16",
                delays: 2,
                and: packet * 2,
            },
            Simulator::InetTub => Model {
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

/// Makes the settings of all switches; `lossless` classes have headroom.
pub(super) fn settings(
    config: &Config,
    topology: &Topology,
    simulator: Simulator,
    payload: u64,
    lossless: usize,
    report: &mut Report,
) -> Result<Switches, ImportErrors> {
    let model = simulator.model(payload);
    let nic = topology.links.iter().find(|link| !link.ends.iter().all(|node| topology.is_switch(*node)));
    let nic = nic.map_or(BitRate::gbps(100), |link| link.rate);
    let has_pfc = config.is_on("ENABLE_PFC", true);
    if !has_pfc {
        let line = config.line("ENABLE_PFC").unwrap_or(1);
        report.taken.push(Note::at(&config.file, line, "ENABLE_PFC 0: no flow control, and no lossless class"));
    }
    // The default MTU, or a larger one with room for headers.
    let mtu = if payload + 100 <= 1_500 { 1_500 } else { payload + 100 };
    let headroom = model.headroom(topology, mtu, report);
    let mut switches = Switches {
        mtu,
        size: size(config, nic, report),
        private: model.private,
        headroom: headroom.map(|(fixed, _)| fixed).unwrap_or(None),
        reaction: headroom.map_or(Span::ZERO, |(_, reaction)| reaction),
        xon_offset: model.xon_offset,
        alpha: model.alpha,
        has_pfc,
        ecn: ecn(config, topology, report)?,
    };
    model.tell(config, topology, &mut switches, nic, report);
    if has_pfc && lossless > 1 {
        let text = format!("headroom is kept for each of {lossless} lossless classes, in the simulator once a port");
        report.approximated.push(Note::on_nothing(text));
    }
    switches.check_size(config, topology, lossless)?;
    Ok(switches)
}

impl Model {
    /// The simulator's headroom of a port.
    fn headroom_of(&self, link: &Link) -> Bytes {
        link.rate.bytes_in(link.delay) * self.delays + self.and
    }

    /// One headroom for all ports where they agree; otherwise Weir's rule, and the reaction by which it comes near. None
    /// without a port.
    fn headroom(&self, topology: &Topology, mtu: u64, report: &mut Report) -> Option<(Option<Bytes>, Span)> {
        let first = self.headroom_of(topology.ports().next()?);
        if topology.ports().all(|link| self.headroom_of(link) == first) {
            report.taken.push(Note::on_nothing(format!("headroom {} B by the simulator's rule", first.get())));
            return Some((Some(first), Span::ZERO));
        }
        let usual = most_common(topology.ports().map(|link| link.delay)).unwrap_or(Span::ZERO);
        let reaction = if self.delays > 2 { usual } else { Span::ZERO };
        let mut by_port: BTreeMap<(BitRate, Span), (Bytes, Bytes)> = BTreeMap::new();
        for link in topology.ports() {
            let headrooms = (self.headroom_of(link), rule(link, mtu, reaction));
            by_port.insert((link.rate, link.delay), headrooms);
        }
        let each = by_port.iter().map(|((rate, delay), (theirs, ours))| {
            format!("{} B for {} B at {rate} and {delay}", ours.get(), theirs.get())
        });
        let text = format!("headroom by Weir's rule, port by port: {}", each.collect::<Vec<_>>().join(", "));
        report.approximated.push(Note::on_nothing(text));
        Some((None, reaction))
    }

    /// What no file says of the switches, and what can't be said in a scenario.
    fn tell(&self, config: &Config, topology: &Topology, switches: &mut Switches, nic: BitRate, report: &mut Report) {
        let mut approximated = |text: String| report.approximated.push(Note::on_nothing(text));
        if self.is_once_a_port {
            let ports = |switch: &u32| topology.links_of(*switch).count() as u64;
            let least = topology.switches.iter().map(ports).min().unwrap_or(0);
            let most = topology.switches.iter().map(ports).max().unwrap_or(0);
            let beyond = self.private * (CLASSES - 1);
            switches.size += beyond * least;
            let mut text = format!(
                "{} B a port are private in the simulator, and to each of its 8 classes here: the buffer is {} B larger, for {}",
                self.private.get(),
                (beyond * least).get(),
                count(least as usize, "port")
            );
            if most > least {
                text += &format!("; a switch with {most} ports shares {} B less", (beyond * (most - least)).get());
            }
            approximated(text);
            let faster: Vec<String> =
                rates(topology).into_keys().filter(|rate| *rate > nic).map(|rate| rate.to_string()).collect();
            if !faster.is_empty() {
                approximated(format!(
                    "alpha is {} at all ports; in the simulator it doubles with the rate, at ports of {}",
                    self.alpha,
                    faster.join(", ")
                ));
            }
        } else if topology.is_extended {
            approximated(format!(
                "dynamic thresholds with alpha {}: the simulator's command line chooses the buffer's policy and its parameters",
                self.alpha
            ));
        }
        if let Some(line) = config.line("USE_DYNAMIC_PFC_THRESHOLD")
            && !config.is_on("USE_DYNAMIC_PFC_THRESHOLD", true)
        {
            let text = "USE_DYNAMIC_PFC_THRESHOLD 0: thresholds are dynamic nevertheless";
            report.left.push(Note::at(&config.file, line, text));
        }
    }
}

impl Switches {
    /// What private buffers and headroom take must be less than the buffer.
    fn check_size(&self, config: &Config, topology: &Topology, lossless: usize) -> Result<(), ImportErrors> {
        let lossless = if self.has_pfc { lossless as u64 } else { 0 };
        for switch in &topology.switches {
            let ports = topology.links_of(*switch).count() as u64;
            let headroom = |link: &Link| self.headroom.unwrap_or_else(|| rule(link, self.mtu, self.reaction));
            let headroom: Bytes = topology.links_of(*switch).map(headroom).sum();
            let kept = self.private * CLASSES * ports + headroom * lossless;
            if kept >= self.size {
                let problem = format!(
                    "private buffers and headroom of switch {switch}, with {ports} ports, take {} B, and its buffer has {} B",
                    kept.get(),
                    self.size.get()
                );
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

/// Weir's rule of headroom.
fn rule(link: &Link, mtu: u64, reaction: Span) -> Bytes {
    let frame = Bytes::new(mtu + FRAME_BEYOND_MTU);
    (link.rate.bytes_in(link.delay) + frame) * 2 + Bytes::new(RULE_CONSTANT) + link.rate.bytes_in(reaction)
}

/// BUFFER_SIZE, in MiB; without it 16 MiB at 50 Gb/s and in proportion, as HPCC's run.py has it.
fn size(config: &Config, nic: BitRate, report: &mut Report) -> Bytes {
    match config.numbers.get("BUFFER_SIZE").filter(|mib| **mib > 0) {
        Some(mib) => {
            let line = config.line("BUFFER_SIZE").unwrap_or(1);
            report.taken.push(Note::at(&config.file, line, format!("BUFFER_SIZE {mib}: {mib} MiB")));
            Bytes::new((*mib).min(1_800) << 20)
        }
        None => {
            let mib = (nic.as_bps() / 1_000_000 * 16 / 50_000).max(1);
            let text = format!("no BUFFER_SIZE: {mib} MiB, as HPCC's run.py has it at {nic}");
            report.approximated.push(Note::on_nothing(text));
            Bytes::new(mib << 20)
        }
    }
}

/// The thresholds of the rate that most ports have; none where ECN is off.
fn ecn(config: &Config, topology: &Topology, report: &mut Report) -> Result<Option<Ecn>, ImportErrors> {
    if !config.is_on("ENABLE_QCN", true) {
        let line = config.line("ENABLE_QCN").unwrap_or(1);
        report.taken.push(Note::at(&config.file, line, "ENABLE_QCN 0: switches never mark"));
        return Ok(None);
    }
    let Some(usual) = most_common(topology.ports().map(|link| link.rate)) else { return Ok(None) };
    if !["KMIN_MAP", "KMAX_MAP", "PMAX_MAP"].iter().any(|key| config.has(key)) {
        let kmin = Bytes::new(usual.as_bps() / 1_000_000 * 4);
        let text = format!(
            "no KMIN_MAP, KMAX_MAP and PMAX_MAP: {} and {} KB and 0.2, as HPCC's run.py has them at {usual}",
            kmin.get() / 1_000,
            kmin.get() * 4 / 1_000
        );
        report.approximated.push(Note::on_nothing(text));
        return Ok(Some(Ecn { kmin, kmax: kmin * 4, pmax_ppb: 200_000_000 }));
    }
    let of_rate = |rate: BitRate| -> Result<Ecn, ImportErrors> {
        let of = |key: &str| {
            config.maps.get(key).and_then(|map| map.get(&rate)).copied().ok_or_else(|| {
                let problem = format!("{key} has nothing for links of {rate}");
                let help = format!("write a pair of {} and a threshold", rate.as_bps());
                ImportErrors::one(&config.file, config.line(key), problem, help)
            })
        };
        Ok(Ecn { kmin: Bytes::kb(of("KMIN_MAP")?), kmax: Bytes::kb(of("KMAX_MAP")?), pmax_ppb: of("PMAX_MAP")? })
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
    let mut others = Vec::new();
    for rate in rates(topology).into_keys().filter(|rate| *rate != usual) {
        let other = of_rate(rate)?;
        if other != chosen {
            others.push(format!("{rate}: {} to {}", other.kmin, other.kmax));
        }
    }
    let text = format!("ECN from {} to {} with P_max {}", chosen.kmin, chosen.kmax, chosen.pmax_ppb as f64 / 1e9);
    if others.is_empty() {
        report.taken.push(Note::at(&config.file, line, text));
    } else {
        let text = format!("{text} at all ports, as at most of them ({usual}); in the simulator {}", others.join(", "));
        report.approximated.push(Note::at(&config.file, line, text));
    }
    for key in &config.miscounted {
        let line = config.line(key).unwrap_or(1);
        let text = format!("{key} has more pairs than its first number says: all of them count");
        report.approximated.push(Note::at(&config.file, line, text));
    }
    // Nothing below K_max, and all above it.
    Ok(Some(if chosen.pmax_ppb == 0 { Ecn { kmin: chosen.kmax, pmax_ppb: 1_000_000_000, ..chosen } } else { chosen }))
}

/// How many ports of switches have each rate.
fn rates(topology: &Topology) -> BTreeMap<BitRate, usize> {
    let mut rates = BTreeMap::new();
    for link in topology.ports() {
        *rates.entry(link.rate).or_default() += 1;
    }
    rates
}

/// The value that occurs most often; of several the least.
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, times)| *times == most).map(|(value, _)| value)
}
