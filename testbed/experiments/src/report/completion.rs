//! Reader of `fct.csv`: distributions of messages' completion times and slowdowns.

use std::path::Path;

use weir_results::run_dir::{has_messages, read_messages};

use crate::Failure;

/// Messages of a run, by flow or traffic.
#[derive(Default)]
pub(super) struct CompletionTimes {
    pub flows: Vec<FlowMessages>,
}

/// Messages of one flow or traffic, unordered.
#[derive(Default)]
pub(super) struct FlowMessages {
    pub name: String,
    /// Completion times in microseconds; infinite for unfinished messages.
    pub fct_us: Vec<f64>,
    /// FCT divided by the FCT in an empty fabric, for messages that record the latter.
    pub slowdown: Vec<f64>,
}

impl CompletionTimes {
    /// Reads the messages of a run; empty if it has none.
    pub(super) fn read(run: &Path) -> Result<CompletionTimes, Failure> {
        let mut messages = CompletionTimes::default();
        if !has_messages(run) {
            return Ok(messages);
        }
        let read = read_messages(run, |message| {
            let fct_us = message.fct_us.unwrap_or(f64::INFINITY);
            let of_flow = messages.flow_mut(message.flow);
            of_flow.fct_us.push(fct_us);
            of_flow.slowdown.extend(message.ideal_us.map(|ideal_us| fct_us / ideal_us));
        });
        read.map_err(|error| Failure::Argument(format!("{error}; run the scenario again, or name another directory")))?;
        Ok(messages)
    }

    fn flow_mut(&mut self, name: &str) -> &mut FlowMessages {
        // A linear search: names are few, and mostly the last one repeats.
        let place = self.flows.iter().position(|flow| flow.name == name).unwrap_or_else(|| {
            self.flows.push(FlowMessages { name: name.to_owned(), ..FlowMessages::default() });
            self.flows.len() - 1
        });
        &mut self.flows[place]
    }

    /// Joins all messages under one name.
    pub(super) fn merged(self) -> CompletionTimes {
        let mut merged = FlowMessages { name: "all".to_owned(), ..FlowMessages::default() };
        for flow in self.flows {
            merged.fct_us.extend(flow.fct_us);
            merged.slowdown.extend(flow.slowdown);
        }
        CompletionTimes { flows: vec![merged] }
    }
}

/// Cumulative share of the values, in percent, at each of the ascending points.
pub(super) fn distribution(values: &[f64], points: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let share = |point: &f64| {
        // Values equal to a point up to rounding count as below.
        let below = sorted.partition_point(|value| *value <= point * (1.0 + 1e-9));
        below as f64 * 100.0 / sorted.len().max(1) as f64
    };
    points.iter().map(share).collect()
}

/// Points with equal ratios from the smallest to the largest finite value; the values themselves if few.
pub(super) fn points<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    const FEW: usize = 600;
    let mut values: Vec<f64> = values.copied().filter(|value| *value > 0.0 && value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (Some(first), Some(last)) = (values.first().copied(), values.last().copied()) else { return Vec::new() };
    if values.len() <= FEW {
        return values;
    }
    let step = (last / first).ln() / (FEW - 1) as f64;
    (0..FEW).map(|n| if n + 1 == FEW { last } else { first * (step * n as f64).exp() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_is_no_greater() {
        assert_eq!(distribution(&[4.0, 1.0, 2.0, 2.0], &[0.5, 1.0, 2.0, 3.0, 4.0]), [0.0, 25.0, 75.0, 75.0, 100.0]);
    }

    #[test]
    fn what_did_not_finish_keeps_the_curve_below_all() {
        let values = [4.0, f64::INFINITY, 2.0, f64::INFINITY];
        let at = points(values.iter());
        assert_eq!((distribution(&values, &at), at), (vec![25.0, 50.0], vec![2.0, 4.0]));
        let folder = tempfile::tempdir().unwrap();
        let text = "flow,released_us,bytes,fct_us,from,to,ideal_us\na,0,1,10,x,y,5\na,0,1,,x,y,5\nb,0,1,,x,y,\n";
        std::fs::write(folder.path().join("fct.csv"), text).unwrap();
        let flows = CompletionTimes::read(folder.path()).unwrap().flows;
        assert_eq!(flows[0].fct_us, [10.0, f64::INFINITY]);
        assert_eq!(flows[0].slowdown, [2.0, f64::INFINITY]);
        assert_eq!((flows[1].fct_us.as_slice(), flows[1].slowdown.len()), (&[f64::INFINITY][..], 0));
    }

    #[test]
    fn points_reach_from_end_to_end() {
        assert_eq!(points([3.0, 1.0, 3.0].iter()), [1.0, 3.0]);
        let many: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let points = points(many.iter());
        assert_eq!((points.len(), points[0], points[599]), (600, 1.0, 1_000.0));
        assert!(points.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn messages_are_grouped_by_flow() {
        let folder = tempfile::tempdir().unwrap();
        let text = "flow,released_us,bytes,fct_us,from,to,ideal_us\na,0,1,10,x,y,5\nb,0,1,7,x,y,\na,1,1,5,x,y,5\n";
        std::fs::write(folder.path().join("fct.csv"), text).unwrap();
        let messages = CompletionTimes::read(folder.path()).unwrap();
        assert_eq!(messages.flows[0].slowdown, [2.0, 1.0]);
        assert_eq!((messages.flows[1].fct_us.as_slice(), messages.flows[1].slowdown.len()), (&[7.0][..], 0));
        assert_eq!(messages.merged().flows[0].fct_us, [10.0, 5.0, 7.0]);
    }
}
