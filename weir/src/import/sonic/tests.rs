//! Import of handwritten tables in the shape of four platforms'.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_config::SwitchConfig;
use weir_units::{Bytes, Span};

use super::report::{ImportOutcome, lines};
use super::tables::ConfigDb;
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
    let imported = import(tables, &wanted).unwrap();
    let accounted: BTreeSet<_> = imported.mappings.iter().map(|of| (&of.table, &of.key, &of.field)).collect();
    assert_eq!(
        (accounted.len(), imported.mappings.len()),
        (values, values),
        "{platform}: values, and what became of them"
    );
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
    assert_eq!((switch.classes.dscp[26], switch.classes.dscp[3], switch.classes.dscp[46]), (1, 3, 5));
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
        let shared = size - xoff - 8 * reserves;
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
        let imported = import(ConfigDb::read(std::slice::from_ref(&file)).unwrap(), &[]).unwrap();
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
        let result = ConfigDb::read(std::slice::from_ref(&file)).and_then(|tables| import(tables, &[]));
        let Err(message) = result else { panic!("{text}") };
        assert!(message.contains(said), "{text}: {message}");
    }
    let lookup = directory.path().join("pg_profile_lookup.ini");
    fs::write(&lookup, "# speed\n40000 5m 1 2\n").unwrap();
    let message = ConfigDb::read(&[lookup]).unwrap_err();
    assert!(message.contains("line 2") && message.contains("no row of a lookup table"), "{message}");
    let unknown = import(tables("td2"), &["Ethernet2".to_owned()]).unwrap_err();
    assert!(unknown.contains("there is no port Ethernet2"), "{unknown}");
}
