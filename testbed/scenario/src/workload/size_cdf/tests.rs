use proptest::prelude::*;

use super::*;
use crate::workload::Rng;

fn of(text: &str) -> SizeCdf {
    SizeCdf::parse(text).unwrap()
}

fn built_in(name: &str) -> SizeCdf {
    SizeCdf::built_in(name).unwrap()
}

fn fixed(size: u64) -> SizeCdf {
    SizeCdf::fixed(Bytes::new(size)).unwrap()
}

fn is_near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-9
}

#[test]
fn means_worked_out_by_hand() {
    assert_eq!(of("0 0\n1000 100").mean(), 500.0);
    assert_eq!(of("100 50\n100 100").mean(), 100.0, "all of one size");
    // Half of the messages have 100 B, a quarter 100 to 300, a quarter 300 to 1100.
    assert_eq!(of("100 0\n100 0.5\n300 0.75\n1100 1").mean(), 50.0 + 50.0 + 175.0);
    assert_eq!(fixed(64_000).mean(), 64_000.0);
    assert_eq!(of("0 0\n0 100\n1 100").mean(), 1.0, "an empty message is sent as a byte");
}

/// Sums of (a + b) / 2 times the share between a and b, in exact fractions.
#[test]
fn means_of_the_built_in_distributions() {
    let means = [
        ("cache", 712_573.5),
        ("data-mining", 7_487_883.716_043),
        ("enterprise", 157_357.422_924),
        ("google-rpc", 2_891.621_250_05),
        ("hadoop", 120_420.75),
        ("hadoop-2015", 121_848.942_005),
        ("solar2022", 39_423.504_52),
        ("storage", 40_869.8),
        ("web-search", 1_711_250.0),
        ("web-search-reverie", 1_711_222.5),
        ("web-server", 66_121.0),
    ];
    assert!(SizeCdf::names().eq(means.iter().map(|(name, _)| *name)));
    for (name, mean) in means {
        assert!(is_near(built_in(name).mean(), mean), "{name}: {}", built_in(name).mean());
    }
    assert_eq!(SizeCdf::built_in("websearch"), None);
}

/// The shares that the SPFC paper's Table II gives of both distributions, in percent.
#[test]
fn shares_that_the_spfc_paper_has() {
    for (name, shares) in [("web-search", [15.0, 39.16, 15.83]), ("hadoop", [70.26, 18.24, 9.0])] {
        let cdf = built_in(name);
        let mut before = 0.0;
        for (size, share) in [Bytes::kb(10), Bytes::kb(100), Bytes::mb(1)].into_iter().zip(shares) {
            let up_to = cdf.share_up_to(size) * 100.0;
            assert!((up_to - before - share).abs() < 0.011, "{name} up to {size}: {}", up_to - before);
            before = up_to;
        }
    }
}

/// The CONGA paper: messages below 35 MB have half of the bytes of the enterprise workload, and a twentieth of data mining's.
#[test]
fn bytes_that_the_conga_paper_has() {
    for (name, small) in [("enterprise", 0.5), ("data-mining", 0.05)] {
        let cdf = built_in(name);
        let mean_below = |limit: f64| {
            cdf.integral(
                |size| if size < limit { size * size / 2.0 } else { limit * limit / 2.0 },
                |size| if size < limit { size } else { 0.0 },
            )
        };
        assert!((mean_below(35e6) / cdf.mean() - small).abs() < 0.02, "{name}");
    }
}

