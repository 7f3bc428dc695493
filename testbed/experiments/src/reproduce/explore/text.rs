//! Maps as text: on the terminal, and as a page of all maps.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::map::{ClaimMap, MapLine, MapLineKind};
use super::picture;
use crate::Failure;
use crate::files::{with_path, write_atomic};
use crate::reproduce::earlier_page::{self, EarlierPage};
use crate::reproduce::experiment::Experiment;
use crate::reproduce::outcome::{Environment, duration};
use crate::table::{Table, count};

/// Prints the parameters that the papers leave unspecified.
pub(super) fn list(all: &[Experiment]) {
    for experiment in all.iter().filter(|experiment| !experiment.paper.open.is_empty()) {
        println!("{}  {}", experiment.id, experiment.paper.title);
        for thing in &experiment.paper.open {
            println!("  {}: {} (taken: {})", thing.name, thing.names().join(", "), thing.taken);
            println!("      {}", thing.why);
        }
    }
}

pub(super) fn print(experiment: &Experiment, map: &ClaimMap, directory: &Path) {
    println!("  {}", experiment.place_in_paper());
    println!("  {}", extent(map));
    if !map.pins.is_empty() {
        println!("  pinned: {}", map.pins.join(", "));
    }
    if let Some(left_out) = &map.left_out {
        println!("  without {left_out}");
    }
    let mut table = Table::new(["holds in", "95 %", "as taken", "decided by", "claim"]).with_text_last();
    for line in &map.lines {
        let mark = match line.kind {
            MapLineKind::Main => "* ",
            MapLineKind::Together => "= ",
            _ => "  ",
        };
        table.row([
            line.share_shown(),
            if map.is_all && !line.is_open() { "all".to_owned() } else { line.interval_shown() },
            line.taken_shown(),
            line.decides.clone().unwrap_or_default(),
            format!("{mark}{}", line.statement),
        ]);
    }
    println!("\n{table}");
    println!("  (* a main claim of the paper)\n");
    println!("{}: {}", map.id, map.verdict);
    if let Some(tree) = &map.lines[0].tree {
        println!("  - {tree}");
    }
    for sentence in nearest(map) {
        println!("  - {sentence}");
    }
    println!("look at: {}", directory.join("map.svg").display());
    println!("results: {} (map.json, settings.csv)", directory.display());
}

fn extent(map: &ClaimMap) -> String {
    let of = match map.of {
        _ if map.is_all => "all that are listed".to_owned(),
        Some(of) => format!("of {}", count(of as u64)),
        None => "of more than a million".to_owned(),
    };
    let time = duration(map.cpu_ms as f64 / 1e3);
    format!(
        "{} settings of {} open things, {of}: {} runs, {time} of CPU time",
        map.settings,
        map.open.len(),
        count(map.runs as u64)
    )
}

/// Sentences on the nearest settings in which the main claims hold together, and in which all hold.
fn nearest(map: &ClaimMap) -> Vec<String> {
    let sentence = |what: &str, nearest: &Option<Vec<(String, String)>>| match nearest {
        None => format!("{what} in none of the settings that were run"),
        Some(changes) if changes.is_empty() => format!("{what} as taken"),
        Some(changes) => {
            let changes: Vec<String> = changes.iter().map(|(thing, value)| format!("{thing} = {value}")).collect();
            format!("{what}, nearest to what is taken, with {}", changes.join(", "))
        }
    };
    let mut sentences = vec![sentence("the main claims hold together", &map.nearest[0])];
    if map.nearest[0] != map.nearest[1] {
        sentences.push(sentence("all claims and stated numbers do", &map.nearest[1]));
    }
    sentences
}

pub(super) fn print_all(maps: &[ClaimMap]) {
    println!();
    for map in maps {
        println!("{}: {}", map.id, map.verdict);
    }
}

const HEAD: &str = "# Where the papers' claims hold

