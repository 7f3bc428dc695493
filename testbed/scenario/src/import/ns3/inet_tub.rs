//! Reading of inet-tub's [command line](super::arguments) for the Reverie paper: buffer policy of the switches, TCP at the hosts, and
//! random messages.

use weir_units::Bytes;

use super::arguments::{Algorithm, Arguments, RdmaCc, Traffic};
use super::config::Config;
use super::control::CongestionPreset;
use super::round_trips::RoundTrips;
use super::topology::{Link, Topology};
use super::workloads::{Pattern, Workload, WorkloadTraffic};
use super::{Options, check_sizes, count};
use crate::import::document::{exact_size, exact_span, quoted, share};
use crate::import::text::{SourceFile, decimal, lines};
use crate::import::{ImportErrors, ImportNote, ImportReport};

/// Class of TCP's data and acknowledgements.
pub(super) const TCP_CLASS: u8 = 1;
pub(super) const TCP_ACK_CLASS: u8 = 0;
/// Class of RDMA's data and acknowledgements.
const RDMA_CLASS: u8 = 3;
/// Maximum window, set in the program's code.
const WINDOW_MAX: Bytes = Bytes::new(1_073_725_440);
/// Segments of a TCP flow that hosts tag as unscheduled, and their α.
const UNSCHEDULED_SEGMENTS: u64 = 100;
pub(super) const UNSCHEDULED_ALPHA: u32 = 1_024;

/// Values of α by kind of queue.
pub(super) struct Alphas {
    pub lossless: String,
    pub lossy: String,
}

/// A policy and its table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Policy {
    pub name: &'static str,
    pub keys: Vec<(&'static str, String)>,
    /// Lossy queues' α.
    pub lossy_alpha: String,
    /// Whether the first segments of a TCP flow have an α of their own.
    pub has_unscheduled: bool,
}

/// Overrides the configuration's values by the command line's.
pub(super) fn override_config(config: &mut Config, arguments: &Arguments) {
    let mode = match arguments.rdma_cc {
        RdmaCc::Mode(mode) => mode,
        RdmaCc::PowerTcp | RdmaCc::ThetaPowerTcp => 3,
    };
    let [has_window, varies] = arguments.window;
    for (key, value) in [
        ("CC_MODE", mode),
        ("HAS_WIN", u64::from(has_window)),
        ("VAR_WIN", u64::from(varies)),
        ("ENABLE_QCN", u64::from(arguments.ecn)),
        ("RANDOM_SEED", arguments.seed),
    ] {
        config.numbers.insert(key, value);
    }
    // The program ignores these keys.
    config.numbers.remove("ENABLE_PFC");
    config.instants.clear();
}

/// Returns PowerTCP, which has no CC_MODE.
pub(super) fn control(arguments: &Arguments, trips: &RoundTrips) -> Option<CongestionPreset> {
    let preset = match arguments.rdma_cc {
        RdmaCc::Mode(_) => return None,
        RdmaCc::PowerTcp => "powertcp",
        RdmaCc::ThetaPowerTcp => "theta-powertcp",
    };
    let keys = vec![("base_rtt", quoted(exact_span(trips.base_rtt)))];
    Some(CongestionPreset { preset: preset.to_owned(), kind: preset, keys })
}

impl Alphas {
    /// Reads the file: α of a queue on each line.
    pub(super) fn read(source: Option<&SourceFile>, report: &mut ImportReport) -> Result<Alphas, ImportErrors> {
        let Some(source) = source else {
            report.approximated.push(ImportNote::general("no --alphasFile: α is 1 of all queues, as in the program"));
            return Ok(Alphas { lossless: "1".to_owned(), lossy: "1".to_owned() });
        };
        let of_queue = |queue: u8| {
            let line = lines(&source.text).nth(usize::from(queue));
            let ppb = line.as_ref().and_then(|line| decimal(line.fields[0], 9)).filter(|ppb| *ppb > 0);
            ppb.map(share).ok_or_else(|| {
                let problem = format!("there is no α of queue {queue}");
                // Of a line that is missing, the end of the file.
                let number = line.map_or_else(|| source.text.lines().count().max(1), |line| line.number);
                ImportErrors::one(&source.name, Some(number), problem, "write a number above 0 on each of 8 lines")
            })
        };
        let alphas = Alphas { lossless: of_queue(RDMA_CLASS)?, lossy: of_queue(TCP_CLASS)? };
        let text = format!("α is {} of lossless queues and {} of TCP's", alphas.lossless, alphas.lossy);
        report.taken.push(ImportNote::for_file(&source.name, text));
        Ok(alphas)
    }
}

