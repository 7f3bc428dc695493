//! Priority groups and queues of a run's frames on their paths. A PFC frame names a priority, and its receiver pauses the egress queue of
//! that number: a lossless frame must leave a switch by the queue whose number is the priority group in which the neighbour receives it.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{ClassMap, ConfigErrors};
use weir_flowctl::MessageKind;
use weir_units::Class;
use weir_wire::rocev2::Dscp;

use super::build::Build;
use super::routing::Routing;
use super::run_diagnostics::RunDiagnostics;
use crate::scenario::{HostPlan, LinkPeer, PortRef};

/// Frames of one DSCP from a host, or a port of it, to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathFrames {
    pub from: usize,
    pub to: usize,
    pub dscp: Dscp,
}

/// Search along the paths.
struct LosslessPaths<'b, 'p> {
    build: &'b Build<'p>,
    routing: &'b Routing<'p>,
    peers: BTreeMap<PortRef, LinkPeer>,
    /// Ports at which frames of a DSCP for a host arrive.
    visited: BTreeSet<(PortRef, usize, Dscp)>,
    /// Queue by which frames of a DSCP leave for a host, with the ingress port of the first ones.
    to_hosts: BTreeMap<(usize, Dscp), (Class, PortRef)>,
}

/// Returns whether every frame of these DSCPs has a priority group and a queue of one number at all ports of the switches, so that no path
/// needs to be followed.
pub(super) fn have_one_number(build: &Build<'_>, dscps: &BTreeSet<Dscp>) -> bool {
    let all: Vec<&ClassMap> =
        build.switches.distinct().flat_map(|(_, config)| config.class_maps().map(|(map, _)| map)).collect();
    let numbers = |map: &ClassMap, dscp: &Dscp| {
        let class = usize::from(map.dscp[usize::from(dscp.get())]);
        [map.group[class], map.queue[class]]
    };
    dscps.iter().all(|dscp| {
        let first = all.first().map_or(0, |map| numbers(map, dscp)[0]);
        all.iter().all(|map| numbers(map, dscp) == [first; 2])
    })
}

/// Follows frames along their paths, and sets the priorities by which their hosts pause them. Reports the first lossless frame that a switch
/// sends by another queue than that which its neighbour pauses.
pub(super) fn follow(
    build: &Build<'_>,
    routing: &Routing<'_>,
    frames: impl IntoIterator<Item = PathFrames>,
    hosts: &mut [HostPlan],
    diagnostics: &mut RunDiagnostics,
) {
    let mut paths =
        LosslessPaths { build, routing, peers: peers(build), visited: BTreeSet::new(), to_hosts: BTreeMap::new() };
    for frames in frames {
        if let Err((switch, errors)) = paths.follow(frames, hosts) {
            // Other frames mostly have the same error.
            return build.refuse_of_switch(switch, errors, diagnostics);
        }
    }
    for ((host, dscp), (queue, _)) in paths.to_hosts {
        hosts[host].nic.queue_of_dscp[usize::from(dscp.get())] = queue.number();
    }
}

/// Returns the far ends of the ports' links.
fn peers(build: &Build<'_>) -> BTreeMap<PortRef, LinkPeer> {
    let topology = &build.plan.topology;
    let hosts = topology.hosts.iter().enumerate().map(|(n, host)| (build.place(&host.port), LinkPeer::Host(n)));
    let links = topology.links.iter().flat_map(|link| {
        let [one, other] = link.ends.each_ref().map(|end| build.place(end));
        [(one, LinkPeer::Port(other)), (other, LinkPeer::Port(one))]
    });
    hosts.chain(links).collect()
}

