//! Keys of a TCP connection in files.

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{Bytes, Class, Span};
use weir_wire::rocev2::Dscp;

use super::{AckPoint, DelayedAck, TcpConfig, TcpCongestionChoice, TcpCongestionKind};
use crate::parameters::{Parameters, Preset, TIMES, WrongValue, time_or_none};

/// Keys of every connection, for any congestion control: the table `[nic.tcp]`.
#[derive(Debug)]
pub struct TcpKeys;

/// Invalid values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrongTcp {
    /// Invalid values of `[nic.tcp]`.
    pub connection: Vec<WrongValue>,
    /// Invalid values of the congestion control's table.
    pub control: Vec<WrongValue>,
}

/// Gauges of every connection; those of its congestion control follow.
pub const GAUGES: &[Gauge] = &[
    Gauge::plain("window_bytes", "the congestion window"),
    Gauge::plain("threshold_bytes", "the slow-start threshold; empty before the first cut"),
    Gauge::plain("in_flight_bytes", "what is taken to be under way (pipe)"),
    Gauge::plain("srtt_us", "the smoothed round-trip time; empty before the first measurement"),
];

/// Set of parameters of a datacentre, the keys' defaults.
///
/// Timeouts in a datacentre are 10 ms at least and at first, as in the DCTCP paper (Alizadeh et al., SIGCOMM 2010); a receiver's
/// window of 64 MiB is enough there for 400 Gb/s and a round trip of 1 ms.
const DATACENTRE: Preset = Preset { name: "datacentre", about: "the keys' defaults", values: &[] };

/// Set of parameters of Linux on an Ethernet of 1500 B. The window is `tcp_rmem`'s.
const LINUX: Preset = Preset {
    name: "linux",
    about: "Linux, and RFC 6298",
    values: &[
        ("window_max", "6MiB"),
        ("initial_rto", "1s"),
        ("rto_min", "200ms"),
        ("granularity", "1ms"),
        ("ack_delay", "40ms"),
    ],
};

const PRESET: Key<Preset> = Key::choice(
    "preset",
    &[(DATACENTRE.name, DATACENTRE), (LINUX.name, LINUX)],
    "set of the other keys' defaults; `linux`: `window_max` 6MiB (`tcp_rmem`), `initial_rto` 1s, `rto_min` 200ms, \
     `granularity` 1ms, `ack_delay` 40ms, and `growth` of `[nic.tcp-cubic]` linux",
)
.or(DATACENTRE.name);
const ECN: Key<bool> = Key::boolean("ecn", "whether data is ECN-capable; with DCTCP it always is").or("false");
const MSS: Key<u32> = Key::<u32>::integer("mss", 1..=65_000, "payload of a full segment in bytes").or("1448");
const INITIAL_WINDOW: Key<u32> = Key::<u32>::integer(
    "initial_window",
    1..=100_000,
    "window before the first acknowledgement, in segments (RFC 6928)",
)
.or("10");
const WINDOW_MAX: Key<Bytes> = Key::size(
    "window_max",
    Bytes::new(1)..=Bytes::mb(1_000_000),
    "receive window; 64 MiB suffice for 400 Gb/s and a round trip of 1 ms",
)
.or("64MiB");
const INITIAL_RTO: Key<Span> = Key::time(
    "initial_rto",
    TIMES,
    "retransmission timeout before the first measurement; at most `rto_max` (RFC 6298, 2.1: 1 s)",
)
.or("10ms");
const KNOWN_RTT: Key<Option<Span>> = time_or_none(
    "known_rtt",
    "round trip known before the first data, as from a handshake; sets the timeout and HyStart",
)
.or("none");
const TIMESTAMP_CLOCK: Key<Option<Span>> = time_or_none(
    "timestamp_clock",
    "tick of the timestamps that measure round trips, with 1 us for one within a tick (ns-3: 1 ms); `none`: exact",
)
.or("none");
const RTO_MIN: Key<Span> =
    Key::time("rto_min", TIMES, "shortest retransmission timeout; at most `rto_max` (DCTCP, SIGCOMM 2010: 10 ms)")
        .or("10ms");
const RTO_MAX: Key<Span> =
    Key::time("rto_max", TIMES, "longest retransmission timeout, after any number of doublings").or("120s");
