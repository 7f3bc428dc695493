//! Exit codes of commands, for the reference of commands and the man pages.

/// An exit code of all commands.
pub(super) struct ExitCode {
    pub code: u8,
    pub means: &'static str,
    /// Action of a script.
    pub then: &'static str,
}

/// Exit codes. [`weir_experiments::Failure`] gives the numbers.
pub(super) const EXIT_CODES: [ExitCode; 4] = [
    ExitCode { code: 0, means: "success", then: "continue" },
    ExitCode {
        code: 1,
        means: "something failed after it had begun, a promise was not kept, or the command was interrupted; results so far \
                stay, and the message tells how to continue",
        then: "read the message",
    },
    ExitCode {
        code: 2,
        means: "a file or an argument is wrong, or names a switch that does not run; nothing was started, and nothing is left",
        then: "fix the file or the command: it would fail anywhere, and again",
    },
    ExitCode {
        code: 3,
        means: "nothing is wrong with the files, but this machine, or this build, lacks what they ask for, or another process has it: \
                CPUs, memory, limits of the process, interfaces, NICs, permissions, DPDK; nothing was started",
        then: "do what the message says, or try again later, or elsewhere",
    },
];

/// Meaning of code 1 for a command, by its words after `weir`; `None` without a special meaning.
pub(super) fn one_means(command: &str) -> Option<&'static str> {
    Some(match command {
        "run" => {
            "a lossless frame was lost, a port that may carry lossless frames lost frames at its device, frames are not conserved, or DPDK \
             failed"
        }
        "bench forwarding" | "bench rfc2544" | "bench pause" | "bench idle" => {
            "frames are not accounted for, or it was interrupted"
        }
        "replay" => {
            "a port did not take frames that were due, or it was interrupted before the last frame of a trace that has one"
        }
        "show" | "top" | "clear" | "set" | "config" | "export sonic-counters" => {
            "the connection to the switch was lost"
        }
        "reload" => "a key was not applied as it conflicts with the running configuration, or the connection was lost",
        "capture" => "the connection was lost, so that frames may be missing, or the capture can't be written",
        "calibrate" => {
            "a peer does not stop or sends nothing, or it was interrupted; 3 if the machine took so much of the switch's time \
             that nothing can be advised"
        }
        "demo" => "lossless frames were lost, or it was interrupted",
        "testbed run" => {
            "a lossless frame was lost, a run came to a deadlock that the scenario does not expect, or to none that it expects, not all \
             that was sent arrived, or it was interrupted"
        }
        "sweep" | "sweep merge" => "a point failed or crashed, or some are left",
        "explore" => "a map was interrupted; a claim that holds nowhere is a result, with 0",
        "reproduce" => {
            "a run failed, or it was interrupted; a finding that does not hold is a result, with 0; 3 if the machine took so much of a run's \
             time that a finding is not judged"
        }
        "testbed check" => "with --hosts: a host lacks something",
        "compare ns3" => "a figure differs",
        "vm run" => "the exit code is that of the command in the guest",
        "doctor" => "a check failed",
        "check" => "with --try: the devices are not fit for lossless ports, or it was interrupted",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use weir_experiments::Failure;

    use super::*;

    #[test]
    fn failures_end_with_the_codes_that_pages_name() {
        let failures =
            [Failure::Run(String::new()), Failure::Argument(String::new()), Failure::Unavailable(String::new())];
        let codes: Vec<u8> = std::iter::once(0).chain(failures.iter().map(Failure::exit_code)).collect();
        assert_eq!(codes, EXIT_CODES.map(|of| of.code));
    }
}
