//! Thresholds of Weir are found within two frames of those configured.

use weir_config::SwitchConfig;
use weir_qualify::DeviceUnderTest;
use weir_qualify::bench::LENGTH;
use weir_qualify::discover::{Discovery, discover};
use weir_qualify::virtual_time;

use crate::three_ports;

fn switch(buffer: &str) -> SwitchConfig {
    three_ports(1_500, buffer)
}

fn near(found: u64, configured: u64, what: &str) {
    let frames = found.abs_diff(configured) as f64 / f64::from(LENGTH);
    assert!(frames <= 2.0, "{what}: found {found} B, configured {configured} B, {frames:.1} frames apart");
}

#[test]
fn thresholds_are_found_within_two_frames() {
    let dynamic = |alpha: &str| format!("size = \"1MB\"\npolicy = \"dt\"\n[buffer.dt]\nalpha = \"{alpha}\"");
    let static_one = "size = \"1MB\"\npolicy = \"static\"\nxon_offset = \"9KB\"\n[buffer.static]\nthreshold = \"60KB\"";
    let pooled = "size = \"1MB\"\npolicy = \"sonic\"\n[buffer.sonic]\nalpha = \"1/2\"\nheadroom_pool = \"100KB\"";
    let boxes = [
        (static_one.to_owned(), None),
        (dynamic("1"), Some(1.0)),
        (dynamic("1/8"), Some(0.125)),
        (pooled.to_owned(), Some(0.5)),
    ];
    for (buffer, alpha) in boxes {
        let (mut tester, mut device) = virtual_time::new(&[switch(&buffer)]).unwrap();
        let facts = device.facts().clone();
        let sizes = facts.buffer.unwrap();
        let found: Discovery = discover(&mut tester, &mut device).unwrap();
        near(found.xoff_bytes, sizes.xoff.unwrap(), &format!("{buffer}: Xoff"));
        near(found.xon_bytes, sizes.xon.unwrap(), &format!("{buffer}: Xon"));
        near(found.headroom_bytes, facts.ports[0].headroom.unwrap(), &format!("{buffer}: headroom"));
        assert_eq!(found.alpha, alpha, "{buffer}");
        assert_eq!(found.headroom_pool_bytes.is_some(), sizes.headroom_pool.is_some(), "{buffer}");
        if let (Some(found), Some(configured)) = (found.headroom_pool_bytes, sizes.headroom_pool) {
            near(found, configured, &format!("{buffer}: headroom pool"));
        }
        let pool = alpha.map(|_| sizes.shared_pool.unwrap());
        assert_eq!(found.shared_pool_bytes.is_some(), pool.is_some(), "{buffer}");
        if let (Some(found), Some(configured)) = (found.shared_pool_bytes, pool) {
            near(found, configured, &format!("{buffer}: pool"));
        }
    }
}
