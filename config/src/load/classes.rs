//! `[classes]` and `[pfc]`.

use weir_arbitration::{ARBITERS, ArbiterChoice};
use weir_reader::{Doc, Problem, Table};
use weir_units::{Bytes, Class, ClassSet, Span};

use super::kinds::chosen_kind;
use crate::classes::Preset;
use crate::keys::{classes as keys, pfc, port as port_keys, queues as queue_keys};
use crate::{ClassConfig, ClassMap, EcnConfig, PfcConfig, QueueConfig, SchedulerKind, SwitchConfig, Trust};

/// DSH's quantum; a longer frame raises it so that each visit of the scheduler serves one.
const QUANTUM_LEAST: u64 = 1_600;

/// Default reaction in real time: polling and device queues on a machine that is not overloaded.
const REACTION_DEFAULT: Span = Span::from_micros(50);

/// Reads both tables. `mtu` sets the default quantum; the time dilation scales the default reaction to the switch's clock.
pub(super) fn read(root: &Table<'_>, mtu: u64, time_dilation: u32) -> (ClassConfig, PfcConfig) {
    let table = root.table("classes", "classes");
    let preset = table.get(&keys::PRESET);
    let mut dscp = [preset.other; 64];
    for &(point, class) in preset.dscp {
        dscp[point] = class;
    }
    let mut map = ClassMap {
        trust: table.get(&keys::TRUST),
        dscp,
        pcp: ClassMap::IDENTITY,
        group: ClassMap::IDENTITY,
        queue: ClassMap::IDENTITY,
    };
    let tables = ["classes.dscp", "classes.pcp", "classes.tc_to_pg", "classes.tc_to_queue"];
    override_maps(&table, tables, &mut map);
    let scheduler = table.get(&keys::SCHEDULER);
    let classes = ClassConfig {
        lossless: lossless(&table).unwrap_or(preset.lossless),
        map,
        scheduler,
        queues: queues(&table, preset, mtu, scheduler),
    };
    let table = root.table("pfc", "pfc");
    let pfc = PfcConfig {
        quanta: table.get(&pfc::QUANTA),
        refresh_percent: table.get(&pfc::REFRESH_PERCENT),
        reaction: table.given(&pfc::REACTION).unwrap_or(REACTION_DEFAULT.divided_by(u64::from(time_dilation))),
        obeys_for_lossy: table.get(&pfc::OBEY),
    };
    (classes, pfc)
}

/// Reads a port's own map: its keys over the switch's map. `None` if it has no such key.
pub(super) fn port_map(port: &Table<'_>, switch: &ClassMap) -> Option<Box<ClassMap>> {
    if port_keys::CLASS_MAP.iter().all(|key| !port.has(key)) {
        return None;
    }
    let mut map = Box::new(switch.clone());
    map.trust = port.given(&port_keys::TRUST).unwrap_or(switch.trust);
    override_maps(port, ["ports.dscp", "ports.pcp", "ports.tc_to_pg", "ports.tc_to_queue"], &mut map);
    for (key, field) in [("dscp", Trust::Dscp), ("pcp", Trust::Pcp)] {
        if port.has(key) && map.trust != field && port.doc().sound(&["classes.trust", &port.key_path("trust")]) {
            let help = format!("write trust = \"{key}\" in the port, or take `{key}` out");
            port.refuse(
                key,
                format!("`{key}` has no effect: the port's frames have their classes by another field"),
                help,
            );
        }
    }
    Some(map)
}

fn lossless(table: &Table<'_>) -> Option<ClassSet> {
    let classes = table.integers(keys::LOSSLESS.name, 0..=7)?;
    let mut set = ClassSet::EMPTY;
    for (index, class) in classes.iter().enumerate() {
        if set.contains(Class::new(*class as u8)) {
            let first = classes.iter().position(|other| other == class).unwrap_or(index);
            let problem = Problem::new(format!("class {class} is given twice in `lossless`"), "name each class once")
                .with_label(table.key_path(&format!("lossless[{index}]")), "again")
                .with_label(table.key_path(&format!("lossless[{first}]")), "first here");
            table.doc().note(problem);
        }
        set.insert(Class::new(*class as u8));
    }
    Some(set)
}

/// Adds the tables of `[classes]` or of a port to a map.
fn override_maps(table: &Table<'_>, [by_dscp, by_pcp, groups, queues]: [&'static str; 4], map: &mut ClassMap) {
    override_map(&table.table("dscp", by_dscp), "DSCP", "class", &mut map.dscp);
    override_map(&table.table("pcp", by_pcp), "PCP", "class", &mut map.pcp);
    override_map(&table.table(keys::TC_TO_PG.name, groups), "class", "priority group", &mut map.group);
    override_map(&table.table(keys::TC_TO_QUEUE.name, queues), "class", "queue", &mut map.queue);
}

