//! Frames and captures, checked with Wireshark's dissectors. Skipped, with the reason, if tshark is not installed.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use weir_nic::host::{FlowConfig, Host, HostConfig};
use weir_results::run_dir::{CapturePort, CaptureWriter};
use weir_switch_core::Direction;
use weir_units::{BitRate, Bytes, Class, MacAddr, Span, Time};
use weir_wire::rocev2::{Dscp, Ecn, Operation, Psn, QueuePair, Repr};

/// Returns the named fields of each frame of a capture; `None` if tshark is missing.
fn dissect(capture: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(capture).args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: tshark does not run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

/// Parses a number, which tshark prints in base 10 or 16 by field.
fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")),
    }
}

fn host(n: u8) -> HostConfig {
    HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n), BitRate::gbps(10))
}

/// Frames with their instants: a message of three packets, one of one, acknowledgements, and a CNP.
fn conversation() -> Vec<(Time, Vec<u8>)> {
    let flow = FlowConfig {
        message: Bytes::new(2_500),
        start: Time::from_nanos(1_000),
        total: Some(Bytes::new(2_501)),
        ..FlowConfig::new(
            QueuePair::new(0x000011),
            host(2).peer(QueuePair::new(0x0abcde)),
            Class::new(3),
            Dscp::new(26),
        )
    };
    let mut sender = Host::new(host(1), std::slice::from_ref(&flow), &[]).unwrap();
    let mut receiver = Host::new(host(2), &[], &[flow.receiver(&host(1))]).unwrap();
    let (mut frames, mut buffer, mut now) = (Vec::new(), [0; 2_000], Time::ZERO);
    while !sender.is_finished() {
        now = sender.next_wakeup(now).min(receiver.next_wakeup(now));
        if let Some(length) = sender.poll_transmit(now, &mut buffer) {
            receiver.handle_frame(now, &buffer[..length]);
            frames.push((now, buffer[..length].to_vec()));
        }
        if let Some(length) = receiver.poll_transmit(now, &mut buffer) {
            sender.handle_frame(now, &buffer[..length]);
            frames.push((now, buffer[..length].to_vec()));
        }
    }
    let cnp = Repr {
        destination: host(1).mac,
        source: host(2).mac,
        destination_ip: host(1).ip,
        source_ip: host(2).ip,
        dscp: Dscp::new(48),
        ecn: Ecn::NotCapable,
        source_port: 0xc000,
        queue_pair: QueuePair::new(0x11),
        psn: Psn::new(0),
        operation: Operation::CongestionNotification,
    };
    let length = cnp.write(&[], &mut buffer).unwrap();
    frames.push((now + Span::from_nanos(1), buffer[..length].to_vec()));
    frames
}

fn captured(frames: &[(Time, Vec<u8>)], path: &Path) {
    let port = CapturePort { name: "p7".into(), mac: MacAddr([2, 0, 0, 0, 9, 9]), rate: Some(BitRate::gbps(10)) };
    let mut capture = CaptureWriter::new(std::fs::File::create(path).unwrap(), &port).unwrap();
    for (at, frame) in frames {
        let direction = if frame[11] == 1 { Direction::Inbound } else { Direction::Outbound };
        capture.write(*at, direction, frame).unwrap();
    }
    assert_eq!(capture.finish().unwrap(), frames.len() as u64);
}

#[test]
fn frames_are_roce_to_tshark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p7.pcapng");
    captured(&conversation(), &path);
    let fields = [
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.bth.a",
        "infiniband.bth.padcnt",
        "infiniband.reth.dmalen",
        "infiniband.aeth.msn",
        "ip.dsfield.dscp",
        "ip.dsfield.ecn",
        "ip.checksum.status",
    ];
    let Some(rows) = dissect(&path, &[&fields[..], &["_ws.malformed", "_ws.expert.message"]].concat()) else { return };
    const ABSENT: u64 = u64::MAX;
    // opcode, PSN, destination, acknowledge request, padding, RETH length, AETH MSN, DSCP, ECN
    let expected = [
        [0x06, 0, 0xabcde, 0, 0, 2_500, ABSENT, 26, 2],
        [0x07, 1, 0xabcde, 0, 0, ABSENT, ABSENT, 26, 2],
        [0x08, 2, 0xabcde, 1, 0, ABSENT, ABSENT, 26, 2],
        [0x11, 2, 0x00011, 0, 0, ABSENT, 1, 48, 2],
        [0x0a, 3, 0xabcde, 1, 3, 1, ABSENT, 26, 2],
        [0x11, 3, 0x00011, 0, 0, ABSENT, 2, 48, 2],
        [0x81, 0, 0x00011, 0, 0, ABSENT, ABSENT, 48, 0],
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        let values: Vec<u64> =
            row[..9].iter().map(|text| if text.is_empty() { ABSENT } else { number(text) }).collect();
        assert_eq!(values, expected, "{row:?}");
        assert_eq!((&*row[10], &*row[11]), ("", ""), "tshark complains");
    }
}

#[test]
fn a_capture_keeps_times_to_the_nanosecond_and_names_its_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p7.pcapng");
    let frames = conversation();
    captured(&frames, &path);
    let fields = ["frame.time_epoch", "frame.len", "frame.interface_name", "frame.packet_flags_direction"];
    let Some(rows) = dissect(&path, &fields) else { return };
    assert_eq!(rows.len(), frames.len());
    for (row, (at, frame)) in rows.iter().zip(&frames) {
        let nanos = at.as_nanos();
        assert_eq!(row[0], format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000));
        assert_eq!((number(&row[1]), &*row[2]), (frame.len() as u64, "p7"));
        assert_eq!(number(&row[3]), if frame[11] == 1 { 1 } else { 2 });
    }
}
