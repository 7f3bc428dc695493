//! Run-time changes of switches: keys of their files, set by clients or read from the files again.
//!
//! The running configuration is kept as a file's text ([`Document`]). A change is made in a copy of it, which is then read and checked as
//! at the start, with the same messages. [`apply::check`] compares it with the running switch, and only then do lcores receive it. So a
//! change takes effect as a whole, or not at all.

mod apply;
mod document;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_config::{ConfigErrors, SwitchConfig, flow_control_restart_reason, port_of_key, restart_reason};
use weir_control::protocol::{ErrorReply, ErrorReplyKind};
use weir_control::runtime_config::{
    Assignment, Change, ChangeOutcome, ChangeReport, Configuration, Difference, Differences,
};
use weir_dpdk_driver::RunningSwitches;
use weir_mmu::policy::BUFFER_POLICIES;
use weir_switch_core::flow_control;
use weir_units::{Class, ClassSet};

use document::Document;

/// Running configurations of a process's switches.
pub(crate) struct RuntimeConfigs {
    switches: Vec<ConfiguredSwitch>,
    /// Configuration of each switch.
    configs: Rc<[SwitchConfig]>,
}

/// Switch with its running configuration and the origin of that.
struct ConfiguredSwitch {
    /// Configuration at the start.
    started: SwitchConfig,
    /// Path of its file.
    file: PathBuf,
    now: RunningConfig,
    /// The file's text when it was last read.
    read: String,
    /// Keys that are to come back.
    temporary: BTreeMap<String, TemporaryValue>,
}

/// Complete changeable configuration of a switch.
#[derive(Clone)]
struct RunningConfig {
    config: SwitchConfig,
    document: Document,
    /// Classes that a port's peer is to pause, by the port's name: no key of a file.
    pauses: BTreeMap<String, ClassSet>,
}

/// A value that holds for a time.
struct TemporaryValue {
    until: Instant,
    /// Value to restore; `None` is the default.
    before: Option<String>,
}

/// Values of keys before they changed, as in a file.
type PreviousValues = BTreeMap<String, Option<String>>;

/// The value that leaves a key to its default.
pub(crate) const DEFAULT: &str = "default";
/// The last part of the keys that force a PAUSE: `ports.p0.pause`.
const PAUSE: &str = "pause";

impl RuntimeConfigs {
    /// Creates the state of switches as they were started.
    pub(crate) fn new(switches: &[SwitchConfig]) -> RuntimeConfigs {
        let configured = |config: &SwitchConfig| {
            let file = PathBuf::from(config.source.name());
            ConfiguredSwitch {
                started: config.clone(),
                file: std::path::absolute(&file).unwrap_or(file),
                now: RunningConfig {
                    config: config.clone(),
                    document: Document::parse(config.source.text()).unwrap_or_default(),
                    pauses: BTreeMap::new(),
                },
                read: config.source.text().to_owned(),
                temporary: BTreeMap::new(),
            }
        };
        RuntimeConfigs { switches: switches.iter().map(configured).collect(), configs: switches.into() }
    }

    /// Running configuration of each switch.
    pub(crate) fn configs(&self) -> &Rc<[SwitchConfig]> {
        &self.configs
    }

    fn note_configs(&mut self) {
        self.configs = self.switches.iter().map(|configured| configured.now.config.clone()).collect();
    }

    /// Gives keys of switch `index` other values: all or none.
    ///
    /// # Errors
    /// There is no such key, a value is wrong, or one can't come into force while the switch runs.
    pub(crate) fn set(
        &mut self,
        running: &RunningSwitches,
        index: usize,
        changes: &[Assignment],
        lasts: Option<Duration>,
    ) -> Result<ChangeReport, ErrorReply> {
        let configured = &mut self.switches[index];
        let mut wanted = configured.now.clone();
        for Assignment { key, value } in changes {
            let value = value.as_deref().filter(|value| value.trim() != DEFAULT);
            wanted.set(key, value).map_err(invalid)?;
        }
        let stays = |key: &str, why: &str| {
            let help = "write it in the switch's file, and start the switch anew";
            invalid(format!("`{key}` can't change while the switch runs: {why}; {help}"))
        };
        if let Err(errors) = wanted.read(&configured.started) {
            // If the policy itself changed, an error in the other policy's table is not the message to show.
            return Err(match changes.iter().find(|change| configured.names_another_policy(change)) {
                Some(change) => {
                    stays(&change.key, restart_reason(&configured.started, &change.key).unwrap_or_default())
                }
                None => invalid(errors.render(false)),
            });
        }
        let keys = configured.now.differing(&wanted);
        if let Some((key, why)) = keys.iter().find_map(|key| Some((key, configured.why_not(&wanted, key)?))) {
            return Err(stays(key, why));
        }
        let (mut notes, before) = configured.apply_config(running, index, wanted, &keys).map_err(invalid)?;
        configured.record_expiry(changes, &before, lasts, &mut notes);
        let named: BTreeSet<String> =
            changes.iter().map(|change| configured.now.document.written(&change.key)).collect();
        // A table that was set as a whole is reported by its keys.
        let all =
            named.iter().filter(|key| configured.now.written(key).is_some() || before.contains_key(*key)).chain(&keys);
        let all: BTreeSet<&String> = all.collect();
        let changes = all.into_iter().map(|key| configured.change(key, &before)).collect();
        let changed = configured.changed(None, changes, notes);
        self.note_configs();
        Ok(changed)
    }

