//! LLDP frames: for the switch itself, and outside of the conservation of data frames.

use weir_switch_core::counters::DropReason;
use weir_units::{Class, ClassSet, MacAddr, PortId};
use weir_wire::ethernet::Parsed;
use weir_wire::mac_control::{ControlFrame, CreditAccount, CreditFrame};

use crate::common::{Bench, LAYOUTS, STEP, TestFrame, clones, control, frame, introduce, pfc, toml};

fn lldp() -> TestFrame {
    lldp_of_class(0)
}

fn lldp_of_class(dscp: u8) -> TestFrame {
    let mut lldp = frame(0, 1, dscp, 77);
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
fn frames_that_nobody_takes_count_against_no_credit() {
    let class = Class::new(3);
    let flow_control = "flow_control = { kind = \"cbfc\", buffer = \"100KB\" }\n[[ports]]";
    for (layout, takes_lldp) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let text =
            toml(3, "[classes]\nlossless = [3]\n") + "[[ports]]\nname = \"last\"\nring = \"last\"\nrate = \"10Gbps\"\n";
        let text = text.replace("delay = \"1us\"\n[[ports]]", &format!("delay = \"1us\"\n{flow_control}"));
        let mut bench = Bench::new(&text, layout);
        introduce(&mut bench);
        bench.world.takes_lldp = takes_lldp;
        bench.arrive(1, frame(1, 2, 3, 1));
        bench.arrive(1, lldp_of_class(3));
        bench.run(20, STEP);
        // The peer has counted the data frame alone: 1,518 B in blocks of 64 B.
        let account = CreditAccount::Sent { class, blocks: 24 };
        bench.arrive(1, control(ControlFrame::Credit(CreditFrame { enabled: class.alone(), limits: [0; 8], account })));
        bench.run(20, STEP);
        assert_eq!(bench.report().ports[1].mismatch.resyncs, 0, "{layout:?}, {takes_lldp}");
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
