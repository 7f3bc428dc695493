//! Check of real hosts' prerequisites for a scenario, with the command that fixes each problem.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use weir_nic::host::Transport;
use weir_scenario::{HostBackend, RealPlan, Scenario};

use crate::access::Access;
use crate::host::Host;
use crate::probe::ProbeResult;

/// Result of checking one prerequisite of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFinding {
    /// Name of the host.
    pub host: String,
    /// Prerequisite, as `DSCP trust`.
    pub what: String,
    /// Value found.
    pub found: String,
    /// Status of the prerequisite.
    pub verdict: FindingStatus,
    /// Command that fixes the problem.
    pub command: Option<String>,
}

/// Status of a prerequisite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    /// The prerequisite is met.
    Good,
    /// The scenario does not run, or not as intended.
    Bad,
    /// The value can't be determined.
    Unknown,
}

/// Prerequisites of a host's flows.
struct Needs {
    tools: Vec<&'static str>,
    tcp: Vec<String>,
    is_rdma: bool,
    /// Lossless classes of the host's flows, each with its DSCP.
    lossless: Vec<(u8, u8)>,
    mtu: u64,
}

/// Overhead of a RoCEv2 frame in bytes: headers and ICRC.
const ROCE_OVERHEAD: u64 = 60;

/// Checks all real hosts of a scenario. Guests are not booted: their image has all prerequisites.
pub fn check_hosts(scenario: &Scenario, real: &RealPlan, folder: &Path) -> Vec<HostFinding> {
    let mut findings = Vec::new();
    for (n, host) in scenario.hosts.iter().enumerate() {
        let Some(plan) = &real.hosts[n] else { continue };
        let needs = needs(scenario, real, n);
        let mut writer = FindingsWriter { host: &host.name, findings: &mut findings };
        match &plan.backend {
            HostBackend::Vm { memory_mb, .. } => guest(&mut writer, *memory_mb),
            HostBackend::Netns => namespace(&mut writer, &needs),
            HostBackend::Ssh { target, .. } => {
                let access = Access::Ssh { target: target.clone(), control: folder.join(format!("check{n}")) };
                let machine = Host::new(&host.name, plan, access, host.nic.ip);
                match machine.probe(&Arc::new(AtomicBool::new(false))) {
                    Err(error) => {
                        writer.bad(
                            "reached by ssh",
                            error.to_string(),
                            Some(format!("ssh -o BatchMode=yes {target} true   # until it works")),
                        );
                    }
                    Ok(found) => over_ssh(&mut writer, &needs, &machine, target, &found),
                }
            }
        }
    }
    findings
}

fn needs(scenario: &Scenario, real: &RealPlan, host: usize) -> Needs {
    let config = &scenario.switches[scenario.hosts[host].switch];
    let mut needs =
        Needs { tools: vec!["ip", "timeout"], tcp: Vec::new(), is_rdma: false, lossless: Vec::new(), mtu: 0 };
    for (n, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.from == host || flow.to == host) {
        match &flow.config.transport {
            Transport::Tcp(tcp) => {
                needs.tools.extend(["iperf3", "ss", "nstat"]);
                let control = tcp.control.name();
                needs.tcp.push(control.strip_prefix("tcp-").unwrap_or(control).to_owned());
                needs.mtu = needs.mtu.max(1_500);
            }
            Transport::Rdma => {
                needs.is_rdma = true;
                needs.tools.extend([real.flows[n].test.name(), "rdma", "nstat"]);
                needs.mtu = needs.mtu.max(u64::from(scenario.hosts[host].nic.sizes.payload_max) + ROCE_OVERHEAD);
            }
        }
        if config.classes.lossless.contains(flow.config.class) {
            needs.lossless.push((flow.config.class.index() as u8, flow.config.dscp.get()));
        }
    }
    needs.tools.sort_unstable();
    needs.tools.dedup();
    needs.tcp.sort();
    needs.tcp.dedup();
    needs.lossless.sort_unstable();
    needs.lossless.dedup();
    needs
}

struct FindingsWriter<'a> {
    host: &'a str,
    findings: &'a mut Vec<HostFinding>,
}

