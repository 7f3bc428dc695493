//! Counters under SAI's names, in the shape of SONiC's COUNTERS_DB.
//!
//! `weir export sonic-counters` prints such a database, and so does `sonic-db-dump -n COUNTERS_DB -y` on a switch.

use serde_json::{Map, Value};
use weir_units::CLASSES;

use crate::{ClassCounters, DeviceCounters, PoolCounters, PortCounters, TestFailure};

/// Reads the counters of these ports.
///
/// # Errors
/// If the database has no map of ports, or lacks a port.
pub fn counters(database: &Value, ports: &[String]) -> Result<DeviceCounters, TestFailure> {
    let database = CountersDb::new(database)?;
    let known = database.names("COUNTERS_PORT_NAME_MAP");
    let Some(known) = known else {
        return Err(TestFailure::broken(
            "the counters have no COUNTERS_PORT_NAME_MAP: dump the whole COUNTERS_DB as JSON",
        ));
    };
    let mut read = DeviceCounters::default();
    for port in ports {
        if !known.contains_key(port) {
            let names: Vec<&str> = known.keys().map(String::as_str).take(NAMES_SHOWN).collect();
            return Err(TestFailure::broken(format!(
                "the counters have no port {port}; they have {}",
                names.join(", ")
            )));
        }
        read.ports.push(database.port(port));
    }
    read.pools = PoolCounters {
        shared_max: database.pool("SAI_BUFFER_POOL_STAT_WATERMARK_BYTES"),
        headroom_max: database.pool("SAI_BUFFER_POOL_STAT_XOFF_ROOM_WATERMARK_BYTES"),
    };
    Ok(read)
}

/// Counts since `before`; watermarks and occupancies stay.
pub fn since(now: &DeviceCounters, before: &DeviceCounters) -> DeviceCounters {
    let mut since = now.clone();
    for (port, before) in since.ports.iter_mut().zip(&before.ports) {
        let sub = |now: &mut Option<u64>, before: Option<u64>| {
            *now = now.map(|now| now.saturating_sub(before.unwrap_or(0)));
        };
        sub(&mut port.other_drops, before.other_drops);
        for (class, before) in port.classes.iter_mut().zip(&before.classes) {
            sub(&mut class.rx_pfc, before.rx_pfc);
            sub(&mut class.tx_pfc, before.tx_pfc);
            sub(&mut class.rx_frames, before.rx_frames);
            sub(&mut class.tx_frames, before.tx_frames);
            sub(&mut class.group_drops, before.group_drops);
            sub(&mut class.queue_drops, before.queue_drops);
            sub(&mut class.storms_detected, before.storms_detected);
            sub(&mut class.storms_restored, before.storms_restored);
        }
    }
    since
}

/// Takes watermarks out, of a switch that does not clear them.
pub fn without_watermarks(mut counters: DeviceCounters) -> DeviceCounters {
    counters.pools = PoolCounters::default();
    for class in counters.ports.iter_mut().flat_map(|port| &mut port.classes) {
        (class.group_shared_max, class.group_headroom_max, class.queue_max) = (None, None, None);
    }
    counters
}

/// COUNTERS_DB, its tables by key.
struct CountersDb<'j>(&'j Map<String, Value>);

impl<'j> CountersDb<'j> {
    fn new(json: &'j Value) -> Result<CountersDb<'j>, TestFailure> {
        json.as_object().map(CountersDb).ok_or_else(|| TestFailure::broken("the counters are no JSON object"))
    }

    /// A hash, as itself or in the frame of sonic-db-dump: `{"type": "hash", "value": {...}}`.
    fn names(&self, key: &str) -> Option<&'j Map<String, Value>> {
        let hash = self.0.get(key)?.as_object()?;
        match hash.get("value").and_then(Value::as_object) {
            Some(value) if hash.get("type").is_some_and(|kind| kind == "hash") => Some(value),
            _ => Some(hash),
        }
    }

