//! Command line of inet-tub's program for the Reverie paper.
//!
//! The command line sets buffer, policy, congestion control, TCP, loads, seeds and times. The configuration has the rest.

use std::collections::BTreeMap;

use weir_units::{Bytes, Span};

use crate::import::text::{decimal, seconds};
use crate::import::{ImportError, ImportErrors};

/// Arguments of a checked command line. Missing ones have the program's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// `--conf`, `--cdfFileName` and `--alphasFile`, as written.
    pub(super) files: BTreeMap<&'static str, String>,
    /// Options that only set where results are written.
    pub(super) outputs: Vec<String>,
    /// True for `--bufferModel=reverie`, false for `sonic`.
    pub(super) is_reverie: bool,
    /// `--bufferalgIngress` and `--bufferalgEgress`.
    pub(super) algorithms: [Algorithm; 2],
    /// `--buffersize`, of each switch.
    pub(super) buffer: Bytes,
    /// `--egressLossyShare`, in units of 10^-9.
    pub(super) lossy_share: u64,
    /// `--gamma`, in units of 10^-9.
    pub(super) gamma: u64,
    /// `--enableEcn`.
    pub(super) ecn: bool,
    /// `--rdmacc`, with `--powertcp` and `--thetapowertcp`.
    pub(super) rdma_cc: RdmaCc,
    /// `--rdmaWindowCheck` and `--rdmaVarWin`.
    pub(super) window: [bool; 2],
    /// True for `--tcpcc` of DCTCP, false for Cubic.
    pub(super) is_dctcp: bool,
    /// Traffic of RDMA and TCP.
    pub(super) traffic: [Traffic; 2],
    /// `--randomSeed`.
    pub(super) seed: u64,
    /// `--START_TIME`, `--FLOW_LAUNCH_END_TIME`, `--END_TIME`.
    pub(super) times: [Span; 3],
}

/// Background messages at a load, and requests that all hosts of another rack answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    /// `--rdmaload`, as a share of the fabric's capacity, in units of 10^-9.
    pub(super) load: u64,
    /// `--rdmaqueryRequestRate`: requests per second of each host, in units of 10^-9.
    pub(super) requests: u64,
    /// `--rdmarequestSize`: bytes of all answers to a request together.
    pub(super) request: Bytes,
}

/// Algorithm of the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Number 101.
    Dt,
    /// Number 102.
    Fab,
    /// Number 110.
    Abm,
    /// Any other number, which the program takes as DT. 111 means Reverie, whose buffer model ignores it.
    Other(u64),
}

/// Congestion control of RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RdmaCc {
    /// CC_MODE.
    Mode(u64),
    /// CC_MODE 3 with `--powertcp`.
    PowerTcp,
    /// CC_MODE 3 with `--thetapowertcp`.
    ThetaPowerTcp,
}

/// Place that errors of a command line name.
const PLACE: &str = "--arguments";
const FILES: [&str; 3] = ["conf", "cdfFileName", "alphasFile"];
const OUTPUTS: [&str; 3] = ["fctOutFile", "torOutFile", "pfcOutFile"];
/// `incast` is read and never used.
const NUMBERS: [&str; 11] = [
    "bufferalgIngress",
    "bufferalgEgress",
    "buffersize",
    "rdmacc",
    "rdmarequestSize",
    "rdmaWindowCheck",
    "rdmaVarWin",
    "tcpcc",
    "tcprequestSize",
    "randomSeed",
    "incast",
];
const SHARES: [&str; 6] =
    ["rdmaload", "tcpload", "egressLossyShare", "gamma", "rdmaqueryRequestRate", "tcpqueryRequestRate"];
const TIMES: [&str; 3] = ["START_TIME", "FLOW_LAUNCH_END_TIME", "END_TIME"];
const SWITCHES: [&str; 3] = ["enableEcn", "powertcp", "thetapowertcp"];

