//! Imports beside what HPCC's simulator made of the same files: PAUSEs and slowdowns, means and 99th percentiles by size.
//!
//! `tests/fidelity/hpcc.csv` has the simulator's figures, draw by draw, of alibaba-edu/High-Precision-Congestion-Control at 9f4be2a.
//! `WEIR_SIMULATED=DIR` writes each draw's files into `DIR/CASE/DRAW`; where the simulator has left `fct.txt` and `pfc.txt` there
//! (`NS_GLOBAL_VALUE=RngRun=DRAW third config.txt`), its figures are written anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_scenario::file::parse;
use weir_scenario::import::ns3::{Options, Sources, import};
use weir_sim::Threads;
use weir_units::SplitMix64;

use crate::threads::run;

const DRAWS: u64 = 8;
/// Deviation of means over the draws that is allowed.
const WITHIN: f64 = 0.1;
/// Upper bounds of the sizes in a bin, in bytes.
const BINS: [(&str, u64); 4] =
    [("all", u64::MAX), ("below 30 KB", 30_000), ("30 KB to 200 KB", 200_000), ("200 KB and more", u64::MAX)];

/// Fabric of leaves below spines, and its traffic: messages between random hosts, and incasts.
struct Case {
    name: &'static str,
    leaves: u64,
    hosts_per_leaf: u64,
    spines: u64,
    /// Links of each host, to the next leaves.
    nics: u64,
    /// Rates in Gb/s: of each leaf's hosts, and between switches.
    gbps: &'static [u64],
    uplink_gbps: u64,
    /// Delay of links between switches.
    uplink_us: u64,
    groups: &'static [u64],
    buffer_mib: u64,
    load_percent: u64,
    end_us: u64,
    ecn: bool,
    /// HPCC in place of DCQCN.
    hpcc: bool,
    ack_high_prio: bool,
}

const ONE_SWITCH: Case = Case {
    name: "",
    leaves: 1,
    hosts_per_leaf: 16,
    spines: 0,
    nics: 1,
    gbps: &[100],
    uplink_gbps: 100,
    uplink_us: 1,
    groups: &[3],
    buffer_mib: 2,
    load_percent: 40,
    end_us: 1_000,
    ecn: true,
    hpcc: false,
    ack_high_prio: false,
};
const TWO_LEAVES: Case =
    Case { leaves: 2, hosts_per_leaf: 8, spines: 1, uplink_gbps: 400, buffer_mib: 3, ..ONE_SWITCH };
const FOUR_LEAVES: Case = Case { leaves: 4, gbps: &[100; 4], ack_high_prio: true, ..ONE_SWITCH };

const CASES: [Case; 8] = [
    Case { name: "no ECN", ecn: false, load_percent: 30, ..ONE_SWITCH },
    Case { name: "two priority groups", groups: &[3, 4], ..ONE_SWITCH },
    Case { name: "two rates, DCQCN", gbps: &[25, 100], ..TWO_LEAVES },
    Case { name: "two rates, HPCC", gbps: &[50, 100], hpcc: true, ..TWO_LEAVES },
    Case { name: "16 and 4 ports, ACK_HIGH_PRIO", hosts_per_leaf: 12, spines: 4, end_us: 500, ..FOUR_LEAVES },
    Case { name: "two NICs, ACK_HIGH_PRIO", hosts_per_leaf: 4, spines: 2, nics: 2, ..FOUR_LEAVES },
    // One spine, as paths differ: with several, PAUSEs of a draw differ by factors.
    Case { name: "three rates, no ECN", leaves: 3, hosts_per_leaf: 6, gbps: &[25, 50, 100], ecn: false, ..TWO_LEAVES },
    Case {
        name: "50 us links",
        gbps: &[100, 100],
        uplink_gbps: 200,
        uplink_us: 50,
        buffer_mib: 8,
        end_us: 2_000,
        ..TWO_LEAVES
    },
];

/// Message: start in ns, hosts, bytes, priority group.
type Flow = (u64, u64, u64, u64, u64);

impl Case {
    fn hosts(&self) -> u64 {
        self.leaves * self.hosts_per_leaf
    }

    fn topology(&self) -> String {
        let (hosts, switches) = (self.hosts(), self.leaves + self.spines);
        let mut links = String::new();
        let mut link = |one, other, gbps, us| writeln!(links, "{one} {other} {gbps}Gbps {us}us 0").unwrap();
        for host in 0..hosts {
            let leaf = host / self.hosts_per_leaf;
            (0..self.nics).for_each(|nic| link(host, hosts + (leaf + nic) % self.leaves, self.gbps[leaf as usize], 1));
        }
        for leaf in hosts..hosts + self.leaves {
            let spines = hosts + self.leaves..hosts + self.leaves + self.spines;
            spines.for_each(|spine| link(leaf, spine, self.uplink_gbps, self.uplink_us));
        }
        let count = hosts * self.nics + self.leaves * self.spines;
        let names: Vec<String> = (hosts..hosts + switches).map(|switch| switch.to_string()).collect();
        format!("{} {switches} {count}\n{}\n{links}", hosts + switches, names.join(" "))
    }