    /// The switches whose files are not as they were when they were last read.
    pub(crate) fn changed_files(&self) -> Vec<usize> {
        let has_changed = |configured: &ConfiguredSwitch| {
            // An unreadable file counts as changed; the reader reports the error.
            std::fs::read_to_string(configured.started.source.name()).map_or(true, |text| text != configured.read)
        };
        (0..self.switches.len()).filter(|index| has_changed(&self.switches[*index])).collect()
    }

    /// Reads the files of these switches again and applies the changes that a running switch allows.
    ///
    /// # Errors
    /// A file can't be read, or is wrong: nothing is applied then.
    pub(crate) fn reload(
        &mut self,
        running: &RunningSwitches,
        chosen: &[usize],
    ) -> Result<Vec<ChangeReport>, ErrorReply> {
        let mut files = Vec::new();
        for index in chosen {
            files.push(self.switches[*index].read_file().map_err(|errors| invalid(errors.render(false)))?);
        }
        let mut together: Vec<SwitchConfig> =
            self.switches.iter().map(|configured| configured.now.config.clone()).collect();
        for (index, file) in chosen.iter().zip(&files) {
            together[*index] = file.config.clone();
        }
        weir_config::check_process(&together).map_err(|errors| invalid(errors.render(false)))?;
        let each = chosen.iter().zip(files);
        let all = each.map(|(index, file)| self.switches[*index].reload(running, *index, &file)).collect();
        self.note_configs();
        Ok(all)
    }

    /// Restores values whose temporary settings have expired.
    pub(crate) fn expire(&mut self, running: &RunningSwitches) -> Vec<(usize, ChangeReport)> {
        let now = Instant::now();
        let due = |configured: &ConfiguredSwitch| configured.temporary.values().any(|temporary| temporary.until <= now);
        let mut all = Vec::new();
        for (index, configured) in self.switches.iter_mut().enumerate().filter(|(_, configured)| due(configured)) {
            all.extend(configured.expire(running, index, now).into_iter().map(|changed| (index, changed)));
        }
        if !all.is_empty() {
            self.note_configs();
        }
        all
    }

    /// Running configurations of these switches.
    pub(crate) fn configurations(&self, chosen: &[usize]) -> Vec<Configuration> {
        let of = |configured: &ConfiguredSwitch| Configuration {
            switch: configured.started.name.clone(),
            file: configured.file.display().to_string(),
            text: configured.lasting().document.text(),
            for_a_time: configured.temporary.keys().filter(|key| !is_pause(key)).cloned().collect(),
        };
        chosen.iter().map(|index| of(&self.switches[*index])).collect()
    }

    /// Differences between these switches' files and their running configurations.
    ///
    /// # Errors
    /// A file can't be read, or is wrong.
    pub(crate) fn differences(&self, chosen: &[usize]) -> Result<Vec<Differences>, ErrorReply> {
        let of = |configured: &ConfiguredSwitch| {
            let file = configured.read_file().map_err(|errors| invalid(errors.render(false)))?;
            let difference = |key: String| Difference {
                file: file.value(&key),
                running: configured.now.value(&key),
                needs_restart: configured.why_not(&file, &key).map(str::to_owned),
                key,
            };
            Ok(Differences {
                switch: configured.started.name.clone(),
                file: configured.file.display().to_string(),
                keys: configured.now.differing(&file).into_iter().map(difference).collect(),
            })
        };
        chosen.iter().map(|index| of(&self.switches[*index])).collect()
    }
}

