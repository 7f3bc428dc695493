//! Text that describes a flow control.

/// Description of a flow control: lines and tables, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description(Vec<DescriptionPart>);

/// Part of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptionPart {
    /// Line of text.
    Line(String),
    /// Table: its head, then its rows.
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

    /// Parts, in order.
    pub fn parts(&self) -> &[DescriptionPart] {
        &self.0
    }
}
