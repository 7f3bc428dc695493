//! Link failures, by name or at random.

use super::Fabric;
use super::routes::{Routes, Unreachable};
use crate::workload::Rng;

/// Error in taking down a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkNameError {
    /// The switch is unknown.
    #[error("there is no switch {name}: {help}")]
    NoSwitch {
        /// The name given.
        name: String,
        /// Fix.
        help: String,
    },
    /// The switches are not joined.
    #[error("no link joins {one} and {other}: {one} is joined with {joined}")]
    NotJoined {
        /// First switch.
        one: String,
        /// Second switch.
        other: String,
        /// Names of the first switch's neighbours.
        joined: String,
    },
    /// The switches have no link of this number.
    #[error(
        "{count} links join {one} and {other}, numbered from 0, and none is {number}: write a lower number or none"
    )]
    NoNumber {
        /// First switch.
        one: String,
        /// Second switch.
        other: String,
        /// The number given.
        number: String,
        /// Number of links.
        count: usize,
    },
}

/// Maximum number of draws of failing links until all hosts are joined.
const DRAWS_MAX: usize = 1_000;
/// Maximum number of switches that an error lists.
const LISTED: usize = 8;

impl Fabric {
    /// Takes down links between switches, each given by the names of the switches at its ends, such as `("S0", "L3")`, in either order.
    ///
    /// A pair means all links between the two. A number after the second name selects a single one, as in the ports' names:
    /// `("S0", "L3.1")`. A link that is down stays down.
    ///
    /// # Errors
    /// For the first link that does not exist; then none is taken down. A host's only link can't fail.
    pub fn fail(&mut self, links: &[(&str, &str)]) -> Result<(), LinkNameError> {
        let mut failed = Vec::new();
        for (one, other) in links {
            failed.extend(self.links_named(one, other)?);
        }
        failed.into_iter().for_each(|link| self.links[link].is_up = false);
        Ok(())
    }

    /// Takes down each up link between switches with this probability. Draws that cut hosts off from each other are repeated with the
    /// seed's next random numbers.
    ///
    /// # Errors
    /// All of a thousand draws cut hosts off; then no link is taken down.
    pub(crate) fn fail_at_random(&mut self, probability: f64, seed: u64) -> Result<(), Unreachable> {
        let mut rng = Rng::stream(seed, 0);
        let mut draws_left = DRAWS_MAX;
        loop {
            let mut drawn = self.clone();
            for link in &mut drawn.links {
                // Drawn for links that are down too: links named elsewhere do not change the failures of others.
                let fails = rng.unit() <= probability;
                link.is_up &= !fails;
            }
            draws_left -= 1;
            match Routes::shortest(&drawn) {
                Ok(_) => {
                    *self = drawn;
                    return Ok(());
                }
                Err(unreachable) if draws_left == 0 => return Err(unreachable),
                Err(_) => {}
            }
        }
    }

    /// Returns the indices of the links of these names.
    fn links_named(&self, one: &str, other: &str) -> Result<Vec<usize>, LinkNameError> {
        // Names of nodes contain no full stop.
        let (other, number) = other.split_once('.').map_or((other, None), |(name, number)| (name, Some(number)));
        let (from, to) = (self.switch_named(one)?, self.switch_named(other)?);
        let links = self.links_between(from, to);
        if links.is_empty() {
            let joined = self.joined_with(from);
            return Err(LinkNameError::NotJoined { one: one.to_owned(), other: other.to_owned(), joined });
        }
        let Some(number) = number else { return Ok(links) };
        let chosen = number.parse().ok().and_then(|number: usize| links.get(number).copied());
        let missing = || LinkNameError::NoNumber {
            one: one.to_owned(),
            other: other.to_owned(),
            number: number.to_owned(),
            count: links.len(),
        };
        Ok(vec![chosen.ok_or_else(missing)?])
    }

    fn switch_named(&self, name: &str) -> Result<usize, LinkNameError> {
        self.switch(name).ok_or_else(|| LinkNameError::NoSwitch { name: name.to_owned(), help: self.help_with(name) })
    }

    /// Returns the fix for a name that no switch has.
    fn help_with(&self, name: &str) -> String {
        if self.host(name).is_some() {
            return "it is a host, and a host's link can't fail".to_owned();
        }
        let names = || self.switches.iter().map(|switch| switch.name.as_str());
        if let Some(meant) = names().find(|known| known.eq_ignore_ascii_case(name)) {
            return format!("write {meant}");
        }
        // Links of the same tier, or else all.
        let tier = |name: &str| name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_ascii_lowercase();
        let mut near: Vec<&str> = names().filter(|known| tier(known) == tier(name)).collect();
        if near.is_empty() {
            near = names().collect();
        }
        if near.is_empty() { "the fabric has none".to_owned() } else { format!("there are {}", listed(&near)) }
    }

