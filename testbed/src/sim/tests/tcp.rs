//! TCP through switches.
