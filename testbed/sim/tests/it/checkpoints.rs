//! Interrupted runs, resumed from their checkpoints: the run directory is the same, byte for byte.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_nic::host::CongestionControlChoice;
use weir_nic::host::congestion::{
    CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback,
};
use weir_nic::parameters::Parameters;
use weir_reader::{Key, Plugin};
use weir_results::run_dir::{RunDir, Summary};
use weir_scenario::{Scenario, file};
use weir_sim::{CheckpointError, SimBackend, SimRunError, Threads};
use weir_units::archive::Archive;
use weir_units::{BitRate, Bytes, Time};

use crate::run_directory;
use crate::swarm::draw;
use crate::threads::{files, run, scenario_of, troubled_fabric};

/// Never by the clock, only where a run is interrupted.
const RARELY: Duration = Duration::from_secs(3_600);

fn backend(threads: usize) -> SimBackend {
    let threads = Threads::exactly(threads);
    SimBackend { ns3_files: true, threads, checkpoint_every: Some(RARELY), ..SimBackend::default() }
}

/// Runs a scenario in a folder, or goes on with it, until it has come to `until`.
fn go_on(scenario: &Scenario, folder: &Path, threads: usize, until: Time) -> Result<Summary, SimRunError> {
    let run =
        if RunDir::has_checkpoint(folder) { RunDir::resume(folder).unwrap() } else { run_directory::made(folder) };
    let stop = AtomicBool::new(false);
    backend(threads).run(scenario, run, &mut |progress| stop.store(progress.now >= until, Ordering::Relaxed), &stop)
}

/// Interrupts a run at these thousandths of its time, each time on another number of threads, and compares.
fn compare(name: &str, scenario: &Scenario, interruptions: &[u64]) {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    run(scenario, &whole, Threads::exactly(1));
    let mut threads = [1, 2, 3].into_iter().cycle();
    for part in interruptions {
        let until = Time::from_picos(scenario.end.as_picos() / 1_000 * part);
        let summary = go_on(scenario, &cut, threads.next().unwrap(), until).unwrap();
        // A run that drains is soon at its end.
        assert!(RunDir::has_checkpoint(&cut) == summary.is_interrupted(), "{name}");
        assert!(*part >= 1_000 || summary.is_interrupted(), "{name}: not interrupted at {part}/1000");
        if !summary.is_interrupted() {
            break;
        }
    }
    if RunDir::has_checkpoint(&cut) {
        go_on(scenario, &cut, threads.next().unwrap(), Time::NEVER).unwrap();
    }
    assert_alike(name, &whole, &cut);
}

/// Two runs left the same files.
fn assert_alike(name: &str, whole: &Path, cut: &Path) {
    let (whole, cut) = (files(whole), files(cut));
    assert!(cut.keys().eq(whole.keys()), "{name}: {:?}", cut.keys());
    for (file, text) in &cut {
        assert!(*text == whole[file], "{name}: {file} differs");
    }
}

#[test]
fn files_of_a_run_that_was_interrupted_are_those_of_one_that_was_not() {
    compare("troubled", &troubled_fabric(), &[30, 180, 270, 430, 730, 1_010]);
    let ring = scenario_of("150KB", "kind = 'ring'\nswitches = 5\nhosts = 2\ndelay = '700ns'", "");
    compare("ring", &ring, &[200, 700, 1_100]);
    let closed =
        "[[workloads]]\nname = 'loop'\nkind = 'closed-loop'\nclass = 3\nsizes = 'web-server'\noutstanding = 3\n";
    let closed = scenario_of("1MB", "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts = 4\ndelay = '700ns'", closed);
    compare("closed loop", &closed, &[150, 500, 870, 1_010]);
    let wide = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nhosts = 66\ndelay = '500ns'";
    compare("wide", &scenario_of("1MB", wide, ""), &[400]);
}

#[test]
fn whatever_is_drawn_goes_on_as_if_nothing_had_been() {
    for seed in 100..116 {
        let case = draw::draw(seed);
        let parts = [100 + seed * 37 % 300, 450 + seed * 91 % 500];
        compare(&format!("seed {seed}\n{}", case.text), &case.scenario, &parts);
    }
}

/// A fabric with this in its file: the part on the buffer, the ports' flow control, and what traffic goes by.
fn with(buffer: &str, flow_control: &str, traffic: &str) -> Scenario {
    scenario_in(&text_with(buffer, flow_control, traffic))
}

fn text_with(buffer: &str, flow_control: &str, traffic: &str) -> String {
    format!(
        "[scenario]\nend = '400us'\nsample_every = '7us'\nseed = 3\n\
         [topology]\nkind = 'leaf-spine'\nleaves = 3\nspines = 2\nhosts = 2\nrate = '25Gbps'\ndelay = '500ns'\n\
         [switch.buffer]\n{buffer}\n[switch.pfc]\nreaction = '0s'\n[switch.port]\nflow_control = '{flow_control}'\n\
         [switch.classes]\npreset = 'roce'\n[[switch.classes.queues]]\nclass = 3\n\
         ecn = {{ kmin = '20KB', kmax = '80KB', pmax = 0.2 }}\n[nic]\nretransmit = '100us'\n\
         [nic.dcqcn]\nbyte_counter = '15KB'\nincrease_timer = '10us'\nalpha_timer = '7us'\n\
         [[workloads]]\nname = 'incast'\nkind = 'incast'\nclass = 3\nsizes = '80KB'\nreceivers = ['H1']\n{traffic}\n\
         [[workloads]]\nname = 'web'\nkind = 'poisson'\nclass = 3\nsizes = 'web-server'\nload = 0.4\n{traffic}\n\
         [[flows]]\nfrom = 'H2'\nto = 'H5'\nmessage = '32KB'\nclass = 3\n{traffic}\n"
    )
}

