//! SONiC's tables of state, with its columns, order and units (sonic-utilities of July 2026: portstat, queuestat, watermarkstat, pg-drop).

use weir_control::state::{BufferPool, ByClass, Interface, Queues, Traffic};
use weir_experiments::table::{Table, count};
use weir_units::{BitRate, CLASSES};

use super::tables::{NOT_KNOWN, known, link_state};

/// `show interfaces counters`.
pub(super) fn interface_counters(ports: &[Interface]) -> Table {
    let columns = ["OK", "BPS", "UTIL", "ERR", "DRP", "OVR"];
    interface_table(&columns, ports)
}

/// `show interfaces counters --printall`. Weir trims no frames.
pub(super) fn all_interface_counters(ports: &[Interface]) -> Table {
    interface_table(&["OK", "BPS", "PPS", "UTIL", "ERR", "DRP", "OVR"], ports)
}

/// `show interfaces counters --nonzero`.
pub(super) fn counted_interfaces(ports: &[Interface]) -> Table {
    let counts = |traffic: &Traffic| [traffic.frames, traffic.dropped, traffic.lost_at_device.unwrap_or(0)];
    let is_counted = |port: &&Interface| [&port.rx, &port.tx].into_iter().flat_map(counts).any(|count| count > 0);
    interface_counters(&ports.iter().filter(is_counted).cloned().collect::<Vec<_>>())
}

/// `show interfaces counters errors`.
pub(super) fn interface_errors(ports: &[Interface]) -> Table {
    interface_table(&["ERR", "DRP", "OVR"], ports)
}

/// `show interfaces counters rates`.
pub(super) fn interface_rates(ports: &[Interface]) -> Table {
    interface_table(&["OK", "BPS", "PPS", "UTIL"], ports)
}

/// Table with these columns of each direction.
fn interface_table(columns: &[&str], ports: &[Interface]) -> Table {
    let heads = ["RX", "TX"]
        .into_iter()
        .flat_map(|direction| columns.iter().map(move |column| format!("{direction}_{column}")));
    let mut table = Table::new(["IFACE".to_owned(), "STATE".to_owned()].into_iter().chain(heads));
    for port in ports {
        let cells = [&port.rx, &port.tx]
            .into_iter()
            .flat_map(|traffic| columns.iter().map(|column| cell(column, traffic, port)));
        table.row([port.port.clone(), link_state(port).to_owned()].into_iter().chain(cells));
    }
    table
}

fn cell(column: &str, traffic: &Traffic, port: &Interface) -> String {
    let rate = traffic.bits_per_second;
    match column {
        "OK" => count(traffic.frames),
        "BPS" => rate.map_or(NOT_KNOWN.to_owned(), byte_rate),
        "UTIL" => {
            let share = rate.zip(port.rate_bps.filter(|line| *line > 0));
            share.map_or(NOT_KNOWN.to_owned(), |(bps, line)| format!("{:.2}%", bps as f64 * 100.0 / line as f64))
        }
        "ERR" => count(traffic.errors),
        "DRP" => count(traffic.dropped.saturating_sub(traffic.errors)),
        "OVR" => known(traffic.lost_at_device),
        // Frames a second are not measured.
        _ => NOT_KNOWN.to_owned(),
    }
}

/// Bytes a second, in SONiC's units: `2000.00 MB/s`.
fn byte_rate(bits_per_second: u64) -> String {
    let bytes = bits_per_second as f64 / 8.0;
    match bytes {
        mega if mega > 1e7 => format!("{:.2} MB/s", mega / 1e6),
        kilo if kilo > 1e4 => format!("{:.2} KB/s", kilo / 1e3),
        bytes => format!("{bytes:.2} B/s"),
    }
}

/// `show interfaces status`. Weir has no lanes, FEC, aliases and transceivers; VLANs are in `show vlan brief`.
pub(super) fn interface_status(ports: &[Interface]) -> Table {
    let head = ["Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin", "Type", "Asym PFC"];
    let mut table = Table::new(head);
    for port in ports {
        let speed = port.rate_bps.map_or(NOT_KNOWN.to_owned(), speed);
        let up_or_down = |up| if up { "up" } else { "down" }.to_owned();
        let none = || NOT_KNOWN.to_owned();
        let (oper, admin) = (up_or_down(port.link_up && port.state == "up"), up_or_down(port.state == "up"));
        table.row([port.port.clone(), none(), speed, none(), none(), none(), none(), oper, admin, none(), none()]);
    }
    table
}

