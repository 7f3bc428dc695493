//! Collective operations: closed forms on idle fabrics, and equal results for any number of threads.

use std::path::Path;

use weir_scenario::{RepetitionTimes, Scenario, file};
use weir_units::{Span, Time};

use crate::{CompletedMessage, PathStep, Sim, Threads};

const END: Time = Time::from_nanos(20_000_000);
const SWITCH: &str = "kind = 'single'\nhosts = ";
const LEAVES: &str = "kind = 'leaf-spine'\nleaves = 8\nspines = 4\nhosts = 4";
const RAILS: &str =
    "kind = 'rails'\nservers = 4\ngpus = 8\nspines = 4\nnvlink_rate = '800Gbps'\nnvlink_delay = '300ns'";

fn fabric_text(topology: &str, workload: &str) -> String {
    format!(
        "[scenario]\nend = '20ms'\n[switch]\nmtu = 4200\n[topology]\n{topology}\nrate = '100Gbps'\ndelay = '1us'\n\
         [switch.buffer]\nsize = '16MB'\npolicy = 'dt'\n[switch.classes]\npreset = 'roce'\n[switch.pfc]\n\
         reaction = '0s'\n[nic]\nmtu = 4096\nack_every = 4096\n[[workloads]]\nkind = 'collective'\nclass = 3\n{workload}\n"
    )
}

fn fabric(topology: &str, workload: &str) -> Scenario {
    let runs = file::parse(Path::new("fabric.toml"), &fabric_text(topology, workload));
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
        for (times, path) in repetitions.iter().zip(sim.critical_paths(0)) {
            let total: Span = path.unwrap().iter().map(duration).sum();
            assert_eq!(total, times.end.since(times.start), "{name}: the path has no gap");
        }
    }
    // With 4 hosts on a leaf, a quarter of the ring's hops go over a spine.
    let sim = run(&fabric(LEAVES, "collective = 'ring-all-reduce'\nbytes = '32MiB'"));
    let hops = |step: u64| if step % 4 == 3 { 4 } else { 2 };
    check("ring", sim.repetitions(0)[0], 32, (1..63).map(|step| message(MB, hops(step))).sum());
    let frames: u64 = (0..32).map(|host| sim.host_frames(host)[0]).sum();
    assert_eq!(frames, 32 * 62 * (256 + 1), "frames of all messages, and their acknowledgements");
}

fn duration(step: &PathStep) -> Span {
    match step {
        PathStep::Compute { duration, .. } => *duration,
        PathStep::Message { message, end, .. } => end.since(message.start),
    }
}

/// Bytes on each host's link in both directions: its messages' frames, and the acknowledgements of those that it received.
#[test]
fn collectives_send_the_bytes_of_their_closed_forms() {
    // Frames of 4,096 B with 58 B of headers, 16 B more in a message's first; acknowledgements of 62 B.
    let wire = |bytes: u64| bytes + bytes.div_ceil(4_096) * 58;
    let link = |messages: u64, bytes: u64| messages * (wire(bytes) + 16 + 62);
    let sizes = |halves: &[u64]| 2 * halves.iter().map(|bytes| link(1, *bytes)).sum::<u64>();
    const MB: u64 = 1 << 20;
    for (name, each) in [
        ("ring-all-reduce", link(14, MB)),
        ("ring-all-gather", link(7, MB)),
        ("ring-reduce-scatter", link(7, MB)),
        ("halving-doubling-all-reduce", sizes(&[4 * MB, 2 * MB, MB])),
        ("pairwise-all-to-all", link(7, MB)),
        ("bruck-all-to-all", link(3, 4 * MB)),
    ] {
        let mut sim = run(&fabric(&format!("{SWITCH}8"), &format!("collective = '{name}'\nbytes = '8MiB'")));
        let bytes = host_bytes(&mut sim);
        assert!(bytes.iter().all(|both| *both == [each; 2]), "{name}: {each} B, {bytes:?}");
    }
    // All hosts together: each but one sends up and down half of the buffer in both trees; each but one receives the buffer.
    for (name, all) in [("double-tree-all-reduce", link(28, 4 * MB)), ("binomial-broadcast", link(7, 8 * MB))] {
        let mut sim = run(&fabric(&format!("{SWITCH}8"), &format!("collective = '{name}'\nbytes = '8MiB'")));
        let bytes = host_bytes(&mut sim);
        let sums = [0, 1].map(|direction| bytes.iter().map(|both| both[direction]).sum::<u64>());
        assert_eq!(sums, [all; 2], "{name}");
    }
}

