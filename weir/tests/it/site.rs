//! The documentation as a site, by its HTML: it fetches nothing, and its links resolve.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn site(of: &Path, to: &Path) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir")).arg("pages").arg("--site").arg(to).arg("--of").arg(of).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), said)
}

/// All HTML files below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { pages(&path) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.extension().is_some_and(|ending| ending == "html")).collect()
}

/// The values of an attribute.
fn values<'t>(html: &'t str, attribute: &str) -> Vec<&'t str> {
    let start = format!(" {attribute}=\"");
    html.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_repositorys_pages_are_a_site_whose_links_lead_somewhere() {
    let to = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (code, said) = site(&repository, to.path());
    assert_eq!(code, 0, "{said}");
    let all = pages(to.path());
    assert!(to.path().join("docs/notebooks/figure.html").is_file(), "{said}");
    assert!(all.len() > 30 && to.path().join("index.html").is_file(), "{said}");
    for page in &all {
        let html = fs::read_to_string(page).unwrap();
        for source in values(&html, "src").into_iter().filter(|source| !source.starts_with("data:image/png;")) {
            assert!(page.parent().unwrap().join(source).is_file(), "{}: {source}", page.display());
        }
        for link in values(&html, "href").into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = page.parent().unwrap().join(file);
            assert!(target.is_file(), "{}: {link}", page.display());
            let there =
                anchor.is_empty() || fs::read_to_string(&target).unwrap().contains(&format!(" id=\"{anchor}\""));
            assert!(there, "{}: {link}", page.display());
        }
        // What a browser fetches by itself, besides pictures.
        assert!(
            !["<script", "<link", "<iframe", "@import", "url("].iter().any(|it| html.contains(it)),
            "{}",
            page.display()
        );
    }
}

