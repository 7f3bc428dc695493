//! Map of claims of an exploration's results.

use super::analysis::{self, HoldCount};
use super::design::Setting;
use super::settings::JudgedSetting;
use crate::reproduce::claim_map::{ClaimMap, MapLine, MapLineKind, MapParameter, Slice};
use crate::reproduce::experiment::Experiment;
use crate::reproduce::unspecified::UnspecifiedParameter;
use crate::reproduce::verdict::{Judgement, with_unit};

/// Results of the runs that a map is computed from.
pub(super) struct ExplorationResults<'a> {
    /// Experiment, with the map's measures and claims.
    pub experiment: &'a Experiment,
    pub open: &'a [UnspecifiedParameter],
    pub pins: &'a [String],
    /// Result of the default setting, whether or not the design includes it.
    pub taken: &'a JudgedSetting,
    /// Results of the design's settings.
    pub judged: &'a [JudgedSetting],
    /// Number of all settings; `None` above a million.
    pub of: Option<usize>,
    pub seeds: usize,
    pub runs: usize,
    pub cpu_ms: u64,
}

impl ClaimMap {
    pub(super) fn new(explored: &ExplorationResults<'_>) -> ClaimMap {
        let paper = &explored.experiment.paper;
        let is_all = explored.of == Some(explored.judged.len());
        let thing = |open: &UnspecifiedParameter| MapParameter {
            name: open.name.clone(),
            why: open.why.clone(),
            values: open.names(),
            taken: open.names().iter().position(|name| *name == open.taken).unwrap_or(0),
        };
        let open: Vec<MapParameter> = explored.open.iter().map(thing).collect();
        let together = |statement: &str, judgement: fn(&JudgedSetting) -> Judgement| {
            line(
                explored,
                &open,
                MapLineHead { kind: MapLineKind::Together, statement, source: "" },
                is_all,
                &judgement,
            )
        };
        let mut lines = vec![
            together("all main claims together", |judged| judged.together),
            together("all claims and stated numbers together", |judged| judged.all),
        ];
        for (n, claim) in paper.claims.iter().enumerate() {
            let kind = if claim.conclusion { MapLineKind::Main } else { MapLineKind::Further };
            let head = MapLineHead { kind, statement: &claim.statement, source: &claim.source };
            lines.push(line(explored, &open, head, is_all, &|judged| judged.judgements[n]));
        }
        for (n, measure) in paper.measures.iter().filter(|measure| measure.paper.is_some()).enumerate() {
            let place = paper.claims.len() + n;
            let stated = measure.paper.map_or_else(String::new, |paper| with_unit(paper, &measure.unit));
            let statement = format!("{}: {stated}", measure.name);
            let source = measure.source.as_deref().unwrap_or("");
            let head = MapLineHead { kind: MapLineKind::Number, statement: &statement, source };
            lines.push(line(explored, &open, head, is_all, &|judged| judged.judgements[place]));
        }
        let nearest = [|judged: &JudgedSetting| judged.together, |judged: &JudgedSetting| judged.all].map(|of| {
            let with_taken = explored.judged.iter().chain([explored.taken]);
            let settings: Vec<&Setting> = with_taken.clone().map(|judged| &judged.setting).collect();
            let good: Vec<bool> = with_taken.map(|judged| of(judged) == Judgement::Holds).collect();
            analysis::nearest(&explored.taken.setting, &settings, &good)
                .map(|setting| differing(&open, explored, setting))
        });
        let mut map = ClaimMap {
            format: ClaimMap::FORMAT.to_owned(),
            id: explored.experiment.id.clone(),
            title: paper.title.clone(),
            verdict: String::new(),
            settings: explored.judged.len(),
            of: explored.of,
            is_all,
            seeds: explored.seeds,
            runs: explored.runs,
            cpu_ms: explored.cpu_ms,
            left_out: paper.map.leaves_out.clone(),
            pins: explored.pins.to_vec(),
            open,
            lines,
            nearest,
        };
        map.verdict = map.in_one_line();
        map
    }
}

struct MapLineHead<'h> {
    kind: MapLineKind,
    statement: &'h str,
    /// Place in the paper.
    source: &'h str,
}

