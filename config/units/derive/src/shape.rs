//! Shape of a type: the names of its fields and variants.

use proc_macro::{Delimiter, TokenStream, TokenTree};

pub(crate) struct Shape {
    pub(crate) name: String,
    /// Parameters without bounds, `<'a>`; mostly empty.
    pub(crate) generics: String,
    pub(crate) fields: Fields,
}

pub(crate) enum Fields {
    None,
    Named(Vec<Field>),
    Numbered(Vec<Field>),
    Variants(Vec<Variant>),
}

pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) field_mode: FieldMode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldMode {
    /// Visited by its type's implementation.
    State,
    /// Left as built.
    Same,
    /// Visited through a shared reference.
    Shared,
    /// Sequence whose items are visited in place.
    Fixed,
}

pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) fields: Fields,
}

impl Shape {
    pub(crate) fn parse(item: TokenStream) -> Result<Shape, String> {
        let mut rest = item.into_iter().peekable();
        let kind = loop {
            match rest.next().ok_or("no type")? {
                TokenTree::Ident(word) if ["struct", "enum"].contains(&word.to_string().as_str()) => {
                    break word.to_string();
                }
                _ => {}
            }
        };
        let name = rest.next().ok_or("a type has a name")?.to_string();
        let mut rest: Vec<TokenTree> = rest.collect();
        let generics = match rest.first() {
            Some(TokenTree::Punct(sign)) if sign.as_char() == '<' => {
                let end = rest.iter().position(|token| is_sign(token, '>')).ok_or("`<` without `>`")?;
                let generics: TokenStream = rest.drain(..=end).collect();
                let text = generics.to_string();
                if text.contains([':', '=']) || text.contains("const") {
                    return Err("bounds and defaults of parameters are not read: write the impl".to_owned());
                }
                text
            }
            _ => String::new(),
        };
        let group = rest.into_iter().find_map(|token| match token {
            TokenTree::Group(group) if [Delimiter::Brace, Delimiter::Parenthesis].contains(&group.delimiter()) => {
                Some(group)
            }
            _ => None,
        });
        let fields = match group {
            None => Fields::None,
            Some(group) if kind == "enum" => Fields::Variants(variants(group.stream())?),
            Some(group) => fields(group.delimiter(), group.stream())?,
        };
        Ok(Shape { name, generics, fields })
    }
}

fn fields(delimiter: Delimiter, stream: TokenStream) -> Result<Fields, String> {
    let parts = split(stream);
    if delimiter == Delimiter::Parenthesis {
        let numbered = parts
            .iter()
            .enumerate()
            .map(|(number, part)| Ok(Field { name: number.to_string(), field_mode: field_mode(part)? }));
        return Ok(Fields::Numbered(numbered.collect::<Result<_, String>>()?));
    }
    let named = parts.iter().map(|part| {
        let colon = part.iter().position(|token| is_sign(token, ':')).ok_or("a field has a type")?;
        let name = colon.checked_sub(1).map(|before| part[before].to_string()).ok_or("a field has a name")?;
        Ok(Field { name, field_mode: field_mode(part)? })
    });
    Ok(Fields::Named(named.collect::<Result<_, String>>()?))
}

fn variants(stream: TokenStream) -> Result<Vec<Variant>, String> {
    let variant = |part: Vec<TokenTree>| {
        let at = part.iter().position(|token| matches!(token, TokenTree::Ident(_))).ok_or("a variant has a name")?;
        let name = part[at].to_string();
        let fields = match part.get(at + 1) {
            Some(TokenTree::Group(group)) => fields(group.delimiter(), group.stream())?,
            _ => Fields::None,
        };
        Ok(Variant { name, fields })
    };
    split(stream).into_iter().map(variant).collect()
}

/// Splits at commas, except those between `<` and `>`.
fn split(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0;
    let mut before = ' ';
    for token in stream {
        let sign = match &token {
            TokenTree::Punct(sign) => sign.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            // The `>` of a function type's arrow closes nothing.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = sign;
        match parts.last_mut() {
            Some(_) if sign == ',' && depth == 0 => parts.push(Vec::new()),
            Some(last) => last.push(token),
            None => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn field_mode(part: &[TokenTree]) -> Result<FieldMode, String> {
    for token in part {
        let TokenTree::Group(group) = token else { continue };
        if group.delimiter() != Delimiter::Bracket {
            continue;
        }
        let text: String = group.stream().to_string().split_whitespace().collect();
        match text.as_str() {
            "state(same)" => return Ok(FieldMode::Same),
            "state(shared)" => return Ok(FieldMode::Shared),
            "state(fixed)" => return Ok(FieldMode::Fixed),
            other if other.starts_with("state") => {
                return Err(format!("`#[{other}]`: write `same`, `shared` or `fixed`"));
            }
            _ => {}
        }
    }
    Ok(FieldMode::State)
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(of) if of.as_char() == sign)
}
