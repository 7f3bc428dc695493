//! Loom models of the state that lcores share with the control thread, under every interleaving: a port's word, run-time configuration,
//! published counters.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-switch-core --profile loom --lib loom_models`

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use loom::thread;
use weir_config::{StormCondition, SwitchConfig, WatchdogAction, WatchdogConfig};
use weir_flowctl::{CatchUp, MessageKind};
use weir_units::{BitRate, CLASSES, Class, ClassSet, PortId, Span, Time};
use weir_wire::mac_control::{ControlFrame, PfcFrame};

use crate::counters::CounterSnapshot;
use crate::shared::{LinkChange, PortState};
use crate::sync::{AtomicU64, Ordering};
use crate::{DriverConfig, PortInfo, Shared, Switch};

const PORT: PortId = PortId(0);
const CLASS: Class = Class::new(3);

/// Returns the switch's configuration, read outside of any model.
fn config() -> &'static SwitchConfig {
    static CONFIG: OnceLock<SwitchConfig> = OnceLock::new();
    let file = "[switch]\nfdb_size = 64\n[buffer]\nsize = \"1MB\"\nheadroom = \"20KB\"\n[classes]\nlossless = [3]\n[pfc_watchdog]\naction = \"alert\"\n\
        [[ports]]\nname = \"a\"\nring = \"a\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n";
    let read = || weir_config::parse("switch.toml", file).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    CONFIG.get_or_init(read)
}

/// Explores a control thread and a concurrent transmitter. `check` runs after both, with the value that the transmitter returns.
fn explore<T: 'static>(
    control: impl Fn(&Shared) + Send + Sync + Copy + 'static,
    transmitter: impl Fn(&Shared) -> T + Send + Sync + Copy + 'static,
    check: impl Fn(&Shared, T) + Send + Sync + 'static,
) {
    let config = config();
    loom::model(move || {
        let switch = Switch::new(config, &[PortInfo::default(); 2], DriverConfig::real_time(CatchUp::NONE)).unwrap();
        let shared = switch.shared().clone();
        drop(switch);
        let of_transmitter = shared.clone();
        let running = thread::spawn(move || transmitter(&of_transmitter));
        control(&shared);
        let seen = running.join().unwrap();
        check(&shared, seen);
    });
}

/// A link goes and comes while the port's transmitter sets a storm: the transmitter learns that the link was gone, and that it is there; the
/// storm stays set.
#[test]
fn a_link_loss_is_seen() {
    explore(
        |shared| {
            shared.set_link_up(PORT, false);
            shared.set_link_up(PORT, true);
        },
        |shared| {
            let change = shared.port(PORT).take_link_change();
            shared.set_storms(PORT, CLASS.alone(), CLASS.alone());
            change
        },
        |shared, first| {
            let state = shared.port(PORT);
            let changes = [first, state.take_link_change()];
            assert!(changes.iter().flatten().any(|change| *change != LinkChange::Up), "{changes:?}");
            assert_ne!(changes.into_iter().flatten().last(), Some(LinkChange::Down));
            assert!(state.has_known_link() && !shared.accepts(PORT, CLASS) && state.in_storm() == CLASS.alone());
        },
    );
}

/// A port is closed and opened while its transmitter ends a storm: neither is lost.
#[test]
fn a_port_opens_as_a_storm_ends() {
    explore(
        |shared| {
            shared.set_port_state(PORT, weir_config::PortState::Down);
            shared.set_port_state(PORT, weir_config::PortState::Blocked);
        },
        |shared| {
            shared.set_storms(PORT, CLASS.alone(), CLASS.alone());
            shared.set_storms(PORT, ClassSet::EMPTY, ClassSet::EMPTY);
        },
        |shared, ()| {
            let state = shared.port(PORT);
            assert_eq!((state.admin_state(), state.in_storm()), (weir_config::PortState::Blocked, ClassSet::EMPTY));
            assert_eq!(state.take_link_change(), Some(LinkChange::Flapped));
        },
    );
}

/// A message is handled, and then the link goes and comes: a transmitter that sees the loss knows that the message came before.
#[test]
fn messages_before_a_link_loss_are_discarded() {
    let pause = PfcFrame { enabled: CLASS.alone(), times: [100; CLASSES] };
    explore(
        move |shared| {
            assert!(shared.port(PORT).regulator.handle(Time::from_nanos(5), &ControlFrame::Pfc(pause)));
            shared.set_link_up(PORT, false);
            shared.set_link_up(PORT, true);
        },
        |shared| {
            let state = shared.port(PORT);
            let is_lost = state.take_link_change().is_some();
            is_lost && state.has_heard_since_link_loss()
        },
        |_, is_mistaken| assert!(!is_mistaken),
    );
}

