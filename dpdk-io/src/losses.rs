//! Frames that a device lost, before the program saw them or after it handed them over.
//!
//! [`DRIVERS`] alone knows which counters of a driver count lost frames, and
//! whether these cover all losses of its device.

use std::time::Duration;

use crate::device::PortStats;
use crate::netlink::{Interface, InterfaceCounters};
use crate::port::Port;

/// Frames that a port's device lost, since [`LossMeter::new`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLosses {
    /// Inbound frames that no queue of the port ever had.
    pub receive: Losses,
    /// Outbound frames that the device took and did not send.
    pub transmit: Losses,
}

/// Lost frames of one direction, by cause. The default is: none, and that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    by_cause: [u64; LossCause::ALL.len()],
    /// Losses that the device has no counter for, as a phrase; `None` where it counts all.
    pub uncounted: Option<&'static str>,
}

/// Reason why a device lost a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossCause {
    /// The receive queue, ring or buffer of the device was full.
    ReceiveFull,
    /// The frame was damaged on the wire, or of a length that the device does not accept.
    Damaged,
    /// The packet memory was empty.
    NoMemory,
    /// The kernel's interface dropped the frame before the device's driver received it.
    InterfaceReceive,
    /// The device could not send the frame.
    NotSent,
    /// The kernel's interface, or its peer behind a veth pair, dropped the frame after the device's driver handed it over.
    InterfaceTransmit,
}

impl LossCause {
    /// All causes.
    pub const ALL: [LossCause; 6] = [
        LossCause::ReceiveFull,
        LossCause::Damaged,
        LossCause::NoMemory,
        LossCause::InterfaceReceive,
        LossCause::NotSent,
        LossCause::InterfaceTransmit,
    ];

    /// Name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            LossCause::ReceiveFull => "receive_queue_full",
            LossCause::Damaged => "damaged",
            LossCause::NoMemory => "no_memory",
            LossCause::InterfaceReceive => "interface_rx_dropped",
            LossCause::NotSent => "not_sent",
            LossCause::InterfaceTransmit => "interface_tx_dropped",
        }
    }

    /// Phrase for logs and tables.
    pub fn phrase(self) -> &'static str {
        match self {
            LossCause::ReceiveFull => "receive queue full",
            LossCause::Damaged => "damaged",
            LossCause::NoMemory => "no packet memory",
            LossCause::InterfaceReceive => "dropped by the interface",
            LossCause::NotSent => "not sent",
            LossCause::InterfaceTransmit => "dropped by the interface or behind it",
        }
    }
}

impl Losses {
    /// Lost frames that the device counted.
    pub fn counted(&self) -> u64 {
        self.by_cause.iter().sum()
    }

    /// Causes that occurred, with their frames.
    pub fn causes(&self) -> impl Iterator<Item = (LossCause, u64)> {
        LossCause::ALL.into_iter().zip(self.by_cause).filter(|(_, frames)| *frames > 0)
    }

    /// Adds frames lost for a cause.
    pub fn add(&mut self, cause: LossCause, frames: u64) {
        self.by_cause[cause as usize] += frames;
    }

    /// Losses since `earlier`, a value of the same meter.
    pub fn since(&self, earlier: &Losses) -> Losses {
        let mut since = *self;
        for (now, was) in since.by_cause.iter_mut().zip(earlier.by_cause) {
            *now = now.saturating_sub(was);
        }
        since
    }
}

/// Counters by which the losses of a driver's devices are known.
#[derive(Debug)]
pub struct DriverCounters {
    /// The driver's name; empty for the row of drivers that have none.
    pub driver: &'static str,
    receive: LossSources,
    transmit: LossSources,
}

#[derive(Debug)]
struct LossSources {
    /// Counters of lost frames. No frame is in two of them.
    counters: &'static [(CounterSource, LossCause)],
    uncounted: Option<&'static str>,
}

/// The source of a counter.
#[derive(Clone, Copy, Debug)]
enum CounterSource {
    Missed,
    Errors,
    NoMbuf,
    OutErrors,
    /// The counter of this name in [`Port::xstats`].
    Extended(&'static str),
    /// Frames dropped at receive queues, summed over them.
    QueueErrors,
    Interface(fn(&InterfaceCounters) -> u64),
    /// A counter of the interface's, less frames that it counts and that are not lost: the sum of these names in [`Port::xstats`].
    InterfaceLess(fn(&InterfaceCounters) -> u64, &'static [&'static str]),
}

