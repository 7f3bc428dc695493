//! Topology files of htsim: fat-trees of two or three tiers.

use weir_units::{BitRate, Span};

use crate::import::fabric::{FabricShape, ImportedFabric, LinkTier};
use crate::import::text::{ErrorCollector, SourceFile, lines};
use crate::import::{ImportErrors, ImportNote, ImportReport};

/// Settings of a tier: 0 for ToRs, 1 for the switches above, 2 for the top.
#[derive(Clone, Copy, Debug, Default)]
struct Tier {
    line: usize,
    /// Gigabits a second of the links down.
    speed: Option<u64>,
    radix_down: Option<u64>,
    radix_up: Option<u64>,
    /// Nanoseconds of the links down, and of the switch.
    latency: Option<u64>,
    switch_latency: Option<u64>,
    oversubscribed: Option<u64>,
    /// Parallel links down to each switch.
    bundle: Option<u64>,
    queues: Option<u64>,
}

const KEYS: &str = "Downlink_speed_Gbps, Radix_Down, Radix_Up, Downlink_Latency_ns, Switch_Latency_ns, Oversubscribed, Bundle, Queue_Up, Queue_Down";

/// Reads a topology file.
pub(super) fn read(file: &SourceFile, report: &mut ImportReport) -> Result<ImportedFabric, ImportErrors> {
    let mut errors = ErrorCollector::new(&file.name);
    let mut header = [None; 3];
    let mut tiers = [Tier::default(); 3];
    let mut current = None;
    for line in lines(&file.text) {
        let key = line.fields[0].to_lowercase();
        let [_, text] = line.fields[..] else {
            errors.add(line.number, "a line has a key and a number", format!("write for example {} 4", line.fields[0]));
            continue;
        };
        let Some(number) = errors.integer(line.number, text, "a number", "4").map(u64::from) else { continue };
        if key == "tier" {
            match tiers.get_mut(number as usize) {
                Some(tier) if tier.line == 0 => (tier.line, current) = (line.number, Some(number as usize)),
                Some(_) => errors.add(line.number, format!("Tier {number} is there twice"), "write each tier once"),
                None => errors.add(line.number, format!("there is no tier {number}"), "write Tier 0, 1 and 2"),
            }
            continue;
        }
        let place = match (key.as_str(), current) {
            ("nodes", None) => &mut header[0],
            ("tiers", None) => &mut header[1],
            ("podsize", None) => &mut header[2],
            (key, Some(tier)) => {
                let tier = &mut tiers[tier];
                match key {
                    "downlink_speed_gbps" => &mut tier.speed,
                    "radix_down" => &mut tier.radix_down,
                    "radix_up" => &mut tier.radix_up,
                    "downlink_latency_ns" => &mut tier.latency,
                    "switch_latency_ns" => &mut tier.switch_latency,
                    "oversubscribed" => &mut tier.oversubscribed,
                    "bundle" => &mut tier.bundle,
                    "queue_up" | "queue_down" => {
                        tier.queues = Some(line.number as u64);
                        continue;
                    }
                    _ => {
                        errors.add(
                            line.number,
                            format!("a tier has no \"{}\"", line.fields[0]),
                            format!("write one of {KEYS}"),
                        );
                        continue;
                    }
                }
            }
            _ => {
                errors.add(
                    line.number,
                    format!("\"{}\" comes before the tiers", line.fields[0]),
                    "write Nodes, Tiers, Podsize, then Tier 0",
                );
                continue;
            }
        };
        if place.replace(number).is_some() {
            errors.add(line.number, format!("\"{}\" is there twice", line.fields[0]), "take one of them out");
        }
    }
    errors.result(())?;
    let fail =
        |line: Option<usize>, problem: String, help: &str| Err(ImportErrors::one(&file.name, line, problem, help));
    let [Some(nodes), Some(count @ (2 | 3)), Some(pod)] = header else {
        return fail(
            Some(1),
            "the number of nodes, tiers (2 or 3) or a pod's nodes is missing".to_owned(),
            "write Nodes 32, Tiers 2 and Podsize 32",
        );
    };
    let used = &tiers[..count as usize];
    if let Some(number) = used.iter().position(|tier| tier.line == 0) {
        return fail(None, format!("tier {number} is missing"), "write Tier, and its settings");
    }
    for (number, tier) in used.iter().enumerate() {
        let is_top = number + 1 == used.len();
        let missing = [
            (tier.speed, "Downlink_speed_Gbps"),
            (tier.radix_down, "Radix_Down"),
            (tier.latency, "Downlink_Latency_ns"),
            (if is_top { Some(1) } else { tier.radix_up }, "Radix_Up"),
        ];
        if let Some((_, key)) =
            missing.iter().find(|(value, key)| value.is_none() || *value == Some(0) && *key != "Downlink_Latency_ns")
        {
            return fail(
                Some(tier.line),
                format!("tier {number} has no {key}, or 0"),
                &format!("write {key} and a number"),
            );
        }
    }
    if let Some(tier) = tiers[0].bundle.filter(|bundle| *bundle != 1).and(Some(tiers[0])) {
        return fail(
            Some(tier.line),
            "hosts with several ports are not simulated".to_owned(),
            "write Bundle 1 for tier 0",
        );
    }
    if let Some(tier) = used.get(2).filter(|tier| tier.bundle.is_some_and(|bundle| bundle != 1)) {
        return fail(
            Some(tier.line),
            "parallel links of three tiers are not simulated".to_owned(),
            "write Bundle 1 for tier 2",
        );
    }
    let fabric = shape(nodes, pod, used).map_err(|(tier, problem)| {
        ImportErrors::one(
            &file.name,
            Some(tiers[tier].line),
            problem,
            "write radixes that agree with Nodes, Podsize and the other tiers",
        )
    })?;
    report.taken.push(ImportNote::for_file(&file.name, format!("{nodes} nodes, {count} tiers")));
    if let Some(line) = used.iter().find_map(|tier| tier.queues) {
        report.left.push(ImportNote::for_line(
            &file.name,
            line as usize,
            "Queue_Up, Queue_Down: a switch has one buffer for all ports",
        ));
    }
    let latency = |tier: usize| used.get(tier).and_then(|tier| tier.switch_latency).unwrap_or(0) * 1_000;
    if (0..3).any(|tier| latency(tier) > 0) {
        let text = "Switch_Latency_ns: half of it is in the delay of each link of the switch, and so in that of PAUSEs";
        report.approximated.push(ImportNote::for_file(&file.name, text));
    }
    let links = [0, 1, 2].map(|number| {
        let tier = used.get(number).unwrap_or(&used[used.len() - 1]);
        let below = if number == 0 { 0 } else { latency(number - 1) };
        let delay = tier.latency.unwrap_or(0) * 1_000 + (latency(number.min(used.len() - 1)) + below) / 2;
        LinkTier { rate: BitRate::gbps(tier.speed.unwrap_or(1)), delay: Span::from_picos(delay) }
    });
    Ok(ImportedFabric { shape: fabric, links, topology: None })
}

