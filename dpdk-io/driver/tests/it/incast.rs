//! 8-to-1 incast of a lossless class over real DPDK ports and lcores: nothing lost, nothing reordered, frames conserved
//! at every report and are empty at the end, in each lcore layout, and under each buffer policy. A test that takes minutes, and is
//! run by name (`make conservation`), has all layouts under all policies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_config::{EcnConfig, SwitchConfig};
use weir_dpdk_driver::{Memory, Placement, PreparedSwitches, Runtime, RuntimeOptions, Stopped};
use weir_dpdk_io::cpu;
use weir_switch_core::Shared;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, PortId, SplitMix64};

use crate::common::{Progress, Receiver, Sender, StationPair, Tally, lost_to_the_machine};

const SENDERS: u8 = 8;
/// In each layout: millions where the build is fast enough for them.
const FRAMES: u64 = if cfg!(debug_assertions) { 200_000 } else { 3_000_000 };
/// In each layout under each policy, by `make conservation`.
const CONSERVED_FRAMES: u64 = if cfg!(debug_assertions) { FRAMES } else { 10_000_000 };
/// For each of the policies after the first.
const POLICY_FRAMES: u64 = if cfg!(debug_assertions) { 8_000 } else { 400_000 };
/// In each layout while things are set.
const RECONFIGURED_FRAMES: u64 = if cfg!(debug_assertions) { FRAMES } else { 1_000_000 };
const POLICIES: [&str; 10] =
    ["static", "dt", "spfc", "sih", "oversubscribed", "adaptive", "dsh", "sonic", "abm", "reverie"];
/// `auto`: lcores that own ports, and hand each other frames.
const LAYOUTS: [&str; 4] = ["single", "auto", "rx-tx", "rx-fwd-tx"];
/// C of the receiver's port: what the emulated senders exceed together, with optimisation and without.
const RECEIVER_RATE: &str = if cfg!(debug_assertions) { "100Mbps" } else { "1Gbps" };

/// Senders of 300 Mb/s each against one receiver. On a shared machine an lcore may lose its CPU for
/// milliseconds, so the headroom covers a reaction of 42 ms at a sender's rate.
///
/// Policies that size headroom by the rule themselves get half of that, so that it fits the buffer.
fn config(layout: &str, policy: &str) -> SwitchConfig {
    let headroom = match policy {
        "sih" | "adaptive" => "headroom = \"auto\"",
        _ => "headroom = \"1600KB\"",
    };
    let mut text = format!(
        "[switch]\nname = \"incast\"\n[lcores]\nlayout = \"{layout}\"\n[buffer]\nsize = \"16MB\"\nmean_frame = \"exact\"\n{headroom}\n\
         policy = \"{policy}\"\n[classes]\nlossless = [3]\n[pfc]\nreaction = \"20ms\"\n"
    );
    for n in 0..=SENDERS {
        let rate = if n == SENDERS { RECEIVER_RATE } else { "300Mbps" };
        text += &format!("[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"{rate}\"\n");
    }
    // Nothing is flooded, even where the senders are quicker than the receiver's first word.
    text += &format!("[[static_macs]]\nmac = \"02:00:00:00:01:{SENDERS:02x}\"\nport = \"p{SENDERS}\"\n");
    weir_config::parse("incast.toml", &text).unwrap()
}