fn scenario_in(text: &str) -> Scenario {
    let runs = file::parse(Path::new("with.toml"), text);
    runs.unwrap_or_else(|errors| panic!("{}\n{text}", errors.render(false))).remove(0).scenario
}

const DT: &str = "size = '250KB'\npolicy = 'dt'";

#[test]
fn each_policy_can_be_gone_on_with() {
    for kind in weir_mmu::policy::BUFFER_POLICIES.all() {
        let policy = kind.id();
        compare(policy, &with(&format!("size = '250KB'\npolicy = '{policy}'"), "pfc", ""), &[150, 600]);
    }
}

#[test]
fn each_flow_control_can_be_gone_on_with() {
    for kind in weir_flowctl::FLOW_CONTROLS.all() {
        let large = "size = '64MB'\npolicy = 'static'\n[switch.buffer.static]\nthreshold = '800KB'";
        let buffer = if ["pfc", "pause", "none"].contains(&kind.id()) { DT } else { large };
        compare(kind.id(), &with(buffer, kind.id(), ""), &[150, 600]);
    }
}

#[test]
fn each_congestion_control_can_be_gone_on_with() {
    for kind in weir_nic::host::congestion::kinds() {
        let traffic = format!("congestion_control = '{}'", kind.id());
        compare(kind.id(), &with(DT, "pfc", &traffic), &[150, 600]);
    }
    for kind in weir_nic::tcp::kinds() {
        let traffic = format!("transport = '{}'", kind.id());
        compare(kind.id(), &with(DT, "pfc", &traffic), &[150, 600]);
        // With all that TCP keeps where it does as ns-3's does.
        let text = text_with(DT, "pfc", &traffic).replace("[nic]\n", "[nic]\ntcp_queueing = 'queued'\n");
        let connection =
            "[nic.tcp]\ntimer_restart = 'first'\ngrowth_by = 'acked'\ntimeout_cuts = 'each'\nrto_min = '20us'\n";
        let text = text.replace("[[flows]]", &format!("{connection}[[flows]]"));
        compare(kind.id(), &scenario_in(&text), &[150, 600]);
    }
}

/// A flow is cut while another shares its path, and is alone from then on: its raises hang on the stages that it has come to.
#[test]
fn the_stages_of_dcqcns_raises_are_gone_on_with() {
    for (byte_counter, increase_timer) in [("10KB", "200us"), ("10MB", "5us")] {
        let flow = |from: &str, more: &str| {
            let ends = format!("from = '{from}'\nto = 'H2'\nclass = 3\nmessage = '32KB'");
            format!("[[flows]]\n{ends}\ncongestion_control = 'dcqcn'\n{more}\n")
        };
        let text = format!(
            "[scenario]\nend = '600us'\nsample_every = '7us'\nflow_gauges = true\n\
             [topology]\nkind = 'single'\nhosts = 3\nrate = '25Gbps'\ndelay = '500ns'\n\
             [switch.buffer]\n{DT}\n[switch.pfc]\nreaction = '0s'\n\
             [switch.classes]\npreset = 'roce'\n[[switch.classes.queues]]\nclass = 3\n\
             ecn = {{ kmin = '20KB', kmax = '80KB', pmax = 0.2 }}\n\
             [nic.dcqcn]\nbyte_counter = '{byte_counter}'\nincrease_timer = '{increase_timer}'\nalpha_timer = '7us'\n{}{}",
            flow("H0", ""),
            flow("H1", "stop = '200us'"),
        );
        compare(byte_counter, &scenario_in(&text), &[400, 450, 500, 550, 600, 700]);
    }
}

#[test]
fn a_connection_has_no_more_that_is_unscheduled_than_it_had() {
    let traffic = "transport = 'tcp-cubic'\ntcp = { unscheduled = '20KB' }";
    let text = text_with("size = '150KB'\npolicy = 'dt'\nlossy_alpha = '1/16'", "pfc", traffic);
    let text = text.replace("class = 3", "class = 0").replace("[scenario]", "[scenario]\nunscheduled_alpha = 8");
    compare("unscheduled", &scenario_in(&text), &[60, 130, 300, 600]);
}

fn checkpoint(folder: &Path) -> std::path::PathBuf {
    folder.join("run.checkpoint")
}

