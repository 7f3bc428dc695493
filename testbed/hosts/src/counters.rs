//! Counters of a host's kernel and NIC.

use std::collections::BTreeMap;

/// Counters by name, as `rdma.rcvd_seq_err`, `nstat.IpExtInCEPkts` or `nic.rx_prio3_pause`.
pub(crate) type Counters = BTreeMap<String, u64>;

/// Returns the script that prints all counters.
pub(crate) fn script(interface: &str, rdma: Option<&str>) -> String {
    let of_rdma = rdma
        .map_or(String::new(), |device| format!("echo @rdma; rdma -j statistic show link {device}/1 2>/dev/null; "));
    format!("{of_rdma}echo @nstat; nstat -asz 2>/dev/null; echo @nic; ethtool -S {interface} 2>/dev/null; true")
}

pub(crate) fn parse(output: &str) -> Counters {
    let mut counters = Counters::new();
    let mut part = "";
    for line in output.lines() {
        if let Some(name) = line.strip_prefix('@') {
            part = name;
            continue;
        }
        match part {
            "rdma" => counters.extend(of_rdma(line)),
            "nstat" => {
                let mut fields = line.split_whitespace();
                if let (Some(name), Some(Ok(count))) = (fields.next(), fields.next().map(str::parse)) {
                    counters.insert(format!("nstat.{name}"), count);
                }
            }
            "nic" => {
                if let Some((name, Ok(count))) = line.rsplit_once(':').map(|(name, count)| (name, count.trim().parse()))
                {
                    counters.insert(format!("nic.{}", name.trim()), count);
                }
            }
            _ => {}
        }
    }
    counters
}

fn of_rdma(line: &str) -> Vec<(String, u64)> {
    let Ok(links) = serde_json::from_str::<Vec<BTreeMap<String, serde_json::Value>>>(line) else { return Vec::new() };
    let counts = links.into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_u64()?)));
    counts
        .filter(|(name, _)| name != "ifindex" && name != "port")
        .map(|(name, count)| (format!("rdma.{name}"), count))
        .collect()
}

/// Counter of a host, before and after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRow {
    /// Name of the host.
    pub host: String,
    /// Name of the counter, as `rdma.rcvd_seq_err`.
    pub counter: String,
    /// Value at the run's start.
    pub before: u64,
    /// Value at the run's end.
    pub after: u64,
}

/// Returns all counters of a host, including unchanged ones. A counter that appeared in between started at 0.
pub(crate) fn rows(host: &str, before: &Counters, after: &Counters) -> Vec<CounterRow> {
    let row = |(counter, after): (&String, &u64)| CounterRow {
        host: host.to_owned(),
        counter: counter.clone(),
        before: before.get(counter).copied().unwrap_or(0),
        after: *after,
    };
    after.iter().map(row).collect()
}

/// Returns the increments between two readings, without unchanged counters.
pub(crate) fn between(before: &Counters, after: &Counters) -> Counters {
    let grown = after.iter().filter_map(|(name, now)| {
        let grown = now.checked_sub(before.get(name).copied().unwrap_or(0))?;
        (grown > 0).then(|| (name.clone(), grown))
    });
    grown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "@rdma\n[{\"ifindex\":0,\"ifname\":\"rxe0\",\"port\":1,\"sent_pkts\":25600,\"rcvd_seq_err\":2}]\n\
        @nstat\n#kernel\nIpInReceives                    120                0.0\nIpExtInCEPkts                   7                  0.0\n\
        @nic\nNIC statistics:\n     rx_queue_0_packets: 55\n     rx_prio3_pause: 12\n";

    #[test]
    fn all_kinds_are_read() {
        let counters = parse(OUTPUT);
        let read: Vec<(&str, u64)> = counters.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let expected = [
            ("nic.rx_prio3_pause", 12),
            ("nic.rx_queue_0_packets", 55),
            ("nstat.IpExtInCEPkts", 7),
            ("nstat.IpInReceives", 120),
            ("rdma.rcvd_seq_err", 2),
            ("rdma.sent_pkts", 25_600),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn unchanged_counters_are_left_out() {
        let before = parse(OUTPUT);
        let after =
            parse(&OUTPUT.replace("120 ", "121 ").replace("\"rcvd_seq_err\":2", "\"rcvd_seq_err\":2,\"new\":3"));
        let grown: Vec<(String, u64)> = between(&before, &after).into_iter().collect();
        assert_eq!(grown, [("nstat.IpInReceives".to_owned(), 1), ("rdma.new".to_owned(), 3)]);
        let rows = rows("H0", &before, &after);
        assert_eq!(rows.len(), 7);
        let new = CounterRow { host: "H0".into(), counter: "rdma.new".into(), before: 0, after: 3 };
        assert!(rows.contains(&new), "{rows:?}");
    }
}