Made by `weir explore --document docs/CLAIMS.md` of the maps that `weir explore all` left; not written by hand; what has no map there stays as an earlier call wrote it. A paper leaves settings open: which variant of a congestion control, how long a link is, how
bursts are released. `weir reproduce` has to take one of each. A map tries the others too, and says in which share of the settings that the paper allows each of its claims holds, and
which setting decides. [EXPERIMENTS.md](EXPERIMENTS.md#maps-of-claims) says how. The headline is the share over all settings, and never a single one: values are those that a reader could take,
some of them listed as earlier runs had shown that they matter. *As taken* is what [REPRODUCTION.md](REPRODUCTION.md) has.

- **robust**: holds in nine of ten settings or more. **does not hold**: in one of ten or fewer. **fragile**: in between; what decides stands beside it. **too few settings**: the interval is wider than 30 points, and a longer `--cpu` is
  what helps. **open**: in most settings its seeds do not decide it.
- Settings are spread evenly over all that are listed (a Sobol sequence), or are all of them. A share's interval is Wilson's, of 95 %, and has no width where all were run. Shares say how claims depend on what is open; they are no probabilities,
  as nobody knows how likely each value is.
- **Decides**: the open thing with which most of the variance goes (first-order ω², at least 0.1, of twelve settings or more, and by chance in fewer than one of fifty permutations, times the number of things).

| figure | main claims together | decided by | robust claims | fragile claims | claims that do not hold | not decided | settings, CPU time |
|---|---|---|---|---|---|---|---|
";

/// Writes the page of all maps, with their pictures in a folder next to it.
pub(super) fn document(file: &Path, experiments: &[Experiment], results: &Path) -> Result<(), Failure> {
    let kept = EarlierPage::read(file);
    let mut maps = Vec::new();
    for experiment in experiments {
        let folder = results.join(&experiment.id);
        if let Some(map) = super::read(&folder)? {
            maps.push((experiment, map, super::read_environment(&folder)?));
        }
    }
    if maps.is_empty() {
        return Err(Failure::Argument(format!(
            "{}: there are no maps; run weir explore all first, or name their directory: -o DIR",
            results.display()
        )));
    }
    let pictures =
        file.with_extension("").file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    let picture_dir = file.parent().unwrap_or(Path::new("")).join("images").join(&pictures);
    fs::create_dir_all(&picture_dir).map_err(with_path(&picture_dir))?;
    let mut text = HEAD.to_owned();
    let map_of = |id: &str| maps.iter().find(|(_, map, _)| map.id == id);
    let (mut figures, mut settings, mut seconds) = (0, 0, 0.0);
    for experiment in experiments {
        let id = &experiment.id;
        match (map_of(id), kept.row(id)) {
            (Some((_, map, _)), _) => {
                summary_row(&mut text, map);
                (settings, seconds) = (settings + map.settings, seconds + map.cpu_ms as f64 / 1e3);
            }
            (None, Some(row)) => {
                let _ = writeln!(text, "{row}");
                settings += settings_of(row);
                seconds += kept.seconds(id, TIME_CELL);
            }
            (None, None) => continue,
        }
        figures += 1;
    }
    for experiment in experiments {
        let id = &experiment.id;
        if let Some((_, map, environment)) = map_of(id) {
            let name = format!("{id}.svg");
            let to = picture_dir.join(&name);
            fs::write(&to, picture::drawn(map)).map_err(with_path(&to))?;
            section(&mut text, experiment, map, environment.as_ref(), &format!("images/{pictures}/{name}"));
        } else if let Some(section) = kept.section(id) {
            let _ = writeln!(text, "{}", read_anew(section, &experiment.paper.map.reading));
        }
    }
    let _ = writeln!(
        text,
        "\nAll together: {figures} figures, {} settings, {} of CPU time.",
        count(settings as u64),
        duration(seconds)
    );
    let without = |is_open: bool| {
        let others = experiments.iter().filter(|it| map_of(&it.id).is_none() && kept.section(&it.id).is_none());
        let ids = others.filter(|experiment| experiment.paper.open.is_empty() != is_open).map(|it| it.id.as_str());
        ids.collect::<Vec<_>>().join(", ")
    };
    for (what, ids) in [("Not run", without(true)), ("Without a list of what is open", without(false))] {
        if !ids.is_empty() {
            let _ = writeln!(text, "{what}: {ids}.");
        }
    }
    write_atomic(file, |part| fs::write(part, text)).map_err(with_path(file))?;
    let of_earlier = match figures - maps.len() {
        0 => String::new(),
        some => format!(", and {some} as an earlier call wrote them"),
    };
    println!("{} maps{of_earlier}: {}", maps.len(), file.display());
    Ok(())
}

/// Markdown in front of the path of a section's picture.
const PICTURE: &str = "![Claims by the values of what is open]";

/// Markers around a section's reading, which is updated even if the map itself is missing here.
const READING: &str = "<!-- reading -->";
const READING_ENDS: &str = "<!-- end of reading -->";

/// Markdown of a section's reading: the explanation of robust and fragile claims by a reader of the map.
fn reading_section(reading: &str) -> String {
    let paragraph = if reading.is_empty() { String::new() } else { format!("{reading}\n\n") };
    format!("{READING}\n\n{paragraph}{READING_ENDS}")
}

/// Kept section with the current reading of `paper.toml`.
fn read_anew(section: &str, reading: &str) -> String {
    earlier_page::with_between(section, READING, READING_ENDS, &reading_section(reading))
}

/// Column with `288, 2 min`: number of settings, and their time.
const TIME_CELL: usize = 7;

fn settings_of(row: &str) -> usize {
    let cell = row.trim_matches('|').split('|').nth(TIME_CELL);
    cell.and_then(|cell| cell.split(',').next()?.trim().parse().ok()).unwrap_or(0)
}

fn summary_row(text: &mut String, map: &ClaimMap) {
    let lines: Vec<&MapLine> =
        map.lines.iter().filter(|line| matches!(line.kind, MapLineKind::Main | MapLineKind::Further)).collect();
    let how_many = |what: &str| lines.iter().filter(|line| line.robustness() == what).count();
    let all = match &map.lines[0] {
        line if line.is_open() => String::new(),
        _ if map.is_all => " (all)".to_owned(),
        line => format!(" ({})", line.interval_shown()),
    };
    let _ = writeln!(
        text,
        "| [{0}](#{1}) {2} | {3}{all} | {4} | {5} | {6} | {7} | {8} | {9}, {10} |",
        map.id,
        map.anchor(),
        map.title.replace('|', "\\|"),
        map.share_in_short(),
        map.lines[0].decides.as_deref().unwrap_or("-"),
        how_many("robust"),
        how_many("fragile"),
        how_many("does not hold"),
        how_many("too few settings") + how_many("open"),
        map.settings,
        duration(map.cpu_ms as f64 / 1e3),
    );
}

fn section(
    text: &mut String,
    experiment: &Experiment,
    map: &ClaimMap,
    environment: Option<&Environment>,
    picture: &str,
) {
    let made = environment.map_or_else(String::new, |environment| {
        let date = environment.provenance.started.split('T').next().unwrap_or("");
        format!(" Made {date}, commit `{}`.", environment.commit)
    });
    let extent = extent(map);
    let _ = writeln!(text, "\n## {}\n\n{}. {}. {extent}.{made}\n", map.id, map.title, experiment.place_in_paper());
    if let Some(left_out) = &map.left_out {
        let _ = writeln!(text, "Without {left_out}.\n");
    }
    let _ = writeln!(text, "**{}**\n", crate::reproduce::sentence::upper_first(&map.verdict));
    if let Some(tree) = &map.lines[0].tree {
        let _ = writeln!(text, "- {tree}");
    }
    for sentence in nearest(map) {
        let _ = writeln!(text, "- {sentence}");
    }
    let _ = writeln!(text, "\n{}", reading_section(&experiment.paper.map.reading));
    let _ = writeln!(text, "\n{PICTURE}({picture})\n");
    text.push_str("| claim | holds in | 95 % | as taken | | decided by |\n|---|---|---|---|---|---|\n");
    for line in map.lines.iter().filter(|line| line.of > 0) {
        let statement = match line.kind {
            MapLineKind::Together => format!("*{}*", line.statement),
            MapLineKind::Main => format!("**{}**", line.statement),
            _ => line.statement.clone(),
        };
        let source = if line.source.is_empty() { String::new() } else { format!(" [{}]", line.source) };
        let besides = [(line.open, "open"), (line.arithmetic, "arithmetic")].into_iter().filter(|(n, _)| *n > 0);
        let besides: Vec<String> = besides.map(|(n, what)| format!("{n} {what}")).collect();
        let besides = if besides.is_empty() { String::new() } else { format!(" ({})", besides.join(", ")) };
        let decided = match (&line.tree, &line.decides) {
            (Some(tree), _) => tree.clone(),
            (None, Some(thing)) => thing.clone(),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "| {}{} | {} of {}{besides}{} | {} | {} | {} | {} |",
            statement.replace('|', "\\|"),
            source.replace('|', "\\|"),
            line.holds,
            line.of,
            if line.is_open() { String::new() } else { format!(": {}", line.share_shown()) },
            if map.is_all && !line.is_open() { "all".to_owned() } else { line.interval_shown() },
            line.taken_shown(),
            line.robustness(),
            decided.replace('|', "\\|"),
        );
    }
    text.push_str("\nOpen:\n");
    for thing in &map.open {
        let values: Vec<String> = thing
            .values
            .iter()
            .enumerate()
            .map(|(n, value)| if n == thing.taken { format!("**{value}**") } else { value.clone() })
            .collect();
        let _ = writeln!(text, "- {}: {}. {}", thing.name, values.join(", "), thing.why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_section_has_the_reading_of_now() {
        let section = |reading: &str| {
            let told = reading_section(reading);
            format!(
                "\n## a.1\n\nA. 8 settings.\n\n**Holds.**\n\n- x: y\n\n{told}\n\n{PICTURE}(a.svg)\n\n| claim |\n- p: **1**"
            )
        };
        let (none, old) = (section(""), section("As it was."));
        assert!(section("It is fragile.").contains("\n\nIt is fragile.\n\n"));
        assert_eq!(read_anew(&none, "It is fragile."), section("It is fragile."));
        assert_eq!(read_anew(&old, "It is fragile."), section("It is fragile."));
        assert_eq!(read_anew(&old, ""), none);
        assert_eq!(read_anew("no place for one", "It is fragile."), "no place for one");
    }
}