impl Arguments {
    /// Reads a command line: `--key=value`, with or without the program's name before them.
    ///
    /// # Errors
    /// Unknown keys, and wrong values.
    pub fn parse(text: &str) -> Result<Arguments, ImportErrors> {
        let mut reading = ArgumentReader { given: BTreeMap::new(), errors: Vec::new() };
        for word in text.split_whitespace().map(|word| word.trim_matches(['"', '\''])) {
            let Some(argument) = word.strip_prefix("--") else { continue };
            let (key, value) = argument.split_once('=').unwrap_or((argument, "true"));
            if reading.is_known(key) {
                reading.given.insert(key, value);
            } else if key != "run" {
                reading.refuse(format!("there is no --{key}"), "write a key of reverie-evaluation-sigcomm2023");
            }
        }
        let arguments = reading.arguments();
        if reading.errors.is_empty() { Ok(arguments) } else { Err(ImportErrors { errors: reading.errors, more: 0 }) }
    }
}

struct ArgumentReader<'t> {
    given: BTreeMap<&'t str, &'t str>,
    errors: Vec<ImportError>,
}

impl<'t> ArgumentReader<'t> {
    fn is_known(&self, key: &str) -> bool {
        let lists: [&[&str]; 6] = [&FILES, &OUTPUTS, &NUMBERS, &SHARES, &TIMES, &SWITCHES];
        key == "bufferModel" || lists.concat().contains(&key)
    }

    fn refuse(&mut self, problem: String, help: &str) {
        self.errors.push(ImportError { file: PLACE.to_owned(), line: None, problem, help: help.to_owned() });
    }

    fn value<T>(&mut self, key: &str, default: T, what: &str, example: &str, read: impl Fn(&str) -> Option<T>) -> T {
        let Some(text) = self.given.get(key).copied() else { return default };
        read(text).unwrap_or_else(|| {
            self.refuse(format!("--{key}={text}: this is not {what}"), &format!("write for example --{key}={example}"));
            default
        })
    }

    fn number(&mut self, key: &'static str, default: u64) -> u64 {
        debug_assert!(NUMBERS.contains(&key));
        // The scripts compute sizes, and write 2560000.0.
        self.value(key, default, "a whole number", &default.to_string(), |text| decimal(text, 0))
    }

    fn share(&mut self, key: &'static str, default: u64, most: u64) -> u64 {
        let read = |text: &str| decimal(text, 9).filter(|share| *share <= most);
        self.value(key, default, &format!("a number from 0 to {}", most as f64 / 1e9), "0.4", read)
    }