    fn value(&self, map: &str, name: &str, table: &str, field: &str) -> Option<u64> {
        let oid = self.names(map)?.get(name)?.as_str()?;
        let value = self.names(&format!("{table}:{oid}"))?.get(field)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    fn port(&self, name: &str) -> PortCounters {
        let of_port = |field: &str| self.value("COUNTERS_PORT_NAME_MAP", name, "COUNTERS", field);
        let mut port = PortCounters::default();
        for class in 0..CLASSES {
            let part = format!("{name}:{class}");
            let queue = |field: &str| self.value("COUNTERS_QUEUE_NAME_MAP", &part, "COUNTERS", field);
            let group = |field: &str| {
                let field = format!("SAI_INGRESS_PRIORITY_GROUP_STAT_{field}");
                self.value("COUNTERS_PG_NAME_MAP", &part, "COUNTERS", &field)
            };
            let mark = |map: &str, field: &str| self.value(map, &part, "USER_WATERMARKS", field);
            port.classes[class] = ClassCounters {
                rx_pfc: of_port(&format!("SAI_PORT_STAT_PFC_{class}_RX_PKTS")),
                tx_pfc: of_port(&format!("SAI_PORT_STAT_PFC_{class}_TX_PKTS")),
                rx_frames: group("PACKETS"),
                tx_frames: queue("SAI_QUEUE_STAT_PACKETS"),
                group_drops: group("DROPPED_PACKETS"),
                queue_drops: queue("SAI_QUEUE_STAT_DROPPED_PACKETS"),
                group_shared_max: mark(
                    "COUNTERS_PG_NAME_MAP",
                    "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES",
                ),
                group_headroom_max: mark(
                    "COUNTERS_PG_NAME_MAP",
                    "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES",
                ),
                queue_max: mark("COUNTERS_QUEUE_NAME_MAP", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"),
                group_bytes: group("CURR_OCCUPANCY_BYTES"),
                storms_detected: queue("PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"),
                storms_restored: queue("PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED"),
            };
        }
        let in_groups: Option<u64> = port.classes.iter().map(|class| class.group_drops).sum();
        port.other_drops = of_port("SAI_PORT_STAT_IF_IN_DISCARDS")
            .zip(in_groups)
            .map(|(all, in_groups)| all.saturating_sub(in_groups));
        port
    }

    /// Highest watermark of the pools that have the field.
    fn pool(&self, field: &str) -> Option<u64> {
        let pools = self.names("COUNTERS_BUFFER_POOL_NAME_MAP")?;
        let lossless = pools.keys().filter(|name| name.starts_with("ingress_lossless"));
        let marks =
            lossless.filter_map(|name| self.value("COUNTERS_BUFFER_POOL_NAME_MAP", name, "USER_WATERMARKS", field));
        marks.max()
    }
}

const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn database() -> Value {
        json!({
            "COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"},
            "COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:3": "oid:0x2"},
            "COUNTERS_PG_NAME_MAP": {"Ethernet0:3": "oid:0x3"},
            "COUNTERS_BUFFER_POOL_NAME_MAP": {"ingress_lossless_pool": "oid:0x4", "egress_lossy_pool": "oid:0x5"},
            "COUNTERS:oid:0x1": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "7", "SAI_PORT_STAT_PFC_4_RX_PKTS": "0"},
            "COUNTERS:oid:0x2": {"SAI_QUEUE_STAT_PACKETS": "90", "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": "1"},
            "COUNTERS:oid:0x3": {"SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": "2"},
            "USER_WATERMARKS:oid:0x2": {"SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": "4096"},
            "USER_WATERMARKS:oid:0x4": {"SAI_BUFFER_POOL_STAT_WATERMARK_BYTES": "8192"},
        })
    }

    #[test]
    fn counters_are_read_from_both_formats() {
        let plain = database();
        let framed: Map<String, Value> = plain
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), json!({"expireat": 1, "ttl": -1, "type": "hash", "value": value})))
            .collect();
        for json in [plain, Value::Object(framed)] {
            let read = counters(&json, &["Ethernet0".to_owned()]).unwrap();
            let [port] = &read.ports[..] else { panic!("{read:?}") };
            let three = port.classes[3];
            assert_eq!((three.rx_pfc, three.tx_pfc, port.classes[4].rx_pfc), (Some(7), None, Some(0)));
            assert_eq!((three.tx_frames, three.group_drops, three.queue_drops), (Some(90), Some(2), None));
            assert_eq!((three.queue_max, three.storms_detected, three.storms_restored), (Some(4_096), Some(1), None));
            assert_eq!((read.pools.shared_max, read.pools.headroom_max), (Some(8_192), None));
        }
    }

    #[test]
    fn a_port_that_is_not_there_is_named() {
        let error = counters(&database(), &["Ethernet4".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no port Ethernet4; they have Ethernet0"), "{error}");
        assert!(counters(&json!({}), &[]).unwrap_err().to_string().contains("COUNTERS_PORT_NAME_MAP"));
    }

    #[test]
    fn counts_are_since_a_reading_and_watermarks_are_not() {
        let before = counters(&database(), &["Ethernet0".to_owned()]).unwrap();
        let mut now = before.clone();
        now.ports[0].classes[3].rx_pfc = Some(10);
        let since = since(&now, &before);
        let three = since.ports[0].classes[3];
        assert_eq!((three.rx_pfc, three.tx_frames, three.queue_max), (Some(3), Some(0), Some(4_096)));
        assert_eq!(without_watermarks(since).ports[0].classes[3].queue_max, None);
    }
}
