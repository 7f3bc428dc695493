//! Switch under test: its counters, and the settings that tests change.

use serde::{Deserialize, Serialize};
use weir_units::{CLASSES, Class, Span};

use crate::{Disturbance, Facts, TestFailure};

/// Switch under test, whose frames a [`TrafficTester`](crate::TrafficTester) exchanges with it.
pub trait DeviceUnderTest {
    /// Returns the facts of the switch. They do not change.
    fn facts(&self) -> &Facts;

    /// Reads the counters.
    ///
    /// # Errors
    /// If the switch has none, or does not answer.
    fn counters(&mut self) -> Result<DeviceCounters, TestFailure>;

    /// Starts counters and watermarks anew, from the present occupancy.
    ///
    /// # Errors
    /// If the switch cannot.
    fn clear(&mut self) -> Result<(), TestFailure>;

    /// Switches the PFC watchdog on, with the times of [`Facts::watchdog`], or off. It is off at first.
    ///
    /// # Errors
    /// If the switch cannot.
    fn set_watchdog(&mut self, on: bool, drops: bool) -> Result<(), TestFailure>;

    /// Sets the weight of a queue under DWRR, at all ports.
    ///
    /// # Errors
    /// If the switch cannot.
    fn set_weight(&mut self, class: Class, weight: u32) -> Result<(), TestFailure>;

    /// Restores the settings: the watchdog is off, weights are as in the facts.
    ///
    /// # Errors
    /// If the switch cannot.
    fn restore(&mut self) -> Result<(), TestFailure>;

    /// Returns the disturbances of the device since [`DeviceUnderTest::restore`]; none in virtual time.
    fn disturbance(&mut self) -> Disturbance {
        Disturbance::default()
    }

    /// Time in which the device takes over a setting, and its counters include the latest frames; zero in virtual time.
    fn settling_time(&self) -> Span {
        Span::ZERO
    }
}

/// Counters of a switch, since the last [`DeviceUnderTest::clear`]. `None` is a counter that the switch does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceCounters {
    /// Ports, by the tester's numbers.
    pub ports: Vec<PortCounters>,
    /// Pools.
    pub pools: PoolCounters,
}

/// Counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortCounters {
    /// Classes: priority groups for arrivals, queues for departures.
    pub classes: [ClassCounters; CLASSES],
    /// Frames dropped that no class counts, such as malformed ones.
    pub other_drops: Option<u64>,
}

/// Counters of a class at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassCounters {
    /// PFC frames received that enable the class, pauses and resumes (`SAI_PORT_STAT_PFC_n_RX_PKTS`).
    pub rx_pfc: Option<u64>,
    /// PFC frames sent that enable the class (`SAI_PORT_STAT_PFC_n_TX_PKTS`).
    pub tx_pfc: Option<u64>,
    /// Data frames that arrived in the priority group.
    pub rx_frames: Option<u64>,
    /// Data frames that left the queue.
    pub tx_frames: Option<u64>,
    /// Frames of the priority group that were dropped on arrival.
    pub group_drops: Option<u64>,
    /// Frames that were to leave by the queue and were dropped, on arrival or later.
    pub queue_drops: Option<u64>,
    /// Watermark of the group's shared bytes.
    pub group_shared_max: Option<u64>,
    /// Watermark of the group's headroom.
    pub group_headroom_max: Option<u64>,
    /// Watermark of the queue's length.
    pub queue_max: Option<u64>,
    /// Bytes that the group holds now.
    pub group_bytes: Option<u64>,
    /// Storms that the watchdog detected in the queue.
    pub storms_detected: Option<u64>,
    /// Storms that ended.
    pub storms_restored: Option<u64>,
}

/// Counters of pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolCounters {
    /// Watermark of the shared pool.
    pub shared_max: Option<u64>,
    /// Watermark of the headroom pool.
    pub headroom_max: Option<u64>,
}
