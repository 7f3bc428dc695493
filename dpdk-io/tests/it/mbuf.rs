//! Mbufs, batches and pools: contents and accounting.

use weir_dpdk_io::{
    Batch, FreeMbufLocation, MAX_BURST, Mempool, MempoolConfig, MempoolLayout, data_room_for, mempool_bytes,
};

use crate::common::{frame, mbuf, pool};

#[test]
fn mbufs_batches_and_pools() {
    weir_alone::in_a_process(|| {
        let eal = crate::common::eal();
        contents();
        copies_are_deep();
        accounting();
        fetching_ahead_takes_nothing();
        batch_keeps_order();
        sizes();
        assert!(!eal.is_in_use());
    });
}

fn contents() {
    let pool = pool("contents", 63);
    let mut one = mbuf(&pool, &frame(1, 100));
    assert_eq!((one.len(), one.segment_count()), (100, 1));
    assert_eq!(one.data(), frame(1, 100));
    one.append(20).expect("room").fill(0xee);
    assert_eq!(one.len(), 120);
    assert_eq!(&one.data()[100..], [0xee; 20]);
    assert!(one.trim(20));
    assert!(!one.trim(101));
    assert_eq!(one.data(), frame(1, 100));
    one.data_mut()[0] = 0xff;
    assert_eq!(one.data()[0], 0xff);
    assert!(one.append(3000).is_none());
    assert!(one.set_len(60));
    assert!(!one.set_len(one.capacity() + 1));
    assert_eq!((one.len(), one.data().len()), (60, 60));
    one.prepend(4).expect("headroom").fill(1);
    assert_eq!(&one.data()[..5], [1, 1, 1, 1, 0xff]);
    assert!(one.prepend(200).is_none());
    one.prefetch();
}

fn copies_are_deep() {
    let big = pool("big", 15);
    let config = MempoolConfig { count: 63, cache: 0, data_room: 256, ..MempoolConfig::default() };
    let small = Mempool::new("small", config).expect("fits");
    let original = mbuf(&big, &frame(9, 1000));
    let mut copy = original.copy(&big).expect("room");
    assert_eq!(copy.data(), original.data());
    copy.data_mut().fill(0);
    assert_eq!(original.data(), frame(9, 1000));

    // 128 bytes a segment behind the first one's headroom.
    let chain = original.copy(&small).expect("room");
    assert!(chain.segment_count() > 1);
    assert_eq!(chain.len(), 1000);
    assert_eq!(chain.segments().collect::<Vec<_>>().concat(), frame(9, 1000));
    assert_eq!(small.in_use(), u32::from(chain.segment_count()));
    drop(chain);
    assert_eq!(small.in_use(), 0);

    let all: Vec<_> = std::iter::from_fn(|| small.alloc()).collect();
    assert_eq!(all.len(), 63);
    assert!(original.copy(&small).is_none());
    drop((original, copy));
    assert_eq!(big.in_use(), 0);
}

fn accounting() {
    let pool = pool("accounting", 127);
    assert_eq!((pool.count(), pool.available(), pool.in_use()), (127, 127, 0));
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(&mut batch, MAX_BURST));
    assert!(!pool.alloc_bulk(&mut batch, 1), "no room");
    let mut second = Batch::new();
    assert!(!pool.alloc_bulk(&mut second, MAX_BURST), "63 are left");
    assert!(second.is_empty());
    assert!(pool.alloc_bulk(&mut second, 63));
    assert_eq!(pool.available(), 0);
    assert!(pool.alloc().is_none());
    batch.clear();
    assert_eq!(pool.in_use(), 63);
    // Dropped on a thread that is no lcore.
    std::thread::spawn(move || drop(second)).join().expect("no panic");
    assert_eq!(pool.in_use(), 0);
}

