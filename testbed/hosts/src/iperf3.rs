//! Arguments and JSON output of iperf3.

use crate::perftest::Extent;

/// Flow sent by iperf3.
pub(crate) struct Iperf3Flow<'a> {
    /// Linux's name of the TCP congestion control.
    pub control: &'a str,
    pub port: u16,
    pub extent: Extent,
    /// Message size in bytes.
    pub message: u64,
    /// Rate limit in bit/s.
    pub rate_bps: Option<u64>,
    pub traffic_class: u8,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Iperf3Result {
    pub sent: u64,
    pub received: u64,
    pub rate_bps: u64,
    pub retransmits: u64,
    /// Mean round-trip time, in microseconds.
    pub mean_rtt: Option<u64>,
}

impl Iperf3Flow<'_> {
    pub(crate) fn server(&self) -> String {
        format!("iperf3 --server --one-off --port {} --json", self.port)
    }

    pub(crate) fn client(&self, server: &str) -> String {
        let Iperf3Flow { control, port, traffic_class, message, .. } = self;
        let mut command =
            format!("iperf3 --client {server} --port {port} --json --congestion {control} --tos {traffic_class}");
        command += &match self.extent {
            Extent::Messages(messages) => format!(" --bytes {}", messages * message),
            Extent::Seconds(seconds) => format!(" --time {}", seconds.max(1)),
        };
        if let Some(rate) = self.rate_bps {
            command += &format!(" --bitrate {rate}");
        }
        command
    }
}

/// Parses a transfer's result.
///
/// # Errors
/// Error message of iperf3.
pub(crate) fn parse(output: &str) -> Result<Iperf3Result, String> {
    let json = output.find('{').map_or("", |at| &output[at..]);
    let result: serde_json::Value = serde_json::from_str(json)
        .map_err(|_| format!("last line of output: {}", output.trim().lines().last().unwrap_or("none")))?;
    if let Some(error) = result["error"].as_str() {
        return Err(error.to_owned());
    }
    let (sent, received) = (&result["end"]["sum_sent"], &result["end"]["sum_received"]);
    let number = |value: &serde_json::Value| value.as_f64().map(|number| number as u64);
    Ok(Iperf3Result {
        sent: number(&sent["bytes"]).ok_or("its result has no bytes sent")?,
        received: number(&received["bytes"]).ok_or("its result has no bytes received")?,
        rate_bps: number(&received["bits_per_second"]).unwrap_or(0),
        retransmits: number(&sent["retransmits"]).unwrap_or(0),
        mean_rtt: number(&result["end"]["streams"][0]["sender"]["mean_rtt"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of iperf3 3.12, without unused fields.
    const RESULT: &str = r#"{ "start": {}, "intervals": [], "end": { "streams": [{ "sender": { "max_rtt": 7000, "mean_rtt": 5230 } }],
        "sum_sent": { "start": 0, "seconds": 3.0001, "bytes": 12582912, "bits_per_second": 33552912.1, "retransmits": 17 },
        "sum_received": { "seconds": 3.1, "bytes": 12000000, "bits_per_second": 30967741.9 } } }"#;

    #[test]
    fn results_are_read() {
        let read = parse(RESULT).unwrap();
        assert_eq!((read.sent, read.received, read.rate_bps), (12_582_912, 12_000_000, 30_967_741));
        assert_eq!((read.retransmits, read.mean_rtt), (17, Some(5_230)));
    }

    #[test]
    fn error_messages_are_returned() {
        let refused = r#"{ "start": {}, "error": "unable to connect to server: Connection refused" }"#;
        assert_eq!(parse(refused).unwrap_err(), "unable to connect to server: Connection refused");
        assert_eq!(parse("sh: iperf3: not found\n").unwrap_err(), "last line of output: sh: iperf3: not found");
    }

    #[test]
    fn arguments_of_both_ends() {
        let transfer = Iperf3Flow {
            control: "dctcp",
            port: 5_201,
            extent: Extent::Messages(3),
            message: 1_000,
            rate_bps: Some(5_000_000),
            traffic_class: 0,
        };
        assert_eq!(transfer.server(), "iperf3 --server --one-off --port 5201 --json");
        let client =
            "iperf3 --client 10.0.0.2 --port 5201 --json --congestion dctcp --tos 0 --bytes 3000 --bitrate 5000000";
        assert_eq!(transfer.client("10.0.0.2"), client);
    }
}
