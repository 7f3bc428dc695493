//! Rates of Weir and its peers, round by round, and their statistics.

use std::fmt;

use weir_bench::Spread;

use crate::peers::Peer;

/// The rounds of one case.
pub(crate) struct Table {
    weir: Vec<f64>,
    /// Each peer's rounds, as its rate and Weir's; a round in which it did not run is left out.
    peers: Vec<(Peer, Vec<(f64, f64)>)>,
}

impl Table {
    pub(crate) fn new(peers: impl Iterator<Item = Peer>) -> Table {
        Table { weir: Vec::new(), peers: peers.map(|peer| (peer, Vec::new())).collect() }
    }

    /// Adds a round: packets per CPU-second of Weir, and of the peers by this function.
    pub(crate) fn add(&mut self, weir: f64, rate: impl Fn(Peer) -> Option<f64>) {
        self.weir.push(weir);
        for (peer, rounds) in &mut self.peers {
            rounds.extend(rate(*peer).map(|rate| (rate, weir)));
        }
    }

    /// Whether a peer ran in no round.
    pub(crate) fn lacks(&self, wanted: Peer) -> bool {
        self.peers.iter().all(|(peer, rounds)| *peer != wanted || rounds.is_empty())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:18} {:>7} {:>7} {:>7}   weir/it", "", "min", "median", "max")?;
        let Spread { min, median, max } = Spread::from_values(self.weir.iter().map(|rate| rate / 1e6));
        writeln!(f, "  {:18} {min:7.1} {median:7.1} {max:7.1}", "weir")?;
        for (peer, rounds) in self.peers.iter().filter(|(_, rounds)| !rounds.is_empty()) {
            let Spread { min, median, max } = Spread::from_values(rounds.iter().map(|(rate, _)| rate / 1e6));
            let Spread { min: least, median: ratio, max: most } =
                Spread::from_values(rounds.iter().map(|(rate, weir)| weir / rate));
            write!(f, "  {:18} {min:7.1} {median:7.1} {max:7.1}", peer.name())?;
            writeln!(f, "   {ratio:.2} ({least:.2} to {most:.2})")?;
        }
        Ok(())
    }
}
