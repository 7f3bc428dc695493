//! Frames that leave in runs, from their queues or by the bypass, have the same results as frames taken singly: at each step the same
//! frames and marks, the same next wakeup, the same credit counts, and the same report. Bypassing frames of classes that share the link leave in
//! order of arrival; then only each class by itself has the same results.

use proptest::prelude::*;
use weir_config::LcoreLayout;
use weir_flowctl::{CatchUp, FLOW_CONTROLS};
use weir_switch_core::{DriverConfig, Packet};
use weir_units::{CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{ControlFrame, CreditCount, CreditFrame, CreditUpdate, QueueLengthFrame};

use crate::common::{Bench, TestFrame, control, frame, introduce, pfc};

const PORTS: u16 = 3;

/// Flow controls, which hold frames back by pauses, rates or credit.
fn flow_controls() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FLOW_CONTROLS.names().collect::<Vec<_>>())
}

/// Limits of the queues of two classes.
const RATES: [&str; 2] = ["", "rate = \"2Gbps\""];

/// ECN of all classes: none, thresholds that no queue or every frame exceeds, and thresholds that runs straddle.
const ECN: [&str; 7] = [
    "",
    "ecn = { kmin = \"3900KB\", kmax = \"3900KB\", pmax = 1.0 }",
    "ecn = { kmin = \"1B\", kmax = \"1B\", pmax = 1.0 }",
    "ecn = { kmin = \"5KB\", kmax = \"5KB\", pmax = 1.0 }",
    "ecn = { kmin = \"3KB\", kmax = \"60KB\", pmax = 0.5 }",
    "ecn = { kmin = \"400KB\", kmax = \"400KB\", pmax = 1.0, at_rate = \"100Gbps\" }",
    "ecn = { kmin = \"20KB\", kmax = \"20KB\", pmax = 1.0, mark_on = \"arrival\" }",
];

/// Orders in which two classes serve their ingress ports.
const ARBITRATION: [&str; 3] = ["", "arbitration = \"round-robin\"\narbitration_burst = 3", "arbitration = \"random\""];

/// The DSCP of the class that goes before all others.
const STRICT: u8 = 46;

/// A frame of a class for a port, of some length; or a message of the peer.
#[derive(Clone, Copy, Debug)]
enum Arriving {
    Frame { to: u16, dscp: u8, frame_bytes: u32 },
    Message { classes: u8, number: u16 },
}

fn arrivals() -> impl Strategy<Value = Vec<(u16, Arriving)>> {
    // Runts are charged more than they are long.
    let frame_bytes = prop_oneof![6 => 60..1_515u32, 1 => 14..60u32];
    let frame = (0..PORTS, prop::sample::select(vec![0, 3, 3, 4, STRICT]), frame_bytes);
    let frame = frame.prop_map(|(to, dscp, frame_bytes)| Arriving::Frame { to, dscp, frame_bytes });
    let message = (any::<u8>(), 0..200u16).prop_map(|(classes, number)| Arriving::Message { classes, number });
    let train = (0..PORTS, frame.clone(), 1..60usize).prop_map(|(port, frame, count)| vec![(port, frame); count]);
    let mixed = prop::collection::vec((0..PORTS, frame), 1..60);
    let message = (0..PORTS, message).prop_map(|message| vec![message]);
    prop::collection::vec(prop_oneof![2 => train, 1 => mixed, 1 => message], 1..24).prop_map(|trains| trains.concat())
}

/// These arrivals, with the DWRR classes merged into one.
fn of_one_class_in_turn(arrivals: Vec<(u16, Arriving)>, alone: u8) -> Vec<(u16, Arriving)> {
    let of_one = |arriving| match arriving {
        Arriving::Frame { to, dscp, frame_bytes } if dscp != STRICT => Arriving::Frame { to, dscp: alone, frame_bytes },
        other => other,
    };
    arrivals.into_iter().map(|(port, arriving)| (port, of_one(arriving))).collect()
}

