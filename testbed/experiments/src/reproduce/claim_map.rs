//! Map of claims, `map.json`: number of settings in which each claim holds, the deciding parameter, and where all
//! claims hold together.

use serde::{Deserialize, Serialize};

use super::verdict::Judgement;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimMap {
    pub format: String,
    pub id: String,
    pub title: String,
    /// Summary in one line; empty until composed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// Settings that ran. `of` counts all settings; `None` above a million.
    pub settings: usize,
    pub of: Option<usize>,
    /// True if every setting ran, so that shares are exact.
    pub is_all: bool,
    /// Seeds per setting; 0 in a map of a version that did not record them.
    #[serde(default)]
    pub seeds: usize,
    /// Number of runs; `cpu_ms` is the CPU time of all of them.
    pub runs: usize,
    pub cpu_ms: u64,
    pub left_out: Option<String>,
    /// `NAME=VALUE` restrictions of the map.
    pub pins: Vec<String>,
    pub open: Vec<MapParameter>,
    /// The main claims together; all claims and numbers together; and then each.
    pub lines: Vec<MapLine>,
    /// Changes from the default setting to the nearest one in which the main claims hold together, and to that in which
    /// all hold.
    pub nearest: [Option<Vec<(String, String)>>; 2],
}

/// Parameter that the paper leaves unspecified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapParameter {
    pub name: String,
    pub why: String,
    pub values: Vec<String>,
    /// Index of the default value: stated by the paper, or used by `weir reproduce`.
    pub taken: usize,
}

