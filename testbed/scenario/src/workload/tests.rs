//! Statistics of the workloads' messages, with fixed seeds; few other seeds would exceed the bounds.

use weir_units::{BitRate, Span};

use super::*;

const LINK: BitRate = BitRate::gbps(100);

fn ms(ms: u64) -> Time {
    Time::ZERO.saturating_add(Span::from_millis(ms))
}

fn hosts(count: u32) -> Vec<u32> {
    (0..count).collect()
}

fn fixed(size: Bytes) -> SizeCdf {
    SizeCdf::fixed(size).unwrap()
}

fn poisson(count: u32, sizes: SizeCdf, share: f64, until: Time) -> Poisson {
    let load = Load::new(share, LINK, LoadFraming::PAYLOAD_ONLY).unwrap();
    let receivers = Peers::others(&hosts(count)).unwrap();
    Poisson { senders: hosts(count), receivers, sizes, load, from: ms(0), until, seed: 1 }
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count)
}

/// FNV-1a digest of messages.
fn digest(messages: &[Message]) -> u64 {
    let words = messages.iter().flat_map(|m| [m.start.as_picos(), u64::from(m.from), u64::from(m.to), m.size.get()]);
    let bytes = words.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// 20 KB at half of 100 Gb/s: a message each 3.2 us.
#[test]
fn poisson_gaps_are_exponential() {
    let messages: Vec<_> = poisson(2, fixed(Bytes::kb(20)), 0.5, ms(64)).messages().unwrap().collect();
    for host in 0..2 {
        let starts: Vec<f64> =
            messages.iter().filter(|m| m.from == host).map(|m| m.start.as_picos() as f64 / 1e6).collect();
        assert!(starts.len().abs_diff(20_000) < 4 * 142, "{}: four standard deviations", starts.len());
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (mean, variance) = moments(&gaps);
        assert!((mean / 3.2 - 1.0).abs() < 0.03, "{mean} us");
        assert!((variance / (3.2 * 3.2) - 1.0).abs() < 0.06, "{variance} us^2");
        // A gap longer than a mean one has the probability 1/e, longer than two of them 1/e^2.
        for (means, share) in [(1.0, 0.367_879), (2.0, 0.135_335)] {
            let longer = gaps.iter().filter(|gap| **gap > 3.2 * means).count() as f64 / gaps.len() as f64;
            assert!((longer - share).abs() < 0.014, "{longer} longer than {means}");
        }
    }
}

/// The variance of the messages in a millisecond is their mean, also for the sum of independent sources.
#[test]
fn poisson_counts_are_dispersed_as_they_should() {
    let mut counts = vec![0.0; 1_000];
    for message in poisson(8, fixed(Bytes::kb(200)), 0.32, ms(1_000)).messages().unwrap() {
        counts[(message.start.as_nanos() / 1_000_000) as usize] += 1.0;
    }
    let (mean, variance) = moments(&counts);
    assert!((mean / 160.0 - 1.0).abs() < 0.01, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.18, "four standard deviations of sqrt(2 / 1000): {}", variance / mean);
}

#[test]
fn poisson_offers_its_load() {
    let framing = LoadFraming { payload: Bytes::kb(1), overhead: Bytes::new(82) };
    for (name, framing, span_ms) in [
        ("web-search", LoadFraming::PAYLOAD_ONLY, 500),
        ("storage", LoadFraming::PAYLOAD_ONLY, 20),
        ("hadoop", framing, 100),
        ("solar2022", framing, 10),
    ] {
        let mut workload = poisson(32, SizeCdf::built_in(name).unwrap(), 0.6, ms(span_ms));
        workload.load = Load::new(0.6, LINK, framing).unwrap();
        let sent: Bytes = workload.messages().unwrap().map(|message| framing.counted_bytes(message.size)).sum();
        let capacity = LINK.bytes_in(Span::from_millis(span_ms)) * 32;
        let load = sent.get() as f64 / capacity.get() as f64;
        assert!((load / 0.6 - 1.0).abs() < 0.02, "{name}: {load}");
    }
}

#[test]
fn receivers_are_uniform_and_never_the_sender() {
    let mut pairs = [[0u32; 6]; 6];
    for message in poisson(6, fixed(Bytes::kb(20)), 0.5, ms(20)).messages().unwrap() {
        assert!(message.start < ms(20));
        pairs[message.from as usize][message.to as usize] += 1;
    }
    for (from, receivers) in pairs.iter().enumerate() {
        assert_eq!(receivers[from], 0);
        // About 1250 each, with a standard deviation of 35.
        let others = receivers.iter().enumerate().filter(|(to, _)| *to != from);
        assert!(others.map(|(_, count)| count).all(|count| count.abs_diff(1_250) < 150), "{pairs:?}");
    }
}

#[test]
fn poisson_sends_to_other_racks() {
    let racks = [0, 0, 0, 1, 1, 2];
    let mut workload = poisson(6, fixed(Bytes::kb(20)), 0.5, ms(1));
    workload.receivers = Peers::other_groups(&hosts(6), &racks).unwrap();
    let messages: Vec<_> = workload.messages().unwrap().collect();
    assert!(messages.len() > 1_000 && messages.is_sorted_by_key(|message| message.start));
    assert!(messages.iter().all(|message| racks[message.from as usize] != racks[message.to as usize]));
}

/// A host's messages do not depend on other senders, and begin at `from`.
#[test]
fn sources_are_independent_of_each_other() {
    let alone = |senders: Vec<u32>| {
        let workload = Poisson { senders, from: ms(3), ..poisson(5, fixed(Bytes::kb(20)), 0.5, ms(4)) };
        workload.messages().unwrap().filter(|message| message.from == 2).collect::<Vec<_>>()
    };
    assert_eq!(alone(vec![2]), alone(vec![4, 2, 0, 1]));
    assert!(alone(vec![2])[0].start > ms(3));
}

#[test]
fn wrong_poisson_workloads_are_refused() {
    let right = || poisson(3, fixed(Bytes::kb(20)), 0.5, ms(1));
    for (workload, error) in [
        (Poisson { senders: vec![], ..right() }, WorkloadError::NoHosts("senders")),
        (Poisson { senders: vec![1, 1], ..right() }, WorkloadError::HostTwice { host: 1, among: "senders" }),
        (Poisson { from: ms(1), ..right() }, WorkloadError::NoTime { from: ms(1), until: ms(1) }),
        (
            Poisson { receivers: Peers::others(&[2]).unwrap(), ..right() },
            WorkloadError::TooFewPeers { host: 2, wanted: 1, there: 0 },
        ),
        (
            Poisson { receivers: Peers::other_groups(&[0, 1], &[0, 1]).unwrap(), ..right() },
            WorkloadError::NoGroup { host: 2, groups: 2 },
        ),
    ] {
        assert_eq!(workload.messages().err(), Some(error));
    }
}

fn incast(senders: Senders, instants: Instants) -> Incast {
    let (sizes, jitter) = (fixed(Bytes::kb(64)), Span::ZERO);
    Incast { instants, receivers: hosts(16), senders, sizes, equal_sizes: false, jitter, seed: 1 }
}

fn every_10_us() -> Instants {
    Instants::Every { from: ms(0), every: Span::from_micros(10), until: ms(10) }
}

#[test]
fn senders_of_a_burst_differ() {
    let workload = incast(Senders::Several(Peers::others(&hosts(16)).unwrap(), 7), every_10_us());
    let messages = workload.messages().unwrap();
    assert_eq!(messages.len(), 7_000);
    let mut sent = [0u32; 16];
    for burst in messages.chunks(7) {
        assert!(burst.iter().all(|m| (m.start, m.to) == (burst[0].start, burst[0].to) && m.from != m.to));
        let mut senders: Vec<u32> = burst.iter().map(|m| m.from).collect();
        senders.sort_unstable();
        senders.dedup();
        assert_eq!(senders.len(), 7);
        senders.iter().for_each(|host| sent[*host as usize] += 1);
    }
    // 437.5 each, with a standard deviation of 15.7.
    assert!(sent.iter().all(|count| count.abs_diff(437) < 70), "{sent:?}");
}

#[test]
fn all_of_a_list_send_but_for_the_receiver_and_none_is_always_first() {
    let messages = incast(Senders::These(vec![0, 3, 20, 21]), every_10_us()).messages().unwrap();
    let bursts: Vec<&[Message]> = messages.chunk_by(|one, next| one.start == next.start).collect();
    assert_eq!(bursts.len(), 1_000);
    let mut first = [0u32; 22];
    for burst in bursts {
        assert_eq!(burst.len(), if [0, 3].contains(&burst[0].to) { 3 } else { 4 });
        assert!(burst.iter().all(|message| message.from != message.to));
        first[burst[0].from as usize] += 1;
    }
    assert!([0, 3, 20, 21].iter().all(|host| first[*host].abs_diff(250) < 60), "{first:?}");
}

#[test]
fn a_rack_answers_a_host_of_another() {
    let racks: Vec<u32> = (0..16).map(|host| host / 4).collect();
    let peers = Peers::other_groups(&hosts(16), &racks).unwrap();
    for burst in incast(Senders::OneGroup(peers), every_10_us()).messages().unwrap().chunks(4) {
        let rack = burst[0].from / 4;
        assert!(burst.iter().all(|m| m.from / 4 == rack && m.to / 4 != rack && m.start == burst[0].start));
    }
}

#[test]
fn jitter_delays_messages_up_to_a_bound() {
    let bursts = Instants::Every { from: ms(0), every: Span::from_millis(1), until: ms(100) };
    let workload = incast(Senders::These((20..60).collect()), bursts);
    let messages = Incast { jitter: Span::from_micros(20), ..workload }.messages().unwrap();
    assert!(messages.is_sorted_by_key(|message| message.start));
    let delays: Vec<f64> = messages.iter().map(|m| (m.start.as_picos() % 1_000_000_000) as f64 / 1e6).collect();
    let (mean, variance) = moments(&delays);
    assert!(delays.len() == 4_000 && delays.iter().all(|us| *us <= 20.0));
    assert!((mean - 10.0).abs() < 0.4 && (variance - 400.0 / 12.0).abs() < 2.0, "{mean} us, {variance} us^2");
}

#[test]
fn messages_of_a_burst_have_one_size_where_they_are_equal() {
    let own = Incast {
        sizes: SizeCdf::built_in("web-search").unwrap(),
        ..incast(Senders::Several(Peers::others(&hosts(16)).unwrap(), 7), every_10_us())
    };
    let equal = Incast { equal_sizes: true, ..own.clone() }.messages().unwrap();
    let alike = |messages: &[Message]| messages.chunks(7).filter(|b| b.iter().all(|m| m.size == b[0].size)).count();
    assert_eq!((alike(&equal), alike(&own.messages().unwrap())), (1_000, 0));
    // Each burst draws its own: the mean is the distribution's, 1.711 MB, with a standard error of 0.1 MB.
    let mean = equal.iter().map(|m| m.size.get()).sum::<u64>() / equal.len() as u64;
    assert!((1_300_000..2_100_000).contains(&mean), "{mean} B");
}

#[test]
fn wrong_incasts_are_refused() {
    let several = |count| Senders::Several(Peers::others(&hosts(16)).unwrap(), count);
    let once = Instants::Once(ms(1));
    for (workload, error) in [
        (incast(several(0), once), WorkloadError::NoHosts("senders")),
        (incast(several(16), once), WorkloadError::TooFewPeers { host: 0, wanted: 16, there: 15 }),
        (incast(Senders::These(vec![4]), once), WorkloadError::ToItself(4)),
        (incast(Senders::These(vec![]), once), WorkloadError::NoHosts("senders")),
        (Incast { receivers: vec![], ..incast(several(3), once) }, WorkloadError::NoHosts("receivers")),
    ] {
        assert_eq!(workload.messages().err(), Some(error));
    }
}

/// Fixed values: a change makes earlier runs incomparable.
#[test]
fn values_have_not_changed() {
    let web_search = poisson(16, SizeCdf::built_in("web-search").unwrap(), 0.5, ms(1_000)).messages().unwrap();
    let first: Vec<_> = web_search.take(1_000).collect();
    let peers = Peers::others(&hosts(16)).unwrap();
    let instants = Instants::Poisson { from: ms(0), mean_gap: Span::from_micros(10), until: ms(10) };
    let workload = incast(Senders::Several(peers, 7), instants);
    let bursts = Incast { jitter: Span::from_nanos(100), ..workload }.messages().unwrap();
    let sizes = SizeCdf::built_in("hadoop").unwrap();
    let pairs = Pairs::permutation(&hosts(100), 1).unwrap().messages(&sizes, every_10_us(), 1).unwrap();
    let digests = [&first, &bursts[..1_000], &pairs[..1_000]].map(digest);
    assert_eq!(digests, [0x909c_01ee_f9f8_ab1b, 0xf4f7_918f_a188_a571, 0xf4a0_0611_ec87_494d], "{digests:x?}");
}
