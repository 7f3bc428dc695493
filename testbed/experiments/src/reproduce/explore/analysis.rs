//! Analysis of the parameters that decide whether a claim holds: shares with intervals, variance-based indices, and a
//! tree of two levels.
//!
//! Indices are of first order: ω² (Hays 1963), the share of the variance of "the claim holds" (1 or 0) that one
//! parameter explains. ω² subtracts the share that many values explain by chance. A permutation test gives its
//! significance.

use weir_units::SplitMix64;

use super::design::Setting;
use crate::table::statistics;

/// Number of settings in which a claim holds, and of all settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HoldCount {
    pub holds: usize,
    pub of: usize,
}

impl HoldCount {
    pub(super) fn from_outcomes(outcomes: impl Iterator<Item = bool>) -> HoldCount {
        outcomes.fold(HoldCount::default(), |count, holds| HoldCount {
            holds: count.holds + usize::from(holds),
            of: count.of + 1,
        })
    }

    pub(super) fn share(self) -> f64 {
        self.holds as f64 / self.of.max(1) as f64
    }

    /// Wilson's interval of 95 %; the share itself if every setting ran.
    pub(super) fn interval(self, is_all: bool) -> (f64, f64) {
        if is_all {
            return (self.share(), self.share());
        }
        statistics::share(self.holds, self.of).map_or((0.0, 1.0), |share| share.bounds())
    }
}

/// Influence of one unspecified parameter on a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Influence {
    /// Index of the parameter.
    pub open: usize,
    /// Effect size ω², from 0 to 1.
    pub index: f64,
    /// Probability that chance explains as much with one of the parameters.
    pub chance: f64,
    settings: usize,
}

impl Influence {
    /// Whether the influence is large and significant; false with few settings.
    pub(super) fn decides(&self) -> bool {
        self.index >= 0.1 && self.chance <= 0.02 && self.settings >= SETTINGS_MIN
    }
}

/// Minimum number of settings for a conclusion.
const SETTINGS_MIN: usize = 12;

/// Influences of all parameters, the strongest first. `settings` and `outcomes` correspond by index; `values` has the
/// number of values of each parameter.
pub(super) fn influences(values: &[usize], settings: &[&Setting], outcomes: &[bool]) -> Vec<Influence> {
    let mut all: Vec<Influence> = (0..values.len())
        .map(|open| {
            let groups: Vec<usize> = settings.iter().map(|setting| setting[open]).collect();
            let index = omega_squared(values[open], &groups, outcomes);
            let chance = if index > 0.0 { by_chance(values[open], &groups, outcomes) } else { 1.0 };
            // Bonferroni correction for the number of parameters.
            Influence { open, index, chance: (chance * values.len() as f64).min(1.0), settings: outcomes.len() }
        })
        .collect();
    all.sort_by(|one, other| other.index.total_cmp(&one.index));
    all
}

fn omega_squared(values: usize, groups: &[usize], outcomes: &[bool]) -> f64 {
    let (between, total, used) = squares(values, groups, outcomes);
    let (n, used) = (outcomes.len() as f64, used as f64);
    if total <= 0.0 || n <= used {
        return 0.0;
    }
    let within = (total - between) / (n - used);
    ((between - (used - 1.0) * within) / (total + within)).clamp(0.0, 1.0)
}

/// Sum of squares between groups, total sum of squares, and number of groups used.
fn squares(values: usize, groups: &[usize], outcomes: &[bool]) -> (f64, f64, usize) {
    let mut counts = vec![HoldCount::default(); values];
    for (group, holds) in groups.iter().zip(outcomes) {
        counts[*group].of += 1;
        counts[*group].holds += usize::from(*holds);
    }
    let all = HoldCount::from_outcomes(outcomes.iter().copied());
    let mean = all.share();
    let between = counts.iter().map(|count| count.of as f64 * (count.share() - mean).powi(2));
    let used = counts.iter().filter(|count| count.of > 0);
    (between.filter(|it| it.is_finite()).sum(), all.of as f64 * mean * (1.0 - mean), used.count())
}

/// Share of shuffled outcomes of which the groups explain as much (permutation test).
fn by_chance(values: usize, groups: &[usize], outcomes: &[bool]) -> f64 {
    const TRIALS: usize = 999;
    let (found, ..) = squares(values, groups, outcomes);
    let mut shuffled = outcomes.to_vec();
    let mut random = SplitMix64::new(7);
    let mut as_much = 0;
    for _ in 0..TRIALS {
        for last in (1..shuffled.len()).rev() {
            shuffled.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        as_much += usize::from(squares(values, groups, &shuffled).0 >= found - 1e-9);
    }
    (as_much + 1) as f64 / (TRIALS + 1) as f64
}

/// Settings in which the claim holds, for each value of a parameter.
pub(super) fn by_value(values: usize, open: usize, settings: &[&Setting], outcomes: &[bool]) -> Vec<HoldCount> {
    let of = |value: usize| {
        let with = settings.iter().zip(outcomes).filter(move |(setting, _)| setting[open] == value);
        HoldCount::from_outcomes(with.map(|(_, holds)| *holds))
    };
    (0..values).map(of).collect()
}

/// Decision tree of two levels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    /// Index of the deciding parameter.
    pub open: usize,
    /// Branches, one per value that occurs in the settings.
    pub branches: Vec<Branch>,
}

