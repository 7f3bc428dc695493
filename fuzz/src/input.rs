//! Bytes of a fuzzer, taken in turn as numbers.

/// Input of a case. Behind its end all numbers are 0.
#[derive(Clone, Debug)]
pub struct FuzzInput<'b> {
    bytes: &'b [u8],
}

impl<'b> FuzzInput<'b> {
    /// Creates the input of these bytes.
    pub fn new(bytes: &'b [u8]) -> FuzzInput<'b> {
        FuzzInput { bytes }
    }

    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes a byte.
    #[inline]
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Takes up to this many bytes.
    pub fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Takes the bytes that are left.
    pub fn rest(&mut self) -> &'b [u8] {
        self.bytes(usize::MAX)
    }

    /// Takes a number of 16 bits.
    #[inline]
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes a number of 32 bits.
    pub fn long(&mut self) -> u32 {
        u32::from(self.word()) | u32::from(self.word()) << 16
    }

    /// Takes a byte as a number below `bound`, which is at most 256.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Takes a byte, true for one value in `of`.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    /// Takes a byte as an index of one of these values.
    pub fn one_of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }
}

/// Generator of inputs by a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct RandomBytes(u64);

impl RandomBytes {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> RandomBytes {
        RandomBytes(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Fills `bytes` with an input shorter than `longest`, one of four below 64 bytes.
    pub fn fill(&mut self, bytes: &mut Vec<u8>, longest: usize) {
        let is_short = self.number().is_multiple_of(4);
        let length = self.number() as usize % if is_short { 64.min(longest) } else { longest };
        bytes.clear();
        while bytes.len() < length {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(length);
    }
}
