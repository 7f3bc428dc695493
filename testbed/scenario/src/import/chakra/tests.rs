//! Tests of imports of Chakra traces, with files of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use prost::encoding;
use weir_units::Span;

use super::*;
use crate::scenario::{Scenario, TrafficSource};
use crate::workload::MessageGraph;

/// Value of an attribute, with its field number.
#[derive(Clone, Copy)]
enum Attribute<'v> {
    Int32(i32),
    Int64(i64),
    Logical(bool),
    LogicalList(&'v [bool]),
    Text(&'v str),
}

/// Node, field by field as in protobuf: fields that are 0 are absent.
fn node(
    id: u64,
    node_type: u64,
    data: &[u64],
    control: &[u64],
    micros: u64,
    attributes: &[(&str, Attribute<'_>)],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, tag: u32, number: u64| {
        if number > 0 {
            encoding::uint64::encode(tag, &number, bytes);
        }
    };
    number(&mut bytes, 1, id);
    encoding::string::encode(2, &format!("node {id}"), &mut bytes);
    number(&mut bytes, 3, node_type);
    encoding::uint64::encode_packed(4, control, &mut bytes);
    encoding::uint64::encode_packed(5, data, &mut bytes);
    number(&mut bytes, 7, micros);
    for (name, value) in attributes {
        let mut attribute = Vec::new();
        encoding::string::encode(1, &(*name).to_owned(), &mut attribute);
        match value {
            Attribute::Int32(value) => encoding::int32::encode(7, value, &mut attribute),
            Attribute::Int64(value) => encoding::int64::encode(9, value, &mut attribute),
            Attribute::Logical(value) => encoding::bool::encode(27, value, &mut attribute),
            Attribute::LogicalList(values) => {
                let mut list = Vec::new();
                encoding::bool::encode_packed(1, values, &mut list);
                encoding::bytes::encode(28, &list, &mut attribute);
            }
            Attribute::Text(text) => encoding::string::encode(29, &(*text).to_owned(), &mut attribute),
        }
        encoding::bytes::encode(10, &attribute, &mut bytes);
    }
    bytes
}

/// Trace of nodes, after its metadata.
fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut metadata = Vec::new();
    encoding::string::encode(1, &"0.0.4".to_owned(), &mut metadata);
    let mut file = Vec::new();
    for message in [&metadata].into_iter().chain(nodes) {
        encoding::encode_varint(message.len() as u64, &mut file);
        file.extend(message);
    }
    file
}

fn collective(id: u64, data: &[u64], comm_type: i64, bytes: i64) -> Vec<u8> {
    let attributes = [
        ("is_cpu_op", Attribute::Logical(false)),
        ("comm_type", Attribute::Int64(comm_type)),
        ("comm_size", Attribute::Int64(bytes)),
    ];
    node(id, 7, data, &[], 0, &attributes)
}

/// Files of an import, besides its traces.
#[derive(Default)]
struct Inputs {
    files: Vec<(String, Vec<u8>)>,
    system: Option<&'static str>,
    network: Option<&'static str>,
    groups: Option<&'static str>,
    fabric: Option<FabricOptions>,
}

impl Inputs {
    fn of(traces: impl IntoIterator<Item = Vec<u8>>) -> Inputs {
        let files = traces.into_iter().enumerate().map(|(rank, trace)| (format!("job.{rank}.et"), trace)).collect();
        Inputs { files, ..Inputs::default() }
    }

    /// Imports the files and reads the scenario.
    fn import(&self) -> Result<(MessageGraph, Scenario, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        self.files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        let write = |name: &str, text: Option<&str>| -> Option<PathBuf> {
            text.map(|text| fs::write(path(name), text).unwrap())?;
            Some(path(name))
        };
        let system = write("system.json", self.system);
        let network = write("network", self.network);
        let groups = write("groups.json", self.groups);
        let options = ChakraOptions {
            stem: "s".to_owned(),
            prefix: &path("job"),
            system: system.as_deref(),
            network: network.as_deref(),
            groups: groups.as_deref(),
            fabric: self.fabric,
        };
        let imported = import(&options)
            .map_err(|errors| errors.to_string().replace(&format!("{}/", folder.path().display()), ""))?;
        imported.files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        let runs = crate::file::parse(&path("s.toml"), &imported.scenario);
        let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
        let TrafficSource::Graph(graph) = &scenario.traffic[0].source else { panic!("no graph") };
        let graph = MessageGraph::clone(graph);
        Ok((graph, scenario, imported.scenario))
    }
}

/// Number and bytes of the messages between each two ranks.
fn sums(graph: &MessageGraph) -> BTreeMap<(u32, u32), (usize, u64)> {
    let mut sums: BTreeMap<(u32, u32), (usize, u64)> = BTreeMap::new();
    for message in graph.messages() {
        let sum = sums.entry((message.from, message.to)).or_default();
        *sum = (sum.0 + 1, sum.1 + message.size.get());
    }
    sums
}

const RING_4_CHUNKS: &str = r#"{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware", "local-mem-bw": 50, "boost-mode": 0}"#;

/// ASTRA-sim's regression test `rt_template`: an all-reduce of 1 MiB of 8 ranks takes 117,780 ns, at 500 ns and 50 GB/s a message.
#[test]
fn an_all_reduce_takes_the_time_of_astra_sim() {
    let all_reduce = trace(&[collective(1, &[], 0, 1 << 20)]);
    let inputs = Inputs { system: Some(RING_4_CHUNKS), ..Inputs::of(vec![all_reduce; 8]) };
    let (graph, ..) = inputs.import().unwrap();
    let message = |size: u32| {
        let bytes_a_microsecond = 50 * (1u64 << 30) / 1_000_000;
        Span::from_nanos(500 + u64::from(size) * 1_000 / bytes_a_microsecond)
    };
    assert_eq!(graph.idle_time(message), Ok(Span::from_nanos(117_780)));
    let each = sums(&graph);
    assert_eq!(each.len(), 8);
    assert!(
        each.iter().all(|((from, to), sum)| *to == (from + 1) % 8 && *sum == (4 * 14, 4 * 14 * 32_768)),
        "{each:?}"
    );
}

#[test]
fn an_all_gather_has_its_shard_and_others_the_buffer() {
    let bytes = |comm_type: i64| {
        let (graph, ..) = Inputs::of(vec![trace(&[collective(0, &[], comm_type, 4_096)]); 4]).import().unwrap();
        sums(&graph)[&(0, 1)]
    };
    assert_eq!((bytes(2), bytes(7), bytes(0), bytes(6)), ((3, 12_288), (3, 3_072), (6, 6_144), (6, 6_144)));
}

#[test]
fn implementations_send_what_they_do_in_astra_sim() {
    for (kind, name, expected) in [
        (0, "halvingDoubling", vec![((0, 1), (2, 8_192)), ((0, 2), (2, 4_096))]),
        (2, "halvingDoubling", vec![((0, 1), (1, 16_384)), ((0, 2), (1, 8_192))]),
        (7, "halvingDoubling", vec![((0, 1), (1, 4_096)), ((0, 2), (1, 2_048))]),
        (0, "direct", vec![((0, 1), (2, 4_096)), ((0, 2), (2, 4_096)), ((0, 3), (2, 4_096))]),
        (6, "direct2", vec![((0, 1), (1, 2_048)), ((0, 2), (1, 2_048)), ((0, 3), (1, 2_048))]),
        (0, "oneRing", vec![((0, 1), (6, 12_288))]),
        // The first chunk's tree has rank 3 as its root, below which is 1 with 0 and 2.
        (0, "doubleBinaryTree", vec![((0, 1), (1, 8_192))]),
    ] {
        let names = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"];
        let lists: String = names.iter().map(|of| format!(r#""{of}-implementation": ["{name}"], "#)).collect();
        let system: &'static str = format!(r#"{{{lists} "preferred-dataset-splits": 1}}"#).leak();
        let inputs = Inputs { system: Some(system), ..Inputs::of(vec![trace(&[collective(0, &[], kind, 8_192)]); 4]) };
        let (graph, ..) = inputs.import().unwrap();
        let from_0: Vec<_> = sums(&graph).into_iter().filter(|((from, _), _)| *from == 0).collect();
        assert_eq!(from_0, expected, "{kind} by {name}");
    }
}

#[test]
fn an_all_reduce_of_two_dimensions_scatters_and_gathers() {
    let system = RING_4_CHUNKS.replace("[\"ring\"]", "[\"ring\", \"ring\"]").replace("splits\": 4", "splits\": 1");
    let inputs = |dims: &'static [bool]| {
        let attributes = [
            ("comm_type", Attribute::Int64(0)),
            ("comm_size", Attribute::Int64(8_192)),
            ("involved_dim", Attribute::LogicalList(dims)),
        ];
        Inputs {
            system: Some(system.clone().leak()),
            network: Some("{\"logical-dims\": [\"4\", \"2\"]}"),
            ..Inputs::of(vec![trace(&[node(3, 7, &[], &[], 0, &attributes)]); 8])
        }
    };
    let (graph, ..) = inputs(&[true, true]).import().unwrap();
    // Three blocks of a quarter there and back within four ranks; two of an eighth between both halves.
    let sums_of_0 = [((0, 1), (6, 12_288)), ((0, 4), (2, 2_048))];
    assert_eq!(sums(&graph).into_iter().filter(|((from, _), _)| *from == 0).collect::<Vec<_>>(), sums_of_0);
    let (graph, ..) = inputs(&[false, true]).import().unwrap();
    assert_eq!(sums(&graph)[&(0, 4)], (2, 8_192));
    assert!(!sums(&graph).contains_key(&(0, 1)));
    let problem = inputs(&[true]).import().unwrap_err();
    assert!(problem.contains("involved_dim [true] has no dimension, or fewer than the network's 2"), "{problem}");
    let flat = Inputs { system: None, ..inputs(&[false, true]) };
    let problem = flat.import().unwrap_err();
    assert!(problem.contains("involved_dim leaves out dimensions"), "{problem}");
}

/// A switch of ASTRA-sim: gigabytes have 2^30 bytes, and the latency is that of a link.
#[test]
fn an_analytical_switch_is_the_fabric() {
    let network = "topology: [ Switch ]  # one\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 936.25 ]\n";
    let inputs = Inputs { network: Some(network), ..Inputs::of(vec![trace(&[collective(0, &[], 0, 1 << 20)]); 4]) };
    let (_, scenario, text) = inputs.import().unwrap();
    assert!(text.contains("kind = \"single\"\nhosts = 4\nrate = \"429496729600bps\"\ndelay = \"936250ps\""), "{text}");
    assert_eq!((scenario.hosts.len(), scenario.switches.len()), (4, 1));
    let twice = Inputs { fabric: Some(FabricOptions::default()), ..inputs }.import().unwrap_err();
    assert_eq!(
        twice,
        "network: its switch is the fabric, of which there can be one; take --tiers, --rate and --delay out, or the network"
    );
}

/// Traps of the format in one job of two ranks: id 0 is absent, parents come after children, `comm_type` of a send repeats the node's type,
/// ids mean nothing to other ranks, and collectives pair by order.
#[test]
fn traps_of_the_format() {
    let send = |id, to| {
        let attributes = [
            ("comm_type", Attribute::Int64(5)),
            ("comm_dst", Attribute::Int32(to)),
            ("comm_tag", Attribute::Int32(3)),
            ("comm_size", Attribute::Int64(1_000)),
        ];
        node(id, 5, &[0], &[], 0, &attributes)
    };
    let receive = |id, from| {
        let attributes = [
            ("comm_type", Attribute::Int64(6)),
            ("comm_src", Attribute::Int32(from)),
            ("comm_tag", Attribute::Int32(3)),
            ("comm_size", Attribute::Int64(1_000)),
        ];
        node(id, 6, &[], &[], 0, &attributes)
    };
    // Rank 0: a send after the computation 0, which follows it in the file, then two collectives, the one with the higher id first.
    let first =
        [send(4, 1), node(0, 4, &[], &[], 7, &[]), collective(9, &[4], 0, 2_048), collective(8, &[9], 7, 2_048)];
    let second = [collective(5, &[1], 7, 2_048), collective(1, &[77], 0, 2_048), receive(77, 0)];
    let inputs = Inputs::of([trace(&first), trace(&second)]);
    let (graph, ..) = inputs.import().unwrap();
    // 7 us, a message, then 2 + 1 messages of the collectives.
    assert_eq!(graph.idle_time(|_| Span::from_micros(10)), Ok(Span::from_micros(47)));
    assert_eq!(sums(&graph), BTreeMap::from([((0, 1), (4, 4_072)), ((1, 0), (3, 3_072))]));

    let gzip = |file: Vec<u8>| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&file).unwrap();
        encoder.finish().unwrap()
    };
    let compressed = Inputs::of([gzip(trace(&first)), gzip(trace(&second))]);
    assert_eq!(compressed.import().unwrap().0, graph);

    let json = [
        r#"{"workload_graph": [
            {"Id": 4, "Name": "s", "NodeType": 5, "ctrlDeps": [99], "data_deps": [0], "comm_type": 5, "comm_dst": 1, "comm_tag": 3, "comm_size": 1000},
            {"Id": 0, "Name": "c", "NodeType": 4, "data_deps": [], "runtime": 7, "is_cpu_op": false},
            {"Id": 9, "Name": "a", "NodeType": 7, "data_deps": [4], "comm_type": 0, "comm_size": 2048},
            {"Id": 8, "Name": "b", "NodeType": 7, "data_deps": [9], "comm_type": 7, "comm_size": 2048}], "ngpus": 2}"#,
        r#"{"workload_graph": [
            {"Id": 5, "Name": "b", "NodeType": 7, "data_deps": [1], "comm_type": 7, "comm_size": 2048},
            {"Id": 1, "Name": "a", "NodeType": 7, "data_deps": [77], "comm_type": 0, "comm_size": 2048},
            {"Id": 77, "Name": "r", "NodeType": 6, "data_deps": [], "comm_type": 6, "comm_src": 0, "comm_tag": 3, "comm_size": 1000}]}"#,
    ];
    let files = json.iter().enumerate().map(|(rank, json)| (format!("job.{rank}.json"), json.as_bytes().to_vec()));
    let json = Inputs { files: files.collect(), ..Inputs::default() };
    assert_eq!(json.import().unwrap().0, graph);
}

