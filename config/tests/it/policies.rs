//! Every policy's table: its defaults as the reference states them, and its values.

use weir_config::{DshConfig, Estimator, PolicyConfig, PoolsConfig, SwitchConfig, parse};
use weir_units::{Alpha, Bytes, Span};

fn switch(buffer: &str) -> SwitchConfig {
    let text = format!(
        "{buffer}\n[[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\n\
         [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\n"
    );
    parse("lab.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn policy(name: &str, keys: &str) -> PolicyConfig {
    switch(&format!("[buffer]\npolicy = \"{name}\"\n[buffer.{name}]\n{keys}")).buffer.policy
}

fn quarter() -> Alpha {
    Alpha::ratio(1, 4).unwrap()
}

const CONGESTED: Bytes = Bytes::new(20_480);

#[test]
fn defaults_are_those_of_the_reference() {
    let (alpha, pools) = (Alpha::ONE, PoolsConfig::default());
    let dsh = DshConfig {
        alpha,
        estimator: Estimator::Exact,
        w_g: quarter(),
        w_v: quarter(),
        k: 4,
        window: Span::from_millis(10),
        port_xon_offset: None,
        insurance: true,
        shared_headroom: true,
    };
    let defaults = [
        PolicyConfig::Static { threshold: None },
        PolicyConfig::Dt { alpha },
        PolicyConfig::Spfc { alpha, k_spfc: 5, tc: Span::from_micros(80) },
        PolicyConfig::Sih { alpha },
        PolicyConfig::Oversubscribed { alpha, headroom_percent: 80 },
        PolicyConfig::Adaptive { alpha, samples: 8 },
        PolicyConfig::Dsh(dsh),
        PolicyConfig::Sonic { alpha, pools },
        PolicyConfig::Abm { alpha, pools, congested: CONGESTED, interval: Span::from_micros(25) },
        PolicyConfig::Reverie { alpha, gamma_ppb: 999_000_000, congested: CONGESTED },
    ];
    for expected in defaults {
        let name = expected.name();
        assert_eq!(policy(name, ""), expected);
        // A policy needs no table.
        assert_eq!(switch(&format!("[buffer]\npolicy = \"{name}\"")).buffer.policy, expected);
    }
}

#[test]
fn values_arrive_where_they_belong() {
    let alpha = Alpha::ratio(1, 8).unwrap();
    assert_eq!(
        policy("spfc", "alpha = \"1/8\"\nk_spfc = 64\ntc = \"1s\""),
        PolicyConfig::Spfc { alpha, k_spfc: 64, tc: Span::from_secs(1) }
    );
    assert_eq!(
        policy("oversubscribed", "alpha = 0.125\nheadroom_percent = 50"),
        PolicyConfig::Oversubscribed { alpha, headroom_percent: 50 }
    );
    assert_eq!(
        policy("adaptive", "alpha = 0.125\nsamples = 1000000"),
        PolicyConfig::Adaptive { alpha, samples: 1_000_000 }
    );
    let pool_keys = "alpha = 0.125\ningress_pool = \"6MB\"\nheadroom_pool = \"5MB\"\negress_lossy_pool = \"1MB\"\n";
    let pools =
        PoolsConfig { ingress: Some(Bytes::mb(6)), headroom: Some(Bytes::mb(5)), egress_lossy: Some(Bytes::mb(1)) };
    assert_eq!(policy("sonic", pool_keys), PolicyConfig::Sonic { alpha, pools });
    assert_eq!(
        policy("abm", &format!("{pool_keys}congested = \"1B\"\ninterval = \"1us\"")),
        PolicyConfig::Abm { alpha, pools, congested: Bytes::new(1), interval: Span::from_micros(1) }
    );
    assert_eq!(
        policy("reverie", "alpha = 0.125\ngamma = 0.999_999_999\ncongested = \"1MB\""),
        PolicyConfig::Reverie { alpha, gamma_ppb: 999_999_999, congested: Bytes::mb(1) }
    );
}

#[test]
fn dsh_takes_any_weights_by_the_exact_estimator_and_shifts_by_the_table() {
    let keys = "alpha = 2\nestimator = \"table\"\nw_g = \"1/65536\"\nw_v = 1\nk = 64\nwindow = \"1us\"\n\
                port_xon_offset = \"0B\"\ninsurance = false\nshared_headroom = false";
    let dsh = DshConfig {
        alpha: "2".parse().unwrap(),
        estimator: Estimator::Table,
        w_g: Alpha::ratio(1, 65_536).unwrap(),
        w_v: Alpha::ONE,
        k: 64,
        window: Span::from_micros(1),
        port_xon_offset: Some(Bytes::ZERO),
        insurance: false,
        shared_headroom: false,
    };
    assert_eq!(policy("dsh", keys), PolicyConfig::Dsh(dsh));
    let PolicyConfig::Dsh(dsh) = policy("dsh", "estimator = \"table\"\nk = 0") else { panic!("another policy") };
    assert_eq!((dsh.k, dsh.w_g), (0, quarter()));
    let PolicyConfig::Dsh(dsh) = policy("dsh", "w_g = 0.3\nw_v = \"1/3\"\nk = 3") else { panic!("another policy") };
    assert_eq!((dsh.w_g, dsh.w_v, dsh.k), (Alpha::from_f64(0.3).unwrap(), Alpha::ratio(1, 3).unwrap(), 3));
}

#[test]
fn gamma_is_exact_as_a_number_and_as_a_string() {
    for (written, ppb) in [("0", 0), ("0.7", 700_000_000), ("\"0.999999\"", 999_999_000), ("0.100000001", 100_000_001)]
    {
        let PolicyConfig::Reverie { gamma_ppb, .. } = policy("reverie", &format!("gamma = {written}")) else {
            panic!("another policy")
        };
        assert_eq!(gamma_ppb, ppb, "{written}");
    }
}

#[test]
fn times_of_policies_are_on_the_switchs_clock() {
    let dilated = switch("[switch]\ntime_dilation = 100\n[buffer]\npolicy = \"spfc\"");
    let PolicyConfig::Spfc { tc, .. } = dilated.buffer.policy else { panic!("another policy") };
    assert_eq!(tc, Span::from_micros(80));
}
