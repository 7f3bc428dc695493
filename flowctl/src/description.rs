//! Text that describes a flow control.

/// Lines and tables, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description(Vec<Part>);

/// A part of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A line of text.
    Line(String),
    /// A table: its head, then its rows.
    Table(Vec<Vec<String>>),
}

impl Description {
    /// Adds a line.
    pub fn line(mut self, text: impl Into<String>) -> Description {
        self.0.push(Part::Line(text.into()));
        self
    }

    /// Adds a table: its head, then its rows.
    pub fn table(mut self, rows: Vec<Vec<String>>) -> Description {
        self.0.push(Part::Table(rows));
        self
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}
