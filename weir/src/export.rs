//! `weir export`: a switch's counters, for tools that know SONiC.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use weir_control::protocol::{Reply, Request, ShowRequest, ShowView};
use weir_control::state::{ByClass, State, ViewReply};
use weir_experiments::Failure;
use weir_experiments::files::json_text;

use crate::control::{Target, failure};

/// Commands of `weir export`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Counters and watermarks under SAI's names, in the shape of SONiC's COUNTERS_DB, as JSON.
    ///
    /// Export a running switch, or a run's summary (weir run --json FILE).
    SonicCounters(SonicCountersArguments),
}

/// Arguments of `weir export sonic-counters`.
#[derive(clap::Args)]
pub(crate) struct SonicCountersArguments {
    #[command(flatten)]
    target: Target,
    /// A run's summary, in place of a running switch.
    #[arg(value_name = "SUMMARY.json", conflicts_with = "socket")]
    summary: Option<PathBuf>,
}

/// Prints the counters.
pub(crate) fn sonic_counters(arguments: &SonicCountersArguments) -> Result<(), Failure> {
    let database = match &arguments.summary {
        Some(path) => {
            let wrong = |what: String| Failure::Argument(format!("{}: {what}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            let summary = serde_json::from_str(&text).map_err(|error| wrong(format!("this is no JSON: {error}")))?;
            of_summary(&summary, arguments.target.switch.as_deref()).map_err(wrong)?
        }
        None => of_running(&arguments.target)?,
    };
    println!("{}", json_text(&database.json()).trim_end());
    Ok(())
}

/// SAI objects with counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ObjectType {
    Port,
    Queue,
    PriorityGroup,
    Pool,
}

/// COUNTERS_DB: for each object by its name, fields and watermarks.
#[derive(Debug, Default)]
pub(crate) struct Database {
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    kind: ObjectType,
    name: String,
    counters: BTreeMap<String, String>,
    /// Watermarks since they were cleared, and since the start.
    watermarks: [BTreeMap<String, String>; 2],
}

impl ObjectType {
    /// Name of the map of names to objects.
    fn map(self) -> &'static str {
        match self {
            ObjectType::Port => "COUNTERS_PORT_NAME_MAP",
            ObjectType::Queue => "COUNTERS_QUEUE_NAME_MAP",
            ObjectType::PriorityGroup => "COUNTERS_PG_NAME_MAP",
            ObjectType::Pool => "COUNTERS_BUFFER_POOL_NAME_MAP",
        }
    }

    /// SAI's number of the object's type, which begins an object's number.
    fn number(self) -> u64 {
        match self {
            ObjectType::Port => 0x01,
            ObjectType::Queue => 0x15,
            ObjectType::PriorityGroup => 0x1a,
            ObjectType::Pool => 0x18,
        }
    }
}

impl Database {
    fn object(&mut self, kind: ObjectType, name: impl Into<String>) -> &mut Object {
        let name = name.into();
        let found = self.objects.iter().position(|object| object.kind == kind && object.name == name);
        let index = found.unwrap_or_else(|| {
            self.objects.push(Object { kind, name, counters: BTreeMap::new(), watermarks: Default::default() });
            self.objects.len() - 1
        });
        &mut self.objects[index]
    }

    /// Keys as in COUNTERS_DB. Objects are numbered by kind, in their order.
    pub(crate) fn json(&self) -> Value {
        let mut database = serde_json::Map::new();
        let mut numbers: BTreeMap<ObjectType, u64> = BTreeMap::new();
        for object in &self.objects {
            let number = numbers.entry(object.kind).or_default();
            *number += 1;
            let oid = format!("oid:{:#x}", object.kind.number() << 48 | *number);
            let names = database.entry(object.kind.map()).or_insert_with(|| json!({}));
            names[&object.name] = json!(oid);
            database.insert(format!("COUNTERS:{oid}"), json!(object.counters));
            for (table, watermarks) in ["USER_WATERMARKS", "PERSISTENT_WATERMARKS"].iter().zip(&object.watermarks) {
                if !watermarks.is_empty() {
                    database.insert(format!("{table}:{oid}"), json!(watermarks));
                }
            }
        }
        Value::Object(database)
    }
}