#[test]
fn groups_are_those_of_a_file() {
    let of_group = |group: &'static str| {
        let attributes = [
            ("comm_type", Attribute::Int64(0)),
            ("comm_size", Attribute::Int64(2_000)),
            ("pg_name", Attribute::Text(group)),
        ];
        trace(&[node(1, 7, &[], &[], 0, &attributes)])
    };
    let traces = || [of_group("1"), of_group("2"), of_group("1"), of_group("2")];
    let groups = "{\"1\": [0, 2], \"2\": [3, 1]}";
    let (graph, ..) = Inputs { groups: Some(groups), ..Inputs::of(traces()) }.import().unwrap();
    let each = sums(&graph).into_iter().map(|(pair, (messages, bytes))| (pair, messages, bytes)).collect::<Vec<_>>();
    assert_eq!(each, [((0, 2), 2, 2_000), ((1, 3), 2, 2_000), ((2, 0), 2, 2_000), ((3, 1), 2, 2_000)]);
    let errors = |groups| Inputs { groups, ..Inputs::of(traces()) }.import().unwrap_err();
    assert!(errors(None).starts_with("job.0.et: node 1 (node 1): there is no group 1; name a file"));
    assert!(errors(Some("{\"0\": [0]}")).starts_with("groups.json: group 0 is all ranks in ASTRA-sim"));
    assert!(
        errors(Some("{\"1\": [0, 2, 7], \"2\": [1, 3]}")).contains("group 1 has a rank twice, one without a trace")
    );
    assert!(errors(Some("{\"1\": [0, 1, 2], \"2\": [1, 3]}")).contains("rank 1 of its group does not take part"));
}

