//! Hosts that always have a fixed number of messages in flight.

use std::path::Path;

use weir_scenario::{Scenario, file};
use weir_units::{Span, Time};

use crate::{CompletedMessage, MessageSource, Sim, Threads};

const END: Time = Time::from_nanos(2_000_000);

/// Eight hosts on two leaves, and what four of them send.
fn fabric(workload: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = '2ms'\n[topology]\nkind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts = 4\nrate = '100Gbps'\n\
         delay = '1us'\n[switch.buffer]\nsize = '1MB'\npolicy = 'dt'\n[switch.classes]\npreset = 'roce'\n\
         [nic]\nretransmit = '100us'\n[[workloads]]\nname = 'loop'\nkind = 'closed-loop'\nclass = 3\n\
         senders = ['H0', 'H1', 'H2', 'H5']\n{workload}\n"
    );
    file::parse(Path::new("fabric.toml"), &text).unwrap().remove(0).scenario
}

fn run(scenario: &Scenario) -> (Sim, Vec<CompletedMessage>) {
    let mut sim = Sim::new(scenario).unwrap();
    sim.run_until(END + Span::from_millis(1));
    let done = sim.drain_completions().collect();
    (sim, done)
}

/// A lookahead is a link's delay and the time of the shortest frame; hosts and switches alternate in phases of one
/// lookahead each.
fn window(sim: &Sim) -> Span {
    sim.lookahead * 2
}

#[test]
fn a_host_has_as_many_messages_under_way_as_it_is_to_and_never_more() {
    for outstanding in [1, 3] {
        let (sim, done) = run(&fabric(&format!("sizes = 'web-server'\noutstanding = {outstanding}")));
        assert!(sim.is_finished() && done.len() > 200, "{}", done.len());
        assert_eq!(sim.messages(0).len(), done.len(), "each that has begun is done");
        for host in [0, 1, 2, 5] {
            let own = || done.iter().filter(|done| done.host == host);
            let mut changes: Vec<(Time, i32)> =
                own().flat_map(|done| [(done.released, 1), (done.released + done.fct, -1)]).collect();
            changes.sort();
            let mut under_way = 0;
            for (at, change) in changes {
                under_way += change;
                assert!((0..=outstanding).contains(&under_way), "host {host} has {under_way} at {at:?}");
            }
            // Each but the first starts a window after another one ends.
            let mut ends: Vec<Time> = own().map(|done| done.released + done.fct + window(&sim)).collect();
            for done in own().filter(|done| done.released > Time::ZERO) {
                let place = ends.iter().position(|end| *end == done.released).expect("one has ended a window before");
                ends.swap_remove(place);
            }
            assert_eq!(own().filter(|done| done.released == Time::ZERO).count() as i32, outstanding);
            assert!(ends.iter().all(|end| *end >= END), "where one has ended before the end another begins");
            assert_eq!(ends.len() as i32, outstanding);
        }
    }
}

#[test]
fn hosts_stop_after_so_many_messages_or_at_an_instant() {
    let (sim, done) =
        run(&fabric("sizes = '20KB'\noutstanding = 2\ntimes = 7\nreceivers = ['H6', 'H7']\nfrom = '100us'"));
    assert!(sim.is_finished());
    assert_eq!(done.len(), 4 * 7);
    assert!(done.iter().all(|done| done.released >= Time::from_nanos(100_000)));
    assert!(sim.messages(0).iter().all(|message| [6, 7].contains(&message.to)));
    let (sim, done) = run(&fabric("sizes = '20KB'\nuntil = '500us'"));
    assert!(sim.is_finished());
    let last = done.iter().map(|done| done.released).max().unwrap();
    assert!(last < Time::from_nanos(500_000) && last > Time::from_nanos(450_000), "{last:?}");
}

/// A host's messages are those of its own source, in their order, whatever the others do.
#[test]
fn a_slower_network_has_the_first_of_the_same_messages() {
    let of = |rest: &str, host: usize| {
        let (sim, done) = run(&fabric(&format!("sizes = 'web-server'\nseed = 4\n{rest}")));
        let mut own: Vec<u32> = done
            .iter()
            .filter(|done| done.host == host)
            .map(|done| match done.source {
                MessageSource::Message(_, message) => message,
                MessageSource::Flow(_) => panic!("a message"),
            })
            .collect();
        own.sort_unstable();
        own.into_iter().map(|n| sim.messages(0)[n as usize]).map(|m| (m.to, m.size)).collect::<Vec<_>>()
    };
    let (fast, slow) = (of("", 2), of("congestion_control = 'dcqcn'\noutstanding = 1\nuntil = '1ms'", 2));
    assert!(slow.len() > 20 && slow.len() < fast.len(), "{} {}", slow.len(), fast.len());
    assert_eq!(slow, fast[..slow.len()]);
}

#[test]
fn how_often_it_is_looked_at_and_how_many_threads_run_it_is_of_no_consequence() {
    let scenario = fabric("sizes = 'web-server'\noutstanding = 4");
    let told = |sim: &mut Sim| {
        let done: Vec<CompletedMessage> = sim.drain_completions().collect();
        assert!(done.len() > 500, "{} messages", done.len());
        format!("{done:?} {:?} {}", sim.messages(0), sim.packet_hops())
    };
    let mut at_once = Sim::new(&scenario).unwrap();
    at_once.run_until(END);
    let first = told(&mut at_once);
    let mut by_and_by = Sim::new(&scenario).unwrap();
    by_and_by.set_threads(Threads::exactly(2));
    while by_and_by.now() < END {
        by_and_by.run_until(END.min(by_and_by.now() + Span::from_nanos(377)));
    }
    assert!(first == told(&mut by_and_by), "two runs of one scenario differ");
}
