//! Configuration files of ASTRA-sim: system, network, and groups of ranks.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};
use weir_units::{BitRate, Span};
use yaml_rust2::{Yaml, YamlLoader};

use crate::import::collectives::{CollectiveAlgorithm, CollectiveKind};
use crate::import::fabric::{FabricShape, ImportedFabric, LinkTier};
use crate::import::text::decimal;
use crate::import::{ImportErrors, ImportNote, ImportReport, SourceFile, read_text};

/// System of ASTRA-sim: its collectives.
#[derive(Debug, Default)]
pub(super) struct AstraSystem {
    /// Implementations of each collective.
    pub dim_lists: HashMap<CollectiveKind, DimList>,
    /// Number of chunks of a collective, and how many of them proceed at once.
    pub chunks: u64,
    pub active_chunks: usize,
    /// Delay of a rank before each step of a collective.
    pub endpoint_delay: Span,
    /// Bytes a second of a rank's memory.
    pub memory_rate: Option<u64>,
    /// Whether an all-reduce of several dimensions scatters and gathers.
    pub scatters: bool,
    /// Whether operations of GPUs last as their sizes say, not as the trace.
    pub has_roofline: bool,
}

/// Implementation in each dimension of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DimList {
    /// Key of the file, for messages.
    pub key: String,
    pub dims: Vec<CollectiveAlgorithm>,
    /// Whether the first one takes all ranks as one dimension.
    pub is_flat: bool,
}

/// Network of ASTRA-sim.
#[derive(Debug)]
pub(super) struct AstraNetwork {
    /// Name of the file.
    pub file: String,
    /// Number of ranks in each dimension.
    pub dims: Vec<u32>,
    /// Fabric; `None` if the file has logical dimensions alone.
    pub fabric: Option<ImportedFabric>,
}

const KINDS: [(&str, CollectiveKind); 4] = [
    ("all-reduce-implementation", CollectiveKind::AllReduce),
    ("all-gather-implementation", CollectiveKind::AllGather),
    ("reduce-scatter-implementation", CollectiveKind::ReduceScatter),
    ("all-to-all-implementation", CollectiveKind::AllToAll),
];
/// Settings without effect on a job's times here.
const IGNORED: [&str; 12] = [
    "scheduling-policy",
    "boost-mode",
    "peak-perf",
    "trace-enabled",
    "track-local-mem",
    "local-mem-trace-filename",
    "local-reduction-delay",
    "L",
    "o",
    "g",
    "G",
    "inter-dimension-scheduling",
];
/// Settings that are refused unless they are 0.
const REFUSED: [(&str, &str); 2] =
    [("replay-only", "replay of collectives (replay-only)"), ("model-shared-bus", "a shared bus (model-shared-bus)")];

impl AstraSystem {
    /// Returns a system of rings without delays.
    pub(super) fn rings() -> AstraSystem {
        let ring = |key: &str| DimList { key: key.to_owned(), dims: vec![CollectiveAlgorithm::Ring], is_flat: true };
        let dim_lists = KINDS.iter().map(|(key, kind)| (*kind, ring(key))).collect();
        AstraSystem { dim_lists, chunks: 1, active_chunks: 1, ..AstraSystem::default() }
    }

    /// Reads a system file.
    pub(super) fn read(path: &Path, report: &mut ImportReport) -> Result<AstraSystem, ImportErrors> {
        let file = read_text(path)?;
        let settings = object(&file, "name a system file of ASTRA-sim")?;
        let reader = SettingsReader { file: &file.name, settings: &settings };
        // ASTRA-sim's defaults.
        let mut system = AstraSystem {
            chunks: reader.number("preferred-dataset-splits", 1, 1)?.unwrap_or(1),
            active_chunks: reader.number("active-chunks-per-dimension", 1, 1)?.unwrap_or(1) as usize,
            endpoint_delay: Span::from_nanos(reader.number("endpoint-delay", 0, 10)?.unwrap_or(10)),
            has_roofline: reader.is_on("roofline-enabled"),
            ..AstraSystem::default()
        };
        if let Some(value) = settings.get("local-mem-bw") {
            // Gigabytes, of 10^9, a second.
            let rate = decimal(&value.to_string(), 9).filter(|rate| *rate > 0);
            system.memory_rate = Some(rate.ok_or_else(|| reader.wrong("local-mem-bw", "write GB/s, like 1600"))?);
        }
        for (key, value) in &settings {
            if let Some((_, kind)) = KINDS.iter().find(|(name, _)| name == key) {
                system.dim_lists.insert(*kind, reader.dim_list(key, value)?);
            } else if key.ends_with("-implementation-custom") || key == "per-node-custom-implementation" {
                return Err(reader.lacks(&format!("collectives of one's own ({key})")));
            } else if let Some((_, feature)) = REFUSED.iter().find(|(name, _)| name == key) {
                if reader.is_on(key) {
                    return Err(reader.lacks(feature));
                }
            } else if key == "collective-optimization" {
                system.scatters = match value.as_str() {
                    Some("localBWAware") => true,
                    Some("baseline") => false,
                    _ => return Err(reader.wrong(key, "write baseline or localBWAware")),
                };
            } else if !READ.contains(&key.as_str()) {
                let why = if IGNORED.contains(&key.as_str()) {
                    "without effect here"
                } else {
                    "ASTRA-sim has no such setting"
                };
                report.left.push(ImportNote::for_file(&file.name, format!("{key}: {why}")));
            }
        }
        let taken = format!(
            "{} chunks a collective, endpoint-delay {}, implementations of {} collectives",
            system.chunks,
            system.endpoint_delay,
            system.dim_lists.len()
        );
        report.taken.push(ImportNote::for_file(&file.name, taken));
        Ok(system)
    }
}

