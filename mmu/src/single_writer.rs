//! State with one writer by construction: the lcore that admits packets of a port.

use crossbeam_utils::CachePadded;
use weir_units::{CLASSES, Class, PortId, QueueId};

use crate::sync::{AtomicU64, Ordering};

/// Right to admit packets of one ingress port, and to write the port's registers in [`QueueRegisters`] and [`PortRegisters`].
///
/// [`crate::Mmu::writer`] returns each port's writer once, and it can't be cloned. So the holder of `&mut` is the one writer, and the type
/// system enforces that one lcore at a time admits packets of a port.
#[derive(Debug)]
pub struct PortWriter {
    port: PortId,
}

impl PortWriter {
    pub(crate) fn new(port: PortId) -> PortWriter {
        PortWriter { port }
    }

    /// Ingress port of the writer.
    #[inline]
    pub fn port(&self) -> PortId {
        self.port
    }
}

/// Array of `N` registers for each ingress queue: written by the port's writer, read by any lcore.
///
/// Plain loads and stores, Relaxed: a single writer needs no read-modify-write, and a reader needs only a recent value of each register.
#[derive(Debug)]
pub struct QueueRegisters<const N: usize>(Registers<N>);

/// Array of `N` registers for each ingress port, as in [`QueueRegisters`].
#[derive(Debug)]
pub struct PortRegisters<const N: usize>(Registers<N>);

type Registers<const N: usize> = Box<[CachePadded<[AtomicU64; N]>]>;

impl<const N: usize> QueueRegisters<N> {
    /// Creates the registers of all queues of `ports` ports, with these initial values.
    pub fn new(ports: usize, initial: [u64; N]) -> QueueRegisters<N> {
        QueueRegisters(registers(ports * CLASSES, initial))
    }

    /// Returns register `n` of a queue.
    #[inline]
    pub fn get(&self, queue: QueueId, n: usize) -> u64 {
        self.0[queue.index()][n].load(Ordering::Relaxed)
    }

    /// Sets register `n` of a class of the writer's own port.
    #[inline]
    pub fn set(&self, writer: &mut PortWriter, class: Class, n: usize, value: u64) {
        self.0[QueueId::new(writer.port, class).index()][n].store(value, Ordering::Relaxed);
    }
}

impl<const N: usize> PortRegisters<N> {
    /// Creates the registers of `ports` ports, with these initial values.
    pub fn new(ports: usize, initial: [u64; N]) -> PortRegisters<N> {
        PortRegisters(registers(ports, initial))
    }

    /// Returns register `n` of a port.
    #[inline]
    pub fn get(&self, port: PortId, n: usize) -> u64 {
        self.0[port.index()][n].load(Ordering::Relaxed)
    }

    /// Sets register `n` of the writer's own port.
    #[inline]
    pub fn set(&self, writer: &mut PortWriter, n: usize, value: u64) {
        self.0[writer.port.index()][n].store(value, Ordering::Relaxed);
    }
}

fn registers<const N: usize>(rows: usize, initial: [u64; N]) -> Registers<N> {
    (0..rows).map(|_| CachePadded::new(initial.map(AtomicU64::new))).collect()
}
