//! Scenarios drawn at random, in virtual time: fabrics, buffers, flow control, congestion control, workloads, closed loops among
//! them, PFC watchdogs, slow receivers, what goes wrong on links for a while, and [`rarities`]. Each is a file that `weir testbed run`
//! takes, but for [`events`]; one that fails is [shrunk](shrink) to `target/tmp/swarm`.
//!
//! `SWARM_CASES` is how many are drawn; `SWARM_SEED` draws one of them again; `SWARM_FROM` is the first seed; `SWARM_FILE` has a file judged.
//! With `SWARM_GO_ON` a failure does not keep the rest from being drawn.
//!
//! What virtual time has no means for: a switch that loses its counters and averages as it restarts, a host that loses its connections.
//!
//! On 2026-11-30 10,513 were drawn: a message of another flow control counted twice ([`forged_frames_are_conserved`]), and nothing else.

pub(crate) mod draw;
mod events;
mod fabrics;
mod judge;
mod promises;
mod rarities;
mod shrink;

use std::path::Path;
use std::{env, fs, io};

use draw::Case;
use judge::judge;
use shrink::{Failure, shrink};
use weir_sim::Sim;
use weir_units::{Bytes, Class, Time};

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

#[test]
fn whatever_is_drawn_keeps_its_promises() {
    if let Ok(file) = env::var("SWARM_FILE") {
        let case =
            Case::read(0, &fs::read_to_string(&file).expect("a file")).unwrap_or_else(|errors| panic!("{errors}"));
        println!("{file}: {}; {}", judge(&case), case.promises);
        return;
    }
    let seeds = match (number("SWARM_SEED"), number("SWARM_FROM").unwrap_or(0)) {
        (Some(seed), _) => seed..seed + 1,
        (None, from) => from..from + number("SWARM_CASES").unwrap_or(24),
    };
    let mut failed = Vec::new();
    for seed in seeds {
        let Some(failure) = Failure::of(|| {
            let case = draw::draw(seed);
            if number("SWARM_PRINT").is_some() {
                println!("{}", case.text);
            }
            println!("seed {seed}: {}; {}", judge(&case), case.promises);
        }) else {
            continue;
        };
        let place = Failure::of(|| drop(draw::draw(seed))).is_none().then(|| write_shrunk(seed, &failure));
        let place = place.transpose().expect("a file written");
        let again = format!("SWARM_SEED={seed} cargo test -p weir-sim --test it swarm::");
        failed.push(format!("seed {seed}, again: {again}, smaller: {place:?}: {failure}"));
        println!("{}", failed[failed.len() - 1]);
        if number("SWARM_GO_ON").is_none() {
            break;
        }
    }
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

/// Writes the smallest file found that fails as the case of the seed does; returns its path.
fn write_shrunk(seed: u64, failure: &Failure) -> io::Result<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm");
    fs::create_dir_all(&folder)?;
    let case = draw::draw(seed);
    let path = folder.join(format!("seed-{seed}.toml"));
    fs::write(&path, shrink(&case.text, failure, |case| drop(judge(case))))?;
    Ok(path.display().to_string())
}

/// Data that came twice, or long after it had been given up, has both ends of a link under credit count otherwise, until what the sender
/// says of itself is confirmed.
#[test]
fn links_under_credit_agree_again_after_data_that_came_twice_or_late() {
    for seed in [1_036, 20_018] {
        let case = draw::draw_common(seed);
        assert!(case.promises.may_miscount(), "seed {seed} draws something else now");
        judge(&case);
    }
}

/// Frames that faults hold back on a wire between two threads are released in the receiver's phase: in the sender's
/// phase, frames that overtake them may still be sent.
#[test]
fn what_faults_hold_back_between_threads_keeps_its_place() {
    for seed in [5_117, 5_216] {
        judge(&draw::draw_common(seed));
    }
}

/// One switch, and three hosts that send to H0 at twice its rate.
const INCAST: &str = "[scenario]\nend = \"200us\"\nforwarding = \"ecmp\"\n[switch.buffer]\nsize = \"2MB\"\npolicy = \"dt\"\n\
     [switch.buffer.dt]\nalpha = \"1\"\n[switch.classes]\npreset = \"roce\"\nlossless = [3]\n[switch.pfc]\nreaction = \"0s\"\n\
     [topology]\nkind = \"single\"\nhosts = 3\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
     [[flows]]\nfrom = \"H1\"\nto = \"H0\"\nclass = 3\n[[flows]]\nfrom = \"H2\"\nto = \"H0\"\nclass = 3\n";

/// Runs [`INCAST`] with an event for its first and second 100 us.
fn incast_with(event: &str) -> (Sim, Case) {
    let case = Case::read(0, &format!("{INCAST}# from 1000ns until 100000ns: {event}\n"));
    let case = case.unwrap_or_else(|errors| panic!("{errors}"));
    let mut sim = Sim::new(&case.scenario).expect("a scenario");
    sim.run_until(Time::from_nanos(1_000));
    case.events[0].apply(&case.scenario, &mut sim, false);
    sim.run_until(Time::from_nanos(100_000));
    (sim, case)
}

