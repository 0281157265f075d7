//! This test types the commands of the page for newcomers one after another: they print what it says.

use std::{fs, path::Path};

use tests::{
    page::{Hosts, Page},
    server::{self, SeaweedFs},
};

const KEYS: (&str, &str) = ("pstore", "only-for-this-page");
const ENDPOINT: &str = "http://127.0.0.1:8333";

/// The content of the file that the page shows under this name.
fn shown(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("`{name}`:\n\n```")).unwrap_or_else(|| panic!("no {name}"));
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```\n").unwrap().0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_newcomers_says_what_happens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join("docs/getting-started.md");
    let page = Page::read(&path);
    let steps = page.steps();
    let line = &steps.iter().find(|step| step.host == "server").expect("a server is started").command;
    let config = |endpoint: &str| server::config(endpoint, "profiles", KEYS.0, KEYS.1);
    let server = SeaweedFs::start_by(line, tempfile::tempdir().unwrap(), config).await;

    let work = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    for host in ["host-a", "host-b"] {
        let home = work.path().join(host);
        fs::create_dir(&home).unwrap();
        fs::write(home.join("agent"), shown(&text, "agent")).unwrap();
    }
    let meanings = vec![(ENDPOINT.to_owned(), server.endpoint().to_owned())];
    let mut hosts = Hosts::new(work.path(), meanings);
    page.check(&path, &mut hosts, |step| step.host != "server");
}
