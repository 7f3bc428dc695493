//! `weir check --try`: a test of two ports that are cabled to each other, with its row for the table in docs/DEVICES.md.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use weir_config::{Device, SwitchConfig};
use weir_dpdk_driver::loopback_test::{Delivery, DeviceResult, DirectionResult, LoopbackReport, test_loopback};
use weir_dpdk_driver::{Memory, Placement, Runtime, RuntimeOptions, check_machine, claim_devices, pci_addresses};
use weir_dpdk_io::IovaMode;
use weir_experiments::files::json_text;
use weir_experiments::real_frames::{CheckResult, Health};
use weir_experiments::switches::load_all;
use weir_experiments::{Failure, experiment};

use crate::fault::Fault;

/// Columns of the table in docs/DEVICES.md.
const HEAD: [&str; 10] = [
    "Devices",
    "Driver",
    "Memory",
    "Link",
    "Frames identical",
    "Tags delivery",
    "PFC / PAUSE reach the program",
    "Own flow control",
    "Obeys PAUSE by itself",
    "Counters",
];

/// Kinds of tagged frames, as people read them.
const TAGGED: [&str; 3] = ["with an 802.1Q tag", "with an 802.1ad tag", "with both tags"];

/// Tests the first two ports of a file.
pub(crate) fn try_devices(files: &[PathBuf], eal: &[String], json: bool) -> Result<(), Fault> {
    let stop = experiment::stopped_by_signals()?;
    let switches = load_all(files)?;
    eprintln!("this takes some 3 s, and up to 30 s if links stay down or frames are lost");
    let report = run_test(switches, eal, &|| !stop.load(Ordering::Relaxed))?;
    if json {
        print!("{}", json_text(&as_json(&report)));
    } else {
        print(&report);
    }
    if report.directions.len() < 2 {
        let [a, b] = &report.devices;
        let message = format!(
            "interrupted: {} of 2 directions between {} and {} were tested; the same command tests both",
            report.directions.len(),
            a.port,
            b.port
        );
        return Err(Failure::Run(message).into());
    }
    match report.is_fit() {
        true => Ok(()),
        false => Err(Failure::Run("these devices are not fit for lossless ports".into()).into()),
    }
}

/// Tests the first two ports of a file, or a link inside this process, and returns the findings.
pub(crate) fn try_loop(file: Option<&Path>, eal: &[String]) -> Result<Vec<CheckResult>, Fault> {
    const INSIDE: &str = "[[ports]]\nname = \"a\"\nring = \"loop\"\nrate = \"10Gbps\"\n\
                          [[ports]]\nname = \"b\"\nring = \"loop\"\nrate = \"10Gbps\"\n";
    let switches = match file {
        Some(file) => load_all(&[file.to_owned()])?,
        None => vec![weir_config::parse("loop", INSIDE).map_err(Fault::from)?],
    };
    let report = run_test(switches, eal, &|| true)?;
    let mut findings = Vec::new();
    for (direction, [from, to]) in report.directions.iter().zip([[0, 1], [1, 0]]) {
        let about = format!("loop {} to {}", report.devices[from].port, report.devices[to].port);
        let cable = "cable the first two ports of the file to each other, and look at weir check --try";
        findings.push(match (direction.pfc_identical, direction.pfc) {
            (true, _) => CheckResult::good(&about, "a PFC frame arrived as it left, byte for byte"),
            (_, true) => CheckResult::bad(Health::Error, &about, "a PFC frame arrived, but not as it left", cable),
            (_, false) => CheckResult::bad(Health::Error, &about, "a PFC frame did not arrive", cable),
        });
        let message = format!("{} of frames of 60 B and longer arrived as they left", share(&direction.untagged));
        findings.push(match direction.untagged.is_complete() {
            true => CheckResult::good(&about, message),
            false => CheckResult::bad(Health::Error, &about, message, cable),
        });
        if direction.obeys == Some(true) {
            let message = "the device obeys PAUSE by itself, for all classes at once";
            findings.push(CheckResult::bad(
                Health::Error,
                &about,
                message,
                "ethtool -A IFACE autoneg off rx off tx off",
            ));
        }
    }
    Ok(findings)
}

/// Tests the first two ports of the only switch.
fn run_test(switches: Vec<SwitchConfig>, eal: &[String], goes_on: &dyn Fn() -> bool) -> Result<LoopbackReport, Fault> {
    let [switch] = &switches[..] else {
        let message = "--try takes one file, whose first two ports are cabled to each other";
        return Err(Failure::Argument(message.into()).into());
    };
    if let Some(clone) = switch.ports[..2].iter().find(|port| matches!(port.device, Device::CloneOf(_))) {
        let message = format!("--try needs two ports with devices first in the file; {} is a clone", clone.name);
        return Err(Failure::Argument(message).into());
    }
    check_machine(&switches)?;
    // Until the ports are closed.
    let _locks = claim_devices(&switches)?;
    let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0)?;
    let memory_mb = Memory::for_switches(&switches, placement.cpus.len(), 0).megabytes();
    let options = RuntimeOptions { memory_mb, eal_args: eal.to_vec(), ..RuntimeOptions::default() };
    let runtime = Runtime::start("weir-try", &placement.cpus, &pci_addresses(&switches), &options)?;
    Ok(test_loopback(&runtime, switch, &placement.cpus, goes_on)?)
}