/// A direction without losses: frames that find no room stay with the sender.
const NOTHING: LossSources = LossSources { counters: &[], uncounted: None };

/// Longest time in which an lcore that has CPU time counts a frame that the kernel refused, with a margin for other threads on its CPU.
const REFUSAL_IS_COUNTED_WITHIN: Duration = Duration::from_millis(5);

const MISSED: (CounterSource, LossCause) = (CounterSource::Missed, LossCause::ReceiveFull);
const DAMAGED: (CounterSource, LossCause) = (CounterSource::Errors, LossCause::Damaged);
const NO_MEMORY: (CounterSource, LossCause) = (CounterSource::NoMbuf, LossCause::NoMemory);
const NOT_SENT: (CounterSource, LossCause) = (CounterSource::OutErrors, LossCause::NotSent);

/// Frames that the NIC below an interface had no room for.
const NIC_MISSED: (CounterSource, LossCause) = (CounterSource::Interface(|i| i.rx_missed), LossCause::ReceiveFull);
const NIC_DAMAGED: (CounterSource, LossCause) = (CounterSource::Interface(|i| i.rx_errors), LossCause::Damaged);
/// Frames that reached no packet socket, and frames whose protocol the kernel does not have.
const INTERFACE_RX: (CounterSource, LossCause) =
    (CounterSource::Interface(|i| i.rx_dropped), LossCause::InterfaceReceive);
/// Frames that did not reach our socket. The kernel also counts frames as dropped that our socket got, if no protocol takes them
/// after their VLAN tag was taken off (`__netif_receive_skb_core`).
const NETDEV_RX: (CounterSource, LossCause) =
    (CounterSource::InterfaceLess(|i| i.rx_dropped, &["rx_no_protocol", "rx_in_ring"]), LossCause::InterfaceReceive);
/// Frames that the interface dropped after it took them. Its counter also has those that it refused, which stay with us, maybe the one of
/// a call that goes on: an lcore without CPU ends it late.
const NETDEV_TX: (CounterSource, LossCause) =
    (CounterSource::InterfaceLess(|i| i.tx_dropped, &["tx_busy", "tx_pending"]), LossCause::InterfaceTransmit);
/// Frames dropped at receive queues for want of descriptors.
const QUEUE_DROPPED: (CounterSource, LossCause) = (CounterSource::QueueErrors, LossCause::ReceiveFull);
/// Frames longer than the device's limit (ROC), where the driver leaves them out of `ierrors`.
const OVERSIZE: (CounterSource, LossCause) = (CounterSource::Extended("rx_oversize_errors"), LossCause::Damaged);
const INTERFACE_TX: (CounterSource, LossCause) =
    (CounterSource::Interface(|i| i.tx_dropped), LossCause::InterfaceTransmit);
/// Lost carriers are among them.
const INTERFACE_TX_ERRORS: (CounterSource, LossCause) =
    (CounterSource::Interface(|i| i.tx_errors), LossCause::InterfaceTransmit);

const NIC_TRANSMIT: LossSources = LossSources { counters: &[NOT_SENT], uncounted: None };

/// The reason why the losses of a driver without a test are not known.
const UNTRIED: Option<&str> = Some("losses beyond its counters, which no test has confirmed");
const UNTRIED_RECEIVE: LossSources = LossSources { counters: &[MISSED, DAMAGED], uncounted: UNTRIED };
const UNTRIED_TRANSMIT: LossSources = LossSources { counters: &[NOT_SENT], uncounted: UNTRIED };

