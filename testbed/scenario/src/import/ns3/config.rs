//! Configuration of a simulation: a key and its value on each line.

use std::collections::{BTreeMap, BTreeSet};

use weir_units::{BitRate, Span};

use crate::import::ImportErrors;
use crate::import::text::{ErrorCollector, SourceFile, decimal, lines, micros, rate, seconds};

/// Configuration, with the keys that are used checked. Missing keys are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Config {
    pub(super) file: String,
    /// Line of each key. Of a repeated key the last line counts, as in the simulators.
    lines: BTreeMap<String, usize>,
    texts: BTreeMap<String, String>,
    /// TOPOLOGY_FILE, FLOW_FILE, TRACE_FILE, as written.
    pub(super) files: BTreeMap<&'static str, String>,
    /// Switches (0 or 1) and other whole numbers.
    pub(super) numbers: BTreeMap<&'static str, u64>,
    /// DCQCN's timers, in microseconds as written.
    pub(super) timers: BTreeMap<&'static str, Span>,
    /// Instants, in seconds as written.
    pub(super) instants: BTreeMap<&'static str, Span>,
    pub(super) rates: BTreeMap<&'static str, BitRate>,
    /// Shares, in units of 10^-9.
    pub(super) shares: BTreeMap<&'static str, u64>,
    /// KMIN_MAP, KMAX_MAP in KB and PMAX_MAP in units of 10^-9, by the link's rate. The first number is that of the pairs.
    pub(super) maps: BTreeMap<&'static str, BTreeMap<BitRate, u64>>,
    /// Rates of the pairs that maps have beyond their first number.
    pub(super) uncounted: BTreeMap<&'static str, BTreeSet<BitRate>>,
    /// Link failure of LINK_DOWN: its instant, since 2 s of the simulation, and the nodes at the link's ends.
    pub(super) link_down: Option<(Span, [u32; 2])>,
}

const FILES: &[&str] = &["TOPOLOGY_FILE", "FLOW_FILE", "TRACE_FILE"];
const NUMBERS: &[&str] = &[
    "ENABLE_QCN",
    "ENABLE_PFC",
    "ENABLE_IRN",
    "ENABLE_TRACE",
    "USE_DYNAMIC_PFC_THRESHOLD",
    "PACKET_PAYLOAD_SIZE",
    "CC_MODE",
    "LB_MODE",
    "CLAMP_TARGET_RATE",
    "FAST_RECOVERY_TIMES",
    "L2_ACK_INTERVAL",
    "L2_BACK_TO_ZERO",
    "HAS_WIN",
    "VAR_WIN",
    "GLOBAL_T",
    "FAST_REACT",
    "MI_THRESH",
    "MULTI_RATE",
    "SAMPLE_FEEDBACK",
    "ACK_HIGH_PRIO",
    "BUFFER_SIZE",
    "RANDOM_SEED",
];
const TIMERS: &[&str] = &["ALPHA_RESUME_INTERVAL", "RATE_DECREASE_INTERVAL", "RP_TIMER"];
const INSTANTS: &[&str] = &["SIMULATOR_STOP_TIME", "FLOWGEN_START_TIME", "FLOWGEN_STOP_TIME"];
const RATES: &[&str] = &["RATE_AI", "RATE_HAI", "MIN_RATE", "DCTCP_RATE_AI"];
/// Instant that no run reaches, for later ones.
const ENDLESS: Span = Span::from_secs(1_000_000);
/// Keys of shares, each with its maximum.
const SHARES: &[(&str, u64)] = &[
    ("EWMA_GAIN", 1),
    ("U_TARGET", 1),
    ("ERROR_RATE_PER_LINK", 1),
    ("LOAD", 100),
    ("PINT_LOG_BASE", 2),
    ("PINT_PROB", 1),
];
/// Keys of maps, each with the number of decimals kept.
const MAPS: &[(&str, u32)] = &[("KMIN_MAP", 0), ("KMAX_MAP", 0), ("PMAX_MAP", 9)];
/// Keys of the results: their files, form and amount. Weir's run directory has its own.
const OF_OUTPUT: &[&str] = &[
    "SW_MONITORING_INTERVAL",
    "QLEN_MON_START",
    "QLEN_MON_END",
    "TRACE_OUTPUT_FILE",
    "FLOW_INPUT_FILE",
    "MON_START",
    "MON_END",
];

