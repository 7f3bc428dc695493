//! Target of the switch with its lcores, under frames, control messages, changes of its configuration, and time.
//!
//! An input is a switch, then operations: bursts of frames, forged messages, polls after some time, changes. At the end all is quiet. In
//! between and at the end these hold, besides the assertions in the switch itself:
//!
//! - received + copied = sent + dropped + held, and both are the frames of its ports;
//! - the MMU's counts agree with each other ([`weir_mmu::Mmu::check_conservation`]), and no more frames are held than there are mbufs;
//! - no lossless frame is dropped for want of buffer while peers obey;
//! - no class is paused after the end of the last message's time, or after the link went;
//! - while peers obey, no frame of a paused class leaves, and each leaves at its station's port; none ever returns to its own;
//! - each learned address was heard at its port;
//! - frames of a stream leave a port in order;
//! - peers are resumed when nothing is held; after silence no peer is paused, and no queue in a storm.

mod case;
mod frame;
mod frames;
mod peers;
mod plan;

use crate::CaseOutcome;
use crate::input::FuzzInput;

/// Runs the case of an input.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(bytes: &[u8]) -> CaseOutcome {
    let mut input = FuzzInput::new(bytes);
    let Some(mut case) = case::SwitchCase::new(&mut input) else {
        return CaseOutcome { is_refused: true, ..CaseOutcome::default() };
    };
    while !input.is_empty() {
        case.step(&mut input);
    }
    case.finish()
}
