//! Emits a PFC frame, reads it back, and obeys it: which classes are paused, and for how long at 10 Gb/s.
//!
//! ```text
//! cargo run -p weir-flowctl --example pfc_frame
//! ```

use weir_flowctl::kinds::Pfc;
use weir_flowctl::{PortFlowControl, Quantum, TxRegulator};
use weir_units::{BitRate, Class, ClassSet, MacAddr, Time};
use weir_wire::mac_control::{ControlFrame, DecodeError, PfcFrame};

fn main() -> Result<(), DecodeError> {
    // Class 3 pauses for 1,000 quanta; class 4 resumes, as its time is 0.
    let mut pfc = PfcFrame { enabled: ClassSet::from_members(&[Class::new(3), Class::new(4)]), ..PfcFrame::default() };
    pfc.times[3] = 1_000;
    let source: MacAddr = "02:00:00:00:00:01".parse().expect("a MAC address");
    let bytes = ControlFrame::Pfc(pfc).encode(source);
    println!("on the wire, without FCS:");
    for (line, row) in bytes.chunks(16).enumerate() {
        let row: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("  {:04x}  {}", line * 16, row.join(" "));
    }

    // The receiving end.
    assert!(ControlFrame::is_control(&bytes));
    let frame = ControlFrame::decode(&bytes)?;
    let ControlFrame::Pfc(read) = frame else { unreachable!("a PFC frame was written") };
    assert_eq!(read, pfc);
    println!("classes paused: {}, resumed: {}", read.paused(), read.resumed());

    // The regulator of a port decides which classes may send.
    let rate = BitRate::gbps(10);
    let class = Class::new(3);
    let mechanism = PortFlowControl::new(Pfc { quanta: u16::MAX, refresh_percent: 50 });
    let regulator = TxRegulator::new(&mechanism, rate, class.alone());
    regulator.handle(Time::ZERO, &frame);
    let pause = Quantum::for_rate(rate).times(read.times[class.index()]);
    for at in [Time::ZERO, Time::ZERO + pause] {
        let state = if regulator.paused(at).contains(class) { "paused" } else { "may send" };
        println!("class 3 after {:>6} ns: {state}", at.since(Time::ZERO).as_picos() / 1_000);
    }

    // A truncated frame is detected, and never obeyed.
    println!("the first 20 bytes alone: {:?}", ControlFrame::decode(&bytes[..20]));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it ends well");
}
