//! What virtual time costs: packet-hops a CPU-second of one core, and memory a host and a packet in flight, for fabrics of
//! the papers under DCQCN; and how the cost of a packet-hop grows with the number of hosts.
//!
//! A packet-hop is a frame put on a link: data, acknowledgements, notifications and PFC alike. `cargo bench -p weir-testbed
//! --no-default-features --bench virtual_time [-- NAME]`; with `-- --instructions` a small fabric runs under callgrind, and the
//! instructions of a packet-hop are held against a limit, which wall time on a shared machine could not be.

use std::num::NonZeroU32;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use weir_config::SwitchConfig;
use weir_testbed::host::congestion::CongestionControl;
use weir_testbed::host::{FrameSizes, HostConfig, Transport};
use weir_testbed::rocev2::Dscp;
use weir_testbed::scenario::{HostPlan, LinkPlan, Scenario, TrafficPlan};
use weir_testbed::sim::Sim;
use weir_testbed::topology::{Cable, Clos, Fabric, FatTree, LeafSpine, Routes, SingleSwitch};
use weir_testbed::workload::{Framing, Load, Message, Peers, Poisson, SizeCdf};
use weir_units::{BitRate, Bytes, Class, MacAddr, Span, Time};

const CLASS: Class = Class::new(3);
const RATE: BitRate = BitRate::gbps(100);

/// The small fabric that is counted instruction by instruction.
const COUNTED: &str = "leaf-spine-64";
/// Instructions that a packet-hop of it may take: what it took when this was written, and a tenth more for another compiler.
const INSTRUCTIONS_MAX: f64 = 2_450.0;

/// A fabric and what its hosts send.
struct Case {
    name: &'static str,
    fabric: Fabric,
    traffic: Traffic,
    /// How long the warm-up and the measured part are, in simulated time.
    warm_up: Span,
    measured: Span,
}

enum Traffic {
    /// All hosts but the first send so much to it, at once.
    Incast(Bytes),
    /// Web search at load 0.5.
    WebSearch,
}

fn main() {
    if std::env::args().any(|argument| argument == "--instructions") {
        return count_instructions();
    }
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| name.contains(chosen.as_str()));
    // Each in a process of its own, so that what one has taken of memory is not counted for the next.
    if let [name] = &chosen[..]
        && let Some(case) = cases().into_iter().find(|case| case.name == name)
    {
        return run(&case);
    }
    println!(
        "{:<22} {:>6} {:>9} {:>10} {:>10} {:>9} {:>11} {:>11} {:>8}",
        "", "hosts", "simulated", "M hops", "M hops/s", "ns/hop", "KB/host", "B/packet", "wake/hop"
    );
    for case in cases().into_iter().filter(|case| is_chosen(case.name)) {
        let own = std::env::current_exe().expect("this program");
        let status = Command::new(own).arg(case.name).status().expect("this program runs");
        assert!(status.success(), "{} fails", case.name);
    }
}

fn cases() -> Vec<Case> {
    let ms = Span::from_millis;
    let web = |name, fabric, warm_up, measured| Case { name, fabric, traffic: Traffic::WebSearch, warm_up, measured };
    let mut cases = vec![
        Case {
            name: "incast-63",
            fabric: single(64),
            traffic: Traffic::Incast(Bytes::mb(4)),
            warm_up: ms(1),
            measured: ms(15),
        },
        web("leaf-spine-256", LeafSpine::dsh().fabric().expect("a fabric"), ms(1), ms(3)),
        web("clos-320", Clos::hpcc().fabric().expect("a fabric"), ms(1), ms(3)),
        web("fat-tree-1024", FatTree { k: 16, cable: cable(1) }.fabric().expect("a fabric"), ms(1), ms(1)),
    ];
    for (name, k, measured) in
        [("fat-tree-16", 4, 60), ("fat-tree-128", 8, 8), ("fat-tree-432", 12, 3), ("fat-tree-1024-again", 16, 1)]
    {
        cases.push(web(name, FatTree { k, cable: cable(1) }.fabric().expect("a fabric"), ms(1), ms(measured)));
    }
    // Small enough to be counted instruction by instruction.
    cases.push(Case {
        name: COUNTED,
        fabric: LeafSpine { leaves: 8, spines: 8, hosts_per_leaf: 8, ..LeafSpine::dsh() }.fabric().expect("a fabric"),
        traffic: Traffic::WebSearch,
        warm_up: Span::from_micros(100),
        measured: Span::from_micros(900),
    });
    cases
}

