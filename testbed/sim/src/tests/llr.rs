//! Link layer retry in fabrics: times in closed form, and the same results with several threads.

use std::path::Path;

use weir_flowctl::wire_bytes;
use weir_results::run_dir::FrameSummary;
use weir_scenario::link::{ChosenFrames, FaultPlan, LlrPlan};
use weir_scenario::{Scenario, file};
use weir_units::{BitRate, Bytes, Span, Time};

use crate::llr::LlrCounters;
use crate::{CompletedMessage, Sim, Threads};

const RATE: BitRate = BitRate::gbps(100);
const DELAY: Span = Span::from_micros(1);
const LEAVES: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nhosts = 4";

fn parsed(topology: &str, rest: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = '10ms'\n[switch]\nmtu = 4200\n[topology]\n{topology}\nrate = '100Gbps'\ndelay = '1us'\n\
         [switch.buffer]\nsize = '16MB'\npolicy = 'dt'\n[switch.classes]\npreset = 'roce'\n[switch.pfc]\nreaction = '0s'\n\
         [nic]\nmtu = 4096\nack_every = 4096\nretransmit = '2ms'\n{rest}\n"
    );
    let runs = file::parse(Path::new("llr.toml"), &text);
    runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
}

/// A message of 256 full frames from H0 to H1.
fn pair(llr: bool) -> Scenario {
    let message = "[[workloads]]\nkind = 'one-to-one'\nclass = 3\nsizes = '1MiB'\nsenders = ['H0']\nreceivers = ['H1']";
    parsed(&format!("kind = 'single'\nhosts = 2\nllr = {llr}"), message)
}

type Results = (Vec<CompletedMessage>, Vec<LlrCounters>, FrameSummary);

/// Runs to the end, with the scenario's outages; returns completions, counters of all ports, and the balance of frames.
fn run(scenario: &Scenario, threads: usize) -> Results {
    let mut sim = Sim::new(scenario).unwrap();
    sim.set_threads(Threads::exactly(threads));
    let wires = scenario
        .outages
        .iter()
        .flat_map(|outage| [(outage.at, outage.link, false, false), (outage.until, outage.link, false, true)]);
    let ports = scenario.link_changes().into_iter().map(|(at, link, is_cut)| (at, link, true, !is_cut));
    let mut changes: Vec<_> = wires.chain(ports).collect();
    changes.sort_by_key(|(at, ..)| *at);
    for (at, link, is_of_ports, is_up) in changes {
        sim.run_until(at);
        match (link, is_of_ports) {
            (link, false) => sim.set_wires_up(scenario, link, is_up),
            (weir_scenario::LinkRef::Between(link), true) => sim.set_link_up(scenario, link, is_up),
            (weir_scenario::LinkRef::ToHost(host), true) => sim.set_host_link_up(scenario, host, is_up),
        }
    }
    sim.run_until(scenario.end);
    let done: Vec<_> = sim.drain_completions().collect();
    assert!(sim.is_finished(), "{} messages are done", done.len());
    (done, sim.llr_ports().map(|port| port.counters(scenario.end)).collect(), sim.frames().unwrap())
}

fn fct(scenario: &Scenario) -> Span {
    run(scenario, 1).0[0].fct
}

/// Time of a full frame on the link, but for a message's first.
fn frame_time(scenario: &Scenario) -> Span {
    let sizes = &scenario.hosts[0].nic.sizes;
    RATE.time_for(wire_bytes(u32::from(sizes.payload_max + sizes.header), scenario.link_overhead))
}

/// Time of the first frame beyond a full one: in the switch, all others wait for it until the stream pauses.
fn first_extra(scenario: &Scenario) -> Span {
    RATE.time_for(Bytes::new(scenario.hosts[0].nic.sizes.first_extra.into()))
}

/// Without losses, only the last acknowledgement is later: by H1's message for the last packet, which goes first.
#[test]
fn a_link_without_losses_takes_a_message_more() {
    let message = RATE.time_for(LlrPlan::MESSAGE_BYTES);
    assert_eq!(fct(&pair(true)), fct(&pair(false)) + message);
}

