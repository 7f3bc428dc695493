//! `[[slow_receivers]]`.

use weir_nic::host::ReceiveLimit;

use super::*;

/// Four hosts at a switch, 100 Gb/s and 1 us away: 2 (12,500 + 1,522) + 3,840 = 31,884 B may come after a PAUSE.
fn star(switch: &str, slow: &str) -> Scenario {
    let text = format!(
        "[scenario]\nend = \"1ms\"\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"0s\"\n{switch}\n\
         [topology]\nkind = \"single\"\nhosts = 4\nrate = \"100Gbps\"\ndelay = \"1us\"\n{slow}\n"
    );
    good(&text).remove(0).scenario
}

fn limits(scenario: &Scenario) -> Vec<Option<[u64; 3]>> {
    let sizes = |limit: ReceiveLimit| [limit.buffer, limit.xon, limit.headroom].map(Bytes::get);
    scenario.hosts.iter().map(|host| host.nic.receive.map(sizes)).collect()
}

#[test]
fn all_hosts_or_those_that_are_named_are_slow() {
    let all = star("", "[[slow_receivers]]\nrate = \"40Gbps\"\n");
    assert_eq!(limits(&all), [Some([131_072 - 31_884, 131_072 - 31_884 - 1_522, 31_884]); 4]);
    let limit = all.hosts[3].nic.receive.unwrap();
    assert_eq!((limit.rate, limit.from, limit.until), (BitRate::gbps(40), Time::ZERO, Time::NEVER));
    assert_eq!(all.notes, [""; 0]);
    can_start(&all);
    let some = star(
        "",
        "[[slow_receivers]]\nhosts = [\"H3\", \"H1\"]\nrate = \"1Mbps\"\nfrom = \"10us\"\nuntil = \"20us\"\n\
         [[slow_receivers]]\nhosts = [\"H0\"]\nrate = \"100Gbps\"\nbuffer = \"256KB\"\nxoff = \"128KB\"\nxon = \"0B\"\n",
    );
    let usual = Some([131_072 - 31_884, 131_072 - 31_884 - 1_522, 31_884]);
    assert_eq!(limits(&some), [Some([128_000, 0, 128_000]), usual, None, usual]);
    let limit = some.hosts[1].nic.receive.unwrap();
    assert_eq!((limit.from, limit.until), (Time::from_nanos(10_000), Time::from_nanos(20_000)));
}

#[test]
fn a_listed_host_is_slow_in_every_run() {
    let runs = pair(
        "[[slow_receivers]]\nhosts = [\"H2\"]\nrate = \"1Gbps\"\n[[runs]]\nname = \"PFC\"\n[[runs]]\nname = \"CBFC\"\n\
         [runs.switch.port]\nflow_control = { kind = \"cbfc\", buffer = \"200KB\" }\n",
    );
    let limits: Vec<_> = runs.iter().map(|run| limits(&run.scenario)).collect();
    assert!(limits.iter().all(|limits| limits[0].is_none()));
    let room = |run: usize| limits[run][1].map(|[xoff, _, headroom]| (xoff + headroom, headroom > 0));
    assert_eq!((room(0), room(1)), (Some((131_072, true)), Some((200_000, false))));
    // Headroom beyond B_m, as at a switch's port: the last stage has a rate.
    let stages = "[switch.port]\nflow_control = { kind = \"gfc-buffer\", b_m = \"1MB\", b_1 = \"750KB\" }";
    let after = 31_884;
    assert_eq!(
        self::limits(&star(stages, "[[slow_receivers]]\nrate = \"1Gbps\"\n"))[0].map(|[room, ..]| room),
        Some(1_000_000 + after)
    );
}

#[test]
fn a_buffer_grows_with_what_the_flow_control_needs() {
    // 2 (12,500 + 1,522) + 3,840, and 12,500,000 of a switch that reacts in 1 ms.
    let after = 31_884 + 12_500_000;
    let switch = "[switch.buffer]\nsize = \"300MB\"";
    let text = format!(
        "[scenario]\nend = \"1ms\"\ntime_dilation = 1\n[switch.classes]\npreset = \"roce\"\n[switch.pfc]\nreaction = \"1ms\"\n{switch}\n\
         [topology]\nkind = \"single\"\nhosts = 2\nrate = \"100Gbps\"\ndelay = \"1us\"\n[[slow_receivers]]\nrate = \"1Gbps\"\n"
    );
    assert_eq!(limits(&good(&text)[0].scenario)[0], Some([after, after - 1_522, after]));
    let slow = "[[slow_receivers]]\nrate = \"1Gbps\"\nxoff = \"300KB\"\n";
    assert_eq!(limits(&star("", slow))[0], Some([300_000, 298_478, 31_884]));
    // Without lossless classes there are no pauses.
    let lossy = "[[slow_receivers]]\nrate = \"1Gbps\"\nbuffer = \"10KB\"\n";
    let text = format!(
        "[scenario]\nend = \"1ms\"\n[switch.classes]\nlossless = []\n[topology]\nkind = \"single\"\nhosts = 2\n\
         rate = \"100Gbps\"\ndelay = \"1us\"\n{lossy}"
    );
    assert_eq!(limits(&good(&text)[0].scenario)[1], Some([10_000, 8_478, 0]));
}

#[test]
fn what_may_lose_frames_is_noted() {
    let slow = "[[slow_receivers]]\nrate = \"1Gbps\"\nbuffer = \"60KB\"\n";
    for (switch, keys, note) in [
        (
            "",
            "xoff = \"40KB\"\n",
            "20KB above `xoff` are less than the 31884B that may still come after a PAUSE by the rule of headroom: lossless frames can be lost"
                .to_owned(),
        ),
        (
            "[switch.port]\nflow_control = { kind = \"cbfc\", buffer = \"200KB\" }",
            "",
            "`buffer` 60KB is less than the 200KB that CBFC lets a queue hold: lossless frames can be lost".to_owned(),
        ),
        ("[switch.port]\nflow_control = \"none\"", "", "no flow control, so that its buffer overflows".to_owned()),
    ] {
        // One note for all equal hosts.
        assert_eq!(star(switch, &format!("{slow}{keys}")).notes, [format!("slow receiver H0: {note}")]);
    }
}