impl ConfiguredSwitch {
    /// The file as it is now.
    fn read_file(&self) -> Result<RunningConfig, ConfigErrors> {
        // By the name that it was given by, which its messages have.
        let config = weir_config::load(self.started.source.name().as_ref())?;
        flow_control::check(&config)?;
        let document = Document::parse(config.source.text()).unwrap_or_default();
        Ok(RunningConfig { config, document, pauses: self.now.pauses.clone() })
    }

    /// Reason why a key can't take another configuration's value while the switch runs, if so.
    fn why_not(&self, wanted: &RunningConfig, key: &str) -> Option<&'static str> {
        if is_pause(key) {
            return None;
        }
        let (ports, wanted_ports) = (self.now.document.ports(), wanted.document.ports());
        if key == PORTS
            || key.strip_prefix("ports.").is_some_and(|key| !belongs(key, &ports) || !belongs(key, &wanted_ports))
        {
            return Some("ports are opened and numbered at the start");
        }
        let another_policy = self.now.config.buffer.policy.name() != wanted.config.buffer.policy.name();
        if another_policy && key.strip_prefix("buffer.").is_some_and(|key| key.contains('.')) {
            return restart_reason(&self.started, "buffer.policy");
        }
        restart_reason(&self.started, key).or_else(|| self.flow_control_obstacle(wanted, key))
    }

    /// Returns true if a change names a known policy other than the running one.
    fn names_another_policy(&self, Assignment { key, value }: &Assignment) -> bool {
        let named = value.as_deref().map(|value| value.trim().trim_matches(['"', '\'']));
        let is_another = |name: &str| {
            name != self.now.config.buffer.policy.name() && BUFFER_POLICIES.names().any(|known| known == name)
        };
        key == "buffer.policy" && named.is_some_and(is_another)
    }

    /// Reason why a port can't switch to another configuration's flow control, for a key of flow control.
    fn flow_control_obstacle(&self, wanted: &RunningConfig, key: &str) -> Option<&'static str> {
        let names = self.started.ports.iter().map(|port| &port.name);
        let (port, own) = port_of_key(key.strip_prefix("ports.")?, names)?;
        let is_about_it = own == "flow_control" || own.starts_with("flow_control.");
        let wanted = wanted.config.ports.get(port).filter(|_| is_about_it)?;
        flow_control_restart_reason(&self.started, port, &wanted.flow_control)
    }

    fn reload(&mut self, running: &RunningSwitches, index: usize, file: &RunningConfig) -> ChangeReport {
        self.read = file.config.source.text().to_owned();
        let keys = self.now.differing(file);
        let reasons: BTreeMap<&String, &'static str> =
            keys.iter().filter_map(|key| Some((key, self.why_not(file, key)?))).collect();
        let live: BTreeSet<String> = keys.iter().filter(|key| !reasons.contains_key(key)).cloned().collect();
        let mut wanted = file.clone();
        let mut refused = None;
        if !reasons.is_empty() {
            // Running configuration with the changeable keys of the file.
            wanted = self.now.clone();
            let set = live.iter().try_for_each(|key| wanted.set(key, file.written(key).as_deref()));
            let read = set.and_then(|()| wanted.read(&self.started).map_err(|errors| errors.to_string()));
            refused = read.err().map(|why| format!("it does not fit the values that the switch keeps: {why}"));
        }
        let held_against = self.now.clone();
        let mut notes = Vec::new();
        if refused.is_none() {
            match self.apply_config(running, index, wanted, &live) {
                Ok((messages, _)) => notes = messages,
                Err(why) => refused = Some(why),
            }
        }
        let change = |key: &String| {
            let (outcome, why) = match (reasons.get(key), &refused) {
                (Some(why), _) => (ChangeOutcome::NeedsRestart, Some((*why).to_owned())),
                (None, Some(why)) => (ChangeOutcome::Refused, Some(why.clone())),
                (None, None) => (ChangeOutcome::Applied, None),
            };
            Change { key: key.clone(), was: held_against.value(key), is: file.value(key), outcome, why }
        };
        let changes = keys.iter().map(change).collect();
        if refused.is_none() {
            // The file's values now hold for all changeable keys.
            self.temporary.retain(|key, _| is_pause(key));
        }
        self.changed(Some(self.file.display().to_string()), changes, notes)
    }

    /// Returns the configuration with all temporary settings reverted.
    fn lasting(&self) -> RunningConfig {
        let mut lasting = self.now.clone();
        for (key, TemporaryValue { before, .. }) in &self.temporary {
            // The key was set, so it can be.
            let _ = lasting.set(key, before.as_deref());
        }
        lasting
    }

    fn expire(&mut self, running: &RunningSwitches, index: usize, now: Instant) -> Vec<ChangeReport> {
        let due: Vec<String> =
            self.temporary.iter().filter(|(_, temporary)| temporary.until <= now).map(|(key, _)| key.clone()).collect();
        let back: BTreeMap<String, TemporaryValue> =
            due.into_iter().filter_map(|key| self.temporary.remove_entry(&key)).collect();
        let all: Vec<&String> = back.keys().collect();
        match self.take_back(running, index, &back, &all) {
            Ok(changed) => vec![changed],
            // A value conflicts with later settings; the others may still be restored.
            Err(_) => all
                .iter()
                .map(|key| match self.take_back(running, index, &back, &[key]) {
                    Ok(changed) => changed,
                    Err(why) => {
                        let (was, is) = (self.now.value(key), back[*key].before.clone());
                        let (key, outcome, why) = ((*key).clone(), ChangeOutcome::Refused, Some(why));
                        self.changed(None, vec![Change { key, was, is, outcome, why }], Vec::new())
                    }
                })
                .collect(),
        }
    }

    fn take_back(
        &mut self,
        running: &RunningSwitches,
        index: usize,
        back: &BTreeMap<String, TemporaryValue>,
        keys: &[&String],
    ) -> Result<ChangeReport, String> {
        let mut wanted = self.now.clone();
        for key in keys {
            wanted.set(key, back[*key].before.as_deref())?;
        }
        wanted.read(&self.started).map_err(|errors| errors.to_string())?;
        let differing = self.now.differing(&wanted);
        let (notes, before) = self.apply_config(running, index, wanted, &differing)?;
        let changes = keys.iter().map(|key| self.change(key, &before)).collect();
        Ok(self.changed(None, changes, notes))
    }

    /// Applies a checked configuration that differs in `keys`. Returns notes on the consequences, and the keys' old values.
    fn apply_config(
        &mut self,
        running: &RunningSwitches,
        index: usize,
        wanted: RunningConfig,
        keys: &BTreeSet<String>,
    ) -> Result<(Vec<String>, PreviousValues), String> {
        let notes = apply::apply(running, index, &self.now, &wanted, keys)?;
        let before = keys.iter().map(|key| (key.clone(), self.now.written(key))).collect();
        self.now = wanted;
        Ok((notes, before))
    }

    /// Records the temporary values of a request, and cancels restorations that it replaces.
    fn record_expiry(
        &mut self,
        changes: &[Assignment],
        before: &PreviousValues,
        lasts: Option<Duration>,
        notes: &mut Vec<String>,
    ) {
        let named = changes.iter().map(|change| self.now.document.written(&change.key));
        let keys: BTreeSet<String> = named.chain(before.keys().cloned()).collect();
        for key in keys {
            let pending = self.temporary.remove(&key);
            match (lasts, pending) {
                // Of several temporary values in a row, the value before the first is restored.
                (Some(lasts), Some(TemporaryValue { before, .. })) => {
                    self.temporary.insert(key, TemporaryValue { until: Instant::now() + lasts, before });
                }
                (Some(lasts), None) => {
                    if let Some(before) = before.get(&key).cloned() {
                        self.temporary.insert(key, TemporaryValue { until: Instant::now() + lasts, before });
                    }
                }
                (None, Some(_)) => notes.push(format!("{key} is no longer temporary and now stays as it is")),
                _ => {}
            }
        }
        if let Some(lasts) = lasts {
            notes.push(format!("the previous value is restored after {} s", lasts.as_secs_f64()));
        }
    }

    fn change(&self, key: &str, before: &PreviousValues) -> Change {
        let is = self.now.value(key);
        let (was, outcome) = match before.get(key) {
            Some(before) => (before.as_deref().map(plain), ChangeOutcome::Applied),
            None => (is.clone(), ChangeOutcome::Unchanged),
        };
        Change { key: key.to_owned(), was, is, outcome, why: None }
    }

    fn changed(&self, file: Option<String>, changes: Vec<Change>, notes: Vec<String>) -> ChangeReport {
        ChangeReport { switch: self.started.name.clone(), file, changes, notes }
    }
}

