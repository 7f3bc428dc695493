//! Configuration of a switch: parses TOML into a checked and typed configuration.
//!
//! [`load`] and [`parse`] read one file; [`check_process`] checks the files of one process against each other. The types here hold only
//! values that are valid alone and against the rest of the file. Checks of the machine (an existing netdev or core) are the caller's, with
//! [`SwitchConfig::error_at`] to point at the line. `docs/CONFIGURATION.md` is the reference.
//!
//! `weir-reader` parses the TOML, also for other kinds of files such as the testbed's scenarios.
//!
//! ```
//! let file = r#"
//! [buffer]
//! size = "1MB"
//!
//! [[ports]]
//! name = "p0"
//! ring = "a"
//! rate = "10Gbps"
//!
//! [[ports]]
//! name = "p1"
//! ring = "b"
//! rate = "10Gbps"
//! "#;
//! let config = weir_config::parse("switch.toml", file).map_err(|errors| errors.render(false)).unwrap();
//! assert_eq!((config.buffer.size.get(), config.ports.len()), (1_000_000, 2));
//!
//! // An error shows its line and a suggestion.
//! let errors = weir_config::parse("switch.toml", &file.replace("1MB", "1 MByte")).unwrap_err();
//! assert!(errors.render(false).contains("switch.toml:3"));
//! ```

#![forbid(unsafe_code)]

mod buffer;
mod classes;
pub mod keys;
mod live;
mod load;
mod memory;
mod nic;
mod nic_buffers;
mod ports;
mod process;
mod replay;
mod switch;
mod tx_backlog;

pub use buffer::{BufferConfig, Headroom, RateConfig, headroom_by_rule};
pub use classes::{ClassConfig, ClassMap, EcnConfig, PfcConfig, QueueConfig, SchedulerKind, Trust};
pub use keys::known_keys;
pub use live::{flow_control_restart_reason, port_of_key, restart_reason};
pub use load::{load, parse, parse_for_virtual_time, read_device};
pub use nic::NicModelConfig;
pub use nic_buffers::NicBuffers;
pub use ports::{
    Device, DeviceFlowControl, PciDevice, PeerKind, PortConfig, PortState, SocketAccess, VhostUser, names_port,
};
pub use process::check_process;
pub use replay::{PausedAction, ReplayConfig, ReplayDirection, ReplayPace};
pub use switch::{
    CatchUpBound, ControlConfig, ControlSocket, IdlePolicy, LcoreConfig, LcoreLayout, SwitchConfig, TelemetryQueue,
    VlanMembers,
};
pub use tx_backlog::TX_DESCRIPTORS;
pub use weir_arbitration::ArbiterChoice;
pub use weir_flowctl::FlowControlChoice;
pub use weir_flowctl::pfc::{StormCondition, WatchdogAction, WatchdogConfig};
pub use weir_reader::{ConfigError, ConfigErrors, Source};