impl FindingsWriter<'_> {
    fn add(&mut self, what: &str, found: impl Into<String>, verdict: FindingStatus, command: Option<String>) {
        let (host, what, found) = (self.host.to_owned(), what.to_owned(), found.into());
        self.findings.push(HostFinding { host, what, found, verdict, command });
    }

    fn good(&mut self, what: &str, found: impl Into<String>) {
        self.add(what, found, FindingStatus::Good, None);
    }

    fn bad(&mut self, what: &str, found: impl Into<String>, command: Option<String>) {
        self.add(what, found, FindingStatus::Bad, command);
    }

    /// Checks programs; the fix installs their packages.
    fn programs(&mut self, wanted: &[&'static str], has: impl Fn(&str) -> bool, before: &str) {
        let missing: Vec<&str> = wanted.iter().copied().filter(|program| !has(program)).collect();
        if missing.is_empty() {
            return self.good("programs", wanted.join(", "));
        }
        let mut packages: Vec<&str> = missing.iter().map(|program| package_of(program)).collect();
        packages.sort_unstable();
        packages.dedup();
        self.bad(
            "programs",
            format!("no {}", missing.join(", ")),
            Some(format!("{before}apt-get install {}", packages.join(" "))),
        );
    }
}

fn package_of(program: &str) -> &'static str {
    match program {
        "iperf3" => "iperf3",
        "ethtool" => "ethtool",
        "timeout" => "coreutils",
        "ip" | "ss" | "rdma" | "nstat" => "iproute2",
        "python3" => "python3-minimal",
        "apt-get" | "apt-cache" => "apt",
        "dpkg-deb" => "dpkg",
        "setpriv" => "util-linux",
        _ => "perftest",
    }
}

fn is_here(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&folders).chain(["/usr/sbin".into(), "/sbin".into()]);
    all.into_iter().any(|folder| folder.join(program).is_file())
}

fn guest(writer: &mut FindingsWriter<'_>, memory_mb: u64) {
    writer.programs(&["python3", "apt-get", "apt-cache", "dpkg-deb", "setpriv"], is_here, "");
    match crate::guest::refuse_more_than_fits(1, memory_mb) {
        Ok(()) => writer.good("memory", format!("{memory_mb} MB")),
        Err(error) => writer.bad("memory", error.to_string(), None),
    }
    match std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => writer.good("/dev/kvm", "present; guests are emulated if none boots with it"),
        Err(error) => writer.add(
            "/dev/kvm",
            format!("{error}: the guest is emulated, and sends about 0.1 Gb/s"),
            FindingStatus::Good,
            None,
        ),
    }
    writer.good("the rest", "in the image that weir vm image makes");
}

fn namespace(writer: &mut FindingsWriter<'_>, needs: &Needs) {
    let mut tools = needs.tools.clone();
    tools.extend(["ethtool"]);
    writer.programs(&tools, is_here, "");
    if rustix::process::geteuid().is_root() {
        writer.good("rights", "root");
    } else {
        writer.bad("rights", "a namespace needs root", Some("sudo weir testbed run …".to_owned()));
    }
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let known: Vec<String> = known.split_whitespace().map(str::to_owned).collect();
    controls(writer, needs, &known, "");
    if needs.is_rdma {
        match Path::new("/sys/module/rdma_rxe").exists() {
            true => writer.good("Soft-RoCE", "loaded"),
            false => {
                writer.bad(
                    "Soft-RoCE",
                    "not loaded; in a namespace rxe needs Linux 6.12 or newer: a guest (`vm`) has it",
                    Some("modprobe rdma_rxe".into()),
                );
            }
        }
    }
}

fn controls(writer: &mut FindingsWriter<'_>, needs: &Needs, known: &[String], before: &str) {
    for control in &needs.tcp {
        match known.contains(control) {
            true => writer.good(&format!("TCP {control}"), "there"),
            false => writer.bad(
                &format!("TCP {control}"),
                format!("the kernel has {}", known.join(", ")),
                Some(format!("{before}modprobe tcp_{control}")),
            ),
        }
    }
}

