//! Arguments of `weir bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_units::{BitRate, Span};

/// Benchmarks of `weir bench`.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// Packets per CPU-second of one lcore and of several, between ports that need no NIC.
    ///
    /// Each lcore has two ports that receive as fast as they are polled. Rates are per CPU-second, so that the load of other
    /// processes does not count. The exit code is 1 if frames are not accounted for.
    Forwarding(ForwardingArguments),
    /// Throughput, latency and back-to-back frames between two ports of a switch file, after RFC 2544.
    ///
    /// The generator takes a CPU that the switch does not use. It sends at the other end of the cable: a ring's far end, a veth's peer,
    /// or the device that --from-device and --to-device name.
    Rfc2544(Rfc2544Arguments),
    /// Delay until a PAUSE is sent, and until it is obeyed, at a share of the port's rate.
    Pause(PauseArguments),
    /// CPU time of an lcore without work, by idle policy, and the latency that it adds to a lone frame.
    Idle(IdleArguments),
}

/// Arguments of all benchmarks.
#[derive(Args)]
pub struct CommonArguments {
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Arguments for DPDK's EAL.
    #[arg(last = true, value_name = "EAL ARGS")]
    pub eal: Vec<String>,
}

/// Arguments of `weir bench forwarding`.
#[derive(Args)]
pub struct ForwardingArguments {
    /// Numbers of lcores; from 1 to as many as there are CPUs if not given.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub lcores: Vec<usize>,
    /// Lengths of frames, with FCS.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,512,1518,9000")]
    pub frame_bytes: Vec<u16>,
    /// Frames and stations, by names of cases; by default all.
    #[arg(long = "case", value_name = "CASE", value_delimiter = ',')]
    pub cases: Vec<String>,
    /// The buffer policy, by its name in files.
    #[arg(long, value_name = "NAME", default_value = "dt")]
    pub policy: String,
    /// The ports' flow control, by its name in files.
    #[arg(long, value_name = "NAME", default_value = "pfc")]
    pub flow_control: String,
    /// Frames leave by a port of another lcore than they came to.
    #[arg(long)]
    pub across: bool,
    /// Rounds of each measurement, in turn with the others.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Duration of a round.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub duration: Span,
    /// Frames after which a round ends, at any duration.
    #[arg(long, value_name = "FRAMES", conflicts_with = "duration")]
    pub frames: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as help")]
    pub common: CommonArguments,
}

/// Arguments of `weir bench rfc2544`.
#[derive(Args)]
pub struct Rfc2544Arguments {
    /// Configuration of the switch.
    #[arg(value_name = "SWITCH.toml")]
    pub file: PathBuf,
    /// The port that frames come in by.
    #[arg(long, value_name = "PORT")]
    pub from: String,
    /// The port that they leave by.
    #[arg(long, value_name = "PORT")]
    pub to: String,
    /// The device that is cabled to the first port: pci=ADDRESS, af_packet=INTERFACE or af_xdp=INTERFACE. Rings and veth pairs need none.
    #[arg(long, value_name = "DEVICE")]
    pub from_device: Option<String>,
    /// The device that is cabled to the second port.
    #[arg(long, value_name = "DEVICE")]
    pub to_device: Option<String>,
    /// Lengths of frames, with FCS; those of the RFC (64, 128, 256, 512, 1024, 1280, 1518) if not given.
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub frame_bytes: Vec<u16>,
    /// DSCP of the frames, which gives them their class.
    #[arg(long, value_name = "DSCP", default_value_t = 0)]
    pub dscp: u8,
    /// The highest rate to try; that of the slower port if not given.
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<BitRate>,
    /// Sending time of a trial. The RFC asks for 60s.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub duration: Span,
    /// Wait for frames in flight. The RFC asks for 2s.
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub wait: Span,
    /// A rate is tried up to this often before it counts as not carried.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub trials: u32,
    /// The search ends this near to the rate, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub resolution: f64,
    /// Frames that may be lost, in percent. 0 is the RFC's throughput.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub loss: f64,
    /// Shares of the throughput at which latency is measured, in percent.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "10,50,90")]
    pub shares: Vec<u32>,
    /// Searches for the longest burst; 0 for none. The RFC asks for 50.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub bursts: u32,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as help")]
    pub common: CommonArguments,
}

/// Arguments of `weir bench pause`.
#[derive(Args)]
pub struct PauseArguments {
    /// Layouts of the lcores: single, rx-tx, rx-fwd-tx; all if not given.
    #[arg(long = "layout", value_name = "LAYOUT", value_delimiter = ',')]
    pub layouts: Vec<String>,
    /// The ports' rate.
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    pub rate: BitRate,
    /// The share of it that is sent, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    pub load: u32,
    /// Length of a frame, with FCS.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub frame_bytes: u16,
    /// Rounds of each layout, in turn.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Duration of a round.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub duration: Span,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as help")]
    pub common: CommonArguments,
}

/// Arguments of `weir bench idle`.
#[derive(Args)]
pub struct IdleArguments {
    /// Idle policies: poll, yield, sleep; all if not given.
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',')]
    pub modes: Vec<String>,
    /// Average interval between lone frames.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub interval: Span,
    /// Length of a frame, with FCS.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub frame_bytes: u16,
    /// Rounds of each policy, in turn.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Duration of each half of a round: without frames, and with lone ones.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub duration: Span,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as help")]
    pub common: CommonArguments,
}

impl BenchCommand {
    /// Options common to all measurements.
    pub fn common(&self) -> &CommonArguments {
        match self {
            BenchCommand::Forwarding(arguments) => &arguments.common,
            BenchCommand::Rfc2544(arguments) => &arguments.common,
            BenchCommand::Pause(arguments) => &arguments.common,
            BenchCommand::Idle(arguments) => &arguments.common,
        }
    }
}
