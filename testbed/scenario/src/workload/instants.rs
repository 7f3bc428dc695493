//! Start times of bursts.

use weir_units::{Span, Time};

use super::{Load, Rng, SizeCdf, WorkloadError};

/// Start times of bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instants {
    /// A single burst.
    Once(Time),
    /// Periodic bursts.
    Every {
        /// Start of the first burst.
        from: Time,
        /// Period; above zero.
        every: Span,
        /// End: all bursts start earlier.
        until: Time,
    },
    /// Poisson process.
    Poisson {
        /// Start: the first burst is a gap later.
        from: Time,
        /// Mean gap; above zero.
        mean_gap: Span,
        /// End: all bursts start earlier.
        until: Time,
    },
}

impl Instants {
    /// Poisson process of bursts with `messages` messages each. Their load is a share of the sum of the link rates of `hosts` hosts.
    ///
    /// # Errors
    /// Bursts would have no messages, or their mean gap would be less than a picosecond.
    pub fn poisson_at(
        load: &Load,
        hosts: usize,
        messages: usize,
        sizes: &SizeCdf,
        [from, until]: [Time; 2],
    ) -> Result<Instants, WorkloadError> {
        if hosts == 0 || messages == 0 {
            return Err(WorkloadError::NoHosts(if hosts == 0 { "receivers" } else { "senders" }));
        }
        let gap = load.mean_gap_ps(sizes) * messages as f64 / hosts as f64;
        let instants = Instants::Poisson { from, mean_gap: Span::from_picos((gap + 0.5) as u64), until };
        instants.check().map(|()| instants)
    }

    /// Checks that gaps are above zero and the range of time is not empty.
    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        match *self {
            Instants::Once(_) => Ok(()),
            Instants::Every { from, until, .. } | Instants::Poisson { from, until, .. } if until <= from => {
                Err(WorkloadError::NoTime { from, until })
            }
            Instants::Every { every: Span::ZERO, .. } | Instants::Poisson { mean_gap: Span::ZERO, .. } => {
                Err(WorkloadError::NoPeriod)
            }
            Instants::Every { .. } | Instants::Poisson { .. } => Ok(()),
        }
    }

    /// Returns the instants in order.
    pub(super) fn iter(self, mut rng: Rng) -> impl Iterator<Item = Time> {
        let first = match self {
            Instants::Once(at) => at,
            Instants::Every { from, .. } => from,
            Instants::Poisson { from, mean_gap, .. } => later(from, mean_gap.as_picos() as f64, &mut rng),
        };
        let next = move |at: Time| match self {
            Instants::Once(_) => Time::NEVER,
            Instants::Every { every, .. } => at.saturating_add(every),
            Instants::Poisson { mean_gap, .. } => later(at, mean_gap.as_picos() as f64, &mut rng),
        };
        let until = match self {
            Instants::Once(_) => Time::NEVER,
            Instants::Every { until, .. } | Instants::Poisson { until, .. } => until,
        };
        successors(first, next).take_while(move |at| *at < until)
    }
}

/// Returns an instant later by a random gap of a Poisson process with this mean, to the nearest picosecond.
pub(super) fn later(at: Time, mean_gap_ps: f64, rng: &mut Rng) -> Time {
    at.saturating_add(Span::from_picos((rng.exponential() * mean_gap_ps + 0.5) as u64))
}

/// Returns all instants from the first one on, without an end.
fn successors(first: Time, mut next: impl FnMut(Time) -> Time) -> impl Iterator<Item = Time> {
    std::iter::successors(Some(first), move |at| Some(next(*at)))
}

#[cfg(test)]
mod tests {
    use weir_units::{BitRate, Bytes};

    use super::*;
    use crate::workload::LoadFraming;

    fn time_at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn all(instants: Instants) -> Vec<Time> {
        instants.check().unwrap();
        instants.iter(Rng::new(1)).collect()
    }

    #[test]
    fn once_and_periodic() {
        assert_eq!(all(Instants::Once(time_at(5))), [time_at(5)]);
        let every = Span::from_micros(10);
        assert_eq!(all(Instants::Every { from: time_at(5), every, until: time_at(25) }), [time_at(5), time_at(15)]);
        assert_eq!(
            all(Instants::Every { from: time_at(5), every, until: time_at(26) }),
            [time_at(5), time_at(15), time_at(25)]
        );
    }

    #[test]
    fn bursts_at_a_load() {
        let load = Load::new(0.02, BitRate::gbps(100), LoadFraming::PAYLOAD_ONLY).unwrap();
        let sizes = SizeCdf::fixed(Bytes::kb(500)).unwrap();
        let instants = Instants::poisson_at(&load, 320, 60, &sizes, [time_at(0), time_at(1_000_000)]).unwrap();
        // 60 x 500 KB are 240 Mbit; 2 % of 320 x 100 Gb/s are 640 Gb/s.
        let mean_gap = Span::from_micros(375);
        assert_eq!(instants, Instants::Poisson { from: time_at(0), mean_gap, until: time_at(1_000_000) });
        let count = all(instants).len();
        assert!(count.abs_diff(2_667) < 4 * 52, "{count}: four standard deviations");
    }

    #[test]
    fn errors_have_messages() {
        let (from, until, every) = (time_at(5), time_at(5), Span::from_micros(1));
        let errors = [
            Instants::Every { from, every, until },
            Instants::Every { from: time_at(0), every: Span::ZERO, until },
            Instants::Poisson { from: time_at(0), mean_gap: Span::ZERO, until },
        ]
        .map(|instants| instants.check().unwrap_err().to_string());
        let no_period = "the time from one burst to the next is 0; write 1ps or more";
        assert_eq!(
            errors,
            [
                "messages are to start from 5us on and before 5us, and no time lies between; write an end after the beginning",
                no_period,
                no_period,
            ]
        );
    }
}
