//! Keys of a TCP connection in files.

use weir_reader::{Gauge, Key, Plugin};
use weir_units::{Bytes, CLASSES, Class, Span};
use weir_wire::rocev2::Dscp;

use super::{AckPoint, DelayedAck, TcpConfig, TcpCongestionChoice, TcpCongestionKind};
use crate::parameters::{Parameters, Preset, WrongValue};

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

const PRESET: Key = Key::new("preset", "datacentre", "the set that the other keys are laid over, or \"linux\"");
const ECN: Key = Key::new("ecn", "false", "whether data may be marked; data of DCTCP always may");
const MSS: Key = Key::new("mss", "1448", "payload of a full segment in bytes");
const INITIAL_WINDOW: Key =
    Key::new("initial_window", "10", "the window before the first acknowledgement, in segments");
const WINDOW_MAX: Key = Key::new("window_max", "64MiB", "the receiver's window");
const INITIAL_RTO: Key = Key::new("initial_rto", "10ms", "the retransmission timeout before the first measurement");
const KNOWN_RTT: Key = Key::new(
    "known_rtt",
    "none",
    "a round trip that was measured before the first data, as of the handshake; \"none\" for none",
);
const TIMESTAMP_CLOCK: Key = Key::new(
    "timestamp_clock",
    "none",
    "the tick of timestamps, in which round trips are measured, 1us for one within a tick; \"none\" for exact ones",
);
const RTO_MIN: Key = Key::new("rto_min", "10ms", "the shortest retransmission timeout");
const RTO_MAX: Key = Key::new("rto_max", "120s", "the longest, however often it was doubled");
const GRANULARITY: Key =
    Key::new("granularity", "10us", "G: the timeout exceeds the smoothed round trip by that much at least");
const ACK_EVERY: Key = Key::new("ack_every", "2", "so many segments are acknowledged together");
const ACK_DELAY: Key = Key::new("ack_delay", "1ms", "and so long after the first of them at the latest");
const ACK_CLASS: Key = Key::new("ack_class", "data", "the class of acknowledgements, or \"data\" for that of the data");
const UNSCHEDULED: Key = Key::new(
    "unscheduled",
    "0B",
    "so much of what a connection sends first is marked unscheduled: switches take `unscheduled_alpha` of [scenario] for it",
);
const RESTART_AFTER_IDLE: Key =
    Key::new("restart_after_idle", "true", "whether a silent sender starts with the initial window again");
const TIMER_RESTART: Key = Key::new(
    "timer_restart",
    "each",
    "which acknowledgements that move on restart the retransmission timer while losses are repaired: \"each\", or \"first\" alone",
);
const GROWTH_BY: Key = Key::new(
    "growth_by",
    "arrived",
    "what the window grows by: what \"arrived\", or what is \"acked\", SACKed before or not, and slow start beyond its threshold",
);
const TIMEOUT_CUTS: Key = Key::new(
    "timeout_cuts",
    "once",
    "timeouts cut the window of the data that is lost \"once\", or \"each\" the one that there is by then",
);

/// Sets of parameters: one for a datacentre, equal to the keys' defaults, and Linux's on an Ethernet of 1500 B.
///
/// Timeouts in a datacentre are 10 ms at least and at first, as in the DCTCP paper (Alizadeh et al., SIGCOMM 2010); a receiver's
/// window of 64 MiB is enough there for 400 Gb/s and a round trip of 1 ms. Linux's window is `tcp_rmem`'s.
const PRESETS: &[Preset] = &[
    Preset { name: "datacentre", about: "the keys' defaults", values: &[] },
    Preset {
        name: "linux",
        about: "Linux, and RFC 6298",
        values: &[
            ("window_max", "6MiB"),
            ("initial_rto", "1s"),
            ("rto_min", "200ms"),
            ("granularity", "1ms"),
            ("ack_delay", "40ms"),
        ],
    },
];

const MSS_MAX: u32 = 65_000;

impl Plugin for TcpKeys {
    fn id(&self) -> &'static str {
        "tcp"
    }

    fn keys(&self) -> &'static [Key] {
        &[
            PRESET,
            ECN,
            MSS,
            INITIAL_WINDOW,
            WINDOW_MAX,
            INITIAL_RTO,
            KNOWN_RTT,
            TIMESTAMP_CLOCK,
            RTO_MIN,
            RTO_MAX,
            GRANULARITY,
            ACK_EVERY,
            ACK_DELAY,
            ACK_CLASS,
            UNSCHEDULED,
            RESTART_AFTER_IDLE,
            TIMER_RESTART,
            GROWTH_BY,
            TIMEOUT_CUTS,
        ]
    }
}

