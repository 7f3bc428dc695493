//! Programs: operations of one rank of a parallel job, which wait for each other and for messages of other ranks.

use weir_units::Span;

/// Operations of a rank, and their dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProgram {
    operations: Box<[ProgramOperation]>,
    /// Operations that wait, by the operation that they wait for: first those that wait for its end, then those that wait for its start.
    dependents: Box<[u32]>,
    channels: u32,
    cpus: usize,
}

/// Operation of a [`RankProgram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramStep {
    /// Computation; those of one CPU run one after the other, in the order in which they become ready.
    Compute {
        /// Duration of the computation.
        duration: Span,
        /// CPU.
        cpu: u8,
    },
    /// Message to another rank; it waits while its CPU computes, and ends with its acknowledgement. A channel has the messages of one source
    /// and tag at a rank, in order.
    Send {
        /// CPU.
        cpu: u8,
        /// Connection, by its number among the rank's.
        connection: u32,
        /// Channel at the receiving rank.
        channel: u32,
        /// Payload in bytes, 1 to 2^31.
        size: u32,
    },
    /// Receipt of a message: it ends when the channel's oldest message that no earlier receipt took has arrived. If it
    /// waited for the message, it waits for its CPU, too.
    Receive {
        /// CPU.
        cpu: u8,
        /// Channel, by its number among the rank's.
        channel: u32,
    },
    /// Mark, by its number. It takes no time: the instant at which its last dependency is met is reported as an event.
    Mark(u32),
    /// Message without payload that takes no time and no network.
    Trigger {
        /// Receiving rank, which may be the rank itself.
        rank: u32,
        /// Channel at the receiving rank.
        channel: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProgramOperation {
    step: ProgramStep,
    /// Number of operations that it waits for.
    dependencies: u32,
    /// Index of the first operation that waits for its end, and of the first that waits for its start.
    first: [u32; 2],
}

/// Event of an operation on which others depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEdge {
    /// End of the operation.
    End,
    /// Start of the operation.
    Start,
}

impl RankProgram {
    /// Creates a program. Each dependency has an operation, its event, and the operation that waits for it.
    ///
    /// # Errors
    /// An operation that waits for itself, by its number.
    pub fn new(steps: &[ProgramStep], dependencies: &[(u32, ProgramEdge, u32)]) -> Result<RankProgram, u32> {
        let column = |edge: ProgramEdge| usize::from(edge == ProgramEdge::Start);
        let mut counts = vec![[0u32; 2]; steps.len()];
        let mut waits = vec![0u32; steps.len()];
        for (before, edge, after) in dependencies {
            counts[*before as usize][column(*edge)] += 1;
            waits[*after as usize] += 1;
        }
        let mut place = 0;
        let operation = |((step, counts), waits): ((&ProgramStep, &[u32; 2]), &u32)| {
            let first = [place, place + counts[0]];
            place += counts[0] + counts[1];
            ProgramOperation { step: *step, dependencies: *waits, first }
        };
        let operations: Box<[ProgramOperation]> = steps.iter().zip(&counts).zip(&waits).map(operation).collect();
        let mut next: Vec<[u32; 2]> = operations.iter().map(|operation| operation.first).collect();
        let mut dependents = vec![0; dependencies.len()];
        for (before, edge, after) in dependencies {
            let place = &mut next[*before as usize][column(*edge)];
            dependents[*place as usize] = *after;
            *place += 1;
        }
        let channel = |step: &ProgramStep| match step {
            ProgramStep::Receive { channel, .. } => channel + 1,
            _ => 0,
        };
        let cpu = |step: &ProgramStep| match step {
            ProgramStep::Compute { cpu, .. } | ProgramStep::Send { cpu, .. } | ProgramStep::Receive { cpu, .. } => {
                usize::from(*cpu) + 1
            }
            ProgramStep::Mark(_) | ProgramStep::Trigger { .. } => 0,
        };
        let program = RankProgram {
            channels: steps.iter().map(channel).max().unwrap_or(0),
            cpus: steps.iter().map(cpu).max().unwrap_or(0),
            dependents: dependents.into(),
            operations,
        };
        program.find_cycle(waits).map_or(Ok(program), Err)
    }

    /// Returns an operation that waits for itself.
    fn find_cycle(&self, mut waits: Vec<u32>) -> Option<u32> {
        let mut ready: Vec<u32> = self.initial().collect();
        while let Some(operation) = ready.pop() {
            let [end, start] = [ProgramEdge::End, ProgramEdge::Start].map(|edge| self.dependents(operation, edge));
            for after in end.iter().chain(start) {
                waits[*after as usize] -= 1;
                if waits[*after as usize] == 0 {
                    ready.push(*after);
                }
            }
        }
        waits.iter().position(|waits| *waits > 0).map(|operation| operation as u32)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns an operation, by its number.
    pub fn step(&self, operation: u32) -> ProgramStep {
        self.operations[operation as usize].step
    }

    /// Returns all operations, in order.
    pub fn steps(&self) -> impl Iterator<Item = ProgramStep> {
        self.operations.iter().map(|operation| operation.step)
    }

    /// Returns the number of dependencies of each operation.
    pub fn dependencies(&self) -> impl Iterator<Item = u32> {
        self.operations.iter().map(|operation| operation.dependencies)
    }

    /// Returns the operations without dependencies.
    pub fn initial(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.operations).filter(|(_, operation)| operation.dependencies == 0).map(|(number, _)| number)
    }

    /// Returns the operations that wait for an event of an operation.
    pub fn dependents(&self, operation: u32, edge: ProgramEdge) -> &[u32] {
        let [first, starts] = self.operations[operation as usize].first.map(|place| place as usize);
        let next = self.operations.get(operation as usize + 1);
        match edge {
            ProgramEdge::End => &self.dependents[first..starts],
            ProgramEdge::Start => {
                &self.dependents[starts..next.map_or(self.dependents.len(), |next| next.first[0] as usize)]
            }
        }
    }

    /// Number of channels.
    pub(crate) fn channels(&self) -> usize {
        self.channels as usize
    }

    /// Number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }
}

const _: () = assert!(size_of::<ProgramOperation>() <= 32, "schedules have millions of them");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_are_those_of_the_end_and_of_the_start() {
        let steps = [0, 1, 2].map(ProgramStep::Mark);
        let all = [(0, ProgramEdge::Start, 1), (1, ProgramEdge::End, 2), (0, ProgramEdge::End, 2)];
        let program = RankProgram::new(&steps, &all).unwrap();
        let of = |operation, edge| program.dependents(operation, edge).to_vec();
        assert_eq!((of(0, ProgramEdge::End), of(0, ProgramEdge::Start)), (vec![2], vec![1]));
        assert_eq!(
            (of(1, ProgramEdge::End), of(1, ProgramEdge::Start), of(2, ProgramEdge::End)),
            (vec![2], vec![], vec![])
        );
        assert_eq!(
            (program.initial().collect::<Vec<_>>(), program.dependencies().collect::<Vec<_>>()),
            (vec![0], vec![0, 1, 2])
        );
    }

    #[test]
    fn a_cycle_is_refused() {
        let steps = [0, 1, 2].map(ProgramStep::Mark);
        let edges = [(1, ProgramEdge::End, 2), (2, ProgramEdge::Start, 1)];
        assert_eq!(RankProgram::new(&steps, &edges), Err(1));
    }
}
