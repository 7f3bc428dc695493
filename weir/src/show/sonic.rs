//! SONiC's tables of state, with its columns, order and units (sonic-utilities of July 2026: portstat, queuestat, watermarkstat, pg-drop).

use weir_control::state::{BufferPool, ByClass, Interface, Queues, StormPackets, Traffic, WatchedQueue};
use weir_experiments::table::{Table, count};
use weir_units::{BitRate, CLASSES};

use super::tables::{NOT_KNOWN, instant, known, link_state, watchdog};

/// `show interfaces counters`.
pub(super) fn interface_counters(ports: &[Interface]) -> Table {
    let columns = ["OK", "BPS", "UTIL", "ERR", "DRP", "OVR"];
    interface_table(&columns, ports)
}

/// `show interfaces counters --printall`. Weir trims no frames.
pub(super) fn all_interface_counters(ports: &[Interface]) -> Table {
    table_with_unknown(&["OK", "BPS", "PPS", "UTIL", "ERR", "DRP", "OVR"], &["TRIM", "TRIM_TX", "TRIM_DRP"], ports)
}

/// `show interfaces counters trim`. Weir trims no frames.
pub(super) fn trim_interface_counters(ports: &[Interface]) -> Table {
    table_with_unknown(&[], &["TRIM_PKTS", "TRIM_TX_PKTS", "TRIM_DRP_PKTS"], ports)
}

/// `show interfaces counters fec-stats`. Devices' FEC is not read.
pub(super) fn fec_counters(ports: &[Interface]) -> Table {
    const COLUMNS: [&str; 9] = [
        "FEC_CORR",
        "FEC_UNCORR",
        "FEC_SYMBOL_ERR",
        "FEC_PRE_BER",
        "FEC_POST_BER",
        "FEC_PRE_BER_MAX",
        "FLR(O)",
        "FLR(P) (Accuracy)",
        "FEC_MAX_T",
    ];
    table_with_unknown(&[], &COLUMNS, ports)
}

/// `show interfaces counters fec-histogram`. Devices' FEC is not read.
pub(super) fn fec_histogram(ports: &[Interface]) -> String {
    let histogram = |_: &Interface| {
        let mut table = Table::new(["Symbol Errors Per Codeword", "Codewords"]);
        (0..16).for_each(|bin| table.row([format!("BIN{bin}"), NOT_KNOWN.to_owned()]));
        table.to_string()
    };
    ports.iter().map(histogram).collect::<Vec<_>>().join("\n")
}

/// `show interfaces counters errors`.
pub(super) fn interface_errors(ports: &[Interface]) -> Table {
    interface_table(&["ERR", "DRP", "OVR"], ports)
}

/// `show interfaces counters rates`.
pub(super) fn interface_rates(ports: &[Interface]) -> Table {
    interface_table(&["OK", "BPS", "PPS", "UTIL"], ports)
}

/// `show dropcounters counts`. There are no counters to be configured.
pub(super) fn drop_counters(ports: &[Interface]) -> Table {
    interface_table(&["ERR", "DROPS"], ports)
}

/// Table with these columns of each direction.
fn interface_table(columns: &[&str], ports: &[Interface]) -> Table {
    table_with_unknown(columns, &[], ports)
}

/// Table with these columns of each direction, then columns of unknown values.
fn table_with_unknown(columns: &[&str], unknown: &[&str], ports: &[Interface]) -> Table {
    let heads = ["RX", "TX"]
        .into_iter()
        .flat_map(|direction| columns.iter().map(move |column| format!("{direction}_{column}")));
    let heads = heads.chain(unknown.iter().map(|column| (*column).to_owned()));
    let mut table = Table::new(["IFACE".to_owned(), "STATE".to_owned()].into_iter().chain(heads));
    for port in ports {
        let cells = [&port.rx, &port.tx]
            .into_iter()
            .flat_map(|traffic| columns.iter().map(|column| cell(column, traffic, port)));
        let cells = cells.chain(unknown.iter().map(|_| NOT_KNOWN.to_owned()));
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
        "DRP" | "DROPS" => count(traffic.dropped.saturating_sub(traffic.errors)),
        "OVR" => known(traffic.lost_at_device),
        _ => traffic.frames_per_second.map_or(NOT_KNOWN.to_owned(), |rate| format!("{rate}.00/s")),
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
        let [oper, admin] = link_states(port);
        let none = NOT_KNOWN;
        table.row([&port.port, none, &speed, none, none, none, none, oper, admin, none, none]);
    }
    table
}

/// Operational and administrative state of a port.
fn link_states(port: &Interface) -> [&'static str; 2] {
    let is_up = port.state == "up";
    [port.link_up && is_up, is_up].map(|up| if up { "up" } else { "down" })
}

/// `show interfaces description`: the device, for want of another description.
pub(super) fn interface_devices(ports: &[Interface]) -> Table {
    let mut table = Table::new(["Interface", "Oper", "Admin", "Alias", "Description"]);
    for port in ports {
        let [oper, admin] = link_states(port);
        table.row([&port.port, oper, admin, NOT_KNOWN, &port.device]);
    }
    table
}

