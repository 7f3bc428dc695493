//! Transport of a flow.

use std::sync::Arc;

use crate::tcp::TcpConfig;

/// Transport of a flow.
#[derive(Clone, Debug)]
pub enum Transport {
    /// RDMA WRITEs or SENDs over a reliable connection.
    Rdma,
    /// TCP, in virtual time only: its messages are one stream of bytes, and complete when all their bytes are acknowledged. Keys of
    /// RDMA's congestion control, acknowledgements and retransmission do not apply.
    Tcp(Arc<TcpConfig>),
}

impl Transport {
    /// Returns TCP with this configuration.
    pub fn tcp(config: TcpConfig) -> Transport {
        Transport::Tcp(Arc::new(config))
    }

    /// Whether the transport is TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Transport::Tcp(_))
    }
}