impl TcpConfig {
    /// Returns Linux's connection on an Ethernet of 1500 B.
    pub fn linux(control: TcpCongestionChoice) -> TcpConfig {
        let values = PRESETS.iter().find(|preset| preset.name == "linux").map_or(&[][..], |preset| preset.values);
        TcpConfig::from_parameters(&Parameters::defaults_over(&[], values), control)
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
        let wanted = connection.iter().find(|(key, _)| *key == PRESET.name).map(|(_, preset)| *preset);
        let preset = PRESETS.iter().find(|preset| wanted.is_none_or(|wanted| wanted == preset.name));
        let of_connection = Parameters::defaults_over(connection, preset.map_or(&[], |preset| preset.values));
        if preset.is_none() {
            let names: Vec<String> = PRESETS.iter().map(|preset| format!("\"{}\"", preset.name)).collect();
            let message = format!("\"{}\" is none of {}", wanted.unwrap_or_default(), names.join(", "));
            of_connection.refuse(&PRESET, message, format!("write {} = {}", PRESET.name, names[0]));
        }
        let of_control = Parameters::defaults_over(control, preset.map_or(&[], |preset| kind.preset(preset.name)));
        let config = TcpConfig::from_parameters(&of_connection, TcpCongestionChoice::parse(kind, &of_control));
        let wrong = WrongTcp { connection: of_connection.into_wrong(), control: of_control.into_wrong() };
        if wrong == WrongTcp::default() { Ok(config) } else { Err(wrong) }
    }

    fn from_parameters(parameters: &Parameters<'_>, control: TcpCongestionChoice) -> TcpConfig {
        let times = Span::from_nanos(100)..=Span::from_secs(1_000);
        let every = parameters.integer(&ACK_EVERY, 1..=1_000);
        let at_most = parameters.time(&ACK_DELAY, times.clone());
        let [initial_rto, rto_min, rto_max] =
            [&INITIAL_RTO, &RTO_MIN, &RTO_MAX].map(|key| parameters.time(key, times.clone()));
        for (key, rto) in [(&INITIAL_RTO, initial_rto), (&RTO_MIN, rto_min)] {
            if rto > rto_max {
                let message = format!("{}, {rto}, is above rto_max, {rto_max}", key.name);
                parameters.refuse(key, message, format!("write a shorter `{}` or a longer `rto_max`", key.name));
            }
        }
        TcpConfig {
            control,
            ecn: parameters.boolean(&ECN),
            mss: parameters.integer(&MSS, 1..=MSS_MAX),
            initial_window: parameters.integer(&INITIAL_WINDOW, 1..=100_000),
            window_max: parameters.size(&WINDOW_MAX, Bytes::new(1)..=Bytes::mb(1_000_000)),
            initial_rto,
            known_rtt: parameters.time_or_none(&KNOWN_RTT, times.clone()),
            timestamp_clock: parameters.time_or_none(&TIMESTAMP_CLOCK, times.clone()),
            rto_min,
            rto_max,
            granularity: parameters.time(&GRANULARITY, times),
            // Every segment acknowledged means no delay.
            delayed_ack: (every > 1).then_some(DelayedAck { every, at_most }),
            acks: parameters.choice(&ACK_CLASS, &ack_points()),
            unscheduled: parameters.size(&UNSCHEDULED, Bytes::ZERO..=Bytes::mb(1_000_000)),
            restart_after_idle: parameters.boolean(&RESTART_AFTER_IDLE),
            is_impatient: parameters.choice(&TIMER_RESTART, &[("each", false), ("first", true)]),
            grows_by_acked: parameters.choice(&GROWTH_BY, &[("arrived", false), ("acked", true)]),
            cuts_at_each_timeout: parameters.choice(&TIMEOUT_CUTS, &[("once", false), ("each", true)]),
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

/// Values of `ack_class`.
fn ack_points() -> Vec<(&'static str, Option<AckPoint>)> {
    const NUMBERS: [&str; CLASSES] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let of_class = |(class, number)| (number, Some(AckPoint { class: Class::new(class), dscp: Dscp::new(8 * class) }));
    std::iter::once(("data", None)).chain((0..).zip(NUMBERS).map(of_class)).collect()
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
            assert_eq!(wrong(&[(key.name, "nonsense")]).key, key.name);
        }
        for kind in kinds() {
            for key in kind.keys() {
                let wrong = TcpConfig::parse(kind, &[], &[(key.name, "nonsense")]).unwrap_err();
                assert_eq!(wrong.control[0].key, key.name, "{}", kind.id());
            }
        }
    }
}
