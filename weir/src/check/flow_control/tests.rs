//! Output of `weir check` for GFC and CBFC.

use weir_config::SwitchConfig;
use weir_switch_core::buffer::buffer_layout;
use weir_units::ClassSet;

use crate::check::warnings;

/// A switch of 10 MB, with ports of 10 Gb/s that each have one of these flow controls; Φ = 60 KB for one lossless class,
/// T = 500 KB. The paper's MTU and delays: 2 x 1542 B, 2 x 1 us, 3 us.
fn switch(buffer: &str, flow_controls: &[&str]) -> SwitchConfig {
    let port = |(n, flow_control): (usize, &&str)| {
        format!(
            "\n[[ports]]\nname = \"p{n}\"\ntap = \"t{n}\"\nrate = \"10Gbps\"\ndelay = \"1us\"\nflow_control = {flow_control}\n"
        )
    };
    let ports: String = flow_controls.iter().enumerate().map(port).collect();
    let text = format!(
        "[buffer]\nsize = \"10MB\"\nheadroom = \"60KB\"\n{buffer}\n[classes]\nlossless = [3]\n[pfc]\nreaction = \"3us\"\n{ports}"
    );
    weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

const STATIC: &str = "policy = \"static\"\n[buffer.static]\nthreshold = \"500KB\"";

/// All lines but tables' rules, runs of spaces as one, and the warnings.
fn told(switch: &SwitchConfig) -> (Vec<String>, Vec<String>) {
    let text = super::text(&super::flow_control(switch).unwrap());
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines = lines.filter(|line| !line.starts_with("--")).collect();
    (lines, warnings::warnings(switch, &buffer_layout(switch).unwrap()))
}

/// The lines, in this order and with no other; no warning.
fn check(flow_controls: &[&str], lines: &[&str]) {
    let (told, warnings) = told(&switch(STATIC, flow_controls));
    assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), lines, "{}", told.join("\n"));
    assert_eq!(warnings, [""; 0]);
}

fn warned(buffer: &str, flow_controls: &[&str], expected: &[&str]) {
    let warnings = told(&switch(buffer, flow_controls)).1;
    let is_warned =
        warnings.len() == expected.len() && warnings.iter().zip(expected).all(|(is, part)| is.contains(part));
    assert!(is_warned, "{warnings:#?}");
}

#[test]
fn other_flow_control_is_not_told_of() {
    check(&["\"pfc\"", "\"pause\""], &[]);
}

/// gfc 5.4 has 7.4 us and 18.5 KB with the MTU alone; here it has what the wire adds.
#[test]
fn stages() {
    check(
        &["\"gfc-buffer\"", "\"pfc\"", "\"gfc-buffer\""],
        &[
            "p0, p2: GFC by stages at 10Gbps",
            "τ = 7.467us by the rule: 2 MTU/C 2.467us + 2 D_prop 2us + reaction 3us",
            "B_m = 556,956 B, what the buffer keeps for a queue less a frame",
            "B_1 = 538,288 B, safe up to B_m - 2 C τ = 538,288 B",
            "N = 16 stages",
            "Stage k From B_k B Rate R_k",
            "0 0 10Gbps",
            "1 538,288 5Gbps",
            "2 547,622 2.5Gbps",
            "3 552,289 1.25Gbps",
            "4 554,622 625Mbps",
            "5 555,789 312.5Mbps",
            "6 556,372 156.25Mbps",
            "7 556,664 78.125Mbps",
            "8 556,810 39.062Mbps",
            "… … …",
            "16 556,955 152.587Kbps",
            // 672 bit of 74,670 and of 524,280.
            "messages of 84 B on the wire: 0.900 % of the link with one per τ while stages change, as in the paper; \
             0.128 % of the link with one each 52.428us at rest; more if a queue swings about the start of a stage",
            // 65,535 quanta, as 64 times 65,535 byte times.
            "ageing: back to the line rate after 3.355ms without a message",
        ],
    );
}

#[test]
fn few_stages_have_no_ellipsis() {
    let keys = "tau = \"8us\", b_m = \"100KB\", b_1 = \"99.744KB\", unsafe_thresholds = true";
    let switch = switch(STATIC, &[&format!("{{ kind = \"gfc-buffer\", {keys} }}"), "\"pfc\""]);
    let (lines, warnings) = told(&switch);
    assert!(lines.contains(&"9 99,999 19.531Mbps".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"B_1 = 99,744 B, UNSAFE, above B_m - 2 C τ = 80,000 B".to_owned()), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains('…')), "{lines:#?}");
    assert!(warnings[0].contains("B_1 is above the highest that is safe"), "{warnings:?}");
}

