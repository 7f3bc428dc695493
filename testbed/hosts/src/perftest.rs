//! Arguments and result tables of perftest.

use std::collections::BTreeMap;

use weir_scenario::{FlowTool, PerfTest};

/// Flow sent by perftest.
#[derive(Clone, Copy)]
pub(crate) struct PerftestFlow<'a> {
    pub tool: FlowTool,
    /// RDMA device, and the index of the GID with the host's address.
    pub device: &'a str,
    pub gid: u32,
    pub port: u16,
    /// Message size in bytes.
    pub message: u64,
    pub extent: Extent,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Time dilation of the links.
    pub dilation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Number of messages per queue pair.
    Messages(u64),
    /// Duration in seconds.
    Seconds(u64),
}

/// ECN field ECT(0): ECN-capable.
pub(crate) const ECT_0: u8 = 2;
/// Smallest number of messages that perftest accepts.
pub(crate) const MESSAGES_MIN: u64 = 5;
/// Timeout exponent of a queue pair, 1.07 s, so that a host that lacks its CPU for a while is not taken for a lossy
/// network.
const TIMEOUT: u32 = 18;
/// Largest timeout exponent, 17 s, for dilated links, where frames wait for seconds.
const TIMEOUT_MAX: u32 = 22;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PerftestTable {
    pub message: u64,
    pub messages: u64,
    /// Mean payload rate of a bandwidth test, in bit/s. `None` if perftest could not fit its clock, which a CPU that is
    /// taken from it for milliseconds prevents: it prints rates of zero, and infinite times, then.
    pub rate_bps: Option<u64>,
    /// Times of a latency test by name, in nanoseconds; empty without a clock.
    pub times_ns: BTreeMap<String, u64>,
}

impl PerftestFlow<'_> {
    /// Returns the command of one end. `server` is the server's address, for the client; `None` for the server.
    pub(crate) fn command(&self, server: Option<&str>) -> String {
        let PerftestFlow { device, gid, port, message, traffic_class, dilation, .. } = self;
        let timeout = ack_timeout(*dilation);
        let mut command = format!(
            "{} -F -d {device} -x {gid} -p {port} -s {message} -u {timeout} --tclass={traffic_class}",
            self.tool.test.name()
        );
        command += &match self.extent {
            Extent::Messages(messages) => format!(" -n {}", messages.max(MESSAGES_MIN)),
            Extent::Seconds(seconds) => format!(" -D {} -f 0", seconds.max(1)),
        };
        if self.tool.test != PerfTest::SendLat {
            command += &format!(" -q {} --report_gbits", self.tool.queue_pairs);
            if let Some(depth) = self.tool.receive_depth {
                command += &format!(" -r {depth}");
            }
        } else {
            // Without `-e`, a waiting end uses all of a CPU.
            command += " -e";
        }
        if let Some(server) = server {
            command += &format!(" {server}");
        }
        command
    }
}

/// Returns the timeout exponent of queue pairs whose links have this time dilation.
pub(crate) fn ack_timeout(dilation: u32) -> u32 {
    (TIMEOUT + dilation.next_power_of_two().ilog2()).min(TIMEOUT_MAX)
}

/// Parses the last row of a table.
///
/// # Errors
/// Output of perftest, if there is no table.
pub(crate) fn parse(output: &str) -> Result<PerftestTable, String> {
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let head = lines.iter().rposition(|line| line.starts_with("#bytes")).ok_or_else(|| complaint(&lines))?;
    let row = lines[head + 1..].iter().rev().find(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let cells: Vec<f64> =
        row.ok_or_else(|| complaint(&lines))?.split_whitespace().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    let cell = |n: usize| cells.get(n).copied().filter(|value| value.is_finite()).ok_or_else(|| complaint(&lines));
    let mut table = PerftestTable { message: cell(0)? as u64, messages: cell(1)? as u64, ..PerftestTable::default() };
    let columns = columns(lines[head]);
    for (name, value) in columns.iter().zip(cells.iter()).skip(2) {
        if name.starts_with("BW average") {
            let unit = if name.contains("Gb") { 1e9 } else { 8.0 * 1_048_576.0 };
            table.rate_bps = Some((value * unit) as u64).filter(|rate| *rate > 0);
        } else if !value.is_finite() {
            continue;
        } else if let Some(what) = name.strip_suffix("[usec]").or_else(|| name.contains("percentile").then_some(name)) {
            table.times_ns.insert(what.trim_start_matches("t_").to_owned(), (value * 1e3) as u64);
        }
    }
    Ok(table)
}

/// Splits the names of the columns, some of which have spaces.
fn columns(head: &str) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for word in head.split_whitespace() {
        let goes_on =
            matches!(word, _ if word.starts_with("peak") || word.starts_with("average") || word == "percentile[usec]");
        match columns.last_mut() {
            Some(last) if goes_on && (last == "BW" || last.ends_with('%')) => {
                *last += if word.starts_with("percentile") { " percentile" } else { " " };
                if !word.starts_with("percentile") {
                    *last += word;
                }
            }
            _ => columns.push(word.to_owned()),
        }
    }
    columns
}

