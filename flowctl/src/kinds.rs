//! Weir's own flow controls, one per file. A new one is a file here and a line in [`FLOW_CONTROLS`].

mod cbfc;
mod closed_form;
mod gfc_buffer;
mod gfc_conceptual;
mod gfc_time;
mod none;
mod pause;
mod pause_receiver;
mod pfc;
mod uec_cbfc;

use weir_reader::{Gauge, Registry};

use crate::{FlowControlChoice, FlowControlKind};

pub use cbfc::{Cbfc, CbfcConfig};
pub use closed_form::{FOR_AN_EXPERIMENT, FeedbackDelay};
pub use gfc_buffer::{GfcBuffer, GfcBufferConfig, GfcPeer, GfcPulse};
pub use gfc_conceptual::{GfcConceptual, GfcConceptualConfig};
pub use gfc_time::{GfcTime, GfcTimeConfig};
pub use none::NoFlowControl;
pub use pause::{Pause, PauseKind};
pub use pfc::{Pfc, PfcKind};
pub use uec_cbfc::{UecCbfc, UecCbfcConfig};

/// Registry of flow controls, PFC first, which is the default.
pub static FLOW_CONTROLS: Registry<dyn FlowControlKind> = Registry::new(
    "flow control",
    &[
        &PfcKind,
        &PauseKind,
        &NoFlowControl,
        &gfc_buffer::KIND,
        &gfc_conceptual::KIND,
        &gfc_time::KIND,
        &cbfc::KIND,
        &uec_cbfc::KIND,
    ],
);

impl FlowControlChoice {
    /// Gauges of the kind.
    pub fn gauges(&self) -> &'static [Gauge] {
        FLOW_CONTROLS.find(self.kind()).map_or(&[], |kind| kind.gauges())
    }
}
