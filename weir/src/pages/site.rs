//! Documentation as a site: HTML that loads nothing from elsewhere, in which every link resolves.
//!
//! Pages are README, the other Markdown files in its folder, `docs/` with its folders and notebooks, references, and the pages on the papers'
//! figures, which are made of the stored results. A link to another page leads to its HTML, and so does one to a folder that a page describes;
//! pictures are copied; other files of the repository are named without a link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use weir_experiments::Failure;
use weir_experiments::reproduce::site::pages as pages_of_papers;

use super::notebook;

const HOME: &str = "README.md";
const DOCS: &str = "docs";
const STYLE: &str = include_str!("site/style.css");

/// Page before its links are checked.
struct Page {
    /// Path in the repository.
    path: PathBuf,
    title: String,
    body: String,
    /// Anchors within the page.
    anchors: BTreeSet<String>,
    links: Vec<PageLink>,
}

/// A link within the repository.
struct PageLink {
    /// Link as written.
    written: String,
    /// Path of the target in the repository.
    to: PathBuf,
    anchor: String,
    line: usize,
    is_picture: bool,
}

/// Writes the site of a repository, with these references, each a path in the repository and a text; fails if any link does not resolve.
pub(super) fn write(of: &Path, to: &Path, references: Vec<(&'static str, String)>) -> Result<(), Failure> {
    let paths = paths(of)?;
    if !paths.contains(Path::new(HOME)) {
        let message = format!("{}: there is no {HOME}; write --of DIR, the repository's folder", of.display());
        return Err(Failure::Argument(message));
    }
    let mut texts = BTreeMap::new();
    for path in paths {
        let mut text = fs::read_to_string(of.join(&path)).map_err(|error| file_failure(&of.join(&path), &error))?;
        if is_notebook(&path) {
            let wrong = |what: String| Failure::Argument(format!("{}: {what}", of.join(&path).display()));
            text = notebook::markdown(&text).map_err(wrong)?;
        }
        texts.insert(path, text);
    }
    texts.extend(references.into_iter().map(|(path, text)| (PathBuf::from(path), text)));
    let mut folders = BTreeMap::new();
    for made in pages_of_papers(of)? {
        folders.extend(made.folder.map(|folder| (folder, made.path.clone())));
        texts.insert(made.path, made.text);
    }
    let targets = texts.keys().map(|path| (path.clone(), path.clone())).chain(folders).collect();
    let pages: BTreeMap<PathBuf, Page> =
        texts.iter().map(|(path, text)| (path.clone(), page(of, path, &targets, text))).collect();
    let (mut wrong, mut pictures) = (Vec::new(), BTreeSet::new());
    for page in pages.values() {
        for link in &page.links {
            match lead(of, link, &pages) {
                Ok(()) if link.is_picture => drop(pictures.insert(link.to.clone())),
                Ok(()) => {}
                Err(why) => wrong.push(format!("{}:{}: {}: {why}", page.path.display(), link.line, link.written)),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::Run(format!("links that lead nowhere:\n{}", wrong.join("\n"))));
    }
    let navigation: Vec<(&Path, &str)> = navigation(&pages);
    for page in pages.values() {
        put(&to.join(as_html(&page.path)), document(page, &navigation).as_bytes())?;
    }
    for picture in &pictures {
        let bytes = fs::read(of.join(picture)).map_err(|error| file_failure(&of.join(picture), &error))?;
        put(&to.join(picture), &bytes)?;
    }
    let links: usize = pages.values().map(|page| page.links.len()).sum();
    println!(
        "{} pages, {} pictures, {links} links that lead somewhere: {}",
        pages.len(),
        pictures.len(),
        to.join("index.html").display()
    );
    Ok(())
}

/// Returns the paths of all pages in the repository.
fn paths(of: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    let mut folders = vec![(PathBuf::new(), false), (PathBuf::from(DOCS), true)];
    while let Some((folder, goes_down)) = folders.pop() {
        let full_path = of.join(&folder);
        for entry in fs::read_dir(&full_path).map_err(|error| file_failure(&full_path, &error))? {
            let path = entry.map_err(|error| file_failure(&full_path, &error))?.path();
            let name = folder.join(path.file_name().unwrap_or_default());
            if path.is_dir() && goes_down {
                folders.push((name, true));
            } else if is_page(&path) {
                found.insert(name);
            }
        }
    }
    Ok(found)
}

fn is_page(path: &Path) -> bool {
    is_notebook(path) || path.extension().is_some_and(|ending| ending == "md")
}

fn is_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "ipynb")
}