/// The counters of each driver, from its sources (DPDK 22.11 to 24.11). `oerrors` is used only where the driver counts frames that it
/// took. `rx_nombuf` of a NIC counts no lost frame: the frame waits in its descriptor, and later ones are missed.
///
/// A row is complete only where a test loses frames and finds all of them counted.
static DRIVERS: &[DriverCounters] = &[
    // Its rings are in memory: frames that find no room stay with the sender.
    DriverCounters { driver: "net_ring", receive: NOTHING, transmit: NOTHING },
    DriverCounters { driver: "net_null", receive: NOTHING, transmit: NOTHING },
    DriverCounters { driver: "net_memif", receive: NOTHING, transmit: NOTHING },
    DriverCounters { driver: "net_vhost", receive: NOTHING, transmit: NOTHING },
    DriverCounters {
        driver: "net_pcap",
        receive: LossSources { counters: &[MISSED, DAMAGED, NO_MEMORY], uncounted: None },
        transmit: NIC_TRANSMIT,
    },
    // The interface is the host's end of the cable: frames that it could not send are those that the port did not receive.
    DriverCounters {
        driver: "net_tap",
        receive: LossSources {
            counters: &[
                (CounterSource::Interface(|i| i.tx_dropped), LossCause::ReceiveFull),
                (CounterSource::Interface(|i| i.tx_errors), LossCause::Damaged),
                DAMAGED,
                NO_MEMORY,
            ],
            uncounted: None,
        },
        transmit: NOTHING,
    },
    DriverCounters {
        driver: "net_af_packet",
        receive: LossSources {
            counters: &[NIC_MISSED, NIC_DAMAGED, INTERFACE_RX],
            uncounted: Some("frames that found the packet socket's ring full"),
        },
        transmit: LossSources {
            counters: &[NOT_SENT, INTERFACE_TX, INTERFACE_TX_ERRORS],
            uncounted: Some("frames longer than the interface's MTU"),
        },
    },
    // Our own port on an interface. Drivers of the kernel's that refuse a frame count it as dropped each time, and it stays with us.
    DriverCounters {
        driver: "af_packet",
        receive: LossSources { counters: &[MISSED, DAMAGED, NIC_MISSED, NIC_DAMAGED, NETDEV_RX], uncounted: None },
        transmit: LossSources { counters: &[NOT_SENT, NETDEV_TX, INTERFACE_TX_ERRORS], uncounted: None },
    },
    // The interface's rx_dropped includes some of the socket's drops, depending on the XDP mode.
    DriverCounters {
        driver: "net_af_xdp",
        receive: LossSources { counters: &[MISSED, NIC_MISSED, NIC_DAMAGED], uncounted: None },
        transmit: LossSources {
            counters: &[
                (CounterSource::Extended("xsk_tx_invalid"), LossCause::NotSent),
                INTERFACE_TX,
                INTERFACE_TX_ERRORS,
            ],
            uncounted: None,
        },
    },
    // imissed: RXMPC, frames that found the packet buffer full. q_errors: QPRDC, frames that found no descriptor of a queue with
    // Drop_En. ierrors has ROC (`ixgbe_dev_stats_get`).
    DriverCounters {
        driver: "net_ixgbe",
        receive: LossSources { counters: &[MISSED, DAMAGED, QUEUE_DROPPED], uncounted: None },
        transmit: NIC_TRANSMIT,
    },
    // imissed: MPC. RQDPC, of queues with Drop_En, is never read, so no queue has that (`weir_port_configure`).
    DriverCounters {
        driver: "net_e1000_igb",
        receive: LossSources { counters: &[MISSED, DAMAGED, OVERSIZE], uncounted: None },
        transmit: NIC_TRANSMIT,
    },
    // imissed: MPC. RQDPC is in q_errors only of queues that are mapped to counters, and no queue has Drop_En.
    DriverCounters {
        driver: "net_igc",
        receive: LossSources { counters: &[MISSED, DAMAGED, OVERSIZE], uncounted: None },
        transmit: NIC_TRANSMIT,
    },
    // imissed: MPC. The driver adds ROC up and shows it nowhere (`eth_em_stats_get`).
    DriverCounters {
        driver: "net_e1000_em",
        receive: LossSources { counters: &[MISSED, DAMAGED], uncounted: Some("frames longer than its limit") },
        transmit: NIC_TRANSMIT,
    },
    DriverCounters { driver: "net_i40e", receive: UNTRIED_RECEIVE, transmit: UNTRIED_TRANSMIT },
    DriverCounters { driver: "net_ice", receive: UNTRIED_RECEIVE, transmit: UNTRIED_TRANSMIT },
    DriverCounters { driver: "net_bnxt", receive: UNTRIED_RECEIVE, transmit: UNTRIED_TRANSMIT },
    // The driver gives the buffer of a frame without packet memory back to the device.
    DriverCounters {
        driver: "net_vmxnet3",
        receive: LossSources { counters: &[MISSED, DAMAGED, NO_MEMORY], uncounted: UNTRIED },
        transmit: UNTRIED_TRANSMIT,
    },
    // imissed: frames without a descriptor. The physical port's discards: frames without a buffer of the NIC.
    DriverCounters {
        driver: "mlx5_pci",
        receive: LossSources {
            counters: &[
                MISSED,
                DAMAGED,
                (CounterSource::Extended("rx_phy_discard_packets"), LossCause::ReceiveFull),
                (CounterSource::Extended("rx_phy_crc_errors"), LossCause::Damaged),
            ],
            uncounted: UNTRIED,
        },
        transmit: LossSources {
            counters: &[NOT_SENT, (CounterSource::Extended("tx_phy_discard_packets"), LossCause::NotSent)],
            uncounted: UNTRIED,
        },
    },
    DriverCounters {
        driver: "net_virtio",
        receive: LossSources { counters: &[DAMAGED], uncounted: Some("frames that its backend had no room for") },
        transmit: LossSources { counters: &[], uncounted: Some("frames that its backend could not send") },
    },
    UNKNOWN_DRIVER,
];

