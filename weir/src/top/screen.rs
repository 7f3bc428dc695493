//! Screen of `weir top`, for at least 80 columns and 24 lines.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use weir_control::state::LossPlace;

use super::snapshot::{QueueRow, Snapshot, SwitchSnapshot, format_bytes, format_rate};

/// Content of the lower part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Queues,
    Losses,
    Events,
    Lcores,
}

/// Order of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortOrder {
    Port,
    Held,
    Paused,
    Rate,
}

/// Appearance: glyphs and colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) glyphs: Glyphs,
    pub(crate) has_color: bool,
}

/// Letters of the bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glyphs {
    shared: char,
    headroom: char,
    free: char,
    threshold: char,
}

/// The screen's state.
pub(crate) struct Screen {
    theme: Theme,
    interval: Duration,
    now: Snapshot,
    before: Option<Snapshot>,
    /// Last snapshot received while the screen is frozen.
    next: Option<Snapshot>,
    is_still: bool,
    silence: Option<String>,
    switch: usize,
    view: View,
    order: SortOrder,
    /// Whether unused queues are shown too.
    is_all: bool,
    has_help: bool,
    scroll: usize,
}

impl View {
    pub(crate) const ALL: [View; 4] = [View::Queues, View::Losses, View::Events, View::Lcores];

    fn name(self) -> &'static str {
        match self {
            View::Queues => "queues",
            View::Losses => "losses",
            View::Events => "events",
            View::Lcores => "lcores",
        }
    }
}

impl SortOrder {
    const ALL: [SortOrder; 4] = [SortOrder::Port, SortOrder::Held, SortOrder::Paused, SortOrder::Rate];

    fn name(self) -> &'static str {
        match self {
            SortOrder::Port => "port",
            SortOrder::Held => "held",
            SortOrder::Paused => "paused",
            SortOrder::Rate => "rate",
        }
    }
}

impl Glyphs {
    pub(crate) const BLOCKS: Glyphs = Glyphs { shared: '█', headroom: '▒', free: '·', threshold: '│' };
    pub(crate) const ASCII: Glyphs = Glyphs { shared: '#', headroom: '+', free: '.', threshold: '|' };

    /// Returns block characters in a UTF-8 locale, else ASCII.
    pub(crate) fn of_locale() -> Glyphs {
        let names = ["LC_ALL", "LC_CTYPE", "LANG"];
        let locale = names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        if is_utf8 { Glyphs::BLOCKS } else { Glyphs::ASCII }
    }
}

impl Theme {
    fn color(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    fn bad(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn head(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn dim(self) -> Style {
        if self.has_color { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
    }
}

impl Screen {
    pub(crate) fn new(theme: Theme, interval: Duration, first: Snapshot) -> Screen {
        Screen {
            theme,
            interval,
            now: first,
            before: None,
            next: None,
            is_still: false,
            silence: None,
            switch: 0,
            view: View::Queues,
            order: SortOrder::Port,
            is_all: false,
            has_help: false,
            scroll: 0,
        }
    }

    /// Shows a snapshot, unless the screen is frozen.
    pub(crate) fn take(&mut self, snapshot: Snapshot) {
        self.silence = None;
        if self.is_still {
            self.next = Some(snapshot);
            return;
        }
        let is_another =
            snapshot.hello.process != self.now.hello.process || snapshot.hello.switches != self.now.hello.switches;
        let before = std::mem::replace(&mut self.now, snapshot);
        self.before = if is_another { None } else { Some(before) };
        self.switch = self.switch.min(self.now.switches.len().saturating_sub(1));
    }

    /// Records that the switch does not answer: the last snapshot stays, with this message.
    pub(crate) fn record_silence(&mut self, why: String) {
        self.silence = Some(why);
    }

    /// Selects the switch to show.
    pub(crate) fn choose(&mut self, name: &str) {
        self.switch = self.now.switches.iter().position(|switch| switch.name == name).unwrap_or(0);
    }

    pub(crate) fn next_switch(&mut self, by: isize) {
        let count = self.now.switches.len().max(1) as isize;
        self.switch = (self.switch as isize + by).rem_euclid(count) as usize;
        self.scroll = 0;
    }

    pub(crate) fn view(&mut self, view: View) {
        self.view = view;
        self.has_help = false;
        self.scroll = 0;
    }

    pub(crate) fn toggle_still(&mut self) {
        self.is_still = !self.is_still;
        if let Some(next) = self.next.take() {
            self.take(next);
        }
    }

    pub(crate) fn toggle_all(&mut self) {
        self.is_all = !self.is_all;
        self.scroll = 0;
    }

    pub(crate) fn toggle_help(&mut self) {
        self.has_help = !self.has_help;
    }

    pub(crate) fn shows_help(&self) -> bool {
        self.has_help
    }

    pub(crate) fn next_order(&mut self) {
        let at = SortOrder::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
        self.order = SortOrder::ALL[(at + 1) % SortOrder::ALL.len()];
        self.scroll = 0;
    }

    pub(crate) fn scroll(&mut self, by: isize) {
        self.scroll = self.scroll.saturating_add_signed(by);
    }

    /// Draws the whole screen.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        let pools = self.switch_now().map_or(0, |switch| switch.pools.len()) as u16;
        let heights = [Constraint::Length(1), Constraint::Length(pools), Constraint::Min(0), Constraint::Length(1)];
        let [head, buffers, body, foot] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(head.width)), head);
        frame.render_widget(Paragraph::new(self.pools(buffers.width)), buffers);
        if self.has_help {
            frame.render_widget(Paragraph::new(help()), body);
        } else {
            self.draw_body(frame, body);
        }
        frame.render_widget(Paragraph::new(self.foot(foot.width)), foot);
    }

    fn switch_now(&self) -> Option<&SwitchSnapshot> {
        self.now.switches.get(self.switch)
    }

    fn head(&self, width: u16) -> Line<'static> {
        let Some(switch) = self.switch_now() else { return Line::raw("weir top: no switch") };
        let policy = switch.policy.as_ref().map_or("", |policy| policy.policy.as_str());
        let mut text = format!(" {}  policy {policy}", switch.name);
        if self.now.switches.len() > 1 {
            text += &format!("  switch {} of {}", self.switch + 1, self.now.switches.len());
        }
        text += &format!("  process {}", self.now.hello.process);
        let state = match (&self.silence, self.is_still) {
            (Some(_), _) => "NO ANSWER".to_owned(),
            (None, true) => "STANDS STILL".to_owned(),
            (None, false) => format!("every {} s", self.interval.as_secs_f64()),
        };
        let room = usize::from(width).saturating_sub(state.len() + 2);
        Line::styled(format!("{text:<room$.room$} {state} "), self.theme.head())
    }

