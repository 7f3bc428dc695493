//! Errors of the switches' files of a scenario: one line of the scenario may be wrong in many of them.

use weir_config::{ConfigError, ConfigErrors};

use super::plan::ScenarioPlan;

/// Errors of runs, each with its runs.
#[derive(Debug, Default)]
pub(super) struct RunDiagnostics(Vec<RunDiagnostic>);

#[derive(Debug)]
struct RunDiagnostic {
    error: ConfigError,
    /// Run and switch; `None` for the run as a whole.
    subjects: Vec<(usize, Option<usize>)>,
}

impl RunDiagnostics {
    /// Adds errors of a run, or of a switch in it.
    pub(super) fn add(&mut self, run: usize, switch: Option<usize>, errors: ConfigErrors) {
        for error in errors {
            match self.0.iter_mut().find(|diagnostic| diagnostic.error.is_duplicate_of(&error)) {
                Some(diagnostic) if diagnostic.subjects.contains(&(run, switch)) => {}
                Some(diagnostic) => diagnostic.subjects.push((run, switch)),
                None => self.0.push(RunDiagnostic { error, subjects: vec![(run, switch)] }),
            }
        }
    }

    /// Number of errors, with each run and switch counted.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|diagnostic| diagnostic.subjects.len()).sum()
    }

    /// Returns each error once, with all its subjects; `None` without errors.
    pub(super) fn into_errors(self, plan: &ScenarioPlan) -> Option<ConfigErrors> {
        let with_subject = |diagnostic: RunDiagnostic| {
            let subject = subject(plan, &diagnostic.subjects);
            diagnostic.error.prefixed(&subject)
        };
        ConfigErrors::from_vec(self.0.into_iter().map(with_subject).collect())
    }
}

/// Describes the subjects: `switch S1 in run "PFC": `, `every switch in every run: `. A single run or switch is not named.
fn subject(plan: &ScenarioPlan, subjects: &[(usize, Option<usize>)]) -> String {
    let (first_run, first_switch) = subjects[0];
    let mut runs: Vec<usize> = subjects.iter().map(|(run, _)| *run).collect();
    runs.dedup();
    let in_runs = match runs.len() {
        _ if plan.runs.len() == 1 => String::new(),
        n if n == plan.runs.len() => "in every run".to_owned(),
        n => format!("in run \"{}\"{}", plan.runs[first_run].name, and_more(n)),
    };
    let Some(first_switch) = first_switch else {
        let is_named = !in_runs.is_empty() && runs.len() < plan.runs.len();
        return if is_named { format!("{in_runs}: ") } else { String::new() };
    };
    let name = &plan.topology.switches[first_switch].name;
    let in_first = subjects.iter().filter(|(run, _)| *run == first_run).count();
    if subjects.len() != in_first * runs.len() {
        return format!("switch {name} in run \"{}\"{}: ", plan.runs[first_run].name, and_more(subjects.len()));
    }
    let switches = match in_first {
        n if n == plan.topology.switches.len() && n > 1 => "every switch".to_owned(),
        n => format!("switch {name}{}", and_more(n)),
    };
    if in_runs.is_empty() { format!("{switches}: ") } else { format!("{switches} {in_runs}: ") }
}

fn and_more(of: usize) -> String {
    if of > 1 { format!(" and {} more", of - 1) } else { String::new() }
}
