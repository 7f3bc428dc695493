//! Victim experiment of the SPFC paper (section III-A, Fig. 3(a); on the testbed VII-B, Fig. 12).
//!
//! Host H0 sends two long-lived flows, F1 to R1 and F2 to R2, together at line rate. N more hosts send bursts of 64 KB messages to R2 at
//! line rate, for a while. F2 and the bursts congest the port of R2. F1 is the victim: it does not use that port, and yet it stops when
//! the switch pauses H0.
//!
//! F1 and F2 are under DCQCN, as in the paper, and the switch marks ECN. The bursts are not: a message of 64 KB has been sent before the
//! first congestion notification returns. The paper calls them uncontrollable; each is a new flow that starts at line rate.
//!
//! In the paper the bursts are simultaneous: in its simulation by one clock, on its testbed because most burst ports are copies of one.
//! Separate hosts drift apart as they are paused, and a host that then sends alone departs as fast as a victim. So the usual set-up here
//! is one burst host and virtual ports that copy its port, [`Victim::copied`].

mod policy;

pub use policy::{PolicyChoice, PolicyNameError, VictimPolicy};

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use weir_config::{ConfigErrors, SwitchConfig};
use weir_flowctl::wire_bytes;
use weir_nic::host::{CongestionControlChoice, FlowConfig, HostConfig, Repeat};
use weir_units::{BitRate, Bytes, Class, LINK_OVERHEAD, MacAddr, Span, Time};
use weir_wire::rocev2::{Dscp, OVERHEAD_BYTES_MAX, PathMtu, QueuePair};

use crate::scenario::{CapturePlan, FlowPlan, HostPlan, Scenario, WindowPlan};
use policy::PolicySetting;

/// Class of all data.
pub(crate) const DATA_CLASS: Class = Class::new(3);
/// Maximum number of data frames of a capture, from the start of the burst on: some megabytes.
const CAPTURED_DATA_FRAMES: u32 = 8_192;
/// DSCP of class 3 in the SONiC map.
const DATA_DSCP: Dscp = Dscp::new(3);

/// Parameters of the experiment.
#[derive(Clone, Debug)]
pub struct Victim {
    /// Number of hosts that send bursts.
    pub burst_hosts: usize,
    /// Number of virtual ports that copy each burst host's port: with them the burst ports are N.
    pub copies: usize,
    /// Policy of the PFC threshold.
    pub policy: VictimPolicy,
    /// Rate C of all links.
    pub rate: BitRate,
    /// Propagation delay between the switch and each sender.
    pub sender_delay: Span,
    /// Propagation delay between the switch and each receiver.
    pub receiver_delay: Span,
    /// Shared buffer B. Headroom is added to it, so that a slow machine's larger headroom leaves B unchanged.
    pub buffer: Bytes,
    /// Ports that the static threshold divides the buffer by.
    pub static_shares: u64,
    /// Payload of a message of F1, F2 and the bursts.
    pub message: Bytes,
    /// Instants at which each burst host releases its messages within the burst.
    pub burst_repeat: Repeat,
    /// Start of the bursts.
    pub burst_start: Time,
    /// End of the bursts.
    pub burst_stop: Time,
    /// End of F1, F2 and the measurement.
    pub end: Time,
    /// Congestion control of F1 and F2.
    pub congestion_control: CongestionControlChoice,
    /// Sampling interval of the state.
    pub sample_every: Span,
    /// Time dilation: the factor by which the experiment runs slower than real time.
    pub time_dilation: u32,
    /// Reaction time of the machine, in real time; it increases the headroom.
    pub reaction: Span,
    /// Whether frames of P0, H0's port, are captured: flow control in the whole run, data from the start of the burst on.
    pub capture: bool,
}

impl Victim {
    /// Parameters of the paper's simulation: 100 Gb/s, links of 9 us to the senders and 1 us to the receivers, 16 MB, a static threshold
    /// of B/32, bursts from 1 ms to 12 ms.
    pub fn simulation(burst_hosts: usize, policy: VictimPolicy) -> Victim {
        Victim {
            burst_hosts,
            copies: 0,
            policy,
            rate: BitRate::gbps(100),
            sender_delay: Span::from_micros(9),
            receiver_delay: Span::from_micros(1),
            buffer: Bytes::mb(16),
            static_shares: 32,
            message: Bytes::kb(64),
            burst_repeat: Repeat::BackToBack,
            burst_start: Time::from_nanos(1_000_000),
            burst_stop: Time::from_nanos(12_000_000),
            end: Time::from_nanos(14_000_000),
            congestion_control: dcqcn(BitRate::gbps(100)),
            sample_every: Span::from_micros(50),
            time_dilation: 1_000,
            reaction: Span::from_millis(20),
            capture: false,
        }
    }

