//! Scenarios that `weir play` runs live, with the parameters that the page changes.

/// Scenario of the menu.
pub(super) struct LiveScenario {
    /// Name, as in its file.
    pub name: &'static str,
    pub title: &'static str,
    /// Hint to the audience: content of the picture, and a change to try.
    pub hint: &'static str,
    /// File, of one run or two.
    pub text: &'static str,
    pub parameters: &'static [LiveParameter],
    /// Charts of the page: ingress queues, `flows` or `pools`.
    pub charts: [&'static str; 2],
}

/// Parameter of a scenario. The line of its value in the file ends with the comment `# NAME`.
pub(super) struct LiveParameter {
    /// Name in the comment and in requests.
    pub name: &'static str,
    /// Label on the page.
    pub label: &'static str,
    /// Key in the line.
    key: &'static str,
    /// Key that changes during a run, if it can: as `weir set` has it.
    pub live_key: Option<&'static str>,
    /// Run that has it; `None` for all.
    pub run: Option<&'static str>,
    /// Values of the slider.
    pub values: &'static [&'static str],
}

const ALPHAS: &[&str] = &["1/64", "1/32", "1/16", "1/8", "1/4", "1/2", "1", "2", "4", "8", "16"];

/// All scenarios, in the order of the menu.
pub(super) const SCENARIOS: [LiveScenario; 5] = [
    LiveScenario {
        name: "incast",
        title: "Dynamic thresholds: who gets the buffer?",
        hint: "Two senders fill the buffer for good; four more send bursts. A queue above its threshold T = α × free buffer pauses its sender. \
               A large α leaves bursts no room; a small α leaves buffer unused.",
        text: include_str!("../../../scenarios/classroom/incast.toml"),
        parameters: &[LiveParameter {
            name: "alpha",
            label: "α",
            key: "alpha",
            live_key: Some("buffer.dt.alpha"),
            run: None,
            values: ALPHAS,
        }],
        charts: ["H1.3", "H4.3"],
    },
    LiveScenario {
        name: "ring",
        title: "Deadlock: PFC beside GFC",
        hint: "Three flows go around a ring. Under PFC each link waits for the next, for ever. GFC slows senders down instead of stopping \
               them: rates fall, and frames go on.",
        text: include_str!("../../../scenarios/classroom/ring.toml"),
        parameters: &[
            LiveParameter {
                name: "xoff",
                label: "Xoff (PFC)",
                key: "threshold",
                live_key: Some("buffer.static.threshold"),
                run: Some("PFC"),
                values: &["100KB", "200KB", "400KB", "600KB", "800KB", "900KB"],
            },
            LiveParameter {
                name: "b_1",
                label: "B_1 (GFC)",
                key: "b_1",
                live_key: None,
                run: Some("GFC"),
                values: &["100KB", "200KB", "300KB", "400KB", "500KB", "600KB", "700KB", "750KB"],
            },
        ],
        charts: ["S1.prev.3", "flows"],
    },
    LiveScenario {
        name: "victim",
        title: "A victim of PFC: DT beside SPFC",
        hint: "Bursts congest R1. Under DT the switch pauses H0 for it, and F2 to the idle R2 stops too: head-of-line blocking. SPFC spares \
               ports that still send at C / K_spfc. With K_spfc = 1 it is DT.",
        text: include_str!("../../../scenarios/classroom/victim.toml"),
        parameters: &[
            LiveParameter {
                name: "alpha",
                label: "α (DT)",
                key: "alpha",
                live_key: Some("buffer.dt.alpha"),
                run: Some("DT"),
                values: ALPHAS,
            },
            LiveParameter {
                name: "k_spfc",
                label: "K_spfc (SPFC)",
                key: "k_spfc",
                live_key: Some("buffer.spfc.k_spfc"),
                run: Some("SPFC"),
                values: &["1", "2", "3", "5", "8", "16", "64"],
            },
        ],
        charts: ["h0.3", "flows"],
    },
    LiveScenario {
        name: "headroom",
        title: "Headroom: how long is the link?",
        hint: "S2 pauses S1 at Xoff. Frames on the link by then must fit the headroom: about 2 × rate × delay. Lengthen the link until \
               lossless frames are lost.",
        text: include_str!("../../../scenarios/classroom/headroom.toml"),
        parameters: &[
            LiveParameter {
                name: "xoff",
                label: "Xoff",
                key: "threshold",
                live_key: Some("buffer.static.threshold"),
                run: None,
                values: &["20KB", "50KB", "100KB", "150KB", "200KB"],
            },
            LiveParameter {
                name: "headroom",
                label: "Headroom",
                key: "headroom",
                live_key: None,
                run: None,
                values: &["10KB", "20KB", "40KB", "60KB", "100KB", "150KB"],
            },
            LiveParameter {
                name: "delay",
                label: "Link delay",
                key: "delay",
                live_key: None,
                run: None,
                values: &["1us", "2us", "5us", "10us", "20us", "50us", "100us"],
            },
        ],
        charts: ["S2.left.3", "flows"],
    },
    LiveScenario {
        name: "ecn",
        title: "Lossless beside lossy: TCP without and with ECN",
        hint: "RDMA is lossless by PFC; TCP is not, and shares the buffer. Without ECN TCP grows until frames are dropped. With marks from \
               K_min on its queue stays short.",
        text: include_str!("../../../scenarios/classroom/ecn.toml"),
        parameters: &[
            LiveParameter {
                name: "kmin",
                label: "K_min",
                key: "kmin",
                live_key: Some("classes.queues.0.ecn.kmin"),
                run: Some("With ECN"),
                values: &["5KB", "10KB", "30KB", "60KB", "100KB", "200KB", "400KB"],
            },
            LiveParameter {
                name: "lossy_alpha",
                label: "α° (lossy)",
                key: "lossy_alpha",
                live_key: Some("buffer.lossy_alpha"),
                run: None,
                values: ALPHAS,
            },
            LiveParameter {
                name: "alpha",
                label: "α (lossless)",
                key: "alpha",
                live_key: Some("buffer.dt.alpha"),
                run: None,
                values: ALPHAS,
            },
        ],
        charts: ["h1.3", "pools"],
    },
];

