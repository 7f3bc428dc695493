//! Chakra traces: a file of each rank, in protobuf or JSON, compressed or not.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use prost::Message;
use serde_json::{Map, Value};

use crate::import::collectives::CollectiveKind;
use crate::import::{ImportErrors, read_file};

/// Trace of a rank.
#[derive(Debug)]
pub(super) struct ChakraTrace {
    /// Name of the file.
    pub file: String,
    pub nodes: Vec<TraceNode>,
    /// Groups of ranks that PyTorch wrote into the trace, by name; without ranks: all.
    pub groups: Vec<(String, Vec<u32>)>,
}

/// Operation of a rank.
#[derive(Debug, PartialEq)]
pub(super) struct TraceNode {
    pub id: u64,
    pub name: String,
    /// Operations that it waits for, by id.
    pub dependencies: Vec<u64>,
    pub operation: TraceOperation,
}

#[derive(Debug, PartialEq)]
pub(super) enum TraceOperation {
    /// Node that takes no time.
    Metadata,
    Compute {
        micros: u64,
        is_on_host: bool,
    },
    Send {
        to: u64,
        tag: u64,
        bytes: u64,
    },
    Receive {
        from: u64,
        tag: u64,
        bytes: u64,
    },
    Collective {
        kind: CollectiveKind,
        bytes: u64,
        group: String,
        /// Dimensions of the network that take part.
        dims: Option<Vec<bool>>,
    },
    /// Broadcast, of which only the duration is known.
    Broadcast {
        micros: u64,
    },
}

/// Message `GlobalMetadata`, of which nothing is used.
#[derive(Clone, PartialEq, Message)]
struct MetadataMessage {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    attr: Vec<AttributeMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int32, tag = "3")]
    node_type: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    inputs: Option<ValuesMessage>,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<AttributeMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ValuesMessage {
    #[prost(string, tag = "1")]
    values: String,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "AttributeValue", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AttributeValue {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Logical(bool),
    #[prost(message, tag = "28")]
    LogicalList(LogicalListMessage),
    #[prost(string, tag = "29")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
struct LogicalListMessage {
    #[prost(bool, repeated, tag = "1")]
    values: Vec<bool>,
}

impl From<AttributeValue> for Value {
    fn from(value: AttributeValue) -> Value {
        match value {
            AttributeValue::Int32(number) | AttributeValue::Sint32(number) | AttributeValue::Sfixed32(number) => {
                number.into()
            }
            AttributeValue::Int64(number) | AttributeValue::Sint64(number) | AttributeValue::Sfixed64(number) => {
                number.into()
            }
            AttributeValue::Uint32(number) | AttributeValue::Fixed32(number) => number.into(),
            AttributeValue::Uint64(number) | AttributeValue::Fixed64(number) => number.into(),
            AttributeValue::Logical(value) => value.into(),
            AttributeValue::LogicalList(list) => list.values.into(),
            AttributeValue::Text(text) => text.into(),
        }
    }
}

/// Endings of a trace's name, after prefix and rank.
const ENDINGS: [&str; 4] = ["et", "et.gz", "json", "json.gz"];

/// Reads the traces `PREFIX.0.et`, `PREFIX.1.et` and so on.
pub(super) fn read(prefix: &Path) -> Result<Vec<ChakraTrace>, ImportErrors> {
    (0..).zip(find(prefix)?).map(|(rank, path)| read_trace(rank, &path)).collect()
}

/// Finds the traces of all ranks.
fn find(prefix: &Path) -> Result<Vec<PathBuf>, ImportErrors> {
    let refuse =
        |problem: String, help: &str| Err(ImportErrors::one(&prefix.display().to_string(), None, problem, help));
    const HELP: &str = "name the traces without .RANK.et, as in weir import chakra folder/all_reduce";
    let Some(stem) = prefix.file_name().and_then(|name| name.to_str()) else {
        return refuse("this is no prefix of traces".to_owned(), HELP);
    };
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten(),
        Err(error) => return refuse(format!("can't read the folder: {error}"), HELP),
    };
    let rank = |path: &PathBuf| -> Option<u32> {
        let rest = path.file_name()?.to_str()?.strip_prefix(stem)?.strip_prefix('.')?;
        let (rank, ending) = rest.split_once('.')?;
        rank.parse().ok().filter(|_| ENDINGS.contains(&ending))
    };
    let mut found: Vec<(u32, PathBuf)> =
        entries.map(|entry| entry.path()).filter_map(|path| Some((rank(&path)?, path))).collect();
    found.sort();
    if found.is_empty() {
        return refuse("there is no trace PREFIX.0.et or PREFIX.0.json".to_owned(), HELP);
    }
    if let Some((place, (rank, path))) = (0..).zip(&found).find(|(place, (rank, _))| place != rank) {
        let name = path.display();
        return if *rank < place {
            refuse(format!("there are two traces of rank {rank}, one of them {name}"), "take one of them away")
        } else {
            refuse(format!("the trace of rank {place} is missing, and {name} is there"), "name a complete job's traces")
        };
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Problem of a trace, and its fix.
#[derive(Debug)]
struct TraceProblem {
    problem: String,
    help: &'static str,
}

impl From<String> for TraceProblem {
    fn from(problem: String) -> TraceProblem {
        TraceProblem { problem, help: "name a trace in Chakra's format" }
    }
}

impl From<&str> for TraceProblem {
    fn from(problem: &str) -> TraceProblem {
        problem.to_owned().into()
    }
}

impl TraceProblem {
    /// Refuses an operation of the format.
    fn unsupported(operation: &str) -> TraceProblem {
        TraceProblem { problem: format!("{operation} is not simulated"), help: "name a trace without it" }
    }
}

fn read_trace(rank: u64, path: &Path) -> Result<ChakraTrace, ImportErrors> {
    let (file, mut content) = read_file(path)?;
    let refuse = |TraceProblem { problem, help }| ImportErrors::one(&file, None, problem, help);
    if content.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        let read = MultiGzDecoder::new(&content[..]).read_to_end(&mut plain);
        read.map_err(|error| refuse(format!("this is no complete gzip file: {error}").into()))?;
        content = plain;
    }
    // A message of 123 bytes may begin like an object.
    let json = content.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice::<Value>(&content));
    let is_json = file.contains(".json");
    let nodes = match json {
        Some(Ok(json)) => read_json(&json, rank),
        Some(Err(error)) if is_json => Err(format!("this is no JSON: {error}").into()),
        None if is_json => Err("this is no JSON: it begins with no brace".into()),
        _ => read_messages(&content, rank),
    };
    let (nodes, groups) = nodes.map_err(refuse)?;
    Ok(ChakraTrace { file, nodes, groups })
}

type NodesAndGroups = (Vec<TraceNode>, Vec<(String, Vec<u32>)>);

/// Reads messages, each after its length: `GlobalMetadata`, then nodes.
fn read_messages(content: &[u8], rank: u64) -> Result<NodesAndGroups, TraceProblem> {
    let mut rest = content;
    let wrong = |rest: &[u8], error: prost::DecodeError| {
        format!("this is no Chakra trace, from byte {} on: {error}", content.len() - rest.len())
    };
    if rest.is_empty() {
        return Err("the trace is empty".into());
    }
    MetadataMessage::decode_length_delimited(&mut rest).map_err(|error| wrong(rest, error))?;
    let (mut nodes, mut groups) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let start = rest;
        let message = NodeMessage::decode_length_delimited(&mut rest).map_err(|error| wrong(start, error))?;
        if message.node_type == METADATA {
            groups.extend(message.inputs.iter().flat_map(|inputs| groups_of(&inputs.values)));
        }
        let value = |attribute: AttributeMessage| (attribute.name, attribute.value.map_or(Value::Null, Value::from));
        let reader = NodeReader {
            rank,
            id: message.id,
            name: message.name,
            node_type: i64::from(message.node_type),
            dependencies: [message.ctrl_deps, message.data_deps].concat(),
            micros: message.duration_micros,
            attributes: &message.attr.into_iter().map(value).collect(),
        };
        nodes.push(reader.read()?);
    }
    Ok((nodes, groups))
}

