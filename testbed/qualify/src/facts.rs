//! Facts of a switch that tests compute their expectations from.

use serde::{Deserialize, Serialize};
use weir_units::{CLASSES, Class, ClassSet};

/// Facts of a switch. Unknown ones are `None`, and tests that need them are not possible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// Name of the switch.
    pub name: String,
    /// Ports, by the tester's numbers.
    pub ports: Vec<PortFacts>,
    /// Numbers of the lossless classes.
    pub lossless: Vec<u8>,
    /// Longest frame that it forwards, with FCS.
    pub frame_bytes_max: u32,
    /// Whether 802.3x PAUSE is obeyed.
    pub obeys_pause: bool,
    /// Buffer.
    pub buffer: Option<BufferFacts>,
    /// ECN marking, by class.
    pub ecn: [Option<EcnFacts>; CLASSES],
    /// PFC watchdog.
    pub watchdog: Option<WatchdogFacts>,
}

/// Facts of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortFacts {
    /// Name that the switch gives it.
    pub name: String,
    /// Number of the ASIC, or of the switch of several in one process, that has the port.
    pub asic: usize,
    /// Queue and priority group of each DSCP; `None` for a port that does not trust DSCP.
    pub dscp: Option<Vec<QueueMap>>,
    /// Queue and priority group of each PCP; `None` for a port that does not trust PCP.
    pub pcp: Option<Vec<QueueMap>>,
    /// Headroom of each of its lossless priority groups, in charged bytes.
    pub headroom: Option<u64>,
    /// Time that its peer may take to stop without loss: from the arrival of a PFC frame to the end of the peer's last frame begun before.
    /// The headroom also covers propagation, frames of either end that are under way, and the frame that exceeds Xoff.
    pub peer_delay_ns: Option<u64>,
    /// Weight of each queue under DWRR; 0 for a strict queue. `None` if unknown.
    pub weights: Option<[u32; CLASSES]>,
}

/// Queue and priority group of a codepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueMap {
    /// Egress queue.
    pub queue: u8,
    /// Priority group: the class in counters of arrivals, and that of PFC.
    pub group: u8,
}

/// Sizes of the buffer of each ASIC, in charged bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BufferFacts {
    /// Size of a cell; a frame takes whole ones. 1 if frames are charged by the byte.
    pub cell: u32,
    /// Least charge of a frame.
    pub charge_min: u32,
    /// Bytes charged to a frame in addition to its length with FCS.
    pub charge_extra: u32,
    /// Private bytes of each priority group, which it fills before the shared pool.
    pub private: u64,
    /// Bytes that one lossless priority group, alone in the buffer, holds when PFC is sent: the frame that exceeds it causes the PFC.
    pub xoff: Option<u64>,
    /// Bytes at which such a group resumes: PFC with time 0 is sent when it holds no more.
    pub xon: Option<u64>,
    /// Size of the headroom pool that groups share; `None` if each has its own.
    pub headroom_pool: Option<u64>,
    /// Size of the shared pool.
    pub shared_pool: Option<u64>,
    /// Factor α of the shared pool's dynamic thresholds; `None` for other policies.
    pub alpha: Option<f64>,
    /// Bytes that one lossy queue, alone in the buffer, holds before frames are dropped.
    pub lossy_queue: Option<u64>,
    /// Frames by which thresholds may differ from these numbers.
    pub margin_frames: u64,
}

/// ECN thresholds of a queue, in bytes, and the share of marks at the upper one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcnFacts {
    /// Length from which on frames are marked.
    pub kmin: u64,
    /// Length from which on all frames are marked.
    pub kmax: u64,
    /// Share of marked frames just below `kmax`.
    pub pmax: f64,
}

/// Times of the PFC watchdog, in nanoseconds of the device's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchdogFacts {
    /// Time after which a pause is a storm.
    pub detection_ns: u64,
    /// Time without pauses after which a storm has ended.
    pub restoration_ns: u64,
    /// Interval of the watchdog's polls, by which either may be late.
    pub poll_ns: u64,
    /// Whether frames of a class in a storm are dropped, rather than forwarded.
    pub drops: bool,
}

impl Facts {
    /// Checks facts of a user's file.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn check(&self) -> Result<(), String> {
        let holds = |holds: bool, message: String| if holds { Ok(()) } else { Err(message) };
        let (longest, lengths) = (self.frame_bytes_max, FRAME_BYTES_MIN..=FRAME_BYTES_MAX);
        holds(
            lengths.contains(&longest),
            format!("frame_bytes_max is {longest}: write the longest frame, with FCS, 1518 to 16383"),
        )?;
        let is_class = |class: u8| usize::from(class) < CLASSES;
        let unknown = self.lossless.iter().find(|class| !is_class(**class));
        unknown.map_or(Ok(()), |class| Err(format!("lossless has class {class}: write 0 to 7")))?;
        for PortFacts { name, dscp, pcp, .. } in &self.ports {
            for (key, map, codepoints) in [("dscp", dscp, 64), ("pcp", pcp, 8)] {
                let Some(map) = map else { continue };
                let count = map.len();
                holds(
                    count == codepoints,
                    format!("port \"{name}\": {key} has {count} codepoints: write {codepoints}, or leave {key} out"),
                )?;
                let unknown = map.iter().position(|map| !is_class(map.queue) || !is_class(map.group));
                unknown.map_or(Ok(()), |code| {
                    Err(format!("port \"{name}\": {key} {code} has no such queue or group: write 0 to 7"))
                })?;
            }
        }
        Ok(())
    }

    /// Returns the lossless classes.
    pub fn lossless(&self) -> ClassSet {
        self.lossless.iter().map(|class| Class::new(*class)).collect()
    }
}

/// Frames of every Ethernet switch, and the longest of a tester.
const FRAME_BYTES_MIN: u32 = 1_518;
const FRAME_BYTES_MAX: u32 = 16_383;

impl BufferFacts {
    /// Returns the bytes charged for a frame of this length with FCS.
    pub fn charge(&self, frame_bytes: u32) -> u64 {
        let bytes = (frame_bytes + self.charge_extra).max(self.charge_min);
        u64::from(bytes.next_multiple_of(self.cell.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_facts_are_refused() {
        let map = |queue| Some(vec![QueueMap { queue, group: 0 }; 64]);
        let with = |lossless: u8, frame_bytes_max, dscp| {
            let ports = vec![PortFacts { name: "p0".to_owned(), dscp, ..PortFacts::default() }];
            let facts = Facts { ports, lossless: vec![lossless], frame_bytes_max, ..Facts::default() };
            facts.check().err().unwrap_or_default()
        };
        assert_eq!(with(7, 1_518, map(7)), "");
        assert_eq!(with(3, 0, map(0)), "frame_bytes_max is 0: write the longest frame, with FCS, 1518 to 16383");
        assert_eq!(with(8, 9_216, map(0)), "lossless has class 8: write 0 to 7");
        let empty = with(3, 9_216, Some(Vec::new()));
        assert_eq!(empty, "port \"p0\": dscp has 0 codepoints: write 64, or leave dscp out");
        assert_eq!(with(3, 9_216, map(8)), "port \"p0\": dscp 0 has no such queue or group: write 0 to 7");
    }
}