/// Branch of the tree: the settings with one value of the deciding parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Branch {
    pub value: usize,
    pub count: HoldCount,
    /// Deciding parameter among these settings, and counts for each of its values.
    pub then: Option<(usize, Vec<HoldCount>)>,
}

/// Builds the decision tree; `None` if no parameter decides.
pub(super) fn tree(values: &[usize], settings: &[&Setting], outcomes: &[bool]) -> Option<Tree> {
    let first = *influences(values, settings, outcomes).first().filter(|influence| influence.decides())?;
    let branch = |value: usize| {
        let with: Vec<usize> = (0..settings.len()).filter(|n| settings[*n][first.open] == value).collect();
        let some: Vec<&Setting> = with.iter().map(|n| settings[*n]).collect();
        let of_some: Vec<bool> = with.iter().map(|n| outcomes[*n]).collect();
        let count = HoldCount::from_outcomes(of_some.iter().copied());
        let is_mixed = count.holds > 0 && count.holds < count.of;
        let next = if is_mixed { influences(values, &some, &of_some).first().copied() } else { None };
        let next = next.filter(Influence::decides);
        Branch {
            value,
            count,
            then: next.map(|next| (next.open, by_value(values[next.open], next.open, &some, &of_some))),
        }
    };
    let branches = (0..values[first.open]).map(branch).filter(|branch| branch.count.of > 0).collect();
    Some(Tree { open: first.open, branches })
}

/// Setting with a true outcome that differs from `taken` in the fewest parameters; the first of equals.
pub(super) fn nearest<'s>(taken: &Setting, settings: &[&'s Setting], outcomes: &[bool]) -> Option<&'s Setting> {
    let good = settings.iter().zip(outcomes).filter(|(_, holds)| **holds).map(|(setting, _)| *setting);
    good.min_by_key(|setting| differences(taken, setting))
}

/// Number of parameters in which two settings differ.
pub(super) fn differences(one: &Setting, other: &Setting) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

#[cfg(test)]
mod tests {
    use super::super::design;
    use super::*;

    const VALUES: [usize; 3] = [2, 4, 4];

    fn outcomes(settings: &[Setting], rule: impl Fn(&Setting) -> bool) -> (Vec<&Setting>, Vec<bool>) {
        (settings.iter().collect(), settings.iter().map(rule).collect())
    }

    #[test]
    fn the_thing_that_decides_is_found_and_what_decides_then() {
        let settings = design::settings(&VALUES, 32);
        let (all, holds) = outcomes(&settings, |setting| setting[1] == 2);
        let found = influences(&VALUES, &all, &holds);
        assert!(found[0].open == 1 && found[0].index > 0.99 && found[0].decides(), "{found:?}");
        assert!(found[1..].iter().all(|other| !other.decides()), "{found:?}");
        // Holds with value 0 of parameter 0, and otherwise only with value 0 of parameter 2.
        let (all, holds) = outcomes(&settings, |setting| setting[0] == 0 || setting[2] == 0);
        let Tree { open, branches } = tree(&VALUES, &all, &holds).unwrap();
        assert_eq!((open, branches[0].count, branches[0].then.clone()), (0, HoldCount { holds: 16, of: 16 }, None));
        let (then, counts) = branches[1].then.clone().unwrap();
        assert_eq!((then, counts[0], counts[1]), (2, HoldCount { holds: 4, of: 4 }, HoldCount { holds: 0, of: 4 }));
    }

    #[test]
    fn chance_decides_nothing() {
        let settings = design::settings(&[2, 2, 3, 4, 4], 64);
        let mut random = SplitMix64::new(3);
        let (all, _) = outcomes(&settings, |_| true);
        let holds: Vec<bool> = all.iter().map(|_| random.next_u64().is_multiple_of(2)).collect();
        assert_eq!(tree(&[2, 2, 3, 4, 4], &all, &holds), None);
        assert!(influences(&VALUES, &[], &[]).iter().all(|none| none.index == 0.0));
        let always = vec![true; all.len()];
        assert!(influences(&[2, 2, 3, 4, 4], &all, &always).iter().all(|none| none.index == 0.0));
    }

    #[test]
    fn shares_of_a_sample_have_an_interval_and_those_of_all_settings_none() {
        let count = HoldCount { holds: 8, of: 20 };
        let (low, high) = count.interval(false);
        assert!((low - 0.2188).abs() < 1e-3 && (high - 0.6134).abs() < 1e-3, "{low} {high}");
        assert_eq!(count.interval(true), (0.4, 0.4));
    }

    #[test]
    fn the_nearest_setting_differs_in_the_fewest_things() {
        let settings = [vec![1, 1, 1], vec![0, 1, 0], vec![0, 0, 1], vec![0, 0, 0]];
        let (all, holds) = outcomes(&settings, |setting| setting[2] == 1);
        assert_eq!(nearest(&vec![0, 0, 0], &all, &holds), Some(&vec![0, 0, 1]));
        assert_eq!(nearest(&vec![0, 0, 0], &all, &[false; 4]), None);
    }
}
