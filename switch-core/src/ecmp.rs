//! Of several ports of equal cost, the one that a flow takes.

/// Which of `ports` ports a flow with this hash takes at a switch with this seed.
///
/// The seed is mixed into the hash, so that switches behind each other choose independently: with the same choice in every
/// tier, half of the paths of a fat-tree would never be used (polarisation).
///
/// # Panics
/// If there is no port.
#[inline]
pub fn choose(flow_hash: u32, seed: u32, ports: usize) -> usize {
    assert!(ports > 0, "there is nothing to choose from");
    // Multiply and shift in place of a division: all alike to one in a hundred million.
    ((u64::from(mix(flow_hash ^ mix(seed.wrapping_add(0x9e37_79b9)))) * ports as u64) >> 32) as usize
}

/// Spreads what differs in few bits over all of them (the finaliser of MurmurHash3).
#[inline]
pub fn mix(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_gets_its_share() {
        for ports in [1, 2, 3, 4, 16] {
            let mut flows = vec![0u32; ports];
            (0..16_000).for_each(|flow| flows[choose(flow, 7, ports)] += 1);
            let even = 16_000 / ports as u32;
            assert!(flows.iter().all(|own| own.abs_diff(even) < even / 8), "{flows:?}");
        }
    }

    #[test]
    fn switches_choose_independently() {
        // Of the flows that one switch sends to its first port, another one sends a quarter to each of its four.
        let mut flows = [0u32; 4];
        (0..16_000).filter(|flow| choose(*flow, 1, 4) == 0).for_each(|flow| flows[choose(flow, 2, 4)] += 1);
        assert!(flows.iter().all(|own| own.abs_diff(1_000) < 125), "{flows:?}");
    }
}
