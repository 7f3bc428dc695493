//! `[[changes]]`.

use weir_units::{Alpha, PortId, QueueId};

use super::*;
use crate::scenario::RuntimeChange;

const RUNS: &str = "[switch.classes]\npreset = \"roce\"\n[[switch.classes.queues]]\nclass = 3\n\
                    ecn = { kmin = \"10KB\", kmax = \"100KB\", pmax = 0.5 }\n\
                    [[runs]]\nname = \"DT\"\n[runs.switch.buffer]\npolicy = \"dt\"\n\
                    [[runs]]\nname = \"static\"\n[runs.switch.buffer]\npolicy = \"static\"\n";

fn change(at: &str, key: &str, value: &str, more: &str) -> String {
    format!("[[changes]]\nat = \"{at}\"\nkey = \"{key}\"\nvalue = {value}\n{more}\n")
}

fn refusal(changes: &str) -> String {
    let text = pair_text(&format!("{RUNS}{changes}"));
    parse(&here("tests/good/text.toml"), &text).map(drop).unwrap_err().render(false)
}

#[test]
fn each_change_keeps_the_earlier_ones() {
    let changes = [
        change("3ms", "classes.queues.3.ecn.kmin", "\"20KB\"", ""),
        change("1ms", "buffer.dt.alpha", "\"1/8\"", "run = \"DT\""),
        change("3ms", "classes.queues.0.weight", "4", ""),
        change("2ms", "buffer.static.threshold", "\"40KB\"", "run = \"static\""),
    ];
    let runs = pair(&format!("{RUNS}{}", changes.concat()));
    let brief = |change: &RuntimeChange| (change.at.as_nanos() / 1_000_000, change.key.clone(), change.value.clone());
    let [dt, fixed] = [0, 1].map(|run: usize| &runs[run].scenario.changes);
    let expected =
        [(1, "buffer.dt.alpha", "1/8"), (3, "classes.queues.3.ecn.kmin", "20KB"), (3, "classes.queues.0.weight", "4")];
    assert_eq!(
        dt.iter().map(brief).collect::<Vec<_>>(),
        expected.map(|(at, key, value)| (at, key.into(), value.into()))
    );
    assert_eq!(fixed.iter().map(|change| change.key.as_str()).collect::<Vec<_>>()[0], "buffer.static.threshold");
    for (n, change) in dt.iter().enumerate() {
        assert_eq!(change.switches.len(), 2);
        for config in &*change.switches {
            let queues = &config.classes.queues;
            assert_eq!(queues[3].ecn.unwrap().kmin, Bytes::kb(if n >= 1 { 20 } else { 10 }));
            assert_eq!(queues[0].quantum == 4 * queues[1].quantum, n == 2);
            let policy = weir_switch_core::buffer::buffer_mmu(
                config,
                weir_switch_core::buffer::buffer_layout(config).unwrap(),
                &[BitRate::gbps(10); 2],
            );
            let mmu = policy.unwrap();
            let shared = mmu.layout().shared();
            let threshold = mmu.ingress_usage(QueueId::new(PortId(0), Class::new(3)), Time::ZERO).threshold;
            assert_eq!(threshold, Alpha::ratio(1, 8).unwrap().scale(shared), "α = 1/8 of a free buffer");
        }
    }
    let needs = runs[0].scenario.needs_virtual_time().unwrap();
    assert_eq!(needs, "its switches' settings change in virtual time only");
    assert_eq!(pair("")[0].scenario.changes.len(), 0);
}

#[test]
fn wrong_changes_are_told_at_their_lines() {
    for (changes, message, line) in [
        (change("1ms", "buffer.dt.alpha", "\"0\"", "run = \"DT\""), "`alpha`", "value = \"0\""),
        (
            change("1ms", "buffer.dt.alpha", "\"1/8\"", ""),
            "`buffer.dt.alpha` is a key of policy \"dt\", and the policy is \"static\"",
            "key =",
        ),
        (change("1ms", "buffer.size", "\"2MB\"", ""), "`buffer.size` does not change during a run", "key ="),
        (change("1ms", "buffer.dt.beta", "1", "run = \"DT\""), "beta", "value = 1"),
        (change("1ms", "ports.p0.rate", "\"1Gbps\"", ""), "`ports.p0.rate` does not change during a run", "key ="),
        (change("1ms", "classes.queues.8.weight", "1", ""), "does not change during a run", "key ="),
        (change("11ms", "buffer.dt.alpha", "\"1/8\"", "run = \"DT\""), "`at`", "at ="),
        (change("1ms", "buffer.dt.alpha", "\"1/8\"", "run = \"SPFC\""), "no run is named \"SPFC\"", "run ="),
        (change("1ms", "classes.queues.3.ecn.kmin", "\"200KB\"", ""), "kmin", "value = \"200KB\""),
        ("[[changes]]\nat = \"1ms\"\n".to_owned(), "a change needs `key`", "changes"),
    ] {
        let refusal = refusal(&changes);
        assert!(refusal.contains(message) && refusal.contains(line), "{changes}: {refusal}");
    }
}