impl Object {
    fn count(&mut self, field: impl Into<String>, value: u64) {
        self.counters.insert(field.into(), value.to_string());
    }

    /// Adds a watermark since the last clear and since the start. The counter of the same name is since the last clear.
    fn mark(&mut self, field: &str, values: [u64; 2]) {
        self.count(field, values[0]);
        for (watermarks, value) in self.watermarks.iter_mut().zip(values) {
            watermarks.insert(field.to_owned(), value.to_string());
        }
    }
}

/// Returns the bytes of frames with FCS, which SAI's octets include.
fn octets(bytes: u64, frames: u64) -> u64 {
    bytes + 4 * frames
}

/// Reads a running switch.
pub(crate) fn of_running(target: &Target) -> Result<Database, Failure> {
    let mut client = target.connect()?;
    let mut database = Database::default();
    let views = [
        ShowView::Interfaces,
        ShowView::PfcCounters,
        ShowView::Queues,
        ShowView::PriorityGroups,
        ShowView::BufferPools,
        ShowView::PfcWatchdog,
    ];
    for what in views {
        let request = Request::Show(ShowRequest { what, switch: target.switch.clone(), ports: Vec::new() });
        let Reply::Switches(shown) = client.ask(&request).map_err(failure)? else {
            return Err(failure(client.unexpected_reply()));
        };
        let [ViewReply { state, .. }] = &shown[..] else {
            let names: Vec<&str> = shown.iter().map(|shown| shown.switch.as_str()).collect();
            return Err(Failure::Argument(format!(
                "several switches run: choose one with --switch: {}",
                names.join(", ")
            )));
        };
        database.add(state);
    }
    Ok(database)
}

