//! Events of a drawn scenario that its file has no keys for, as comments in the file: what a control thread changes in a running switch,
//! and frames that nobody sent.
//!
//! `weir testbed run` ignores them. Such a line has an instant, or an interval at whose end the file's value is back:
//!
//! ```text
//! # at 1200ns: forge toward S1.p0 pfc 3 65535
//! # from 1200ns until 3400ns: pause S1.p0 3
//! ```

use weir_config::{EcnConfig, PortState};
use weir_mmu::policy;
use weir_nic::host::{NicFrame, NicPacket, PacketKind};
use weir_scenario::{PortRef, Scenario};
use weir_sim::{Sim, WireSource};
use weir_switch_core::Shared;
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, PortId, Time};
use weir_wire::mac_control::{
    ControlFrame, CreditAccount, CreditCount, CreditFrame, CreditUpdate, PfcFrame, QueueLengthFrame,
};
use weir_wire::rocev2::{Dscp, Ecn, QueuePair};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    from: Time,
    /// End of an interval.
    until: Option<Time>,
    words: Vec<String>,
}

impl Event {
    /// The events in the comments of a file.
    pub(crate) fn all_of(text: &str) -> Vec<Event> {
        text.lines().filter_map(Event::read).collect()
    }

    fn read(line: &str) -> Option<Event> {
        let (times, action) = line.strip_prefix("# ")?.split_once(": ")?;
        let instant = |text: &str| Some(Time::from_nanos(text.strip_suffix("ns")?.parse().ok()?));
        let (from, until) = match times.split(' ').collect::<Vec<_>>()[..] {
            ["at", at] => (instant(at)?, None),
            ["from", from, "until", until] => (instant(from)?, Some(instant(until)?)),
            _ => return None,
        };
        Some(Event { from, until, words: action.split(' ').map(str::to_owned).collect() })
    }

    pub(crate) fn line(&self) -> String {
        let ns = |at: Time| at.as_picos() / 1_000;
        let times = match self.until {
            None => format!("at {}ns", ns(self.from)),
            Some(until) => format!("from {}ns until {}ns", ns(self.from), ns(until)),
        };
        format!("# {times}: {}", self.words.join(" "))
    }

    pub(crate) fn forges(&self) -> bool {
        self.words[0] == "forge"
    }

    /// Class of the data that no host sent.
    pub(crate) fn class_of_strangers(&self) -> Option<Class> {
        (self.words[0] == "stranger").then(|| Class::new(self.words[2].parse().expect("a class")))
    }

    pub(crate) fn closes_a_port(&self) -> bool {
        self.words[0] == "close"
    }

    /// When something happens: at these instants, and whether it is then undone.
    pub(crate) fn instants(&self) -> impl Iterator<Item = (Time, bool)> {
        [Some((self.from, false)), self.until.map(|until| (until, true))].into_iter().flatten()
    }

    /// Does it, or undoes it.
    ///
    /// # Panics
    /// If the words are none of an event, or name nothing of the scenario.
    pub(crate) fn apply(&self, scenario: &Scenario, sim: &mut Sim, is_over: bool) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{}", self.line()));
        let class = |text: &str| Class::new(number(text) as u8);
        match words[..] {
            ["policy", switch, lossy_alpha, ref keys @ ..] => {
                let at = switch_named(scenario, switch);
                let config = &scenario.switches[at];
                let (name, alpha) = (config.buffer.policy.name(), lossy_alpha.parse().expect("an α"));
                let changed = policy::parse_config(name, &keys.join(" ")).unwrap_or_else(|_| panic!("{}", self.line()));
                sim.update_config(at, |shared| match is_over {
                    false => shared.mmu.update_config(&*changed, config.xon(), alpha),
                    true => shared.mmu.update_config(&*config.buffer.policy, config.xon(), config.buffer.lossy_alpha),
                });
            }
            ["queue", switch, of, quantum, kmin, kmax] => {
                let at = switch_named(scenario, switch);
                let mut queues = scenario.switches[at].classes.queues.clone();
                if !is_over {
                    let [kmin, kmax] = [kmin, kmax].map(|bytes| Bytes::new(number(bytes)));
                    let ecn = EcnConfig { kmin, kmax, pmax_ppm: 200_000, at_rate: None, on_arrival: false };
                    let queue = &mut queues[class(of).index()];
                    (queue.quantum, queue.ecn) = (number(quantum) as u32, Some(ecn));
                }
                sim.update_config(at, |shared| shared.set_queues(&queues));
            }
            ["rate", port, bps] => {
                let rate = if is_over { config_of(scenario, port).rate } else { Some(BitRate::bps(number(bps))) };
                on_port(scenario, sim, port, |shared, port| _ = shared.set_rate(port, rate));
            }
            ["pause", port, of] => {
                let classes = if is_over { ClassSet::EMPTY } else { class(of).alone() };
                on_port(scenario, sim, port, |shared, port| shared.force_pause(port, classes));
            }
            ["close", port, how] => {
                let state = match how {
                    _ if is_over => PortState::Up,
                    "blocked" => PortState::Blocked,
                    _ => PortState::Down,
                };
                on_port(scenario, sim, port, |shared, port| shared.set_port_state(port, state));
            }
            ["forge", "toward", end, ref message @ ..] => {
                let frame = forged(message).unwrap_or_else(|| panic!("{}", self.line()));
                sim.inject(source_toward(scenario, end), NicFrame::Control(frame));
            }
            ["stranger", host, of, bytes, count] => {
                let place = host_named(scenario, host);
                for n in 0..number(count) {
                    let packet = NicPacket {
                        destination: MacAddr([6, 0, 0, 0, 0, n as u8]),
                        source: scenario.hosts[place].nic.mac,
                        flow_hash: n as u32,
                        frame_bytes: number(bytes) as u16,
                        dscp: Dscp::new(if class(of).index() == 4 { 33 } else { 8 * number(of) as u8 }),
                        ecn: Ecn::NotCapable,
                        queue_pair: QueuePair::new(0xff_ffff),
                        kind: PacketKind::Cnp,
                        telemetry: None,
                    };
                    sim.inject(WireSource::Host(place), NicFrame::Packet(packet));
                }
            }
            _ => panic!("{}", self.line()),
        }
    }
}

