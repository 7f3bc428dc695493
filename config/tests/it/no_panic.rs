//! No text makes the parser or the reports panic.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use weir_config::{check_process, parse};

/// Whole files to start from, good and bad.
fn seeds() -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = vec![fs::read_to_string(here.join("../docs/CONFIGURATION.md")).unwrap()];
    texts = texts[0].split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect();
    for folder in ["../scenarios", "tests/bad"] {
        for entry in fs::read_dir(here.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // 66 ports make each case slow, and no panic likelier.
            if path.extension().is_some_and(|end| end == "toml") && !path.ends_with("many_ports.toml") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

fn read(text: &str) {
    match parse("lab.toml", text) {
        Ok(config) => {
            let _ = (config.shared_size(), config.egress_lossy_pool());
            assert!(config.shared_size() + config.headroom_size() <= config.buffer.size);
            for port in 0..config.ports.len() {
                assert!(config.clones_of(port).all(|clone| config.real_port(clone) == port));
                assert!(config.b_m_by_default(port) <= config.kept_for_a_queue(port));
                assert!(!config.ports[port].flow_control.label().is_empty());
            }
            let _ = check_process(&[config.clone(), config]).map_err(|errors| errors.render(false));
        }
        Err(errors) => {
            assert!(errors.iter().count() > 0);
            assert!(!errors.render(false).is_empty() && !errors.render(true).is_empty());
            assert!(!errors.to_string().is_empty());
        }
    }
}

/// Replacements for a part of a file: unusual values of each kind.
fn splinters() -> impl Strategy<Value = String> {
    let odd = [
        "",
        "\"",
        "'",
        "=",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "#",
        ".",
        ",",
        "-1",
        "0",
        "1e999",
        "nan",
        "inf",
        "18446744073709551616",
        "\"18446744073709551615GiB\"",
        "\"99999999999Tbps\"",
        "\"1000000s\"",
        "true",
        "[[ports]]",
        "[buffer.dt]",
        "1979-05-27",
        "\"auto\"",
        "\"µs\"",
        "\u{feff}",
        "\u{0}",
        "é",
        "🦀",
        "\\u0000",
        "0x10",
        "1_0",
    ];
    prop_oneof![prop::sample::select(odd.map(str::to_owned).to_vec()), "[ -~]{0,8}", "\\PC{0,6}", "[0-9]{1,22}",]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text(text in "(\\PC|\n|\r|\t){0,200}") {
        read(&text);
    }

    #[test]
    fn text_that_looks_like_a_file(
        lines in prop::collection::vec((
            prop::sample::select(vec!["size", "mtu", "name", "alpha", "[buffer]", "[switch]", "[[ports]]", "[classes.dscp]", "lossless",
                "rate", "cores", "ecn", "pcap", "null", "26", "\"0-63\"", "ring", "delay", "policy", "static",
                "[buffer.dsh]", "k", "w_g", "[buffer.reverie]", "gamma", "clone_of",
                "flow_control", "[ports.flow_control]", "kind", "peer", "pulse_period", "b_m", "b_1", "[pfc_watchdog]",
                "poll_interval"]),
            splinters(),
        ), 0..30)
    ) {
        let text: String = lines.iter().map(|(key, value)| {
            if key.starts_with('[') { format!("{key}\n") } else { format!("{key} = {value}\n") }
        }).collect();
        read(&text);
    }

    #[test]
    fn mutated_files(
        seed in prop::sample::select(seeds()),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, splinters()), 1..4)
    ) {
        let mut characters: Vec<char> = seed.chars().collect();
        for (at, length, splinter) in cuts {
            let start = at.index(characters.len() + 1);
            let end = (start + length).min(characters.len());
            characters.splice(start..end, splinter.chars());
        }
        read(&characters.into_iter().collect::<String>());
    }

    #[test]
    fn mutated_values(
        seed in prop::sample::select(seeds()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), splinters()), 1..4)
    ) {
        let mut lines: Vec<String> = seed.lines().map(str::to_owned).collect();
        for (at, splinter) in changes {
            let index = at.index(lines.len());
            let line = &mut lines[index];
            *line = match line.split_once('=') {
                Some((key, _)) => format!("{key}= {splinter}"),
                None => splinter,
            };
        }
        read(&lines.join("\n"));
    }
}

#[test]
fn the_deepest_tree_that_toml_allows() {
    let key = ["a"; 76].join(".");
    let text = format!("[{key}]\n{}1{}", format!("{key} = {{ ").repeat(75), "}".repeat(75));
    read(&text);
    let text = format!("[{key}]\n{}{}", format!("{key} = {{ ").repeat(75), "}".repeat(75));
    read(&text);
}