/// `show interfaces counters detailed`. Weir does not count frames by length, nor by kind of destination.
pub(super) fn counter_lines(ports: &[Interface], cleared_unix_ms: Option<u64>) -> String {
    const LENGTHS: [&str; 10] = [
        "64",
        "65-127",
        "128-255",
        "256-511",
        "512-1023",
        "1024-1518",
        "1519-2047",
        "2048-4095",
        "4096-9216",
        "9217-16383",
    ];
    let line = |name: &str, value: &str| format!("{name:.<47} {value}\n");
    let unknown = |names: &[String]| names.iter().map(|name| line(name, NOT_KNOWN)).collect::<String>();
    let mut text = String::new();
    for port in ports {
        if ports.len() > 1 {
            text += &format!("{}\n", port.port);
        }
        for (direction, traffic, total) in [
            ("Received", &port.rx, "Total Packets Received Without Errors"),
            ("Transmitted", &port.tx, "Total Packets Transmitted Successfully"),
        ] {
            text += &unknown(&LENGTHS.map(|length| format!("Packets {direction} {length} Octets")));
            text += &format!("\n{}", line(total, &count(traffic.frames)));
            text += &unknown(&["Unicast", "Multicast", "Broadcast"].map(|kind| format!("{kind} Packets {direction}")));
            text += "\n";
            if direction == "Received" {
                text += &unknown(&["Jabbers", "Fragments", "Undersize"].map(|kind| format!("{kind} Received")));
                text += &line("Overruns Received", &known(traffic.lost_at_device));
            } else {
                text += &unknown(&["Trimmed", "Trimmed Sent", "Trimmed Dropped"].map(|kind| format!("{kind} Packets")));
            }
            text += "\n";
        }
        text += &line("Time Since Counters Last Cleared", &cleared_unix_ms.map_or("None".to_owned(), instant));
    }
    text
}

/// Rate as SONiC writes it: `100G`, `2.5G`, `100M`.
fn speed(bps: u64) -> String {
    let text = BitRate::bps(bps).to_string();
    text.strip_suffix("bps").unwrap_or(&text).to_owned()
}

/// `show queue counters`. The bytes of dropped frames are not counted.
pub(super) fn queue_counters(ports: &[Queues]) -> Table {
    queue_table(&COUNTERS, ports, |port, queue| queue_cells(port, queue).to_vec())
}

/// `show queue counters --all`.
pub(super) fn all_queue_counters(ports: &[Queues]) -> Table {
    let none = || TRIMMED.map(|_| NOT_KNOWN.to_owned());
    queue_table(&[&COUNTERS[..], &TRIMMED].concat(), ports, |port, queue| {
        queue_cells(port, queue).into_iter().chain(none()).collect()
    })
}

/// `show queue counters --trim`.
pub(super) fn trim_counters(ports: &[Queues]) -> Table {
    queue_table(&TRIMMED, ports, |_, _| TRIMMED.map(|_| NOT_KNOWN.to_owned()).to_vec())
}

const COUNTERS: [&str; 4] = ["Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"];
const TRIMMED: [&str; 3] = ["Trim/pkts", "TrimSent/pkts", "TrimDrop/pkts"];

fn queue_cells(port: &Queues, queue: usize) -> [String; 4] {
    let [frames, bytes, dropped] = [port.frames[queue], port.bytes[queue], port.dropped[queue]].map(count);
    [frames, bytes, dropped, NOT_KNOWN.to_owned()]
}

/// `show queue wredcounters`. Nothing is dropped at random, and the bytes of marked frames are not counted.
pub(super) fn ecn_counters(ports: &[Queues]) -> Table {
    let head = ["WredDrp/pkts", "WredDrp/bytes", "EcnMarked/pkts", "EcnMarked/bytes"];
    queue_table(&head, ports, |port, queue| {
        vec!["0".to_owned(), "0".to_owned(), count(port.ce_marked[queue]), NOT_KNOWN.to_owned()]
    })
}

/// Table with a row for each queue.
fn queue_table(columns: &[&str], ports: &[Queues], cells: impl Fn(&Queues, usize) -> Vec<String>) -> Table {
    let mut table = Table::new(["Port", "TxQ"].iter().chain(columns).copied());
    for port in ports {
        for queue in 0..CLASSES {
            table.row([port.port.clone(), format!("UC{queue}")].into_iter().chain(cells(port, queue)));
        }
    }
    table
}

/// `show pfcwd stats`: queues with counts.
pub(super) fn storm_rows(queues: &[WatchedQueue]) -> Table {
    let has_counts =
        |queue: &&WatchedQueue| queue.detected + queue.restored > 0 || queue.all != StormPackets::default();
    watchdog(&queues.iter().filter(has_counts).cloned().collect::<Vec<_>>())
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
