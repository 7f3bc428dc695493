//! Control session with the switch under measurement.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_control::Client;
use weir_control::capture::CaptureRequest;
use weir_control::protocol::{Reply, Request, ShowRequest, ShowView};
use weir_control::runtime_config::{Assignment, ChangeOutcome, SetRequest, SwitchSelector};
use weir_control::state::{Delay, Interface, Lcore, State};
use weir_experiments::Failure;
use weir_units::{BitRate, Class, Span};

use super::stream::{CapturedFrames, SNAPLEN, read};
use crate::control::{Target, failure};

/// Control session with a running switch.
pub(super) struct Session {
    target: Target,
    client: Client,
    /// Running configuration.
    pub(super) switch: SwitchConfig,
    pauses: u64,
}

/// Statistics of a delay in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

/// Least time watched before a pause.
const BEFORE: Duration = Duration::from_millis(10);
/// Bound of the varying time added to [`BEFORE`], in milliseconds, so that pauses do not synchronise with periodic traffic.
const MORE_MS: u64 = 11;
/// Time after a pause for its end to pass.
const AFTER: Duration = Duration::from_millis(5);
/// Key of a policy's table for a measured delay.
pub(super) const MEASURED_KEY: &str = "measured_delay";
/// Safety margin of a pause's expiry: it bounds the pause if this command is killed.
const SAFETY: Duration = Duration::from_secs(2);

impl Percentiles {
    /// Returns the percentiles of a delay; `None` if none was measured.
    fn from_delay(delay: &Delay) -> Option<Percentiles> {
        let Delay { p50_ns, p99_ns, p999_ns, max_ns, .. } = *delay;
        (delay.count > 0).then_some(Percentiles { p50_ns, p99_ns, p999_ns, max_ns })
    }
}

impl Session {
    pub(super) fn begin(target: &Target) -> Result<Session, Failure> {
        let mut client = target.connect()?;
        let selector = SwitchSelector { switch: target.switch.clone() };
        let Reply::Configurations(all) = client.ask(&Request::Configuration(selector)).map_err(failure)? else {
            return Err(failure(client.unexpected_reply()));
        };
        let [running] = &all[..] else {
            let names: Vec<&str> = all.iter().map(|running| running.switch.as_str()).collect();
            let names = names.join(", ");
            return Err(Failure::Argument(format!(
                "several switches run, and one is measured: choose with --switch: {names}"
            )));
        };
        let switch = weir_config::parse(&running.file, &running.text)?;
        if switch.time_dilation != 1 {
            return Err(Failure::Argument(format!(
                "switch {} runs with time_dilation = {}: its seconds are not those of its peers, whose delays are to be measured",
                switch.name, switch.time_dilation
            )));
        }
        Ok(Session { target: target.clone(), client, switch, pauses: 0 })
    }

    /// Returns the ports to measure, each with its class.
    pub(super) fn ports(&mut self, wanted: &[String], class: Option<u8>) -> Result<Vec<(usize, u8)>, Failure> {
        let wrong = |message: String| Err(Failure::Argument(message));
        let lossless = self.switch.classes.lossless;
        if let Some(class) = class.filter(|class| !lossless.contains(Class::new(*class))) {
            return wrong(format!("--class {class} is not lossless: its senders are never paused"));
        }
        if lossless.is_empty() {
            return wrong("no class of the switch is lossless: its senders are never paused".to_owned());
        }
        let State::Interfaces(interfaces) = self.show(ShowView::Interfaces)? else {
            return Err(failure(self.client.unexpected_reply()));
        };
        let State::PriorityGroups(groups) = self.show(ShowView::PriorityGroups)? else {
            return Err(failure(self.client.unexpected_reply()));
        };
        let number = |name: &str| self.switch.ports.iter().position(|port| port.name == name);
        if let Some(name) = wanted.iter().find(|name| number(name).is_none()) {
            let names: Vec<&str> = self.switch.ports.iter().map(|port| port.name.as_str()).collect();
            return wrong(format!("--port {name}: there is no such port; there are {}", names.join(", ")));
        }
        let mut ports = Vec::new();
        for port in self.switch.real_ports() {
            let config = &self.switch.ports[port];
            let is_wanted = wanted.contains(&config.name);
            let interface = interfaces.iter().find(|interface| interface.port == config.name);
            if !wanted.is_empty() && !is_wanted {
                continue;
            }
            match unmeasurable_reason(config.rate, interface, config.flow_control.kind()) {
                Some(why) if is_wanted => return wrong(format!("--port {}: {why}", config.name)),
                Some(_) => continue,
                None => {}
            }
            let received = groups.iter().find(|groups| groups.port == config.name).map(|groups| groups.frames);
            let frames = |class: &Class| received.map_or(0, |frames| frames[class.index()]);
            let most = lossless.iter().min_by_key(|class| std::cmp::Reverse(frames(class)));
            ports.push((port, class.unwrap_or_else(|| most.map_or(0, |class| class.index() as u8))));
        }
        if let Some(clone) =
            wanted.iter().filter_map(|name| number(name)).find(|port| !ports.iter().any(|(at, _)| at == port))
        {
            return wrong(format!("--port {}: a clone has no peer", self.switch.ports[clone].name));
        }
        if ports.is_empty() {
            return wrong("no port has a link, a rate, and PFC or PAUSE".to_owned());
        }
        Ok(ports)
    }