/// Bytes that the switch received from each host and sent to it.
fn host_bytes(sim: &mut Sim) -> Vec<[u64; 2]> {
    let report = sim.report(0);
    let of_port = |port: &weir_switch_core::report::PortReport| {
        [0, 1].map(|direction| {
            let bytes = |class: &std::sync::Arc<weir_switch_core::report::ClassReport>| {
                if direction == 0 { class.rx_bytes } else { class.tx_bytes }
            };
            port.classes.iter().map(bytes).sum::<u64>()
        })
    };
    report.ports.iter().map(of_port).collect()
}

/// Two computations on one CPU delay the first message, and a third the second one if it has its CPU.
#[test]
fn a_critical_path_has_the_cpu_and_the_messages() {
    for (cpu, wait) in [(0, Some("1 3us")), (1, None)] {
        let schedule = format!(
            "num_ranks 3\nrank 0 {{\na: calc 7000 cpu 1\nb: calc 5000 cpu 1\nc: calc 2000 cpu 2\n\
             s: send 8192b to 1 cpu 0\ns requires b\ns requires c\n}}\n\
             rank 1 {{\nr: recv 8192b from 0\nd: calc 3000\nd requires r\nt: send 4096b to 2 cpu {cpu}\nt irequires d\n}}\n\
             rank 2 {{\nr: recv 4096b from 1\n}}\n"
        );
        let sim = run(&from_file(&format!("{SWITCH}3"), "goal", &schedule));
        let times = sim.repetitions(0)[0];
        let path = sim.critical_paths(0).remove(0).unwrap();
        let text = |step: &PathStep| match step {
            PathStep::Compute { host, duration } => format!("{host} {duration}"),
            PathStep::Message { message, is_acknowledged, .. } => {
                format!("{}-{} {} {is_acknowledged}", message.from, message.to, message.size.get())
            }
        };
        let steps: Vec<String> = path.iter().rev().map(text).collect();
        let expected: Vec<&str> =
            ["0 7us", "0 5us", "0-1 8192 false"].into_iter().chain(wait).chain(["1-2 4096 true"]).collect();
        assert_eq!(steps, expected);
        let total: Span = path.iter().map(duration).sum();
        assert_eq!(total, times.end.since(times.start));
        let computed = if wait.is_some() { 15_000_000 } else { 12_000_000 };
        let least = Span::from_picos(computed + message(8_192, 2) + message(4_096, 2) + ack(2));
        // The first frame of a message has 16 B more.
        assert!(total >= least && total - least < Span::from_nanos(20), "{total}, {least}");
    }
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
    for topology in [LEAVES, RAILS] {
        let scenario = fabric(topology, twice);
        let results = |threads: usize, step: Span| results(&scenario, threads, step);
        let whole = results(1, Span::from_millis(20));
        for (threads, step) in [(1, Span::from_nanos(3_777)), (2, Span::from_millis(20)), (3, Span::from_nanos(977))] {
            assert!(results(threads, step) == whole, "{topology}: {threads} threads, steps of {step}");
        }
    }
}

/// Results of the run of two collectives and other messages.
fn results(scenario: &Scenario, threads: usize, step: Span) -> String {
    let mut sim = Sim::new(scenario).unwrap();
    sim.set_threads(Threads::exactly(threads));
    while sim.now() < END {
        sim.run_until(END.min(sim.now() + step));
    }
    let done: Vec<CompletedMessage> = sim.drain_completions().collect();
    assert!(sim.is_finished() && done.len() == 3 * 3 * 32 * 10 + 20 + 16, "{}", done.len());
    let messages = (0..3).map(|traffic| sim.messages(traffic).to_vec());
    let repetitions = [0, 1].map(|traffic| sim.repetitions(traffic).to_vec());
    format!("{done:?} {:?} {repetitions:?} {}", messages.collect::<Vec<_>>(), sim.packet_hops())
}

