//! Choice and order of the settings that run.
//!
//! An Owen-scrambled Sobol sequence (Burley, JCGT 2020) visits the settings; repeated ones are skipped. Any first part
//! of the order is spread evenly over all settings, and a sufficient budget gives a full factorial design. The order
//! depends neither on the number of settings nor on results: a larger budget continues the same order.

use std::collections::BTreeSet;

/// Index of a value for each unspecified parameter.
pub(super) type Setting = Vec<usize>;

/// Number of consecutive steps without a new setting after which the rest is taken in order.
const IN_VAIN_MAX: u32 = 4_096;

/// First settings of the order, `wanted` at most; `values` has the number of values of each parameter.
pub(super) fn settings(values: &[usize], wanted: usize) -> Vec<Setting> {
    let all = combinations(values);
    let wanted = all.map_or(wanted, |all| wanted.min(all));
    let (mut met, mut order) = (BTreeSet::new(), Vec::new());
    let (mut step, mut in_vain) = (0_u32, 0);
    while order.len() < wanted && in_vain < IN_VAIN_MAX && step < u32::from(u16::MAX) {
        let setting: Setting = (0u32..).zip(values).map(|(n, count)| place(step, n, *count)).collect();
        step += 1;
        in_vain += 1;
        if met.insert(setting.clone()) {
            order.push(setting);
            in_vain = 0;
        }
    }
    // The last few of a small design.
    let rest = (0..all.unwrap_or(0)).map(|n| nth(n, values)).filter(|setting| !met.contains(setting));
    let missing = wanted - order.len();
    order.extend(rest.take(missing));
    order
}

/// Number of all settings; `None` above a million.
pub(super) fn combinations(values: &[usize]) -> Option<usize> {
    const COUNTED_MAX: usize = 1_000_000;
    let all = values.iter().try_fold(1_usize, |all, count| all.checked_mul(*count));
    all.filter(|all| *all <= COUNTED_MAX)
}

fn place(step: u32, dimension: u32, values: usize) -> usize {
    const SEED: u32 = 1;
    let at = f64::from(sobol_burley::sample(step, dimension, SEED));
    ((at * values as f64) as usize).min(values - 1)
}

fn nth(mut n: usize, values: &[usize]) -> Setting {
    let mut setting = vec![0; values.len()];
    for (place, count) in setting.iter_mut().zip(values).rev() {
        *place = n % count;
        n /= count;
    }
    setting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_design_is_all_settings_once() {
        let order = settings(&[2, 3, 2], 100);
        let different: BTreeSet<&Setting> = order.iter().collect();
        assert_eq!((order.len(), different.len()), (12, 12));
        assert_eq!(settings(&[], 5), [Vec::<usize>::new()]);
    }

    #[test]
    fn a_larger_design_begins_as_a_smaller_one_and_is_balanced() {
        let values = [2, 4, 3, 5, 2, 3, 4];
        let (some, more) = (settings(&values, 16), settings(&values, 64));
        assert_eq!(some[..], more[..16]);
        for (n, count) in values.into_iter().enumerate() {
            for value in 0..count {
                let times = more.iter().filter(|setting| setting[n] == value).count();
                let even = 64 / count;
                assert!(times + 4 >= even && times <= even + 5, "thing {n}, value {value}: {times} of 64");
            }
        }
    }
}