/// Message of a peer, in the port's flow control.
fn message(flow_control: &str, classes: u8, number: u16, before: usize) -> TestFrame {
    let enabled = ClassSet::from_bits(classes);
    let number_of_blocks = u32::from(number) + 20 * before as u32;
    match flow_control {
        "pause" => control(ControlFrame::Pause(number)),
        // Stages are sent in the fields of quanta.
        "gfc-buffer" => pfc(enabled, number % 6),
        "gfc-conceptual" => {
            control(ControlFrame::Queue(QueueLengthFrame { enabled, lengths: [u32::from(number) << 8; CLASSES] }))
        }
        "gfc-time" | "cbfc" => control(ControlFrame::Credit(CreditFrame {
            enabled,
            limits: [number_of_blocks; CLASSES],
            ..CreditFrame::default()
        })),
        // Half of the counts leave credit at the start.
        "uec-cbfc" => control(ControlFrame::Update(CreditUpdate {
            count: CreditCount::Freed,
            enabled,
            cells: [before as u32 * u32::from(number % 2); CLASSES],
            cell_bytes: 64,
        })),
        _ => pfc(enabled, number),
    }
}

/// Poll intervals and load of a switch.
#[derive(Clone, Copy, Debug)]
struct Drive {
    layout: LcoreLayout,
    /// Intervals between polls, in turn.
    steps_us: [u64; 3],
    /// Frames that arrive per step. If they are few, all may leave in the same step.
    come: usize,
    /// Xoff, and the limit of a lossy queue.
    threshold: &'static str,
}

/// Frames that a port sent, by number, and whether each is marked.
type SentFrames = Vec<(u64, bool)>;

/// State after a step.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// Frames that each port had sent.
    sent: [usize; PORTS as usize],
    /// Credit blocks that each port has sent, by class.
    counted: [[u32; CLASSES]; PORTS as usize],
    /// Instant when shaper, limiter or pause lets the next frame go.
    next: Time,
}

