//! Few frames at a time.

use std::time::Duration;

use weir_alone::in_a_process;
use weir_bench::bursts;
use weir_bench::forwarding::RoundEnd;
use weir_dpdk_driver::{Memory, Runtime, RuntimeOptions};
use weir_dpdk_io::cpu;

#[test]
fn each_round_forwards_the_frames_that_it_was_given() {
    in_a_process(|| {
        let lcore = *cpu::allowed().last().unwrap();
        let switch = bursts::switch(lcore).unwrap();
        let memory_mb = Memory::for_switches(std::slice::from_ref(&switch), 1, 0).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("bursts", &[lcore], &[], &options).unwrap();
        for frames in [1, 4, 64] {
            let forwarded =
                bursts::forward(&runtime, &switch, frames, RoundEnd::Time(Duration::from_millis(50))).unwrap();
            assert!(forwarded.sent >= 20 * frames as u64, "{forwarded:?}");
            assert_eq!(forwarded.sent % (2 * frames as u64), 0, "bursts are whole: {forwarded:?}");
            assert_eq!((forwarded.received, forwarded.dropped), (forwarded.sent, 0), "{forwarded:?}");
        }
    });
}
