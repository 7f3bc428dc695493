//! Reno (RFC 5681): the default methods of [`WindowLaw`].

use std::sync::Arc;

use weir_reader::{Key, Named};
use weir_units::archive::Archive;

use super::{TcpControlKind, WindowControl, WindowLaw};
use crate::parameters::Parameters;

/// Kind of `transport = "tcp-reno"`, also its parameters and the state of a flow, both empty.
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
