//! Lossless classes that leave by a queue of another number than that of their priority group.

use weir_config::SwitchConfig;
use weir_flowctl::MessageKind;
use weir_units::Class;

/// Returns a sentence for each class and its ports. A peer's PFC pauses the queue whose number is the priority group in which it receives the
/// frames, and its map is not known here.
pub(super) fn warnings(switch: &SwitchConfig) -> Vec<String> {
    let mut found: Vec<([u8; 3], Vec<&str>)> = Vec::new();
    for from in switch.real_ports() {
        let leaves = |to: usize| {
            let kind = switch.ports[to].flow_control.message_kind();
            to != from && !matches!(kind, MessageKind::Nothing | MessageKind::Pause)
        };
        if !switch.real_ports().any(leaves) {
            continue;
        }
        let (map, name) = (switch.class_map(from), switch.ports[from].name.as_str());
        for class in switch.classes_from(from).iter() {
            let [group, queue] = [map.group, map.queue].map(|numbers| numbers[class.index()]);
            if group == queue || !switch.classes.lossless.contains(Class::new(group)) {
                continue;
            }
            let numbers = [class.number(), group, queue];
            match found.iter_mut().find(|(known, _)| *known == numbers) {
                Some((_, ports)) => ports.push(name),
                None => found.push((numbers, vec![name])),
            }
        }
    }
    let sentence = |([class, group, queue], ports): ([u8; 3], Vec<&str>)| {
        format!(
            "{}: class {class} arrives in priority group {group} and leaves by queue {queue}: a peer that receives it in another priority \
             group than {queue} can't pause it, and loses its frames; write tc_to_queue = {{ {class} = {group} }} for a peer with this map",
            ports.join(", ")
        )
    };
    found.into_iter().map(sentence).collect()
}
