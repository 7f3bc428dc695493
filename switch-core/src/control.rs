//! Received MAC control frames: obeyed, or counted and ignored.

use weir_flowctl::ReceiveAccounting;
use weir_units::{PortId, Time};
use weir_wire::mac_control::{ControlFrame, DecodeError, PfcFrame};

use crate::counters::{Counters, port_stat};
use crate::shared::Shared;

/// Whether a control frame has the sender's count of sent data, which is valid at its place among the data.
pub(crate) fn has_account(control: Result<ControlFrame, DecodeError>) -> bool {
    control.is_ok_and(|frame| ReceiveAccounting::has_account(&frame))
}

/// Obeys a MAC control frame that `port` received, or counts the reason why not. A port obeys only its own flow control; frames of others
/// are counted and ignored. PFC pauses only `Shared::obeyed`, by default the lossless classes: a paused lossy queue would occupy buffer.
pub(crate) fn handle_control(
    shared: &Shared,
    counters: &mut Counters,
    now: Time,
    port: PortId,
    control: Result<ControlFrame, DecodeError>,
) {
    let mut frame = match control {
        Ok(frame) => frame,
        Err(DecodeError::Truncated | DecodeError::Destination | DecodeError::Tagged | DecodeError::NoClass) => {
            return counters.add_port(port, port_stat::MALFORMED, 1);
        }
    };
    let state = shared.port(port);
    if state.is_admin_down() {
        return counters.add_port(port, port_stat::IGNORED, 1);
    }
    match frame {
        // Frames that GFC reads as stages pause no class.
        ControlFrame::Pfc(_) if !state.regulator.rated_classes().is_empty() => {
            counters.add_port(port, port_stat::PFC, 1)
        }
        ControlFrame::Pfc(pfc) => {
            counters.add_port(port, port_stat::PFC, 1);
            pfc.paused().iter().for_each(|class| counters.add_port(port, port_stat::XOFF + class.index(), 1));
            pfc.resumed().iter().for_each(|class| counters.add_port(port, port_stat::XON + class.index(), 1));
            if !(pfc.paused() - shared.obeyed).is_empty() {
                counters.add_port(port, port_stat::LOSSY_PAUSES, 1);
            }
            frame = ControlFrame::Pfc(PfcFrame { enabled: pfc.enabled & shared.obeyed, ..pfc });
        }
        ControlFrame::Pause(_) => counters.add_port(port, port_stat::PAUSE, 1),
        ControlFrame::Credit(_) | ControlFrame::Queue(_) | ControlFrame::Update(_) => {
            counters.add_port(port, port_stat::CREDIT, 1);
        }
        ControlFrame::Raw(_) if state.regulator.handle(now, &frame) => {
            return counters.add_port(port, port_stat::OWN, 1);
        }
        // An unknown opcode is no sign of a peer with another flow control.
        ControlFrame::Raw(_) => return counters.add_port(port, port_stat::IGNORED, 1),
    }
    if !state.regulator.handle(now, &frame) {
        counters.add_port(port, port_stat::IGNORED, 1);
        counters.add_port(port, port_stat::FOREIGN, 1);
    } else if let (Some(storms), ControlFrame::Pfc(frame)) = (state.storms(), &frame) {
        storms.count_pfc(frame);
    }
}
