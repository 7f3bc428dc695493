//! What few drawn scenarios have: flow control that differs by link, any policy under GFC and credit, pulses, spraying, links that flap,
//! switches that restart, hosts that are killed or stand still, changes at run time, forged frames, unknown stations.

use weir_mmu::policy;
use weir_scenario::PortRef;
use weir_scenario::topology::LinkSpec;
use weir_scenario::workload::Rng;
use weir_units::{BitRate, Span};

use super::draw::{Drawing, Speaks, between, chance, one_of};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rarities {
    /// Flow control in place of a common one.
    pub speaks: Option<Speaks>,
    /// Whether queues under GFC or credit have any policy, not `static` alone.
    pub has_any_policy: bool,
    /// Load balancing of switches that choose a path for each frame or flowlet.
    pub load_balancing: Option<&'static str>,
    /// Selective repeat, and the entropy of its packets.
    pub entropy: Option<&'static str>,
    pub flaps: bool,
    pub restarts: bool,
    pub kills: bool,
    pub stands_still: bool,
    pub changes: bool,
    pub forges: bool,
    pub strangers: bool,
}

impl Rarities {
    pub(super) fn draw(rng: &mut Rng, common: Speaks) -> Rarities {
        if chance(rng, 30) {
            return Rarities::default();
        }
        let speaks = match rng.below(100) {
            0..15 => Some(Speaks::Mixed),
            15..20 => Some(Speaks::Pulses),
            20..25 => Some(Speaks::Lengths),
            25..30 => Some(one_of(rng, &[Speaks::Stages, Speaks::Rates, Speaks::Credit])),
            _ => None,
        };
        let sprays = chance(rng, 15);
        let load_balancing = ["random", "round-robin", "shortest-queue", "drill", "flowlet"];
        let entropy = ["flow", "per-packet", "bitmap", "reps"];
        let has_limit = speaks.unwrap_or(common).has_limit() && !matches!(speaks, Some(Speaks::Mixed | Speaks::Pulses));
        let mut are = |percent| chance(rng, percent);
        Rarities {
            speaks,
            has_any_policy: has_limit && are(60),
            flaps: are(12),
            restarts: are(10),
            kills: are(8),
            stands_still: are(10),
            changes: are(20),
            forges: are(12),
            strangers: are(10),
            load_balancing: (sprays && are(80)).then(|| one_of(rng, &load_balancing)),
            entropy: (sprays && chance(rng, 80)).then(|| one_of(rng, &entropy)),
        }
    }

    /// Whether frames may be lost that are to be sent again.
    pub(super) fn may_lose(&self) -> bool {
        let Rarities { speaks, load_balancing, entropy, flaps, restarts, kills, changes, forges, strangers, .. } =
            *self;
        speaks.is_some()
            || load_balancing.is_some()
            || entropy.is_some()
            || flaps
            || restarts
            || kills
            || changes
            || forges
            || strangers
    }
}

/// P toward a peer that knows PFC alone, by default too long for the drawn buffers: 200 quanta.
pub(super) fn pulse_period(rate: BitRate) -> Span {
    let quanta = rate.time_for(weir_units::Bytes::new(200 * 64));
    Span::from_nanos(quanta.as_picos().div_ceil(1_000))
}

impl Drawing {
    /// The key of a link whose flow control is its own.
    pub(super) fn flow_control_of(&mut self, cable: LinkSpec, is_of_host: bool) -> String {
        let pulses = || {
            format!(
                "{{ kind = \"gfc-buffer\", peer = \"pfc\", pulse_period = \"{}ns\" }}",
                pulse_period(cable.rate).as_picos() / 1_000
            )
        };
        let kind = match self.speaks {
            Speaks::Pulses if is_of_host => pulses(),
            Speaks::Mixed => {
                let credit = Speaks::Credit.kind(self.cell).0;
                match one_of(
                    &mut self.rare,
                    &["pfc", "pfc", "pause", "gfc-buffer", "gfc-time", "gfc-conceptual", credit, credit, "pulses"],
                ) {
                    "pulses" => pulses(),
                    kind => format!("\"{kind}\""),
                }
            }
            _ => return String::new(),
        };
        format!("\nflow_control = {kind}")
    }

    /// Names of the ends of a link between switches: a port, and the other switch.
    fn ends_of(&self, link: usize) -> String {
        let names = self.fabric.port_names();
        let [near, far] = self.fabric.links[link].ends;
        let switch = |at: PortRef| &self.fabric.switches[at.switch].name;
        format!("[\"{}.{}\", \"{}\"]", switch(near), names[near.switch][near.port].replace('.', "_"), switch(far))
    }

