//! Models of a link with both ends' own code, explored state by state: messages and data lost, messages doubled and late, ends
//! restarted, links cut. Each also finds small mutations of an end (`credit::Mutation`, `stages::Mutation`).
//!
//! A state is the path to it, replayed from the start, since an end is atomics and boxes that can't be copied. Two states are equal if all
//! fields of both ends, and what is on the wires, are.

mod credit;
mod stages;

use std::collections::HashSet;
use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hasher};

use weir_units::{BitRate, Class, Span, Time};

const CLASS: Class = Class::new(3);
const RATE: BitRate = BitRate::gbps(10);
/// Time between two steps of the clock.
const TICK: Span = Span::from_micros(50);

/// Link that a model runs step by step.
trait Link: Debug + Sized {
    type Step: Copy + Debug;
    type Mutation: Copy;

    fn start(mutation: Self::Mutation) -> Self;

    /// Steps that are possible now.
    fn possible(&self) -> Vec<Self::Step>;

    /// Whether a step is a fault, of which a path has few.
    fn is_fault(step: Self::Step) -> bool;

    fn step(&mut self, step: Self::Step);

    /// Promise that is broken now, if any.
    fn broken(&self) -> Option<&'static str>;

    /// Promise that is broken if no further fault comes.
    fn broken_at_rest(self) -> Option<&'static str>;
}

/// States that were explored.
struct Explored<S> {
    states: usize,
    /// First broken promise, with the path to it.
    broken: Option<(&'static str, Vec<S>)>,
}

/// Explores all paths of so many steps and faults, shortest first, up to a broken promise.
fn explore<L: Link>(mutation: L::Mutation, steps_max: usize, faults_max: usize) -> Explored<L::Step> {
    let (mut seen, mut paths) = (HashSet::new(), vec![Vec::new()]);
    for _ in 0..=steps_max {
        let mut longer = Vec::new();
        for path in std::mem::take(&mut paths) {
            let mut link = L::start(mutation);
            path.iter().for_each(|step| link.step(*step));
            let faults = path.iter().filter(|step| L::is_fault(**step)).count();
            if !seen.insert(fingerprint(&link, faults)) {
                continue;
            }
            let possible = link.possible().into_iter().filter(|step| faults < faults_max || !L::is_fault(*step));
            longer.extend(possible.map(|step| path.iter().copied().chain([step]).collect::<Vec<L::Step>>()));
            if let Some(broken) = link.broken().or_else(|| link.broken_at_rest()) {
                return Explored { states: seen.len(), broken: Some((broken, path)) };
            }
        }
        paths = longer;
    }
    Explored { states: seen.len(), broken: None }
}

fn fingerprint(link: &impl Debug, faults: usize) -> u64 {
    let mut fingerprint = Fingerprint(DefaultHasher::new());
    write!(fingerprint, "{link:?} {faults}").expect("a fingerprint takes any text");
    fingerprint.0.finish()
}

/// Hash of a text that is never in memory as a whole.
struct Fingerprint(DefaultHasher);

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn after(ticks: u64) -> Time {
    Time::ZERO + TICK * ticks
}