    fn switch(&mut self, key: &'static str, default: bool) -> bool {
        self.value(key, default, "true or false", "true", |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    fn traffic(&mut self, keys: [&'static str; 3], load: u64, requests: u64, request: u64) -> Traffic {
        Traffic {
            load: self.share(keys[0], load, 1_000_000_000),
            requests: self.share(keys[1], requests, 1_000_000_000_000_000),
            request: Bytes::new(self.number(keys[2], request)),
        }
    }

    fn arguments(&mut self) -> Arguments {
        let model = self.value("bufferModel", "sonic".to_owned(), "sonic or reverie", "sonic", |text| {
            ["sonic", "reverie"].contains(&text).then(|| text.to_owned())
        });
        let algorithms = ["bufferalgIngress", "bufferalgEgress"].map(|key| match self.number(key, 101) {
            101 => Algorithm::Dt,
            102 => Algorithm::Fab,
            110 => Algorithm::Abm,
            other => Algorithm::Other(other),
        });
        let (mode, powertcp, theta) =
            (self.number("rdmacc", 1), self.switch("powertcp", false), self.switch("thetapowertcp", false));
        let tcp = self.number("tcpcc", 2);
        if ![2, 4].contains(&tcp) {
            self.refuse(format!("--tcpcc={tcp}: the program has no such TCP"), "write 2 for Cubic or 4 for DCTCP");
        }
        let times = TIMES.map(|key| {
            let (default, example) = [("START_TIME", 1), ("FLOW_LAUNCH_END_TIME", 2), ("END_TIME", 3)]
                .into_iter()
                .find_map(|(name, s)| (name == key).then(|| (Span::from_secs(s), s.to_string())))
                .expect("each has a default");
            self.value(key, default, "a time in seconds", &example, seconds)
        });
        if !(times[0] < times[1] && times[1] <= times[2]) {
            let problem = "flows start from START_TIME on and before FLOW_LAUNCH_END_TIME, and all ends at END_TIME";
            self.refuse(problem.to_owned(), "write three times of which none is before another");
        }
        Arguments {
            files: FILES.iter().filter_map(|key| Some((*key, (*self.given.get(key)?).to_owned()))).collect(),
            outputs: OUTPUTS
                .iter()
                .filter(|key| self.given.contains_key(**key))
                .map(|key| format!("--{key}"))
                .collect(),
            is_reverie: model == "reverie",
            algorithms,
            buffer: Bytes::new(self.number("buffersize", 2_610_000)),
            lossy_share: self.share("egressLossyShare", 800_000_000, 1_000_000_000),
            gamma: self.share("gamma", 990_000_000, 999_999_999),
            ecn: self.switch("enableEcn", true),
            rdma_cc: match mode {
                3 if powertcp => RdmaCc::PowerTcp,
                3 if theta => RdmaCc::ThetaPowerTcp,
                mode => RdmaCc::Mode(mode),
            },
            window: [self.number("rdmaWindowCheck", 0) != 0, self.number("rdmaVarWin", 9) != 0],
            is_dctcp: tcp == 4,
            traffic: [
                self.traffic(
                    ["rdmaload", "rdmaqueryRequestRate", "rdmarequestSize"],
                    800_000_000,
                    1_000_000_000,
                    2_000_000,
                ),
                self.traffic(["tcpload", "tcpqueryRequestRate", "tcprequestSize"], 0, 0, 4_000_000),
            ],
            seed: self.number("randomSeed", 1),
            times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_papers_scripts_is_read() {
        let text = "reverie-evaluation-sigcomm2023 --powertcp=true --bufferalgIngress=111 --bufferalgEgress=111 --rdmacc=3 --rdmaload=0.8 \
                    --rdmarequestSize=2000000 --rdmaqueryRequestRate=2 --tcpload=0.2 --tcpcc=4 --enableEcn=true \
                    --egressLossyShare=0.8 --bufferModel=reverie --gamma=0.999 --START_TIME=0.1 --END_TIME=0.12 \
                    --FLOW_LAUNCH_END_TIME=0.11 --buffersize=2560000.0 --fctOutFile=a.fct --alphasFile=/x/alphas";
        let arguments = Arguments::parse(text).unwrap();
        assert_eq!((arguments.rdma_cc, arguments.is_dctcp, arguments.is_reverie), (RdmaCc::PowerTcp, true, true));
        assert_eq!((arguments.gamma, arguments.buffer), (999_000_000, Bytes::new(2_560_000)));
        assert_eq!(arguments.times.map(|time| time.as_micros()), [100_000, 110_000, 120_000]);
        let rdma = Traffic { load: 800_000_000, requests: 2_000_000_000, request: Bytes::mb(2) };
        assert_eq!((arguments.traffic[0], arguments.traffic[1].load), (rdma, 200_000_000));
        assert_eq!(
            (arguments.files["alphasFile"].as_str(), &arguments.outputs[..]),
            ("/x/alphas", &["--fctOutFile".to_owned()][..])
        );
        let nothing = Arguments::parse("").unwrap();
        assert_eq!((nothing.buffer.get(), nothing.gamma, nothing.seed), (2_610_000, 990_000_000, 1));
        assert_eq!(nothing.algorithms, [Algorithm::Dt; 2]);
    }

    #[test]
    fn wrong_lines_are_errors() {
        for (text, problem) in [
            ("--rdmalod=0.8", "there is no --rdmalod"),
            ("--rdmaload=1.5", "--rdmaload=1.5: this is not a number from 0 to 1"),
            ("--tcpcc=3", "--tcpcc=3: the program has no such TCP"),
            ("--bufferModel=dsh", "--bufferModel=dsh: this is not sonic or reverie"),
            ("--enableEcn=maybe", "--enableEcn=maybe: this is not true or false"),
            (
                "--END_TIME=1.5",
                "flows start from START_TIME on and before FLOW_LAUNCH_END_TIME, and all ends at END_TIME",
            ),
        ] {
            let errors = Arguments::parse(text).unwrap_err();
            assert_eq!(errors.errors[0].problem, problem, "{text}");
        }
    }
}
