//! QEMU of a guest: arguments and start.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use weir_units::MacAddr;

use super::accelerator::Accelerator;
use super::image::Image;
use super::{GuestError, while_doing};

/// Memory of QEMU beyond the guest's memory, including translated code, in MB.
pub(super) const OVERHEAD_MB: u64 = 160;
/// Size of QEMU's translation cache in MB; its default is a gigabyte.
const TRANSLATED_MB: u64 = 96;
/// Number of a guest's shells; shell 0 ends commands of the others.
pub(super) const SHELLS: usize = 10;
/// Niceness of guests, which lets the switch run first: it loses line time when it waits for a CPU. perftest polls for
/// completions without a pause, so emulated guests use all CPUs.
const NICENESS: &str = "10";
/// Descriptors per ring. With 256, a guest drops frames of a window of 4 KB packets.
const RING: u32 = 1_024;

/// Parameters of a guest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestPlan {
    /// Name of the guest.
    pub name: String,
    /// Path of the vhost-user socket of the guest's NIC.
    pub socket: PathBuf,
    /// Whether QEMU creates the socket, and the switch connects to it.
    pub makes_socket: bool,
    /// Queue pairs of the NIC.
    pub queues: u8,
    /// TX ring of each class ([`GuestPlan::rings_of`]); empty if the guest's kernel chooses.
    #[serde(default)]
    pub rings: String,
    /// MAC address of the NIC, as `02:00:00:00:00:01`.
    pub mac: String,
    /// IPv4 address with prefix length.
    pub address: String,
    /// MTU of the interface, in bytes.
    pub mtu: u64,
    /// Memory of the guest, in MB.
    pub memory_mb: u64,
}

/// Lifetime of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestLifetime {
    /// The guest runs until it is ended.
    Detached,
    /// The guest ends with the thread that boots it, however the thread ends.
    BoundToThread,
}

impl GuestPlan {
    /// Creates the plan of guest `number`, from 1, at a socket that the switch creates.
    pub fn new(number: u8, name: &str, socket: impl Into<PathBuf>) -> GuestPlan {
        GuestPlan {
            name: name.to_owned(),
            socket: socket.into(),
            makes_socket: false,
            queues: 1,
            rings: String::new(),
            mac: MacAddr([2, 0, 0, 0, 0, number]).to_string(),
            address: format!("10.0.0.{number}/24"),
            mtu: 1_500,
            memory_mb: 192,
        }
    }

    /// Encodes the rings of DSCPs for the guest: that of DSCP 0, then each DSCP with another ring, as `0,26:3,48:2`.
    /// Empty if all rings are the same.
    pub fn rings_of(of_dscp: Option<[u8; 64]>) -> String {
        let Some(of_dscp) = of_dscp.filter(|rings| rings.iter().any(|ring| *ring != rings[0])) else {
            return String::new();
        };
        let others = of_dscp.iter().enumerate().filter(|(_, ring)| **ring != of_dscp[0]);
        let others = others.map(|(dscp, ring)| format!(",{dscp}:{ring}"));
        std::iter::once(of_dscp[0].to_string()).chain(others).collect()
    }
}

/// Returns the command of QEMU with an image and a console, without devices.
pub(super) fn bare(
    image: &Image,
    accelerator: Accelerator,
    memory_mb: u64,
    console: &Path,
    kernel_args: &str,
) -> Command {
    prepared(Command::new(&image.qemu[0]), image, accelerator, memory_mb, console, kernel_args)
}

fn prepared(
    mut command: Command,
    image: &Image,
    accelerator: Accelerator,
    memory_mb: u64,
    console: &Path,
    kernel_args: &str,
) -> Command {
    let (how, cpu) = match accelerator {
        // A nested virtual machine may refuse the register that QEMU sets for this feature.
        Accelerator::Kvm => ("kvm".to_owned(), "host,-arch-capabilities"),
        // QEMU runs `rep movsb` and `rep stosb` byte by byte. Linux uses them to clear and copy pages if the CPU
        // declares them fast.
        Accelerator::Tcg => (format!("tcg,tb-size={TRANSLATED_MB}"), "max,-erms,-fsrm"),
    };
    command.args(&image.qemu[1..]).envs(&image.environment);
    command.args(["-machine", "pc", "-accel", &how, "-cpu", cpu, "-smp", "1", "-m", &memory_mb.to_string()]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none"]);
    command.arg("-serial").arg(option("file:", console));
    command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
    // On a busy machine, late timer interrupts would fail the kernel's timer test, and it would panic. A `ramfs` may fill more than half of
    // the memory.
    command.args([
        "-append",
        &format!(
            "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check cryptomgr.notests rootfstype=ramfs net.ifnames=0 {kernel_args}"
        ),
    ]);
    command
}

/// Formats a QEMU option that ends in a path, doubling the path's commas.
fn option(start: &str, path: &Path) -> String {
    format!("{start}{}", path.display().to_string().replace(',', ",,"))
}

/// Returns the path of a guest's pid file, whose name in QEMU's arguments identifies the process.
pub(super) fn pid_file(folder: &Path) -> PathBuf {
    folder.join("pid")
}

pub(super) fn console(folder: &Path) -> PathBuf {
    folder.join("console")
}

pub(super) fn log(folder: &Path) -> PathBuf {
    folder.join("qemu.log")
}

pub(super) fn shell_socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("shell{number}"))
}