const GRANULARITY: Key<Span> = Key::time(
    "granularity",
    TIMES,
    "G: least margin of the retransmission timeout over the smoothed round trip (RFC 6298)",
)
.or("10us");
const ACK_EVERY: Key<u32> =
    Key::<u32>::integer("ack_every", 1..=1_000, "segments per acknowledgement; 1: no delay").or("2");
const ACK_DELAY: Key<Span> = Key::time("ack_delay", TIMES, "longest delay of an acknowledgement").or("1ms");
const ACK_CLASS: Key<Option<AckPoint>> = Key::choice(
    "ack_class",
    &[
        ("data", None),
        ("0", ack_point(0)),
        ("1", ack_point(1)),
        ("2", ack_point(2)),
        ("3", ack_point(3)),
        ("4", ack_point(4)),
        ("5", ack_point(5)),
        ("6", ack_point(6)),
        ("7", ack_point(7)),
    ],
    "class of acknowledgements, for queueing and counting, by default that of the data; all switches must map one DSCP \
     to it",
)
.or("data");
const UNSCHEDULED: Key<Bytes> = Key::size(
    "unscheduled",
    Bytes::ZERO..=Bytes::mb(1_000_000),
    "bytes at a connection's start, retransmissions included, that switches admit by `unscheduled_alpha` of \
     `[scenario]`",
)
.or("0B");
const RESTART_AFTER_IDLE: Key<bool> = Key::boolean(
    "restart_after_idle",
    "whether a sender silent for a retransmission timeout restarts with the initial window (RFC 5681, 4.1)",
)
.or("true");
const TIMER_RESTART: Key<bool> = Key::choice(
    "timer_restart",
    &[("each", false), ("first", true)],
    "partial acknowledgements in recovery that restart the retransmission timer: each, or only the first, as in ns-3 \
     (RFC 6582, 4: Slow-but-Steady, Impatient)",
)
.or("each");
const GROWTH_BY: Key<bool> = Key::choice(
    "growth_by",
    &[("arrived", false), ("acked", true)],
    "growth of the window; `arrived`: by each new byte once, slow start up to its threshold, as in Linux; `acked`: by \
     the acknowledgement's advance, slow start also beyond its threshold, as in ns-3; a filled gap makes it jump",
)
.or("arrived");
const TIMEOUT_CUTS: Key<bool> = Key::choice(
    "timeout_cuts",
    &[("once", false), ("each", true)],
    "how often timeouts cut. `once`: those for the same data once (RFC 5681, 3.1); `each`: each cuts the current \
     window, as in ns-3: a second in a row sets the threshold to two segments, one in recovery cuts from the bytes \
     in flight",
)
.or("once");

/// Returns the acknowledgements' class and code point for a value of `ack_class`.
const fn ack_point(class: u8) -> Option<AckPoint> {
    Some(AckPoint { class: Class::new(class), dscp: Dscp::new(8 * class) })
}

impl Plugin for TcpKeys {
    fn id(&self) -> &'static str {
        "tcp"
    }

    fn keys(&self) -> Keys {
        &[
            &PRESET,
            &ECN,
            &MSS,
            &INITIAL_WINDOW,
            &WINDOW_MAX,
            &INITIAL_RTO,
            &KNOWN_RTT,
            &TIMESTAMP_CLOCK,
            &RTO_MIN,
            &RTO_MAX,
            &GRANULARITY,
            &ACK_EVERY,
            &ACK_DELAY,
            &ACK_CLASS,
            &UNSCHEDULED,
            &RESTART_AFTER_IDLE,
            &TIMER_RESTART,
            &GROWTH_BY,
            &TIMEOUT_CUTS,
        ]
    }
}

impl TcpConfig {
    /// Returns Linux's connection on an Ethernet of 1500 B.
    pub fn linux(control: TcpCongestionChoice) -> TcpConfig {
        TcpConfig::from_parameters(&Parameters::defaults_over(&[], LINUX.values), control)
    }

    /// Returns a connection for a datacentre: the keys' defaults.
    pub fn datacentre(control: TcpCongestionChoice) -> TcpConfig {
        TcpConfig::from_parameters(&Parameters::defaults_over(&[], &[]), control)
    }