/// Results of a switch for these arrivals: each step, the frames sent by each port and whether they are marked, and the report as text.
fn outcome(
    flow_control: &str,
    keys: [&str; 3],
    drive: Drive,
    arrivals: &[(u16, Arriving)],
    in_rows: bool,
) -> (Vec<Step>, Vec<SentFrames>, String) {
    let [rate, ecn, arbitration] = keys;
    // A switch that stamps frames takes each singly.
    let telemetry = !in_rows;
    let queue = |class: u8, more: &str| format!("[[classes.queues]]\nclass = {class}\n{more}\n{ecn}\n");
    let queues = [
        queue(0, "quantum = \"4KB\""),
        queue(3, &format!("{rate}\n{arbitration}")),
        queue(4, arbitration),
        queue(5, "strict = true"),
    ]
    .concat();
    let threshold = drive.threshold;
    let cell_bytes = if flow_control == "uec-cbfc" { 64 } else { 1 };
    let ports: String = (0..PORTS)
        .map(|n| {
            format!(
                "[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"10Gbps\"\ndelay = \"1us\"\nflow_control = \"{flow_control}\"\n"
            )
        })
        .collect();
    let text = format!(
        "[switch]\ntelemetry = {telemetry}\n[buffer]\nsize = \"4MB\"\ncell_bytes = {cell_bytes}\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"{threshold}\"\n\
         [classes]\nlossless = [3, 4]\n{queues}[pfc]\nreaction = \"0s\"\n{ports}"
    );
    let catch_up = CatchUp::at_most(Span::from_micros(60));
    let mut bench = Bench::with(&text, drive.layout, DriverConfig::real_time(catch_up));
    introduce(&mut bench);
    let mut coming = arrivals.iter().enumerate();
    let steps = drive.steps_us.into_iter().cycle().take(300 + arrivals.len() / drive.come).map(|us| {
        for (sequence, (port, arriving)) in coming.by_ref().take(drive.come) {
            bench.arrive(
                *port,
                match *arriving {
                    Arriving::Frame { to, dscp, frame_bytes } => {
                        TestFrame { frame_bytes, ..frame(*port, to, dscp, sequence as u64) }
                    }
                    Arriving::Message { classes, number } => message(flow_control, classes, number, sequence),
                },
            );
        }
        bench.step(Span::from_micros(us));
        let regulators = bench.shared.ports().iter().map(|port| &port.regulator);
        let counted = regulators.map(|regulator| Class::ALL.map(|class| regulator.sent_total(class)));
        Step {
            sent: std::array::from_fn(|port| bench.world.sent[port].len()),
            counted: counted.collect::<Vec<_>>().try_into().expect("all ports"),
            next: bench.lcores.iter().map(|lcore| lcore.next_wakeup(bench.now)).min().expect("an lcore"),
        }
    });
    let steps = steps.collect();
    let sent = bench.world.sent.iter().map(|sent| {
        let data = sent.iter().filter(|frame| !frame.is_control());
        data.map(|frame| (frame.sequence, frame.ce)).collect()
    });
    let sent = sent.collect();
    (steps, sent, format!("{:?}", bench.report()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn rows_and_frames_come_to_the_same(
        arrivals in arrivals(),
        flow_control in flow_controls(),
        rate in prop::sample::select(RATES.to_vec()),
        ecn in prop::sample::select(ECN.to_vec()),
        arbitration in prop::sample::select(ARBITRATION.to_vec()),
        layout in prop::sample::select(vec![LcoreLayout::Single, LcoreLayout::RxTx]),
        steps_us in prop::sample::select(vec![[20; 3], [1, 5, 40], [2; 3]]),
        come in prop::sample::select(vec![3, 20, usize::MAX]),
        alone in prop::sample::select(vec![0, 3, 4]),
    ) {
        let drive = Drive { layout, steps_us, come, threshold: "140KB" };
        // A switch on one lcore sends by the bypass, in order of arrival.
        let arbitration = if layout == LcoreLayout::Single { "" } else { arbitration };
        let arrivals = if layout == LcoreLayout::Single { of_one_class_in_turn(arrivals, alone) } else { arrivals };
        let [rows, frames] = [true, false].map(|in_rows| outcome(flow_control, [rate, ecn, arbitration], drive, &arrivals, in_rows));
        prop_assert_eq!(&rows.1, &frames.1);
        for (step, (row, frame)) in rows.0.iter().zip(&frames.0).enumerate() {
            prop_assert_eq!((row.sent, row.counted), (frame.sent, frame.counted), "step {}", step);
            // The time of each single frame is rounded up to a picosecond, but only once for a run.
            let apart = row.next.max(frame.next).since(row.next.min(frame.next));
            prop_assert!(apart <= Span::from_nanos(2), "step {}: {:?} and {:?}", step, row.next, frame.next);
        }
        prop_assert_eq!(rows.2, frames.2);
    }

    /// Whoever's turn it is, the same frames of each class and port leave in the same order, and none is lost.
    #[test]
    fn past_queues_each_class_comes_to_the_same(
        arrivals in arrivals(),
        flow_control in flow_controls(),
        rate in prop::sample::select(RATES.to_vec()),
        ecn in prop::sample::select(ECN.to_vec()),
        arbitration in prop::sample::select(ARBITRATION[..2].to_vec()),
        come in prop::sample::select(vec![3, 10]),
    ) {
        let drive = Drive { layout: LcoreLayout::Single, steps_us: [20; 3], come, threshold: "1MB" };
        let flow = |(sequence, _): &(u64, bool)| match arrivals[*sequence as usize] {
            (from, Arriving::Frame { dscp, .. }) => (dscp, from),
            (_, Arriving::Message { .. }) => unreachable!("messages are obeyed"),
        };
        let [past, frames] = [true, false].map(|in_rows| {
            let (_, mut sent, _) = outcome(flow_control, [rate, ecn, arbitration], drive, &arrivals, in_rows);
            sent.iter_mut().for_each(|sent| sent.sort_by_key(flow));
            sent
        });
        prop_assert_eq!(past, frames);
    }
}