/// Returns the policy of all switches; `headroom` is the headroom, in bytes, of most switches.
pub(super) fn policy(
    arguments: &Arguments,
    alphas: &Alphas,
    headroom: Bytes,
    trips: &RoundTrips,
    report: &mut ImportReport,
) -> Policy {
    let mut keys = vec![("alpha", quoted(&alphas.lossless))];
    let [ingress, egress] = arguments.algorithms;
    let own = |note: &str| ImportNote::for_file("--arguments", note);
    let name = if arguments.is_reverie {
        keys.extend([
            ("gamma", share(arguments.gamma)),
            ("congested_partly", "true".to_owned()),
            ("congested_at", quoted("arrivals")),
            ("filter_at", quoted("departures")),
            ("filter_cut", "true".to_owned()),
            ("filter_rounding", quoted("bytes")),
            ("filter_headroom", "true".to_owned()),
            ("resume_offset", quoted("2496B")),
            ("resume_floor", quoted("1248B")),
        ]);
        "reverie"
    } else if ingress == Algorithm::Abm {
        keys.extend([
            ("congested_partly", "true".to_owned()),
            ("congested_at", quoted("arrivals")),
            ("interval", quoted(exact_span(trips.base_rtt))),
            ("drain_of", quoted("congested-at-end")),
            ("drain_cap", "false".to_owned()),
            ("drain_ports", quoted("but-last")),
        ]);
        "abm"
    } else {
        "sonic"
    };
    report.taken.push(own(&format!("buffer policy \"{name}\", as the program has it")));
    if !arguments.is_reverie {
        if ingress != egress {
            let text = format!("--bufferalgEgress is another than --bufferalgIngress: \"{name}\" is that of both");
            report.approximated.push(own(&text));
        }
        if let Algorithm::Other(number) = ingress {
            report.approximated.push(own(&format!("--bufferalgIngress={number} counts as DT, as in the program")));
        }
        // 80 % is Weir's default.
        if arguments.lossy_share != 800_000_000 {
            let pool = arguments.buffer.saturating_sub(headroom).get();
            let size = u128::from(pool) * u128::from(arguments.lossy_share) / 1_000_000_000;
            keys.push(("egress_lossy_pool", quoted(exact_size(Bytes::new((size as u64).max(1))))));
        }
    }
    // FAB differs from DT only by this.
    let has_unscheduled = arguments.is_reverie || [Algorithm::Abm, Algorithm::Fab].contains(&egress);
    if has_unscheduled {
        let text = format!("the first {UNSCHEDULED_SEGMENTS} segments of a TCP flow have α {UNSCHEDULED_ALPHA}");
        report.taken.push(own(&text));
    }
    Policy { name, keys, lossy_alpha: alphas.lossy.clone(), has_unscheduled }
}

/// Returns the TCP tables of `[nic]`.
pub(super) fn tcp_tables(arguments: &Arguments, payload: u64) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let connection = vec![
        ("mss", payload.to_string()),
        ("window_max", quoted(exact_size(WINDOW_MAX))),
        ("initial_rto", quoted("1ms")),
        // Timestamps of ns-3 are in milliseconds, and the handshake is faster.
        ("known_rtt", quoted("1us")),
        ("timestamp_clock", quoted("1ms")),
        ("rto_min", quoted("1ms")),
        ("granularity", quoted("100ns")),
        ("ack_every", "1".to_owned()),
        ("ack_class", TCP_ACK_CLASS.to_string()),
        ("unscheduled", quoted(exact_size(Bytes::new(UNSCHEDULED_SEGMENTS * payload)))),
        ("restart_after_idle", "false".to_owned()),
        ("timer_restart", quoted("first")),
        ("growth_by", quoted("acked")),
        ("timeout_cuts", quoted("each")),
    ];
    let mut tables = vec![("[nic.tcp]", connection)];
    if !arguments.is_dctcp {
        let cubic = vec![
            ("reno_friendly", "false".to_owned()),
            ("hystart_train", "1".to_owned()),
            ("hystart_burst", quoted("0B")),
            ("hystart_delay_max", quoted("1s")),
            ("hystart_rtt", quoted("smoothed")),
            ("growth", quoted("linux")),
        ];
        tables.push(("[nic.tcp-cubic]", cubic));
    }
    tables
}

/// Racks as the program divides the hosts, by their nodes: equal numbers of hosts for each ToR.
struct Racks {
    hosts: Vec<Vec<u32>>,
    /// Ratio of the capacity of a rack's hosts to that of its uplinks, in units of 10^-9.
    oversubscription: u64,
}

impl Racks {
    fn new(topology: &Topology, file: &str) -> Result<Racks, ImportErrors> {
        let wrong = |problem: &str| {
            let help = "write `nodes switches tors links server-rate fabric-rate`";
            ImportErrors::one(file, Some(1), problem.to_owned(), help)
        };
        let tiers = topology.tiers.ok_or_else(|| wrong("the program's topology says its ToRs and two rates"))?;
        let [servers, fabric] = tiers.rates.ok_or_else(|| wrong("the program's topology says two rates"))?;
        let all: Vec<u32> = topology.hosts().collect();
        let (tors, spines) = (tiers.tors as usize, topology.switches.len().saturating_sub(tiers.tors as usize));
        if tors < 2 || !all.len().is_multiple_of(tors) || all.is_empty() || spines == 0 {
            return Err(wrong("racks are two or more of as many hosts each, below spines"));
        }
        let size = all.len() / tors;
        let is_uplink = |link: &&Link| link.ends.iter().all(|node| topology.is_switch(*node));
        let uplinks = topology.links.iter().filter(is_uplink).count() / (tors * spines);
        let up = fabric.as_bps() as u128 * (spines * uplinks) as u128;
        if up == 0 {
            return Err(wrong("ToRs have no links to spines"));
        }
        let oversubscription = (servers.as_bps() as u128 * size as u128 * 1_000_000_000 / up) as u64;
        Ok(Racks { hosts: all.chunks(size).map(<[u32]>::to_vec).collect(), oversubscription })
    }
}

