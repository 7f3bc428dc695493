//! Maps as text.

use std::path::Path;

use crate::reproduce::claim_map::{ClaimMap, MapLineKind};
use crate::reproduce::experiment::Experiment;
use crate::reproduce::joint;
use crate::reproduce::outcome::duration;
use crate::table::{Table, count};

/// Prints the parameters that the papers leave unspecified.
pub(super) fn list(all: &[Experiment]) {
    for experiment in all.iter().filter(|experiment| !experiment.paper.open.is_empty()) {
        println!("{}  {}", experiment.id, experiment.paper.title);
        for thing in &experiment.paper.open {
            println!("  {}: {} (taken: {})", thing.name, thing.names().join(", "), thing.taken);
            println!("      {}", thing.why);
        }
    }
}

pub(super) fn print(experiment: &Experiment, map: &ClaimMap, directory: &Path) {
    println!("  {}", experiment.place_in_paper());
    println!("  {}", extent(map));
    if !map.pins.is_empty() {
        println!("  pinned: {}", map.pins.join(", "));
    }
    if let Some(left_out) = &map.left_out {
        println!("  without {left_out}");
    }
    let mut table = Table::new(["holds in", "95 %", "as taken", "decided by", "claim"]).with_text_last();
    for line in &map.lines {
        let mark = match line.kind {
            MapLineKind::Main => "* ",
            MapLineKind::Together => "= ",
            _ => "  ",
        };
        table.row([
            line.share_shown(),
            map.interval_shown(line),
            line.taken_shown(),
            line.decides.clone().unwrap_or_default(),
            format!("{mark}{}", line.statement),
        ]);
    }
    println!("\n{table}");
    println!("  (* a main claim)\n");
    println!("{}: {}", map.id, map.verdict);
    if let Some(tree) = &map.lines[0].tree {
        println!("  - {tree}");
    }
    for sentence in nearest(map) {
        println!("  - {sentence}");
    }
    println!("look at: {}", directory.join("map.svg").display());
    println!("results: {} (map.json, settings.csv)", directory.display());
}

/// Number of settings and runs, and their CPU time.
pub(in crate::reproduce) fn extent(map: &ClaimMap) -> String {
    let of = match map.of {
        _ if map.is_all => "all that are listed".to_owned(),
        Some(of) => format!("of {}", count(of as u64)),
        None => "of more than a million".to_owned(),
    };
    let time = duration(map.cpu_ms as f64 / 1e3);
    format!(
        "{} settings of {} open things, {of}: {} runs, {time} of CPU time",
        map.settings,
        map.open.len(),
        count(map.runs as u64)
    )
}

/// Sentences on the nearest settings in which the main claims hold together, and in which all hold.
pub(in crate::reproduce) fn nearest(map: &ClaimMap) -> Vec<String> {
    let sentence = |what: &str, nearest: &Option<Vec<(String, String)>>| match nearest {
        None => format!("{what} in none of the settings that were run"),
        Some(changes) if changes.is_empty() => format!("{what} as taken"),
        Some(changes) => {
            let changes: Vec<String> = changes.iter().map(|(thing, value)| format!("{thing} = {value}")).collect();
            format!("{what}, nearest to what is taken, with {}", changes.join(", "))
        }
    };
    let mut sentences = vec![sentence("the main claims hold together", &map.nearest[0])];
    if map.nearest[0] != map.nearest[1] {
        sentences.push(sentence("all claims and stated numbers do", &map.nearest[1]));
    }
    sentences
}

/// Prints the summaries of several maps, and the best joint configuration of each paper.
pub(super) fn print_all(maps: &[ClaimMap]) {
    println!();
    for map in maps {
        println!("{}: {}", map.id, map.verdict);
    }
    let maps: Vec<&ClaimMap> = maps.iter().collect();
    joint::sentences(&maps).for_each(|sentence| println!("{sentence}"));
}
