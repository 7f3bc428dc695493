//! One EAL for a test binary: each has a single `#[test]` that calls its parts.

use std::path::PathBuf;

use weir_dpdk_io::{Batch, Eal, EalArgs, MemoryMode, Mempool, MempoolConfig, RxQueue};

/// EAL without hugepages, devices or shared files, so that tests of any user
/// run side by side. Two lcores, on CPUs that are allowed here.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn eal() -> Eal {
    let cpus = weir_dpdk_io::cpu::allowed();
    let second = *cpus.get(1).unwrap_or(&cpus[0]);
    let args = EalArgs::new("weir-test")
        .lcores(&[(0, cpus[0]), (1, second)])
        .memory(MemoryMode::NoHuge)
        .memory_mb(128)
        .build();
    Eal::init(&args).expect("EAL starts anywhere with --no-huge")
}

/// A small pool without lcore caches, so that its counts are exact at any time.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn pool(name: &str, count: u32) -> Mempool {
    let config = MempoolConfig { count, cache: 0, ..MempoolConfig::default() };
    Mempool::new(name, config).expect("a small pool fits")
}

/// A pool for frames of up to 9,100 bytes.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn jumbo_pool(name: &str, count: u32) -> Mempool {
    let data_room = weir_dpdk_io::data_room_for(9_100).expect("it fits 16 bits");
    let config = MempoolConfig { count, cache: 0, data_room, ..MempoolConfig::default() };
    Mempool::new(name, config).expect("a small pool fits")
}

/// Polls until `wanted` frames have come or a second has passed.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn receive_all(queue: &mut RxQueue, batch: &mut Batch, wanted: usize) -> usize {
    for _ in 0..1000 {
        let missing = wanted - batch.len();
        if missing == 0 {
            break;
        }
        if queue.receive(batch, missing) == 0 {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
    batch.len()
}

/// A frame to a locally administered address, numbered by its payload.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    for (index, byte) in bytes[18..].iter_mut().enumerate() {
        *byte = (index as u32 * 7 + number) as u8;
    }
    bytes
}

/// An mbuf that holds these bytes.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn mbuf(pool: &Mempool, bytes: &[u8]) -> weir_dpdk_io::Mbuf {
    let mut mbuf = pool.alloc().expect("the pool has free mbufs");
    let len = u16::try_from(bytes.len()).expect("a short frame");
    mbuf.append(len).expect("it fits").copy_from_slice(bytes);
    mbuf
}

/// A path of this process's own.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn temporary_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-test-{}-{name}", std::process::id()))
}
