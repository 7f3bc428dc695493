//! Network namespaces of this machine as hosts, each at one end of a veth pair.

use std::process::Command;

use weir_scenario::RealPorts;

const PREFIX: &str = "weirhost-";

/// Network namespace, deleted on drop.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
}

pub(crate) const INTERFACE: &str = "eth0";

impl Namespace {
    /// Creates the namespace of a host, by index, with its address and MTU. Offloads are off: a wire carries neither
    /// frames without checksums nor frames longer than the MTU.
    pub(crate) fn new(ports: &RealPorts, host: usize, mac: &str, address: &str, mtu: u64) -> Result<Namespace, String> {
        let name = format!("{PREFIX}{}-{host}", ports.process);
        run(&["ip", "netns", "add", &name])?;
        let namespace = Namespace { name };
        let (name, port) = (&namespace.name, ports.interface(host));
        let mtu = mtu.to_string();
        run(&[
            "ip", "link", "add", &port, "mtu", &mtu, "type", "veth", "peer", "name", INTERFACE, "netns", name,
            "address", mac, "mtu", &mtu,
        ])?;
        // Without IPv6 the switch's end sends no frames of its own.
        run(&["sysctl", "-qw", &format!("net.ipv6.conf.{port}.disable_ipv6=1")])?;
        run(&["ethtool", "-K", &port, "rx", "off", "tx", "off", "gso", "off", "gro", "off", "tso", "off"])?;
        run(&["ip", "link", "set", &port, "up"])?;
        namespace.run(&["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv4.tcp_ecn=1"])?;
        namespace
            .run(&["ethtool", "-K", INTERFACE, "rx", "off", "tx", "off", "gso", "off", "gro", "off", "tso", "off"])?;
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        namespace.run(&["ip", "link", "set", INTERFACE, "up"])?;
        namespace.run(&["ip", "address", "add", address, "dev", INTERFACE])?;
        Ok(namespace)
    }

    fn run(&self, command: &[&str]) -> Result<(), String> {
        let mut all = vec!["ip", "netns", "exec", &self.name];
        all.extend(command);
        run(&all)
    }
}

impl Drop for Namespace {
    /// Ends the processes in the namespace, and deletes it with its veth pair.
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes namespaces whose process is gone.
pub(crate) fn remove_left() {
    let Ok(listed) = Command::new("ip").args(["netns", "list"]).output() else { return };
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !std::path::Path::new(&format!("/proc/{process}")).exists()) {
            remove(name);
        }
    }
}

fn remove(name: &str) {
    let inside = Command::new("ip").args(["netns", "pids", name]).output();
    let inside = inside.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for process in inside.split_whitespace().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
    // Explicitly, since sockets of ended processes may keep the namespace and its end of the pair for a while.
    let _ = Command::new("ip").args(["-n", name, "link", "delete", INTERFACE]).output();
    let _ = Command::new("ip").args(["netns", "delete", name]).output();
}

fn run(command: &[&str]) -> Result<(), String> {
    let output =
        Command::new(command[0]).args(&command[1..]).output().map_err(|error| format!("{}: {error}", command[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{}: {}", command.join(" "), if stderr.is_empty() { output.status.to_string() } else { stderr }))
}
