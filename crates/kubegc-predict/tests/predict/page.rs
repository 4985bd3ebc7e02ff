//! Pages: the owner graph as SVG, for a browser.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use kubegc_core::{DeleteOptions, PropagationPolicy};
use kubegc_predict::{Assumptions, Cluster, Forecast};
use serde_json::{Value, json};

use crate::common;

fn object(kind: &str, name: &str, owners: &[(&str, &str, bool)]) -> Value {
    let owners = owners.iter().map(|(kind, name, blocks)| {
        let mut owner = kubegc_fixtures::owner("v1", kind, name, false);
        owner["blockOwnerDeletion"] = (*blocks).into();
        owner
    });
    let rest = json!({ "metadata": { "ownerReferences": owners.collect::<Vec<Value>>() } });
    kubegc_fixtures::object("v1", kind, "shop", name, rest)
}

fn cluster(items: &[Value]) -> Cluster {
    common::read(&[common::list(items)], &["all"], Assumptions::default())
}

fn deleted(items: &[Value], target: &str) -> Forecast {
    let options = DeleteOptions::policy(PropagationPolicy::Background);
    let intent = kubegc_predict::Intent::delete(target.parse().expect("a name"), options);
    cluster(items).predict(&[intent]).expect("it is there")
}

/// The texts of the rows, without markup.
fn rows(page: &str) -> Vec<String> {
    let texts = page.split("<text ").skip(1).map(|rest| {
        let text = rest.split("</text>").next().unwrap_or_default();
        let text = text.split_once('>').map_or("", |(_, text)| text);
        text.replace(" <tspan class=\"detail\">", ": ")
            .replace("</tspan>", "")
    });
    texts.collect()
}

/// A title would only repeat the row.
#[test]
fn only_a_row_that_is_cut_has_a_title() {
    for (secrets, titles) in [(3, 0), (4, 1)] {
        let mut items = vec![object("ConfigMap", "root", &[])];
        for number in 0..secrets {
            let owners = [("ConfigMap", "root", true)];
            items.push(object("Secret", &format!("s{number}"), &owners));
        }
        let page = deleted(&items, "shop/ConfigMap/root").to_html();
        // The first title is that of the page.
        assert_eq!(page.matches("<title>").count() - 1, titles, "{page}");
    }
}

#[test]
fn siblings_share_a_row_below_their_owner() {
    let mut held = object("Secret", "held", &[("ConfigMap", "root", false)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let items = [
        object("ConfigMap", "root", &[]),
        object("Secret", "a", &[("ConfigMap", "root", true)]),
        object("Secret", "b", &[("ConfigMap", "root", true)]),
        held,
        object("Service", "of-b", &[("Secret", "b", false)]),
    ];
    let page = deleted(&items, "shop/ConfigMap/root").to_html();
    assert_eq!(
        rows(&page),
        [
            "configmap/root -n shop: deleted",
            "2 secrets -n shop (a, b): deleted",
            "service/of-b -n shop: deleted",
            "secret/held -n shop: terminating, waiting for finalizer example.com/hold, which no controller of Kubernetes removes",
        ]
    );
    assert_eq!(page.matches("<path class=\"blocking\"").count(), 1);
    assert_eq!(page.matches("<path class=\"reference\"").count(), 2);
    assert!(
        page.contains("<span class=\"terminating\">1 terminating</span>"),
        "{page}"
    );
}

#[test]
fn owners_in_a_cycle_are_shown_once() {
    let items = [
        object("ConfigMap", "a", &[("Secret", "b", true)]),
        object("Secret", "b", &[("ConfigMap", "a", true)]),
        object("Service", "c", &[("Service", "c", true), ("Secret", "b", true)]),
    ];
    let page = deleted(&items, "shop/Secret/b").to_html();
    let mut rows = rows(&page);
    rows.sort_unstable();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[0], "configmap/a -n shop: deleted");
}

#[test]
fn rows_beyond_the_limit_are_counted() {
    let chain: Vec<Value> = (0..1_100)
        .map(|number| match number {
            0 => object("ConfigMap", "map-0", &[]),
            _ => object(
                "ConfigMap",
                &format!("map-{number}"),
                &[("ConfigMap", &format!("map-{}", number - 1), true)],
            ),
        })
        .collect();
    let page = deleted(&chain, "shop/ConfigMap/map-0").to_html();
    assert_eq!(rows(&page).len(), 1_000);
    assert!(page.contains("<p>100 more objects not shown.</p>"));
}

const HOSTILE: &str =
    "</title><script>document.title='forged'</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";

#[test]
fn no_report_shows_a_name_raw_or_in_full() {
    let long = "n".repeat(2_000_000);
    let quoted = "a\"];\n\u{1b}[31mforged [label=\"";
    let items = [
        object("ConfigMap", "root", &[]),
        object("Secret", HOSTILE, &[("ConfigMap", "root", true)]),
        object("Secret", &long, &[("ConfigMap", "root", true)]),
        object("Service", quoted, &[("ConfigMap", "root", true)]),
    ];
    let forecast = deleted(&items, "shop/ConfigMap/root");
    let dot = forecast.to_dot();
    let explained = forecast.explain(&forecast.fates[1].object).to_string();
    for text in [
        &forecast.to_text(kubegc_predict::Detail::everything()),
        &explained,
        &dot,
    ] {
        let is_control = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
        assert!(!text.contains(is_control), "{}", &text[..text.len().min(5_000)]);
        assert!(
            !text.contains(&long[..10_000]) && text.len() < 20_000,
            "{}",
            text.len()
        );
    }
    assert!(dot.contains(r#"a\"];\\n\\u{1b}[31mforged"#), "{dot}");
}

#[test]
fn a_browser_shows_the_page_and_runs_nothing_of_it() {
    let items = [
        object("ConfigMap", "root", &[]),
        object("Secret", HOSTILE, &[("ConfigMap", "root", true)]),
    ];
    let page = deleted(&items, "shop/ConfigMap/root").to_html();
    assert!(
        !page.contains("<script") && !page.contains("<img") && !page.contains('\u{202e}'),
        "{page}"
    );
    let Some(browser) = browser() else {
        let notice = "no browser: the page was not opened. Install Chromium, or name one by KUBEGC_BROWSER";
        assert!(environment("CI").as_deref() != Some("true"), "{notice}");
        #[expect(clippy::print_stderr, reason = "the user who runs the tests must see it")]
        {
            eprintln!("SKIPPED: {notice}");
        }
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    fs::write(&path, page).expect("a file");
    let opened = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            directory.path().join("profile").display()
        ))
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&opened.stdout);
    assert!(
        opened.status.success(),
        "{}",
        String::from_utf8_lossy(&opened.stderr)
    );
    assert!(
        dom.contains("<title>Deletion of configmap/root -n shop</title>"),
        "{dom}"
    );
    assert_eq!(dom.matches("<rect class=\"deleted\"").count(), 2, "{dom}");
    assert_eq!(dom.matches("<path class=\"blocking\"").count(), 1, "{dom}");
    assert!(!dom.contains("<img") && !dom.contains("<script"), "{dom}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only way to pass an argument to a test"
)]
fn environment(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The program of a browser.
fn browser() -> Option<PathBuf> {
    if let Some(named) = environment("KUBEGC_BROWSER") {
        return Some(named.into());
    }
    let directories = environment("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut programs =
        env::split_paths(&directories).flat_map(|directory| names.map(|name| directory.join(name)));
    programs.find(|program| Path::is_file(program))
}
