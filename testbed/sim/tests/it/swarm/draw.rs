//! Scenarios drawn from a seed, as files.

use std::fmt::Write;
use std::path::Path;

use weir_arbitration::ARBITERS;
use weir_flowctl::cbfc::Advertiser;
use weir_flowctl::gfc::{buffer_based_b1_max, conceptual_b0_max, feedback_delay_max, time_based_b0_max};
use weir_flowctl::wire_bytes;
use weir_mmu::policy::BUFFER_POLICIES;
use weir_nic::host::congestion;
use weir_nic::tcp;
use weir_scenario::file::parse;
use weir_scenario::topology::{Fabric, LinkSpec};
use weir_scenario::workload::Rng;
use weir_scenario::{PortRef, Scenario};
use weir_units::{BitRate, Bytes, LINK_OVERHEAD, Span};

use super::events::Event;
use super::fabrics;
use super::promises::Promises;
use super::rarities::{Rarities, pulse_period};

/// A scenario, and what is to hold of it.
pub(crate) struct Case {
    pub seed: u64,
    /// The file.
    pub text: String,
    pub scenario: Scenario,
    pub events: Vec<Event>,
    pub promises: Promises,
}

impl Case {
    /// The case of a file.
    ///
    /// # Errors
    /// The errors of the file.
    pub(crate) fn read(seed: u64, text: &str) -> Result<Case, String> {
        let runs = parse(Path::new("swarm.toml"), text).map_err(|errors| errors.render(false))?;
        let scenario = runs.into_iter().next().expect("a run").scenario;
        let events = Event::all_of(text);
        let promises = Promises::of(&text.parse().map_err(|error| format!("{error}"))?, &scenario, &events);
        Ok(Case { seed, text: text.to_owned(), scenario, events, promises })
    }
}

/// Flow control of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Pfc,
    /// 802.3x: all classes at once.
    Pause,
    /// GFC by stages.
    Stages,
    /// GFC by time.
    Rates,
    /// Conceptual GFC.
    Lengths,
    Credit,
    /// Nothing, and no class is lossless.
    Nothing,
    /// Each link has one of these.
    Mixed,
    /// GFC by stages, and pulses toward hosts that know PFC alone.
    Pulses,
}

impl Speaks {
    /// Whether a sender is never stopped.
    pub(super) fn is_gentle(self) -> bool {
        matches!(self, Speaks::Stages | Speaks::Rates | Speaks::Lengths | Speaks::Pulses)
    }

    /// Whether queues are kept within a limit that a port's flow control has.
    pub(super) fn has_limit(self) -> bool {
        self.is_gentle() || matches!(self, Speaks::Credit | Speaks::Mixed)
    }

    /// Kind and key of its limit.
    pub(super) fn kind(self, cell: u64) -> (&'static str, &'static str) {
        match self {
            Speaks::Pfc => ("pfc", ""),
            Speaks::Pause => ("pause", ""),
            Speaks::Stages | Speaks::Pulses => ("gfc-buffer", "b_m"),
            Speaks::Rates => ("gfc-time", "b_m"),
            Speaks::Lengths => ("gfc-conceptual", "b_m"),
            Speaks::Credit if cell == 64 => ("uec-cbfc", "limit"),
            Speaks::Credit => ("cbfc", "buffer"),
            Speaks::Nothing => ("none", ""),
            Speaks::Mixed => ("pfc", ""),
        }
    }
}

pub(crate) fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// From `from` to `to`, both included.
pub(crate) fn between(rng: &mut Rng, from: u64, to: u64) -> u64 {
    from + rng.below(to - from + 1)
}

pub(crate) fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// Full frames of payload that a case sends.
const FRAMES: u64 = 3_000;
/// Sizes of messages: those of distributions that have no huge ones.
const SIZES: [&str; 9] = ["1B", "1KB", "8KB", "20KB", "64KB", "150KB", "google-rpc", "google-rpc", "web-server"];
/// Policies whose keys are drawn too.
const POLICIES_IN_PARTS: [&str; 12] =
    ["static", "dt", "dt", "spfc", "sih", "oversubscribed", "adaptive", "dsh", "dsh", "sonic", "abm", "reverie"];
