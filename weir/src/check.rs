//! `weir check`: what follows from a configuration.

use std::path::PathBuf;

use weir_config::{FlowControl, Headroom, SwitchConfig, Trust};
use weir_dpdk_driver::{Memory, Placement};
use weir_mmu::{BufferLayout, Charge, Policy};
use weir_switch_core::buffer::{buffer_layout, buffer_policy, xon_offset};
use weir_switch_core::switch::RATE_UNKNOWN;
use weir_units::{Bytes, Class, QueueId};

use crate::exit::{Failure, load_all};
use crate::table::{Table, count};

/// Checks the files and prints what they mean.
pub fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let switches = load_all(files)?;
    // What the file says is of interest even where this machine lacks what it names, so that comes last.
    let placement = Placement::new(&switches, &weir_dpdk_io::cpu::allowed(), 0);
    for (index, switch) in switches.iter().enumerate() {
        let layout = buffer_layout(switch).map_err(|error| error.at_line(switch))?;
        let rates: Vec<_> = switch.ports.iter().map(|port| port.rate.unwrap_or(RATE_UNKNOWN)).collect();
        let policy = buffer_policy(switch, &layout, &rates).map_err(|error| error.at_line(switch))?;
        println!("{}: {} ports", switch.name, switch.ports.len());
        print_classes(switch);
        print_partition(switch, &layout);
        print_thresholds(switch, &layout, &*policy);
        print_ports(switch, &layout);
        if let Ok(placement) = &placement {
            print_lcores(placement, index);
        }
        for warning in warnings(switch) {
            println!("  warning: {warning}");
        }
        println!();
    }
    let lcores = placement.as_ref().map_or(1, |placement| placement.cpus.len());
    print_memory(&switches, Memory::of(&switches, lcores, 0));
    placement?;
    weir_dpdk_driver::check_machine(&switches)?;
    println!("everything that the configuration names is on this machine");
    Ok(())
}

fn print_lcores(placement: &Placement, switch: usize) {
    let placed = &placement.switches[switch];
    println!("  lcores ({}):", layout_name(placed.plan.layout));
    for (role, on) in placed.plan.lcores.iter().zip(&placed.on) {
        println!("    CPU {}: {role}", placement.cpus[*on]);
    }
}

fn print_classes(switch: &SwitchConfig) {
    let trust = match switch.classes.trust {
        Trust::Dscp => "DSCP",
        Trust::Pcp => "PCP",
        Trust::Port => "port",
    };
    let lossless: Vec<String> =
        Class::in_mask(switch.classes.lossless).map(|class| class.index().to_string()).collect();
    println!(
        "  classes by {trust}; lossless: {}",
        if lossless.is_empty() { "none".to_owned() } else { lossless.join(", ") }
    );
}

fn print_partition(switch: &SwitchConfig, layout: &BufferLayout) {
    let share = |part: Bytes| format!("{:.1} %", part.get() as f64 * 100.0 / layout.size().get() as f64);
    let mut table = Table::new(["Buffer", "Bytes", "Share"]);
    table.row(["B whole", &count(layout.size().get()), "100.0 %"]);
    table.row(["private", &count(layout.private().get()), &share(layout.private())]);
    table.row(["headroom", &count(layout.headroom().get()), &share(layout.headroom())]);
    table.row(["B_s shared", &count(layout.shared().get()), &share(layout.shared())]);
    print!("{table}");
    let cell = switch.buffer.cell_bytes;
    let unit = if cell == 1 { "bytes (frames of 64 B at least)".to_owned() } else { format!("cells of {cell} B") };
    let frames = Charge::in_cells(cell).frames_max(layout.size());
    println!("  accounted in {unit}; holds at most {} frames", count(frames));
}

