//! Errors of a file's flow control, with their help.

use weir_config::{FlowControlChoice, SwitchConfig};
use weir_flowctl::Quantum;
use weir_flowctl::gfc::feedback_delay_max;
use weir_flowctl::kinds::FeedbackDelay;
use weir_flowctl::kinds::{GfcConceptual, GfcTimeConfig};
use weir_units::Span;

use super::*;

const RATE: BitRate = BitRate::gbps(10);

/// Two ports of 10 Gb/s, one lossless class, T = 300 KB and Φ = 60 KB; the flow control of `p1` is on line 19.
fn switch(flow_control: &str) -> SwitchConfig {
    let text = format!(
        "[buffer]\nsize = \"4MB\"\nheadroom = \"60KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"\n\
         [classes]\nlossless = [3]\n[pfc]\nreaction = \"50us\"\n\
         [[ports]]\nname = \"p0\"\ntap = \"t0\"\nrate = \"10Gbps\"\n\
         [[ports]]\nname = \"p1\"\ntap = \"t1\"\nrate = \"10Gbps\"\nflow_control = {flow_control}\n"
    );
    weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// The message, the line and the help of each error.
fn wrong(flow_control: &str) -> Vec<(String, Option<usize>, String)> {
    let Err(errors) = check(&switch(flow_control)) else { return Vec::new() };
    errors.iter().map(|error| (error.message().to_owned(), error.line(), error.help_text().to_owned())).collect()
}

fn only(flow_control: &str, message: &str, help: &str) {
    let [(told, line, helped)] = &wrong(flow_control)[..] else { panic!("{:?}", wrong(flow_control)) };
    assert_eq!((told.as_str(), *line), (message, Some(19)));
    assert_eq!(helped.strip_suffix(FOR_AN_EXPERIMENT).unwrap_or(helped), help);
    assert_eq!(helped.ends_with(FOR_AN_EXPERIMENT), !flow_control.contains("cbfc"), "{helped}");
}

const FOR_AN_EXPERIMENT: &str = "; for an experiment that may lose frames, unsafe_thresholds = true";

#[test]
fn what_is_safe_is_accepted() {
    for good in [
        "\"pfc\"",
        "\"none\"",
        "\"gfc-buffer\"",
        "\"gfc-time\"",
        "\"cbfc\"",
        "{ kind = \"gfc-buffer\", peer = \"pfc\", pulse_period = \"20us\" }",
        "{ kind = \"gfc-buffer\", tau = \"60us\", b_m = \"300KB\", b_1 = \"150KB\" }",
        "{ kind = \"gfc-buffer\", b_m = \"356.956KB\" }",
        "{ kind = \"cbfc\", buffer = \"356956B\" }",
    ] {
        assert_eq!(wrong(good), [], "{good}");
    }
}

#[test]
fn thresholds_above_their_bounds_are_refused() {
    only(
        "{ kind = \"gfc-buffer\", tau = \"60us\", b_m = \"300KB\", b_1 = \"150001B\" }",
        "`b_1` is above B_m - 2 C tau (GFC, equation 5), which is 150KB: the buffer may overflow",
        "write b_1 = \"150KB\" or less",
    );
    // (sqrt(60/40) + 1)^2 x 40 us are 198 us.
    only(
        "{ kind = \"gfc-time\", tau = \"60us\", period = \"40us\", b_m = \"300KB\", b_0 = \"100KB\" }",
        "`b_0` is above B_m - (sqrt(tau/T) + 1)^2 C T (GFC, theorem 5.1), which is 52525B: the buffer may overflow",
        "write b_0 = \"52525B\" or less",
    );
}

/// P = 100 us adds 250 KB to the 150 KB of τ = 60 us.
#[test]
fn a_buffer_too_small_for_any_threshold_is_refused() {
    only(
        "{ kind = \"gfc-buffer\", peer = \"pfc\", tau = \"60us\", b_m = \"300KB\" }",
        "no `b_1` keeps to B_m - 2 C tau (GFC, equation 5): the buffer is too small for this feedback delay",
        "b_m must be above 400KB: make it larger (or `threshold` in [buffer.static]), or tau smaller",
    );
}

#[test]
fn queues_longer_than_what_is_kept_for_them_are_refused() {
    let message = |key: &str| {
        format!(
            "`{key}` 356957B and a frame for each part are more than the 360KB that the buffer keeps for a queue (`private`, `threshold` and \
             headroom): the queue may overflow"
        )
    };
    let help = |key: &str| format!("write {key} = \"356956B\" or less, or a larger `threshold` in [buffer.static]");
    only("{ kind = \"gfc-buffer\", b_m = \"356.957KB\" }", &message("b_m"), &help("b_m"));
    only("{ kind = \"gfc-time\", b_m = \"356.957KB\" }", &message("b_m"), &help("b_m"));
    only("{ kind = \"cbfc\", buffer = \"356.957KB\" }", &message("buffer"), &help("buffer"));
    let mut moving = switch("{ kind = \"gfc-buffer\", b_m = \"1MB\" }");
    moving.buffer.policy = weir_mmu::policy::parse_config("dt", "alpha = \"1/2\"").unwrap();
    assert!(check(&moving).is_ok());
}

#[test]
fn experiments_may_be_unsafe() {
    let unsafe_thresholds = "tau = \"60us\", b_m = \"1MB\", unsafe_thresholds = true";
    assert_eq!(wrong(&format!("{{ kind = \"gfc-buffer\", b_1 = \"990KB\", {unsafe_thresholds} }}")), []);
    assert_eq!(wrong(&format!("{{ kind = \"gfc-time\", b_0 = \"990KB\", {unsafe_thresholds} }}")), []);
    assert_eq!(wrong(&format!("{{ kind = \"gfc-conceptual\", b_0 = \"990KB\", {unsafe_thresholds} }}")), []);
}

#[test]
fn cells_and_limits_of_uec_are_checked() {
    let refused = |cell_bytes, keys: &str| {
        let mut config = switch(&format!("{{ kind = \"uec-cbfc\"{keys} }}"));
        config.buffer.cell_bytes = cell_bytes;
        let Err(errors) = check(&config) else { return None };
        errors.iter().next().map(|error| (error.message().to_owned(), error.help_text().to_owned()))
    };
    let error = |message: &str, help: &str| Some((message.to_owned(), help.to_owned()));
    let no_cell = "`cell_bytes` 1 in [buffer] is no cell for \"uec-cbfc\", which counts whole cells of 64 B or more";
    assert_eq!(refused(1, ""), error(no_cell, "write cell_bytes = 128 in [buffer]"));
    assert_eq!((refused(64, ""), refused(208, "")), (None, None));
    let short = error("`limit` 1500B is 11 cells, but the longest frame takes 12", "write limit = \"1536B\" or more");
    assert_eq!(refused(128, ", limit = \"1500B\""), short);
    assert_eq!(refused(128, ", limit = \"1536B\""), None);
    let long = refused(64, ", limit = \"67.108864MB\"").unwrap();
    let expected = "`limit` 67108864B is 1,048,576 cells, but counts have 20 bits";
    assert_eq!((long.0.as_str(), long.1.as_str()), (expected, "write limit = \"67108800B\" or less, or larger cells"));
    let apart = refused(128, ", cf_min_spacing = \"20KB\", cf_max_spacing = \"16384B\"");
    let above = "`cf_min_spacing` 20KB is above `cf_max_spacing` 16384B";
    assert_eq!(apart, error(above, "write cf_min_spacing = \"16384B\" or less"));
}

/// 84 B on the wire, and as much again for data, at 100 Mb/s.
#[test]
fn messages_take_half_of_the_link_at_most() {
    for (kind, key) in [
        ("cbfc", "period"),
        ("gfc-time", "period"),
        ("gfc-conceptual", "period"),
        ("gfc-conceptual", "refresh"),
        ("gfc-buffer", "refresh"),
        ("uec-cbfc", "cc_period"),
    ] {
        let refused = |period: &str| {
            let mut config = switch(&format!("{{ kind = \"{kind}\", {key} = \"{period}\" }}"));
            config.ports[1].rate = Some(BitRate::mbps(100));
            config.buffer.cell_bytes = 64;
            let Err(errors) = check(&config) else { return None };
            errors.iter().next().map(|error| (error.message().to_owned(), error.help_text().to_owned()))
        };
        let message = format!("a message each `{key}`, 13.439us, takes more than half of the link");
        assert_eq!(refused("13.439us"), Some((message, format!("write {key} = \"13.44us\" or more"))), "{kind}");
        assert_eq!(refused("13.44us"), None, "{kind}");
    }
}

#[test]
fn ends_of_a_link_count_alike() {
    let told = |one: &str, other: &str, cell_bytes: u32| {
        let configs = [one, other].map(|flow_control| {
            let mut config = switch(flow_control);
            config.buffer.cell_bytes = 128;
            config
        });
        let [one, mut other] = configs;
        other.buffer.cell_bytes = cell_bytes;
        difference([(&one, 1), (&other, 1)], ["S1.a", "S2.b"])
    };
    let uec = |keys: &str| format!("{{ kind = \"uec-cbfc\"{keys} }}");
    let [small, large] = ["128KB", "256KB"].map(|limit| uec(&format!(", limit = \"{limit}\"")));
    assert_eq!(told(&small, &small, 128), None);
    let differs = |key: &str, one: &str, other: &str| {
        let message = format!("`{key}` is {one} at S1.a, but {other} at S2.b");
        Some((message, format!("write the same `{key}` for both ports of a link")))
    };
    assert_eq!(told(&small, &large, 128), differs("limit", "1,000 cells", "2,000 cells"));
    assert_eq!(told(&small, &small, 64), differs("cell_bytes", "128 B", "64 B"));
    assert_eq!(told(&uec(", shared = true"), &uec(""), 128), differs("shared", "true", "false"));
    let cbfc = |buffer: &str| format!("{{ kind = \"cbfc\", buffer = \"{buffer}\" }}");
    assert_eq!(told(&cbfc("64KB"), &cbfc("128KB"), 128), None, "the lesser buffer bounds the credit");
    let lengths = |kind: &str, b_0: &str| {
        format!("{{ kind = \"{kind}\", b_m = \"350KB\", b_0 = \"{b_0}\", unsafe_thresholds = true }}")
    };
    for kind in ["gfc-time", "gfc-conceptual"] {
        assert_eq!(told(&lengths(kind, "20KB"), &lengths(kind, "30KB"), 128), differs("b_0", "20KB", "30KB"));
    }
    let stages = |stop: bool| format!("{{ kind = \"gfc-buffer\", stop_at_b_m = {stop} }}");
    assert_eq!(told(&stages(true), &stages(false), 128), differs("stop_at_b_m", "true", "false"));
    assert_eq!(told("{ kind = \"gfc-buffer\", peer = \"pfc\" }", "\"pfc\"", 128), None, "pulses are for PFC");
}

/// 4 C (τ + T), with T = 1 us by default: 305 KB at 10 Gb/s and 60 us.
#[test]
fn conceptual_gfc_keeps_theorem_4_1() {
    let with = |b_0: &str| format!("{{ kind = \"gfc-conceptual\", tau = \"60us\", b_m = \"350KB\"{b_0} }}");
    assert_eq!(wrong(&with(", b_0 = \"45KB\"")), []);
    assert_eq!(wrong(&with(", b_0 = \"45001B\"")).len(), 1);
    let config = switch(&with(""));
    let flow_control = port_flow_control(&config, 1, RATE).unwrap();
    let &GfcConceptual { mapping, period, refresh, ageing } = flow_control.downcast().unwrap();
    assert_eq!((mapping.b_m(), mapping.b_0()), (Bytes::kb(350), Bytes::kb(45)));
    assert_eq!((period, refresh), (Span::from_micros(1), Span::from_nanos(52_428)));
    assert_eq!(ageing, Quantum::for_rate(RATE).times(u16::MAX), "as long as the longest PAUSE");
}

#[test]
fn all_of_a_port_and_all_ports_are_told_at_once() {
    let mut config = switch("{ kind = \"gfc-buffer\", tau = \"60us\", b_m = \"1MB\", b_1 = \"990KB\" }");
    let lines = |config: &SwitchConfig| -> Vec<_> {
        check(config).unwrap_err().iter().map(weir_config::ConfigError::line).collect()
    };
    assert_eq!(lines(&config), [Some(19), Some(19)]);
    config.ports[0].flow_control = config.ports[1].flow_control.clone();
    assert_eq!(lines(&config), [Some(11), Some(11), Some(19), Some(19)]);
}

#[test]
fn the_feedback_delay_has_the_papers_terms() {
    let config = switch("{ kind = \"gfc-buffer\", peer = \"pfc\", tau = \"60us\" }");
    let port = flow_control_context(&config, 1, RATE);
    let delay = |flow_control: &FlowControlChoice| flow_control.feedback_delay(&port);
    assert_eq!(delay(&config.ports[1].flow_control), Some(Span::from_micros(160)), "with P");
    let by_rule = FeedbackDelay::for_port(&port, None, Span::ZERO);
    assert_eq!(by_rule.total(), feedback_delay_max(RATE, Bytes::new(1_542), port.delay, port.reaction));
    assert_eq!(delay(&FlowControlChoice::new(GfcTimeConfig::default())), Some(by_rule.total()));
    assert_eq!(delay(&config.ports[0].flow_control), None, "PFC has no thresholds for it");
}
