//! Import of handwritten tables in the shape of four platforms'.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_config::SwitchConfig;
use weir_mmu::BufferRequest;
use weir_switch_core::buffer::{buffer_layout, buffer_mmu};
use weir_units::{BitRate, Bytes, Class, PortId, QueueId, Span, Time};

use super::report::{ImportOutcome, lines};
use super::tables::{ABSENT, ConfigDb};
use super::{Imported, import};

fn tables(platform: &str) -> ConfigDb {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic").join(platform);
    ConfigDb::read(&[folder]).unwrap()
}

/// The import of a platform's tables, with every value accounted for once, and the switch that it makes.
fn imported(platform: &str, ports: &[&str]) -> (Imported, SwitchConfig) {
    let tables = tables(platform);
    let values = tables.values();
    let wanted: Vec<String> = ports.iter().map(|port| (*port).to_owned()).collect();
    let imported = import(tables, &wanted, None, None).unwrap();
    let present = || imported.mappings.iter().filter(|of| of.value != ABSENT);
    let accounted: BTreeSet<_> = present().map(|of| (&of.table, &of.key, &of.field)).collect();
    assert_eq!((accounted.len(), present().count()), (values, values), "{platform}: values, and what became of them");
    assert!(imported.mappings.iter().all(|account| !account.detail.is_empty()));
    for line in lines(&imported.mappings) {
        assert!(imported.text.contains(&format!("# {}: {}: {}\n", line.outcome.name(), line.values, line.detail)));
    }
    let switch =
        weir_config::parse(platform, &imported.text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    (imported, switch)
}

fn outcome(imported: &Imported, value: &str) -> (ImportOutcome, String) {
    let lines = lines(&imported.mappings);
    let found = lines.iter().find(|line| line.values.starts_with(value));
    let line = found.unwrap_or_else(|| panic!("{value}: {lines:#?}"));
    (line.outcome, line.detail.clone())
}

/// A number of `[buffer.sonic]`.
fn pool(imported: &Imported, key: &str) -> u64 {
    let line = imported.text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
    line.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn td2_headroom_is_each_groups_own() {
    let (imported, switch) = imported("td2", &[]);
    // Two groups of 64,064 B at three ports, and of 41,808 B at one, are no part of what is shared.
    let reserved = 6 * 64_064 + 2 * 41_808;
    assert_eq!(pool(&imported, "ingress_pool"), 12_766_208 - reserved);
    // 1,248 B of each are the group's own, here of all eight classes of four ports; headroom is that of the longest cable.
    assert_eq!(pool(&imported, "private"), 1_248);
    assert_eq!(pool(&imported, "headroom"), 62_816);
    assert_eq!(pool(&imported, "headroom_pool"), 6 * 62_816 + 2 * 40_560);
    assert_eq!(
        switch.ports.iter().map(|port| port.headroom).collect::<Vec<_>>(),
        [None, None, None, Some(Bytes::new(40_560))]
    );
    let parts = 12_766_208 - reserved + 32 * 1_248 + 6 * 62_816 + 2 * 40_560;
    assert_eq!(switch.buffer.size, Bytes::new(parts));
    assert_eq!(pool(&imported, "egress_lossy_pool"), 7_326_924);
    // 2^-1 of what is free, and 2^3 for lossy queues.
    assert!(
        imported.text.contains("alpha = \"1/2\"") && imported.text.contains("lossy_alpha = 8\n"),
        "{}",
        imported.text
    );
    assert_eq!(pool(&imported, "xon_offset"), 2_496);
    assert_eq!(outcome(&imported, "PORT speed = 40000 (Ethernet0 to Ethernet8, 3 keys)").0, ImportOutcome::Taken);
    assert!(imported.text.contains("state = \"down\""), "Ethernet8");
    assert_eq!(switch.ports[0].delay, Span::from_nanos(1_500));
    assert_eq!(switch.ports[3].rate.unwrap().to_string(), "10Gbps");
    assert_eq!(switch.mtu, Bytes::new(9_100));
    let (how, said) = outcome(&imported, "pg_profile_lookup.ini xon = 18432 (10000 5m, 40000 300m)");
    assert_eq!((how, pool(&imported, "xon_floor")), (ImportOutcome::Taken, 18_432 - 1_248), "{said}");
    let (how, said) = outcome(&imported, "pg_profile_lookup.ini xoff = 40560");
    assert_eq!((how, said.as_str()), (ImportOutcome::Taken, "headroom = 40560 B of its ports"));
    assert_eq!(outcome(&imported, "pg_profile_lookup.ini xoff = 45136").0, ImportOutcome::Refused);
    let (xon, said) = outcome(&imported, "PFC_WD detection_time = 200");
    assert_eq!((xon, said.as_str()), (ImportOutcome::Taken, "pfc_watchdog.detection_time = \"200ms\", at all ports"));
}

#[test]
fn th_headroom_is_a_pool() {
    let (imported, _) = imported("th", &[]);
    assert_eq!(pool(&imported, "headroom_pool"), 4_194_112);
    let shared = 10_875_072 - 4_194_112 - 8 * 1_248;
    assert_eq!(pool(&imported, "ingress_pool"), shared);
    assert_eq!(pool(&imported, "headroom"), 165_568);
    // No larger than what all frames are in.
    assert_eq!(pool(&imported, "egress_lossy_pool"), shared);
    let (how, said) = outcome(&imported, "BUFFER_POOL size = 9243812");
    assert_eq!(how, ImportOutcome::Approximated);
    assert!(said.contains(&format!("{} B less", 9_243_812 - shared)), "{said}");
    assert!(imported.text.contains("\nalpha = 1\n"), "2^0");
    assert_eq!(outcome(&imported, "BUFFER_PROFILE static_th = 15982720").0, ImportOutcome::Taken);
}

#[test]
fn th2_has_its_groups_in_buffer_pg_and_references_in_brackets() {
    let (imported, switch) = imported("th2", &[]);
    assert_eq!(pool(&imported, "headroom"), 54_080);
    assert_eq!(pool(&imported, "ingress_pool"), 33_329_088 - 7_827_456 - 8 * 1_248);
    assert_eq!(
        outcome(&imported, "BUFFER_PG profile = [BUFFER_PROFILE|pg_lossless_100000_5m_profile]").0,
        ImportOutcome::Taken
    );
    let (how, said) = outcome(&imported, "BUFFER_PROFILE xon = 1248");
    assert!(how == ImportOutcome::Taken && said.starts_with("a queue resumes with what it reserves alone"), "{said}");
    let lossless: Vec<usize> = switch.classes.lossless.iter().map(|class| class.index()).collect();
    assert_eq!(lossless, [3, 4]);
    assert_eq!((switch.classes.map.dscp[26], switch.classes.map.dscp[3], switch.classes.map.dscp[46]), (1, 3, 5));
    assert!(imported.text.contains("weight = 15") && imported.text.contains("pmax = 0.05"), "{}", imported.text);
}

#[test]
fn sn2700_has_two_pools_at_ingress_where_there_is_one_here() {
    let (imported, _) = imported("sn2700", &[]);
    let lossless = 4_194_304 - 8 * 34_816;
    assert_eq!(pool(&imported, "ingress_pool"), lossless + 7_340_032);
    assert_eq!(pool(&imported, "egress_lossy_pool"), 7_340_032);
    assert_eq!(pool(&imported, "private"), 34_816 - 16_384);
    assert_eq!(outcome(&imported, "BUFFER_POOL size = 4194304").0, ImportOutcome::Approximated);
    assert_eq!(outcome(&imported, "BUFFER_POOL size = 7340032 (ingress_lossy_pool)").0, ImportOutcome::Approximated);
    // None given: Weir's own, of two frames.
    assert!(!imported.text.contains("xon_offset = \""), "{}", imported.text);
    // `xon` is what a group reserves.
    assert!(!imported.text.contains("xon_floor"), "{}", imported.text);
    let (how, said) = outcome(&imported, "pg_profile_lookup.ini xon = 18432");
    assert!(how == ImportOutcome::Approximated && said.contains("ON and OFF with each: it resumes up to "), "{said}");
}

/// SONiC's own templates, rendered for four ports of a top-of-rack switch: two with 5 m to servers, two with 40 m.
#[test]
fn rendered_templates_become_what_they_say() {
    // Platform; size and xoff of the lossless pool; what a group reserves; its headroom at either cable; 2^n of lossless and lossy
    // queues; the lossy pool at egress; where a queue resumes whatever its threshold is.
    for (platform, size, xoff, reserves, headrooms, alphas, lossy, xon) in [
        ("td2", 12_766_208, 0, 56_368, [55_120, 55_120], ["\"1/8\"", "8"], 7_326_924, 18_432),
        ("th", 10_875_072, 4_194_112, 1_248, [66_560, 71_552], ["1", "8"], 9_243_812, 2_288),
        ("th2", 33_329_088, 7_827_456, 1_248, [54_080, 59_696], ["1", "\"1/2\""], 26_663_272, 1_248),
        ("sn2700", 9_595_904, 614_400, 19_456, [22_528, 25_600], ["1", "8"], 9_595_904, 19_456),
    ] {
        let (imported, switch) = imported(&format!("rendered/{platform}"), &[]);
        let shared = if platform == "td2" { size - xoff - 8 * reserves } else { size };
        assert_eq!(switch.buffer.slices, if platform.starts_with("th") { 4 } else { 1 });
        assert_eq!(pool(&imported, "ingress_pool"), shared, "{platform}");
        let pooled = if xoff > 0 { xoff } else { 8 * headrooms[0] };
        assert_eq!(pool(&imported, "headroom_pool"), pooled, "{platform}");
        let private = if xoff > 0 { reserves } else { reserves - headrooms[0] };
        assert_eq!(pool(&imported, "private"), private, "{platform}");
        assert_eq!(switch.xon().floor.get() + private, xon, "{platform}");
        let (how, said) = outcome(&imported, "pg_profile_lookup.ini xon = ");
        if platform == "sn2700" {
            // It has no xon_offset; two frames of 9,122 B are Weir's own.
            assert!(how == ImportOutcome::Approximated && said.contains("up to 18244 B later"), "{said}");
        } else {
            assert_eq!(how, ImportOutcome::Taken, "{platform}: {said}");
        }
        assert_eq!(switch.buffer.size, Bytes::new(shared + pooled + 32 * private), "{platform}");
        assert_eq!(pool(&imported, "egress_lossy_pool"), lossy.min(shared), "{platform}");
        let [near, far] = headrooms;
        let sizes: Vec<_> = (0..4).map(|port| switch.headroom(port).unwrap().get()).collect();
        assert_eq!(sizes, [near, near, far, far], "{platform}");
        assert_eq!(switch.ports[0].delay, Span::from_nanos(25));
        assert_eq!(switch.ports[3].delay, Span::from_nanos(200));
        let [lossless_alpha, lossy_alpha] = alphas;
        assert!(imported.text.contains(&format!("\nalpha = {lossless_alpha}\n")), "{platform}: {}", imported.text);
        assert!(imported.text.contains(&format!("\nlossy_alpha = {lossy_alpha}\n")), "{platform}");
        assert_eq!(switch.classes.lossless.iter().map(|class| class.index()).collect::<Vec<_>>(), [3, 4]);
        assert!(!imported.text.contains("[pfc_watchdog]"), "there is no PFC_WD");
        let (how, said) = outcome(&imported, "PORT_QOS_MAP pfcwd_sw_enable");
        assert_eq!((how, said.as_str()), (ImportOutcome::Taken, "there is no PFC_WD: nothing is watched"));
        // A rack of ports in a line each would be hundreds.
        assert!(lines(&imported.mappings).len() < 90, "{platform}");
    }
}

#[test]
fn limits_of_whole_ports_are_told_as_such() {
    let (imported, _) = imported("rendered/sn2700", &[]);
    for value in ["BUFFER_PORT_EGRESS_PROFILE_LIST profile_list", "BUFFER_PROFILE size = 9216 (egress_lossy_profile"] {
        let (how, said) = outcome(&imported, value);
        assert!(how == ImportOutcome::Refused && said.contains("whole"), "{value}: {said}");
    }
    let (how, said) = outcome(&imported, "BUFFER_PROFILE dynamic_th = 7 (egress_lossless_profile)");
    assert!(how == ImportOutcome::Approximated && said.contains("99.2 %"), "{said}");
}

#[test]
fn some_ports_alone_keep_the_pool_of_all() {
    let (imported, switch) = imported("td2", &["Ethernet0=af_packet:veth0", "Ethernet4=null"]);
    assert_eq!(switch.ports.len(), 2);
    assert_eq!(switch.ports[0].device.to_string(), "af_packet \"veth0\"");
    // As if the two other ports had the same groups.
    assert_eq!(pool(&imported, "ingress_pool"), 12_766_208 - 8 * 64_064);
    assert_eq!(outcome(&imported, "PORT speed = 10000").0, ImportOutcome::Refused);
}

#[test]
fn a_static_pool_makes_static_thresholds_and_0_is_no_limit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config_db.json");
    let with = |threshold: &str| {
        let text = format!(
            r#"{{"PORT": {{"Ethernet0": {{"speed": "10000"}}, "Ethernet4": {{"speed": "10000"}}}},
            "PORT_QOS_MAP": {{"Ethernet0,Ethernet4": {{"pfc_enable": "3"}}}},
            "BUFFER_POOL": {{"ingress_lossless_pool": {{"size": "1000000", "mode": "static", "type": "ingress"}}}},
            "BUFFER_PROFILE": {{"p": {{"pool": "ingress_lossless_pool", "size": "41000", "xon": "18000", "xoff": "40000",
            "static_th": "{threshold}"}}}},
            "BUFFER_PG": {{"Ethernet0,Ethernet4|3": {{"profile": "p"}}}}}}"#
        );
        fs::write(&file, text).unwrap();
        let imported = import(ConfigDb::read(std::slice::from_ref(&file)).unwrap(), &[], None, None).unwrap();
        weir_config::parse("static", &imported.text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        pool(&imported, "threshold")
    };
    assert_eq!(with("200000"), 200_000);
    // No floor above the threshold, and the smallest one to be allowed is none.
    assert_eq!(with("17000"), 17_000);
    assert_eq!(with("0"), 1_000_000 - 2 * 41_000);
}

