//! State with one writer by construction: the lcore that admits packets of a port.

use crossbeam_utils::CachePadded;
use weir_units::archive::{Archive, SharedState};
use weir_units::{CLASSES, Class, PortId, QueueId};

use crate::sync::{AtomicU64, Ordering};

/// The right to admit packets of one ingress port, and to write what [`QueueWords`] and [`PortWords`] hold for it.
///
/// [`crate::Mmu::writer`] gives each port's out once, and it can't be cloned: so whoever holds it `&mut` is the one
/// writer, and the type system keeps the rule that one lcore at a time admits packets of a port.
#[derive(Debug)]
pub struct PortWriter {
    port: PortId,
}

impl PortWriter {
    pub(crate) fn new(port: PortId) -> PortWriter {
        PortWriter { port }
    }

    /// The ingress port.
    #[inline]
    pub fn port(&self) -> PortId {
        self.port
    }
}

/// `N` words for each ingress queue: written by its port's writer, read by any lcore.
///
/// Plain loads and stores, Relaxed: with one writer there is nothing to merge, and a reader needs no more than some
/// recent value of each.
#[derive(Debug)]
pub struct QueueWords<const N: usize>(Words<N>);

/// `N` words for each ingress port: as [`QueueWords`].
#[derive(Debug)]
pub struct PortWords<const N: usize>(Words<N>);

type Words<const N: usize> = Box<[CachePadded<[AtomicU64; N]>]>;

impl<const N: usize> QueueWords<N> {
    /// Words of all queues of `ports` ports, each with these initial values.
    pub fn new(ports: usize, initial: [u64; N]) -> QueueWords<N> {
        QueueWords(words(ports * CLASSES, initial))
    }

    /// One of a queue's words.
    #[inline]
    pub fn get(&self, queue: QueueId, n: usize) -> u64 {
        self.0[queue.index()][n].load(Ordering::Relaxed)
    }

    /// Sets one of the words of a class of the writer's own port.
    #[inline]
    pub fn set(&self, writer: &mut PortWriter, class: Class, n: usize, value: u64) {
        self.0[QueueId::new(writer.port, class).index()][n].store(value, Ordering::Relaxed);
    }
}

impl<const N: usize> PortWords<N> {
    /// Words of `ports` ports, each with these initial values.
    pub fn new(ports: usize, initial: [u64; N]) -> PortWords<N> {
        PortWords(words(ports, initial))
    }

    /// One of a port's words.
    #[inline]
    pub fn get(&self, port: PortId, n: usize) -> u64 {
        self.0[port.index()][n].load(Ordering::Relaxed)
    }

    /// Sets one of the words of the writer's own port.
    #[inline]
    pub fn set(&self, writer: &mut PortWriter, n: usize, value: u64) {
        self.0[writer.port.index()][n].store(value, Ordering::Relaxed);
    }
}

impl<const N: usize> SharedState for QueueWords<N> {
    fn shared_state(&self, archive: &mut Archive) {
        self.0.shared_state(archive);
    }
}

impl<const N: usize> SharedState for PortWords<N> {
    fn shared_state(&self, archive: &mut Archive) {
        self.0.shared_state(archive);
    }
}

fn words<const N: usize>(rows: usize, initial: [u64; N]) -> Words<N> {
    (0..rows).map(|_| CachePadded::new(initial.map(AtomicU64::new))).collect()
}