    /// Parameters of the paper's testbed: nine ports of 10 Gb/s and 2.5 MB, links of 1 us.
    pub fn testbed(burst_hosts: usize, policy: VictimPolicy) -> Victim {
        Victim {
            rate: BitRate::gbps(10),
            sender_delay: Span::from_micros(1),
            buffer: Bytes::new(2_500_000),
            static_shares: 9,
            time_dilation: 100,
            burst_start: Time::from_nanos(10_000_000),
            burst_stop: Time::from_nanos(60_000_000),
            end: Time::from_nanos(80_000_000),
            congestion_control: dcqcn(BitRate::gbps(10)),
            sample_every: Span::from_micros(500),
            ..Victim::simulation(burst_hosts, policy)
        }
    }

    /// Returns the scenario for a backend.
    ///
    /// # Errors
    /// The configuration's errors, if the parameters make no valid switch.
    pub fn scenario(&self) -> Result<Scenario, ConfigErrors> {
        let hosts: Vec<HostPlan> = (0..self.host_count()).map(|n| self.host(n)).collect();
        let flows = self.flows(&hosts);
        let window = |name: &str, from, to| WindowPlan { name: name.to_owned(), from, to };
        // The flows fill the links in the first half of the time before the burst.
        let steady = Time::from_picos(self.burst_start.as_picos() / 2);
        Ok(Scenario {
            parameters: self.parameters(),
            capture: self.capture.then_some(CapturePlan {
                host: 0,
                data_from: self.burst_start,
                data_frames: CAPTURED_DATA_FRAMES,
            }),
            draw: hosts.iter().map(HostPlan::place).collect(),
            flows,
            windows: vec![
                window("before", steady, self.burst_start),
                window("onset", self.burst_start, self.onset_end()),
                window("burst", self.burst_start, self.burst_stop),
                window("after", self.burst_stop, self.end),
            ],
            sample_every: self.sample_every,
            end: self.end,
            notes: self.notes(),
            ..Scenario::new("victim", &self.policy.name(), vec![self.switch(&hosts)?], hosts)
        })
    }

    /// Returns the experiment with N burst ports of one host: its own, and copies.
    pub fn copied(self, burst_ports: usize) -> Victim {
        Victim { burst_hosts: burst_ports.min(1), copies: burst_ports.saturating_sub(1), ..self }
    }

    /// Returns the experiment for virtual time: switch and hosts react at once, and frames have no bytes to capture.
    pub fn in_virtual_time(self) -> Victim {
        Victim { time_dilation: 1, reaction: Span::ZERO, capture: false, ..self }
    }

    /// End of the burst's first tenth, in which the rates of F1 and F2 change.
    fn onset_end(&self) -> Time {
        self.burst_start + self.burst_stop.since(self.burst_start).divided_by(10)
    }

    /// Returns remarks for readers of the results.
    fn notes(&self) -> Vec<String> {
        let control = if self.congestion_control.is_none() {
            "no congestion control: F2 keeps its rate for as long as the bursts last".to_owned()
        } else {
            let name = self.congestion_control.name();
            format!("F1 and F2 are under {name}; bursts start at line rate, message by message")
        };
        let mut notes = vec![
            control,
            "headroom comes on top of the shared buffer, and DSH's insurance too: all policies share the same bytes, and what \
             each one's headroom costs is not in the comparison"
                .to_owned(),
        ];
        let is_dsh = matches!(self.policy.kind, PolicyChoice::Dsh | PolicyChoice::DshNoInsurance);
        if is_dsh && self.reaction > Span::ZERO {
            notes.push(
                "DSH pauses a queue by up to Φ earlier, and Φ covers this machine's reaction in a buffer made for a chip that \
                 reacts at once: it pauses more here than there"
                    .to_owned(),
            );
        }
        if self.policy.kind == PolicyChoice::Adaptive {
            notes.push("adaptive headroom gives what it does not need to the shared buffer, which grows".to_owned());
        }
        notes
    }

