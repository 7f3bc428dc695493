//! Two switches joined by a wire, a host on each: real frames, PFC across the wire, and a wire that loses PFC frames.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use weir_config::{Device, SwitchConfig};
use weir_nic::host::{FlowConfig, HostConfig, Repeat};
use weir_real::DpdkBackend;
use weir_results::run_dir::{PortSummary, Provenance, RunDir, Summary, read_summary};
use weir_scenario::link::FaultPlan;
use weir_scenario::{FlowPlan, HostPlan, LinkPlan, PortRef, Scenario};
use weir_units::{BitRate, Bytes, Class, MacAddr, Span, Time};
use weir_wire::rocev2::{Dscp, QueuePair};

const DILATION: u32 = 200;
const FAST: BitRate = BitRate::gbps(10);
const SLOW: BitRate = BitRate::mbps(2_500);
const HOST_DELAY: Span = Span::from_micros(1);
const TOTAL: Bytes = Bytes::kb(1_024);

/// H1 on S1.p0, a wire from S1.p1 to S2.p1, H2 on S2.p0, where frames leave at a quarter of the rate.
struct Pair {
    name: &'static str,
    wire_delay: Span,
    /// Φ of each lossless queue, as the configuration has it.
    headroom: &'static str,
    message: Bytes,
    repeat: Repeat,
    total: Option<Bytes>,
    /// On the wire, toward S1, and on H1's link, toward the host.
    faults: [FaultPlan; 2],
    /// In place of the wire a cable, which both ports name, and one that H2 and its port name.
    cabled: bool,
    end: Time,
}

impl Pair {
    fn scenario(&self) -> Scenario {
        let hosts: Vec<HostPlan> = [FAST, SLOW].into_iter().enumerate().map(|(n, rate)| self.host(n, rate)).collect();
        let config = FlowConfig {
            message: self.message,
            start: Time::from_nanos(10_000),
            // With a total the flow ends by itself, however late the machine makes it.
            stop: if self.total.is_some() { Time::NEVER } else { self.end },
            repeat: self.repeat,
            total: self.total,
            ..FlowConfig::new(QueuePair::new(1), hosts[1].nic.peer(QueuePair::new(2)), Class::new(3), Dscp::new(3))
        };
        let switches = (0..2).map(|n| self.switch(n, &hosts)).collect();
        let [first, second] = [0, 1].map(|switch| PortRef { switch, port: 1 });
        Scenario {
            links: vec![LinkPlan {
                ends: [first, second],
                delay: self.wire_delay,
                faults: [FaultPlan::default(), self.faults[0]],
                llr: None,
            }],
            flows: vec![FlowPlan { name: "F1".to_owned(), from: 0, to: 1, config }],
            sample_every: Span::from_micros(200),
            end: self.end,
            ..Scenario::new(self.name, "static", switches, hosts)
        }
    }

    fn host(&self, n: usize, rate: BitRate) -> HostPlan {
        HostPlan {
            name: format!("H{}", n + 1),
            switch: n,
            port: 0,
            link_delay: HOST_DELAY,
            faults: [if n == 0 { self.faults[1] } else { FaultPlan::default() }, FaultPlan::default()],
            llr: None,
            nic: HostConfig::new(MacAddr([2, 0, 0, 0, 0, n as u8]), Ipv4Addr::new(10, 0, 0, n as u8 + 1), rate),
            device: (self.cabled && n == 1).then(|| Device::Ring("s1p0".to_owned())),
            first_port: None,
        }
    }