fn over_ssh(writer: &mut FindingsWriter<'_>, needs: &Needs, host: &Host, target: &str, found: &ProbeResult) {
    let at = format!("ssh {target} ");
    let name = &host.interface;
    writer.good("reached by ssh", format!("Linux {}", found.kernel));
    if !found.is_root {
        writer.bad(
            "rights",
            "neighbour entries and counters need root",
            Some(format!("# write to = \"root@…\" for {target}")),
        );
    }
    writer.programs(&needs.tools, |program| found.has(program), &at);
    let Some(interface) = &found.interface else {
        return writer.bad(
            "interface",
            format!("there is no {name}"),
            Some(format!("{at}ip -br link   # and write `interface`")),
        );
    };
    match interface.state.as_str() {
        "down" => writer.bad("interface", format!("{name} is down"), Some(format!("{at}ip link set {name} up"))),
        state => writer.good("interface", format!("{name} {state}, {}", interface.mac)),
    }
    match interface.mtu >= needs.mtu {
        true => writer.good("MTU", interface.mtu.to_string()),
        false => writer.bad(
            "MTU",
            format!("{} B, and frames of the flows carry {} B", interface.mtu, needs.mtu),
            Some(format!("{at}ip link set {name} mtu {}", needs.mtu.max(1_500))),
        ),
    }
    address(writer, found, host.ip, name, &at);
    controls(writer, needs, &found.tcp, &at);
    if !needs.tcp.is_empty() {
        match found.tcp_ecn {
            Some(1) => writer.good("TCP with ECN", "requested and accepted"),
            other => writer.bad(
                "TCP with ECN",
                format!(
                    "tcp_ecn = {}: switches drop its frames instead of marking them",
                    other.map_or("?".into(), |ecn| ecn.to_string())
                ),
                Some(format!("{at}sysctl -w net.ipv4.tcp_ecn=1")),
            ),
        }
    }
    if needs.is_rdma {
        rdma(writer, needs, found, host.ip, name, &at);
    }
    for (class, dscp) in &needs.lossless {
        priority(writer, found, name, &at, *class, *dscp);
    }
}

fn address(writer: &mut FindingsWriter<'_>, found: &ProbeResult, ip: Ipv4Addr, name: &str, at: &str) {
    if found.addresses.contains(&ip) {
        return writer.good("address", ip.to_string());
    }
    let has: Vec<String> = found.addresses.iter().map(Ipv4Addr::to_string).collect();
    let has = if has.is_empty() { "no address".to_owned() } else { has.join(", ") };
    writer.bad(
        "address",
        format!("{name} has {has}, not {ip}"),
        Some(format!("{at}ip address add {ip}/24 dev {name}")),
    );
}

fn rdma(writer: &mut FindingsWriter<'_>, needs: &Needs, found: &ProbeResult, ip: Ipv4Addr, name: &str, at: &str) {
    let Some(device) = &found.rdma else {
        let (found, command) = match found.has_rxe {
            true => (
                format!("none on {name}; Soft-RoCE is loaded"),
                format!("{at}rdma link add rxe0 type rxe netdev {name}"),
            ),
            false => (
                format!("none on {name}"),
                format!(
                    "{at}modprobe mlx5_ib   # or Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {name}"
                ),
            ),
        };
        return writer.bad("RDMA device", found, Some(command));
    };
    writer.good("RDMA device", device);
    match found.gid {
        Some(gid) => writer.good("GID", format!("index {gid}, RoCEv2, {ip}")),
        None => writer.bad(
            "GID",
            format!("none of RoCEv2 for {ip} on {device}"),
            Some(format!("{at}ip address add {ip}/24 dev {name}   # it brings the GID")),
        ),
    }
    if let Some(mtu) = found.active_mtu {
        let wanted = needs.mtu - ROCE_OVERHEAD;
        match mtu >= wanted {
            true => writer.good("RDMA MTU", mtu.to_string()),
            false => writer.bad(
                "RDMA MTU",
                format!("{mtu} B in a frame, and the scenario's hosts send {wanted}"),
                Some(format!("{at}ip link set {name} mtu {}", wanted + ROCE_OVERHEAD)),
            ),
        }
    }
}

