//! Rust's code as words and marks, without comments, strings, characters and lifetimes.

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

/// The tokens of a file.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(string) = string(rest) {
            string
        } else if first == '\'' {
            character_or_lifetime(rest)
        } else if rest.starts_with("::") {
            tokens.push(Token::Path);
            2
        } else if first.is_alphanumeric() || first == '_' {
            // A raw name's `r#` is a word of its own, which no path has.
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let is_number = first.is_ascii_digit();
            tokens.extend((!is_number).then(|| Token::Word(rest[..end].to_owned())));
            end
        } else {
            tokens.extend((!first.is_whitespace()).then_some(Token::Mark(first)));
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    tokens
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// How long the string is that begins here, if one does.
fn string(text: &str) -> Option<usize> {
    let bare = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - bare.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = bare.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        return Some(prefix + 1 + hashes + 1 + inner.find(&close)? + close.len());
    }
    let inner = bare.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = inner.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some(prefix + 1 + end + 1)
}

/// How long `'x'`, `'\n'`, or `'lifetime` is.
fn character_or_lifetime(text: &str) -> usize {
    let inner = &text[1..];
    let mut chars = inner.char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            let from = escaped + 1;
            1 + from + inner[from..].find('\'').map_or(0, |end| end + 1)
        }
        (Some(_), Some((at, '\''))) => 1 + at + 1,
        _ => 1 + inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len()),
    }
}