    /// Returns the names of a switch's neighbours.
    fn joined_with(&self, switch: usize) -> String {
        let peer = |ends: [usize; 2]| ends.iter().position(|end| *end == switch).map(|end| ends[1 - end]);
        let peers = self.links.iter().filter_map(|link| peer(link.ends.map(|end| end.switch)));
        let mut names: Vec<&str> = Vec::new();
        for name in peers.map(|peer| self.switches[peer].name.as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() { "no switch".to_owned() } else { listed(&names) }
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED { format!("{shown} and {} more", names.len() - LISTED) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTree, LeafSpine};

    fn down(fabric: &Fabric) -> Vec<usize> {
        (0..fabric.links.len()).filter(|link| !fabric.links[*link].is_up).collect()
    }

    #[test]
    fn links_fail_by_the_names_of_their_ends() {
        // L0-S0, L0-S1, L1-S0, ...
        let mut fabric = LeafSpine::dsh_deadlock().fabric().unwrap();
        fabric.fail(&[("S0", "L3"), ("L0", "S1")]).unwrap();
        assert_eq!(down(&fabric), [1, 6]);
        fabric.fail(&[("L3", "S0")]).unwrap();
        assert_eq!(down(&fabric), [1, 6]);
    }

    /// Frequencies in 10,000 draws, five standard deviations wide: 32 links fail with probability 0.05 each, and one draw in 51 cuts
    /// hosts off.
    #[test]
    fn links_fail_by_chance() {
        let intact = FatTree::gfc(4).fabric().unwrap();
        let drawn = |seed: u64| {
            let mut fabric = intact.clone();
            fabric.fail_at_random(0.05, seed).unwrap();
            fabric
        };
        let draws: Vec<Fabric> = (1..=2_000).map(drawn).collect();
        let failed = draws.iter().map(|fabric| down(fabric).len()).sum::<usize>() as f64 / 2_000.0;
        // 1.6 of all networks, and a little less of those that hold together.
        assert!((1.40..1.65).contains(&failed), "{failed}");
        let of_first = |fabric: &&Fabric| !fabric.links[0].is_up;
        let first = draws.iter().filter(of_first).count();
        assert!((40..160).contains(&first), "{first}");
        assert!(draws.iter().all(|fabric| Routes::shortest(fabric).is_ok()));
        assert_eq!(down(&drawn(3)), down(&draws[2]));
        assert!((1..=20).any(|seed| down(&drawn(seed)) != down(&drawn(seed + 1))));
    }

    #[test]
    fn what_falls_apart_is_drawn_anew_and_refused_at_last() {
        let mut fabric = LeafSpine::dsh_deadlock().fabric().unwrap();
        let before = fabric.clone();
        let refused = fabric.fail_at_random(1.0, 1).unwrap_err().to_string();
        assert!(refused.starts_with("no path joins H0 and "), "{refused}");
        assert_eq!(down(&fabric), down(&before));
        // Links that are named stay down.
        fabric.fail(&[("S0", "L3")]).unwrap();
        fabric.fail_at_random(0.0, 1).unwrap();
        assert_eq!(down(&fabric), [6]);
    }

    #[test]
    fn parallel_links_fail_together_or_by_number() {
        let parallel = LeafSpine { parallel: 3, ..LeafSpine::dsh_deadlock() }.fabric().unwrap();
        let mut fabric = parallel.clone();
        fabric.fail(&[("S1", "L0.1")]).unwrap();
        assert_eq!(down(&fabric), [4]);
        let end = fabric.links[4].ends[1];
        assert_eq!(fabric.place_names(&[end]), ["S1.to-L0.1"]);
        let mut fabric = parallel;
        fabric.fail(&[("S1", "L0")]).unwrap();
        assert_eq!(down(&fabric), [3, 4, 5]);
        let refused = fabric.fail(&[("S1", "L1"), ("S1", "L0.3")]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "3 links join S1 and L0, numbered from 0, and none is 3: write a lower number or none"
        );
        assert_eq!(down(&fabric), [3, 4, 5], "none of them is taken down");
    }

    #[test]
    fn links_that_there_are_not_are_refused_with_what_there_is() {
        let mut fabric = FatTree::gfc(4).fabric().unwrap();
        let mut refused = |one, other| fabric.fail(&[(one, other)]).unwrap_err().to_string();
        assert_eq!(refused("SC1", "SA2"), "no link joins SC1 and SA2: SC1 is joined with SA1, SA3, SA5, SA7");
        assert_eq!(refused("SC1", "sa1"), "there is no switch sa1: write SA1");
        assert_eq!(refused("H3", "SE2"), "there is no switch H3: it is a host, and a host's link can't fail");
        let known = "there is no switch SC5: there are SC1, SC2, SC3, SC4";
        assert_eq!(refused("SC5", "SE2"), known);
        let unknown = refused("core-router", "SE2");
        assert!(unknown.ends_with("there are SE1, SE2, SE3, SE4, SE5, SE6, SE7, SE8 and 12 more"), "{unknown}");
    }
}