/// The row of any other driver: its counters are not known to cover all losses.
const UNKNOWN_DRIVER: DriverCounters = DriverCounters {
    driver: "",
    receive: LossSources {
        counters: &[MISSED, DAMAGED],
        uncounted: Some("what this driver's counters mean is not known"),
    },
    transmit: LossSources { counters: &[], uncounted: Some("what this driver's counters mean is not known") },
};

/// Loss counters of a driver.
pub fn driver_counters(driver: &str) -> &'static DriverCounters {
    static UNKNOWN: DriverCounters = UNKNOWN_DRIVER;
    DRIVERS.iter().find(|row| row.driver == driver).unwrap_or(&UNKNOWN)
}

impl DriverCounters {
    /// Losses that devices of this driver have no counter for, on receive and on transmit.
    pub fn uncounted(&self) -> [Option<&'static str>; 2] {
        [self.receive.uncounted, self.transmit.uncounted]
    }

    fn counters(&self) -> impl Iterator<Item = (bool, CounterSource, LossCause)> {
        let receive = self.receive.counters.iter().map(|(counter, cause)| (true, *counter, *cause));
        receive.chain(self.transmit.counters.iter().map(|(counter, cause)| (false, *counter, *cause)))
    }

    fn reads(&self, wanted: impl Fn(&CounterSource) -> bool) -> bool {
        self.counters().any(|(_, counter, _)| wanted(&counter))
    }
}

/// Follows the counters of one port's device. They may start again from 0, as those of an interface that is made again do.
#[derive(Debug)]
pub struct LossMeter {
    driver_counters: &'static DriverCounters,
    interface: Option<String>,
    /// The last value of each counter of the row; `None` before it was ever read.
    last: Vec<Option<u64>>,
    losses: DeviceLosses,
}

impl LossMeter {
    /// Counts from now on. `interface` is the kernel's interface that the port drives, or makes, if there is one.
    pub fn new(port: &Port, interface: Option<&str>) -> LossMeter {
        let driver_counters = driver_counters(&port.driver_name());
        let mut meter = LossMeter::for_driver(driver_counters, interface);
        meter.read(port);
        meter
    }

    fn for_driver(driver_counters: &'static DriverCounters, interface: Option<&str>) -> LossMeter {
        let losses = DeviceLosses {
            receive: Losses { uncounted: driver_counters.receive.uncounted, ..Losses::default() },
            transmit: Losses { uncounted: driver_counters.transmit.uncounted, ..Losses::default() },
        };
        LossMeter {
            driver_counters,
            interface: interface.map(str::to_owned),
            last: vec![None; driver_counters.counters().count()],
            losses,
        }
    }