/// The 101st frame from H0 is lost. The NACK leaves when the 102nd has arrived, and H0 goes back with the frame after its arrival:
/// all frames since the lost one are sent twice.
#[test]
fn a_lost_frame_takes_the_frames_since_then_again() {
    let mut scenario = pair(true);
    let (before, frame) = (fct(&scenario), frame_time(&scenario));
    let end = Time::ZERO + frame * 101;
    let faults = FaultPlan { frames: ChosenFrames::Data, loss_ppm: 1_000_000, ..FaultPlan::default() };
    let (from, until) = (end.saturating_sub(frame.divided_by(2)), end + frame.divided_by(2));
    scenario.hosts[0].faults[1] = FaultPlan { from, until, ..faults };
    let nack = DELAY * 2 + RATE.time_for(LlrPlan::MESSAGE_BYTES);
    let meanwhile = nack.as_picos().div_ceil(frame.as_picos());
    let (done, counters, frames) = run(&scenario, 1);
    assert_eq!(done[0].fct + first_extra(&scenario), before + frame * (meanwhile + 2));
    assert_eq!(counters.iter().map(|port| port.replayed_frames).sum::<u64>(), meanwhile + 2);
    assert_eq!((frames.hosts_sent, frames.faults_lost), (256 + 1, 1), "the host sends each packet once");
}

/// One frame in 200 has a bad FCS, flow control too, and a link is cut for 10 us: no packet is retransmitted by its host.
#[test]
fn threads_change_nothing_and_hosts_see_no_loss() {
    let rest = "[[workloads]]\nkind = 'all-to-all'\nclass = 3\nsizes = '64KiB'\n\
                [[outages]]\nlink = ['L0', 'S0']\nat = '20us'\nuntil = '30us'\n\
                [[outages]]\nlink = ['L1', 'H5']\nat = '35us'\nuntil = '45us'";
    let scenario = parsed(&format!("{LEAVES}\nllr = true\ncorruption = 0.005"), rest);
    let one = run(&scenario, 1);
    assert_eq!((one.0.len(), one.2.hosts_sent), (240, 240 * (16 + 1)));
    assert!(one.2.faults_corrupted > 50 && one.2.lost_link_down > 10, "{:?}", one.2);
    assert!(one.1.iter().all(|port| port.given_up == 0));
    for threads in [2, 3] {
        let several = run(&scenario, threads);
        assert_eq!(format!("{:?}", one), format!("{several:?}"), "{threads} threads");
    }
}

/// Replays bridge 20 us; in 60 us an end gives up and starts anew; after 100 us ports see their link down. Hosts recover what was given up.
#[test]
fn longer_outages_take_frames() {
    let outage = |until: u64| {
        let rest = format!(
            "[[workloads]]\nkind = 'permutation'\nclass = 3\nsizes = '1MiB'\n\
             [[outages]]\nlink = ['L0', 'H0']\nat = '20us'\nuntil = '{until}us'"
        );
        run(&parsed(&format!("{LEAVES}\nllr = true"), &rest), 1)
    };
    let [short, long, down] = [40, 80, 140].map(outage);
    let given_up = |results: &Results| results.1.iter().map(|port| port.given_up).sum::<u64>();
    let dropped = |results: &Results| results.2.dropped.get("port_down").copied().unwrap_or(0);
    let packets = 16 * (256 + 1);
    assert_eq!((given_up(&short), dropped(&short), short.2.hosts_sent), (0, 0, packets));
    assert!(given_up(&long) > 0 && dropped(&long) == 0 && long.2.hosts_sent > packets, "{:?}", long.2);
    assert!(dropped(&down) > 0, "{:?}", down.2);
}

/// A replay buffer of two frames carries two frames a round trip: each is acknowledged when it has arrived.
#[test]
fn a_small_replay_buffer_limits_the_rate() {
    let mut scenario = pair(true);
    let frame = frame_time(&scenario);
    let frame_bytes_max = scenario.hosts[0].nic.sizes.frame_max() as u32;
    scenario.hosts[0].llr = scenario.hosts[0].llr.map(|llr| LlrPlan { outstanding_frames: 2, frame_bytes_max, ..llr });
    let message = RATE.time_for(LlrPlan::MESSAGE_BYTES);
    let round_trip = frame + DELAY * 2 + message;
    let unlimited = fct(&pair(true));
    assert_eq!(fct(&scenario) + first_extra(&scenario), unlimited + (round_trip - frame * 2) * 127);
}
