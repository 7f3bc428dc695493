//! Changing a running switch: `weir set`, `weir reload`, `weir config`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use weir_control::protocol::{Reply, Request};
use weir_control::runtime_config::{
    Assignment, Change, ChangeOutcome, ChangeReport, Configuration, Difference, Differences, SetRequest, SwitchSelector,
};
use weir_experiments::Failure;
use weir_experiments::files::{json_text, write_atomic};
use weir_experiments::table::Table;
use weir_units::Span;

use crate::control::{Target, failure};

/// Arguments of `weir set`.
#[derive(clap::Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    target: Target,
    /// Duration of the change, such as 10s or 500ms; then the old values return.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Keys of the switch's file with their values, all or none of them: buffer.dt.alpha=1/8 ports.p0.rate=5Gbps
    /// classes.queues.3.weight=2 ports.p0.state=down static_macs.02:00:00:00:00:01=p0 ports.p0.pause=3. The value `default` leaves
    /// a key to its default.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = assignment)]
    changes: Vec<Assignment>,
}

/// Arguments of `weir reload`.
#[derive(clap::Args)]
pub(crate) struct ReloadArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `weir config`.
#[derive(clap::Args)]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print the running configuration, as a file for `weir run`.
    Show,
    /// Write the running configuration to the file that the switch was started with, or to another.
    Save {
        /// Another file than the switch was started with.
        #[arg(value_name = "SWITCH.toml")]
        file: Option<PathBuf>,
    },
    /// Print the differences between the file that the switch was started with and the running configuration.
    Diff,
}

/// Runs `weir set`: changes keys of a running switch.
pub(crate) fn set(arguments: &SetArguments) -> Result<(), Failure> {
    let SetArguments { target, lasts, json, changes } = arguments;
    let for_ms = lasts.map(|lasts| lasts.as_millis() as u64);
    let request = Request::Set(SetRequest { switch: target.switch.clone(), changes: changes.clone(), for_ms });
    apply_changes(target, &request, *json)
}

/// Runs `weir reload`: applies the configuration files.
pub(crate) fn reload(arguments: &ReloadArguments) -> Result<(), Failure> {
    let ReloadArguments { target, json } = arguments;
    apply_changes(target, &Request::Reload(selector(target)), *json)
}

/// Shows, saves or compares the running configuration.
pub(crate) fn config(arguments: &ConfigArguments) -> Result<(), Failure> {
    let ConfigArguments { target, json, what } = arguments;
    match what {
        ConfigCommand::Show => {
            let configurations = configurations(target)?;
            if *json {
                print!("{}", json_text(&configurations));
                return Ok(());
            }
            configurations.iter().for_each(|configuration| print!("{}", configuration.text));
            Ok(())
        }
        ConfigCommand::Save { file } => {
            // Saves even if the present file is invalid or missing.
            let differences = if file.is_none() { differences(target).unwrap_or_default() } else { Vec::new() };
            save(&configurations(target)?, file.as_deref(), &differences, *json)
        }
        ConfigCommand::Diff => {
            let all = differences(target)?;
            if *json {
                print!("{}", json_text(&all));
                return Ok(());
            }
            all.iter().for_each(|of| print!("{}", differences_text(of)));
            Ok(())
        }
    }
}

fn selector(target: &Target) -> SwitchSelector {
    SwitchSelector { switch: target.switch.clone() }
}

/// Reports the changes. Exit code 1 if any was not applied.
fn apply_changes(target: &Target, request: &Request, json: bool) -> Result<(), Failure> {
    let mut client = target.connect()?;
    let Reply::Changed(all) = client.ask(request).map_err(failure)? else {
        return Err(failure(client.unexpected_reply()));
    };
    if json {
        print!("{}", json_text(&all));
    } else {
        all.iter().for_each(|changed| print!("{}", changed_text(changed)));
    }
    let refused =
        all.iter().flat_map(|changed| &changed.changes).filter(|change| change.outcome == ChangeOutcome::Refused);
    match refused.count() {
        0 => Ok(()),
        1 => Err(Failure::Run("a key is not applied".to_owned())),
        several => Err(Failure::Run(format!("{several} keys are not applied"))),
    }
}