#[test]
fn features_that_weir_lacks_are_named() {
    let job = || trace(&[collective(0, &[], 0, 4_096)]);
    let with_system = |system: &str| {
        let system: &'static str = system.to_owned().leak();
        Inputs { system: Some(system), ..Inputs::of([job(), job(), job()]) }.import().unwrap_err()
    };
    for (system, error) in [
        (
            r#"{"all-reduce-implementation-custom": ["x"]}"#,
            "system.json: collectives of one's own (all-reduce-implementation-custom) can't",
        ),
        (r#"{"replay-only": 1}"#, "system.json: replay of collectives (replay-only) can't be simulated; take"),
        (
            r#"{"all-reduce-implementation": ["tree"]}"#,
            "system.json: all-reduce-implementation [\"tree\"] can't be read; write ring",
        ),
        (
            r#"{"all-gather-implementation": ["ring"]}"#,
            "job.0.et: node 0 (node 0): the system file has no implementation of AllReduce; write",
        ),
        (
            r#"{"all-reduce-implementation": ["ring", "ring"]}"#,
            "job.0.et: node 0 (node 0): all-reduce-implementation has 2 dimensions, and the network 1; write",
        ),
        (
            r#"{"all-reduce-implementation": ["halvingDoubling"]}"#,
            "job.0.et: node 0 (node 0): halvingDoubling of 3 ranks, no power of two, can't",
        ),
        (
            r#"{"preferred-dataset-splits": 0}"#,
            "system.json: preferred-dataset-splits 0 can't be read; write a number from 1",
        ),
        ("[]", "system.json: this is no JSON object; name a system file"),
        ("{", "system.json:1: this is no JSON: "),
    ] {
        let found = with_system(system);
        assert!(found.starts_with(error), "{found}");
    }
    for (network, error) in [
        (
            "topology: [Ring]\nnpus_count: [3]\nbandwidth: [1]\nlatency: [1]",
            "network: the topology Ring, in which ranks forward",
        ),
        (
            "topology: [Switch, Switch]\nnpus_count: [3, 1]\nbandwidth: [1, 1]\nlatency: [1, 1]",
            "network: a network of 2 dimensions, with a port",
        ),
        (
            "topology: [Switch]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]",
            "network: the network has 4 ranks, and there are traces of 3",
        ),
        ("topology: [Switch]\nnpus_count: [3]\nbandwidth: [1]", "network: the list latency is missing"),
        ("{\"logical-dims\": [3]}", "network: logical-dims is missing or no list of numbers in quotes"),
    ] {
        let inputs = Inputs { network: Some(network), ..Inputs::of([job(), job(), job()]) };
        let found = inputs.import().unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
    let refused = |nodes: &[Vec<u8>]| Inputs::of([trace(nodes), job()]).import().unwrap_err();
    let number = |name, value| [("comm_size", Attribute::Int64(1)), ("comm_dst", Attribute::Int32(1)), (name, value)];
    for (nodes, error) in [
        (
            vec![node(2, 2, &[], &[], 0, &[])],
            "node 2 (node 2): remote memory (MEM_LOAD_NODE, MEM_STORE_NODE) is not simulated; name a trace without it",
        ),
        (
            vec![collective(2, &[], 9, 1)],
            "node 2 (node 2): the collective BARRIER is not simulated; name a trace without it",
        ),
        (vec![collective(2, &[], 10, 1)], "node 2 (node 2): there is no collective 10"),
        (vec![node(2, 8, &[], &[], 0, &[])], "node 2 (node 2): there is no type 8 of nodes"),
        (vec![node(2, 7, &[], &[], 0, &[])], "node 2 (node 2): the attribute comm_type is missing"),
        (vec![collective(2, &[], 0, -1)], "node 2 (node 2): comm_size -1 is no number from 0"),
        (
            vec![node(2, 5, &[], &[], 0, &number("is_cpu_op", Attribute::Logical(true)))],
            "node 2 (node 2): communication on the CPU (is_cpu_op)",
        ),
        (
            vec![node(2, 5, &[], &[], 0, &number("comm_tag", Attribute::Text("a")))],
            "node 2 (node 2): comm_tag \"a\" is no number from 0",
        ),
        (
            vec![node(2, 5, &[], &[], 0, &number("comm_tag", Attribute::Int32(4)))],
            "node 2 (node 2): rank 0 sends 1 messages of 1 B with tag 4 to rank 1, which receives 0",
        ),
        (
            vec![node(2, 5, &[], &[], 0, &number("comm_src", Attribute::Int32(1)))],
            "node 2 (node 2): comm_src is 1, and this is the trace of rank 0; name a trace in Chakra's format",
        ),
        (vec![node(2, 4, &[5], &[], 0, &[])], "node 2 (node 2): it waits for node 5, which the trace lacks"),
        (vec![node(2, 4, &[5], &[], 0, &[]), node(5, 4, &[], &[2], 0, &[])], "node 2 (node 2): it waits for itself"),
        (
            vec![node(2, 4, &[], &[], 0, &[]), node(2, 4, &[], &[], 0, &[])],
            "node 2 (node 2): there are two nodes with this id",
        ),
        (
            vec![collective(2, &[], 0, 1 << 40)],
            "node 0 (node 0): it is number 1 of its group, AllReduce of 4096 B, and that of another",
        ),
    ] {
        let found = refused(&nodes);
        let rank = if error.contains("it is number") { 1 } else { 0 };
        assert!(found.starts_with(&format!("job.{rank}.et: {error}")), "{found}");
    }
    let peer = |id: u64, other: &'static str, bytes: i32| {
        let attributes = [(other, Attribute::Int32(1 - id as i32)), ("comm_size", Attribute::Int32(bytes))];
        trace(&[node(id, 5 + id, &[], &[], 0, &attributes)])
    };
    let sizes = |bytes| Inputs::of([peer(0, "comm_dst", 100), peer(1, "comm_src", bytes)]).import();
    assert_eq!(sums(&sizes(100).unwrap().0), BTreeMap::from([((0, 1), (1, 100))]));
    let differ = sizes(99).unwrap_err();
    assert!(
        differ.contains("rank 0 sends 0 messages of 99 B with tag 0 to rank 1, which receives 1 of them"),
        "{differ}"
    );
    let large = Inputs::of(vec![trace(&[collective(2, &[], 0, 1 << 40)]); 2]).import().unwrap_err();
    assert!(large.contains("there is a message of") && large.contains("preferred-dataset-splits"), "{large}");
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let refused = |files: &[(&str, &[u8])]| {
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        Inputs { files, ..Inputs::default() }.import().unwrap_err()
    };
    let job = trace(&[collective(0, &[], 0, 4_096)]);
    for (files, error) in [
        (vec![("other.0.et", &job[..])], "job: there is no trace PREFIX.0.et or PREFIX.0.json; name the traces"),
        (
            vec![("job.0.et", &job[..]), ("job.2.et", &job[..])],
            "job: the trace of rank 1 is missing, and job.2.et is there",
        ),
        (vec![("job.0.et", &job[..]), ("job.0.json", &job[..])], "job: there are two traces of rank 0, one of them"),
        (vec![("job.0.et", &job[..job.len() - 1])], "job.0.et: this is no Chakra trace, from byte 8 on: "),
        (vec![("job.0.et", b"")], "job.0.et: the trace is empty"),
        (vec![("job.0.et", b"hello")], "job.0.et: this is no Chakra trace, from byte"),
        (vec![("job.0.et", &[0x1f, 0x8b, 8][..])], "job.0.et: this is no complete gzip file"),
        (vec![("job.0.json", b"hello")], "job.0.json: this is no JSON: it begins with no brace"),
        (vec![("job.0.json", b"{}")], "job.0.json: the list workload_graph is missing"),
        (vec![("job.0.json", b"{\"workload_graph\": [{}]}")], "job.0.json: workload_graph[0] has no number Id"),
        (
            vec![("job.0.json", b"{\"workload_graph\": [{\"Id\": 1, \"NodeType\": 4, \"runtime\": -5}]}")],
            "job.0.json: runtime of workload_graph[0] is no number from 0",
        ),
        (
            vec![("job.0.json", b"{\"workload_graph\": [{\"Id\": 1, \"NodeType\": 4, \"data_deps\": 0}]}")],
            "job.0.json: data_deps of workload_graph[0] is no list of ids",
        ),
    ] {
        let found = refused(&files);
        assert!(found.starts_with(error), "{found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_trace_panics(cut in 0..200usize, at in 0..200usize, byte in any::<u8>(), comm_type in 0..9i64, bytes in 0..9_000i64) {
        let mut file = trace(&[node(1, 4, &[], &[], 7, &[]), collective(2, &[1], comm_type, bytes), collective(3, &[2], 0, 40)]);
        let _ = Inputs::of([file.clone(), file.clone(), file.clone()]).import();
        let place = at % file.len();
        file[place] = byte;
        file.truncate(file.len() - cut % file.len() / 8);
        let _ = Inputs::of([file.clone(), file]).import();
    }

    #[test]
    fn no_configuration_panics(text in "[{\\[]?(\"(logical-dims|endpoint-delay|all-reduce-implementation|1)\": ?[\\[\"0-9a-z\\]]{0,9},?){0,3}[}\\]]?") {
        let text: &'static str = text.leak();
        let job = || trace(&[collective(0, &[], 0, 4_096)]);
        for place in 0..3 {
            let of = |number| (number == place).then_some(text);
            let inputs = Inputs { system: of(0), network: of(1), groups: of(2), ..Inputs::of([job(), job()]) };
            let _ = inputs.import();
        }
    }
}
