//! Transmit buffer of a NIC: a bounded queue per class, and a stash for frames beyond it.

use std::collections::VecDeque;

use weir_units::{Bytes, CLASSES, Class, ClassSet, FCS_BYTES};

use super::{ModelConfig, ModelFrame, next_in_turn};

/// Transmit side of a NIC: its buffer.
#[derive(Debug)]
pub(super) struct TransmitSide<F> {
    buffer: Bytes,
    frames_max: usize,
    queues: [VecDeque<F>; CLASSES],
    held: [Bytes; CLASSES],
    /// Classes with frames in their queues.
    classes: ClassSet,
    /// Class served last.
    last: Class,
    /// Stashed frames of each host queue, from the first that found no room. The queue is then not read, so no frame is lost.
    stashes: Box<[VecDeque<(Class, F)>]>,
}

impl<F: ModelFrame> TransmitSide<F> {
    pub(super) fn new(config: &ModelConfig) -> TransmitSide<F> {
        let stash = || VecDeque::with_capacity(ModelConfig::STASH_FRAMES);
        TransmitSide {
            buffer: config.send_buffer,
            frames_max: config.send_frames,
            queues: std::array::from_fn(|_| VecDeque::with_capacity(config.send_frames)),
            held: [Bytes::ZERO; CLASSES],
            classes: ClassSet::EMPTY,
            last: Class::new(CLASSES as u8 - 1),
            stashes: (0..config.host_queues).map(|_| stash()).collect(),
        }
    }

    /// Returns the number of frames that may be taken from a host queue: none while it has stashed frames.
    pub(super) fn takes(&self, queue: usize) -> usize {
        if self.stashes[queue].is_empty() { ModelConfig::STASH_FRAMES } else { 0 }
    }

    /// Takes a frame. Returns whether the frame is the first stashed one of its host queue.
    pub(super) fn push(&mut self, queue: usize, class: Class, frame: F) -> bool {
        if self.stashes[queue].is_empty() && self.has_room(class, &frame) {
            self.enqueue(class, frame);
            return false;
        }
        let stash = &mut self.stashes[queue];
        assert!(stash.len() < ModelConfig::STASH_FRAMES, "a frame from a blocked queue");
        stash.push_back((class, frame));
        stash.len() == 1
    }

    /// Moves stashed frames to the queues of their classes while there is room.
    pub(super) fn unblock(&mut self) {
        for queue in 0..self.stashes.len() {
            while let Some((class, frame)) = self.stashes[queue].front()
                && self.has_room(*class, frame)
                && let Some((class, frame)) = self.stashes[queue].pop_front()
            {
                self.enqueue(class, frame);
            }
        }
    }

    /// Whether the class's queue has room; an empty queue takes even a frame longer than the buffer.
    fn has_room(&self, class: Class, frame: &F) -> bool {
        let queue = &self.queues[class.index()];
        let fits = self.held[class.index()] + size(frame) <= self.buffer && queue.len() < self.frames_max;
        fits || queue.is_empty()
    }

    fn enqueue(&mut self, class: Class, frame: F) {
        self.held[class.index()] += size(&frame);
        self.queues[class.index()].push_back(frame);
        self.classes.insert(class);
    }

    /// Returns the classes with frames that wait for the link.
    pub(super) fn classes(&self) -> ClassSet {
        self.classes
    }

    /// Takes the next frame, round robin among these classes, if it has credit.
    pub(super) fn next(&mut self, mut open: ClassSet, has_credit: impl Fn(Class, u32) -> bool) -> Option<(Class, F)> {
        loop {
            let class = next_in_turn(open, self.last)?;
            let queue = &mut self.queues[class.index()];
            let first = queue.front().expect("a class with frames");
            if !has_credit(class, first.frame_bytes()) {
                open.remove(class);
                continue;
            }
            let frame = queue.pop_front()?;
            if queue.is_empty() {
                self.classes.remove(class);
            }
            self.held[class.index()] -= size(&frame);
            self.last = class;
            return Some((class, frame));
        }
    }

    /// Returns the queue of a class in bytes.
    pub(super) fn held(&self, class: Class) -> Bytes {
        self.held[class.index()]
    }

    /// Returns the number of waiting frames, by direct count.
    pub(super) fn frames(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum::<usize>() + self.stashes.iter().map(VecDeque::len).sum::<usize>()
    }

    pub(super) fn clear(&mut self, mut dropped: impl FnMut(Class)) {
        for class in Class::ALL {
            self.queues[class.index()].drain(..).for_each(|_| dropped(class));
        }
        self.stashes.iter_mut().flat_map(|stash| stash.drain(..)).for_each(|(class, _)| dropped(class));
        self.held = [Bytes::ZERO; CLASSES];
        self.classes = ClassSet::EMPTY;
    }
}

pub(super) fn size(frame: &impl ModelFrame) -> Bytes {
    Bytes::new(u64::from(frame.frame_bytes()) + FCS_BYTES)
}
