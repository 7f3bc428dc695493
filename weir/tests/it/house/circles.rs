//! Cyclic dependencies of files within a crate, direct or by others.
//!
//! A file needs another where its code names something of it by a path: in a `use`, or in code, from `crate`, `self`, `super`, a module
//! of its own, or a name that a `use` brought in. A name that a module passes on (`pub use`) counts for the file that has it. Code for
//! tests and for loom does not count, nor do comments, attributes and visibilities.
//!
//! A module and the files in its folder may need each other, as the module declares them: so dependencies are checked in one direction
//! at a time, once without those from a file down into its own folder, and once without those up out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::tokens::{Token, tokens};

/// A module by its path from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

#[derive(Default)]
struct Module {
    /// The file that it stands in, as the module of that file; another one for a module between braces.
    file: ModulePath,
    /// What it defines.
    items: BTreeSet<String>,
    /// Imports of `use`, by their names here.
    names: BTreeMap<String, Vec<String>>,
    /// Modules with a glob import.
    globs: Vec<ModulePath>,
    /// Paths that its code names, each from the crate's root.
    paths: BTreeSet<Vec<String>>,
    children: BTreeSet<String>,
}

/// Dependencies between files: the first needs the second, by this path.
pub(super) type Dependencies = BTreeMap<ModulePath, BTreeMap<ModulePath, String>>;

impl Modules {
    /// Reads a crate from its first file, and those that it declares.
    pub(super) fn read(root: &Path) -> Modules {
        let mut modules = Modules::default();
        modules.read_file(root, root.parent().unwrap(), &[]);
        modules
    }

    fn read_file(&mut self, file: &Path, folder: &Path, path: &[String]) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut reader = Reader { modules: self, file: path.to_owned(), declared: Vec::new() };
        let code = tokens(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        reader.read(&code, path.to_owned());
        for declared in reader.declared {
            let folder =
                declared[path.len()..declared.len() - 1].iter().fold(folder.to_owned(), |at, name| at.join(name));
            let name = declared.last().unwrap();
            let own = folder.join(name);
            let flat = folder.join(format!("{name}.rs"));
            let file = if flat.exists() { flat } else { own.join("mod.rs") };
            self.read_file(&file, &own, &declared);
        }
    }

    /// How many modules stand in files of their own.
    pub(super) fn files(&self) -> usize {
        self.0.iter().filter(|(path, module)| **path == module.file).count()
    }

    /// Which files need which.
    pub(super) fn ties(&self) -> Dependencies {
        let mut ties = Dependencies::new();
        for module in self.0.values() {
            for path in &module.paths {
                let Some(needed) = self.file_of(path, 0) else { continue };
                if needed != module.file {
                    ties.entry(module.file.clone()).or_default().entry(needed).or_insert_with(|| path.join("::"));
                }
            }
        }
        ties
    }

    /// The file that a path leads to.
    fn file_of(&self, path: &[String], passed_on: usize) -> Option<ModulePath> {
        // Two modules may pass on all that the other has.
        if passed_on > 8 {
            return None;
        }
        let known = (0..=path.len()).rev().find(|known| self.0.contains_key(&path[..*known]))?;
        let (module, rest) = (&self.0[&path[..known]], &path[known..]);
        let Some((name, behind)) = rest.split_first() else { return Some(module.file.clone()) };
        if module.items.contains(name) {
            return Some(module.file.clone());
        }
        if let Some(from) = module.names.get(name) {
            return self.file_of(&[from, behind].concat(), passed_on + 1);
        }
        let of_all = module.globs.iter().find_map(|from| {
            let file = self.file_of(&[from, rest].concat(), passed_on + 1)?;
            self.0.values().any(|module| module.file == file && module.items.contains(name)).then_some(file)
        });
        Some(of_all.unwrap_or_else(|| module.file.clone()))
    }
}

/// Reads a file's tokens.
struct Reader<'m> {
    modules: &'m mut Modules,
    file: ModulePath,
    /// Modules in files of their own.
    declared: Vec<ModulePath>,
}

