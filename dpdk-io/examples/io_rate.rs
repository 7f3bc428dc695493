//! Moves frames from one null port to another on the main lcore, and prints
//! the rate for each second of CPU time.
//!
//! `cargo run --release -p weir-dpdk-io --example io_rate -- [SECONDS] [BURST] [EAL ARGUMENTS]`

use std::error::Error;
use std::time::Duration;

use weir_dpdk_io::{Batch, Clock, Eal, EalArgs, Mempool, MempoolConfig, Port, PortConfig, cpu, vdev};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(3), |text| text.parse())?;
    let burst: usize = args.next().map_or(Ok(32), |text| text.parse())?;
    let cpus = cpu::allowed();
    let eal_args = EalArgs::new("io_rate").lcores(&[(0, *cpus.last().unwrap_or(&0))]).extra(args).build();
    let eal = Eal::init(&eal_args)?;
    let config = MempoolConfig { cache: 512, ..MempoolConfig::default() };
    let pool = Mempool::new("frames", config)?;

    let mut first = Port::attach(&vdev::null("first", 64, false)?)?;
    let mut second = Port::attach(&vdev::null("second", 64, false)?)?;
    let (mut rx, _) = first.configure(PortConfig::new(&pool))?;
    let (_, mut tx) = second.configure(PortConfig::new(&pool))?;
    first.start()?;
    second.start()?;

    let clock = Clock::new();
    let end_ps = clock.now_ps() + Duration::from_secs(seconds).as_nanos() as u64 * 1000;
    let cpu_start_ns = cpu::thread_time_ns();
    let mut frames = 0u64;
    let mut batch = Batch::new();
    while clock.now_ps() < end_ps {
        // The clock is read once in a while only: this measures I/O.
        for _ in 0..256 {
            rx[0].receive(&mut batch, burst);
            frames += tx[0].send(&mut batch) as u64;
        }
    }
    let cpu_ns = cpu::thread_time_ns() - cpu_start_ns;
    println!(
        "{:.1} M frames per CPU-second (bursts of {burst}, hugepages: {})",
        frames as f64 * 1000.0 / cpu_ns as f64,
        eal.has_hugepages(),
    );
    Ok(())
}
