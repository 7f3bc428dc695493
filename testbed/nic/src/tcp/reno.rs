//! Reno (RFC 5681): the default methods of [`TcpCongestionController`].

use std::sync::Arc;

use weir_reader::Plugin;

use super::{TcpCongestionConfig, TcpCongestionController, TcpCongestionKind};
use crate::parameters::Parameters;

/// Kind of `transport = "tcp-reno"`, also its parameters and the state of a flow, both empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reno;

impl Plugin for Reno {
    fn id(&self) -> &'static str {
        "tcp-reno"
    }
}

impl TcpCongestionKind for Reno {
    fn parse(&self, _parameters: &Parameters<'_>) -> Arc<dyn TcpCongestionConfig> {
        Arc::new(Reno)
    }
}

impl TcpCongestionConfig for Reno {
    fn build(&self) -> Box<dyn TcpCongestionController> {
        Box::new(Reno)
    }
}

impl TcpCongestionController for Reno {}