fn as_json(report: &LoopbackReport) -> Value {
    let device = |device: &DeviceResult| {
        let counters = device.counters;
        json!({
            "port": device.port,
            "device": device.device,
            "driver": device.driver,
            "link_up": device.link.map(|link| link.up),
            "link_mbps": device.link.and_then(|link| link.speed_mbps),
            "own_flow_control": device.pause.to_string(),
            "counters": counters.counts.then(|| json!({
                "given": counters.given, "sent": counters.sent, "taken": counters.taken, "received": counters.received, "lost": counters.lost,
            })),
        })
    };
    let delivery = |delivery: &Delivery| {
        json!({
            "frames": delivery.sent,
            "identical": delivery.identical,
            "forwarded": delivery.forwarded,
            "wrong_lengths": delivery.wrong,
            "too_long_from": delivery.too_long,
        })
    };
    let direction = |(direction, [from, to]): (&DirectionResult, [usize; 2])| {
        let [customer, service, both] = direction.tagged.each_ref().map(delivery);
        json!({
            "from": report.devices[from].port,
            "to": report.devices[to].port,
            "untagged": delivery(&direction.untagged),
            "tagged": { "802.1Q": customer, "802.1ad": service, "both": both },
            "pfc_arrives": direction.pfc,
            "pfc_identical": direction.pfc_identical,
            "pause_arrives": direction.pause,
            "obeys_pause_by_itself": direction.obeys,
        })
    };
    json!({
        "fit": report.is_fit(),
        "hugepages": report.hugepages,
        "devices": report.devices.iter().map(device).collect::<Vec<_>>(),
        "ways": report.directions.iter().zip([[0, 1], [1, 0]]).map(direction).collect::<Vec<_>>(),
    })
}

fn print(report: &LoopbackReport) {
    for (direction, [from, to]) in report.directions.iter().zip([[0, 1], [1, 0]]) {
        let kinds =
            [("without a tag", &direction.untagged)].into_iter().chain(TAGGED.into_iter().zip(&direction.tagged));
        for (kind, delivery) in kinds.filter(|(_, delivery)| !delivery.is_complete()) {
            let lengths = delivery.wrong.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            println!(
                "{} to {}: of {} frames {kind}, {} arrived as they left, and {} again once a switch had forwarded them; the first that \
                 did not have {lengths} B",
                report.devices[from].port,
                report.devices[to].port,
                delivery.sent,
                delivery.identical,
                delivery.forwarded,
            );
        }
    }
    let [there, back] = &report.directions[..] else {
        for (direction, [from, to]) in report.directions.iter().zip([[0, 1], [1, 0]]) {
            let (from, to) = (&report.devices[from].port, &report.devices[to].port);
            let pfc = if direction.pfc_identical { "a PFC frame did too" } else { "a PFC frame did not" };
            println!("{from} to {to}: {} of frames arrived as they left; {pfc}", share(&direction.untagged));
        }
        return;
    };
    println!("| {} |", HEAD.join(" | "));
    println!("|{}", "---|".repeat(HEAD.len()));
    println!("| {} |", row(report, [there, back]).join(" | "));
}

/// Returns the cells of the row; values that are equal at both ends stand once.
fn row(report: &LoopbackReport, [there, back]: [&DirectionResult; 2]) -> [String; 10] {
    let [a, b] = &report.devices;
    let of_devices = |of: fn(&DeviceResult) -> String| once(of(a), of(b));
    let of_directions = |of: fn(&DirectionResult) -> String| once(of(there), of(back));
    let pages = if report.hugepages { "hugepages" } else { "ordinary pages" };
    let iova_mode = match report.iova_mode {
        IovaMode::Virtual => "virtual",
        IovaMode::Physical => "physical",
    };
    [
        of_devices(|device| device.device.replace('"', "")),
        of_devices(|device| device.driver.clone()),
        format!("{pages}, {iova_mode} addresses"),
        of_devices(link),
        of_directions(|direction| share(&direction.untagged)),
        of_directions(|direction| {
            let named = ["802.1Q", "802.1ad", "both"].into_iter().zip(&direction.tagged);
            named.map(|(name, delivery)| tags_kept(name, delivery)).collect::<Vec<_>>().join(", ")
        }),
        of_directions(|direction| format!("{} / {}", yes(direction.pfc), yes(direction.pause))),
        of_devices(|device| device.pause.to_string()),
        of_directions(|direction| direction.obeys.map_or("unknown", yes).to_owned()),
        of_devices(|device| device.counters.to_string()),
    ]
}

/// Formats how many of the frames sent were forwarded: `200 of 200`.
fn share(delivery: &Delivery) -> String {
    format!("{} of {}", delivery.forwarded, delivery.sent)
}

/// Formats the lengths up to which frames with a kind of tags arrived as they left.
fn tags_kept(name: &str, delivery: &Delivery) -> String {
    match delivery.too_long {
        _ if delivery.is_complete() => name.to_owned(),
        Some(length) => format!("{name} below {length} B"),
        None => "-".to_owned(),
    }
}

fn once(first: String, second: String) -> String {
    if first == second { first } else { format!("{first}; {second}") }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn link(device: &DeviceResult) -> String {
    match device.link {
        Some(link) if link.up => link.speed_mbps.map_or("up".to_owned(), |mbps| format!("up, {mbps} Mb/s")),
        Some(_) => "down".to_owned(),
        None => "unknown".to_owned(),
    }
}
