//! Arguments of `weir replay`.

use std::path::PathBuf;

use weir_config::{PausedAction, ReplayDirection, ReplayPace};
use weir_units::{BitRate, MacAddr, Span};

/// Arguments of `weir replay`, without those that select the running switch.
#[derive(clap::Args)]
pub struct ReplayArguments {
    /// Captures: pcap and pcapng, with time stamps as fine as they are. They keep their distance in time to each other.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// The port of the running switch that a trace goes into; once for each trace. The end that is cabled to it is found for veth pairs and memif,
    /// and is else named by --device.
    #[arg(long = "port", value_name = "PORT")]
    pub ports: Vec<String>,
    /// The device that a trace is sent on, once for each trace: pci=ADDRESS, af_packet=INTERFACE or af_xdp=INTERFACE.
    #[arg(long = "device", value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Speed relative to the capture: 1, 2.5, or max for line rate.
    #[arg(long, value_name = "1|2.5|max", default_value = "1", value_parser = speed, conflicts_with = "rate")]
    pub speed: ReplayPace,
    /// Constant rate of the frames, with preamble and gap, in place of their times.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<BitRate>,
    /// Rate of the link, if no switch has it. Frames leave no faster than this.
    #[arg(long, value_name = "RATE")]
    pub line_rate: Option<BitRate>,
    /// Repetitions of the traces; 0: until SIGINT or SIGTERM.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub loops: u64,
    /// Frames whose class is paused when they are due wait, are dropped and counted, or leave all the same.
    #[arg(long, value_name = "wait|drop|ignore", default_value = "wait", value_parser = when_paused)]
    pub when_paused: PausedAction,
    /// Direction of the replayed frames, as seen by the capturing port. Captures of `weir run` have both.
    #[arg(long, value_name = "in|out", value_parser = direction)]
    pub direction: Option<ReplayDirection>,
    /// Send PAUSE, PFC and other MAC control frames of the traces too. They are left out otherwise.
    #[arg(long)]
    pub mac_control: bool,
    /// An address that becomes another wherever it stands, with checksums made right: OLD=NEW of MACs, IP addresses, or networks such as
    /// 10.0.0.0/24=10.9.0.0/24. May be given more than once.
    #[arg(long = "map", value_name = "OLD=NEW")]
    pub mappings: Vec<String>,
    /// The source of all frames.
    #[arg(long, value_name = "MAC")]
    pub source_mac: Option<MacAddr>,
    /// The destination of all frames that go to one station.
    #[arg(long, value_name = "MAC")]
    pub destination_mac: Option<MacAddr>,
    /// Time from the start to the first frame.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub after: Span,
    /// The CPU that replays; one that has little else to do. Without this, the last of those that this process may use.
    #[arg(long, value_name = "CPU")]
    pub core: Option<u32>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGS")]
    pub eal: Vec<String>,
}

fn speed(text: &str) -> Result<ReplayPace, String> {
    ReplayPace::parse_speed(text).ok_or_else(|| "write 1, 2.5 or another factor, or max".to_owned())
}

fn when_paused(text: &str) -> Result<PausedAction, String> {
    match text {
        "wait" => Ok(PausedAction::Wait),
        "drop" => Ok(PausedAction::Drop),
        "ignore" => Ok(PausedAction::Ignore),
        _ => Err("write wait, drop or ignore".to_owned()),
    }
}

fn direction(text: &str) -> Result<ReplayDirection, String> {
    match text {
        "in" => Ok(ReplayDirection::In),
        "out" => Ok(ReplayDirection::Out),
        _ => Err("write in or out".to_owned()),
    }
}
