//! Snapshot of the switches' state, and values from two snapshots: rates, and the share of time that classes were paused.

use std::time::{Duration, Instant};

use weir_control::protocol::{Hello, Reply, Request, ShowRequest, ShowView};
use weir_control::state::{
    BufferConfiguration, BufferPool, Event, FlowControlPort, Interface, Lcore, Loss, PfcCounters, PolicyState,
    PriorityGroups, Queues, State,
};
use weir_control::{Client, ClientError};
use weir_units::CLASSES;

/// All switches of a process at an instant.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) hello: Hello,
    pub(crate) switches: Vec<SwitchSnapshot>,
    pub(crate) lcores: Vec<Lcore>,
    pub(crate) events: Vec<Event>,
}

/// State of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchSnapshot {
    pub(crate) name: String,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) pfc: Vec<PfcCounters>,
    pub(crate) groups: Vec<PriorityGroups>,
    pub(crate) queues: Vec<Queues>,
    pub(crate) pools: Vec<BufferPool>,
    pub(crate) buffer: Option<BufferConfiguration>,
    pub(crate) policy: Option<PolicyState>,
    pub(crate) flow_control: Vec<FlowControlPort>,
    pub(crate) losses: Vec<Loss>,
}

/// Row of a port's class: its ingress and egress queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueRow {
    pub(crate) port: String,
    pub(crate) class: usize,
    pub(crate) is_lossless: bool,
    /// `U`, `D`, `X` or `B`, as in `weir show interfaces`.
    pub(crate) link: char,
    /// Bits a second in this class; `None` before there are two snapshots.
    pub(crate) rx_bps: Option<f64>,
    pub(crate) tx_bps: Option<f64>,
    /// Occupancy of the ingress queue in private and shared buffer.
    pub(crate) shared: u64,
    pub(crate) headroom: u64,
    /// Xoff of a lossless queue.
    pub(crate) threshold: Option<u64>,
    pub(crate) egress: u64,
    /// Shares of the time for which this port paused the peer's class, and the peer paused this port's class.
    pub(crate) tx_paused: Option<f64>,
    pub(crate) rx_paused: Option<f64>,
    /// States of port and queue, in words.
    pub(crate) states: Vec<String>,
    /// Whether the class ever had traffic or pauses.
    pub(crate) is_used: bool,
}

impl Snapshot {
    /// Requests the state of all switches of a running process.
    ///
    /// # Errors
    /// If the process does not answer.
    pub(crate) fn read(client: &mut Client) -> Result<Snapshot, ClientError> {
        let hello = client.hello()?;
        let named = |name: &String| SwitchSnapshot { name: name.clone(), ..SwitchSnapshot::default() };
        let mut switches: Vec<SwitchSnapshot> = hello.switches.iter().map(named).collect();
        let at = Instant::now();
        // No screen shows these, and there may be thousands of addresses.
        let is_drawn = |what: &ShowView| {
            !matches!(what, ShowView::PfcWatchdog | ShowView::PauseDelays | ShowView::Mac | ShowView::Lldp)
        };
        for what in ShowView::OF_A_SWITCH.into_iter().filter(is_drawn) {
            let Reply::Switches(shown) = client.ask(&show(what))? else { return Err(client.unexpected_reply()) };
            for (switch, shown) in switches.iter_mut().zip(shown) {
                switch.record_view(shown.state);
            }
        }
        let Reply::Lcores(lcores) = client.ask(&show(ShowView::Lcores))? else { return Err(client.unexpected_reply()) };
        let Reply::Events(events) = client.ask(&show(ShowView::Events))? else { return Err(client.unexpected_reply()) };
        Ok(Snapshot { at, hello, switches, lcores, events })
    }
}

fn show(what: ShowView) -> Request {
    Request::Show(ShowRequest { what, switch: None, ports: Vec::new() })
}

impl SwitchSnapshot {
    fn record_view(&mut self, state: State) {
        match state {
            State::Interfaces(rows) => self.interfaces = rows,
            State::PfcCounters(rows) => self.pfc = rows,
            State::PriorityGroups(rows) => self.groups = rows,
            State::Queues(rows) => self.queues = rows,
            State::BufferPools(rows) => self.pools = rows,
            State::BufferConfiguration(buffer) => self.buffer = Some(buffer),
            State::Policy(policy) => self.policy = Some(policy),
            State::FlowControl(rows) => self.flow_control = rows,
            State::Losses(rows) => self.losses = rows,
            State::PfcWatchdog(_) | State::PauseDelays(_) | State::Mac(_) | State::Lldp(_) => {}
        }
    }

    /// Returns a row for each port and class, with rates since `before`: an earlier state, and its age.
    pub(crate) fn rows(&self, before: Option<(&SwitchSnapshot, Duration)>) -> Vec<QueueRow> {
        let mut rows = Vec::new();
        for port in &self.interfaces {
            for class in 0..CLASSES {
                rows.push(self.row(port, class, before));
            }
        }
        rows
    }