    fn flows(&self, draw: u64) -> Vec<Flow> {
        const MEAN: u64 = 214_000;
        let mut numbers = SplitMix64::new(draw);
        let mut below = |n: u64| numbers.next_u64() % n;
        let (hosts, end) = (self.hosts(), self.end_us * 1_000);
        let mut flows: Vec<Flow> = Vec::new();
        for host in 0..hosts {
            let gap = MEAN * 800 / (self.gbps[(host / self.hosts_per_leaf) as usize] * self.load_percent);
            let mut at = below(2 * gap);
            while at < end {
                let to = below(hosts - 1);
                let (low, high) = match below(100) {
                    0..50 => (1_000, 30_000),
                    50..85 => (30_000, 200_000),
                    _ => (200_000, 2_000_000),
                };
                let size = low + below(high - low);
                let group = self.groups[below(self.groups.len() as u64) as usize];
                flows.push((at, host, to + u64::from(to >= host), size, group));
                at += below(2 * gap);
            }
        }
        for at in (100_000..end).step_by(200_000) {
            let (to, group, first) =
                (below(hosts), self.groups[below(self.groups.len() as u64) as usize], below(hosts));
            let senders = (0..hosts).map(|n| (first + n) % hosts).filter(|sender| *sender != to).take(12);
            flows.extend(senders.map(|sender| (at, sender, to, 100_000, group)));
        }
        flows.sort_by_key(|flow| flow.0);
        flows
    }

    /// Writes the simulator's files of a draw.
    fn write(&self, folder: &Path, draw: u64) {
        let flows = self.flows(draw);
        let mut list = format!("{}\n", flows.len());
        for (at, from, to, size, group) in flows {
            writeln!(list, "{from} {to} {group} 100 {size} 2.{at:09}").unwrap();
        }
        let rates: [u64; 5] = [25, 50, 100, 200, 400];
        let map = |of: &dyn Fn(u64) -> String| {
            let all: Vec<String> = rates.iter().map(|gbps| format!("{gbps}000000000 {}", of(*gbps))).collect();
            format!("{} {}", rates.len(), all.join(" "))
        };
        let [kmin, kmax] = [4, 16].map(|kb| map(&|gbps| (kb * gbps).to_string()));
        let [mode, additive, hyper] = if self.hpcc { [3, 40, 40] } else { [1, 20, 200] };
        let [ecn, window, high] = [self.ecn, self.hpcc, self.ack_high_prio].map(u8::from);
        let config = format!(
            "USE_DYNAMIC_PFC_THRESHOLD 1\nPACKET_PAYLOAD_SIZE 1000\nTOPOLOGY_FILE topology.txt\nFLOW_FILE flow.txt\n\
             TRACE_FILE trace.txt\nTRACE_OUTPUT_FILE /dev/null\nFCT_OUTPUT_FILE fct.txt\nPFC_OUTPUT_FILE pfc.txt\n\
             SIMULATOR_STOP_TIME 2.06\nENABLE_QCN {ecn}\nCC_MODE {mode}\nRATE_AI {additive}Mb/s\nRATE_HAI {hyper}Mb/s\n\
             HAS_WIN {window}\nVAR_WIN {window}\nFAST_REACT {window}\nACK_HIGH_PRIO {high}\nALPHA_RESUME_INTERVAL 1\nRATE_DECREASE_INTERVAL 4\nCLAMP_TARGET_RATE 0\n\
             RP_TIMER 300\nEWMA_GAIN 0.00390625\nFAST_RECOVERY_TIMES 1\nMIN_RATE 1000Mb/s\nERROR_RATE_PER_LINK 0.0\n\
             L2_CHUNK_SIZE 4000\nL2_ACK_INTERVAL 1\nL2_BACK_TO_ZERO 0\nGLOBAL_T 1\nU_TARGET 0.95\nMI_THRESH 0\n\
             INT_MULTI 4\nMULTI_RATE 0\nSAMPLE_FEEDBACK 0\nRATE_BOUND 1\nLINK_DOWN 0 0 0\nENABLE_TRACE 0\n\
             KMAX_MAP {kmax}\nKMIN_MAP {kmin}\nPMAX_MAP {}\nBUFFER_SIZE {}\nQLEN_MON_FILE /dev/null\n\
             QLEN_MON_START 1\nQLEN_MON_END 1\n",
            map(&|_| "0.2".to_owned()),
            self.buffer_mib
        );
        let files = [("topology.txt", self.topology()), ("flow.txt", list), ("trace.txt", "0\n\n".to_owned())];
        for (name, text) in files.into_iter().chain([("config.txt", config)]) {
            fs::write(folder.join(name), text).unwrap();
        }
    }
}

/// Figures of one draw by name.
type Figures = BTreeMap<String, f64>;

