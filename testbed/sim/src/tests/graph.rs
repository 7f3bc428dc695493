//! Collective operations: closed forms on idle fabrics, and equal results for any number of threads.

use std::path::Path;

use weir_scenario::{Scenario, file};
use weir_units::{Span, Time};

use crate::{CompletedMessage, RepetitionTimes, Sim, Threads};

const END: Time = Time::from_nanos(20_000_000);
const SWITCH: &str = "kind = 'single'\nhosts = ";
const LEAVES: &str = "kind = 'leaf-spine'\nleaves = 8\nspines = 4\nhosts = 4";

fn fabric(topology: &str, workload: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = '20ms'\n[switch]\nmtu = 4200\n[topology]\n{topology}\nrate = '100Gbps'\ndelay = '1us'\n\
         [switch.buffer]\nsize = '16MB'\npolicy = 'dt'\n[switch.classes]\npreset = 'roce'\n[switch.pfc]\n\
         reaction = '0s'\n[nic]\nmtu = 4096\nack_every = 4096\n[[workloads]]\nkind = 'collective'\nclass = 3\n{workload}\n"
    );
    let runs = file::parse(Path::new("fabric.toml"), &text);
    runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
}

fn run(scenario: &Scenario) -> Sim {
    let mut sim = Sim::new(scenario).unwrap();
    sim.run_until(END);
    assert!(sim.is_finished());
    sim
}

/// Picoseconds of a frame with this payload at 100 Gb/s, and its headers, FCS, preamble and gap.
fn frame(payload: u64) -> u64 {
    (payload + 82) * 80
}

/// Time from the start of a message to its receipt over a number of links.
fn message(bytes: u64, links: u64) -> u64 {
    let (full, rest) = (bytes / 4_096, bytes % 4_096);
    let last = if rest > 0 { frame(rest) } else { frame(4_096) };
    full * frame(4_096) + if rest > 0 { last } else { 0 } + (links - 1) * last + links * 1_000_000
}

/// Time from a receipt to the acknowledgement's arrival.
fn ack(links: u64) -> u64 {
    links * (1_000_000 + frame(4))
}

fn check(name: &str, times: RepetitionTimes, ranks: u32, expected: u64) {
    assert_eq!(times.ended, ranks, "{name}");
    let measured = times.end.since(times.start).as_picos();
    let error = measured.abs_diff(expected) as f64 / expected as f64;
    assert!(error < 0.005, "{name}: expected {expected} ps, measured {measured} ps");
}

#[test]
fn collectives_take_the_time_of_their_closed_forms() {
    const MB: u64 = 1 << 20;
    let closed = |name: &str, n: u64, bytes: u64| -> u64 {
        let bits = u64::from(n.ilog2());
        match name {
            "ring-all-reduce" => 2 * (n - 1) * message(bytes / n, 2),
            "ring-all-gather" | "ring-reduce-scatter" => (n - 1) * message(bytes / n, 2),
            "halving-doubling-all-reduce" => (0..bits).map(|bit| 2 * message(bytes >> (bit + 1), 2)).sum(),
            "double-tree-all-reduce" => 2 * message(bytes / 2, 2),
            "pairwise-all-to-all" => (n - 1) * (message(bytes / n, 2) + ack(2)),
            "bruck-all-to-all" => bits * message(bytes / 2, 2),
            // Rank 0 sends to all others of its own, each after the acknowledgement of the one before.
            _ => bits * message(bytes, 2) + (bits - 1) * ack(2),
        }
    };
    for (name, ranks) in [
        ("ring-all-reduce", 8),
        ("ring-all-gather", 6),
        ("ring-reduce-scatter", 8),
        ("halving-doubling-all-reduce", 8),
        ("double-tree-all-reduce", 2),
        ("pairwise-all-to-all", 8),
        ("bruck-all-to-all", 8),
        ("binomial-broadcast", 8),
    ] {
        let workload = format!("collective = '{name}'\nbytes = '6MiB'\ntimes = 2\ncompute = '10us'");
        let sim = run(&fabric(&format!("{SWITCH}{ranks}"), &workload));
        let repetitions = sim.repetitions(0);
        assert_eq!(repetitions.len(), 2);
        assert_eq!(repetitions[0].start, Time::from_nanos(10_000), "after the computation");
        assert!(repetitions[1].start >= repetitions[0].start + Span::from_micros(10));
        check(name, repetitions[0], ranks, closed(name, u64::from(ranks), 6 * MB));
    }
    // With 4 hosts on a leaf, a quarter of the ring's hops go over a spine.
    let sim = run(&fabric(LEAVES, "collective = 'ring-all-reduce'\nbytes = '32MiB'"));
    let hops = |step: u64| if step % 4 == 3 { 4 } else { 2 };
    check("ring", sim.repetitions(0)[0], 32, (1..63).map(|step| message(MB, hops(step))).sum());
    let frames: u64 = (0..32).map(|host| sim.host_frames(host)[0]).sum();
    assert_eq!(frames, 32 * 62 * (256 + 1), "frames of all messages, and their acknowledgements");
}

