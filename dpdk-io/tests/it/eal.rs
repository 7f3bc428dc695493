//! EAL life cycle, lcores, refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_dpdk_io::{Eal, EalError, Mempool, MempoolConfig, PdumpError, Port, PortError, cpu, pdump_init, version};

#[test]
fn eal_and_lcores() {
    weir_alone::in_a_process(|| {
        let before = Mempool::new("early", MempoolConfig::default()).expect_err("no EAL yet");
        assert!(before.to_string().contains("not running"), "{before}");

        let eal = crate::common::eal();
        assert!(version().starts_with("DPDK"));
        assert_eq!(eal.main_lcore(), 0);
        assert!(!eal.has_hugepages());
        assert!(matches!(Eal::init(&["again"]), Err(EalError::AlreadyStarted)));
        assert!(matches!(pdump_init(&eal), Err(PdumpError::NoSharedMemory("--no-huge"))));

        closures_run_on_their_lcore(&eal);
        panics_are_reported(&eal);
        busy_lcores_refuse(&eal);
        bad_devices_are_named();
        pools_of_idle_lcores_are_freed(&eal);
        assert!(!eal.is_in_use());
    });
}

fn closures_run_on_their_lcore(eal: &Eal) {
    let lcores = eal.lcores();
    assert_eq!(lcores.len(), 1);
    assert!(lcores[0].cpu.is_some());
    let cpu_seen = Arc::new(AtomicU32::new(u32::MAX));
    for _ in 0..3 {
        let seen = Arc::clone(&cpu_seen);
        eal.launch(lcores[0], move || {
            seen.store(cpu::current().expect("Linux tells"), Ordering::Relaxed);
        })
        .expect("idle")
        .join()
        .expect("no panic");
        assert_eq!(Some(cpu_seen.load(Ordering::Relaxed)), lcores[0].cpu);
    }
}

fn panics_are_reported(eal: &Eal) {
    let lcore = eal.lcores()[0];
    let handle = eal.launch(lcore, || panic!("the answer is {}", 42)).expect("idle");
    let panic = handle.join().expect_err("it panicked");
    assert_eq!((panic.lcore, panic.message.as_str()), (1, "the answer is 42"));
    // The lcore lives on.
    eal.launch(lcore, || {}).expect("idle").join().expect("no panic");
}

fn busy_lcores_refuse(eal: &Eal) {
    let lcore = eal.lcores()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let handle = eal
        .launch(lcore, move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        })
        .expect("idle");
    assert!(!handle.is_finished());
    assert!(matches!(eal.launch(lcore, || {}), Err(EalError::LcoreBusy(1))));
    let mut nowhere = lcore;
    nowhere.id = 77;
    assert!(matches!(eal.launch(nowhere, || {}), Err(EalError::NoSuchLcore(77))));
    stop.store(true, Ordering::Relaxed);
    handle.join().expect("no panic");
}

fn bad_devices_are_named() {
    for spec in ["net_nonsense0,a=b", "net_pcap_bad,rx_pcap=/nonexistent", "ffff:ff:1f.0", "a\0b"] {
        let error = Port::attach(spec).expect_err(spec);
        assert!(error.to_string().contains(&format!("{spec:?}")), "{error}");
    }
    let error = Port::by_name("net_missing").expect_err("no such port");
    assert!(matches!(error, PortError::NotFound(_)));
}

fn pools_of_idle_lcores_are_freed(eal: &Eal) {
    // More in all than the memory holds.
    for round in 0..20 {
        let config = MempoolConfig { count: 8191, ..MempoolConfig::default() };
        let pool = Mempool::new("again", config).unwrap_or_else(|error| panic!("{round}: {error}"));
        let mbuf = pool.alloc().expect("a fresh pool");
        // The last mbuf and the last handle go on another thread.
        eal.launch(eal.lcores()[0], move || {
            drop(pool);
            drop(mbuf);
        })
        .expect("idle")
        .join()
        .expect("no panic");
    }
}
