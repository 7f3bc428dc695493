//! Cost of the ports of the forwarding measurements, without a switch: as with `dpdk-testpmd` in mode `io`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_config::{PortConfig, SwitchConfig};
use weir_dpdk_driver::{Memory, Phase, PreparedSwitches, Runtime, Stopped, Task};
use weir_dpdk_io::{Batch, Clock, MAX_BURST, RxQueue, TxQueue};

use crate::error::BenchError;
use crate::testbed::check_conservation;

/// Runs the ports of a switch with one lcore, without the switch, until `wait` returns, which can read the number of sent frames: each
/// port's bursts are sent by the next port. Returns that number.
///
/// # Errors
/// A port can't be opened, `wait` fails, or packet buffers were not returned.
pub(crate) fn run(
    runtime: &Runtime,
    switch: &SwitchConfig,
    wait: impl FnOnce(&AtomicU64) -> Result<(), BenchError>,
) -> Result<(u64, Stopped), BenchError> {
    let cpus: Vec<u32> = switch.lcores.cores.iter().map(|core| *core as u32).collect();
    let memory = Memory::for_switches(std::slice::from_ref(switch), cpus.len(), 0);
    let mut prepared = PreparedSwitches::without_switches(runtime, &cpus, &memory)?;
    let open = |port: &PortConfig| Ok(prepared.open_device(&port.device, switch.mtu.get() as u16)?);
    let ports = switch.ports.iter().map(open).collect::<Result<Vec<_>, BenchError>>()?;
    let sent = Arc::new(AtomicU64::new(0));
    prepared.add_task(0, Box::new(IoForwarding { ports, batch: Batch::new(), sent: sent.clone() }));
    let running = prepared.start()?;
    wait(&sent)?;
    let stopped = check_conservation(running.stop(Duration::ZERO)?)?;
    Ok((sent.load(Ordering::Relaxed), stopped))
}

/// Ports, each with its receive queue and the transmit queue of its frames.
struct IoForwarding {
    ports: Vec<(RxQueue, TxQueue)>,
    batch: Batch,
    /// Frames sent so far.
    sent: Arc<AtomicU64>,
}

impl IoForwarding {
    // Not inlined: benchmark `forwarding` counts its instructions by its name.
    #[inline(never)]
    fn run_once(&mut self) -> usize {
        let mut moved = 0;
        for from in 0..self.ports.len() {
            let to = (from + 1) % self.ports.len();
            self.ports[from].0.receive(&mut self.batch, MAX_BURST);
            moved += self.ports[to].1.send(&mut self.batch);
        }
        // One lcore writes, and readers want only the number.
        self.sent.store(self.sent.load(Ordering::Relaxed) + moved as u64, Ordering::Relaxed);
        moved
    }
}

impl Task for IoForwarding {
    fn poll(&mut self, _: &Clock, phase: Phase) -> usize {
        if phase == Phase::Run { self.run_once() } else { 0 }
    }
}
