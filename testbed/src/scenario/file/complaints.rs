//! Errors of the switches' files that a scenario makes: one line of the scenario may be wrong in many of them.

use weir_config::{ConfigError, ConfigErrors};

use super::plan::Plan;

/// What is wrong with runs, and with which.
#[derive(Debug, Default)]
pub(super) struct Complaints(Vec<Complaint>);

#[derive(Debug)]
struct Complaint {
    error: ConfigError,
    /// The run and the switch; no switch where it is about the run as a whole.
    subjects: Vec<(usize, Option<usize>)>,
}

impl Complaints {
    /// Notes errors of a run, and of a switch in it.
    pub fn add(&mut self, run: usize, switch: Option<usize>, errors: ConfigErrors) {
        for error in errors.into_iter() {
            match self.0.iter_mut().find(|complaint| complaint.error.is_twin_of(&error)) {
                Some(complaint) if complaint.subjects.contains(&(run, switch)) => {}
                Some(complaint) => complaint.subjects.push((run, switch)),
                None => self.0.push(Complaint { error, subjects: vec![(run, switch)] }),
            }
        }
    }

    /// How many have been noted, each run and switch counted.
    pub fn len(&self) -> usize {
        self.0.iter().map(|complaint| complaint.subjects.len()).sum()
    }

    /// The errors, each once and said of all that it is about; none if there are none.
    pub fn into_errors(self, plan: &Plan) -> Option<ConfigErrors> {
        let said = |complaint: Complaint| {
            let subject = subject(plan, &complaint.subjects);
            complaint.error.prefixed(&subject)
        };
        ConfigErrors::of(self.0.into_iter().map(said).collect())
    }
}

/// `switch S1 in run "PFC" and 5 more: `, or shorter where it is all of them.
fn subject(plan: &Plan, subjects: &[(usize, Option<usize>)]) -> String {
    let (switches, runs) = (plan.topology.switches.len(), plan.runs.len());
    let mut in_runs: Vec<usize> = subjects.iter().map(|(run, _)| *run).collect();
    in_runs.dedup();
    let (first_run, first_switch) = subjects[0];
    let run = format!("run \"{}\"", plan.runs[first_run].name);
    let all_runs = in_runs.len() == runs;
    let Some(first_switch) = first_switch else {
        return match in_runs.len() {
            _ if all_runs => String::new(),
            1 => format!("{run}: "),
            n => format!("{run} and {} more: ", n - 1),
        };
    };
    let switch = &plan.topology.switches[first_switch].name;
    let of_first = subjects.iter().filter(|(run, _)| *run == first_run).count();
    let is_product = subjects.len() == of_first * in_runs.len();
    match (of_first == switches && switches > 1, all_runs && runs > 1) {
        (true, true) if is_product => "every switch in every run: ".to_owned(),
        (true, false) if is_product && in_runs.len() == 1 => format!("every switch in {run}: "),
        (true, false) if is_product => format!("every switch in {run} and {} more: ", in_runs.len() - 1),
        (false, true) if is_product && of_first == 1 => format!("switch {switch} in every run: "),
        _ if subjects.len() == 1 => format!("switch {switch} in {run}: "),
        _ => format!("switch {switch} in {run} and {} more: ", subjects.len() - 1),
    }
}
