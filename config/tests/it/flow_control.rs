//! Every kind of flow control: its defaults as the reference states them, its values, and its name.

use weir_config::{FlowControlChoice, SwitchConfig, parse};
use weir_flowctl::kinds::{
    CbfcConfig, GfcBufferConfig, GfcConceptualConfig, GfcPeer, GfcTimeConfig, NoFlowControl, PauseKind, PfcKind,
    UecCbfcConfig,
};
use weir_units::{Bytes, Span};

/// Switch whose port 0 has these keys besides name, device and rate; port 1 has none.
fn switch(policy: &str, flow_control: &str) -> SwitchConfig {
    let text = format!(
        "[buffer]\nheadroom = \"60KB\"\npolicy = \"{policy}\"\n\
         [[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\n{flow_control}\n\
         [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\n"
    );
    parse("lab.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn flow_control(keys: &str) -> FlowControlChoice {
    switch("dt", &format!("[ports.flow_control]\n{keys}")).ports[0].flow_control.clone()
}

const GFC_BUFFER: GfcBufferConfig = GfcBufferConfig {
    tau: None,
    b_m: None,
    b_1: None,
    refresh: None,
    ageing: None,
    peer: GfcPeer::Gfc,
    stop_at_b_m: false,
    unsafe_thresholds: false,
};
const UEC_CBFC: UecCbfcConfig = UecCbfcConfig {
    limit: None,
    is_shared: false,
    spacing: Bytes::new(6_400),
    repeat: Bytes::new(262_144),
    period: Span::from_micros(256),
};
const GFC_CONCEPTUAL: GfcConceptualConfig = GfcConceptualConfig {
    tau: None,
    b_m: None,
    b_0: None,
    period: None,
    refresh: None,
    ageing: None,
    unsafe_thresholds: false,
};
const GFC_TIME: GfcTimeConfig = GfcTimeConfig {
    tau: None,
    b_m: None,
    b_0: None,
    period: None,
    ageing: None,
    stop_at_b_m: false,
    unsafe_thresholds: false,
};

/// Formats the configuration with all its fields.
fn shown(flow_control: &FlowControlChoice) -> String {
    format!("{flow_control:?}")
}

#[test]
fn a_word_an_inline_table_and_a_table_are_the_same() {
    let defaults = [
        ("pfc", FlowControlChoice::new(PfcKind)),
        ("pause", FlowControlChoice::new(PauseKind)),
        ("none", FlowControlChoice::new(NoFlowControl)),
        ("gfc-buffer", FlowControlChoice::new(GFC_BUFFER)),
        ("gfc-conceptual", FlowControlChoice::new(GFC_CONCEPTUAL)),
        ("gfc-time", FlowControlChoice::new(GFC_TIME)),
        ("cbfc", FlowControlChoice::new(CbfcConfig::default())),
        ("uec-cbfc", FlowControlChoice::new(UEC_CBFC)),
    ];
    for (kind, expected) in defaults {
        let forms = [
            format!("flow_control = \"{kind}\""),
            format!("flow_control = {{ kind = \"{kind}\" }}"),
            format!("[ports.flow_control]\nkind = \"{kind}\""),
        ];
        for form in forms {
            let config = switch("static", &form);
            assert_eq!(shown(&config.ports[0].flow_control), shown(&expected), "{form}");
            // A table belongs only to the port above it.
            assert_eq!(config.ports[1].flow_control.kind(), "pfc", "{form}");
            assert_eq!(config.ports[0].flow_control.kind(), kind);
        }
    }
}

#[test]
fn values_arrive_where_they_belong() {
    let (tau, b_m) = (Some(Span::from_nanos(7_400)), Some(Bytes::kb(300)));
    let by_stages = "kind = \"gfc-buffer\"\ntau = \"7.4us\"\nb_m = \"300KB\"\nb_1 = \"281KB\"\nrefresh = \"1us\"\nageing = \"4us\"\n\
                     stop_at_b_m = true\nunsafe_thresholds = true";
    let gfc_buffer = GfcBufferConfig {
        tau,
        b_m,
        b_1: Some(Bytes::kb(281)),
        refresh: Some(Span::from_micros(1)),
        ageing: Some(Span::from_micros(4)),
        stop_at_b_m: true,
        unsafe_thresholds: true,
        ..GFC_BUFFER
    };
    assert_eq!(flow_control(by_stages).downcast(), Some(&gfc_buffer));
    let by_length = "kind = \"gfc-conceptual\"\ntau = \"7.4us\"\nb_m = \"300KB\"\nb_0 = \"270KB\"\nperiod = \"2us\"\n\
                     refresh = \"9us\"\nageing = \"1000s\"\nunsafe_thresholds = true";
    let gfc_conceptual = GfcConceptualConfig {
        tau,
        b_m,
        b_0: Some(Bytes::kb(270)),
        period: Some(Span::from_micros(2)),
        refresh: Some(Span::from_micros(9)),
        ageing: Some(Span::from_secs(1_000)),
        unsafe_thresholds: true,
    };
    assert_eq!(flow_control(by_length).downcast(), Some(&gfc_conceptual));
    let by_time = "kind = \"gfc-time\"\ntau = \"7.4us\"\nb_m = \"300KB\"\nb_0 = \"159KB\"\nperiod = \"52.4us\"\nageing = \"210us\"\n\
                   stop_at_b_m = true";
    let gfc_time = GfcTimeConfig {
        tau,
        b_m,
        b_0: Some(Bytes::kb(159)),
        period: Some(Span::from_nanos(52_400)),
        ageing: Some(Span::from_micros(210)),
        stop_at_b_m: true,
        ..GFC_TIME
    };
    assert_eq!(flow_control(by_time).downcast(), Some(&gfc_time));
    let by_credit = "kind = \"cbfc\"\nbuffer = \"300KB\"\nperiod = \"1s\"";
    let cbfc = CbfcConfig { buffer: b_m, period: Some(Span::from_secs(1)) };
    assert_eq!(flow_control(by_credit).downcast(), Some(&cbfc));
    let by_cells = "kind = \"uec-cbfc\"\nlimit = \"300KB\"\nshared = true\ncf_min_spacing = \"800B\"\ncf_max_spacing = \"1MB\"\n\
                    cc_period = \"1us\"";
    let uec_cbfc = UecCbfcConfig {
        limit: b_m,
        is_shared: true,
        spacing: Bytes::new(800),
        repeat: Bytes::mb(1),
        period: Span::from_micros(1),
    };
    assert_eq!(flow_control(by_cells).downcast(), Some(&uec_cbfc));
}

#[test]
fn pulses_have_a_period() {
    let peer = |keys: &str| {
        let flow_control = flow_control(&format!("kind = \"gfc-buffer\"\nb_m = \"300KB\"\n{keys}"));
        flow_control.downcast::<GfcBufferConfig>().unwrap().peer
    };
    assert_eq!(peer("peer = \"gfc\""), GfcPeer::Gfc);
    assert_eq!(peer("peer = \"pfc\""), GfcPeer::Pfc { period: None });
    assert_eq!(peer("peer = \"pfc\"").pulse_period(), Some(Span::from_micros(100)));
    // 100 and 65,535 quanta of 51.2 ns.
    for (written, period) in [("5.12us", 5_120_000), ("3355.392us", 3_355_392_000)] {
        let given = peer(&format!("peer = \"pfc\"\npulse_period = \"{written}\""));
        assert_eq!(given, GfcPeer::Pfc { period: Some(Span::from_picos(period)) });
    }
}

#[test]
fn a_clone_has_the_table_of_its_port() {
    let clone = "flow_control = \"gfc-time\"\n[[ports]]\nname = \"c0\"\nclone_of = \"p0\"";
    let config = switch("static", clone);
    assert_eq!(config.ports[1].clone_of(), Some("p0"));
    assert_eq!(config.ports[1].flow_control.downcast(), Some(&GFC_TIME));
}

#[test]
fn credit_counts_blocks_of_whole_cells() {
    for cell in [1, 2, 32, 64] {
        let policy = format!("static\"\ncell_bytes = \"{cell}B");
        assert_eq!(switch(&policy, "flow_control = \"cbfc\"").buffer.cell_bytes, cell);
    }
}

#[test]
fn each_has_a_name() {
    let name = |keys: &str| flow_control(keys).label();
    assert_eq!([name("kind = \"pfc\""), name("kind = \"pause\""), name("kind = \"none\"")], ["PFC", "PAUSE", "none"]);
    assert_eq!(name("kind = \"gfc-buffer\"\nb_m = \"1MB\""), "GFC by stages");
    assert_eq!(name("kind = \"gfc-buffer\"\nb_m = \"1MB\"\npeer = \"pfc\""), "GFC by stages, pulsed");
    assert_eq!(name("kind = \"gfc-time\"\nb_m = \"1MB\""), "GFC by time");
    assert_eq!(name("kind = \"cbfc\"\nbuffer = \"1MB\""), "CBFC");
    assert_eq!(name("kind = \"uec-cbfc\"\nlimit = \"1MB\""), "UEC CBFC");
}