/// Reads the nodes of `workload_graph`. As in Chakra's reader, `ctrlDeps`, which may name nodes that the file lacks, are ignored.
fn read_json(json: &Value, rank: u64) -> Result<NodesAndGroups, TraceProblem> {
    let graph = json.get("workload_graph").and_then(Value::as_array);
    let graph = graph.ok_or("the list workload_graph is missing")?;
    let node = |(place, value): (usize, &Value)| {
        let fields = value.as_object().ok_or(format!("workload_graph[{place}] is no object"))?;
        let number = |key: &str| fields.get(key).and_then(Value::as_i64);
        let missing = |key: &str| format!("workload_graph[{place}] has no number {key}");
        let dependencies = match fields.get("data_deps") {
            None => Some(Vec::new()),
            Some(list) => list.as_array().and_then(|list| list.iter().map(Value::as_u64).collect()),
        };
        // As in Chakra's reader, fractions are cut.
        let micros = match fields.get("runtime") {
            None => Some(0),
            Some(runtime) => {
                runtime.as_u64().or(runtime.as_f64().filter(|micros| *micros >= 0.0).map(|micros| micros as u64))
            }
        };
        let reader = NodeReader {
            rank,
            id: fields.get("Id").and_then(Value::as_u64).ok_or_else(|| missing("Id"))?,
            name: fields.get("Name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            node_type: number("NodeType").ok_or_else(|| missing("NodeType"))?,
            dependencies: dependencies.ok_or(format!("data_deps of workload_graph[{place}] is no list of ids"))?,
            micros: micros.ok_or(format!("runtime of workload_graph[{place}] is no number from 0"))?,
            attributes: fields,
        };
        reader.read()
    };
    Ok((graph.iter().enumerate().map(node).collect::<Result<_, TraceProblem>>()?, Vec::new()))
}

/// Reads the groups of a metadata node of PyTorch: objects with `pg_name` and `ranks`.
fn groups_of(values: &str) -> Vec<(String, Vec<u32>)> {
    let list = values.find("[{").zip(values.rfind("}]")).and_then(|(first, last)| values.get(first..last + 2));
    let list: Option<Vec<Value>> = list.and_then(|list| serde_json::from_str(list).ok());
    let group = |group: &Value| {
        let name = group.get("pg_name")?.as_str()?.to_owned();
        let ranks = group.get("ranks")?.as_array()?.iter();
        Some((name, ranks.map(|rank| u32::try_from(rank.as_u64()?).ok()).collect::<Option<_>>()?))
    };
    list.iter().flatten().filter_map(group).collect()
}

const METADATA: i32 = 1;
/// Collective operations of Chakra that are not simulated, by number.
const OTHER_COLLECTIVES: [(u64, &str); 5] =
    [(1, "REDUCE"), (3, "GATHER"), (4, "SCATTER"), (8, "REDUCE_SCATTER_BLOCK"), (9, "BARRIER")];

/// Reader of a node of either format.
struct NodeReader<'a> {
    rank: u64,
    id: u64,
    name: String,
    node_type: i64,
    dependencies: Vec<u64>,
    micros: u64,
    attributes: &'a Map<String, Value>,
}