impl RunningConfig {
    /// Gives a key another value, or leaves it to its default. Call [`RunningConfig::read`] then.
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        let Some(port) = pause_of(key) else { return self.document.set(key, value) };
        let ports = self.document.ports();
        let Some(config) = self.config.ports.iter().find(|config| config.name == port) else {
            return Err(format!("no port is named `{port}`; the ports are: {}", ports.join(", ")));
        };
        if let Some(real) = config.clone_of() {
            return Err(format!(
                "`{key}`: port {port} is a clone of {real}, whose peer is paused by ports.{real}.{PAUSE}"
            ));
        }
        if !config.flow_control.message_kind().advertises_xoff() {
            let kind = config.flow_control.kind();
            return Err(format!("`{key}`: port {port} speaks {kind}, which has no PAUSE that its peer would obey"));
        }
        let classes = classes(value.unwrap_or("none")).ok_or_else(|| {
            format!(
                "`{key}`: write classes such as 3 or 3,4, or all, or none, in place of {}",
                value.unwrap_or_default()
            )
        })?;
        if classes.is_empty() {
            self.pauses.remove(port)
        } else {
            self.pauses.insert(port.to_owned(), classes)
        };
        Ok(())
    }

    /// Reads and checks the text, as at the start.
    fn read(&mut self, started: &SwitchConfig) -> Result<(), ConfigErrors> {
        let name = started.source.name();
        // The name that a switch has from its file stays.
        let name = if name.ends_with(".toml") { format!("{name} (running)") } else { name.to_owned() };
        let config = weir_config::parse(&name, &self.document.text())?;
        flow_control::check(&config)?;
        self.config = config;
        Ok(())
    }

    /// The value of a key as in a file; `None` is the default.
    fn written(&self, key: &str) -> Option<String> {
        match pause_of(key) {
            Some(port) => self.pauses.get(port).map(|classes| {
                let classes: Vec<String> = classes.iter().map(|class| class.index().to_string()).collect();
                classes.join(",")
            }),
            None if key == PORTS => Some(self.document.ports().join(", ")),
            None => self.document.get(key),
        }
    }

    /// The value of a key as it is shown.
    fn value(&self, key: &str) -> Option<String> {
        self.written(key).as_deref().map(plain)
    }

    /// Keys whose values differ from another configuration's.
    fn differing(&self, other: &RunningConfig) -> BTreeSet<String> {
        let (own, others) = (self.document.keys(), other.document.keys());
        let keys = own.keys().chain(others.keys()).filter(|key| own.get(*key) != others.get(*key)).cloned();
        let ports = self.pauses.keys().chain(other.pauses.keys());
        let pauses = ports.filter(|port| self.pauses.get(*port) != other.pauses.get(*port));
        let order = (self.document.ports() != other.document.ports()).then(|| PORTS.to_owned());
        keys.chain(pauses.map(|port| format!("{PORTS}.{port}.{PAUSE}"))).chain(order).collect()
    }
}