    fn show(&mut self, what: ShowView) -> Result<State, Failure> {
        let show = ShowRequest { what, switch: Some(self.switch.name.clone()), ports: Vec::new() };
        match self.client.ask(&Request::Show(show)).map_err(failure)? {
            Reply::Switches(mut shown) if shown.len() == 1 => Ok(shown.remove(0).state),
            _ => Err(failure(self.client.unexpected_reply())),
        }
    }

    /// Reads the process's lcores; returns them with the instant.
    pub(super) fn lcores(&mut self) -> Result<(Vec<Lcore>, Instant), Failure> {
        let show = ShowRequest { what: ShowView::Lcores, switch: None, ports: Vec::new() };
        match self.client.ask(&Request::Show(show)).map_err(failure)? {
            Reply::Lcores(lcores) => Ok((lcores, Instant::now())),
            _ => Err(failure(self.client.unexpected_reply())),
        }
    }

    /// Delays from Xoff to PAUSE, and from a peer's PAUSE to obeying it, since the start; `None` of a delay never measured.
    pub(super) fn delays(&mut self) -> Result<[Option<Percentiles>; 2], Failure> {
        let State::PauseDelays(delays) = self.show(ShowView::PauseDelays)? else {
            return Err(failure(self.client.unexpected_reply()));
        };
        Ok([&delays.message, &delays.reaction].map(Percentiles::from_delay))
    }

    /// Pauses a class once; returns the frames that passed the port from before the pause to after it.
    pub(super) fn pause_once(
        &mut self,
        port: usize,
        class: Class,
        rate: BitRate,
        hold: Duration,
    ) -> Result<CapturedFrames, Failure> {
        let name = self.switch.ports[port].name.clone();
        let capture = CaptureRequest {
            switch: Some(self.switch.name.clone()),
            ports: vec![name.clone()],
            classes: vec![class.index() as u8],
            snaplen: Some(SNAPLEN),
            for_ms: Some((hold + SAFETY * 2).as_millis() as u64),
            ..CaptureRequest::default()
        };
        let mut capturing = self.target.connect()?;
        match capturing.ask(&Request::Capture(capture)).map_err(failure)? {
            Reply::Capturing(_) => {}
            _ => return Err(failure(capturing.unexpected_reply())),
        }
        let (mut frames, closer) = capturing.follow()?;
        let reader = thread::spawn(move || read(&mut frames, class, rate));
        self.pauses += 1;
        thread::sleep(BEFORE + Duration::from_millis(self.pauses * 7 % MORE_MS));
        let paused = self.set_pause(&name, &class.index().to_string(), Some(hold + SAFETY));
        if paused.is_ok() {
            thread::sleep(hold);
            self.set_pause(&name, "none", None)?;
            thread::sleep(AFTER);
        }
        // The error is ignored: the capture may already have ended.
        let _ = closer.end();
        let seen = reader.join().map_err(|_| Failure::Run("the capture's reader broke off: a bug".to_owned()))?;
        paused?;
        match seen {
            Ok(seen) if seen.is_complete => Ok(seen),
            Ok(_) => Err(Failure::Run("connection to the switch lost".to_owned())),
            Err(error) => Err(error.into_failure("the capture".as_ref())),
        }
    }