/// `meanwhile` is called again and again while frames pass.
fn incast(
    runtime: &Runtime,
    config: &SwitchConfig,
    frames: u64,
    meanwhile: &mut dyn FnMut(&Shared),
) -> (Arc<Tally>, Stopped, u64) {
    let switches = std::slice::from_ref(config);
    let placement = Placement::new(switches, &cpu::allowed(), 0).unwrap();
    let mut prepared = PreparedSwitches::prepare(runtime, switches, &placement, 8_192).unwrap();
    let store = prepared.store().clone();
    let tally = Arc::new(Tally { held_back: true.into(), ..Tally::default() });
    let receiver = prepared.open_far_end(&format!("r{SENDERS}")).unwrap();
    let cpus = placement.cpus.len();
    prepared.add_task(cpus - 1, Box::new(Receiver::new(receiver, store.clone(), tally.clone(), SENDERS)));
    for n in 0..SENDERS {
        let queues = prepared.open_far_end(&format!("r{n}")).unwrap();
        let rate = BitRate::mbps(300);
        let share = frames / u64::from(SENDERS);
        let sender =
            Sender::new(queues, store.clone(), tally.clone(), StationPair { from: n, to: SENDERS }, 3, share, rate);
        prepared.add_task(usize::from(n) % cpus, Box::new(sender));
    }
    let running = prepared.start().unwrap();
    let (mut progress, mut reports) = (Progress::new(), 0);
    let mut lost = 0;
    while tally.received.load(Ordering::Relaxed) + lost < frames {
        std::thread::sleep(Duration::from_millis(20));
        meanwhile(running.shared(0));
        let report = running.report(0).unwrap();
        let balance = report.conservation;
        lost = report.dropped(DropReason::HeadroomViolation);
        assert!(balance.holds, "{balance:?}");
        assert_eq!(balance.received + balance.copied, balance.sent + balance.dropped + balance.held(), "{balance:?}");
        let pauses = report.ports.iter().map(|port| port.classes[3].pauses_tx).sum();
        tally.release_after(pauses, frames);
        reports += 1;
        assert!(progress.goes_on(&tally, &running), "{tally:?} {balance:?}");
    }
    (tally, running.stop(Duration::from_secs(5)).unwrap(), reports)
}

#[test]
fn lossless_and_ordered_in_every_layout_and_under_every_policy() {
    weir_alone::in_a_process(|| {
        let layouts = LAYOUTS.map(|layout| (config(layout, "dt"), FRAMES));
        let policies = POLICIES.map(|policy| (config("single", policy), POLICY_FRAMES));
        conserved(layouts.into_iter().chain(policies).collect());
    });
}

#[test]
#[ignore = "minutes of traffic; make conservation"]
fn lossless_and_ordered_in_every_layout_under_every_policy() {
    weir_alone::in_a_process(|| {
        let under = |policy| LAYOUTS.into_iter().map(move |layout| (config(layout, policy), CONSERVED_FRAMES));
        conserved(POLICIES.into_iter().flat_map(under).collect());
    });
}

/// Sends so many frames through each switch, in turn.
fn conserved(cases: Vec<(SwitchConfig, u64)>) {
    let cpus = cpu::allowed();
    let cpus = &cpus[..cpus.len().min(3)];
    let memory_mb = Memory::for_switches(std::slice::from_ref(&cases[0].0), cpus.len(), 8_192).megabytes();
    let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
    let runtime = Runtime::start("incast", cpus, &[], &options).unwrap();
    for (config, frames) in &cases {
        let what = format!("{:?}, {}", config.lcores.layout, config.buffer.policy.name());
        let started = Instant::now();
        let (tally, stopped, reports) = incast(&runtime, config, *frames, &mut |_| ());
        check(&what, *frames, &tally, &stopped);
        let report = &stopped.reports[0];
        let pauses: u64 = report.ports.iter().map(|port| port.classes[3].pauses_tx).sum();
        let headroom = report.ports.iter().map(|port| port.classes[3].ingress.headroom_max).max().unwrap();
        let gap = stopped.gap_max();
        println!(
            "{what}: {frames} frames in {:.1} s, {reports} balanced reports, {pauses} pauses, \
             peak headroom {headroom}, longest poll gap {gap}, Xoff to PAUSE {:?}",
            started.elapsed().as_secs_f64(),
            report.message_delay
        );
        // Few frames fit a buffer without a PAUSE; ten million don't.
        assert!(pauses > 0 || *frames < FRAMES, "{what}: an incast that never paused tests nothing");
    }
}

/// What a control thread changes while lcores pass frames costs none of them.
#[test]
fn lossless_and_ordered_whatever_is_set_meanwhile() {
    weir_alone::in_a_process(|| {
        let layouts = LAYOUTS.map(|layout| config(layout, "dt"));
        let cpus = cpu::allowed();
        let cpus = &cpus[..cpus.len().min(3)];
        let memory_mb = Memory::for_switches(std::slice::from_ref(&layouts[0]), cpus.len(), 8_192).megabytes();
        let options = RuntimeOptions { memory_mb, ..RuntimeOptions::default() };
        let runtime = Runtime::start("steered", cpus, &[], &options).unwrap();
        for config in &layouts {
            let what = format!("{:?}", config.lcores.layout);
            let mut random_changes = RandomChanges { config, numbers: SplitMix64::new(7), changes: 0 };
            let (tally, stopped, reports) = incast(&runtime, config, RECONFIGURED_FRAMES, &mut |shared| {
                (0..40).for_each(|_| random_changes.change(shared))
            });
            check(&what, RECONFIGURED_FRAMES, &tally, &stopped);
            println!("{what}: {} changes, {reports} balanced reports", random_changes.changes);
            assert!(random_changes.changes > 100, "{what}: {} changes test little", random_changes.changes);
        }
    });
}

