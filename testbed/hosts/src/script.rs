//! Scripts of the POSIX shell that are the same on every host.

use std::time::Duration;

/// What a host's clock shows, in hundredths of a second since it booted: the finest that every shell can read, and of a clock that
/// nobody sets.
pub(crate) const CLOCK: &str = "read up rest < /proc/uptime; echo ${up%.*}${up#*.}";

/// Waits until the host's clock shows this, says what it shows then, and becomes a command that may take this long.
pub(crate) fn at(clock: u64, command: &str, within: Duration) -> String {
    format!(
        "read up rest < /proc/uptime; left=$(({clock} - ${{up%.*}}${{up#*.}})); \
         [ $left -le 0 ] || sleep $((left / 100)).$(printf %02d $((left % 100))); \
         read up rest < /proc/uptime; echo weir-begins ${{up%.*}}${{up#*.}}; exec timeout {} {command}",
        within.as_secs().max(1)
    )
}

/// What the clock showed when the command of [`at`] began, and what the command said.
pub(crate) fn begun(output: &str) -> (Option<u64>, &str) {
    let Some((_, rest)) = output.split_once("weir-begins ") else { return (None, output) };
    let (clock, said) = rest.split_once('\n').unwrap_or((rest, ""));
    (clock.trim().parse().ok(), said)
}

/// Waits until somebody listens at a TCP port.
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

    fn said(script: &str) -> String {
        String::from_utf8(Command::new("sh").args(["-c", script]).output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_command_begins_when_the_clock_says() {
        let now: u64 = said(CLOCK).trim().parse().unwrap();
        let output = said(&at(now + 30, "echo done", Duration::from_secs(60)));
        let (began, rest) = begun(&output);
        assert!(began.unwrap() >= now + 30 && rest == "done\n", "{output}, {now}");
        // A time that is past is now.
        assert_eq!(begun(&said(&at(now, "echo late", Duration::from_secs(60)))).1, "late\n");
        assert_eq!(begun("nothing"), (None, "nothing"));
    }

    #[test]
    fn listeners_are_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(Command::new("sh").args(["-c", &wait_for_listener(port)]).status().unwrap().success());
    }
}