    fn ends_of_host(&self, host: usize) -> String {
        let host = &self.fabric.hosts[host];
        format!("[\"{}\", \"{}\"]", self.fabric.switches[host.at.switch].name, host.name)
    }

    /// The links that are up, those to hosts last.
    fn any_link(&mut self) -> String {
        let up: Vec<usize> = (0..self.fabric.links.len()).filter(|link| self.fabric.links[*link].is_up).collect();
        let place = self.rare.below((up.len() + self.fabric.hosts.len()) as u64) as usize;
        up.get(place).map_or_else(|| self.ends_of_host(place - up.len()), |link| self.ends_of(*link))
    }

    /// `[[outages]]`: links that flap, switches whose links all go at once and come again, and hosts whose link goes for good.
    ///
    /// A switch that restarts so has lost its queues and all flow control, and keeps its counters and its policy's averages.
    pub(super) fn rare_outages(&mut self) {
        let Rarities { flaps, restarts, kills, .. } = self.rarities;
        let end = self.end * 1_000;
        if flaps {
            for _ in 0..between(&mut self.rare, 1, 3) {
                let link = self.any_link();
                if self.cut.contains(&link) {
                    continue;
                }
                self.cut.push(link.clone());
                let every = between(&mut self.rare, end / 40 + 2, end / 4 + 2);
                let (length, at) = (between(&mut self.rare, 1, every - 1), between(&mut self.rare, 0, end / 4));
                let until = between(&mut self.rare, end / 2, end - 1);
                self.line(format!(
                    "[[outages]]\nlink = {link}\nat = \"{at}ns\"\nuntil = \"{until}ns\"\nevery = \"{every}ns\"\nfor = \"{length}ns\""
                ));
            }
        }
        if restarts {
            for _ in 0..between(&mut self.rare, 1, 2) {
                let switch = self.rare.below(self.fabric.switches.len() as u64) as usize;
                let at = between(&mut self.rare, 0, end / 2);
                let until = at + between(&mut self.rare, 1, end / 3);
                let between_switches = (0..self.fabric.links.len()).filter(|link| {
                    let link = &self.fabric.links[*link];
                    link.is_up && link.ends.iter().any(|end| end.switch == switch)
                });
                let hosts = (0..self.fabric.hosts.len()).filter(|host| self.fabric.hosts[*host].at.switch == switch);
                let links: Vec<String> = between_switches
                    .map(|link| self.ends_of(link))
                    .chain(hosts.map(|host| self.ends_of_host(host)))
                    .collect();
                if links.iter().any(|link| self.cut.contains(link)) {
                    continue;
                }
                self.cut.extend_from_slice(&links);
                for link in links {
                    self.line(format!("[[outages]]\nlink = {link}\nat = \"{at}ns\"\nuntil = \"{until}ns\""));
                }
            }
        }
        if kills {
            let host = self.rare.below(self.fabric.hosts.len() as u64) as usize;
            let at = between(&mut self.rare, 0, end - 1);
            let link = self.ends_of_host(host);
            if !self.cut.contains(&link) {
                self.line(format!("[[outages]]\nlink = {link}\nat = \"{at}ns\""));
            }
        }
    }

    /// `[[slow_receivers]]`: a host that takes nothing in until late.
    pub(super) fn standstill(&mut self) {
        // GFC's least rate fills what stands still.
        if !self.rarities.stands_still || self.speaks.is_gentle() || self.speaks == Speaks::Mixed {
            return;
        }
        let host = self.rare.below(self.fabric.hosts.len() as u64) as usize;
        let (name, end) = (self.fabric.hosts[host].name.clone(), self.end * 1_000);
        let (from, until) = (between(&mut self.rare, 0, end / 2), between(&mut self.rare, end / 2 + 1, end));
        self.line(format!(
            "[[slow_receivers]]\nhosts = [\"{name}\"]\nrate = \"8Kbps\"\nfrom = \"{from}ns\"\nuntil = \"{until}ns\""
        ));
    }