/// Reads a page; `targets` has the page of each path that links may name.
fn page(of: &Path, path: &Path, targets: &BTreeMap<PathBuf, PathBuf>, text: &str) -> Page {
    let mut page = Page {
        path: path.to_owned(),
        title: String::new(),
        body: String::new(),
        anchors: BTreeSet::new(),
        links: Vec::new(),
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut events: Vec<Event<'_>> = Vec::new();
    // Open heading: index of its first event, and its text. Whether the open link is written as text.
    let (mut heading, mut unlinked): (Option<(usize, String)>, bool) = (None, false);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = || text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Heading { .. }) => {
                heading = Some((events.len(), String::new()));
                events.push(event);
            }
            Event::End(TagEnd::Heading(level)) => {
                events.push(event);
                let Some((start, heading_text)) = heading.take() else { continue };
                let id = page.anchor(&heading_text);
                if level == HeadingLevel::H1 && page.title.is_empty() {
                    page.title = heading_text;
                }
                if let Event::Start(Tag::Heading { id: place, .. }) = &mut events[start] {
                    *place = Some(CowStr::from(id));
                }
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match within(folder, &dest_url) {
                None => events.push(Event::Start(Tag::Link { link_type, dest_url, title, id })),
                Some((to, anchor)) => {
                    let to = if to.as_os_str().is_empty() { path.to_owned() } else { to };
                    let is_page = targets.contains_key(&to);
                    let to = targets.get(&to).cloned().unwrap_or(to);
                    let is_picture = to.extension().is_some_and(|ending| ending == "png" || ending == "svg");
                    unlinked = !is_page && !is_picture && of.join(&to).exists();
                    let href = href(path, &to, &anchor);
                    let written = dest_url.to_string();
                    page.links.push(PageLink { written, to: to.clone(), anchor, line: line(), is_picture });
                    events.push(if unlinked {
                        let name = escaped(&to.display().to_string());
                        Event::InlineHtml(format!("<span class=\"file\" title=\"{name} in the repository\">").into())
                    } else {
                        Event::Start(Tag::Link { link_type, dest_url: href.into(), title, id })
                    });
                }
            },
            Event::End(TagEnd::Link) if unlinked => {
                unlinked = false;
                events.push(Event::InlineHtml("</span>".into()));
            }
            // A notebook's picture is within the page.
            Event::Start(Tag::Image { ref dest_url, .. }) if dest_url.starts_with("data:") => events.push(event),
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let to = within(folder, &dest_url).map(|(to, _)| to).unwrap_or_default();
                let written = dest_url.to_string();
                page.links.push(PageLink { written, to, anchor: String::new(), line: line(), is_picture: true });
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            // Raw HTML is shown as text: it could load something. A comment is for authors only.
            Event::Html(text) if text.trim_start().starts_with("<!--") => {}
            Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
            event => {
                if let (Some((_, heading_text)), Event::Text(text) | Event::Code(text)) = (&mut heading, &event) {
                    heading_text.push_str(text);
                }
                events.push(event);
            }
        }
    }
    html::push_html(&mut page.body, events.into_iter());
    page
}

impl Page {
    /// Returns a heading's anchor as GitHub generates it, unique in the page.
    fn anchor(&mut self, heading: &str) -> String {
        let lower = heading.to_lowercase();
        let kept = lower.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let plain: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut id = plain.clone();
        for n in 1.. {
            if self.anchors.insert(id.clone()) {
                break;
            }
            id = format!("{plain}-{n}");
        }
        id
    }
}

/// Target of a link within the repository: the file (empty for the page itself) and the anchor. `None` for a link elsewhere.
fn within(folder: &Path, written: &str) -> Option<(PathBuf, String)> {
    if written.contains("://") || written.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = written.split_once('#').unwrap_or((written, ""));
    if file.is_empty() {
        return Some((PathBuf::new(), anchor.to_owned()));
    }
    let mut path = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            // A path out of the repository resolves to no file.
            _ => path.push(part),
        }
    }
    Some((path, anchor.to_owned()))
}