/// Three servers of four GPUs without spines. Their links take 10 us for each MB, and 1 us for the way.
const SERVERS: &str =
    "kind = 'rails'\nservers = 3\ngpus = 4\nspines = 0\nnvlink_rate = '800Gbps'\nnvlink_delay = '1us'";

#[test]
fn messages_within_a_server_take_its_link() {
    let closed = |steps: u64, kb: u64, delays: u64| Span::from_nanos(steps * (kb * 10 + delays * 1_000));
    for (name, time) in [
        // The last send ends with its acknowledgement, in the third each one.
        ("ring-all-reduce", closed(6, 1_000, 1) + closed(1, 0, 1)),
        ("halving-doubling-all-reduce", closed(2, 2_000, 1) + closed(2, 1_000, 1) + closed(1, 0, 1)),
        ("pairwise-all-to-all", closed(3, 1_000, 2)),
    ] {
        let sim =
            run(&fabric(SERVERS, &format!("collective = '{name}'\nbytes = '4MB'\nsenders = ['H0', 'H1', 'H2', 'H3']")));
        let times = sim.repetitions(0)[0];
        assert_eq!((times.end.since(times.start), times.ended), (time, 4), "{name}");
        assert_eq!(sim.packet_hops(), 0, "{name}");
    }
    // No rail is joined with another, and the ranks are on one.
    let ranks = "collective = 'ring-all-gather'\nbytes = '3MB'\nsenders = ['H2', 'H6', 'H10']";
    let sim = run(&fabric(SERVERS, ranks));
    check("rail", sim.repetitions(0)[0], 3, 2 * message(1_000_000, 2) + ack(2));
}

#[test]
fn a_host_receives_at_the_rate_of_its_servers_link() {
    let folder = tempfile::tempdir().unwrap();
    let send = "s: send 1000000b to 0\n}\n";
    let schedule = format!(
        "num_ranks 3\nrank 0 {{\na: recv 1000000b from 1\nb: recv 1000000b from 2\n}}\nrank 1 {{\n{send}rank 2 {{\n{send}"
    );
    std::fs::write(folder.path().join("incast.goal"), schedule).unwrap();
    let text = fabric_text(SERVERS, "")
        .replace("kind = 'collective'", "kind = 'goal'\nfile = 'incast.goal'\nsenders = ['H0', 'H1', 'H2']");
    let runs = file::parse(&folder.path().join("fabric.toml"), &text);
    let sim = run(&runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario);
    let times = sim.repetitions(0)[0];
    assert_eq!(times.end.since(times.start), Span::from_micros(1 + 10 + 10 + 1), "with the acknowledgement");
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

/// Fabric whose workload is a file of this kind.
fn from_file(topology: &str, kind: &str, content: &str) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), content).unwrap();
    let text = format!(
        "[scenario]\nend = '20ms'\n[switch]\nmtu = 4200\n[topology]\n{topology}\nrate = '100Gbps'\ndelay = '1us'\n\
         [switch.classes]\npreset = 'roce'\n[switch.pfc]\nreaction = '0s'\n[nic]\nmtu = 4096\nack_every = 4096\n\
         [[workloads]]\nkind = '{kind}'\nclass = 3\nfile = 'file'\n"
    );
    let runs = file::parse(&folder.path().join("fabric.toml"), &text);
    runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
}

/// Starts and ends of messages by sender, receiver and size.
fn messages(scenario: &Scenario, threads: usize, step: Span) -> Vec<(u32, u32, u64, u64, u64)> {
    let mut sim = Sim::new(scenario).unwrap();
    sim.set_threads(Threads::exactly(threads));
    while sim.now() < END {
        sim.run_until(END.min(sim.now() + step));
    }
    assert!(sim.is_finished());
    let done: Vec<CompletedMessage> = sim.drain_completions().collect();
    let message = |done: &CompletedMessage| {
        let crate::MessageSource::Message(traffic, number) = done.source else { panic!("no message") };
        let message = sim.messages(traffic as usize)[number as usize];
        let [from, until] = [done.released, done.released + done.fct].map(|at| at.as_picos());
        (message.from, message.to, message.size.get(), from, until)
    };
    let mut all: Vec<_> = done.iter().map(message).collect();
    all.sort();
    all
}