/// With many chunks both trees fill all links, but for the pipeline's start and end.
#[test]
fn chunks_fill_the_trees() {
    let time = |chunks: u32| {
        let workload = format!("collective = 'double-tree-all-reduce'\nbytes = '8MiB'\nchunks = {chunks}");
        let times = run(&fabric(&format!("{SWITCH}16"), &workload)).repetitions(0)[0];
        times.end.since(times.start)
    };
    let least = Span::from_picos(2 * (8 << 20) * 80 * 15 / 16);
    let [whole, chunked] = [1, 64].map(time);
    assert!(chunked > least && chunked * 2 < least * 3, "{chunked} and at least {least}");
    assert!(whole > chunked * 2, "{whole}, {chunked}");
}

#[test]
fn threads_and_steps_change_no_result() {
    let twice = "collective = 'halving-doubling-all-reduce'\nbytes = '1MiB'\nchunks = 3\ntimes = 3\ncompute = '7us'\n\
                 [[workloads]]\nkind = 'collective'\nclass = 3\ncollective = 'pairwise-all-to-all'\nbytes = '640KB'\n\
                 from = '30us'\nsenders = ['H9', 'H1', 'H2', 'H30', 'H17']\n\
                 [[workloads]]\nkind = 'one-to-one'\nclass = 3\nsizes = '500KB'";
    let scenario = fabric(LEAVES, twice);
    let results = |threads: usize, step: Span| {
        let mut sim = Sim::new(&scenario).unwrap();
        sim.set_threads(Threads::exactly(threads));
        while sim.now() < END {
            sim.run_until(END.min(sim.now() + step));
        }
        let done: Vec<CompletedMessage> = sim.drain_completions().collect();
        assert!(sim.is_finished() && done.len() == 3 * 3 * 32 * 10 + 20 + 16, "{}", done.len());
        let messages = (0..3).map(|traffic| sim.messages(traffic).to_vec());
        let repetitions = [0, 1].map(|traffic| sim.repetitions(traffic).to_vec());
        format!("{done:?} {:?} {repetitions:?} {}", messages.collect::<Vec<_>>(), sim.packet_hops())
    };
    let whole = results(1, Span::from_millis(20));
    for (threads, step) in [(1, Span::from_nanos(3_777)), (2, Span::from_millis(20)), (3, Span::from_nanos(977))] {
        assert!(results(threads, step) == whole, "{threads} threads, steps of {step}");
    }
}

#[test]
fn a_graph_stops_at_its_end() {
    let sim =
        run(&fabric(&format!("{SWITCH}4"), "collective = 'ring-all-reduce'\nbytes = '4MiB'\ntimes = 9\nuntil = '1ms'"));
    let repetitions = sim.repetitions(0);
    // Each takes 6 * (88 + 3) us.
    assert_eq!(repetitions.iter().map(|times| times.ended).collect::<Vec<_>>(), [4, 0]);
    assert!(sim.messages(0).iter().all(|message| message.start < Time::from_nanos(1_000_000)));
}