    fn row(&self, interface: &Interface, class: usize, before: Option<(&SwitchSnapshot, Duration)>) -> QueueRow {
        let name = &interface.port;
        let group = self.groups.iter().find(|row| row.port == *name);
        let queue = self.queues.iter().find(|row| row.port == *name);
        let pfc = self.pfc.iter().find(|row| row.port == *name);
        let limit = self.buffer.iter().flat_map(|buffer| &buffer.queues);
        let limit = limit.clone().find(|queue| queue.port == *name && queue.class == class);
        let is_lossless = limit.is_some_and(|queue| queue.lossless);
        let per_second = |now: Option<u64>, then: &dyn Fn(&SwitchSnapshot) -> Option<u64>| {
            let (before, span) = before?;
            let seconds = span.as_secs_f64();
            // `None` for counters cleared between the snapshots.
            let since = now?.checked_sub(then(before)?)?;
            (seconds > 0.0).then(|| since as f64 / seconds)
        };
        let received = |of: &SwitchSnapshot| of.groups.iter().find(|row| row.port == *name).map(|row| row.bytes[class]);
        let sent = |of: &SwitchSnapshot| of.queues.iter().find(|row| row.port == *name).map(|row| row.bytes[class]);
        let tx_paused =
            |of: &SwitchSnapshot| of.pfc.iter().find(|row| row.port == *name).map(|row| row.tx_paused_us[class]);
        let rx_paused =
            |of: &SwitchSnapshot| of.pfc.iter().find(|row| row.port == *name).map(|row| row.rx_paused_us[class]);
        let share = |microseconds: Option<f64>| microseconds.map(|us| (us / 1e6).min(1.0));
        let at = |values: Option<&[u64; CLASSES]>| values.map_or(0, |values| values[class]);
        let (frames_in, frames_out) = (at(group.map(|row| &row.frames)), at(queue.map(|row| &row.frames)));
        let pauses = at(pfc.map(|row| &row.rx)) + at(pfc.map(|row| &row.tx)) + at(pfc.map(|row| &row.rx_pauses));
        let egress = at(queue.map(|row| &row.held_bytes));
        QueueRow {
            port: name.clone(),
            class,
            is_lossless,
            link: link(interface),
            rx_bps: per_second(received(self), &received).map(|bytes| bytes * 8.0),
            tx_bps: per_second(sent(self), &sent).map(|bytes| bytes * 8.0),
            shared: at(group.map(|row| &row.private_bytes)) + at(group.map(|row| &row.shared_bytes)),
            headroom: at(group.map(|row| &row.headroom_bytes)),
            threshold: limit.filter(|_| is_lossless).map(|queue| queue.threshold_bytes),
            egress,
            tx_paused: share(per_second(tx_paused(self), &tx_paused)),
            rx_paused: share(per_second(rx_paused(self), &rx_paused)),
            states: self.states(interface, class),
            is_used: frames_in > 0 || frames_out > 0 || egress > 0 || pauses > 0,
        }
    }

    fn states(&self, interface: &Interface, class: usize) -> Vec<String> {
        let mut states = Vec::new();
        if interface.forced_pause.contains(&class) {
            states.push("forced".to_owned());
        }
        let policy = self.policy.iter().flat_map(|policy| &policy.queues);
        if let Some(queue) = policy.clone().find(|queue| queue.port == interface.port && queue.class == class) {
            match (queue.port_off, queue.off) {
                (true, _) => states.push("portOFF".to_owned()),
                (false, true) => states.push("OFF".to_owned()),
                (false, false) => {}
            }
            if queue.gauges.get("victim").is_some_and(|victim| *victim > 0) {
                states.push("victim".to_owned());
            }
        }
        let control =
            self.flow_control.iter().filter(|port| port.port == interface.port).flat_map(|port| &port.classes);
        let rate = control.clone().find(|of| of.class == class).and_then(|of| of.rate_rx_bps);
        if let Some(rate) = rate.filter(|rate| interface.rate_bps.is_some_and(|line| *rate < line)) {
            states.push(format!("<{}", format_rate(rate as f64)));
        }
        states
    }
}

fn link(interface: &Interface) -> char {
    match (interface.state.as_str(), interface.link_up) {
        ("down", _) => 'X',
        ("blocked", _) => 'B',
        (_, true) => 'U',
        (_, false) => 'D',
    }
}

/// `9.87G`, in five characters at most.
pub(crate) fn format_rate(bps: f64) -> String {
    scaled(bps, ["", "K", "M", "G", "T"])
}

/// `746K`, in five characters at most.
pub(crate) fn format_bytes(bytes: u64) -> String {
    scaled(bytes as f64, ["", "K", "M", "G", "T"])
}

fn scaled(mut value: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit < units.len() - 1 {
        value /= 1e3;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 || value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", units[unit])
}
