//! Joint configuration of a paper: the values of its unspecified parameters under which the most main claims of all its figures hold.
//!
//! By main effects: a value's effect in a figure is the mean share of main claims that hold with it, less that over all settings. The best
//! value has the largest sum of effects over the figures, so each figure has the same weight.

use super::claim_map::{ClaimMap, MapLine, MapLineKind};

/// Best joint configuration of several maps.
#[derive(Debug, PartialEq)]
pub(super) struct JointConfiguration {
    /// Best value of each parameter, the parameter that matters most first.
    pub values: Vec<JointValue>,
    /// Maps that it is computed from.
    pub figures: usize,
}

/// Best value of a parameter.
#[derive(Debug, PartialEq)]
pub(super) struct JointValue {
    pub name: String,
    pub value: String,
    /// Largest less least share of main claims that hold by the parameter's values, as a mean over the figures that have it, from 0 to 1.
    pub range: f64,
}

impl JointConfiguration {
    /// Computes the best joint configuration; `None` if no map has counts by value.
    pub(super) fn new<'m>(maps: impl IntoIterator<Item = &'m ClaimMap>) -> Option<JointConfiguration> {
        let maps: Vec<&ClaimMap> = maps.into_iter().filter(|map| main_lines(map).next().is_some()).collect();
        let mut names: Vec<&str> = Vec::new();
        for parameter in maps.iter().flat_map(|map| &map.open) {
            if !names.contains(&parameter.name.as_str()) {
                names.push(&parameter.name);
            }
        }
        let mut values: Vec<JointValue> = names.into_iter().filter_map(|name| best(name, &maps)).collect();
        values.sort_by(|one, other| other.range.total_cmp(&one.range));
        (!values.is_empty()).then_some(JointConfiguration { values, figures: maps.len() })
    }

    /// Sentence on the configuration and the parameter that matters most.
    pub(super) fn sentence(&self) -> String {
        let values: Vec<String> =
            self.values.iter().map(|JointValue { name, value, .. }| format!("{name} = {value}")).collect();
        let most = &self.values[0];
        format!(
            "best joint configuration of {} figures: {}; {} matters most, which moves the share of main claims that hold by {:.0} points",
            self.figures,
            values.join(", "),
            most.name,
            100.0 * most.range
        )
    }
}

/// Best joint configuration of each paper, in a sentence; `maps` are in the order of their papers.
pub(super) fn sentences<'m>(maps: &'m [&'m ClaimMap]) -> impl Iterator<Item = String> + 'm {
    maps.chunk_by(|one, other| one.paper_id() == other.paper_id()).filter_map(|of_paper| {
        let joint = JointConfiguration::new(of_paper.iter().copied())?;
        Some(format!("{}: {}", of_paper[0].paper_id(), joint.sentence()))
    })
}

/// Main claims whose counts by value the map has.
fn main_lines(map: &ClaimMap) -> impl Iterator<Item = &MapLine> {
    map.lines.iter().filter(|line| line.kind == MapLineKind::Main && line.of > 0 && !line.by_value.is_empty())
}

/// Best value of a parameter over the maps that have it; of equals the first, and a default value before others.
fn best(name: &str, maps: &[&ClaimMap]) -> Option<JointValue> {
    let mut effects: Vec<(&str, f64)> = Vec::new();
    let (mut range, mut figures) = (0.0, 0);
    for map in maps {
        let Some(place) = map.open.iter().position(|parameter| parameter.name == name) else { continue };
        let parameter = &map.open[place];
        let shares: Vec<Option<f64>> = (0..parameter.values.len()).map(|value| share(map, place, value)).collect();
        let known: Vec<f64> = shares.iter().flatten().copied().collect();
        if known.is_empty() {
            continue;
        }
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        range += known.iter().fold(0.0, |most: f64, one| most.max(*one))
            - known.iter().fold(1.0, |least: f64, one| least.min(*one));
        figures += 1;
        // Default values first, as they win among equals.
        let order = std::iter::once(parameter.taken).chain((0..shares.len()).filter(|value| *value != parameter.taken));
        for value in order {
            let Some(share) = shares.get(value).copied().flatten() else { continue };
            match effects.iter_mut().find(|(known, _)| *known == parameter.values[value]) {
                Some((_, effect)) => *effect += share - mean,
                None => effects.push((&parameter.values[value], share - mean)),
            }
        }
    }
    let first = effects.first()?;
    let (value, _) = effects.iter().skip(1).fold(first, |best, one| if one.1 > best.1 + 1e-9 { one } else { best });
    Some(JointValue { name: name.to_owned(), value: (*value).to_owned(), range: range / f64::from(figures) })
}

/// Mean share of main claims that hold with a value of a parameter; `None` if no setting with it was judged.
fn share(map: &ClaimMap, parameter: usize, value: usize) -> Option<f64> {
    let counts = main_lines(map).filter_map(|line| line.by_value.get(parameter)?.get(value));
    let shares: Vec<f64> = counts.filter(|(_, of)| *of > 0).map(|(holds, of)| *holds as f64 / *of as f64).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::claim_map::MapParameter;
    use super::*;

    /// Map of one main claim, with the settings in which it holds by value, of 10 each.
    fn map(open: &[(&str, &[&str], usize, &[usize])]) -> ClaimMap {
        let parameter = |(name, values, taken, _): &(&str, &[&str], usize, &[usize])| MapParameter {
            name: (*name).to_owned(),
            why: String::new(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            taken: *taken,
        };
        let by_value: Vec<Vec<(usize, usize)>> =
            open.iter().map(|(.., holds)| holds.iter().map(|holds| (*holds, 10)).collect()).collect();
        let line = serde_json::json!({
            "kind": "main", "says": "it comes out", "source": "", "holds": 5, "open": 0, "arithmetic": 0, "of": 20, "share": 0.5,
            "interval": [0.0, 1.0], "taken": true, "decides": null, "tree": null, "by_value": by_value
        });
        let map = serde_json::json!({
            "format": ClaimMap::FORMAT, "id": "a.1", "title": "", "settings": 20, "of": 20, "is_all": true, "runs": 20, "cpu_ms": 0,
            "left_out": null, "pins": [], "open": [], "lines": [line], "nearest": [null, null]
        });
        let map: ClaimMap = serde_json::from_value(map).unwrap();
        ClaimMap { open: open.iter().map(parameter).collect(), ..map }
    }

    #[test]
    fn each_figure_has_a_say_in_the_best_value() {
        // DCQCN is best in one figure and hardly worse in the other, which has more values.
        let one = map(&[("cc", &["dcqcn", "timely"], 1, &[9, 1]), ("alpha", &["1", "2"], 0, &[5, 5])]);
        let other = map(&[("cc", &["timely", "none", "dcqcn"], 0, &[5, 0, 4])]);
        let joint = JointConfiguration::new([&one, &other]).unwrap();
        let of = |n: usize| (joint.values[n].name.as_str(), joint.values[n].value.as_str());
        assert_eq!((of(0), of(1), joint.figures), (("cc", "dcqcn"), ("alpha", "1"), 2));
        assert!((joint.values[0].range - 0.65).abs() < 1e-9, "{joint:?}");
        assert_eq!(
            joint.sentence(),
            "best joint configuration of 2 figures: cc = dcqcn, alpha = 1; cc matters most, which moves the share of main claims that hold by \
             65 points"
        );
        assert_eq!(JointConfiguration::new([]), None);
    }
}
