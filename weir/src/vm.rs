//! `weir vm`: guests with Soft-RoCE, perftest and iperf3 at the vhost-user ports of a switch.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::{Device, SwitchConfig, VhostUser};
use weir_experiments::Failure;
use weir_experiments::files::{json_text, quoted};
use weir_experiments::table::Table;
use weir_hosts::guest::{
    Accelerator, AcceleratorChoice, Fleet, GuestError, GuestLifetime, GuestPlan, Image, RunningGuest, State,
    refuse_more_than_fits, store,
};
use weir_units::Bytes;

/// Commands for guests.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Boot a guest at each vhost-user port of a switch, and wait until all have booted.
    ///
    /// Guest number n has the address 10.0.0.n/24 and the name of its port. They run until `weir vm down`, also if this
    /// command or the switch ends. The first call makes the image of Debian's packages, and installs none of them.
    Up(UpArguments),
    /// Run a command in a guest, with its output and its exit code.
    ///
    /// A single word is text for the guest's shell; several are a command and its arguments.
    Run(RunArguments),
    /// End guests: those named, or all.
    Down(DownArguments),
    /// The guests that were booted.
    List(ListArguments),
    /// Make the guests' image, if it does not exist, and print its path.
    Image,
}

#[derive(clap::Args)]
pub(crate) struct Home {
    /// The folder of the guests; by default one of this user's own.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    home: Home,
}

#[derive(clap::Args)]
pub(crate) struct UpArguments {
    /// The switch, whose vhost-user ports have a guest each. It is to run already, but for ports with `client = true`.
    #[arg(value_name = "SWITCH.toml", required_unless_present = "at")]
    file: Option<PathBuf>,
    /// A guest at this socket, which somebody listens at; the guests are called vm1, vm2 and so on.
    #[arg(long, value_name = "SOCKET", conflicts_with = "file")]
    at: Vec<PathBuf>,
    /// Ports of the switch that get a guest; by default all vhost-user ports.
    #[arg(long = "port", value_name = "PORT", requires = "file")]
    ports: Vec<String>,
    /// Memory of each guest.
    #[arg(long, value_name = "SIZE", default_value = "192MB")]
    memory: Bytes,
    /// MTU of the guests' interface; by default the switch's `mtu`.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(576..=9600))]
    mtu: Option<u64>,
    /// Accelerator of the guests: auto is KVM if a guest boots with it here, and emulation else.
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto")]
    accel: Accel,
    #[command(flatten)]
    home: Home,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Accel {
    Auto,
    Kvm,
    Tcg,
}

#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// The guest.
    guest: String,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// End the command after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    timeout: u64,
    #[command(flatten)]
    home: Home,
}

#[derive(clap::Args)]
pub(crate) struct DownArguments {
    /// The guests; by default all.
    guests: Vec<String>,
    #[command(flatten)]
    home: Home,
}

/// Minimum memory with which the guest's kernel boots.
const MEMORY_MIN_MB: u64 = 176;
/// Maximum number of guests, by the number of addresses.
const GUESTS_MAX: usize = 200;

/// Runs `weir vm`; returns the exit code, which is the guest command's if one was run.
pub(crate) fn vm(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Up(arguments) => up(arguments).map(|()| 0),
        Command::Run(arguments) => run(arguments),
        Command::Down(arguments) => down(arguments).map(|()| 0),
        Command::List(arguments) => list(arguments).map(|()| 0),
        Command::Image => {
            let image = image()?;
            println!("kernel: {}", image.kernel.display());
            println!("file system: {}", image.initrd.display());
            println!("QEMU: {}", image.qemu[0]);
            Ok(0)
        }
    }
}

impl Home {
    fn fleet(&self) -> Result<Fleet, Failure> {
        self.folder.as_deref().map_or_else(Fleet::by_default, Fleet::open).map_err(failure)
    }
}

fn image() -> Result<Image, Failure> {
    Image::load_or_build(&store(), &mut |message| eprintln!("weir: {message}")).map_err(failure)
}

