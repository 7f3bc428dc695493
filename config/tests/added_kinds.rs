//! Kinds that a program adds to Weir's: files select them by name, and their keys are checked. A process of its own, as
//! the first reading of a file seals the registries.

use std::fmt::Debug;

use weir_arbitration::{ARBITERS, Arbiter, ArbiterChoice, ArbiterConfig, ArbiterKind};
use weir_config::{FlowControlChoice, SwitchConfig, parse};
use weir_flowctl::kinds::NoFlowControl;
use weir_flowctl::{
    ConfigRejection, FLOW_CONTROLS, FlowControlConfig, FlowControlContext, FlowControlKind, MessageKind,
    PortFlowControl,
};
use weir_load_balancing::{PATH_SELECTORS, PathSelector, PathSelectorChoice, PathSelectorConfig, PathSelectorKind};
use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::Span;

/// A flow control and an arbitration in one.
#[derive(Debug)]
struct Added;

const HOLD: Key<Span> =
    Key::time("hold", Span::from_micros(1)..=Span::from_secs(1), "time between two messages").or("20us");
const STRIDE: Key<u64> = Key::<u64>::integer("arbitration_stride", 1..=9, "distance to the next port").or("2");

impl Plugin for Added {
    fn id(&self) -> &'static str {
        "added"
    }

    fn keys(&self) -> Keys {
        &[&HOLD]
    }
}

impl FlowControlKind for Added {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(Held(table.get(&HOLD)))
    }
}

#[derive(Debug, PartialEq)]
struct Held(Span);

impl FlowControlConfig for Held {
    fn kind(&self) -> &'static str {
        "added"
    }

    fn label(&self) -> &'static str {
        "added by a test"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::Custom
    }

    fn build(&self, _port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        Ok(PortFlowControl::new(NoFlowControl))
    }
}

#[derive(Debug)]
struct Strides;

impl Plugin for Strides {
    fn id(&self) -> &'static str {
        "strides"
    }

    fn keys(&self) -> Keys {
        &[&STRIDE]
    }
}

impl ArbiterKind for Strides {
    fn read(&self, table: &Table<'_>) -> ArbiterChoice {
        ArbiterChoice::new(Stride(table.get(&STRIDE)))
    }
}

#[derive(Debug)]
struct Stride(u64);

impl ArbiterConfig for Stride {
    fn kind(&self) -> &'static str {
        "strides"
    }

    fn arbiter(&self) -> Option<Box<dyn Arbiter>> {
        assert!((1..=9).contains(&self.0));
        None
    }
}

/// A load balancing: both the kind and its configuration.
#[derive(Debug)]
struct First;

impl Plugin for First {
    fn id(&self) -> &'static str {
        "first"
    }
}

impl PathSelectorKind for First {
    fn read(&self, _table: &Table<'_>) -> PathSelectorChoice {
        PathSelectorChoice::new(First)
    }
}

impl PathSelectorConfig for First {
    fn kind(&self) -> &'static str {
        self.id()
    }

    fn selector(&self) -> Option<Box<dyn PathSelector>> {
        None
    }
}

fn read(flow_control: &str, queue: &str) -> Result<SwitchConfig, String> {
    let text = format!(
        "[buffer]\nheadroom = \"60KB\"\n[[classes.queues]]\nclass = 3\n{queue}\n\
         [[ports]]\nname = \"p0\"\nring = \"a\"\nrate = \"10Gbps\"\nflow_control = {flow_control}\n\
         [[ports]]\nname = \"p1\"\nring = \"b\"\nrate = \"10Gbps\"\n"
    );
    parse("lab.toml", &text).map_err(|errors| errors.to_string())
}

/// One test, since kinds are added once in a process, before the first file is read.
#[test]
fn added_kinds_are_chosen_by_name_and_own_their_keys() {
    assert_eq!(FLOW_CONTROLS.add(&Added), Ok(()));
    assert_eq!(ARBITERS.add(&Strides), Ok(()));
    assert_eq!(PATH_SELECTORS.add(&First), Ok(()));
    let two = "[[ports]]\nname = \"p0\"\nring = \"a\"\n[[ports]]\nname = \"p1\"\nring = \"b\"\n";
    let with = |switch: &str| {
        parse("lab.toml", &format!("[switch]\n{switch}\n[buffer]\nheadroom = \"60KB\"\n{two}"))
            .map_err(|errors| errors.to_string())
    };
    assert_eq!(with("load_balancing = \"first\"").unwrap().load_balancing.kind(), "first");
    assert_eq!(with("").unwrap().load_balancing.kind(), "flow-hash");
    let told = with("load_balancing = \"first\"\nflowlet_gap = \"1us\"").unwrap_err();
    assert!(told.contains("`load_balancing` \"first\" has no `flowlet_gap`"), "{told}");
    let config =
        read("{ kind = \"added\", hold = \"9us\" }", "arbitration = \"strides\"\narbitration_stride = 5").unwrap();
    assert_eq!(config.ports[0].flow_control.downcast(), Some(&Held(Span::from_micros(9))));
    assert_eq!(format!("{:?}", config.classes.queues[3].arbitration), "ArbiterChoice(Stride(5))");
    assert!(config.classes.queues[3].arbitration.arbiter().is_none());
    let by_default = read("\"added\"", "arbitration = \"strides\"").unwrap();
    assert_eq!(by_default.ports[0].flow_control.downcast(), Some(&Held(Span::from_micros(20))));
    assert_eq!(by_default.classes.queues[3].arbitration.kind(), "strides");

    for (flow_control, queue, wrong) in [
        ("{ kind = \"added\", hold = \"9s\" }", "", "lab.toml:10: `hold`: 9s is out of range"),
        (
            "{ kind = \"added\", hodl = \"9us\" }",
            "",
            "lab.toml:10: unknown key `hodl` in [ports.flow_control]; write `hold`",
        ),
        ("{ kind = \"pfc\", hold = \"9us\" }", "", "`kind` \"pfc\" has no `hold`; \"added\" has it; take `hold` out"),
        (
            "{ kind = \"added\", b_m = \"9KB\" }",
            "",
            "`kind` \"added\" has no `b_m`; \"gfc-buffer\", \"gfc-conceptual\"",
        ),
        ("\"adde\"", "", "\"uec-cbfc\", \"added\"; write flow_control = \"added\""),
        (
            "\"pfc\"",
            "arbitration = \"strides\"\narbitration_stride = 10",
            "lab.toml:6: `arbitration_stride`: 10 is out of range",
        ),
        (
            "\"pfc\"",
            "arbitration_stride = 3",
            "`arbitration_stride` has no effect: the queue serves frames in order of arrival",
        ),
        (
            "\"pfc\"",
            "arbitration = \"random\"\narbitration_stride = 3",
            "`arbitration` \"random\" has no `arbitration_stride`; write arbitration = \"strides\" too, or take it out",
        ),
    ] {
        let told = read(flow_control, queue).expect_err(wrong);
        assert!(told.contains(wrong), "{told}");
    }
    let late = FLOW_CONTROLS.add(&Added).unwrap_err();
    assert_eq!(late.to_string(), "the flow control \"added\" comes too late: add it before the first file is read");
}