/// Rate as SONiC writes it: `100G`, `2.5G`, `100M`.
fn speed(bps: u64) -> String {
    let text = BitRate::bps(bps).to_string();
    text.strip_suffix("bps").unwrap_or(&text).to_owned()
}

/// `show queue counters`. The bytes of dropped frames are not counted.
pub(super) fn queue_counters(ports: &[Queues]) -> Table {
    queue_table(COUNTERS, ports, |port, queue| Some(queue_cells(port, queue)))
}

/// `show queue counters --nonzero`.
pub(super) fn counted_queues(ports: &[Queues]) -> Table {
    let is_counted = |port: &Queues, queue: usize| port.frames[queue] + port.dropped[queue] > 0;
    queue_table(COUNTERS, ports, |port, queue| is_counted(port, queue).then(|| queue_cells(port, queue)))
}

const COUNTERS: [&str; 6] = ["Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"];

fn queue_cells(port: &Queues, queue: usize) -> [String; 4] {
    let [frames, bytes, dropped] = [port.frames[queue], port.bytes[queue], port.dropped[queue]].map(count);
    [frames, bytes, dropped, NOT_KNOWN.to_owned()]
}

/// `show queue wredcounters`. Nothing is dropped at random, and the bytes of marked frames are not counted.
pub(super) fn ecn_counters(ports: &[Queues]) -> Table {
    let head = ["Port", "TxQ", "WredDrp/pkts", "WredDrp/bytes", "EcnMarked/pkts", "EcnMarked/bytes"];
    queue_table(head, ports, |port, queue| {
        Some(["0".to_owned(), "0".to_owned(), count(port.ce_marked[queue]), NOT_KNOWN.to_owned()])
    })
}

/// Table with a row for each queue that has cells.
fn queue_table(head: [&str; 6], ports: &[Queues], cells: impl Fn(&Queues, usize) -> Option<[String; 4]>) -> Table {
    let mut table = Table::new(head);
    for port in ports {
        for queue in 0..CLASSES {
            if let Some(cells) = cells(port, queue) {
                table.row([port.port.clone(), format!("UC{queue}")].into_iter().chain(cells));
            }
        }
    }
    table
}

/// Title and a row for each port, with a column for each class. Numbers have no separators.
pub(super) fn by_class<'r>(title: &str, column: &str, rows: impl Iterator<Item = (&'r str, &'r ByClass)>) -> String {
    let columns = (0..CLASSES).map(|class| format!("{column}{class}"));
    let mut table = Table::new(std::iter::once("Port".to_owned()).chain(columns));
    for (port, values) in rows {
        table.row(std::iter::once(port.to_owned()).chain(values.map(|value| value.to_string())));
    }
    format!("{title}\n{table}")
}

pub(super) fn no_multicast(_: &[Queues]) -> &'static str {
    "Object map from the COUNTERS_DB is empty because the multicast queues are not configured in the CONFIG_DB!\n"
}

pub(super) fn pool_watermarks(pools: &[BufferPool]) -> String {
    pool_text(pools, false, |pool| pool.watermark_bytes)
}

pub(super) fn pool_peaks(pools: &[BufferPool]) -> String {
    pool_text(pools, false, |pool| pool.persistent_watermark_bytes)
}

pub(super) fn headroom_watermarks(pools: &[BufferPool]) -> String {
    pool_text(pools, true, |pool| pool.watermark_bytes)
}

pub(super) fn headroom_peaks(pools: &[BufferPool]) -> String {
    pool_text(pools, true, |pool| pool.persistent_watermark_bytes)
}

/// Pools, or the headroom pool alone, under SONiC's names.
fn pool_text(pools: &[BufferPool], of_headroom: bool, bytes: fn(&BufferPool) -> u64) -> String {
    let title = if of_headroom { "Headroom pool maximum occupancy:" } else { "Shared pool maximum occupancy:" };
    let mut table = Table::new(["Pool", "Bytes"]);
    for pool in pools.iter().filter(|pool| (pool.pool == "headroom") == of_headroom) {
        let name = match pool.pool.as_str() {
            "shared" | "headroom" => "ingress_lossless_pool",
            "egress_lossy" => "egress_lossy_pool",
            other => other,
        };
        table.row([name.to_owned(), bytes(pool).to_string()]);
    }
    format!("{title}\n{table}")
}
