//! Counters of many queues, each in a cache line of its own.

use std::ops::Index;

use prefetch_index::prefetch_index;

#[derive(Debug, Default)]
#[repr(align(64))]
struct CacheLine<T>(T);

/// Array with a cache line per queue. As long as lcores share the rows, the next line stays free, since processors fetch lines in pairs.
#[derive(Debug)]
pub(crate) struct PaddedRows<T> {
    lines: Box<[CacheLine<T>]>,
    /// Cache lines per row, as a power of two.
    spread: u32,
}

impl<T: Default> PaddedRows<T> {
    /// Bytes of a row without a free line.
    pub(crate) const ROW_BYTES: usize = size_of::<CacheLine<T>>();

    pub(crate) fn new(rows: usize) -> PaddedRows<T> {
        const APART: u32 = 1;
        PaddedRows { lines: (0..rows << APART).map(|_| CacheLine::default()).collect(), spread: APART }
    }

    /// Creates rows without free lines between them, for one lcore that owns them.
    pub(crate) fn close_together(&self) -> PaddedRows<T> {
        PaddedRows { lines: (0..self.len()).map(|_| CacheLine::default()).collect(), spread: 0 }
    }
}

impl<T> PaddedRows<T> {
    fn len(&self) -> usize {
        self.lines.len() >> self.spread
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.iter().step_by(1 << self.spread).map(|CacheLine(row)| row)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.lines.iter_mut().step_by(1 << self.spread).map(|CacheLine(row)| row)
    }

    #[inline]
    pub(crate) fn prefetch(&self, row: usize) {
        prefetch_index(&self.lines, row << self.spread);
    }
}

impl<T> Index<usize> for PaddedRows<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, row: usize) -> &T {
        &self.lines[row << self.spread].0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    #[test]
    fn rows_are_apart_until_one_lcore_has_them() {
        let apart: PaddedRows<AtomicU64> = PaddedRows::new(3);
        let close = apart.close_together();
        for (rows, bytes) in [(&apart, 128), (&close, 64)] {
            (0..3).for_each(|row| rows[row].store(row as u64 + 1, Ordering::Relaxed));
            let all: Vec<u64> = rows.iter().map(|row| row.load(Ordering::Relaxed)).collect();
            assert_eq!((all, rows.len()), (vec![1, 2, 3], 3));
            let place = |row: usize| std::ptr::from_ref(&rows[row]).addr();
            assert_eq!([place(1) - place(0), place(2) - place(1)], [bytes; 2]);
        }
    }
}
