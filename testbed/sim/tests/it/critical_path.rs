//! Summaries of graphs in virtual time, and of lists with more messages than connections.

use std::sync::atomic::AtomicBool;

use weir_results::run_dir::Summary;
use weir_scenario::file;
use weir_sim::{SimBackend, SimRunError};

use crate::run_directory;

/// Runs a scenario whose workload may name `messages.csv`.
fn run(topology: &str, workloads: &str, messages: &str) -> Result<Summary, SimRunError> {
    run_by("ecmp", topology, workloads, messages)
}

fn run_by(forwarding: &str, topology: &str, workloads: &str, messages: &str) -> Result<Summary, SimRunError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("messages.csv"), messages).unwrap();
    let text = format!(
        "[scenario]\nname = \"graph\"\nend = \"2ms\"\nforwarding = \"{forwarding}\"\n[switch]\nmtu = 4200\n[switch.buffer]\nsize = \"400KB\"\npolicy = \"dt\"\n\
         [switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n[topology]\n{topology}\n\
         rate = \"100Gbps\"\ndelay = \"1us\"\n[nic]\nmtu = 4096\n{workloads}"
    );
    let runs = file::parse(&folder.path().join("graph.toml"), &text);
    let scenario = runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario;
    let out = tempfile::tempdir().unwrap();
    SimBackend::default().run(&scenario, run_directory::made(out.path()), &mut |_| (), &AtomicBool::new(false))
}

const BROADCAST: &str = "[[workloads]]\nname = \"job\"\nkind = \"collective\"\nclass = 3\ncollective = \"binomial-broadcast\"\n\
                         senders = [\"H0\", \"H3\"]\nbytes = \"2MB\"\n";

/// A message to a host that two others send to: the switch pauses its sender.
#[test]
fn a_critical_path_names_the_pauses_of_its_links() {
    let incast = "[[workloads]]\nname = \"others\"\nkind = \"incast\"\nclass = 3\nsizes = \"2MB\"\nsenders = [\"H1\", \"H2\"]\n\
                  receivers = [\"H3\"]\n";
    for (others, is_paused) in [(incast, true), ("", false)] {
        let summary = run("kind = \"single\"\nhosts = 4", &format!("{BROADCAST}{others}"), "").unwrap();
        let repetition = &summary.traffic[0].repetitions[0];
        let path = repetition.critical_path.as_ref().unwrap();
        let total = path.compute_ns + path.transmission_ns + path.queueing_ns;
        assert!(repetition.completion_ns.unwrap().abs_diff(total) <= 2, "{repetition:?}");
        assert_eq!((path.messages, path.slowest.len(), path.compute_ns), (1, 1, 0));
        let message = &path.slowest[0];
        assert_eq!((message.from.as_str(), message.to.as_str(), message.bytes), ("H0", "H3", 2_000_000));
        assert_eq!(message.flight_ns - message.queueing_ns, path.transmission_ns);
        let paused = path.paused_ns.unwrap();
        if is_paused {
            let port = summary.ports.iter().find(|port| port.host == "H0").unwrap();
            let of_port = port.classes.iter().find(|class| class.class == 3).unwrap().paused_ns;
            assert_eq!(message.paused_by.as_deref(), Some("S0.H0"), "the switch's port of H0");
            assert!(paused > 0 && paused <= path.queueing_ns && paused <= of_port + 1, "{path:?}, {of_port}");
            assert!(path.queueing_ns > path.transmission_ns, "three hosts share a link: {path:?}");
        } else {
            assert_eq!((path.queueing_ns, paused, message.paused_by.as_ref()), (0, 0, None));
        }
    }
}

#[test]
fn static_addresses_give_the_links_of_a_critical_path() {
    let incast = "[[workloads]]\nname = \"others\"\nkind = \"incast\"\nclass = 3\nsizes = \"1MB\"\nsenders = [\"H1\", \"H2\"]\n\
                  receivers = [\"H3\"]\n";
    let fabric = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts = 2";
    let [by_hash, by_address] = ["ecmp", "static"].map(|forwarding| {
        let mut summary = run_by(forwarding, fabric, &format!("{BROADCAST}{incast}"), "").unwrap();
        summary.traffic[0].repetitions.remove(0).critical_path.unwrap()
    });
    assert!(by_address.paused_ns > Some(0), "{by_address:?}");
    assert_eq!(by_address, by_hash);
}

/// Hosts with several ports send by ports of which the first is one, and messages of a repetition may have started in the one before.
#[test]
fn critical_paths_add_up_over_ports_and_repetitions() {
    let fabric = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 4";
    for (ports, collective) in [(1, "binomial-broadcast"), (2, "ring-all-reduce"), (2, "pairwise-all-to-all")] {
        let job = format!(
            "[[workloads]]\nname = \"job\"\nkind = \"collective\"\nclass = 3\ncollective = \"{collective}\"\nbytes = \"256KB\"\n\
             times = 3\n"
        );
        let summary = run(&format!("{fabric}\nports = {ports}"), &job, "").unwrap();
        let repetitions = &summary.traffic[0].repetitions;
        assert_eq!(repetitions.len(), 3);
        for repetition in repetitions {
            let path = repetition.critical_path.as_ref().unwrap();
            let total = path.compute_ns + path.transmission_ns + path.queueing_ns;
            assert!(repetition.completion_ns.unwrap().abs_diff(total) <= 3, "{ports}, {collective}: {repetition:?}");
        }
    }
}

/// 10 MB at 1 Gb/s take 80 ms, longer than any drain time here.
#[test]
fn a_message_within_a_server_is_waited_for() {
    let rails = "kind = \"rails\"\nservers = 2\ngpus = 4\nspines = 1\nnvlink_rate = \"1Gbps\"\nnvlink_delay = \"1us\"";
    let summary = run(rails, &BROADCAST.replace("2MB", "10MB"), "").unwrap();
    assert_eq!((summary.failures, summary.traffic[0].completed), (Vec::<String>::new(), 1));
}

#[test]
fn more_open_messages_than_connections_are_an_error() {
    let list = "[[workloads]]\nname = \"list\"\nkind = \"list\"\nclass = 3\nfile = \"messages.csv\"\n";
    let messages = |count: usize| format!("start_us,from,to,bytes\n{}", "0,H0,H1,1\n".repeat(count));
    let error = run("kind = \"single\"\nhosts = 2", list, &messages(65_537)).unwrap_err();
    assert!(error.to_string().starts_with("host H0 has more than 65536 open messages: write fewer"), "{error}");
    assert_eq!(run("kind = \"single\"\nhosts = 2", list, &messages(65_536)).unwrap().traffic[0].completed, 65_536);
}
