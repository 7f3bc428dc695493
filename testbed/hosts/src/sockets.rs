//! Samples of TCP connections at a client's host, from `ss`.

use std::time::Duration;

use weir_results::run_dir::ConnectionSummary;

/// Sampling interval, in hundredths of a second.
const EVERY: u64 = 20;
/// Prefix of a sample's clock line.
const SAMPLE_PREFIX: &str = "@look ";

/// State of a connection at an instant, from `ss`, in scenario time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSample {
    /// Scenario time, in microseconds.
    pub at_us: u64,
    /// Congestion window, in segments.
    pub cwnd: u64,
    /// Slow-start threshold, in segments; `None` before the first loss or mark.
    pub ssthresh: Option<u64>,
    /// Smoothed round-trip time, in nanoseconds.
    pub rtt_ns: u64,
    /// Round-trip time variation, in nanoseconds.
    pub rttvar_ns: u64,
    /// Bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments delivered with a CE mark, as the receiver reported.
    pub delivered_ce: u64,
}

impl ConnectionSample {
    /// Column names of [`ConnectionSample::row`].
    pub(crate) const COLUMNS: &str =
        "time_us,cwnd_segments,ssthresh_segments,rtt_us,rttvar_us,bytes_sent,bytes_acked,retransmits,delivered_ce";

    pub(crate) fn row(&self) -> String {
        let ConnectionSample { at_us, cwnd, ssthresh, bytes_sent, bytes_acked, retransmits, delivered_ce, .. } = self;
        let us = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
        let ssthresh = ssthresh.map_or_else(String::new, |segments| segments.to_string());
        let (rtt, rttvar) = (us(self.rtt_ns), us(self.rttvar_ns));
        format!("{at_us},{cwnd},{ssthresh},{rtt},{rttvar},{bytes_sent},{bytes_acked},{retransmits},{delivered_ce}")
    }
}

/// State of a connection at an instant of the host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawSample {
    clock: u64,
    local_port: u16,
    server_port: u16,
    sample: ConnectionSample,
}

/// Returns a script that samples the connections to these ports for `within`, or until it is ended.
pub(crate) fn script(ports: &[u16], within: Duration) -> String {
    let filter: Vec<String> = ports.iter().map(|port| format!("dport = :{port}")).collect();
    let looks = within.as_millis() as u64 / (10 * EVERY) + 1;
    format!(
        "n=0; while [ $n -lt {looks} ]; do read up rest < /proc/uptime; echo {SAMPLE_PREFIX}${{up%.*}}${{up#*.}}; \
         ss -tinHO '( {} )' 2>/dev/null; sleep 0.{EVERY:02}; n=$((n + 1)); done",
        filter.join(" or ")
    )
}

pub(crate) fn parse(output: &str) -> Vec<RawSample> {
    let (mut looks, mut clock) = (Vec::new(), None);
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix(SAMPLE_PREFIX) {
            clock = rest.trim().parse().ok();
        } else if let Some(clock) = clock {
            looks.extend(connection(clock, line));
        }
    }
    looks
}

fn connection(clock: u64, line: &str) -> Option<RawSample> {
    let mut fields = line.split_whitespace();
    let (_state, _received, _sent) = (fields.next()?, fields.next()?, fields.next()?);
    let port = |address: &str| address.rsplit_once(':')?.1.parse().ok();
    let (local_port, server_port) = (port(fields.next()?)?, port(fields.next()?)?);
    let mut sample = ConnectionSample::default();
    for word in fields {
        let Some((key, value)) = word.split_once(':') else { continue };
        let number = || value.parse::<u64>().unwrap_or(0);
        match key {
            "cwnd" => sample.cwnd = number(),
            "ssthresh" => sample.ssthresh = Some(number()),
            "rtt" => {
                let mut times = value.split('/').map(nanoseconds);
                (sample.rtt_ns, sample.rttvar_ns) = (times.next()??, times.next().flatten().unwrap_or(0));
            }
            "bytes_sent" => sample.bytes_sent = number(),
            "bytes_acked" => sample.bytes_acked = number(),
            // Retransmissions in flight, and in total.
            "retrans" => sample.retransmits = value.rsplit('/').next().and_then(|all| all.parse().ok()).unwrap_or(0),
            "delivered_ce" => sample.delivered_ce = number(),
            _ => {}
        }
    }
    Some(RawSample { clock, local_port, server_port, sample })
}

/// Parses milliseconds with a fraction into nanoseconds.
fn nanoseconds(milliseconds: &str) -> Option<u64> {
    milliseconds.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| (value * 1e6) as u64)
}