#[test]
fn pulses() {
    let pulsed = "{ kind = \"gfc-buffer\", peer = \"pfc\", tau = \"10us\", b_m = \"500KB\", pulse_period = \"50us\" }";
    let (lines, warnings) = told(&switch(STATIC, &[pulsed, "\"pfc\""]));
    for line in [
        "p0: GFC by stages, pulsed at 10Gbps",
        "τ = 60us as configured: 10us + P 50us; the rule asks for 57.467us: 2 MTU/C 2.467us + 2 D_prop 2us + reaction 3us \
         + P 50us",
        "B_m = 500,000 B",
        "B_1 = 350,000 B, safe up to B_m - 2 C τ = 350,000 B",
        "pulses: a pause of P (1 - R_k/C) in each period P = 50us, none longer than 49.609us (968 quanta); P is part of τ",
        "Stage k From B_k B Rate R_k Pause in each P",
        "2 425,000 2.5Gbps 37.5us",
        "messages of 84 B on the wire: 0.134 % of the link with one per P, none while all queues are below B_1",
    ] {
        assert!(lines.iter().any(|told| told == line), "{line:?} is missing in\n{}", lines.join("\n"));
    }
    assert_eq!(warnings, [""; 0]);
}

/// gfc 6.1.1: 1 MB, 90 us, 52.4 us; the paper's 492 KB leave half the rate at 746 KB.
#[test]
fn the_time_based_testbed_of_the_paper() {
    let time = "{ kind = \"gfc-time\", tau = \"90us\", b_m = \"1MB\", b_0 = \"492KB\" }";
    let (lines, warnings) =
        told(&switch("policy = \"static\"\n[buffer.static]\nthreshold = \"1MB\"", &[time, "\"pfc\""]));
    let expected = [
        "p0: GFC by time at 10Gbps",
        "τ = 90us as configured; the rule asks for 7.467us: 2 MTU/C 2.467us + 2 D_prop 2us + reaction 3us",
        "B_m = 1,000,000 B",
        "B_0 = 492,000 B, safe up to B_m - (√(τ/T) + 1)² C T = 650,236 B",
        "T = 52.428us",
        "Queue q B Rate R(q)",
        "492,000 10Gbps",
        "619,000 7.5Gbps",
        "746,000 5Gbps",
        "873,000 2.5Gbps",
        "936,500 1.25Gbps",
        "968,250 625Mbps",
        "1,000,000 8Kbps",
        "messages of 84 B on the wire: 0.128 % of the link with one per T",
        "ageing: back to the line rate after 3.355ms without a message",
    ];
    assert_eq!(lines, expected, "{}", lines.join("\n"));
    assert_eq!(warnings, [""; 0]);
}

/// gfc 4.1: 100 KB, 25 us, and 50 KB where theorem 4.1 has no safe B_0 at all.
#[test]
fn the_conceptual_example_of_the_paper() {
    let example =
        "{ kind = \"gfc-conceptual\", tau = \"25us\", b_m = \"100KB\", b_0 = \"50KB\", unsafe_thresholds = true }";
    let (lines, _) = told(&switch("policy = \"static\"\n[buffer.static]\nthreshold = \"1MB\"", &[example, "\"pfc\""]));
    let expected = [
        "p0: GFC, conceptual at 10Gbps",
        "τ = 26us as configured: 25us + T 1us; the rule asks for 8.467us: 2 MTU/C 2.467us + 2 D_prop 2us + reaction 3us + T 1us",
        "B_m = 100,000 B",
        "B_0 = 50,000 B, UNSAFE: no threshold is safe, since B_m - 4 C τ is negative",
        "T = 1us between two messages at least; it is part of τ",
        "Queue q B Rate R(q)",
        "50,000 10Gbps",
        "62,500 7.5Gbps",
        "75,000 5Gbps",
        "87,500 2.5Gbps",
        "93,750 1.25Gbps",
        "96,875 625Mbps",
        "100,000 8Kbps",
        "messages of 84 B on the wire: 6.720 % of the link with one per T while lengths change; 0.128 % of the link with one each \
         52.428us at rest",
        "ageing: back to the line rate after 3.355ms without a message",
    ];
    assert_eq!(lines, expected, "{}", lines.join("\n"));
}

#[test]
fn credit() {
    check(
        &["{ kind = \"cbfc\", buffer = \"400KB\", period = \"20us\" }", "\"cbfc\""],
        &[
            "p0: CBFC at 10Gbps",
            "buffer = 400,000 B: 6,250 blocks of 64 B",
            "T = 20us",
            "messages of 84 B on the wire: 0.336 % of the link with one per T",
            "p1: CBFC at 10Gbps",
            "buffer = 556,956 B, what the buffer keeps for a queue less a frame: 8,702 blocks of 64 B",
            "T = 52.428us",
            "messages of 84 B on the wire: 0.128 % of the link with one per T",
        ],
    );
}

