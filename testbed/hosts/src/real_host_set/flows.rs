//! Flows of real hosts as commands of perftest and iperf3.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_nic::host::{Repeat, TelemetryMode, Transport};
use weir_scenario::workload::MessageGraph;
use weir_scenario::{FlowPlan, FlowTool, HostBackend, PerfTest, Scenario};
use weir_units::BitRate;

use crate::HostError;
use crate::iperf3::{self, Iperf3Flow};
use crate::perftest::{self, Extent, PerftestFlow};
use crate::probe::ProbeResult;

use super::FlowResult;

/// First TCP port of perftest, and of iperf3; each flow has the next one.
const PERFTEST_PORT: u16 = 18_515;
const IPERF3_PORT: u16 = 5_201;
/// Longest time of a program beyond its sending time.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(90);
/// Lower bound of a host's rate, to derive a timeout from a size.
const SLOWEST: BitRate = BitRate::mbps(1);

/// Rejects flows that real hosts can't send.
pub(super) fn refuse(scenario: &Scenario) -> Result<(), HostError> {
    let wrong = |message: String| Err(HostError::Scenario(message));
    let name = |host: usize| &scenario.hosts[host].name;
    for (n, flow) in scenario.flows.iter().enumerate() {
        let of_flow = &flow.name;
        let tool = scenario.tool(n);
        if tool.test == PerfTest::SendLat && tool.queue_pairs > 1 && !flow.config.transport.is_tcp() {
            return wrong(format!("flow {of_flow}: ib_send_lat has one queue pair; take `qps` out"));
        }
        let real = [flow.from, flow.to].map(|host| scenario.is_real(host));
        if real == [false, false] {
            continue;
        }
        if real[0] != real[1]
            && let Some(why) = refused_with_emulated(scenario, n)
        {
            let [emulated, real] = if real[0] { [flow.to, flow.from] } else { [flow.from, flow.to] };
            return wrong(format!(
                "flow {of_flow}: host {} is emulated and host {} is real, {why}",
                name(emulated),
                name(real)
            ));
        }
        if !real[0] {
            continue;
        }
        let is_tcp = matches!(flow.config.transport, Transport::Tcp(_));
        if let Repeat::Every(_) = flow.config.repeat {
            return wrong(format!(
                "flow {of_flow}: perftest and iperf3 send without a pause; take `every` out, or make its hosts emulated"
            ));
        }
        if !is_tcp && flow.config.rate.is_some() {
            return wrong(format!("flow {of_flow}: perftest's pace needs a NIC that has one; take `rate` out"));
        }
        if real[1] && !flow.config.congestion_control.is_none() {
            return wrong(format!(
                "flow {of_flow}: real hosts send with the congestion control of their NICs; write congestion_control = \"none\""
            ));
        }
    }
    for traffic in &scenario.traffic {
        let mut of_messages = traffic.before(scenario.end).iter().flat_map(|message| [message.from, message.to]);
        if let Some(real) = of_messages.find(|host| scenario.is_real(*host as usize)) {
            return wrong(format!(
                "workload {}: host {} is real, and real hosts send flows and dependent messages only: name emulated hosts in `senders` and `receivers`",
                traffic.name,
                name(real as usize)
            ));
        }
        let ranks = || traffic.graph().into_iter().flat_map(MessageGraph::ranks).map(|rank| rank.host as usize);
        let Some(real) = ranks().find(|host| scenario.is_real(*host)) else { continue };
        let (wanted, their_own) = match backend(scenario, real) {
            Some(HostBackend::Vm { .. }) => {
                ("vm", "ranks in guests send by Soft-RoCE, which has no congestion control")
            }
            Some(HostBackend::Netns) => {
                ("netns", "ranks in namespaces send over TCP, with the kernel's congestion control")
            }
            Some(HostBackend::Ssh { .. }) | None => {
                return wrong(format!(
                    "workload {}: rank {} is on a machine reached by ssh; write backend = \"vm\" or \"netns\" for all ranks, or emulate all",
                    traffic.name,
                    name(real)
                ));
            }
        };
        if let Some(other) = ranks().find(|host| backend(scenario, *host).is_none_or(|other| other.name() != wanted)) {
            return wrong(format!(
                "workload {}: rank {} is on a real host, and rank {} on none with backend = \"{wanted}\": write it for all ranks, or emulate all",
                traffic.name,
                name(real),
                name(other)
            ));
        }
        if !traffic.congestion_control.is_none() {
            return wrong(format!("workload {}: {their_own}; take `congestion_control` out", traffic.name));
        }
    }
    Ok(())
}

