//! Search for the highest value that passes a trial: RFC 2544's throughput and longest burst.

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    /// All frames arrived.
    Carried,
    /// Some frames were lost.
    Lost,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Difference between the highest passed and the lowest failed value at which the search ends, as a share of the latter.
    pub resolution: f64,
    /// Number of trials of a value, which passes with the first that does. A machine that preempts the CPU for a moment fails
    /// trials at any value.
    pub trials: u32,
    /// Lowest value to try.
    pub least: f64,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchResult {
    /// Highest value that passed, confirmed by a second pass unless it is the top; `None` if no value passed.
    pub value: Option<f64>,
    /// Whether the value is the top of the search.
    pub is_top: bool,
    /// Number of trials.
    pub trials: u32,
}

impl Search {
    /// Searches for the highest value up to `top` that passes: first `top`, then by bisection. The value found is tried again; while
    /// it fails, it is lowered by the resolution.
    ///
    /// # Errors
    /// The first error of a trial.
    pub fn highest<E>(
        &self,
        top: f64,
        mut trial: impl FnMut(f64) -> Result<TrialVerdict, E>,
    ) -> Result<SearchResult, E> {
        let mut trials = 0;
        let mut passes = |value: f64| -> Result<bool, E> {
            for _ in 0..self.trials.max(1) {
                trials += 1;
                if trial(value)? == TrialVerdict::Carried {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if passes(top)? {
            return Ok(SearchResult { value: Some(top), is_top: true, trials });
        }
        let (mut carried, mut lost) = (0.0, top);
        while lost - carried > self.resolution * lost && lost > self.least {
            let middle = ((carried + lost) / 2.0).max(self.least);
            if passes(middle)? {
                carried = middle;
            } else {
                lost = middle;
            }
        }
        while carried > 0.0 && !passes(carried)? {
            carried *= 1.0 - self.resolution;
            if carried < self.least {
                carried = 0.0;
            }
        }
        Ok(SearchResult { value: (carried > 0.0).then_some(carried), is_top: false, trials })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use weir_units::SplitMix64;

    use super::*;

    const SEARCH: Search = Search { resolution: 0.01, trials: 1, least: 10.0 };

    /// Device of a known capacity, whose trials give the opposite result with these probabilities, in percent.
    struct Model {
        capacity: f64,
        spurious_loss: u64,
        spurious_pass: u64,
        random: SplitMix64,
    }

    impl Model {
        fn exact(capacity: f64) -> Model {
            Model { capacity, spurious_loss: 0, spurious_pass: 0, random: SplitMix64::new(1) }
        }

        fn search(&mut self, search: Search, top: f64) -> SearchResult {
            let Ok(found) = search.highest::<Infallible>(top, |value| {
                let chance = self.random.next_u64() % 100;
                let carries = match value <= self.capacity {
                    true => chance >= self.spurious_loss,
                    false => chance < self.spurious_pass,
                };
                Ok(if carries { TrialVerdict::Carried } else { TrialVerdict::Lost })
            });
            found
        }
    }

    fn near(found: SearchResult, capacity: f64) -> bool {
        found.value.is_some_and(|value| value <= capacity && value >= capacity * 0.99)
    }

    #[test]
    fn a_known_capacity_is_found_from_below() {
        for capacity in [12.0, 50.0, 333.3, 5_000.0, 7_654_321.0, 9_999_999.0] {
            let found = Model::exact(capacity).search(SEARCH, 10_000_000.0);
            assert!(near(found, capacity) && !found.is_top, "{capacity}: {found:?}");
            assert!(found.trials < 40, "{found:?}");
        }
    }

    #[test]
    fn what_carries_all_takes_one_trial() {
        let found = Model::exact(100.0).search(SEARCH, 100.0);
        assert_eq!(found, SearchResult { value: Some(100.0), is_top: true, trials: 1 });
    }

    #[test]
    fn nothing_is_found_below_the_least() {
        let found = Model::exact(9.0).search(SEARCH, 1_000.0);
        assert_eq!((found.value, found.is_top), (None, false));
        assert!(found.trials < 12, "{found:?}");
        assert_eq!(Model::exact(10.0).search(SEARCH, 1_000.0).value, Some(10.0));
    }

    #[test]
    fn repeated_trials_outlast_a_noisy_machine() {
        let search = Search { trials: 8, ..SEARCH };
        let near_all = (0..200).filter(|seed| {
            let random = SplitMix64::new(*seed);
            let mut model = Model { capacity: 4_321.0, spurious_loss: 40, spurious_pass: 0, random };
            near(model.search(search, 10_000.0), 4_321.0)
        });
        // 40 % to the power of eight is one of 1,500 values, and a search tries a dozen.
        assert!(near_all.count() >= 190);
    }

    #[test]
    fn noise_never_finds_more_than_there_is_if_losses_are_true() {
        for seed in 0..200 {
            let random = SplitMix64::new(seed);
            let mut model = Model { capacity: 4_321.0, spurious_loss: 30, spurious_pass: 0, random };
            let found = model.search(SEARCH, 10_000.0);
            assert!(found.value.is_none_or(|value| value <= 4_321.0), "{found:?}");
        }
    }

    #[test]
    fn a_lucky_trial_is_put_right_by_the_last() {
        let above = (0..500).filter(|seed| {
            let random = SplitMix64::new(*seed);
            let mut model = Model { capacity: 4_321.0, spurious_loss: 0, spurious_pass: 10, random };
            model.search(SEARCH, 10_000.0).value.is_none_or(|value| value > 4_321.0 * 1.05)
        });
        // 10 % at the top, which is taken as it is, and 1 % of the others: two lucky trials.
        assert!(above.count() <= 90);
    }

    #[test]
    fn errors_end_the_search() {
        let mut trials = 0;
        let result = SEARCH.highest(100.0, |_| {
            trials += 1;
            if trials == 3 { Err("gone") } else { Ok(TrialVerdict::Lost) }
        });
        assert_eq!(result, Err("gone"));
    }
}
