//! POSIX shell scripts for any host.

use std::time::Duration;

/// Script that prints a host's clock: hundredths of a second since boot. No finer clock is readable by every shell, and
/// this one is never adjusted.
pub(crate) const CLOCK: &str = "read up rest < /proc/uptime; echo ${up%.*}${up#*.}";

/// Returns a script that waits until the host's clock reaches `clock`, prints the clock, and executes a command with
/// timeout `within`.
pub(crate) fn run_at(clock: u64, command: &str, within: Duration) -> String {
    format!(
        "read up rest < /proc/uptime; left=$(({clock} - ${{up%.*}}${{up#*.}})); \
         [ $left -le 0 ] || sleep $((left / 100)).$(printf %02d $((left % 100))); \
         read up rest < /proc/uptime; echo weir-begins ${{up%.*}}${{up#*.}}; exec timeout {} {command}",
        within.as_secs().max(1)
    )
}

/// Splits the output of [`run_at`] into the clock at the command's start, and the command's output.
pub(crate) fn begun(output: &str) -> (Option<u64>, &str) {
    let Some((_, rest)) = output.split_once("weir-begins ") else { return (None, output) };
    let (clock, command_output) = rest.split_once('\n').unwrap_or((rest, ""));
    (clock.trim().parse().ok(), command_output)
}

/// Returns a script that waits until a process listens at a TCP port.
pub(crate) fn wait_for_listener(port: u16) -> String {
    format!(
        "n=0; until grep -qi ':{port:04X} [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do \
         n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; done"
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run_shell(script: &str) -> String {
        String::from_utf8(Command::new("sh").args(["-c", script]).output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_command_begins_at_the_clock() {
        let now: u64 = run_shell(CLOCK).trim().parse().unwrap();
        let output = run_shell(&run_at(now + 30, "echo done", Duration::from_secs(60)));
        let (began, rest) = begun(&output);
        assert!(began.unwrap() >= now + 30 && rest == "done\n", "{output}, {now}");
        // A past time starts at once.
        assert_eq!(begun(&run_shell(&run_at(now, "echo late", Duration::from_secs(60)))).1, "late\n");
        assert_eq!(begun("nothing"), (None, "nothing"));
    }

    #[test]
    fn listeners_are_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(Command::new("sh").args(["-c", &wait_for_listener(port)]).status().unwrap().success());
    }
}