fn backend(scenario: &Scenario, host: usize) -> Option<&HostBackend> {
    Some(&scenario.real.as_ref()?.hosts[host].as_ref()?.backend)
}

/// Returns the reason why a flow between an emulated and a real host is unsupported, if it is.
fn refused_with_emulated(scenario: &Scenario, n: usize) -> Option<String> {
    let (flow, tool) = (&scenario.flows[n], scenario.tool(n));
    let perftest = tool.test.name();
    if flow.config.transport.is_tcp() {
        return Some("and TCP has frames between two of a kind only: give both `backend`, or neither".to_owned());
    }
    match tool.test {
        PerfTest::WriteBw => {}
        PerfTest::SendBw if scenario.is_real(flow.from) => {}
        // The server of ib_send_bw counts messages, or the time from the first message on.
        PerfTest::SendBw => {
            let Some(total) = flow.config.total else {
                return Some("and ib_send_bw of an emulated host ends after so many bytes: write `total`".to_owned());
            };
            if total.get().div_ceil(flow.config.message.get()) < perftest::MESSAGES_MIN {
                let least = perftest::MESSAGES_MIN;
                return Some(format!("and ib_send_bw takes {least} messages or more: write a larger `total`"));
            }
        }
        PerfTest::ReadBw => {
            let take = format!("take perftest = \"{perftest}\" out");
            return Some(format!("and emulated hosts neither ask for READs nor answer them: {take}"));
        }
        PerfTest::SendLat => {
            let take = format!("take perftest = \"{perftest}\" out");
            return Some(format!("and emulated hosts have no program that answers a message with a message: {take}"));
        }
    }
    if tool.queue_pairs > 1 {
        return Some("and an emulated host has one queue pair a flow: take `qps` out".to_owned());
    }
    let control = &flow.config.congestion_control;
    (control.telemetry() != TelemetryMode::None).then(|| {
        let name = control.name();
        format!(
            "and {name} needs an echo that real NICs do not send: take `congestion_control` out, or write \"dcqcn\""
        )
    })
}

/// Flow sent by a program.
#[derive(Clone, Debug)]
pub(super) struct FlowTask {
    pub number: usize,
    pub name: String,
    /// Host that runs the client: the sender, except for READs, which the receiver requests.
    pub client: usize,
    pub server: usize,
    /// Address of the server.
    pub server_ip: Ipv4Addr,
    pub port: u16,
    /// Start after the scenario's start, in real time.
    pub starts_after: Duration,
    /// Timeout of the program.
    pub within: Duration,
    program: Program,
    extent: Extent,
    message: u64,
    traffic_class: u8,
    pub dilation: u32,
}