fn cable(us: u64) -> Cable {
    Cable { rate: RATE, delay: Span::from_micros(us) }
}

fn single(hosts: usize) -> Fabric {
    SingleSwitch { senders: hosts - 1, sender_cable: cable(1), receivers: 1, receiver_cable: cable(1) }
        .fabric()
        .expect("a fabric")
}

fn run(case: &Case) {
    let bare = resident();
    let scenario = scenario(case);
    let with_scenario = resident();
    let mut sim = Sim::new(&scenario).expect("a scenario");
    let empty = resident();
    sim.run_for(case.warm_up);
    let (hops, wakeups) = (sim.packet_hops(), sim.wakeups());
    let (start, cpu) = (Instant::now(), cpu_seconds());
    sim.run_for(case.measured);
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let all_hops = sim.packet_hops();
    let (hops, wakeups) = (sim.packet_hops() - hops, sim.wakeups() - wakeups);
    let full = resident();
    let under_way = sim.under_way() + held(&mut sim);
    let hosts = scenario.hosts.len();
    println!(
        "{:<22} {:>6} {:>9} {:>10.2} {:>10.2} {:>9.0} {:>11.1} {:>11.0} {:>8.2}",
        case.name,
        hosts,
        case.measured.to_string(),
        hops as f64 / 1e6,
        hops as f64 / cpu / 1e6,
        cpu * 1e9 / hops as f64,
        (full - bare) as f64 / 1e3 / hosts as f64,
        (full - empty) as f64 / under_way.max(1) as f64,
        wakeups as f64 / hops as f64,
    );
    if std::env::var_os("WEIR_BENCH_DETAILS").is_some() {
        let pauses: u64 = sim
            .reports()
            .iter()
            .flat_map(|report| &report.ports)
            .flat_map(|port| &port.classes)
            .map(|class| class.pauses_tx)
            .sum();
        println!(
            "  hops {all_hops}, wall {wall:.2} s, scenario {:.1} MB, empty fabric {:.1} MB, {pauses} pauses, {} messages done, {under_way} packets",
            (with_scenario - bare) as f64 / 1e6,
            (empty - with_scenario) as f64 / 1e6,
            sim.drain_completions().count()
        );
    }
}

