//! `#[derive(State)]`, `#[derive(SharedState)]` and `#[derive(Value)]` for the traits of `weir_units::archive`.
//!
//! A derived implementation visits all fields in order, so that none is forgotten. `#[state(same)]` leaves out a field that is set at
//! construction, as from the scenario or the configuration. `#[state(fixed)]` visits in place the items of a field whose number is fixed,
//! and which have no placeholder. `#[state(shared)]` marks a `SharedState` among the fields of a `State`.
//!
//! The macro has no Rust parser: it needs only the names of fields and variants, and builds of Weir need not wait for a parser.
//!
//! ```
//! use weir_units::archive::{Archive, State};
//!
//! #[derive(State)]
//! struct Counter {
//!     #[state(same)]
//!     name: &'static str,
//!     frames: u64,
//! }
//!
//! let mut saved = Archive::to_save();
//! Counter { name: "rx", frames: 7 }.state(&mut saved);
//! let mut built_anew = Counter { name: "rx", frames: 0 };
//! built_anew.state(&mut Archive::to_load(saved.into_bytes()));
//! assert_eq!((built_anew.name, built_anew.frames), ("rx", 7));
//! ```

#![forbid(unsafe_code)]

mod shape;

use proc_macro::TokenStream;

use shape::{Field, FieldMode, Fields, Shape, Variant};

const ARCHIVE: &str = "::weir_units::archive";

/// Derives `weir_units::archive::State`, in place; the variant of an enum stays as built.
#[proc_macro_derive(State, attributes(state))]
pub fn state(item: TokenStream) -> TokenStream {
    derived(item, |shape| implement(shape, "State", "fn state(&mut self, archive: &mut", &body(shape, "State::state")))
}

/// Derives `weir_units::archive::SharedState`, for state that changes through shared references.
#[proc_macro_derive(SharedState, attributes(state))]
pub fn shared_state(item: TokenStream) -> TokenStream {
    derived(item, |shape| {
        let body = body(shape, "SharedState::shared_state");
        implement(shape, "SharedState", "fn shared_state(&self, archive: &mut", &body)
    })
}

/// Derives `weir_units::archive::State` and `Placeholder`, for values that are created from an archive.
#[proc_macro_derive(Value, attributes(state))]
pub fn value(item: TokenStream) -> TokenStream {
    derived(item, |shape| {
        let Fields::Variants(variants) = &shape.fields else {
            let placeholder = built(&shape.name, &shape.fields);
            let state = implement(shape, "State", "fn state(&mut self, archive: &mut", &body(shape, "State::state"));
            return state + &implement_placeholder(shape, &placeholder);
        };
        let first = variants.first().expect("a value has a variant");
        let of = |variant: &Variant| built(&format!("{}::{}", shape.name, variant.name), &variant.fields);
        let made: String =
            variants.iter().enumerate().map(|(tag, variant)| format!("{tag}u8 => {},", of(variant))).collect();
        let own: String = tags(shape, variants);
        let body = format!(
            "let mut tag: u8 = match self {{ {own} }};
             let before = tag;
             {ARCHIVE}::State::state(&mut tag, archive);
             if tag != before {{
                 *self = match tag {{ {made} _ => {{ archive.mark_corrupt(); return; }} }};
             }}
             {}",
            arms(shape, variants, "State::state")
        );
        implement(shape, "State", "fn state(&mut self, archive: &mut", &body)
            + &implement_placeholder(shape, &of(first))
    })
}

fn derived(item: TokenStream, text: impl Fn(&Shape) -> String) -> TokenStream {
    let shape = match Shape::parse(item) {
        Ok(shape) => shape,
        Err(error) => return format!("compile_error!({error:?});").parse().expect("it is Rust"),
    };
    text(&shape).parse().expect("it is Rust")
}

fn implement(Shape { name, generics, .. }: &Shape, of: &str, head: &str, body: &str) -> String {
    format!(
        "impl {generics} {ARCHIVE}::{of} for {name} {generics} {{
             #[allow(unused_variables)]
             {head} {ARCHIVE}::Archive) {{ {body} }}
         }}"
    )
}

fn implement_placeholder(Shape { name, generics, .. }: &Shape, placeholder: &str) -> String {
    format!(
        "impl {generics} {ARCHIVE}::Placeholder for {name} {generics} {{ fn placeholder() -> Self {{ {placeholder} }} }}"
    )
}

fn body(shape: &Shape, through: &str) -> String {
    match &shape.fields {
        Fields::Variants(variants) => {
            let own = tags(shape, variants);
            format!("archive.expect(match self {{ {own} }}); {}", arms(shape, variants, through))
        }
        fields => {
            let (pattern, calls) = visit_fields(&shape.name, fields, through);
            format!("let {pattern} = self; {calls}")
        }
    }
}

fn tags(shape: &Shape, variants: &[Variant]) -> String {
    let tag = |(tag, variant): (usize, &Variant)| format!("{}::{} {{ .. }} => {tag}u8,", shape.name, variant.name);
    variants.iter().enumerate().map(tag).collect()
}

fn arms(shape: &Shape, variants: &[Variant], through: &str) -> String {
    let arm = |variant: &Variant| {
        let (pattern, calls) = visit_fields(&format!("{}::{}", shape.name, variant.name), &variant.fields, through);
        format!("{pattern} => {{ {calls} }}")
    };
    format!("match self {{ {} }}", variants.iter().map(arm).collect::<String>())
}

/// Pattern that names all fields, so that the compiler detects omissions, and the code that visits each.
fn visit_fields(name: &str, fields: &Fields, through: &str) -> (String, String) {
    let (Fields::Named(fields) | Fields::Numbered(fields)) = fields else {
        return (format!("{name} {{ }}"), String::new());
    };
    let bind = |field: &Field| format!("{}: of_{},", field.name, field.name);
    let call = |field: &Field| match field.field_mode {
        FieldMode::Same => String::new(),
        FieldMode::Shared => format!("{ARCHIVE}::SharedState::shared_state(&*of_{}, archive);", field.name),
        FieldMode::Fixed => format!("archive.fixed(of_{}.iter_mut());", field.name),
        FieldMode::State => format!("{ARCHIVE}::{through}(of_{}, archive);", field.name),
    };
    let pattern: String = fields.iter().map(bind).collect();
    (format!("{name} {{ {pattern} }}"), fields.iter().map(call).collect())
}

fn built(name: &str, fields: &Fields) -> String {
    let (Fields::Named(fields) | Fields::Numbered(fields)) = fields else { return format!("{name} {{ }}") };
    let placeholder = |field: &Field| format!("{}: {ARCHIVE}::Placeholder::placeholder(),", field.name);
    format!("{name} {{ {} }}", fields.iter().map(placeholder).collect::<String>())
}
