//! The configuration of a switch: TOML in, checked and typed configuration out.
//!
//! [`load`] and [`parse`] read one file; [`check_together`] holds the files of one process against each other.
//! The types here hold only what is legal on its own and against the rest of the file. What needs the machine
//! (does that netdev exist, is there such a core) is checked by whoever uses it, with
//! [`SwitchConfig::error_at`] to point back at the line. `docs/CONFIGURATION.md` is the reference.
//!
//! `weir-reader` reads the TOML, here as for other kinds of files such as the testbed's scenarios.
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
//! // A mistake is told with its line and what to write instead.
//! let errors = weir_config::parse("switch.toml", &file.replace("1MB", "1 MByte")).unwrap_err();
//! assert!(errors.render(false).contains("switch.toml:3"));
//! ```

#![forbid(unsafe_code)]

mod buffer;
mod classes;
mod keys;
mod live;
mod load;
mod memory;
mod nic;
mod nic_buffers;
mod ports;
mod replay;
mod switch;
mod together;
mod tx_backlog;

pub use buffer::{BufferConfig, Headroom, RateConfig, headroom_by_rule};
pub use classes::{ClassConfig, EcnConfig, PfcConfig, QueueConfig, SchedulerKind, Trust};
pub use keys::known_keys;
pub use live::{port_of_key, why_not_live, why_not_spoken};
pub use load::{load, parse, parse_for_virtual_time, read_device};
pub use nic::NicModelConfig;
pub use nic_buffers::NicBuffers;
pub use ports::{Device, DeviceFlowControl, PciDevice, PortConfig, PortState, SocketAccess, VhostUser};
pub use replay::{ReplayConfig, ReplayDirection, ReplayPace, WhenPaused};
pub use switch::{CatchUp, ControlConfig, ControlSocket, Idle, Layout, LcoreConfig, SwitchConfig};
pub use together::check_together;
pub use tx_backlog::TX_DESCRIPTORS;
pub use weir_arbitration::Arbitration;
pub use weir_flowctl::FlowControl;
pub use weir_flowctl::pfc::{StormCondition, WatchdogAction, WatchdogConfig};
pub use weir_reader::{ConfigError, ConfigErrors, Source};
