//! LLDP frames: for the switch itself, and outside of the conservation of data frames.

use weir_switch_core::counters::DropReason;
use weir_units::{ClassSet, MacAddr, PortId};
use weir_wire::ethernet::Parsed;

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, clones, frame, introduce, pfc, toml};

fn lldp() -> TestFrame {
    let mut lldp = frame(0, 1, 0, 77);
    if let Parsed::Data(headers) = &mut lldp.parsed {
        headers.destination = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    }
    TestFrame { frame_bytes: 200, ..lldp }
}

fn send(bench: &mut Bench, port: u16) -> bool {
    let now = bench.now;
    let sender = bench.lcores.iter_mut().find(|lcore| lcore.role.transmits.contains(&PortId(port)));
    sender.expect("each port has a transmitter").send_lldp(now, PortId(port), lldp(), &mut bench.world).is_ok()
}

#[test]
fn received_frames_are_taken_and_are_neither_data_nor_losses() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&(toml(3, "") + &clones(0, &["c0"])), layout);
        introduce(&mut bench);
        bench.world.takes_lldp = true;
        let before = bench.report();
        for port in [1, 2] {
            bench.arrive(port, frame(port, 3 - port, 3, 1));
            bench.arrive(port, lldp());
            bench.arrive(port, frame(port, 3 - port, 3, 2));
        }
        bench.run(20, STEP);
        let report = bench.report();
        assert_eq!(bench.world.lldp_from, [1, 2], "{layout:?}");
        assert_eq!(report.ports.iter().map(|port| port.control_rx.lldp).collect::<Vec<_>>(), [0, 1, 1, 0]);
        assert_eq!(
            (report.dropped(DropReason::LinkLocal), bench.data_sent(1), bench.data_sent(2)),
            (0, vec![1, 2], vec![1, 2])
        );
        let conservation = report.conservation;
        assert!(conservation.holds && conservation.held() == 0, "{layout:?}: {conservation:?}");
        assert_eq!(conservation.received - before.conservation.received, 4, "{layout:?}");
        bench.world.takes_lldp = false;
        bench.arrive(1, lldp());
        bench.run(20, STEP);
        assert_eq!(bench.report().dropped(DropReason::LinkLocal), 1, "{layout:?}");
    }
}

#[test]
fn frames_are_sent_once_the_port_accepts_them() {
    for layout in LAYOUTS {
        let mut bench = Bench::new(&toml(3, ""), layout);
        introduce(&mut bench);
        assert!(send(&mut bench, 1));
        bench.world.accepts = Some(0);
        assert!(!send(&mut bench, 1), "{layout:?}: the device is full");
        bench.world.accepts = None;
        bench.shared.set_link_up(PortId(2), false);
        assert!(send(&mut bench, 2), "discarded: there is no link");
        bench.run(5, STEP);
        let report = bench.report();
        assert_eq!(report.ports.iter().map(|port| port.control_tx.lldp).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!((bench.world.sent[1].len(), bench.world.sent[2].len()), (1, 0), "{layout:?}");
        assert!(report.conservation.holds, "{layout:?}: {:?}", report.conservation);
    }
}

#[test]
fn a_peer_that_pauses_all_classes_gets_no_lldp() {
    let mut bench = Bench::new(&toml(3, "[pfc]\nreaction = \"0s\"\nobey = \"all\"\n"), LAYOUTS[0]);
    introduce(&mut bench);
    bench.arrive(1, pfc(ClassSet::ALL, 1_000));
    bench.step(STEP);
    assert!(!send(&mut bench, 1));
    bench.arrive(1, pfc(ClassSet::ALL, 0));
    bench.step(STEP);
    assert!(send(&mut bench, 1));
}