#[test]
fn triggers_start_messages_at_the_instant_of_an_end() {
    let text = "Nodes 32\nConnections 8\nTriggers 4\n\
                0->5 id 1 start 3 size 9000 send_done_trigger 1\n9->20 id 2 trigger 1 size 100\n\
                10->4 id 3 start 0 size 5000 recv_done_trigger 2\n30->1 id 4 start 8 size 1 send_done_trigger 2\n\
                17->4 id 5 trigger 2 size 20 send_done_trigger 3\n18->4 id 6 trigger 2 size 30 send_done_trigger 3\n\
                25->3 id 7 trigger 3 size 40 send_done_trigger 4\n26->3 id 8 trigger 3 size 50\n\
                trigger id 1 oneshot\ntrigger id 2 barrier count 2\ntrigger id 3 multishot\ntrigger id 4 oneshot\n";
    let scenario = from_file(LEAVES, "connection-matrix", text);
    let all = messages(&scenario, 1, Span::from_millis(20));
    let of = |from: u32| *all.iter().find(|message| message.0 == from).unwrap();
    let (starts, ends) = (|from| of(from).3, |from| of(from).4);
    assert_eq!((all.len(), starts(0), starts(10), starts(30)), (8, 3_000_000, 0, 8_000_000));
    assert_eq!(starts(9), ends(0));
    assert!(ends(30) > message(5_000, 4), "the receipt of host 4 is the earlier one");
    assert_eq!([17, 18].map(starts), [ends(30); 2]);
    let mut shots = [17, 18].map(ends);
    shots.sort();
    assert_eq!([25, 26].map(starts), shots);
    for (threads, step) in [(1, Span::from_nanos(777)), (2, Span::from_millis(20)), (3, Span::from_micros(3))] {
        assert_eq!(messages(&scenario, threads, step), all, "{threads} threads, steps of {step}");
    }
    // A ring of three switches is no tree: switches and hosts run in one phase.
    let ring = from_file(
        "kind = 'ring'\nswitches = 3\nhosts = 11",
        "connection-matrix",
        &text.replace("Nodes 32", "Nodes 33"),
    );
    let all = messages(&ring, 1, Span::from_millis(20));
    assert_eq!(all.len(), 8);
    assert_eq!(messages(&ring, 3, Span::from_micros(7)), all);
}

#[test]
fn a_receipt_triggers_at_its_instant() {
    let text = "Nodes 3\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 8192 recv_done_trigger 1\n\
                2->0 id 2 trigger 1 size 1\ntrigger id 1 oneshot\n";
    let all = messages(&from_file("kind = 'single'\nhosts = 3", "connection-matrix", text), 1, Span::from_millis(20));
    // The first frame's RETH has 16 B, on both links.
    assert_eq!(all[1].3, message(8_192, 2) + 2 * 16 * 80);
}

#[test]
fn a_busy_cpu_keeps_messages_and_receipts_waiting() {
    let text = "num_ranks 3\nrank 0 {\nc: calc 50000 cpu 1\nm: calc 1000 cpu 2\ns: send 10b to 1 tag 1 cpu 1\n\
                s requires m\nt: send 20b to 1 tag 2 cpu 2\nt requires m\n}\nrank 1 {\nd: calc 20000\n\
                r: recv 20b from 0 tag 2\nu: send 30b to 2\nu requires r\nrecv 10b from 0 tag 1\n}\n\
                rank 2 { recv 30b from 1 }\n";
    let all = messages(&from_file("kind = 'single'\nhosts = 3", "goal", text), 1, Span::from_millis(20));
    let starts: Vec<(u64, u64)> = all.iter().map(|message| (message.2, message.3)).collect();
    // The message of 20 B is there after 3 us, but CPU 0 of rank 1 computes.
    assert_eq!(starts, [(10, 50_000_000), (20, 1_000_000), (30, 20_000_000)]);
}