    fn set_pause(&mut self, port: &str, classes: &str, lasts: Option<Duration>) -> Result<(), Failure> {
        self.set(format!("ports.{port}.pause"), classes.to_owned(), lasts)
    }

    /// Sets the delay of adaptive headroom in the running switch.
    pub(super) fn set_adaptive_delay(&mut self, delay: Span) -> Result<(), Failure> {
        let key = format!("buffer.{}.{MEASURED_KEY}", self.switch.buffer.policy.name());
        self.set(key, format!("{}ns", delay.as_nanos()), None)
    }

    fn set(&mut self, key: String, value: String, lasts: Option<Duration>) -> Result<(), Failure> {
        let set = SetRequest {
            switch: Some(self.switch.name.clone()),
            changes: vec![Assignment { key, value: Some(value) }],
            for_ms: lasts.map(|lasts| lasts.as_millis() as u64),
        };
        let Reply::Changed(all) = self.client.ask(&Request::Set(set)).map_err(failure)? else {
            return Err(failure(self.client.unexpected_reply()));
        };
        let refused =
            all.iter().flat_map(|changed| &changed.changes).find(|change| change.outcome != ChangeOutcome::Applied);
        match refused {
            Some(change) if change.outcome == ChangeOutcome::Unchanged => Ok(()),
            Some(change) => {
                Err(Failure::Run(format!("{}: {}", change.key, change.why.as_deref().unwrap_or("not applied"))))
            }
            None => Ok(()),
        }
    }
}

/// Reason why a port can't be measured.
fn unmeasurable_reason(rate: Option<BitRate>, interface: Option<&Interface>, flow_control: &str) -> Option<String> {
    if !matches!(flow_control, "pfc" | "pause") {
        return Some(format!("its flow control is {flow_control}: only PFC and PAUSE stop a peer"));
    }
    if rate.is_none() {
        return Some("it has no `rate` in its file, from which Φ is computed".to_owned());
    }
    let interface = interface?;
    if !interface.link_up || interface.state != "up" {
        return Some("it has no link, or is not open".to_owned());
    }
    if !interface.forced_pause.is_empty() {
        return Some(format!("`weir set` already pauses its peer: ports.{}.pause=none ends that", interface.port));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_never_was_has_no_percentiles() {
        let delay =
            Delay { count: 5, p50_ns: 1_000, p99_ns: 2_000, p999_ns: 3_500, max_ns: 4_000_000, ..Delay::default() };
        let expected = Percentiles { p50_ns: 1_000, p99_ns: 2_000, p999_ns: 3_500, max_ns: 4_000_000 };
        assert_eq!(Percentiles::from_delay(&delay), Some(expected));
        assert_eq!(Percentiles::from_delay(&Delay::default()), None);
    }

    #[test]
    fn a_port_that_cannot_be_measured_has_a_reason() {
        let interface = |link_up, forced_pause: &[usize]| Interface {
            port: "p0".into(),
            device: String::new(),
            link: None,
            link_up,
            state: "up".into(),
            forced_pause: forced_pause.to_vec(),
            rate_bps: None,
            flow_control: String::new(),
            rx: Default::default(),
            tx: Default::default(),
            stations: Default::default(),
        };
        let rate = Some(BitRate::gbps(1));
        let reason =
            |rate, interface: Interface, kind| unmeasurable_reason(rate, Some(&interface), kind).unwrap_or_default();
        assert_eq!(reason(rate, interface(true, &[]), "pfc"), "");
        assert!(reason(rate, interface(true, &[]), "cbfc").contains("flow control is cbfc"));
        assert!(reason(None, interface(true, &[]), "pfc").contains("no `rate`"));
        assert!(reason(rate, interface(false, &[]), "pfc").contains("no link"));
        assert!(reason(rate, interface(true, &[3]), "pause").contains("ports.p0.pause=none"));
    }
}