/// Extracts the error messages of a test without a result.
fn complaint(lines: &[&str]) -> String {
    let is_of_interest = |line: &&&str| {
        let line = line.to_lowercase();
        ["fail", "error", "unable", "couldn't", "can't", "not found", "invalid", "unsupported", "cannot"]
            .iter()
            .any(|word| line.contains(word))
    };
    let errors: Vec<&str> = lines.iter().filter(is_of_interest).copied().collect();
    match errors.is_empty() {
        true => format!("last line of output: {}", lines.iter().rev().find(|line| !line.is_empty()).unwrap_or(&"none")),
        false => errors.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of perftest 6.06 between two guests with Soft-RoCE.
    const BANDWIDTH: &str = " remote address: LID 0000 QPN 0x0011 PSN 0x859076 RKey 0x0002f7 VAddr 0x007fdf32a47000\n \
        GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:02\n\
        ---------------------------------------------------------------------------------------\n \
        #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
        65536      138           0.000000            0.036048            0.000069\n\
        ---------------------------------------------------------------------------------------\n";
    const LATENCY: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
        99% percentile[usec]   99.9% percentile[usec] \n \
        64      500          308.27         4590.71      488.96     \t       625.42        \t338.11\t\t2210.06 \t\t4590.71\n\
        ---------------------------------------------------------------------------------------\n";

    #[test]
    fn the_table_of_a_bandwidth_test() {
        let table = parse(BANDWIDTH).unwrap();
        assert_eq!((table.message, table.messages, table.rate_bps), (65_536, 138, Some(36_048_000)));
        assert!(table.times_ns.is_empty());
        let megabytes = BANDWIDTH.replace("Gb/sec", "MB/sec");
        assert_eq!(parse(&megabytes).unwrap().rate_bps, Some((0.036048 * 8.0 * 1_048_576.0) as u64));
    }

    #[test]
    fn the_table_of_a_latency_test() {
        let table = parse(LATENCY).unwrap();
        assert_eq!((table.message, table.messages, table.rate_bps), (64, 500, None));
        let times: Vec<(&str, u64)> = table.times_ns.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        let expected = [
            ("99% percentile", 2_210_060),
            ("99.9% percentile", 4_590_710),
            ("avg", 625_420),
            ("max", 4_590_710),
            ("min", 308_270),
            ("stdev", 338_110),
            ("typical", 488_960),
        ];
        assert_eq!(times, expected);
    }

    /// Output after "Correlation coefficient r^2: 0.899 < 0.9": perftest counts zero cycles per microsecond.
    #[test]
    fn a_test_without_a_clock_has_no_rate_and_no_times() {
        let table = parse(&BANDWIDTH.replace("0.036048", "0.000000")).unwrap();
        assert_eq!((table.messages, table.rate_bps), (138, None));
        let (head, row) = LATENCY.split_at(LATENCY.find("64 ").unwrap());
        let infinite = row.replace("308.27", "inf").replace("4590.71", "inf").replace("488.96", "inf");
        let infinite = infinite.replace("625.42", "inf").replace("338.11", "-nan").replace("2210.06", "inf");
        let table = parse(&(head.to_owned() + &infinite)).unwrap();
        assert_eq!((table.messages, table.times_ns.len()), (500, 0));
    }

    #[test]
    fn error_messages_are_returned() {
        let message = parse("IB device rxe7 not found\n Unable to find the Infiniband/RoCE device\n").unwrap_err();
        assert_eq!(message, "IB device rxe7 not found; Unable to find the Infiniband/RoCE device");
        assert_eq!(parse("").unwrap_err(), "last line of output: none");
        assert!(parse(&BANDWIDTH[..BANDWIDTH.find("65536").unwrap()]).is_err(), "a head alone is no result");
    }

    #[test]
    fn arguments_of_both_ends() {
        let tool = FlowTool { test: PerfTest::WriteBw, queue_pairs: 4, receive_depth: None };
        let test = PerftestFlow {
            tool,
            device: "rxe0",
            gid: 1,
            port: 18_515,
            message: 65_536,
            extent: Extent::Seconds(3),
            traffic_class: 106,
            dilation: 1,
        };
        let both = "ib_write_bw -F -d rxe0 -x 1 -p 18515 -s 65536 -u 18 --tclass=106 -D 3 -f 0 -q 4 --report_gbits";
        assert_eq!(test.command(None), both);
        let few = PerftestFlow { extent: Extent::Messages(2), ..test };
        assert!(few.command(Some("10.0.0.2")).ends_with("-n 5 -q 4 --report_gbits 10.0.0.2"));
        let short = PerftestFlow { tool: FlowTool { test: PerfTest::SendBw, receive_depth: Some(1), ..tool }, ..few };
        assert!(short.command(None).ends_with(" --report_gbits -r 1"));
        let slow = |dilation| PerftestFlow { dilation, ..few }.command(None);
        assert!(slow(3).contains(" -u 20 ") && slow(1_000).contains(" -u 22 "));
    }
}