impl Database {
    fn add(&mut self, state: &State) {
        match state {
            State::Interfaces(rows) => {
                for row in rows {
                    let object = self.object(ObjectType::Port, &row.port);
                    for (direction, traffic) in [("IN", &row.rx), ("OUT", &row.tx)] {
                        object.count(
                            format!("SAI_PORT_STAT_IF_{direction}_OCTETS"),
                            octets(traffic.bytes, traffic.frames),
                        );
                        object.count(format!("SAI_PORT_STAT_IF_{direction}_UCAST_PKTS"), traffic.frames);
                        object.count(format!("SAI_PORT_STAT_IF_{direction}_DISCARDS"), traffic.dropped);
                        if let Some(lost) = traffic.lost_at_device {
                            object.count(format!("SAI_PORT_STAT_IF_{direction}_ERRORS"), lost);
                        }
                    }
                }
            }
            State::PfcCounters(rows) => {
                for row in rows {
                    let object = self.object(ObjectType::Port, &row.port);
                    for class in 0..row.rx.len() {
                        for (direction, frames, us) in
                            [("RX", &row.rx, &row.rx_paused_us), ("TX", &row.tx, &row.tx_paused_us)]
                        {
                            object.count(format!("SAI_PORT_STAT_PFC_{class}_{direction}_PKTS"), frames[class]);
                            object.count(format!("SAI_PORT_STAT_PFC_{class}_{direction}_PAUSE_DURATION_US"), us[class]);
                        }
                    }
                }
            }
            State::Queues(rows) => {
                for row in rows {
                    self.object(ObjectType::Port, &row.port)
                        .count("SAI_PORT_STAT_ECN_MARKED_PACKETS", row.ce_marked.iter().sum());
                    for class in 0..row.frames.len() {
                        let object = self.object(ObjectType::Queue, format!("{}:{class}", row.port));
                        object.count("SAI_QUEUE_STAT_PACKETS", row.frames[class]);
                        object.count("SAI_QUEUE_STAT_BYTES", octets(row.bytes[class], row.frames[class]));
                        object.count("SAI_QUEUE_STAT_DROPPED_PACKETS", row.dropped[class]);
                        object.count("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", row.ce_marked[class]);
                        object.count("SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES", row.held_bytes[class]);
                        let marks = [row.watermark_bytes[class], row.persistent_watermark_bytes[class]];
                        object.mark("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", marks);
                    }
                }
            }
            State::PriorityGroups(rows) => {
                for row in rows {
                    for class in 0..row.frames.len() {
                        let of = |numbers: &ByClass| numbers[class];
                        let object = self.object(ObjectType::PriorityGroup, format!("{}:{class}", row.port));
                        let held = of(&row.private_bytes) + of(&row.shared_bytes) + of(&row.headroom_bytes);
                        for (field, value) in [
                            ("PACKETS", of(&row.frames)),
                            ("BYTES", octets(of(&row.bytes), of(&row.frames))),
                            ("CURR_OCCUPANCY_BYTES", held),
                            ("SHARED_CURR_OCCUPANCY_BYTES", of(&row.shared_bytes)),
                            ("XOFF_ROOM_CURR_OCCUPANCY_BYTES", of(&row.headroom_bytes)),
                            ("DROPPED_PACKETS", of(&row.dropped)),
                        ] {
                            object.count(format!("SAI_INGRESS_PRIORITY_GROUP_STAT_{field}"), value);
                        }
                        let shared = [of(&row.shared_watermark_bytes), of(&row.shared_persistent_watermark_bytes)];
                        let headroom =
                            [of(&row.headroom_watermark_bytes), of(&row.headroom_persistent_watermark_bytes)];
                        object.mark("SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES", shared);
                        object.mark("SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES", headroom);
                    }
                }
            }
            State::BufferPools(rows) => {
                for row in rows {
                    let marks = [row.watermark_bytes, row.persistent_watermark_bytes];
                    self.pool(&row.pool, row.used_bytes, marks);
                }
            }
            State::PfcWatchdog(rows) => {
                for row in rows {
                    let object = self.object(ObjectType::Queue, format!("{}:{}", row.port, row.queue));
                    let status = if row.in_storm { "stormed" } else { "operational" };
                    object.counters.insert("PFC_WD_STATUS".to_owned(), status.to_owned());
                    for (field, value) in [
                        ("DEADLOCK_DETECTED", row.detected),
                        ("DEADLOCK_RESTORED", row.restored),
                        ("TX_PACKETS", row.all.tx),
                        ("TX_DROPPED_PACKETS", row.all.tx_dropped),
                        ("RX_PACKETS", row.all.rx),
                        ("RX_DROPPED_PACKETS", row.all.rx_dropped),
                        ("TX_PACKETS_LAST", row.last.tx),
                        ("TX_DROPPED_PACKETS_LAST", row.last.tx_dropped),
                        ("RX_PACKETS_LAST", row.last.rx),
                        ("RX_DROPPED_PACKETS_LAST", row.last.rx_dropped),
                    ] {
                        object.count(format!("PFC_WD_QUEUE_STATS_{field}"), value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a pool under SONiC's name.
    fn pool(&mut self, name: &str, used: u64, marks: [u64; 2]) {
        let (pool, part) = match name {
            "headroom" => ("ingress_lossless_pool", "XOFF_ROOM_"),
            "egress_lossy" => ("egress_lossy_pool", ""),
            _ => ("ingress_lossless_pool", ""),
        };
        let object = self.object(ObjectType::Pool, pool);
        object.count(format!("SAI_BUFFER_POOL_STAT_{part}CURR_OCCUPANCY_BYTES"), used);
        object.mark(&format!("SAI_BUFFER_POOL_STAT_{part}WATERMARK_BYTES"), marks);
    }
}

/// The counters of a summary as `weir run --json` writes it. Watermarks are the run's.
fn of_summary(summary: &Value, wanted: Option<&str>) -> Result<Database, String> {
    let help = "name the file that `weir run --json FILE` wrote";
    let switches = summary["switches"].as_array().ok_or_else(|| format!("this is no summary of a run; {help}"))?;
    let name = |switch: &Value| switch["name"].as_str().unwrap_or_default().to_owned();
    let chosen: Vec<&Value> =
        switches.iter().filter(|switch| wanted.is_none_or(|wanted| name(switch) == wanted)).collect();
    let [switch] = chosen[..] else {
        let names: Vec<String> = switches.iter().map(name).collect();
        return Err(format!("choose one switch with --switch: {}", names.join(", ")));
    };
    let mut database = Database::default();
    for port in switch["ports"].as_array().into_iter().flatten() {
        let port_name = port["name"].as_str().unwrap_or_default().to_owned();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for class in port["classes"].as_array().into_iter().flatten() {
            let number = |field: &str| class[field].as_u64().unwrap_or(0);
            let n = number("class");
            let mut add =
                |field: String, value: u64| *sums.entry(format!("SAI_PORT_STAT_{field}")).or_default() += value;
            let drops: BTreeMap<&str, u64> = class["drops"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(reason, frames)| (reason.as_str(), frames.as_u64().unwrap_or(0)))
                .collect();
            let dropped: u64 = drops.values().sum();
            for (direction, of) in [("IN", "rx"), ("OUT", "tx")] {
                let frames = number(&format!("{of}_frames"));
                add(format!("IF_{direction}_OCTETS"), octets(number(&format!("{of}_bytes")), frames));
                add(format!("IF_{direction}_UCAST_PKTS"), frames);
            }
            add("IF_IN_DISCARDS".to_owned(), dropped);
            add("ECN_MARKED_PACKETS".to_owned(), number("ce_marked"));
            add(format!("PFC_{n}_RX_PKTS"), number("xoff_rx"));
            add(format!("PFC_{n}_TX_PKTS"), number("xoff_tx") + number("xon_tx"));
            add(format!("PFC_{n}_RX_PAUSE_DURATION_US"), number("paused_rx_us"));
            add(format!("PFC_{n}_TX_PAUSE_DURATION_US"), number("paused_tx_us"));

            let queue = database.object(ObjectType::Queue, format!("{port_name}:{n}"));
            queue.count("SAI_QUEUE_STAT_PACKETS", number("tx_frames"));
            queue.count("SAI_QUEUE_STAT_BYTES", octets(number("tx_bytes"), number("tx_frames")));
            queue.count("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", number("ce_marked"));
            queue.count("SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES", number("egress_bytes"));
            queue.mark("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", [number("egress_max_bytes"); 2]);
            for (field, value) in class["pfc_watchdog"].as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                queue.counters.insert(field.clone(), text);
            }
            let group = database.object(ObjectType::PriorityGroup, format!("{port_name}:{n}"));
            for (field, value) in [
                ("PACKETS", number("rx_frames")),
                ("BYTES", octets(number("rx_bytes"), number("rx_frames"))),
                ("CURR_OCCUPANCY_BYTES", number("ingress_bytes")),
                (
                    "DROPPED_PACKETS",
                    ["headroom_violation", "shared_full"].iter().filter_map(|reason| drops.get(reason)).sum(),
                ),
            ] {
                group.count(format!("SAI_INGRESS_PRIORITY_GROUP_STAT_{field}"), value);
            }
            group.mark("SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES", [number("shared_max_bytes"); 2]);
            group.mark("SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES", [number("headroom_max_bytes"); 2]);
        }
        let object = database.object(ObjectType::Port, port_name);
        sums.into_iter().for_each(|(field, value)| object.count(field, value));
    }
    let pool = &switch["pool"];
    let most = pool["used_max_bytes"].as_u64().unwrap_or(0);
    database.pool("shared", pool["used_bytes"].as_u64().unwrap_or(0), [most; 2]);
    for (name, field) in [("headroom", "headroom_pool"), ("egress_lossy", "egress_lossy_pool")] {
        if let Some(most) = switch[field]["used_max_bytes"].as_u64() {
            database.pool(name, switch[field]["used_bytes"].as_u64().unwrap_or(0), [most; 2]);
        }
    }
    Ok(database)
}