/// Returns the messages of RDMA and of TCP: background from each rack to the next, and requests of each host that all hosts of the next
/// rack answer together.
pub(super) fn workloads(
    arguments: &Arguments,
    topology: &Topology,
    file: &str,
    sizes: Option<&SourceFile>,
    trips: &RoundTrips,
    options: &Options,
    report: &mut ImportReport,
) -> Result<Vec<Workload>, ImportErrors> {
    let racks = Racks::new(topology, file)?;
    sizes.map(check_sizes).transpose()?;
    let until = arguments.times[1].saturating_sub(arguments.times[0]);
    let line = topology.tiers.and_then(|tiers| tiers.rates).map_or(1, |[servers, _]| servers.as_bps());
    let mut workloads = Vec::new();
    for (traffic, is_tcp) in arguments.traffic.iter().zip([false, true]) {
        let (word, class) = if is_tcp { ("tcp", TCP_CLASS) } else { ("rdma", RDMA_CLASS) };
        let transport = is_tcp.then_some(if arguments.is_dctcp { "tcp-dctcp" } else { "tcp-cubic" });
        let mut push =
            |kind: &'static str, n: usize, hosts: [Vec<String>; 2], load: u64, size: Option<Bytes>, window: u64| {
                let (file, text) = match (size, sizes) {
                    (None, Some(sizes)) => (format!("{}-sizes.txt", options.stem), sizes.text.clone()),
                    _ => (String::new(), String::new()),
                };
                let tcp = transport.map(|transport| (transport, window));
                let pattern = Pattern { kind, hosts, load, size, until, tcp };
                let name = format!("{word}-{}-{n}", if kind == "poisson" { "background" } else { "incast" });
                workloads.push(Workload {
                    name,
                    class,
                    dport: None,
                    line: None,
                    control: None,
                    traffic: WorkloadTraffic::Pattern(pattern),
                    file,
                    text,
                });
            };
        let Traffic { load, requests, request } = *traffic;
        let of_link = (u128::from(load) * 1_000_000_000 / u128::from(racks.oversubscription.max(1))) as u64;
        let per_answer = Bytes::new(request.get() / racks.hosts[0].len() as u64);
        // Load of the requests, as a share of the answering hosts' links.
        let of_requests = (u128::from(requests) * u128::from(per_answer.get()) * racks.hosts[0].len() as u128 * 8
            / u128::from(line)) as u64;
        let names =
            |rack: usize| racks.hosts[rack % racks.hosts.len()].iter().map(|host| topology.host_name(*host)).collect();
        for rack in 0..racks.hosts.len() {
            if of_link > 0 {
                if sizes.is_none() {
                    let help = "name the file of --cdfFileName too";
                    return Err(ImportErrors::one("--arguments", None, "there is no distribution of sizes", help));
                }
                push(
                    "poisson",
                    rack,
                    [names(rack), names(rack + 1)],
                    of_link,
                    None,
                    trips.bdp.get() / trips.payload + 1,
                );
            }
            if of_requests > 0 && per_answer > Bytes::ZERO {
                push(
                    "incast",
                    rack,
                    [names(rack + 1), names(rack)],
                    of_requests,
                    Some(per_answer),
                    per_answer.get() / trips.payload + 1,
                );
            }
        }
        let text = format!(
            "{}: load {} over an oversubscription of {} from each of {} to the next, and {} requests a second of each host for {} B together",
            word.to_uppercase(),
            share(load),
            share(racks.oversubscription),
            count(racks.hosts.len(), "rack"),
            share(requests),
            request.get()
        );
        report.taken.push(ImportNote::for_file("--arguments", text));
    }
    Ok(workloads)
}

/// Reports differences that no value shows.
pub(super) fn report_differences(arguments: &Arguments, report: &mut ImportReport) {
    let text = "queues take turns packet by packet; headroom is kept for queues 0 and 3; all queues of a port are marked by its ECN thresholds";
    report.taken.push(ImportNote::general(text));
    if arguments.traffic[1].load > 0 || arguments.traffic[1].requests > 0 {
        for text in [
            "TCP's connections exist when a message starts; in the simulator a handshake takes a round trip before",
            "TCP's segments of 70 B and less are of class 1; in the simulator of class 0",
        ] {
            report.approximated.push(ImportNote::general(text));
        }
        let text = "TCP's acknowledgements are of class 0, which goes first and bypasses the buffer";
        report.taken.push(ImportNote::general(text));
    }
    if !arguments.outputs.is_empty() {
        let text = format!("{}: Weir's run directory has its own results", arguments.outputs.join(", "));
        report.left.push(ImportNote::for_file("--arguments", text));
    }
}