fn print_thresholds(switch: &SwitchConfig, layout: &BufferLayout, policy: &dyn Policy) {
    let empty = policy.threshold(QueueId::default(), 0);
    let xon = |xoff: u64| xoff.saturating_sub(xon_offset(switch).get());
    println!("  policy \"{}\": Xoff = T(t), Xon = T(t) - {} B", policy.name(), count(xon_offset(switch).get()));
    let mut table = Table::new(["Overloaded ingress queues", "Xoff B", "Xon B", "Shared in use"]);
    table.row(["none (empty)".to_owned(), count(empty), count(xon(empty)), "0.0 %".to_owned()]);
    let queues = switch.ports.len() as u64 * u64::from(switch.lossless_classes());
    for n in [1, 2, 4, 8, 16, 32, 64, 128].into_iter().take_while(|n| *n <= queues) {
        let each = policy.steady_state(n).get();
        let used = (each * n).min(layout.shared().get()) as f64 * 100.0 / layout.shared().get() as f64;
        table.row([n.to_string(), count(each), count(xon(each)), format!("{used:.1} %")]);
    }
    print!("{table}");
}

fn print_ports(switch: &SwitchConfig, layout: &BufferLayout) {
    let mut table = Table::new(["Port", "Device", "Rate", "Delay", "Flow control", "Headroom B", "By rule B"]);
    for (index, port) in switch.ports.iter().enumerate() {
        let headroom = layout.ports()[index].headroom.iter().copied().max().unwrap_or(Bytes::ZERO);
        let flow_control = match port.flow_control {
            FlowControl::Pfc => "PFC",
            FlowControl::Pause => "PAUSE",
            FlowControl::None => "none",
        };
        table.row([
            port.name.clone(),
            port.device.to_string(),
            port.rate.map_or("device's".to_owned(), |rate| rate.to_string()),
            port.delay.to_string(),
            flow_control.to_owned(),
            count(headroom.get()),
            switch.headroom_by_rule(port).map_or("-".to_owned(), |rule| count(rule.get())),
        ]);
    }
    print!("{table}");
}

/// What is legal and probably not meant.
fn warnings(switch: &SwitchConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    let lossless = switch.classes.lossless != 0;
    for (index, port) in switch.ports.iter().enumerate().filter(|_| lossless) {
        if let (Headroom::Fixed(given), Some(rule)) = (switch.buffer.headroom, switch.headroom_by_rule(port))
            && given < rule
        {
            warnings.push(format!(
                "{}: headroom {} B is less than the {} B that the rule asks for (2 (C D_prop + L_MTU) + 3840 B + C reaction): lossless frames can be lost",
                port.name,
                count(given.get()),
                count(rule.get())
            ));
        }
        if port.flow_control == FlowControl::None {
            warnings
                .push(format!("{}: no flow control, so its lossless classes can overrun their headroom", port.name));
        }
        if switch.headroom(index).is_none_or(|phi| phi == Bytes::ZERO) {
            warnings.push(format!("{}: no headroom, so every frame that arrives after Xoff is lost", port.name));
        }
    }
    warnings
}

fn print_memory(switches: &[SwitchConfig], memory: Memory) {
    let by = if switches.iter().all(|switch| switch.buffer.cell_bytes == 1) {
        "one for each smallest frame (64 B) that the buffer holds, since accounting is in bytes"
    } else {
        "one for each cell of the buffer, so the cells and never the mbufs run out"
    };
    println!(
        "packet memory: {} mbufs for the buffer ({by}), {} on their way in and out, {} for control frames: {} in all",
        count(u64::from(memory.buffered)),
        count(u64::from(memory.in_flight)),
        count(u64::from(memory.control)),
        format_args!("{} MiB", memory.bytes().get() >> 20)
    );
}

fn layout_name(layout: weir_config::Layout) -> &'static str {
    match layout {
        weir_config::Layout::Auto => "auto",
        weir_config::Layout::Single => "all on one lcore",
        weir_config::Layout::RxTx => "RX+FWD / TX",
        weir_config::Layout::RxFwdTx => "RX / FWD / TX",
    }
}
