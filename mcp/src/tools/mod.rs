//! `tools` is the table of all tools. Each file has one of them: its arguments, its answer, and the request
//! between them.
//!
//! A new tool gets a file here and a line in one of the two tables below.

mod changes;
mod containers_list;
mod containers_snapshot;
mod create;
mod delete;
mod diff;
mod fork;
mod history;
mod list;
mod revert;

use std::sync::LazyLock;

use crate::tool::Tool;

/// Those for the checkpoints of a workspace.
static OF_WORKSPACES: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        create::tool(),
        list::tool(),
        changes::tool(),
        diff::tool(),
        revert::tool(),
        delete::tool(),
        history::tool(),
        fork::tool(),
    ]
});

/// Those for containers, where they are offered.
static OF_CONTAINERS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| vec![containers_snapshot::tool(), containers_list::tool()]);

/// Every tool, in the order in which agents are told of them.
pub(crate) fn all(with_containers: bool) -> impl Iterator<Item = &'static Tool> {
    let of_containers: &'static [Tool] = if with_containers { &OF_CONTAINERS } else { &[] };
    OF_WORKSPACES.iter().chain(of_containers)
}

/// The tool with this name.
pub(crate) fn find(name: &str, with_containers: bool) -> Option<&'static Tool> {
    all(with_containers).find(|tool| tool.definition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Effect;

    #[test]
    fn every_tool_says_what_it_takes_answers_and_does() {
        let names = |with_containers| -> Vec<&str> {
            all(with_containers).map(|tool| &*tool.definition.name).collect()
        };
        let expected = ["create", "list", "changes", "diff", "revert", "delete", "history", "fork"];
        assert_eq!(names(false), expected.map(|name| format!("snapshots_{name}")));
        assert_eq!(names(true)[expected.len()..], ["containers_snapshot", "containers_list"]);
        for tool in all(true) {
            let definition = &tool.definition;
            assert_eq!(definition.input_schema["type"], "object", "{tool:?}");
            assert_eq!(definition.input_schema["additionalProperties"], false, "{tool:?}");
            assert_eq!(definition.output_schema.as_ref().unwrap()["type"], "object", "{tool:?}");
            let hints = definition.annotations.as_ref().unwrap();
            assert_eq!(hints.read_only_hint, Some(tool.effect == Effect::Reads), "{tool:?}");
            assert_eq!(
                hints.destructive_hint,
                Some(matches!(tool.effect, Effect::Stores | Effect::Destroys { .. })),
                "{tool:?}"
            );
            for (name, property) in definition.input_schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{tool:?}: {name}");
            }
        }
    }

    #[test]
    fn all_that_an_agent_is_told_of_the_tools_fits_its_context() {
        for (with_containers, most) in [(false, 29_500), (true, 39_500)] {
            let definitions: Vec<_> = all(with_containers).map(|tool| &tool.definition).collect();
            let told = serde_json::to_string(&definitions).unwrap();
            assert!(told.len() < most, "{} bytes", told.len());
        }
    }
}
