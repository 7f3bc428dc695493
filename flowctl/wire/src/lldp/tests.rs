use proptest::prelude::*;

use super::*;
use crate::rocev2::UDP_PORT;

fn some_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[ -~é]{0,80}")
}

fn some_identifier(kind: IdentifierKind) -> impl Strategy<Value = Identifier> {
    let other = (1u8..8, "[a-z][a-z0-9/. -]{0,40}");
    prop_oneof![
        any::<[u8; 6]>().prop_map(|mac| Identifier::Mac(MacAddr(mac))),
        any::<IpAddr>().prop_map(Identifier::Address),
        other
            .prop_filter("a subtype of text", move |(subtype, _)| *subtype != kind.mac)
            .prop_map(|(subtype, text)| Identifier::Text { subtype, text }),
    ]
}

prop_compose! {
    fn some_ets()(
        willing: bool, traffic_classes in 1u8..9, class_of_priority: [u8; 8], percent: [u8; 8], algorithms: [u8; 8],
    ) -> EtsConfiguration {
        EtsConfiguration { willing, traffic_classes, class_of_priority: class_of_priority.map(|class| class & 15), percent, algorithms }
    }
}

prop_compose! {
    fn some_lldpdu()(
        ids in (some_identifier(CHASSIS_ID), some_identifier(PORT_ID), any::<u16>()),
        texts in (some_text(), some_text(), some_text()),
        capabilities in prop::option::of(any::<(u16, u16)>()),
        ets in prop::option::of(some_ets()),
        recommendation in prop::option::of(some_ets()),
        pfc in prop::option::of((any::<bool>(), 0u8..16, any::<u8>())),
        applications in prop::collection::vec((0u8..8, 0u8..8, any::<u16>()), 0..20),
    ) -> Lldpdu {
        let (port_description, system_name, system_description) = texts;
        Lldpdu {
            chassis: ids.0,
            port: ids.1,
            ttl: ids.2,
            port_description, system_name, system_description,
            capabilities: capabilities.map(|(system, enabled)| Capabilities { system, enabled }),
            ets,
            ets_recommendation: recommendation.map(|ets| EtsConfiguration { willing: false, ..ets }),
            pfc: pfc.map(|(willing, classes_max, bits)| PfcConfiguration { willing, classes_max, enabled: ClassSet::from_bits(bits) }),
            applications: applications
                .into_iter()
                .map(|(class, selector, protocol)| ApplicationPriority { class: Class::new(class), selector, protocol })
                .collect(),
        }
    }
}

const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

proptest! {
    #[test]
    fn an_lldpdu_decodes_as_it_was_encoded(lldpdu in some_lldpdu()) {
        let frame = lldpdu.encode(SOURCE);
        prop_assert!(frame.len() >= 60);
        prop_assert_eq!(Lldpdu::decode(&frame), Ok(lldpdu));
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(bytes: Vec<u8>, lldpdu in some_lldpdu(), at: prop::sample::Index, to: u8) {
        let _ = Lldpdu::decode(&bytes);
        let mut headed = SOURCE.0.repeat(2);
        headed.extend(ETHERTYPE.to_be_bytes());
        headed.extend(&bytes);
        let _ = Lldpdu::decode(&headed);
        // A frame with a wrong byte, and one that is cut.
        let mut frame = lldpdu.encode(SOURCE);
        let at = at.index(frame.len());
        let _ = Lldpdu::decode(&frame[..at]);
        frame[at] = to;
        let _ = Lldpdu::decode(&frame);
    }
}

#[test]
fn lengths_beyond_the_frame_are_malformed() {
    let frame = Lldpdu::new(Identifier::Mac(SOURCE), Identifier::Mac(SOURCE), 120).encode(SOURCE);
    assert!(Lldpdu::decode(&frame).is_ok());
    for (at, byte) in [(15, 0xff), (14, 0x03), (15, 1), (24, 0x02), (33, 1)] {
        let mut wrong = frame.clone();
        wrong[at] = byte;
        assert_eq!(Lldpdu::decode(&wrong), Err(Malformed), "byte {at}");
    }
    assert_eq!(Lldpdu::decode(&frame[..20]), Err(Malformed));
}

/// The octets of 802.1Q Annex D, written out.
#[test]
fn dcbx_is_encoded_as_in_the_standard() {
    let ets = EtsConfiguration {
        willing: false,
        traffic_classes: 8,
        class_of_priority: [0, 1, 2, 3, 4, 5, 6, 7],
        percent: [10, 10, 10, 50, 10, 5, 5, 0],
        algorithms: [2, 2, 2, 2, 2, 2, 2, 0],
    };
    let mut lldpdu = Lldpdu::new(Identifier::Mac(SOURCE), Identifier::Mac(SOURCE), 120);
    lldpdu.ets = Some(ets);
    lldpdu.pfc = Some(PfcConfiguration { willing: false, classes_max: 8, enabled: Class::new(3).alone() });
    lldpdu.applications =
        vec![ApplicationPriority { class: Class::new(3), selector: ApplicationPriority::UDP, protocol: UDP_PORT }];
    let frame = lldpdu.encode(SOURCE);
    let behind_ttl = 14 + 9 + 9 + 4;
    let expected: [&[u8]; 5] = [
        &[0xfe, 25, 0, 0x80, 0xc2, 9, 0, 0x01, 0x23, 0x45, 0x67, 10, 10, 10, 50, 10, 5, 5, 0, 2, 2, 2, 2, 2, 2, 2, 0],
        &[0xfe, 6, 0, 0x80, 0xc2, 11, 8, 0x08],
        &[0xfe, 8, 0, 0x80, 0xc2, 12, 0, 0x63, 0x12, 0xb7],
        &[0, 0],
        &[],
    ];
    assert_eq!(frame[behind_ttl..], expected.concat());
}

#[test]
fn texts_do_not_reach_a_terminal_as_commands() {
    let mut lldpdu = Lldpdu::new(Identifier::Mac(SOURCE), Identifier::Mac(SOURCE), 120);
    lldpdu.system_name = Some("a\x1b[2Jb".to_owned());
    let decoded = Lldpdu::decode(&lldpdu.encode(SOURCE)).unwrap();
    assert_eq!(decoded.system_name.as_deref(), Some("a\u{fffd}[2Jb"));
    lldpdu.system_name = Some("é".repeat(200));
    let decoded = Lldpdu::decode(&lldpdu.encode(SOURCE)).unwrap();
    assert_eq!(decoded.system_name, Some("é".repeat(127)), "cut to 255 bytes");
}
