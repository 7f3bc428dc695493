//! Attaches a device, starts it and prints its driver and capabilities.
//!
//! `cargo run -p weir-dpdk-io --example port_report -- DEVARGS [EAL ARGUMENTS]`,
//! with device arguments like `net_null0,size=64` or a PCI address.

use std::error::Error;

use weir_dpdk_io::{Eal, EalArgs, Mempool, MempoolConfig, Port, PortConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let spec = args.next().ok_or("which device?")?;
    let eal = Eal::init(&EalArgs::new("port_report").extra(args).build())?;
    let pool = Mempool::new("frames", MempoolConfig::default())?;

    let mut port = Port::attach(&spec)?;
    println!("{}: {:#?}", port.name(), port.device_info()?);
    let queues = port.configure(PortConfig::new(&pool))?;
    port.start()?;
    println!("flow control: {}", port.take_over_flow_control());
    println!(
        "MAC {:02x?}, MTU {}, promiscuous {}, {:?}, NUMA node {:?}",
        port.mac()?,
        port.mtu()?,
        port.promiscuous(),
        port.link()?,
        port.socket(),
    );
    println!("{} counters of its own", port.xstats()?.len());
    drop(queues);
    port.close()?;
    drop(pool);
    println!("all given back: {}", !eal.is_in_use());
    Ok(())
}