#[test]
fn events_take_effect_and_end() {
    let class = Class::new(3);
    let received = |sim: &Sim| sim.host(0).stats(sim.now()).receivers.iter().map(|end| end.frames).sum::<u64>();
    let of_port = |sim: &mut Sim| sim.report(0).ports[0].classes[class.index()].clone();
    // Frames that H0 has received after each half.
    let halves = |event: &str| {
        let (mut sim, case) = incast_with(event);
        let (first, was_paused) = (received(&sim), sim.host(1).paused(sim.now()).contains(class));
        case.events[0].apply(&case.scenario, &mut sim, true);
        sim.run_until(Time::from_nanos(200_000));
        assert_eq!(sim.frames().map(|frames| frames.sides()[0]), sim.frames().map(|frames| frames.sides()[1]));
        (first, received(&sim) - first, was_paused)
    };
    let (first, second, _) = halves("queue S0 3 1000 1000 2000");
    assert!((100..120).contains(&first) && (105..120).contains(&second), "{first}, {second} at 10 Gb/s");
    let (first, second, _) = halves("rate S0.H0 2500000000");
    assert!((22..35).contains(&first) && (105..120).contains(&second), "{first}, {second}");
    let (first, second, was_paused) = halves("pause S0.H1 3");
    assert!(was_paused && first > 90 && second > 105, "{first}, {second}: H2 alone fills the link");
    let (first, second, _) = halves("close S0.H0 down");
    assert!(first < 5 && second > 50, "{first}, {second}");
    let (_, _, was_paused) = halves("forge toward H1 pfc 3 65535");
    assert!(was_paused);
    let (mut sim, _) = incast_with("policy S0 1 alpha = \"1/64\"");
    assert!(of_port(&mut sim).egress < Bytes::kb(80), "{:?}", of_port(&mut sim).egress);
    let (mut sim, _) = incast_with("queue S0 3 1000 1000 2000");
    assert!(of_port(&mut sim).egress > Bytes::kb(100), "{:?}", of_port(&mut sim).egress);
}

/// A forged message of another flow control is one message, though the port counts it by its kind and as ignored; data to nobody is flooded.
#[test]
fn forged_frames_are_conserved() {
    for event in ["forge toward S0.H1 pause 9", "forge toward S0.H1 credit 3 9 0 0", "stranger H1 0 100 3"] {
        let (mut sim, _) = incast_with(event);
        let frames = sim.frames().unwrap_or_else(|what| panic!("{event}: {what}"));
        assert_eq!(frames.sides()[0], frames.sides()[1], "{event}: {frames:?}");
        let ports = sim.report(0).ports;
        let ignored: u64 = ports.iter().map(|port| port.control_rx.ignored).sum();
        assert_eq!((ignored, frames.copied), if event.starts_with("forge") { (1, 0) } else { (0, 3) }, "{event}");
    }
}

/// A failure that is planted: of those that make one of the flows of H1 meet a PAUSE, nothing else is left.
#[test]
fn a_case_that_fails_is_shrunk_to_what_makes_it_fail() {
    let planted = |case: &Case| {
        let mut sim = Sim::new(&case.scenario).expect("a scenario");
        sim.run_until(case.scenario.end);
        let pauses: u64 = sim
            .reports()
            .iter()
            .flat_map(|report| &report.ports)
            .flat_map(|port| &port.classes)
            .map(|class| class.pauses_tx)
            .sum();
        let is_met = pauses > 0 && case.scenario.flows.iter().any(|flow| case.scenario.hosts[flow.from].name == "H1");
        assert!(!is_met, "planted");
    };
    let host = |n| format!("[[hosts]]\nname = \"H{n}\"\nport = \"S{}.h{n}\"\n", 1 + n / 3);
    let flow = |from, to| format!("[[flows]]\nfrom = \"H{from}\"\nto = \"H{to}\"\nclass = 3\n");
    let text = format!(
        "[scenario]\nend = \"200us\"\nforwarding = \"ecmp\"\n[switch]\nmtu = 1500\n[switch.buffer]\nsize = \"2MB\"\npolicy = \"static\"\n\
         [switch.buffer.static]\nthreshold = \"30KB\"\n[switch.classes]\npreset = \"roce\"\nlossless = [3]\n[switch.pfc]\nreaction = \"0s\"\n\
         [switch.port]\nrate = \"10Gbps\"\ndelay = \"1us\"\n[[switches]]\nname = \"S1\"\n[[switches]]\nname = \"S2\"\n[[switches]]\nname = \"S3\"\n\
         [[links]]\nends = [\"S1.to-S2\", \"S2.to-S1\"]\n[[links]]\nends = [\"S2.to-S3\", \"S3.to-S2\"]\n{}{}\
         [[outages]]\nlink = [\"S3\", \"H7\"]\nat = \"50us\"\nuntil = \"60us\"\n[[slow_receivers]]\nhosts = [\"H6\", \"H7\"]\nrate = \"5Gbps\"\n\
         # at 1000ns: stranger H2 0 100 3\n# from 2000ns until 3000ns: pause S2.h3 3\n",
        (0..9).map(host).collect::<String>(),
        [(0, 2), (1, 2), (3, 2), (4, 5), (6, 7), (7, 8)].map(|(from, to)| flow(from, to)).concat()
    );
    let case = Case::read(0, &text).unwrap_or_else(|errors| panic!("{errors}"));
    let failure = Failure::of(|| planted(&case)).expect("planted");
    let small = Case::read(0, &shrink(&text, &failure, planted)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(Failure::of(|| planted(&small)), Some(failure), "{}", small.text);
    let scenario = &small.scenario;
    assert_eq!((scenario.switches.len(), scenario.hosts.len(), scenario.flows.len()), (1, 3, 2), "{}", small.text);
    assert!(small.events.is_empty() && scenario.outages.is_empty(), "{}", small.text);
    println!("{}", small.text);
}