fn configurations(target: &Target) -> Result<Vec<Configuration>, Failure> {
    let mut client = target.connect()?;
    match client.ask(&Request::Configuration(selector(target))).map_err(failure)? {
        Reply::Configurations(all) => Ok(all),
        _ => Err(failure(client.unexpected_reply())),
    }
}

fn differences(target: &Target) -> Result<Vec<Differences>, Failure> {
    let mut client = target.connect()?;
    match client.ask(&Request::Differences(selector(target))).map_err(failure)? {
        Reply::Differences(all) => Ok(all),
        _ => Err(failure(client.unexpected_reply())),
    }
}

/// Saves running configurations; `differences` are from the overwritten files.
fn save(all: &[Configuration], file: Option<&Path>, differences: &[Differences], json: bool) -> Result<(), Failure> {
    if all.len() > 1 && file.is_some() {
        let names: Vec<&str> = all.iter().map(|configuration| configuration.switch.as_str()).collect();
        let message =
            format!("several switches run, and a file is one switch: choose one with --switch: {}", names.join(", "));
        return Err(Failure::Argument(message));
    }
    let mut saved = Vec::new();
    for Configuration { switch, file: own, text, for_a_time } in all {
        let path = file.unwrap_or(Path::new(own));
        replace(path, text).map_err(|error| {
            let help = "name a file in a directory that this user may write to";
            Failure::Argument(format!("{}: the configuration can't be written: {error}; {help}", path.display()))
        })?;
        let lost = differences.iter().filter(|of| of.switch == *switch).flat_map(|of| &of.keys);
        let lost = lost.filter(|key| key.needs_restart.is_some()).collect();
        saved.push(SavedFile { switch, file: path.display().to_string(), without: for_a_time, lost });
    }
    if json {
        print!("{}", json_text(&saved));
        return Ok(());
    }
    for SavedFile { switch, file, without, lost } in saved {
        println!("{switch}: written to {file}");
        for Difference { key, file, running, .. } in lost {
            let (file, running) = (or_default(file), or_default(running));
            println!(
                "{switch}: {key} was {file} in the file, which would have come with a restart, and is {running} now"
            );
        }
        if !without.is_empty() {
            println!("{switch}: as it will be when what was set for a time has come back: {}", without.join(", "));
        }
    }
    Ok(())
}

/// Saved file of a switch.
#[derive(Serialize)]
struct SavedFile<'c> {
    switch: &'c str,
    file: String,
    /// Keys whose running values are temporary, and so not in the file.
    without: &'c [String],
    /// Keys whose values in the previous file would have applied after a restart.
    lost: Vec<&'c Difference>,
}

/// Replaces a file atomically, and keeps its permissions.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // Keeps a symbolic link: replaces its target.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    write_atomic(path, |part| {
        let mut file = std::fs::File::create(part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if let Ok(before) = std::fs::metadata(path) {
            file.set_permissions(before.permissions())?;
        }
        Ok(())
    })
}

fn changed_text(changed: &ChangeReport) -> String {
    let ChangeReport { switch, file, changes, notes } = changed;
    let from = file.as_ref().map_or(String::new(), |file| format!(", by {file}"));
    let mut text = format!("{switch}{from}\n");
    if changes.is_empty() {
        text += "  nothing has changed\n";
    } else {
        let mut table = Table::new(["Key", "Was", "Is", ""]).with_text_last();
        for Change { key, was, is, outcome, why } in changes {
            let why = why.as_deref().unwrap_or_default().trim_end();
            let outcome = match outcome {
                ChangeOutcome::Applied => "applied".to_owned(),
                ChangeOutcome::Unchanged => "as before".to_owned(),
                ChangeOutcome::NeedsRestart => format!("needs a restart: {why}"),
                ChangeOutcome::Refused => format!("not applied: {why}"),
            };
            table.row([key.clone(), or_default(was), or_default(is), outcome]);
        }
        text += &table.to_string();
    }
    notes.iter().for_each(|note| text += &format!("  {note}\n"));
    text
}