    /// Reads the device's counters: every second at least, or those of some NICs stick at their highest value. Takes some
    /// system calls, so lcores do not call it. Returns the losses since the start.
    ///
    /// A removed device is not read: the registers of an unplugged one are all ones.
    pub fn read(&mut self, port: &Port) -> DeviceLosses {
        if port.is_removed() {
            return self.end();
        }
        let (row, interface) = (self.driver_counters, self.interface.clone());
        let interface = || interface.as_deref().and_then(|name| Interface::by_name(name).ok().flatten());
        self.read_by(|| CounterSample {
            stats: port.stats().ok(),
            // Before the driver's own, so that a frame that arrives or is refused meanwhile does not count as lost.
            interface: if row
                .reads(|counter| matches!(counter, CounterSource::Interface(_) | CounterSource::InterfaceLess(..)))
            {
                interface().map(|interface| interface.counters)
            } else {
                None
            },
            extended: if row
                .reads(|counter| matches!(counter, CounterSource::Extended(_) | CounterSource::InterfaceLess(..)))
            {
                port.xstats().unwrap_or_default()
            } else {
                Vec::new()
            },
        })
    }

    /// Returns the losses. Those of a removed device are unknown.
    fn end(&mut self) -> DeviceLosses {
        for losses in [&mut self.losses.receive, &mut self.losses.transmit] {
            losses.uncounted = losses.uncounted.or(Some("losses before it was taken away"));
        }
        self.losses
    }

    /// Takes a reading. Where it may count a frame as lost that the interface refused, and whose sender had no CPU yet to count it,
    /// another one a little later is taken in its place.
    fn read_by(&mut self, mut reading: impl FnMut() -> CounterSample) -> DeviceLosses {
        let mut read = reading();
        if self.has_new_silent_losses(&read) {
            std::thread::sleep(REFUSAL_IS_COUNTED_WITHIN);
            read = reading();
        }
        self.take(&read)
    }

    fn has_new_silent_losses(&self, reading: &CounterSample) -> bool {
        self.driver_counters.counters().zip(&self.last).any(|((_, counter, _), last)| {
            matches!(counter, CounterSource::InterfaceLess(..))
                && matches!((reading.value(counter), last), (Some(now), Some(before)) if now > *before)
        })
    }

    fn take(&mut self, reading: &CounterSample) -> DeviceLosses {
        for ((is_receive, counter, cause), last) in self.driver_counters.counters().zip(&mut self.last) {
            let losses = if is_receive { &mut self.losses.receive } else { &mut self.losses.transmit };
            match (reading.value(counter), *last) {
                // The counters of the difference do not change at the same instant.
                (Some(now), Some(before)) if matches!(counter, CounterSource::InterfaceLess(..)) => {
                    losses.add(cause, now.saturating_sub(before));
                    *last = Some(now.max(before));
                }
                (Some(now), Some(before)) => {
                    // Less than before: it has started again from 0.
                    losses.add(cause, now.checked_sub(before).unwrap_or(now));
                    *last = Some(now);
                }
                (Some(now), None) => *last = Some(reading.first(counter).unwrap_or(now)),
                // The counter is gone for now, with its interface; its losses are kept.
                (None, Some(_)) => {}
                (None, None) => losses.uncounted = losses.uncounted.or(Some("a counter of the device can't be read")),
            }
        }
        self.losses
    }
}

/// Counters of a device, read at one instant.
#[derive(Debug, Default)]
struct CounterSample {
    stats: Option<PortStats>,
    extended: Vec<(String, u64)>,
    interface: Option<InterfaceCounters>,
}

impl CounterSample {
    fn value(&self, counter: CounterSource) -> Option<u64> {
        let stats = self.stats.as_ref();
        match counter {
            CounterSource::Missed => stats.map(|stats| stats.imissed),
            CounterSource::Errors => stats.map(|stats| stats.ierrors),
            CounterSource::NoMbuf => stats.map(|stats| stats.rx_nombuf),
            CounterSource::OutErrors => stats.map(|stats| stats.oerrors),
            CounterSource::Extended(name) => self.extended(name),
            CounterSource::Interface(value) => self.interface.as_ref().map(value),
            CounterSource::QueueErrors => stats.map(|stats| stats.q_errors),
            CounterSource::InterfaceLess(value, names) => {
                let kept: Option<u64> = names.iter().map(|name| self.extended(name)).sum();
                Some(value(self.interface.as_ref()?).saturating_sub(kept?))
            }
        }
    }
}