fn fetching_ahead_takes_nothing() {
    let pool = pool("ahead", 255);
    // The lcore's cache is empty at first, and is filled as an allocation would.
    pool.fetch_ahead(MAX_BURST, FreeMbufLocation::Memory);
    assert_eq!((pool.available(), pool.in_use()), (255, 0));
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(&mut batch, MAX_BURST));
    pool.fetch_ahead(MAX_BURST, FreeMbufLocation::OtherCores);
    assert_eq!(pool.in_use(), MAX_BURST as u32);
    let rest: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(rest.len(), 255 - MAX_BURST);
    pool.fetch_ahead(MAX_BURST, FreeMbufLocation::Memory);
    assert!(pool.alloc().is_none());
    drop((batch, rest));
    assert_eq!(pool.in_use(), 0);
    // A thread that is no lcore has no cache.
    std::thread::spawn(move || pool.fetch_ahead(MAX_BURST, FreeMbufLocation::OtherCores)).join().expect("no panic");
}

fn batch_keeps_order() {
    let pool = pool("order", 255);
    let mut batch = Batch::new();
    for number in 0..64 {
        batch.push(mbuf(&pool, &frame(number, 60))).expect("room");
    }
    let refused = batch.push(mbuf(&pool, &frame(99, 60))).expect_err("full");
    assert_eq!(number_of(&refused), 99);
    assert_eq!(number_of(&batch.pop_front().expect("not empty")), 0);
    batch.push(refused).expect("compacts");
    assert_eq!(number_of(&batch.take(10).expect("in range")), 11);
    assert!(batch.take(63).is_none());
    let front = batch.pop_front().expect("not empty");
    batch.push_front(front).expect("room");
    batch.push_front(mbuf(&pool, &frame(77, 60))).expect("room");
    assert!(batch.push_front(mbuf(&pool, &frame(78, 60))).is_err());
    let mut expected = vec![77];
    expected.extend((1..64).filter(|&number| number != 11));
    expected.push(99);
    assert_eq!(numbers(&batch), expected);

    let mut other = Batch::new();
    other.push(mbuf(&pool, &frame(500, 60))).expect("room");
    assert_eq!(other.append(&mut batch), 63);
    assert_eq!(numbers(&batch), [99]);
    assert_eq!(number_of(&other[0]), 500);
    other[1].data_mut()[17] = 42;
    let drained: Vec<u32> = other.drain().take(3).map(|mbuf| number_of(&mbuf)).collect();
    assert_eq!(drained, [500, 42, 1]);
    assert_eq!(other.len(), 61);
    assert_eq!(pool.in_use(), 62);
    drop((batch, other));
    assert_eq!(pool.in_use(), 0);
}

fn sizes() {
    let pool = pool("sizes", 1023);
    let estimate = mempool_bytes(1023, pool.data_room(), MempoolLayout::Dense);
    assert!(pool.memory_bytes().abs_diff(estimate) < estimate / 50);
    assert!(mempool_bytes(1023, pool.data_room(), MempoolLayout::WithinPages) > estimate * 3 / 2);
    let config = MempoolConfig { count: 1023, cache: 0, for_devices: true, ..MempoolConfig::default() };
    let for_devices = Mempool::new("devices", config).expect("there is memory");
    assert!(for_devices.is_for_devices());
    let estimate = mempool_bytes(1023, pool.data_room(), MempoolLayout::WithinPages);
    assert!(for_devices.memory_bytes() < estimate * 51 / 50, "{} {estimate}", for_devices.memory_bytes());
    assert_eq!(data_room_for(2048), Some(2176));
    assert_eq!(data_room_for(70_000), None);
    let twin = Mempool::new("sizes", MempoolConfig { count: 63, ..MempoolConfig::default() });
    assert_eq!(twin.expect("gets another name").count(), 63);
    let error = Mempool::new("huge", MempoolConfig { count: 1 << 20, ..MempoolConfig::default() });
    let error = error.expect_err("2 GB do not fit").to_string();
    assert!(error.contains("huge") && error.contains("1048576"), "{error}");
    assert!(Mempool::new("", MempoolConfig::default()).is_err());
}

fn number_of(mbuf: &weir_dpdk_io::Mbuf) -> u32 {
    u32::from_be_bytes(mbuf.data()[14..18].try_into().expect("four bytes"))
}

fn numbers(batch: &Batch) -> Vec<u32> {
    batch.iter().map(number_of).collect()
}
