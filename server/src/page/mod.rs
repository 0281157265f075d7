//! `page` holds the files of the page for people, as they are sent. They need no build and nothing from elsewhere.

/// A file of the page.
#[derive(Debug)]
pub(crate) struct PageFile {
    /// The last part of its path.
    pub(crate) name: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The page itself.
pub(crate) static INDEX: PageFile =
    PageFile { name: "index.html", media_type: HTML, text: include_str!("index.html") };

/// A file, by its name and its kind.
macro_rules! file {
    ($name:literal, $kind:ident) => {
        PageFile { name: $name, media_type: $kind, text: include_str!($name) }
    };
}

/// The files that the page refers to.
pub(crate) static FILES: &[PageFile] = &[
    file!("icon.svg", SVG),
    file!("style.css", CSS),
    file!("app.js", SCRIPT),
    file!("api.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("parts.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("login.js", SCRIPT),
    file!("profiles.js", SCRIPT),
    file!("profile.js", SCRIPT),
    file!("timeline.js", SCRIPT),
    file!("compare.js", SCRIPT),
    file!("rollback.js", SCRIPT),
    file!("locks.js", SCRIPT),
    file!("jobs.js", SCRIPT),
    file!("job.js", SCRIPT),
    file!("storage.js", SCRIPT),
    file!("mounts.js", SCRIPT),
    file!("events.js", SCRIPT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_another_refers_to_is_there() {
        let names: Vec<&str> = FILES.iter().map(|file| file.name).collect();
        let mut seen = 0;
        for file in FILES.iter().chain([&INDEX]) {
            let parts = file
                .text
                .split('"')
                .filter_map(|part| part.strip_prefix("./").or_else(|| part.strip_prefix("/page/")));
            for part in parts {
                seen += 1;
                assert!(names.contains(&part), "{} refers to {part}", file.name);
            }
        }
        assert!(seen > 20, "only {seen} were found");
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_markup() {
        for file in FILES.iter().chain([&INDEX]) {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for wrong in
                ["http:", "https:", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(wrong), "{} has {wrong}", file.name);
            }
        }
        for wrong in ["<style", " style=", " onclick", "<script>"] {
            assert!(!INDEX.text.contains(wrong), "{wrong}");
        }
    }
}