/// Returns the switches of a fat-tree. Errors name the tier.
fn shape(nodes: u64, pod: u64, tiers: &[Tier]) -> Result<FabricShape, (usize, String)> {
    let radix = |tier: usize| tiers[tier].radix_down.unwrap_or(1);
    let up = |tier: usize| tiers[tier].radix_up.unwrap_or(1);
    let divide = |tier: usize, all: u64, by: u64, what: &str| match all.checked_rem(by) {
        Some(0) => Ok(all / by),
        _ => Err((tier, format!("{all} {what} are no multiple of {by}"))),
    };
    let pods = divide(0, nodes, pod, "nodes")?;
    let tors = divide(0, pod, radix(0), "nodes of a pod")?;
    let bundle = tiers[1].bundle.unwrap_or(1);
    let spines_of_pod = divide(1, tors * up(0), radix(1), "uplinks of a pod's ToRs")?;
    if spines_of_pod * bundle != up(0) {
        let problem = format!("{spines_of_pod} switches with Bundle {bundle} are no Radix_Up {} of tier 0", up(0));
        return Err((1, problem));
    }
    for (number, below) in tiers[..tiers.len() - 1].iter().enumerate() {
        let [down, above] = [below.speed, tiers[number + 1].speed].map(|speed| speed.unwrap_or(1));
        let is = down * radix(number) == above * up(number) * below.oversubscribed.unwrap_or(1);
        if !is {
            let [given, down, up] = [below.oversubscribed.unwrap_or(1), down * radix(number), above * up(number)];
            let problem = format!("Oversubscribed {given} is not that of the speeds and radixes, {down} / {up}");
            return Err((number, problem));
        }
    }
    let [pods, tors, leaves, hosts] = [pods, tors, spines_of_pod, radix(0)].map(|count| count as usize);
    if tiers.len() == 2 {
        if pods > 1 {
            return Err((1, format!("{pods} pods of two tiers are not linked")));
        }
        return Ok(FabricShape::LeafSpine { leaves: tors, spines: leaves, hosts, parallel: bundle as usize });
    }
    let spines = divide(2, (pods * leaves) as u64 * up(1), radix(2), "uplinks of tier 1")?;
    if divide(2, spines, leaves as u64, "switches of tier 2")? != up(1) {
        return Err((2, format!("{spines} switches are no Radix_Up {} of tier 1", up(1))));
    }
    Ok(FabricShape::Clos { pods, tors, leaves, spines: spines as usize, hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(text: &str) -> Result<ImportedFabric, String> {
        let file = SourceFile { name: "f.topo".to_owned(), text: text.to_owned() };
        read(&file, &mut ImportReport::default()).map_err(|errors| errors.to_string())
    }

    fn tiers(header: &str, tiers: &[&str]) -> String {
        let tiers = tiers.iter().enumerate();
        let tiers =
            tiers.map(|(n, keys)| format!("Tier {n}\nDownlink_Latency_ns 1000\n{}\n", keys.replace(", ", "\n")));
        format!("# one\n{header}\n{}", tiers.collect::<String>()).replace("; ", "\n")
    }

    const TINY: [&str; 2] = [
        "Downlink_speed_Gbps 100, Radix_Down 8, Radix_Up 2, Oversubscribed 4",
        "Downlink_speed_Gbps 100, Radix_Down 4, Switch_Latency_ns 300",
    ];

    #[test]
    fn two_tiers_are_leaves_and_spines() {
        let tiny = fabric(&tiers("Nodes 32; Tiers 2; Podsize 32", &TINY)).unwrap();
        assert_eq!(tiny.shape, FabricShape::LeafSpine { leaves: 4, spines: 2, hosts: 8, parallel: 1 });
        let delays = tiny.links.map(|tier| tier.delay.as_picos());
        assert_eq!(delays, [1_000_000, 1_150_000, 1_300_000], "half of the spine's latency is in each link");
        let faster =
            ["downlink_speed_gbps 100, Radix_Down 4, RADIX_UP 2", "Downlink_speed_Gbps 200, Radix_Down 8, Bundle 2"];
        let faster = fabric(&tiers("Nodes 16; Tiers 2; Podsize 16", &faster)).unwrap();
        assert_eq!(faster.shape, FabricShape::LeafSpine { leaves: 4, spines: 1, hosts: 4, parallel: 2 });
        assert_eq!(faster.links[..2].iter().map(|tier| tier.rate).collect::<Vec<_>>(), [100, 200].map(BitRate::gbps));
    }

    #[test]
    fn three_tiers_are_pods() {
        let oversubscribed = [
            "Downlink_speed_Gbps 100, Radix_Down 4, Radix_Up 4, Oversubscribed 1, Queue_Up 100",
            "Downlink_speed_Gbps 100, Radix_Down 4, Radix_Up 1, Oversubscribed 4, Bundle 1",
            "Downlink_speed_Gbps 100, Radix_Down 8, Bundle 1",
        ];
        let fabric = fabric(&tiers("Nodes 128; Tiers 3; Podsize 16", &oversubscribed)).unwrap();
        assert_eq!(fabric.shape, FabricShape::Clos { pods: 8, tors: 4, leaves: 4, spines: 4, hosts: 4 });
    }

    #[test]
    fn errors_name_the_tier() {
        let of = |header: &str, changes: &[(&str, &str)]| {
            let mut text = tiers(header, &TINY);
            changes.iter().for_each(|(from, to)| text = text.replace(from, to));
            fabric(&text).unwrap_err()
        };
        let help = "; write radixes that agree with Nodes, Podsize and the other tiers";
        for (changes, error) in [
            (
                &[("Oversubscribed 4", "Oversubscribed 2")][..],
                "f.topo:5: Oversubscribed 2 is not that of the speeds and radixes, 800 / 200",
            ),
            (&[("Radix_Down 8", "Radix_Down 7")], "f.topo:5: 32 nodes of a pod are no multiple of 7"),
            (&[("Radix_Down 4", "Radix_Down 2")], "f.topo:11: 4 switches with Bundle 1 are no Radix_Up 2 of tier 0"),
        ] {
            assert_eq!(of("Nodes 32; Tiers 2; Podsize 32", changes), format!("{error}{help}"));
        }
        assert!(of("Nodes 64; Tiers 2; Podsize 32", &[]).starts_with("f.topo:11: 2 pods of two tiers are not linked"));
        for (changes, error) in [
            (&[("Radix_Up 2", "Ports 2")][..], "f.topo:9: a tier has no \"Ports\"; write one of Downlink_speed_Gbps"),
            (&[("Radix_Up 2\n", "")], "f.topo:5: tier 0 has no Radix_Up, or 0; write Radix_Up and a number"),
            (&[("Radix_Up 2", "Radix_Up two")], "f.topo:9: \"two\" is not a number"),
            (&[("Radix_Up 2", "Radix_Down 2")], "f.topo:9: \"Radix_Down\" is there twice"),
            (&[("Radix_Up 2", "Radix_Up 2\nBundle 2")], "f.topo:5: hosts with several ports are not simulated"),
            (&[("Tier 1", "Tier 0")], "f.topo:11: Tier 0 is there twice; write each tier once"),
            (&[("Tiers 2", "Tiers 4")], "f.topo:1: the number of nodes, tiers (2 or 3) or a pod's nodes is missing"),
        ] {
            let found = of("Nodes 32; Tiers 2; Podsize 32", changes);
            assert!(found.starts_with(error), "{found}");
        }
    }
}