    fn switch(&self, n: usize, hosts: &[HostPlan]) -> SwitchConfig {
        let rate = hosts[n].nic.rate;
        let mut text = format!(
            "[switch]\nname = \"S{}\"\nidle = \"yield\"\ntime_dilation = {DILATION}\n[lcores]\nlayout = \"single\"\n\
             [buffer]\nsize = \"6MB\"\ncell_bytes = 276\nprivate = \"4KiB\"\nheadroom = \"{}\"\npolicy = \"static\"\n\
             [buffer.static]\nthreshold = \"30KB\"\n[classes]\nlossless = [3]\n[[classes.queues]]\nclass = 6\nstrict = true\n\
             [pfc]\nreaction = \"100us\"\n",
            n + 1,
            self.headroom,
        );
        for (port, (rate, delay)) in [(rate, HOST_DELAY), (FAST, self.wire_delay)].into_iter().enumerate() {
            let ring = if self.cabled && port == 1 { "cable".to_owned() } else { format!("s{n}p{port}") };
            text +=
                &format!("[[ports]]\nname = \"p{port}\"\nring = \"{ring}\"\nrate = \"{rate}\"\ndelay = \"{delay}\"\n");
        }
        for (of, host) in hosts.iter().enumerate() {
            let port = usize::from(of != n);
            text += &format!("[[static_macs]]\nmac = \"{}\"\nport = \"p{port}\"\n", host.nic.mac);
        }
        weir_config::parse("fabric.toml", &text).unwrap()
    }
}

#[test]
fn two_switches_and_a_wire() {
    weir_alone::in_a_process(|| {
        let wire_delay = Span::from_micros(100);
        let quiet = Pair {
            name: "quiet",
            wire_delay,
            headroom: "auto",
            message: Bytes::new(1_024),
            repeat: Repeat::Every(Span::from_micros(50)),
            total: None,
            faults: [FaultPlan::default(); 2],
            cabled: false,
            end: Time::from_nanos(2_000_000),
        };
        let congested = Pair {
            name: "congested",
            wire_delay: Span::from_micros(10),
            message: Bytes::kb(64),
            repeat: Repeat::BackToBack,
            total: Some(TOTAL),
            end: Time::from_nanos(5_000_000),
            ..quiet
        };
        // The wire lets the first PAUSE pass and loses the RESUME behind it, H1's link holds the first PAUSE back. There is as
        // much headroom as the flow has bytes: what a lost PAUSE lets through finds room.
        let until = Time::from_nanos(5_000_000);
        let on_wire = FaultPlan { loss_ppm: 500_000, until, seed: 0, ..FaultPlan::default() };
        let to_host =
            FaultPlan { duplication_ppm: 300_000, reordering_ppm: 300_000, until, seed: 5, ..FaultPlan::default() };
        let faulty = Pair { name: "faulty", headroom: "1500KB", faults: [on_wire, to_host], ..congested };
        let cabled = Pair { name: "cabled", cabled: true, ..congested };
        let pairs = [&quiet, &congested, &faulty, &cabled];

        let scenarios = pairs.map(Pair::scenario);
        let backend = DpdkBackend::start(&scenarios).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [quiet, congested, faulty, cabled] = scenarios.each_ref().map(|scenario| {
            let run =
                RunDir::create(folder.path().join(&scenario.name), &Provenance::new("test", [], UNIX_EPOCH)).unwrap();
            let path = run.path().to_owned();
            let summary = backend.run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap();
            println!("{}: {:?} {:?} {:?}", scenario.name, summary.flows[0].fct, summary.links, summary.notes);
            assert_eq!(read_summary(&path).unwrap(), summary);
            check_files(&path);
            check_losslessness(&summary);
            summary
        });

        let there_and_back = (wire_delay + HOST_DELAY * 2) * 2;
        let times = quiet.flows[0].fct.unwrap();
        assert!(times.count > 20 && times.min_ns >= there_and_back.as_nanos(), "{times:?}");
        // A message and its acknowledgement are handed on eight times, and each time may wait for a poll that comes late.
        let late = 50_000 + 8 * quiet.poll_gap_max_ns.unwrap();
        assert!(times.min_ns < there_and_back.as_nanos() + late, "{times:?}, {late} ns late at most");
        assert_eq!(pauses(&quiet, "S1.p0") + pauses(&quiet, "S2.p1"), 0, "nothing is congested");

        check_congestion(&congested);
        assert!(
            congested.links.iter().all(|lane| lane.lost + lane.duplicated + lane.reordered == 0),
            "{:?}",
            congested.links
        );
        check_faults(&faulty);
        assert_eq!(cabled.flows[0].bytes_received, TOTAL.get());
        assert!(pauses(&cabled, "S2.p1") > 0 && pauses(&cabled, "S1.p0") > 0, "PFC crosses the cable");
        assert!(
            cabled
                .links
                .iter()
                .all(|lane| lane.from == "H1" || lane.to == "H1" || lane.from == "H2" || lane.to == "H2")
        );
    });
}