    fn pools(&self, width: u16) -> Vec<Line<'static>> {
        let Some(switch) = self.switch_now() else { return Vec::new() };
        let length = usize::from(width).saturating_sub(52).clamp(8, 60);
        let line = |pool: &weir_control::state::BufferPool| {
            // The watermark may be older than the pool's use.
            let highest = pool.watermark_bytes.max(pool.used_bytes);
            let of = format!("{} of {}", format_bytes(pool.used_bytes), format_bytes(pool.size_bytes));
            let most = format!("most {}", format_bytes(highest));
            let mut spans = vec![Span::raw(format!("{:<13.13} ", pool.pool.replace('_', " ")))];
            spans.extend(self.bar(length, pool.size_bytes, pool.used_bytes, 0, Some(highest)));
            spans.push(Span::raw(format!(" {of:<15} {most}")));
            Line::from(spans)
        };
        switch.pools.iter().map(line).collect()
    }

    /// Draws a bar of `length` letters for `full_scale`, with two parts and a mark.
    fn bar(&self, length: usize, full_scale: u64, shared: u64, headroom: u64, mark: Option<u64>) -> Vec<Span<'static>> {
        let Glyphs { shared: of_shared, headroom: of_headroom, free, threshold } = self.theme.glyphs;
        let letters = |bytes: u64| {
            let exact = bytes as f64 / full_scale.max(1) as f64 * length as f64;
            // Any non-zero length shows at least one letter.
            if bytes > 0 { (exact.round() as usize).clamp(1, length) } else { 0 }
        };
        let first = letters(shared);
        let second = if headroom > 0 { letters(shared + headroom).max(first + 1).min(length) } else { first };
        let marked = mark.filter(|mark| *mark > 0).map(|mark| letters(mark).saturating_sub(1));
        let part = |at: usize| match at {
            _ if Some(at) == marked => (threshold, Style::new().add_modifier(Modifier::BOLD)),
            _ if at < first => (of_shared, self.theme.color(Color::Blue)),
            _ if at < second => (of_headroom, self.theme.color(Color::Red)),
            _ => (free, self.theme.dim()),
        };
        (0..length).map(part).map(|(letter, style)| Span::styled(letter.to_string(), style)).collect()
    }

    fn draw_body(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (head, mut lines) = match self.view {
            View::Queues => self.queues(area.width),
            View::Losses => self.losses(),
            View::Events => self.events(),
            View::Lcores => self.lcores(),
        };
        let room = usize::from(area.height.saturating_sub(1));
        self.scroll = self.scroll.min(lines.len().saturating_sub(room));
        let below = lines.len().saturating_sub(self.scroll + room);
        lines.drain(..self.scroll);
        if below > 0 && room > 0 {
            lines.truncate(room - 1);
            let text = format!("… {} more below (Down)", below + 1);
            lines.push(Line::styled(
                if self.theme.glyphs == Glyphs::ASCII { text.replace('…', "..") } else { text },
                self.theme.dim(),
            ));
        }
        lines.insert(0, Line::styled(head, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn queues(&self, width: u16) -> (String, Vec<Line<'static>>) {
        let Some(switch) = self.switch_now() else { return Default::default() };
        let before = self.before.as_ref().and_then(|before| {
            Some((before.switches.get(self.switch)?, self.now.at.saturating_duration_since(before.at)))
        });
        let mut rows = switch.rows(before);
        // A port without busy queues has a row for class 0.
        let is_shown = |row: &QueueRow, is_first: bool| self.is_all || row.is_lossless || row.is_used || is_first;
        let busy: Vec<String> = rows.iter().filter(|row| is_shown(row, false)).map(|row| row.port.clone()).collect();
        rows.retain(|row| is_shown(row, row.class == 0 && !busy.contains(&row.port)));
        match self.order {
            SortOrder::Port => {}
            SortOrder::Held => rows.sort_by_key(|row| std::cmp::Reverse(row.shared + row.headroom + row.egress)),
            SortOrder::Paused => {
                sort_down(&mut rows, |row| row.tx_paused.unwrap_or(0.0) + row.rx_paused.unwrap_or(0.0))
            }
            SortOrder::Rate => sort_down(&mut rows, |row| row.rx_bps.unwrap_or(0.0) + row.tx_bps.unwrap_or(0.0)),
        }
        let full_scale =
            rows.iter().map(|row| (row.shared + row.headroom).max(row.threshold.unwrap_or(0))).max().unwrap_or(1);
        let names = rows.iter().map(|row| row.port.chars().count()).max().unwrap_or(4).clamp(4, 12);
        // Width left by the other columns and one word of the states.
        let bar = usize::from(width).saturating_sub(names + 60).clamp(6, 40);
        let head = format!(
            "{:<names$} C L    Rx    Tx {:<bar$}    In  Xoff   Out Tell% Told% State",
            "Port",
            if bar < 11 { "Ingress" } else { "Ingress queue" }
        );
        let line = |row: &QueueRow| {
            let rate = |bps: Option<f64>| bps.map_or("-".to_owned(), format_rate);
            let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0}", share * 100.0));
            let is_bad = row.link != 'U';
            let link = Span::styled(row.link.to_string(), if is_bad { self.theme.bad() } else { Style::new() });
            let paused = |share: Option<f64>| {
                if share.is_some_and(|share| share > 0.0) { self.theme.bad() } else { Style::new() }
            };
            let mut spans = vec![Span::raw(format!("{:<names$.names$} {} ", row.port, row.class)), link];
            spans.push(Span::raw(format!(" {:>5} {:>5} ", rate(row.rx_bps), rate(row.tx_bps))));
            spans.extend(self.bar(bar, full_scale, row.shared, row.headroom, row.threshold));
            spans.push(Span::raw(format!(
                " {:>5} {:>5} {:>5}",
                format_bytes(row.shared + row.headroom),
                row.threshold.map_or("-".to_owned(), format_bytes),
                format_bytes(row.egress)
            )));
            spans.push(Span::styled(format!(" {:>5}", percent(row.tx_paused)), paused(row.tx_paused)));
            spans.push(Span::styled(format!(" {:>5}", percent(row.rx_paused)), paused(row.rx_paused)));
            spans.push(Span::raw(format!(" {}", row.states.join(","))));
            Line::from(spans)
        };
        (head, rows.iter().map(line).collect())
    }

    fn losses(&self) -> (String, Vec<Line<'static>>) {
        let Some(switch) = self.switch_now() else { return Default::default() };
        let place = |place: LossPlace| match place {
            LossPlace::Ingress => "switch, ingress",
            LossPlace::Egress => "switch, egress",
            LossPlace::DeviceReceive => "device, receiving",
            LossPlace::DeviceTransmit => "device, sending",
            LossPlace::NicToSwitch => "NIC, to the switch",
            LossPlace::NicToHost => "NIC, to the host",
        };
        let mut lines: Vec<Line<'static>> = Vec::new();
        for loss in &switch.losses {
            let class = loss.class.map_or("-".to_owned(), |class| class.to_string());
            let frames = loss.frames.map_or("can't tell".to_owned(), |frames| frames.to_string());
            let why = loss.reason.replace('_', " ");
            lines.push(Line::raw(format!(
                "{:<12.12} {:<19} {class:<2} {frames:>14}  {why}",
                loss.port,
                place(loss.place)
            )));
        }
        if lines.is_empty() {
            lines.push(Line::raw("No frame was lost."));
        }
        (format!("{:<12} {:<19} {:<2} {:>14}  {}", "Port", "Where", "C", "Frames", "Why"), lines)
    }

    /// Lists events, the newest first.
    fn events(&self) -> (String, Vec<Line<'static>>) {
        let line = |event: &weir_control::state::Event| {
            let of_day = event.unix_ms % 86_400_000;
            let [hours, minutes, seconds] = [of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60];
            let port = event.port.as_deref().unwrap_or("-");
            let class = event.class.map_or("-".to_owned(), |class| class.to_string());
            let what = format!("{} {}", event.event.replace('_', " "), event.detail);
            Line::raw(format!(
                "{hours:02}:{minutes:02}:{seconds:02} {:<10.10} {port:<10.10} {class} {what}",
                event.switch
            ))
        };
        let mut lines: Vec<Line<'static>> = self.now.events.iter().rev().map(line).collect();
        if lines.is_empty() {
            lines.push(Line::raw("Nothing happened so far."));
        }
        (format!("{:<8} {:<10} {:<10} C What", "UTC", "Switch", "Port"), lines)
    }

    fn lcores(&self) -> (String, Vec<Line<'static>>) {
        let lines = self.now.lcores.iter().map(|lcore| {
            let before = self.before.as_ref().and_then(|of| of.lcores.iter().find(|other| other.cpu == lcore.cpu));
            // Since the previous snapshot, as for rates; since the start without one.
            let since = |now: u64, then: fn(&weir_control::state::Lcore) -> u64| {
                before.and_then(|before| now.checked_sub(then(before))).unwrap_or(now)
            };
            let polls = since(lcore.polls, |of| of.polls);
            let busy = since(lcore.busy_polls, |of| of.busy_polls) as f64 * 100.0 / polls.max(1) as f64;
            let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
            let work = before.map_or(lcore.work, |before| lcore.work.since(&before.work));
            let or_none =
                |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
            Line::raw(format!(
                "{:>3} {busy:>6.1} {polls:>9} {:>5} {:>7} {:>7} {:>8} {:>9}  {}",
                lcore.cpu,
                or_none(work.packets_a_burst(), 1),
                or_none(work.cycles_a_packet(), 0),
                us(lcore.gap_p50_ns),
                us(lcore.gap_p999_ns),
                us(lcore.gap_max_ns),
                lcore.roles.join(", ")
            ))
        });
        let head = format!(
            "{:>3} {:>6} {:>9} {:>5} {:>7} {:>7} {:>8} {:>9}  Does",
            "CPU", "Busy %", "Polls", "Burst", "Cycles", "Gap p50", "p99.9 us", "max us"
        );
        (head, lines.collect())
    }

    fn foot(&self, width: u16) -> Line<'static> {
        if let Some(why) = &self.silence {
            // Keeps the end: the last parts of a long path, and the reason after it.
            let left_out = why.chars().count().saturating_sub(usize::from(width));
            return Line::styled(why.chars().skip(left_out).collect::<String>(), self.theme.bad());
        }
        let views = View::ALL.iter().enumerate().map(|(n, view)| {
            let name = format!("{} {}", n + 1, view.name());
            if *view == self.view { name.to_uppercase() } else { name }
        });
        let switches = if self.now.switches.len() > 1 { "Tab switch  " } else { "" };
        let views = views.collect::<Vec<_>>().join(" ");
        let all = format!(" {views}  {switches}s by {}  ? help  q quit", self.order.name());
        // Keys for help, quit and views are shown at any width.
        let keys = if all.chars().count() > usize::from(width) { format!(" ? help  q quit  {views}") } else { all };
        Line::styled(format!("{keys:<0$.0$}", usize::from(width)), self.theme.head())
    }
}

