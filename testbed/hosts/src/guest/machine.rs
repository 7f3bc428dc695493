//! A guest's QEMU: its arguments, and its start.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use weir_units::MacAddr;

use super::accelerator::Accelerator;
use super::image::Image;
use super::{GuestError, while_doing};

/// What QEMU takes besides a guest's memory, with the code that it has translated.
pub(super) const BESIDE_MB: u64 = 160;
/// Translated code; QEMU would take a gigabyte.
const TRANSLATED_MB: u64 = 96;
/// Ways to a guest's shell: the first is for whoever ends what another runs.
pub(super) const SHELLS: usize = 10;
/// Guests give way to the switch, which loses line time where it waits for a CPU: perftest's ends ask for completions without a pause, so
/// that emulated guests take all CPUs.
const NICENESS: &str = "10";
/// Descriptors of a ring: with 256 a guest drops frames of a window of 4 KB packets.
const RING: u32 = 1_024;

/// A guest to be booted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestPlan {
    /// Its name.
    pub name: String,
    /// The vhost-user socket of its NIC.
    pub socket: PathBuf,
    /// Whether QEMU makes the socket, and the switch connects to it.
    pub makes_socket: bool,
    /// Queue pairs of the NIC.
    pub queues: u8,
    /// By which of them each class leaves the guest ([`GuestPlan::rings_of`]); empty where the guest's kernel is to choose.
    #[serde(default)]
    pub rings: String,
    /// The NIC's address, written `02:00:00:00:00:01`.
    pub mac: String,
    /// Its IPv4 address with the prefix's length.
    pub address: String,
    /// The interface's MTU.
    pub mtu: u64,
    /// Its memory.
    pub memory_mb: u64,
}

/// How long a guest lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until somebody ends it.
    OfItsOwn,
    /// No longer than the thread that boots it, however that ends.
    OfThisThread,
}

impl GuestPlan {
    /// The guest of this number, from 1 on, at a socket that the switch makes.
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

    /// The rings of DSCPs, as the guest reads them: that of DSCP 0, and of those that have another one, `0,26:3,48:2`. Empty where there is
    /// nothing to choose.
    pub fn rings_of(of_dscp: Option<[u8; 64]>) -> String {
        let Some(of_dscp) = of_dscp.filter(|rings| rings.iter().any(|ring| *ring != rings[0])) else {
            return String::new();
        };
        let others = of_dscp.iter().enumerate().filter(|(_, ring)| **ring != of_dscp[0]);
        let others = others.map(|(dscp, ring)| format!(",{dscp}:{ring}"));
        std::iter::once(of_dscp[0].to_string()).chain(others).collect()
    }
}

/// QEMU with an image and a console, and no devices yet.
pub(super) fn bare(image: &Image, accelerator: Accelerator, memory_mb: u64, console: &Path, words: &str) -> Command {
    prepared(Command::new(&image.qemu[0]), image, accelerator, memory_mb, console, words)
}

fn prepared(
    mut command: Command,
    image: &Image,
    accelerator: Accelerator,
    memory_mb: u64,
    console: &Path,
    words: &str,
) -> Command {
    let (how, cpu) = match accelerator {
        // A machine that is virtual itself may refuse what this feature has QEMU set.
        Accelerator::Kvm => ("kvm".to_owned(), "host,-arch-capabilities"),
        // QEMU runs `rep movsb` and `rep stosb` byte by byte, by which Linux clears pages and copies where a CPU says that it does
        // so fast.
        Accelerator::Tcg => (format!("tcg,tb-size={TRANSLATED_MB}"), "max,-erms,-fsrm"),
    };
    command.args(&image.qemu[1..]).envs(&image.environment);
    command.args(["-machine", "pc", "-accel", &how, "-cpu", cpu, "-smp", "1", "-m", &memory_mb.to_string()]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none"]);
    command.arg("-serial").arg(option("file:", console));
    command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
    // Interrupts of a timer that a busy machine delivers late fail the kernel's test of it, and it panics.
    command.args([
        "-append",
        &format!("console=ttyS0 panic=-1 quiet mitigations=off no_timer_check cryptomgr.notests net.ifnames=0 {words}"),
    ]);
    command
}

/// An option of QEMU that ends in a path, whose commas are doubled.
fn option(start: &str, path: &Path) -> String {
    format!("{start}{}", path.display().to_string().replace(',', ",,"))
}

/// The file by which a guest's process is told from all others: it stands in QEMU's arguments.
pub(super) fn pid_file(folder: &Path) -> PathBuf {
    folder.join("pid")
}

pub(super) fn console(folder: &Path) -> PathBuf {
    folder.join("console")
}

pub(super) fn log(folder: &Path) -> PathBuf {
    folder.join("qemu.log")
}

/// The socket of one of a guest's shells.
pub(super) fn shell_socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("shell{number}"))
}

/// Starts a guest whose files are in `folder`.
pub(super) fn start(
    image: &Image,
    accelerator: Accelerator,
    plan: &GuestPlan,
    folder: &Path,
    life: Life,
) -> Result<Child, GuestError> {
    let mut base = Command::new(match life {
        Life::OfItsOwn => "nice",
        Life::OfThisThread => "setpriv",
    });
    if life == Life::OfThisThread {
        base.args(["--pdeathsig", "KILL", "--", "nice"]);
    }
    base.args(["-n", NICENESS, &image.qemu[0]]);
    let words = format!(
        "weir.name={} weir.address={} weir.mtu={} weir.queues={} weir.rings={}",
        plan.name, plan.address, plan.mtu, plan.queues, plan.rings
    );
    let mut command = prepared(base, image, accelerator, plan.memory_mb, &console(folder), &words);
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
    // Not of the terminal's group: Ctrl-C is for the command.
    command.process_group(0);
    command.spawn().map_err(|error| match (error.kind(), life) {
        (io::ErrorKind::NotFound, Life::OfThisThread) => GuestError::System {
            what: "setpriv, which ends guests with this process (apt-get install util-linux)".to_owned(),
            error,
        },
        _ => GuestError::System { what: "QEMU".to_owned(), error },
    })
}

fn nic(plan: &GuestPlan) -> Vec<String> {
    let GuestPlan { memory_mb, queues, mac, .. } = plan;
    // A switch that is not there, or goes away, is waited for.
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

/// The end of what a guest's kernel and its QEMU said.
pub(super) fn last_words(folder: &Path) -> String {
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
    fn rings_are_told_by_what_differs_from_that_of_dscp_0() {
        assert_eq!(GuestPlan::rings_of(None), "");
        assert_eq!(GuestPlan::rings_of(Some([2; 64])), "", "one ring for all");
        let mut rings = [0; 64];
        (rings[26], rings[48]) = (3, 2);
        assert_eq!(GuestPlan::rings_of(Some(rings)), "0,26:3,48:2");
    }
}
