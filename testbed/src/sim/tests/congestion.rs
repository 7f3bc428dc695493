//! Congestion controls on one port.