/// The list of ports as a whole: their names, in order.
const PORTS: &str = "ports";

/// The port of a key that forces a PAUSE.
fn pause_of(key: &str) -> Option<&str> {
    key.strip_prefix("ports.")?.strip_suffix(".pause")
}

fn is_pause(key: &str) -> bool {
    pause_of(key).is_some()
}

/// Whether a key below `ports.` is one of these ports'.
fn belongs(key: &str, ports: &[String]) -> bool {
    port_of_key(key, ports).is_some()
}

/// `3`, `3,4`, `[3, 4]`, `all`, `none`.
fn classes(text: &str) -> Option<ClassSet> {
    let text = text.trim().trim_matches('"');
    match text {
        "none" => return Some(ClassSet::EMPTY),
        "all" => return Some(ClassSet::ALL),
        _ => {}
    }
    let list = text.strip_prefix('[').map_or(Some(text), |text| text.strip_suffix(']'))?;
    let class = |text: &str| text.trim().parse::<u8>().ok().filter(|class| *class < 8).map(Class::new);
    list.split(',').map(class).collect::<Option<Vec<Class>>>().map(ClassSet::from_iter)
}

/// A text without its quotes.
fn plain(written: &str) -> String {
    match written.parse() {
        Ok(toml_edit::Value::String(text)) => text.into_value(),
        _ => written.to_owned(),
    }
}

fn invalid(message: impl Into<String>) -> ErrorReply {
    ErrorReply::new(ErrorReplyKind::Invalid, message)
}

#[cfg(test)]
mod tests;