/// Reads `fct.txt` and `pfc.txt`, of the simulator or of a run.
fn figures(folder: &Path) -> Figures {
    let text = |name| fs::read_to_string(folder.join(name)).unwrap();
    let mut figures = Figures::new();
    let pauses = text("pfc.txt").lines().filter(|line| line.ends_with(" 1")).count();
    figures.insert("PAUSEs".to_owned(), pauses as f64);
    let mut slowdowns: [Vec<f64>; BINS.len()] = Default::default();
    for line in text("fct.txt").lines() {
        let value = |place| line.split(' ').nth(place).unwrap().parse::<u64>().unwrap();
        let slowdown = (value(6) as f64 / value(7) as f64).max(1.0);
        let bin = 1 + BINS[1..].iter().position(|(_, bound)| value(4) < *bound).unwrap();
        [0, bin].into_iter().for_each(|bin| slowdowns[bin].push(slowdown));
    }
    for ((bin, _), mut slowdowns) in BINS.into_iter().zip(slowdowns) {
        slowdowns.sort_by(f64::total_cmp);
        let count = slowdowns.len();
        figures.insert(format!("{bin}: mean"), slowdowns.iter().sum::<f64>() / count as f64);
        figures.insert(format!("{bin}: p99"), slowdowns[(count * 99).div_ceil(100) - 1]);
        figures.insert(format!("{bin}: messages"), count as f64);
    }
    figures
}

/// Imports the files of a folder, and returns the figures of their run.
fn of_import(folder: &Path, draw: u64) -> Figures {
    let sources = Sources::find(&["config.txt", "topology.txt", "flow.txt"].map(|name| folder.join(name)));
    let sources = sources.unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options { stem: "x".to_owned(), cuts_times: true, ..Options::default() };
    let imported = import(&sources, &options).unwrap_or_else(|errors| panic!("{errors}"));
    imported.files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    let seeds = format!("[scenario]\nseed = {draw}\necmp_seed = {draw}\n");
    let runs = parse(&folder.join("x.toml"), &imported.scenario.replacen("[scenario]\n", &seeds, 1));
    let runs = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let out = folder.join("weir");
    run(&runs[0].scenario, &out, Threads::Exactly(NonZeroUsize::MIN));
    figures(&out)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "tests without assertions run it: make release-tests")]
fn imports_send_the_simulators_pauses_and_end_in_its_times() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fidelity/hpcc.csv");
    let simulated = std::env::var_os("WEIR_SIMULATED").map(PathBuf::from);
    let mut rows = String::from("# Case and figure, and the simulator's values: a column for each draw.\n");
    let text = fs::read_to_string(&stored).unwrap_or_default();
    let mut apart = String::new();
    for case in &CASES {
        let mut both: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        let mut of_draws: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for draw in 1..=DRAWS {
            let scratch = TempDir::new().unwrap();
            let folder = match &simulated {
                Some(folder) => folder.join(case.name).join(draw.to_string()),
                None => scratch.path().to_owned(),
            };
            fs::create_dir_all(&folder).unwrap();
            case.write(&folder, draw);
            for (figure, value) in of_import(&folder, draw) {
                both.entry(figure).or_default()[1] += value;
            }
            if folder.join("fct.txt").exists() {
                for (figure, value) in figures(&folder) {
                    let digits = if value.fract() == 0.0 { 0 } else { 3 };
                    of_draws.entry(figure).or_default().push(format!("{value:.digits$}"));
                }
            }
            if simulated.is_some() {
                fs::remove_dir_all(folder.join("weir")).unwrap();
            }
        }
        for (figure, values) in of_draws {
            writeln!(rows, "{};{figure};{}", case.name, values.join(";")).unwrap();
        }
        let text = if simulated.is_some() { &rows } else { &text };
        for row in text.lines().filter(|row| row.starts_with(&format!("{};", case.name))) {
            let mut fields = row.split(';').skip(1);
            let figure = fields.next().unwrap();
            let values: Vec<f64> = fields.map(|value| value.parse().unwrap()).collect();
            assert_eq!(values.len() as u64, DRAWS, "{row}");
            both.get_mut(figure).unwrap()[0] = values.iter().sum();
        }
        for (figure, [simulator, weir]) in both {
            let deviation = if weir == simulator { 0.0 } else { weir / simulator - 1.0 };
            let means = [simulator, weir].map(|sum| sum / DRAWS as f64);
            println!("{}, {figure}: {means:.2?} {:+.1} %", case.name, deviation * 100.0);
            let allowed = if figure.ends_with("messages") { 0.0 } else { WITHIN };
            if deviation.is_nan() || deviation.abs() > allowed {
                writeln!(apart, "{}, {figure}: {means:.2?}", case.name).unwrap();
            }
        }
    }
    if simulated.is_some() {
        fs::write(&stored, rows).unwrap();
    }
    assert!(apart.is_empty(), "the simulator's means and Weir's:\n{apart}");
}
