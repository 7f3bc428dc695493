//! An incast from Rust: eight hosts send 64 KB each to a ninth at one instant, over one switch, in virtual time.
//!
//! The scenario is the text of a scenario file (docs/SCENARIOS.md). The program advances the clock by itself, so it may
//! look at switches and hosts at any instant.
//!
//! ```text
//! cargo run -p weir-sim --example incast
//! ```

use std::error::Error;
use std::path::Path;

use weir_scenario::file;
use weir_sim::Sim;
use weir_units::{Class, Span, Time};

const SCENARIO: &str = r#"
[scenario]
end = "1ms"

[topology]
kind = "single"
hosts = 9
rate = "25Gbps"
delay = "1us"

[switch.buffer]
size = "1MB"
policy = "dt"

[switch.buffer.dt]
alpha = "1/8"

[switch.classes]
preset = "roce"

[switch.pfc]
reaction = "0s"

[[workloads]]
kind = "incast"
class = 3
sizes = "64KB"
receivers = ["H8"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let runs = file::parse(Path::new("incast.toml"), SCENARIO).map_err(|errors| errors.render(false))?;
    let scenario = &runs[0].scenario;
    let mut sim = Sim::new(scenario)?;
    let lossless = Class::new(3);

    println!("   time  shared segment  PAUSEs  done");
    let (mut now, mut done) = (Time::ZERO, Vec::new());
    while now < scenario.end && done.len() < 8 {
        now += Span::from_micros(20);
        sim.run_until(now);
        done.extend(sim.drain_completions());
        let report = sim.report(0);
        let pauses: u64 = report.ports.iter().map(|port| port.classes[lossless.index()].xoff_tx).sum();
        let us = now.since(Time::ZERO).as_picos() / 1_000_000;
        println!("{us:>4} us {:>13} B  {pauses:>6}  {:>4}", report.pool.used.get(), done.len());
    }

    println!("\nhost  FCT");
    for message in &done {
        println!("  {}  {:>4} us", scenario.hosts[message.host].name, message.fct.as_picos() / 1_000_000);
    }
    let balance = sim.report(0).conservation;
    assert_eq!((done.len(), balance.dropped), (8, 0));
    println!("\ndropped: {}; frames are conserved: {}", balance.dropped, balance.holds);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it ends well");
}