/// Settings that are read first.
const READ: [&str; 5] =
    ["preferred-dataset-splits", "active-chunks-per-dimension", "endpoint-delay", "local-mem-bw", "roofline-enabled"];

/// Reader of a system file's settings.
struct SettingsReader<'s> {
    file: &'s str,
    settings: &'s Map<String, Value>,
}

impl SettingsReader<'_> {
    fn number(&self, key: &str, min: u64, example: u64) -> Result<Option<u64>, ImportErrors> {
        let Some(value) = self.settings.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (min..=1_000_000_000).contains(number));
        number.map(Some).ok_or_else(|| self.wrong(key, &format!("write a number from {min} like {example}")))
    }

    fn is_on(&self, key: &str) -> bool {
        self.settings.get(key).is_some_and(|value| !matches!(value.as_f64(), Some(0.0)) && value != false)
    }

    fn dim_list(&self, key: &str, value: &Value) -> Result<DimList, ImportErrors> {
        let names: Option<Vec<&str>> = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        let names = names.filter(|names| !names.is_empty());
        let names = names.ok_or_else(|| self.wrong(key, "write a name for each dimension, like [\"ring\"]"))?;
        let is_flat = names[0].starts_with("one");
        if names.len() > 1 && is_flat {
            return Err(self.wrong(key, "write an implementation that begins with `one` alone"));
        }
        let read = |name: &&str| {
            let plain = match name.strip_prefix("one") {
                Some("Ring") => "ring",
                Some("HalvingDoubling") => "halvingDoubling",
                Some(rest) => &rest.replacen('D', "d", 1),
                None => name,
            };
            Some(match plain {
                "ring" => CollectiveAlgorithm::Ring,
                "halvingDoubling" => CollectiveAlgorithm::HalvingDoubling,
                "doubleBinaryTree" if !is_flat => CollectiveAlgorithm::DoubleBinaryTree { mirrored: true },
                "direct" => CollectiveAlgorithm::Direct { window: u32::MAX - 1 },
                other => {
                    let window =
                        other.strip_prefix("direct")?.parse().ok().filter(|window| (1..1 << 20).contains(window));
                    CollectiveAlgorithm::Direct { window: window? }
                }
            })
        };
        let dims = names.iter().map(read).collect::<Option<Vec<_>>>();
        let help = "write ring, direct, halvingDoubling or doubleBinaryTree for each dimension";
        Ok(DimList { key: key.to_owned(), dims: dims.ok_or_else(|| self.wrong(key, help))?, is_flat })
    }

    fn wrong(&self, key: &str, help: &str) -> ImportErrors {
        let value = self.settings.get(key).map_or_else(String::new, Value::to_string);
        ImportErrors::one(self.file, None, format!("{key} {value} can't be read"), help)
    }

    fn lacks(&self, feature: &str) -> ImportErrors {
        ImportErrors::one(self.file, None, format!("{feature} can't be simulated"), "take the setting out")
    }
}