/// Whether a transmitter finds a change other than the link's.
fn takes_changes(state: &PortState) -> bool {
    let changes = state.take_pending_changes();
    changes.rate || changes.flow_control || changes.runtime_config
}

/// Explores changes by the control thread while a transmitter takes them over: in the end it has read the last values.
fn explore_reload<V: PartialEq + Debug + 'static>(
    control: impl Fn(&Shared) + Send + Sync + Copy + 'static,
    takes: fn(&PortState) -> bool,
    read: impl Fn(&Shared) -> V + Send + Sync + Copy + 'static,
) {
    let take_over = move |shared: &Shared| takes(shared.port(PORT)).then(|| read(shared));
    explore(control, take_over, move |shared, seen| {
        let seen = take_over(shared).or(seen).expect("a change that is taken over");
        assert_eq!(seen, read(shared));
        assert!(shared.port(PORT).has_known_link());
    });
}

/// A class becomes strict, and is forced to pause in another run: one change would publish the other.
#[test]
fn the_last_configuration_is_taken_over() {
    let set_strict = |shared: &Shared| {
        let mut queues = config().classes.queues.clone();
        queues[CLASS.index()].strict = true;
        shared.set_queues(&queues);
    };
    explore_reload(set_strict, takes_changes, |shared| shared.runtime_config.strict());
    let force = |shared: &Shared| shared.force_pause(PORT, CLASS.alone());
    explore_reload(force, takes_changes, |shared| shared.port(PORT).forced_pause());
}

/// The watchdog's times change twice while a transmitter reads them: all values that it reads are valid, the last ones new.
#[test]
fn times_read_during_a_change_are_valid() {
    let config = |times: [u64; 3]| {
        let [detection_time, restoration_time, poll_interval] = times.map(Span::from_micros);
        let (action, condition) = (WatchdogAction::Drop, StormCondition::QueueStalled);
        WatchdogConfig { detection_time, restoration_time, poll_interval, action, condition }
    };
    let control =
        move |shared: &Shared| [[8, 9, 7], [2, 3, 1]].into_iter().for_each(|times| shared.set_watchdog(&config(times)));
    explore_reload(control, takes_changes, |shared| {
        let config = shared.runtime_config.watchdog().expect("a watchdog");
        assert!(config.poll_interval <= config.detection_time.min(config.restoration_time), "{config:?}");
        config
    });
}

/// A port follows its link's speed, or has a rate.
#[test]
fn the_last_rate_is_taken_over() {
    let follow = |shared: &Shared| {
        shared.set_link_rate(PORT, BitRate::gbps(25));
    };
    explore_reload(follow, PortState::take_new_rate, |shared| shared.port(PORT).rate());
    let set = |shared: &Shared| {
        shared.set_rate(PORT, Some(BitRate::gbps(1)));
    };
    explore_reload(set, takes_changes, |shared| (shared.port(PORT).rate(), shared.port(PORT).rate.follows()));
}

/// A port changes to PAUSE, and to no flow control.
#[test]
fn the_last_flow_control_is_taken_over() {
    let control = |shared: &Shared| {
        let changes = [MessageKind::Pause, MessageKind::Nothing];
        assert!(changes.into_iter().all(|kind| shared.set_flow_control(PORT, kind)));
    };
    explore_reload(control, takes_changes, |shared| shared.port(PORT).flow_control().message_kind());
}

/// An lcore counts frames, each in two counters, and publishes them while a reader asks twice: each answer is consistent, and newer than
/// the last.
#[test]
fn an_answer_follows_its_request() {
    loom::model(|| {
        let published = Arc::new(CounterSnapshot::new());
        let _ = published.copy(2);
        let of_lcore = published.clone();
        let lcore = thread::spawn(move || {
            for frames in 1..=2 {
                if let Some(request) = of_lcore.requested() {
                    of_lcore.publish(request, || of_lcore.copy(2).iter().for_each(|slot| store(slot, frames)));
                }
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            let request = published.request();
            if published.is_served(request) {
                let values: Vec<u64> = published.values().collect();
                assert!(values[0] == values[1] && values[0] > last, "{values:?} after {last}");
                last = values[0];
            }
        }
        lcore.join().unwrap();
    });
}

fn store(slot: &AtomicU64, value: u64) {
    slot.store(value, Ordering::Relaxed);
}