impl Reader<'_> {
    fn read(&mut self, code: &[Token], path: ModulePath) {
        let mut module = Module { file: self.file.clone(), ..Module::default() };
        let (mut at, mut depth) = (0, 0_usize);
        let mut named = Vec::new();
        while let Some(token) = code.get(at) {
            let word = token.word();
            match (token, word) {
                (Token::Mark('#'), _) if code.get(at + 1).is_some_and(|next| next.is('[') || next.is('!')) => {
                    let from = if code[at + 1].is('!') { at + 2 } else { at + 1 };
                    let behind = end_of_group(code, from);
                    let is_aside = is_aside(&code[from..behind]);
                    at = if is_aside { end_of_item(code, behind) } else { behind };
                    continue;
                }
                (_, "pub") if code.get(at + 1).is_some_and(|next| next.is('(')) => {
                    at = end_of_group(code, at + 1);
                    continue;
                }
                (_, "mod") if code.get(at + 2).is_some_and(|next| next.is(';') || next.is('{')) => {
                    let name = code[at + 1].word().to_owned();
                    let child = [&path[..], std::slice::from_ref(&name)].concat();
                    module.children.insert(name);
                    if code[at + 2].is(';') {
                        self.declared.push(child);
                        at += 3;
                    } else {
                        let behind = end_of_group(code, at + 2);
                        self.read(&code[at + 3..behind - 1], child);
                        at = behind;
                    }
                    continue;
                }
                (_, "use") if code.get(at + 1).is_some_and(|next| !next.is('<')) => {
                    let behind = at + code[at..].iter().position(|token| token.is(';')).expect("a use ends");
                    let mut brought = Vec::new();
                    expand(&code[at + 1..behind], &[], &mut brought);
                    named.extend(brought.into_iter().map(|brought| (brought, true)));
                    at = behind;
                    continue;
                }
                (_, "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static") if depth == 0 => {
                    module.items.insert(code.get(at + 1).map_or("", Token::word).to_owned());
                }
                (_, "macro_rules") => {
                    module.items.insert(code.get(at + 2).map_or("", Token::word).to_owned());
                }
                (Token::Mark('{'), _) => depth += 1,
                (Token::Mark('}'), _) => depth -= 1,
                _ => {}
            }
            let is_first = at == 0 || !matches!(code[at - 1], Token::Path | Token::Mark('.'));
            if !word.is_empty() && is_first && matches!(code.get(at + 1), Some(Token::Path)) {
                let mut path = vec![word.to_owned()];
                while matches!(code.get(at + 1), Some(Token::Path))
                    && code.get(at + 2).is_some_and(|next| !next.word().is_empty())
                {
                    path.push(code[at + 2].word().to_owned());
                    at += 2;
                }
                named.push((Named { path, name: None }, false));
            }
            at += 1;
        }
        // A `use` may stand behind what goes by it.
        named.sort_by_key(|(_, is_use)| !is_use);
        for (Named { path: named, name }, is_use) in named {
            let Some(absolute) = absolute(&path, &named, &module) else { continue };
            if is_use && named.last().is_some_and(|last| last == "*") {
                module.globs.push(absolute[..absolute.len() - 1].to_owned());
                continue;
            }
            if is_use && let Some(last) = name.or_else(|| absolute.last().cloned()) {
                module.names.insert(last, absolute.clone());
            }
            module.paths.insert(absolute);
        }
        self.modules.0.insert(path, module);
    }
}

/// A path as it stands in a file, and the name that a `use` gives it.
struct Named {
    path: Vec<String>,
    name: Option<String>,
}

/// A path from the crate's root; `None` if it leads out of the crate.
fn absolute(module: &[String], path: &[String], of: &Module) -> Option<Vec<String>> {
    let mut from = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" | "super" => {}
        name if of.children.contains(name) => return Some([module, path].concat()),
        name => return Some([of.names.get(name)?, &path[1..]].concat()),
    }
    while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
        if first == "super" {
            from.pop();
        }
        rest = &rest[1..];
    }
    Some([&from, rest].concat())
}

