//! Captures made into streams: read, rewritten, classified, and set on one clock.

use std::fs;
use std::path::Path;

use weir_config::{ClassMap, ReplayConfig, SwitchConfig};
use weir_switch_core::classify::Classifier;
use weir_trace::{Capture, CaptureError, FrameSelection, Rewriting, Schedule};
use weir_units::{BitRate, Class, FCS_BYTES, PortId};
use weir_wire::ethernet::{self, Parsed};

use super::{ReplayStream, ReplayTarget};

/// A trace that is to be replayed.
#[derive(Debug)]
pub struct Trace<'c> {
    /// Name in the report.
    pub name: String,
    /// Capture file and its replay settings.
    pub config: &'c ReplayConfig,
    /// Other addresses.
    pub rewriting: &'c Rewriting,
    /// The port's map to classes, by which the switch pauses frames.
    pub class_map: &'c ClassMap,
    /// Priority of frames without one.
    pub priority: u8,
    /// The rate of the port's link, where it is known.
    pub rate: Option<BitRate>,
    /// The longest frame, without FCS, that the port takes.
    pub frame_bytes_max: usize,
}

/// Rewriting that leaves frames unchanged, for ports of a switch's file.
pub(crate) static NO_REWRITING: Rewriting = Rewriting { mappings: Vec::new(), source: None, destination: None };

/// A trace and the end of the link that it is sent on.
pub type TraceEnd<'c> = (Trace<'c>, Capture, ReplayTarget);

impl<'c> Trace<'c> {
    /// The trace of a switch's port; `None` for a port that replays none.
    pub fn of_port(switch: &'c SwitchConfig, port: usize, rewriting: &'c Rewriting) -> Option<Trace<'c>> {
        let own = &switch.ports[port];
        let weir_config::Device::Replay(config) = &own.device else { return None };
        Some(Trace {
            name: own.name.clone(),
            config,
            rewriting,
            class_map: switch.class_map(port),
            priority: own.priority,
            rate: own.rate,
            frame_bytes_max: (switch.frame_bytes_max().get() - FCS_BYTES) as usize,
        })
    }

    /// Reads the capture.
    ///
    /// # Errors
    /// See [`CaptureError`]. A trace that is to be replayed by its times, and has frames without any, is one too.
    pub fn read(&self) -> Result<Capture, CaptureError> {
        let choice = FrameSelection {
            headers_suffice: false,
            direction: self.config.direction,
            interface: None,
            with_mac_control: self.config.with_mac_control,
            frame_bytes_max: self.frame_bytes_max,
            memory_bytes_max: memory_bytes_max(),
        };
        let mut capture = Capture::read(Path::new(&self.config.file), &choice)?;
        if let Some(error) = capture.lacks_times(self.config.pace) {
            return Err(error);
        }
        capture.each_mut(|frame| self.rewriting.apply(frame));
        Ok(capture)
    }
}

/// Limit of trace memory: half of the available memory. The rest is for packet memory and other processes.
fn memory_bytes_max() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free_kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    free_kb.unwrap_or(2 << 20) * 1_024 / 2
}

/// Sets traces on one clock: that of their captures, from the first frame of all on.
pub fn streams(traces: Vec<TraceEnd<'_>>) -> Vec<ReplayStream> {
    let Some(origin) = traces.iter().map(|(_, capture, _)| capture.first()).min() else { return Vec::new() };
    let stream = |(trace, capture, end): TraceEnd<'_>| {
        let classifier = Classifier::new([(trace.class_map, trace.priority)]);
        let class = |frame: &[u8]| match ethernet::parse(frame) {
            Parsed::Data(headers) => classifier.class(PortId(0), &headers).group,
            Parsed::Control(_) | Parsed::Malformed => classifier.port_class(PortId(0)).group,
        };
        let classes: Vec<Class> = capture.frames().iter().map(|frame| class(capture.bytes(frame))).collect();
        ReplayStream {
            name: trace.name,
            schedule: Schedule::new(capture, trace.config.pace, trace.rate, origin),
            classes,
            end,
            rate: trace.rate,
            when_paused: trace.config.when_paused,
            loops: (trace.config.loops > 0).then_some(trace.config.loops),
            after: trace.config.after,
        }
    };
    traces.into_iter().map(stream).collect()
}
