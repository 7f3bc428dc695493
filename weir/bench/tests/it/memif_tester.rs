//! A forwarder in another process: `dpdk-testpmd`.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_alone::in_a_process;
use weir_bench::memif_tester::{INTERFACES, MemifTester};
use weir_dpdk_driver::{Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;
use weir_units::Span;

#[test]
fn frames_through_another_process_are_timed_and_counted() {
    in_a_process(|| {
        let &[first, .., last] = &cpu::allowed()[..] else {
            return eprintln!("skipped: there is one CPU");
        };
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("memif.sock");
        let memory_mb = MemifTester::memory(&socket).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("memif-tester", &[first], &[], &options).unwrap();
        let mut tester = MemifTester::start(&runtime, first, &socket).unwrap();
        assert!(!tester.wait_until_forwarded(Duration::from_millis(100)).unwrap(), "nobody is there");
        let Ok(mut testpmd) = testpmd(&socket, [first, last]) else {
            return eprintln!("skipped: there is no dpdk-testpmd, which Debian has in dpdk-dev");
        };
        assert!(tester.wait_until_forwarded(Duration::from_secs(30)).unwrap(), "{:?}", testpmd.try_wait());
        let own = tester.overload_rate(Span::from_millis(50)).unwrap();
        let is_share = |share| (0.0..=1.0).contains(&share);
        assert!(own.fps > 0.0 && is_share(own.held) && is_share(own.lost), "{own:?}");
        let [lone, at_rate] = [
            tester.lone_frames(Span::from_millis(1), Span::from_millis(100)).unwrap(),
            tester.at_rate(10_000.0, Span::from_millis(100)).unwrap(),
        ];
        for (timed, frames) in [(lone, 100), (at_rate, 1_000)] {
            assert!((1..=frames).contains(&timed.due), "{timed:?}");
            assert_eq!(timed.latency.count + timed.untimed + timed.missing, timed.due, "{timed:?}");
        }
        // While its peer is there.
        tester.stop().unwrap();
        testpmd.kill().unwrap();
        testpmd.wait().unwrap();
    });
}

/// Hands frames on from one interface to the other.
fn testpmd(socket: &Path, [main, forwards]: [u32; 2]) -> io::Result<Child> {
    let mut command = Command::new("dpdk-testpmd");
    command.args(["-l", &format!("{main},{forwards}"), "--main-lcore", &main.to_string()]);
    command.args(["--no-pci", "--no-huge", "-m", "200", "--no-shconf"]);
    for id in INTERFACES {
        let socket = socket.display();
        command.arg(format!("--vdev=net_memif{id},role=client,id={id},socket={socket},socket-abstract=no"));
    }
    command.args(["--", "--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}