#[test]
fn quantiles_follow_the_lines() {
    let cdf = of("100 0\n100 0.5\n300 0.75\n300 0.75\n500 0.75\n1100 1");
    for (share, size) in [(0.0, 100), (0.2, 100), (0.5, 100), (0.625, 200), (0.75, 300), (0.875, 800), (1.0, 1_100)] {
        assert_eq!(cdf.quantile(share), Bytes::new(size), "{share}");
    }
    assert_eq!(cdf.quantile(0.750_001), Bytes::new(500), "no message has 301 to 499 B");
    for (size, share) in [(0, 0.0), (99, 0.0), (100, 0.5), (200, 0.625), (400, 0.75), (800, 0.875), (9_999, 1.0)] {
        assert_eq!(cdf.share_up_to(Bytes::new(size)), share, "{size}");
    }
    assert_eq!((cdf.quantile(-1.0), cdf.quantile(2.0)), (Bytes::new(100), Bytes::new(1_100)));
    assert_eq!(of("0 0\n10 100").quantile(0.001), Bytes::new(1));
    assert_eq!(of("52 10\n100 100").quantile(0.05), Bytes::new(52), "a first share above 0 is a step");
    assert_eq!(of("0 0\n2000 0\n3000 100\n4000 100").quantile(0.0), Bytes::new(2_000));
    assert_eq!(of("0 0\n2000 0\n3000 100\n4000 100").largest(), Bytes::new(3_000));
}

#[test]
fn frames_of_a_message() {
    let frames = |cdf: &SizeCdf, payload| cdf.mean_frames(Bytes::new(payload));
    assert_eq!(frames(&fixed(2_000), 1_000), 2.0);
    assert_eq!(frames(&fixed(2_001), 1_000), 3.0);
    // Sizes up to 2500: 1, 2 and, for a fifth, 3 frames.
    assert!(is_near(frames(&of("0 0\n2500 100"), 1_000), 0.4 + 0.8 + 0.6));
    assert!(is_near(frames(&of("1500 0\n2500 100"), 1_000), 0.5 * 2.0 + 0.5 * 3.0));
    assert_eq!(frames(&of("1 0\n10 100"), 1_500), 1.0);
}

#[test]
fn samples_follow_the_distribution() {
    for name in SizeCdf::names() {
        let cdf = built_in(name);
        let mut rng = Rng::new(1);
        let mut sizes: Vec<u64> = (0..20_000).map(|_| cdf.sample(&mut rng).get()).collect();
        sizes.sort_unstable();
        // Kolmogorov and Smirnov's distance; above 1.95 / sqrt(n) in one of 1000 seeds. A size stands for half a byte
        // to both sides, where a distribution is steep.
        for (n, size) in sizes.iter().enumerate() {
            let share = (n as f64 + 0.5) / 20_000.0;
            let [low, high] = [size.saturating_sub(1), size + 1].map(|size| cdf.share_up_to(Bytes::new(size)));
            assert!(low - 0.014 < share && share < high + 0.014, "{name}: {size} B at {share}, not {low}..{high}");
        }
        // The heavy tails of some would take millions of samples.
        if !["enterprise", "data-mining", "google-rpc"].contains(&name) {
            let mean = sizes.iter().sum::<u64>() as f64 / 20_000.0;
            assert!((mean / cdf.mean() - 1.0).abs() < 0.03, "{name}: {mean}");
        }
    }
}

