//! Ports of `weir qualify --tester`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_bench::cabled::parse_device;
use weir_config::{Device, SocketAccess};
use weir_dpdk_driver::{Memory, RawFramePort, Runtime, RuntimeOptions, claim_devices, pci_addresses_of};
use weir_experiments::Failure;
use weir_experiments::real_frames::{OpenTesterPort, TesterPorts};
use weir_qualify::TestFailure;
use weir_qualify::wire::WirePort;
use weir_units::BitRate;

use crate::fault::Fault;

/// Opens the ports, and tests with them.
pub(crate) fn with_ports(
    ports: &TesterPorts<'_>,
    test: &mut dyn FnMut(Vec<OpenTesterPort>) -> Result<(), Failure>,
) -> Result<(), Fault> {
    let devices: Vec<Device> = ports.names.iter().map(|name| device(name)).collect::<Result<_, _>>()?;
    // Until the ports are closed.
    let mut locks = claim_devices(&[])?;
    devices.iter().try_for_each(|device| locks.claim(device))?;
    let memory = Memory::for_tasks(&devices, ports.frame_bytes_max, MBUFS);
    let options =
        RuntimeOptions { eal_args: ports.eal.to_vec(), memory_mb: memory.megabytes(), ..RuntimeOptions::default() };
    let runtime = Runtime::start("weir-qualify", &[], &pci_addresses_of(devices.iter()), &options)?;
    let mtu = (ports.frame_bytes_max - HEADERS) as u16;
    let opened = RawFramePort::open_all(&runtime, &devices, mtu, &memory)?;
    wait_for_links(ports.names, &opened)?;
    let mut open = Vec::new();
    for ((name, device), port) in ports.names.iter().zip(devices).zip(opened) {
        let interface = device.netdev().map(str::to_owned);
        let kind = match &interface {
            None if matches!(device, Device::Memif { .. }) => PortKind::OtherInterface,
            None => PortKind::Nic,
            Some(name) if Path::new("/sys/class/net").join(name).join("device").exists() => PortKind::Nic,
            Some(name) if ip(&["-d", "link", "show", "dev", name])?.contains(" veth ") => PortKind::Veth,
            Some(_) => PortKind::OtherInterface,
        };
        // Virtual interfaces invent a speed.
        let speed = port.speed_mbps().filter(|mbps| kind == PortKind::Nic && *mbps > 0);
        open.push(OpenTesterPort {
            name: name.clone(),
            speed: speed.map(|mbps| BitRate::mbps(u64::from(mbps))),
            port: Box::new(RealPort { port, interface, kind }),
        });
    }
    Ok(test(open)?)
}

/// A Linux interface, a PCI address, a client of a memif socket, or a device as other commands name it.
fn device(name: &str) -> Result<Device, Fault> {
    if let Some(socket) = name.strip_prefix("memif=") {
        let missing = |error| {
            Failure::Argument(format!(
                "--tester {name}: {error}; name the socket of a port with memif in the switch's file"
            ))
        };
        // DPDK's driver takes no relative path.
        let socket = std::fs::canonicalize(socket).map_err(missing)?.to_string_lossy().into_owned();
        return Ok(Device::Memif { socket, id: 0, server: false, access: SocketAccess::default() });
    }
    let is_pci = name.matches(':').count() >= 1 && name.contains('.');
    let text = match (name.contains('='), is_pci) {
        (true, _) => name.to_owned(),
        (false, true) => format!("pci={name}"),
        (false, false) => format!("af_packet={name}"),
    };
    Ok(parse_device("--tester", &text)?)
}

fn wait_for_links(names: &[String], ports: &[RawFramePort]) -> Result<(), Failure> {
    let deadline = Instant::now() + LINK_WITHIN;
    loop {
        let Some((name, _)) = names.iter().zip(ports).find(|(_, port)| !port.link_up()) else { return Ok(()) };
        if Instant::now() > deadline {
            let message = format!("--tester {name}: its link is down: is the cable in, and the switch's port up?");
            return Err(Failure::Run(message));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Port of a tester.
struct RealPort {
    port: RawFramePort,
    /// Interface, by whose administrative state the link goes.
    interface: Option<String>,
    kind: PortKind,
}

/// Kind of port: its treatment of short frames and of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortKind {
    /// End of a veth pair: its state is the other end's carrier, and short frames stay short.
    Veth,
    /// NIC: it pads short frames.
    Nic,
    /// Virtual interface whose state the other end does not see, as a TAP device's, or must not, as a memif's.
    OtherInterface,
}

impl WirePort for RealPort {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.port.send(frame)
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) {
        self.port.receive(each);
    }

    fn lost(&mut self) -> u64 {
        self.port.lost()
    }

    /// Other devices pad them.
    fn sends_short_frames(&self) -> bool {
        self.kind == PortKind::Veth
    }

    fn set_link_up(&mut self, up: bool) -> Result<(), TestFailure> {
        let done = match &self.interface {
            _ if self.kind == PortKind::OtherInterface => Err("it is a virtual interface".to_owned()),
            Some(name) => ip(&["link", "set", "dev", name, if up { "up" } else { "down" }])
                .map(|_| ())
                .map_err(Failure::into_message),
            None => self.port.set_link_up(up).map_err(|error| error.to_string()),
        };
        done.map_err(|error| TestFailure::impossible(format!("the tester can't take its link down: {error}")))
    }
}

fn ip(arguments: &[&str]) -> Result<String, Failure> {
    let failed = |reason: String| Failure::Run(format!("ip {}: {reason}", arguments.join(" ")));
    let output = Command::new("ip").args(arguments).output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Mbufs beyond the devices' descriptors.
const MBUFS: u32 = 8_192;
/// Bytes of a frame before its payload.
const HEADERS: usize = 14;
/// Longest wait for a link.
const LINK_WITHIN: Duration = Duration::from_secs(10);