/// Pages on a paper's figures: links to their folders lead there, and what was stored is on them, in today's sentences.
#[test]
fn figures_have_pages_of_their_stored_results() {
    let of = tempfile::tempdir().unwrap();
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/papers");
    for folder in ["gfc", "gfc/gfc.5", "dsh", "dsh/dsh.4"] {
        let copy = of.path().join("scenarios/papers").join(folder);
        fs::create_dir_all(&copy).unwrap();
        for file in
            fs::read_dir(papers.join(folder)).unwrap().map(|entry| entry.unwrap().path()).filter(|file| file.is_file())
        {
            fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
        }
    }
    // The same runs with real frames, where a main claim fails; and a map of claims.
    let folder = of.path().join("scenarios/papers/gfc/gfc.5");
    let mut result: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
    let mut real = result["backends"]["sim"].clone();
    real["outcome"]["backend"] = "dpdk".into();
    real["outcome"]["claims"][0]["judgement"] = "fails".into();
    result["backends"]["dpdk"] = real;
    result["map"] = map_of_claims(&result["backends"]["sim"]["environment"]);
    fs::write(folder.join("result.json"), result.to_string()).unwrap();
    for picture in ["figure-dpdk.svg", "map.svg"] {
        fs::copy(folder.join("figure.svg"), folder.join(picture)).unwrap();
    }
    fs::create_dir(of.path().join("docs")).unwrap();
    let experiments = "# Experiments\n\n## How a verdict comes about\n\n## Real frames\n\n## Maps of claims\n";
    fs::write(of.path().join("docs/EXPERIMENTS.md"), experiments).unwrap();
    let home = "# Home\n\n[all](scenarios/papers), [GFC](scenarios/papers/gfc), [one](scenarios/papers/gfc/gfc.5/)\n";
    fs::write(of.path().join("README.md"), home).unwrap();
    let to = of.path().join("site");
    let (code, said) = site(of.path(), &to);
    assert!(code == 0 && said.contains("9 pages, 4 pictures"), "{said}");
    let html = |page: &str| fs::read_to_string(to.join(page)).unwrap();
    let home = html("index.html");
    assert_eq!(
        values(&home, "href")[5..],
        ["docs/REPRODUCTION.html", "docs/papers/gfc.html", "docs/figures/gfc.5.html"]
    );
    let page = html("docs/figures/gfc.5.html");
    let main = result["backends"]["sim"]["outcome"]["claims"].as_array().unwrap();
    let main = main.iter().filter(|claim| claim["conclusion"] == true).count();
    let partly = format!("Partly reproduced: {} of {main} main claims come out, 1 does not.</strong>", main - 1);
    for wanted in [
        "<h2 id=\"virtual-time\">",
        &format!("<strong>Reproduced: all {main} main claims come out.</strong>"),
        "<h2 id=\"real-frames\">",
        &partly,
        "which the verdict must detect",
        "<h2 id=\"map-of-claims\">",
        "scenarios/papers/gfc/gfc.5/map.svg",
        "72 of 288: 25 %",
        "<li>order of service: <strong>arrival</strong>; in turn. Not said.",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let page = html("docs/REPRODUCTION.html");
    assert!(page.contains("<p>Conclusions of 2 figures: 1 reproduced, 1 arithmetic.</p>"), "{page}");
    assert!(page.contains(&format!("<strong>reproduced</strong></td><td>{main} of {main}</td>")), "{page}");
    assert!(html("docs/REAL_FRAMES.html").contains("<p>Conclusions of 1 figure: 1 partly reproduced.</p>"), "{page}");
    assert!(html("docs/CLAIMS.html").contains("<td>fragile: 1</td>"));
}

/// A stored map of one unspecified parameter, with one claim.
fn map_of_claims(environment: &serde_json::Value) -> serde_json::Value {
    let line = |kind: &str| {
        serde_json::json!({
            "kind": kind, "says": "it comes out", "source": "6.1", "holds": 72, "open": 0, "arithmetic": 0, "of": 288, "share": 0.25,
            "interval": [0.25, 0.25], "taken": true, "decides": null, "tree": null
        })
    };
    serde_json::json!({
        "environment": environment,
        "map": {
            "format": "weir-map-1", "id": "gfc.5", "title": "A port", "settings": 288, "of": 288, "is_all": true, "seeds": 1, "runs": 576,
            "cpu_ms": 1000, "left_out": null, "pins": [], "nearest": [[], []],
            "open": [{ "name": "order of service", "why": "Not said.", "values": ["arrival", "in turn"], "taken": 0 }],
            "lines": [line("together"), line("together"), line("main")]
        }
    })
}

#[test]
fn a_link_that_leads_nowhere_is_told_with_its_line() {
    let of = tempfile::tempdir().unwrap();
    fs::create_dir(of.path().join("docs")).unwrap();
    fs::write(of.path().join("docs/A.md"), "# A\n\n## Two words\n").unwrap();
    let home =
        "# Home\n\n[a](docs/A.md#two-words)\n[b](docs/B.md)\n[c](docs/A.md#three)\n![d](https://example.org/d.png)\n";
    fs::write(of.path().join("README.md"), home).unwrap();
    let to = of.path().join("site");
    let (code, said) = site(of.path(), &to);
    assert_eq!(code, 1, "{said}");
    for wanted in [
        "README.md:4: docs/B.md: there is no docs/B.md",
        "README.md:5: docs/A.md#three: docs/A.md has no heading of this name",
        "README.md:6: https://example.org/d.png: a picture that the site would fetch",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(!said.contains("README.md:3") && !to.exists(), "{said}");
    fs::write(of.path().join("README.md"), "# Home\n\n[a](docs/A.md#two-words), <script>alert(1)</script>\n").unwrap();
    let (code, said) = site(of.path(), &to);
    assert!(code == 0 && said.contains("2 pages, 0 pictures, 1 links"), "{said}");
    let html = fs::read_to_string(to.join("index.html")).unwrap();
    assert!(html.contains("href=\"docs/A.html#two-words\"") && !html.contains("<script"), "{html}");
}