/// Congestion controls that are drawn often.
const PRESETS: [&str; 13] = [
    "none",
    "none",
    "none",
    "dcqcn",
    "dcqcn-paper",
    "dcqcn-hpcc",
    "dcqcn-conweave",
    "timely",
    "timely-hpcc",
    "hpcc",
    "hpcc-simulator",
    "powertcp",
    "theta-powertcp",
];

/// What some seeds draw in place of those above and of [`POLICIES_IN_PARTS`]: whatever else there is, with its defaults.
const OTHERS_PERCENT: u64 = 20;

/// Names that a list does not have yet.
fn others(names: impl Iterator<Item = &'static str>, known: &[&str]) -> Vec<&'static str> {
    names.filter(|name| !known.contains(name)).collect()
}

/// The case of a seed: where it would be too long, with a shorter load.
pub(crate) fn draw(seed: u64) -> Case {
    draw_with(seed, Rarities::draw)
}

/// The case of a seed without [`Rarities`].
pub(crate) fn draw_common(seed: u64) -> Case {
    draw_with(seed, |_, _| Rarities::default())
}

fn draw_with(seed: u64, rarities: impl Fn(&mut Rng, Speaks) -> Rarities) -> Case {
    for shorter in 0..8 {
        let (text, payload) = Drawing::new(seed, shorter, &rarities).file();
        let case = Case::read(seed, &text).unwrap_or_else(|errors| panic!("seed {seed}:\n{text}\n{errors}"));
        let messages = case.scenario.traffic.iter().flat_map(|traffic| traffic.messages().iter());
        let size: u64 = messages.map(|message| message.size.get().max(payload)).sum();
        if size < 2 * FRAMES * payload || shorter == 7 {
            return case;
        }
    }
    unreachable!("the shortest is taken")
}

pub(super) struct Drawing {
    rng: Rng,
    /// Draws what was added later, so that seeds stay what they were but for that.
    further: Rng,
    /// Draws whether there is something of [`others`].
    others: Rng,
    /// Draws what [`Rarities`] has.
    pub(super) rare: Rng,
    pub(super) rarities: Rarities,
    seed: u64,
    pub(super) fabric: Fabric,
    pub(super) speaks: Speaks,
    /// Whether frames may be lost, doubled or late.
    has_faults: bool,
    /// In microseconds.
    pub(super) end: u64,
    payload: u64,
    pub(super) mtu: u64,
    pub(super) cell: u64,
    pub(super) classes: &'static [u8],
    /// How often it was too long.
    shorter: u32,
    /// Whether data of RDMA may be dropped.
    is_lossy: bool,
    is_watched: bool,
    /// Links with an outage, which no other may have.
    pub(super) cut: Vec<String>,
    /// Limit of a queue under GFC and credit, in bytes.
    pub(super) limit: u64,
    pub(super) policy: &'static str,
    text: String,
}

impl Drawing {
    fn new(seed: u64, shorter: u32, rarities: impl Fn(&mut Rng, Speaks) -> Rarities) -> Drawing {
        let mut rng = Rng::stream(seed, 0x73_77_61_72_6d);
        let fabric = fabrics::draw(&mut rng);
        let speaks = match rng.below(100) {
            0..55 => Speaks::Pfc,
            55..62 => Speaks::Pause,
            62..72 => Speaks::Stages,
            72..80 => Speaks::Rates,
            80..90 => Speaks::Credit,
            _ => Speaks::Nothing,
        };
        let (payload, mtu) =
            one_of(&mut rng, &[(256, 1_500), (512, 1_500), (1_024, 1_500), (1_024, 9_000), (4_096, 4_300)]);
        let mut rare = Rng::stream(seed, 0x72_61_72_65);
        let rarities = rarities(&mut rare, speaks);
        let speaks = rarities.speaks.unwrap_or(speaks);
        // Credit counts blocks of 64 B, and no cell may be larger.
        let has_blocks = matches!(speaks, Speaks::Rates | Speaks::Credit | Speaks::Mixed);
        let cells: &[u64] = if has_blocks { &[1, 64] } else { &[1, 1, 64, 208, 256] };
        let cell = one_of(&mut rng, cells);
        let bits = fabric.hosts.len() as u64 * fabric.hosts[0].rate.as_bps() / 1_000_000;
        let end = (FRAMES * payload * 8 / bits).clamp(20, 1_000) >> shorter;
        let classes: &[u8] = match speaks {
            Speaks::Nothing => &[],
            _ if chance(&mut rng, 30) => &[3, 4],
            _ => &[3],
        };
        Drawing {
            rng,
            further: Rng::stream(seed, 0x66_75_72_74_68),
            others: Rng::stream(seed, 0x6f_74_68_65_72),
            rare,
            rarities,
            seed,
            fabric,
            speaks,
            has_faults: false,
            end: end.max(2),
            payload,
            mtu,
            cell,
            classes,
            shorter,
            is_lossy: false,
            is_watched: false,
            cut: Vec::new(),
            limit: 0,
            policy: "",
            text: String::new(),
        }
    }

    /// The file, and the payload of its full frames.
    fn file(mut self) -> (String, u64) {
        let overhead = if chance(&mut self.rng, 15) { "0B" } else { "24B" };
        let (end, seed, measures) = (self.end, self.seed as u32, chance(&mut self.further, 30));
        self.line(format!(
            "[scenario]\nname = \"seed-{}\"\nend = \"{end}us\"\nsample_every = \"{}ns\"\nforwarding = \"ecmp\"\nseed = {seed}\n\
             link_overhead = \"{overhead}\"\nfeedback_delay = {measures}\n[switch]\nmtu = {}",
            self.seed,
            end * 50,
            self.mtu
        ));
        if let Some(load_balancing) = self.rarities.load_balancing {
            self.line(format!("load_balancing = \"{load_balancing}\""));
        }
        self.buffer();
        let preset = one_of(&mut self.rng, &PRESETS);
        let preset = self.other(congestion::presets().map(|(name, _)| name), &PRESETS).unwrap_or(preset);
        self.classes(preset);
        let quanta = one_of(&mut self.rng, &[65_535, 65_535, 5_000, 1_000]);
        self.line(format!("[switch.pfc]\nreaction = \"0s\"\nquanta = {quanta}"));
        self.watchdog();
        self.text_of_fabric();
        self.rare_outages();
        if !self.slow_receivers() {
            self.standstill();
        }
        // Acknowledgements are lossy.
        let retransmits = self.has_faults || !chance(&mut self.rng, 20) || self.rarities.may_lose();
        let timeout = one_of(&mut self.rng, &["500us", "1ms", "4ms"]);
        if chance(&mut self.rng, 30) {
            self.flows(preset);
        }
        for _ in 0..between(&mut self.rng, 1, 3) {
            self.workload(preset);
        }
        if chance(&mut self.further, 25) {
            self.closed_loop(preset);
        }
        // With an acknowledgement for the last frame alone, frames that overflow a queue in the same way each time are sent
        // again for good.
        let ack_every = if self.is_lossy { 1 } else { one_of(&mut self.rng, &[1, 1, 2, 16, 64]) };
        let recovery = match self.rarities.entropy {
            None => format!("ack_every = {ack_every}"),
            Some(entropy) => format!("loss_recovery = \"selective\"\nentropy = \"{entropy}\""),
        };
        self.line(format!(
            "[nic]\nmtu = {}\n{recovery}\nretransmit = \"{}\"",
            self.payload,
            if retransmits { timeout } else { "none" }
        ));
        self.events();
        (self.text, self.payload)
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        writeln!(self.text, "{}", line.as_ref()).expect("a text");
    }

    /// By how much more a link may fill the buffer than it brings, in cells.
    pub(super) fn in_cells(&self, bytes: u64) -> u64 {
        let worst = [64, self.cell + 1].into_iter().filter(|frame| *frame >= 64);
        let charges = worst.map(|frame| bytes * frame.div_ceil(self.cell) * self.cell / (frame + 20) + 1);
        charges.fold(bytes, u64::max) + 2 * self.cell
    }

    pub(super) fn cables(&self) -> impl Iterator<Item = (usize, LinkSpec)> + '_ {
        let of_hosts = self.fabric.hosts.iter().map(|host| (host.at.switch, host.cable()));
        let up = self.fabric.links.iter().filter(|link| link.is_up);
        of_hosts.chain(up.flat_map(|link| link.ends.map(|end| (end.switch, link.cable()))))
    }

    /// Σ of something of all ports of a switch, the most of any.
    fn most(&self, of: impl Fn(LinkSpec) -> u64) -> u64 {
        let sum = |switch: usize| self.cables().filter(|(at, _)| *at == switch).map(|(_, cable)| of(cable)).sum();
        (0..self.fabric.switches.len()).map(sum).max().unwrap_or(0)
    }

    fn headroom(&self, cable: LinkSpec) -> u64 {
        let frame = self.mtu + 22;
        self.in_cells(2 * (cable.rate.bytes_in(cable.delay).get() + frame) + (frame + 84).max(3_840))
    }

    /// `[switch.buffer]` and `[switch.port]`.
    fn buffer(&mut self) {
        let lossless = self.classes.len() as u64;
        let ports = self.most(|_| 1);
        let frame = (self.mtu + 22).next_multiple_of(self.cell);
        let private = if chance(&mut self.rng, 20) { frame * between(&mut self.rng, 0, 2) } else { 0 };
        let spare = frame * 8 + 1_000 * one_of(&mut self.rng, &[10, 40, 100, 300, 1_000]);
        let alphas = ["1/64", "1/16", "1/8", "1/4", "1/2", "1", "2", "4", "16"];
        let alpha = one_of(&mut self.rng, &alphas);
        // A lossy queue whose threshold is below a frame lets nothing through, however long the buffer is empty.
        let parts = [64, 16, 8, 4, 2];
        let first = parts.iter().position(|part| spare / part >= 8 * frame).unwrap_or(parts.len());
        let lossy_alpha = one_of(&mut self.rng, &alphas[first..]);
        let has_limit = self.speaks.has_limit();
        let (kind, limit) = self.speaks.kind(self.cell);
        let mut flow_control = format!("\"{kind}\"");
        self.limit = if has_limit { self.kept() + spare / 4 } else { 0 };
        let mut given = String::new();
        let (size, policy, table) = if has_limit && !self.rarities.has_any_policy {
            // All queues may be full, and lossy frames have their part beside them.
            let headroom = self.most(|cable| self.headroom(cable)) * lossless;
            let size = (self.limit * lossless * ports + headroom + private * 8 * ports) * 2 + spare;
            (size, "static", format!("threshold = \"{}B\"", self.limit))
        } else {
            // Whatever the policy's threshold is, a queue of the limit fits its headroom.
            let own_headroom = self.in_cells(self.limit) + 4 * frame;
            let mut headroom = self.most(|cable| self.headroom(cable));
            if has_limit {
                flow_control = format!("{{ kind = \"{kind}\", {limit} = \"{}B\" }}", self.limit);
                headroom = headroom.max(own_headroom * ports);
            }
            // Lossless frames, whose senders GFC never stops, leave room for acknowledgements.
            let shared = 2 * self.limit * ports;
            let size = (headroom + shared) * lossless + private * 8 * ports + spare;
            let policy = one_of(&mut self.rng, &POLICIES_IN_PARTS);
            let table = self.policy(policy, alpha, spare);
            // These have the headroom by the rule.
            if has_limit && !["adaptive", "sih"].contains(&policy) {
                given = format!("headroom = \"{own_headroom}B\"\n");
            }
            match self.other(BUFFER_POLICIES.names(), &POLICIES_IN_PARTS) {
                Some(other) => (size, other, String::new()),
                None => (size, policy, table),
            }
        };
        let lossy_alpha = if has_limit { "1/4" } else { lossy_alpha };
        self.policy = policy;
        self.line(format!(
            "[switch.buffer]\nsize = \"{size}B\"\ncell_bytes = {}\nprivate = \"{private}B\"\nlossy_alpha = \"{lossy_alpha}\"\n\
             {given}policy = \"{policy}\"\n[switch.buffer.{policy}]\n{table}\n[switch.port]\nflow_control = {flow_control}",
            self.cell
        ));
    }

    /// One of these names that the list does not have, now and then.
    fn other(&mut self, names: impl Iterator<Item = &'static str>, known: &[&str]) -> Option<&'static str> {
        let others = others(names, known);
        let is_drawn = !others.is_empty() && chance(&mut self.others, OTHERS_PERCENT);
        is_drawn.then(|| one_of(&mut self.others, &others))
    }

    fn policy(&mut self, policy: &str, alpha: &str, spare: u64) -> String {
        let rng = &mut self.rng;
        let with_alpha = format!("alpha = \"{alpha}\"\n");
        match policy {
            "static" => {
                let frame = self.mtu + 22 + self.cell;
                format!("threshold = \"{}B\"", between(rng, 2 * frame + 2, spare - frame))
            }
            "spfc" => {
                let (k, tc) = (between(rng, 2, 10), between(rng, 1, 80));
                let victim_at = one_of(rng, &["count", "window-end"]);
                format!("{with_alpha}k_spfc = {k}\ntc = \"{tc}us\"\nvictim_at = \"{victim_at}\"")
            }
            // All of it, or a pool that may lose frames.
            "oversubscribed" => format!("{with_alpha}headroom_percent = {}", one_of(rng, &[100, 100, 80])),
            "adaptive" => format!("{with_alpha}samples = {}", between(rng, 1, 8)),
            "dsh" => {
                let insurance = !chance(rng, 15);
                let estimator = one_of(rng, &["exact", "table"]);
                format!(
                    "{with_alpha}estimator = \"{estimator}\"\nwindow = \"{}us\"\ninsurance = {insurance}\nshared_headroom = {}",
                    one_of(rng, &[1, 100, 10_000]),
                    !chance(rng, 20)
                )
            }
            "abm" => {
                let interval = between(rng, 1, 50);
                format!("{with_alpha}congested = \"{}KB\"\ninterval = \"{interval}us\"", between(rng, 1, 30))
            }
            "reverie" => {
                let gamma = one_of(rng, &["0", "0.5", "0.9", "0.999", "0.999999"]);
                format!("{with_alpha}gamma = {gamma}\ncongested = \"{}KB\"", between(rng, 1, 30))
            }
            _ => with_alpha,
        }
    }

    /// What GFC and credit need at least of a queue on any link.
    fn kept(&self) -> u64 {
        let frame = wire_bytes((self.mtu + 18) as u32, LINK_OVERHEAD);
        let large = Bytes::mb(1_000);
        let of = |(_, LinkSpec { rate, delay }): (usize, LinkSpec)| {
            let (tau, period) =
                (feedback_delay_max(rate, frame, delay, Span::ZERO), Advertiser::period_by_default(rate));
            let cells = |span: Span| Span::from_picos(self.in_cells(span.as_picos()));
            let by_stages = |tau| large - buffer_based_b1_max(large, rate, tau).expect("room");
            let by_time = || large - time_based_b0_max(large, rate, cells(tau), cells(period)).expect("room");
            let by_length = || {
                let tau = cells(tau + rate.time_for(Bytes::new(1_250)));
                large - conceptual_b0_max(large, rate, tau).expect("room")
            };
            let by_pulses = || by_stages(cells(tau + pulse_period(rate)));
            let free = match self.speaks {
                Speaks::Stages => by_stages(cells(tau)),
                Speaks::Rates => by_time(),
                Speaks::Lengths => by_length(),
                Speaks::Pulses => by_pulses(),
                Speaks::Mixed => by_time().max(by_length()).max(by_pulses()),
                _ => frame * 4,
            };
            free.get()
        };
        self.cables().map(of).max().unwrap_or(0) + 4 * (self.mtu + 22 + self.cell)
    }

    fn classes(&mut self, preset: &str) {
        let scheduler = one_of(&mut self.further, &["dwrr", "dwrr", "packet-rr"]);
        self.line(format!(
            "[switch.classes]\npreset = \"roce\"\nlossless = {:?}\nscheduler = \"{scheduler}\"\n[switch.classes.dscp]\n33 = 4",
            self.classes
        ));
        for class in [0, 3, 4] {
            let arbitration = one_of(&mut self.rng, ARBITERS.all());
            let mut text =
                format!("[[switch.classes.queues]]\nclass = {class}\narbitration = \"{}\"", arbitration.id());
            if arbitration.keys().iter().any(|key| key.name() == "arbitration_burst") {
                text += &format!("\narbitration_burst = {}", between(&mut self.rng, 1, 8));
            }
            let goes_by_marks = ["dcqcn", "dctcp"].iter().any(|name| preset.starts_with(name));
            if goes_by_marks || chance(&mut self.rng, 30) {
                let kmin = between(&mut self.rng, 2, 60);
                let kmax = kmin + between(&mut self.rng, 0, 200);
                text += &format!("\necn = {{ kmin = \"{kmin}KB\", kmax = \"{kmax}KB\", pmax = 0.2 }}");
            }
            // GFC and credit hold queues by rates of their own.
            if matches!(self.speaks, Speaks::Pfc | Speaks::Pause | Speaks::Nothing) && chance(&mut self.further, 15) {
                let rate = self.cables().map(|(_, cable)| cable.rate).min().expect("a cable").as_bps() / 2_000_000;
                text += &format!("\nrate = \"{rate}Mbps\"");
            }
            self.line(text);
        }
    }

    /// `[switch.pfc_watchdog]`, which takes what PFC pauses for long for a storm: looks are so near each other that it sees some.
    fn watchdog(&mut self) {
        if self.speaks != Speaks::Pfc || !chance(&mut self.further, 25) {
            return;
        }
        let rng = &mut self.further;
        let action = one_of(rng, &["alert", "drop", "drop", "forward"]);
        let every = one_of(rng, &[2, 5, 10, 50]);
        let (detection, restoration) = (every * between(rng, 1, 2), every * between(rng, 1, 5));
        let condition = one_of(rng, &["pfc-received", "queue-stalled", "queue-stalled"]);
        self.is_watched = true;
        self.line(format!(
            "[switch.pfc_watchdog]\naction = \"{action}\"\npoll_interval = \"{every}us\"\ndetection_time = \"{detection}us\"\n\
             restoration_time = \"{restoration}us\"\ncondition = \"{condition}\""
        ));
    }

    /// `[[slow_receivers]]`: for a while, or a little for good; beside a watchdog such that nearly stand still, as their PAUSEs are
    /// what it takes for storms.
    /// Returns whether there are any.
    fn slow_receivers(&mut self) -> bool {
        let is_watched = self.is_watched;
        if !is_watched && !chance(&mut self.further, 25) {
            return false;
        }
        let (hosts, line) = (&self.fabric.hosts, self.fabric.hosts[0].rate.as_bps() / 1_000_000);
        let (rng, end) = (&mut self.further, self.end);
        let share = between(rng, 10, 60);
        let mut slow: Vec<&str> = hosts.iter().map(|host| &*host.name).filter(|_| chance(rng, share)).collect();
        if slow.is_empty() {
            slow.push(&hosts[rng.below(hosts.len() as u64) as usize].name);
        }
        // GFC's least rate fills what is taken in more slowly.
        let parts: &[u64] = match () {
            () if is_watched => &[1_000],
            () if self.speaks.is_gentle() || self.speaks == Speaks::Mixed => &[2, 4, 8],
            () => &[2, 4, 20, 1_000],
        };
        let (part, time) = if !is_watched && chance(rng, 30) {
            (one_of(rng, &[2, 4]), String::new())
        } else {
            let (from, until) = (between(rng, 0, end * 400), between(rng, end * 450, end * 500));
            (one_of(rng, parts), format!("\nfrom = \"{from}ns\"\nuntil = \"{until}ns\""))
        };
        let mut text = format!("[[slow_receivers]]\nhosts = {slow:?}\nrate = \"{}Mbps\"{time}", line / part);
        if matches!(self.speaks, Speaks::Pfc | Speaks::Pause) && (is_watched || chance(rng, 50)) {
            let frame = self.mtu + 22;
            let xoff = frame * between(rng, 2, 20);
            text += &format!("\nxoff = \"{xoff}B\"\nxon = \"{}B\"", between(rng, 0, xoff - frame));
        }
        self.line(text);
        true
    }

    /// Switches, links and hosts, and what goes wrong on them.
    fn text_of_fabric(&mut self) {
        let goes_wrong = chance(&mut self.rng, 40);
        let fabric = self.fabric.clone();
        let names = fabric.port_names();
        for switch in &fabric.switches {
            self.line(format!("[[switches]]\nname = \"{}\"", switch.name));
        }
        let size =
            |LinkSpec { rate, delay }: LinkSpec| format!("rate = \"{rate}\"\ndelay = \"{}ps\"", delay.as_picos());
        let place = |at: PortRef| {
            format!("{}.{}", fabric.switches[at.switch].name, names[at.switch][at.port].replace('.', "_"))
        };
        let mut outage = None;
        for link in fabric.links.iter().filter(|link| link.is_up) {
            let ends = link.ends.map(place);
            let flow_control = self.flow_control_of(link.cable(), false);
            let size = size(link.cable());
            self.line(format!("[[links]]\nends = [\"{}\", \"{}\"]\n{size}{flow_control}", ends[0], ends[1]));
            self.faults(goes_wrong, "links", [&ends[0], &ends[1]]);
            outage = Some(format!("[\"{}\", \"{}\"]", ends[0], fabric.switches[link.ends[1].switch].name));
        }
        for host in &fabric.hosts {
            let at = place(host.at);
            let flow_control = self.flow_control_of(host.cable(), true);
            let size = size(host.cable());
            self.line(format!("[[hosts]]\nname = \"{}\"\nport = \"{at}\"\n{size}{flow_control}", host.name));
            self.faults(goes_wrong, "hosts", [&at, &host.name]);
            if outage.is_none() || chance(&mut self.rng, 5) {
                outage = Some(format!("[\"{}\", \"{}\"]", fabric.switches[host.at.switch].name, host.name));
            }
        }
        if let Some(link) = outage
            && goes_wrong
            && chance(&mut self.rng, 30)
        {
            self.has_faults = true;
            let (at, until) =
                (between(&mut self.rng, 0, self.end * 400), between(&mut self.rng, self.end * 450, self.end * 500));
            self.line(format!("[[outages]]\nlink = {link}\nat = \"{at}ns\"\nuntil = \"{until}ns\""));
            self.cut.push(link);
        }
    }

    fn faults(&mut self, goes_wrong: bool, of: &str, toward: [&str; 2]) {
        for toward in toward {
            if !goes_wrong || !chance(&mut self.rng, 20) {
                continue;
            }
            let frames = one_of(&mut self.rng, &["data", "data", "control"]);
            let key = one_of(&mut self.rng, &["loss", "loss", "duplication", "reordering"]);
            self.has_faults = true;
            let share = if frames == "data" { ["0.001", "0.02", "0.1"] } else { ["0.02", "0.3", "0.9"] };
            let share = one_of(&mut self.rng, &share);
            let until = between(&mut self.rng, self.end * 100, self.end * 500);
            let mut text = format!(
                "[[{of}.faults]]\ntoward = \"{toward}\"\nframes = \"{frames}\"\n{key} = {share}\nuntil = \"{until}ns\""
            );
            if key == "reordering" {
                let hold_back = between(&mut self.rng, 1, 100);
                text += &format!("\nhold_back = \"{hold_back}us\"\nuntil_next = {}", chance(&mut self.rng, 50));
            }
            self.line(text);
        }
    }

    /// A class for data, and what it is carried by.
    fn traffic(&mut self, preset: &str) -> String {
        let class = if self.speaks.has_limit() || chance(&mut self.rng, 75) { self.classes } else { &[] };
        let class = if class.is_empty() { 0 } else { one_of(&mut self.rng, class) };
        // TCP wants frames of its MSS.
        if chance(&mut self.rng, 15) {
            let kinds: Vec<&str> = tcp::kinds().map(|kind| kind.id()).collect();
            let transport = one_of(&mut self.rng, &kinds);
            return format!("class = {class}\ntransport = \"{transport}\"");
        }
        self.is_lossy |= class == 0;
        format!("class = {class}\ncongestion_control = \"{preset}\"")
    }

    /// What messages carry, and how large they are.
    fn messages(&mut self, preset: &str) -> (String, &'static str) {
        let traffic = self.traffic(preset);
        let sizes = match (one_of(&mut self.rng, &SIZES), self.shorter) {
            ("150KB" | "web-server", 0..2) if traffic.starts_with("class = 0") => "8KB",
            (sizes, 0..2) => sizes,
            (_, 2..4) => "1KB",
            _ => "1B",
        };
        (traffic, sizes)
    }

    fn workload(&mut self, preset: &str) {
        let hosts = self.fabric.hosts.len() as u64;
        let (traffic, sizes) = self.messages(preset);
        let end = self.end;
        let every = format!("every = \"{}us\"", between(&mut self.rng, end / 4 + 1, end));
        let kind = match self.rng.below(if hosts > 1 { 5 } else { 1 }) {
            0 => {
                let load = between(&mut self.rng, 1, 9);
                format!("kind = \"poisson\"\nload = 0.{load}")
            }
            1 => format!("kind = \"incast\"\n{every}\nfan_in = {}", between(&mut self.rng, 1, hosts - 1)),
            2 => format!("kind = \"permutation\"\n{every}"),
            3 => format!("kind = \"all-to-all\"\n{every}"),
            _ => {
                let receiver = &self.fabric.hosts[self.rng.below(hosts) as usize].name;
                format!("kind = \"incast\"\nreceivers = [\"{receiver}\"]\nfan_in = {}", hosts - 1)
            }
        };
        self.line(format!("[[workloads]]\n{kind}\nsizes = \"{sizes}\"\n{traffic}"));
    }

    /// Hosts that begin a message where another is acknowledged.
    fn closed_loop(&mut self, preset: &str) {
        std::mem::swap(&mut self.rng, &mut self.further);
        let (traffic, sizes) = self.messages(preset);
        std::mem::swap(&mut self.rng, &mut self.further);
        let rng = &mut self.further;
        let mut text = format!("outstanding = {}", between(rng, 1, 4));
        if chance(rng, 40) {
            text += &format!("\ntimes = {}", between(rng, 1, 20));
        }
        if chance(rng, 30) {
            text += &format!("\nfrom = \"{}ns\"", between(rng, 1, self.end * 500));
        }
        self.line(format!("[[workloads]]\nkind = \"closed-loop\"\n{text}\nsizes = \"{sizes}\"\n{traffic}"));
    }

    /// Some back to back.
    fn flows(&mut self, preset: &str) {
        for _ in 0..between(&mut self.rng, 1, 3) {
            let hosts = self.fabric.hosts.len() as u64;
            let from = self.rng.below(hosts);
            let to = (from + 1 + self.rng.below(hosts - 1)) % hosts;
            let [from, to] = [from, to].map(|host| self.fabric.hosts[host as usize].name.clone());
            let (size, traffic) = (one_of(&mut self.rng, &["1KB", "32KB", "100KB"]), self.traffic(preset));
            let mut text = format!("[[flows]]\nfrom = \"{from}\"\nto = \"{to}\"\nmessage = \"{size}\"\n{traffic}");
            if chance(&mut self.rng, 30) {
                text += &format!("\nevery = \"{}us\"", between(&mut self.rng, 5, 100));
            }
            self.line(text);
        }
    }
}

/// The slowest link.
pub(crate) fn slowest(scenario: &Scenario) -> BitRate {
    let rates = scenario.switches.iter().flat_map(|switch| &switch.ports).filter_map(|port| port.rate);
    rates.min().expect("a port with a rate")
}