impl LosslessPaths<'_, '_> {
    /// Follows frames from their sender's port on. An error is of a switch.
    fn follow(&mut self, frames: PathFrames, hosts: &[HostPlan]) -> Result<(), (usize, ConfigErrors)> {
        let PathFrames { from, to, dscp } = frames;
        let mut arrivals = vec![hosts[from].place()];
        while let Some(at) = arrivals.pop() {
            if !self.visited.insert((at, to, dscp)) {
                continue;
            }
            for port in self.routing.ports(at.switch, to) {
                let leaves = PortRef { switch: at.switch, port };
                match self.peers.get(&leaves).copied() {
                    Some(LinkPeer::Host(host)) => self.check_host(at, &hosts[host], host, dscp)?,
                    Some(LinkPeer::Port(next)) => {
                        self.check_link([at, leaves, next], dscp)?;
                        arrivals.push(next);
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Checks that frames that came by the port `at` leave for the port `next` by the queue that this pauses.
    fn check_link(&self, [at, leaves, next]: [PortRef; 3], dscp: Dscp) -> Result<(), (usize, ConfigErrors)> {
        let [here, there] = [at, next].map(|end| self.build.config(end.switch));
        // PAUSE stops all queues.
        let kind = here.ports[leaves.port].flow_control.message_kind();
        if matches!(kind, MessageKind::Nothing | MessageKind::Pause) {
            return Ok(());
        }
        let [map, next_map] = [here.class_map(at.port), there.class_map(next.port)];
        let point = usize::from(dscp.get());
        let [class, next_class] = [map, next_map].map(|map| usize::from(map.dscp[point]));
        let (group, queue, next_group) = (map.group[class], map.queue[class], next_map.group[next_class]);
        let is_lossless = here.classes.lossless.contains(Class::new(group))
            && there.classes.lossless.contains(Class::new(next_group));
        if !is_lossless || queue == next_group {
            return Ok(());
        }
        let [from, by, to] =
            [(here, at), (here, leaves), (there, next)].map(|(config, end)| config.ports[end.port].name.as_str());
        let (name, next_name) = (&here.name, &there.name);
        let message = format!(
            "frames of DSCP {point} from port {from} leave {name}.{by} by queue {queue}, and {next_name}.{to} receives them in the lossless \
             priority group {next_group}: its PFC pauses queue {next_group}, and they are lost"
        );
        let help = format!(
            "write tc_to_queue = {{ {class} = {next_group} }} for {name}, or tc_to_pg = {{ {next_class} = {queue} }} for {next_name}"
        );
        let (end, config, key) = match () {
            () if queue != group => (at, here, "tc_to_queue"),
            () if next_class != usize::from(next_group) => (next, there, "tc_to_pg"),
            () => (next, there, "dscp"),
        };
        Err((end.switch, config.error_at(&config.class_map_key(end.port, &[key]), message, help)))
    }

    /// Records the queue by which frames that came by the port `at` leave for a host. A host knows a frame's queue by its DSCP alone.
    fn check_host(
        &mut self,
        at: PortRef,
        plan: &HostPlan,
        host: usize,
        dscp: Dscp,
    ) -> Result<(), (usize, ConfigErrors)> {
        let config = self.build.config(at.switch);
        let class = usize::from(config.class_map(at.port).dscp[usize::from(dscp.get())]);
        let queue = Class::new(config.class_map(at.port).queue[class]);
        let (first, first_at) = *self.to_hosts.entry((host, dscp)).or_insert((queue, at));
        let pauses = match plan.nic.flow_control.message_kind() {
            MessageKind::Nothing | MessageKind::Pause => false,
            MessageKind::Pfc => plan.nic.receive.is_some(),
            _ => true,
        };
        let is_lossless = [first, queue].iter().any(|queue| config.classes.lossless.contains(*queue));
        if first == queue || !pauses || !is_lossless {
            return Ok(());
        }
        let [one, other] = [first_at, at].map(|at| &config.ports[at.port].name);
        let message = format!(
            "frames of DSCP {} leave {} for host {} by queue {} if they come from port {one}, and by queue {} from port {other}: the host \
             can't pause both",
            dscp.get(),
            config.name,
            plan.name,
            first.number(),
            queue.number(),
        );
        let help = format!("write tc_to_queue = {{ {class} = {} }} for port {other}", first.number());
        let key = config.class_map_key(at.port, &["tc_to_queue", "dscp"]);
        Err((at.switch, config.error_at(&key, message, help)))
    }
}
