//! Earlier results in a rewritten page: figures without results here keep their rows and sections, with their dates.
//! Results take gigabytes and are not kept, but pages are.

use std::fs;
use std::path::Path;

use super::verdict::Verdict;

/// Page of an earlier call; empty if there is none.
#[derive(Debug, Default)]
pub(super) struct EarlierPage {
    text: String,
}

impl EarlierPage {
    pub(super) fn read(file: &Path) -> EarlierPage {
        EarlierPage { text: fs::read_to_string(file).unwrap_or_default() }
    }

    /// Row of a figure in the page's first table, if it has results.
    pub(super) fn row(&self, id: &str) -> Option<&str> {
        let begin = format!("| [{id}](#");
        self.text.lines().find(|line| line.starts_with(&begin) && !line.contains("| not run |"))
    }

    /// Section of a figure from its heading, with an empty line before and none after.
    pub(super) fn section(&self, id: &str) -> Option<&str> {
        let heading = format!("\n## {id}");
        let mut places = self.text.match_indices(&heading).map(|(place, _)| place);
        // gfc.1 is no match for gfc.12.
        let from = places.find(|place| self.text[place + heading.len()..].starts_with(['\n', ':']))?;
        let after = from + heading.len();
        let ends = ["\n## ", "\nAll together"].map(|end| self.text[after..].find(end).map(|place| after + place));
        let to = ends.into_iter().flatten().min().unwrap_or(self.text.len());
        Some(self.text[from..to].trim_end())
    }

    /// Verdict in a row: the only bold cell, since its column differs between pages.
    pub(super) fn verdict(&self, id: &str) -> Option<Verdict> {
        let cell = cells(self.row(id)?).find_map(|cell| cell.strip_prefix("**")?.strip_suffix("**"))?;
        let all = [Verdict::Holds, Verdict::HoldsInPart, Verdict::DoesNotHold, Verdict::NotJudged, Verdict::Arithmetic];
        all.into_iter().find(|verdict| verdict.to_string() == cell)
    }

    /// Time at the end of a row's cell, `348, 2 min`, in seconds.
    pub(super) fn seconds(&self, id: &str, cell: usize) -> f64 {
        let time = || super::units::seconds(&cells(self.row(id)?).nth(cell)?.rsplit(", ").next()?.replace(' ', ""));
        time().unwrap_or(0.0)
    }

    /// Machines in the line on the total time.
    pub(super) fn machines(&self) -> impl Iterator<Item = &str> {
        let line = self.text.lines().find(|line| line.starts_with("All together took "));
        let machines = line.and_then(|line| Some(line.split_once(" on ")?.1.trim_end_matches('.')));
        machines.into_iter().flat_map(|machines| machines.split(", "))
    }
}

pub(super) fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim_matches('|').split('|').map(str::trim)
}

pub(super) fn with_cell(row: &str, place: usize, cell: &str) -> String {
    let cells = cells(row).enumerate().map(|(n, is)| if n == place { cell } else { is });
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Replaces the text from `from` to `to`, both included; returns the text unchanged if it lacks them.
pub(super) fn with_between(text: &str, from: &str, to: &str, new: &str) -> String {
    let place = text.find(from).and_then(|start| Some((start, start + text[start..].find(to)? + to.len())));
    place.map_or_else(|| text.to_owned(), |(start, end)| format!("{}{new}{}", &text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> EarlierPage {
        let text = "# Figures\n\n3 experiments: 1 hold.\n\n| figure | verdict | numbers | open | runs | made |\n|---|---|\n\
            | [a.1](#a1-one) One | **holds in part** | 1 of 2 | 3 % of 4 settings | 348, 2 min | 2026-11-25 |\n\
            | [a.2](#a2-two) Two | not run | | | | |\n\
            | [a.12](#a12-more) More | **holds** | | | 3, 2.5 h | 2026-11-24 |\n\n\
            All together took 3 h of CPU time on One (2 cores), Other (4 cores).\n\n\
            ## a.12: More\n\nThe paper: b.\n\n## a.1: One\n\nThe paper: a. Over it [holds in 3 %](C#a1). All.\n\n![Fig](a.svg)\n\n\
            ## a.2: Two\n\nNot run.\n";
        EarlierPage { text: text.to_owned() }
    }

    #[test]
    fn rows_and_sections_of_earlier_results_stay() {
        let kept = kept();
        assert!(kept.row("a.1").unwrap().starts_with("| [a.1](#a1-one) One |"));
        assert_eq!((kept.row("a.2"), kept.row("a.3"), kept.section("a.3")), (None, None, None));
        assert_eq!(kept.section("a.12"), Some("\n## a.12: More\n\nThe paper: b."));
        let section = kept.section("a.1").unwrap();
        assert!(section.starts_with("\n## a.1: One\n") && section.ends_with("![Fig](a.svg)"), "{section}");
        assert_eq!(kept.verdict("a.1"), Some(Verdict::HoldsInPart));
        assert_eq!((kept.verdict("a.12"), kept.verdict("a.2")), (Some(Verdict::Holds), None));
        assert_eq!((kept.seconds("a.1", 4), kept.seconds("a.12", 4), kept.seconds("a.2", 4)), (120.0, 9_000.0, 0.0));
        assert_eq!(kept.machines().collect::<Vec<_>>(), ["One (2 cores)", "Other (4 cores)"]);
        assert_eq!(EarlierPage::default().machines().count(), 0);
    }

    /// Pages of real frames and hosts have a separate column for the title.
    #[test]
    fn a_verdict_is_found_behind_a_title_too() {
        let text = "| id | what | verdict |\n|---|---|---|\n| [a.1](#a1) | One, Fig. 1 | **does not hold** | 1 / 2 | 3, 2 min | |\n";
        assert_eq!(EarlierPage { text: text.to_owned() }.verdict("a.1"), Some(Verdict::DoesNotHold));
    }

    #[test]
    fn what_a_map_says_anew_stands_in_a_kept_row_and_section() {
        let kept = kept();
        let row = with_cell(kept.row("a.1").unwrap(), 3, "9 % of 8 settings");
        assert_eq!(
            row,
            "| [a.1](#a1-one) One | **holds in part** | 1 of 2 | 9 % of 8 settings | 348, 2 min | 2026-11-25 |"
        );
        let section = with_between(kept.section("a.1").unwrap(), "it [", "](C#a1).", "it [holds in 9 %](C#a1).");
        assert!(section.contains("The paper: a. Over it [holds in 9 %](C#a1). All."), "{section}");
        assert_eq!(with_between("as it is", "x", "y", "z"), "as it is");
    }
}