impl Config {
    /// Reads the file: a key and its value on each line, or `KEY=VALUE`. `{`, `#` and `//` begin a comment.
    ///
    /// # Errors
    /// All lines without a key and a value, and wrong values of keys that are used.
    pub(super) fn parse(source: &SourceFile) -> Result<Config, ImportErrors> {
        let mut complaints = ErrorCollector::new(&source.name);
        let mut config = Config { file: source.name.clone(), ..Config::default() };
        for line in lines(&source.text) {
            let end = line.fields.iter().position(|field| field.starts_with('{')).unwrap_or(line.fields.len());
            match setting(&line.fields[..end]) {
                None => {}
                Some((key, value)) if is_key(key) && !value.is_empty() => {
                    config.lines.insert(key.to_owned(), line.number);
                    config.texts.insert(key.to_owned(), value);
                }
                Some((key, _)) if is_key(key) => {
                    complaints.add(
                        line.number,
                        format!("{key} has no value"),
                        "write one after it, or take the line out",
                    );
                }
                Some((other, _)) => {
                    let problem = format!("\"{other}\" is no key");
                    complaints.add(line.number, problem, "write a key and its value, like `BUFFER_SIZE 16`");
                }
            }
        }
        config.read_values(&mut complaints);
        complaints.result(config)
    }

    fn read_values(&mut self, complaints: &mut ErrorCollector<'_>) {
        self.files = FILES.iter().filter_map(|key| Some((*key, self.texts.get(*key)?.clone()))).collect();
        let integer = |text: &str| text.parse().ok();
        self.numbers = self.values(NUMBERS, complaints, "a whole number", "write for example 1", integer);
        self.timers = self.values(TIMERS, complaints, "a time", "write microseconds, like 55", micros);
        self.instants = self.values(INSTANTS, complaints, "a time", "write seconds, like 2.1", |text| {
            // SimAI's runs end at 4e13 s, when all flows have long ended.
            seconds(text).or_else(|| decimal(text, 0).map(|_| ENDLESS))
        });
        self.rates = self.values(RATES, complaints, "a rate", "write for example 50Mb/s", rate);
        for (key, most) in SHARES {
            let share = |text: &str| decimal(text, 9).filter(|share| *share <= most * 1_000_000_000);
            let help = format!("write a number from 0 to {most}");
            self.shares.extend(self.values(&[*key], complaints, "a share", &help, share));
        }
        for (key, places) in MAPS {
            let help = "write how many pairs follow, and then pairs of a rate in bits a second and a value: `1 100000000000 400`";
            let map = self.values(&[*key], complaints, "a map of rates", help, |text| pairs(text, *places));
            for (key, (map, others)) in map {
                if !others.is_empty() {
                    self.uncounted.insert(key, others);
                }
                self.maps.insert(key, map);
            }
        }
        let help = "write `time node node`, the time in microseconds: `1000 320 324`; `0 0 0` is none";
        let down = self.values(&["LINK_DOWN"], complaints, "a link's failure", help, link_down);
        self.link_down = down.into_values().next().filter(|(at, _)| *at > Span::ZERO);
    }

    /// Returns the values of those keys that the file has.
    fn values<T>(
        &self,
        keys: &[&'static str],
        complaints: &mut ErrorCollector<'_>,
        what: &str,
        help: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> BTreeMap<&'static str, T> {
        let mut values = BTreeMap::new();
        for key in keys {
            let Some(text) = self.texts.get(*key) else { continue };
            let line = self.lines[*key];
            match read(text) {
                Some(value) => drop(values.insert(*key, value)),
                None => complaints.add(line, format!("{key} \"{text}\" is not {what}"), help),
            }
        }
        values
    }

    pub(super) fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.lines.contains_key(key)
    }

    /// Whether the configuration is ConWeave's, by its keys.
    pub(crate) fn is_conweaves(&self) -> bool {
        ["FLOWGEN_START_TIME", "LB_MODE"].iter().any(|key| self.has(key))
    }

