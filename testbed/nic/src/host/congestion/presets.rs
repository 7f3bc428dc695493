//! Congestion controls by name, with parameters that others have used.

use weir_units::{BitRate, Span};

use super::{CongestionControl, DcqcnConfig, DcqcnNs3Config, HpccConfig, PowerTcpConfig, TimelyConfig};

impl CongestionControl {
    /// The names that [`CongestionControl::preset`] knows, and where the parameters are from.
    pub const PRESETS: &[(&str, &str)] = &[
        ("none", "no congestion control"),
        ("dcqcn", "the same as dcqcn-paper"),
        ("dcqcn-paper", "DCQCN paper (SIGCOMM 2015), rates in proportion to the line"),
        ("dcqcn-hpcc", "HPCC's public simulator, run.py --cc dcqcn"),
        ("dcqcn-hpcc-paper", "HPCC's public simulator, run.py --cc dcqcn_paper"),
        ("dcqcn-conweave", "ConWeave's public simulator, run.py --cc dcqcn"),
        ("dcqcn-reverie", "Reverie's public simulation, config-workload.txt"),
        ("timely", "TIMELY paper (SIGCOMM 2015), rates in proportion to the line"),
        ("timely-hpcc", "HPCC's public simulator, run.py --cc timely"),
        ("hpcc", "HPCC paper (SIGCOMM 2019)"),
        ("hpcc-simulator", "HPCC's public simulator, run.py --cc hp"),
        ("powertcp", "PowerTCP paper (NSDI 2022), additive step for 100 flows"),
        ("theta-powertcp", "PowerTCP paper (NSDI 2022), additive step for 50 flows"),
    ];

    /// The congestion control of this name for hosts on a line of this rate, in a network whose longest round trip takes
    /// `base_rtt` without queues, a full packet's time on each link included. `None` if there is none of the name.
    pub fn preset(name: &str, line: BitRate, base_rtt: Span) -> Option<CongestionControl> {
        Some(match name {
            "none" => CongestionControl::None,
            "dcqcn" | "dcqcn-paper" => CongestionControl::Dcqcn(DcqcnConfig::paper(line)),
            "dcqcn-hpcc" => CongestionControl::DcqcnNs3(DcqcnNs3Config::hpcc(line)),
            "dcqcn-hpcc-paper" => CongestionControl::DcqcnNs3(DcqcnNs3Config::hpcc_paper(line)),
            "dcqcn-conweave" => CongestionControl::DcqcnNs3(DcqcnNs3Config::conweave(line)),
            "dcqcn-reverie" => CongestionControl::DcqcnNs3(DcqcnNs3Config::reverie(line)),
            "timely" => CongestionControl::Timely(TimelyConfig::paper(line)),
            "timely-hpcc" => CongestionControl::Timely(TimelyConfig::hpcc(line)),
            "hpcc" => CongestionControl::Hpcc(HpccConfig::paper(line, base_rtt)),
            "hpcc-simulator" => CongestionControl::Hpcc(HpccConfig::simulator(line, base_rtt)),
            "powertcp" => CongestionControl::PowerTcp(PowerTcpConfig::paper(line, base_rtt)),
            "theta-powertcp" => CongestionControl::ThetaPowerTcp(PowerTcpConfig::theta(line, base_rtt)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Bytes;

    use super::*;

    fn preset(name: &str, gbps: u64) -> CongestionControl {
        CongestionControl::preset(name, BitRate::gbps(gbps), Span::from_micros(13)).expect("there is one")
    }

    #[test]
    fn every_name_is_known_and_no_other() {
        for (name, source) in CongestionControl::PRESETS {
            assert!(name.starts_with(preset(name, 100).name().trim_end_matches("-ns3")), "{name}");
            assert!(!source.is_empty());
        }
        assert_eq!(CongestionControl::preset("cubic", BitRate::gbps(1), Span::ZERO), None);
    }

    #[test]
    fn simulators_rates_scale_as_they_scale_them() {
        let rates = |name, gbps| match preset(name, gbps) {
            CongestionControl::DcqcnNs3(config) => {
                [config.additive_increase, config.hyper_increase, config.rate_min].map(|rate| rate.as_bps() / 1_000_000)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(rates("dcqcn-hpcc", 25), [5, 50, 1_000]);
        assert_eq!(rates("dcqcn-hpcc-paper", 100), [20, 200, 1_000]);
        assert_eq!(rates("dcqcn-conweave", 100), [40, 100, 100]);
        assert_eq!(rates("dcqcn-reverie", 100), [50, 100, 100]);
        let CongestionControl::Timely(timely) = preset("timely-hpcc", 100) else { panic!() };
        assert_eq!(timely.additive_increase, BitRate::mbps(100));
        let CongestionControl::PowerTcp(power) = preset("powertcp", 25) else { panic!() };
        // A hundredth of 40,625 B, and a fiftieth.
        assert_eq!(power.additive_increase, Bytes::new(406));
        let CongestionControl::ThetaPowerTcp(theta) = preset("theta-powertcp", 25) else { panic!() };
        assert_eq!(theta.additive_increase, Bytes::new(812));
    }

    #[test]
    fn what_a_control_asks_of_others() {
        let asks = |name| {
            let control = preset(name, 100);
            let cnps = control.cnp_interval().is_some();
            (cnps, control.echoes_ecn(), control.wants_telemetry(), control.acks_every_packet())
        };
        assert_eq!(asks("none"), (false, false, false, false));
        assert_eq!(asks("dcqcn"), (true, false, false, false));
        assert_eq!(asks("dcqcn-hpcc"), (false, true, false, true));
        assert_eq!(asks("timely"), (false, false, false, true));
        assert_eq!(asks("hpcc"), (false, false, true, true));
        assert_eq!(asks("powertcp"), (false, false, true, true));
        assert_eq!(asks("theta-powertcp"), (false, false, false, true));
    }
}
