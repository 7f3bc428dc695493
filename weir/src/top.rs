//! `weir top`: a running switch in a terminal.
//!
//! A second thread requests snapshots at the control socket; this thread draws the latest snapshot and handles keys. So keys work while
//! a switch is slow to answer, or has ended.

mod screen;
mod snapshot;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use weir_experiments::{Failure, experiment, has_color};

use crate::control::Target;
use screen::{Glyphs, Screen, Theme, View};
use snapshot::Snapshot;

/// Arguments of `weir top`.
#[derive(clap::Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    target: Target,
    /// Interval of snapshots.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = crate::show::interval)]
    interval: Duration,
}

/// Longest time until a key or a signal is handled.
const TICK: Duration = Duration::from_millis(50);

/// Message of the thread that requests snapshots.
enum ClientUpdate {
    Now(Box<Snapshot>),
    /// The switch does not answer, with the reason.
    Silent(String),
}

/// Shows a running switch until a key or a signal ends it.
pub(crate) fn top(arguments: &TopArguments) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::Argument(
            "weir top needs a terminal to draw on; weir show --watch prints into pipes and files".to_owned(),
        ));
    }
    // Errors in the arguments are reported before the terminal is switched to the screen.
    let mut client = arguments.target.connect()?;
    let first = Snapshot::read(&mut client).map_err(crate::control::failure)?;
    let stop = experiment::stopped_by_signals()?;
    let (update_sender, updates) = channel();
    let (again, asked_again) = channel();
    let target = arguments.target.clone();
    let interval = arguments.interval;
    // The thread is not joined and ends with the process: a switch that does not answer may block it.
    std::thread::Builder::new()
        .name("weir-top".to_owned())
        .spawn(move || ask(&target, interval, &update_sender, &asked_again))?;
    let theme = Theme { glyphs: Glyphs::of_locale(), has_color: has_color(&std::io::stdout()) };
    let mut screen = Screen::new(theme, interval, first);
    if let Some(name) = &arguments.target.switch {
        screen.choose(name);
    }
    let mut terminal = ratatui::try_init()?;
    let ended = run(&mut terminal, &mut screen, &updates, &again, &stop);
    ratatui::try_restore()?;
    Ok(ended?)
}

fn ask(target: &Target, interval: Duration, update_sender: &Sender<ClientUpdate>, asked_again: &Receiver<()>) {
    loop {
        // A key may request a snapshot before the interval ends.
        if let Err(RecvTimeoutError::Disconnected) = asked_again.recv_timeout(interval) {
            return;
        }
        let answer = match target.connect() {
            // Reconnects for each snapshot: the switch may have restarted.
            Ok(mut client) => match Snapshot::read(&mut client) {
                Ok(snapshot) => ClientUpdate::Now(Box::new(snapshot)),
                Err(error) => ClientUpdate::Silent(error.to_string()),
            },
            Err(failure) => ClientUpdate::Silent(failure.into_message()),
        };
        if update_sender.send(answer).is_err() {
            return;
        }
    }
}

fn run(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    updates: &Receiver<ClientUpdate>,
    again: &mpsc::Sender<()>,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let mut is_stale = true;
    while !stop.load(Ordering::Relaxed) {
        while let Ok(update) = updates.try_recv() {
            match update {
                ClientUpdate::Now(snapshot) => screen.take(*snapshot),
                ClientUpdate::Silent(why) => screen.record_silence(why),
            }
            is_stale = true;
        }
        if is_stale {
            terminal.draw(|frame| screen.draw(frame))?;
            is_stale = false;
        }
        if !event::poll(TICK)? {
            continue;
        }
        is_stale = true;
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Esc if screen.shows_help() => screen.toggle_help(),
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Char('l') if key.modifiers.contains(KeyModifiers::CONTROL) => terminal.clear()?,
            KeyCode::Char(' ') | KeyCode::Char('p') => screen.toggle_still(),
            KeyCode::Char('r') => {
                let _ = again.send(());
            }
            KeyCode::Tab | KeyCode::Right => screen.next_switch(1),
            KeyCode::BackTab | KeyCode::Left => screen.next_switch(-1),
            KeyCode::Char('a') => screen.toggle_all(),
            KeyCode::Char('s') => screen.next_order(),
            KeyCode::Char('?') | KeyCode::Char('h') => screen.toggle_help(),
            KeyCode::Char(digit @ '1'..='4') => screen.view(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
            KeyCode::PageDown => screen.scroll(10),
            KeyCode::PageUp => screen.scroll(-10),
            KeyCode::Home => screen.scroll(isize::MIN),
            _ => {}
        }
    }
    Ok(())
}