fn sort_down(rows: &mut [QueueRow], key: impl Fn(&QueueRow) -> f64) {
    rows.sort_by(|one, other| key(other).total_cmp(&key(one)));
}

fn help() -> Vec<Line<'static>> {
    [
        "1 2 3 4       queues, losses, events, lcores",
        "Tab, arrows   next and previous switch of the process",
        "Down Up j k   scroll; Page Down, Page Up, Home too",
        "s             order: by port, by bytes held, by time paused, by rate",
        "a             all queues, or those that are lossless or were used",
        "Space, p      freeze, and resume",
        "r             ask the switch now",
        "Ctrl-L        draw the screen anew",
        "q, Esc        quit; of this list, Esc goes back",
        "",
        "C class; L link: U up, D down, X taken down, B blocked",
        "Rx, Tx: bits a second of the class; Tell%: how much of the time the peer was",
        "told to pause; Told%: how much of it the peer had the class paused",
        "Ingress queue: private and shared, then headroom, and a line at its threshold",
        "In, Xoff, Out: bytes of the ingress queue, its threshold, bytes of the egress",
        "queue of the port and class",
        "State: OFF, portOFF of the policy; victim of SPFC; <RATE that GFC lets it send",
    ]
    .map(Line::raw)
    .to_vec()
}