/// Starts a guest whose files are in `folder`.
pub(super) fn start(
    image: &Image,
    accelerator: Accelerator,
    plan: &GuestPlan,
    folder: &Path,
    lifetime: GuestLifetime,
) -> Result<Child, GuestError> {
    let mut base = Command::new(match lifetime {
        GuestLifetime::Detached => "nice",
        GuestLifetime::BoundToThread => "setpriv",
    });
    if lifetime == GuestLifetime::BoundToThread {
        base.args(["--pdeathsig", "KILL", "--", "nice"]);
    }
    base.args(["-n", NICENESS, &image.qemu[0]]);
    let kernel_args = format!(
        "weir.name={} weir.address={} weir.mtu={} weir.queues={} weir.rings={}",
        plan.name, plan.address, plan.mtu, plan.queues, plan.rings
    );
    let mut command = prepared(base, image, accelerator, plan.memory_mb, &console(folder), &kernel_args);
    command.args(["-name", &format!("weir-{}", plan.name)]).arg("-pidfile").arg(pid_file(folder));
    command.args(nic(plan));
    command.args(["-device", "virtio-serial-pci,vectors=0"]);
    for number in 0..SHELLS {
        let socket =
            option(&format!("socket,id=shell{number},server=on,wait=off,path="), &shell_socket(folder, number));
        command.args([
            "-chardev",
            &socket,
            "-device",
            &format!("virtserialport,chardev=shell{number},name=shell{number}"),
        ]);
    }
    let log = File::create(log(folder)).map_err(while_doing("QEMU's log"))?;
    let both = log.try_clone().map_err(while_doing("QEMU's log"))?;
    command.stdin(Stdio::null()).stdout(log).stderr(both);
    // Not in the terminal's group: Ctrl-C is for the command.
    command.process_group(0);
    command.spawn().map_err(|error| match (error.kind(), lifetime) {
        (io::ErrorKind::NotFound, GuestLifetime::BoundToThread) => GuestError::System {
            what: "setpriv, which ends guests with this process (apt-get install util-linux)".to_owned(),
            error,
        },
        _ => GuestError::System { what: "QEMU".to_owned(), error },
    })
}

fn nic(plan: &GuestPlan) -> Vec<String> {
    let GuestPlan { memory_mb, queues, mac, .. } = plan;
    // QEMU waits for a switch that is missing or restarts.
    let end = if plan.makes_socket { "server=on,wait=off" } else { "reconnect=1" };
    let several = if *queues > 1 { ",mq=on" } else { "" };
    vec![
        "-object".to_owned(),
        format!("memory-backend-memfd,id=mem,size={memory_mb}M,share=on"),
        "-numa".to_owned(),
        "node,memdev=mem".to_owned(),
        "-chardev".to_owned(),
        option(&format!("socket,id=nic,{end},path="), &plan.socket),
        "-netdev".to_owned(),
        format!("vhost-user,id=net,chardev=nic,queues={queues}"),
        "-device".to_owned(),
        format!(
            "virtio-net-pci,netdev=net,mac={mac},romfile=,vectors=0,rx_queue_size={RING},tx_queue_size={RING}{several}"
        ),
    ]
}

/// Returns the last output of a guest's kernel and its QEMU.
pub(super) fn last_output(folder: &Path) -> String {
    let end = |path: PathBuf, lines: usize| -> String {
        let text = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let kept: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        kept[kept.len().saturating_sub(lines)..].join(" / ")
    };
    let (qemu, kernel) = (end(log(folder), 3), end(console(folder), 4));
    match (qemu.is_empty(), kernel.is_empty()) {
        (true, true) => "nothing".to_owned(),
        (true, false) => kernel,
        (false, true) => qemu,
        (false, false) => format!("{qemu} / {kernel}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_list_differences_from_that_of_dscp_0() {
        assert_eq!(GuestPlan::rings_of(None), "");
        assert_eq!(GuestPlan::rings_of(Some([2; 64])), "", "one ring for all");
        let mut rings = [0; 64];
        (rings[26], rings[48]) = (3, 2);
        assert_eq!(GuestPlan::rings_of(Some(rings)), "0,26:3,48:2");
    }
}
