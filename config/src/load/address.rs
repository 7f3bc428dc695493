//! MAC addresses of stations.

use weir_reader::Table;
use weir_units::MacAddr;

/// Reads a unicast address that a station can have.
pub(super) fn unicast(table: &Table<'_>, key: &str) -> Option<MacAddr> {
    let mac: MacAddr = table.converted(key, table.string(key, "02:00:00:00:00:01")?)?;
    let wrong = match mac {
        _ if mac.is_group() => "is a group address: the first octet is odd",
        MacAddr([0, 0, 0, 0, 0, 0]) => "is no station's address",
        _ => return Some(mac),
    };
    table.refuse(key, format!("{mac} {wrong}"), "write a unicast address, for example \"02:00:00:00:00:01\"");
    None
}