/// Claim over all settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapLine {
    pub kind: MapLineKind,
    #[serde(rename = "says")]
    pub statement: String,
    pub source: String,
    /// Settings in which the claim holds. `open` counts undecided ones, `arithmetic` those in which it could not have
    /// failed, `of` all judged ones.
    pub holds: usize,
    pub open: usize,
    pub arithmetic: usize,
    pub of: usize,
    pub share: f64,
    /// 95 % confidence interval; the share itself if every setting ran.
    pub interval: (f64, f64),
    /// Whether the claim holds in the default setting; `None` if not judged there.
    pub taken: Option<bool>,
    /// Judgement in the default setting; `None` if not judged there, or in a map of a version that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_is: Option<Judgement>,
    /// Share of the variance explained by each unspecified parameter, in their order, and the probability that chance
    /// explains as much. This list, `by_value` and `slice` are empty in a stored map that did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub influence: Vec<(f64, f64)>,
    /// Name of the deciding parameter.
    pub decides: Option<String>,
    /// Decision tree in words.
    pub tree: Option<String>,
    /// Settings in which the claim holds, and judged settings, for each value of each parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_value: Vec<Vec<(usize, usize)>>,
    /// Counts for each pair of values of the two most influential parameters.
    #[serde(default)]
    pub slice: Option<Slice>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slice {
    /// Indices of the parameters: horizontal, then vertical.
    pub things: [usize; 2],
    /// Settings in which the claim holds, and judged settings, row by row.
    pub counts: Vec<Vec<(usize, usize)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MapLineKind {
    Together,
    Main,
    Further,
    Number,
}

impl ClaimMap {
    pub(super) const FORMAT: &str = "weir-map-1";

    /// Identifier of the paper: `gfc` of `gfc.9`.
    pub(super) fn paper_id(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }

    /// Confidence interval of a claim for a table; `all` if no setting is left out.
    pub(super) fn interval_shown(&self, line: &MapLine) -> String {
        if self.is_all && !line.is_open() { "all".to_owned() } else { line.interval_shown() }
    }

    /// Summary in one line.
    pub(super) fn in_one_line(&self) -> String {
        let main = &self.lines[0];
        let of = if self.is_all { format!("all {} of them", self.settings) } else { main.interval_shown() };
        let seeds = match self.seeds {
            0 => "its seeds".to_owned(),
            1 => "its one seed".to_owned(),
            seeds => format!("its {seeds} seeds"),
        };
        let more = format!(
            "more seeds would decide it, and take longer (weir explore {} --seeds {}, with a longer --cpu)",
            self.id,
            (4 * self.seeds).max(8)
        );
        if main.is_open() {
            let (of, fails) = (main.of, main.of - main.holds - main.open);
            let others = match main.holds + fails {
                0 => format!("is decided by {seeds} in none of the {of} settings that were run"),
                1 => format!(
                    "is decided by {seeds} in 1 of the {of} settings that were run, and {} there",
                    if fails == 1 { "fails" } else { "holds" }
                ),
                decided => format!(
                    "is decided by {seeds} in {decided} of the {of} settings that were run, and holds in {} of these",
                    main.holds
                ),
            };
            return format!("{others}; {more}");
        }
        let decided = match (&main.decides, main.holds) {
            (Some(thing), _) => format!("{thing} decides"),
            (None, 0) if main.open > 0 => "none of what is open makes it hold for sure".to_owned(),
            (None, 0) => "none of what is open makes it hold".to_owned(),
            (None, holds) if holds == main.of => "nothing that is open changes that".to_owned(),
            (None, _) => "no single thing decides".to_owned(),
        };
        let open = match main.open {
            0 => String::new(),
            open => format!(", and is not decided by {seeds} in {open} of {}", main.of),
        };
        format!("holds in {} of the allowed settings ({of}){open}; {decided}", main.share_shown())
    }

    /// Share of settings in which the main claims hold together, for a table.
    pub(super) fn share_in_short(&self) -> String {
        let main = &self.lines[0];
        if main.is_open() { format!("not decided in {} of {}", main.open, main.of) } else { main.share_shown() }
    }

    /// Rewrites the summary line in this version's words: an earlier version may have used others.
    pub(super) fn with_updated_verdict(mut self) -> ClaimMap {
        self.verdict = self.in_one_line();
        self
    }
}

impl MapLine {
    /// Share for a table: `62 %`; "open" if most settings are undecided.
    pub(super) fn share_shown(&self) -> String {
        match self.of {
            0 => "-".to_owned(),
            _ if self.is_open() => "open".to_owned(),
            _ => format!("{:.0} %", 100.0 * self.share),
        }
    }

    /// Confidence interval for a table: `54-70 %`.
    pub(super) fn interval_shown(&self) -> String {
        if self.is_open() {
            return "-".to_owned();
        }
        format!("{:.0}-{:.0} %", 100.0 * self.interval.0, 100.0 * self.interval.1)
    }

    /// Whether most settings are undecided with these seeds.
    pub(super) fn is_open(&self) -> bool {
        2 * self.open > self.of
    }

    /// Judgement in the default setting, for a table.
    pub(super) fn taken_shown(&self) -> String {
        match (self.taken_is, self.taken) {
            (Some(judgement), _) => judgement.to_string(),
            (None, Some(true)) => "holds".to_owned(),
            (None, Some(false)) => "fails".to_owned(),
            (None, None) => "-".to_owned(),
        }
    }

    /// Robustness of the claim in words: robust, fragile or false over the settings, or the reason why this is unknown.
    pub(super) fn robustness(&self) -> &'static str {
        const NEARLY: f64 = 0.9;
        const WIDE: f64 = 0.3;
        match self.share {
            _ if self.of == 0 => "not looked at",
            _ if self.is_open() => "open",
            _ if self.interval.1 - self.interval.0 > WIDE => "too few settings",
            share if share >= NEARLY => "robust",
            share if share <= 1.0 - NEARLY => "does not hold",
            _ => "fragile",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::statistics;

    /// Map of `of` settings: the main claims hold together in `holds` of them and are undecided in `open`.
    fn map(holds: usize, open: usize, of: usize) -> ClaimMap {
        let share = statistics::share(holds, of).unwrap();
        let main = MapLine {
            kind: MapLineKind::Together,
            statement: String::new(),
            source: String::new(),
            holds,
            open,
            arithmetic: 0,
            of,
            share: share.value,
            interval: share.bounds(),
            taken: Some(false),
            taken_is: Some(Judgement::Undecided),
            influence: Vec::new(),
            decides: None,
            tree: None,
            by_value: Vec::new(),
            slice: None,
        };
        ClaimMap {
            format: ClaimMap::FORMAT.to_owned(),
            id: "dsh.16".to_owned(),
            title: String::new(),
            verdict: String::new(),
            settings: of,
            of: Some(96),
            is_all: false,
            seeds: 2,
            runs: of,
            cpu_ms: 0,
            left_out: None,
            pins: Vec::new(),
            open: Vec::new(),
            lines: vec![main],
            nearest: [None, None],
        }
    }

    #[test]
    fn what_the_seeds_leave_open_is_no_finding() {
        let more = "more seeds would decide it, and take longer (weir explore dsh.16 --seeds 8, with a longer --cpu)";
        for (map, says) in [
            (map(0, 80, 80), format!("is decided by its 2 seeds in none of the 80 settings that were run; {more}")),
            (
                map(0, 60, 80),
                format!("is decided by its 2 seeds in 20 of the 80 settings that were run, and holds in 0 of these; {more}"),
            ),
            (map(1, 5, 6), format!("is decided by its 2 seeds in 1 of the 6 settings that were run, and holds there; {more}")),
            (map(0, 5, 6), format!("is decided by its 2 seeds in 1 of the 6 settings that were run, and fails there; {more}")),
            // With most settings decided, the share is a finding, and the undecided ones are reported.
            (
                map(0, 20, 80),
                "holds in 0 % of the allowed settings (0-5 %), and is not decided by its 2 seeds in 20 of 80; none of what \
                 is open makes it hold for sure"
                    .to_owned(),
            ),
            (
                map(0, 0, 80),
                "holds in 0 % of the allowed settings (0-5 %); none of what is open makes it hold".to_owned(),
            ),
            (
                map(40, 0, 80),
                "holds in 50 % of the allowed settings (39-61 %); no single thing decides".to_owned(),
            ),
        ] {
            assert_eq!(map.in_one_line(), says);
            assert_eq!(map.with_updated_verdict().verdict, says);
        }
        assert_eq!(
            (map(0, 60, 80).share_in_short(), map(0, 0, 80).share_in_short()),
            ("not decided in 60 of 80".to_owned(), "0 %".to_owned())
        );
        assert_eq!(
            (map(0, 60, 80).lines[0].robustness(), map(0, 60, 80).lines[0].taken_shown()),
            ("open", "open".to_owned())
        );
    }

    #[test]
    fn maps_of_an_earlier_version_are_read() {
        let mut json = serde_json::to_value(map(0, 0, 80)).unwrap();
        json.as_object_mut().unwrap().remove("seeds");
        json["lines"][0].as_object_mut().unwrap().remove("taken_is");
        let read: ClaimMap = serde_json::from_value(json).unwrap();
        assert_eq!((read.seeds, read.lines[0].taken_shown()), (0, "fails".to_owned()));
    }
}