fn up(arguments: &UpArguments) -> Result<(), Failure> {
    let memory_mb = arguments.memory.get() / 1_000_000;
    if memory_mb < MEMORY_MIN_MB {
        return Err(Failure::Argument(format!(
            "--memory {}: a guest boots with {MEMORY_MIN_MB} MB at least, and 192MB is comfortable",
            arguments.memory
        )));
    }
    let mut plans = match &arguments.file {
        Some(file) => at_ports(file, &arguments.ports)?,
        None => at_sockets(&arguments.at)?,
    };
    for plan in &mut plans {
        plan.memory_mb = memory_mb;
        plan.mtu = arguments.mtu.unwrap_or(plan.mtu);
    }
    refuse_more_than_fits(plans.len(), memory_mb).map_err(failure)?;
    let fleet = arguments.home.fleet()?;
    let image = image()?;
    let choice = match arguments.accel {
        Accel::Auto => AcceleratorChoice::Auto,
        Accel::Kvm => AcceleratorChoice::Kvm,
        Accel::Tcg => AcceleratorChoice::Tcg,
    };
    let accelerator = choice.resolve(&store(), &image).map_err(failure)?;
    let mut on_booted = |guest: &RunningGuest, took: Duration| {
        println!("{}: up after {:.1} s, {}", guest.plan.name, took.as_secs_f64(), guest.plan.address);
    };
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let takes = match accelerator {
        Accelerator::Kvm => "some seconds",
        Accelerator::Tcg => "half a minute for one, longer for several or beside other work",
    };
    println!("booting {} with {}: {takes}", names.join(", "), accelerator.name());
    fleet.up(&image, accelerator, &plans, GuestLifetime::Detached, &mut on_booted).map_err(failure)?;
    println!("weir vm run {} COMMAND runs a command, weir vm down ends them", names[0]);
    Ok(())
}

/// A guest for each vhost-user port of a switch, or for those named.
fn at_ports(file: &Path, only: &[String]) -> Result<Vec<GuestPlan>, Failure> {
    let switch = weir_config::load(file)?;
    let of_port = |name: &str| {
        let number = switch.ports.iter().position(|port| port.name == name)?;
        if let Device::VhostUser(vhost) = &switch.ports[number].device { Some((number, vhost)) } else { None }
    };
    if let Some(other) = only.iter().find(|name| of_port(name).is_none()) {
        return Err(Failure::Argument(format!(
            "--port {other}: {} has no vhost-user port of this name; it has: {}",
            file.display(),
            names_of_vhost_ports(&switch).join(", ")
        )));
    }
    let names: Vec<&str> = names_of_vhost_ports(&switch);
    if names.is_empty() {
        return Err(Failure::Argument(format!(
            "{} has no vhost-user port for a guest: write vhost_user = \"/run/weir/h0.sock\" in [[ports]]",
            file.display()
        )));
    }
    let wanted = names.iter().enumerate().filter(|(_, name)| only.is_empty() || only.iter().any(|only| only == *name));
    wanted.map(|(n, name)| plan(n, of_port(name).expect("a vhost-user port"), &switch)).collect()
}

fn names_of_vhost_ports(switch: &SwitchConfig) -> Vec<&str> {
    let is_vhost = |device: &Device| matches!(device, Device::VhostUser(_));
    switch.ports.iter().filter(|port| is_vhost(&port.device)).map(|port| port.name.as_str()).collect()
}

fn plan(n: usize, (port, vhost): (usize, &VhostUser), switch: &SwitchConfig) -> Result<GuestPlan, Failure> {
    let name = &switch.ports[port].name;
    Ok(GuestPlan {
        makes_socket: vhost.client,
        queues: vhost.queues,
        rings: GuestPlan::rings_of(switch.class_map(port).transmit_queue_of_dscp(vhost.queues)),
        mtu: switch.mtu.get(),
        ..GuestPlan::new(number(n)?, name, absolute(Path::new(&vhost.socket))?)
    })
}

fn at_sockets(sockets: &[PathBuf]) -> Result<Vec<GuestPlan>, Failure> {
    let plan =
        |(n, socket): (usize, &PathBuf)| Ok(GuestPlan::new(number(n)?, &format!("vm{}", n + 1), absolute(socket)?));
    sockets.iter().enumerate().map(plan).collect()
}

fn number(n: usize) -> Result<u8, Failure> {
    let fits = (n < GUESTS_MAX).then_some(n as u8 + 1);
    fits.ok_or_else(|| {
        Failure::Argument(format!("no more than {GUESTS_MAX} guests have addresses: choose some with --port"))
    })
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    Ok(std::path::absolute(path)?)
}

fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let guest = arguments.home.fleet()?.named(&arguments.guest).map_err(failure)?;
    let command = match &arguments.command[..] {
        [text] => text.clone(),
        argv => argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    let stop = weir_experiments::experiment::stopped_by_signals()?;
    let mut output = std::io::stdout();
    let mut shown = |piece: &[u8]| {
        // Errors are ignored: the reader has closed the pipe.
        let _ = output.write_all(piece).and_then(|()| output.flush());
    };
    let is_stopped = || stop.load(Ordering::Relaxed);
    let code = guest.run(&command, Duration::from_secs(arguments.timeout), &mut shown, &is_stopped).map_err(failure)?;
    Ok(u8::try_from(code).unwrap_or(1))
}