    /// Parses a connection from the values of the table `[nic.tcp]` and of the congestion control's own table. The
    /// first of a repeated key counts.
    ///
    /// # Errors
    /// The invalid values.
    pub fn parse(
        kind: &'static dyn TcpCongestionKind,
        connection: &[(&str, &str)],
        control: &[(&str, &str)],
    ) -> Result<TcpConfig, WrongTcp> {
        let of_connection = Parameters::defaults_over(connection, &[]);
        let preset = of_connection.choice(&PRESET);
        let of_connection = of_connection.with_preset(preset.values);
        let of_control = Parameters::defaults_over(control, kind.preset(preset.name));
        let config = TcpConfig::from_parameters(&of_connection, TcpCongestionChoice::parse(kind, &of_control));
        let wrong = WrongTcp { connection: of_connection.into_wrong(), control: of_control.into_wrong() };
        if wrong == WrongTcp::default() { Ok(config) } else { Err(wrong) }
    }

    fn from_parameters(parameters: &Parameters<'_>, control: TcpCongestionChoice) -> TcpConfig {
        let every = parameters.integer(&ACK_EVERY);
        let at_most = parameters.time(&ACK_DELAY);
        let [initial_rto, rto_min, rto_max] = [&INITIAL_RTO, &RTO_MIN, &RTO_MAX].map(|key| parameters.time(key));
        for (key, rto) in [(&INITIAL_RTO, initial_rto), (&RTO_MIN, rto_min)] {
            if rto > rto_max {
                let message = format!("{}, {rto}, is above rto_max, {rto_max}", key.name);
                parameters.refuse(key, message, format!("write a shorter `{}` or a longer `rto_max`", key.name));
            }
        }
        TcpConfig {
            control,
            ecn: parameters.boolean(&ECN),
            mss: parameters.integer(&MSS),
            initial_window: parameters.integer(&INITIAL_WINDOW),
            window_max: parameters.size(&WINDOW_MAX),
            initial_rto,
            known_rtt: parameters.time_or_none(&KNOWN_RTT),
            timestamp_clock: parameters.time_or_none(&TIMESTAMP_CLOCK),
            rto_min,
            rto_max,
            granularity: parameters.time(&GRANULARITY),
            // Every segment acknowledged means no delay.
            delayed_ack: (every > 1).then_some(DelayedAck { every, at_most }),
            acks: parameters.choice(&ACK_CLASS),
            unscheduled: parameters.size(&UNSCHEDULED),
            restart_after_idle: parameters.boolean(&RESTART_AFTER_IDLE),
            is_impatient: parameters.choice(&TIMER_RESTART),
            grows_by_acked: parameters.choice(&GROWTH_BY),
            cuts_at_each_timeout: parameters.choice(&TIMEOUT_CUTS),
        }
    }

    /// Measured round trip that begins and ends in one tick of [`TcpConfig::timestamp_clock`], as in ns-3.
    pub const WITHIN_TICK: Span = Span::from_micros(1);

    /// Whether data is ECN-capable.
    pub fn is_ecn_capable(&self) -> bool {
        self.ecn || self.control.counts_marks()
    }

    /// Returns the gauges of the connection's flows, in the order of [`TcpSender::gauges`](super::TcpSender::gauges).
    pub fn gauges(&self) -> impl Iterator<Item = &'static Gauge> + use<> {
        GAUGES.iter().chain(self.control.gauges())
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Time;

    use super::*;
    use crate::tcp::{Ack, TcpSender, kinds};

    fn read(connection: &[(&str, &str)]) -> Result<TcpConfig, WrongTcp> {
        TcpConfig::parse(kinds().next().expect("Cubic"), connection, &[])
    }

