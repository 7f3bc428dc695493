//! Nothing is allocated for a packet in virtual time, once there is memory for as many as are under way at once.

use std::path::Path;

use weir_testbed::scenario::file;
use weir_testbed::sim::Sim;
use weir_units::Span;

/// Flows without an end over two switches, so that no connection is opened on the way.
fn scenario(congestion_control: &str) -> String {
    let mut text = "[scenario]\nend = \"20ms\"\n\
                    [topology]\nkind = \"dumbbell\"\nleft = 4\nright = 4\nrate = \"100Gbps\"\ndelay = \"1us\"\n\
                    [switch.buffer]\nsize = \"4MB\"\npolicy = \"dt\"\n\
                    [switch.classes]\npreset = \"roce\"\n\
                    [[switch.classes.queues]]\nclass = 3\necn = { kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }\n\
                    [switch.pfc]\nreaction = \"0s\"\n"
        .to_owned();
    for (from, to) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
        text += &format!(
            "[[flows]]\nfrom = \"H{from}\"\nto = \"R{}\"\nclass = 3\nack_every = 4\nretransmit = \"1ms\"\n\
             congestion_control = \"{congestion_control}\"\n",
            to - 3
        );
    }
    text
}

#[test]
#[cfg_attr(debug_assertions, ignore = "debug builds keep books on the way, which takes memory")]
fn none_for_a_packet() {
    for congestion_control in ["none", "dcqcn", "hpcc"] {
        let runs = file::parse(Path::new("dumbbell.toml"), &scenario(congestion_control))
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let mut sim = Sim::new(&runs[0].scenario).unwrap();
        sim.run_for(Span::from_millis(8));
        // Completions are for whoever asks for them.
        sim.drain_completions().for_each(drop);
        let before = sim.packet_hops();
        let counted = allocation_counter::measure(|| sim.run_for(Span::from_millis(4)));
        let hops = sim.packet_hops() - before;
        // Messages of a flow are 1 MB, and a few hundred of them are noted as completed: that list grows a few times.
        assert!(hops > 100_000 && counted.count_total < 20, "{congestion_control}: {counted:?} for {hops} packet-hops");
    }
}
