use super::*;

fn millis(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn queue(switch: usize) -> EgressQueue {
    EgressQueue { place: PortRef { switch, port: 1 }, class: Class::new(3) }
}

/// Detector of as many queues of 10 Gb/s, which sends 12.5 MB in 10 ms.
fn detector(queues: usize) -> StandstillDetector {
    let observed = |switch: usize| QueueWindow::new(queue(switch), Some(BitRate::gbps(10)));
    StandstillDetector { queues: (0..queues).map(observed).collect(), standstills: Vec::new() }
}

fn waiting(sent_bytes: u64) -> QueueState {
    QueueState { is_waiting: true, sent_bytes, link_rate: None }
}

#[test]
fn queue_below_a_hundredth_of_its_rate_stands_from_the_start_of_the_window() {
    let mut detector = detector(2);
    let mut sent = [0_u64; 2];
    // Each ms, the first queue sends half its rate for 20 ms, then 1 Mb/s; the second always sends half.
    for ms in 1..=40 {
        sent[0] += if ms <= 20 { 625_000 } else { 125 };
        sent[1] += 625_000;
        detector.observe_states(millis(ms), |queue| waiting(sent[queue.place.switch]));
        let expected = (ms >= 25).then(|| Standstill { since: millis(20), queues: vec![queue(0)], dissolved_at: None });
        assert_eq!(detector.standstill(), expected.as_ref(), "{ms} ms");
    }
    // A window above the limit of 62.5 KB dissolves it.
    for ms in 41..=45 {
        sent[0] += 12_501;
        detector.observe_states(millis(ms), |queue| waiting(sent[queue.place.switch]));
    }
    assert_eq!(detector.standstill().unwrap().dissolved_at, Some(millis(45)));
}

#[test]
fn empty_queue_starts_a_new_window() {
    let mut detector = detector(1);
    for ms in 1..=40 {
        detector.observe_states(millis(ms), |_| QueueState { is_waiting: ms % 5 != 4, ..waiting(0) });
    }
    assert_eq!(detector.standstill(), None);
}

#[test]
fn queue_without_a_known_rate_never_stands() {
    let mut detector = detector(1);
    detector.queues[0].rate = None;
    (1..=20).for_each(|ms| detector.observe_states(millis(ms), |_| waiting(0)));
    assert_eq!(detector.standstill(), None);
    let reported = QueueState { link_rate: Some(BitRate::gbps(10)), ..waiting(0) };
    (21..=30).for_each(|ms| detector.observe_states(millis(ms), |_| reported));
    assert!(detector.standstill().is_some());
}

#[test]
fn persisting_standstill_counts_and_otherwise_the_first() {
    let mut detector = detector(2);
    let observe = |detector: &mut StandstillDetector, ms: u64, waits: [bool; 2]| {
        detector.observe_states(millis(ms), |queue| QueueState { is_waiting: waits[queue.place.switch], ..waiting(0) });
    };
    observe(&mut detector, 5, [true, false]);
    observe(&mut detector, 6, [false, false]);
    observe(&mut detector, 12, [true, false]);
    observe(&mut detector, 17, [true, true]);
    let last = detector.standstill().unwrap();
    assert_eq!((last.since, last.queues.len(), last.persists()), (millis(6), 2, true));
    observe(&mut detector, 18, [false, false]);
    let first = detector.standstill().unwrap();
    assert_eq!((first.since, first.dissolved_at), (Time::ZERO, Some(millis(6))));
}
