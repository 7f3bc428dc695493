//! Link outages.

use weir_scenario::{LinkRef, Scenario};
use weir_units::Time;

use crate::Sim;

/// Pending and active outages of a scenario, and pending route changes.
#[derive(Debug)]
pub(super) struct Outages {
    /// Time at which a link goes down (`true`) or up, in reverse order.
    pending: Vec<(Time, LinkRef, bool)>,
    /// Time at which the wires of a link that retries are cut (`true`) or mended, in reverse order.
    wires: Vec<(Time, LinkRef, bool)>,
    /// Time at which all switches change to a set of routes, in reverse order.
    reroutings: Vec<(Time, usize)>,
    /// Links that are down, once per overlapping outage.
    cut: Vec<LinkRef>,
}

impl Outages {
    pub(super) fn new(scenario: &Scenario) -> Outages {
        let mut pending = scenario.link_changes();
        pending.reverse();
        let with_llr = scenario.outages.iter().filter(|outage| scenario.llr(outage.link).is_some());
        let changes = with_llr.flat_map(|outage| [(outage.at, outage.link, true), (outage.until, outage.link, false)]);
        let mut wires: Vec<_> = changes.collect();
        wires.sort_by_key(|(at, _, is_cut)| std::cmp::Reverse((*at, *is_cut)));
        let mut reroutings = scenario.reroutings().at;
        reroutings.reverse();
        Outages { pending, wires, reroutings, cut: Vec::new() }
    }

    /// Returns the time of the next link or route change; [`Time::NEVER`] if there is none.
    pub(super) fn next(&self) -> Time {
        let rerouted = self.reroutings.last().map_or(Time::NEVER, |(at, _)| *at);
        let changes = [&self.pending, &self.wires].map(|all| all.last().map_or(Time::NEVER, |(at, ..)| *at));
        changes[0].min(changes[1]).min(rerouted)
    }

    /// Applies route changes due by now; returns whether there were any.
    pub(super) fn reroute(&mut self, sim: &mut Sim) -> bool {
        let mut set = None;
        while let Some((_, next)) = self.reroutings.pop_if(|(at, _)| *at <= sim.now()) {
            set = Some(next);
        }
        set.into_iter().for_each(|set| sim.use_routes(set));
        set.is_some()
    }

    /// Applies outages due by now; returns each link that went down or up.
    pub(super) fn apply(&mut self, scenario: &Scenario, sim: &mut Sim) -> Vec<(LinkRef, bool)> {
        let mut changed = Vec::new();
        while let Some((_, link, is_cut)) = self.wires.pop_if(|(at, ..)| *at <= sim.now()) {
            sim.set_wires_up(scenario, link, !is_cut);
            changed.push((link, !is_cut));
        }
        while let Some((_, link, is_cut)) = self.pending.pop_if(|(at, ..)| *at <= sim.now()) {
            let was_up = !self.cut.contains(&link);
            if is_cut {
                self.cut.push(link);
            } else if let Some(place) = self.cut.iter().position(|down| *down == link) {
                self.cut.remove(place);
            }
            let is_up = !self.cut.contains(&link);
            if is_up != was_up {
                match link {
                    LinkRef::Between(link) => sim.set_link_up(scenario, link, is_up),
                    LinkRef::ToHost(host) => sim.set_host_link_up(scenario, host, is_up),
                }
                if scenario.llr(link).is_none() {
                    changed.push((link, is_up));
                }
            }
        }
        changed
    }
}