fn port<'a>(summary: &'a Summary, name: &str) -> &'a PortSummary {
    summary.ports.iter().find(|port| port.name == name).unwrap()
}

fn pauses(summary: &Summary, name: &str) -> u64 {
    port(summary, name).classes.iter().map(|class| class.pauses_sent).sum()
}

fn check_losslessness(summary: &Summary) {
    assert!(summary.lossless, "{summary:?}");
    let flow = &summary.flows[0];
    assert_eq!((flow.messages_done, flow.bytes_received), (flow.messages_sent, flow.bytes_sent), "{flow:?}");
    assert_eq!((flow.lost, flow.reordered, flow.duplicates), (0, 0, 0), "{flow:?}");
    let leaks = summary.notes.iter().filter(|note| note.contains("given back") || note.contains("conserve"));
    assert_eq!(leaks.count(), 0, "{:?}", summary.notes);
}

fn check_files(run: &Path) {
    let series = fs::read_to_string(run.join("series.csv")).unwrap();
    let header = series.lines().next().unwrap();
    for column in ["S1.p0.3.rx_bps", "S1.p1.3.paused", "S2.p0.3.egress_bytes", "S2.p1.3.rx_bps", "S1.pool.used_bytes"] {
        assert!(header.split(',').any(|name| name == column), "{column} is not in {header}");
    }
    assert!(series.lines().count() > 5);
    for switch in ["S1", "S2"] {
        let copy = fs::read_to_string(run.join(format!("config-{switch}.toml"))).unwrap();
        assert!(copy.contains(&format!("name = \"{switch}\"")));
    }
}

/// S2 pauses S1, and S1 pauses H1.
fn check_congestion(summary: &Summary) {
    assert_eq!(summary.flows[0].bytes_received, TOTAL.get());
    assert_eq!((port(summary, "S1.p1").host.as_str(), port(summary, "S1.p0").host.as_str()), ("S2.p1", "H1"));
    for name in ["S2.p1", "S1.p0"] {
        let data = port(summary, name).classes.iter().find(|class| class.lossless).unwrap();
        assert!(data.pauses_sent > 0 && data.paused_ns > 0 && data.host_paused_ns > Some(0), "{name}: {data:?}");
    }
    let names: Vec<&str> = summary.switches.iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(names, ["S1", "S2"]);
    let lane = summary.links.iter().find(|lane| lane.from == "S1.p1").unwrap();
    assert!(lane.frames >= summary.flows[0].frames_sent, "{lane:?}");
    // There and back on the wire, less the gap to the last frame before; a machine with other work adds its poll gaps.
    let delay = lane.feedback.unwrap();
    let most = 100_000 + summary.poll_gap_max_ns.unwrap_or(0);
    assert!(delay.count > 5 && (18_000..most).contains(&delay.median_ns), "{delay:?}, {most} ns at most");
    assert!(delay.median_ns <= delay.p99_ns && delay.p99_ns <= delay.max_ns, "{delay:?}");
}

/// PFC frames were lost, doubled and overtaken, and yet the flow has ended.
fn check_faults(summary: &Summary) {
    assert_eq!(summary.flows[0].bytes_received, TOTAL.get());
    let lane = |from: &str| summary.links.iter().find(|lane| lane.from == from).unwrap();
    assert!(lane("S2.p1").lost > 0, "{:?}", summary.links);
    let (wire, host) = (lane("S2.p1"), lane("S1.p0"));
    assert!(wire.duplicated + wire.reordered == 0 && host.lost == 0, "{:?}", summary.links);
    assert!(host.to == "H1" && host.duplicated + host.reordered > 0, "{:?}", summary.links);
}