fn forged(message: &[&str]) -> Option<ControlFrame> {
    let numbers: Vec<u32> = message[1..].iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
    Some(match (message[0], &numbers[..]) {
        ("pfc", [class, time]) => {
            let enabled = Class::new(*class as u8).alone();
            ControlFrame::Pfc(PfcFrame { enabled, times: [*time as u16; CLASSES] })
        }
        ("pause", [time]) => ControlFrame::Pause(*time as u16),
        ("credit", [class, limit, buffer, sent]) => {
            let class = Class::new(*class as u8);
            let account = match (buffer, sent) {
                (0, 0) => CreditAccount::None,
                (0, blocks) => CreditAccount::Sent { class, blocks: *blocks },
                (blocks, _) => CreditAccount::Buffer { blocks: *blocks },
            };
            ControlFrame::Credit(CreditFrame { enabled: class.alone(), limits: [*limit; CLASSES], account })
        }
        ("length", [class, bytes]) => {
            let enabled = Class::new(*class as u8).alone();
            ControlFrame::Queue(QueueLengthFrame { enabled, lengths: [*bytes; CLASSES] })
        }
        (count @ ("freed" | "consumed"), [class, cells, cell_bytes]) => ControlFrame::Update(CreditUpdate {
            count: if count == "freed" { CreditCount::Freed } else { CreditCount::Consumed },
            enabled: Class::new(*class as u8).alone(),
            cells: [*cells & CreditUpdate::MASK; CLASSES],
            cell_bytes: *cell_bytes,
        }),
        _ => return None,
    })
}

fn switch_named(scenario: &Scenario, name: &str) -> usize {
    scenario.switches.iter().position(|switch| switch.name == name).unwrap_or_else(|| panic!("no switch {name}"))
}

fn host_named(scenario: &Scenario, name: &str) -> usize {
    scenario.hosts.iter().position(|host| host.name == name).unwrap_or_else(|| panic!("no host {name}"))
}

fn port_named(scenario: &Scenario, name: &str) -> PortRef {
    let (switch, port) = name.split_once('.').unwrap_or_else(|| panic!("no port {name}"));
    let switch = switch_named(scenario, switch);
    let port = scenario.switches[switch].ports.iter().position(|config| config.name == port);
    PortRef { switch, port: port.unwrap_or_else(|| panic!("no port {name}")) }
}

fn config_of<'s>(scenario: &'s Scenario, name: &str) -> &'s weir_config::PortConfig {
    let PortRef { switch, port } = port_named(scenario, name);
    &scenario.switches[switch].ports[port]
}

fn on_port(scenario: &Scenario, sim: &mut Sim, name: &str, change: impl FnOnce(&Shared, PortId)) {
    let PortRef { switch, port } = port_named(scenario, name);
    sim.update_config(switch, |shared| change(shared, PortId(port as u16)));
}

/// The node at the other end of the link to a port, or to a host.
fn source_toward(scenario: &Scenario, end: &str) -> WireSource {
    if !end.contains('.') {
        return WireSource::Port(scenario.hosts[host_named(scenario, end)].place());
    }
    let place = port_named(scenario, end);
    let host = scenario.hosts.iter().position(|host| host.place() == place);
    host.map(WireSource::Host).unwrap_or_else(|| {
        let mut ends =
            scenario.links.iter().flat_map(|link| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])]);
        WireSource::Port(ends.find(|(near, _)| *near == place).expect("a link").1)
    })
}
