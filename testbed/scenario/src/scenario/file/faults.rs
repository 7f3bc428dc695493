//! `[[links.faults]]` and `[[hosts.faults]]`.

use weir_reader::{Key, Problem, Table};
use weir_units::Time;
use weir_wire::rocev2::Dscp;

use super::keys::faults as keys;
use super::reading::{refuse_unnamed, require, time_range};
use crate::link::{ChosenFrames, FaultPlan, ReorderDelay};

/// Reads a link's faults, by the ends of its directions, each with its names. `first_seed` gives different seeds to links without one.
pub(super) fn read(
    link: &Table<'_>,
    name: &'static str,
    directions: [&[&str]; 2],
    end: Time,
    first_seed: u64,
) -> [FaultPlan; 2] {
    let mut plans = [FaultPlan::default(); 2];
    let mut given: [Option<String>; 2] = Default::default();
    if !link.has("faults") {
        return plans;
    }
    for table in link.tables("faults", name) {
        let direction = toward(&table, directions);
        let plan = plan(&table, end, first_seed + direction.unwrap_or(0) as u64);
        let Some(direction) = direction else { continue };
        if let Some(first) = given[direction].replace(table.key_path("toward")) {
            let problem = Problem::new(
                format!("two tables of faults are toward {}", directions[direction][0]),
                "put all keys of a direction into one of them",
            );
            table.doc().note(problem.with_label(table.key_path("toward"), "again").with_label(first, "first here"));
        }
        plans[direction] = plan;
    }
    plans
}

fn toward(table: &Table<'_>, directions: [&[&str]; 2]) -> Option<usize> {
    let example = directions[0].first().copied().unwrap_or("H1");
    require(table, "toward", "a table of faults", &format!("toward = \"{example}\": the end that its frames go to"));
    let name = table.string("toward", example)?;
    let found = directions.iter().position(|names| names.contains(&name));
    if found.is_none() {
        refuse_unnamed(table, "toward", name, "end of this link", &directions.concat());
    }
    found
}

fn plan(table: &Table<'_>, end: Time, seed: u64) -> FaultPlan {
    const KINDS: [Key<f64>; 4] = [keys::LOSS, keys::CORRUPTION, keys::DUPLICATION, keys::REORDERING];
    let kinds = KINDS.map(|key| ppm(table, &key));
    let [loss, corruption, duplication, reordering] = kinds;
    let doc = table.doc();
    let places = KINDS.map(|key| table.key_path(key.name));
    let sound = doc.sound(&places.each_ref().map(String::as_str));
    if sound && kinds.iter().all(Option::is_none) {
        let help = "write loss = 0.01, corruption, duplication or reordering";
        doc.note(Problem::new("a table of faults has no fault", help).with_label(table.path(), ""));
    } else if sound && kinds.iter().flatten().sum::<u32>() > 1_000_000 {
        let help = "write smaller ones: a frame has one fault at most";
        let problem =
            Problem::new("`loss`, `corruption`, `duplication` and `reordering` are more than 1 together", help);
        doc.note(problem.with_label(table.path(), ""));
    }
    let hold_back = table.get(&keys::HOLD_BACK);
    let (from, until) = time_range(table, ["from", "until"], Time::ZERO..end, end).unwrap_or((Time::ZERO, end));
    FaultPlan {
        frames: frames(table),
        loss_ppm: loss.unwrap_or(0),
        corruption_ppm: corruption.unwrap_or(0),
        duplication_ppm: duplication.unwrap_or(0),
        reordering_ppm: reordering.unwrap_or(0),
        reorder_delay: match table.get(&keys::UNTIL_NEXT) {
            false => ReorderDelay::For(hold_back),
            true => ReorderDelay::UntilNext(hold_back),
        },
        from,
        until,
        seed: table.given(&keys::SEED).unwrap_or(seed),
    }
}

fn frames(table: &Table<'_>) -> ChosenFrames {
    let frames = table.get(&keys::FRAMES);
    let dscp = table.given(&keys::DSCP);
    match (frames, dscp) {
        (ChosenFrames::Data, Some(dscp)) => ChosenFrames::DataWith(Dscp::new(dscp)),
        (ChosenFrames::Control, Some(_)) if table.doc().sound(&[&table.key_path("frames")]) => {
            let given = if table.has("frames") { "" } else { " (the default)" };
            let message = format!("`dscp` chooses among data, but `frames` is \"control\"{given}");
            let problem = Problem::new(message, "write frames = \"data\", or take `dscp` out");
            table.doc().note(
                problem.with_label(table.key_path("dscp"), "").with_label(table.key_path("frames"), "the frames"),
            );
            frames
        }
        _ => frames,
    }
}

/// Reads a share, in millionths; at least one, if it is not 0.
pub(super) fn ppm(table: &Table<'_>, key: &Key<f64>) -> Option<u32> {
    table.given(key).map(|share| ((share * 1e6).round() as u32).max(u32::from(share > 0.0)))
}