    /// Events that files have no keys for.
    pub(super) fn events(&mut self) {
        let Rarities { changes, forges, strangers, .. } = self.rarities;
        if changes {
            for _ in 0..between(&mut self.rare, 1, 4) {
                self.change();
            }
        }
        if forges {
            for _ in 0..between(&mut self.rare, 1, 4) {
                self.forge();
            }
        }
        // Frames to unknown stations are flooded, and go round for good where switches are in a circle.
        let links = self.fabric.links.iter().filter(|link| link.is_up).count();
        if strangers && links < self.fabric.switches.len() {
            for _ in 0..between(&mut self.rare, 1, 3) {
                let host = self.rare.below(self.fabric.hosts.len() as u64) as usize;
                let (name, at) = (self.fabric.hosts[host].name.clone(), between(&mut self.rare, 0, self.end * 1_000));
                let class = if self.classes.is_empty() || chance(&mut self.rare, 60) { 0 } else { self.classes[0] };
                let (bytes, count) = (between(&mut self.rare, 60, self.mtu), between(&mut self.rare, 1, 30));
                self.line(format!("# at {at}ns: stranger {name} {class} {bytes} {count}"));
            }
        }
    }

    /// A port of a switch, its rate, and whether a host is at it.
    fn any_port(&mut self) -> (String, BitRate) {
        let names = self.fabric.port_names();
        let of_hosts = self.fabric.hosts.iter().map(|host| (host.at, host.cable().rate));
        let up = self.fabric.links.iter().filter(|link| link.is_up);
        let ports: Vec<_> = of_hosts.chain(up.flat_map(|link| link.ends.map(|end| (end, link.cable().rate)))).collect();
        let (at, rate) = one_of(&mut self.rare, &ports);
        (format!("{}.{}", self.fabric.switches[at.switch].name, names[at.switch][at.port].replace('.', "_")), rate)
    }

    fn change(&mut self) {
        let end = self.end * 1_000;
        let from = between(&mut self.rare, 0, end / 2);
        let until = from + between(&mut self.rare, 1, end / 2);
        let switch = self.rare.below(self.fabric.switches.len() as u64) as usize;
        let switch = self.fabric.switches[switch].name.clone();
        let (port, rate) = self.any_port();
        let class = self.classes.first().copied().unwrap_or(0);
        let has_alpha = policy::parse_config(self.policy, "").is_ok_and(|config| config.is_live("alpha"));
        let goes_by_xoff = matches!(self.speaks, Speaks::Pfc | Speaks::Pause);
        let rng = &mut self.rare;
        let action = match rng.below(6) {
            0 if has_alpha => {
                let alphas = ["1/64", "1/8", "1/2", "1", "4", "16"];
                format!("policy {switch} {} alpha = \"{}\"", one_of(rng, &["1/4", "1", "4"]), one_of(rng, &alphas))
            }
            1 if goes_by_xoff || self.speaks == Speaks::Nothing => {
                format!("rate {port} {}", rate.as_bps() / one_of(rng, &[2, 4, 10]))
            }
            2 if goes_by_xoff => format!("pause {port} {class}"),
            3 => format!("close {port} {}", one_of(rng, &["down", "blocked"])),
            _ => {
                let (kmin, kmax) = (between(rng, 1_000, 20_000), between(rng, 20_000, 100_000));
                format!("queue {switch} {class} {} {kmin} {kmax}", between(rng, 1_000, 20_000))
            }
        };
        self.line(format!("# from {from}ns until {until}ns: {action}"));
    }

    fn forge(&mut self) {
        let at = between(&mut self.rare, 0, self.end * 1_000);
        let (port, _) = self.any_port();
        let end = if chance(&mut self.rare, 50) {
            port
        } else {
            self.fabric.hosts[self.rare.below(self.fabric.hosts.len() as u64) as usize].name.clone()
        };
        let (class, cell) = (self.classes.first().copied().unwrap_or(0), self.cell);
        let rng = &mut self.rare;
        let number =
            |rng: &mut Rng| one_of(rng, &[0, 1, 7, 100, 1_000, 65_535, 1 << 20, (1 << 31) - 1, u64::from(u32::MAX)]);
        let time = one_of(rng, &[0, 1, 8, 64, 65, 1_000, 65_535]);
        let message = match rng.below(6) {
            0 | 1 => format!("pfc {class} {time}"),
            2 => format!("pause {time}"),
            3 => {
                let (buffer, sent) = one_of(rng, &[(0, 0), (0, 1), (1, 0)]);
                format!("credit {class} {} {} {}", number(rng), buffer * number(rng), sent * number(rng))
            }
            4 => format!("length {class} {}", number(rng)),
            _ => format!("{} {class} {} {cell}", one_of(rng, &["freed", "consumed"]), number(rng)),
        };
        self.line(format!("# at {at}ns: forge toward {end} {message}"));
    }
}