/// Returns the samples of a flow, by its server's port: of the data connection, as iperf3 also has a control
/// connection. The scenario began when the host's clock showed `begins`.
pub(crate) fn of_flow(looks: &[RawSample], server_port: u16, begins: u64, dilation: u32) -> Vec<ConnectionSample> {
    let of_flow = || looks.iter().filter(|look| look.server_port == server_port);
    let Some(most) = of_flow().max_by_key(|look| look.sample.bytes_sent) else { return Vec::new() };
    let slowed = u64::from(dilation);
    let of_data = of_flow().filter(|look| look.local_port == most.local_port);
    let in_scenario = |look: &RawSample| ConnectionSample {
        at_us: look.clock.saturating_sub(begins) * 10_000 / slowed,
        rtt_ns: look.sample.rtt_ns / slowed,
        rttvar_ns: look.sample.rttvar_ns / slowed,
        ..look.sample
    };
    of_data.map(in_scenario).collect()
}

/// Summarises samples; `None` if there are none.
pub(crate) fn summary(samples: &[ConnectionSample]) -> Option<ConnectionSummary> {
    let last = samples.last()?;
    let count = samples.len() as u64;
    let mean = |value: fn(&ConnectionSample) -> u64| samples.iter().map(value).sum::<u64>() / count;
    let max = |value: fn(&ConnectionSample) -> u64| samples.iter().map(value).max().unwrap_or(0);
    Some(ConnectionSummary {
        samples: count,
        cwnd_mean: mean(|sample| sample.cwnd),
        cwnd_max: max(|sample| sample.cwnd),
        rtt_mean_ns: mean(|sample| sample.rtt_ns),
        rtt_max_ns: max(|sample| sample.rtt_ns),
        retransmits: last.retransmits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of ss from iproute2 6.1; the second connection is iperf3's control connection.
    const OUTPUT: &str = "@look 1200\n\
        @look 1220\n\
        ESTAB 0      86880   10.0.0.1:43712 10.0.0.2:5201 cubic wscale:7,7 rto:212 rtt:8.462/1.25 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 \
        cwnd:23 ssthresh:16 bytes_sent:501008 bytes_retrans:2896 bytes_acked:401008 segs_out:346 segs_in:180 data_segs_out:344 \
        send 31493971bps lastsnd:4 pacing_rate 37792672bps delivery_rate 9500000bps delivered:301 delivered_ce:12 app_limited \
        busy:120ms unacked:22 retrans:1/2 rcv_space:14480 minrtt:0.05\n\
        ESTAB 0 0 10.0.0.1:43710 10.0.0.2:5201 cubic wscale:7,7 rto:204 rtt:0.3/0.1 mss:1448 cwnd:10 bytes_sent:210 bytes_acked:211\n\
        @look 1240\nESTAB 0 0 10.0.0.1:43712 10.0.0.2:5201 cubic rtt:2/1 cwnd:11 bytes_sent:601008 retrans:0/4\n\
        ESTAB 0 0 10.0.0.1:50000 10.0.0.9:5202 dctcp rtt:1/1 cwnd:5 bytes_sent:9\n";

    #[test]
    fn the_data_connection_is_chosen() {
        let looks = parse(OUTPUT);
        assert_eq!(looks.len(), 4);
        let samples = of_flow(&looks, 5_201, 1_200, 2);
        let first = ConnectionSample {
            at_us: 100_000,
            cwnd: 23,
            ssthresh: Some(16),
            rtt_ns: 4_231_000,
            rttvar_ns: 625_000,
            bytes_sent: 501_008,
            bytes_acked: 401_008,
            retransmits: 2,
            delivered_ce: 12,
        };
        assert_eq!((samples.len(), samples[0]), (2, first));
        assert_eq!(first.row(), "100000,23,16,4231.000,625.000,501008,401008,2,12");
        assert_eq!(first.row().split(',').count(), ConnectionSample::COLUMNS.split(',').count());
        let summary = summary(&samples).unwrap();
        assert_eq!((summary.samples, summary.cwnd_mean, summary.cwnd_max, summary.retransmits), (2, 17, 23, 4));
        assert_eq!(of_flow(&looks, 5_203, 0, 1), []);
    }

    #[test]
    fn the_script_runs_in_a_plain_shell() {
        let script = script(&[5_201, 5_202], Duration::from_millis(100));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.starts_with(SAMPLE_PREFIX) && parse(&text).is_empty(), "{text}");
    }
}
