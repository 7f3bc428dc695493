//! Text that describes a flow control.

/// Lines and tables, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description(Vec<DescriptionPart>);

/// A part of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptionPart {
    /// A line of text.
    Line(String),
    /// A table: its head, then its rows.
    Table(Vec<Vec<String>>),
}

impl Description {
    /// Adds a line.
    pub fn line(mut self, text: impl Into<String>) -> Description {
        self.0.push(DescriptionPart::Line(text.into()));
        self
    }

    /// Adds a table: its head, then its rows.
    pub fn table(mut self, rows: Vec<Vec<String>>) -> Description {
        self.0.push(DescriptionPart::Table(rows));
        self
    }

    /// The parts.
    pub fn parts(&self) -> &[DescriptionPart] {
        &self.0
    }
}