fn differences_text(of: &Differences) -> String {
    let Differences { switch, file, keys } = of;
    let mut text = format!("{switch}, {file}\n");
    if keys.is_empty() {
        return text + "  the file has what the switch runs with\n";
    }
    let mut table = Table::new(["Key", "File", "Running", ""]).with_text_last();
    for difference in keys {
        let reload = match &difference.needs_restart {
            Some(why) => format!("needs a restart: {why}"),
            None => "weir reload applies it".to_owned(),
        };
        table.row([difference.key.clone(), or_default(&difference.file), or_default(&difference.running), reload]);
    }
    text += &table.to_string();
    text
}

fn or_default(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "default".to_owned())
}

/// `10s`, `500ms`, `2min`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Span>().map_err(|_| "write a time such as 10s, 500ms or 2min".to_owned())?;
    let lasts = Duration::from_nanos(span.as_nanos());
    if lasts < Duration::from_millis(1) { Err("write 1ms or more".to_owned()) } else { Ok(lasts) }
}

/// `ports.p0.rate=5Gbps`.
fn assignment(text: &str) -> Result<Assignment, String> {
    let help = "write KEY=VALUE, such as ports.p0.rate=5Gbps, with quotes around what has spaces";
    let (key, value) = text.split_once('=').ok_or(help)?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() {
        return Err(help.to_owned());
    }
    Ok(Assignment { key: key.to_owned(), value: Some(value.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_keys_with_values() {
        let read = |text: &str| assignment(text).map(|Assignment { key, value }| (key, value.unwrap()));
        assert_eq!(read("ports.p0.rate=5Gbps"), Ok(("ports.p0.rate".into(), "5Gbps".into())));
        let ecn = "classes.queues.3.ecn = { kmin = \"1KB\", kmax = \"2KB\" }";
        assert_eq!(read(ecn), Ok(("classes.queues.3.ecn".into(), "{ kmin = \"1KB\", kmax = \"2KB\" }".into())));
        for text in ["ports.p0.rate", "=5", "ports.p0.rate=", " = "] {
            assert!(read(text).unwrap_err().contains("KEY=VALUE"), "{text}");
        }
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        for text in ["10", "0s", "1us", "-1s", "soon"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_became_of_keys_is_a_table() {
        let change = |key: &str, was: Option<&str>, is: Option<&str>, outcome, why: Option<&str>| Change {
            key: key.into(),
            was: was.map(Into::into),
            is: is.map(Into::into),
            outcome,
            why: why.map(Into::into),
        };
        let changed = ChangeReport {
            switch: "lab".into(),
            file: Some("/etc/lab.toml".into()),
            changes: vec![
                change("ports.p0.rate", Some("1Gbps"), None, ChangeOutcome::Applied, None),
                change("buffer.size", None, Some("2MB"), ChangeOutcome::NeedsRestart, Some("it is cut")),
            ],
            notes: vec!["a note".into()],
        };
        let expected = "lab, by /etc/lab.toml\n\
            \x20 Key              Was       Is                           \n\
            \x20 ------------------------------------------------------\n\
            \x20 ports.p0.rate    1Gbps  default  applied\n\
            \x20 buffer.size    default      2MB  needs a restart: it is cut\n\
            \x20 a note\n";
        let lines = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let (actual, expected) = (lines(&changed_text(&changed)), lines(expected));
        assert_eq!((&actual[..2], &actual[3..]), (&expected[..2], &expected[3..]));
    }

    #[test]
    fn a_file_is_replaced_atomically_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        replace(&path, "a").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, "b").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b");
        assert!(link.is_symlink());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(replace(&folder.path().join("none/lab.toml"), "c").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
    }
}