impl AstraNetwork {
    /// Reads a network file: the analytical network's YAML, or the logical dimensions of ASTRA-sim's ns-3.
    pub(super) fn read(path: &Path, report: &mut ImportReport) -> Result<AstraNetwork, ImportErrors> {
        let file = read_text(path)?;
        if file.text.trim_start().starts_with('{') {
            return logical_dims(&file, report);
        }
        let wrong = |problem: String| {
            let help = "write topology, npus_count, bandwidth and latency, as in topology: [ Switch ]";
            ImportErrors::one(&file.name, None, problem, help)
        };
        let documents =
            YamlLoader::load_from_str(&file.text).map_err(|error| wrong(format!("this is no YAML: {error}")))?;
        let root = documents.first().ok_or_else(|| wrong("the file is empty".to_owned()))?;
        let list = |key: &str| -> Result<Vec<String>, ImportErrors> {
            let text = |value: &Yaml| match value {
                Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
                Yaml::Integer(number) => Some(number.to_string()),
                _ => None,
            };
            let values = root[key].as_vec().and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>());
            values.filter(|values| !values.is_empty()).ok_or_else(|| wrong(format!("the list {key} is missing")))
        };
        let [kinds, counts, rates, delays] =
            [list("topology")?, list("npus_count")?, list("bandwidth")?, list("latency")?];
        let refuse = |feature: String, help: &str| Err(ImportErrors::one(&file.name, None, feature, help));
        if [counts.len(), rates.len(), delays.len()] != [kinds.len(); 3] {
            return refuse(
                "topology, npus_count, bandwidth and latency have unlike numbers of values".to_owned(),
                "write one each",
            );
        }
        if kinds.len() > 1 {
            let feature = format!(
                "a network of {} dimensions, with a port of each rank in every one, can't be simulated",
                kinds.len()
            );
            return refuse(feature, "write one Switch, or name a file with logical-dims and give --tiers");
        }
        if kinds[0] != "Switch" {
            let feature =
                format!("the topology {}, in which ranks forward others' messages, can't be simulated", kinds[0]);
            return refuse(feature, "write Switch, with half of the latency for two links");
        }
        let ranks = counts[0].parse().ok().filter(|ranks| (2..=4_096).contains(ranks));
        let ranks: u32 = ranks.ok_or_else(|| wrong(format!("npus_count {} is none of 2 to 4096", counts[0])))?;
        let rate = bit_rate(&rates[0]).ok_or_else(|| wrong(format!("bandwidth {} is no rate in GB/s", rates[0])))?;
        let delay = decimal(&delays[0], 3).map(Span::from_picos);
        let delay = delay.ok_or_else(|| wrong(format!("latency {} is no time in ns", delays[0])))?;
        let taken = format!("Switch of {ranks} ranks, {} GB/s of 2^30 B, which are {rate}, {delay} a link", rates[0]);
        report.taken.push(ImportNote::for_file(&file.name, taken));
        let text = "messages go in frames with headers, and cross the switch frame by frame; ASTRA-sim's network takes their payload, and with congestion awareness stores whole messages in the switch";
        report.approximated.push(ImportNote::for_file(&file.name, text));
        let shape = FabricShape::Single { hosts: ranks as usize };
        let fabric = ImportedFabric { shape, links: [LinkTier { rate, delay }; 3], topology: None };
        Ok(AstraNetwork { file: file.name.clone(), dims: vec![ranks], fabric: Some(fabric) })
    }
}

/// Parses a rate in gigabytes of 2^30 bytes a second, to a bit a second.
fn bit_rate(text: &str) -> Option<BitRate> {
    let millionths = u128::from(decimal(text, 6)?);
    let bps = u64::try_from((millionths * 8) * (1 << 30) / 1_000_000).ok()?;
    Some(bps).filter(|bps| *bps > 0).map(BitRate::bps)
}

fn logical_dims(file: &SourceFile, report: &mut ImportReport) -> Result<AstraNetwork, ImportErrors> {
    const HELP: &str = "write for example {\"logical-dims\": [\"8\", \"2\"]}";
    let wrong = |problem: String| ImportErrors::one(&file.name, None, problem, HELP);
    let settings = object(file, HELP)?;
    let list = settings.get("logical-dims").and_then(Value::as_array);
    let count = |value: &Value| value.as_str()?.parse().ok().filter(|count: &u32| *count > 0);
    let dims: Option<Vec<u32>> = list.and_then(|list| list.iter().map(count).collect());
    let dims = dims.filter(|dims| !dims.is_empty());
    let dims = dims.ok_or_else(|| wrong("logical-dims is missing or no list of numbers in quotes".to_owned()))?;
    if dims.iter().try_fold(1u32, |product, dim| product.checked_mul(*dim)).is_none_or(|ranks| ranks > 1 << 20) {
        return Err(wrong("the network has more than 2^20 ranks".to_owned()));
    }
    report.taken.push(ImportNote::for_file(&file.name, format!("logical dimensions {dims:?}")));
    Ok(AstraNetwork { file: file.name.clone(), dims, fabric: None })
}

/// Reads a file of groups: lists of ranks by number.
pub(super) fn read_groups(path: &Path, report: &mut ImportReport) -> Result<HashMap<String, Vec<u32>>, ImportErrors> {
    const HELP: &str = "write for example {\"1\": [0, 1]}";
    let file = read_text(path)?;
    let mut groups = HashMap::new();
    for (name, list) in object(&file, HELP)? {
        let wrong = |problem: String| ImportErrors::one(&file.name, None, problem, HELP);
        if name == "0" {
            return Err(wrong("group 0 is all ranks in ASTRA-sim, and can't be another".to_owned()));
        }
        let rank = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ranks: Option<Vec<u32>> = list.as_array().and_then(|list| list.iter().map(rank).collect());
        let ranks = ranks.ok_or_else(|| wrong(format!("group {name} is no list of ranks")))?;
        groups.insert(name, ranks);
    }
    report.taken.push(ImportNote::for_file(&file.name, format!("{} groups", groups.len())));
    Ok(groups)
}

fn object(file: &SourceFile, help: &str) -> Result<Map<String, Value>, ImportErrors> {
    match serde_json::from_str(&file.text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ImportErrors::one(&file.name, None, "this is no JSON object", help)),
        Err(error) => Err(ImportErrors::one(&file.name, Some(error.line()), format!("this is no JSON: {error}"), help)),
    }
}