/// Checks that frames which are lossless in their priority group are so in their egress queue, and the other way round.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    let lossless = &config.classes.lossless;
    let mut reported: Vec<(String, Class)> = Vec::new();
    for port in (0..config.ports.len()).filter(|port| config.ports[*port].clone_of().is_none()) {
        let own = format!("ports[{port}]");
        let places = [&own, "classes"]
            .map(|table| [keys::TC_TO_QUEUE.name, keys::TC_TO_PG.name].map(|key| format!("{table}.{key}")));
        let Some(place) = places.into_iter().flatten().find(|key| doc.has(key)) else { continue };
        let is_sound = |table: &str| port_keys::CLASS_MAP.iter().all(|key| doc.sound(&[&format!("{table}.{key}")]));
        if !is_sound(&own) || !is_sound("classes") || !doc.sound(&["classes.lossless", "classes.preset"]) {
            continue;
        }
        let map = config.class_map(port);
        for class in config.classes_from(port).iter() {
            let [group, queue] = [map.group, map.queue].map(|numbers| numbers[class.index()]);
            let [keeps, is_paused] = [group, queue].map(|number| lossless.contains(Class::new(number)));
            let at = (place.clone(), class);
            if keeps == is_paused || reported.contains(&at) {
                continue;
            }
            let (number, other) = (class.number(), if keeps { group } else { queue });
            let message = match keeps {
                true => format!(
                    "class {number} has the lossless priority group {group} and the lossy queue {queue}, which a peer \
                     can't pause"
                ),
                false => format!(
                    "class {number} has the lossy priority group {group}, where frames are dropped, and the lossless queue \
                     {queue}"
                ),
            };
            let key = if keeps { keys::TC_TO_QUEUE.name } else { keys::TC_TO_PG.name };
            let help = format!("write {key} = {{ {number} = {other} }}, or both numbers into `lossless`, or neither");
            doc.note(Problem::new(message, help).with_label(at.0.clone(), "").with_label("classes.lossless", "these"));
            reported.push(at);
        }
    }
}

/// Adds the numbers of a table `26 = 3`, `"24-31" = 3` to a map. A code point in two keys is an error, since their precedence would be
/// unclear.
fn override_map(table: &Table<'_>, field: &str, target: &str, map: &mut [u8]) {
    let last = map.len() - 1;
    let mut given_by: Vec<Option<&str>> = vec![None; map.len()];
    for key in table.entries() {
        let Some((from, to)) = code_points(key).filter(|(from, to)| from <= to && *to <= last) else {
            let message = format!("\"{key}\" is no {field}, nor a range of them");
            let help = format!("write a number from 0 to {last}, or a range in quotes: \"2-5\" = 3");
            table.doc().refuse(Problem::new(message, help).with_key_label(table.key_path(key), ""));
            continue;
        };
        let Some(class) = table.integer(key, 0..=7) else { continue };
        let range = from..=to;
        if let Some((point, other)) = range.clone().find_map(|point| given_by[point].map(|other| (point, other))) {
            let message = format!("`{key}` and `{other}` both give {field} {point} a {target}");
            let problem = Problem::new(message, format!("leave {field} {point} in one of them"))
                .with_key_label(table.key_path(key), "")
                .with_key_label(table.key_path(other), "and here");
            table.doc().note(problem);
        }
        for point in range {
            given_by[point] = Some(key);
            map[point] = class as u8;
        }
    }
}

/// Parses `26` or `24-31`.
fn code_points(key: &str) -> Option<(usize, usize)> {
    let number = |text: &str| {
        let text = text.trim();
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match key.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(key).map(|point| (point, point)),
    }
}

fn queues(classes: &Table<'_>, preset: Preset, mtu: u64, scheduler: SchedulerKind) -> [QueueConfig; 8] {
    let frame = mtu + SwitchConfig::FRAME_OVERHEAD_BYTES;
    let quantum = match scheduler {
        SchedulerKind::Dwrr => frame.max(QUANTUM_LEAST),
        SchedulerKind::PacketRr => 1,
    };
    let mut queues: [QueueConfig; 8] = std::array::from_fn(|class| QueueConfig {
        strict: preset.strict.contains(Class::new(class as u8)),
        quantum: quantum as u32,
        rate: None,
        ecn: None,
        arbitration: ArbiterChoice::default(),
    });
    let mut given: [Option<String>; 8] = Default::default();
    for table in classes.tables("queues", "classes.queues") {
        let class = table.given(&queue_keys::CLASS).map(usize::from);
        if !table.has("class") && table.doc().sound(&[&table.key_path("class")]) {
            let problem = Problem::new("a queue needs `class`", "write class = 3").with_label(table.path(), "");
            table.doc().note(problem);
        }
        if let Some(class) = class
            && let Some(first) = given[class].replace(table.key_path("class"))
        {
            let message = format!("class {class} has two [[classes.queues]]");
            let problem = Problem::new(message, "put all keys of a class into one of them");
            table.doc().note(problem.with_label(table.key_path("class"), "again").with_label(first, "first here"));
        }
        // Invalid values are reported even if the class is unknown.
        let mut spare = queues[0].clone();
        let queue = class.map_or(&mut spare, |class| &mut queues[class]);
        read_queue(&table, queue, frame, quantum);
        if scheduler == SchedulerKind::PacketRr && table.has("quantum") {
            let message = "`quantum` is bytes, but `scheduler` \"packet-rr\" counts frames";
            let problem = Problem::new(message, "write `weight`, the frames served in each round, in its place");
            table.doc().note(
                problem.with_label(table.key_path("quantum"), "").with_label("classes.scheduler", "the scheduler"),
            );
        }
    }
    queues
}