    /// Number of hosts: H0, R1, R2 and the burst hosts.
    fn host_count(&self) -> usize {
        3 + self.burst_hosts
    }

    fn host(&self, n: usize) -> HostPlan {
        let name = match n {
            0 => "H0".to_owned(),
            1 | 2 => format!("R{n}"),
            _ => format!("H{}", n - 2),
        };
        let [high, low] = (n as u16).to_be_bytes();
        let mac = MacAddr([2, 0, 0, 0, high, low]);
        // 10.0.0.1 and on.
        let ip = Ipv4Addr::from(0x0a00_0001 + n as u32);
        let is_receiver = n == 1 || n == 2;
        HostPlan {
            name,
            switch: 0,
            port: n,
            device: None,
            first_port: None,
            link_delay: if is_receiver { self.receiver_delay } else { self.sender_delay },
            faults: Default::default(),
            llr: None,
            nic: HostConfig::new(mac, ip, self.rate),
        }
    }

    fn flows(&self, hosts: &[HostPlan]) -> Vec<FlowPlan> {
        let flow = |name: String, from: usize, to: usize, (start, stop), repeat, congestion_control| {
            // A queue pair's number identifies the hosts at both ends.
            let number = |kind: usize| QueuePair::new((kind << 16 | from << 8 | to) as u32);
            let config = FlowConfig {
                message: self.message,
                start,
                stop,
                repeat,
                congestion_control,
                ..FlowConfig::new(number(1), hosts[to].nic.peer(number(2)), DATA_CLASS, DATA_DSCP)
            };
            FlowPlan { name, from, to, config }
        };
        let always = (Time::ZERO, self.end);
        let long_lived = [("F1", 1), ("F2", 2)].map(|(name, to)| {
            flow(name.to_owned(), 0, to, always, Repeat::BackToBack, self.congestion_control.clone())
        });
        let bursts = (3..hosts.len()).map(|from| {
            let name = format!("B{}", from - 2);
            let during = (self.burst_start, self.burst_stop);
            // Each message models a flow of its own, which starts at line rate and ends before congestion control slows it down.
            flow(name, from, 2, during, self.burst_repeat, CongestionControlChoice::none())
        });
        long_lived.into_iter().chain(bursts).collect()
    }

    /// Returns the switch, with headroom and private buffers added to `self.buffer`.
    fn switch(&self, hosts: &[HostPlan]) -> Result<SwitchConfig, ConfigErrors> {
        const AMPLE: Bytes = Bytes::mb(2_000);
        let ample = weir_config::parse("victim.toml", &self.switch_toml(hosts, AMPLE))?;
        let not_shared = AMPLE - ample.shared_size();
        weir_config::parse("victim.toml", &self.switch_toml(hosts, self.buffer + not_shared))
    }

    fn switch_toml(&self, hosts: &[HostPlan], size: Bytes) -> String {
        /// Four cells hold the frame of a full packet with little waste; larger cells save packet memory.
        const CELL_BYTES: u64 = 276;
        /// Private buffer ρ per port and class, from HPCC's public configuration. Acknowledgements and CNPs, which are not lossless, pass
        /// even when the shared buffer is full.
        const PRIVATE: &str = "4KiB";
        let policy = self.policy.toml(&PolicySetting {
            static_threshold: self.buffer.divided_by(self.static_shares),
            spfc_window: self.spfc_window(),
        });
        let reaction = self.reaction.divided_by(u64::from(self.time_dilation));
        let (data, ecn) = (DATA_CLASS.index(), self.marking());
        let mut text = format!(
            "[switch]\nname = \"victim\"\nidle = \"yield\"\ntime_dilation = {}\n\n[lcores]\nlayout = \"single\"\n\n\
             [buffer]\nsize = \"{size}\"\ncell_bytes = {CELL_BYTES}\nprivate = \"{PRIVATE}\"\n{policy}\n[classes]\nlossless = [{data}]\n\n\
             [[classes.queues]]\nclass = 6\nstrict = true\n\n[[classes.queues]]\nclass = {data}\necn = {ecn}\n\n[pfc]\nreaction = \"{reaction}\"\n",
            self.time_dilation,
        );
        for (n, host) in hosts.iter().enumerate() {
            text += &format!(
                "\n# {}\n[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"{}\"\ndelay = \"{}\"\n\
                 mac = \"02:00:00:01:00:{n:02x}\"\n",
                host.name, self.rate, host.link_delay
            );
        }
        for n in 3..hosts.len() {
            for copy in 1..=self.copies {
                text += &format!("\n[[ports]]\nname = \"p{n}c{copy}\"\nclone_of = \"p{n}\"\n");
            }
        }
        for (n, host) in hosts.iter().enumerate() {
            text += &format!("\n[[static_macs]]\nmac = \"{}\"\nport = \"p{n}\"\n", host.nic.mac);
        }
        text
    }