impl LiveScenario {
    /// Returns the scenario of a name.
    pub(super) fn find(name: &str) -> Option<&'static LiveScenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Returns the parameter of a name.
    pub(super) fn parameter(&self, name: &str) -> Option<&'static LiveParameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

impl LiveParameter {
    /// Returns the value in a scenario's text.
    pub(super) fn value<'t>(&self, text: &'t str) -> &'t str {
        text[self.place(text)].trim_matches('"')
    }

    /// Returns a scenario's text with another value.
    pub(super) fn with_value(&self, text: &str, value: &str) -> String {
        let place = self.place(text);
        format!("{}{}{}", &text[..place.start], self.toml(text, value), &text[place.end..])
    }

    /// Returns a value as TOML: an integer where a scenario's text has one, else a string.
    pub(super) fn toml(&self, text: &str, value: &str) -> String {
        let is_integer = !text[self.place(text)].starts_with('"') && value.parse::<i64>().is_ok();
        if is_integer { value.to_owned() } else { format!("\"{value}\"") }
    }

    /// Place of the value, with its quotes.
    fn place(&self, text: &str) -> std::ops::Range<usize> {
        let comment = format!("# {}\n", self.name);
        let line_end = text.find(&comment).expect("each parameter has its line");
        let line_start = text[..line_end].rfind('\n').map_or(0, |before| before + 1);
        let key = format!("{} = ", self.key);
        let start = line_start + text[line_start..line_end].find(&key).expect("the line has the key") + key.len();
        let length = text[start..line_end].find([',', ' ', '}']).unwrap_or(line_end - start);
        start..start + length
    }
}

/// Checks the characters of a value. Its meaning is the scenario reader's to check.
///
/// # Errors
/// Advice on the form.
pub(super) fn check_value(value: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./-_+%".contains(c);
    if (1..=32).contains(&value.len()) && value.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!("`{}` is no value: write for example 1/8, 100KB or 10us", value.chars().take(40).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_scenario::file;

    use super::*;

    #[test]
    fn every_value_of_every_parameter_is_valid() {
        for scenario in &SCENARIOS {
            let parse = |text: &str| {
                file::parse(Path::new("live.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
            };
            let runs = parse(scenario.text);
            assert!((1..=2).contains(&runs.len()) && runs[0].scenario.name == scenario.name);
            for parameter in scenario.parameters {
                let first = parameter.value(scenario.text);
                assert!(parameter.values.contains(&first), "{} {first}", parameter.name);
                assert_eq!(parameter.with_value(scenario.text, first), scenario.text);
                assert!(parameter.run.is_none_or(|name| runs.iter().any(|run| run.name == name)));
                for value in parameter.values {
                    let text = parameter.with_value(scenario.text, value);
                    assert_eq!(parameter.value(&text), *value);
                    parse(&text);
                }
            }
        }
    }

    #[test]
    fn values_are_plain() {
        for value in ["1/8", "100KB", "12.5us", "-1"] {
            assert_eq!(check_value(value), Ok(()));
        }
        for value in ["", "\"", "1\n2", "a b", "é", &"1".repeat(33)] {
            assert!(check_value(value).is_err_and(|message| message.contains("is no value")), "{value:?}");
        }
    }
}