fn read_queue(table: &Table<'_>, queue: &mut QueueConfig, frame: u64, default_quantum: u64) {
    let doc = table.doc();
    let strict = table.given(&queue_keys::STRICT);
    let quantum = table.given(&queue_keys::QUANTUM).map(Bytes::get);
    let weight = table.given(&queue_keys::WEIGHT).map(u64::from);
    for share in ["quantum", "weight"] {
        if strict == Some(true) && table.has(share) {
            let message = format!("`strict` and `{share}` exclude each other: a strict queue takes all it can send");
            let problem = Problem::new(message, format!("take `{share}` out, or write strict = false"));
            doc.note(problem.with_label(table.key_path(share), "").with_label(table.key_path("strict"), "strict here"));
        }
    }
    if table.has("quantum") && table.has("weight") {
        let message = "`quantum` and `weight` exclude each other: both set the queue's share";
        let problem = Problem::new(message, format!("keep one; weight 1 is a quantum of {default_quantum}"));
        doc.note(problem.with_label(table.key_path("weight"), "").with_label(table.key_path("quantum"), "and here"));
    }
    if let Some(quantum) = quantum
        && quantum < frame
        && doc.sound(&["switch.mtu"])
    {
        let mtu = frame - SwitchConfig::FRAME_OVERHEAD_BYTES;
        let message = format!(
            "`quantum` is {quantum} B, less than a frame of `mtu` {mtu} + {} = {frame} B, \
             so that some visits would serve none",
            SwitchConfig::FRAME_OVERHEAD_BYTES
        );
        let problem = Problem::new(message, format!("write quantum = {frame} or more, or a smaller mtu in [switch]"));
        doc.note(problem.with_label(table.key_path("quantum"), "").with_label("switch.mtu", "the MTU"));
    }
    // Only a queue that is not strict has a share of the scheduler.
    let shares = quantum.is_some() || weight.is_some();
    queue.strict = strict.unwrap_or(queue.strict && !shares);
    if let Some(quantum) = quantum.or(weight.map(|weight| weight * default_quantum)) {
        queue.quantum = quantum as u32;
    }
    let usual = ["arrival", "the queue serves frames in order of arrival"];
    if let Some(arbitration) =
        chosen_kind(table, queue_keys::ARBITRATION.name, ARBITERS.all(), usual, |kind| kind.read(table))
    {
        queue.arbitration = arbitration;
    }
    queue.rate = table.given(&queue_keys::RATE);
    if table.has("ecn") {
        queue.ecn = ecn(&table.table("ecn", "classes.queues.ecn"));
    }
}

fn ecn(table: &Table<'_>) -> Option<EcnConfig> {
    let doc = table.doc();
    let (kmin, kmax) = (table.given(&queue_keys::KMIN), table.given(&queue_keys::KMAX));
    let pmax = table.get(&queue_keys::PMAX);
    for key in ["kmin", "kmax"] {
        if !table.has(key) && doc.sound(&[&table.key_path(key)]) {
            let help = "write ecn = { kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }";
            doc.note(Problem::new(format!("`ecn` needs `{key}`"), help).with_label(table.path(), ""));
        }
    }
    let (kmin, kmax) = kmin.zip(kmax)?;
    if kmin > kmax {
        let message = format!("`kmin` {kmin} is above `kmax` {kmax}");
        let problem = Problem::new(message, "write kmin <= kmax; with kmin = kmax every frame above is marked");
        doc.note(
            problem.with_label(table.key_path("kmin"), "").with_label(table.key_path("kmax"), "the upper threshold"),
        );
    }
    let at_rate = table.given(&queue_keys::AT_RATE);
    let on_arrival = table.get(&queue_keys::MARK_ON);
    Some(EcnConfig { kmin, kmax, pmax_ppm: ((pmax * 1e6).round() as u32).max(1), at_rate, on_arrival })
}