    /// ECN of HPCC's public configuration for DCQCN: K_min = 100 KB and K_max = 400 KB at 25 Gb/s, in proportion to the rate (400 KB and
    /// 1.6 MB at 100 Gb/s), P_max = 0.2.
    fn marking(&self) -> String {
        let kmin = Bytes::new(self.rate.as_bps() / (BitRate::gbps(25).as_bps() / Bytes::kb(100).get()));
        format!("{{ kmin = \"{kmin}\", kmax = \"{}\", pmax = 0.2 }}", kmin * 4)
    }

    /// TC of SPFC: 4 RTT (SPFC V-A) of the propagation delays, but at least the time of 60 full frames at C, rounded up to 10 us.
    ///
    /// With fewer frames the threshold of a fifth would be a dozen, and each slightly late frame a tenth of the count. The time is
    /// scenario time, like all times in the switch's file.
    fn spfc_window(&self) -> Span {
        const FRAMES: u64 = 60;
        const STEP: Span = Span::from_micros(10);
        let round_trip = (self.sender_delay + self.receiver_delay) * 2;
        let frame = wire_bytes((PathMtu::BYTES_1024.get() + OVERHEAD_BYTES_MAX) as u32, LINK_OVERHEAD);
        let window = (round_trip * 4).max(self.rate.time_for(frame * FRAMES));
        STEP * window.as_picos().div_ceil(STEP.as_picos())
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        let of_burst = match self.burst_repeat {
            Repeat::BackToBack => "back to back".to_owned(),
            Repeat::Every(period) => format!("every {period}"),
        };
        [
            ("burst_hosts", self.burst_hosts.to_string()),
            ("copies_of_burst_hosts", self.copies.to_string()),
            ("rate", self.rate.to_string()),
            ("sender_delay", self.sender_delay.to_string()),
            ("receiver_delay", self.receiver_delay.to_string()),
            ("buffer", self.buffer.to_string()),
            ("policy", self.policy.name()),
            ("message", self.message.to_string()),
            ("burst_messages", of_burst),
            ("congestion_control", self.congestion_control.name().to_owned()),
            ("reaction", self.reaction.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// Returns the DCQCN paper's parameters for a line of this rate.
fn dcqcn(line: BitRate) -> CongestionControlChoice {
    CongestionControlChoice::preset("dcqcn", line, Span::ZERO).expect("a preset")
}

#[cfg(test)]
mod tests {
    use weir_config::EcnConfig;
    use weir_mmu::policy::{SpfcConfig, StaticThresholdConfig};

    use super::*;
    use weir_nic::host::Host;

    fn dt() -> VictimPolicy {
        VictimPolicy::new(PolicyChoice::Dynamic)
    }

    #[test]
    fn the_shared_buffer_is_the_papers_whatever_the_headroom() {
        for reaction in [Span::ZERO, Span::from_millis(20)] {
            for (n, policy) in [(0, dt()), (29, dt()), (29, VictimPolicy::new(PolicyChoice::Static))] {
                let victim = Victim { reaction, ..Victim::simulation(n, policy) };
                let scenario = victim.scenario().unwrap();
                assert_eq!(scenario.switches[0].shared_size(), Bytes::mb(16));
                assert_eq!(scenario.switches[0].ports.len(), n + 3);
            }
        }
    }

    #[test]
    fn the_switch_marks_data_and_nothing_else() {
        let queues = |victim: Victim| victim.scenario().unwrap().switches[0].clone().classes.queues;
        for (victim, kmin) in [(Victim::simulation(9, dt()), 400), (Victim::testbed(6, dt()), 40)] {
            for (class, queue) in queues(victim).iter().enumerate() {
                let marking = EcnConfig {
                    kmin: Bytes::kb(kmin),
                    kmax: Bytes::kb(4 * kmin),
                    pmax_ppm: 200_000,
                    at_rate: None,
                    on_arrival: false,
                };
                assert_eq!(queue.ecn, (class == DATA_CLASS.index()).then_some(marking), "class {class}");
            }
        }
    }

    #[test]
    fn every_policy_shares_the_same_bytes() {
        for kind in PolicyChoice::ALL {
            for victim in [Victim::simulation(9, VictimPolicy::new(kind)), Victim::testbed(6, VictimPolicy::new(kind))]
            {
                let switch = victim.scenario().unwrap().switches[0].clone();
                assert_eq!(switch.shared_size(), victim.buffer, "{kind:?}");
            }
        }
    }

    #[test]
    fn spfc_counts_over_four_round_trips_or_sixty_frames() {
        let window = |victim: Victim| {
            let policy = victim.scenario().unwrap().switches[0].clone().buffer.policy;
            let spfc: &SpfcConfig = policy.downcast().expect("spfc");
            (spfc.k_spfc, spfc.tc)
        };
        let spfc = VictimPolicy::new(PolicyChoice::Spfc);
        assert_eq!(window(Victim::simulation(9, spfc)), (5, Span::from_micros(80)));
        // 60 frames of 1,126 B on the wire take 54 us at 10 Gb/s.
        assert_eq!(window(Victim::testbed(6, spfc)), (5, Span::from_micros(60)));
    }

    #[test]
    fn the_static_threshold_is_an_even_share() {
        let switch =
            Victim::simulation(3, VictimPolicy::new(PolicyChoice::Static)).scenario().unwrap().switches[0].clone();
        let policy = StaticThresholdConfig { threshold: Some(Bytes::kb(500)) };
        assert_eq!(switch.buffer.policy.downcast(), Some(&policy));
    }

    #[test]
    fn in_virtual_time_headroom_is_the_links_alone() {
        let dsh = VictimPolicy::new(PolicyChoice::Dsh);
        let [real, ideal] = [Victim::testbed(6, dsh), Victim::testbed(6, dsh).in_virtual_time()];
        let [real, ideal] = [real, ideal].map(|victim| victim.scenario().unwrap());
        let is_of_machine = |note: &&String| note.contains("this machine's reaction");
        assert_eq!([&real, &ideal].map(|of| of.notes.iter().filter(is_of_machine).count()), [1, 0]);
        let [real, ideal] = [real, ideal].map(|scenario| scenario.switches[0].clone());
        assert!(ideal.buffer.size < real.buffer.size && ideal.shared_size() == real.shared_size());
        assert_eq!((ideal.pfc.reaction, ideal.time_dilation), (Span::ZERO, 1));
    }

    #[test]
    fn hosts_and_switch_agree_on_classes() {
        let scenario = Victim::testbed(6, dt()).scenario().unwrap();
        let dscp_map = scenario.switches[0].classes.map.dscp;
        for flow in &scenario.flows {
            assert_eq!(usize::from(dscp_map[usize::from(flow.config.dscp.get())]), flow.config.class.index());
        }
        let nic = &scenario.hosts[0].nic;
        assert_eq!(usize::from(dscp_map[usize::from(nic.ack_dscp.get())]), nic.ack_class.index());
        assert_eq!(scenario.switches[0].classes.lossless, DATA_CLASS.alone());
    }

    #[test]
    fn every_flow_has_both_its_ends() {
        let scenario = Victim::simulation(29, dt()).scenario().unwrap();
        let mut ends = (0, 0);
        for (n, plan) in scenario.hosts.iter().enumerate() {
            let flows = scenario.flows_of(n);
            ends = (ends.0 + flows.sends.len(), ends.1 + flows.receives.len());
            let configs: Vec<FlowConfig> = flows.sends.into_iter().map(|(_, flow)| flow).collect();
            let receivers: Vec<_> = flows.receives.into_iter().map(|(_, receiver)| receiver).collect();
            Host::new(plan.nic.clone(), &configs, &receivers).unwrap();
        }
        assert_eq!(ends, (31, 31));
        assert_eq!(scenario.flows_of(2).receives.len(), 30, "F2 and the bursts");
    }
}
