//! M/D/1: messages of one packet that many hosts send to one at random.