/// 5 us are 6,250 B, with the least spacing, a message and a frame 14,276 B: 10 frames of 1,542 B, of which each takes 12 cells.
#[test]
fn cells() {
    let shown = |limit: &str| {
        let credit = format!("{{ kind = \"uec-cbfc\", limit = \"{limit}\", shared = true }}");
        let mut switch = switch(STATIC, &[&credit, "\"pfc\""]);
        switch.buffer.cell_bytes = 128;
        told(&switch)
    };
    let (lines, warnings) = shown("15360B");
    let expected = [
        "p0: UEC CBFC at 10Gbps",
        "limit = 15,360 B: 120 cells of 128 B, for all classes together",
        "full rate with the longest frames needs 120 cells: 2 D_prop 2us + reaction 3us + `cf_min_spacing` 6,400 B + a frame of 1,542 B + CF_Update 84 B",
        "at most 1.312 % of the link for CF_Update (a frame of 84 B; in virtual time 8 B, 0.125 %)",
        "CC_Update each 256us: 0.026 % of the link",
    ];
    assert_eq!((lines, warnings), (expected.map(str::to_owned).to_vec(), Vec::new()));
    let (_, warnings) = shown("15KB");
    let expected = "p0: a limit of 117 cells holds 9 frames of the longest length in use, which pass at least 9.721Gbps; full rate \
                    needs 120 cells";
    assert_eq!(warnings, [expected]);
}

#[test]
fn a_delay_below_the_rule_is_warned_of() {
    let short = "{ kind = \"gfc-buffer\", tau = \"7.4us\" }";
    warned(STATIC, &[short, short, "\"gfc-buffer\""], &["p0, p1: tau 7.4us is less than the 7.467us"]);
}

#[test]
fn unsafe_thresholds_are_warned_of() {
    let gfc = |keys: &str| format!("{{ kind = \"gfc-buffer\", {keys}, unsafe_thresholds = true }}");
    let (high, long, safe) = (gfc("b_1 = \"550KB\""), gfc("b_m = \"600KB\""), gfc("b_1 = \"500KB\""));
    warned(
        STATIC,
        &[&high, &long, &safe],
        &[
            "p0: unsafe_thresholds: B_1 is above the highest that is safe, so",
            "p1: unsafe_thresholds: B_m and a frame are more than the buffer keeps for a queue, so",
            "p2: unsafe_thresholds without need",
        ],
    );
}

#[test]
fn thresholds_that_move_are_warned_of() {
    let gfc = "{ kind = \"gfc-buffer\", b_m = \"600KB\" }";
    warned("policy = \"dt\"", &[gfc, "\"pfc\"", gfc], &["p0, p2: the threshold of policy \"dt\" moves"]);
}

/// Queues of one class at three ports share the rest of 10 MB; T of a PFC port counts as well.
#[test]
fn promises_above_the_shared_buffer_are_warned_of() {
    let all = ["\"gfc-buffer\"", "\"pfc\"", "\"cbfc\""];
    warned("policy = \"static\"", &all, &[]);
    let mut two_classes = switch("policy = \"static\"", &all);
    two_classes.classes.lossless = ClassSet::from_bits(0b1100);
    let warnings = told(&two_classes).1;
    // 10 MB less 6 x 60 KB; T = a third of it, rounded down, once each for six queues.
    assert!(
        warnings.len() == 1 && warnings[0].contains("may take 19,273,910 B") && warnings[0].contains("has 9,640,000 B"),
        "{warnings:?}"
    );
    let large = "{ kind = \"gfc-buffer\", b_m = \"6MB\" }";
    let moving = ["the threshold of policy \"dt\" moves", "may take 11,883,044 B of the shared buffer ("];
    warned("policy = \"dt\"", &[large, large], &moving);
}

/// Φ is only a part of a queue's reservation.
#[test]
fn headroom_below_the_rule_is_no_matter() {
    let with = |flow_control: &str| {
        let text = format!(
            "[buffer]\nsize = \"10MB\"\nheadroom = \"1KB\"\n{STATIC}\n[classes]\nlossless = [3]\n\
             [[ports]]\nname = \"a\"\ntap = \"a\"\nrate = \"10Gbps\"\nflow_control = {flow_control}\n\
             [[ports]]\nname = \"b\"\ntap = \"b\"\nrate = \"10Gbps\"\nflow_control = {flow_control}\n"
        );
        told(&weir_config::parse("lab", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))).1.len()
    };
    assert_eq!((with("\"pfc\""), with("\"gfc-time\""), with("\"cbfc\"")), (2, 0, 0));
}