#[test]
fn reads_comments_commas_and_fractions() {
    let percent = of("# sizes\n\n0 0 # none\n  1000,\t50\r\n2000 , 100\n\n");
    assert_eq!(percent, of("0 0\n1000 0.5\n2000 1.0"));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, error) in [
        ("", "line 1: too few points: 0; write two at least, like `0 0` and `10000 100`"),
        ("# a\n5 100\n", "line 2: too few points: 1; write two at least, like `0 0` and `10000 100`"),
        ("0 0\nten 100", "line 2: the size \"ten\" is not a whole number of bytes; write for example 10000"),
        ("0 0\n-5 100", "line 2: the size \"-5\" is not a whole number of bytes; write for example 10000"),
        ("0 0\n1.5 100", "line 2: the size \"1.5\" is not a whole number of bytes; write for example 10000"),
        (
            "0 0\n9000000000000000 100",
            "line 2: the size 9000000000000000 is too large; write 1000000000000000 at most, in bytes and not in bits",
        ),
        (
            "0 0\n10 1 0.5",
            "line 2: \"10 1 0.5\" is not two numbers; write a size in bytes and a cumulative share, like `10000 15`",
        ),
        (
            "0 0\n\n10",
            "line 3: \"10\" is not two numbers; write a size in bytes and a cumulative share, like `10000 15`",
        ),
        (
            "0 0\n10 x",
            "line 2: the cumulative share \"x\" is not a number; write a percentage like 15, or a fraction like 0.15",
        ),
        (
            "0 nan\n10 100",
            "line 1: the cumulative share \"nan\" is not a number; write a percentage like 15, or a fraction like 0.15",
        ),
        (
            "0 -1\n10 100",
            "line 1: the cumulative share -1 is not between 0 and 100; write a percentage, or a fraction of 1",
        ),
        (
            "0 0\n10 100.5",
            "line 2: the cumulative share 100.5 is not between 0 and 100; write a percentage, or a fraction of 1",
        ),
        ("9 0\n8 100", "line 2: the size 8 is below 9 of the line before; write the points by growing size"),
        (
            "0 0\n8 60\n9 40",
            "line 3: the cumulative share 40 is below 60 of the line before; write the share of all messages up to the size, not of those between",
        ),
        (
            "0 0\n8 97\n# end",
            "line 2: the last cumulative share is 97; end with 100 if the shares are percentages, with 1 if they are fractions",
        ),
        ("0 0\n0 100", "line 2: the largest size is 0; write a size of 1 byte or more"),
    ] {
        assert_eq!(SizeCdf::parse(text).unwrap_err().to_string(), error, "{text:?}");
    }
}

/// A distribution with points of these steps, in fractions of their sum.
fn from_steps(steps: &[(u64, u32)]) -> SizeCdf {
    let whole: u64 = steps.iter().map(|(_, share)| u64::from(*share)).sum();
    let (mut size, mut share, mut text) = (0, 0, "0 0\n".to_owned());
    for (more, step) in steps {
        (size, share) = (size + more, share + u64::from(*step));
        text += &format!("{size} {}\n", share as f64 / whole as f64);
    }
    of(&text)
}

proptest! {
    /// The quantile is the smallest size whose share is large enough.
    #[test]
    fn quantile_and_share_are_inverse(steps in prop::collection::vec((1..5_000u64, 1..100u32), 1..10), share in 0.0..1.0f64) {
        let cdf = from_steps(&steps);
        let size = cdf.quantile(share);
        prop_assert!(cdf.share_up_to(size + Bytes::new(1)) >= share);
        prop_assert!(size <= Bytes::new(2) || cdf.share_up_to(size - Bytes::new(2)) <= share);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Against sums over finely spaced quantiles.
    #[test]
    fn means_are_those_of_the_quantiles(
        steps in prop::collection::vec((1..5_000u64, 1..100u32), 1..10), payload in 1..3_000u64,
    ) {
        const PARTS: u32 = 20_000;
        let cdf = from_steps(&steps);
        let sizes = || (0..PARTS).map(|n| cdf.quantile((f64::from(n) + 0.5) / f64::from(PARTS)).get());
        let mean = sizes().sum::<u64>() as f64 / f64::from(PARTS);
        prop_assert!((mean - cdf.mean()).abs() < 1.0 + 0.001 * mean, "{} for {}", cdf.mean(), mean);
        let frames = sizes().map(|size| size.div_ceil(payload)).sum::<u64>() as f64 / f64::from(PARTS);
        let near = 1.0 / payload as f64 + 0.005 * frames;
        let mean_frames = cdf.mean_frames(Bytes::new(payload));
        prop_assert!((mean_frames - frames).abs() < near, "{} for {}", mean_frames, frames);
    }

}

proptest! {
    #[test]
    fn no_text_panics(text in "([0-9]{0,4}[ ,.#-]{0,2}[0-9a]{0,4}\n?){0,8}") {
        let _ = SizeCdf::parse(&text);
    }
}