#[test]
fn what_is_no_checkpoint_of_this_run_is_refused_and_nothing_is_touched() {
    let scenario = with(DT, "pfc", "");
    let folder = tempfile::tempdir().unwrap();
    let half = Time::from_picos(scenario.end.as_picos() / 2);
    go_on(&scenario, folder.path(), 1, half).unwrap();
    let whole = fs::read(checkpoint(folder.path())).unwrap();
    let before = files(folder.path());
    let refused = |scenario: &Scenario| match go_on(scenario, folder.path(), 1, Time::NEVER) {
        Err(SimRunError::Checkpoint(error)) => error,
        other => panic!("{other:?}"),
    };
    let damaged = [
        whole[..whole.len() - 1].to_vec(),
        whole[..40].to_vec(),
        Vec::new(),
        [&whole[..], b"more"].concat(),
        whole.iter().enumerate().map(|(at, byte)| if at == whole.len() / 2 { byte ^ 4 } else { *byte }).collect(),
    ];
    for bytes in damaged {
        fs::write(checkpoint(folder.path()), bytes).unwrap();
        assert!(matches!(refused(&scenario), CheckpointError::Damaged(_)));
    }
    fs::write(checkpoint(folder.path()), &whole).unwrap();
    let mut other = scenario.clone();
    other.seed += 1;
    assert!(matches!(refused(&other), CheckpointError::OtherScenario(_)));
    // Another program wrote it: its sum is as it should be.
    let mut bytes = whole[..whole.len() - 4].to_vec();
    let place = bytes.windows(3).position(|bytes| bytes == b" by").unwrap();
    bytes[place + 4] = b'9';
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    fs::write(checkpoint(folder.path()), bytes).unwrap();
    assert!(matches!(refused(&scenario), CheckpointError::OtherProgram { .. }));
    fs::write(checkpoint(folder.path()), &whole).unwrap();
    assert!(files(folder.path()) == before);
    // A file is shorter than it was.
    let series = folder.path().join("series.csv");
    fs::File::options().write(true).open(&series).unwrap().set_len(100).unwrap();
    assert!(matches!(refused(&scenario), CheckpointError::Files { .. }));
}

/// A congestion control of someone else's, with flows that this makes for a line.
#[derive(Clone, Copy, Debug)]
struct Theirs(fn(BitRate) -> Box<dyn CongestionController>);

impl Plugin for Theirs {
    fn id(&self) -> &'static str {
        "theirs"
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }
}

impl CongestionControlKind for Theirs {
    fn parse(&self, _parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(*self)
    }
}

impl CongestionControlConfig for Theirs {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback::default()
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        self.0(line)
    }
}

/// Flow that does not implement `checkpoint`.
#[derive(Debug)]
struct TheirFlow(BitRate);

impl CongestionController for TheirFlow {
    fn rate(&self) -> BitRate {
        self.0
    }
}

const FORGETFUL: Theirs = Theirs(|line| Box::new(TheirFlow(line)));

#[test]
fn what_does_not_say_what_it_keeps_is_refused_by_name_before_the_run() {
    let mut scenario = with(DT, "pfc", "");
    scenario.traffic[1].congestion_control = CongestionControlChoice::new(&FORGETFUL, FORGETFUL);
    let folder = tempfile::tempdir().unwrap();
    let mut looks = 0;
    let run = |checkpoint_every, folder: &Path, looks: &mut u32| {
        let run = run_directory::made(folder);
        let backend = SimBackend { checkpoint_every, ..backend(1) };
        backend.run(&scenario, run, &mut |_| *looks += 1, &AtomicBool::new(false))
    };
    let told = run(Some(RARELY), folder.path(), &mut looks).unwrap_err().to_string();
    assert!(told.contains("TheirFlow` does not save its state"), "{told}");
    assert_eq!(looks, 0);
    run(None, folder.path(), &mut looks).unwrap();
    assert!(looks > 9);
}

/// Whether a [`StoppingFlow`] is to stop its run, and whether it has.
static ARMED: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// A flow that has the run stopped in the midst of things, as a user does: between two looks at it.
#[derive(Debug)]
struct StoppingFlow(BitRate);

impl CongestionController for StoppingFlow {
    fn checkpoint(&mut self, _archive: &mut Archive) {}

    fn on_sent(&mut self, now: Time, _wire: Bytes) {
        if now >= Time::from_nanos(110_000) && ARMED.swap(false, Ordering::Relaxed) {
            STOP.store(true, Ordering::Relaxed);
        }
    }

    fn rate(&self) -> BitRate {
        self.0
    }
}

const STOPPING: Theirs = Theirs(|line| Box::new(StoppingFlow(line)));

#[test]
fn a_stop_between_two_samples_of_a_large_fabric_changes_none() {
    let mut scenario = troubled_fabric();
    scenario.traffic[0].congestion_control = CongestionControlChoice::new(&STOPPING, STOPPING);
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    run(&scenario, &whole, Threads::exactly(1));
    ARMED.store(true, Ordering::Relaxed);
    let run = run_directory::made(&cut);
    assert!(backend(1).run(&scenario, run, &mut |_| (), &STOP).unwrap().is_interrupted());
    go_on(&scenario, &cut, 1, Time::NEVER).unwrap();
    assert_alike("stopped", &whole, &cut);
}
