//! Times of UEC's CF_Update and CC_Update.

use weir_units::{CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{CreditCount, CreditUpdate};

use super::{CellSize, next_period};

/// Timer of a port's updates.
///
/// A CF_Update has the count of one class, as the public texts describe it: of the next one in turn that has changed, or that was not sent
/// for `repeat`. Two are `spacing` apart at least. CC_Update has the counts of all classes, and is sent each `period`.
#[derive(Debug)]
pub struct UpdateTimer {
    classes: ClassSet,
    size: CellSize,
    spacing: Span,
    repeat: Span,
    period: Span,
    /// Earliest instant of the next CF_Update.
    free_at: Time,
    /// Instant of the next CC_Update.
    consumed_at: Time,
    /// Count of each class as sent, and the instant at which it is due again.
    freed: [u32; CLASSES],
    repeat_at: [Time; CLASSES],
    last: Class,
}

impl UpdateTimer {
    /// Creates a timer for `classes`.
    ///
    /// # Panics
    /// If `spacing` or `period` is zero.
    pub fn new(classes: ClassSet, size: CellSize, spacing: Span, repeat: Span, period: Span) -> UpdateTimer {
        assert!(spacing > Span::ZERO && period > Span::ZERO, "a message without pause would fill the link");
        UpdateTimer {
            classes,
            size,
            spacing,
            repeat,
            period,
            free_at: Time::ZERO,
            consumed_at: Time::ZERO,
            freed: [0; CLASSES],
            repeat_at: [Time::ZERO; CLASSES],
            last: Class::new(CLASSES as u8 - 1),
        }
    }

    /// Returns the update due at `now`; `freed` returns R_CF of a class, and `consumed` S_CC ahead of the message. Confirm with
    /// [`UpdateTimer::handle_sent`]; an update that could not be sent is due again.
    pub fn poll(
        &self,
        now: Time,
        freed: impl Fn(Class) -> u32,
        consumed: impl Fn(Class) -> u32,
    ) -> Option<CreditUpdate> {
        let update = |count, enabled: ClassSet, of: &dyn Fn(Class) -> u32| {
            let mut cells = [0; CLASSES];
            enabled.iter().for_each(|class| cells[class.index()] = of(class) & CreditUpdate::MASK);
            Some(CreditUpdate { count, enabled, cells, cell_bytes: self.size.bytes() })
        };
        if now >= self.free_at {
            let is_due =
                |class: &Class| now >= self.repeat_at[class.index()] || freed(*class) != self.freed[class.index()];
            let due: ClassSet = self.classes.iter().filter(is_due).collect();
            let later = due.iter().find(|class| class.index() > self.last.index());
            if let Some(class) = later.or(due.iter().next()) {
                return update(CreditCount::Freed, class.alone(), &freed);
            }
        }
        let is_due = now >= self.consumed_at && !self.classes.is_empty();
        if is_due { update(CreditCount::Consumed, self.classes, &consumed) } else { None }
    }

    /// Records that the update was sent at `now`.
    pub fn handle_sent(&mut self, now: Time, update: &CreditUpdate) {
        match update.count {
            CreditCount::Consumed => self.consumed_at = next_period(self.consumed_at, self.period, now),
            CreditCount::Freed => {
                self.free_at = now.saturating_add(self.spacing);
                for class in update.enabled.iter() {
                    self.freed[class.index()] = update.cells[class.index()];
                    self.repeat_at[class.index()] = now.saturating_add(self.repeat);
                    self.last = class;
                }
            }
        }
    }

    /// Has an update of each class, and CC_Update, due at `at`.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.free_at, self.consumed_at, self.repeat_at) = (at, at, [at; CLASSES]);
    }

    /// Returns the instant at which an update may be due without further change.
    pub fn next_wakeup(&self, now: Time) -> Time {
        let repeat_at = self.classes.iter().map(|class| self.repeat_at[class.index()]).min();
        let freed_at = if now < self.free_at { self.free_at } else { repeat_at.unwrap_or(Time::NEVER) };
        if self.classes.is_empty() { Time::NEVER } else { freed_at.min(self.consumed_at) }
    }
}