impl CounterSample {
    /// The value that losses are counted from, where that is not [`CounterSample::value`]. Frames in the ring at the start may have a protocol:
    /// then they are not among those that were dropped before, and count for none when they leave it.
    fn first(&self, counter: CounterSource) -> Option<u64> {
        match counter {
            CounterSource::InterfaceLess(value, _) => self.interface.as_ref().map(value),
            _ => None,
        }
    }

    fn extended(&self, name: &str) -> Option<u64> {
        self.extended.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(imissed: u64, ierrors: u64, oerrors: u64) -> CounterSample {
        let stats = PortStats { imissed, ierrors, oerrors, rx_nombuf: 77, ..PortStats::default() };
        CounterSample { stats: Some(stats), ..CounterSample::default() }
    }

    #[test]
    fn losses_are_counted_from_the_start_by_cause() {
        let mut meter = LossMeter::for_driver(driver_counters("net_ixgbe"), None);
        assert_eq!(meter.take(&reading(5, 2, 1)), DeviceLosses::default());
        let losses = meter.take(&reading(15, 2, 4));
        assert_eq!(losses.receive.causes().collect::<Vec<_>>(), [(LossCause::ReceiveFull, 10)]);
        assert_eq!(losses.transmit.causes().collect::<Vec<_>>(), [(LossCause::NotSent, 3)]);
        assert_eq!((losses.receive.uncounted, losses.transmit.uncounted), (None, None));
        let later = meter.take(&reading(15, 3, 4));
        assert_eq!(later.receive.since(&losses.receive).causes().collect::<Vec<_>>(), [(LossCause::Damaged, 1)]);
    }

    #[test]
    fn counters_that_start_again_lose_nothing() {
        let mut meter = LossMeter::for_driver(driver_counters("net_ixgbe"), None);
        for missed in [100, 110, 3, 4] {
            meter.take(&reading(missed, 0, 0));
        }
        // 10, then 3 since the new start, then 1.
        assert_eq!(meter.take(&reading(4, 0, 0)).receive.counted(), 14);
    }

    #[test]
    fn a_removed_interface_keeps_its_losses() {
        let with = |tx_dropped| CounterSample {
            interface: Some(InterfaceCounters { tx_dropped, ..InterfaceCounters::default() }),
            ..reading(0, 0, 0)
        };
        let mut meter = LossMeter::for_driver(driver_counters("net_af_packet"), Some("veth0"));
        meter.take(&with(10));
        meter.take(&with(12));
        meter.take(&reading(0, 0, 0));
        let losses = meter.take(&with(1));
        assert_eq!(losses.transmit.causes().collect::<Vec<_>>(), [(LossCause::InterfaceTransmit, 3)]);
    }

    #[test]
    fn a_refused_frame_that_its_sender_counts_late_is_not_lost() {
        let with = |tx_dropped, tx_busy, tx_pending| CounterSample {
            interface: Some(InterfaceCounters { tx_dropped, ..InterfaceCounters::default() }),
            extended: vec![("tx_busy".to_owned(), tx_busy), ("tx_pending".to_owned(), tx_pending)],
            ..reading(0, 0, 0)
        };
        let mut meter = LossMeter::for_driver(driver_counters("af_packet"), Some("veth0"));
        let mut readings = [with(0, 0, 0), with(5, 4, 0), with(6, 6, 0), with(7, 6, 0), with(7, 6, 0)].into_iter();
        let mut lost = || meter.read_by(|| readings.next().unwrap()).transmit.counted();
        assert_eq!(
            [lost(), lost(), lost()],
            [0, 0, 1],
            "the interface was ahead for a moment, and then dropped one in silence"
        );
        // An lcore that has no CPU in the middle of a call, however long: the frame is refused, or dropped in silence.
        let mut readings = [with(8, 6, 1), with(8, 7, 0), with(9, 7, 1), with(9, 7, 0), with(9, 7, 0)].into_iter();
        let mut lost = || meter.read_by(|| readings.next().unwrap()).transmit.counted();
        assert_eq!([lost(), lost(), lost(), lost()], [1, 1, 1, 2]);
    }

    #[test]
    fn frames_of_no_protocol_are_not_lost() {
        let with = |rx_dropped, rx_no_protocol: u64, rx_in_ring: u64| CounterSample {
            interface: Some(InterfaceCounters { rx_dropped, ..InterfaceCounters::default() }),
            extended: [
                ("rx_no_protocol", rx_no_protocol),
                ("rx_in_ring", rx_in_ring),
                ("tx_busy", 0),
                ("tx_pending", 0),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
            ..reading(0, 0, 0)
        };
        let mut meter = LossMeter::for_driver(driver_counters("af_packet"), Some("veth0"));
        let mut lost = |reading: CounterSample| meter.take(&reading).receive.counted();
        assert_eq!(lost(with(7, 0, 0)), 0, "dropped before the start");
        assert_eq!(lost(with(407, 380, 20)), 0, "all arrived, or are in the ring");
        assert_eq!(lost(with(410, 400, 0)), 3, "three more did not");
        assert_eq!(lost(with(410, 400, 5)), 3);
        // The ring holds frames of a protocol at the start, which are taken.
        let mut meter = LossMeter::for_driver(driver_counters("af_packet"), Some("veth0"));
        let mut lost = |reading: CounterSample| meter.take(&reading).receive.counted();
        assert_eq!([with(7, 0, 20), with(7, 0, 0), with(9, 0, 0)].map(&mut lost), [0, 0, 2]);
    }

    #[test]
    fn a_queue_that_drops_and_a_limit_that_is_passed_are_counted() {
        let with = |imissed, q_errors, oversize| CounterSample {
            stats: Some(PortStats { imissed, q_errors, ..PortStats::default() }),
            extended: vec![("rx_oversize_errors".to_owned(), oversize)],
            ..CounterSample::default()
        };
        for (driver, expected) in [("net_ixgbe", 3 + 40), ("net_e1000_igb", 3 + 500), ("net_igc", 3 + 500)] {
            let mut meter = LossMeter::for_driver(driver_counters(driver), None);
            meter.take(&with(0, 0, 0));
            let losses = meter.take(&with(3, 40, 500));
            assert_eq!((losses.receive.counted(), losses.receive.uncounted), (expected, None), "{driver}");
        }
    }

    #[test]
    fn a_device_that_is_taken_away_keeps_what_it_lost_and_is_not_complete() {
        let mut meter = LossMeter::for_driver(driver_counters("net_ixgbe"), None);
        meter.take(&reading(5, 0, 0));
        meter.take(&reading(15, 0, 0));
        let losses = meter.end();
        assert_eq!((losses.receive.counted(), losses.transmit.counted()), (10, 0));
        assert!(losses.receive.uncounted.is_some() && losses.transmit.uncounted.is_some());
    }

    #[test]
    fn rows_without_a_test_are_not_complete() {
        for driver in ["net_i40e", "net_ice", "net_bnxt", "mlx5_pci", "net_vmxnet3"] {
            assert!(driver_counters(driver).uncounted().iter().all(Option::is_some), "{driver}");
        }
    }

    #[test]
    fn what_can_not_be_read_or_is_no_driver_of_ours_is_unknown() {
        let mut meter = LossMeter::for_driver(driver_counters("net_af_xdp"), Some("veth0"));
        let losses = meter.take(&reading(0, 0, 0));
        assert!(losses.receive.uncounted.is_some() && losses.transmit.uncounted.is_some());
        let mut meter = LossMeter::for_driver(driver_counters("net_new"), None);
        meter.take(&reading(0, 0, 0));
        let losses = meter.take(&reading(4, 0, 9));
        assert_eq!((losses.receive.counted(), losses.transmit.counted()), (4, 0));
        assert!(losses.receive.uncounted.is_some() && losses.transmit.uncounted.is_some());
    }

    #[test]
    fn each_driver_has_one_row() {
        for (index, row) in DRIVERS.iter().enumerate() {
            assert!(DRIVERS[..index].iter().all(|earlier| earlier.driver != row.driver), "{}", row.driver);
        }
    }
}
