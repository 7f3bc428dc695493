//! Reno: what [`WindowLaw`] does by itself (RFC 5681).

use std::sync::Arc;

use weir_reader::{Key, Named};
use weir_units::archive::Archive;

use super::{TcpControlKind, WindowControl, WindowLaw};
use crate::parameters::Parameters;

/// `transport = "tcp-reno"`; its parameters, of which there are none; and a flow's state, alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reno;

impl Named for Reno {
    fn name(&self) -> &'static str {
        "tcp-reno"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl TcpControlKind for Reno {
    fn read(&self, _parameters: &Parameters<'_>) -> Arc<dyn WindowControl> {
        Arc::new(Reno)
    }
}

impl WindowControl for Reno {
    fn law(&self) -> Box<dyn WindowLaw> {
        Box::new(Reno)
    }
}

impl WindowLaw for Reno {
    fn checkpoint(&mut self, _archive: &mut Archive) {}
}
