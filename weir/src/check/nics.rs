//! NICs in front of hosts: sizes of their buffers, and doubts about them.

use serde::Serialize;
use weir_config::{NicBuffers, NicModelConfig, PortConfig, SwitchConfig};
use weir_experiments::table::{Table, count};
use weir_units::BitRate;

/// A NIC in front of a host.
#[derive(Serialize)]
pub(super) struct NicChecked {
    port: String,
    obeys: bool,
    pauses: bool,
    send_buffer_bytes: u64,
    xoff_bytes: u64,
    xon_bytes: u64,
    receive_buffer_bytes: u64,
    /// Limit of the host's receive rate; none without a limit.
    host_takes_bps: Option<u64>,
}

/// All NICs of a switch.
pub(super) fn nics(switch: &SwitchConfig) -> Vec<NicChecked> {
    let nic = |(port, nic, buffers): (&PortConfig, NicModelConfig, NicBuffers)| NicChecked {
        port: port.name.clone(),
        obeys: nic.obeys,
        pauses: nic.pauses,
        send_buffer_bytes: buffers.send.get(),
        xoff_bytes: buffers.xoff.get(),
        xon_bytes: buffers.xon.get(),
        receive_buffer_bytes: buffers.receive.get(),
        host_takes_bps: nic.receive_rate.map(BitRate::as_bps),
    };
    nics_of(switch).map(nic).collect()
}

/// Formats a row for each NIC; empty without NICs.
pub(super) fn table(nics: &[NicChecked]) -> Table {
    let mut table =
        Table::new(["NIC of", "Obeys", "Pauses", "Send buffer B", "Xoff B", "Xon B", "Receive buffer B", "Host takes"]);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for nic in nics {
        table.row([
            nic.port.clone(),
            yes(nic.obeys),
            yes(nic.pauses),
            count(nic.send_buffer_bytes),
            count(nic.xoff_bytes),
            count(nic.xon_bytes),
            count(nic.receive_buffer_bytes),
            nic.host_takes_bps.map_or("all".to_owned(), |bps| BitRate::bps(bps).to_string()),
        ]);
    }
    table
}

/// Returns a sentence for each NIC that may lose lossless frames.
pub(super) fn warnings(switch: &SwitchConfig) -> Vec<String> {
    let doubt = |(port, nic, buffers): (&PortConfig, NicModelConfig, NicBuffers)| {
        let name = &port.name;
        if !port.flow_control.message_kind().advertises_xoff() {
            return None;
        }
        if !nic.pauses {
            return Some(format!(
                "{name}: its NIC sends no flow control, so lossless frames that its host does not take are lost"
            ));
        }
        let (left, after) = (buffers.receive - buffers.xoff, switch.nic_headroom(port));
        (left < after).then(|| {
            format!(
                "{name}: the {} B of its NIC's `receive_buffer` above `xoff` are less than the {} B that may still come after a PAUSE by the \
                 rule of headroom: lossless frames can be lost",
                count(left.get()),
                count(after.get())
            )
        })
    };
    nics_of(switch).filter_map(doubt).collect()
}

fn nics_of(switch: &SwitchConfig) -> impl Iterator<Item = (&PortConfig, NicModelConfig, NicBuffers)> {
    let ports = switch.ports.iter().enumerate();
    ports.filter_map(|(index, port)| Some((port, port.nic?, switch.nic_buffers(index)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_and_a_buffer_that_is_too_small_gives_a_warning() {
        let port = |name: &str, nic: &str| {
            format!("[[ports]]\nname = \"{name}\"\ntap = \"{name}\"\nrate = \"1Gbps\"\nnic = {nic}\n")
        };
        let text = [
            "[pfc]\nreaction = \"0s\"\n[buffer]\nheadroom = \"100KB\"\n".to_owned(),
            port("a", "{ receive_buffer = \"40KB\", xoff = \"20KB\" }"),
            port("b", "{ receive_buffer = \"20KB\", xoff = \"19KB\", receive_rate = \"100Mbps\" }"),
            port("c", "{ tx_pause = false, receive_buffer = \"40KB\" }"),
        ];
        let switch = weir_config::parse("lab", &text.concat()).unwrap();
        let lines: Vec<String> = table(&nics(&switch))
            .to_string()
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines[2..4],
            ["a yes yes 64,000 20,000 16,956 40,000 all", "b yes yes 64,000 19,000 15,956 20,000 100Mbps"]
        );
        let sentences = warnings(&switch);
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(
            sentences[0]
                .starts_with("b: the 1,000 B of its NIC's `receive_buffer` above `xoff` are less than the 6,910 B"),
            "{sentences:?}"
        );
        assert!(sentences[1].starts_with("c: its NIC sends no flow control"), "{sentences:?}");
    }
}
