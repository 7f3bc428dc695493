//! Reference of commands: all of them, and their exit codes.

use std::fmt::Write;

use clap::Command;

use super::exit_codes::{EXIT_CODES, one_means};
use super::shown;

const HEAD: &str = "\
# Commands

`weir COMMAND --help` has all options of a command; installed as a package there is a man page for each (`man weir-run`). This page is made of the command line's own description.

";

const HABITS: &str = "\
## Habits of all commands

- **JSON**: the column says which commands print their tables as JSON on standard output with `--json`. `run` and `bench` write theirs to a file, as they print while they run; `run --json -` prints the
  summary, and nothing else, to standard output. Errors go to standard error in any case.
- **Times** take a unit: `500ms`, `10s`, `2min`, `1h`.
- **Colours** are for terminals: not with `NO_COLOR` set to anything, nor with `TERM=dumb`.
- **Progress** with an estimate stands on the terminal while a command computes, and nowhere else; lines of the log stand above it. `bench` says in its log what it measures next, and how long the rest takes; `doctor` tells each thing as soon as it
  has looked at it.
- **Ctrl-C** ends a command in order: what was finished is kept and shown, and a line tells the command that does the rest. A second Ctrl-C ends it at once.
  `bench` and `check --try` finish the measurement in hand first.
- **Huge pages**: commands that run scenarios in virtual time start anew in place, in the same process, so that glibc has their memory in transparent huge pages where Linux gives these to programs that ask (`/sys/kernel/mm/transparent_hugepage/enabled` says
  `madvise`, as Debian has it). `WEIR_HUGE_PAGES=no` goes without, for debuggers that follow no `exec` too; a `GLIBC_TUNABLES` with a word on `glibc.malloc.hugetlb` is left as it is.
- **The log** of `weir run` goes to standard error, a line a fact, with a level: `WEIR_LOG=warn` has warnings and errors alone, `WEIR_LOG=debug` more. `--log-format json` makes an object of each line. Under systemd lines
  carry their level for the journal (`journalctl -p warning`). What one port repeats is told twenty times, then every ten seconds, with how many lines were left out.
";

pub(super) fn page(command: &Command) -> String {
    let mut page = HEAD.to_owned();
    page += "| command | what it does | JSON |\n|---|---|---|\n";
    for sub in leaves(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let is_file = |arg: &clap::Arg| arg.get_num_args().is_some_and(|n| n.takes_values());
        let json = sub.get_arguments().find(|arg| arg.get_id() == "json");
        let json = json.map_or("", |arg| if is_file(arg) { "`--json FILE`" } else { "`--json`" });
        let _ = writeln!(page, "| `{}` | {} | {json} |", name(sub), about.replace('|', "\\|"));
    }
    page += "\n## Exit codes\n\n| code | means | then |\n|---|---|---|\n";
    for of in EXIT_CODES {
        let _ = writeln!(page, "| {} | {} | {} |", of.code, of.means, of.then);
    }
    page += "\nWhat 1 means, command by command:\n\n| command | 1 |\n|---|---|\n";
    for sub in all(command) {
        if let Some(means) = one_means(name(sub).trim_start_matches("weir ")) {
            let _ = writeln!(page, "| `{}` | {means} |", name(sub));
        }
    }
    page + "\n" + HABITS
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Returns all subcommands of a command.
fn all(command: &Command) -> Vec<&Command> {
    shown(command).flat_map(|sub| std::iter::once(sub).chain(all(sub))).collect()
}

/// Commands that can be run by themselves.
fn leaves(command: &Command) -> Vec<&Command> {
    all(command).into_iter().filter(|sub| shown(sub).next().is_none() || !sub.is_subcommand_required_set()).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::built;
    use super::*;
    use crate::Arguments;

    #[test]
    fn code_1_is_documented_for_commands_that_exist() {
        let command = built(Arguments::command());
        let names: Vec<String> = all(&command).into_iter().map(|sub| name(sub).to_owned()).collect();
        for known in ["weir show pfc counters", "weir testbed run", "weir sweep merge", "weir sweep"] {
            assert!(names.iter().any(|name| name == known), "{names:?}");
        }
        let page = page(&command);
        assert!(page.contains("| `weir show interfaces` | Links,") && !page.contains("`weir show` | Show"), "{page}");
        assert!(page.contains("| `weir sweep` | Run a scenario many times") && !page.contains("weir pages`"), "{page}");
    }
}
