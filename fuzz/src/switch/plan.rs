//! A drawn switch: its file, and the rules that follow from it.

use std::fmt::Write;

use weir_config::LcoreLayout;
use weir_mmu::policy::{BUFFER_POLICIES, HeadroomRequirement, parse_config};
use weir_units::{BitRate, ClassSet, Span};

use crate::input::FuzzInput;

/// Switch of a case.
#[derive(Debug)]
pub(super) struct SwitchPlan {
    /// The configuration file.
    pub(super) text: String,
    pub(super) layout: LcoreLayout,
    /// Line rates of all ports, clones included.
    pub(super) rates: Vec<BitRate>,
    /// Number of ports that are no clones.
    pub(super) real_ports: usize,
    pub(super) flow_control: FlowControlPlan,
    /// Whether peers keep to their line rate and obey pauses, and the switch is polled in time: no lossless frame may be dropped.
    pub(super) obeys: bool,
    /// Whether the frames of a stream leave each port in order.
    pub(super) keeps_order: bool,
    pub(super) catches_up: bool,
}

/// Flow control of all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowControlPlan {
    Pfc,
    Pause,
    Silent,
    /// GFC, whose rates age.
    Rates(&'static str),
    /// Credit: without messages of a peer, frames wait until the link goes.
    Credit(&'static str),
}

pub(super) const LOSSLESS: ClassSet = ClassSet::from_bits(1 << 3 | 1 << 4);
pub(super) const DELAY: Span = Span::from_micros(1);
/// `reaction` of the file.
pub(super) const REACTION: Span = Span::from_micros(4);

const LAYOUTS: [LcoreLayout; 4] = [LcoreLayout::Single, LcoreLayout::Auto, LcoreLayout::RxTx, LcoreLayout::RxFwdTx];
const RATES: [u64; 4] = [10, 1, 25, 100];
/// Flow controls with 300 KB of buffer for each queue of a class.
const PARTS: [FlowControlPlan; 5] = [
    FlowControlPlan::Rates("{ kind = \"gfc-buffer\", b_m = \"300KB\", refresh = \"50us\", ageing = \"800us\" }"),
    FlowControlPlan::Rates("{ kind = \"gfc-time\", b_m = \"300KB\", period = \"50us\", ageing = \"800us\" }"),
    FlowControlPlan::Rates("{ kind = \"gfc-conceptual\", b_m = \"300KB\", refresh = \"50us\", ageing = \"800us\" }"),
    FlowControlPlan::Credit("{ kind = \"cbfc\", buffer = \"300KB\", period = \"50us\" }"),
    FlowControlPlan::Credit("{ kind = \"uec-cbfc\", limit = \"300KB\", cc_period = \"50us\" }"),
];

impl SwitchPlan {
    /// Draws a switch.
    pub(super) fn draw(input: &mut FuzzInput<'_>) -> SwitchPlan {
        let layout = *input.one_of(&LAYOUTS);
        let real_ports = 2 + input.below(3);
        let flow_control = match input.below(16) {
            0..8 => FlowControlPlan::Pfc,
            8..10 => FlowControlPlan::Pause,
            10 => FlowControlPlan::Silent,
            number => PARTS[number - 11],
        };
        let is_shared = !matches!(flow_control, FlowControlPlan::Rates(_) | FlowControlPlan::Credit(_));
        let features = input.word();
        let has = |bit: u32| features >> bit & 1 == 1;
        let obeys = has(0) && matches!(flow_control, FlowControlPlan::Pfc | FlowControlPlan::Pause);
        let clones = if has(1) && has(2) && is_shared && !obeys { 1 + usize::from(has(3)) } else { 0 };
        let has_vlans = has(4) && has(5) && !obeys && is_shared;
        let has_queues = has(6) && has(7) && is_shared;
        // Thresholds of GFC and buffers of credit are made for one rate.
        let rate = |input: &mut FuzzInput<'_>| if is_shared { *input.one_of(&RATES) } else { 10 };
        let mut rates: Vec<u64> = (0..real_ports).map(|_| rate(input)).collect();

        let mut text = String::new();
        let file = &mut text;
        let mut line = |text: &str| writeln!(file, "{text}").expect("a string takes all");
        line("[switch]");
        if has(8) && has(9) {
            line("storm_control = \"50Mbps\"");
        }
        if has(10) {
            line("telemetry = true");
        }
        line(["fdb_size = 64", "fdb_size = 256\nmac_ageing = \"1ms\""][usize::from(has(11))]);
        line("[lcores]");
        let catches_up = has(12) && !obeys;
        line(if catches_up { "catch_up = \"auto\"" } else { "catch_up = \"0us\"" });
        line("[buffer]");
        let policy = if is_shared { draw_policy(input) } else { "static" };
        if is_shared {
            let size = ["1MB", "2MB", "4MB", "8MB"][input.below(4)];
            line(&format!("size = \"{size}\"\npolicy = \"{policy}\""));
            if has(13) {
                line(["mean_frame = \"512B\"", "cell_bytes = 256"][usize::from(has(14))]);
            }
        } else {
            let cells = if flow_control == PARTS[4] { 128 } else { 1 };
            line(&format!("size = \"{}MB\"\ncell_bytes = {cells}\nheadroom = \"20KB\"", 2 * real_ports));
            line("policy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"");
        }
        line("[classes]\nlossless = [3, 4]");
        let trusts_tag = has(15) && !obeys;
        if trusts_tag {
            line("trust = \"pcp\"");
        }
        let groups = input.byte();
        if !obeys && is_shared && groups & 3 == 0 {
            line("tc_to_pg = { 3 = 4, 4 = 3 }");
        }
        if groups & 0x30 == 0 {
            line("scheduler = \"packet-rr\"");
        }
        line("[classes.dscp]");
        (0..8).for_each(|n| line(&format!("{n} = {n}")));
        line(&format!(
            "[pfc]\nreaction = \"{REACTION}\"\nobey = \"{}\"",
            if groups & 4 == 0 { "all" } else { "lossless" }
        ));
        let watchdog = input.byte();
        if watchdog & 3 == 0 && flow_control == FlowControlPlan::Pfc {
            let action = ["drop", "forward", "alert"][usize::from(watchdog >> 2) % 3];
            line(&format!("[pfc_watchdog]\naction = \"{action}\"\ndetection_time = \"200us\""));
            line("restoration_time = \"300us\"\npoll_interval = \"100us\"");
        }
        for (port, rate) in rates.iter().enumerate() {
            line(&format!("[[ports]]\nname = \"p{port}\"\nrate = \"{rate}Gbps\"\ndelay = \"{DELAY}\""));
            if has_queues && port == 0 {
                line("vhost_user = { socket = \"/s\", queues = 4 }");
            } else {
                line(&format!("ring = \"r{port}\""));
            }
            match flow_control {
                FlowControlPlan::Pfc => {}
                FlowControlPlan::Pause => line("flow_control = \"pause\""),
                FlowControlPlan::Silent => line("flow_control = \"none\""),
                FlowControlPlan::Rates(kind) | FlowControlPlan::Credit(kind) => line(&format!("flow_control = {kind}")),
            }
            if has_vlans {
                line(["vlan = 10\ntagged = [20]", "vlan = 20", "tagged = [10, 20]"][port % 3]);
            }
        }
        for clone in 0..clones {
            line(&format!("[[ports]]\nname = \"c{clone}\"\nclone_of = \"p0\""));
            rates.push(rates[0]);
        }
        SwitchPlan {
            text,
            layout,
            rates: rates.into_iter().map(BitRate::gbps).collect(),
            real_ports,
            flow_control,
            obeys: obeys && has_headroom_per_queue(policy),
            keeps_order: clones == 0 && !trusts_tag && !has_vlans,
            catches_up,
        }
    }
}

fn draw_policy(input: &mut FuzzInput<'_>) -> &'static str {
    let names: Vec<&'static str> = BUFFER_POLICIES.names().collect();
    input.one_of::<&'static str>(&names)
}

/// Returns whether a policy keeps Φ for each lossless ingress queue.
fn has_headroom_per_queue(policy: &str) -> bool {
    let config = parse_config(policy, "").unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    config.layout_requirements().headroom == HeadroomRequirement::PerQueue
}