#[derive(Clone, Debug)]
enum Program {
    Perftest(FlowTool),
    Iperf3 { control: &'static str, rate_bps: Option<u64> },
}

/// Returns the flows of a scenario that real hosts send or receive.
pub(super) fn tasks(scenario: &Scenario) -> Vec<FlowTask> {
    let is_real = |flow: &FlowPlan| scenario.is_real(flow.from) || scenario.is_real(flow.to);
    let of_real = scenario.flows.iter().enumerate().filter(|(_, flow)| is_real(flow));
    of_real.map(|(n, flow)| task(scenario, n, flow, scenario.tool(n))).collect()
}

/// Returns the TCP port at which the server of an RDMA flow listens.
pub fn perftest_port(flow: usize) -> u16 {
    PERFTEST_PORT + flow as u16
}

fn task(scenario: &Scenario, number: usize, flow: &FlowPlan, tool: FlowTool) -> FlowTask {
    let (config, dilation) = (&flow.config, scenario.time_dilation());
    let real = |span: weir_units::Span| Duration::from_nanos(span.as_nanos()) * dilation;
    let (message, stop) = (config.message.get(), config.stop.min(scenario.end));
    let pairs = u64::from(tool.queue_pairs);
    let extent = match config.total {
        Some(total) => Extent::Messages(total.get().div_ceil(message * pairs).max(1)),
        None => Extent::Seconds(real(stop.since(config.start)).as_secs_f64().round().max(1.0) as u64),
    };
    let sends = match extent {
        Extent::Messages(messages) => {
            let bits = u128::from(messages * message * pairs) * 8;
            Duration::from_secs((bits / u128::from(SLOWEST.as_bps())) as u64)
        }
        Extent::Seconds(seconds) => Duration::from_secs(seconds),
    };
    let (program, first, ect) = match &config.transport {
        Transport::Rdma => (Program::Perftest(tool), PERFTEST_PORT, perftest::ECT_0),
        Transport::Tcp(tcp) => {
            let rate_bps = config.rate.map(|rate| rate.as_bps() / u64::from(dilation));
            // Linux sets the ECN field itself.
            (Program::Iperf3 { control: linux_name(tcp.control.name()), rate_bps }, IPERF3_PORT, 0)
        }
    };
    let [client, server] = match program {
        Program::Perftest(FlowTool { test: PerfTest::ReadBw, .. }) => [flow.to, flow.from],
        _ => [flow.from, flow.to],
    };
    FlowTask {
        number,
        name: flow.name.clone(),
        client,
        server,
        server_ip: scenario.hosts[server].nic.ip,
        port: first + number as u16,
        starts_after: real(config.start.since(weir_units::Time::ZERO)),
        within: sends + TIMEOUT_MARGIN,
        program,
        extent,
        message,
        traffic_class: config.dscp.get() << 2 | ect,
        dilation,
    }
}

/// Returns Linux's name of a congestion control: `dctcp` for `tcp-dctcp`.
fn linux_name(name: &'static str) -> &'static str {
    name.strip_prefix("tcp-").unwrap_or(name)
}

impl FlowTask {
    fn dispatch<T>(
        &self,
        found: &ProbeResult,
        test: impl FnOnce(&PerftestFlow<'_>) -> T,
        transfer: impl FnOnce(&Iperf3Flow<'_>) -> T,
    ) -> T {
        let FlowTask { port, message, extent, traffic_class, dilation, .. } = *self;
        match &self.program {
            Program::Perftest(tool) => test(&PerftestFlow {
                tool: *tool,
                device: found.rdma.as_deref().unwrap_or("none"),
                gid: found.gid.unwrap_or(0),
                port,
                message,
                extent,
                traffic_class,
                dilation,
            }),
            Program::Iperf3 { control, rate_bps } => {
                transfer(&Iperf3Flow { control, port, extent, message, rate_bps: *rate_bps, traffic_class })
            }
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.program, Program::Iperf3 { .. })
    }

    pub(super) fn tool(&self) -> &'static str {
        match &self.program {
            Program::Perftest(tool) => tool.test.name(),
            Program::Iperf3 { .. } => "iperf3",
        }
    }

    /// Rejects a host without the flow's prerequisites.
    pub(super) fn refuse_without(&self, found: &ProbeResult) -> Result<(), String> {
        let more = "run weir testbed check --hosts for the command";
        if !found.has(self.tool()) {
            return Err(format!("flow {} needs {}, which is missing: {more}", self.name, self.tool()));
        }
        match &self.program {
            Program::Perftest(_) if found.rdma.is_none() || found.gid.is_none() => Err(format!(
                "flow {} needs an RDMA device with a GID of RoCEv2 for the host's address: {more}",
                self.name
            )),
            Program::Iperf3 { control, .. } if !found.tcp.iter().any(|known| known == control) => Err(format!(
                "flow {} needs TCP's {control}, and the kernel has {}: {more}",
                self.name,
                found.tcp.join(", ")
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn server(&self, found: &ProbeResult) -> String {
        self.dispatch(found, |test| test.command(None), |transfer| transfer.server())
    }

    pub(super) fn client(&self, found: &ProbeResult, server: &str) -> String {
        self.dispatch(found, |test| test.command(Some(server)), |transfer| transfer.client(server))
    }

    /// Parses the client's output.
    ///
    /// # Errors
    /// Reason why there is no result.
    pub(super) fn outcome(&self, output: &str) -> Result<FlowResult, String> {
        let slowed = u64::from(self.dilation);
        let mut outcome = FlowResult::default();
        outcome.tool.tool = self.tool().to_owned();
        match &self.program {
            Program::Perftest(_) => {
                let table = perftest::parse(output)?;
                outcome.messages = table.messages;
                outcome.sent = table.messages * table.message;
                outcome.received = outcome.sent;
                outcome.tool.rate_bps = table.rate_bps.map(|rate| rate * slowed);
                outcome.tool.times_ns = table.times_ns.into_iter().map(|(name, time)| (name, time / slowed)).collect();
            }
            Program::Iperf3 { .. } => {
                let transferred = iperf3::parse(output)?;
                (outcome.sent, outcome.received) = (transferred.sent, transferred.received);
                outcome.tool.rate_bps = Some(transferred.rate_bps * slowed);
                outcome.tool.retransmits = Some(transferred.retransmits);
                outcome.tool.times_ns =
                    transferred.mean_rtt.map(|rtt| ("mean rtt".to_owned(), rtt * 1_000 / slowed)).into_iter().collect();
            }
        }
        Ok(outcome)
    }
}