/// Runs the small fabric under callgrind.
fn count_instructions() {
    let own = std::env::current_exe().expect("this program");
    let out = std::env::temp_dir().join(format!("weir-callgrind-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=weir_testbed::sim::Sim::run_until*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args([own.as_os_str(), COUNTED.as_ref()])
        .env("WEIR_BENCH_DETAILS", "1")
        .output()
        .unwrap_or_else(|error| panic!("valgrind can't be run: {error}; install it, for Debian: apt install valgrind"));
    let _ = std::fs::remove_file(&out);
    let [told, counted] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let number_after = |text: &str, word: &str| {
        let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in what it printed: {text}"));
        let digits: String =
            rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
        digits.parse::<f64>().expect("a number")
    };
    let each = number_after(&counted, "Collected") / number_after(&told, "hops ");
    println!("{COUNTED}: {each:.0} instructions a packet-hop, {INSTRUCTIONS_MAX} at most");
    if each > INSTRUCTIONS_MAX {
        eprintln!("a packet-hop takes more instructions than it should");
        std::process::exit(1);
    }
}

fn held(sim: &mut Sim) -> usize {
    sim.reports().iter().map(|report| report.balance.held() as usize).sum()
}

/// Resident memory in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn scenario(case: &Case) -> Scenario {
    let fabric = &case.fabric;
    let hosts = (0..fabric.hosts.len() as u32).collect::<Vec<_>>();
    let until = Time::ZERO + case.warm_up + case.measured;
    let messages: Vec<Message> = match case.traffic {
        Traffic::Incast(size) => {
            let (receiver, senders) = hosts.split_last().expect("several hosts");
            senders.iter().map(|from| Message { start: Time::ZERO, from: *from, to: *receiver, size }).collect()
        }
        Traffic::WebSearch => {
            let sizes = SizeCdf::built_in("web-search").expect("a built-in one");
            let load = Load::new(0.5, RATE, Framing::PAYLOAD_ONLY).expect("a load");
            let receivers = Peers::others(&hosts).expect("several hosts");
            let (from, seed) = (Time::ZERO, 1);
            let poisson = Poisson { senders: hosts.clone(), receivers, sizes, load, from, until, seed };
            poisson.messages().expect("sound").collect()
        }
    };
    let mac = |host: usize| MacAddr([2, 0, 0, 0, ((host + 1) >> 8) as u8, (host + 1) as u8]);
    let ip = |host: usize| [10, (host >> 16) as u8, (host >> 8) as u8, host as u8].into();
    let mut class_of_dscp = [0; 64];
    (class_of_dscp[26], class_of_dscp[48]) = (3, 6);
    let nic = |host: usize| HostConfig {
        lossless: CLASS.bit(),
        class_of_dscp,
        sizes: FrameSizes::rocev2(1_024),
        ..HostConfig::new(mac(host), ip(host), RATE)
    };
    let plans = (0..fabric.hosts.len())
        .map(|host| HostPlan {
            name: fabric.hosts[host].name.clone(),
            switch: fabric.hosts[host].at.switch,
            port: fabric.hosts[host].at.port,
            device: None,
            link_delay: fabric.hosts[host].delay,
            faults: Default::default(),
            nic: nic(host),
        })
        .collect();
    Scenario {
        links: fabric
            .links
            .iter()
            .map(|link| LinkPlan { ends: link.ends, delay: link.delay, faults: Default::default() })
            .collect(),
        traffic: vec![TrafficPlan {
            name: "traffic".to_owned(),
            class: CLASS,
            dscp: Dscp::new(26),
            transport: Transport::Rdma,
            congestion_control: CongestionControl::preset("dcqcn", RATE, Span::from_micros(10)).expect("a preset"),
            ack_every: NonZeroU32::new(1),
            retransmission: Some(Span::from_millis(4)),
            messages: messages.into(),
        }],
        routes: Some(Arc::new(Routes::shortest(fabric).expect("all hosts are joined"))),
        sample_every: case.measured,
        end: until,
        ..Scenario::new(case.name, "dt", switches(fabric), plans)
    }
}

/// Switches that differ in their names and numbers of ports: 32 MB, DT with α = 1, PFC on class 3, which marks between 400 KB
/// and 1.6 MB.
fn switches(fabric: &Fabric) -> Vec<SwitchConfig> {
    let mut kinds: Vec<SwitchConfig> = Vec::new();
    let switches = fabric.switches.iter().map(|switch| {
        let known = kinds.iter().position(|kind| kind.ports.len() == switch.ports);
        let kind = known.unwrap_or_else(|| {
            kinds.push(switch_of(switch.ports));
            kinds.len() - 1
        });
        SwitchConfig { name: switch.name.clone(), ..kinds[kind].clone() }
    });
    switches.collect()
}

fn switch_of(ports: usize) -> SwitchConfig {
    let mut text = "[switch]\nmtu = 1500\n[buffer]\nsize = \"32MB\"\npolicy = \"dt\"\n[pfc]\nreaction = \"0s\"\n\
                    [classes]\npreset = \"roce\"\n[[classes.queues]]\nclass = 3\n\
                    ecn = { kmin = \"400KB\", kmax = \"1600KB\", pmax = 0.2 }\n"
        .to_owned();
    for port in 0..ports {
        text += &format!("[[ports]]\nname = \"p{port}\"\nring = \"r{port}\"\nrate = \"100Gbps\"\ndelay = \"1us\"\n");
    }
    weir_config::parse("switch.toml", &text).unwrap_or_else(|errors| panic!("{errors:?}"))
}