fn down(arguments: &DownArguments) -> Result<(), Failure> {
    let fleet = arguments.home.fleet()?;
    let guests = match arguments.guests.is_empty() {
        true => fleet.all(),
        false => arguments.guests.iter().map(|name| fleet.named(name)).collect::<Result<_, _>>().map_err(failure)?,
    };
    let started = Instant::now();
    fleet.down(&guests).map_err(failure)?;
    let names: Vec<&str> = guests.iter().map(|guest| guest.plan.name.as_str()).collect();
    match names.is_empty() {
        true => println!("no guests"),
        false => println!("ended {} in {:.1} s", names.join(", "), started.elapsed().as_secs_f64()),
    }
    Ok(())
}

/// Row of `weir vm list`.
#[derive(Serialize)]
struct GuestRow {
    name: String,
    state: &'static str,
    address: String,
    mac: String,
    socket: PathBuf,
    memory_mb: u64,
    accelerator: &'static str,
    process: Option<i32>,
}

impl GuestRow {
    fn from_guest(guest: RunningGuest) -> GuestRow {
        GuestRow {
            state: match guest.state() {
                State::Ready => "ready",
                State::Boots => "boots",
                State::Ended => "ended",
            },
            accelerator: guest.accelerator.name(),
            process: guest.process(),
            name: guest.plan.name,
            address: guest.plan.address,
            mac: guest.plan.mac,
            socket: guest.plan.socket,
            memory_mb: guest.plan.memory_mb,
        }
    }
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let guests: Vec<GuestRow> = arguments.home.fleet()?.all().into_iter().map(GuestRow::from_guest).collect();
    if arguments.json {
        print!("{}", json_text(&guests));
        return Ok(());
    }
    if guests.is_empty() {
        println!("no guests; weir vm up SWITCH.toml boots them");
        return Ok(());
    }
    let mut table = Table::new(["guest", "state", "address", "socket", "memory", "by", "process"]);
    for guest in guests {
        table.row([
            guest.name,
            guest.state.to_owned(),
            guest.address,
            guest.socket.display().to_string(),
            format!("{} MB", guest.memory_mb),
            guest.accelerator.to_owned(),
            guest.process.map_or("-".to_owned(), |process| process.to_string()),
        ]);
    }
    print!("{table}");
    Ok(())
}

fn failure(error: GuestError) -> Failure {
    match error {
        GuestError::Memory(_)
        | GuestError::NoSwitch(_)
        | GuestError::Exists(_)
        | GuestError::Unknown { .. }
        | GuestError::NoKvm(_)
        | GuestError::Image(_) => Failure::Argument(error.to_string()),
        error => Failure::Run(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(text: &str) -> tempfile::NamedTempFile {
        // The file's name is the switch's default name.
        let file = tempfile::Builder::new().prefix("lab").suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    const PORTS: &str = "[buffer]\nsize = \"1MB\"\n[[ports]]\nname = \"up\"\naf_packet = \"veth0\"\nrate = \"1Gbps\"\n\
        [[ports]]\nname = \"a\"\nvhost_user = \"/run/a\"\nrate = \"1Gbps\"\n\
        [[ports]]\nname = \"b\"\nvhost_user = { socket = \"/run/b\", client = true, queues = 4 }\nrate = \"1Gbps\"\n";

    #[test]
    fn each_vhost_port_has_a_guest() {
        let file = switch(PORTS);
        let plans = at_ports(file.path(), &[]).unwrap();
        assert_eq!(plans.iter().map(|plan| plan.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((plans[0].makes_socket, plans[0].queues, plans[0].address.as_str()), (false, 1, "10.0.0.1/24"));
        assert_eq!((plans[1].makes_socket, plans[1].queues, plans[1].mac.as_str()), (true, 4, "02:00:00:00:00:02"));
        // A guest's address is independent of the other guests.
        assert_eq!(at_ports(file.path(), &["b".into()]).unwrap(), plans[1..]);
    }

    #[test]
    fn other_ports_are_refused_with_those_that_there_are() {
        let file = switch(PORTS);
        let Err(Failure::Argument(message)) = at_ports(file.path(), &["up".into()]) else { panic!("accepted") };
        assert!(message.contains("--port up") && message.ends_with("it has: a, b"), "{message}");
    }
}