/// Random run-time changes of a switch, drawn from a seed.
struct RandomChanges<'c> {
    config: &'c SwitchConfig,
    numbers: SplitMix64,
    changes: u64,
}

impl RandomChanges<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.numbers.next_u64() % n
    }

    fn change(&mut self, shared: &Shared) {
        self.changes += 1;
        let receiver = PortId(u16::from(SENDERS));
        let mut queues = self.config.classes.queues.clone();
        match self.below(6) {
            // No slower than the run's time limit.
            0 => drop(shared.set_rate(receiver, Some(BitRate::mbps(50 + self.below(1_000))))),
            1 => {
                let policy =
                    weir_mmu::policy::parse_config("dt", &format!("alpha = \"{}/8\"", 1 + self.below(64))).unwrap();
                shared.mmu.update_config(&*policy, self.config.xon(), self.config.buffer.lossy_alpha);
            }
            2 => {
                queues[3].rate = (self.below(2) == 0).then(|| BitRate::mbps(50 + self.below(500)));
                queues[3].quantum = 1_600 + self.below(10_000) as u32;
                queues[3].strict = self.below(2) == 0;
                let kmin = Bytes::new(1 + self.below(1_000_000));
                queues[3].ecn = (self.below(2) == 0).then_some(EcnConfig {
                    kmin,
                    kmax: kmin + Bytes::kb(100),
                    pmax_ppm: 1_000_000,
                    at_rate: None,
                    on_arrival: self.below(2) == 0,
                });
                shared.set_queues(&queues);
            }
            3 => {
                let sender = PortId(self.below(u64::from(SENDERS)) as u16);
                let classes = if self.below(2) == 0 { Class::new(3).alone() } else { ClassSet::EMPTY };
                shared.force_pause(sender, classes);
            }
            4 => {
                let [.., a] = self.below(200).to_be_bytes();
                let mac = MacAddr([2, 0, 0, 0, 7, a]);
                if !shared.fdb.remove_static(mac) {
                    shared.fdb.enter_static(mac, receiver);
                }
            }
            _ => {
                // Nobody is paused for good.
                (0..u16::from(SENDERS)).for_each(|port| shared.force_pause(PortId(port), ClassSet::EMPTY));
                shared.set_queues(&queues);
            }
        }
    }
}

/// All arrived, in order, and nothing is left behind.
fn check(what: &str, frames: u64, tally: &Tally, stopped: &Stopped) {
    let report = &stopped.reports[0];
    assert_eq!(tally.sent.load(Ordering::Relaxed), frames, "{what}");
    let lost = lost_to_the_machine(what, stopped, BitRate::mbps(300 * u64::from(SENDERS)));
    assert_eq!(tally.received.load(Ordering::Relaxed), frames - lost, "{what}");
    assert!(lost > 0 || tally.reordered.load(Ordering::Relaxed) == 0, "{what}: reordered or lost");
    assert_eq!(report.dropped(DropReason::HeadroomViolation), lost, "{what}");
    // The receiver's announcement went to its own port, and is all else that was dropped.
    assert_eq!((report.conservation.dropped - lost, report.dropped(DropReason::SamePort)), (1, 1), "{what}");
    assert_eq!(report.conservation.held(), 0, "{what}");
    assert_eq!(report.pool.used, Bytes::ZERO, "{what}");
    for class in report.ports.iter().flat_map(|port| &port.classes) {
        let left = [class.ingress.private, class.ingress.shared, class.ingress.headroom, class.egress];
        assert_eq!(left, [Bytes::ZERO; 4], "{what}");
        assert!(!class.ingress.off, "{what}: OFF and empty");
    }
    assert_eq!(stopped.mbufs_missing, 0, "{what}: mbufs leaked");
}
