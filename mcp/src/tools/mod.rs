//! `tools` is the table of all tools. Each file has one of them: its arguments, its answer, and the request between them.

mod changes;
mod create;
mod delete;
mod diff;
mod fork;
mod history;
mod list;
mod revert;

use std::sync::LazyLock;

use crate::tool::Tool;

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
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

/// Every tool, in the order in which agents are told of them.
pub(crate) fn all() -> &'static [Tool] {
    &TOOLS
}

/// The tool with this name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    all().iter().find(|tool| tool.definition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Effect;

    #[test]
    fn every_tool_says_what_it_takes_answers_and_does() {
        let names: Vec<&str> = all().iter().map(|tool| &*tool.definition.name).collect();
        let expected = ["create", "list", "changes", "diff", "revert", "delete", "history", "fork"];
        assert_eq!(names, expected.map(|name| format!("snapshots_{name}")));
        for tool in all() {
            let definition = &tool.definition;
            assert_eq!(definition.input_schema["type"], "object", "{tool:?}");
            assert_eq!(definition.input_schema["additionalProperties"], false, "{tool:?}");
            assert_eq!(definition.output_schema.as_ref().unwrap()["type"], "object", "{tool:?}");
            let hints = definition.annotations.as_ref().unwrap();
            assert_eq!(hints.read_only_hint, Some(tool.effect == Effect::Reads), "{tool:?}");
            assert_eq!(
                hints.destructive_hint,
                Some(matches!(tool.effect, Effect::Destroys { .. })),
                "{tool:?}"
            );
            for (name, property) in definition.input_schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{tool:?}: {name}");
            }
        }
    }

    #[test]
    fn all_that_an_agent_is_told_of_the_tools_fits_its_context() {
        let told =
            serde_json::to_string(&all().iter().map(|tool| &tool.definition).collect::<Vec<_>>()).unwrap();
        assert!(told.len() < 29_500, "{} bytes", told.len());
    }
}
