//! Every policy's table: its defaults as the reference states them, and its values.

use std::sync::Arc;

use weir_config::{SwitchConfig, parse};
use weir_mmu::policy::{
    AbmConfig, AdaptiveHeadroomConfig, BUFFER_POLICIES, BufferPolicyConfig, DshConfig, DynamicThresholdConfig,
    Estimator, OversubscribedConfig, Pools, ReverieConfig, SihConfig, SonicConfig, SpfcConfig, StaticThresholdConfig,
    VictimAt, VictimMemory,
};
use weir_units::{Alpha, Bytes, Span};

fn switch(buffer: &str) -> SwitchConfig {
    let text = format!(
        "{buffer}\n[[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\n\
         [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\n"
    );
    parse("lab.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn settings(name: &str, keys: &str) -> Arc<dyn BufferPolicyConfig> {
    switch(&format!("[buffer]\npolicy = \"{name}\"\n[buffer.{name}]\n{keys}")).buffer.policy
}

fn policy<S: BufferPolicyConfig + Clone>(name: &str, keys: &str) -> S {
    settings(name, keys).downcast::<S>().unwrap_or_else(|| panic!("another policy than {name}")).clone()
}

fn quarter() -> Alpha {
    Alpha::ratio(1, 4).unwrap()
}

const CONGESTED: Bytes = Bytes::new(20_480);

#[test]
fn defaults_are_those_of_the_reference() {
    let (alpha, pools) = (Alpha::ONE, Pools::default());
    let dsh = DshConfig {
        alpha,
        estimator: Estimator::Exact,
        w_g: quarter(),
        w_v: quarter(),
        k: 4,
        window: Span::from_millis(10),
        port_xon_offset: None,
        port_queues: None,
        insurance: true,
        shared_headroom: true,
    };
    let defaults: [Arc<dyn BufferPolicyConfig>; 10] = [
        Arc::new(StaticThresholdConfig { threshold: None }),
        Arc::new(DynamicThresholdConfig { alpha, alpha_at_rate: None }),
        Arc::new(SpfcConfig {
            alpha,
            k_spfc: 5,
            tc: Span::from_micros(80),
            victim_at: VictimAt::Count,
            victim_memory: VictimMemory::Shared,
        }),
        Arc::new(SihConfig { alpha }),
        Arc::new(OversubscribedConfig { alpha, headroom_percent: 80 }),
        Arc::new(AdaptiveHeadroomConfig { alpha, samples: 8, measured_delay: Span::ZERO }),
        Arc::new(dsh),
        Arc::new(SonicConfig { alpha, pools }),
        Arc::new(AbmConfig::paper(alpha, pools, CONGESTED, Span::from_micros(25))),
        Arc::new(ReverieConfig::simulator(alpha, 999_000_000, CONGESTED)),
    ];
    assert_eq!(defaults.each_ref().map(|policy| policy.name())[..], BUFFER_POLICIES.names().collect::<Vec<_>>()[..]);
    for expected in defaults {
        let (name, expected) = (expected.name(), format!("{expected:?}"));
        assert_eq!(format!("{:?}", settings(name, "")), expected);
        // A policy needs no table.
        assert_eq!(format!("{:?}", switch(&format!("[buffer]\npolicy = \"{name}\"")).buffer.policy), expected);
    }
}

#[test]
fn values_arrive_where_they_belong() {
    let alpha = Alpha::ratio(1, 8).unwrap();
    assert_eq!(
        policy::<SpfcConfig>(
            "spfc",
            "alpha = \"1/8\"\nk_spfc = 64\ntc = \"1s\"\nvictim_at = \"window-end\"\nvictim_memory = \"all\""
        ),
        SpfcConfig {
            alpha,
            k_spfc: 64,
            tc: Span::from_secs(1),
            victim_at: VictimAt::WindowEnd,
            victim_memory: VictimMemory::All
        }
    );
    assert_eq!(
        policy::<OversubscribedConfig>("oversubscribed", "alpha = 0.125\nheadroom_percent = 50"),
        OversubscribedConfig { alpha, headroom_percent: 50 }
    );
    assert_eq!(
        policy::<AdaptiveHeadroomConfig>("adaptive", "alpha = 0.125\nsamples = 1000000\nmeasured_delay = \"40us\""),
        AdaptiveHeadroomConfig { alpha, samples: 1_000_000, measured_delay: Span::from_micros(40) }
    );
    let pool_keys = "alpha = 0.125\ningress_pool = \"6MB\"\nheadroom_pool = \"5MB\"\negress_lossy_pool = \"1MB\"\n";
    let pools = Pools { ingress: Some(Bytes::mb(6)), headroom: Some(Bytes::mb(5)), egress_lossy: Some(Bytes::mb(1)) };
    assert_eq!(policy::<SonicConfig>("sonic", pool_keys), SonicConfig { alpha, pools });
    assert_eq!(
        policy::<AbmConfig>("abm", &format!("{pool_keys}congested = \"1B\"\ninterval = \"1us\"")),
        AbmConfig::paper(alpha, pools, Bytes::new(1), Span::from_micros(1))
    );
    assert_eq!(
        policy::<ReverieConfig>("reverie", "alpha = 0.125\ngamma = 0.999_999_999\ncongested = \"1MB\""),
        ReverieConfig::simulator(alpha, 999_999_999, Bytes::mb(1))
    );
    let text = "congested_partly = false\ncongested_at = \"events\"\nfilter_at = \"events\"\nfilter_cut = false\n\
                filter_headroom = false\nresume_offset = \"0B\"\nresume_floor = \"0B\"";
    assert_eq!(policy::<ReverieConfig>("reverie", text), ReverieConfig::paper(Alpha::ONE, 999_000_000, CONGESTED));
}

#[test]
fn dsh_takes_any_weights_by_the_exact_estimator_and_shifts_by_the_table() {
    let keys = "alpha = 2\nestimator = \"table\"\nw_g = \"1/65536\"\nw_v = 1\nk = 64\nwindow = \"1us\"\n\
                port_xon_offset = \"0B\"\nport_queues = 8\ninsurance = false\nshared_headroom = false";
    let dsh = DshConfig {
        alpha: "2".parse().unwrap(),
        estimator: Estimator::Table,
        w_g: Alpha::ratio(1, 65_536).unwrap(),
        w_v: Alpha::ONE,
        k: 64,
        window: Span::from_micros(1),
        port_xon_offset: Some(Bytes::ZERO),
        port_queues: Some(8),
        insurance: false,
        shared_headroom: false,
    };
    assert_eq!(policy::<DshConfig>("dsh", keys), dsh);
    let dsh: DshConfig = policy("dsh", "estimator = \"table\"\nk = 0");
    assert_eq!((dsh.k, dsh.w_g), (0, quarter()));
    let dsh: DshConfig = policy("dsh", "w_g = 0.3\nw_v = \"1/3\"\nk = 3");
    assert_eq!((dsh.w_g, dsh.w_v, dsh.k), (Alpha::from_f64(0.3).unwrap(), Alpha::ratio(1, 3).unwrap(), 3));
}

#[test]
fn gamma_is_exact_as_a_number_and_as_a_string() {
    for (written, ppb) in [("0", 0), ("0.7", 700_000_000), ("\"0.999999\"", 999_999_000), ("0.100000001", 100_000_001)]
    {
        let reverie: ReverieConfig = policy("reverie", &format!("gamma = {written}"));
        assert_eq!(reverie.gamma_ppb, ppb, "{written}");
    }
}

#[test]
fn times_of_policies_are_on_the_switchs_clock() {
    let dilated = switch("[switch]\ntime_dilation = 100\n[buffer]\npolicy = \"spfc\"");
    let spfc: &SpfcConfig = dilated.buffer.policy.downcast().expect("spfc");
    assert_eq!(spfc.tc, Span::from_micros(80));
}