/// Checks that a link resolves; the error is the reason.
fn lead(of: &Path, link: &PageLink, pages: &BTreeMap<PathBuf, Page>) -> Result<(), String> {
    if link.is_picture && link.to.as_os_str().is_empty() {
        return Err("a picture that the site would fetch".to_owned());
    }
    match pages.get(&link.to) {
        Some(page) if link.anchor.is_empty() || page.anchors.contains(&link.anchor) => Ok(()),
        Some(page) => Err(format!("{} has no heading of this name", page.path.display())),
        None if of.join(&link.to).exists() => Ok(()),
        None => Err(format!("there is no {}", link.to.display())),
    }
}

/// A page's file in the site.
fn as_html(path: &Path) -> PathBuf {
    if path == Path::new(HOME) { PathBuf::from("index.html") } else { path.with_extension("html") }
}

/// A link from a page to a page, or a picture.
fn href(from: &Path, to: &Path, anchor: &str) -> String {
    let to = if is_page(to) { as_html(to) } else { to.to_owned() };
    let up = from.parent().map_or(0, |folder| folder.components().count());
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    format!("{}{}{anchor}", "../".repeat(up), to.display())
}

/// Pages in every page's navigation: all except those of single figures, in a folder of their own.
fn navigation(pages: &BTreeMap<PathBuf, Page>) -> Vec<(&Path, &str)> {
    let shown = pages.values().filter(|page| page.path.components().count() <= 2 && page.path != Path::new(HOME));
    let home = (Path::new(HOME), "Weir");
    std::iter::once(home).chain(shown.map(|page| (page.path.as_path(), page.title.as_str()))).collect()
}

fn document(page: &Page, navigation: &[(&Path, &str)]) -> String {
    let entry = |(path, title): &(&Path, &str)| {
        let here = if *path == page.path { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{}\"{here}>{}</a></li>\n", href(&page.path, path, ""), escaped(title))
    };
    let entries: String = navigation.iter().map(entry).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<nav>\n<ul>\n{entries}</ul>\n</nav>\n<main>\n{body}</main>\n\
         </body>\n</html>\n",
        title = escaped(&page.title),
        body = page.body,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(|error| file_failure(folder, &error))?;
    fs::write(path, bytes).map_err(|error| file_failure(path, &error))
}

fn file_failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Argument(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_as_github_makes_them() {
        let targets = [("docs/A.md", "docs/A.md"), (HOME, HOME), ("folder/of/a", "docs/A.md")];
        let targets = BTreeMap::from(targets.map(|(link, page)| (PathBuf::from(link), PathBuf::from(page))));
        let text = "# The `[[ports]]` of A\n\n## Keys: one, two\n\n## Keys: one, two\n\n[up](../README.md#start), [here](#keys-one-two), [folder](../folder/of/a)\n";
        let page = page(Path::new("nowhere"), Path::new("docs/A.md"), &targets, text);
        assert_eq!(page.title, "The [[ports]] of A");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["keys-one-two", "keys-one-two-1", "the-ports-of-a"]);
        assert!(page.body.contains("<h2 id=\"keys-one-two-1\">"), "{}", page.body);
        assert!(page.body.contains("<a href=\"../index.html#start\">"), "{}", page.body);
        assert!(page.body.contains("<a href=\"../docs/A.html#keys-one-two\">"), "{}", page.body);
        assert!(page.body.contains("<a href=\"../docs/A.html\">"), "{}", page.body);
    }
    /// Markup is shown as it is written, and comments are not.
    #[test]
    fn markup_is_text_and_comments_are_left_out() {
        let targets = BTreeMap::from([(PathBuf::from(HOME), PathBuf::from(HOME))]);
        let text = "# A\n\n<!-- begin -->\n\nIt is.\n\n<!-- end -->\n\n<script src=\"x\"></script>\n";
        let page = page(Path::new("nowhere"), Path::new(HOME), &targets, text);
        assert!(page.body.contains("<p>It is.</p>") && page.body.contains("&lt;script"), "{}", page.body);
        assert!(!page.body.contains("begin") && !page.body.contains("<script"), "{}", page.body);
    }
}
