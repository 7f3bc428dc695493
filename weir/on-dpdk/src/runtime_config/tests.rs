use super::*;

const FILE: &str = "[buffer]\nsize = \"1MB\"\n\n[[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"1Gbps\"\n\n\
    [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"1Gbps\"\nflow_control = \"none\"\n";

fn configured(text: &str) -> ConfiguredSwitch {
    let config = weir_config::parse("lab.toml", text).unwrap();
    RuntimeConfigs::new(&[config]).switches.remove(0)
}

fn setup(steered: &ConfiguredSwitch, changes: &[(&str, Option<&str>)]) -> Result<RunningConfig, String> {
    let mut setup = steered.now.clone();
    changes.iter().try_for_each(|(key, value)| setup.set(key, *value))?;
    setup.read(&steered.started).map_err(|errors| errors.render(false))?;
    Ok(setup)
}

#[test]
fn a_change_is_read_and_checked_as_at_the_start() {
    let steered = configured(FILE);
    let wanted = setup(&steered, &[("buffer.dt.alpha", Some("1/8")), ("ports.p0.rate", Some("5Mbps"))]).unwrap();
    assert_eq!(wanted.config.ports[0].rate.unwrap().to_string(), "5Mbps");
    assert_eq!(wanted.config.name, "lab", "the name that it has from its file");
    assert_eq!(steered.now.differing(&wanted).into_iter().collect::<Vec<_>>(), ["buffer.dt.alpha", "ports.p0.rate"]);
    assert_eq!(
        (steered.now.value("ports.p0.rate").as_deref(), steered.now.value("buffer.dt.alpha")),
        (Some("1Gbps"), None)
    );
    for (key, value, said) in [
        ("buffer.dt.alpha", "0", "is not a factor"),
        ("buffer.dt.alfa", "1", "unknown key `alfa` in [buffer.dt]"),
        ("buffer.static.threshold", "10KB", "[buffer.static] is given, but `policy` is \"dt\" (the default)"),
        ("ports.p0.rate", "5", "unit"),
        ("ports.p0.state", "sideways", "\"up\", \"down\""),
        ("classes.queues.3.ecn.kmin", "10KB", "`ecn` needs `kmax`"),
        ("classes.queues.9.weight", "2", "range"),
        ("static_macs.01:00:5e:00:00:01", "p0", "is a group address"),
        ("static_macs.02:00:00:00:00:01", "p7", "no port is named \"p7\""),
    ] {
        let error = setup(&steered, &[(key, Some(value))]).err().unwrap_or_else(|| panic!("{key} = {value}"));
        assert!(error.contains(said), "{key} = {value}: {error}");
    }
}

#[test]
fn a_pause_is_asked_for_by_classes_of_a_port_that_speaks_it() {
    let steered = configured(FILE);
    for (text, written) in [("3", "3"), ("3, 4", "3,4"), ("[4,3]", "3,4"), ("all", "0,1,2,3,4,5,6,7")] {
        let wanted = setup(&steered, &[("ports.p0.pause", Some(text))]).unwrap();
        assert_eq!(wanted.written("ports.p0.pause").as_deref(), Some(written));
        assert_eq!(steered.now.differing(&wanted).into_iter().collect::<Vec<_>>(), ["ports.p0.pause"]);
        assert_eq!(wanted.document.text(), FILE, "it is no key of the file");
        let mut ended = wanted.clone();
        ended.set("ports.p0.pause", Some("none")).unwrap();
        assert!(steered.now.differing(&ended).is_empty());
    }
    for (key, value, said) in [
        ("ports.p0.pause", "8", "write classes such as 3"),
        ("ports.p0.pause", "", "write classes such as 3"),
        ("ports.p0.pause", "[3", "write classes such as 3"),
        ("ports.p1.pause", "3", "speaks none"),
        ("ports.p9.pause", "3", "no port is named `p9`"),
    ] {
        let error = setup(&steered, &[(key, Some(value))]).err().unwrap();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn what_a_file_changes_is_parted_by_what_can_come_into_force() {
    let steered = configured(FILE);
    let why = |text: &str| {
        let config = weir_config::parse("lab.toml", text).unwrap();
        let document = Document::parse(text).unwrap();
        let file = RunningConfig { config, document, pauses: BTreeMap::new() };
        let keys = steered.now.differing(&file);
        let reason = |key: String| (steered.why_not(&file, &key).is_some(), key);
        keys.into_iter()
            .map(reason)
            .map(|(restart, key)| format!("{key}{}", if restart { "!" } else { "" }))
            .collect::<Vec<_>>()
    };
    assert!(why(FILE).is_empty());
    assert_eq!(why(&FILE.replace("1MB", "2MB").replacen("1Gbps", "5Mbps", 1)), ["buffer.size!", "ports.p0.rate"]);
    // Another policy's parameters come with it.
    let text =
        FILE.replace("[buffer]", "[buffer]\npolicy = \"static\"\n[buffer.static]\nthreshold = \"20KB\"\n[buffer]");
    let text = text.replacen("[buffer]\nsize = \"1MB\"\n", "", 1).replace("policy", "size = \"1MB\"\npolicy");
    assert_eq!(why(&text), ["buffer.policy!", "buffer.static.threshold!"]);
    // A port more: none of its keys is live, and neither is the order of ports.
    let more = format!("{FILE}\n[[ports]]\nname = \"p2\"\nring = \"c\"\nrate = \"1Gbps\"\nstate = \"down\"\n");
    assert_eq!(why(&more), ["ports!", "ports.p2.rate!", "ports.p2.ring!", "ports.p2.state!"]);
}

#[test]
fn what_was_set_for_a_time_is_not_what_lasts() {
    let mut steered = configured(FILE);
    let wanted = setup(&steered, &[("ports.p0.rate", Some("5Mbps")), ("ports.p1.state", Some("down"))]).unwrap();
    let before = [("ports.p0.rate".to_owned(), steered.now.written("ports.p0.rate"))].into();
    steered.now = wanted;
    let set = |key: &str| Assignment { key: key.to_owned(), value: None };
    steered.record_expiry(&[set("ports.p0.rate")], &before, Some(Duration::from_secs(10)), &mut Vec::new());
    assert_eq!(steered.lasting().written("ports.p0.rate").as_deref(), Some("\"1Gbps\""));
    assert_eq!(steered.lasting().written("ports.p1.state").as_deref(), Some("\"down\""));
    // Another value for a time comes back to the first one, not to the one between.
    let between = [("ports.p0.rate".to_owned(), Some("\"5Mbps\"".to_owned()))].into();
    steered.record_expiry(&[set("ports.p0.rate")], &between, Some(Duration::from_secs(10)), &mut Vec::new());
    assert_eq!(steered.lasting().written("ports.p0.rate").as_deref(), Some("\"1Gbps\""));
    // One for good ends that.
    let mut notes = Vec::new();
    steered.record_expiry(&[set("ports.p0.rate")], &between, None, &mut notes);
    assert_eq!(steered.lasting().written("ports.p0.rate").as_deref(), Some("\"5Mbps\""));
    assert!(notes[0].contains("now stays as it is"), "{notes:?}");
}