/// Checks that the NIC maps the DSCP to the lossless class, and enables PFC for the class.
fn priority(writer: &mut FindingsWriter<'_>, found: &ProbeResult, name: &str, at: &str, class: u8, dscp: u8) {
    let what = "DSCP trust";
    match found.trusts_dscp {
        Some(true) => writer.good(what, format!("DSCP {dscp} maps to class {class}")),
        Some(false) => writer.bad(
            what,
            "the NIC trusts the VLAN priority: untagged frames are class 0, which PFC does not pause",
            Some(format!(
                "{at}mlnx_qos -i {name} --trust dscp   # or: dcb app add dev {name} dscp-prio {dscp}:{class}"
            )),
        ),
        None => writer.add(
            what,
            "neither mlnx_qos nor dcb shows it",
            FindingStatus::Unknown,
            Some(format!("{at}mlnx_qos -i {name}")),
        ),
    }
    let what = format!("PFC of class {class}");
    let classes: Vec<&str> = (0..8u8).map(|n| if n == class { "1" } else { "0" }).collect();
    let command = format!(
        "{at}mlnx_qos -i {name} --pfc {}   # or: dcb pfc set dev {name} prio-pfc all:off {class}:on",
        classes.join(",")
    );
    match &found.pfc {
        Some(on) if on.contains(&class) => writer.good(&what, "on"),
        Some(on) if on.is_empty() => writer.bad(&what, "off for all classes", Some(command)),
        Some(on) => writer.bad(&what, format!("on for {on:?} only"), Some(command)),
        None => writer.add(&what, "neither mlnx_qos nor dcb shows it", FindingStatus::Unknown, Some(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Interface;

    fn findings(found: &ProbeResult) -> Vec<HostFinding> {
        let needs = Needs {
            tools: vec!["ib_write_bw", "iperf3"],
            tcp: vec!["dctcp".into()],
            is_rdma: true,
            lossless: vec![(3, 26)],
            mtu: 1_084,
        };
        let plan = weir_scenario::RealHost {
            backend: HostBackend::Ssh { target: "root@s1".into(), interface: "ens1".into(), rdma: None, ip: None },
            has_nic_model: false,
        };
        let access = Access::Netns("never".into());
        let host = Host::new("H0", &plan, access, Ipv4Addr::new(10, 0, 0, 1));
        let mut all = Vec::new();
        over_ssh(&mut FindingsWriter { host: "H0", findings: &mut all }, &needs, &host, "root@s1", found);
        all
    }

    fn good() -> ProbeResult {
        ProbeResult {
            kernel: "6.1".into(),
            programs: vec!["ib_write_bw".into(), "iperf3".into()],
            interface: Some(Interface { state: "up".into(), mtu: 4_200, mac: "02:00:00:00:00:01".into() }),
            addresses: vec![Ipv4Addr::new(10, 0, 0, 1)],
            rdma: Some("mlx5_0".into()),
            gid: Some(3),
            active_mtu: Some(4_096),
            tcp: vec!["dctcp".into()],
            tcp_ecn: Some(1),
            pfc: Some(vec![3]),
            trusts_dscp: Some(true),
            is_root: true,
            has_rxe: false,
        }
    }

    #[test]
    fn a_host_with_all_lacks_nothing() {
        let bad: Vec<HostFinding> =
            findings(&good()).into_iter().filter(|finding| finding.verdict != FindingStatus::Good).collect();
        assert_eq!(bad, []);
    }

    /// Each missing prerequisite is reported with a command, and nothing else is.
    #[test]
    fn each_missing_requirement_has_its_command() {
        type MissingRequirement<'a> = (&'a str, &'a dyn Fn(&mut ProbeResult), &'a str);
        let lacks: [MissingRequirement<'_>; 9] = [
            ("programs", &|found| found.programs.retain(|program| program == "iperf3"), "apt-get install perftest"),
            ("MTU", &|found| found.interface.as_mut().unwrap().mtu = 1_000, "ip link set ens1 mtu 1500"),
            ("address", &|found| found.addresses.clear(), "ip address add 10.0.0.1/24 dev ens1"),
            ("TCP dctcp", &|found| found.tcp.clear(), "modprobe tcp_dctcp"),
            ("TCP with ECN", &|found| found.tcp_ecn = Some(2), "sysctl -w net.ipv4.tcp_ecn=1"),
            ("GID", &|found| found.gid = None, "ip address add"),
            ("RDMA MTU", &|found| found.active_mtu = Some(512), "ip link set ens1 mtu 1084"),
            ("DSCP trust", &|found| found.trusts_dscp = Some(false), "mlnx_qos -i ens1 --trust dscp"),
            ("PFC of class 3", &|found| found.pfc = Some(vec![4]), "--pfc 0,0,0,1,0,0,0,0"),
        ];
        for (what, take, command) in lacks {
            let mut found = good();
            take(&mut found);
            let bad: Vec<HostFinding> =
                findings(&found).into_iter().filter(|finding| finding.verdict == FindingStatus::Bad).collect();
            assert_eq!(bad.iter().map(|finding| finding.what.as_str()).collect::<Vec<_>>(), [what]);
            let text = bad[0].command.as_deref().unwrap();
            assert!(text.starts_with("ssh root@s1 ") && text.contains(command), "{text}");
        }
    }
}
