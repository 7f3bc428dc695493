//! Warnings: settings that are legal and probably not meant.

mod flow_control;
mod pauses;
mod queues;

use weir_config::SwitchConfig;
use weir_experiments::table::count;
use weir_flowctl::MessageKind;
use weir_mmu::{BufferLayout, BufferPolicy, Headroom};
use weir_switch_core::flow_control::queue_limit;
use weir_units::{BitRate, Bytes, PortId, QueueId};

/// Returns a sentence for each doubtful setting of a configuration.
pub(super) fn warnings(switch: &SwitchConfig, layout: &BufferLayout) -> Vec<String> {
    let mut warnings = fast_queues(switch);
    if switch.classes.lossless.is_empty() {
        return warnings;
    }
    warnings.extend(not_lossless(switch, layout));
    for (index, port) in switch.ports.iter().enumerate() {
        // Φ covers arrivals after Xoff; under GFC and CBFC it is only a part of a queue's reservation.
        if queue_limit(switch, index).is_some() {
            continue;
        }
        let by_rule = switch.buffer.headroom == weir_config::Headroom::Auto && switch.given_headroom(index).is_none();
        if let (Some(given), Some(rule)) = (switch.headroom(index), switch.headroom_by_rule(port))
            && !by_rule
            && given < rule
        {
            let backlog = if switch.tx_backlog(port).is_some() { ", with the transmit backlog" } else { "" };
            warnings.push(format!(
                "{}: headroom {} B is less than the {} B of the rule, `headroom = \"auto\"`{backlog}: lossless frames can be lost",
                port.name,
                count(given.get()),
                count(rule.get())
            ));
        }
        if port.flow_control.message_kind() == MessageKind::Nothing {
            warnings
                .push(format!("{}: no flow control, so its lossless classes can overrun their headroom", port.name));
        }
        if switch.headroom(index).is_none_or(|phi| phi == Bytes::ZERO) {
            warnings.push(format!("{}: no headroom, so every frame that arrives after Xoff is lost", port.name));
        }
    }
    warnings.extend(super::nics::warnings(switch));
    warnings.extend(pauses::warnings(switch));
    warnings.extend(queues::warnings(switch));
    warnings.extend(flow_control::warnings(switch, layout));
    warnings
}

/// Limits of queues that their port never lets them reach.
fn fast_queues(switch: &SwitchConfig) -> Vec<String> {
    let of_classes = switch.classes.queues.iter().enumerate().filter_map(|(class, queue)| Some((class, queue.rate?)));
    let of_class = |(class, limit): (usize, BitRate)| {
        let slower = switch.real_ports().map(|port| &switch.ports[port]).filter(|port| port.rate < Some(limit));
        let names: Vec<String> = slower.filter_map(|port| Some(format!("{} ({})", port.name, port.rate?))).collect();
        (!names.is_empty()).then(|| {
            format!(
                "`rate` {limit} of class {class}'s queue is above the port's own of {}: it limits nothing there",
                names.join(", ")
            )
        })
    };
    of_classes.filter_map(of_class).collect()
}

/// Reason why the policy itself can lose lossless frames, if it can.
fn not_lossless(switch: &SwitchConfig, layout: &BufferLayout) -> Option<String> {
    let all_queues: Bytes = layout.ports().iter().flat_map(|port| port.headroom).sum();
    match layout.headroom_from() {
        Headroom::Pool(pool) if pool < all_queues => Some(format!(
            "the headroom pool of {} B is less than the {} B that all lossless ingress queues take at once: when it runs dry, \
             lossless frames are lost",
            count(pool.get()),
            count(all_queues.get())
        )),
        Headroom::Uninsured => {
            Some("no insurance headroom: when the shared buffer is full, lossless frames are lost".to_owned())
        }
        _ => switch.buffer.policy.warning().map(str::to_owned),
    }
}

/// Reason why a policy that lends headroom has none to lend, if no port can.
pub(super) fn no_lender(switch: &SwitchConfig, policy: &dyn BufferPolicy) -> Option<String> {
    let lends = |port: usize| {
        let mut classes = switch.classes.lossless.iter();
        classes.any(|class| policy.in_flight_time(QueueId::new(PortId(port as u16), class)).is_some())
    };
    (policy.lends_headroom() && !switch.classes.lossless.is_empty() && !switch.real_ports().any(lends)).then(|| {
        "no port lends headroom, so victims have the shared segment alone: only ports with `peer = \"host\"`, a rate, and PFC or PAUSE lend"
            .to_owned()
    })
}
