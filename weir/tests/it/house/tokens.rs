//! Rust's code as words and marks, without comments, strings, characters, numbers and lifetimes.

use proc_macro2::{Delimiter, LexError, Spacing, TokenStream, TokenTree};

/// A token of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    /// `::`.
    Path,
    /// Another character.
    Mark(char),
}

impl Token {
    /// Whether it is this mark.
    pub(super) fn is(&self, mark: char) -> bool {
        *self == Token::Mark(mark)
    }

    /// The word, or nothing.
    pub(super) fn word(&self) -> &str {
        if let Token::Word(word) = self { word } else { "" }
    }
}

/// The tokens of a file, those between brackets and braces among them. Comments of documentation are attributes.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, LexError> {
    let mut tokens = Vec::new();
    flatten(text.parse()?, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(word) => tokens.push(Token::Word(word.to_string())),
            TokenTree::Literal(_) => {}
            // A lifetime's name follows.
            TokenTree::Punct(mark) if mark.as_char() == '\'' => drop(trees.next()),
            TokenTree::Punct(mark) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint => {
                trees.next();
                tokens.push(Token::Path);
            }
            TokenTree::Punct(mark) => tokens.push(Token::Mark(mark.as_char())),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => unreachable!("only a macro's expansion has such groups"),
                };
                tokens.push(Token::Mark(open));
                flatten(group.stream(), tokens);
                tokens.push(Token::Mark(close));
            }
        }
    }
}
