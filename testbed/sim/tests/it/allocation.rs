//! Packets allocate nothing, in virtual time or as real frames, once there is memory for all that are in flight at
//! once. Runs allocate the forecast memory.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_nic::host::{CongestionControlChoice, FlowConfig, Host, HostConfig};
use weir_nic::program::RankProgram;
use weir_scenario::workload::MessageGraph;
use weir_scenario::{TrafficPlan, file};
use weir_sim::{CostEstimate, Sim, SimBackend};
use weir_units::{BitRate, Bytes, Class, MacAddr, Span, Time};
use weir_wire::rocev2::{Dscp, QueuePair};
use weir_wire::trailer::{self, Telemetry};

use crate::run_directory;

/// Flows without an end over two switches, so that no connection opens during the run.
fn scenario(congestion_control: &str) -> String {
    let mut text = "[scenario]\nend = \"20ms\"\n\
                    [topology]\nkind = \"dumbbell\"\nleft = 4\nright = 4\nrate = \"100Gbps\"\ndelay = \"1us\"\n\
                    [switch.buffer]\nsize = \"4MB\"\npolicy = \"dt\"\n\
                    [switch.classes]\npreset = \"roce\"\n\
                    [[switch.classes.queues]]\nclass = 3\necn = { kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }\n\
                    [switch.pfc]\nreaction = \"0s\"\n"
        .to_owned();
    for (from, to) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
        text += &format!(
            "[[flows]]\nfrom = \"H{from}\"\nto = \"R{}\"\nclass = 3\nack_every = 4\nretransmit = \"1ms\"\n\
             congestion_control = \"{congestion_control}\"\n",
            to - 3
        );
    }
    text
}

#[test]
#[cfg_attr(debug_assertions, ignore = "debug builds check conservation, which takes memory")]
fn none_for_a_packet() {
    for congestion_control in ["none", "dcqcn", "hpcc"] {
        let runs = file::parse(Path::new("dumbbell.toml"), &scenario(congestion_control))
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let mut sim = Sim::new(&runs[0].scenario).unwrap();
        sim.run_for(Span::from_millis(8));
        // Completions are for whoever asks for them.
        sim.drain_completions().for_each(drop);
        let before = sim.packet_hops();
        let counted = allocation_counter::measure(|| sim.run_for(Span::from_millis(4)));
        let hops = sim.packet_hops() - before;
        // Messages of a flow are 1 MB, and a few hundred of them complete: their list grows a few times.
        assert!(hops > 100_000 && counted.count_total < 20, "{congestion_control}: {counted:?} for {hops} packet-hops");
    }
}

const RATE: BitRate = BitRate::gbps(100);

/// Two hosts that hand each other frames at once, which a port between them stamps.
struct Pair {
    hosts: [Host; 2],
    now: Time,
    frames: u64,
    buffer: [u8; 2_000],
}

impl Pair {
    fn new(control: CongestionControlChoice) -> Pair {
        let config = |n| HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), RATE);
        let flow = FlowConfig::new(QueuePair::new(1), config(2).peer(QueuePair::new(2)), Class::new(3), Dscp::new(3));
        let flow = FlowConfig { congestion_control: control, ..flow };
        let receiver = Host::new(config(2), &[], &[flow.receiver(&config(1))]).unwrap();
        let hosts = [Host::new(config(1), &[flow], &[]).unwrap(), receiver];
        Pair { hosts, now: Time::ZERO, frames: 0, buffer: [0; 2_000] }
    }

    fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            for from in [0, 1] {
                while let Some(length) = self.hosts[from].poll_transmit(self.now, &mut self.buffer) {
                    let frame = &mut self.buffer[..length];
                    let tx_bytes = self.frames * 1_200;
                    trailer::stamp(frame, &Telemetry { at: self.now, tx_bytes, queue: Bytes::ZERO, rate: RATE });
                    self.hosts[1 - from].handle_frame(self.now, frame);
                    self.frames += 1;
                }
            }
            self.now = self.hosts.iter().map(|host| host.next_wakeup(self.now)).min().unwrap();
        }
        self.hosts[0].drain_completions().for_each(drop);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "debug builds check conservation, which takes memory")]
fn none_for_a_real_frame() {
    for name in ["none", "dcqcn-hpcc", "timely", "hpcc", "powertcp"] {
        let control = CongestionControlChoice::preset(name, RATE, Span::from_micros(1)).unwrap();
        let mut pair = Pair::new(control);
        pair.run_for(Span::from_millis(1));
        let before = pair.frames;
        let counted = allocation_counter::measure(|| pair.run_for(Span::from_micros(500)));
        let frames = pair.frames - before;
        assert!(frames > 1_000 && counted.count_total == 0, "{name}: {counted:?} for {frames} frames");
    }
}

/// Returns the largest memory of a run in bytes with that of its scenario, as forecast and as counted. The allocator's own
/// part is 16 B for each allocation.
fn memory(topology: &str, workload: &str) -> [u64; 2] {
    let text = format!(
        "[scenario]\nend = \"100us\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n\
         [topology]\n{topology}\nrate = \"100Gbps\"\ndelay = \"1us\"\n[nic]\nmtu = 1024\n{workload}"
    );
    let runs = file::parse(Path::new("fabric.toml"), &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    let (scenario, folder) = (&runs[0].scenario, tempfile::tempdir().unwrap());
    let counted = allocation_counter::measure(|| {
        let graphs = scenario.traffic.iter().filter_map(TrafficPlan::graph).flat_map(MessageGraph::ranks);
        let programs: Vec<_> =
            graphs.map(|rank| (RankProgram::clone(&rank.program), rank.connections.clone())).collect();
        let _copy = (scenario.switches.to_vec(), scenario.hosts.clone(), programs);
        let run = run_directory::made(folder.path());
        SimBackend::default().run(scenario, run, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    });
    let forecast = CostEstimate::for_scenario(scenario).memory - CostEstimate::PROCESS;
    [forecast.get(), counted.bytes_max + 16 * counted.count_max]
}

#[test]
#[cfg_attr(debug_assertions, ignore = "debug builds check conservation, which takes memory")]
fn as_much_as_is_forecast() {
    let web = "[[workloads]]\nkind = \"poisson\"\nclass = 3\nsizes = \"web-search\"\nload = 0.5\n\
               congestion_control = \"dcqcn\"\n";
    let burst = "[[workloads]]\nkind = \"permutation\"\nclass = 3\nsizes = \"1MB\"\n";
    let graph = "[[workloads]]\nkind = \"collective\"\nclass = 3\nbytes = \"100KB\"\ncollective = ";
    let ring =
        format!("{graph}\"ring-all-reduce\"\nchunks = 400\nsenders = [\"H0\", \"H9\", \"H17\", \"H33\", \"H65\"]\n");
    let tree = format!("{graph}\"double-tree-all-reduce\"\nchunks = 500\n");
    let leaf_spine = "kind = \"leaf-spine\"\nleaves = 16\nspines = 16\nhosts = 16";
    for topology in ["kind = \"fat-tree\"\nk = 8", leaf_spine] {
        // How long the queues of a burst become depends on its paths.
        for (workload, error) in [("", 10), (web, 10), (burst, 20), (&ring, 15), (&tree, 10)] {
            let [forecast, counted] = memory(topology, workload);
            let percent = forecast * 100 / counted;
            let expected = 100 - error..=100 + error;
            assert!(expected.contains(&percent), "{topology}, {workload}: {forecast} B forecast, {counted} B counted");
        }
    }
}