    /// Returns the load balancing of ConWeave's LB_MODE, if it is one other than that by flow.
    pub(super) fn load_balancing(&self) -> Option<&'static str> {
        match self.numbers.get("LB_MODE")? {
            2 => Some("drill"),
            6 => Some("flowlet"),
            _ => None,
        }
    }

    /// Whether receivers accept packets in any order, and senders repeat missing ones, as IRN's.
    pub(super) fn has_irn(&self) -> bool {
        self.is_on("ENABLE_IRN", false)
    }

    /// Returns the value of a key as written.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// Returns the value of a simulator's switch; `default` if the file lacks it.
    pub(super) fn is_on(&self, key: &str, default: bool) -> bool {
        self.numbers.get(key).map_or(default, |value| *value != 0)
    }

    /// Returns the keys that only concern results, in the file's order.
    pub(crate) fn of_output(&self) -> Vec<&str> {
        self.keys(is_of_output)
    }

    /// Returns unknown keys, in the file's order.
    pub(super) fn unknown(&self) -> Vec<&str> {
        self.keys(|key| !is_of_output(key) && !is_used(key) && !OTHERS.contains(&key))
    }

    fn keys(&self, which: impl Fn(&str) -> bool) -> Vec<&str> {
        let mut keys: Vec<(usize, &str)> = self.lines.iter().map(|(key, line)| (*line, key.as_str())).collect();
        keys.sort();
        keys.into_iter().map(|(_, key)| key).filter(|key| which(key)).collect()
    }
}

/// Known keys without a meaning in Weir.
pub(super) const OTHERS: &[&str] = &[
    "L2_CHUNK_SIZE",
    "INT_MULTI",
    "RATE_BOUND",
    "PAUSE_TIME",
    // For ConWeave's own balancing, LB_MODE 9.
    "CONWEAVE_TX_EXPIRY_TIME",
    "CONWEAVE_REPLY_TIMEOUT_EXTRA",
    "CONWEAVE_PATH_PAUSE_TIME",
    "CONWEAVE_EXTRA_VOQ_FLUSH_TIME",
    "CONWEAVE_DEFAULT_VOQ_WAITING_TIME",
];

fn is_used(key: &str) -> bool {
    let listed = [FILES, NUMBERS, TIMERS, INSTANTS, RATES].concat();
    let named = SHARES.iter().map(|(name, _)| *name).chain(MAPS.iter().map(|(name, _)| *name));
    listed.contains(&key) || named.chain(["LINK_DOWN"]).any(|name| name == key)
}

fn is_of_output(key: &str) -> bool {
    OF_OUTPUT.contains(&key)
        || key.ends_with("_OUTPUT_FILE")
        || key.ends_with("_MON_FILE")
        || key.ends_with("_DETAIL_FILE")
}

/// Splits a line into its key and its value: `KEY VALUE`, `KEY=VALUE`, `KEY = VALUE`; `None` for an empty line.
pub(super) fn setting<'t>(fields: &[&'t str]) -> Option<(&'t str, String)> {
    let (first, rest) = fields.split_first()?;
    let rest = rest.join(" ");
    Some(match first.split_once('=') {
        Some((key, attached)) => (key, format!("{attached} {rest}").trim().to_owned()),
        None => (first, rest.strip_prefix('=').unwrap_or(&rest).trim_start().to_owned()),
    })
}

/// Whether a word has the form of a key.
pub(super) fn is_key(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Parses a number of pairs, and at least as many pairs.
fn pairs(text: &str, places: u32) -> Option<(BTreeMap<BitRate, u64>, BTreeSet<BitRate>)> {
    let mut fields = text.split_whitespace();
    let announced: usize = fields.next()?.parse().ok()?;
    let (mut map, mut others) = (BTreeMap::new(), BTreeSet::new());
    let mut read = 0;
    while let Some(link) = fields.next() {
        let (rate, value) = (rate(link)?, decimal(fields.next()?, places)?);
        if read < announced {
            map.insert(rate, value);
        } else if !map.contains_key(&rate) {
            others.insert(rate);
        }
        read += 1;
    }
    (read >= announced).then_some((map, others))
}

fn link_down(text: &str) -> Option<(Span, [u32; 2])> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [at, one, other] = fields[..] else { return None };
    Some((micros(at)?, [one.parse().ok()?, other.parse().ok()?]))
}