fn line(
    explored: &ExplorationResults<'_>,
    open: &[MapParameter],
    head: MapLineHead<'_>,
    is_all: bool,
    judgement: &dyn Fn(&JudgedSetting) -> Judgement,
) -> MapLine {
    let looked_at = explored.judged.iter().filter(|judged| judgement(judged) != Judgement::LeftOut);
    let looked_at: Vec<&JudgedSetting> = looked_at.collect();
    let settings: Vec<&Setting> = looked_at.iter().map(|judged| &judged.setting).collect();
    let holds: Vec<bool> = looked_at.iter().map(|judged| judgement(judged) == Judgement::Holds).collect();
    let how_many = |of: Judgement| looked_at.iter().filter(|judged| judgement(judged) == of).count();
    let count = HoldCount::from_outcomes(holds.iter().copied());
    let values: Vec<usize> = open.iter().map(|thing| thing.values.len()).collect();
    let ranked = analysis::influences(&values, &settings, &holds);
    let of_thing = |n: usize| ranked.iter().find(|it| it.open == n).map_or((0.0, 1.0), |it| (it.index, it.chance));
    let tree = analysis::tree(&values, &settings, &holds);
    let taken = judgement(explored.taken);
    MapLine {
        kind: head.kind,
        statement: head.statement.to_owned(),
        source: head.source.to_owned(),
        holds: count.holds,
        open: how_many(Judgement::Undecided),
        arithmetic: how_many(Judgement::Arithmetic),
        of: count.of,
        share: count.share(),
        interval: count.interval(is_all),
        taken: (taken != Judgement::LeftOut).then_some(taken == Judgement::Holds),
        taken_is: (taken != Judgement::LeftOut).then_some(taken),
        influence: (0..open.len()).map(of_thing).collect(),
        decides: ranked.first().filter(|it| it.decides()).map(|it| open[it.open].name.clone()),
        tree: tree.map(|tree| tree_text(open, &tree)),
        by_value: (0..open.len())
            .map(|n| {
                let counts = analysis::by_value(values[n], n, &settings, &holds);
                counts.into_iter().map(|count| (count.holds, count.of)).collect()
            })
            .collect(),
        slice: slice(&ranked, &values, &settings, &holds).filter(|_| count.holds > 0 && count.holds < count.of),
    }
}

fn slice(ranked: &[analysis::Influence], values: &[usize], settings: &[&Setting], holds: &[bool]) -> Option<Slice> {
    let [across, down, ..] = ranked else { return None };
    let [across, down] = [across.open, down.open];
    let row = |value: usize| {
        let with: Vec<usize> = (0..settings.len()).filter(|n| settings[*n][down] == value).collect();
        let some: Vec<&Setting> = with.iter().map(|n| settings[*n]).collect();
        let of_some: Vec<bool> = with.iter().map(|n| holds[*n]).collect();
        let counts = analysis::by_value(values[across], across, &some, &of_some);
        counts.into_iter().map(|count| (count.holds, count.of)).collect()
    };
    Some(Slice { things: [across, down], counts: (0..values[down]).map(row).collect() })
}

/// Formats a decision tree: `DCQCN: SIGCOMM 0 of 24, ns-3 20 of 24 (there by TC: 80us 2 of 6, 320us 18 of 18)`.
fn tree_text(open: &[MapParameter], tree: &analysis::Tree) -> String {
    let counted = |thing: usize, value: usize, count: HoldCount| {
        format!("{} {} of {}", open[thing].values[value], count.holds, count.of)
    };
    let branch = |branch: &analysis::Branch| {
        let below = branch.then.as_ref().map(|(thing, counts)| {
            let counts = counts.iter().enumerate().filter(|(_, count)| count.of > 0);
            let counts: Vec<String> = counts.map(|(value, count)| counted(*thing, value, *count)).collect();
            format!(" (there by {}: {})", open[*thing].name, counts.join(", "))
        });
        counted(tree.open, branch.value, branch.count) + &below.unwrap_or_default()
    };
    format!("{}: {}", open[tree.open].name, tree.branches.iter().map(branch).collect::<Vec<_>>().join(", "))
}

/// Parameters whose values differ from the default setting, with their values in `setting`.
fn differing(open: &[MapParameter], explored: &ExplorationResults<'_>, setting: &Setting) -> Vec<(String, String)> {
    let places = open.iter().zip(setting).zip(&explored.taken.setting);
    let changed = places.filter(|((_, value), taken)| value != taken);
    changed.map(|((thing, value), _)| (thing.name.clone(), thing.values[*value].clone())).collect()
}