/// The paths of what stands between `use` and `;`, behind `before`.
fn expand(code: &[Token], before: &[String], brought: &mut Vec<Named>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while let Some(token) = code.get(at) {
        match token {
            Token::Mark('{') => {
                let inner = &code[at + 1..end_of_group(code, at) - 1];
                for part in parts(inner) {
                    expand(part, &path, brought);
                }
                return;
            }
            Token::Word(word) if word == "as" => {
                let name = code[at + 1].word().to_owned();
                return brought.push(Named { path, name: Some(name) });
            }
            // `module::{self}` is the module.
            Token::Word(word) if word == "self" && !path.is_empty() => {}
            Token::Word(word) => path.push(word.clone()),
            Token::Mark('*') => path.push("*".to_owned()),
            Token::Path | Token::Mark(_) => {}
        }
        at += 1;
    }
    brought.push(Named { path, name: None });
}

/// What commas part, outside of braces.
fn parts(code: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < code.len() {
        if code[at].is('{') {
            at = end_of_group(code, at);
        } else if code[at].is(',') {
            parts.push(&code[from..at]);
            at += 1;
            from = at;
        } else {
            at += 1;
        }
    }
    parts.push(&code[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether an attribute, `[…]`, leaves what follows to tests or to loom.
fn is_aside(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.word() == word);
    attribute.get(1).is_some_and(|token| token.word() == "cfg") && !has("not") && (has("test") || has("loom"))
}

/// Behind the group that opens here.
fn end_of_group(code: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(from) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Behind the item that begins here, with its attributes: an item of a module, a statement, a field or an arm.
fn end_of_item(code: &[Token], from: usize) -> usize {
    let mut at = from;
    while code.get(at).is_some_and(|token| token.is('#')) {
        at = end_of_group(code, at + 1);
    }
    let starts =
        ["pub", "fn", "mod", "use", "impl", "struct", "enum", "trait", "const", "static", "type", "unsafe", "async"];
    let is_item = code.get(at).is_some_and(|token| starts.contains(&token.word()));
    let mut is_use = false;
    while let Some(token) = code.get(at) {
        is_use |= token.word() == "use";
        match token {
            Token::Mark(';') => return at + 1,
            Token::Mark(',') if !is_item => return at + 1,
            Token::Mark('}' | ')' | ']') => return at,
            Token::Mark('{') if !is_use => return end_of_group(code, at),
            Token::Mark('{' | '(' | '[') => at = end_of_group(code, at),
            _ => at += 1,
        }
    }
    at
}

/// A cycle of these dependencies, file by file with the path by which each needs the next; `None` if there is none. Omits dependencies
/// from a file down into its own folder, or, if `down`, those up out of it.
pub(super) fn circle(ties: &Dependencies, down: bool) -> Option<String> {
    let counts = |from: &ModulePath, to: &ModulePath| if down { !from.starts_with(to) } else { !to.starts_with(from) };
    let (mut done, mut way) = (BTreeSet::new(), Vec::new());
    for file in ties.keys() {
        if let Some(found) = follow(ties, &counts, file, &mut done, &mut way) {
            return Some(found);
        }
    }
    None
}

fn follow<'t>(
    ties: &'t Dependencies,
    counts: &impl Fn(&ModulePath, &ModulePath) -> bool,
    file: &'t ModulePath,
    done: &mut BTreeSet<&'t ModulePath>,
    way: &mut Vec<(&'t ModulePath, &'t str)>,
) -> Option<String> {
    if let Some(first) = way.iter().position(|(passed, _)| *passed == file) {
        let told = |(file, path): &(&ModulePath, &str)| format!("{} needs {path}", name_of(file));
        return Some(way[first..].iter().map(told).collect::<Vec<_>>().join(", "));
    }
    if !done.insert(file) {
        return None;
    }
    for (needed, path) in ties.get(file).into_iter().flatten().filter(|(needed, _)| counts(file, needed)) {
        way.push((file, path));
        let found = follow(ties, counts, needed, done, way);
        way.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

fn name_of(file: &[String]) -> String {
    if file.is_empty() { "the first file".to_owned() } else { file.join("::") }
}

/// The first file of a crate in this folder.
pub(super) fn first_file(folder: &Path) -> Option<PathBuf> {
    ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)).into_iter().find(|file| file.exists())
}