    #[test]
    fn presets_are_what_the_documents_say() {
        let (linux, ours) =
            (TcpConfig::linux(TcpCongestionChoice::reno()), TcpConfig::datacentre(TcpCongestionChoice::reno()));
        assert_eq!((linux.rto_min, ours.rto_min), (Span::from_millis(200), Span::from_millis(10)));
        assert_eq!((linux.window_max, ours.window_max), (Bytes::new(6 << 20), Bytes::new(64 << 20)));
        assert_eq!((linux.mss, ours.initial_window, linux.rto_max), (1_448, 10, Span::from_secs(120)));
        let delayed = |config: &TcpConfig| config.delayed_ack.map(|ack| (ack.every, ack.at_most));
        assert_eq!(delayed(&linux), Some((2, Span::from_millis(40))));
        assert_eq!(delayed(&read(&[("ack_every", "1")]).unwrap()), None);
        let class_0 = Some(AckPoint { class: Class::new(0), dscp: Dscp::new(0) });
        assert_eq!((linux.acks, read(&[("ack_class", "0")]).unwrap().acks), (None, class_0));
        assert_eq!(read(&[("preset", "linux"), ("rto_min", "5ms")]).unwrap().rto_min, Span::from_millis(5));
        let of_cubic = kinds().next().expect("Cubic").preset("linux");
        assert!(LINUX.values.iter().all(|(key, value)| PRESET.help.contains(&format!("`{key}` {value}"))));
        assert_eq!(of_cubic, [("growth", "linux")]);
    }

    #[test]
    fn linuxs_preset_reaches_cubics_own_table() {
        let grown = |connection: &[(&str, &str)], control: &[(&str, &str)]| {
            let config = TcpConfig::parse(kinds().next().expect("Cubic"), connection, control).unwrap();
            let mut law = config.control.build();
            law.on_cut(20_000.0);
            // One acknowledgement of two segments: a part of a segment, or none yet.
            law.grown(Time::from_nanos(1_000_000), Span::from_millis(1), 2_000.0, 14_000.0, 20_000.0, 1_000.0)
        };
        let rfc = grown(&[], &[]);
        assert!(rfc > 14_000.0 && rfc < 14_500.0, "{rfc}");
        let linux = &[("preset", "linux")];
        assert_eq!((grown(linux, &[]), grown(&[], &[("growth", "linux")])), (14_000.0, 14_000.0));
        assert_eq!(grown(linux, &[("growth", "rfc9438")]), rfc);
    }

    #[test]
    fn a_known_round_trip_is_the_first_timeout() {
        let timeout = |given: &[(&str, &str)]| {
            let mut sender = TcpSender::new(&read(given).unwrap());
            sender.write(1);
            sender.poll_segment(Time::ZERO).unwrap();
            (sender.smoothed_rtt(), sender.next_timeout().since(Time::ZERO))
        };
        assert_eq!(timeout(&[("initial_rto", "1s")]), (None, Span::from_millis(1_000)));
        let known = timeout(&[("initial_rto", "1s"), ("known_rtt", "40ms")]);
        // SRTT + 4 · SRTT / 2.
        assert_eq!(known, (Some(Span::from_millis(40)), Span::from_millis(120)));
    }

    #[test]
    fn round_trips_are_measured_in_ticks_of_the_timestamps() {
        let measured = |clock: &str, sent: u64, received: u64| {
            let mut sender = TcpSender::new(&read(&[("timestamp_clock", clock)]).unwrap());
            sender.write(1);
            let sent = Time::from_nanos(sent * 1_000);
            sender.poll_segment(sent).unwrap();
            let ack = Ack { ack: 1, ece: false, sack: [None; 3], echo: sent };
            sender.handle_ack(Time::from_nanos(received * 1_000), &ack);
            sender.smoothed_rtt().unwrap().as_micros()
        };
        assert_eq!(["none", "1ms"].map(|clock| measured(clock, 1_100, 1_900)), [800, 1]);
        assert_eq!(["none", "1ms"].map(|clock| measured(clock, 1_990, 2_010)), [20, 1_000]);
        assert_eq!(measured("1ms", 1_990, 4_010), 3_000);
    }

    #[test]
    fn wrong_values_are_reported_with_their_keys() {
        let wrong = |values: &[(&str, &str)]| read(values).unwrap_err().connection.remove(0);
        assert_eq!(wrong(&[("preset", "bsd")]).message, "\"bsd\" is none of \"datacentre\", \"linux\"");
        assert_eq!(wrong(&[("rto_min", "300s")]).message, "rto_min, 300s, is above rto_max, 120s");
        for key in TcpKeys.keys() {
            assert_eq!(wrong(&[(key.name(), "nonsense")]).key, key.name());
        }
        for kind in kinds() {
            for key in kind.keys() {
                let wrong = TcpConfig::parse(kind, &[], &[(key.name(), "nonsense")]).unwrap_err();
                assert_eq!(wrong.control[0].key, key.name(), "{}", kind.id());
            }
        }
    }
}
