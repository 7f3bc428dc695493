//! Receive buffer of a NIC: a share for each lossless class, which is paused, and one for all lossy classes.

use std::collections::VecDeque;

use weir_units::{Bytes, CLASSES, Class, ClassSet};

use super::send::size;
use super::{ModelConfig, ModelFrame, ReceiveBuffer, next_in_turn};

/// Receive side of a NIC: its buffer.
#[derive(Debug)]
pub(super) struct ReceiveSide<F> {
    buffer: ReceiveBuffer,
    lossless: ClassSet,
    queues: [VecDeque<F>; CLASSES],
    held: [Bytes; CLASSES],
    /// Total bytes of the lossy classes.
    lossy: Bytes,
    lossy_frames: usize,
    classes: ClassSet,
    last: Class,
    /// Classes to pause at the switch.
    off: ClassSet,
}

impl<F: ModelFrame> ReceiveSide<F> {
    pub(super) fn new(config: &ModelConfig) -> ReceiveSide<F> {
        let buffer = config.receive;
        let frames = |class: Class| match config.lossless.contains(class) {
            true => buffer.lossless_frames,
            false => buffer.lossy_frames,
        };
        ReceiveSide {
            buffer,
            lossless: config.lossless,
            queues: Class::ALL.map(|class| VecDeque::with_capacity(frames(class))),
            held: [Bytes::ZERO; CLASSES],
            lossy: Bytes::ZERO,
            lossy_frames: 0,
            classes: ClassSet::EMPTY,
            last: Class::new(CLASSES as u8 - 1),
            off: ClassSet::EMPTY,
        }
    }

    /// Takes a frame. Returns whether there was room; otherwise the frame is dropped.
    pub(super) fn push(&mut self, class: Class, frame: F) -> bool {
        let size = size(&frame);
        let queue = &mut self.queues[class.index()];
        let held = self.held[class.index()] + size;
        if self.lossless.contains(class) {
            if held > self.buffer.lossless || queue.len() >= self.buffer.lossless_frames {
                return false;
            }
            if held >= self.buffer.xoff {
                self.off.insert(class);
            }
        } else {
            if self.lossy + size > self.buffer.lossy || self.lossy_frames >= self.buffer.lossy_frames {
                return false;
            }
            self.lossy += size;
            self.lossy_frames += 1;
        }
        self.held[class.index()] = held;
        queue.push_back(frame);
        self.classes.insert(class);
        true
    }

    /// Takes the next frame, round robin among these classes.
    pub(super) fn next(&mut self, classes: ClassSet) -> Option<(Class, F)> {
        let class = next_in_turn(classes & self.classes, self.last)?;
        let queue = &mut self.queues[class.index()];
        let frame = queue.pop_front()?;
        if queue.is_empty() {
            self.classes.remove(class);
        }
        let size = size(&frame);
        let held = &mut self.held[class.index()];
        *held -= size;
        if *held <= self.buffer.xon {
            self.off.remove(class);
        }
        if !self.lossless.contains(class) {
            self.lossy -= size;
            self.lossy_frames -= 1;
        }
        self.last = class;
        Some((class, frame))
    }

    /// Returns the classes to pause at the switch.
    pub(super) fn off(&self) -> ClassSet {
        self.off
    }

    /// Returns the classes with frames for the host.
    pub(super) fn classes(&self) -> ClassSet {
        self.classes
    }

    /// Returns the bytes that a class holds.
    pub(super) fn held(&self, class: Class) -> Bytes {
        self.held[class.index()]
    }

    /// Returns the number of waiting frames, counted anew.
    pub(super) fn frames(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(super) fn clear(&mut self, mut dropped: impl FnMut(Class)) {
        for class in Class::ALL {
            self.queues[class.index()].drain(..).for_each(|_| dropped(class));
        }
        self.held = [Bytes::ZERO; CLASSES];
        (self.lossy, self.lossy_frames) = (Bytes::ZERO, 0);
        (self.classes, self.off) = (ClassSet::EMPTY, ClassSet::EMPTY);
    }
}