impl NodeReader<'_> {
    fn read(mut self) -> Result<TraceNode, TraceProblem> {
        let (id, name) = (self.id, std::mem::take(&mut self.name));
        let operation = self.operation().map_err(|of_node| TraceProblem {
            problem: format!("node {id} ({name}): {}", of_node.problem),
            ..of_node
        })?;
        self.dependencies.sort_unstable();
        self.dependencies.dedup();
        Ok(TraceNode { id, name, dependencies: self.dependencies, operation })
    }

    fn operation(&self) -> Result<TraceOperation, TraceProblem> {
        let is_on_host = self.attributes.get("is_cpu_op").and_then(Value::as_bool).unwrap_or(false);
        if (5..=7).contains(&self.node_type) && is_on_host {
            return Err(TraceProblem::unsupported("communication on the CPU (is_cpu_op)"));
        }
        match self.node_type {
            0 | 1 => Ok(TraceOperation::Metadata),
            2 | 3 => Err(TraceProblem::unsupported("remote memory (MEM_LOAD_NODE, MEM_STORE_NODE)")),
            4 => Ok(TraceOperation::Compute { micros: self.micros, is_on_host }),
            // `comm_type` repeats the type of the node here.
            5 => {
                let (to, tag, bytes) = self.message("comm_dst", "comm_src")?;
                Ok(TraceOperation::Send { to, tag, bytes })
            }
            6 => {
                let (from, tag, bytes) = self.message("comm_src", "comm_dst")?;
                Ok(TraceOperation::Receive { from, tag, bytes })
            }
            7 => self.collective(),
            other => Err(format!("there is no type {other} of nodes").into()),
        }
    }

    /// Returns the peer, tag and size of a message; `own` may repeat the rank.
    fn message(&self, peer: &str, own: &str) -> Result<(u64, u64, u64), TraceProblem> {
        let (rank, number) = (self.rank, self.optional(own, self.rank)?);
        if number != rank {
            return Err(format!("{own} is {number}, and this is the trace of rank {rank}").into());
        }
        Ok((self.number(peer)?, self.optional("comm_tag", 0)?, self.number("comm_size")?))
    }

    fn collective(&self) -> Result<TraceOperation, TraceProblem> {
        let kind = match self.number("comm_type")? {
            0 => CollectiveKind::AllReduce,
            2 => CollectiveKind::AllGather,
            6 => CollectiveKind::AllToAll,
            7 => CollectiveKind::ReduceScatter,
            5 => return Ok(TraceOperation::Broadcast { micros: self.micros }),
            other => {
                let name = OTHER_COLLECTIVES.iter().find(|(number, _)| *number == other).map(|(_, name)| *name);
                return Err(match name {
                    Some(name) => TraceProblem::unsupported(&format!("the collective {name}")),
                    None => format!("there is no collective {other}").into(),
                });
            }
        };
        let group = match self.attributes.get("pg_name") {
            None => String::new(),
            Some(Value::String(name)) => name.clone(),
            Some(other) => return Err(format!("pg_name {other} is no text").into()),
        };
        let dims = match self.attributes.get("involved_dim") {
            None => None,
            Some(list) => {
                let dims = list.as_array().and_then(|list| list.iter().map(Value::as_bool).collect::<Option<_>>());
                Some(dims.ok_or("involved_dim is no list of booleans")?)
            }
        };
        Ok(TraceOperation::Collective { kind, bytes: self.number("comm_size")?, group, dims })
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let value = self.attributes.get(name).ok_or_else(|| format!("the attribute {name} is missing"))?;
        value.as_u64().ok_or_else(|| format!("{name} {value} is no number from 0"))
    }

    fn optional(&self, name: &str, default: u64) -> Result<u64, String> {
        if self.attributes.contains_key(name) { self.number(name) } else { Ok(default) }
    }
}