#[test]
fn wrong_tables_are_told_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config_db.json");
    let ports = r#""PORT": {"Ethernet0": {"speed": "10000"}, "Ethernet4": {"speed": "10000"}}"#;
    for (text, said) in [
        ("[]", "no object of tables"),
        ("{", "no JSON"),
        ("{% for port in PORT %}", "render it first"),
        (r#"{"PORT": {"Ethernet0": 3}}"#, "PORT|Ethernet0 has no fields"),
        ("{}", "the files name no ports"),
        (r#"{"PORT": {"Ethernet0": {}}}"#, "2 to 64 ports, and these are 1"),
        (&format!("{{{ports}}}"), "BUFFER_POOL|ingress_lossless_pool has no size"),
        (
            &format!(r#"{{{ports}, "BUFFER_POOL": {{"ingress_lossless_pool": {{"size": "much"}}}}}}"#),
            "size = \"much\" is no number",
        ),
        (&format!(r#"{{{ports}, "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "9"}}}}}}"#), "no list of priorities"),
        (
            &format!(
                r#"{{{ports}, "PORT_QOS_MAP": {{"Ethernet0": {{"pfc_enable": "3"}}}}, "CABLE_LENGTH": {{"AZURE": {{"Ethernet0": "7m"}}}},
                "BUFFER_POOL": {{"ingress_lossless_pool": {{"size": "1000000"}}}}}}"#
            ),
            "there is no pg_profile_lookup.ini",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let result = ConfigDb::read(std::slice::from_ref(&file)).and_then(|tables| import(tables, &[], None, None));
        let Err(message) = result else { panic!("{text}") };
        assert!(message.contains(said), "{text}: {message}");
    }
    let lookup = directory.path().join("pg_profile_lookup.ini");
    fs::write(&lookup, "# speed\n40000 5m 1 2\n").unwrap();
    let message = ConfigDb::read(&[lookup]).unwrap_err();
    assert!(message.contains("line 2") && message.contains("no row of a lookup table"), "{message}");
    let unknown = import(tables("td2"), &["Ethernet2".to_owned()], None, None).unwrap_err();
    assert!(unknown.contains("there is no port Ethernet2"), "{unknown}");
}

/// Import of the TD2 tables after a change to them.
fn changed(
    change: impl FnOnce(&mut serde_json::Value),
    lossless: Option<&[u8]>,
) -> Result<(Imported, SwitchConfig), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic/td2");
    let mut tables = serde_json::from_str(&fs::read_to_string(source.join("config_db.json")).unwrap()).unwrap();
    change(&mut tables);
    let directory = tempfile::tempdir().unwrap();
    fs::copy(source.join("pg_profile_lookup.ini"), directory.path().join("pg_profile_lookup.ini")).unwrap();
    fs::write(directory.path().join("config_db.json"), tables.to_string()).unwrap();
    let imported = import(ConfigDb::read(&[directory.path().to_owned()])?, &[], lossless, None)?;
    let switch = weir_config::parse("td2", &imported.text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    Ok((imported, switch))
}

fn refusal(change: impl FnOnce(&mut serde_json::Value)) -> String {
    match changed(change, None) {
        Err(message) => message,
        Ok((imported, _)) => panic!("imported: {}", imported.text),
    }
}

fn remove(tables: &mut serde_json::Value, path: &[&str]) {
    let (last, path) = path.split_last().unwrap();
    let parent = path.iter().fold(tables, |parent, key| &mut parent[*key]);
    parent.as_object_mut().unwrap().remove(*last).unwrap_or_else(|| panic!("no {last}"));
}

#[test]
fn code_points_that_a_map_lacks_have_traffic_class_0() {
    let (imported, switch) = imported("td2", &[]);
    // DSCP 6 is not in the map; 26 is.
    assert_eq!((switch.classes.map.dscp[6], switch.classes.map.dscp[26], switch.classes.map.dscp[3]), (0, 1, 3));
    let (how, said) = outcome(&imported, "DSCP_TO_TC_MAP 6, 9-25");
    assert!(how == ImportOutcome::Taken && said.contains("class 0") && said.contains("SAI"), "{said}");
    // Traffic class 0 is in another queue.
    let (_, switch) = changed(|tables| tables["TC_TO_QUEUE_MAP"]["AZURE"]["0"] = "2".into(), None).unwrap();
    assert_eq!((switch.classes.map.dscp[6], switch.ports[0].priority, switch.classes.map.queue[0]), (0, 0, 2));
    // No map is in force.
    let (_, switch) = changed(|tables| remove(tables, &["PORT_QOS_MAP", "global"]), None).unwrap();
    assert_eq!(switch.classes.map.dscp, [0; 64]);
}

#[test]
fn traffic_classes_that_a_map_lacks_have_queue_and_group_0() {
    let without = |lacking: [&'static [&'static str]; 2]| {
        changed(
            |tables| {
                for (map, lacking) in ["TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"].into_iter().zip(lacking) {
                    lacking.iter().for_each(|class| remove(tables, &[map, "AZURE", class]));
                }
                tables["DSCP_TO_TC_MAP"]["AZURE"]["46"] = "5".into();
            },
            None,
        )
    };
    let map = without([&[], &[]]).unwrap().1.classes.map;
    assert_eq!((map.dscp[46], map.queue[5], map.group), (5, 5, [0, 0, 0, 3, 4, 0, 0, 7]));
    let (imported, switch) = without([&["5", "6"], &["6"]]).unwrap();
    assert_eq!((switch.classes.map.dscp[46], switch.classes.map.queue), (5, [0, 1, 2, 3, 4, 0, 0, 7]));
    for (line, number) in [("TC_TO_QUEUE_MAP 5", "queue"), ("TC_TO_PRIORITY_GROUP_MAP 6", "priority group")] {
        let (how, said) = outcome(&imported, line);
        assert!(how == ImportOutcome::Taken && said.contains(&format!("has {number} 0, as in SAI")), "{said}");
    }
    let lossless = without([&["3"], &[]]).unwrap_err();
    assert!(lossless.contains("traffic class 3 has priority group 3 and queue 0"), "{lossless}");
}

#[test]
fn ports_without_maps_are_reported() {
    const MAPS: [&str; 3] = ["DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"];
    let without_maps = |tables: &mut serde_json::Value| {
        MAPS.iter().for_each(|map| remove(tables, &[map]));
        for binding in tables["PORT_QOS_MAP"].as_object_mut().unwrap().values_mut() {
            binding
                .as_object_mut()
                .unwrap()
                .retain(|field, _| !["dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map"].contains(&field.as_str()));
        }
    };
    let (imported, switch) = changed(without_maps, None).unwrap();
    assert_eq!(switch.classes.map.dscp, [0; 64]);
    let [points, queues, groups] =
        ["DSCP_TO_TC_MAP 0-63 = absent", "TC_TO_QUEUE_MAP 0-7 = absent", "TC_TO_PRIORITY_GROUP_MAP 0-7 = absent"]
            .map(|line| outcome(&imported, line));
    assert!(points.0 == ImportOutcome::Taken && points.1.contains("traffic class 0, as in SAI"), "{points:?}");
    for (how, said) in [queues, groups] {
        assert!(
            how == ImportOutcome::Approximated && said.contains("of its number, where SONiC leaves it to the chip"),
            "{said}"
        );
    }
}

#[test]
fn a_map_of_pcps_gives_classes_where_no_dscp_does() {
    let map: serde_json::Value = serde_json::json!({"dot1p": {"3": "3", "4": "4", "5": "1"}});
    let bind = |tables: &mut serde_json::Value| {
        tables["DOT1P_TO_TC_MAP"] = map.clone();
        for port in ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"] {
            tables["PORT_QOS_MAP"][port]["dot1p_to_tc_map"] = "dot1p".into();
        }
    };
    let alone = |tables: &mut serde_json::Value| {
        bind(tables);
        remove(tables, &["PORT_QOS_MAP", "global"]);
    };
    let (imported, switch) = changed(alone, None).unwrap();
    assert_eq!((switch.classes.map.trust, switch.classes.map.pcp), (weir_config::Trust::Pcp, [0, 0, 0, 3, 4, 1, 0, 0]));
    assert_eq!(outcome(&imported, "DOT1P_TO_TC_MAP 3 = 3").0, ImportOutcome::Taken);
    let (imported, switch) = changed(bind, None).unwrap();
    assert_eq!(switch.classes.map.trust, weir_config::Trust::Dscp);
    assert!(outcome(&imported, "DOT1P_TO_TC_MAP 3 = 3").1.contains("not in force"));
}

#[test]
fn names_without_a_table_are_refused() {
    for (change, said) in [
        (&["PORT_QOS_MAP", "global", "dscp_to_tc_map"][..], "there is no DSCP_TO_TC_MAP|X"),
        (&["PORT_QOS_MAP", "Ethernet0", "tc_to_queue_map"], "there is no TC_TO_QUEUE_MAP|X"),
        (&["PORT_QOS_MAP", "Ethernet4", "tc_to_pg_map"], "there is no TC_TO_PRIORITY_GROUP_MAP|X"),
        (&["PORT_QOS_MAP", "Ethernet4", "pfc_to_queue_map"], "there is no MAP_PFC_PRIORITY_TO_QUEUE|X"),
        (&["QUEUE", "Ethernet0|3", "scheduler"], "there is no SCHEDULER|X"),
        (&["QUEUE", "Ethernet0|3", "wred_profile"], "there is no WRED_PROFILE|X"),
        (&["BUFFER_PG", "Ethernet0|0", "profile"], "there is no BUFFER_PROFILE|X"),
        (&["BUFFER_QUEUE", "Ethernet0|3-4", "profile"], "there is no BUFFER_PROFILE|X"),
        (&["BUFFER_PROFILE", "ingress_lossy_profile", "pool"], "there is no BUFFER_POOL|X"),
    ] {
        let message = refusal(|tables| {
            *change.iter().fold(tables, |parent, key| &mut parent[*key]) = "X".into();
        });
        assert!(message.contains(said) && message.contains("config_db.json"), "{change:?}: {message}");
    }
    let message = refusal(|tables| remove(tables, &["BUFFER_PROFILE", "ingress_lossy_profile", "pool"]));
    assert!(
        message.contains("BUFFER_PROFILE|ingress_lossy_profile, of BUFFER_PG|Ethernet0|0, has no pool"),
        "{message}"
    );
}

#[test]
fn alpha_outside_sonics_range_is_refused() {
    for n in ["99", "9", "-9"] {
        let message = refusal(|tables| tables["BUFFER_PROFILE"]["egress_lossy_profile"]["dynamic_th"] = n.into());
        assert!(message.contains(&format!("dynamic_th = {n} is outside SONiC's range")), "{message}");
    }
}

#[test]
fn lossless_classes_are_those_of_port_qos_map_or_are_asked_for() {
    let without = |tables: &mut serde_json::Value| remove(tables, &["PORT_QOS_MAP"]);
    let message = refusal(without);
    assert!(message.contains("PORT_QOS_MAP") && message.contains("--lossless 3,4"), "{message}");
    let (imported, switch) = changed(without, Some(&[3, 4])).unwrap();
    assert_eq!(switch.classes.lossless.iter().map(|class| class.index()).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(switch.classes.map.dscp[3], 3, "the only map is meant");
    assert_eq!(outcome(&imported, "PORT_QOS_MAP pfc_enable = absent").0, ImportOutcome::Approximated);
    let (_, switch) = changed(without, Some(&[])).unwrap();
    assert!(switch.classes.lossless.is_empty());
    let Err(message) = changed(|_| {}, Some(&[3])) else { panic!("two sources") };
    assert!(message.contains("--lossless"), "{message}");
}

#[test]
fn the_watchdog_watches_the_ports_that_it_names() {
    let unwatch = |tables: &mut serde_json::Value| {
        remove(tables, &["PFC_WD", "Ethernet8"]);
        remove(tables, &["PFC_WD", "Ethernet12"]);
    };
    let watched = |switch: &SwitchConfig| switch.ports.iter().map(|port| port.pfc_watchdog).collect::<Vec<_>>();
    let (imported, switch) = changed(unwatch, None).unwrap();
    assert_eq!(watched(&switch), [true, true, false, false]);
    let (how, said) = outcome(&imported, "PFC_WD detection_time = 200");
    assert!(how == ImportOutcome::Taken && said.ends_with("at the watched ports"), "{said}");
    for key in ["Ethernet0,Ethernet4", "Ethernet0, Ethernet4|3-4"] {
        let (imported, switch) = changed(
            |tables| {
                unwatch(tables);
                remove(tables, &["PFC_WD", "Ethernet4"]);
                tables["PFC_WD"][key] = tables["PFC_WD"]["Ethernet0"].clone();
                remove(tables, &["PFC_WD", "Ethernet0"]);
            },
            None,
        )
        .unwrap();
        assert_eq!(watched(&switch), [true, true, false, false], "{key}");
        let how = outcome(&imported, "PFC_WD action = drop").0;
        assert_eq!(how == ImportOutcome::Taken, !key.contains('|'), "{key}");
    }
}

#[test]
fn a_port_without_cable_or_speed_is_left_out() {
    let without_cable = |tables: &mut serde_json::Value| remove(tables, &["CABLE_LENGTH", "AZURE", "Ethernet0"]);
    let without_speed = |tables: &mut serde_json::Value| remove(tables, &["PORT", "Ethernet0", "speed"]);
    let without_row = |tables: &mut serde_json::Value| tables["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "7m".into();
    for (change, place) in [
        (&without_cable as &dyn Fn(&mut serde_json::Value), "CABLE_LENGTH Ethernet0 = absent (AZURE)"),
        (&without_speed, "PORT speed = absent (Ethernet0)"),
        (&without_row, "CABLE_LENGTH Ethernet0 = 7m (AZURE)"),
    ] {
        let (imported, switch) = changed(change, None).unwrap();
        let names: Vec<&str> = switch.ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["Ethernet4", "Ethernet8", "Ethernet12"]);
        let (how, said) = outcome(&imported, place);
        assert!(how == ImportOutcome::Refused && said.starts_with("the port is left out: "), "{place}: {said}");
        // The port reserves nothing.
        assert_eq!(pool(&imported, "ingress_pool"), 12_766_208 - 4 * 64_064 - 2 * 41_808, "{place}");
    }
    let message = refusal(|tables| remove(tables, &["CABLE_LENGTH"]));
    assert!(
        message.contains("config_db.json: Ethernet0: there is no CABLE_LENGTH") && message.contains("4 ports"),
        "{message}"
    );
    let (imported, switch) =
        changed(|tables| tables["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "0m".into(), None).unwrap();
    assert_eq!(switch.ports[0].flow_control.label(), "none");
    assert_eq!(outcome(&imported, "CABLE_LENGTH Ethernet0 = 0m").0, ImportOutcome::Approximated);
}

#[test]
fn asymmetric_pfc_pauses_lossy_classes_too() {
    let on = |ports: &'static [&str]| {
        move |tables: &mut serde_json::Value| {
            ports.iter().for_each(|port| tables["PORT"][*port]["pfc_asym"] = "on".into());
        }
    };
    let (imported, switch) = changed(on(&["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"]), None).unwrap();
    assert!(switch.pfc.obeys_for_lossy);
    assert_eq!(outcome(&imported, "PORT pfc_asym = on").0, ImportOutcome::Taken);
    let (imported, switch) = changed(on(&["Ethernet0"]), None).unwrap();
    assert!(!switch.pfc.obeys_for_lossy);
    assert_eq!(outcome(&imported, "PORT pfc_asym = on").0, ImportOutcome::Refused);
}

#[test]
fn queues_of_other_line_cards_are_left_out() {
    let move_queues = |host: &'static str| {
        move |tables: &mut serde_json::Value| {
            for table in ["QUEUE", "BUFFER_QUEUE"] {
                let rows = tables[table].as_object_mut().unwrap();
                *rows =
                    std::mem::take(rows).into_iter().map(|(key, row)| (format!("{host}|Asic0|{key}"), row)).collect();
            }
        }
    };
    let (imported, switch) = changed(move_queues("sw1"), None).unwrap();
    assert!(imported.text.contains("\nweight = 15") && imported.text.contains("lossy_alpha = 8\n"));
    assert!(switch.classes.queues[3].ecn.is_some());
    let named = |tables: &mut serde_json::Value| {
        move_queues("sw2")(tables);
        tables["DEVICE_METADATA"]["localhost"]["hostname"] = "sw1".into();
    };
    let (imported, _) = changed(named, None).unwrap();
    assert!(!imported.text.contains("\nweight = 15"), "queues of another line card");
    let message = refusal(|tables| {
        move_queues("sw1")(tables);
        tables["QUEUE"]["sw2|Asic0|Ethernet0|3"] = serde_json::json!({"scheduler": "scheduler.1"});
    });
    assert!(message.contains("two line cards") && message.contains("hostname"), "{message}");
}

#[test]
fn what_is_not_read_may_have_any_form() {
    let (imported, _) = changed(
        |tables| {
            tables["bgp_asn"] = "65100".into();
            tables["LIST"] = serde_json::json!(["a", "b"]);
            tables["FEATURE"] = serde_json::json!({"x": {"state": "{% if a %}enabled{% endif %}"}, "y": "z"});
            tables["PORT"]["Ethernet0"]["description"] = "two\nlines = 3".into();
        },
        None,
    )
    .unwrap();
    assert_eq!(outcome(&imported, "bgp_asn = 65100").0, ImportOutcome::Refused);
    assert!(imported.text.contains(r"two\nlines = 3"), "{}", imported.text);
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic/td2");
    fs::copy(source.join("pg_profile_lookup.ini"), directory.path().join("pg_profile_lookup.ini")).unwrap();
    let text = fs::read_to_string(source.join("config_db.json")).unwrap();
    fs::write(directory.path().join("config_db.json"), format!("\u{feff}{text}")).unwrap();
    import(ConfigDb::read(&[directory.path().to_owned()]).unwrap(), &[], None, None).unwrap();
}

#[test]
fn wred_of_probability_0_is_a_step_at_the_maximum() {
    let (_, switch) =
        changed(|tables| tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_drop_probability"] = "0".into(), None)
            .unwrap();
    let ecn = switch.classes.queues[3].ecn.unwrap();
    assert_eq!((ecn.kmin, ecn.kmax), (Bytes::new(2_097_152), Bytes::new(2_097_152)));
}

/// Number of cells at which the only active queue is paused, by sonic-mgmt's tables for the templates of sonic-buildimage.
///
/// Its tests allow 2 packets, on D108C8 4. No part of the size fits Tomahawk better: with 6 cells of its own and α = 1, a queue is paused at
/// 6 + slice / 2, for which the slices of S6100, D108C8 and C64 lack 0, 1 to 2, and 3 to 4 cells of a quarter.
#[test]
fn a_queue_alone_is_paused_where_chips_pause_it() {
    // Model; ports; pool; xoff; size, xon, xoff and threshold of groups; cells; difference.
    for (model, ports, size, pool_xoff, [group, xon, xoff], n, cell, expected, within) in [
        ("Force10-S6000", 32, 12_766_208, 0, [56_368, 18_432, 55_120], -3, 208, 4_898, 1),
        ("Force10-S6100", 64, 10_875_072, 4_194_112, [1_248, 2_288, 66_560], 0, 208, 6_542, 0),
        ("Arista-7260CX3-D108C8", 64, 33_169_344, 7_827_456, [1_248, 1_248, 101_088], 0, 208, 19_939, 1),
        ("Arista-7260CX3-C64", 64, 33_262_528, 8_965_632, [1_248, 1_248, 101_088], 0, 208, 19_994, 2),
        // The pool of C32's template, whose reservations account for the difference to the byte.
        ("Arista-7050CX3-32S-C32", 32, 32_732_160, 1_622_016, [4_608, 4_608, 160_000], 0, 256, 60_204, 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..ports).map(|port| format!("Ethernet{port}")).collect();
        let each = |value: serde_json::Value| -> serde_json::Value {
            names.iter().map(|name| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>().into()
        };
        let tables = serde_json::json!({
            "DEVICE_METADATA": {"localhost": {"hwsku": model}},
            "PORT": each(serde_json::json!({"speed": "40000"})),
            "CABLE_LENGTH": {"AZURE": each("300m".into())},
            "PORT_QOS_MAP": each(serde_json::json!({"pfc_enable": "3,4"})),
            "BUFFER_POOL": {"ingress_lossless_pool": {
                "size": size.to_string(), "xoff": pool_xoff.to_string(), "mode": "dynamic", "type": "ingress",
            }},
        });
        fs::write(directory.path().join("config_db.json"), tables.to_string()).unwrap();
        let row = format!("40000 300m {group} {xon} {xoff} {n} 2496\n");
        fs::write(directory.path().join("pg_profile_lookup.ini"), row).unwrap();
        let tables = ConfigDb::read(&[directory.path().to_owned()]).unwrap();
        let wanted = names[..2].to_vec();
        let imported = import(tables, &wanted, None, None).unwrap();
        let switch =
            weir_config::parse(model, &imported.text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        assert_eq!(switch.buffer.cell_bytes, cell, "{model}");
        let cells = cells_until_pause(&switch);
        assert!(
            cells.abs_diff(expected) <= within,
            "{model}: {cells} cells, {expected} in the table\n{}",
            imported.text
        );
    }
}

/// Cells that a lossless queue alone takes until it is OFF.
fn cells_until_pause(switch: &SwitchConfig) -> u64 {
    let layout = buffer_layout(switch).unwrap();
    let rates: Vec<BitRate> = switch.ports.iter().map(|port| port.rate.unwrap()).collect();
    let mmu = buffer_mmu(switch, layout, &rates).unwrap().for_one_lcore();
    let [ingress, egress] = [0, 1].map(|port| QueueId::new(PortId(port), Class::new(3)));
    let mut writer = mmu.writer(ingress.port()).unwrap();
    let packet = BufferRequest { ingress, egress, bytes: switch.buffer.cell_bytes };
    let mut cells = 0;
    while !mmu.admit_one(&mut writer, Time::ZERO, &packet).1.contains(ingress.class()) {
        cells += 1;
    }
    cells + 1
}

#[test]
fn nvidias_pools_are_not_reduced_and_an_unknown_chip_is_reported() {
    let (imported, switch) = imported("rendered/sn2700", &[]);
    assert_eq!((pool(&imported, "ingress_pool"), switch.buffer.cell_bytes), (9_595_904, 96));
    assert_eq!(
        outcome(&imported, "DEVICE_METADATA hwsku = Mellanox-SN2700-D48C8"),
        (ImportOutcome::Taken, "chip spc1".into())
    );
    let (imported, _) = self::imported("th", &[]);
    let (how, said) = outcome(&imported, "DEVICE_METADATA hwsku = Test-th");
    assert!(how == ImportOutcome::Approximated && said.contains("unknown chip"), "{said}");
    let (how, said) = outcome(&imported, "BUFFER_POOL size = 10875072");
    assert_eq!(how, ImportOutcome::Approximated);
    for reading in ["4194112 xoff", "NVIDIA's chips it is 10875072", "th2 in 4 slices", "--chip"] {
        assert!(said.contains(reading), "{said}");
    }
    let chip = super::chip::chip("th").unwrap();
    let imported = import(tables("th"), &[], None, Some(chip)).unwrap();
    assert_eq!([pool(&imported, "ingress_pool"), pool(&imported, "slices")], [10_875_072, 4]);
    assert!(super::chip::chip("td9").unwrap_err().contains("td2, td3, th, th2, spc1"));
}

#[test]
fn ports_without_mtu_and_status_have_sonics_defaults() {
    let without = |field: &'static str| {
        move |tables: &mut serde_json::Value| {
            for port in ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"] {
                tables["PORT"][port]["mtu"] = "1500".into();
            }
            remove(tables, &["PORT", "Ethernet0", field]);
        }
    };
    let (imported, switch) = changed(without("mtu"), None).unwrap();
    assert_eq!(switch.mtu, Bytes::new(9_100));
    let (how, said) = outcome(&imported, "PORT mtu = absent (Ethernet0)");
    assert!(how == ImportOutcome::Taken && said.contains("default 9100"), "{said}");
    assert_eq!(outcome(&imported, "PORT mtu = 1500").0, ImportOutcome::Approximated);
    let (imported, switch) = changed(without("admin_status"), None).unwrap();
    assert_eq!((switch.mtu, switch.ports[0].state.name()), (Bytes::new(1_500), "down"));
    let (how, said) = outcome(&imported, "PORT admin_status = absent (Ethernet0)");
    assert!(how == ImportOutcome::Taken && said.contains("default down"), "{said}");
}

#[test]
fn files_that_contradict_each_other_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic/td2");
    for file in ["config_db.json", "pg_profile_lookup.ini"] {
        fs::copy(source.join(file), directory.path().join(file)).unwrap();
    }
    // Not read: another kind of .ini.
    fs::write(directory.path().join("port_config.ini"), "# name lanes\nEthernet0 1\n").unwrap();
    let read = |text: &str| {
        fs::write(directory.path().join("more.json"), text).unwrap();
        ConfigDb::read(&[directory.path().to_owned()])
    };
    read(r#"{"PORT": {"Ethernet0": {"mtu": "9100", "fec": "rs"}}, "FEATURE": {"x": {"state": "a"}}}"#).unwrap();
    let message = read(r#"{"PORT": {"Ethernet0": {"mtu": "1500"}}}"#).unwrap_err();
    for part in ["more.json: PORT|Ethernet0: mtu is \"1500\", and \"9100\" in ", "config_db.json; keep one"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    read("{}").unwrap();
    let lookup = directory.path().join("pg_profile_lookup.ini");
    let text = fs::read_to_string(&lookup).unwrap();
    fs::write(&lookup, format!("{text}\n10000 5m 1 2 3 0 4\n")).unwrap();
    let message = read("{}").unwrap_err();
    assert!(message.contains("pg_profile_lookup.ini|10000 5m: size is") && message.contains("line "), "{message}");
}

#[test]
fn ports_have_the_map_that_they_name() {
    let with_map = |ports: &'static str, map: serde_json::Value| {
        move |tables: &mut serde_json::Value| {
            tables["DSCP_TO_TC_MAP"]["UPLINK"] = map.clone();
            tables["PORT_QOS_MAP"][ports]["dscp_to_tc_map"] = "UPLINK".into();
        }
    };
    let class = |switch: &SwitchConfig, port: usize, dscp: usize| switch.class_map(port).dscp[dscp];
    let azure = tables("td2").fields("DSCP_TO_TC_MAP", "AZURE");
    // Equal content has another name.
    let (_, switch) = changed(with_map("Ethernet0", serde_json::json!(azure)), None).unwrap();
    assert!(switch.ports.iter().all(|port| port.class_map.is_none()));
    let (imported, switch) = changed(with_map("Ethernet4", serde_json::json!({"2": "2", "26": "1"})), None).unwrap();
    assert_eq!([0, 1, 2].map(|port| class(&switch, port, 3)), [3, 0, 3]);
    assert_eq!((class(&switch, 1, 2), class(&switch, 1, 26)), (2, 1));
    let (_, own) = imported.text.split_once("name = \"Ethernet4\"").unwrap();
    assert!(own.contains("\ndscp = { \"0-1\" = 0, 2 = 2, \"3-25\" = 0, \"27-63\" = 0 }\n"), "{own}");
    assert_eq!(outcome(&imported, "PORT_QOS_MAP dscp_to_tc_map = UPLINK (Ethernet4)").0, ImportOutcome::Taken);
    // The one of most ports that are up is the switch's.
    let (_, switch) =
        changed(with_map("Ethernet0, Ethernet4,Ethernet12", serde_json::json!({"2": "2"})), None).unwrap();
    assert_eq!((switch.classes.map.dscp[2], switch.classes.map.dscp[3], class(&switch, 2, 3)), (2, 0, 3));
    // Ports that trust the PCP, and ports without a map.
    let (_, switch) = changed(
        |tables| {
            tables["DOT1P_TO_TC_MAP"] = serde_json::json!({"dot1p": {"3": "3", "4": "4", "5": "1"}});
            for port in ["Ethernet0", "Ethernet8"] {
                tables["PORT_QOS_MAP"][port]["dscp_to_tc_map"] = "AZURE".into();
            }
            tables["PORT_QOS_MAP"]["Ethernet4"]["dot1p_to_tc_map"] = "dot1p".into();
            remove(tables, &["PORT_QOS_MAP", "global"]);
        },
        None,
    )
    .unwrap();
    let map = switch.class_map(1);
    assert_eq!((map.trust, map.pcp), (weir_config::Trust::Pcp, [0, 0, 0, 3, 4, 1, 0, 0]));
    assert_eq!((class(&switch, 0, 3), switch.class_map(3).dscp), (3, [0; 64]));
}

#[test]
fn a_frame_has_the_queue_of_its_ingress_ports_map() {
    let (imported, switch) = changed(
        |tables| {
            tables["TC_TO_QUEUE_MAP"]["OTHER"] = serde_json::json!({"0": "2", "1": "5", "3": "3", "4": "4"});
            tables["PORT_QOS_MAP"]["Ethernet4"]["tc_to_queue_map"] = "OTHER".into();
        },
        None,
    )
    .unwrap();
    let queues = |port: usize| [0, 1, 3].map(|class| switch.class_map(port).queue[class]);
    assert_eq!((queues(0), queues(1), switch.class_map(1).dscp[26]), ([0, 1, 3], [2, 5, 3], 1));
    let (how, said) = outcome(&imported, "PORT_QOS_MAP tc_to_queue_map = OTHER");
    assert!(how == ImportOutcome::Approximated && said.contains("the egress port's"), "{said}");
}

/// PCBB of a top-of-rack switch: classes 2 and 6 are lossless towards the spine. Frames of DSCP 2 and 6 were bounced back by the other
/// top-of-rack switch; those of 3 and 4 are bounced by this one, in queues 2 and 6.
#[test]
fn ports_with_pcbb_have_two_more_lossless_classes() {
    let pcbb = |tables: &mut serde_json::Value| {
        tables["DSCP_TO_TC_MAP"]["AZURE"]["33"] = "8".into();
        tables["DSCP_TO_TC_MAP"]["UPLINK"] =
            serde_json::json!({"2": "2", "3": "3", "4": "4", "6": "6", "26": "1", "33": "8"});
        tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] = serde_json::json!(
            {"0": "0", "1": "0", "2": "2", "3": "3", "4": "4", "5": "0", "6": "6", "7": "0", "8": "0"});
        tables["TC_TO_QUEUE_MAP"]["AZURE"] = serde_json::json!(
            {"0": "0", "1": "1", "2": "1", "3": "3", "4": "4", "5": "5", "6": "1", "7": "7", "8": "1"});
        tables["TC_TO_QUEUE_MAP"]["UPLINK"] = serde_json::json!(
            {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6", "7": "7", "8": "1"});
        let uplink = &mut tables["PORT_QOS_MAP"]["Ethernet12"];
        uplink["pfc_enable"] = "2,3,4,6".into();
        uplink["dscp_to_tc_map"] = "UPLINK".into();
        uplink["tc_to_queue_map"] = "UPLINK".into();
    };
    let (imported, switch) = changed(pcbb, None).unwrap();
    assert_eq!(switch.classes.lossless, [2, 3, 4, 6].into_iter().map(Class::new).collect());
    let classes = |port: usize| [2, 5, 6, 33, 48].map(|dscp| switch.class_map(port).dscp[dscp]);
    let map = |port: usize| [switch.class_map(port).group, switch.class_map(port).queue];
    // Traffic class 8 has the priority group and the queue of class 1.
    assert_eq!((classes(3), classes(0)), ([2, 0, 6, 1, 0], [1, 2, 0, 1, 6]));
    assert_eq!(map(3), [[0, 0, 2, 3, 4, 0, 6, 0], [0, 1, 2, 3, 4, 5, 6, 7]]);
    // Traffic classes 2 and 6 are lossy there.
    assert_eq!(map(0), [[0, 0, 1, 3, 4, 0, 1, 0], [0, 1, 1, 3, 4, 5, 1, 7]]);
    let (how, said) = outcome(&imported, "TC_TO_PRIORITY_GROUP_MAP 2 = 2 (AZURE)");
    assert!(how == ImportOutcome::Approximated && said.contains("class 2 has priority group 1"), "{said}");
    assert_eq!(switch.groups_from(3), [0, 2, 3, 4, 6].into_iter().map(Class::new).collect());
    // Traffic classes 8 and 9, each with queues of its own.
    let (_, switch) = changed(
        |tables| {
            pcbb(tables);
            tables["DSCP_TO_TC_MAP"]["UPLINK"]["34"] = "9".into();
            for (class, group) in [("8", "5"), ("9", "7")] {
                tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"][class] = group.into();
                tables["TC_TO_QUEUE_MAP"]["UPLINK"][class] = "1".into();
            }
        },
        None,
    )
    .unwrap();
    assert_eq!([33, 34].map(|dscp| switch.class_map(3).dscp[dscp]), [5, 7]);
    assert_eq!([switch.class_map(3).group, switch.class_map(3).queue].map(|of| [of[5], of[7]]), [[5, 7], [1, 1]]);
    // Bounced by this switch: lossless in the priority groups 3 and 4, and in the queues 2 and 6.
    let bounced = |tables: &mut serde_json::Value| {
        pcbb(tables);
        (tables["TC_TO_QUEUE_MAP"]["UPLINK"]["3"], tables["TC_TO_QUEUE_MAP"]["UPLINK"]["4"]) = ("2".into(), "6".into());
    };
    let (imported, switch) = changed(bounced, None).unwrap();
    let queues =
        |port: usize| [3, 4].map(|class| (switch.class_map(port).group[class], switch.class_map(port).queue[class]));
    assert_eq!((queues(3), queues(0)), ([(3, 2), (4, 6)], [(3, 3), (4, 4)]));
    assert_eq!(outcome(&imported, "TC_TO_QUEUE_MAP 3 = 2 (UPLINK)").0, ImportOutcome::Taken);
    // Priority group 2 has no PFC at the other ports.
    let message = refusal(|tables| {
        pcbb(tables);
        tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"]["3"] = "2".into();
    });
    assert!(message.contains("TC_TO_PRIORITY_GROUP_MAP|AZURE: traffic class 3 has priority group 2"), "{message}");
}

#[test]
fn members_of_vlans_are_ports_of_them() {
    let vlans = |mode: &'static str| {
        move |tables: &mut serde_json::Value| {
            tables["VLAN"] = serde_json::json!({ "Vlan1": { "vlanid": "1" }, "Vlan20": { "vlanid": "20" } });
            tables["VLAN_MEMBER"] = serde_json::json!({
                "Vlan1|Ethernet0": { "tagging_mode": "untagged" },
                "Vlan20|Ethernet0": { "tagging_mode": mode },
                "Vlan20|PortChannel1": { "tagging_mode": "tagged" },
            });
        }
    };
    let (imported, switch) = changed(vlans("tagged"), None).unwrap();
    assert_eq!((switch.ports[0].vlan, &switch.ports[0].tagged[..]), (Some(1), &[20][..]));
    assert!(switch.ports[1..].iter().all(|port| port.vlan == Some(2) && port.tagged.is_empty()), "{}", imported.text);
    let outcome = |key: &str| imported.mappings.iter().find(|of| of.key == key).map(|of| of.outcome);
    let keys = ["Vlan1", "Vlan1|Ethernet0", "Vlan20|Ethernet0", "Vlan20|PortChannel1"].map(outcome);
    let [taken, refused] = [ImportOutcome::Taken, ImportOutcome::Refused].map(Some);
    assert_eq!(keys, [taken, taken, taken, refused]);
    assert!(imported.text.contains("vlan = 2, with all ports of no VLAN: SONiC routes there"), "{}", imported.text);
    for (mode, said) in [
        ("untagged", "VLAN_MEMBER|Vlan20|Ethernet0: Ethernet0 is an untagged member of Vlan1 too"),
        ("native", "VLAN_MEMBER|Vlan20|Ethernet0: tagging_mode = \"native\""),
    ] {
        let message = refusal(vlans(mode));
        assert!(message.contains(said) && message.contains("config_db.json: "), "{message}");
    }
    for (table, key, field, value, said) in [
        ("VLAN_MEMBER", "Vlan30|Ethernet4", "tagging_mode", "tagged", "there is no VLAN|Vlan30"),
        ("VLAN_MEMBER", "Vlan020|Ethernet4", "tagging_mode", "tagged", "this is no member of a VLAN"),
        ("VLAN", "Vlan4095", "vlanid", "4095", "this is no VLAN"),
        ("VLAN", "Vlan20", "vlanid", "21", "vlanid is of another VLAN"),
    ] {
        let message = refusal(|tables| {
            vlans("tagged")(tables);
            tables[table][key] = serde_json::json!({ field: value });
        });
        assert!(message.contains(said) && message.contains("config_db.json: "), "{message}");
    }
    let message = refusal(|tables| {
        for vlan in 1..=255 {
            tables["VLAN"][format!("Vlan{vlan}")] = serde_json::json!({ "vlanid": vlan.to_string() });
            tables["VLAN_MEMBER"][format!("Vlan{vlan}|Ethernet0")] = serde_json::json!({ "tagging_mode": "tagged" });
        }
    });
    assert!(message.contains("255 VLANs, and routed ports in one more"), "{message}");
}

#[test]
fn keys_that_are_there_twice_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config_db.json");
    let read = |text: &str| {
        fs::write(&file, text).unwrap();
        ConfigDb::read(std::slice::from_ref(&file))
    };
    for (text, said) in [
        ("{\"PORT\": {},\n\"PORT\": {}}", "config_db.json: PORT is there twice"),
        ("{\"PORT\": {\"Ethernet0\": {},\n\"Ethernet0\": {}}}", "config_db.json: PORT|Ethernet0 is there twice"),
        ("{\"PORT\": {\"a\": {\"mtu\": \"1\", \"mtu\": \"1\"}}}", "config_db.json: PORT|a: mtu is there twice"),
        ("{\n\"PORT\": }", "this is no JSON: expected value at line 2"),
    ] {
        let message = read(text).unwrap_err();
        assert!(message.contains(said), "{message}");
    }
    let tables = read("{\"a\": [1, {\"b\": 1}], \"b\": {\"c\": {\"d\": -1.5, \"e\": {\"f\": null}}}}").unwrap();
    assert_eq!((tables.values(), tables.field("b", "c", "d")), (3, Some("-1.5")));
}

#[test]
fn classes_that_are_lossless_in_one_queue_and_priorities_of_another_number_are_refused() {
    for (change, said) in [
        ((&["TC_TO_PRIORITY_GROUP_MAP", "AZURE", "2"][..], "3"), "traffic class 2 has priority group 3 and queue 2"),
        ((&["TC_TO_PRIORITY_GROUP_MAP", "AZURE", "3"], "2"), "traffic class 3 has priority group 2 and queue 3"),
        ((&["TC_TO_QUEUE_MAP", "AZURE", "1"], "4"), "traffic class 1 has priority group 0 and queue 4"),
        ((&["MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", "3"], "2"), "priority 3 is for 2"),
        ((&["MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", "2"], "3"), "priority 2 is for 3"),
    ] {
        let (path, to) = change;
        let message = refusal(|tables| *path.iter().fold(tables, |parent, key| &mut parent[*key]) = to.into());
        assert!(message.contains(said) && message.contains("config_db.json"), "{path:?}: {message}");
    }
}

#[test]
fn keys_of_several_ports_count_for_each() {
    let (imported, _) = changed(
        |tables| {
            tables["SCHEDULER"]["most"] = serde_json::json!({"type": "DWRR", "weight": "77"});
            for key in tables["QUEUE"].as_object().unwrap().keys().cloned().collect::<Vec<_>>() {
                if key.ends_with("|1") {
                    remove(tables, &["QUEUE", &key]);
                }
            }
            for port in ["Ethernet0", "Ethernet4,Ethernet8,Ethernet12"] {
                let scheduler = if port == "Ethernet0" { "scheduler.1" } else { "most" };
                tables["QUEUE"][format!("{port}|1")] = serde_json::json!({"scheduler": scheduler});
            }
            for (key, action) in [("Ethernet0", "forward"), ("Ethernet4,Ethernet8,Ethernet12", "alert")] {
                tables["PFC_WD"][key] = tables["PFC_WD"]["Ethernet0"].clone();
                tables["PFC_WD"][key]["action"] = action.into();
            }
            for port in ["Ethernet4", "Ethernet8", "Ethernet12"] {
                remove(tables, &["PFC_WD", port]);
            }
        },
        None,
    )
    .unwrap();
    assert!(imported.text.contains("class = 1\nweight = 77\n"), "{}", imported.text);
    assert!(imported.text.contains("action = \"alert\""), "{}", imported.text);
}

/// Two of the four ports are lossy; those that are not imported reserve what the others do.
#[test]
fn lossy_ports_take_no_reservation_from_others() {
    let lossy = |tables: &mut serde_json::Value| remove(tables, &["PORT_QOS_MAP", "Ethernet0", "pfc_enable"]);
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sonic/td2");
    fs::copy(source.join("pg_profile_lookup.ini"), directory.path().join("pg_profile_lookup.ini")).unwrap();
    let mut tables = serde_json::from_str(&fs::read_to_string(source.join("config_db.json")).unwrap()).unwrap();
    lossy(&mut tables);
    fs::write(directory.path().join("config_db.json"), tables.to_string()).unwrap();
    let wanted = ["Ethernet0".to_owned(), "Ethernet4".to_owned()];
    let imported = import(ConfigDb::read(&[directory.path().to_owned()]).unwrap(), &wanted, None, None).unwrap();
    // Ethernet8 and Ethernet12 as Ethernet4.
    assert_eq!(pool(&imported, "ingress_pool"), 12_766_208 - 6 * 64_064);
}
