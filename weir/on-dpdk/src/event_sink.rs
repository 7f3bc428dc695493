//! Events of a run, for its record.

use weir_results::run_dir::EventKind;
use weir_units::{Class, PortId};

/// Receiver of an event: switch, port, class, kind.
pub(crate) type EventSink<'n> = &'n mut dyn FnMut(usize, PortId, Option<Class>, EventKind<'_>);
